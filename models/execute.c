/* Running a program: its operations forward, and their adjoints in the site average. */
#include "models/node.h"

#include <stdlib.h>
#include <string.h>

static struct node *argument(const struct net *net, const struct node *v, int k) {
    return &net->program->node[v->argument[k]];
}

static const struct backend *ops(const struct net *net) {
    return net->setup.backend;
}

/* g (+)= part, which may have one row for all. */
static void add_part(const struct net *net, struct rows part, bool first, struct rows g) {
    if (part.count != g.count)
        ops(net)->combine(g, first ? 0 : 1, net->ones, part);
    else if (first)
        rows_copy(part, g);
    else
        rows_add(NULL, part, g);
}

/* After the part of argument k has been written: nothing to do where it is the cotangent itself. */
static void hand_over(const struct net *net, const struct node *v, int k) {
    const struct node *a = argument(net, v, k);
    if (v->part[k].item != a->g_item)
        add_part(net, v->part[k].rows, v->part[k].first, a->g);
}

/* x[mu] -> c times it, in place. */
static void scale_rows(const struct net *net, const double *c, struct rows x, struct rows out) {
    ops(net)->pointwise(FN_LINEAR, c, NULL, x, out, (struct rows){0});
}

/* In the program's scratch. */
static double *column_of(const struct net *net, const struct node *numbers, int column) {
    double *out = net->program->c;
    for (int mu = 0; mu < net->setup.P; mu++)
        out[mu] = numbers->s[mu * numbers->K + column];
    return out;
}

/* --- matrices -------------------------------------------------------------------------------- */

static int read_in_prepare(struct net *net, struct node *v, struct err *err) {
    return net_read_in(net, v->on, v->weight.a0, v->thin, err);
}

static int read_in_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    net_read(net, v->thin, v->value);
    return CODE_OK;
}

const struct operation operation_read_in = {.name = "read_in",
                                            .prepare = read_in_prepare,
                                            .forward = read_in_forward,
                                            .learns = true,
                                            .keeps_g = true};

static int map_prepare(struct net *net, struct node *v, struct err *err) {
    const struct net_setup *setup = &net->setup;
    struct map_declaration declared = v->map->declared;
    struct map_choice choice = {setup->N > 0, setup->optimizer == OPTIMIZER_GD,
                                optimizer_by_entry(setup->optimizer), setup->field};
    int number = 0; /* among the maps that draw */
    for (int k = 0; net->map[k] != v->map; k++)
        number += net->map[k]->declared.a0 != 0;
    declared.one_row = v->g_count == 1;
    if (setup->declare_only) {
        map_declare(v->map, declared);
        return CODE_OK;
    }
    TRY(map_init(v->map, map_choose(&choice, &declared), declared, setup->tolerance,
                 net_stream(net, PURPOSE_MATRIX, number), err));
    v->map->responses = setup->responses || (setup->check && !setup->N && !setup->field);
    if (setup->check && setup->N)
        TRY(map_remember(v->map, err));
    return setup->field ? field_attach(v->map, setup->field, err) : CODE_OK;
}

static int map_forward_node(struct net *net, struct node *v, struct err *err) {
    return map_forward(v->map, argument(net, v, 0)->value, v->value, err);
}

static int map_backward_node(struct net *net, struct node *v, struct err *err) {
    if (!v->part[0].due)
        return CODE_OK;
    TRY(map_backward(v->map, v->g, v->part[0].rows, err));
    hand_over(net, v, 0);
    return CODE_OK;
}

const struct operation operation_map = {.name = "map",
                                        .prepare = map_prepare,
                                        .forward = map_forward_node,
                                        .backward = map_backward_node,
                                        .learns = true,
                                        .reads_late = true,
                                        .keeps_g = true};

static int thin_prepare(struct net *net, struct node *v, struct err *err) {
    return net_thin(net, argument(net, v, 0)->on, v->K, v->weight.a0, v->weight.iid, v->thin, err);
}

static int look_forward(struct net *net, struct node *v, struct err *err) {
    int count = net->setup.P * v->K;
    (void)err;
    ops(net)->dots(argument(net, v, 0)->value, array_all(&v->thin->W), v->s);
    if (v->start && !net->started)
        memcpy(v->start, v->s, (size_t)count * sizeof *v->s);
    for (int k = 0; k < count && v->start; k++)
        v->s[k] -= v->start[k];
    return CODE_OK;
}

