/* The composite terms of "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable
 * Parameterization" (its figures 1 and Q.26, equations I.4 and I.6), in its notation:
 *
 *     s1 = x1   h2 = W2 s1   s2 = sigma(h2)   h3 = agg sum_i phi_i W3_i s2_i   f = W4 h3
 *
 * With 0 for t = 0 and d for the difference from it,
 *     h3 = A1 + A21 + A22 + A3
 *     A1  = agg sum phi W3_0 s2_0           A21 = agg sum phi W3_0 (sigma(W2_0 s1) - s2_0)
 *     A3  = agg sum phi dW3 s2              A22 = agg sum phi W3_0 (s2 - sigma(W2_0 s1))
 * and the gradient of f with respect to s1
 *     b = W3^T W4^T                         b00 + b0d + bd0 + bdd: W3_0 or dW3, W4_0 or dW4
 *     experts: A4 + A5 + A6 + E             W2_0 or dW2 times g2 of W3_0 or dW3; A4: both initial,
 *                                           A5: W2_0, dW3; A6: dW2, W3_0; E: both learned
 *                                           g2 = agg phi sigma'(h2) b
 *     router:  R00 + R0d + Rd0 + Rdd        Q0 or dQ, then W3_0 or dW3
 *     I6: W2_0^T g2_0 (init) + W2_0^T dg2 (prop) + dW2^T g2 (eff)
 * Of each the root of the mean square over entries, experts and inputs is kept. Gradients are
 * multiplied by the width (df/dphi by 1/agg), which makes them cotangents over gamma0, and b is
 * multiplied by what the network says. All follow from replays of the network between s1 and h3. In
 * the limit there is h3 alone. */
#include "solver/measure/aggregation.h"

#include <assert.h>
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the table. */
enum { H3, H3_DELTA, H3I_INIT, H3I_PROP, H3I_EFF, A1, A21, A22, A3 };
enum { B_00 = A3 + 1, B_D0, B_0D, B_DD, DPHI_INIT, DPHI_UPD, DPHI };
enum { A4 = DPHI + 1, A6, A5, E, D1E, R00, RD0, R0D, RDD, D1R, I6_INIT, I6_PROP, I6_EFF, TERMS };

static const struct {
    const char *name, *about, *equation;
} term[TERMS] = {
    {"h3", "output of the mixture", "A1 + A21 + A22 + A3"},
    {"h3_delta", "its change", "h3 - h3_0"},
    {"h3i_init", "output of one expert, initial", "W3_0 s2_0"},
    {"h3i_prop", "output of one expert, propagating", "W3_0 ds2"},
    {"h3i_eff", "output of one expert, effective", "dW3 s2"},
    {"A1", "aggregated: initial", "agg sum phi W3_0 s2_0"},
    {"A21", "aggregated: propagating from the bottom", "agg sum phi W3_0 (sigma(W2_0 s1) - s2_0)"},
    {"A22", "aggregated: propagating from W2", "agg sum phi W3_0 (s2 - sigma(W2_0 s1))"},
    {"A3", "aggregated: effective", "agg sum phi dW3 s2"},
    {"b_00", "gradient at the hidden units", "W3_0^T W4_0"},
    {"b_d0", "gradient at the hidden units", "dW3^T W4_0"},
    {"b_0d", "gradient at the hidden units", "W3_0^T dW4"},
    {"b_dd", "gradient at the hidden units", "dW3^T dW4"},
    {"dphi_init", "gradient of the gates, W3_0", "(b_00 + b_0d) s2"},
    {"dphi_upd", "gradient of the gates, dW3", "(b_d0 + b_dd) s2"},
    {"dphi", "gradient of the gates", "b s2"},
    {"A4", "gradient through the experts", "N sum W2_0^T g2[W3_0]"},
    {"A6", "gradient through the experts", "N sum dW2^T g2[W3_0]"},
    {"A5", "gradient through the experts", "N sum W2_0^T g2[dW3]"},
    {"E", "gradient through the experts", "N sum dW2^T g2[dW3]"},
    {"d1e", "gradient through the experts", "A4 + A5 + A6 + E"},
    {"R00", "gradient through the router", "N Q0^T dpsi[W3_0]"},
    {"Rd0", "gradient through the router", "N dQ^T dpsi[W3_0]"},
    {"R0d", "gradient through the router", "N Q0^T dpsi[dW3]"},
    {"Rdd", "gradient through the router", "N dQ^T dpsi[dW3]"},
    {"d1r", "gradient through the router", "R00 + R0d + Rd0 + Rdd"},
    {"I6_init", "backward aggregation, initial", "N sum W2_0^T g2_0"},
    {"I6_prop", "backward aggregation, propagating", "N sum W2_0^T dg2"},
    {"I6_eff", "backward aggregation, effective", "N sum dW2^T g2"},
};

