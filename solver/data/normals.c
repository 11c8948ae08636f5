#include "solver/data/normals.h"
#include "kernels/draws/rng.h"

/* These are owners of PURPOSE_DATA, beside 0 of what follows, and those of tokens.c and corpus.c.
 */
enum { OWNER_INPUTS = 4, OWNER_NOISE = 7 };

/* A polynomial of degree 4 in four directions. */
static double climb_staircase(const double *x) {
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
            data->y[mu] = climb_staircase(data->X + mu * D);
        else
            data->y[mu] = mu % 2 ? -1 : 1;
    return CODE_OK;
}

/* i^-power, i = 1 ... D, with this sum, as an array of the truth. */
static int add_powers(struct data *data, double **out, double power, double total,
                      struct truth_array array, struct err *err) {
    size_t D = (size_t)data->D;
    double sum = 0;
    array.dims = "i";
    array.shape[0] = D;
    TRY(data_truth_add(data->truth, array, out, err));
    for (size_t i = 0; i < D; i++)
        sum += (*out)[i] = pow((double)(i + 1), -power);
    for (size_t i = 0; i < D; i++)
        (*out)[i] *= total / sum;
    return CODE_OK;
}

int normals_power_law(struct data *data, uint64_t seed, const struct power_law *law,
                      struct err *err) {
    struct rng_stream stream = {.seed = seed, .purpose = PURPOSE_DATA, .owner = OWNER_INPUTS},
                      noise = {.seed = seed, .purpose = PURPOSE_DATA, .owner = OWNER_NOISE};
    size_t D = (size_t)data->D;
    double *lambda, *share, pair[2];
    TRY(data_truth_init(&data->truth, err));
    TRY(add_powers(
        data, &lambda, law->spectrum, (double)D,
        (struct truth_array){.name = "spectrum", .about = "variance lambda of each number of x"},
        err));
    TRY(add_powers(data, &share, law->target, 1,
                   (struct truth_array){
                       .name = "target_shares",
                       .about = "share s of the variance of the targets along each number of x"},
                   err));
    for (size_t mu = 0; mu < data_rows(data); mu++) {
        double *x = data->X + mu * D;
        TRY(base_poll(err, "inputs are drawn"));
        rng_normal_pair(noise, (uint32_t)mu, 0, pair);
        data->y[mu] = law->noise * pair[0];
        for (size_t i = 0; i < D; i++) {
            if (i % 2 == 0)
                rng_normal_pair(stream, (uint32_t)mu, (uint32_t)(i / 2), pair);
            data->y[mu] += sqrt(share[i]) * pair[i % 2];
            x[i] = sqrt(lambda[i]) * pair[i % 2];
        }
    }
    data->truth->floor = law->noise * law->noise / 2;
    return CODE_OK;
}
