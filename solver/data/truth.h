/* What is known of data that were drawn by a law: its parameters, the component of each input, and
 * the loss of the predictor that knows the parameters, below which no network comes on new
 * inputs. */
#pragma once

#include "kernels/base/base.h"

enum { TRUTH_AXES = 3, TRUTH_ARRAYS = 6 };
struct truth_array {
    const char *name, *dims, *about; /* of /data; dims in words, one for each extent */
    size_t shape[TRUTH_AXES];        /* 0: no such axis */
    double *values;
};
struct data_truth {
    int count;
    struct truth_array array[TRUTH_ARRAYS];
    /* Mean over the test inputs, without any over the training inputs, of the expected loss of that
     * predictor, given the input; with targets for each token over these. NAN: not known. */
    double floor;
    double rate; /* that of infinitely long sequences; NAN: there is none, or it is not known */
};
/* Into *truth, to be freed by truth_free. */
int truth_init(struct data_truth **truth, struct err *err);
/* One array more, zero, whose values are to be filled; `array` says all but these. */
int truth_add(struct data_truth *truth, struct truth_array array, double **values, struct err *err);
void truth_free(struct data_truth *truth); /* accepts NULL */
