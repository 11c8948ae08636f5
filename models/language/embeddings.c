/* Numbers that become rows: those of an input, and a trained vector for each of a few numbers, as
 * embeddings have them. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"

/* A number of a token is 1 where it is of this kind, or stands at this place. */
static void input_forward(struct net *net, struct node *v) {
    const struct data_setup *data = &net->setup.data;
    size_t n = (size_t)data->n, D = (size_t)data->D, K = (size_t)v->K;
    for (size_t row = 0; row < (size_t)v->count; row++) {
        double *s = v->s + row * K;
        size_t at = (size_t)net->batch.index[row / n] * n + row % n;
        if (!data->V)
            memcpy(s, data->X + at * D + v->constant.first, K * sizeof *s);
        for (int k = 0; k < v->K && data->V; k++) {
            int c = v->constant.first + k;
            s[k] = c < data->V ? net->batch.token[row] == c : (int)(row % n) == c - data->V;
        }
    }
}

static OPERATION(input, .constants = CONSTANTS(CONSTANT("first", FIELD_INT, first)),
                 .forward = input_forward);

struct value program_input(struct program *p, int first, int last) {
    struct value out;
    const struct data_setup *data = &p->net->setup.data;
    int most = data->V ? data->V + data->n : data->D; /* kinds of tokens and places, or its own */
    if (first < 1 || last < first || last > most)
        program_fail(p,
                     "numbers %d to %d of an input, which has %d: they must lie between 1 and %d, "
                     "the first of them first",
                     first, last, most, most);
    struct node *node =
        node_append_numbers(p, &operation_input, none, none, last - first + 1, &out);
    node->constant.first = first - 1;
    return out;
}

/* Room for what all uses of the vectors learn with. */
static int make_room_for_uses(struct net *net, const struct node *v, struct err *err) {
    struct thin *thin = v->matrix.thin;
    int rows = thin->uses * v->count;
    if (thin->uses < 2)
        return CODE_OK;
    TRY(net_vector(net, (size_t)rows, (size_t)v->K, &thin->A, err));
    return net_rows(net, v->on, rows, &thin->y, err);
}

static int embed_prepare(struct net *net, struct node *v, struct err *err) {
    if (v->matrix.use)
        return CODE_OK;
    TRY(net_thin(net, v->on, v->K, v->matrix.weight.a0, false, v->matrix.thin, err));
    return make_room_for_uses(net, v, err);
}

static void embed_forward(struct net *net, struct node *v) {
    thin_read(v->matrix.thin, argument(net, v, 0)->s, v->value);
}

/* <E_k g> */
static void embed_back_forward(struct net *net, struct node *v) {
    const struct rows g = argument(net, v, 0)->value;
    ops(g)->dots(g, array_all(&v->matrix.thin->W), v->s);
}

static OPERATION(embed_back, .traits = OP_AS_ARGUMENT, .forward = embed_back_forward);

OPERATION(embed, .prepare = embed_prepare, .forward = embed_forward, .back = &operation_embed_back,
          .matrix = MATRIX_EMBED, .traits = OP_LINEAR | OP_LEARNS | OP_EVERY_ROW);
