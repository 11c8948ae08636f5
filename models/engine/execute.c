/* Running a program: nodes forward, in reverse, and the rules that act once a step. */
#include "models/engine/counts.h"
#include "models/language/adjoint.h"
#include "kernels/base/text.h"

static struct rows measured_rows(const struct program *p, const struct measure *m) {
    return p->node[m->gradient ? p->node[m->node].plan.g : m->node].value;
}

static void measure_node(const struct net *net, int node, bool gradient) {
    const struct program *p = net->program;
    FOR_EACH_OF (struct measure, m, p->measure, p->measures) {
        if (m->node != node || m->gradient != gradient || net->output.term ||
            (gradient && p->node[node].plan.g < 0))
            continue;
        struct rows x = measured_rows(p, m);
        m->asked = true;
        backend_later(net->setup.backend, true);
        net->setup.backend->averages(x, m->power == 2 ? x : (struct rows){0}, m->out);
        backend_later(net->setup.backend, false);
    }
}

/* --- numbers of a device --------------------------------------------------------------------- */

/* Finishes the first `count` nodes that have asked. */
static void finish_nodes(struct net *net, int count) {
    struct program *p = net->program;
    const struct node *last = count ? &p->node[p->asked[count - 1]] : NULL;
    if (last)
        backend_arrive(net->setup.backend, last->asked ? last->asked : last->s, node_numbers(last));
    for (int k = 0; k < count; k++)
        if (p->node[p->asked[k]].op->finish)
            p->node[p->asked[k]].op->finish(net, &p->node[p->asked[k]]);
    p->asks -= count;
    memmove(p->asked, p->asked + count, (size_t)p->asks * sizeof *p->asked);
}

int program_arrive(struct net *net, struct err *err) {
    struct program *p = net->program;
    p->code = CODE_OK;
    backend_arrive(net->setup.backend, NULL, 0);
    finish_nodes(net, p->asks);
    FOR_EACH_OF (struct measure, m, p->measure, p->measures) {
        for (int mu = 0; m->asked && m->scale != 1 && mu < measured_rows(p, m).count; mu++)
            m->out[mu] *= m->scale;
        m->asked = false;
    }
    return program_result(p, err);
}

/* Whether node u has asked for numbers, one of each row, that are its value. */
static bool is_coming(const struct program *p, int u) {
    const struct node *v = &p->node[u];
    return v->K == 1 && (v->op->late || (v->op == &operation_average && node_asks_value(p, v) &&
                                         v->count == p->node[v->argument[0]].count));
}

/* Whether node v reads numbers that are still to come, and can do so. */
static bool runs_late(const struct net *net, const struct node *v) {
    const struct program *p = net->program;
    bool late = false;
    if (!v->op->late || p->experts || (v->op == &operation_scale && !v->on) ||
        !backend_has_later(net->setup.backend))
        return false;
    for (int k = 0; k < p->asks; k++) {
        int u = p->asked[k];
        if (v->argument[0] != u && v->argument[1] != u)
            continue;
        if (!is_coming(p, u))
            return false;
        late = true;
    }
    return late;
}

/* Before node v runs: what it reads, unless it runs late, or writes over, is finished. What adds to
 * the numbers of another node as its own, and asks for them as that one did, is finished after it.
 */
static void finish_for(struct net *net, const struct node *v, bool late) {
    const struct program *p = net->program;
    int count = 0;
    for (int k = 0; k < p->asks; k++) {
        int u = p->asked[k];
        bool same = v->s && p->node[u].s == v->s,
             reads = v->argument[0] == u || v->argument[1] == u;
        if ((late && reads) || p->node[u].on) /* who reads rows does not ask for their numbers */
            continue;
        if (reads || (same ? !v->op->finish || v->onto < 0 : v->onto == u))
            count = k + 1;
    }
    finish_nodes(net, count);
}

/* Matrices that meet the rows of node i ask a device about them. */
static int ask_ahead(const struct net *net, int i, struct err *err) {
    const struct program *p = net->program;
    for (int k = p->node[i].plan.asks_ahead; k >= 0; k = p->node[k].plan.asks_ahead_too)
        TRY(map_ask_ahead(p->node[k].matrix.map, p->node[k].of < 0, p->node[i].value, err));
    return CODE_OK;
}

int program_ask_ahead(const struct net *net, struct err *err) {
    for (int i = net->program->nodes; i < net->program->all; i++)
        if (net->program->node[i].op->traits & OP_CONSTANT)
            TRY(ask_ahead(net, i, err));
    return CODE_OK;
}

