#include "tests/oracles/oracle_residual.h"
#include "tests/oracles/oracle.h"

static double tanh_slope(double x) {
    return 1 / (cosh(x) * cosh(x));
}

struct oracle_residual *oracle_residual_new(int P, int D, int N, int E, int Ne, int L) {
    struct oracle_residual *o = memory(1, sizeof *o);
    o->P = P, o->D = D, o->N = N, o->E = E, o->Ne = Ne, o->L = L;
    o->gamma0 = o->eta0 = o->rho = 1;
    o->phi = tanh;
    o->dphi = tanh_slope;
    o->X = array(P * D);
    o->y = array(P);
    o->W0 = array(N * D);
    o->W1 = array(L * E * Ne * N);
    o->W2 = array(L * N * E * Ne);
    o->r = array(L * E * N);
    o->w = array(N);
    o->b = array(L * E);
    o->f0 = array(P);
    o->h = array((L + 1) * P * N);
    o->p = array(L * P * E);
    o->c = array(L * P * E);
    o->sd = array(L * P * E);
    o->mask = array(L * P * E);
    o->qstar = array(L * P);
    o->psi = array(L * P * E * Ne);
    o->f = array(P);
    o->Delta = array(P);
    o->g = array((L + 1) * P * N);
    o->z = array(L * P * E * Ne);
    o->u = array(L * P * E * Ne);
    o->A = array(L * P * E);
    return o;
}

void oracle_residual_free(struct oracle_residual *o) {
    double *const all[] = {o->X,  o->y, o->W0, o->W1,  o->W2,   o->r,    o->w,     o->b,
                           o->f0, o->h, o->p,  o->c,   o->sd,   o->f,    o->Delta, o->g,
                           o->z,  o->u, o->A,  o->psi, o->mask, o->qstar};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(o);
}

/* Row mu of layer l of an array [layers][P][width]. */
static double *row(const struct oracle_residual *o, double *a, int l, int mu, int width) {
    return a + ((size_t)l * (size_t)o->P + (size_t)mu) * (size_t)width;
}

/* The K largest of q; of equal ones the lower index. */
static void select(const struct oracle_residual *o, int l, int mu, const double *q) {
    double *mask = row(o, o->mask, l, mu, o->E);
    int K = whole(o->rho * o->E);
    for (int k = 0; k < o->E; k++) {
        int before = 0;
        for (int i = 0; i < o->E; i++)
            before += q[i] > q[k] || (q[i] == q[k] && i < k);
        mask[k] = before < K;
        if (before == K - 1)
            o->qstar[l * o->P + mu] = q[k];
    }
}

static void gates(struct oracle_residual *o, int l, int mu) {
    const double *h = row(o, o->h, l, mu, o->N), *r = o->r + l * o->E * o->N;
    double *p = row(o, o->p, l, mu, o->E), *q = array(o->E);
    for (int k = 0; k < o->E; k++) {
        p[k] = 0;
        for (int n = 0; n < o->N; n++)
            p[k] += r[k * o->N + n] * h[n] / o->N;
        q[k] = sig(p[k]) + o->b[l * o->E + k];
    }
    if (!o->hold_mask)
        select(o, l, mu, q);
    for (int k = 0; k < o->E; k++) {
        double m = row(o, o->mask, l, mu, o->E)[k];
        row(o, o->c, l, mu, o->E)[k] = m * sig(p[k]);
        row(o, o->sd, l, mu, o->E)[k] = m * sig(p[k]) * sig(-p[k]);
    }
    free(q);
}

static void block_forward(struct oracle_residual *o, int l, int mu) {
    int N = o->N, units = o->E * o->Ne;
    const double *h = row(o, o->h, l, mu, N), *c = row(o, o->c, l, mu, o->E);
    double *next = row(o, o->h, l + 1, mu, N), *psi = row(o, o->psi, l, mu, units);
    gates(o, l, mu);
    for (int i = 0; i < units; i++) {
        psi[i] = 0;
        for (int n = 0; n < N; n++)
            psi[i] += o->W1[(l * units + i) * N + n] * h[n] / sqrt(N);
    }
    for (int n = 0; n < N; n++) {
        double sum = 0;
        for (int i = 0; i < units; i++)
            sum += c[i / o->Ne] * o->W2[(l * N + n) * units + i] * o->phi(psi[i]);
        next[n] = h[n] + sqrt(N) / (o->Ne * o->E) * sum / o->L;
    }
}

