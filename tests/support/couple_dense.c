#include "tests/support/couple.h"
#include "tests/oracles/oracle_dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle_dense)

static void make(struct couple *p) {
    const struct config *c = &p->run.config;
    const struct data *data = &p->run.data;
    struct oracle_dense *o = p->oracle =
        oracle_dense_new_outputs(data->P, data->D, p->net.setup.N, c->network.block.depth, data->C);
    o->activation = oracles_activation(c->network.activation);
    o->loss = couple_loss(p);
    o->gamma0 = c->training.gamma0;
    p->X = o->X, p->y = o->y, p->f0 = o->f0;
    p->centre = &o->centre;
    p->optimizer = oracle_optimizer_dense(o);
}

static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    const struct oracle_dense *o = p->oracle;
    part[0] = couple_part(sqrt(o->N), "W%d", 2 + (int)(w - o->W) / (o->N * o->N));
    return 1;
}

static int kernels(const struct couple *p) {
    const struct oracle_dense *o = p->oracle;
    return 2 * o->depth + 1;
}

static double kernel(const struct couple *p, const char *name, int mu, int nu) {
    const struct oracle_dense *o = p->oracle;
    if (!strcmp(name, "PhiL"))
        return oracle_dense_phi(o, o->depth, mu, nu);
    return name[0] == 'P' ? oracle_dense_phi(o, atoi(name + 3), mu, nu)
                          : oracle_dense_gg(o, atoi(name + 1), mu, nu);
}

static const char *const settings[] = {"depth = 3", "depth = 2\nactivation = softplus", NULL};

COUPLE_ORACLE(dense, .kernels = kernels, .absolute = true);
