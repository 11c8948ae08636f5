#define _XOPEN_SOURCE 700
#include "tests/support/sequences.h"
#include "kernels/draws/rng.h"

#include <hdf5.h>

int sequences_outs(const struct sequences *sequences) {
    return sequences->P * (sequences->per_token ? sequences->n : 1);
}

static void put(hid_t file, const char *name, int axes, const hsize_t *shape, hid_t type,
                const void *values) {
    hid_t space = H5Screate_simple(axes, shape, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

static void write_inputs(hid_t file, const struct sequences *sequences) {
    enum { D = 5 };
    hsize_t shape[] = {(hsize_t)sequences->P, (hsize_t)sequences->n, D};
    struct rng_stream stream = {.seed = 5, .purpose = PURPOSE_DATA};
    double *X, pair[2];
    if (sequences->V) {
        put(file, "tokens", 2, shape, H5T_NATIVE_INT, sequences->token);
        return;
    }
    ASK(base_alloc(&X, (size_t)(sequences->P * sequences->n * D), sizeof *X, err));
    for (int k = 0; k < sequences->P * sequences->n * D; k++) {
        rng_normal_pair(stream, 0, (uint32_t)k, pair);
        X[k] = pair[0];
    }
    put(file, "X", 3, shape, H5T_NATIVE_DOUBLE, X);
    free(X);
}

static void write_targets(hid_t file, const struct sequences *sequences) {
    int outs = sequences_outs(sequences), C = sequences->C;
    hsize_t shape[] = {(hsize_t)sequences->P, (hsize_t)sequences->n, (hsize_t)C};
    FREED(base_free) double *y;
    ASK(base_alloc(&y, (size_t)(outs * C), sizeof *y, err));
    for (int i = 0; i < outs; i++)
        if (C == 1)
            y[i] = i % 2 ? -1 : 1;
        else if (!sequences->per_token || i < outs - 1)
            y[i * C + i % C] = 1;
    if (!sequences->per_token)
        shape[1] = (hsize_t)C;
    put(file, "y", sequences->per_token ? 3 : 2, shape, H5T_NATIVE_DOUBLE, y);
}

void sequences_run(struct run *run, const struct sequences *sequences, const char *network,
                   const char *training) {
    char ini[64], data[64];
    snprintf(data, sizeof data, "sequences_%d.h5", (int)getpid());
    snprintf(ini, sizeof ini, "build/sequences_%d.ini", (int)getpid());
    FILE *file = fopen(ini, "w");
    assert_non_null(file);
    fprintf(file, "[network]\n%s\n[data]\nsource = file\nfile = %s\n", network, data);
    if (sequences->V)
        fprintf(file, "vocabulary = %d\npositions = %s\n", sequences->V,
                sequences->placeless ? "no" : "yes");
    fprintf(file, "[training]\ngamma0 = 1.3\n%s\n", training);
    fclose(file);
    snprintf(data, sizeof data, "build/sequences_%d.h5", (int)getpid());
    hid_t h5 = H5Fcreate(data, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    write_inputs(h5, sequences);
    write_targets(h5, sequences);
    H5Fclose(h5);
    support_run(run, ini, NULL);
    remove(ini);
    remove(data);
}