static const struct mixture *declared(const struct net *net) {
    return &net->program->mixture;
}

static bool exists(const struct net *net, int k) {
    bool router = (k >= DPHI_INIT && k <= DPHI) || (k >= R00 && k <= D1R);
    return declared(net)->rows && (!router || declared(net)->phi >= 0) &&
           (net->setup.N || k <= H3_DELTA);
}

int aggregation_declare(struct record *record, const struct net *net, record_fill *fill,
                        struct err *err) {
    if (declared(net)->rows)
        TRY(record_fill_by(record, fill, 0, TERMS, err));
    for (int k = 0; k < TERMS; k++) {
        struct series series = {.slot = k,
                                .dims = "t",
                                .about = term[k].about,
                                .equation = term[k].equation,
                                .axes = 1,
                                .shape = {(size_t)record->T}};
        snprintf(series.name, sizeof series.name, "rms_%s", term[k].name);
        if (exists(net, k))
            TRY(record_add(record, series, err));
    }
    return CODE_OK;
}

/* What the read-out reads, before its tokens are pooled. */
static int h3_of(const struct net *net) {
    const struct node *node = net->program->node;
    int h3 = node[net->program->read_out].argument[0], x = node[h3].argument[0];
    return x >= 0 && node[h3].per < node[x].per ? x : h3;
}

/* Host: the matrix out of experts as it is, was, and has changed. */
double aggregation_bytes(const struct net *net) {
    const struct mixture *a = declared(net);
    double total = 0, units = 0;
    for (int k = 0; k < a->rows; k++) {
        const struct node *s2 = &net->program->node[a->s2[k]];
        total += 4 * (double)array_bytes(s2->value.array, s2->value.count);
        units = (double)s2->on->sites;
    }
    if (!a->rows || !net->setup.N)
        return 0;
    return total + replay_bytes(net, a->x1, h3_of(net)) + 3 * sizeof(double) * units * net->setup.N;
}

/* --- arithmetic ------------------------------------------------------------------------------ */

double aggregation_square(struct rows x) {
    double square, sum = 0;
    for (int k = 0; k < x.count; k++) {
        struct rows row = rows_part(x, k, 1);
        x.array->backend->averages(row, row, &square);
        sum += square / x.count;
    }
    return sum;
}

void aggregation_subtract(struct rows x, struct rows y) {
    static const double minus = -1;
    for (int k = 0; k < x.count; k++)
        rows_add(&minus, rows_part(x, k, 1), rows_part(y, k, 1));
}

static double rms(struct rows x) {
    return sqrt(aggregation_square(x));
}

/* The cotangent of a node, which may be numbers, becomes a kept one. */
static int keep(const struct node *v, struct piece *kept, struct err *err) {
    size_t count = (size_t)v->count * (size_t)v->K;
    if (v->on)
        return array_keep(&kept->rows, v->g, err);
    if (!kept->s)
        TRY(base_alloc(&kept->s, count, sizeof *kept->s, err));
    memcpy(kept->s, v->gs, count * sizeof *kept->s);
    return CODE_OK;
}

