#include "tests/support/couple.h"

static void settle(const struct couple *p, struct oracle *of) {
    of->network = &oracle_stack;
    of->single = of->activated = true;
    of->gate = ORACLE_CONSTANT;
    of->rho = of->M = 1;
    of->N_e = of->N;
    of->E = p->run.config.network.block.depth - 1;
}

static int parts(const struct couple *p, int block, struct couple_part *part) {
    part[0] = couple_part(sqrt(p->oracle->N), "W%d", block);
    return 1;
}

static int kernels(const struct couple *p) {
    return 2 * p->oracle->E + 3;
}

static const char *const settings[] = {"depth = 3", "depth = 2\nactivation = softplus", NULL};

const struct couple_oracle couple_dense =
    LIST(.model = "dense", .settings = settings, .settle = settle, .parts = parts,
         .kernels = kernels, .absolute = true);
