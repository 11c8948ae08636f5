/* What a norm after the aggregation does not cure in muP (How to Scale Mixture-of-Experts, I.11.1):
 * section 4 of docs/theory/stack.md. The argument `long` takes more widths and seeds. */
#include "tests/support/support.h"
#include "tests/oracles/oracle.h"
#include "kernels/draws/rng.h"

/* Mean and standard error over networks of ln(propagating/effective part of W_out) of block 0. */
static void ln_ratio(struct run *run, int N, double *mean, double *se) {
    FREED(record_free) struct record record;
    int runs = run->config.reference.seeds, t = run->config.training.steps - 1;
    double sum = 0, squares = 0;
    ASK(run_ensemble(run, N, runs, &record, err));
    const struct series *prop = record_find(&record, "rms_W_out_0_prop"),
                        *eff = record_find(&record, "rms_W_out_0_eff");
    for (int i = 0; i < runs; i++) {
        double ln = log(*record_at(&record, prop, i, t) / *record_at(&record, eff, i, t));
        sum += ln;
        squares += ln * ln;
    }
    *mean = sum / runs;
    *se = sqrt((squares - sum * sum / runs) / (runs - 1) / runs);
}

/* The exponent of N through all widths, by least squares, and its standard error. */
static void exponent(const char *const *overrides, double *slope, double *se) {
    FREED(run_free) struct run run;
    double x[INT_LIST_MAX], y[INT_LIST_MAX], error[INT_LIST_MAX], mean = 0, spread = 0, square = 0;
    support_run(&run, "data/stack.ini", overrides);
    int widths = run.config.reference.widths.count;
    for (int i = 0; i < widths; i++) {
        x[i] = log(run.config.reference.widths.value[i]);
        mean += x[i] / widths;
        ln_ratio(&run, run.config.reference.widths.value[i], &y[i], &error[i]);
    }
    *slope = 0;
    for (int i = 0; i < widths; i++) {
        *slope += (x[i] - mean) * y[i];
        square += (x[i] - mean) * (x[i] - mean) * error[i] * error[i];
        spread += (x[i] - mean) * (x[i] - mean);
    }
    *slope /= spread;
    *se = sqrt(square) / spread;
}

/* What W_out(0) makes of the change of its experts, beside what it learned: (14) of the page. The
 * exponents are those of N to infinity; at these widths they are off by no more than 0.05. */