static int look_backward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    if (v->part[0].due)
        ops(net)->combine(argument(net, v, 0)->g, v->part[0].first ? 0 : 1, v->gs,
                          array_all(&v->thin->W));
    return CODE_OK;
}

const struct operation operation_look = {.name = "look",
                                         .prepare = thin_prepare,
                                         .forward = look_forward,
                                         .backward = look_backward,
                                         .learns = true,
                                         .adds = true,
                                         .reads_late = true};

static int read_out_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    ops(net)->averages(argument(net, v, 0)->value, array_all(&v->thin->W), net->f);
    for (int mu = 0; mu < net->setup.P; mu++)
        net->f[mu] /= net->setup.gamma0;
    return CODE_OK;
}

static int read_out_backward(struct net *net, struct node *v, struct err *err) {
    const struct node *h = argument(net, v, 0);
    struct rows w = array_all(&v->thin->W);
    (void)err;
    if (v->part[0].due && h->g.array != w.array)
        add_part(net, w, v->part[0].first, h->g);
    return CODE_OK;
}

const struct operation operation_read_out = {.name = "read_out",
                                             .prepare = thin_prepare,
                                             .forward = read_out_forward,
                                             .backward = read_out_backward,
                                             .learns = true,
                                             .adds = true,
                                             .reads_late = true};

/* --- rows ------------------------------------------------------------------------------------ */

static int fn_forward(struct net *net, struct node *v, struct err *err) {
    double *k = net->program->c;
    (void)err;
    for (int mu = 0; mu < net->setup.P; mu++)
        k[mu] = v->k;
    ops(net)->pointwise(v->fn, v->k == 1 ? NULL : k, NULL, argument(net, v, 0)->value, v->value,
                        v->slope);
    return CODE_OK;
}

static int fn_backward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    if (!v->part[0].due)
        return CODE_OK;
    rows_multiply(v->slope, v->g, v->part[0].rows);
    if (v->k != 1)
        rows_scale(v->k, v->part[0].rows);
    hand_over(net, v, 0);
    return CODE_OK;
}

const struct operation operation_fn = {.name = "fn",
                                       .forward = fn_forward,
                                       .backward = fn_backward,
                                       .slope = true,
                                       .over = true,
                                       .over_g = true};

static bool same(struct rows a, struct rows b) {
    return a.array == b.array && a.first == b.first;
}

static int add_forward(struct net *net, struct node *v, struct err *err) {
    struct rows a = argument(net, v, 0)->value, b = argument(net, v, 1)->value;
    (void)err;
    if (same(b, v->value)) {
        rows_add(NULL, a, v->value);
        return CODE_OK;
    }
    if (!same(a, v->value))
        rows_copy(a, v->value);
    rows_add(NULL, b, v->value);
    return CODE_OK;
}

static int add_backward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    for (int k = 0; k < 2; k++) {
        const struct node *a = argument(net, v, k);
        if (v->part[k].due && a->g_item != v->g_item)
            add_part(net, v->g, v->part[k].first, a->g);
    }
    return CODE_OK;
}

const struct operation operation_add = {.name = "add",
                                        .forward = add_forward,
                                        .backward = add_backward,
                                        .over = true,
                                        .adds = true,
                                        .passes = true};

static int times_forward(struct net *net, struct node *v, struct err *err) {
    struct rows x = argument(net, v, 0)->value;
    (void)err;
    if (!same(x, v->value))
        rows_copy(x, v->value);
    rows_scale(v->k, v->value);
    return CODE_OK;
}

static int times_backward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    if (!v->part[0].due)
        return CODE_OK;
    if (!same(v->g, v->part[0].rows))
        rows_copy(v->g, v->part[0].rows);
    rows_scale(v->k, v->part[0].rows);
    hand_over(net, v, 0);
    return CODE_OK;
}

const struct operation operation_times = {.name = "times",
                                          .forward = times_forward,
                                          .backward = times_backward,
                                          .over = true,
                                          .over_g = true};

