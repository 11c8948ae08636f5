#include "tests/support/couple.h"

static void settle(const struct couple *p, struct oracle *of) {
    const struct network *network = &p->run.config.network;
    of->network = &oracle_stack;
    of->single = true;
    of->regime = 3;
    of->E = 2;
    of->M = (int)lround(network->routing.kappa * of->N);
    of->N_e = (int)lround(network->experts.iota * of->N);
}

/* psi = Q s1/sqrt N = W_Q s1, so Q = sqrt N W_Q; h3 = (1/M) sum_i phit Wout sigma/sqrt N is s_f W
 * on all pairs, or s_f A on the mean over experts. */
static int parts(const struct couple *p, int block, struct couple_part *part) {
    static const char *const names[2][3] = {{"A_in", "P_in", "W_in"}, {"A_out", "P_out", "W_out"}};
    const struct oracle *o = p->oracle;
    int out = block - (o->blocks - o->E);
    if (out < 0) {
        part[0] = couple_part(sqrt(o->N), "Q");
        return 1;
    }
    for (int k = 0; k < 3; k++) {
        part[k] = couple_part(sqrt(o->N) * (out && k ? o->M : 1), "%s", names[out][k]);
        couple_experts(&part[k], o->M, out ? o->N : o->N_e, out ? o->N_e : o->N, out, k == 0);
    }
    return 3;
}

static int kernels(const struct couple *p) {
    bool mssp = p->run.config.network.parameterization == PARAMETERIZATION_MSSP;
    return 7 + 2 * mssp + 2 * p->net.gates.present;
}

static const char *const settings[] = {
    "kappa = 0.5\niota = 0.25\nparameterization = mssp",
    "kappa = 0.25\niota = 0.5\nparameterization = mup\ngate = softmax", NULL};

const struct couple_oracle couple_regime3 = {
    .model = "regime3", .settings = settings, .settle = settle, .parts = parts, .kernels = kernels};
