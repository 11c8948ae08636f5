/* Targets of a data file. A set has one or several columns at every place (an input or a token);
 * one column holds numbers or labels. */
#include "solver/data/data_file.h"
#include "models/engine/net.h"

#include <limits.h>

/* Columns of a set, and whether its places are tokens: integers [P][n] are labels of tokens. */
static int get_columns(const struct data *data, const struct data_file *stored,
                       enum data_file_role role, size_t *columns, bool *per_token, const char *path,
                       struct err *err) {
    const struct data_file_set *y = &stored->set[role];
    const char *name = data_file_name(stored, role), *input = data_file_name(stored, role - 1);
    size_t n = (size_t)data->n, inputs = stored->set[role - 1].shape[0];
    bool labels = y->rank == 2 && n > 1 && y->shape[1] == n && y->whole;
    if (y->shape[0] != inputs)
        return data_file_refuse(path, err, "lengths differ, %s has %zu inputs and %s has %zu",
                                input, inputs, name, y->shape[0]);
    if (y->rank == 3 && y->shape[1] != n)
        return data_file_refuse(path, err,
                                "lengths differ, an input in %s has %zu rows and in %s %zu", input,
                                n, name, y->shape[1]);
    *per_token = n > 1 && (labels || y->rank == 3);
    *columns = labels || y->rank == 1 ? 1 : y->shape[y->rank - 1];
    return CODE_OK;
}

/* Every label is a class, or -1 where a token is not asked; finds the largest, and for
 * cross_entropy that something is asked. */
static int check_labels(const struct data *data, const struct data_file *stored,
                        enum data_file_role role, const struct data_wanted *wanted, double *largest,
                        const char *path, struct err *err) {
    const struct data_file_set *y = &stored->set[role];
    int least = data->per_token && wanted->loss->targets == LOSS_TARGETS_CLASSES ? -1 : 0;
    int last = wanted->outputs ? wanted->outputs - 1 : INT_MAX - 1;
    double own = -1;
    char place[DATA_FILE_NAME], range[DATA_FILE_NAME] = "from 0 on";
    if (wanted->outputs)
        snprintf(range, sizeof range, "0 to %d, as [network] outputs = %d", last, wanted->outputs);
    for (size_t k = 0; k < y->count; k++) {
        double label = y->value[k];
        own = fmax(own, label);
        if (label >= least && label <= last && label == floor(label))
            continue;
        data_file_place(stored, role, k, place);
        return data_file_refuse(path, err, "%s = %g, where classes are integers %s%s", place, label,
                                range, least ? ", or -1 for a token that is not asked" : "");
    }
    if (own < 0)
        return data_file_refuse(path, err, "%s asks for nothing, every label is -1",
                                data_file_name(stored, role));
    *largest = fmax(*largest, own);
    return CODE_OK;
}

static int count_classes(struct data *data, const struct data_file *stored,
                         const struct data_wanted *wanted, const char *path, struct err *err) {
    double largest = 0;
    TRY(check_labels(data, stored, DATA_FILE_TARGET, wanted, &largest, path, err));
    if (data->tests)
        TRY(check_labels(data, stored, DATA_FILE_TEST_TARGET, wanted, &largest, path, err));
    data->C = wanted->outputs ? wanted->outputs : 1 + (int)largest;
    if (data->C < 2)
        return data_file_refuse(path, err,
                                "every label is 0, and loss = %s needs at least two classes "
                                "here; set [network] outputs",
                                wanted->loss->choice.name);
    data->numbered = data->V && data->per_token;
    if (!data->numbered && (size_t)data->C > wanted->most / data_places(data))
        return data_file_refuse(path, err,
                                "%d classes at %zu places are too many, %zu numbers are allowed",
                                data->C, data_places(data), wanted->most);
    return CODE_OK;
}

int targets_shape(struct data *data, const struct data_file *stored,
                  const struct data_wanted *wanted, const char *path, struct err *err) {
    size_t columns, test_columns;
    bool test_per_token;
    TRY(get_columns(data, stored, DATA_FILE_TARGET, &columns, &data->per_token, path, err));
    if (data->tests) {
        TRY(get_columns(data, stored, DATA_FILE_TEST_TARGET, &test_columns, &test_per_token, path,
                        err));
        if (test_columns != columns || test_per_token != data->per_token)
            return data_file_refuse(path, err,
                                    "y and y_test are not of the same kind, %zu numbers for "
                                    "each %s and %zu for each %s",
                                    columns, data->per_token ? "token" : "input", test_columns,
                                    test_per_token ? "token" : "input");
    }
    if (columns == 1 && (wanted->loss->targets == LOSS_TARGETS_CLASSES || wanted->outputs > 1))
        return count_classes(data, stored, wanted, path, err);
    data->C = (int)columns;
    if (columns > 1 && wanted->loss->targets == LOSS_TARGETS_SIGNS)
        return data_file_refuse(path, err, "y has %zu columns, and loss = %s has one output",
                                columns, wanted->loss->choice.name);
    if (wanted->outputs && wanted->outputs != data->C)
        return data_file_refuse(path, err, "y has %zu columns, but [network] outputs = %d", columns,
                                wanted->outputs);
    return CODE_OK;
}

