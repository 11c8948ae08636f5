#include "tests/support/couple.h"
#include "tests/oracles/oracle_regime2.h"

#include <math.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle)

static void make(struct couple *p) {
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    const struct data *data = &p->run.data;
    int N = p->net.setup.N, M = (int)lround(network->routing.kappa * N);
    struct oracle *o = p->oracle = oracle_new(data->P, data->D, N, M, network->experts.width);
    o->activation = oracles_activation(network->activation);
    o->gate = couple_gate(p);
    o->loss = couple_loss(p);
    o->gamma0 = c->training.gamma0;
    o->beta = network->routing.beta;
    o->rho = network->routing.rho;
    o->lambda_in = network->routing.lambda_in == LAMBDA_IN_KAPPA ? network->routing.kappa : 1;
    p->X = o->X, p->y = o->y, p->f0 = o->f0;
    p->centre = &o->centre;
    p->hold_mask = &o->hold_mask;
    p->optimizer = oracle_optimizer_2(o);
}

static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    const struct oracle *o = p->oracle;
    part[0] = w == o->Q      ? couple_part(sqrt(o->N), "Q")
              : w == o->W2in ? couple_part(sqrt(o->N), "W_in")
                             : couple_part(sqrt(o->M * o->Ne), "W_out");
    return 1;
}

static double top(const struct oracle *o, int mu, int nu) {
    (void)mu, (void)nu;
    return oracle_g3(o);
}

static int kernels(const struct couple *p) {
    const struct oracle *o = p->oracle;
    return o->gate == ORACLE_CONSTANT ? 6 : 7;
}

static double kernel(const struct couple *p, const char *name, int mu, int nu) {
    static const struct {
        const char *name;
        double (*want)(const struct oracle *, int, int);
    } known[] = {{"Phi1", oracle_phi1}, {"Phi3", oracle_phi3}, {"G1", oracle_g1},    {"G3", top},
                 {"Phib", oracle_phib}, {"Gb", oracle_gb},     {"Gphi", oracle_gphi}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(known[k].name, name))
            return known[k].want(p->oracle, mu, nu);
    fail_msg("what is %s?", name);
    return 0;
}

static const char *const settings[] = {
    "kappa = 0.5\nexpert_width = 2\nparameterization = mssp\ngate = softmax",
    "kappa = 0.5\nexpert_width = 3\nparameterization = mup", NULL};

COUPLE_ORACLE(regime2, .kernels = kernels);
