#include "tests/support/couple.h"
#include "tests/oracles/oracle_regime1.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle1)

static void make(struct couple *p) {
    static const enum oracle1_gate gate[] = {[GATE_SOFTMAX] = ORACLE1_SOFTMAX,
                                             [GATE_SIGMOID] = ORACLE1_SIGMOID,
                                             [GATE_CONSTANT] = ORACLE1_CONSTANT};
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    const struct data *data = &p->run.data;
    int M = network->experts.count;
    struct oracle1 *o = p->oracle =
        oracle1_new(data->P, data->D, p->net.setup.N, M, network->experts.layers);
    o->gate = gate[network->routing.gate];
    o->activation = oracles_activation(network->activation);
    o->loss = couple_loss(p);
    o->activated = network->experts.output == EXPERT_OUTPUT_ACTIVATED;
    o->K = network->routing.rho < 1 ? (int)lround(network->routing.rho * M) : 0;
    o->gamma0 = c->training.gamma0;
    o->kappa_Q = network->routing.router_rate;
    o->kappa_b = network->routing.bias == BIAS_TRAINED;
    for (int i = 0; i < M && network->routing.bias; i++)
        o->b[i] = network->routing.biases.value[i];
    p->X = o->X, p->y = o->y, p->f0 = o->f0;
    p->centre = &o->centre;
    p->hold_mask = &o->hold_mask;
    p->optimizer = oracle_optimizer_1(o);
    if (network->parameterization == PARAMETERIZATION_SP)
        oracle_optimizer_sp(p->optimizer, o);
}

/* The noise on the logits: the same normals for the limit and all networks of a seed. */
static void at(struct couple *p, int t) {
    struct oracle1 *o = p->oracle;
    struct rng_stream stream = {.seed = 1, .purpose = PURPOSE_BIAS, .owner = 1};
    double pair[2];
    for (int i = 0; i < o->M; i++) {
        rng_normal_pair(stream, (uint32_t)t, (uint32_t)i / 2, pair);
        o->noise[i] = p->run.config.network.routing.bias_noise * pair[i % 2];
    }
}

static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    const struct oracle1 *o = p->oracle;
    int number = (int)(w - o->W) / (o->N * o->N);
    part[0] = w == o->Q   ? couple_part(1, "Q")
              : w == o->b ? couple_part(1, "b")
                          : couple_part(sqrt(o->N), "W%d_%d", number / o->M + 2, number % o->M);
    return 1;
}

static int kernels(const struct couple *p) {
    const struct oracle1 *o = p->oracle;
    return 3 + o->M * (o->activated ? 2 * o->E : 2 * o->E - 1);
}

static double kernel(const struct couple *p, const char *name, int mu, int nu) {
    const struct oracle1 *o = p->oracle;
    int k = 1, i = 0;
    if (!strcmp(name, "PhiL"))
        return oracle1_phiL(o, mu, nu);
    bool phi = name[0] == 'P';
    sscanf(name + (phi ? 3 : 1), "%d_%d", &k, &i);
    if (k == 1)
        return phi ? oracle1_phi1(o, mu, nu) : oracle1_g1(o, mu, nu);
    return phi ? oracle1_phi(o, k - 2, i, mu, nu) : oracle1_gg(o, k - 2, i, mu, nu);
}

/* The entropy in another form: ln sum p - sum_i p_i ln p_i / sum p. */
static void check_entropy(const struct couple *p) {
    const struct oracle1 *o = p->oracle;
    const double *gates = support_measured(&p->net, "p"),
                 *entropy = support_measured(&p->net, "router_entropy");
    for (int mu = 0; mu < o->P; mu++) {
        double sum = 0, part = 0;
        for (const double *q = gates + mu * o->M; q < gates + (mu + 1) * o->M; q++) {
            sum += *q;
            part += *q > 0 ? *q * log(*q) : 0;
        }
        CHECK_ABS(entropy[mu], (log(sum) - part / sum) / log(o->M), 1e-14, "%s: entropy", p->what);
    }
}

static void more(const struct couple *p, int t, double tolerance) {
    const struct oracle1 *o = p->oracle;
    if (o->gate == ORACLE1_CONSTANT)
        return;
    const double *psi = support_measured(&p->net, "psi"), *gphi = support_measured(&p->net, "gphi");
    for (int k = 0; k < o->P * o->M; k++) {
        CHECK_ABS(psi[k], o->psi[k], tolerance, "%s: psi[%d] at %d", p->what, k, t);
        CHECK_ABS(gphi[k], o->gphi[k], tolerance, "%s: gphi[%d] at %d", p->what, k, t);
    }
    if (o->M > 1)
        check_entropy(p);
}

static const char *const settings[] = {
    "experts = 2\nexpert_layers = 2\ngate = softmax\nbias=trained\nbiases=.6 -.6",
    "experts = 3\nexpert_layers = 2\ngate = softmax\nbias = trained\nq0 = 1",
    "experts = 3\ngate = sigmoid\nq0 = 1",
    "experts = 2\ngate = sigmoid\nexpert_output = activated",
    "experts = 2\nparameterization = sp\nrouter_rate = 1",
    NULL};

COUPLE_ORACLE(regime1, .at = at, .kernels = kernels, .absolute = true, .more = more);
