#include "tests/support/couple.h"

static void settle(const struct couple *p, struct oracle *of) {
    const struct network *network = &p->run.config.network;
    of->network = &oracle_stack;
    of->single = true;
    of->regime = of->E = 2;
    of->M = (int)lround(network->routing.kappa * of->N);
    of->N_e = network->experts.width;
}

/* W_out is [N][M][N_e] in the net. */
static int parts(const struct couple *p, int block, struct couple_part *part) {
    const struct oracle *o = p->oracle;
    int matrix = block - (o->blocks - o->E), all = o->M * o->N_e;
    part[0] = couple_part(sqrt(matrix == 1 ? all : o->N), "%s",
                          matrix < 0    ? "Q"
                          : matrix == 0 ? "W_in"
                                        : "W_out");
    if (matrix == 1) {
        part[0].axis[0] = (struct couple_axis){o->M, o->N * o->N_e, o->N_e};
        part[0].axis[1] = (struct couple_axis){o->N, o->N_e, all};
        part[0].axis[2] = (struct couple_axis){o->N_e, 1, 1};
    }
    return 1;
}

static int kernels(const struct couple *p) {
    return p->oracle->gate == ORACLE_CONSTANT ? 6 : 7;
}

static const char *const settings[] = {
    "kappa = 0.5\nexpert_width = 2\nparameterization = mssp\ngate = softmax",
    "kappa = 0.5\nexpert_width = 3\nparameterization = mup", NULL};

const struct couple_oracle couple_regime2 = {
    .model = "regime2", .settings = settings, .settle = settle, .parts = parts, .kernels = kernels};
