#include "tests/support/couple.h"
#include "tests/oracles/oracle_resnet.h"

#include <math.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle_resnet)

static void make(struct couple *p) {
    const struct config *c = &p->run.config;
    const struct data *data = &p->run.data;
    struct oracle_resnet *o = p->oracle =
        oracle_resnet_new(data->P, data->D, p->net.setup.N, c->network.block.depth);
    o->activation = oracles_activation(c->network.activation);
    o->loss = couple_loss(p);
    o->gamma0 = c->training.gamma0;
    o->branch = c->network.block.branch;
    p->X = o->X, p->y = o->y, p->f0 = o->f0;
    p->optimizer = oracle_optimizer_resnet(o);
}

/* Entries of variance one. */
static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    const struct oracle_resnet *o = p->oracle;
    part[0] = couple_part(sqrt(o->N), "W_%d", (int)(w - o->W) / (o->N * o->N));
    return 1;
}

static int kernels(const struct couple *p) {
    const struct oracle_resnet *o = p->oracle;
    return 2 * (o->L + 1) + o->L;
}

static double kernel(const struct couple *p, const char *name, int mu, int nu) {
    int l = strchr(name, '_')[1] - '0';
    return name[0] == 'P'   ? oracle_resnet_phi(p->oracle, l, mu, nu)
           : name[1] == 'h' ? oracle_resnet_hh(p->oracle, l, mu, nu)
                            : oracle_resnet_gg(p->oracle, l, mu, nu);
}

static const char *const settings[] = {"depth = 3\nbranch = 1.6", NULL};

COUPLE_ORACLE(resnet, .kernels = kernels);
