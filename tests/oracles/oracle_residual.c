/* The deep residual mixture of experts in the normalisation of section 1 of
 * docs/theory/residual.md: every initial weight is N(0, 1). Blocks of weights after the ends: W1
 * [L][M N_e][N], W2 [L][N][M N_e], r [L][M][N]. */
#include "tests/oracles/oracle.h"
#include "tests/oracles/plain.h"

/* A matrix as it acts, F1 = W1/sqrt N, F2 = sqrt N/(N_e M) W2 or FR = r/N, has rates 1 over the
 * size of its source and eps over the size of df/dF gamma0, which has 1/L. */
static void declare(struct oracle *o) {
    int n = o->N, M = o->M, units = M * o->N_e;
    double N = n, all = units, L = o->L, multiplier[] = {1 / sqrt(N), sqrt(N) / all, 1 / N},
           source[] = {N, all, N}, nu[] = {1 / (L * all), 1 / (L * N), 1 / (L * M)},
           rate[] = {all * L, all * L, N * M * L};
    const struct oracle_matrices of[] = {
        {o->L, M, o->N_e, n, units * n, o->N_e * n, n, 1, true, false, 0},
        {o->L, M, n, o->N_e, units * n, o->N_e, units, 1, true, true, 0},
        {o->L, 1, M, n, M * n, 0, n, 1, false, false, 0}};
    oracle_declare_ends(o);
    for (int k = 0; k < 3; k++) {
        struct oracle_block *block =
            oracle_declare(o, o->L * (k < 2 ? units : M) * n, o->gamma0 * o->gamma0 * rate[k],
                           1 / source[k] / multiplier[k], nu[k] * multiplier[k]);
        block->matrices = of[k];
        block->matrices.rate = block->adam_rate;
    }
}

/* Selected are the largest sig(p) + b. */
static int gates(struct oracle *o, int l, int mu, int p) {
    struct tape *t = &o->tape;
    int M = o->M, s = tape_map(t, ORACLE_SIGMOID, M, p);
    return tape_select(t, M, whole(o->rho * M), s, o->bias + l * M, o->mask + (l * o->P + mu) * M);
}

/* One block of one input. The page has cotangents over the means of experts and of units and
 * without 1/L: sig'(p_k) A_k is M L/N times N gamma0 df/dp_k, and c_k u of a unit is M N_e L/N
 * times N gamma0 df/dpsi. */
static int block(struct oracle *o, int l, int mu, int h) {
    struct tape *t = &o->tape;
    int N = o->N, M = o->M, units = M * o->N_e;
    double per_unit = (double)units * o->L / N, per_expert = (double)M * o->L / N;
    int p = tape_times_matrix(t, 1.0 / N, M, N, o->block[4].node + l * M * N, h);
    int c = gates(o, l, mu, p);
    int psi = tape_times_matrix(t, 1 / sqrt(N), units, N, o->block[2].node + l * units * N, h);
    int x = oracle_gated(o, c, tape_map(t, o->activation, units, psi), o->N_e);
    int out = tape_times_matrix(t, sqrt(N) / units, N, units, o->block[3].node + l * N * units, x);
    oracle_keep(o, false, mu, 1, x, units, "Mphi_%d", l);
    oracle_keep(o, true, mu, per_unit, psi, units, "Mg_%d", l);
    oracle_keep(o, true, mu, per_expert, p, M, "MAA_%d", l);
    oracle_keep(o, false, mu, 1, p, M, "logits_%d", l);
    oracle_keep(o, true, mu, per_expert, c, M, "A_%d", l);
    return tape_sum(t, N, 1, h, 1.0 / o->L, out);
}

static void pass(struct oracle *o) {
    for (int mu = 0; mu < o->P; mu++) {
        int h = oracle_read_in(o, mu);
        for (int l = 0; l <= o->L; l++) {
            oracle_keep(o, false, mu, 1, h, o->N, "Ch_%d", l);
            oracle_keep(o, true, mu, 1, h, o->N, "Cg_%d", l);
            h = l < o->L ? block(o, l, mu, h) : h;
        }
        oracle_read_out(o, mu, h);
    }
}

const struct oracle_network oracle_residual = {declare, pass};
