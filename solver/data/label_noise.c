#include "solver/data/label_noise.h"
#include "kernels/draws/rng.h"

enum { OWNER_LABEL_NOISE = 10 }; /* of PURPOSE_DATA, beside those of the sources */

/* By how many classes, from 1 to C - 1, target number k is moved; 0: it stays. */
static int shift_of(struct rng_stream stream, size_t k, double share, int C) {
    uint32_t bits[4];
    rng_bits(stream, (uint32_t)(k >> 32), (uint32_t)k, bits);
    double u = (double)((((uint64_t)bits[1] << 32) | bits[0]) >> 11) * 0x1p-53;
    uint64_t other = ((uint64_t)bits[3] << 32) | bits[2];
    return u < share ? 1 + (int)(other % (uint64_t)(C - 1)) : 0;
}

static void move_row(double *y, int C, int shift) {
    int c = 0;
    while (c < C && y[c] == 0)
        c++;
    if (c == C) /* not asked */
        return;
    y[c] = 0;
    y[(c + shift) % C] = 1;
}

void label_noise_apply(struct data *data, double share, uint64_t seed) {
    struct rng_stream stream = {.seed = seed, .purpose = PURPOSE_DATA, .owner = OWNER_LABEL_NOISE};
    size_t places = (size_t)data->P * (data->per_token ? (size_t)data->n : 1);
    for (size_t k = 0; k < places; k++) {
        int shift = shift_of(stream, k, share, data->C == 1 ? 2 : data->C);
        if (shift && data->C == 1)
            data->y[k] = -data->y[k];
        else if (shift && !data->numbered)
            move_row(data->y + k * (size_t)data->C, data->C, shift);
        else if (shift && data->y[k] >= 0)
            data->y[k] = ((int)data->y[k] + shift) % data->C;
    }
}