/* Finds on a device which matrices meet the rows of each node. */
static void find_asks(struct program *p) {
    for (int i = 0; i < p->all; i++)
        p->node[i].plan.asks_ahead = p->node[i].plan.asks_ahead_too = -1;
    for (int i = p->all - 1; i >= 0 && backend_has_later(p->net->setup.backend); i--) {
        struct node *v = &p->node[i];
        if (!(v->op->traits & OP_MEETS))
            continue;
        v->plan.asks_ahead_too = p->node[v->argument[0]].plan.asks_ahead;
        p->node[v->argument[0]].plan.asks_ahead = i;
    }
}

/* No numbers are to come of a pass that has failed. What they tell of came first. */
static int end_pass(struct net *net, int code, struct err *err) {
    struct err first;
    if (code && program_arrive(net, &first) && code == CODE_NUMERICAL)
        *err = first;
    return code;
}

/* A sum goes on where it is, or on a copy; that of numbers begins at 0. */
int node_run(struct net *net, struct node *v, struct err *err) {
    struct program *p = net->program;
    p->code = CODE_OK;
    if (p->asks == ASKED_NODES)
        finish_nodes(net, p->asks);
    bool late = runs_late(net, v), asks = late && !v->on;
    if (p->asks)
        finish_for(net, v, late);
    if (v->onto >= 0 && !same_rows(p->node[v->onto].value, v->value))
        rows_copy(p->node[v->onto].value, v->value);
    else if (v->onto < 0 && v->plan.adds && !v->on)
        memset(v->s, 0, node_numbers(v) * sizeof *v->s);
    const struct backend *backend = asks            ? net->setup.backend
                                    : v->op->finish ? p->node[v->argument[0]].value.array->backend
                                                    : &backend_counted;
    backend_later(backend, true);
    if (late)
        v->op->late(net, v);
    else
        selected_run(net, v);
    backend_later(backend, false);
    if (backend_has_later(backend))
        p->asked[p->asks++] = (int)(v - p->node);
    else if (v->op->finish)
        v->op->finish(net, v);
    return program_result(p, err);
}

/* Rows that no step behind this one reads, on a backend that poisons; behind no step, before the
 * first of them: all rows. */
static void poison_unread(const struct program *p, int step) {
    for (int i = 0; i < p->all && p->net->setup.backend->poisons; i++) {
        const struct node *v = &p->node[i];
        struct rows own = adjoint_is_taken(v) ? v->work : v->value;
        if (v->plan.last >= 0 && (step < 0 || v->plan.last == step))
            rows_poison(array_all(own.array));
    }
}

static int run_forward(struct net *net, struct err *err) {
    struct program *p = net->program;
    poison_unread(p, -1);
    for (int i = 0; i < p->nodes; i++) {
        TRY(base_go_on(&net->setup.stop, err));
        if (!p->node[i].plan.idle)
            TRY(node_run(net, &p->node[i], err));
        TRY(ask_ahead(net, i, err));
        if (!p->node[i].on && p->experts)
            selected_refresh(net, i);
        measure_node(net, i, false);
        poison_unread(p, i);
    }
    return CODE_OK;
}

int program_forward(struct net *net, struct err *err) {
    return end_pass(net, run_forward(net, err), err);
}

/* Coefficients of what the columns of a read-out learn with. */
static const double *coefficients_out(const struct net *net, const struct node *v) {
    return v->plan.learned >= 0            ? net->program->node[v->plan.learned].s
           : net->output.loss_in_cotangent ? net->output.Delta
                                           : net->output.ones;
}

/* Columns learn with the rows of all uses: those of this one, once its cotangent is there. */
static int stack_columns(struct net *net, const struct node *v, struct err *err) {
    const struct thin *thin = v->matrix.thin;
    if (!thin || !thin->A)
        return CODE_OK;
    TRY(program_arrive(net, err));
    const struct node *x = &net->program->node[v->argument[0]],
                      *g = node_cotangent(net->program, v);
    bool reads = !node_reads_no_rows(v);
    const double *A = !reads                             ? x->s
                      : v->op->matrix == MATRIX_READ_OUT ? coefficients_out(net, v)
                                                         : g->s;
    rows_copy(reads ? x->value : g->value, rows_part(thin->y, v->matrix.use * v->count, v->count));
    memcpy(thin->A + (size_t)v->matrix.use * (size_t)v->count * (size_t)v->K, A,
           (size_t)v->count * (size_t)v->K * sizeof *A);
    return CODE_OK;
}

