/* Ranks tell each other: parameters as the text of an ini, all else as it is in memory. */
#include "solver/run/parts.h"
#include "kernels/array/dist.h"

#include <limits.h>

int exchange_params(struct params *params, const struct param_section *sections, size_t count,
                    struct config *config, struct err *err) {
    FREED(base_free) char *text = NULL;
    size_t size = 0;
    if (dist_ranks() == 1)
        return CODE_OK;
    if (!dist_rank())
        TRY(params_text(params, &text, &size, err));
    dist_broadcast(&size, sizeof size, 0);
    if (dist_rank())
        TRY(base_alloc(&text, size + 1, 1, err));
    dist_broadcast(text, size, 0);
    if (dist_rank())
        TRY(params_read_text(params, sections, count, text,
                             &(struct param_source){.name = "the parameters of rank 0"}, config,
                             err));
    dist_broadcast(&config->others, sizeof config->others, 0);
    return CODE_OK;
}

int exchange_data(struct data *data, struct err *err) {
    struct data sizes = *data;
    dist_broadcast(&sizes, sizeof sizes, 0);
    if (dist_rank())
        TRY(data_init(data, &sizes, err));
    if (data->V)
        dist_broadcast(data->token, data_rows(data) * sizeof *data->token, 0);
    else
        dist_broadcast(data->X, data_rows(data) * (size_t)data->D * sizeof *data->X, 0);
    dist_broadcast(data->y, data_targets(data) * sizeof *data->y, 0);
    dist_broadcast(data->weight, data_weights(data) * sizeof *data->weight, 0);
    return CODE_OK;
}

void exchange_run(struct record *record, int r, int root) {
    dist_broadcast(&record->steps[r], sizeof *record->steps, root);
    dist_broadcast(&record->failed[r], sizeof *record->failed, root);
    dist_broadcast(&record->cause[r], sizeof *record->cause, root);
    FOR_EACH_OF (const struct series, series, record->series, record->count) {
        if (series->first_run && r)
            continue;
        dist_broadcast(series->values + (size_t)r * series->size, series->size * sizeof(double),
                       root);
    }
}

int exchange_failure(int code, int place, struct err *err) {
    int rank, lowest = dist_lowest(code ? place : INT_MAX, &rank);
    if (lowest == INT_MAX)
        return CODE_OK;
    dist_broadcast(err, sizeof *err, rank);
    return err->code;
}
