/* Populations of every kind for programs that tests write, and a run to try these on. */
#pragma once

#include "tests/support/support.h"
#include "models/language/program.h"

enum { BOTTOM, EXPERTS, UNITS, UNIT, PAIRS, TOP, PLACES };
static struct population *on[PLACES]; /* set by populate */

static inline void populate(struct program *p) {
    const struct net_setup *setup = program_setup(p);
    size_t S = (size_t)setup->limit.sites;
    on[BOTTOM] = program_population(p, "bottom", 1, S, 1);
    on[EXPERTS] = program_population(p, "experts", 0.5, S / 2, 1);
    on[UNITS] = program_population(p, "units", 1, S / 2 * 2, 2);
    on[UNIT] = program_population(p, "unit", 0.25, S / 4, 1);
    on[PAIRS] = program_population(p, "pairs", 0.25 * on[EXPERTS]->size, S / 2 * (S / 4),
                                   (int)on[UNIT]->sites);
    on[UNITS]->of = on[PAIRS]->of = on[EXPERTS];
    on[PAIRS]->units = on[UNIT];
    on[TOP] = program_population(p, "top", 1, S, 1);
}

static inline void start(struct run *run, const char *const *more) {
    const char *overrides[16] = {"data.inputs=6", "data.dimension=4", "training.eta0=0.1",
                                 "training.gamma0=1.5", "reference.widths="};
    for (int n = 5; *more; n++)
        overrides[n] = *more++;
    support_run(run, "data/dense.ini", overrides);
}
