/* The composite terms of a network (aggregation.c has their formulas), from its matrices, its gates
 * and what its experts read. A fixed number of experts has rows k each, a growing one has those of
 * all experts side by side. */
#include "kernels/array/functions.h"
#include "solver/measure/coordinate.h"

#include <cblas.h>

/* A matrix at t = 0 and what it has become more than that, or through which of these; and what W3
 * reads: s2_0, sigma(W2_0 s1) - s2_0, s2 - sigma(W2_0 s1), s2. */
enum { START, CHANGE, KINDS };
enum { S_START, S_MOVED, S_LEARNED, S_NOW, PARTS };

/* Places in the lists of struct terms. A path goes through W3 and W2, or W3 and Q. */
enum { X1, OUT, LEARNED, TOP, SUM = TOP + KINDS, PATH = SUM + PARTS, WIDE = PATH + 4 };
enum { PHI, PSI, D_PHI, GATES = D_PHI + KINDS };
enum { S, SLOPE = PARTS, B, G2 = B + KINDS, INNER = G2 + KINDS };

struct terms {
    const struct net *net;
    const struct mixture *mixture;
    const struct coordinate_matrix *start;
    int P, N, experts, side_by_side; /* rows of x1; experts in all, and of rows k */
    int units;                       /* of rows k */
    double *value;                   /* [TERMS] */
    double *wide[WIDE], *gates[GATES], *inner[INNER]; /* [P][N], [P][experts], [P][units] */
    double *inward[KINDS], *outward[KINDS]; /* [units][N] W2 or [experts][N] Q; [N][units] W3 */
    double *scratch;                        /* a matrix */
};

static double mean_square(const double *x, size_t count) {
    return pow(cblas_dnrm2((int)count, x, 1), 2) / (double)count;
}

/* out [P][n] = factor x W + keep out, or of W^T (W [n][m]); x [P][m]. */
static void multiply_by(const struct terms *t, const double *x, int m, const double *W,
                        bool transposed, int n, double factor, double keep, double *out) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, t->P, n, m,
                factor, x, m, W, transposed ? m : n, keep, out, n);
}

/* --- matrices -------------------------------------------------------------------------------- */

/* Rows r < rows, of this length, of a matrix of all units: r/same % period of the map. */
struct tiling {
    size_t rows, length, same, period;
    double factor;
};

/* Adds a map to a matrix at the start and to its change. */
static int add_map(struct terms *t, const struct map *map, struct tiling tiling, double *const *W,
                   struct err *err) {
    const struct map *const maps[] = {map->start, map};
    bool whole = tiling.same == 1 && tiling.period >= tiling.rows;
    size_t rows = whole ? 1 : tiling.rows, length = tiling.rows * tiling.length / rows;
    for (int now = 0; now < 2; now++) {
        TRY(maps[now]->kind->matrix(maps[now], t->scratch, err));
        for (size_t r = 0; r < rows; r++) {
            const double *from = &t->scratch[r / tiling.same % tiling.period * length];
            double *start = W[START] + r * length, *change = W[CHANGE] + r * length,
                   sign = now ? 1 : -1;
            for (size_t j = 0; j < length && !now; j++)
                start[j] += tiling.factor * from[j];
            for (size_t j = 0; j < length; j++)
                change[j] += sign * tiling.factor * from[j];
        }
    }
    return CODE_OK;
}

static void clear_matrices(const struct terms *t, double *const *W, int sites) {
    for (int kind = 0; kind < KINDS; kind++)
        memset(W[kind], 0, (size_t)sites * (size_t)t->N * sizeof *W[kind]);
}

/* The maps that node `at`, the field of units, is a sum of: for each expert, or the same. */
static int add_maps_into(struct terms *t, int at, struct err *err) {
    const struct node *v = &t->net->program->node[at];
    const struct map *map = v->matrix.map;
    if (map)
        return add_map(
            t, map,
            (struct tiling){(size_t)t->units, (size_t)t->N, 1, map->declared.target->sites, 1},
            t->inward, err);
    for (int k = 0; k < 2; k++)
        if (v->argument[k] >= 0)
            TRY(add_maps_into(t, v->argument[k], err));
    return CODE_OK;
}

