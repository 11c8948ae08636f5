/* The program from outside: what the file of a run holds. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cli.h"
#include "solver/measure/stats.h"

#include <gsl/gsl_cdf.h>

enum { T = 4, P = 3, R = 2, SEEDS = 3, BASES = 6 };

struct layout {
    const char *name, *dims;
    hsize_t shape[4];
};

/* The values along an axis, which is a dataset of the same group: 0, 1, ... */
static void check_axis(hid_t file, const char *group, const char *axis, size_t length) {
    char name[128];
    size_t count;
    snprintf(name, sizeof name, "%s/%s", group, axis);
    double *values = cli_values(file, name, &count);
    assert_int_equal(count, length);
    for (size_t k = 0; k < count; k++)
        assert_true(values[k] == (double)k);
    free(values);
}

/* Shape, axes and attributes of one dataset. */
static void check_dataset(hid_t file, const char *group, const char *name, const char *dims,
                          const hsize_t *shape) {
    char path[128], axis[16];
    hsize_t found[8];
    snprintf(path, sizeof path, "%s/%s", group, name);
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT);
    if (set < 0)
        fail_msg("no dataset %s", path);
    hid_t space = H5Dget_space(set);
    int rank = H5Sget_simple_extent_dims(space, found, NULL), k = 0, read = 0;
    for (const char *at = dims; sscanf(at, "%15s%n", axis, &read) == 1; at += read, k++) {
        if (k >= rank || found[k] != shape[k])
            fail_msg("%s: axis %s has another length than %d", path, axis, (int)shape[k]);
        check_axis(file, group, axis, (size_t)shape[k]);
    }
    assert_int_equal(k, rank);
    char *text = cli_text(file, path, "dims"), *about = cli_text(file, path, "about");
    assert_string_equal(text, dims);
    assert_true(strlen(about) > 0);
    free(text);
    free(about);
    free(cli_text(file, path, "equation"));
    H5Sclose(space);
    H5Dclose(set);
}

/* These datasets with their standard errors, axes and `more`, and no others. */
static void check_group(hid_t file, const char *group, const struct layout *layout, size_t count,
                        size_t more) {
    char name[128];
    H5G_info_t info;
    for (size_t i = 0; i < count; i++) {
        check_dataset(file, group, layout[i].name, layout[i].dims, layout[i].shape);
        snprintf(name, sizeof name, "%s_se", layout[i].name);
        check_dataset(file, group, name, layout[i].dims, layout[i].shape);
    }
    assert_true(H5Gget_info_by_name(file, group, &info, H5P_DEFAULT) >= 0);
    assert_int_equal(info.nlinks, 2 * count + more);
}

static const struct layout common[] = {
    {"loss", "t", {T}},
    {"f", "t mu", {T, P}},
    {"accuracy", "t", {T}},
    {"margin", "t", {T}},
    {"gate_participation", "t mu", {T, P}},
    {"gate_largest", "t mu", {T, P}},
    {"gate_top", "t mu", {T, P}},
};
static const struct layout of_limit[] = {{"rank", "t basis", {T, BASES}},
                                         {"fallback", "t", {T}},
                                         {"unmatched", "t", {T}},
                                         {"carriers", "t", {T}}};
static const struct layout diagonal[] = {
    {"Phi1_diag", "t mu", {T, P}}, {"Phi3_diag", "t mu", {T, P}}, {"G1_diag", "t mu", {T, P}},
    {"G3_diag", "t", {T}},         {"Phib_diag", "t mu", {T, P}}, {"Gb_diag", "t mu", {T, P}},
    {"Gphi_diag", "t mu", {T, P}},
};
static const struct layout full[] = {
    {"Phi1", "t mu s nu", {T, P, T, P}}, {"Phi3", "t mu s nu", {T, P, T, P}},
    {"G1", "t mu s nu", {T, P, T, P}},   {"G3", "t s", {T, T}},
    {"Phib", "t mu s nu", {T, P, T, P}}, {"Gb", "t mu s nu", {T, P, T, P}},
    {"Gphi", "t mu s nu", {T, P, T, P}},
};
static const struct layout responses[] = {
    {"A_Q", "t mu s nu", {T, P, T, P}},    {"B_Q", "t mu s nu", {T, P, T, P}},
    {"A_W_in", "t mu s nu", {T, P, T, P}}, {"B_W_in", "t mu s nu", {T, P, T, P}},
    {"A_W_out", "t mu s", {T, P, T}},      {"B_W_out", "t s nu", {T, T, P}},
};