TEST(norms_do_not_cure_mup) {
#define BY_ADAM "training.optimizer=adam", "training.eps=0.1", "training.eta0=0.1"
    static const STRUCT(double expected; const char *keys[5]) cases[] = {
        {-0.5, {"network.parameterization=mup", "network.block_norm=none"}},
        {-1, {"network.parameterization=mup", "network.block_norm=after"}},
        {0, {"network.parameterization=mssp", "network.block_norm=none"}},
        {0, {"network.parameterization=mssp", "network.block_norm=after"}},
        {-0.5, {"network.parameterization=mup", "network.block_norm=none", BY_ADAM}},
        {-0.5, {"network.parameterization=mup", "network.block_norm=after", BY_ADAM}},
        {0, {"network.parameterization=mssp", "network.block_norm=none", BY_ADAM}},
        {0, {"network.parameterization=mssp", "network.block_norm=after", BY_ADAM}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *overrides[16] =
            LIST("training.steps=6", "output.kernels=none", "reference.coordinate_check=yes",
                 "reference.draws=iid", "solver.replicates=0",
                 is_long ? "reference.widths=64 128 256 512" : "reference.widths=64 256",
                 is_long ? "reference.seeds=24" : "reference.seeds=8");
        double slope, se;
        memcpy(overrides + 7, cases[i].keys, sizeof cases[i].keys);
        exponent(overrides, &slope, &se);
        print_message("%s %s %s: N^(%.3f +- %.3f)\n", strchr(cases[i].keys[0], '=') + 1,
                      strchr(cases[i].keys[1], '=') + 1, cases[i].keys[2] ? "adam" : "gd", slope,
                      se);
        assert_true(fabs(slope - cases[i].expected) <= 0.05 + 4 * se);
    }
}

/* In regime 3 W_out(0) reads back what its transpose wrote into the experts, and what vanishes is
 * a part of that term alone: with H(s) the output of W_out(0) on s, both from plain loops,
 *
 *     A21 = H(sigma(W_in(0) u)) - H(sigma(W_in(0) u(0))),    A3 = (what is there) - H(s2). */
static void fill(double *w, int count, int seed, int which) {
    struct rng_stream stream = {.seed = (uint64_t)seed, .purpose = PURPOSE_BIAS, .owner = 7};
    double pair[2];
    for (int k = 0; k < count; k++) {
        rng_normal_pair(stream, (uint32_t)which, (uint32_t)k / 2, pair);
        w[k] = pair[k % 2];
    }
}

static struct oracle *regime_3(int N, bool mssp, bool after, int seed) {
    enum { P = 2, D = 4 };
    struct oracle *o = oracle_new((struct oracle)LIST(.network = &oracle_stack, .regime = 3, .P = P,
                                                      .D = D, .N = N, .M = N / 2, .N_e = N / 4,
                                                      .E = 2, .gate = ORACLE_SIGMOID_M,
                                                      .stream = true, .after = after, .eta0 = 0.3));
    for (int i = 0; i < o->blocks; i++) {
        int count = o->block[i].count, own = mssp && i > 2 ? count / o->M : count;
        double *w = o->block[i].w;
        fill(w, own, seed, i < 3 ? i : i + 1);
        for (int k = own; k < count; k++)
            w[k] = w[k % own];
    }
    fill(o->X, P * D, 1, 99);
    for (int mu = 0; mu < P; mu++)
        o->y[mu] = mu ? -1 : 1;
    oracle_forward(o);
    memcpy(o->f0, o->f, P * sizeof *o->f);
    return o;
}

/* to[n] += factor (1/M) sum_i phi_i W_out,i s_i/sqrt N of input mu, s given or sigma(W_in u). */
static void add_output(const struct oracle *o, int mu, const double *W_in, const double *u,
                       const double *W_out, double factor, double *to) {
    const double *phi = oracle_find(o, "p_0")->values + mu * o->M,
                 *s2 = oracle_find(o, "PhiE_0")->values + mu * o->M * o->N_e;
    int N = o->N, N_e = o->N_e;
    for (int k = 0; k < o->M * N_e; k++) {
        double h = 0;
        for (int n = 0; n < N && W_in; n++)
            h += W_in[k * N + n] * u[n] / sqrt(N);
        double s = factor * phi[k / N_e] * (W_in ? tanh(h) : s2[k]) / (o->M * sqrt(N));
        for (int n = 0; n < N; n++)
            to[n] += s * W_out[(k / N_e * N + n) * N_e + k % N_e];
    }
}

static double *copy(const double *from, int count) {
    double *to = calloc((size_t)count, sizeof *to);
    memcpy(to, from, (size_t)count * sizeof *to);
    return to;
}

/* ln of |A21|/|A3| after three steps. */
static double ln_part(int N, bool mssp, bool after, int seed) {
    struct oracle *o = regime_3(N, mssp, after, seed);
    const double *learned = o->block[4].w, *x;
    int all = o->M * o->N_e * N;
    double *W_in = copy(o->block[3].w, all), *W_out = copy(learned, all),
           *u = copy(oracle_find(o, "Ch_0")->values, o->P * N),
           *A = calloc((size_t)(2 * N), sizeof *A), A21 = 0, A3 = 0;
    for (int t = 0; t < 3; t++)
        oracle_step(o);
    oracle_forward(o);
    x = oracle_find(o, "Ch_0")->values;
    for (int mu = 0; mu < o->P; mu++) {
        memset(A, 0, (size_t)(2 * N) * sizeof *A);
        add_output(o, mu, W_in, x + mu * N, W_out, 1, A);
        add_output(o, mu, W_in, u + mu * N, W_out, -1, A);
        add_output(o, mu, NULL, NULL, learned, 1, A + N);
        add_output(o, mu, NULL, NULL, W_out, -1, A + N);
        for (int n = 0; n < N; n++) {
            A21 += A[n] * A[n];
            A3 += A[N + n] * A[N + n];
        }
    }
    free(A);
    free(u);
    free(W_in);
    free(W_out);
    oracle_free(o);
    return log(A21 / A3) / 2;
}

/* The exponent is -1/2 in muP, or below it with the norm (14), and 0 in MSSP. */
TEST(norms_in_regime_3) {
    enum { NARROW = 16, WIDE = 48 };
    int seeds = is_long ? 96 : 32;
    for (int k = 0; k < 4; k++) {
        bool mssp = k / 2, after = k % 2;
        double sum = 0, squares = 0;
        for (int seed = 1; seed <= seeds; seed++) {
            double wide = ln_part(WIDE, mssp, after, seed);
            double slope = (wide - ln_part(NARROW, mssp, after, seed)) / log(WIDE / NARROW);
            sum += slope / seeds;
            squares += slope * slope / seeds;
        }
        double se = sqrt((squares - sum * sum) / (seeds - 1));
        print_message("regime3 %s %s: N^(%.3f +- %.3f)\n", mssp ? "mssp" : "mup",
                      after ? "after" : "none", sum, se);
        if (mssp)
            assert_true(fabs(sum) <= 0.05 + 4 * se);
        else
            assert_true(sum <= -0.5 + 4 * se && sum < -3 * se);
    }
}