/* W2 of rows s2. */
static int find_inner(struct terms *t, int s2, struct err *err) {
    const struct node *v = &t->net->program->node[s2];
    clear_matrices(t, t->inward, t->units);
    return add_maps_into(t, (v->op->traits & OP_FUNCTION) ? v->argument[0] : s2, err);
}

/* Whether node v is a matrix out of the experts of node s2, by gates or not; *shared: by all. */
static bool leaves_experts(const struct program *p, const struct node *v, int s2, bool *shared) {
    if (!v->matrix.map)
        return false;
    int a = v->argument[0];
    *shared = p->node[a].op->traits & OP_MEAN_OF_COPIES;
    if (*shared)
        a = p->node[a].argument[0];
    return a == s2 || ((p->node[a].op->traits & OP_GROUPED_FACTOR) && p->node[a].argument[1] == s2);
}

/* W3 of rows s2. */
static int find_outer(struct terms *t, int s2, struct err *err) {
    const struct program *p = t->net->program;
    size_t experts = (size_t)t->side_by_side, rows = (size_t)t->N * experts;
    bool shared;
    clear_matrices(t, t->outward, t->units);
    for (int i = 0; i < p->nodes; i++)
        if (leaves_experts(p, &p->node[i], s2, &shared))
            TRY(add_map(t, p->node[i].matrix.map,
                        (struct tiling){rows, (size_t)t->units / experts, shared ? experts : 1,
                                        rows, shared ? 1 : (double)experts},
                        t->outward, err));
    return CODE_OK;
}

/* Q; the gates are made of its logits. */
static int find_router(struct terms *t, struct err *err) {
    int at = t->mixture->phi;
    const struct node *v = &t->net->program->node[at];
    size_t entries = (size_t)t->experts * (size_t)t->N;
    clear_matrices(t, t->inward, t->experts);
    while (!v->matrix.map && !v->matrix.thin)
        v = &t->net->program->node[at = v->argument[0]];
    if (v->matrix.map)
        return add_map(t, v->matrix.map,
                       (struct tiling){(size_t)t->experts, (size_t)t->N, 1, entries, 1}, t->inward,
                       err);
    struct rows W = array_all(&v->matrix.thin->W), start = array_all(&t->start[at].W);
    W.array->backend->get(W, t->inward[CHANGE]);
    start.array->backend->get(start, t->inward[START]);
    cblas_daxpy((int)entries, -1, t->inward[START], 1, t->inward[CHANGE], 1);
    for (int kind = 0; kind < KINDS; kind++)
        cblas_dscal((int)entries, 1.0 / t->N, t->inward[kind], 1);
    return W.array->backend->sync(err);
}

/* --- forward --------------------------------------------------------------------------------- */

/* What W3 reads, and the slopes of now. */
static void find_units(struct terms *t, const double *x1_start, const struct node *s2) {
    static const int given[] = {S_START, S_MOVED, S_NOW};
    int count = t->P * t->units;
    double **s = &t->inner[S], factor = s2->op->traits & OP_FUNCTION ? s2->constant.factor : 1;
    enum fn fn = s2->op->traits & OP_FUNCTION ? s2->constant.fn : FN_LINEAR;
    multiply_by(t, x1_start, t->N, t->inward[START], true, t->units, 1, 0, s[S_START]);
    multiply_by(t, t->wide[X1], t->N, t->inward[START], true, t->units, 1, 0, s[S_MOVED]);
    cblas_dcopy(count, s[S_MOVED], 1, s[S_NOW], 1);
    multiply_by(t, t->wide[X1], t->N, t->inward[CHANGE], true, t->units, 1, 1, s[S_NOW]);
    for (int i = 0; i < 3; i++)
        functions_apply(fn, factor, 0, s[given[i]], count, s[given[i]],
                        given[i] == S_NOW ? t->inner[SLOPE] : NULL);
    cblas_dscal(count, factor, t->inner[SLOPE], 1);
    for (int i = 0; i < count; i++) {
        s[S_LEARNED][i] = s[S_NOW][i] - s[S_MOVED][i];
        s[S_MOVED][i] -= s[S_START][i];
    }
}

