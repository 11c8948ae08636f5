/* The operations of programs: forward, and their adjoints in the site average. An adjoint is only
 * called where a part of a cotangent is due. */
#include "models/language/operation.h"

#include <stdlib.h>
#include <string.h>

/* x[mu] -> c times it, in place. */
static void scale_rows(const struct net *net, const double *c, struct rows x, struct rows out) {
    ops(net)->pointwise(FN_LINEAR, c, NULL, x, out, (struct rows){0});
}

/* In the program's scratch. */
static double *column_of(const struct net *net, const struct node *numbers, int column) {
    double *out = net->program->c;
    for (int mu = 0; mu < numbers->count; mu++)
        out[mu] = numbers->s[mu * numbers->K + column];
    return out;
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

/* part_rows: as many as the argument has. */
int node_part_like_argument(const struct program *p, const struct node *v, int k) {
    return p->node[v->argument[k]].count;
}

static bool always(const struct program *p, int i) {
    (void)p, (void)i;
    return true;
}

/* --- matrices -------------------------------------------------------------------------------- */

static int read_in_prepare(struct net *net, struct node *v, struct err *err) {
    return net_read_in(net, v, err);
}

static void read_in_forward(struct net *net, struct node *v) {
    net_read(net, v);
}

const struct operation operation_read_in = {.name = "read_in",
                                            .linear = true,
                                            .prepare = read_in_prepare,
                                            .forward = read_in_forward,
                                            .learns = true,
                                            .storage.learning_reads_cotangent = true,
                                            .storage.full_cotangent = true,
                                            .matrix = MATRIX_READ_IN};

/* An earlier limit map that reads the same rows: it meets the same directions. */
static const struct map *leader_of(const struct net *net, const struct node *v) {
    bool leads = v->matrix.map->kind == &map_limit && v->matrix.map->declared.uses == 1;
    for (const struct node *u = net->program->node; u < v && leads; u++)
        if (u->matrix.map && u->matrix.map->kind == &map_limit &&
            u->argument[0] == v->argument[0] && u->matrix.map->declared.uses == 1)
            return u->matrix.map;
    return NULL;
}

/* Room for the rows of all uses of a matrix. */
static int gather(struct net *net, const struct node *v, struct err *err) {
    const struct map_declaration *map = &v->matrix.map->declared;
    struct rows x, y;
    if (map->uses == 1)
        return CODE_OK;
    TRY(net_rows(net, map->source, map->uses * v->count, &x, err));
    TRY(net_rows(net, map->target, map->uses * v->count, &y, err));
    map_gather(v->matrix.map, x, y);
    return CODE_OK;
}

static int map_prepare(struct net *net, struct node *v, struct err *err) {
    const struct net_setup *setup = &net->setup;
    struct map_declaration declared = v->matrix.map->declared;
    int number = 0; /* among the maps that draw */
    if (v->matrix.use > 0)
        return CODE_OK;
    for (int k = 0; net->maps.item[k] != v->matrix.map; k++)
        number += net->maps.item[k]->declared.a0 != 0;
    declared.one_row = v->plan.g_count == 1 && declared.uses == 1;
    if (setup->declare_only) {
        map_declare(v->matrix.map, declared);
        return gather(net, v, err);
    }
    struct map_settings settings = {.stop = setup->stop,
                                    .stream = net_stream(net, PURPOSE_MATRIX, number),
                                    .tolerance = net_tolerance(setup),
                                    .against_largest = net->output.loss_in_cotangent,
                                    .responses = setup->measure.responses || setup->measure.check,
                                    .field = setup->field};
    TRY(map_init(v->matrix.map, net_map_kind(net, &declared), declared, settings, err));
    TRY(gather(net, v, err));
    const struct map *leader = leader_of(net, v);
    if (leader)
        TRY(map_follow(v->matrix.map, leader, err));
    return setup->measure.check && setup->N ? map_remember(v->matrix.map, err) : CODE_OK;
}

static void map_forward_node(struct net *net, struct node *v) {
    v->matrix.map->use = v->matrix.use;
    latch(net,
          map_forward(v->matrix.map, argument(net, v, 0)->value, v->value, &net->program->err));
}

static void map_backward_node(struct net *net, struct node *v) {
    v->matrix.map->use = v->matrix.use;
    latch(net, map_backward(v->matrix.map, v->g, v->plan.part[0].rows, &net->program->err));
    hand_over(net, v, 0);
}

const struct operation operation_map = {.name = "map",
                                        .linear = true,
                                        .prepare = map_prepare,
                                        .forward = map_forward_node,
                                        .backward = map_backward_node,
                                        .learns = true,
                                        .storage.learning_reads_argument = true,
                                        .storage.learning_reads_cotangent = true,
                                        .matrix = MATRIX_MAP};

static int thin_prepare(struct net *net, struct node *v, struct err *err) {
    return net_thin(net, argument(net, v, 0)->on, v->K, v->matrix.weight.a0, v->matrix.weight.iid,
                    v->matrix.thin, err);
}

static void look_forward(struct net *net, struct node *v) {
    int count = v->count * v->K;
    ops(net)->dots(argument(net, v, 0)->value, array_all(&v->matrix.thin->W), v->s);
    if (v->matrix.start && !net->batch.started)
        memcpy(v->matrix.start, v->s, (size_t)count * sizeof *v->s);
    for (int k = 0; k < count && v->matrix.start; k++)
        v->s[k] -= v->matrix.start[k];
}

static void look_backward(struct net *net, struct node *v) {
    ops(net)->combine(argument(net, v, 0)->g, v->plan.part[0].first ? 0 : 1, v->gs,
                      array_all(&v->matrix.thin->W));
}

const struct operation operation_look = {.name = "look",
                                         .linear = true,
                                         .prepare = thin_prepare,
                                         .forward = look_forward,
                                         .backward = look_backward,
                                         .learns = true,
                                         .storage.accumulates_itself = true,
                                         .storage.learning_reads_argument = true,
                                         .matrix = MATRIX_LOOK,
                                         .part_rows = node_part_like_argument};

static int read_out_part(const struct program *p, const struct node *v, int k) {
    return p->net->output.loss_in_cotangent ? node_part_like_argument(p, v, k) : 1;
}

static void read_out_forward(struct net *net, struct node *v) {
    struct rows h = argument(net, v, 0)->value, w = array_all(&v->matrix.thin->W);
    if (v->K == 1)
        ops(net)->averages(h, w, net->output.f);
    else
        ops(net)->dots(h, w, net->output.f);
    for (int k = 0; k < net->batch.output_rows * v->K; k++)
        net->output.f[k] /= net->setup.gamma0;
}

static void read_out_backward(struct net *net, struct node *v) {
    const struct node *h = argument(net, v, 0);
    struct rows w = array_all(&v->matrix.thin->W);
    if (net->output.loss_in_cotangent)
        ops(net)->combine(h->g, v->plan.part[0].first ? 0 : 1, net->output.Delta, w);
    else if (h->g.array != w.array)
        add_part(net, w, v->plan.part[0].first, h->g);
}

const struct operation operation_read_out = {.name = "read_out",
                                             .linear = true,
                                             .prepare = thin_prepare,
                                             .forward = read_out_forward,
                                             .backward = read_out_backward,
                                             .learns = true,
                                             .storage.accumulates_itself = true,
                                             .storage.learning_reads_argument = true,
                                             .matrix = MATRIX_READ_OUT,
                                             .part_rows = read_out_part};

/* --- rows ------------------------------------------------------------------------------------ */

static int fn_part(const struct program *p, const struct node *v, int k) {
    (void)p, (void)k;
    return larger(v->plan.g_count, v->count);
}

static bool fn_jumps(const struct program *p, int i) {
    return p->node[i].constant.fn == FN_RELU;
}

static void fn_forward(struct net *net, struct node *v) {
    double *k = net->program->c;
    for (int mu = 0; mu < v->count; mu++)
        k[mu] = v->constant.factor;
    ops(net)->pointwise(v->constant.fn, v->constant.factor == 1 ? NULL : k, NULL,
                        argument(net, v, 0)->value, v->value, v->slope);
}

static void fn_backward(struct net *net, struct node *v) {
    rows_multiply(v->slope, v->g, v->plan.part[0].rows);
    if (v->constant.factor != 1)
        rows_scale(v->constant.factor, v->plan.part[0].rows);
    hand_over(net, v, 0);
}

static json_t *fn_describe(const struct node *v) {
    return json_pack("{s:s, s:f}", "function", functions_name[v->constant.fn], "k",
                     v->constant.factor);
}

const struct operation operation_fn = {.name = "fn",
                                       .describe = fn_describe,
                                       .forward = fn_forward,
                                       .backward = fn_backward,
                                       .storage.keeps_slope = true,
                                       .storage.value_in_place = true,
                                       .storage.cotangent_in_place = true,
                                       .across_inputs = true,
                                       .function = true,
                                       .part_rows = fn_part,
                                       .jumps = fn_jumps};

static bool same(struct rows a, struct rows b) {
    return a.array == b.array && a.first == b.first;
}

static void add_forward(struct net *net, struct node *v) {
    struct rows a = argument(net, v, 0)->value, b = argument(net, v, 1)->value;
    if (same(b, v->value)) {
        rows_add(NULL, a, v->value);
        return;
    }
    if (!same(a, v->value))
        rows_copy(a, v->value);
    rows_add(NULL, b, v->value);
}

static void add_backward(struct net *net, struct node *v) {
    for (int k = 0; k < 2; k++) {
        const struct node *a = argument(net, v, k);
        if (v->plan.part[k].due && a->plan.g_item != v->plan.g_item)
            add_part(net, v->g, v->plan.part[k].first, a->g);
    }
}

const struct operation operation_add = {.name = "add",
                                        .linear = true,
                                        .forward = add_forward,
                                        .backward = add_backward,
                                        .storage.value_in_place = true,
                                        .storage.accumulates_itself = true,
                                        .storage.backward_is_identity = true,
                                        .across_inputs = true};

static void times_forward(struct net *net, struct node *v) {
    struct rows x = argument(net, v, 0)->value;
    if (!same(x, v->value))
        rows_copy(x, v->value);
    rows_scale(v->constant.factor, v->value);
}

static void times_backward(struct net *net, struct node *v) {
    if (!same(v->g, v->plan.part[0].rows))
        rows_copy(v->g, v->plan.part[0].rows);
    rows_scale(v->constant.factor, v->plan.part[0].rows);
    hand_over(net, v, 0);
}

static json_t *times_describe(const struct node *v) {
    return json_pack("{s:f}", "k", v->constant.factor);
}

const struct operation operation_times = {.name = "times",
                                          .describe = times_describe,
                                          .linear = true,
                                          .forward = times_forward,
                                          .backward = times_backward,
                                          .storage.value_in_place = true,
                                          .storage.cotangent_in_place = true,
                                          .across_inputs = true};

static int multiply_part(const struct program *p, const struct node *v, int k) {
    return larger(v->plan.g_count, p->node[v->argument[1 - k]].count);
}

static void multiply_forward(struct net *net, struct node *v) {
    rows_multiply(argument(net, v, 0)->value, argument(net, v, 1)->value, v->value);
}

/* Of a factor over groups: the mean over each group. */
static void multiply_backward(struct net *net, struct node *v) {
    const struct node *a = argument(net, v, 0), *b = argument(net, v, 1);
    if (v->plan.part[0].due) {
        struct rows part = v->plan.part[0].rows;
        rows_multiply(b->value, v->g, v->work.array ? v->work : part);
        if (v->work.array) {
            ops(net)->group_sum(v->work, part);
            rows_scale(1.0 / v->on->group, part);
        }
        hand_over(net, v, 0);
    }
    if (v->plan.part[1].due) {
        rows_multiply(a->value, v->g, v->plan.part[1].rows);
        hand_over(net, v, 1);
    }
}

const struct operation operation_multiply = {.name = "multiply",
                                             .forward = multiply_forward,
                                             .backward = multiply_backward,
                                             .storage.value_in_place = true,
                                             .storage.cotangent_in_place = true,
                                             .storage.backward_reads_arguments = true,
                                             .across_inputs = true,
                                             .grouped_factor = true,
                                             .part_rows = multiply_part};

static void group_mean_forward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    ops(net)->group_sum(x->value, v->value);
    rows_scale(1.0 / x->on->group, v->value);
}

