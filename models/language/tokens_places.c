/* Mixing the rows of an input by a constant matrix (docs/programs.md): shifts, strides and pooling,
 * which convolutions are made of. It makes rows of another number of places. */
#include "models/language/adjoint.h"
#include "models/language/tokens.h"

static void mix_places_forward(struct net *net, struct node *v) {
    for (int mu = 0; mu < net->setup.data.P; mu++)
        ops(v->value)->combine(of_input(net, v->value, mu), v->onto >= 0 ? 1 : 0, v->constant.given,
                               of_input(net, argument(net, v, 0)->value, mu));
}

/* The transposed matrix. */
static struct value mix_places_adjoint(struct program *p, int v, int k, struct value g) {
    ptrdiff_t places = p->node[v].per, from = p->node[v].constant.by;
    const double *given = p->node[v].constant.given;
    double *transposed = program_memory(p, (size_t)(places * from) * sizeof *transposed);
    struct value out = adjoint_like(p, p->node[v].op, g, none, p->node[v].argument[k]);
    if (out.at < 0)
        return none;
    for (ptrdiff_t s = 0; s < places; s++)
        for (ptrdiff_t t = 0; t < from; t++)
            transposed[t * places + s] = given[s * from + t];
    node_of(p, out)->constant.given = transposed;
    node_of(p, out)->constant.by = (int)places;
    return out;
}

/* The entries that are not 0, as [place, place that is read, number]. */
static json_t *entries_of(const struct node *v) {
    json_t *entries = json_array();
    for (ptrdiff_t s = 0; s < v->per; s++)
        for (int t = 0; t < v->constant.by && entries; t++) {
            double x = v->constant.given[s * v->constant.by + t];
            if (x != 0)
                entries = describe_append(entries, json_pack("[i,i,f]", (int)s, t, x));
        }
    return entries;
}

static OPERATION(mix_places, .constants = CONSTANTS(CONSTANT_LIST("entries", entries_of)),
                 .forward = mix_places_forward, .adjoint = mix_places_adjoint,
                 .traits = OP_LINEAR | OP_EVERY_ROW | OP_ADDS);

/* Whether a matrix from `from` rows of an input to `places` can be applied. */
static bool is_matrix_of(struct program *p, int places, int from, const double *S, int rows) {
    int n = p->net->setup.data.n;
    bool zero = true;
    if (places < 1 || places > n)
        program_fail(p,
                     "a matrix between places has %d rows, where an input has %d tokens: it must "
                     "have 1 to that many",
                     places, n);
    else if (from != rows)
        program_fail(p,
                     "a matrix between places has %d columns, where there are %d rows of each "
                     "input to be mixed",
                     from, rows);
    for (ptrdiff_t k = 0; k < (ptrdiff_t)places * from && !p->code; k++) {
        if (!(fabs(S[k]) <= 1e6))
            program_fail(p,
                         "a matrix between places has an entry in row %d, column %d that is no "
                         "number from -1e6 to 1e6",
                         (int)(k / from) + 1, (int)(k % from) + 1);
        zero = zero && S[k] == 0;
    }
    if (zero)
        program_fail(p, "a matrix between places is zero, so that nothing would pass it");
    return !p->code;
}

struct value program_mix_places(struct program *p, struct value x, int places, int from,
                                const double *S) {
    struct value out;
    if (p->code || !of_places(p, "a mixture of places", x) ||
        !is_matrix_of(p, places, from, S, node_of(p, x)->per))
        return none;
    struct node *node = node_append_like(p, &operation_mix_places, x, &out);
    node_shape(p, node, places);
    node->constant.given = S;
    node->constant.by = from;
    return out;
}