/* One part of expert i of rows k, W3_i s2_i, which the sum has times its gate; its mean square. */
static double add_expert(struct terms *t, int k, int i, int part, double keep) {
    int width = t->units / t->side_by_side, N = t->N, gate = k * t->side_by_side + i;
    double *out = t->wide[OUT];
    const double *s = t->inner[S + part], *W3 = t->outward[part == S_NOW ? CHANGE : START];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t->P, N, width, 1, s + i * width, t->units,
                W3 + i * width, t->units, 0, t->wide[LEARNED], N);
    for (int mu = 0; mu < t->P; mu++)
        cblas_daxpy(N, t->gates[PHI][mu * t->experts + gate] / t->side_by_side,
                    t->wide[LEARNED] + mu * N, 1, t->wide[SUM + part] + mu * N, 1);
    for (int n = 0; n < t->P * N; n++)
        out[n] = t->wide[LEARNED][n] + keep * out[n];
    return mean_square(out, (size_t)(t->P * N)) / t->experts;
}

/* The experts of rows k, one by one. */
static void add_outputs(struct terms *t, int k) {
    for (int i = 0; i < t->side_by_side; i++) {
        t->value[H3I_INIT] += add_expert(t, k, i, S_START, 0);
        add_expert(t, k, i, S_MOVED, 0);
        t->value[H3I_PROP] += add_expert(t, k, i, S_LEARNED, 1);
        t->value[H3I_EFF] += add_expert(t, k, i, S_NOW, 0);
    }
}

/* --- backward -------------------------------------------------------------------------------- */

/* sum_c Delta_c w_c over gamma0 N, w at the start and its change; Delta is 1 where there is one. */
static int find_top(struct terms *t, struct err *err) {
    const struct net *net = t->net;
    int C = net->setup.data.C, N = t->N, each = net->batch.rows / net->batch.output_rows;
    struct rows now = array_all(&net->program->node[net->program->read_out].matrix.thin->W),
                start = array_all(&t->start[net->program->read_out].W);
    SCRATCH(double, w, 2 * (size_t)(C * N));
    start.array->backend->get(start, w);
    now.array->backend->get(now, w + C * N);
    cblas_daxpy(C * N, -1, w, 1, w + C * N, 1);
    for (int k = 0; k < KINDS * t->P * C; k++) {
        int kind = k / C / t->P, mu = k / C % t->P, c = k % C;
        double Delta =
            net->output.loss_in_cotangent ? net->output.Delta[mu / each * C + c] / each : 1;
        cblas_daxpy(N, Delta / (net->setup.gamma0 * N), w + (kind * C + c) * N, 1,
                    t->wide[TOP + kind] + mu * N, 1);
    }
    return CODE_OK;
}

/* b, df/dphi over agg, and g2 of rows k. */
static void add_gradients(struct terms *t, int k) {
    int units = t->units, width = units / t->side_by_side, count = t->P * units;
    double scale = t->mixture->scale * width;
    for (int kind = 0; kind < KINDS; kind++) {
        double *b = t->inner[B + kind], *g2 = t->inner[G2 + kind];
        for (int top = 0; top < KINDS; top++) {
            multiply_by(t, t->wide[TOP + top], t->N, t->outward[kind], false, units, 1, 0, g2);
            t->value[B_00 + kind + 2 * top] +=
                scale * scale * mean_square(g2, (size_t)count) / t->mixture->rows;
            cblas_dscal(count, top, b, 1);
            cblas_daxpy(count, 1, g2, 1, b, 1);
        }
        for (int i = 0; i < count; i++) {
            int at = i / units * t->experts + k * t->side_by_side + i % units / width;
            t->gates[D_PHI + kind][at] += b[i] * t->inner[S + S_NOW][i];
            g2[i] = b[i] * t->inner[SLOPE][i] * t->gates[PHI][at] / t->side_by_side;
        }
    }
}

