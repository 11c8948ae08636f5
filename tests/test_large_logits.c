/* Logits of routers so large that exponentials of them overflow, or vanish: log_sum_exp, shares of
 * sigmoids, and what is said where a script takes exponentials itself. */
#include "tests/support/support.h"

#define DATA                                                                                       \
    "[data]\ninputs = 4\ndimension = 10\n[training]\nsteps = 5\neta0 = 0.01\n[solver]\n"           \
    "sites = 128\nreplicates = 2\n[reference]\nwidths = 16\nseeds = 2\n"
/* A mixture of four experts whose logits begin at the biases; z is its penalty. */
#define MIXTURE(biases, z)                                                                         \
    "local x1 = sigma(read_in(population('bottom'), 'W1')); "                                      \
    "local up = population('top'); "                                                               \
    "local psi = bias(look(x1, 4, {name = 'Q', a0 = 0}), {" biases "}, 'b'); "                     \
    "penalty(1e-8 * " z " ^ 2, 'z_loss'); local p, h = softmax(psi); "                             \
    "for i = 1, 4 do local o = p[i] * map(x1, up, 'W2_' .. i - 1) h = h and h + o or o end; "      \
    "read_out(h, 'w'); "
#define SAFE "log_sum_exp(psi)"

static const char *const none[] = {NULL};

/* [network] program_text of the ini. */
static void script_run(struct run *run, const char *script, const char *const *overrides) {
    char text[2048];
    const char *all[12];
    int count = 0;
    snprintf(text, sizeof text, "network.program_text=%s", script);
    all[count++] = text;
    for (; *overrides; overrides++)
        all[count++] = *overrides;
    all[count] = NULL;
    support_run_text(run, all, "[network]\nmodel = program\n" DATA);
}

/* Of numbers a: ln sum exp, with what is 0 beside the largest in double precision left out. */
TEST(value_of_log_sum_exp) {
    static const STRUCT(const char *script; double value)
        table[] = {{MIXTURE("800, 0.2, -0.3, 0", SAFE), 800},
                   {MIXTURE("-800, -1000, -1000, -1000", SAFE), -800},
                   {MIXTURE("-800, -800, -800, -800", SAFE), -798.6137056388801}, /* + ln 4 */
                   {MIXTURE("1e6, 1e6, -1e6, 0", SAFE), 1000000.6931471806},
                   {MIXTURE("0.4, 0.2, -0.3, 0", SAFE), 1.4938128239427084}};
    for (size_t k = 0; k < COUNT(table); k++)
        for (int N = 0; N <= 16; N += 16) {
            RUN_AND_NET;
            script_run(&run, table[k].script, none);
            support_begin(&net, &run, N, 0);
            double penalty = 1e-8 * table[k].value * table[k].value;
            CHECK_ABS(net.output.penalty, penalty, 1e-14 * penalty, "penalty of %zu", k);
        }
}

/* Its gradient, by finite differences of the loss. */
TEST(gradient_of_log_sum_exp) {
    FREED(run_free) struct run run;
    script_run(&run, MIXTURE("0.4, 0.2, -0.3, 0", "1e4 * log_sum_exp(psi)"),
               ARGS("reference.centre=no", "training.eta0=0.2"));
    support_gradient(&run, 16, 5);
}

/* The built-in z-loss, at every step. */
TEST(as_built_in) {
    FREED(record_free) struct record script, built;
    FREED(two_runs_free) struct run run[2];
    script_run(&run[0], MIXTURE("800, 0.2, -0.3, 0", SAFE), none);
    support_run_text(&run[1], none,
                     "[network]\nmodel = regime1\nexperts = 4\ngate = softmax\nbias = trained\n"
                     "biases = 800 0.2 -0.3 0\nz_loss = 1e-8\nq0 = 0\n" DATA);
    support_ensemble(&run[0], 16, &script);
    support_ensemble(&run[1], 16, &built);
    const struct series *a = record_find(&script, "z_loss"), *b = record_find(&built, "z_loss");
    for (int t = 0; t < 5; t++)
        CHECK_ABS(*record_at(&script, a, 0, t), *record_at(&built, b, 0, t), 1e-15, "step %d", t);
}

/* sigmoid(s_i)/sum_j sigmoid(s_j) becomes a softmax of s far below 0: of biases c, c - 1, ... the
 * loss at the start, where two of four are selected, is 2 (1 + 1/e)/(1 + 1/e + 1/e^2 + 1/e^3). */