/* The mean over groups of expanded rows is themselves. */
static void group_mean_backward(struct net *net, struct node *v) {
    struct rows part = v->plan.part[0].rows;
    rows_zero(part);
    ops(net)->pointwise(FN_LINEAR, NULL, net->output.ones, part, part, (struct rows){0});
    rows_multiply(v->g, part, part);
    hand_over(net, v, 0);
}

const struct operation operation_group_mean = {.name = "group_mean",
                                               .linear = true,
                                               .forward = group_mean_forward,
                                               .backward = group_mean_backward};

static void tile_forward(struct net *net, struct node *v) {
    ops(net)->tile(argument(net, v, 0)->value, v->value);
}

static void tile_mean_forward(struct net *net, struct node *v) {
    ops(net)->tile_mean(argument(net, v, 0)->value, v->value);
}

static void tile_backward(struct net *net, struct node *v) {
    ops(net)->tile_mean(v->g, v->plan.part[0].rows);
    hand_over(net, v, 0);
}

static void tile_mean_backward(struct net *net, struct node *v) {
    ops(net)->tile(v->g, v->plan.part[0].rows);
    hand_over(net, v, 0);
}

const struct operation operation_tile = {
    .name = "tile", .linear = true, .forward = tile_forward, .backward = tile_backward};
