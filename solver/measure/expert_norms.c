/* How much each expert learns: [output] experts. Of every matrix that belongs to experts, the norm
 * of its gradient and of what it has changed by, expert by expert.
 *
 * Many experts: matrices with one side on the experts or their units; of an expert the rows (or
 * columns) of its sites. A fixed number: matrices of their own, or columns of the router. The
 * gradient's is that of [training] clip (models/engine/net.h): the mean of its square over many
 * experts is what the matrix has of the square of the whole norm. The change is what (W - W(0))
 * adds to what the expert's units read, or W^T - W(0)^T to what they are handed, root mean square
 * over units and inputs: W - W(0) itself has no norm in the limit of a matrix that decays. */
#include "models/engine/node.h"
#include "solver/measure/fields.h"

enum slot { GRADIENT, CHANGE, SLOTS };
static const struct {
    const char *name, *about[2], *equation;
} part[SLOTS] = {
    {"expert_gradient",
     {"norm of the gradient of each expert", "quantiles over experts of the norm of the gradient"},
     "(rate/P^2 sum_mu,nu Delta_mu Delta_nu <g_mu g_nu>_i <x_mu x_nu>)^1/2"},
    {"expert_change",
     {"change of each expert since the start, as the inputs see it",
      "quantiles over experts of their change since the start, as the inputs see it"},
     "(mean over inputs of <((W - W(0)) x)^2>_i)^1/2"},
};

static bool is_of(const struct population *on, const struct population *experts) {
    return on == experts || on->of == experts;
}

static const struct parameter *parameter_of(const struct net *net, const struct node *v) {
    FOR_EACH (const struct parameter, p, net->parameters) {
        if ((v->matrix.map && p->map == v->matrix.map) ||
            (v->matrix.thin && p->thin == v->matrix.thin))
            return p;
    }
    return NULL;
}

/* Whether the M numbers that a node looks up go into the gates. */
static bool feeds_gates(const struct program *p, const struct node *v,
                        const struct net_router *router) {
    int i = router->phi;
    if (v->op->matrix != MATRIX_LOOK || v->K != router->M)
        return false;
    while (i >= 0 && &p->node[i] != v)
        i = p->node[i].argument[0];
    return i >= 0;
}

/* Only the first matrix of a family stands for it; matrices that never learn have no parameter. */
static bool is_first(const struct net *net, const struct net_router *router, int i) {
    const struct node *node = net->program->node;
    if (feeds_gates(net->program, &node[i], router))
        return true;
    if (!node[i].matrix.map || router->expert[i] < 0)
        return false;
    for (int k = 0; k < i; k++)
        if (node[k].matrix.map && router->expert[k] >= 0 &&
            !strcmp(node_family(&node[k]), node_family(&node[i])))
            return false;
    return true;
}

bool expert_norms_find(const struct net *net, int item, struct expert_matrix *matrix) {
    const struct program *p = net->program;
    const struct net_router *router = &net->routers.item[item / p->nodes];
    const struct node *v = &p->node[item % p->nodes];
    *matrix = (struct expert_matrix){router, v, false};
    if (!node_begins_matrix(v) || !parameter_of(net, v))
        return false;
    if (router->M)
        return is_first(net, router, item % p->nodes);
    const struct population *experts = p->node[router->phi].on;
    if (!v->matrix.map)
        return false;
    matrix->target = is_of(v->matrix.map->declared.target, experts);
    return matrix->target || is_of(v->matrix.map->declared.source, experts);
}

/* What W(0) makes is known of networks and of the limit marched in time. */
static bool has_slot(const struct declaring *d, const struct expert_matrix *m, enum slot k) {
    const struct node *v = m->node;
    bool marched = d->net->setup.N || d->config->solver.method == METHOD_MARCH;
    bool known = v->matrix.map && marched, back = m->router->M || m->target || v->plan.part[0] >= 0;
    return k == GRADIENT || (known && back && v->matrix.map->declared.uses == 1);
}

/* square [sites]: mean over rows of the squares of what the change of W adds, of its sites. */
static int change_of_sites(const struct node *v, struct rows in, struct rows whole, bool forward,
                           double *square, struct err *err) {
    const struct map *map = v->matrix.map;
    const struct backend *backend = whole.array->backend;
    int rows = whole.count;
    FREED(array_free) struct array work = {0}, sum = {0};
    SCRATCH(double, weight, (size_t)rows);
    for (int r = 0; r < rows; r++)
        weight[r] = -1;
    TRY(array_keep(&work, whole, err)); /* its shape */
    TRY(map->kind->initial(map, v->matrix.use, forward, in, array_all(&work), err));
    rows_add(weight, whole, array_all(&work));
    rows_multiply(array_all(&work), array_all(&work), array_all(&work));
    for (int r = 0; r < rows; r++)
        weight[r] = 1.0 / rows;
    TRY(array_init(&sum, backend, work.sites, work.group, 1, err));
    backend->combine(array_all(&sum), 0, weight, array_all(&work));
    backend->get(array_all(&sum), square);
    return CODE_OK;
}