/* One group of a run; kernels (count of them) as asked for, axes s and nu with the full ones. */
static void check_ensemble(hid_t file, const char *group, const struct layout *kernels,
                           size_t count) {
    bool limit = !strcmp(group, "limit");
    size_t total = COUNT(common), runs = limit ? R : SEEDS;
    size_t more = 3 + 3 + (kernels == full ? 2 : 0); /* n, loss_runs, f_runs; t, mu, run */
    struct layout all[COUNT(common) + 2 * COUNT(full) + COUNT(of_limit) + COUNT(responses)];
    memcpy(all, common, sizeof common);
    for (size_t i = 0; i < count; i++)
        all[total++] = kernels[i];
    for (size_t i = 0; kernels == full && i < COUNT(diagonal); i++)
        all[total++] = diagonal[i];
    for (size_t i = 0; limit && i < COUNT(of_limit) - !count; i++) /* carriers are of kernels */
        all[total++] = of_limit[i];
    for (size_t i = 0; limit && kernels == full && i < COUNT(responses); i++)
        all[total++] = responses[i];
    if (limit) {
        check_dataset(file, group, "basis_name", "basis", (const hsize_t[]){BASES});
        check_dataset(file, group, "loss_pseudo", "run t", (const hsize_t[]){runs, T});
        more += 3; /* and the axis basis */
    }
    check_dataset(file, group, "n", "t", (const hsize_t[]){T});
    check_dataset(file, group, "loss_runs", "run t", (const hsize_t[]){runs, T});
    check_dataset(file, group, "f_runs", "run t mu", (const hsize_t[]){runs, T, P});
    check_group(file, group, all, total, more);
}

CLEAN_TEST(test_layout) {
    static const struct {
        const char *option;
        const struct layout *kernels;
        size_t count;
    } table[] = {
        {"--output.kernels=none", NULL, 0},
        {"--output.kernels=diagonal", diagonal, COUNT(diagonal)},
        {"--output.kernels=full", full, COUNT(full)},
    };
    static const char *const facts[] = {"version", "compiler", "flags",   "hdf5",
                                        "backend", "threads",  "created", "openblas"};
    for (size_t i = 0; i < COUNT(table); i++) {
        cli_solve(
            ARGS(table[i].option, "--reference.widths=16 24", "--reference.seeds=3",
                 table[i].kernels == full ? "--output.responses=yes" : "--output.responses=no"));
        hid_t file = cli_file("out.h5");
        check_ensemble(file, "limit", table[i].kernels, table[i].count);
        check_ensemble(file, "reference/N0016", table[i].kernels, table[i].count);
        check_ensemble(file, "reference/N0024", table[i].kernels, table[i].count);
        check_dataset(file, "data", "X", "mu i", (const hsize_t[]){P, 4});
        check_dataset(file, "data", "y", "mu", (const hsize_t[]){P});
        for (size_t k = 0; k < COUNT(facts); k++) {
            char *fact = cli_text(file, "provenance", facts[k]);
            assert_true(strlen(fact) > 0);
            free(fact);
        }
        H5Fclose(file);
        cli_clean(NULL);
    }
}

CLEAN_TEST(test_layout_without_router) {
    cli_solve(ARGS("--network.gate=constant", "--output.kernels=full"));
    hid_t file = cli_file("out.h5");
    check_dataset(file, "limit", "rank", "t basis", (const hsize_t[]){T, 4});
    assert_true(H5Lexists(file, "limit/Gb", H5P_DEFAULT) > 0);
    assert_true(H5Lexists(file, "limit/Gphi", H5P_DEFAULT) == 0);
    assert_true(H5Lexists(file, "limit/gate_top", H5P_DEFAULT) == 0);
    assert_true(H5Lexists(file, "reference", H5P_DEFAULT) == 0);
    H5Fclose(file);
    cli_clean(NULL);
}

/* A batch takes the place of the inputs; test_every leaves the other times out. */
CLEAN_TEST(test_layout_of_batches) {
    static const double order[] = {0, 1, 2, 0, 1, 2, 0, 1};
    size_t count;
    cli_solve(ARGS("--training.batch=2", "--data.test_inputs=5", "--output.test_every=3"));
    hid_t file = cli_file("out.h5");
    check_dataset(file, "limit", "f", "t mu", (const hsize_t[]){T, 2});
    check_dataset(file, "limit", "Phi1_diag", "t mu", (const hsize_t[]){T, 2});
    check_dataset(file, "limit", "accuracy", "t", (const hsize_t[]){T});
    check_dataset(file, "limit", "test_accuracy_se", "t", (const hsize_t[]){T});
    check_dataset(file, "limit", "test_margin_se", "t", (const hsize_t[]){T});
    check_dataset(file, "data", "X_test", "nu i", (const hsize_t[]){5, 4});
    check_dataset(file, "data", "y_test", "nu", (const hsize_t[]){5});
    check_dataset(file, "data", "batch", "t b", (const hsize_t[]){T, 2});
    double *index = cli_values(file, "data/batch", &count);
    assert_memory_equal(index, order, sizeof order);
    double *loss = cli_values(file, "limit/test_loss", &count);
    for (int t = 0; t < T; t++)
        assert_true(t % 3 ? isnan(loss[t]) : loss[t] > 0);
    assert_true(loss[0] == 0.5);
    free(index);
    free(loss);
    H5Fclose(file);
    cli_clean(NULL);
}