/* The cotangents become kept ones, or (minus) lose them. */
static void put(struct node *v, const struct piece *kept, bool minus) {
    int count = v->on ? 0 : v->count * v->K;
    if (v->on && minus)
        aggregation_subtract(array_all(&kept->rows), v->g);
    else if (v->on)
        rows_copy(array_all(&kept->rows), v->g);
    for (int k = 0; k < count; k++)
        v->gs[k] = minus ? v->gs[k] - kept->s[k] : kept->s[k];
}

/* Rms over nodes first ... end - 1 of the list of their cotangents, over gamma0. */
static double rms_of(const struct aggregation_check *c, const int *list, int first, int end) {
    double sum = 0, gamma0 = c->replay.view.setup.gamma0;
    for (int k = first; k < end; k++) {
        const struct node *v = &c->replay.program.node[list[k]];
        int count = v->on ? 0 : v->count * v->K;
        sum += v->on ? aggregation_square(v->g) : 0;
        for (int i = 0; i < count; i++)
            sum += v->gs[i] * v->gs[i] / count;
    }
    return sqrt(sum / (end - first)) / gamma0;
}

/* --- forward --------------------------------------------------------------------------------- */

static void give(struct aggregation_check *c, const struct net *net, const int *list) {
    for (int k = list[0] < 0; k < c->nodes; k++)
        replay_give(&c->replay, net, list[k]);
}

/* value: what h3 is more than before, which it becomes. */
static void step(struct rows h3, struct rows before, struct rows work, double *value) {
    rows_copy(h3, work);
    aggregation_subtract(before, work);
    *value = rms(work);
    rows_copy(h3, before);
}

static int forward(struct aggregation_check *c, const struct net *net, double *value,
                   struct err *err) {
    struct replay *r = &c->replay;
    int target = h3_of(net), P = net->rows;
    struct rows h3 = r->program.node[target].value, before = array_rows(&c->work, 0, P);
    struct rows work = array_rows(&c->work, P, P);
    rows_zero(before);
    replay_begin(r, net);
    give(c, net, c->s2);
    for (int k = 1; k < c->nodes; k++)
        rows_copy(array_all(&c->start[k].rows), r->program.node[c->s2[k]].value);
    TRY(replay_forward(r, true, target, err));
    step(h3, before, work, &value[A1]);
    replay_begin(r, net);
    if (c->s2[0] >= 0)
        replay_give(r, net, c->s2[0]);
    replay_give(r, net, declared(net)->x1);
    TRY(replay_forward(r, true, target, err));
    step(h3, before, work, &value[A21]);
    replay_begin(r, net);
    give(c, net, c->s2);
    TRY(replay_forward(r, true, target, err));
    step(h3, before, work, &value[A22]);
    step(net->program->node[target].value, before, work, &value[A3]);
    return CODE_OK;
}

/* --- one expert ------------------------------------------------------------------------------ */

/* Whether node v is a matrix out of the experts of node s2, through gates or not; *shared: the same
 * for all of them. */
static bool leaves(const struct program *p, const struct node *v, int s2, bool *shared) {
    if (!v->map)
        return false;
    int a = v->argument[0];
    *shared = p->node[a].op->mean_of_copies;
    if (*shared)
        a = p->node[a].argument[0];
    return a == s2 || (p->node[a].op->grouped_factor && p->node[a].argument[1] == s2);
}

/* W3_0 and dW3 of rows k: [N][experts][N_e], N_e = units/experts. Both zero at first. */
static int matrices(const struct net *net, int k, size_t units, double *initial, double *change,
                    struct err *err) {
    const struct mixture *a = declared(net);
    size_t N = (size_t)net->setup.N, N_e = units / a->experts;
    double *W;
    bool shared;
    TRY(base_alloc(&W, units * N, sizeof *W, err));
    int code = CODE_OK;
    for (int i = a->x1; i <= h3_of(net); i++) {
        const struct map *map = net->program->node[i].map;
        if (!leaves(net->program, &net->program->node[i], a->s2[k], &shared))
            continue;
        size_t row = shared ? N_e : units;
        double factor = shared ? 1 : (double)a->experts;
        DO(map->start->kind->matrix(map->start, W, err));
        for (size_t j = 0; j < units * N; j++) {
            double entry = factor * W[j / units * row + j % units % row];
            initial[j] += entry;
            change[j] -= entry;
        }
        DO(map->kind->matrix(map, W, err));
        for (size_t j = 0; j < units * N; j++)
            change[j] += factor * W[j / units * row + j % units % row];
    }
done:
    free(W);
    return code;
}