static int run_until(struct net *net, int *next, int end, struct err *err) {
    for (; *next < end; ++*next) {
        TRY(base_go_on(&net->setup.stop, err));
        if (!net->program->node[*next].plan.forward)
            TRY(node_run(net, &net->program->node[*next], err));
        if (!(net->program->node[*next].op->traits & OP_CONSTANT))
            TRY(ask_ahead(net, *next, err));
        poison_unread(net->program, *next);
    }
    return CODE_OK;
}

/* What is done with a cotangent happens as soon as it is complete. */
static int run_backward(struct net *net, struct err *err) {
    struct program *p = net->program;
    int next = p->nodes;
    for (int k = 0; k < p->nodes; k++) {
        struct node *v = &p->node[p->order[k]];
        TRY(run_until(net, &next, v->plan.begin, err));
        measure_node(net, p->order[k], true);
        if (v->matrix.map && v->matrix.map->of_all_uses[1].array && v->plan.g >= 0)
            rows_copy(node_cotangent(p, v)->value, /* what a matrix with several uses learns with */
                      rows_part(v->matrix.map->of_all_uses[1], v->matrix.use * v->count, v->count));
        TRY(stack_columns(net, v, err));
    }
    TRY(run_until(net, &next, p->all, err));
    return program_arrive(net, err);
}

int program_backward(struct net *net, struct err *err) {
    return end_pass(net, run_backward(net, err), err);
}

void program_rules(struct net *net) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].op->after_step)
            p->node[i].op->after_step(p->node[i].constant.context);
}

static const char behind_read_out[] =
    "; output(s) makes numbers that follow from the read-out the output";

/* Every use of what learns has a cotangent. */
static int check_reach(const struct net *net, const struct parameter *parameter, struct err *err) {
    const struct program *p = net->program;
    bool again = (parameter->map && parameter->map->declared.uses > 1) ||
                 (parameter->thin && parameter->thin->uses > 1);
    for (int i = parameter->node; i < (again ? p->nodes : parameter->node + 1); i++) {
        const struct node *v = &p->node[i];
        bool mine = i == parameter->node || (v->matrix.map && v->matrix.map == parameter->map) ||
                    (v->matrix.thin && v->matrix.thin == parameter->thin);
        if (mine && i != p->output && v->plan.g < 0)
            return err_set(err, CODE_INPUT, "network %s: the output does not depend on %s %s%s",
                           net->model->name, v->matrix.use ? "all uses of matrix" : "matrix",
                           TEXT_SHOWN_OF(parameter), i > p->read_out ? behind_read_out : "");
    }
    return CODE_OK;
}

/* Neither other operations, nor the backward pass, nor a series read idle numbers. What acts on
 * those of the read-out is meant to be read. */
static int find_idle(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++) {
        struct node *v = &p->node[i];
        v->plan.idle = !v->on && (v->op->traits & OP_BARE) && v->plan.g < 0 && !v->plan.measured &&
                       !node_shown(net, i, false);
    }
    for (int i = p->nodes - 1; i >= 0; i--)
        for (int k = 0; k < 2 && !p->node[i].plan.idle; k++)
            if (p->node[i].argument[k] >= 0)
                p->node[p->node[i].argument[k]].plan.idle = false;
    for (int i = p->read_out + 1; i < p->nodes; i++)
        if (p->node[i].plan.idle && p->node[i].argument[0] == p->read_out)
            return err_set(err, CODE_INPUT, "network %s: nothing reads what acts on the read-out%s",
                           net->model->name, behind_read_out);
    return CODE_OK;
}

/* Series of numbers, or of their cotangents; what has none keeps zeros. */
static int give_numbers(struct net *net, struct err *err) {
    FOR_EACH (struct numbers, numbers, net->numbers) {
        const struct node *v = numbers->node < 0 ? NULL : &net->program->node[numbers->node];
        if (v && !numbers->gradient)
            numbers->values = v->s;
        else if (v && v->plan.g >= 0)
            numbers->values = node_cotangent(net->program, v)->s;
        else if (v)
            TRY(net_vector(net, node_numbers(v), 1, &numbers->values, err));
    }
    return CODE_OK;
}

