/* dmft-compare: its file beside those of dmft-solve, what is refused. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <hdf5_hl.h>

static const char ini[] =
    "[network]\nmodel = regime2\nparameterization = mup mssp\nkappa = 0.5\n[data]\ninputs = 3\n"
    "dimension = 4\n[training]\nsteps = 4\n[solver]\nsites = 64\nexpert_sites = 64\n"
    "replicates = 2\nthreads = 1\n[reference]\nwidths = 8 16 32\nseeds = 3\n"
    "coordinate_check = yes\n";

static int clean(void **state) {
    cli_program("dmft-compare");
    return cli_clean(state);
}

/* Whether both files have the same bits in path of the one and prefix/path of the other. */
static void check_same(hid_t one, hid_t both, const char *prefix, const char *path) {
    char full[128];
    size_t count, other;
    snprintf(full, sizeof full, "%s/%s", prefix, path);
    double *a = cli_values(one, path, &count), *b = cli_values(both, full, &other);
    assert_int_equal(count, other);
    assert_memory_equal(a, b, count * sizeof *a);
    free(a);
    free(b);
}

/* A row of the table of quantities of a run of 4 steps, from its z (to one decimal in the table)
 * and exponents (to two) in the file. */
static void check_row(hid_t file, const char *table, const char *side, const char *name, int skip) {
    char path[128], row[64];
    double rms, largest, exponent, squares = 0, most = 0;
    int at, fitted, entries, finite = 0, most_at = 0;
    size_t count;
    snprintf(row, sizeof row, "\n%-20s", name);
    const char *line = strstr(strstr(table, "over all entries"), row);
    assert_non_null(line);
    line += strlen(row) + (size_t)skip;
    assert_int_equal(
        sscanf(line, "%lf%lf (%d)%lf (%d/%d)", &rms, &largest, &at, &exponent, &fitted, &entries),
        6);
    snprintf(path, sizeof path, "%s/compare/%s_z", side, name);
    double *z = cli_values(file, path, &count);
    snprintf(path, sizeof path, "%s/compare/%s_approach", side, name);
    double *approach = cli_values(file, path, &count);
    int judged = 0;
    for (size_t t = 0; t < count; t++) {
        if (isfinite(approach[t]))
            approach[finite++] = approach[t];
        if (!isfinite(z[t]))
            continue;
        judged++;
        squares += z[t] * z[t];
        most_at = fabs(z[t]) > most ? (int)(t * 4 / count) : most_at;
        most = fmax(most, fabs(z[t]));
    }
    assert_true(judged && finite && fitted == finite && entries == (int)count && at == most_at);
    assert_true(fabs(rms - sqrt(squares / judged)) < 0.051 && fabs(largest - most) < 0.051);
    gsl_sort(approach, 1, (size_t)finite);
    CHECK_ABS(exponent, gsl_stats_median_from_sorted_data(approach, 1, (size_t)finite), 0.00501,
              "median exponent of %s", name);
    free(z);
    free(approach);
}

/* The last row of the table of losses: what networks tend to, chi^2 and z, as the file has them. */
static void check_losses(hid_t file, const char *table, const char *side) {
    static const char *const names[] = {"inf", "chi2", "z"};
    char path[64], title[32];
    double found[3], cell[7];
    size_t count;
    snprintf(title, sizeof title, "\n%s: loss", side);
    const char *line = strstr(strstr(table, title), "\n   3 ");
    assert_int_equal(sscanf(line, "%*d%lf +- %lf%lf +- %lf%lf +- %lf%lf +- %lf%lf%lf", &cell[0],
                            &cell[1], &cell[2], &cell[3], &cell[4], &cell[5], &found[0], &cell[6],
                            &found[1], &found[2]),
                     10);
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "%s/compare/loss_%s", side, names[k]);
        FREED(free_memory) double *values = cli_values(file, path, &count);
        CHECK_ABS(found[k], values[3], k ? 0.051 : cell[6], "%s of %s", names[k], side);
    }
}

