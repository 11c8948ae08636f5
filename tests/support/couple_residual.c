#include "tests/support/couple.h"
#include "models/parts/block.h"

static void settle(const struct couple *p, struct oracle *of) {
    const struct config *c = &p->run.config;
    double M, N_e;
    residual_shape(&c->network, p->net.setup.N, &M, &N_e);
    of->network = &oracle_residual;
    of->activation = ORACLE_TANH;
    of->M = (int)lround(M);
    of->N_e = (int)lround(N_e);
    of->L = c->network.block.depth;
    of->eta_b = c->network.routing.eta_bias;
}

static void fill(struct couple *p) {
    for (int l = 0; l < p->oracle->L; l++)
        balance_biases(&p->net.setup, l, p->oracle->M, p->oracle->bias + l * p->oracle->M);
}

/* [L] matrices each. */
static int parts(const struct couple *p, int block, struct couple_part *part) {
    static const char *const names[] = {"W1", "W2", "R"};
    const struct oracle *o = p->oracle;
    double factor[] = {sqrt(o->N), sqrt(o->M * o->N_e), o->N};
    for (int l = 0; l < o->L; l++)
        part[l] = couple_slice(couple_part(factor[block - 2], "%s_%d", names[block - 2], l), l,
                               o->block[block].count / o->L);
    return o->L;
}

static int kernels(const struct couple *p) {
    return 5 * p->oracle->L + 2;
}

/* Means over the experts of x [E] and of its square. */
static double mean(const double *x, int E, int power) {
    double sum = 0;
    for (int k = 0; k < E; k++)
        sum += pow(x[k], power) / E;
    return sum;
}

static void check(const struct couple *p, const char *name, int k, double want, double tolerance) {
    CHECK_ABS(support_measured(&p->net, name)[k], want, tolerance * fmax(1, fabs(want)),
              "%s: %s[%d]", p->what, name, k);
}

static const double *rows_of(const struct couple *p, const char *name, int l) {
    TEXT(full, 32, "%s_%d", name, l);
    return oracle_find(p->oracle, full)->values;
}

/* The smallest sig(p) + b that is selected. */
static double smallest(const struct oracle *o, int l, int mu, const double *p) {
    const double *mask = o->mask + (l * o->P + mu) * o->M, *b = o->bias + l * o->M;
    double q = INFINITY;
    for (int k = 0; k < o->M; k++)
        q = mask[k] > 0 ? fmin(q, 1 / (1 + exp(-p[k])) + b[k]) : q;
    return q;
}

static void more(const struct couple *p, int t, double tolerance) {
    const struct oracle *o = p->oracle;
    (void)t;
    for (int l = 0, E = o->M; l < o->L; l++) {
        double load2 = 0, b = mean(o->bias + l * E, E, 1);
        for (int mu = 0; mu < o->P; mu++) {
            const double *logits = rows_of(p, "logits", l) + mu * E;
            int k = l * o->P + mu;
            check(p, "p", k, mean(logits, E, 1), tolerance);
            check(p, "p2", k, mean(logits, E, 2), tolerance);
            check(p, "A", k, mean(rows_of(p, "A", l) + mu * E, E, 1), tolerance);
            if (o->rho < 1)
                check(p, "qstar", k, smallest(o, l, mu, logits), tolerance);
        }
        for (int i = 0; i < E; i++) {
            double load = 0;
            for (int mu = 0; mu < o->P; mu++)
                load += o->mask[(l * o->P + mu) * E + i] / o->P;
            load2 += (load - o->rho) * (load - o->rho) / E;
        }
        if (o->rho < 1) {
            check(p, "b2", l, mean(o->bias + l * E, E, 2) - b * b, tolerance);
            check(p, "load2", l, load2, tolerance);
        }
    }
}

static const char *const settings[] = {"alpha = 0.5\nexpert_width = 4\ndepth = 2", NULL};

const struct couple_oracle couple_residual =
    LIST(.model = "residual", .settings = settings, .settle = settle, .fill = fill, .parts = parts,
         .kernels = kernels, .more = more);