/* N times what W2, or Q, hands back of g [2], which each path adds to what is kept of it. */
static void add_paths(struct terms *t, double *const *g, int sites, double factor, double keep) {
    for (int path = 0; path < 4; path++)
        multiply_by(t, g[path / 2], sites, t->inward[path % 2], false, t->N, factor * t->N, keep,
                    t->wide[PATH + path]);
}

/* value [4] of the paths, and [1] of their sum. */
static void sum_paths(struct terms *t, double *value) {
    int count = t->P * t->N;
    double *sum = t->wide[OUT];
    cblas_dscal(count, 0, sum, 1);
    for (int path = 0; path < 4; path++) {
        value[path] = sqrt(mean_square(t->wide[PATH + path], (size_t)count));
        cblas_daxpy(count, 1, t->wide[PATH + path], 1, sum, 1);
    }
    value[4] = sqrt(mean_square(sum, (size_t)count));
}

/* A4 ... E, and as I6 has them. */
static void find_expert_terms(struct terms *t, bool first, double *back_start) {
    size_t count = (size_t)(t->P * t->N);
    double *initial = t->wide[OUT], *learned = t->wide[LEARNED], *const *path = &t->wide[PATH];
    for (size_t i = 0; i < count; i++) {
        initial[i] = path[0][i] + path[2][i];
        learned[i] = path[1][i] + path[3][i];
        back_start[i] = first ? initial[i] : back_start[i];
        initial[i] -= back_start[i];
    }
    t->value[I6_INIT] = sqrt(mean_square(back_start, count));
    t->value[I6_PROP] = sqrt(mean_square(initial, count));
    t->value[I6_EFF] = sqrt(mean_square(learned, count));
    sum_paths(t, t->value + A4);
}

/* g [experts] of the gates of one row becomes that of its logits; what is selected stays. psi: NULL
 * where no other experts are in the softmax. */
static void through_gates(const struct terms *t, const double *phi, const double *psi, double *g) {
    const struct gate_rule *rule = &t->mixture->rule;
    double mean = 0, sum = 0, largest = -INFINITY;
    for (int i = 0; i < t->experts; i++) {
        mean += phi[i] * g[i];
        largest = psi ? fmax(largest, psi[i]) : 0;
    }
    for (int i = 0; i < t->experts; i++)
        sum += psi ? exp(rule->beta * (psi[i] - largest)) : phi[i];
    for (int i = 0; i < t->experts; i++) {
        double share = (psi ? exp(rule->beta * (psi[i] - largest)) : phi[i]) / sum;
        g[i] = rule->beta * (rule->sum ? phi[i] * g[i] - share * mean
                                       : phi[i] * (1 - phi[i] / rule->most) * g[i]);
    }
}

static int find_router_terms(struct terms *t, const struct node *logits, struct err *err) {
    size_t count = (size_t)(t->P * t->experts);
    double **g = &t->gates[D_PHI];
    TRY(find_router(t, err));
    t->value[DPHI_INIT] = sqrt(mean_square(g[START], count));
    t->value[DPHI_UPD] = sqrt(mean_square(g[CHANGE], count));
    for (size_t i = 0; i < count; i++)
        t->value[DPHI] += pow(g[START][i] + g[CHANGE][i], 2) / (double)count;
    t->value[DPHI] = sqrt(t->value[DPHI]);
    for (int k = 0; k < KINDS * t->P; k++) {
        int row = k % t->P * t->experts;
        through_gates(t, t->gates[PHI] + row, logits ? t->gates[PSI] + row : NULL,
                      g[k / t->P] + row);
    }
    add_paths(t, g, t->experts, 1.0 / t->side_by_side, 0);
    sum_paths(t, t->value + R00);
    return CODE_OK;
}

