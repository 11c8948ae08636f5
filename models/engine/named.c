/* Rows by name: those that the settings ask to see. */
#include "models/engine/node.h"

void program_name_rows(struct program *p, struct value x, const char *name) {
    if (!p->code && x.at >= 0)
        p->node[x.at].rows_name = name;
}

void program_rows_tex(struct program *p, struct value x, const char *tex) {
    if (!p->code && x.at >= 0)
        p->node[x.at].tex = tex;
}

/* What stands before NAME in the name of a function of rows NAME, which the settings do not name:
 * sigma for the first one, but for exp, which is no activation; for others the function. NULL where
 * an earlier one has that name. */
static const char *prefix_of(const struct program *p, int i) {
    const struct node *v = &p->node[i];
    bool first = v->constant.fn != FN_EXP, taken = false;
    for (int j = v->argument[0] + 1; j < i; j++) {
        const struct node *u = &p->node[j];
        if (!(u->op->traits & OP_FUNCTION) || u->argument[0] != v->argument[0] ||
            (u->rows_name && u->on))
            continue;
        bool is_sigma = u->constant.fn != FN_EXP && first;
        first = first && !is_sigma;
        taken = taken || (u->constant.fn == v->constant.fn && !is_sigma);
    }
    return first ? "sigma" : taken ? NULL : functions_name[v->constant.fn];
}

/* The read-out, whose rows are its columns, has its matrix's name; rows of pairs of tokens none. */
static bool name_of(const struct program *p, int i, char name[NET_NAME]) {
    const struct node *v = &p->node[i];
    char inner[NET_NAME];
    if (v->per > p->net->setup.data.n)
        return false;
    bool matrix = v->on ? v->matrix.map || node_reads_no_rows(v) : i == p->read_out;
    if (matrix && v->matrix.use && !v->rows_name)
        return snprintf(name, NET_NAME, "%s_use%d", v->matrix.weight.name, v->matrix.use + 1) <
               NET_NAME;
    if (matrix || (v->rows_name && v->on))
        return snprintf(name, NET_NAME, "%s", v->rows_name ? v->rows_name : v->matrix.weight.name) <
               NET_NAME;
    if (!(v->op->traits & OP_FUNCTION) || !v->on || !name_of(p, v->argument[0], inner))
        return false;
    const char *prefix = prefix_of(p, i);
    return prefix && snprintf(name, NET_NAME, "%s_%s", prefix, inner) < NET_NAME;
}

int net_names(const struct net *net) {
    return 2 * net->program->nodes;
}

/* Values, then cotangents. */
static bool rows_name(const struct program *p, int k, char name[NET_NAME]) {
    char plain[NET_NAME];
    bool gradient = k >= p->nodes;
    return name_of(p, k % p->nodes, plain) && (!gradient || p->node[k % p->nodes].on) &&
           snprintf(name, NET_NAME, gradient ? "g_%s" : "%s", plain) < NET_NAME;
}

bool net_name(const struct net *net, int i, char name[NET_NAME]) {
    const struct program *p = net->program;
    bool exists = i < p->nodes || p->node[i % p->nodes].plan.g >= 0;
    return exists && rows_name(p, i, name);
}

static int keep_rows(struct program *p, int i, bool gradient, const char *name,
                     struct named_rows **list, int *count, struct err *err) {
    struct node *v = &p->node[i];
    struct named_rows *added;
    TRY(base_grow(&added, list, count, sizeof *added, err));
    *(gradient ? &v->plan.kept_g : &v->plan.measured) = true;
    *added = (struct named_rows){.node = i, .gradient = gradient};
    snprintf(added->name, sizeof added->name, "%s", name);
    return CODE_OK;
}

static void add_kernel(struct program *p, int i, bool gradient, const char *name) {
    const struct node *v = &p->node[i];
    struct kernel kernel = {.label = v->rows_name ? NULL : v->matrix.weight.label,
                            .about = "kernel of rows that the settings name",
                            .equation = gradient ? "<g g>" : "<x x>",
                            .scale = 1,
                            .node = i == p->read_out ? KERNEL_OF_READ_OUT : i,
                            .gradient = gradient,
                            .as_it_is = true,
                            .for_all_inputs = i == p->read_out};
    char text[sizeof kernel.name];
    snprintf(text, sizeof text, "K_%s", name);
    program_add_kernel(p, kernel, text);
}

/* Rows that settings can ask for, and their name. */
static bool can_be_asked(const struct program *p, int k, char name[NET_NAME]) {
    return rows_name(p, k, name) && (k < p->nodes || p->node[k % p->nodes].plan.moves);
}

static bool is_another(const struct program *p, int k, const char *name) {
    char other[NET_NAME];
    for (int j = 0; j < k; j++)
        if (can_be_asked(p, j, other) && !strcmp(other, name))
            return true;
    return false;
}

int named_select(struct program *p, struct err *err) {
    struct net *net = p->net;
    const struct net_setup *setup = &net->setup;
    for (int k = 0; k < 2 * p->nodes; k++) {
        int i = k % p->nodes;
        bool gradient = k >= p->nodes, field, cross, kernel;
        char name[NET_NAME];
        if (!can_be_asked(p, k, name))
            continue;
        field = program_lists(setup->measure.fields_of, name);
        cross = program_lists(setup->measure.cross_of, name);
        kernel = program_lists(setup->measure.kernels_of, name);
        if ((field || cross || kernel) && is_another(p, k, name))
            return err_set(err, CODE_INPUT,
                           "two kinds of rows of this network are called %s: give "
                           "one of them another name",
                           name);
        if (field)
            TRY(keep_rows(p, i, gradient, name, &net->field_rows.item, &net->field_rows.count,
                          err));
        if (cross)
            TRY(keep_rows(p, i, gradient, name, &net->cross_rows.item, &net->cross_rows.count,
                          err));
        if (kernel)
            add_kernel(p, i, gradient, name);
    }
    return program_result(p, err);
}

static void find_rows(const struct net *net, struct named_rows *named) {
    const struct program *p = net->program;
    const struct node *v = &p->node[named->node];
    bool columns = named->node == p->read_out;
    named->on = columns ? p->node[v->argument[0]].on : v->on;
    named->rows = columns           ? array_all(&v->matrix.thin->W)
                  : named->gradient ? node_cotangent(p, v)->value
                                    : v->value;
    named->scale = named->gradient ? 1 / v->on->cotangent_scale : 1;
    named->for_all_inputs = columns || named->rows.count < net->setup.data.P * v->per;
}

void named_connect(struct net *net) {
    for (int k = 0; k < net->field_rows.count; k++)
        find_rows(net, &net->field_rows.item[k]);
    for (int k = 0; k < net->cross_rows.count; k++)
        find_rows(net, &net->cross_rows.item[k]);
}