static int multiply_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    rows_multiply(argument(net, v, 0)->value, argument(net, v, 1)->value, v->value);
    return CODE_OK;
}

/* Of a factor over groups: the mean over each group. */
static int multiply_backward(struct net *net, struct node *v, struct err *err) {
    const struct node *a = argument(net, v, 0), *b = argument(net, v, 1);
    (void)err;
    if (v->part[0].due) {
        struct rows part = v->part[0].rows;
        rows_multiply(b->value, v->g, v->work.array ? v->work : part);
        if (v->work.array) {
            ops(net)->group_sum(v->work, part);
            rows_scale(1.0 / v->on->group, part);
        }
        hand_over(net, v, 0);
    }
    if (v->part[1].due) {
        rows_multiply(a->value, v->g, v->part[1].rows);
        hand_over(net, v, 1);
    }
    return CODE_OK;
}

const struct operation operation_multiply = {.name = "multiply",
                                             .forward = multiply_forward,
                                             .backward = multiply_backward,
                                             .over = true,
                                             .over_g = true,
                                             .reads = true};

static int group_mean_forward(struct net *net, struct node *v, struct err *err) {
    const struct node *x = argument(net, v, 0);
    (void)err;
    ops(net)->group_sum(x->value, v->value);
    rows_scale(1.0 / x->on->group, v->value);
    return CODE_OK;
}

/* The mean over groups of expanded rows is themselves. */
static int group_mean_backward(struct net *net, struct node *v, struct err *err) {
    struct rows part = v->part[0].rows;
    (void)err;
    if (!v->part[0].due)
        return CODE_OK;
    rows_zero(part);
    ops(net)->pointwise(FN_LINEAR, NULL, net->ones, part, part, (struct rows){0});
    rows_multiply(v->g, part, part);
    hand_over(net, v, 0);
    return CODE_OK;
}

const struct operation operation_group_mean = {
    .name = "group_mean", .forward = group_mean_forward, .backward = group_mean_backward};

static int tile_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    ops(net)->tile(argument(net, v, 0)->value, v->value);
    return CODE_OK;
}

static int tile_mean_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    ops(net)->tile_mean(argument(net, v, 0)->value, v->value);
    return CODE_OK;
}

static int tile_backward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    if (!v->part[0].due)
        return CODE_OK;
    ops(net)->tile_mean(v->g, v->part[0].rows);
    hand_over(net, v, 0);
    return CODE_OK;
}

static int tile_mean_backward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    if (!v->part[0].due)
        return CODE_OK;
    ops(net)->tile(v->g, v->part[0].rows);
    hand_over(net, v, 0);
    return CODE_OK;
}

const struct operation operation_tile = {
    .name = "tile", .forward = tile_forward, .backward = tile_backward};
const struct operation operation_tile_mean = {
    .name = "tile_mean", .forward = tile_mean_forward, .backward = tile_mean_backward};

static int shift_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    ops(net)->pointwise(FN_LINEAR, NULL, column_of(net, argument(net, v, 0), 0),
                        argument(net, v, 1)->value, v->value, (struct rows){0});
    return CODE_OK;
}

static int shift_backward(struct net *net, struct node *v, struct err *err) {
    const struct node *s = argument(net, v, 0), *x = argument(net, v, 1);
    double *c = net->program->c;
    (void)err;
    if (v->part[0].due) {
        ops(net)->averages(v->g, (struct rows){0}, c);
        for (int mu = 0; mu < net->setup.P; mu++)
            s->gs[mu * s->K] += c[v->g.count == 1 ? 0 : mu];
    }
    if (v->part[1].due && x->g_item != v->g_item)
        add_part(net, v->g, v->part[1].first, x->g);
    return CODE_OK;
}

const struct operation operation_shift = {.name = "shift",
                                          .forward = shift_forward,
                                          .backward = shift_backward,
                                          .over = true,
                                          .adds = true,
                                          .passes = true};

static int top_forward(struct net *net, struct node *v, struct err *err) {
    return ops(net)->top(argument(net, v, 0)->value, v->top, v->value, err);
}

static int rows_forward(struct net *net, struct node *v, struct err *err) {
    return v->custom->forward(v->context, net, argument(net, v, 0)->value, v->value, err);
}

