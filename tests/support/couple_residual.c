#include "tests/support/couple.h"
#include "models/networks/residual.h"
#include "models/parts/balance.h"
#include "tests/oracles/oracle_residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle_residual)

static void make(struct couple *p) {
    const struct config *c = &p->run.config;
    const struct data *data = &p->run.data;
    double E, N_e;
    residual_shape(&c->network, p->net.setup.N, &E, &N_e);
    struct oracle_residual *o = p->oracle = oracle_residual_new(
        data->P, data->D, p->net.setup.N, (int)lround(E), (int)lround(N_e), c->network.block.depth);
    o->gamma0 = c->training.gamma0;
    o->rho = c->network.routing.rho;
    o->eta_b = c->network.routing.eta_bias;
    for (int l = 0; l < o->L; l++)
        balance_biases(&p->net.setup, l, o->E, o->b + l * o->E);
    p->X = o->X, p->y = o->y, p->f0 = o->f0;
    p->centre = &o->centre;
    p->hold_mask = &o->hold_mask;
    p->optimizer = oracle_optimizer_residual(o);
}

/* [L] matrices each. */
static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    const struct oracle_residual *o = p->oracle;
    int N = o->N, units = o->E * o->Ne, size = w == o->r ? o->E * N : units * N;
    for (int l = 0; l < o->L; l++) {
        part[l] = w == o->r    ? couple_part(N, "R_%d", l)
                  : w == o->W1 ? couple_part(sqrt(N), "W1_%d", l)
                               : couple_part(sqrt(units), "W2_%d", l);
        part[l].first = l * size;
        part[l].axis[0] = part[l].axis[1] = (struct couple_axis){1, 0, 0};
        part[l].axis[2] = (struct couple_axis){size, 1, 1};
    }
    return o->L;
}

static int kernels(const struct couple *p) {
    const struct oracle_residual *o = p->oracle;
    return 5 * o->L + 2;
}

static double kernel(const struct couple *p, const char *name, int mu, int nu) {
    static const struct {
        const char *name;
        double (*want)(const struct oracle_residual *, int, int, int);
    } known[] = {{"Ch", oracle_residual_Ch},
                 {"Cg", oracle_residual_Cg},
                 {"Mphi", oracle_residual_Mphi},
                 {"Mg", oracle_residual_Mg},
                 {"MAA", oracle_residual_MAA}};
    size_t length = strcspn(name, "_");
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strlen(known[k].name) == length && !strncmp(known[k].name, name, length))
            return known[k].want(p->oracle, atoi(name + length + 1), mu, nu);
    fail_msg("what is %s?", name);
    return 0;
}

/* Means over the experts of x [E] and of its square. */
static double mean(const double *x, int E, int power) {
    double sum = 0;
    for (int k = 0; k < E; k++)
        sum += pow(x[k], power) / E;
    return sum;
}

static void more(const struct couple *p, int t, double tolerance) {
    const struct oracle_residual *o = p->oracle;
    const struct net *net = &p->net;
    for (int a = 0, E = o->E; a < o->L * o->P; a++) {
        double A = mean(o->A + a * E, E, 1);
        CHECK_ABS(support_measured(net, "p")[a], mean(o->p + a * E, E, 1), tolerance,
                  "%s: p[%d] at %d", p->what, a, t);
        CHECK_ABS(support_measured(net, "p2")[a], mean(o->p + a * E, E, 2), tolerance,
                  "%s: p2[%d] at %d", p->what, a, t);
        CHECK_ABS(support_measured(net, "A")[a], A, tolerance * fmax(1, fabs(A)), "%s: A[%d] at %d",
                  p->what, a, t);
        if (o->rho < 1)
            CHECK_ABS(support_measured(net, "qstar")[a], o->qstar[a], tolerance,
                      "%s: qstar[%d] at %d", p->what, a, t);
    }
    for (int l = 0, E = o->E; l < o->L && o->rho < 1; l++) {
        double b = mean(o->b + l * E, E, 1);
        CHECK_ABS(support_measured(net, "b2")[l], mean(o->b + l * E, E, 2) - b * b, tolerance,
                  "%s: b2[%d] at %d", p->what, l, t);
        CHECK_ABS(support_measured(net, "load2")[l], oracle_residual_load2(o, l), tolerance,
                  "%s: load2[%d] at %d", p->what, l, t);
    }
}

static const char *const settings[] = {"alpha = 0.5\nexpert_width = 4\ndepth = 2", NULL};

COUPLE_ORACLE(residual, .kernels = kernels, .more = more);
