/* The loss of the limit. Its outputs do not fluctuate: it is the loss of the mean of f over
 * replicates, where the mean of the losses would have half the variance of f of one replicate. */
#include "solver/measure/instrument.h"

/* The targets [rows][C] of each time, or of all: step 0; and behind them the weights of rows. */
struct targets {
    const struct loss *loss;
    int rows, C;
    size_t step;
    double scale, *weight;
    double y[];
};

static double value(const void *context, int t, const double *sum, const double *without,
                    int count) {
    const struct targets *targets = context;
    int C = targets->C;
    double f[C], Delta[C], loss = 0;
    size_t first = (size_t)t * targets->step;
    for (ptrdiff_t i = 0; i < targets->rows; i++) {
        for (int c = 0; c < C; c++)
            f[c] = (sum[i * C + c] - (without ? without[i * C + c] : 0)) / count;
        loss += loss_weighted(targets->loss, targets->weight[first / (size_t)C + (size_t)i], C, f,
                              targets->y + first + i * C, Delta) /
                targets->rows;
    }
    return targets->scale * loss;
}

static int places_of(const struct mean_loss_rows *rows) {
    return rows->data->per_token ? rows->data->n : 1;
}

/* Row number `to` of the targets. */
static void take_row(struct targets *targets, size_t to, const struct mean_loss_rows *rows,
                     int place) {
    size_t each = (size_t)places_of(rows), C = (size_t)rows->data->C,
           at = (size_t)rows->first * each + (size_t)place;
    double *y = targets->y + to * C;
    const double *from = net_targets(rows->data, rows->y, at, y);
    if (from != y)
        memcpy(y, from, C * sizeof *y);
    targets->weight[to] = net_weight(rows->data, at / each);
}

/* The targets of each batch, in turn. */
static int targets_of_batches(struct targets *targets, int T, const struct training *training,
                              const struct mean_loss_rows *rows, struct err *err) {
    int each = places_of(rows);
    int P = batch_size(training, rows->inputs);
    FREED(batch_free) struct batch batch = {0};
    SCRATCH(int, index, (size_t)P);
    TRY(batch_init(&batch, training, rows->inputs, err));
    for (ptrdiff_t t = 0; t < T; t++) {
        batch_at(&batch, (int)t, index);
        for (int i = 0; i < P * each; i++)
            take_row(targets, (size_t)(t * P * each + i), rows, index[i / each] * each + i % each);
    }
    return CODE_OK;
}

int mean_loss_set(const struct record *record, const char *name, const char *of,
                  const struct training *training, const struct mean_loss_rows *rows,
                  struct err *err) {
    bool batches = rows->batches && training->batches.size;
    int inputs = batches ? batch_size(training, rows->inputs) : rows->inputs;
    int places = inputs * places_of(rows), C = rows->data->C;
    size_t count = (size_t)places * (size_t)C, all = batches ? count * (size_t)record->T : count;
    struct of_mean of_mean = {.value = value};
    struct targets *targets;
    char *block;
    TRY(base_alloc(&block, sizeof *targets + (all + all / (size_t)C) * sizeof(double), 1, err));
    targets = (struct targets *)block;
    *targets = (struct targets){training->loss,      places,      C,
                                batches ? count : 0, rows->scale, targets->y + all};
    of_mean.context = targets;
    memcpy(of_mean.of, of, strlen(of) + 1);
    for (int i = 0; i < places && !batches; i++)
        take_row(targets, (size_t)i, rows, i);
    if (batches && targets_of_batches(targets, record->T, training, rows, err)) {
        free(block);
        return err->code;
    }
    return record_set_of_mean(record, name, of_mean, err);
}
