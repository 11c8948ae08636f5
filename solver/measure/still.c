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

/* What the host knows of a parameter at this time, and no row says. */
static bool host_finds_zero(const struct net *net, const struct parameter *p,
                            const struct node *v) {
    if (p->map)
        return !net_keeps_rows(net, p->map) && coordinates_are_zero(p->map);
    return !v->on && p->A && numbers_are_zero(p);
}

static double judge_parameter(const struct net *net, const struct parameter *p, const bool *zero,
                              bool host) {
    const struct node *v = node_of_parameter(net->program, p);
    bool read = zero[ROWS_READ] || (p->map && host), back = zero[ROWS_BACK];
    if (!p->map && !v->on) {
        read = back;
        back = host;
    }
    if (back)
        return !v->on && makes_one_gate(net->program, v) ? STILL_ONE_GATE : STILL_UNANSWERED;
    return read ? STILL_READS_NOTHING : STILL_MOVES;
}

/* A row of the series has STILL_CAUSES, and 1 more where the host finds zero, until the numbers of
 * a device are there: they come with what the next step waits for. */
static void settle_row(const struct measuring *m, double *row, const double *room) {
    for (int i = 0; i < m->net->parameters.count; i++) {
        const struct parameter *p = &m->net->parameters.item[i];
        struct rows rows[ROWS] = {0};
        bool zero[ROWS];
        if (!(row[i] >= STILL_CAUSES))
            continue;
        rows_of_parameter(m->net, p, rows);
        for (int k = 0; k < ROWS; k++) {
            zero[k] = rows[k].count > 0; /* of no rows none is */
            for (int n = 0; n < rows[k].count; n++)
                zero[k] &= *room++ == 0;
        }
        row[i] = judge_parameter(m->net, p, zero, row[i] > STILL_CAUSES);
    }
}

/* What has moved once is not looked at again. room[0] is the time after that of the other numbers;
 * in a run that goes on from a saved state it is 0, and what was not there then stays unknown. */
static int fill(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct backend *backend = m->net->setup.backend;
    double *before = m->t ? out[0] - m->net->parameters.count : NULL, *room = m->room + 1;
    if (before && m->room[0] == m->t)
        settle_row(m, before, room);
    m->room[0] = m->t + 1;
    backend_later(backend, true);
    for (int i = 0; i < m->net->parameters.count; i++) {
        const struct parameter *p = &m->net->parameters.item[i];
        struct rows rows[ROWS] = {0};
        out[0][i] = STILL_MOVES;
        if (before && before[i] == STILL_MOVES)
            continue;
        const struct node *v = node_of_parameter(m->net->program, p);
        if (!v)
            continue;
        out[0][i] = STILL_CAUSES + host_finds_zero(m->net, p, v);
        rows_of_parameter(m->net, p, rows);
        for (int k = 0; k < ROWS; room += rows[k++].count)
            rows_look_live(rows[k], room);
    }
    backend_later(backend, false);
    if (!backend_has_later(backend))
        settle_row(m, out[0], m->room + 1);
    return CODE_OK;
}

int still_declare(const struct declaring *d, struct err *err) {
    size_t parameters = (size_t)d->net->parameters.count, rows = 1;
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
    record_ask_by(d->record, NULL, rows, false);
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
            cause = found < STILL_CAUSES ? (int)found : cause;
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