/* Sum over its experts of the mean squares of W3_i x_i; x [P][units]. */
static double one_expert(const struct net *net, const double *W3, const double *x, size_t units,
                         double *work) {
    int experts = (int)declared(net)->experts, P = net->rows, N = net->setup.N, U = (int)units;
    double sum = 0;
    for (int i = 0; i < experts; i++) {
        int N_e = U / experts, first = i * N_e;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, P, N, N_e, 1, x + first, U, W3 + first,
                    U, 0, work, N);
        for (int k = 0; k < P * N; k++)
            sum += work[k] * work[k] / (P * N);
    }
    return sum / experts;
}

static int experts_apart(struct aggregation_check *c, const struct net *net, int k, double *value,
                         struct err *err) {
    struct rows now = net->program->node[c->s2[k]].value;
    size_t units = now.array->sites, N = (size_t)net->setup.N, P = (size_t)net->rows;
    double *W, *x, *work, share = 1.0 / declared(net)->rows;
    int code = CODE_OK;
    TRY(base_alloc(&W, 2 * units * N + 2 * P * units + P * N, sizeof *W, err));
    x = W + 2 * units * N;
    work = x + 2 * P * units;
    DO(matrices(net, k - 1, units, W, W + units * N, err));
    now.array->backend->get(now, x);
    now.array->backend->get(array_all(&c->start[k].rows), x + P * units);
    value[H3I_EFF] += share * one_expert(net, W + units * N, x, units, work);
    for (size_t i = 0; i < P * units; i++)
        x[i] -= x[P * units + i];
    value[H3I_PROP] += share * one_expert(net, W, x, units, work);
    value[H3I_INIT] += share * one_expert(net, W, x + P * units, units, work);
done:
    free(W);
    return code;
}

/* --- backward -------------------------------------------------------------------------------- */

/* From the cotangent w of h3; or, of several outputs or tokens, sum_c Delta_c w_c. */
static int from_top(struct aggregation_check *c, const struct net *net, bool initial, struct rows w,
                    struct err *err) {
    struct node *h3 = replay_node(&c->replay, h3_of(net));
    int C = net->setup.C, each = net->rows / net->outs;
    double *Delta;
    TRY(base_alloc(&Delta, (size_t)(net->rows * C), sizeof *Delta, err));
    for (int k = 0; k < net->rows * C; k++)
        Delta[k] = net->weighted ? net->Delta[k / C / each * C + k % C] / each : 1;
    net->setup.backend->combine(h3->g, 0, Delta, w);
    free(Delta);
    return replay_backward(&c->replay, initial, err);
}

/* b, which has no gates, with W4(0) or its change. */
static int hidden(struct aggregation_check *c, const struct net *net, struct rows w, double *value,
                  struct err *err) {
    double scale = declared(net)->scale;
    for (int now = 0; now < 2; now++) {
        replay_begin(&c->replay, net);
        give(c, net, c->s2);
        struct node *phi = c->s2[0] < 0 ? NULL : &c->replay.program.node[c->s2[0]];
        if (phi && phi->on) {
            rows_zero(phi->value);
            net->setup.backend->pointwise(FN_LINEAR, NULL, net->ones, phi->value, phi->value,
                                          (struct rows){0});
        }
        for (int k = 0; phi && !phi->on && k < phi->count * phi->K; k++)
            phi->s[k] = 1;
        TRY(replay_forward(&c->replay, !now, h3_of(net), err));
        TRY(from_top(c, net, !now, w, err));
        for (int k = 1; k < c->nodes; k++) {
            struct node *v = &c->replay.program.node[c->s2[k]];
            if (now)
                put(v, &c->part[0][k], true);
            else
                TRY(keep(v, &c->part[0][k], err));
        }
        value[now] = scale * rms_of(c, c->s2, 1, c->nodes);
    }
    return CODE_OK;
}

