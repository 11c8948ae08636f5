/* Operations with a matrix: read-in, map, look, read-out. Adjoints are in the site average. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"

#include <limits.h>

OPERATION(read_in, .prepare = net_read_in, .forward = net_read, .matrix = MATRIX_READ_IN,
          .traits = OP_LINEAR | OP_LEARNS | OP_EVERY_ROW);

/* Normals of standard deviation a0, or one number everywhere. */
static int vector_prepare(struct net *net, struct node *v, struct err *err) {
    const double *start = v->matrix.start;
    TRY(net_thin(net, v->on, 1, start ? 0 : v->matrix.weight.a0, false, v->matrix.thin, err));
    struct rows W = array_all(&v->matrix.thin->W);
    if (start && !net->setup.declare_only)
        ops(W)->pointwise(FN_LINEAR, NULL, start, W, W, (struct rows){0});
    return CODE_OK;
}

static void vector_forward(struct net *net, struct node *v) {
    thin_read(v->matrix.thin, net->output.ones, v->value);
}

OPERATION(vector, .prepare = vector_prepare, .forward = vector_forward, .matrix = MATRIX_VECTOR,
          .traits = OP_LINEAR | OP_LEARNS | OP_EVERY_ROW);

/* Room for the rows of all uses of a matrix. */
static int make_room_for_uses(struct net *net, const struct node *v, struct err *err) {
    const struct map_declaration *map = &v->matrix.map->declared;
    struct rows x, y;
    if (map->uses == 1)
        return CODE_OK;
    if (v->count > INT_MAX / map->uses)
        return err_set(err, CODE_INPUT,
                       "matrix %s with %d uses reads %.3g rows in one evaluation, and at most %d "
                       "are possible: take fewer inputs or tokens, or minibatches",
                       map->name, map->uses, (double)map->uses * v->count, INT_MAX);
    TRY(net_rows(net, map->source, map->uses * v->count, &x, err));
    TRY(net_rows(net, map->target, map->uses * v->count, &y, err));
    map_stack_uses(v->matrix.map, x, y);
    return CODE_OK;
}

static int map_prepare(struct net *net, struct node *v, struct err *err) {
    const struct net_setup *setup = &net->setup;
    struct map_declaration declared = v->matrix.map->declared;
    int number = 0; /* among the maps that draw */
    if (v->matrix.use > 0)
        return CODE_OK;
    const struct node *cotangent = node_cotangent(net->program, v);
    declared.for_all_inputs = cotangent && cotangent->count == 1 && declared.uses == 1;
    if (setup->declare_only) {
        map_declare(v->matrix.map, declared);
        return make_room_for_uses(net, v, err);
    }
    for (int k = 0; net->maps.item[k] != v->matrix.map; k++)
        number += net->maps.item[k]->declared.a0 != 0;
    bool start = setup->measure.check || program_lists(setup->measure.singular_of, declared.name);
    struct map_settings settings = {.stop = &setup->stop,
                                    .stream = net_stream(net, PURPOSE_MATRIX, number),
                                    .tolerance = net_tolerance(setup),
                                    .against_largest = net->output.loss_in_cotangent,
                                    .remembers = start,
                                    .shift = setup->measure.shift,
                                    .field = setup->field};
    TRY(map_init(v->matrix.map, net_map_kind(net, &declared), declared, settings, err));
    v->matrix.map->every_row = !v->expert.gated && declared.uses == 1;
    TRY(make_room_for_uses(net, v, err));
    const struct map *leader = net_leader(net, v);
    if (leader)
        TRY(map_follow(v->matrix.map, leader, err));
    return start && setup->N ? map_remember(v->matrix.map, err) : CODE_OK;
}

static void map_forward_node(struct net *net, struct node *v) {
    v->matrix.map->use = v->matrix.use;
    remember_failure(net, map_forward(v->matrix.map, selected_argument(net->program, v), v->value,
                                      &net->program->err));
}

static void map_back_forward(struct net *net, struct node *v) {
    struct map *map = v->matrix.map;
    struct rows g = argument(net, v, 0)->value;
    struct err *err = &net->program->err;
    map->use = v->matrix.use;
    if (v->onto < 0)
        remember_failure(net, map_backward(map, g, v->value, err));
    else
        remember_failure(net, map_add_backward(map, g, v->value, err));
}

