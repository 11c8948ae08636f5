#include "tests/support/couple.h"

static void settle(const struct couple *p, struct oracle *of) {
    of->network = &oracle_resnet;
    of->L = p->run.config.network.block.depth;
    of->branch = p->run.config.network.block.branch;
}

/* Entries of variance one. */
static int parts(const struct couple *p, int block, struct couple_part *part) {
    part[0] = couple_part(sqrt(p->oracle->N), "W_%d", block - 2);
    return 1;
}

static int kernels(const struct couple *p) {
    return 2 * (p->oracle->L + 1) + p->oracle->L;
}

static const char *const settings[] = {"depth = 3\nbranch = 1.6", NULL};

const struct couple_oracle couple_resnet = {
    .model = "resnet", .settings = settings, .settle = settle, .parts = parts, .kernels = kernels};