/* Cotangents of the gates and of h2 through W3(0), and through its change. */
static int gradients(struct aggregation_check *c, const struct net *net, double *value,
                     struct err *err) {
    int first = c->h[0] < 0;
    struct rows w = array_all(&net->program->node[net->program->read_out].thin->W);
    for (int now = 0; now < 2; now++) {
        replay_begin(&c->replay, net);
        give(c, net, c->h);
        TRY(replay_forward(&c->replay, !now, h3_of(net), err));
        TRY(from_top(c, net, !now, w, err));
        if (!first)
            value[now ? DPHI : DPHI_INIT] = rms_of(c, c->h, 0, 1);
        for (int k = first; k < c->nodes; k++) {
            struct node *v = &c->replay.program.node[c->h[k]];
            if (now)
                put(v, &c->part[0][k], true);
            TRY(keep(v, &c->part[now][k], err));
        }
    }
    if (!first)
        value[DPHI_UPD] = rms_of(c, c->h, 0, 1);
    return CODE_OK;
}

/* From nodes first ... end - 1 to x1: value[0 ... 3] of W(0), dW with both parts, then of the sum.
 * The work rows become what W(0) and what W hands back of both. */
static int paths(struct aggregation_check *c, const struct net *net, int first, int end,
                 double *value, struct err *err) {
    int x1 = declared(net)->x1, P = net->rows;
    struct rows g = c->replay.program.node[x1].g, sum[2], before = array_rows(&c->work, 2 * P, P);
    double gamma0 = net->setup.gamma0;
    for (int k = 0; k < 2; k++) {
        sum[k] = array_rows(&c->work, k * P, P);
        rows_zero(sum[k]);
    }
    for (int part = 0; part < 2; part++)
        for (int now = 0; now < 2; now++) {
            replay_begin(&c->replay, net);
            replay_give(&c->replay, net, x1);
            if (first == 0)
                TRY(replay_forward(&c->replay, false, c->h[0], err));
            for (int k = first; k < end; k++)
                put(replay_node(&c->replay, c->h[k]), &c->part[part][k], false);
            TRY(replay_backward(&c->replay, !now, err));
            rows_add(NULL, g, sum[now]);
            if (now)
                aggregation_subtract(before, g);
            else
                rows_copy(g, before);
            value[2 * part + now] = rms(g) / gamma0;
        }
    value[4] = rms(sum[1]) / gamma0;
    return CODE_OK;
}

static int backward(struct aggregation_check *c, const struct net *net, int t, double *value,
                    struct err *err) {
    int P = net->rows;
    double gamma0 = net->setup.gamma0;
    struct array change = {0};
    int code;
    DO(array_keep(&change, array_all(&net->program->node[net->program->read_out].thin->W), err));
    aggregation_subtract(array_all(&c->w), array_all(&change));
    DO(hidden(c, net, array_all(&c->w), value + B_00, err));
    DO(hidden(c, net, array_all(&change), value + B_0D, err));
    DO(gradients(c, net, value, err));
    if (c->h[0] >= 0)
        DO(paths(c, net, 0, 1, value + R00, err));
    DO(paths(c, net, 1, c->nodes, value + A4, err));
    struct rows initial = array_rows(&c->work, 0, P), whole = array_rows(&c->work, P, P);
    if (t == 0)
        DO(array_keep(&c->back, initial, err));
    aggregation_subtract(initial, whole);
    value[I6_EFF] = rms(whole) / gamma0;
    aggregation_subtract(array_all(&c->back), initial);
    value[I6_PROP] = rms(initial) / gamma0;
    value[I6_INIT] = rms(array_all(&c->back)) / gamma0;
done:
    array_free(&change);
    return code;
}

