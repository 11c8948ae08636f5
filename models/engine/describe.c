/* A network as data: each thing becomes one object of JSON, in the order of the program. */
#include "models/engine/describe.h"
#include "kernels/array/functions.h"

#include <errno.h>

json_t *describe_append(json_t *list, json_t *element) {
    if (!json_array_append_new(list, element))
        return list;
    json_decref(list);
    return NULL;
}

/* An object with what another one says besides, which is used up; NULL without memory. */
static json_t *with_more(json_t *object, json_t *more) {
    int code = json_object_update(object, more);
    json_decref(more);
    if (!code)
        return object;
    json_decref(object);
    return NULL;
}

/* An object with this word, if there is one: json_pack would leave it out without memory, too. */
static json_t *with_word(json_t *object, const char *key, const char *word) {
    return word ? with_more(object, json_pack("{s:s}", key, word)) : object;
}

json_t *describe_list(const double *values, size_t count) {
    json_t *list = json_array();
    for (size_t k = 0; k < count && list; k++)
        list = describe_append(list, json_real(values[k]));
    return list;
}

/* The constants of an operation, and what they lie in. */
static const struct constant_field *constants_of(const struct node *v, const void **in) {
    static const struct constant_field none = {0};
    *in = v->op->traits & OP_IN_CONTEXT ? v->constant.context : &v->constant;
    return v->op->constants ? v->op->constants : &none;
}

/* How the description calls an operation that may be a rule, or an argument of one. */
static const char *name_of(const struct node *v) {
    return v->op->rule_of ? v->op->rule_of : v->op->name;
}

static double number_in(const struct constant_field *field, const void *in) {
    const void *at = (const char *)in + field->offset;
    switch (field->type) {
    case FIELD_REAL:
        return *(const double *)at;
    case FIELD_SIZE:
        return (double)*(const size_t *)at;
    case FIELD_BOOL:
        return *(const bool *)at;
    default:
        return *(const int *)at;
    }
}

static json_t *describe_constant(const struct node *v, const struct constant_field *field,
                                 const void *in) {
    switch (field->type) {
    case FIELD_LIST:
        return field->list(v);
    case FIELD_FUNCTION:
        return json_string(functions_name[(int)number_in(field, in)]);
    case FIELD_REAL:
        return json_real(number_in(field, in));
    case FIELD_BOOL:
        return json_boolean(number_in(field, in) != 0);
    default:
        return json_integer((json_int_t)number_in(field, in));
    }
}

