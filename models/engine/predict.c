/* Which inputs an evaluation has: those of a batch, and those that are only predicted.
 *
 * A prediction conditions W(0) of a limit on what it asks exactly as any other forward
 * pass would, with normals from a stream of its own, and then forgets that it did: bases, spans and
 * draws return to where they were (docs/learning.md, section 8). Inputs of one prediction come with
 * the same normals every time, so that differences over time have little noise. */
#include "models/engine/aside.h"

#define UNSEEN (1u << 31) /* the first number of a draw for what no training input has */

/* Networks that are not centred subtract nothing. */
static bool has_origins(const struct net *net) {
    return net->setup.limit.centre || !net->setup.N;
}

int net_origin(struct net *net, int K, double **now, struct err *err) {
    struct origin *origin;
    size_t all = (size_t)(net->setup.data.inputs + net->setup.data.tests);
    TRY(base_grow(&origin, NET_END(net->origins), err));
    TRY(net_vector(net, (size_t)net->setup.data.P, (size_t)K, now, err));
    *origin = (struct origin){.now = *now, .K = K};
    return has_origins(net)
               ? net_reserve(net, &origin->all, all, (size_t)K, sizeof *origin->all, err)
               : CODE_OK;
}

/* out = a, or a + b. */
static void set_or_add(double *out, const double *a, const double *b, size_t count) {
    for (size_t k = 0; k < count; k++)
        out[k] = b ? a[k] + b[k] : a[k];
}

void net_coordinates(const struct data_setup *data, size_t row, double *A, double *rest) {
    size_t K = (size_t)data->K, more = (size_t)data->test_directions, all = K + more;
    size_t n = (size_t)data->n, at = data->A ? row : (size_t)data->token[row];
    const double *first = (data->A ? data->A : data->table) + at * all,
                 *place = data->A || data->D <= data->V
                              ? NULL
                              : data->table + ((size_t)data->V + row % n) * all;
    set_or_add(A, first, place, K);
    set_or_add(rest, first + K, place ? place + K : NULL, more);
}

const double *net_targets(const struct data_setup *data, const double *y, size_t place,
                          double *space) {
    if (!data->numbered)
        return y + place * (size_t)data->C;
    memset(space, 0, (size_t)data->C * sizeof *space);
    if (y[place] >= 0)
        space[(size_t)y[place]] = 1;
    return space;
}

double net_weight(const struct data_setup *data, size_t input) {
    return data->weight ? data->weight[input] : 1;
}

void net_load_batch(struct net *net) {
    size_t K = (size_t)net->setup.data.K, rest = (size_t)net->setup.data.test_directions,
           n = (size_t)net->setup.data.n;
    for (int mu = 0; mu < net->setup.data.P; mu++) {
        size_t to = (size_t)mu, from = (size_t)net->batch.index[mu];
        for (size_t i = 0; i < n; i++)
            net_coordinates(&net->setup.data, from * n + i, net->batch.A + (to * n + i) * K,
                            net->batch.A_rest + (to * n + i) * rest);
        if (net->batch.token)
            memcpy(net->batch.token + to * n, net->setup.data.token + from * n,
                   n * sizeof *net->batch.token);
        for (int i = 0; i < net->origins.count && has_origins(net); i++) {
            const struct origin *origin = &net->origins.item[i];
            size_t k = (size_t)origin->K;
            memcpy(origin->now + to * k, origin->all + from * k, k * sizeof *origin->now);
        }
    }
}

/* The origins of the inputs `index` are those found now. */
static void keep_origins(const struct net *net) {
    for (int mu = 0; mu < net->setup.data.P && has_origins(net); mu++)
        FOR_EACH (const struct origin, origin, net->origins) {
            size_t k = (size_t)origin->K, from = (size_t)mu, to = (size_t)net->batch.index[mu];
            memcpy(origin->all + to * k, origin->now + from * k, k * sizeof *origin->now);
        }
}

int net_start(struct net *net, struct err *err) {
    int inputs = net->setup.data.inputs, tests = net->setup.data.tests;
    if (has_origins(net) && inputs > net->setup.data.P)
        TRY(net_predict(net, 0, inputs, NULL, err));
    if (has_origins(net) && tests)
        TRY(net_predict(net, inputs, tests, NULL, err));
    keep_origins(net);
    net->batch.started = true;
    return CODE_OK;
}