static int ones_prepare(struct net *net, struct node *v, struct err *err) {
    TRY(net_rows(net, v->on, 1, &v->value, err));
    return CODE_OK;
}

static int ones_forward(struct net *net, struct node *v, struct err *err) {
    const double one = 1;
    (void)err;
    rows_zero(v->value);
    ops(net)->pointwise(FN_LINEAR, NULL, &one, v->value, v->value, (struct rows){0});
    return CODE_OK;
}

const struct operation operation_top = {.name = "top", .forward = top_forward};
const struct operation operation_rows = {.name = "rows", .forward = rows_forward};
const struct operation operation_ones = {
    .name = "ones", .prepare = ones_prepare, .forward = ones_forward};

/* --- numbers --------------------------------------------------------------------------------- */

static struct rows other(const struct net *net, const struct node *v) {
    return v->argument[1] < 0 ? (struct rows){0} : argument(net, v, 1)->value;
}

static int average_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    ops(net)->averages(argument(net, v, 0)->value, other(net, v), v->s);
    return CODE_OK;
}

/* g of one argument (+)= gs times the other, or gs itself. */
static int average_backward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    for (int k = 0; k < 2; k++) {
        if (!v->part[k].due)
            continue;
        struct rows g = argument(net, v, k)->g;
        if (v->argument[1] < 0) {
            if (v->part[k].first)
                rows_zero(g);
            ops(net)->pointwise(FN_LINEAR, NULL, v->gs, g, g, (struct rows){0});
        } else if (v->part[k].first)
            scale_rows(net, v->gs, argument(net, v, 1 - k)->value, g);
        else
            rows_add(v->gs, argument(net, v, 1 - k)->value, g);
    }
    return CODE_OK;
}

const struct operation operation_average = {.name = "average",
                                            .forward = average_forward,
                                            .backward = average_backward,
                                            .adds = true,
                                            .reads = true};

static int scale_forward(struct net *net, struct node *v, struct err *err) {
    const double *c = column_of(net, argument(net, v, 0), v->column);
    (void)err;
    scale_rows(net, c, argument(net, v, 1)->value, v->value);
    return CODE_OK;
}

static int scale_backward(struct net *net, struct node *v, struct err *err) {
    const struct node *s = argument(net, v, 0), *x = argument(net, v, 1);
    double *c = net->program->c;
    (void)err;
    if (v->part[0].due) {
        ops(net)->averages(x->value, v->g, c);
        for (int mu = 0; mu < net->setup.P; mu++)
            s->gs[mu * s->K + v->column] += c[mu];
    }
    if (!v->part[1].due)
        return CODE_OK;
    column_of(net, s, v->column);
    if (v->g.count == 1)
        ops(net)->combine(v->part[1].rows, 0, c, v->g);
    else
        scale_rows(net, c, v->g, v->part[1].rows);
    hand_over(net, v, 1);
    return CODE_OK;
}

const struct operation operation_scale = {.name = "scale",
                                          .forward = scale_forward,
                                          .backward = scale_backward,
                                          .over_g = true,
                                          .reads = true};

static int bias_forward(struct net *net, struct node *v, struct err *err) {
    const double *s = argument(net, v, 0)->s;
    (void)err;
    for (int k = 0; k < net->setup.P * v->K; k++)
        v->s[k] = s[k] + v->start[k % v->K];
    return CODE_OK;
}

static int bias_backward(struct net *net, struct node *v, struct err *err) {
    const struct node *s = argument(net, v, 0);
    (void)err;
    for (int k = 0; k < net->setup.P * v->K && v->part[0].due; k++)
        s->gs[k] += v->gs[k];
    return CODE_OK;
}

const struct operation operation_bias = {.name = "bias",
                                         .forward = bias_forward,
                                         .backward = bias_backward,
                                         .learns = true,
                                         .adds = true};

static int numbers_forward(struct net *net, struct node *v, struct err *err) {
    (void)err;
    v->numbers->forward(v->context, net, argument(net, v, 0)->s, v->s);
    return CODE_OK;
}

static int numbers_backward(struct net *net, struct node *v, struct err *err) {
    const struct node *x = argument(net, v, 0);
    (void)err;
    if (v->part[0].due && v->numbers->backward)
        v->numbers->backward(v->context, net, x->s, v->s, v->gs, x->gs);
    return CODE_OK;
}