const struct operation operation_tile_mean = {.name = "tile_mean",
                                              .linear = true,
                                              .forward = tile_mean_forward,
                                              .backward = tile_mean_backward,
                                              .mean_of_copies = true};

static void shift_forward(struct net *net, struct node *v) {
    ops(net)->pointwise(FN_LINEAR, NULL, column_of(net, argument(net, v, 0), 0),
                        argument(net, v, 1)->value, v->value, (struct rows){0});
}

static void shift_backward(struct net *net, struct node *v) {
    const struct node *s = argument(net, v, 0), *x = argument(net, v, 1);
    double *c = net->program->c;
    if (v->plan.part[0].due) {
        ops(net)->averages(v->g, (struct rows){0}, c);
        for (int mu = 0; mu < s->count; mu++)
            s->gs[mu * s->K] += c[v->g.count == 1 ? 0 : mu];
    }
    if (v->plan.part[1].due && x->plan.g_item != v->plan.g_item)
        add_part(net, v->g, v->plan.part[1].first, x->g);
}

const struct operation operation_shift = {.name = "shift",
                                          .linear = true,
                                          .forward = shift_forward,
                                          .backward = shift_backward,
                                          .storage.value_in_place = true,
                                          .storage.accumulates_itself = true,
                                          .storage.backward_is_identity = true};

