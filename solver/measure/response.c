/* The responses A and B of the limit's maps (kernels/maps/map_response.h; of a fixed point those
 * that it has converged to, kernels/maps/field.h), one series each: A_MAP exists where fr is not 0,
 * B_MAP where fg is not 0, both where the backward pass goes through the map. */
#include "solver/measure/instrument.h"
#include "kernels/maps/map_response.h"
#include "models/engine/node.h"

static const struct {
    const char *about, *equation;
} texts[] = {
    {"response B[t][.][s][.]: coefficient of x_s in W^T y_t, from shifts of fields",
     "fg^2 <dy_t/du_s>"},
    {"response A[t][.][s][.]: coefficient of y_s in W x_t, from shifts of fields",
     "fr^2 <dx_t/dv_s>"},
};

/* What the map reads. */
static const struct node *read_by(const struct net *net, const struct map *map) {
    const struct program *p = net->program;
    int i = 0;
    while (p->node[i].matrix.map != map)
        i++;
    return &p->node[p->node[i].argument[0]];
}

/* Rows that the map reads in an evaluation. */
static int rows_of(const struct net *net, const struct map *map) {
    return read_by(net, map)->count;
}

/* There are axes of inputs and of tokens: none for pairs of tokens, for one row that serves all
 * inputs, or for uses of one matrix, which also respond to each other. And fields go both ways. */
static bool response_exists(const struct net *net, const struct map *map, bool forward) {
    struct map_numbers n = map->numbers;
    int rows = rows_of(net, map);
    return map->declared.uses == 1 && read_by(net, map)->plan.moves &&
           (forward ? n.fr != 0 : n.fg != 0) &&
           (rows == net->setup.data.P || rows == net->batch.rows);
}

static const char *response_obstacle(const struct config *config, const struct net *net) {
    const char *of_training = config_no_responses(&config->training);
    return of_training ? of_training : net_no_responses(net);
}

/* Whether a map has responses, of which the file has none. */
static bool is_left_out(const struct net *net, const struct map *map) {
    return (map->numbers.fr != 0 && !response_exists(net, map, true)) ||
           (map->numbers.fg != 0 && !response_exists(net, map, false));
}

int response_tell(const struct config *config, const struct net_setup *setup, char *text,
                  struct err *err) {
    FREED(net_free) struct net net = {0};
    struct text_names names = {0};
    if (!config->output.responses)
        return CODE_OK;
    TRY(net_declare(&net, setup, err));
    const char *why = response_obstacle(config, &net);
    for (int i = 0; i < net.maps.count && !why; i++)
        if (is_left_out(&net, net.maps.item[i]))
            text_name(&names, net.maps.item[i]->declared.name);
    if (why)
        text_append(text, "no responses are measured, because %s", why);
    else if (names.count)
        text_append(text,
                    "no responses are written of %s: rows that are neither inputs nor tokens, or "
                    "matrices with several uses, have no axes; and through a matrix of rows that "
                    "do not learn nothing goes backward",
                    names.text);
    return CODE_OK;
}

/* What turns a response to cotangents of the program, or of them, into the theory page's. */
static double to_page(const struct map *map, bool forward) {
    double target = map->declared.target->cotangent_scale,
           source = map->declared.source->cotangent_scale;
    return forward ? (target == 0 ? 1 : target) : 1 / (source == 0 ? 1 : source);
}

/* Map item/2, A first: row t, 0 where s is later, and what earlier rows have of s = t. A field that
 * is shifted at time s is shifted in all evaluations until time s + 1. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    struct map *map = m->net->maps.item[m->item / 2];
    bool forward = m->item % 2 == 0;
    const struct twotime *R = field_response(map, forward);
    double scale = to_page(map, forward);
    const struct map_terms *terms = map->terms;
    TRY(map_terms_measured(map, m->t, err));
    size_t x = (size_t)rows_of(m->net, map), y = map->declared.for_all_inputs ? 1 : x,
           rows = forward ? x : y, fields = forward ? y : x, t = (size_t)m->t,
           stride = (size_t)m->record->T * fields, last = (size_t)terms->now;
    for (size_t row = 0; row < rows; row++) {
        double *to = out[0] + row * stride;
        const double *from = R ? R->value + (last * rows + row) * (size_t)R->T * fields
                               : map->response->side[!forward].now + row * (last + 1) * fields;
        memset(to, 0, (t + 1) * fields * sizeof *to);
        for (size_t e = 0, s = 0; e <= last; e++) {
            s += s < t && (size_t)terms->measured[s + 1] <= e;
            for (size_t k = 0; k < fields; k++)
                to[s * fields + k] += scale * from[e * fields + k];
        }
        for (size_t s = 0; s < t; s++)
            memset(to - (t - s) * rows * stride + t * fields, 0, fields * sizeof *to);
    }
    return CODE_OK;
}

int response_declare(const struct declaring *d, struct err *err) {
    const struct net *net = d->net;
    size_t T = (size_t)d->record->T;
    if (!d->config->output.responses || net->setup.N || response_obstacle(d->config, net))
        return CODE_OK;
    for (int i = 0; i < 2 * net->maps.count; i++) {
        const struct map *map = net->maps.item[i / 2];
        size_t rows = (size_t)rows_of(net, map);
        bool forward = i % 2 == 0, tokens = rows > (size_t)net->setup.data.P;
        struct series series = {.dims = tokens ? "t row s column" : "t mu s nu",
                                SERIES_TEXT(texts[forward]),
                                .label = map->declared.label,
                                .shape = {T, rows, T, rows}};
        if (map->declared.for_all_inputs) {
            series.dims = forward  ? tokens ? "t row s" : "t mu s"
                          : tokens ? "t s column"
                                   : "t s nu";
            if (!forward)
                memcpy(series.shape, (const size_t[]){T, T, rows}, 3 * sizeof T);
        }
        if (!response_exists(net, map, forward))
            continue;
        TRY(record_fill_by(d->record, fill, i, 1, err));
        TRY(series_add(d, 0, series, err, "%c_%s", forward ? 'A' : 'B', map->declared.name));
    }
    return CODE_OK;
}
