/* Running a program: nodes forward, in reverse, and the rules that act once a step. */
#include "models/engine/counts.h"
#include "models/engine/node.h"

#include <stdlib.h>
#include <string.h>

static void measure(const struct net *net, int node, bool gradient) {
    const struct program *p = net->program;
    for (int k = 0; k < p->measures; k++) {
        const struct measure *m = &p->measure[k];
        if (m->node != node || m->gradient != gradient || net->output.term)
            continue;
        struct rows x = gradient ? p->node[node].g : p->node[node].value;
        net->setup.backend->averages(x, m->power == 2 ? x : (struct rows){0}, m->out);
        for (int mu = 0; mu < x.count && m->scale != 1; mu++)
            m->out[mu] *= m->scale;
    }
}

/* The failure that an operation has remembered. */
static int outcome(const struct net *net, struct err *err) {
    const struct program *p = net->program;
    if (p->code)
        *err = p->err;
    return p->code;
}

int node_forward(struct net *net, struct node *v, struct err *err) {
    net->program->code = CODE_OK;
    selected_forward(net, v);
    return outcome(net, err);
}

int node_backward(struct net *net, struct node *v, struct err *err) {
    net->program->code = CODE_OK;
    if (v->op->collect)
        v->op->collect(net, v);
    if (v->plan.part[0].due || v->plan.part[1].due)
        selected_backward(net, v);
    return outcome(net, err);
}

int program_poll(const struct net *net, struct err *err) {
    return base_stopped(&net->setup.stop) ? err_set(err, CODE_INTERRUPTED, "interrupted") : CODE_OK;
}

/* Rows that no step behind this one reads, on a backend that poisons; behind no step, before the
 * first of them: all rows. */
static void poison(const struct program *p, int step) {
    for (int k = 0; k < p->leases; k++)
        if (step < 0 || p->lease[k].end == step)
            rows_poison(p->lease[k].rows);
}

int program_forward(struct net *net, struct err *err) {
    struct program *p = net->program;
    poison(p, -1);
    for (int i = 0; i < p->nodes; i++) {
        TRY(program_poll(net, err));
        if (!p->node[i].plan.idle)
            TRY(node_forward(net, &p->node[i], err));
        if (!p->node[i].on && p->experts)
            selected_refresh(net, i);
        measure(net, i, false);
        poison(p, i);
    }
    return CODE_OK;
}

/* What a matrix with several uses learns with. */
static void stack_cotangents(const struct node *v) {
    struct rows y = v->matrix.map ? v->matrix.map->of_all_uses[1] : (struct rows){0};
    if (y.array && v->g.array)
        rows_copy(v->g, rows_part(y, v->matrix.use * v->count, v->count));
}

int program_backward(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].gs)
            memset(p->node[i].gs, 0, node_numbers(&p->node[i]) * sizeof *p->node[i].gs);
    for (size_t k = 0; p->node[p->read_out].A && k < node_numbers(&p->node[p->output]); k++)
        p->node[p->output].gs[k] = net->setup.gamma0 * net->output.Delta[k];
    for (int i = p->nodes - 1; i >= 0; i--) {
        TRY(program_poll(net, err));
        measure(net, i, true);
        stack_cotangents(&p->node[i]);
        TRY(node_backward(net, &p->node[i], err));
        poison(p, 2 * p->nodes - 1 - i);
    }
    return CODE_OK;
}

void program_rules(struct net *net) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].constant.custom && p->node[i].constant.custom->rule)
            p->node[i].constant.custom->rule(p->node[i].constant.context);
        else if (p->node[i].constant.numbers && p->node[i].constant.numbers->rule)
            p->node[i].constant.numbers->rule(p->node[i].constant.context);
}

static const char behind_read_out[] =
    "; output(s) makes numbers that follow from the read-out the output";