/* --- measuring ------------------------------------------------------------------------------- */

static int begin(struct aggregation_check *c, const struct net *net, struct err *err) {
    const struct program *p = net->program;
    const struct mixture *a = declared(net);
    const struct array *h3 = p->node[h3_of(net)].value.array, *x1 = p->node[a->x1].value.array;
    TRY(array_keep(&c->h3, p->node[h3_of(net)].value, err));
    if (!net->setup.N)
        return CODE_OK;
    c->nodes = 1 + a->rows;
    size_t nodes = (size_t)c->nodes;
    TRY(base_alloc(&c->h, 2 * nodes, sizeof *c->h, err));
    TRY(base_alloc(&c->start, 3 * nodes, sizeof *c->start, err));
    c->s2 = c->h + nodes;
    c->part[0] = c->start + nodes;
    c->part[1] = c->start + 2 * nodes;
    c->h[0] = c->s2[0] = a->phi;
    for (int k = 1; k < c->nodes; k++) {
        const struct node *v = &p->node[a->s2[k - 1]];
        c->s2[k] = a->s2[k - 1];
        c->h[k] = v->op->function ? v->argument[0] : c->s2[k];
        TRY(array_keep(&c->start[k].rows, v->value, err));
    }
    TRY(array_keep(&c->w, array_all(&p->node[p->read_out].thin->W), err));
    assert(h3->sites == x1->sites);
    TRY(array_init(&c->work, h3->backend, h3->sites, h3->group, 3 * net->rows, err));
    return replay_init(&c->replay, net, a->x1, h3_of(net), err);
}

int aggregation_fill(struct aggregation_check *c, const struct net *net, int t, double *const *out,
                     struct err *err) {
    double value[TERMS] = {0};
    if (t == 0)
        TRY(begin(c, net, err));
    struct rows h3 = net->program->node[h3_of(net)].value;
    struct array change = {0};
    value[H3] = rms(h3);
    TRY(array_keep(&change, h3, err));
    aggregation_subtract(array_all(&c->h3), array_all(&change));
    value[H3_DELTA] = rms(array_all(&change));
    array_free(&change);
    if (net->setup.N) {
        TRY(forward(c, net, value, err));
        for (int k = 1; k < c->nodes; k++)
            TRY(experts_apart(c, net, k, value, err));
        for (int k = H3I_INIT; k <= H3I_EFF; k++)
            value[k] = sqrt(value[k]);
        TRY(backward(c, net, t, value, err));
    }
    for (int k = 0; k < TERMS; k++)
        if (out[k])
            *out[k] = value[k];
    return CODE_OK;
}

/* Rows alone are kept of nodes: all of them have rows. */
int aggregation_archive(struct aggregation_check *c, const struct net *net, struct archive *archive,
                        struct err *err) {
    const struct backend *backend = net->setup.backend;
    if (!declared(net)->rows)
        return CODE_OK;
    if (archive_reads(archive))
        TRY(begin(c, net, err));
    TRY(archive_array(archive, &c->h3, backend, err));
    TRY(archive_array(archive, &c->w, backend, err));
    TRY(archive_array(archive, &c->back, backend, err));
    for (int k = 1; k < c->nodes; k++)
        TRY(archive_array(archive, &c->start[k].rows, backend, err));
    return c->nodes ? replay_archive(&c->replay, archive, err) : CODE_OK;
}

void aggregation_free(struct aggregation_check *c) {
    for (int k = 0; k < 3 * c->nodes && c->start; k++) {
        array_free(&c->start[k].rows);
        free(c->start[k].s);
    }
    free(c->start);
    free(c->h);
    replay_free(&c->replay);
    array_free(&c->h3);
    array_free(&c->w);
    array_free(&c->back);
    array_free(&c->work);
    *c = (struct aggregation_check){0};
}
