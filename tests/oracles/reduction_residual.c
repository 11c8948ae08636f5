#include "tests/oracles/reduction_residual.h"
#include "tests/oracles/plain.h"

struct reduction_residual *reduction_residual_new(int P, int d, int E, int S, int L) {
    struct reduction_residual *o = memory(1, sizeof *o);
    o->P = P, o->d = d, o->E = E, o->S = S, o->L = L;
    o->H0 = array(P * d);
    o->wv = array(d);
    o->w1 = array(L * E * S * d);
    o->w2 = array(L * E * S * d);
    o->r = array(L * E * d);
    o->b = array(L * E);
    o->H = array((L + 1) * P * d);
    o->G = array((L + 1) * P * d);
    o->f = array(P);
    o->f0 = array(P);
    o->Delta = array(P);
    o->p = array(L * P * E);
    o->mask = array(L * P * E);
    o->A = array(L * P * E);
    o->c = array(L * P * E);
    o->sd = array(L * P * E);
    o->phi = array(L * P * E * S);
    o->gk = array(L * P * E * S);
    o->load2 = array(L);
    return o;
}

void reduction_residual_free(struct reduction_residual *o) {
    double *const all[] = {o->H0, o->wv,   o->w1,    o->w2,    o->r, o->b,  o->H,
                           o->G,  o->f,    o->p,     o->A,     o->c, o->sd, o->phi,
                           o->gk, o->mask, o->Delta, o->load2, o->f0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(o);
}

/* Row k of input mu of block l of an array [layers][P][width]. */
static size_t at(const struct reduction_residual *o, int l, int mu, int width, int k) {
    return ((size_t)l * (size_t)o->P + (size_t)mu) * (size_t)width + (size_t)k;
}

/* (2), (3) with p_k of (12) */
static void gates(struct reduction_residual *o, int l, int mu) {
    const double *H = o->H + at(o, l, mu, o->d, 0), *b = o->b + l * o->E;
    double *p = o->p + at(o, l, mu, o->E, 0), *mask = o->mask + at(o, l, mu, o->E, 0);
    double *q = array(o->E);
    for (int k = 0; k < o->E; k++) {
        p[k] = dot(o->r + (l * o->E + k) * o->d, H, o->d);
        q[k] = sig(p[k]) + b[k];
    }
    find_mask(q, o->E, whole(o->rho * o->E), mask);
    for (int k = 0; k < o->E; k++) {
        o->c[at(o, l, mu, o->E, k)] = mask[k] * sig(p[k]);
        o->sd[at(o, l, mu, o->E, k)] = mask[k] * sig(p[k]) * sig(-p[k]);
    }
    free(q);
}

void reduction_residual_forward(struct reduction_residual *o) {
    int d = o->d, units = o->E * o->S;
    for (int mu = 0; mu < o->P; mu++) {
        for (int i = 0; i < d; i++)
            o->H[at(o, 0, mu, d, i)] = o->H0[mu * d + i];
        for (int l = 0; l < o->L; l++) {
            const double *H = o->H + at(o, l, mu, d, 0);
            double *next = o->H + at(o, l + 1, mu, d, 0);
            gates(o, l, mu);
            for (int i = 0; i < d; i++)
                next[i] = H[i];
            for (int u = 0; u < units; u++) { /* (12) */
                double phi = tanh(dot(o->w1 + (l * units + u) * d, H, d));
                o->phi[at(o, l, mu, units, u)] = phi;
                for (int i = 0; i < d; i++)
                    next[i] += o->c[at(o, l, mu, o->E, u / o->S)] * phi *
                               o->w2[(l * units + u) * d + i] / units / o->L;
            }
        }
        o->f[mu] = dot(o->H + at(o, o->L, mu, d, 0), o->wv, d) / o->gamma0 - o->f0[mu]; /* (12) */
        o->Delta[mu] = o->y[mu] - o->f[mu];
    }
}

void reduction_residual_backward(struct reduction_residual *o) {
    int d = o->d, units = o->E * o->S;
    for (int mu = 0; mu < o->P; mu++) {
        for (int i = 0; i < d; i++)
            o->G[at(o, o->L, mu, d, i)] = o->wv[i];
        for (int l = o->L - 1; l >= 0; l--) {
            const double *after = o->G + at(o, l + 1, mu, d, 0);
            double *G = o->G + at(o, l, mu, d, 0), *A = o->A + at(o, l, mu, o->E, 0);
            for (int i = 0; i < d; i++)
                G[i] = after[i];
            for (int k = 0; k < o->E; k++)
                A[k] = 0;
            for (int u = 0; u < units; u++) { /* (13) */
                double phi = o->phi[at(o, l, mu, units, u)];
                double z = dot(o->w2 + (l * units + u) * d, after, d);
                o->gk[at(o, l, mu, units, u)] = (1 - phi * phi) * z;
                A[u / o->S] += z * phi / o->S;
                for (int i = 0; i < d; i++)
                    G[i] += o->c[at(o, l, mu, o->E, u / o->S)] * (1 - phi * phi) * z *
                            o->w1[(l * units + u) * d + i] / units / o->L;
            }
            for (int k = 0; k < o->E; k++)
                for (int i = 0; i < d; i++)
                    G[i] += o->sd[at(o, l, mu, o->E, k)] * A[k] * o->r[(l * o->E + k) * d + i] /
                            o->E / o->L;
        }
    }
}

/* (14) of the units and routers of one block. */
static void block_step(struct reduction_residual *o, int l, int mu) {
    int d = o->d, units = o->E * o->S;
    double c0 = o->eta0 * o->gamma0 / o->P * o->Delta[mu];
    const double *H = o->H + at(o, l, mu, d, 0), *after = o->G + at(o, l + 1, mu, d, 0);
    for (int u = 0; u < units; u++) {
        double c = c0 * o->c[at(o, l, mu, o->E, u / o->S)];
        for (int i = 0; i < d; i++) {
            o->w1[(l * units + u) * d + i] += c * o->gk[at(o, l, mu, units, u)] * H[i];
            o->w2[(l * units + u) * d + i] += c * o->phi[at(o, l, mu, units, u)] * after[i];
        }
    }
    for (int k = 0; k < o->E; k++)
        for (int i = 0; i < d; i++)
            o->r[(l * o->E + k) * d + i] +=
                c0 * o->sd[at(o, l, mu, o->E, k)] * o->A[at(o, l, mu, o->E, k)] * H[i];
}

void reduction_residual_step(struct reduction_residual *o) {
    int d = o->d, P = o->P;
    double c0 = o->eta0 * o->gamma0 / P;
    for (int l = 0; l < o->L; l++) {
        o->load2[l] = 0;
        for (int mu = 0; mu < P; mu++)
            block_step(o, l, mu);
        for (int k = 0; k < o->E; k++) { /* (10) */
            double load = 0;
            for (int mu = 0; mu < P; mu++)
                load += o->mask[at(o, l, mu, o->E, k)] / P;
            o->b[l * o->E + k] -= o->eta_b * (load - o->rho);
            o->load2[l] += (load - o->rho) * (load - o->rho) / o->E;
        }
    }
    for (int mu = 0; mu < P; mu++)
        for (int i = 0; i < d; i++) {
            o->wv[i] += c0 * o->Delta[mu] * o->H[at(o, o->L, mu, d, i)];
            for (int nu = 0; nu < P; nu++)
                o->H0[mu * d + i] +=
                    c0 * o->Delta[nu] * o->Kx[mu * P + nu] * o->G[at(o, 0, nu, d, i)];
        }
}
