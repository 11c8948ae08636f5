/* Responses from the coefficients that limit maps keep. */
#include "solver/measure/response.h"
#include "models/engine/node.h"
#include "solver/measure/observe.h"

#include <lapacke.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *about, *equation;
} texts[] = {
    {"response B[t][.][s][.]: coefficient of x_s in W^T y_t (march: truncated "
     "pseudo-inverse, fixed_point: probes)",
     "fg^2 <dy_t/du_s>"},
    {"response A[t][.][s][.]: coefficient of y_s in W x_t (march: truncated "
     "pseudo-inverse, fixed_point: probes)",
     "fr^2 <dx_t/dv_s>"},
};

/* Rows that the map reads in an evaluation. */
static int rows_of(const struct net *net, const struct map *map) {
    const struct program *p = net->program;
    int i = 0;
    while (p->node[i].matrix.map != map)
        i++;
    return p->node[p->node[i].argument[0]].count;
}

/* There are axes of inputs and of tokens: none for pairs of tokens, for one row that serves all
 * inputs, or for uses of one matrix, which also respond to each other. */
static bool exists(const struct net *net, const struct map *map, bool forward) {
    struct map_numbers n = map->numbers;
    int rows = rows_of(net, map);
    return map->declared.uses == 1 && (forward ? n.fr != 0 : n.fg != 0) &&
           (rows == net->setup.data.P || rows == net->batch.rows);
}

static void name_series(char name[SERIES_NAME], const struct map *map, bool forward) {
    snprintf(name, SERIES_NAME, "%s_%s", forward ? "A" : "B", map->declared.name);
}

int response_init(struct response **responses, int *count, const struct record *record, int run,
                  const struct net *net, struct err *err) {
    *count = 0;
    TRY(base_alloc(responses, 2 * (size_t)net->maps.count, sizeof **responses, err));
    for (int i = 0; i < 2 * net->maps.count; i++) {
        const struct map *map = net->maps.item[i / 2];
        bool forward = i % 2 == 0;
        int rows = rows_of(net, map), y = map->declared.for_all_inputs ? 1 : rows;
        char name[SERIES_NAME];
        if (!exists(net, map, forward))
            continue;
        name_series(name, map, forward);
        struct response *response = *responses + (*count)++;
        *response = (struct response){.map = map, .forward = forward, .T = record->T};
        response->rows = forward ? rows : y;
        response->count = forward ? y : rows;
        response->values = record_at(record, record_find(record, name), run, 0);
        memset(response->values, 0, record_find(record, name)->size * sizeof *response->values);
        TRY(base_alloc(&response->known, (size_t)record->T, sizeof *response->known, err));
        TRY(base_alloc(&response->columns, (size_t)record->T, sizeof *response->columns, err));
    }
    return CODE_OK;
}

void response_free(struct response *response) {
    for (int t = 0; t < response->times; t++)
        free(response->known[t]);
    free(response->known);
    free(response->columns);
    *response = (struct response){0};
}

int response_archive(struct response *response, struct archive *archive, struct err *err) {
    int times = response->times;
    TRY(archive_bytes(archive, &times, sizeof times, err));
    if (times < 0 || times > response->T)
        return archive_misfit(archive, "a response has an impossible number of times", err);
    response->times = times;
    TRY(archive_bytes(archive, response->columns,
                      (size_t)response->times * sizeof *response->columns, err));
    for (int t = 0; t < response->times; t++) {
        if (response->columns[t] < 0)
            return archive_misfit(archive, "a response has an impossible number of columns", err);
        size_t count = (size_t)response->count * (size_t)response->columns[t];
        TRY(archive_list(archive, &response->known[t], count, sizeof(double), err));
    }
    return CODE_OK;
}

/* The coefficients of one time with the basis of its side, [count][columns]. */
static int keep(struct response *response, struct err *err) {
    struct map_coefficients known = map_known(response->map, !response->forward);
    int t = response->times;
    size_t size = (size_t)response->count * (size_t)known.columns;
    TRY(base_alloc(&response->known[t], size, sizeof *known.values, err));
    if (size)
        memcpy(response->known[t], known.values, size * sizeof *known.values);
    response->columns[t] = known.columns;
    response->times++;
    return CODE_OK;
}

/* Row t of the response X: sum_{s, nu} X[t][mu][s][nu] known[s][nu][b] = factor shown[mu][b] over
 * the times known, in the least-squares sense and of minimum norm. LAPACK's columns are our rows:
 * known is the matrix [columns][times count], shorter rows padded with zeros. */