/* The transposed matrix. */
static OPERATION(map_back, .forward = map_back_forward,
                 .traits = OP_LINEAR | OP_BY_ROW | OP_MEETS | OP_ADDS);

OPERATION(map, .prepare = map_prepare, .forward = map_forward_node, .back = &operation_map_back,
          .matrix = MATRIX_MAP, .traits = OP_LINEAR | OP_BY_ROW | OP_LEARNS | OP_MEETS);

static int thin_prepare(struct net *net, struct node *v, struct err *err) {
    if (v->matrix.use)
        return CODE_OK;
    return net_thin(net, argument(net, v, 0)->on, v->K, v->matrix.weight.a0, v->matrix.weight.iid,
                    v->matrix.thin, err);
}

/* What numbers are at the first evaluation. */
static void subtract_origin(struct net *net, struct node *v) {
    size_t count = node_numbers(v);
    if (v->matrix.start && !net->batch.started)
        memcpy(v->matrix.start, v->s, count * sizeof *v->s);
    for (size_t k = 0; k < count && v->matrix.start; k++)
        v->s[k] -= v->matrix.start[k];
}

static void look_forward(struct net *net, struct node *v) {
    ops(argument(net, v, 0)->value)
        ->dots(argument(net, v, 0)->value, array_all(&v->matrix.thin->W), v->s);
}

static void look_back_forward(struct net *net, struct node *v) {
    ops(v->value)->combine(v->value, v->onto >= 0 ? 1 : 0, argument(net, v, 0)->s,
                           array_all(&v->matrix.thin->W));
}

static OPERATION(look_back, .forward = look_back_forward,
                 .traits = OP_LINEAR | OP_ADDS | OP_AS_ARGUMENT);

OPERATION(look, .prepare = thin_prepare, .forward = look_forward, .finish = subtract_origin,
          .back = &operation_look_back, .matrix = MATRIX_LOOK, .traits = OP_LINEAR | OP_LEARNS);

/* Whether its numbers are not the output alone, so that they have a cotangent of their own. */
static bool is_read_out_followed(const struct program *p) {
    bool followed = p->output != p->read_out;
    for (int i = p->read_out + 1; i < p->nodes; i++)
        followed = followed || p->node[i].argument[0] == p->read_out ||
                   p->node[i].argument[1] == p->read_out;
    return followed && p->net->output.loss_in_cotangent;
}

static void read_out_forward(struct net *net, struct node *v) {
    struct rows h = argument(net, v, 0)->value, w = array_all(&v->matrix.thin->W);
    if (v->K == 1)
        ops(h)->averages(h, w, v->s);
    else
        ops(h)->dots(h, w, v->s);
}

static void read_out_finish(struct net *net, struct node *v) {
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] /= net->setup.gamma0;
    subtract_origin(net, v);
}

static void errors_forward(struct net *net, struct node *v) {
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] = argument(net, v, 0)->s[k] / net->setup.gamma0;
}

static OPERATION(errors, .forward = errors_forward);

static struct value read_out_learned(struct program *p, int v, struct value g) {
    return is_read_out_followed(p) ? adjoint_like(p, &operation_errors, g, none, v) : none;
}

static void read_out_back_forward(struct net *net, struct node *v) {
    const struct node *g = argument(net, v, 0);
    ops(v->value)->combine(v->value, v->onto >= 0 ? 1 : 0,
                           g->op == &operation_errors ? g->s : net->output.Delta,
                           array_all(&v->matrix.thin->W));
}

static OPERATION(read_out_back, .forward = read_out_back_forward, .traits = OP_LINEAR | OP_ADDS);

/* Its column, which serves all inputs, or sums over outputs of their errors. */
static struct value read_out_adjoint(struct program *p, int v, int k, struct value g) {
    int like = p->node[v].argument[k], errors = p->node[v].plan.learned;
    if (!p->net->output.loss_in_cotangent)
        return adjoint_column(p, v);
    g.at = errors < 0 ? g.at : errors;
    return adjoint_like(p, &operation_read_out_back, g, none, like);
}

OPERATION(read_out, .prepare = thin_prepare, .forward = read_out_forward, .finish = read_out_finish,
          .learned = read_out_learned, .adjoint = read_out_adjoint, .matrix = MATRIX_READ_OUT,
          .traits = OP_LINEAR | OP_LEARNS);
