/* [solver] sites = auto: a limit that outgrows its sites begins again with twice as many, and is
 * then the limit that has this number from the start. */
#include "solver/run/parts.h"
#include "tests/support/support.h"

/* Three hidden layers of relu, whose bases grow by 64 an evaluation, which 300 sites cannot hold
 * for nine. */
static const char text[] = "[network]\nmodel = dense\nactivation = relu\n"
                           "[data]\ninputs = 64\ndimension = 40\n"
                           "[training]\nsteps = 9\neta0 = 0.1\n[solver]\nreplicates = 1\n";

TEST(word_auto) {
    FREED(run_free) struct run run;
    support_run_text(&run, (const char *const[]){"solver.sites=auto", NULL}, text);
    assert_int_equal(run.config.solver.sites, SITES_AUTO);
    assert_true(run.config.solver.grow);
    assert_string_equal(params_find(&run.params, "solver", "sites")->text, "2048");
    run_free(&run);
    support_run_text(&run, (const char *const[]){"solver.halves=yes", NULL}, text);
    run.config.solver.sites = 0; /* as the word is read; 1500 directions in each half */
    sites_begin(&run.config, 1500);
    assert_int_equal(run.config.solver.sites, 2 * SITES_AUTO);
}

/* Inputs of ten directions need ten sites, and no more. */
TEST(as_many_sites_as_directions) {
    for (int sites = 9; sites <= 10; sites++) {
        char many[32], *overrides[] = {"data.inputs=10", "data.dimension=10", many};
        FREED(run_free) struct run run = {0};
        struct err told;
        snprintf(many, sizeof many, "solver.sites=%d", sites);
        int code = run_configure(&run, "data/dense.ini", 3, overrides, &told);
        assert_int_equal(code, sites < 10 ? CODE_INPUT : CODE_OK);
        assert_true(!code || strstr(told.text, "the inputs have 10 directions"));
    }
}

/* All numbers of two records. */
static void check_same(const struct record *a, const struct record *b) {
    assert_int_equal(a->count, b->count);
    for (int k = 0; k < a->count; k++) {
        size_t size = a->series[k].size * (a->series[k].first_run ? 1 : (size_t)a->runs);
        assert_int_equal(a->series[k].size, b->series[k].size);
        if (memcmp(a->series[k].values, b->series[k].values, size * sizeof(double)) != 0)
            fail_msg("%s differs", a->series[k].name);
    }
}

TEST(too_few_are_doubled) {
    FREED(run_free) struct run grown, given;
    support_run_text(&grown, (const char *const[]){"solver.sites=300", NULL}, text);
    grown.config.solver.grow = true;
    assert_int_equal(notes_add(&grown.notes, "given_twice", "", -1, 0, &failure, "twice"), CODE_OK);
    int code = run_march(&grown, &failure);
    FAIL_IF(code, "%s", failure.text);
    int sites = grown.config.solver.sites;
    assert_true(sites == 600 || sites == 1200);
    int note = 0;
    while (note < grown.notes.count && strcmp(grown.notes.note[note].code, "sites_raised") != 0)
        note++;
    assert_true(note < grown.notes.count);
    assert_string_equal(grown.notes.note[0].code, "given_twice"); /* of the whole run */
    for (int k = 0; k < grown.notes.count; k++)
        assert_string_not_equal(grown.notes.note[k].code, "limit_failed");

    TEXT(now, 32, "solver.sites=%d", sites);
    assert_string_equal(params_find(&grown.params, "solver", "sites")->text, strchr(now, '=') + 1);
    support_run_text(&given, (const char *const[]){now, NULL}, text);
    assert_int_equal(run_march(&given, &failure), CODE_OK);
    check_same(&grown.results.limit, &given.results.limit);
}

/* A limit that diverges does not begin again, nor does one without the word. */
TEST(others_stay) {
    FREED(run_free) struct run run;
    support_run_text(&run, (const char *const[]){"solver.sites=300", NULL}, text);
    assert_int_equal(run_march(&run, &failure), CODE_NUMERICAL);
    assert_int_equal(run.config.solver.sites, 300);
    run_free(&run);
    support_run_text(&run, (const char *const[]){"solver.sites=300", "training.eta0=1e6", NULL},
                     text);
    run.config.solver.grow = true;
    assert_int_equal(run_march(&run, &failure), CODE_NUMERICAL);
    assert_int_equal(run.config.solver.sites, 300);
    assert_int_equal(run.results.limit.cause[0], CAUSE_DIVERGED);
}

/* Where memory ends, the failure is that of the sites that there were, and says so. */
TEST(memory_ends_it) {
    FREED(run_free) struct run run;
    support_run_text(&run, (const char *const[]){"solver.sites=300", NULL}, text);
    run.config.solver.grow = true;
    run.config.solver.max_memory = 1e-3;
    assert_int_equal(run_march(&run, &failure), CODE_NUMERICAL);
    assert_int_equal(run.config.solver.sites, 300);
    assert_non_null(strstr(failure.text, "too few sites"));
    assert_non_null(strstr(failure.text, "sites = auto goes no further"));
}

/* Kinds of sites that a network has grow together; those of others are not recorded, since no ini
 * may give them. */
TEST(all_kinds_grow) {
    FREED(run_free) struct run run;
    bool again;
    struct err err = {0};
    support_run(&run, "data/regime2.ini",
                (const char *const[]){"solver.sites=auto", "solver.expert_sites=256",
                                      "reference.widths=", "solver.replicates=1", NULL});
    run.results.limit.runs = 1; /* as if it had failed so */
    run.results.limit.cause = malloc(sizeof *run.results.limit.cause);
    run.results.limit.cause[0] = CAUSE_SITES;
    assert_int_equal(sites_raise(&run, CODE_NUMERICAL, &again, &err), CODE_OK);
    assert_true(again);
    assert_int_equal(run.config.solver.sites, 2 * SITES_AUTO);
    assert_int_equal(run.config.solver.expert_sites, 512);
    assert_string_equal(params_find(&run.params, "solver", "expert_sites")->text, "512");
    assert_string_equal(params_find(&run.params, "solver", "unit_sites")->text, "512");
    assert_int_equal(run.config.solver.unit_sites, 512);
}
