#include "solver/data/normals.h"
#include "kernels/draws/rng.h"

/* A polynomial of degree 4 in four directions. */
static double climb(const double *x) {
    return (x[0] + x[0] * x[1] + x[0] * x[1] * x[2] + x[0] * x[1] * x[2] * x[3]) / 2;
}

int normals_draw(struct data *data, uint64_t seed, bool staircase, struct err *err) {
    struct rng_stream stream = {.seed = seed, .purpose = PURPOSE_DATA};
    size_t D = (size_t)data->D, C = (size_t)data->C;
    double pair[2];
    for (size_t row = 0; row < data_rows(data); row++) {
        TRY(base_poll(err, "inputs are drawn"));
        for (size_t i = 0; i < D; i++) {
            rng_normal_pair(stream, (uint32_t)row, (uint32_t)(i / 2), pair);
            data->X[row * D + i] = pair[i % 2];
        }
    }
    for (size_t mu = 0; mu < data_places(data); mu++)
        if (C > 1)
            data->y[mu * C + mu % C] = 1;
        else if (staircase)
            data->y[mu] = climb(data->X + mu * D);
        else
            data->y[mu] = mu % 2 ? -1 : 1;
    return CODE_OK;
}