/* Every use of what learns has a cotangent. */
static int check_reach(const struct net *net, const struct parameter *parameter, struct err *err) {
    const struct program *p = net->program;
    bool again = parameter->map && parameter->map->declared.uses > 1;
    for (int i = parameter->node; i < (again ? p->nodes : parameter->node + 1); i++) {
        const struct node *v = &p->node[i];
        bool mine = i == parameter->node || (v->matrix.map && v->matrix.map == parameter->map);
        if (mine && i != p->output && !v->plan.g_count)
            return err_set(err, CODE_INPUT, "network %s: the output does not depend on %s %s%s",
                           net->model->name, v->matrix.use ? "all uses of matrix" : "matrix",
                           parameter->name, i > p->read_out ? behind_read_out : "");
    }
    return CODE_OK;
}

/* Neither other operations, nor the backward pass, nor a series read idle numbers. What acts on
 * those of the read-out is meant to be read. */
static int find_idle(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++) {
        struct node *v = &p->node[i];
        const struct number_fn *fn = v->constant.numbers;
        v->plan.idle = (v->op->bare || (fn && fn->bare)) && !v->plan.g_count && !v->plan.measured &&
                       !node_shown(net, v->s);
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

/* Rows of what is measured and of what parameters learn with. */
static int give_rows(struct net *net, struct err *err) {
    struct program *p = net->program;
    struct rows w = array_all(&p->node[p->read_out].matrix.thin->W);
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].plan.g_item == -2)
            p->node[i].g = w;
    for (int k = 0; k < net->kernels.count; k++) {
        struct kernel *kernel = &net->kernels.item[k];
        const struct node *v = &p->node[kernel->node < 0 ? 0 : kernel->node];
        kernel->rows = kernel->node < 0 ? w : kernel->gradient ? v->g : v->value;
        kernel->for_all_inputs |=
            kernel->node >= 0 && kernel->rows.count < net->setup.data.P * v->per;
    }
    for (int k = 0; k < net->parameters.count; k++) {
        struct parameter *parameter = &net->parameters.item[k];
        const struct node *v = &p->node[parameter->node];
        bool tied = v->matrix.map && v->matrix.map->of_all_uses[1].array;
        TRY(program_poll(net, err));
        TRY(check_reach(net, parameter, err));
        const struct node *x = v->argument[0] < 0 ? v : &p->node[v->argument[0]];
        if (parameter->node == p->read_out)
            parameter->A = v->A                            ? v->A
                           : net->output.loss_in_cotangent ? net->output.Delta
                                                           : net->output.ones;
        bool reads = parameter->thin && !node_reads_no_rows(v);
        parameter->rows = tied ? v->matrix.map->of_all_uses[0].count : x->count;
        parameter->y = tied              ? v->matrix.map->of_all_uses[1]
                       : parameter->host ? (struct rows){0}
                       : reads           ? x->value
                                         : v->g;
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
static int prepare(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < p->nodes; i++) {
            TRY(program_poll(net, err));
            struct node *v = &p->node[i];
            int mine = node_reads_no_rows(v) ? 0 : v->op->matrix == MATRIX_READ_OUT ? 1 : 2;
            if (mine == pass && v->op->prepare)
                TRY(v->op->prepare(net, v, err));
        }
    return CODE_OK;
}

int program_build(struct net *net, struct err *err) {
    struct program *p;
    TRY(base_alloc(&net->program, 1, sizeof *net->program, err));
    p = net->program;
    *p = (struct program){.net = net, .read_out = -1, .output = -1, .gates = -1};
    TRY(net_vector(net, (size_t)net->batch.rows, (size_t)net->setup.data.n, &p->c, err));
    net->model->write(p);
    if (!p->code && p->read_out < 0)
        program_fail(p, "it reads nothing out");
    heads_check(p);
    if (p->code) {
        *err = p->err;
        return p->code;
    }
    net->output.f = p->node[p->output].s;
    if (net->gates.tied && !net->gates.random)
        return CODE_OK;
    TRY(counts_mark(net, err));
    TRY(named_select(p, err));
    TRY(routed_select(p, err));
    TRY(plan_storage(net, err));
    TRY(prepare(net, err));
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
    free(p->lease);
    free(p->expert);
    free(p->mixture.s2);
    free(p);
}
