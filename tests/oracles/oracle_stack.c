/* Blocks of experts one above the other: docs/theory/stack.md, and of one block (`single`)
 * regime1.md, regime2.md and regime3.md; the dense network is regime 1 with one expert, whose
 * output is activated, and a constant gate. All weights have variance one but what these pages say.
 *
 * Experts are chains of E matrices: E is free in regime 1, and 2 in the others. Blocks of weights
 * after the ends are, for each block of experts, Q [M][N] unless gates are constant, the biases [M]
 * if they are trained, and the matrices [M][n][m] of the chain. */
#include "tests/oracles/oracle.h"
#include "tests/oracles/plain.h"

static int source(const struct oracle *o, int k) {
    return k == 0 ? o->N : o->N_e;
}

static int target(const struct oracle *o, int k) {
    return k == o->E - 1 ? o->N : o->N_e;
}

static bool routed(const struct oracle *o) {
    return o->gate != ORACLE_CONSTANT;
}

/* --- numbers of the pages -------------------------------------------------------------------- */

/* What multiplies Q in and the matrices as they act. */
static double router_scale(const struct oracle *o) {
    return o->regime == 1 ? 1.0 / o->N : 1 / sqrt(o->N);
}

static double scale(const struct oracle *o, int k) {
    if (o->regime == 2 && k == 1)
        return 1 / sqrt((double)o->M * o->N_e);
    if (o->regime == 3 && k == 1)
        return 1 / (o->M * sqrt(o->N));
    return 1 / sqrt(source(o, k));
}

/* w = W/a learns with eta/a and a eps. */
static struct oracle_block *add(struct oracle *o, int count, double sgd, double a, double rate,
                                double nu) {
    return oracle_declare(o, count, o->gamma0 * o->gamma0 * sgd, rate / a, a * nu);
}

/* Routers over many experts are matrices, and what an expert has; (9) of the page of stacks, from
 * the columns of parameterizations.md. */
static void declare_block(struct oracle *o) {
    double N = o->N, b = o->stream ? o->branch : 1, own = o->stream ? 1 / (o->L * b * b) : 1;
    double adam = own * b, sum = o->regime == 1 ? 1 : o->M; /* who share a gradient */
    if (routed(o)) {
        double rate = o->regime == 1 ? o->router_rate : 1;
        add(o, o->M * o->N, own * (o->regime == 1 ? N * rate : o->M), router_scale(o),
            adam / N * rate, b / sum);
        if (o->regime > 1)
            oracle_in_turn(o, 1, o->M, o->N);
    }
    if (o->biased)
        add(o, o->M, own, 1, adam, b)->bias = true;
    for (int k = 0; k < o->E; k++) {
        int m = source(o, k), n = target(o, k);
        double sgd = o->regime == 3 ? N * N : o->regime == 2 && k == 0 ? N * o->lambda_in : N;
        /* W_out = M x (what acts) in regimes 2 and 3 */
        double a = scale(o, k) * (k == 1 ? sum : 1);
        double nu = o->regime == 2 && k == 0 ? b / o->M : b / (N * sum);
        struct oracle_block *block = add(o, o->M * n * m, own * sgd, a, adam / m, nu);
        oracle_in_turn(o, o->M, n, m);
        block->matrices.units = o->regime > 1;
        block->matrices.out = k == 1;
    }
}

/* Standard parameterization: one rate and one eps for W = a w, a the multiplier of w (1 of W1,
 * whose rate and eps of Adam are divided by sqrt D). */
static void standard(struct oracle *o) {
    for (int i = 0; i < o->blocks; i++) {
        struct oracle_block *block = &o->block[i];
        bool router = routed(o) && i == 2, biases = block->bias;
        double a = i == 1         ? 1 / (o->gamma0 * o->N)
                   : router       ? 1.0 / o->N
                   : !i || biases ? 1
                                  : 1 / sqrt(o->N);
        double in = i ? 1 : 1 / sqrt(o->D);
        block->adam_rate = in / a;
        block->nu = in * a;
        block->sgd = 1 / (a * a);
    }
}

static void declare(struct oracle *o) {
    oracle_declare_ends(o);
    for (int l = 0; l < o->L; l++)
        declare_block(o);
    if (o->sp)
        standard(o);
}

/* --- forward --------------------------------------------------------------------------------- */

/* Rows of block l, of matrix k + 2 and of expert i where these are not negative. */
static void keep(struct oracle *o, bool gradient, int row, double factor, int first, int width,
                 const char *name, int k, int l, int i) {
    char number[16] = "", block[16] = "", expert[16] = "";
    if (k >= 0)
        snprintf(number, sizeof number, "%d", k + 2);
    if (!o->single)
        snprintf(block, sizeof block, "_%d", l);
    if (i >= 0 && o->M > 1)
        snprintf(expert, sizeof expert, "_%d", i);
    double b = gradient && o->stream ? o->branch : 1;
    oracle_keep(o, gradient, row, factor / b, first, width, "%s%s%s%s", name, number, block,
                expert);
}