/* The constants are an object, the rule first; NULL without memory. */
static json_t *describe_constants(const struct node *v) {
    const void *in;
    json_t *out = v->op->rule_of ? json_pack("{s:s}", "rule", v->op->name) : json_object();
    for (const struct constant_field *field = constants_of(v, &in); field->name && out; field++) {
        json_t *value = describe_constant(v, field, in);
        if (json_is_null(value))
            json_decref(value);
        else if (json_object_set_new(out, field->name, value)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

double node_selects(const struct node *v) {
    const void *in;
    for (const struct constant_field *field = constants_of(v, &in); field->name; field++)
        if (!strcmp(field->name, "top"))
            return number_in(field, in);
    return 0;
}

/* The number of a population in the list, which its draws have too, or null. */
static json_t *number_of(const struct population *on) {
    return on ? json_integer(on->draws.stream.owner) : json_null();
}

/* A finite network's size is a number; a limit's, factor N^power, is read off its nominal size. */
static json_t *describe_population(const struct net *net, int k) {
    const struct population *on = net->populations.item[k];
    double power = weight_power(on->size);
    json_t *out =
        json_pack("{s:s, s:s?, s:i, s:o, s:o, s:f}", "name", on->name, "label", on->label, "group",
                  on->group, "of", number_of(on->of), "shared", number_of(on->units), "page",
                  on->cotangent_scale == 0 ? 1 : on->cotangent_scale);
    json_t *size = net->setup.N ? json_pack("{s:I}", "size", (json_int_t)on->sites)
                                : json_pack("{s:f, s:f, s:I}", "factor",
                                            on->size / pow(POPULATION_INFINITE, power), "power",
                                            power, "sites", (json_int_t)on->sites);
    return with_more(out, size);
}

static int after_node(const void *at, const void *parameter) {
    return *(const int *)at - ((const struct parameter *)parameter)->node;
}

/* The matrix that a node's map is moved with as one; NULL: none but its own. */
static const char *whole_of(const struct net *net, int i) {
    const struct parameter *all = net->parameters.item, *mine;
    mine = all ? bsearch(&i, all, (size_t)net->parameters.count, sizeof *all, after_node) : NULL;
    return mine ? mine->whole : NULL;
}

static json_t *describe_matrix(const struct net *net, int i) {
    const struct node *v = &net->program->node[i];
    const struct weight *W = &v->matrix.weight;
    const struct population *source = v->argument[0] < 0 || v->op->matrix == MATRIX_NONE
                                          ? NULL
                                          : net->program->node[v->argument[0]].on;
    int sets = v->constant.groups > 1 ? v->constant.groups : 1;
    bool bias = v->op->matrix == MATRIX_NONE;
    const struct map_declaration *map = v->matrix.map ? &v->matrix.map->declared : NULL;
    int rows = map ? map_each(map, true) : 0, columns = map ? map_each(map, false) : 0;
    const struct optimizer *optimizer = net_optimizer(&net->setup, v->matrix.map ? W->name : NULL);
    bool given = bias || (v->op->matrix == MATRIX_VECTOR && v->matrix.start);
    json_t *start =
        given ? describe_list(v->matrix.start, (size_t)sets * (size_t)v->K) : json_null();
    return json_pack(
        "{s:s, s:s?, s:s?, s:s, s:i, s:o, s:o, s:i, s:i, s:o, s:f, s:f, s:f, s:f, s:f, s:b, "
        "s:f, s:b, s:b, s:i, s:f, s:s, s:i, s:i, s:s?}",
        "name", W->name, "label", W->label, "family", W->family, "kind", v->op->name, "operation",
        i, "source", number_of(source), "target", number_of(v->on), "width",
        v->op->matrix == MATRIX_MAP ? 0 : v->K, "sets", sets, "start", start, "a0", W->a0, "s_f",
        v->matrix.map ? W->s_f : 1.0, "rate", W->rate, "adam_rate", W->adam_rate, "adam_eps",
        W->adam_eps, "learns", !W->fixed, "decays", v->matrix.decays, "tied", W->tied, "iid",
        W->iid, "uses",
        map                                          ? map->uses
        : v->matrix.thin && v->matrix.thin->uses > 1 ? v->matrix.thin->uses
                                                     : 1,
        "muon_rate", W->muon_rate, "optimizer", optimizer ? optimizer->choice.name : "gd",
        "muon_rows", rows, "muon_columns", columns, "muon_whole", whole_of(net, i));
}

/* What has a row: one for all inputs, each input, token, pair of tokens or place. */
static const char *row_of(const struct net *net, const struct node *v) {
    int P = net->setup.data.P, n = net->setup.data.n;
    if (v->plan.across_inputs || (v->count == 1 && P * v->per > 1))
        return "all";
    return v->per == 1 ? "input" : v->per == n ? "token" : v->per == n * n ? "pair" : "place";
}

/* The first operation with the same context, which remembers for all of them. */
static int state_of(const struct net *net, const struct node *v) {
    const struct node *first = net->program->node;
    while (first < v && (!v->constant.context || first->constant.context != v->constant.context))
        first++;
    return (int)(first - net->program->node);
}

static json_t *describe_arguments(const struct node *v) {
    json_t *list = json_array();
    for (int k = 0; k < 2 && v->argument[k] >= 0 && list; k++)
        list = describe_append(list, json_integer(v->argument[k]));
    return list;
}

/* A part of a cotangent as a tree: an object is an operation with its constants, a number the value
 * of that operation, "g" the cotangent that arrives. Lists are those of the node in reverse. */
static json_t *describe_part(const struct program *p, int at, int g) {
    const struct node *v = &p->node[at];
    if (at == g || at < p->nodes)
        return at == g ? json_string("g") : json_integer(at);
    json_t *list = json_array();
    for (int k = 0; k < 2 && v->argument[k] >= 0 && list; k++)
        list = describe_append(list, describe_part(p, v->argument[k], g));
    json_t *out = with_word(json_pack("{s:s, s:o}", "operation", name_of(v), "arguments", list),
                            "rule", v->op->rule_of ? v->op->name : NULL);
    for (const struct constant_field *field = v->op->constants; field && field->name && out;
         field++)
        if (field->type != FIELD_LIST)
            out = with_more(
                out, json_pack("{s:o}", field->name, describe_constant(v, field, &v->constant)));
    return out;
}

/* What an operation of the limit adds to the cotangents of its arguments; null: nothing. */
static json_t *describe_adjoint(const struct net *net, const struct node *v) {
    json_t *list = json_array();
    for (int k = 0; k < 2 && v->argument[k] >= 0 && list; k++)
        list = describe_append(list, v->plan.part[k] < 0
                                         ? json_null()
                                         : describe_part(net->program, v->plan.part[k], v->plan.g));
    return list;
}

static json_t *describe_node(const struct net *net, int i) {
    const struct node *v = &net->program->node[i];
    json_t *state = v->op->rule_of ? json_pack("{s:i}", "state", state_of(net, v)) : json_object();
    json_t *out = json_pack("{s:s, s:o, s:o, s:s, s:i, s:b}", "operation", name_of(v), "arguments",
                            describe_arguments(v), "population", number_of(v->on), "row",
                            row_of(net, v), "numbers", v->on ? 0 : v->K, "moves", v->plan.moves);
    out = with_word(with_word(out, "name", v->rows_name), "tex", v->tex);
    out = with_word(out, "matrix", v->matrix.weight.name);
    if (!net->setup.N && (v->plan.part[0] >= 0 || v->plan.part[1] >= 0))
        out = with_more(out, json_pack("{s:o}", "adjoint", describe_adjoint(net, v)));
    if (!strcmp(row_of(net, v), "place"))
        out = with_more(out, json_pack("{s:i}", "places", v->per));
    return with_more(with_more(out, describe_constants(v)), state);
}

/* A kernel of the cotangent of a limit has the page's factor of its population in its scale. */
static json_t *describe_kernel(const struct net *net, int k) {
    const struct kernel *kernel = &net->kernels.item[k];
    return json_pack("{s:s, s:s?, s:i, s:b, s:f, s:s?, s:s?}", "name", kernel->name, "label",
                     kernel->label, "operation",
                     kernel->node < 0 ? net->program->read_out : kernel->node, "cotangent",
                     kernel->gradient, "scale", kernel->scale, "about", kernel->about, "equation",
                     kernel->equation);
}

/* The operation that has these numbers, or whose cotangent they are; null: a series of its own. */
static json_t *describe_result(const struct net *net, int k) {
    const struct numbers *result = &net->numbers.item[k];
    const struct node *first = net->program->node, *v = first, *end = v + net->program->nodes;
    while (v < end &&
           (result->node >= 0 ? result->node != v - first : !v->s || v->s != result->values))
        v++;
    return json_pack("{s:s, s:s?, s:s, s:o, s:b, s:s?, s:s?}", "name", result->name, "label",
                     result->label, "dims", result->dims, "operation",
                     v < end ? json_integer(v - first) : json_null(), "cotangent",
                     v < end && result->gradient, "about", result->about, "equation",
                     result->equation);
}

/* A list of all things of a kind; NULL without memory. */
static json_t *list(const struct net *net, int count,
                    json_t *(*describe)(const struct net *net, int k),
                    bool (*wanted)(const struct node *v)) {
    json_t *out = json_array();
    for (int k = 0; k < count && out; k++)
        if (!wanted || wanted(&net->program->node[k]))
            out = describe_append(out, describe(net, k));
    return out;
}

int describe_net(const struct net *net, json_t **out, struct err *err) {
    const struct program *p = net->program;
    const struct net_setup *s = &net->setup;
    errno = 0;
    *out = json_pack(
        "{s:s, s:o, s:f, s:i, s:i, s:i, s:i, s:b, s:i, s:b, s:b, s:b, s:o, s:o, s:o, s:o, s:o, "
        "s:i, s:i}",
        "network", net->model->name, "width", s->N ? json_integer(s->N) : json_null(), "gamma0",
        s->gamma0, "inputs", s->data.P, "tokens", s->data.n, "vocabulary", s->data.V, "outputs",
        s->data.C, "output_of_token", s->data.per_token, "directions", s->data.K, "centre",
        s->limit.centre, "random", net->gates.random, "weighted", net->output.loss_in_cotangent,
        "populations", list(net, net->populations.count, describe_population, NULL), "matrices",
        list(net, p->nodes, describe_matrix, node_begins_matrix), "operations",
        list(net, p->nodes, describe_node, NULL), "kernels",
        list(net, net->kernels.count, describe_kernel, NULL), "results",
        list(net, net->numbers.count, describe_result, NULL), "read_out", p->read_out, "output",
        p->output);
    return *out ? CODE_OK : describe_failed("the description of the network", err);
}

int describe_failed(const char *what, struct err *err) {
    if (errno == ENOMEM)
        return err_set(err, CODE_SYSTEM, "out of memory: %s", what);
    return err_set(err, CODE_INPUT,
                   "%s would have a number that is infinite or none, or a text that is not UTF-8, "
                   "which JSON does not know",
                   what);
}

/* Into memory of the right size: json_dumps without memory to grow leaves out names, silently. */
int describe_text(const json_t *whole, const char *what, char **text, struct err *err) {
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(17);
    size_t size = whole ? json_dumpb(whole, NULL, 0, flags) : 0;
    *text = NULL;
    if (size)
        TRY(base_alloc(text, size + 1, 1, err));
    if (size && json_dumpb(whole, *text, size, flags) == size)
        return CODE_OK;
    free(*text);
    *text = NULL;
    return describe_failed(what, err);
}
