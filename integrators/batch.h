/* Which inputs a step trains on. Step t takes the places t P, t P + 1, ... of the endless sequence
 * of epochs, each of them a permutation of the n inputs: the identity, or one that is a pure
 * function of order_seed and the epoch. A batch may hold the end of one epoch and the beginning of
 * the next. As long as steps x P <= n every input is used once (single pass). */
#pragma once

#include "integrators/integrator.h"

enum batch_order { BATCH_CYCLIC, BATCH_SHUFFLED };

struct batch {
    int inputs, size, order; /* n, P */
    uint64_t seed;
    long long epoch;  /* that `permutation` belongs to; -1: none */
    int *permutation; /* [n] */
};

/* P of a training set. */
int batch_size(const struct training *training, int inputs);
int batch_init(struct batch *batch, const struct training *training, int inputs, struct err *err);
void batch_free(struct batch *batch); /* accepts a zeroed struct; idempotent */
/* index [P] <- the inputs of step t. */
void batch_at(struct batch *batch, int t, int *index);