/* The gates of block l from what it reads. */
static int route(struct oracle *o, int l, int row, int in, int *next) {
    struct tape *t = &o->tape;
    int M = o->M, fixed = tape_put(t, o->bias + l * M, M), psi = fixed;
    if (routed(o)) {
        psi = tape_times_matrix(t, router_scale(o), M, o->N, o->block[(*next)++].node, in);
        psi = tape_sum(t, M, 1, psi, 1, fixed);
        if (o->biased)
            psi = tape_sum(t, M, 1, psi, 1, o->block[(*next)++].node);
        psi = tape_sum(t, M, 1, psi, 1, tape_put(t, o->noise, M));
    }
    int p = oracle_gate(o, l, row, psi, o->regime == 1 ? 1 : M);
    if (!routed(o))
        return p;
    keep(o, false, row, 1, psi, M, "psi", -1, l, -1);
    keep(o, true, row, (o->stream ? o->branch : 1) / o->N, p, M, "gphi", -1, l, -1);
    keep(o, false, row, 1, p, M, "p", -1, l, -1);
    keep(o, false, row, 1, p, M, "phit2", -1, l, -1);
    keep(o, true, row, (double)M / o->N, psi, M, "Gphi", -1, l, -1);
    keep(o, true, row, (double)M / o->N, psi, M, "G1phi", -1, l, -1);
    return p;
}

/* Regime 1: what expert i puts out. */
static int chain(struct oracle *o, int l, int row, int i, int in, int first) {
    struct tape *t = &o->tape;
    for (int k = 0; k < o->E; k++) {
        int m = source(o, k), n = target(o, k);
        int h = tape_times_matrix(t, scale(o, k), n, m, o->block[first + k].node + i * n * m, in);
        keep(o, true, row, 1, h, n, "G", k, l, i);
        in = h;
        if (k == o->E - 1 && !o->activated)
            break;
        in = tape_map(t, o->expert_activation, n, h);
        keep(o, false, row, 1, in, n, "Phi", k, l, i);
    }
    return in;
}

static void mean_over_experts(struct oracle *o) {
    struct oracle_rows *rows = &o->kept[o->count - 1];
    rows->groups = o->M;
    rows->apart = o->N_e;
}

/* Regimes 2 and 3: the hidden units of all experts, times their gates. */
static int units(struct oracle *o, int l, int row, int p, int in, int first) {
    struct tape *t = &o->tape;
    int M = o->M, N_e = o->N_e, all = M * N_e;
    int h = tape_times_matrix(t, scale(o, 0), all, o->N, o->block[first].node, in);
    int s = tape_map(t, o->expert_activation, all, h), gated = oracle_gated(o, p, s, N_e);
    keep(o, false, row, 1, gated, all, "Phib", -1, l, -1);
    keep(o, false, row, 1, gated, all, "Phibar", -1, l, -1);
    keep(o, false, row, 1, s, all, "PhiE", -1, l, -1);
    keep(o, true, row, (double)M / o->N, h, all, "Gb", -1, l, -1);
    keep(o, true, row, M, h, all, "Gbar", -1, l, -1);
    keep(o, false, row, 1, gated, N_e, "Phitil", -1, l, -1);
    if (!row)
        mean_over_experts(o);
    keep(o, true, row, M, h, N_e, "Gtil", -1, l, -1);
    if (!row)
        mean_over_experts(o);
    return gated;
}

static int block(struct oracle *o, int l, int row, int in, int *next) {
    struct tape *t = &o->tape;
    int N = o->N, N_e = o->N_e, p = route(o, l, row, in, next), first = *next;
    int gated = o->regime > 1 ? units(o, l, row, p, in, first) : 0, out = 0;
    for (int i = 0; i < o->M; i++) {
        int one = o->regime > 1
                      ? tape_times_matrix(t, scale(o, 1), N, N_e,
                                          o->block[first + 1].node + i * N * N_e, gated + i * N_e)
                      : tape_product(t, N, p + i, 0, chain(o, l, row, i, in, first), 1);
        out = i ? tape_sum(t, N, 1, out, 1, one) : one;
    }
    *next = first + o->E;
    return out;
}

static void pass(struct oracle *o) {
    struct tape *t = &o->tape;
    int N = o->N;
    for (int c = 0; c < o->C && (!o->single || o->regime > 1); c++)
        oracle_keep(o, false, c, 1, o->block[1].node + c * N, N, o->single ? "G3" : "Cw");
    for (int mu = 0; mu < o->P; mu++) {
        int h1 = oracle_read_in(o, mu), x = tape_map(t, o->activation, N, h1), next = 2;
        oracle_keep(o, false, mu, 1, x, N, o->single ? "Phi1" : "Ch_0");
        oracle_keep(o, true, mu, 1, o->single ? h1 : x, N, o->single ? "G1" : "Cg_0");
        for (int l = 0; l < o->L; l++) {
            int out = block(o, l, mu, o->before ? oracle_norm(o, x) : x, &next);
            out = o->after ? oracle_norm(o, out) : out;
            x = o->stream ? tape_sum(t, N, 1, x, o->branch, out) : out;
            if (!o->single) {
                oracle_keep(o, false, mu, 1, x, N, "Ch_%d", l + 1);
                oracle_keep(o, true, mu, 1, x, N, "Cg_%d", l + 1);
            }
        }
        if (o->single)
            oracle_keep(o, false, mu, 1, x, N, o->regime == 1 ? "PhiL" : "Phi3");
        oracle_read_out(o, mu, x);
    }
}

const struct oracle_network oracle_stack = {declare, pass};