static int solve(struct response *response, int t, double factor, struct err *err) {
    const struct map *map = response->map;
    struct map_coefficients shown = map_shown(map, response->forward);
    size_t count = (size_t)response->count, n = count * (size_t)response->times;
    size_t m = (size_t)shown.columns, rows = (size_t)response->rows, most = m > n ? m : n;
    size_t stride = (size_t)response->T * count;
    double *known = NULL, *X = NULL, *sigma = NULL;
    int code = CODE_OK, rank;
    if (!m || !n || !shown.values) /* no backward pass where nothing below learns */
        return CODE_OK;
    DO(base_alloc(&known, n * m, sizeof *known, err));
    DO(base_alloc(&X, rows * most, sizeof *X, err));
    DO(base_alloc(&sigma, most, sizeof *sigma, err));
    for (size_t row = 0; row < n; row++) {
        size_t width = (size_t)response->columns[row / count];
        memcpy(known + row * m, response->known[row / count] + row % count * width,
               width * sizeof *known);
    }
    for (size_t mu = 0; mu < rows; mu++)
        for (size_t b = 0; b < m; b++)
            X[mu * most + b] = factor * shown.values[mu * m + b];
    lapack_int info = LAPACKE_dgelsd(LAPACK_COL_MAJOR, (int)m, (int)n, response->rows, known,
                                     (int)m, X, (int)most, sigma, map->settings.tolerance, &rank);
    if (info) {
        code = err_set(err, info > 0 ? CODE_NUMERICAL : CODE_SYSTEM,
                       "the responses of map %s cannot be found: LAPACK dgelsd gives %d",
                       map->declared.name, (int)info);
        goto done;
    }
    for (size_t mu = 0; mu < rows; mu++)
        memcpy(response->values + ((size_t)t * rows + mu) * stride, X + mu * most, n * sizeof *X);
done:
    free(known);
    free(X);
    free(sigma);
    return code;
}

/* What turns a response to cotangents of the program, or of them, into the theory page's. */
static double to_page(const struct response *response) {
    const struct map_declaration *map = &response->map->declared;
    double target = map->target->cotangent_scale, source = map->source->cotangent_scale;
    return response->forward ? (target == 0 ? 1 : target) : 1 / (source == 0 ? 1 : source);
}

/* W^T y_s shows e_b through C = fr <y_s, p_b>, W x_s shows e_a through fg <x_s, q_a>. */
int response_measure(struct response *response, int t, struct err *err) {
    const struct map *map = response->map;
    const struct twotime *R = field_response(map, response->forward);
    if (R) {
        size_t block = twotime_size(R) / (size_t)R->T, first = (size_t)t * block;
        for (size_t k = first; k < first + block; k++)
            response->values[k] = to_page(response) * R->value[k];
        return CODE_OK;
    }
    if (response->forward) {
        TRY(solve(response, t, map->numbers.fr * to_page(response), err));
        return keep(response, err);
    }
    TRY(keep(response, err));
    return solve(response, t, map->numbers.fg * to_page(response), err);
}

static int fill(const struct measuring *m, int item, double *const *out, struct err *err) {
    (void)out; /* a response is written with all its times */
    return response_measure(&m->observer->response[item], m->t, err);
}

static int declare(struct record *record, const struct config *config, const struct net *net,
                   const double *y, struct err *err) {
    size_t T = (size_t)record->T;
    int count = 0;
    (void)config, (void)y;
    if (!net->setup.measure.responses)
        return CODE_OK;
    for (int i = 0; i < 2 * net->maps.count; i++) {
        const struct map *map = net->maps.item[i / 2];
        size_t rows = (size_t)rows_of(net, map);
        bool forward = i % 2 == 0, tokens = rows > (size_t)net->setup.data.P;
        struct series series = {.dims = tokens ? "t row s column" : "t mu s nu",
                                .about = texts[forward].about,
                                .equation = texts[forward].equation,
                                .axes = 4,
                                .shape = {T, rows, T, rows}};
        name_series(series.name, map, forward);
        if (map->declared.for_all_inputs) {
            series.dims = forward  ? tokens ? "t row s" : "t mu s"
                          : tokens ? "t s column"
                                   : "t s nu";
            series.axes = 3;
            if (!forward)
                memcpy(series.shape, (const size_t[]){T, T, rows}, 3 * sizeof T);
        }
        if (!exists(net, map, forward))
            continue;
        TRY(record_fill_by(record, fill, count++, 1, err));
        TRY(record_add(record, series, err));
    }
    return CODE_OK;
}

const struct instrument response_instrument = {.declare = declare};