double oracle_residual_forward(struct oracle_residual *o) {
    double loss = 0;
    for (int mu = 0; mu < o->P; mu++) {
        double *h = row(o, o->h, 0, mu, o->N), f = 0;
        for (int n = 0; n < o->N; n++) {
            h[n] = 0;
            for (int d = 0; d < o->D; d++)
                h[n] += o->W0[n * o->D + d] * o->X[mu * o->D + d] / sqrt(o->D);
        }
        for (int l = 0; l < o->L; l++)
            block_forward(o, l, mu);
        for (int n = 0; n < o->N; n++)
            f += o->w[n] * row(o, o->h, o->L, mu, o->N)[n] / (o->gamma0 * o->N);
        o->f[mu] = o->centre ? f - o->f0[mu] : f;
        o->Delta[mu] = o->y[mu] - o->f[mu];
        loss += o->Delta[mu] * o->Delta[mu] / 2 / o->P;
    }
    return loss;
}

static void block_backward(struct oracle_residual *o, int l, int mu) {
    int N = o->N, E = o->E, Ne = o->Ne, units = E * Ne;
    const double *after = row(o, o->g, l + 1, mu, N), *psi = row(o, o->psi, l, mu, units);
    const double *c = row(o, o->c, l, mu, E), *sd = row(o, o->sd, l, mu, E);
    double *g = row(o, o->g, l, mu, N), *A = row(o, o->A, l, mu, E);
    double *z = row(o, o->z, l, mu, units), *u = row(o, o->u, l, mu, units);
    for (int k = 0; k < E; k++) {
        A[k] = 0;
        for (int i = k * Ne; i < (k + 1) * Ne; i++) {
            z[i] = 0;
            for (int n = 0; n < N; n++)
                z[i] += o->W2[(l * N + n) * units + i] * after[n] / sqrt(N);
            u[i] = o->dphi(psi[i]) * z[i];
            A[k] += z[i] * o->phi(psi[i]) / Ne;
        }
    }
    for (int n = 0; n < N; n++) {
        double experts = 0, routers = 0;
        for (int i = 0; i < units; i++)
            experts += c[i / Ne] * o->W1[(l * units + i) * N + n] * u[i];
        for (int k = 0; k < E; k++)
            routers += sd[k] * A[k] * o->r[(l * E + k) * N + n];
        g[n] = after[n] + sqrt(N) / (Ne * E) * experts / o->L + routers / (o->L * E);
    }
}

void oracle_residual_backward(struct oracle_residual *o) {
    for (int mu = 0; mu < o->P; mu++) {
        for (int n = 0; n < o->N; n++)
            row(o, o->g, o->L, mu, o->N)[n] = o->w[n];
        for (int l = o->L - 1; l >= 0; l--)
            block_backward(o, l, mu);
    }
}

static void block_step(struct oracle_residual *o, int l, int mu, double c0) {
    int N = o->N, E = o->E, units = E * o->Ne;
    const double *h = row(o, o->h, l, mu, N), *after = row(o, o->g, l + 1, mu, N);
    const double *c = row(o, o->c, l, mu, E), *psi = row(o, o->psi, l, mu, units);
    const double *u = row(o, o->u, l, mu, units);
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < units; i++) {
            double gate = c0 / sqrt(N) * o->Delta[mu] * c[i / o->Ne];
            o->W1[(l * units + i) * N + n] += gate * u[i] * h[n];
            o->W2[(l * N + n) * units + i] += gate * after[n] * o->phi(psi[i]);
        }
        for (int k = 0; k < E; k++)
            o->r[(l * E + k) * N + n] +=
                c0 * o->Delta[mu] * row(o, o->sd, l, mu, E)[k] * row(o, o->A, l, mu, E)[k] * h[n];
    }
}

