/* The edge of stability, told by how the variance of f over networks goes with N. */
#include "solver/run/findings.h"
#include "tests/support/support.h"

enum { WIDTHS = 3, RUNS = 5, TIMES = 4 };

/* Networks with f = 1 + N^(exponent/2) times numbers of order one, the same for all widths. */
static void fill(struct run *run, double exponent, double scale) {
    static const double number[RUNS] = {0.3, -1.1, 0.6, 0.9, -0.4};
    *run = (struct run){
        .config = {.reference = {.widths = {.count = WIDTHS, {8, 32, 64}}, .seeds = RUNS},
                   .training = {.steps = TIMES}}};
    for (int i = 0; i < WIDTHS; i++) {
        struct series f = {.name = "f", .dims = "t mu", .axes = 2, .shape = {TIMES, 2}};
        struct record *record = &run->results.reference[i];
        ASK(record_init(record, RUNS, TIMES, err));
        ASK(record_add(record, f, err));
        double spread = scale * pow(run->config.reference.widths.value[i], exponent / 2);
        for (int r = 0; r < RUNS; r++) {
            record->steps[r] = TIMES;
            for (int k = 0; k < 2 * TIMES; k++)
                record_at(record, &record->series[0], r, k / 2)[k % 2] =
                    1 + spread * number[(r + k % 2) % RUNS];
        }
    }
}

/* Logarithms of sums of 10 numbers with round-off 1e-16/spread, over ln 8: 1e-13. */
TEST(exponents_are_exact) {
    static const double want[] = {-2, -1, 0, 0.5};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++) {
        FREED(run_free) struct run run;
        double exponent, se;
        bool reached;
        fill(&run, want[k], 1);
        ASK(stability_exponent(&run, 1, TIMES, &exponent, &se, err));
        CHECK_ABS(exponent, want[k], 1e-13, "exponent");
        assert_true(se > 0.1 && se < 1);
        ASK(stability_reached(&run, &reached, err));
        assert_int_equal(reached, want[k] + 1 > 3 * se);
    }
}

/* Of two entries and n runs: ln V without run r, by hand. Squares of order ten have a round-off of
 * 1e-15 and a difference of order .01: 1e-13 in its root, ten times that. */
TEST(error_is_that_of_the_jackknife) {
    FREED(run_free) struct run run;
    double exponent, se, shift = 0, squares = 0;
    fill(&run, 0, 1);
    for (int r = 0; r < RUNS; r++) {
        double sum = 0;
        for (int entry = 0; entry < 2; entry++) {
            double mean = 0, square = 0;
            for (int k = 0; k < RUNS; k++) {
                double f = record_at(&run.results.reference[0], run.results.reference[0].series, k,
                                     0)[entry];
                mean += k == r ? 0 : f / (RUNS - 1);
                square += k == r ? 0 : f * f;
            }
            sum += square - (RUNS - 1) * mean * mean;
        }
        shift += log(sum) / RUNS;
        squares += log(sum) * log(sum) / RUNS;
    }
    double one = sqrt((RUNS - 1) * (squares - shift * shift)), x[WIDTHS], mean = 0, spread = 0;
    for (int i = 0; i < WIDTHS; i++) {
        x[i] = log(run.config.reference.widths.value[i]);
        mean += x[i] / WIDTHS;
    }
    for (int i = 0; i < WIDTHS; i++)
        spread += (x[i] - mean) * (x[i] - mean);
    ASK(stability_exponent(&run, 0, TIMES, &exponent, &se, err));
    CHECK_ABS(se, one / sqrt(spread), 1e-12, "equal errors of all widths, over the spread of ln N");
}

/* At every time V is that of the networks that reached it, and those that never did are as if they
 * had not been run: a record with two lost networks beside one of the others alone. The lost ones
 * would multiply V by (5 - 1)/(7 - 1), at one width, and shift the exponent by .2. */
