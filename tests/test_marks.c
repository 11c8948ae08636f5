/* Marks of sweeps: what each point is worth, in the table and as data. */
#include "tests/support/cli.h"
#include "tests/support/support.h"

/* Each row of the table that ends in these letters. */
static int rows_with(const char *table, const char *letters) {
    int rows = 0;
    for (const char *at = table; (at = strstr(at, letters)); at++)
        rows++;
    return rows;
}

/* No run knows of other widths: all of a point together are at the edge of stability or not. */
CLEAN_TEST(the_edge_is_told_by_all_widths) {
    struct cli_result result;
    size_t count;
    cli_print("edge.ini",
              "[network]\nmodel = dense\ndepth = 3\nactivation = linear\n[data]\ninputs = 4\n"
              "dimension = 10\n[training]\nsteps = 41\n[solver]\nsites = 64\nreplicates = 2\n"
              "[reference]\nwidths = 16 32 64\nseeds = 16\n[sweep]\ntraining.eta0 = 0.2 0.8\n");
    cli_run(&result, ARGS("-o", "edge.h5", "edge.ini"));
    assert_int_equal(result.code, 0);
    assert_int_equal(rows_with(result.out, "[e]") + rows_with(result.out, "[eD]"), 4);
    assert_non_null(strstr(result.out, "e: at the edge of stability"));
    hid_t file = cli_file("edge.h5");
    double *edge = cli_values(file, "sweep/edge_of_stability", &count),
           *until = cli_values(file, "sweep/valid_until", &count),
           *diverged = cli_values(file, "sweep/failed_diverged", &count),
           *failed = cli_values(file, "sweep/failed", &count);
    assert_int_equal(count, 8);
    for (int u = 0; u < 8; u++) {
        assert_true(edge[u] == u / 4);
        assert_true((diverged[u] > 0) == (failed[u] > 0));
    }
    assert_true(until[3] == 41 && until[7] == 20); /* the limits */
    free(edge);
    free(until);
    free(diverged);
    free(failed);
    H5Fclose(file);
    cli_free(&result);
}

/* A limit with too few sites is none that diverges. */
CLEAN_TEST(too_few_sites_are_no_divergence) {
    struct cli_result result;
    size_t count;
    cli_print("sites.ini",
              "[network]\nmodel = dense\nactivation = relu\n[data]\ninputs = 64\ndimension = 40\n"
              "[training]\nsteps = 9\neta0 = 0.1\n[solver]\nreplicates = 1\n"
              "[sweep]\nsolver.sites = 300 4096\n");
    cli_run(&result, ARGS("-o", "sites.h5", "sites.ini"));
    assert_int_equal(result.code, 0);
    assert_int_equal(rows_with(result.out, "failed  [uS]"), 1);
    assert_non_null(strstr(result.out, "S: the limit needs more sites than it has"));
    hid_t file = cli_file("sites.h5");
    double *sites = cli_values(file, "sweep/failed_sites", &count),
           *diverged = cli_values(file, "sweep/failed_diverged", &count),
           *unmatched = cli_values(file, "sweep/unmatched", &count);
    assert_int_equal(count, 2);
    assert_true(sites[0] == 1 && sites[1] == 0 && diverged[0] == 0 && diverged[1] == 0);
    assert_true(unmatched[0] > 0 && unmatched[0] <= 1 && unmatched[1] == 0);
    free(sites);
    free(diverged);
    free(unmatched);
    H5Fclose(file);
    cli_free(&result);
}

AROUND_TESTS(cli_open_sweep, cli_close)