/* Whether a mask is read by more than averages without a cotangent: the mean of rows over the mask
 * of their largest site is the origin of a softmax, and no row jumps with it. */
static bool mask_acts(const struct program *p, int mask) {
    for (int i = mask + 1; i < p->nodes; i++)
        for (int k = 0; k < 2; k++)
            if (p->node[i].argument[k] == mask && (p->node[i].on || p->node[i].plan.g_count))
                return true;
    return false;
}

static void top_forward(struct net *net, struct node *v) {
    latch(net,
          ops(net)->top(argument(net, v, 0)->value, v->constant.top, v->value, &net->program->err));
}

static json_t *top_describe(const struct node *v) {
    return json_pack("{s:I}", "top", (json_int_t)v->constant.top);
}

static void rows_forward(struct net *net, struct node *v) {
    latch(net, v->constant.custom->forward(v->constant.context, net, argument(net, v, 0)->value,
                                           v->value, &net->program->err));
}

static json_t *rows_describe(const struct node *v) {
    return describe_rule(v, v->constant.custom->rule_name);
}

static int ones_prepare(struct net *net, struct node *v, struct err *err) {
    TRY(net_rows(net, v->on, 1, &v->value, err));
    return CODE_OK;
}

static void ones_forward(struct net *net, struct node *v) {
    const double one = 1;
    rows_zero(v->value);
    ops(net)->pointwise(FN_LINEAR, NULL, &one, v->value, v->value, (struct rows){0});
}

const struct operation operation_top = {
    .name = "top", .describe = top_describe, .forward = top_forward, .jumps = mask_acts};
const struct operation operation_rows = {
    .name = "rows", .describe = rows_describe, .forward = rows_forward, .jumps = always};
const struct operation operation_ones = {.name = "ones",
                                         .linear = true,
                                         .prepare = ones_prepare,
                                         .forward = ones_forward,
                                         .constant = true};

/* --- numbers --------------------------------------------------------------------------------- */

static struct rows other(const struct net *net, const struct node *v) {
    return v->argument[1] < 0 ? (struct rows){0} : argument(net, v, 1)->value;
}

static void average_forward(struct net *net, struct node *v) {
    ops(net)->averages(argument(net, v, 0)->value, other(net, v), v->s);
}

/* g of one argument (+)= gs times the other, or gs itself. */
static void average_backward(struct net *net, struct node *v) {
    for (int k = 0; k < 2; k++) {
        if (!v->plan.part[k].due)
            continue;
        struct rows g = argument(net, v, k)->g;
        if (v->argument[1] < 0) {
            if (v->plan.part[k].first)
                rows_zero(g);
            ops(net)->pointwise(FN_LINEAR, NULL, v->gs, g, g, (struct rows){0});
        } else if (v->plan.part[k].first)
            scale_rows(net, v->gs, argument(net, v, 1 - k)->value, g);
        else
            rows_add(v->gs, argument(net, v, 1 - k)->value, g);
    }
}