/* Ones in a row of zeros and ones (1: one-hot), or -1. */
static int count_ones(const double *y, int C) {
    int ones = 0;
    for (int c = 0; c < C; c++) {
        if (y[c] != 0 && y[c] != 1)
            return -1;
        ones += y[c] == 1;
    }
    return ones;
}

/* Rows given as such are one-hot, or zero where a token is not asked. */
static int check_rows(const struct data *data, const struct data_file *stored,
                      enum data_file_role role, const double *y, const struct loss *loss,
                      const char *path, struct err *err) {
    size_t C = (size_t)data->C, rows = stored->set[role].count / C;
    bool asked = false;
    char place[DATA_FILE_NAME];
    for (size_t k = 0; k < rows; k++) {
        int ones = count_ones(y + k * C, data->C);
        asked = asked || ones == 1;
        if (ones == 1 || (ones == 0 && data->per_token))
            continue;
        data_file_place(stored, role, k * C, place);
        *strrchr(place, '[') = 0; /* of the row */
        return data_file_refuse(
            path, err, "%s is not one-hot (one 1 and zeros%s), as loss = %s needs", place,
            data->per_token ? ", or zeros alone: not asked" : "", loss->choice.name);
    }
    if (!asked)
        return data_file_refuse(path, err, "%s asks for nothing, every row is zero",
                                data_file_name(stored, role));
    return CODE_OK;
}

/* classes: NULL, or the loss that asks for rows of classes. */
static int fill_set(const struct data *data, const struct data_file *stored,
                    enum data_file_role role, bool labels, const struct loss *classes, double *y,
                    const char *path, struct err *err) {
    const struct data_file_set *set = &stored->set[role];
    for (size_t k = 0; k < set->count && labels; k++)
        if (data->numbered)
            y[k] = set->value[k];
        else if (set->value[k] >= 0)
            y[k * (size_t)data->C + (size_t)set->value[k]] = 1;
    if (labels)
        return CODE_OK;
    memcpy(y, set->value, set->count * sizeof *y);
    return classes ? check_rows(data, stored, role, y, classes, path, err) : CODE_OK;
}

int targets_fill(struct data *data, const struct data_file *stored,
                 const struct data_wanted *wanted, const char *path, struct err *err) {
    size_t places = data_places(data), C = (size_t)data->C;
    size_t trained = (size_t)data->P * (places / ((size_t)data->P + (size_t)data->tests)),
           test = trained * (data->numbered ? 1 : C);
    bool labels = C > 1 && stored->set[DATA_FILE_TARGET].count == trained;
    const struct loss *classes =
        wanted->loss->targets == LOSS_TARGETS_CLASSES ? wanted->loss : NULL;
    TRY(fill_set(data, stored, DATA_FILE_TARGET, labels, classes, data->y, path, err));
    if (data->tests)
        TRY(fill_set(data, stored, DATA_FILE_TEST_TARGET, labels, classes, data->y + test, path,
                     err));
    data->classes = true;
    for (size_t k = 0; k < places && data->classes && !classes; k++)
        data->classes = data->numbered ? data->y[k] >= 0
                        : C == 1       ? fabs(data->y[k]) == 1
                                       : count_ones(data->y + k * C, data->C) == 1;
    return CODE_OK;
}

/* --- weights --------------------------------------------------------------------------------- */

static int check_weights(const struct data_file *stored, enum data_file_role role, size_t inputs,
                         const char *path, struct err *err) {
    const struct data_file_set *set = &stored->set[role];
    char place[DATA_FILE_NAME];
    if (set->rank && set->count != inputs)
        return data_file_refuse(path, err, "lengths differ, %s has %zu weights for %zu inputs",
                                data_file_name(stored, role), set->count, inputs);
    for (size_t k = 0; k < set->count; k++) {
        if (set->value[k] > 0)
            continue;
        data_file_place(stored, role, k, place);
        return data_file_refuse(path, err,
                                "%s = %g, where weights are positive; leave out an input that "
                                "is not to count",
                                place, set->value[k]);
    }
    return CODE_OK;
}

int targets_weigh_inputs(struct data *data, const struct data_file *stored, const char *path,
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

void targets_fill_weights(struct data *data, const struct data_file *stored) {
    if (!data->weighted)
        return;
    fill_weights(data->weight, data->P, &stored->set[DATA_FILE_WEIGHT]);
    fill_weights(data->weight + data->P, data->tests, &stored->set[DATA_FILE_TEST_WEIGHT]);
}