static int squares_of_sites(const struct net *net, const struct node *v, bool target, enum slot k,
                            double *square, struct err *err) {
    if (k == GRADIENT)
        return net_gradient_of_sites(net, parameter_of(net, v), target, square, err);
    if (target)
        return change_of_sites(v, net->program->node[v->argument[0]].value, v->value, true, square,
                               err);
    TRY(change_of_sites(v, node_cotangent(net->program, v)->value,
                        node_part(net->program, v, 0)->value, false, square, err));
    const struct population *on = v->matrix.map->declared.source;
    for (size_t i = 0; i < on->sites; i++)
        square[i] /= on->cotangent_scale * on->cotangent_scale;
    return CODE_OK;
}

/* Means over the sites of each expert. */
static int squares_of_many(const struct net *net, const struct expert_matrix *m, enum slot k,
                           double *out, struct err *err) {
    const struct population *experts = net->program->node[m->router->phi].on;
    const struct map_declaration *declared = &m->node->matrix.map->declared;
    const struct population *on = m->target ? declared->target : declared->source;
    size_t group = on->sites / experts->sites;
    SCRATCH(double, square, on->sites);
    TRY(squares_of_sites(net, m->node, m->target, k, square, err));
    for (size_t i = 0; i < experts->sites; i++) {
        out[i] = 0;
        for (size_t j = 0; j < group; j++)
            out[i] += square[i * group + j] / (double)group;
    }
    return CODE_OK;
}

/* Adds up over the matrices of each expert. */
static int squares_of_few(const struct net *net, const struct expert_matrix *m, enum slot k,
                          double *out, struct err *err) {
    const struct node *node = net->program->node;
    if (!m->node->matrix.map)
        return net_gradient_of_columns(net, parameter_of(net, m->node), out, err);
    memset(out, 0, (size_t)m->router->M * sizeof *out);
    for (int i = 0; i < net->program->nodes; i++) {
        const struct node *v = &node[i];
        if (!node_begins_matrix(v) || !v->matrix.map || m->router->expert[i] < 0 ||
            strcmp(node_family(v), node_family(m->node)) || !parameter_of(net, v))
            continue;
        size_t sites = v->matrix.map->declared.target->sites;
        SCRATCH(double, square, sites);
        TRY(squares_of_sites(net, v, true, k, square, err));
        for (size_t j = 0; j < sites; j++)
            out[m->router->expert[i]] += square[j] / (double)sites;
    }
    return CODE_OK;
}

int expert_norms_squares(const struct net *net, const struct expert_matrix *m, bool change,
                         double *out, struct err *err) {
    enum slot k = change ? CHANGE : GRADIENT;
    return (m->router->M ? squares_of_few : squares_of_many)(net, m, k, out, err);
}

/* item: router nodes + node. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    struct expert_matrix matrix;
    expert_norms_find(m->net, m->item, &matrix);
    size_t M = matrix.router->M ? (size_t)matrix.router->M
                                : m->net->program->node[matrix.router->phi].on->sites;
    SCRATCH(double, square, M);
    for (enum slot k = 0; k < SLOTS; k++) {
        if (!out[k])
            continue;
        TRY(expert_norms_squares(m->net, &matrix, k == CHANGE, square, err));
        for (size_t i = 0; i < M; i++)
            square[i] = sqrt(fmax(square[i], 0));
        if (matrix.router->M)
            memcpy(out[k], square, M * sizeof *square);
        else
            fields_quantiles(square, M, out[k]);
    }
    return CODE_OK;
}

static int add_norms(const struct declaring *d, const struct expert_matrix *m, enum slot k,
                     struct err *err) {
    bool many = m->router->M == 0;
    char dims[64];
    const struct series series = {.dims = dims,
                                  .about = part[k].about[many],
                                  .equation = part[k].equation,
                                  .label = many ? m->node->matrix.weight.label : NULL,
                                  .left_out = m->router->selects,
                                  .shape = {0, many ? FIELDS_PROBABILITIES : (size_t)m->router->M}};
    snprintf(dims, sizeof dims, many ? "t probability" : "t expert%.32s", m->router->suffix);
    return series_add(d, k, series, err, "%s_%.24s", part[k].name,
                      many ? m->node->matrix.weight.name : node_family(m->node));
}

int expert_norms_declare(const struct declaring *d, struct err *err) {
    struct expert_matrix matrix;
    int items = d->net->routers.count * d->net->program->nodes;
    for (int item = 0; item < items && d->config->output.experts; item++) {
        if (!expert_norms_find(d->net, item, &matrix))
            continue;
        if (!matrix.router->M)
            fields_axis(d->record);
        TRY(record_fill_by(d->record, fill, item, SLOTS, err));
        for (enum slot k = 0; k < SLOTS; k++)
            if (has_slot(d, &matrix, k))
                TRY(add_norms(d, &matrix, k, err));
    }
    return CODE_OK;
}