/* The table that is printed against the file: means, and t_2(.975) standard errors of three runs;
 * of their extrapolation t of its own degrees of freedom. */
CLEAN_TEST(test_table) {
    static const char *const places[] = {"limit", "reference/N0008", "reference/N0016",
                                         "reference/N0032"};
    static const int widths[] = {8, 16, 32};
    struct cli_result result;
    cli_run(&result,
            ARGS("small.ini", "-o", "out.h5", "--solver.replicates=3", "--reference.widths=8 16 32",
                 "--reference.seeds=3", "--training.steps=3"));
    assert_int_equal(result.code, 0);
    assert_non_null(
        strstr(result.err, "3 replicates (bottom 64, experts 64, units 128): with 192 "));
    assert_null(strstr(result.out, "give three widths"));
    assert_non_null(
        strstr(result.out, "with 1 degree of freedom: it is above 3.8 for\none good fit"));
    const char *row = strstr(result.out, "      z\n");
    hid_t file = cli_file("out.h5");
    for (int t = 0; t < 3; t++) {
        char want[256];
        struct stats_mean of[4];
        int length = snprintf(want, sizeof want, "\n%4d", t);
        for (int k = 0; k < 4 + (t > 0); k++) {
            char name[64], cell[64];
            size_t count;
            if (k == 4) {
                struct stats_fit line = stats_extrapolate(widths, of + 1, 3);
                snprintf(cell, sizeof cell, "%.5g +- %.1g", line.a,
                         line.se * gsl_cdf_tdist_Pinv(0.975, line.freedom));
                snprintf(want + length, sizeof want - (size_t)length, "  %18s %6.1f %6.1f\n", cell,
                         line.chi2, stats_z(line, of[0]));
                break;
            }
            snprintf(name, sizeof name, "%s/loss", places[k]);
            double *mean = cli_values(file, name, &count);
            snprintf(name, sizeof name, "%s/loss_se", places[k]);
            double *se = cli_values(file, name, &count);
            of[k] = (struct stats_mean){mean[t], se[t], 3};
            snprintf(cell, sizeof cell, "%.5g +- %.1g", mean[t], 4.302652729911275 * se[t]);
            length += snprintf(want + length, sizeof want - (size_t)length, "  %18s", cell);
            free(mean);
            free(se);
        }
        row = row ? strchr(row + 1, '\n') : NULL;
        if (!row || strncmp(row, want, strlen(want)))
            fail_msg("wanted:%s\nin:\n%s", want, result.out);
    }
    H5Fclose(file);
    cli_free(&result);
    cli_clean(NULL);
}

/* The laws of a source and the coordinates of its inputs have axes of their own, beside weights. */
CLEAN_TEST(test_laws_beside_weights) {
    cli_print("case.ini", "[network]\nmodel = transformer\n[data]\nsource = markov\ninputs = 3\n"
                          "tokens = 4\nvocabulary = 3\n[training]\nsteps = 2\n"
                          "loss = cross_entropy\n[solver]\nreplicates = 0\n"
                          "[reference]\nwidths = 8\nseeds = 1\n[output]\nweights = initial\n");
    cli_done("dmft-solve", ARGS("--quiet", "-o", "out.h5", "case.ini"));
    hid_t file = cli_file("out.h5");
    char *dims = cli_text(file, "data/chain", "dims");
    assert_string_equal(dims, "law letter next");
    free(dims);
    H5Fclose(file);
}

#define WEIGHTS                                                                                    \
    "[solver]\nreplicates = 0\n[reference]\nwidths = 8\nseeds = 1\n"                               \
    "[output]\nweights = initial\n"

/* Coordinates of inputs, or of tokens and their places, in directions that read-ins have columns
 * for: they have the products of the rows of X over D, sums of at most seven terms of order one. */
