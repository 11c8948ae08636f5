#include "tests/support/couple.h"
#include "tests/oracles/oracle_regime3.h"

#include <math.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle3)

static void make(struct couple *p) {
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    const struct data *data = &p->run.data;
    int N = p->net.setup.N;
    struct oracle3 *o = p->oracle =
        oracle3_new(data->P, data->D, N, (int)lround(network->routing.kappa * N),
                    (int)lround(network->experts.iota * N));
    o->activation = oracles_activation(network->activation);
    o->gate = couple_gate(p);
    o->loss = couple_loss(p);
    o->gamma0 = c->training.gamma0;
    o->beta = network->routing.beta;
    o->rho = network->routing.rho;
    p->X = o->X, p->y = o->y, p->f0 = o->f0;
    p->hold_mask = &o->hold_mask;
    p->optimizer = oracle_optimizer_3(o);
}

/* psi = Q s1/sqrt N = W_Q s1, so Q = sqrt N W_Q; h3 = (1/M) sum_i phit Wout sigma/sqrt N is s_f W
 * on all pairs, or s_f A on the mean over experts. */
static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    static const char *const names[2][3] = {{"A_in", "P_in", "W_in"}, {"A_out", "P_out", "W_out"}};
    const struct oracle3 *o = p->oracle;
    if (w == o->block[ORACLE3_Q]) {
        part[0] = couple_part(sqrt(o->N), "Q");
        return 1;
    }
    bool out = w == o->block[ORACLE3_WOUT];
    for (int k = 0; k < 3; k++) {
        part[k] = couple_part(sqrt(o->N) * (out && k ? o->M : 1), "%s", names[out][k]);
        couple_experts(&part[k], o->M, out ? o->N : o->Ne, out ? o->Ne : o->N, out, k == 0);
    }
    return 3;
}

static int kernels(const struct couple *p) {
    bool mssp = p->run.config.network.parameterization == PARAMETERIZATION_MSSP;
    return 7 + 2 * mssp + 2 * p->net.gates.present;
}

static double kernel(const struct couple *p, const char *name, int mu, int nu) {
    static const char *const names[ORACLE3_KERNELS] = {
        "Phi1", "Phi3", "G1", "G3", "Phibar", "Gbar", "PhiE", "Phitil", "Gtil", "G1phi", "phit2"};
    for (int k = 0; k < ORACLE3_KERNELS; k++)
        if (!strcmp(name, names[k]))
            return oracle3_kernel(p->oracle, k, mu, nu);
    fail_msg("what is %s?", name);
    return 0;
}

static const char *const settings[] = {
    "kappa = 0.5\niota = 0.25\nparameterization = mssp",
    "kappa = 0.25\niota = 0.5\nparameterization = mup\ngate = softmax", NULL};

COUPLE_ORACLE(regime3, .kernels = kernels);