/* Each row that a matrix makes on it is new at most. */
uint32_t net_predict_stride(const struct net *net, const struct population *population) {
    uint32_t rows = 0;
    FOR_EACH_OF (const struct node, v, net->program->node, net->program->nodes) {
        rows += v->matrix.map && v->on == population ? (uint32_t)v->per : 0;
    }
    return rows > 256 ? rows : 256;
}

/* A forward pass of `count` <= P inputs; the last one fills up the rows. */
static int predict_batch(struct net *net, const struct aside *aside, int first, int count,
                         double *f, struct err *err) {
    for (int mu = 0; mu < net->setup.data.P; mu++)
        net->batch.index[mu] = first + (mu < count ? mu : count - 1);
    net_load_batch(net);
    for (int i = 0; i < net->populations.count; i++) {
        struct population *population = net->populations.item[i];
        uint64_t from = (uint64_t)first * net_predict_stride(net, population);
        population_set_aside(population, (uint32_t)(from % UNSEEN), &aside->population[i]);
    }
    aside_maps(aside, net, true);
    net->batch.predicting = true;
    int code = program_forward(net, err);
    if (!code)
        code = program_arrive(net, err);
    net->batch.predicting = false;
    aside_forget(aside, net);
    if (!net->batch.started)
        keep_origins(net);
    if (f)
        memcpy(f, net->output.f, (size_t)count * (size_t)net_outputs(net) * sizeof *f);
    return code;
}

/* Columns of the read-ins to `bottom` that nothing learns from: of a network or a fixed point once,
 * in the march at every prediction, orthonormal to all that bottom has met until then. */
static int draw_unseen(struct net *net, struct population *bottom, struct err *err) {
    struct population_aside mark;
    int code = CODE_OK;
    population_set_aside(bottom, UNSEEN, &mark);
    for (int i = 0; i < net->program->nodes && !code; i++) {
        const struct node *v = &net->program->node[i];
        if (!v->matrix.unseen || v->on != bottom)
            continue;
        code = population_fresh(bottom, (struct rows){0}, array_all(&v->matrix.unseen->W), err);
        rows_scale(v->matrix.weight.a0 * v->matrix.thin->decay, array_all(&v->matrix.unseen->W));
    }
    population_put_back(bottom, &mark);
    return code;
}

int net_draw_unseen(struct net *net, struct err *err) {
    for (int i = 0; i < net->populations.count; i++)
        TRY(draw_unseen(net, net->populations.item[i], err));
    return CODE_OK;
}

int net_predict(struct net *net, int first, int count, double *f, struct err *err) {
    struct aside aside = {0};
    int P = net->setup.data.P, code = CODE_OK;
    DO(aside_put(&aside, net, err));
    if (!net->setup.N && !net->setup.field)
        DO(net_draw_unseen(net, err));
    for (int i = 0; i < count; i += P)
        DO(predict_batch(net, &aside, first + i, count - i < P ? count - i : P,
                         f ? f + (ptrdiff_t)i * net_outputs(net) : NULL, err));
    aside_take_back(&aside, net);
    DO(backend_check(net->setup.backend, err));
done:
    aside_free(&aside, net);
    return code;
}

int net_read_in(struct net *net, struct node *v, struct err *err) {
    struct thin **unseen;
    TRY(net_thin(net, v->on, net->setup.data.K, v->matrix.weight.a0, false, v->matrix.thin, err));
    if (!net->setup.data.test_directions)
        return CODE_OK;
    TRY(base_grow(&unseen, NET_END(net->thins), err));
    TRY(base_alloc(unseen, 1, sizeof **unseen, err));
    v->matrix.unseen = *unseen;
    TRY(net_thin(net, v->on, net->setup.data.test_directions, 0, false, v->matrix.unseen, err));
    return net->setup.N && !net->setup.declare_only ? draw_unseen(net, v->on, err) : CODE_OK;
}

void net_read(struct net *net, struct node *v) {
    thin_read(v->matrix.thin, net->batch.A, v->value);
    if (net->batch.predicting && v->matrix.unseen)
        net->setup.backend->combine(v->value, 1, net->batch.A_rest,
                                    array_all(&v->matrix.unseen->W));
}
