#include "solver/data/weights.h"

static int check_weights(const struct data_file *stored, enum data_file_role role, size_t inputs,
                         const char *path, struct err *err) {
    const struct data_file_set *set = &stored->set[role];
    char place[DATA_FILE_NAME];
    if (set->rank && set->count != inputs)
        return err_set(err, CODE_INPUT,
                       "data file %s: lengths differ, %s has %zu weights for %zu inputs", path,
                       data_file_name(stored, role), set->count, inputs);
    for (size_t k = 0; k < set->count; k++) {
        if (set->value[k] > 0)
            continue;
        data_file_place(stored, role, k, place);
        return err_set(err, CODE_INPUT,
                       "data file %s: %s = %g, where weights are positive; leave out an input that "
                       "is not to count",
                       path, place, set->value[k]);
    }
    return CODE_OK;
}

int weights_shape(struct data *data, const struct data_file *stored, const char *path,
                  struct err *err) {
    data->weighted = stored->set[DATA_FILE_WEIGHT].rank > 0;
    TRY(check_weights(stored, DATA_FILE_WEIGHT, (size_t)data->P, path, err));
    return check_weights(stored, DATA_FILE_TEST_WEIGHT, (size_t)data->tests, path, err);
}

static void fill_weights(double *weight, int inputs, const struct data_file_set *set) {
    double sum = 0;
    for (size_t k = 0; k < set->count; k++)
        sum += set->value[k];
    for (int mu = 0; mu < inputs; mu++)
        weight[mu] = set->rank ? set->value[mu] / (sum / inputs) : 1;
}

void weights_fill(struct data *data, const struct data_file *stored) {
    if (!data->weighted)
        return;
    fill_weights(data->weight, data->P, &stored->set[DATA_FILE_WEIGHT]);
    fill_weights(data->weight + data->P, data->tests, &stored->set[DATA_FILE_TEST_WEIGHT]);
}
