/* What training could move and never does: matrices and biases whose gradient is exactly 0 at every
 * step. A series that is not stored keeps why, at each time of each run; notes.c asks it at the
 * end. */
#include "solver/measure/instrument.h"
#include "kernels/maps/map_limit.h"
#include "models/engine/node.h"
#include "models/parts/block.h"

/* Whether a limit that learns from the coordinates of the rows that its matrix has read has found 0
 * alone: it has other rows in their place by now. */
static bool coordinates_are_zero(const struct map *map) {
    const struct limit_state *limit = limit_of(map);
    size_t count = (size_t)map->x.count * (size_t)limit->q_count;
    bool zero = map->x.count > 0;
    for (size_t k = 0; k < count && zero; k++)
        zero = limit->x_q[k] == 0;
    return zero;
}

static bool numbers_are_zero(const struct parameter *p) {
    ptrdiff_t count = (ptrdiff_t)p->rows * (p->thin ? p->thin->W.rows : p->K);
    bool zero = true;
    for (ptrdiff_t k = 0; k < count && zero; k++)
        zero = p->A[k] == 0;
    return zero;
}

/* The node of a matrix of numbers or of biases. */
static const struct node *node_of_parameter(const struct program *p, const struct parameter *of) {
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].matrix.weight.name && !strcmp(p->node[i].matrix.weight.name, of->name))
            return &p->node[i];
    return NULL;
}

/* Whether numbers are made into gates of one expert, 1, by a softmax over what is selected; biases
 * and noise may lie between. */
static bool makes_one_gate(const struct program *p, const struct node *from) {
    for (const struct node *v = from + 1; v < p->node + p->nodes; v++) {
        const struct router_gate *gate = v->constant.context;
        bool gates = !strcmp(v->op->name, "gates");
        int at = gates ? v->argument[0] : -1;
        if (!gates || !gate->softmax || gate->K != 1 || gate->over_all)
            continue;
        while (at > from - p->node && !p->node[at].on)
            at = p->node[at].argument[0];
        if (at == from - p->node)
            return true;
    }
    return false;
}

/* Rows that judge a parameter: those that it learns with, and those that its matrix has read. */
enum { ROWS_BACK, ROWS_READ, ROWS };

static void rows_of_parameter(const struct net *net, const struct parameter *p, struct rows *rows) {
    rows[ROWS_BACK] = p->y;
    if (p->map && net_keeps_rows(net, p->map))
        rows[ROWS_READ] = p->map->x;
}

static double judge_parameter(const struct net *net, const struct parameter *p, const bool *zero) {
    const struct node *v = node_of_parameter(net->program, p);
    bool read = zero[ROWS_READ], back = zero[ROWS_BACK];
    if (!v)
        return STILL_MOVES;
    if (p->map)
        read = net_keeps_rows(net, p->map) ? read : coordinates_are_zero(p->map);
    else if (!v->on) {
        read = back;
        back = p->A && numbers_are_zero(p);
    }
    if (back)
        return !v->on && makes_one_gate(net->program, v) ? STILL_ONE_GATE : STILL_UNANSWERED;
    return read ? STILL_READS_NOTHING : STILL_MOVES;
}

/* before: the row of the time before, or NULL. What has moved once is not looked at again. */
static bool has_moved(const double *before, int parameter) {
    return before && before[parameter] == STILL_MOVES;
}

static int ask(const struct measuring *m, struct err *err UNUSED) {
    double *room = m->room;
    const struct series *still = record_find(m->record, STILL_SERIES);
    const double *before = m->t ? record_at(m->record, still, m->run, m->t - 1) : NULL;
    for (int i = 0; i < m->net->parameters.count; i++) {
        struct rows rows[ROWS] = {0};
        if (!has_moved(before, i))
            rows_of_parameter(m->net, &m->net->parameters.item[i], rows);
        for (int k = 0; k < ROWS; room += rows[k++].count)
            rows_look_live(rows[k], room);
    }
    return CODE_OK;
}

static int fill(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const double *room = m->room, *before = m->t ? out[0] - m->net->parameters.count : NULL;
    for (int i = 0; i < m->net->parameters.count; i++) {
        const struct parameter *p = &m->net->parameters.item[i];
        struct rows rows[ROWS] = {0};
        bool zero[ROWS];
        out[0][i] = STILL_MOVES;
        if (has_moved(before, i))
            continue;
        rows_of_parameter(m->net, p, rows);
        for (int k = 0; k < ROWS; k++) {
            zero[k] = rows[k].count > 0; /* of no rows none is */
            for (int n = 0; n < rows[k].count; n++)
                zero[k] &= *room++ == 0;
        }
        out[0][i] = judge_parameter(m->net, p, zero);
    }
    return CODE_OK;
}

int still_declare(const struct declaring *d, struct err *err) {
    size_t parameters = (size_t)d->net->parameters.count, rows = 0;
    const struct series still = {.dims = "t parameter",
                                 .about = "",
                                 .equation = "",
                                 .shape = {0, parameters},
                                 .no_error_law = true,
                                 .runs_alone = true,
                                 .inner = true};
    if (!parameters || (d->config->solver.method != METHOD_MARCH && !d->net->setup.N))
        return CODE_OK;
    TRY(record_fill_by(d->record, fill, 0, 1, err));
    FOR_EACH_OF (const struct parameter, p, d->net->parameters.item, parameters) {
        rows += ROWS * (size_t)(p->rows > p->y.count ? p->rows : p->y.count);
    }
    record_ask_by(d->record, ask, rows, false);
    return series_add(d, 0, still, err, STILL_SERIES);
}

/* The least cause of all runs that went to the end, at all steps; STILL_MOVES where one moves. */
static int cause_of(const struct record *record, const struct series *series, int parameter) {
    int cause = STILL_MOVES;
    for (int r = 0; r < record->runs; r++)
        for (int t = 0; t < record->T - 1 && record->steps[r] == record->T; t++) {
            double found = record_at(record, series, r, t)[parameter];
            if (!(found > STILL_MOVES))
                return STILL_MOVES;
            cause = (int)found;
        }
    return cause;
}

void still_find(const struct record *record, const struct net *net, enum still cause,
                struct text_names *names) {
    const struct series *series = record_find(record, STILL_SERIES);
    *names = (struct text_names){0};
    for (int i = 0; series && record->T >= STILL_TIMES && i < net->parameters.count; i++)
        if (cause_of(record, series, i) == (int)cause)
            text_name(names, TEXT_SHOWN_OF(&net->parameters.item[i]));
}
