/* The program from outside: what it warns of and notes, so that nobody trusts a number too much. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cli.h"

/* A single pass: 20 new directions a step in a basis that may have 270. */
CLEAN_TEST(test_rank_cap) {
    struct cli_result result;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--data.inputs=400", "--data.dimension=60",
                          "--training.batch=20", "--training.steps=20", "--solver.sites=300",
                          "--solver.expert_sites=300"));
    assert_true(cli_ended(&result, 3, ARGS("replicate 0, step 13: ", "too few sites", "280 of")));
    assert_non_null(strstr(result.err, "with new inputs at every step bases grow by 20 every "
                                       "evaluation, up to 300 of 300 sites; the run will probably "
                                       "end at step 13; more than 2000 sites"));
    cli_free(&result);
    cli_run(&result, ARGS("small.ini", "--force", "-o", "out.h5", "--data.inputs=400",
                          "--data.dimension=60", "--training.batch=20", "--training.steps=10",
                          "--solver.sites=300", "--solver.expert_sites=300"));
    assert_int_equal(result.code, 0); /* 270 have room */
    assert_non_null(strstr(result.err, "up to 200 of 300 sites; more than 1000 sites"));
    cli_free(&result);
}

/* Tokens are rows of their own: 4 inputs of 8 tokens grow by 32 each step, of which 270 have room.
 * Flow by Heun's rule takes two evaluations a step, and again two for each of its substeps. */
CLEAN_TEST(test_rank_of_tokens) {
    static const char *const rule[] = {"gd", "heun", "heun"}, *const substeps[] = {"1", "1", "2"};
    static const char *const step[] = {"step 8", "step 4", "step 2"};
    cli_print("tokens.ini",
              "[network]\nmodel = transformer\nactivation = relu\n[data]\ninputs = 4\n"
              "dimension = 40\ntokens = 8\n[training]\nsteps = 9\neta0 = 0.1\n"
              "[solver]\nsites = 300\nreplicates = 1\n");
    for (int k = 0; k < 3; k++) {
        struct cli_result result;
        char text[200], integrator[40], each[40];
        snprintf(integrator, sizeof integrator, "--training.integrator=%s", rule[k]);
        snprintf(each, sizeof each, "--training.substeps=%s", substeps[k]);
        cli_run(&result, ARGS("tokens.ini", "-o", "out.h5", integrator, each));
        assert_true(cli_ended(&result, 3, ARGS("too few sites", "of 300", k ? "" : step[k])));
        snprintf(text, sizeof text,
                 "warning: with relu bases grow by 32 every evaluation, up to %d of 300 sites; the "
                 "run will probably end at %s; more than",
                 k ? 300 : 288, step[k]);
        assert_non_null(strstr(result.err, text));
        cli_free(&result);
        cli_clean(NULL);
    }
}

/* The warning names what keeps bases from compressing. */
CLEAN_TEST(test_uncompressed) {
    static const char *const sets[][2] = {{"--network.activation=relu", "--network.rho=1"},
                                          {"--network.activation=tanh", "--network.rho=0.5"},
                                          {"--network.activation=relu", "--network.rho=0.5"}};
    static const char *const words[] = {"relu", "rho < 1", "relu and rho < 1"};
    for (int k = 0; k < 3; k++) {
        struct cli_result result;
        char text[80];
        cli_run(&result,
                ARGS("small.ini", "-o", "out.h5", "--training.steps=5", sets[k][0], sets[k][1]));
        assert_int_equal(result.code, 0);
        snprintf(text, sizeof text, "warning: with %s bases grow by 3 every", words[k]);
        assert_non_null(strstr(result.err, text));
        cli_free(&result);
        cli_clean(NULL);
    }
    struct cli_result result;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--training.steps=5", sets[0][0],
                          "--solver.halves=yes"));
    assert_non_null(strstr(result.err, "up to 15 of 32 sites in each half; more than 150 sites"));
    FREED(close_file) hid_t file = cli_file("out.h5");
    char *codes = cli_words(file, "notes/code"), *groups = cli_words(file, "notes/group");
    assert_non_null(strstr(codes, "bases_grow"));
    assert_non_null(strstr(groups, "limit"));
    free(codes);
    free(groups);
    cli_free(&result);
}

/* What the tolerance does is in the errors if that is asked for, and in a warning where the errors
 * would else be those of round-off. This training is at its edge, where both grow by 1.8 a step: 37
 * steps are so few that round-off is below 1e-9 in f, whatever the order of additions. */
