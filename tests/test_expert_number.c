/* How the rate of a mixture of M experts goes with M (docs/theory/regime1.md, section 1): a small
 * step moves f by M times as much with sigmoid gates, and by 1/M with a softmax over all. */
#include "tests/support/support.h"

/* The mean over inputs of |f| after one step, and its error over replicates. */
static double moved(const char *gate, int M, double *error) {
    FREED(run_free) struct run run;
    FREED(record_free) struct record limit;
    double sum = 0, squares = 0;
    support_run_text(&run, NULL,
                     "[network]\nmodel = regime1\ngate = %s\nexperts = %d\n[data]\ninputs = 4\n"
                     "dimension = 10\n[training]\nsteps = 2\neta0 = 1e-4\n[solver]\n"
                     "sites = 512\nreplicates = 8\n[reference]\nwidths =\n",
                     gate, M);
    support_ensemble(&run, 0, &limit);
    const struct series *f = record_find(&limit, "f");
    int runs = limit.runs;
    size_t each = f->size / f->shape[0];
    for (int r = 0; r < runs; r++) {
        double mean = 0;
        for (size_t k = 0; k < each; k++)
            mean += fabs(record_at(&limit, f, r, 1)[k]) / (double)each;
        sum += mean;
        squares += mean * mean;
    }
    *error = sqrt(fmax(squares - sum * sum / runs, 0) / (runs * (runs - 1)));
    return sum / runs;
}

/* The gates are equal at the start, so that the change is M p^2 times that of an expert; to 5
 * standard errors, and the steps of 1e-4 bend it by no more than that. */
TEST(a_step_goes_with_the_number) {
    static const char *const gates[] = {"sigmoid", "softmax"};
    for (int k = 0; k < 2; k++) {
        double error[2], few = moved(gates[k], 2, &error[0]), many = moved(gates[k], 16, &error[1]);
        double ratio = many / few, relative = hypot(error[0] / few, error[1] / many);
        print_message("%s: %.4f +- %.4f\n", gates[k], ratio, ratio * relative);
        CHECK_ABS(ratio, k ? 1. / 8 : 8, 5 * ratio * relative, "%s", gates[k]);
        assert_true(relative < 0.05);
    }
}
