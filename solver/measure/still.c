#include "solver/measure/still.h"
#include "kernels/maps/map_limit.h"
#include "models/engine/node.h"
#include "models/parts/router.h"

/* Whether rows have no entry but 0; of no rows: they have one. */
static int are_zero(struct rows x, bool *zero, struct err *err) {
    *zero = x.count > 0;
    if (!x.count)
        return CODE_OK;
    SCRATCH(bool, live, (size_t)x.count);
    TRY(rows_find_live(x, live, err));
    for (int k = 0; k < x.count; k++)
        *zero = *zero && !live[k];
    return CODE_OK;
}

/* Whether a matrix has read rows of 0 alone. A limit that learns from their coordinates keeps
 * these, and has other rows in the place of the rows by now. */
static int reads_zero(const struct net *net, const struct map *map, bool *zero, struct err *err) {
    if (net_keeps_rows(net, map))
        return are_zero(map->x, zero, err);
    const struct limit_state *limit = limit_of(map);
    size_t count = (size_t)map->x.count * (size_t)limit->q_count;
    *zero = map->x.count > 0;
    for (size_t k = 0; k < count && *zero; k++)
        *zero = limit->x_q[k] == 0;
    return CODE_OK;
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

static int judge_parameter(const struct net *net, const struct parameter *p, double *why,
                           struct err *err) {
    const struct node *v = node_of_parameter(net->program, p);
    bool read = false, back = false;
    *why = STILL_MOVES;
    if (!v)
        return CODE_OK;
    if (p->map) {
        TRY(reads_zero(net, p->map, &read, err));
        TRY(are_zero(p->y, &back, err));
    } else if (!v->on && p->A) {
        back = numbers_are_zero(p);
        TRY(are_zero(p->y, &read, err));
    } else
        TRY(are_zero(p->y, v->on ? &back : &read, err));
    if (back)
        *why = !v->on && makes_one_gate(net->program, v) ? STILL_ONE_GATE : STILL_UNANSWERED;
    else if (read)
        *why = STILL_READS_NOTHING;
    return CODE_OK;
}

/* What has moved once is not looked at again. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct series *series = record_find(m->record, STILL_SERIES);
    const double *before = m->t ? record_at(m->record, series, m->run, m->t - 1) : NULL;
    for (int i = 0; i < m->net->parameters.count; i++) {
        out[0][i] = STILL_MOVES;
        if (!before || before[i] != STILL_MOVES)
            TRY(judge_parameter(m->net, &m->net->parameters.item[i], &out[0][i], err));
    }
    return CODE_OK;
}

int still_declare(const struct declaring *d, struct err *err) {
    size_t parameters = (size_t)d->net->parameters.count;
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
