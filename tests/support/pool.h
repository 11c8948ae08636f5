/* A population on the backend under test, whose pool draws normals. */
#pragma once

#include "kernels/draws/population.h"
#include "tests/support/each_backend.h"

/* max |<a_k b_l>|, less the unit matrix if a and b are the same rows */
static inline double overlap(struct rows a, struct rows b) {
    bool same = a.array == b.array && a.first == b.first;
    double *C = memory((size_t)(a.count * b.count), sizeof *C), largest = 0;
    backend->dots(a, b, C);
    for (int i = 0; i < a.count * b.count; i++) {
        double c = fabs(C[i] - (same && i % b.count == i / b.count));
        largest = isnan(c) ? INFINITY : fmax(largest, c);
    }
    free(C);
    return largest;
}

static inline void open_population(struct population *p, size_t sites, bool matched,
                                   uint32_t replicate) {
    *p = (struct population)LIST(.name = "layer 3", .backend = backend, .size = POPULATION_INFINITE,
                                 .sites = sites, .group = 1, .draws.matched = matched,
                                 .draws.stream = {.seed = 3, .purpose = PURPOSE_POOL, .owner = 2});
    p->draws.stream.replicate = replicate;
    ASK(population_init(p, &err));
}