/* Each side is, in its group, what dmft-solve writes; and a table of each is printed. */
TEST_AFTER(clean, test_sides_are_runs_of_dmft_solve) {
    static const char *const sides[] = {"mup", "mssp"};
    static const char *const paths[] = {"limit/loss", "limit/rms_h3", "reference/N0016/f",
                                        "reference/N0032/rms_A1", "data/X"};
    struct cli_result result;
    cli_print("case.ini", ini);
    cli_run(&result, ARGS("-o", "out.h5", "case.ini"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "\nmup: loss"));
    assert_non_null(strstr(result.out, "\nmssp: loss"));
    assert_non_null(strstr(result.out, "\nA21 "));
    for (const char *line = result.out; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    assert_int_equal(cli_complete("out.h5"), 1);
    FREED(close_file) hid_t both = cli_file("out.h5");
    check_row(both, result.out, "mup", "G1_diag", 0);
    check_row(both, result.out, "mssp", "f", 40);
    check_losses(both, result.out, "mup");
    check_losses(both, result.out, "mssp");
    cli_free(&result);
    cli_program("dmft-solve");
    for (int k = 0; k < 2; k++) {
        char override[64];
        snprintf(override, sizeof override, "network.parameterization=%s", sides[k]);
        cli_run(&result, ARGS("-o", "one.h5", "--force", "case.ini", override));
        assert_int_equal(result.code, 0);
        cli_free(&result);
        FREED(close_file) hid_t one = cli_file("one.h5");
        for (size_t p = 0; p < COUNT(paths); p++)
            check_same(one, both, sides[k], paths[p]);
        FREED(free_memory) char *own = cli_text(one, "parameters", "ini");
        char group[32];
        snprintf(group, sizeof group, "%s/parameters", sides[k]);
        FREED(free_memory) char *same = cli_text(both, group, "ini");
        assert_string_equal(own, same);
    }
    size_t count;
    FREED(free_memory) double *z = cli_values(both, "mup/compare/loss_z", &count);
    assert_true(count == 4 && isfinite(z[3]));
}

TEST_AFTER(clean, test_refusals) {
    static const struct {
        const char *program, *arg[4], *part[3];
    } table[] = {
        {"dmft-solve",
         {"case.ini"},
         {"case.ini:3: [network] parameterization = mup mssp: dmft-compare sets several"}},
        {"dmft-compare", {"--network.parameterization=mup mup"}, {"\"mup\" comes twice"}},
        {"dmft-compare", {"--network.parameterization=mup mssq"}, {"unknown choice", "\"mssp\"?"}},
        {"dmft-compare", {"--reference.widths=none"}, {"dmft-compare needs networks"}},
        {"dmft-compare",
         {"--network.parameterization=mup sp"},
         {"parameterization=sp: network regime2: the learning rate of matrix w grows as N^1,"}},
        {"dmft-compare", {"-o", "case.ini"}, {"would overwrite an input"}},
        {"dmft-compare",
         {"data.ini", "-o", "good.h5", "--reference.widths=8"},
         {"would overwrite an input"}},
        {"dmft-compare", {"-o"}, {"needs the name of the output file"}},
        {"dmft-compare", {"--defaults"}, {"unknown option --defaults"}},
    };
    cli_print("case.ini", ini);
    cli_print("data.ini", CLI_DATA("good.h5") "[training]\nsteps = 2\n");
    cli_make_data("good.h5", 2, 3, 4, 3, 3, -1);
    for (size_t k = 0; k < COUNT(table); k++) {
        struct cli_result result;
        const char *arg[6] = {"case.ini"};
        for (int a = 0; a < 4 && table[k].arg[a]; a++)
            arg[strstr(table[k].arg[0], ".ini") ? a : a + 1] = table[k].arg[a];
        cli_program(table[k].program);
        cli_run(&result, arg);
        assert_true(cli_ended(&result, 2, table[k].part));
        cli_free(&result);
        assert_false(cli_exists("case_compare.h5"));
    }
    cli_refused(2, ARGS(NULL), ARGS("which ini file?"));
}

/* Sides need not have the same matrices; the table has those of all. */
TEST_AFTER(clean, test_check_of_networks_of_different_matrices) {
    FREED(cli_free) struct cli_result result;
    cli_print("case.ini", "[network]\nmodel = regime3\nparameterization = mup mssp\n[training]\n"
                          "steps = 3\n[solver]\nreplicates = 0\n[reference]\nwidths = 8 16\n"
                          "coordinate_check = yes\n[data]\ninputs = 3\ndimension = 4\n");
    cli_run(&result, ARGS("-o", "out.h5", "--force", "case.ini"));
    assert_int_equal(result.code, 0);
    char names[80];
    snprintf(names, sizeof names, "\n%28s%37s\n", "mup", "mssp");
    assert_non_null(strstr(result.out, names));
    assert_non_null(strstr(result.out, "\nW_in_back_prop "));
    assert_non_null(strstr(result.out, "\nP_out_back_eff "));
    assert_non_null(strstr(result.out, "\nA_in_prop "));
}

/* Regime 3 under MSSP has kernels of units that it does not have under muP, which comes first. */
TEST_AFTER(clean, test_quantities_of_one_side_are_in_the_table) {
    FREED(cli_free) struct cli_result result;
    cli_print("case.ini", "[network]\nmodel = regime3\nparameterization = mup mssp\n[training]\n"
                          "steps = 3\n[solver]\nreplicates = 2\nsites = 64\n[reference]\n"
                          "widths = 8 16 32\nseeds = 2\n[data]\ninputs = 3\ndimension = 4\n");
    cli_run(&result, ARGS("-o", "out.h5", "--force", "case.ini"));
    assert_int_equal(result.code, 0);
    const char *row = strstr(result.out, "\nGtil_diag ");
    assert_true(row && strspn(row + 11, " ") > 30); /* "-" for mup, then numbers */
    assert_non_null(strpbrk(row + 11, "0123456789"));
}

/* Cosines between the penalties of two blocks have long names, which differ at their ends. */
TEST_AFTER(clean, test_long_names_are_kept) {
    struct cli_result result;
    size_t count;
    cli_print("case.ini", "[network]\nmodel = stack\ndepth = 2\nrho = 0.5\ngate = softmax\n"
                          "balance_loss = 0.01\n[training]\nsteps = 2\n[solver]\nreplicates = 0\n"
                          "[reference]\nwidths = 8 16\nseeds = 2\n[data]\ninputs = 2\n"
                          "dimension = 3\n[output]\ngradients = yes\ntangent = blocks\n");
    cli_run(&result, ARGS("-o", "out.h5", "--force", "case.ini"));
    assert_int_equal(result.code, 0);
    cli_free(&result);
    FREED(close_file) hid_t file = cli_file("out.h5");
    for (int k = 0; k < 2; k++) {
        char path[128];
        snprintf(path, sizeof path, "mssp/compare/cosine_balance_loss_0_balance_loss_1_Q_%d_inf_se",
                 k);
        free(cli_values(file, path, &count));
        assert_int_equal(count, 2);
    }
}

/* Whether the row of a table that begins with this time ends with chi^2 and z. */
static bool row_has_z(const char *table, const char *time) {
    const char *row = strstr(table, time);
    assert_non_null(row);
    const char *end = strchr(row + 1, '\n');
    assert_int_equal(end[-8] == '-', end[-1] == '-');
    return end[-1] != '-';
}

/* After two steps of a rate that begins at 0 the loss has moved by its round-off, of which z tells
 * nothing; by the end it has moved further. */
TEST_AFTER(clean, test_no_z_of_round_off) {
    FREED(cli_free) struct cli_result result;
    cli_print("case.ini", "[network]\nmodel = dense\n[data]\ninputs = 3\ndimension = 4\n[training]"
                          "\nsteps = 21\neta0 = 1.5e-13\nwarmup = 10\n[solver]\nsites = 64\n"
                          "replicates = 3\n[reference]\nwidths = 8 16 32\nseeds = 3\n");
    cli_program("dmft-solve");
    cli_run(&result, ARGS("-o", "out.h5", "--force", "case.ini"));
    assert_int_equal(result.code, 0);
    assert_true(!row_has_z(result.out, "\n   2 ") && row_has_z(result.out, "\n  20 "));
}

static const char edge[] =
    "[network]\nmodel = regime2\nparameterization = mssp mup\nactivation = linear\n[data]\n"
    "inputs = 3\ndimension = 4\n[training]\nsteps = 12\neta0 = 1\n[solver]\nsites = 64\n"
    "expert_sites = 64\nreplicates = 2\nthreads = 1\n[reference]\nwidths = 2 8 16\nseeds = 3\n"
    "coordinate_check = yes\n";

/* One of three networks diverges: the others are compared. All of a width: a failure, after
 * everything else, the next parameterization too, has been computed. */
TEST_AFTER(clean, test_networks_that_diverge) {
    struct cli_result result;
    size_t count;
    cli_print("case.ini", edge);
    cli_run(&result, ARGS("-o", "out.h5", "case.ini"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "note: 1 of 3 networks of N = 2 failed and count until "
                                       "then; the first:\n  N = 2, network 2, step 5: "));
    cli_free(&result);
    hid_t file = cli_file("out.h5");
    double *exponent = cli_values(file, "mssp/compare/rms_h3_exponent", &count);
    for (size_t t = 0; t < count; t++)
        assert_true(isfinite(exponent[t]));
    free(exponent);
    H5Fclose(file);

    cli_clean(NULL);
    cli_run(&result, ARGS("-o", "out.h5", "case.ini", "--reference.seeds=1", "--solver.seed=2"));
    assert_int_equal(result.code, 3);
    assert_non_null(strstr(result.err, "\ndmft-compare: mssp: 1 of 1 networks failed: N = 16, "
                                       "network 0, step 3: the loss, "));
    cli_free(&result);
    file = cli_file("out.h5.partial");
    double *loss = cli_values(file, "mup/reference/N0016/loss", &count);
    assert_true(count == 12 && isfinite(loss[11]));
    free(loss);
    free(cli_values(file, "mup/compare/loss_inf", &count));
    free(cli_values(file, "mssp/compare/loss_inf", &count));
    H5Fclose(file);
}

static const char unstable[] =
    "[network]\nmodel = dense\ndepth = 3\nactivation = linear\n[data]\ninputs = 4\ndimension = "
    "10\n[training]\nsteps = 41\neta0 = 0.8\n[solver]\nsites = 64\nreplicates = 2\n"
    "[reference]\nwidths = 16 32 64\nseeds = 16\n";

/* A sentence and an attribute where the variance of f does not fall; neither where it does. */
TEST_AFTER(clean, test_edge_of_stability) {
    static const char *const eta0[] = {"--training.eta0=0.8", "--training.eta0=0.2"};
    cli_print("case.ini", unstable);
    for (int k = 0; k < 2; k++) {
        struct cli_result result;
        double value;
        size_t count;
        cli_run(&result, ARGS("-o", "out.h5", "--force", "case.ini", eta0[k]));
        assert_int_equal(result.code, 0);
        bool said = strstr(result.out, "warning: at the edge of stability: from t = 20 on");
        assert_int_equal(said, k == 0);
        cli_free(&result);
        FREED(close_file) hid_t file = cli_file("out.h5");
        assert_true(H5LTget_attribute_double(file, "dense/compare", "edge_of_stability", &value) >=
                    0);
        assert_true(value == (k == 0));
        assert_true(H5LTget_attribute_double(file, "dense/limit", "edge_of_stability", &value) >=
                    0);
        assert_true(value == (k == 0));
        assert_true(H5LTget_attribute_double(file, "dense/limit", "valid_until", &value) >= 0);
        assert_true(value == (k ? 41 : 20));
        double *from = cli_values(file, "dense/notes/t", &count);
        assert_true(k || from[0] == 20);
        free(from);
        FREED(free_memory)
        double *exponent = cli_values(file, "dense/compare/f_variance_exponent", &count);
        assert_true(count == 41 && isnan(exponent[0]) && exponent[1] < -0.5);
    }
}

AROUND_TESTS(cli_open, cli_close)