const struct operation operation_numbers = {
    .name = "numbers", .forward = numbers_forward, .backward = numbers_backward, .adds = true};

/* --- the program ----------------------------------------------------------------------------- */

static void measure(const struct net *net, int node, bool gradient) {
    const struct program *p = net->program;
    for (int k = 0; k < p->measures; k++) {
        const struct measure *m = &p->measure[k];
        if (m->node != node || m->gradient != gradient)
            continue;
        struct rows x = gradient ? p->node[node].g : p->node[node].value;
        ops(net)->averages(x, m->power == 2 ? x : (struct rows){0}, m->out);
        for (int mu = 0; mu < net->setup.P && m->scale != 1; mu++)
            m->out[mu] *= m->scale;
    }
}

int program_forward(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++) {
        TRY(p->node[i].op->forward(net, &p->node[i], err));
        measure(net, i, false);
    }
    return CODE_OK;
}

int program_backward(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].gs)
            memset(p->node[i].gs, 0, (size_t)(net->setup.P * p->node[i].K) * sizeof *p->node[i].gs);
    for (int i = p->nodes - 1; i >= 0; i--) {
        struct node *v = &p->node[i];
        measure(net, i, true);
        if (v->op->backward && (v->g_count || i == p->read_out))
            TRY(v->op->backward(net, v, err));
    }
    return CODE_OK;
}

void program_rules(struct net *net) {
    struct program *p = net->program;
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].custom && p->node[i].custom->rule)
            p->node[i].custom->rule(p->node[i].context);
}

/* Rows of what is measured and of what parameters learn with. */
static int connect(struct net *net, struct err *err) {
    struct program *p = net->program;
    struct rows w = array_all(&p->node[p->read_out].thin->W);
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].g_item == -2)
            p->node[i].g = w;
    for (int k = 0; k < net->kernels; k++) {
        struct kernel *kernel = &net->kernel[k];
        const struct node *v = &p->node[kernel->node < 0 ? 0 : kernel->node];
        kernel->rows = kernel->node < 0 ? w : kernel->gradient ? v->g : v->value;
    }
    for (int k = 0; k < net->parameters; k++) {
        struct parameter *parameter = &net->parameter[k];
        const struct node *v = &p->node[parameter->node];
        if (parameter->node != p->read_out && !v->g_count)
            return err_set(err, CODE_INPUT, "network %s: the output does not depend on matrix %s",
                           net->model->name, parameter->name);
        bool reads = parameter->thin && !node_is(v, &operation_read_in);
        parameter->y = parameter->host ? (struct rows){0}
                       : reads         ? argument(net, v, 0)->value
                                       : v->g;
    }
    if (p->gates >= 0)
        net->gate = p->node[p->gates].value;
    return CODE_OK;
}

/* Read-in and read-out first: of balanced draws, the first are orthogonal to none. */
static int prepare(struct net *net, struct err *err) {
    struct program *p = net->program;
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < p->nodes; i++) {
            struct node *v = &p->node[i];
            int mine = node_is(v, &operation_read_in) ? 0 : node_is(v, &operation_read_out) ? 1 : 2;
            if (mine == pass && v->op->prepare)
                TRY(v->op->prepare(net, v, err));
        }
    return CODE_OK;
}

int program_build(struct net *net, struct err *err) {
    struct program *p;
    TRY(base_alloc(&net->program, 1, sizeof *net->program, err));
    p = net->program;
    *p = (struct program){.net = net, .read_out = -1, .gates = -1};
    TRY(net_vector(net, net->setup.P, &p->c, err));
    net->model->write(p);
    if (!p->code && p->read_out < 0)
        program_fail(p, "it reads nothing out");
    if (p->code) {
        *err = p->err;
        return p->code;
    }
    TRY(plan_storage(net, err));
    TRY(prepare(net, err));
    return connect(net, err);
}

void program_free(struct program *p) {
    if (!p)
        return;
    for (int k = 0; k < p->memories; k++)
        free(p->memory[k]);
    free(p->memory);
    free(p->node);
    free(p->measure);
    free(p->mixture.s2);
    free(p);
}