TEST(lost_networks_do_not_count) {
    FREED(run_free) struct run run, more;
    double exponent[2], se[2];
    fill(&run, -1, 1);
    fill(&more, -1, 1);
    struct record *record = &more.results.reference[0], lost = {0};
    const struct series f = {.name = "f", .dims = "t mu", .axes = 2, .shape = {TIMES, 2}};
    ASK(record_init(&lost, RUNS + 2, TIMES, err));
    ASK(record_add(&lost, f, err));
    for (int r = 0; r < RUNS; r++) {
        lost.steps[r + 1] = TIMES;
        for (int k = 0; k < 2 * TIMES; k++)
            record_at(&lost, lost.series, r + 1, k / 2)[k % 2] =
                record_at(record, record->series, r, k / 2)[k % 2];
    }
    record_free(record);
    *record = lost;
    more.config.reference.seeds = RUNS + 2;
    ASK(stability_exponent(&run, 1, TIMES, &exponent[0], &se[0], err));
    ASK(stability_exponent(&more, 1, TIMES, &exponent[1], &se[1], err));
    CHECK_ABS(exponent[1], exponent[0], 1e-13, "exponent");
    CHECK_ABS(se[1], se[0], 1e-12, "its error");
    /* One that ends on the way: each time has its own number of networks. */
    record->steps[RUNS] = 2;
    double sum = 0, mean = 0, shift[RUNS + 2] = {0};
    for (int t = 1; t < TIMES; t++)
        for (int out = 0; out <= RUNS; out++) { /* 0: none is left out; the others: run `out` */
            double n = 0, V = 0;
            for (int r = 1; r <= RUNS; r++)
                n += r != out && record->steps[r] > t;
            for (int entry = 0; entry < 2; entry++) {
                double first = 0, second = 0;
                for (int r = 1; r <= RUNS; r++)
                    if (r != out && record->steps[r] > t) {
                        double x = record_at(record, record->series, r, t)[entry];
                        first += x / n;
                        second += x * x;
                    }
                V += (second - n * first * first) / (n - 1);
            }
            shift[out] += log(V) / (TIMES - 1);
        }
    for (int r = 1; r <= RUNS; r++)
        mean += shift[r] / RUNS;
    for (int r = 1; r <= RUNS; r++)
        sum += pow(shift[r] - mean, 2);
    double of_one = sqrt((RUNS - 1.0) / RUNS * sum), first, second;
    /* The slope is linear in ln V of each width, the error a root of a sum over widths; no
     * network of the others is lost. */
    double x[WIDTHS], middle = 0, spread = 0, errors = 0;
    ASK(stability_exponent(&run, 1, TIMES, &first, &second, err));
    for (int i = 0; i < WIDTHS; i++)
        middle += (x[i] = log(run.config.reference.widths.value[i])) / WIDTHS;
    for (int i = 0; i < WIDTHS; i++)
        spread += pow(x[i] - middle, 2);
    double other = second * sqrt(spread); /* all widths have this one */
    for (int i = 0; i < WIDTHS; i++)
        errors += pow((x[i] - middle) * (i ? other : of_one), 2);
    double before = 0;
    for (int entry = 0; entry < 2; entry++) {
        double one = 0, two = 0;
        for (int r = 1; r <= RUNS; r++) {
            double y = record_at(record, record->series, r, 1)[entry];
            one += y / RUNS;
            two += y * y;
        }
        before += (two - RUNS * one * one) / (RUNS - 1);
    }
    ASK(stability_exponent(&more, 1, TIMES, &exponent[1], &se[1], err));
    CHECK_ABS(exponent[1], first + (x[0] - middle) * (shift[0] - log(before)) / spread, 1e-12,
              "exponent with a network that ends on the way");
    CHECK_ABS(se[1], sqrt(errors) / spread, 1e-12, "its error, larger than that of residuals");
}

TEST(round_off_tells_nothing) {
    struct run run;
    double exponent, se;
    bool reached;
    fill(&run, 0, 1e-9);
    ASK(stability_exponent(&run, 0, TIMES, &exponent, &se, err));
    ASK(stability_reached(&run, &reached, err));
    assert_true(isnan(exponent) && isnan(se) && !reached);
    run_free(&run);
    /* f of mean 1 and deviation .72277 scale tells from 1e-6 on. */
    for (int k = -1; k <= 1; k += 2) {
        fill(&run, 0, (1 + 0.005 * k) * 1e-6 / 0.72277);
        ASK(stability_exponent(&run, 0, TIMES, &exponent, &se, err));
        assert_int_equal(isfinite(exponent), k > 0);
        run_free(&run);
    }
}

/* The edge is reached where the exponent is above -1/2 and three of its errors above -1. */
TEST(thresholds) {
    struct run run;
    double exponent, se;
    bool reached;
    fill(&run, 0, 1);
    ASK(stability_exponent(&run, 1, TIMES, &exponent, &se, err));
    run_free(&run);
    assert_true(3 * se > 0.55 && 3 * se < 2); /* whatever the exponent is */
    for (int above = 0; above < 2; above++) {
        fill(&run, (above ? 1.005 : 0.995) * 3 * se - 1, 1);
        ASK(stability_reached(&run, &reached, err));
        assert_int_equal(reached, above);
        run_free(&run);
        /* All networks are as far from their mean, so that the jackknife has no error. */
        fill(&run, 0, 0);
        for (int i = 0; i < WIDTHS; i++)
            for (int r = 0; r < RUNS - 1; r++)
                for (int k = 0; k < 2 * TIMES; k++)
                    record_at(&run.results.reference[i], run.results.reference[i].series, r,
                              k / 2)[k % 2] +=
                        (r % 2 ? 1 : -1) *
                        pow(run.config.reference.widths.value[i], above ? -0.249 : -0.251);
        for (int i = 0; i < WIDTHS; i++)
            run.results.reference[i].steps[RUNS - 1] = 0;
        ASK(stability_reached(&run, &reached, err));
        assert_int_equal(reached, above);
        run_free(&run);
    }
}

/* A deep linear network: eta0 = 0.8 is beyond its edge, 0.2 is not; nor is a tanh network. */
TEST(networks_are_told_apart) {
    static const STRUCT(const char *activation, *eta0; bool reached) table[] = {
        {"network.activation=linear", "training.eta0=0.8", true},
        {"network.activation=linear", "training.eta0=0.2", false},
        {"network.activation=tanh", "training.eta0=0.5", false},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        FREED(run_free) struct run run;
        double exponent, se;
        bool reached;
        support_run(&run, "data/dense.ini",
                    ARGS(table[k].activation, table[k].eta0, "reference.widths=16 32 64",
                         "reference.seeds=16", "training.steps=41", "solver.replicates=0",
                         "output.kernels=none"));
        ASK(run_march(&run, err));
        ASK(stability_exponent(&run, 20, 41, &exponent, &se, err));
        printf("%s %s: N^%.2f(%.2f)\n", table[k].activation, table[k].eta0, exponent, se);
        ASK(stability_reached(&run, &reached, err));
        assert_int_equal(reached, table[k].reached);
    }
}