TEST(shares_of_sigmoids) {
    static const char *const biases[] = {"-50 -51 -52 -53", "-700 -701 -702 -703",
                                         "-800 -801 -802 -803", "-900 -901 -902 -903"};
    const double e = exp(-1), first = 2 * (1 + e) / (1 + e + e * e + e * e * e);
    double before[5];
    for (size_t k = 0; k < COUNT(biases); k++) {
        RUN_AND_RECORD;
        support_run_text(&run, none,
                         "[network]\nmodel = regime1\nexperts = 4\nrho = 0.5\ngate = sigmoid\n"
                         "bias = trained\nbiases = %s\nbalance_loss = 1\n" DATA,
                         biases[k]);
        support_ensemble(&run, 16, &record);
        const struct series *series = record_find(&record, "balance_loss");
        for (int t = 0; t < 5; t++) {
            double value = *record_at(&record, series, 0, t);
            CHECK_ABS(value, t ? k ? before[t] : value : first, 1e-12, "%s, step %d", biases[k], t);
            before[t] = value;
        }
        assert_true(before[4] < before[0]); /* and its gradient moves them */
    }
}

/* Of many experts: of two that are both far below 0 the larger one is selected and has all of the
 * share, as of two on both sides of 0; of two far above 0 each has half of it. */
TEST(shares_of_many_sigmoids) {
    RUN_AND_NET;
    double load[2] = {0}, share[2] = {0};
    int below = 0, rows = 16;
    support_run(&run, "data/regime3.ini",
                ARGS("network.kappa=0.125", "network.rho=0.5", "network.beta=1e6",
                     "network.balance_loss=1", "data.inputs=16", "output.kernels_of=psi"));
    support_begin(&net, &run, 16, 0);
    FREED(base_free) double *psi = support_get(support_weight(&net, "Q")->value);
    for (int mu = 0; mu < rows; mu++) {
        double *s = psi + 2 * mu;
        int first = s[1] > s[0];
        load[first] += 1.0 / rows;
        share[first] += (s[0] > 0 && s[1] > 0 ? 0.5 : 1) / rows;
        share[!first] += (s[0] > 0 && s[1] > 0 ? 0.5 : 0) / rows;
        below += fmax(s[0], s[1]) < -1e-3;
    }
    assert_true(below > 0); /* else nothing is tried */
    CHECK_ABS(net.output.penalty, 2 * (load[0] * share[0] + load[1] * share[1]), 1e-14, "loss");
}

/* Gates that are all 0 have no entropy; it was 0, which is that of one gate. */
TEST(entropy_of_no_gates) {
    for (int none_left = 0; none_left < 2; none_left++)
        for (int N = 0; N <= 16; N += 16) {
            RUN_AND_RECORD;
            support_run_text(&run, none,
                             "[network]\nmodel = regime1\nexperts = 2\ngate = sigmoid\n"
                             "bias = fixed\nbiases = %s\n" DATA,
                             none_left ? "-800 -800" : "-700 -700");
            support_ensemble(&run, N, &record);
            double entropy = support_value(&record, "router_entropy", 0, 0, 0);
            assert_true(none_left ? isnan(entropy) : fabs(entropy - 1) < 1e-14);
        }
}

/* A script's own exponentials overflow before any rate has acted: what does, and what would not. */
TEST(what_overflows_is_named) {
    static const struct {
        const char *script, *parts[3];
    } table[] = {{MIXTURE("800, 0.2, -0.3, 0", "log(sum(exp(psi)))"),
                  {"step 0: z_loss exceeds 1e+150 before any step, so that no rate is to blame",
                   "begins in `exp` of numbers up to 800, where log_sum_exp and softmax", NULL}},
                 {MIXTURE("-800, -800, -800, -800", "(1 / sum(sigmoid(psi)))"),
                  {"step 0: z_loss exceeds 1e+150 before any step, so that no rate is to blame",
                   "it begins in `1/x` of numbers up to 0", NULL}}};
    for (size_t k = 0; k < COUNT(table); k++) {
        FREED(run_free) struct run run;
        script_run(&run, table[k].script, none);
        assert_int_equal(run_march(&run, &failure), CODE_NUMERICAL);
        for (int i = 0; table[k].parts[i]; i++)
            FAIL_IF(!strstr(failure.text, table[k].parts[i]), "%s", failure.text);
        assert_null(strstr(failure.text, "eta0"));
    }
}
