#include "integrators/integrator.h"

int batch_size(const struct training *training, int inputs) {
    return training->batches.size ? training->batches.size : inputs;
}

int batch_init(struct batch *batch, const struct training *training, int inputs, struct err *err) {
    *batch = (struct batch){.inputs = inputs,
                            .size = batch_size(training, inputs),
                            .order = training->batches.order,
                            .seed = training->batches.seed,
                            .epoch = -1};
    return base_alloc(&batch->permutation, (size_t)inputs, sizeof(int), err);
}

void batch_free(struct batch *batch) {
    free(batch->permutation);
    *batch = (struct batch){0};
}

/* Fisher and Yates; the bias of 64 random bits modulo i + 1 is below 2^-47. */
static void begin_epoch(struct batch *batch, long long epoch) {
    struct rng_stream stream = {.seed = batch->seed, .purpose = PURPOSE_ORDER};
    uint32_t bits[4];
    batch->epoch = epoch;
    for (int i = 0; i < batch->inputs; i++)
        batch->permutation[i] = i;
    for (int i = batch->inputs - 1; i > 0 && batch->order == BATCH_SHUFFLED; i--) {
        rng_bits(stream, (uint32_t)epoch, (uint32_t)i, bits);
        uint64_t random = (uint64_t)bits[1] << 32 | bits[0];
        int k = (int)(random % ((uint64_t)i + 1)), moved = batch->permutation[k];
        batch->permutation[k] = batch->permutation[i];
        batch->permutation[i] = moved;
    }
}

void batch_at(struct batch *batch, int t, int *index) {
    for (int mu = 0; mu < batch->size; mu++) {
        long long place = (long long)t * batch->size + mu, epoch = place / batch->inputs;
        if (epoch != batch->epoch)
            begin_epoch(batch, epoch);
        index[mu] = batch->permutation[place % batch->inputs];
    }
}
