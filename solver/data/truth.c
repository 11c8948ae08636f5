#include "solver/data/truth.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

int truth_init(struct data_truth **truth, struct err *err) {
    TRY(base_alloc(truth, 1, sizeof **truth, err));
    (*truth)->floor = (*truth)->rate = NAN;
    return CODE_OK;
}

int truth_add(struct data_truth *truth, struct truth_array array, double **values,
              struct err *err) {
    size_t size = 1;
    assert(truth->count < TRUTH_ARRAYS);
    for (int k = 0; k < TRUTH_AXES; k++)
        size *= array.shape[k] ? array.shape[k] : 1;
    TRY(base_alloc(&array.values, size, sizeof *array.values, err));
    *values = array.values;
    truth->array[truth->count++] = array;
    return CODE_OK;
}

void truth_free(struct data_truth *truth) {
    for (int k = 0; truth && k < truth->count; k++)
        free(truth->array[k].values);
    free(truth);
}
