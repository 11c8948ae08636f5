#include "tests/oracles/reduction_residual.h"
#include "tests/oracles/plain.h"

#include <string.h>

struct reduction_residual *reduction_residual_new(int P, int d, int E, int S, int L) {
    struct reduction_residual *o = memory(1, sizeof *o);
    o->P = P, o->d = d, o->E = E, o->S = S, o->L = L;
    o->H0 = array(P * d);
    o->wv = array(d);
    o->w1 = array(L * E * S * d);
    o->w2 = array(L * E * S * d);
    o->r = array(L * E * d);
    o->b = array(L * E);
    o->f0 = array(P);
    o->H = array((L + 1) * P * d);
    o->G = array((L + 1) * P * d);
    o->f = array(P);
    o->mask = array(L * P * E);
    o->load2 = array(L);
    o->out = memory((size_t)P, sizeof *o->out);
    return o;
}

void reduction_residual_free(struct reduction_residual *o) {
    double *const all[] = {o->H0, o->wv, o->w1, o->w2, o->r,    o->b,
                           o->f0, o->H,  o->G,  o->f,  o->mask, o->load2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(o->out);
    tape_release(&o->tape);
    free(o);
}

/* Gates of block l from the stream H: (2), (3) with p_k of (12). */
static int gates(struct reduction_residual *o, int l, int mu, int H) {
    struct tape *t = &o->tape;
    int E = o->E,
        sigmoid = tape_map(t, ORACLE_SIGMOID, E,
                           tape_times_matrix(t, 1, E, o->d, o->learns[4] + l * E * o->d, H));
    return tape_select(t, E, whole(o->rho * E), sigmoid, o->b + l * E,
                       o->mask + (l * o->P + mu) * E);
}

/* The stream behind block l: (12). */
static int block(struct reduction_residual *o, int l, int mu, int H) {
    struct tape *t = &o->tape;
    int d = o->d, units = o->E * o->S, first = l * units * d, gated = 0, c = gates(o, l, mu, H),
        phi = tape_map(t, ORACLE_TANH, units,
                       tape_times_matrix(t, 1, units, d, o->learns[2] + first, H));
    for (int k = 0; k < o->E; k++) {
        int of_expert = tape_product(t, o->S, c + k, 0, phi + k * o->S, 1);
        gated = k ? gated : of_expert;
    }
    int branch = tape_linear(t, 1. / units / o->L, d, units, o->learns[3] + first, 1, d, gated, 1);
    return tape_sum(t, d, 1, H, 1, branch);
}

/* A sweep from all f, each times its factor. */
static void sweep(struct reduction_residual *o, const double *factor) {
    tape_clear(&o->tape);
    for (int mu = 0; mu < o->P; mu++)
        o->tape.gradient[o->out[mu]] = factor[mu];
    tape_sweep(&o->tape);
}

void reduction_residual_forward(struct reduction_residual *o) {
    struct tape *t = &o->tape;
    int d = o->d, P = o->P, units = o->E * o->S * d;
    int *H = memory((size_t)((o->L + 1) * P), sizeof *H);
    double *one = array(P);
    tape_rewind(t);
    o->learns[0] = tape_put(t, o->H0, P * d);
    o->learns[1] = tape_put(t, o->wv, d);
    o->learns[2] = tape_put(t, o->w1, o->L * units);
    o->learns[3] = tape_put(t, o->w2, o->L * units);
    o->learns[4] = tape_put(t, o->r, o->L * o->E * d);
    for (int mu = 0; mu < P; mu++) {
        H[mu] = o->learns[0] + mu * d;
        for (int l = 0; l < o->L; l++)
            H[(l + 1) * P + mu] = block(o, l, mu, H[l * P + mu]);
        o->out[mu] = tape_times_matrix(t, 1 / o->gamma0, 1, d, o->learns[1], H[o->L * P + mu]);
        o->f[mu] = t->value[o->out[mu]] - o->f0[mu];
        one[mu] = o->gamma0;
    }
    sweep(o, one); /* G = gamma0 df/dH, (13) */
    for (int k = 0; k < (o->L + 1) * P; k++) {
        memcpy(o->H + k * d, t->value + H[k], (size_t)d * sizeof *o->H);
        memcpy(o->G + k * d, t->gradient + H[k], (size_t)d * sizeof *o->G);
    }
    free(H);
    free(one);
}

/* Biases from loads: (10). */
static void balance(struct reduction_residual *o, int l) {
    o->load2[l] = 0;
    for (int k = 0; k < o->E; k++) {
        double load = 0;
        for (int mu = 0; mu < o->P; mu++)
            load += o->mask[(l * o->P + mu) * o->E + k] / o->P;
        o->b[l * o->E + k] -= o->eta_b * (load - o->rho);
        o->load2[l] += (load - o->rho) * (load - o->rho) / o->E;
    }
}

/* (14) and (15): what sum_mu Delta f rises along, every kind of weights at its rate. */
void reduction_residual_step(struct reduction_residual *o) {
    int d = o->d, units = o->E * o->S;
    double rate = o->eta0 * o->gamma0 * o->gamma0 / o->P, *Delta = array(o->P);
    for (int mu = 0; mu < o->P; mu++)
        Delta[mu] = o->y[mu] - o->f[mu];
    sweep(o, Delta);
    const double *gradient = o->tape.gradient;
    for (int k = 0; k < o->P * o->P * d; k++) /* through the read-in: K of the two inputs */
        o->H0[k / o->P / d * d + k % d] +=
            rate * o->Kx[k / d] * gradient[o->learns[0] + k / d % o->P * d + k % d];
    for (int k = 0; k < d; k++)
        o->wv[k] += rate * gradient[o->learns[1] + k];
    for (int k = 0; k < o->L * units * d; k++) {
        o->w1[k] += rate * units * o->L * gradient[o->learns[2] + k];
        o->w2[k] += rate * units * o->L * gradient[o->learns[3] + k];
    }
    for (int k = 0; k < o->L * o->E * d; k++)
        o->r[k] += rate * o->E * o->L * gradient[o->learns[4] + k];
    for (int l = 0; l < o->L; l++)
        balance(o, l);
    free(Delta);
}