CLEAN_TEST(test_coordinates) {
    static const struct {
        const char *ini;
        size_t rows, tests, D, K;
    } cases[] = {
        {"[network]\nmodel = dense\n[data]\ninputs = 5\ntest_inputs = 2\ndimension = 3\n"
         "[training]\nsteps = 2\n" WEIGHTS,
         5, 2, 3, 3},
        {"[network]\nmodel = transformer\n[data]\nsource = markov\ninputs = 6\ntokens = 4\n"
         "vocabulary = 3\n[training]\nsteps = 2\nloss = cross_entropy\n" WEIGHTS,
         24, 0, 7, 6}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        size_t rows = cases[c].rows, D = cases[c].D, K = cases[c].K, count[4] = {0};
        cli_print("case.ini", cases[c].ini);
        cli_done("dmft-solve", ARGS("--quiet", "--force", "-o", "out.h5", "case.ini"));
        hid_t file = cli_file("out.h5");
        static const char *const names[] = {"data/coordinates", "data/X", "data/coordinates_test",
                                            "data/X_test"};
        double *set[4] = {NULL};
        for (int k = 0; k < (cases[c].tests ? 4 : 2); k++)
            set[k] = cli_values(file, names[k], &count[k]);
        assert_true(count[0] == rows * K && count[1] == rows * D);
        assert_true(count[2] == cases[c].tests * K && count[3] == cases[c].tests * D);
        for (size_t mu = 0; mu < rows + cases[c].tests; mu++)
            for (size_t nu = 0; nu < rows; nu++) {
                const double *A = mu < rows ? set[0] + mu * K : set[2] + (mu - rows) * K,
                             *X = mu < rows ? set[1] + mu * D : set[3] + (mu - rows) * D;
                double difference = 0;
                for (size_t k = 0; k < K; k++)
                    difference += (double)D * A[k] * set[0][nu * K + k];
                for (size_t i = 0; i < D; i++)
                    difference -= X[i] * set[1][nu * D + i];
                assert_true(fabs(difference) < 1e-14 * (double)D);
            }
        for (int k = 0; k < 4; k++)
            free(set[k]);
        H5Fclose(file);
    }
}

/* What each block measures of each input has an axis of tokens where inputs have them. */
CLEAN_TEST(test_series_of_blocks_and_tokens) {
    enum { STEPS = 2, BLOCKS = 2, TOKENS = 4 };
    cli_print("case.ini", "[network]\nmodel = residual\ndepth = 2\nrho = 0.5\nexpert_width = 2\n"
                          "[data]\nsource = markov\ninputs = 3\ntokens = 4\nvocabulary = 3\n"
                          "[training]\nsteps = 2\nloss = cross_entropy\n"
                          "[solver]\nsites = 32\nexpert_sites = 8\nreplicates = 1\n"
                          "[reference]\nwidths = 8\nseeds = 1\n");
    struct cli_result result;
    cli_run(&result, ARGS("--force", "-o", "out.h5", "case.ini"));
    if (result.code)
        fail_msg("%s", result.err);
    cli_free(&result);
    hid_t file = cli_file("out.h5");
    static const char *const sets[] = {"limit/qstar", "limit/p", "reference/N0008/A"};
    for (size_t k = 0; k < COUNT(sets); k++) {
        size_t count;
        free(cli_values(file, sets[k], &count));
        assert_int_equal(count, STEPS * BLOCKS * P * TOKENS);
        char *dims = cli_text(file, sets[k], "dims");
        assert_string_equal(dims, "t l mu token");
        free(dims);
    }
    H5Fclose(file);
}

/* A note that is printed in several lines is one line in the file. */
CLEAN_TEST(test_notes_are_lines) {
    struct cli_result result;
    cli_print("case.ini", "[network]\nmodel = dense\nactivation = linear\n[data]\ninputs = 3\n"
                          "dimension = 4\n[training]\nsteps = 3\n[solver]\nsites = 64\n"
                          "replicates = 2\n");
    cli_run(&result, ARGS("--force", "-o", "out.h5", "case.ini"));
    assert_int_equal(result.code, 0);
    const char *told = strstr(result.out, "no sampling error here");
    told = told ? told : strstr(result.err, "no sampling error here");
    assert_non_null(told);
    assert_non_null(strstr(told, ";\n  check_tolerance = yes adds it"));
    cli_free(&result);
    hid_t file = cli_file("out.h5");
    char *words = cli_words(file, "notes/text");
    const char *note = strstr(words, "no sampling error here");
    assert_non_null(note);
    assert_non_null(strstr(note, "; check_tolerance = yes adds it\n"));
    assert_ptr_equal(strchr(note, '\n'), strstr(note, "adds it") + strlen("adds it"));
    free(words);
    H5Fclose(file);
}

/* Six steps of two of four inputs are three epochs. */
CLEAN_TEST(test_epochs_are_told) {
    struct cli_result result;
    cli_print("case.ini", "[network]\nmodel = dense\n[data]\ninputs = 4\ndimension = 4\n"
                          "[training]\nsteps = 6\nbatch = 2\n[solver]\nsites = 64\n"
                          "replicates = 2\n");
    cli_run(&result, ARGS("--force", "-o", "out.h5", "case.ini"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.err, "batches: 2 of 4 inputs a step, 3 epochs\n"));
    cli_free(&result);
}

AROUND_TESTS(cli_open, cli_close)