const struct operation operation_average = {.name = "average",
                                            .forward = average_forward,
                                            .backward = average_backward,
                                            .storage.accumulates_itself = true,
                                            .storage.backward_reads_arguments = true,
                                            .across_inputs = true,
                                            .part_rows = node_part_like_argument};

static void scale_forward(struct net *net, struct node *v) {
    const double *c = column_of(net, argument(net, v, 0), v->constant.column);
    scale_rows(net, c, argument(net, v, 1)->value, v->value);
}

static void scale_backward(struct net *net, struct node *v) {
    const struct node *s = argument(net, v, 0), *x = argument(net, v, 1);
    double *c = net->program->c;
    if (v->plan.part[0].due) {
        ops(net)->averages(x->value, v->g, c);
        for (int mu = 0; mu < s->count; mu++)
            s->gs[mu * s->K + v->constant.column] += c[mu];
    }
    if (!v->plan.part[1].due)
        return;
    column_of(net, s, v->constant.column);
    if (v->g.count == 1)
        ops(net)->combine(v->plan.part[1].rows, 0, c, v->g);
    else
        scale_rows(net, c, v->g, v->plan.part[1].rows);
    hand_over(net, v, 1);
}

static json_t *scale_describe(const struct node *v) {
    return json_pack("{s:i}", "column", v->constant.column);
}

const struct operation operation_scale = {.name = "scale",
                                          .describe = scale_describe,
                                          .linear = true,
                                          .forward = scale_forward,
                                          .backward = scale_backward,
                                          .storage.cotangent_in_place = true,
                                          .storage.backward_reads_arguments = true,
                                          .part_rows = node_part_like_argument};

/* The first of the biases of a row. */
static int set_of(const struct net *net, const struct node *v, int row) {
    return v->constant.groups > 1 ? net->batch.token[row] * v->K : 0;
}

static void bias_start(const struct program *p, const struct node *v, int kind, const double *a,
                       const double *b, double *x) {
    (void)p, (void)b;
    for (int k = 0; k < v->K; k++)
        x[k] = a[k] + v->matrix.start[(v->constant.groups > 1 ? kind * v->K : 0) + k];
}

static void bias_forward(struct net *net, struct node *v) {
    const double *s = argument(net, v, 0)->s;
    for (int mu = 0; mu < v->count; mu++)
        for (int k = 0; k < v->K; k++)
            v->s[mu * v->K + k] = s[mu * v->K + k] + v->matrix.start[set_of(net, v, mu) + k];
}

static void bias_backward(struct net *net, struct node *v) {
    const struct node *s = argument(net, v, 0);
    int K = v->K, all = v->constant.groups * K;
    for (int k = 0; k < v->count * K && v->plan.part[0].due; k++)
        s->gs[k] += v->gs[k];
    if (v->constant.groups == 1)
        return;
    memset(v->A, 0, (size_t)(v->count * all) * sizeof *v->A);
    for (int mu = 0; mu < v->count; mu++)
        memcpy(v->A + mu * all + set_of(net, v, mu), v->gs + mu * K, (size_t)K * sizeof *v->A);
}

const struct operation operation_bias = {.name = "bias",
                                         .forward = bias_forward,
                                         .backward = bias_backward,
                                         .learns = true,
                                         .storage.accumulates_itself = true,
                                         .start = bias_start};

static void numbers_start(const struct program *p, const struct node *v, int kind, const double *a,
                          const double *b, double *x) {
    (void)kind, (void)b;
    v->constant.numbers->forward(v->constant.context, p->net, 1, a, x);
}

static bool numbers_jump(const struct program *p, int i) {
    return p->node[i].constant.numbers->jumps;
}

static void numbers_forward(struct net *net, struct node *v) {
    v->constant.numbers->forward(v->constant.context, net, v->count, argument(net, v, 0)->s, v->s);
}

static void numbers_backward(struct net *net, struct node *v) {
    const struct node *x = argument(net, v, 0);
    if (v->constant.numbers->backward)
        v->constant.numbers->backward(v->constant.context, net, v->count, x->s, v->s, v->gs, x->gs);
}

static json_t *numbers_describe(const struct node *v) {
    return describe_rule(v, v->constant.numbers->rule_name);
}

const struct operation operation_numbers = {.name = "numbers",
                                            .describe = numbers_describe,
                                            .forward = numbers_forward,
                                            .backward = numbers_backward,
                                            .storage.accumulates_itself = true,
                                            .across_inputs = true,
                                            .start = numbers_start,
                                            .jumps = numbers_jump};