CLEAN_TEST(test_tolerance) {
    static const char linear[] = "[network]\nmodel = dense\ndepth = 3\nactivation = linear\n"
                                 "[data]\nsource = gaussian\ninputs = 4\ndimension = 10\n"
                                 "[training]\nsteps = 37\neta0 = 0.96\ngamma0 = 1\n"
                                 "[solver]\nsites = 64\nreplicates = 2\n";
    static const char warning[] = "warning: the limit has no sampling error here";
    struct cli_result result;
    size_t count;
    cli_print("linear.ini", linear);
    cli_run(&result, ARGS("linear.ini", "-o", "out.h5"));
    assert_true(result.code == 0 && strstr(result.out, warning));
    cli_free(&result);
    cli_run(&result, ARGS("linear.ini", "-o", "out.h5", "--force", "--training.steps=4"));
    assert_non_null(strstr(result.out, "\n   3 "));
    assert_null(strstr(result.out, "e-1")); /* an error of round-off is 0 in the table */
    cli_free(&result);
    cli_run(&result, ARGS("linear.ini", "-o", "out.h5", "--force", "--network.activation=tanh"));
    assert_true(result.code == 0 && !strstr(result.out, warning));
    assert_null(strstr(result.out, "tolerance"));
    cli_free(&result);
    cli_run(&result, ARGS("linear.ini", "-o", "out.h5", "--force", "--solver.check_tolerance=yes"));
    assert_true(result.code == 0 && !strstr(result.out, warning));
    assert_non_null(strstr(result.out, "tolerance: with a third of it the loss changes by up to "));
    cli_free(&result);
    hid_t file = cli_file("out.h5");
    double *difference = cli_values(file, "limit/loss_tolerance", &count);
    double *se = cli_values(file, "limit/loss_se", &count);
    assert_int_equal(count, 37);
    assert_true(fabs(difference[36]) > 1e-4);
    assert_true(fabs(se[36] - fabs(difference[36])) < 1e-6); /* sampling: 1e-10 */
    assert_int_equal(H5Lexists(file, "limit/rank_tolerance", H5P_DEFAULT), 0);
    free(difference);
    free(se);
    H5Fclose(file);
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--force", "--solver.method=fixed_point",
                          "--solver.check_tolerance=yes"));
    assert_true(cli_ended(&result, 2, ARGS("check_tolerance", "method = march")));
    cli_free(&result);
}

/* Gates that stay as they are were lowest at first. */
CLEAN_TEST(test_gates_that_stay) {
    FREED(cli_free) struct cli_result result;
    cli_run(&result, ARGS("small.ini", "-o", "out.h5", "--training.eta0=0"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "down to 1.000 of its initial value (t = 0); "));
}

CLEAN_TEST(test_of_a_parallel_job_without_mpi) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < COUNT(names); i++) {
        FREED(cli_free) struct cli_result result;
        setenv(names[i], "3", 1);
        cli_run(&result, ARGS("-o", "out.h5", "--force", "--training.steps=1", "small.ini"));
        unsetenv(names[i]);
        assert_int_equal(result.code, 0);
        assert_non_null(strstr(result.err, "one of 3 processes of a job, but built without MPI"));
    }
}

/* Normals that were not matched: none, fewer than the sites of their population, which is noted,
 * and more, of which the run warns; so says the file. */
CLEAN_TEST(test_unmatched) {
    static const char *const sites[] = {"--solver.sites=512", "--solver.sites=64",
                                        "--solver.sites=32"};
    cli_print("dense.ini", "[network]\nmodel = dense\ndepth = 3\nactivation = tanh\n"
                           "[data]\nsource = gaussian\ninputs = 4\ndimension = 10\n"
                           "[training]\nsteps = 50\neta0 = 0.96\ngamma0 = 1\n"
                           "[solver]\nreplicates = 2\n");
    for (int k = 0; k < 3; k++) {
        struct cli_result result;
        size_t count;
        cli_run(&result, ARGS("dense.ini", "-o", "out.h5", "--force", sites[k]));
        assert_int_equal(result.code, 0);
        assert_true(!strstr(result.out, "note: the limit has too few sites ") == (k != 1));
        assert_true(!strstr(result.out, "warning: the limit has too few sites ") == (k != 2));
        assert_true(k != 2 || strstr(result.out, "biases may be several standard errors"));
        cli_free(&result);
        FREED(close_file) hid_t file = cli_file("out.h5");
        FREED(free_memory) double *unmatched = cli_values(file, "limit/unmatched", &count);
        assert_int_equal(count, 50);
        assert_true((unmatched[49] > 0) == (k > 0) && (unmatched[49] > 1) == (k > 1));
    }
}

/* Inputs without a direction, and of which no square is above 0: they run, and it is said why
 * nothing is trained, not that the networks are. */
CLEAN_TEST(inputs_of_zero) {
    static const char *const data[] = {"0,0,1\n0,0,-1\n", "1e-300,0,1\n0,1e-300,-1\n"};
    for (int k = 0; k < 4; k++) {
        FREED(cli_free) struct cli_result result;
        bool adam = k % 2;
        cli_lines("inputs.h5", data[k / 2], false);
        cli_print("zero.ini", "[network]\nmodel = dense\n[data]\nsource = file\nfile = inputs.h5\n"
                              "[training]\nsteps = 3\n[solver]\nsites = 64\nreplicates = 2\n"
                              "[reference]\nwidths = 8\nseeds = 2\n");
        cli_run(&result, ARGS("--force", "zero.ini",
                              adam ? "--training.optimizer=adam" : "--training.optimizer=gd"));
        bool told = strstr(result.out, "note: training moves nothing here, in networks as in");
        if (result.code || strstr(result.out, "although networks do") || (k != 3 && !told))
            fail_msg("%d: %d: %s%s", k, result.code, result.out, result.err);
    }
}

AROUND_TESTS(cli_open, cli_close)