/* The value of a node, or its numbers. */
static void get_values(const struct node *v, double *out) {
    if (v->on)
        v->value.array->backend->get(v->value, out);
    else
        memcpy(out, v->s, node_numbers(v) * sizeof *out);
}

/* The logits, where a softmax is over experts that are not selected, too. */
static const struct node *find_logits(const struct net *net) {
    const struct gate_rule *rule = &net->program->mixture.rule;
    for (int r = 0; r < net->routers.count && rule->sum && rule->over_all; r++)
        if (net->routers.item[r].phi == net->program->mixture.phi)
            return &net->program->node[net->routers.item[r].psi];
    return NULL;
}

/* `count` lists of numbers in one piece, which the first of them frees. */
static int make_room(double **list, int count, int rows, int sites, struct err *err) {
    size_t size = (size_t)rows * (size_t)sites;
    TRY(base_alloc(&list[0], (size_t)count * size, sizeof **list, err));
    for (int k = 1; k < count; k++)
        list[k] = list[0] + (size_t)k * size;
    return CODE_OK;
}

int aggregation_terms(const struct aggregation_check *check, const struct net *net,
                      const struct coordinate_matrix *start, bool first, double *value,
                      struct err *err) {
    const struct node *node = net->program->node, *logits = find_logits(net);
    const struct mixture *mixture = &net->program->mixture;
    struct terms t = {.net = net,
                      .mixture = mixture,
                      .start = start,
                      .P = net->batch.rows,
                      .N = net->setup.N,
                      .experts = mixture->rows * (int)mixture->experts,
                      .side_by_side = (int)mixture->experts,
                      .units = (int)node[mixture->s2[0]].on->sites,
                      .value = value};
    int code, most = t.units > t.experts ? t.units : t.experts;
    DO(make_room(t.wide, WIDE, t.P, t.N, err));
    DO(make_room(t.gates, GATES, t.P, t.experts, err));
    DO(make_room(t.inner, INNER, t.P, t.units, err));
    DO(make_room(t.inward, KINDS, most, t.N, err));
    DO(make_room(t.outward, KINDS, t.units, t.N, err));
    DO(make_room(&t.scratch, 1, most, t.N, err));
    get_values(&node[mixture->x1], t.wide[X1]);
    if (first)
        get_values(&node[mixture->x1], check->x1);
    if (logits)
        get_values(logits, t.gates[PSI]);
    if (mixture->phi >= 0)
        get_values(&node[mixture->phi], t.gates[PHI]);
    for (int i = 0; i < t.P * t.experts && mixture->phi < 0; i++)
        t.gates[PHI][i] = 1;
    DO(find_top(&t, err));
    for (int k = 0; k < mixture->rows; k++) {
        DO(find_inner(&t, mixture->s2[k], err));
        find_units(&t, check->x1, &node[mixture->s2[k]]);
        DO(find_outer(&t, mixture->s2[k], err));
        add_outputs(&t, k);
        add_gradients(&t, k);
        add_paths(&t, &t.inner[G2], t.units, 1, 1);
    }
    for (int part = 0; part < PARTS; part++)
        value[A1 + part] = mean_square(t.wide[SUM + part], (size_t)(t.P * t.N));
    for (int k = H3I_INIT; k <= B_DD; k++)
        value[k] = sqrt(value[k]);
    find_expert_terms(&t, first, check->back);
    if (mixture->phi >= 0)
        DO(find_router_terms(&t, logits, err));
done:
    free(t.wide[0]);
    free(t.gates[0]);
    free(t.inner[0]);
    free(t.inward[0]);
    free(t.outward[0]);
    free(t.scratch);
    return code;
}