/* What a parameter learns with. */
static void give_parameter(struct net *net, struct parameter *parameter) {
    const struct program *p = net->program;
    const struct node *v = &p->node[parameter->node], *g = node_cotangent(p, v),
                      *x = v->argument[0] < 0 ? v : &p->node[v->argument[0]];
    bool tied = v->matrix.map && v->matrix.map->of_all_uses[1].array,
         reads = parameter->thin && !node_reads_no_rows(v);
    if (parameter->node == p->read_out)
        parameter->A = coefficients_out(net, v);
    else if (!v->on)
        parameter->A = v->plan.learned >= 0 ? p->node[v->plan.learned].s : g->s;
    else if (v->op->matrix == MATRIX_EMBED)
        parameter->A = x->s;
    parameter->rows = tied ? v->matrix.map->of_all_uses[0].count : x->count;
    parameter->y = tied    ? v->matrix.map->of_all_uses[1]
                   : v->on ? p->node[v->expert.g >= 0 ? v->expert.g : v->plan.g].value
                   : reads ? x->value
                           : (struct rows){0};
    if (parameter->thin && parameter->thin->A) {
        parameter->y = parameter->thin->y;
        parameter->A = parameter->thin->A;
        parameter->rows = parameter->y.count;
    }
}

/* Rows of what is measured and of what parameters learn with. */
static int give_rows(struct net *net, struct err *err) {
    struct program *p = net->program;
    struct rows w = array_all(&p->node[p->read_out].matrix.thin->W);
    TRY(adjoint_prepare(p, err));
    find_asks(p);
    TRY(give_numbers(net, err));
    FOR_EACH (struct kernel, kernel, net->kernels) {
        const struct node *v = &p->node[kernel->node < 0 ? 0 : kernel->node];
        kernel->rows = kernel->node < 0   ? w
                       : kernel->gradient ? node_cotangent(p, v)->value
                                          : v->value;
        kernel->for_all_inputs |=
            kernel->node >= 0 && kernel->rows.count < net->setup.data.P * v->per;
    }
    for (int k = 0; k < net->parameters.count; k++) {
        TRY(base_go_on(&net->setup.stop, err));
        TRY(check_reach(net, &net->parameters.item[k], err));
        give_parameter(net, &net->parameters.item[k]);
    }
    named_connect(net);
    TRY(find_idle(net, err));
    if (p->gates >= 0)
        net->gates.rows = p->node[p->gates].value;
    if (p->gates >= 0 && p->logits >= 0 && net->setup.measure.router)
        net->gates.logits = p->node[p->logits].value;
    return CODE_OK;
}

/* Read-in and read-out first: of balanced draws, the first are orthogonal to none. */
static int prepare_nodes(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < p->nodes; i++) {
            TRY(base_go_on(&net->setup.stop, err));
            struct node *v = &p->node[i];
            int mine = node_reads_no_rows(v) ? 0 : v->op->matrix == MATRIX_READ_OUT ? 1 : 2;
            if (mine == pass && v->op->prepare)
                TRY(v->op->prepare(net, v, err));
        }
    return CODE_OK;
}

/* Whether the value of a single site jumps, or has a kink, in what it is made of. */
static bool sites_jump(const struct program *p) {
    for (int i = 0; i < p->nodes; i++) {
        const struct operation *op = p->node[i].op;
        bool noise = op->zeros == ZEROS_NONE; /* which is new, whatever it is drawn beside */
        if (p->node[i].on && op->jumps && !noise && op->jumps(p, i))
            return true;
    }
    return false;
}

int program_build(struct net *net, struct err *err) {
    struct program *p;
    TRY(base_alloc(&net->program, 1, sizeof *net->program, err));
    p = net->program;
    *p = (struct program){.net = net, .read_out = -1, .output = -1, .gates = -1};
    TRY(net_vector(net, (size_t)net->batch.rows, (size_t)net->setup.data.n, &p->c, err));
    net->model->write(p);
    p->kept = net->arrays.count;
    if (!p->code && p->read_out < 0)
        program_fail(p, "it reads nothing out");
    heads_check(p);
    growth_refuse(p, (struct value){p->output}, "the output");
    TRY(program_result(p, err));
    if (net->setup.measure.shift > 0 && sites_jump(p))
        net->setup.measure.shift = net->setup.measure.shift_of_jumps;
    if (net->gates.tied && !net->gates.random)
        return CODE_OK;
    TRY(counts_mark(net, err));
    TRY(named_select(p, err));
    TRY(routed_select(p, err));
    TRY(plan_storage(net, err));
    net->output.f = p->node[p->output].s;
    TRY(prepare_nodes(net, err));
    return give_rows(net, err);
}

void program_free(struct program *p) {
    if (!p)
        return;
    for (int k = 0; k < p->memories; k++)
        free(p->memory[k]);
    free(p->memory);
    free(p->node);
    free(p->measure);
    free(p->expert);
    free(p->mixture.s2);
    free(p);
}