void oracle_residual_step(struct oracle_residual *o) {
    double c0 = o->eta0 * o->gamma0 / o->P;
    for (int mu = 0; mu < o->P; mu++) {
        for (int l = 0; l < o->L; l++)
            block_step(o, l, mu, c0);
        for (int n = 0; n < o->N; n++) {
            o->w[n] += c0 * o->Delta[mu] * row(o, o->h, o->L, mu, o->N)[n];
            for (int d = 0; d < o->D; d++)
                o->W0[n * o->D + d] += c0 * o->Delta[mu] * row(o, o->g, 0, mu, o->N)[n] *
                                       o->X[mu * o->D + d] / sqrt(o->D);
        }
    }
    for (int l = 0; l < o->L; l++)
        for (int k = 0; k < o->E; k++) {
            double load = 0;
            for (int mu = 0; mu < o->P; mu++)
                load += row(o, o->mask, l, mu, o->E)[k] / o->P;
            o->b[l * o->E + k] -= o->eta_b * (load - o->rho);
        }
}

double *oracle_residual_block(struct oracle_residual *o, int block, int *count) {
    double *const blocks[] = {o->W0, o->W1, o->W2, o->r, o->w};
    const int units = o->E * o->Ne;
    const int counts[] = {o->N * o->D, o->L * units * o->N, o->L * o->N * units, o->L * o->E * o->N,
                          o->N};
    *count = counts[block];
    return blocks[block];
}

double oracle_residual_rate(const struct oracle_residual *o, int block) {
    double rate = o->eta0 * o->gamma0 * o->gamma0;
    switch (block) {
    case ORACLE_RESIDUAL_W1:
    case ORACLE_RESIDUAL_W2:
        return rate * o->Ne * o->E * o->L;
    case ORACLE_RESIDUAL_R:
        return rate * o->N * o->E * o->L;
    default:
        return rate * o->N;
    }
}

double oracle_residual_Ch(const struct oracle_residual *o, int l, int mu, int nu) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += row(o, o->h, l, mu, o->N)[n] * row(o, o->h, l, nu, o->N)[n] / o->N;
    return sum;
}

double oracle_residual_Cg(const struct oracle_residual *o, int l, int mu, int nu) {
    double sum = 0;
    for (int n = 0; n < o->N; n++)
        sum += row(o, o->g, l, mu, o->N)[n] * row(o, o->g, l, nu, o->N)[n] / o->N;
    return sum;
}

double oracle_residual_Mphi(const struct oracle_residual *o, int l, int mu, int nu) {
    double sum = 0;
    for (int i = 0, units = o->E * o->Ne; i < units; i++) {
        double a = o->phi(row(o, o->psi, l, mu, units)[i]);
        double b = o->phi(row(o, o->psi, l, nu, units)[i]);
        sum += row(o, o->c, l, mu, o->E)[i / o->Ne] * row(o, o->c, l, nu, o->E)[i / o->Ne] * a * b /
               units;
    }
    return sum;
}

double oracle_residual_Mg(const struct oracle_residual *o, int l, int mu, int nu) {
    double sum = 0;
    for (int i = 0, units = o->E * o->Ne; i < units; i++)
        sum += row(o, o->c, l, mu, o->E)[i / o->Ne] * row(o, o->c, l, nu, o->E)[i / o->Ne] *
               row(o, o->u, l, mu, units)[i] * row(o, o->u, l, nu, units)[i] / units;
    return sum;
}

double oracle_residual_MAA(const struct oracle_residual *o, int l, int mu, int nu) {
    double sum = 0;
    for (int k = 0; k < o->E; k++)
        sum += row(o, o->sd, l, mu, o->E)[k] * row(o, o->A, l, mu, o->E)[k] *
               row(o, o->sd, l, nu, o->E)[k] * row(o, o->A, l, nu, o->E)[k] / o->E;
    return sum;
}

double oracle_residual_load2(const struct oracle_residual *o, int l) {
    double sum = 0;
    for (int k = 0; k < o->E; k++) {
        double load = 0;
        for (int mu = 0; mu < o->P; mu++)
            load += row(o, o->mask, l, mu, o->E)[k] / o->P;
        sum += (load - o->rho) * (load - o->rho) / o->E;
    }
    return sum;
}
