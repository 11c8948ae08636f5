#include "tests/oracles/oracle_optimizer.h"
#include "tests/oracles/oracle.h"
#include "tests/oracles/oracle_muon.h"

#include <string.h>

static struct oracle_optimizer *start(void *network, double (*step)(void *), double *eta0,
                                      const double *f) {
    struct oracle_optimizer *a = memory(1, sizeof *a);
    *a = (struct oracle_optimizer){
        .network = network, .step = step, .eta0 = eta0, .f = f, .rate = 1};
    return a;
}

static void add(struct oracle_optimizer *a, double *w, int count, double sgd, double adam_rate,
                double nu) {
    struct oracle_weights *block = &a->block[a->blocks++];
    *block = (struct oracle_weights){
        .w = w, .count = count, .own = sgd, .sgd = sgd, .adam_rate = adam_rate, .nu = nu};
    block->G = array(count);
    block->first = array(count);
    block->second = array(count);
}

void oracle_optimizer_matrices(struct oracle_optimizer *a, struct oracle_matrices matrices) {
    struct oracle_weights *block = &a->block[a->blocks - 1];
    block->matrices = matrices;
    block->matrices.rate = block->adam_rate;
}

/* The same of matrices [rows][columns] one after the other. */
static void in_turn(struct oracle_optimizer *a, int count, int rows, int columns) {
    oracle_optimizer_matrices(a, (struct oracle_matrices){1, count, rows, columns, 0,
                                                          rows * columns, columns, 1, 0, 0, 0});
}

static double step_dense(void *o) {
    return oracle_dense_step(o);
}

static double step_1(void *o) {
    return oracle1_step(o);
}

static double step_2(void *o) {
    return oracle_step(o);
}

static double step_3(void *network) {
    struct oracle3 *o = network;
    double loss = oracle3_forward(o);
    oracle3_backward(o);
    oracle3_step(o);
    return loss;
}

static double step_residual(void *network) {
    struct oracle_residual *o = network;
    double loss = oracle_residual_forward(o);
    oracle_residual_backward(o);
    oracle_residual_step(o);
    return loss;
}

static double step_resnet(void *o) {
    return oracle_resnet_step(o);
}

static double step_transformer(void *o) {
    return oracle_transformer_step(o);
}

/* The rows common to all regimes. */
static void add_ends(struct oracle_optimizer *a, double *W1, double *W4, double sgd, int N, int D,
                     double gamma0) {
    add(a, W1, N * D, sgd, 1 / sqrt(D), 1 / sqrt(D) / N);
    add(a, W4, N, sgd, 1, 1 / (gamma0 * N));
}

struct oracle_optimizer *oracle_optimizer_dense(struct oracle_dense *o) {
    struct oracle_optimizer *a = start(o, step_dense, &o->eta0, o->f);
    double sgd = o->gamma0 * o->gamma0 * o->N, N = o->N;
    int count;
    add(a, o->W1, o->N * o->D, sgd, 1 / sqrt(o->D), 1 / sqrt(o->D) / N);
    add(a, o->w, o->C * o->N, sgd, 1, 1 / (o->gamma0 * N));
    for (int l = 2; l <= o->depth; l++) {
        double *W = oracle_dense_block(o, l, &count);
        add(a, W, count, sgd, pow(N, -0.5), pow(N, -1.5));
        in_turn(a, 1, o->N, o->N);
    }
    return a;
}

void oracle_optimizer_sp(struct oracle_optimizer *a, const struct oracle1 *o) {
    double N = o->N;
    for (int i = 0; i < a->blocks; i++) {
        struct oracle_weights *block = &a->block[i];
        double multiplier = block->w == o->w                        ? 1 / (o->gamma0 * N)
                            : block->w == o->Q                      ? 1 / N
                            : block->w == o->W1 || block->w == o->b ? 1
                                                                    : 1 / sqrt(N);
        double in = block->w == o->W1 ? 1 / sqrt(o->D) : 1;
        block->adam_rate = in / multiplier;
        block->nu = in * multiplier;
        block->sgd = 1 / (multiplier * multiplier);
    }
}

struct oracle_optimizer *oracle_optimizer_1(struct oracle1 *o) {
    struct oracle_optimizer *a = start(o, step_1, &o->eta0, o->f);
    double N = o->N, unit = o->eta0;
    add_ends(a, o->W1, o->w, oracle1_rate(o, ORACLE1_W1) / unit, o->N, o->D, o->gamma0);
    if (o->gate != ORACLE1_CONSTANT)
        add(a, o->Q, o->M * o->N, oracle1_rate(o, ORACLE1_Q) / unit, 1, 1 / N);
    if (o->kappa_b > 0) {
        add(a, o->b, o->M, oracle1_rate(o, ORACLE1_B) / unit, 1, 1);
        a->block[a->blocks - 1].bias = true;
    }
    for (int block = ORACLE1_MATRICES; block < oracle1_blocks(o); block++) {
        int count;
        double *W = oracle1_block(o, block, &count);
        add(a, W, count, oracle1_rate(o, block) / unit, pow(N, -0.5), pow(N, -1.5));
        in_turn(a, count / (o->N * o->N), o->N, o->N);
    }
    return a;
}

struct oracle_optimizer *oracle_optimizer_2(struct oracle *o) {
    struct oracle_optimizer *a = start(o, step_2, &o->eta0, o->f);
    double N = o->N, M = o->M, units = M * o->Ne, unit = o->eta0;
    int in = o->M * o->Ne * o->N;
    add_ends(a, o->W1, o->w4, oracle_rate(o, ORACLE_W1) / unit, o->N, o->D, o->gamma0);
    struct oracle_matrices into = {1, o->M, o->Ne, o->N, 0, o->Ne * o->N, o->N, 1, true, false, 0};
    struct oracle_matrices out = {1, o->M, o->N, o->Ne, 0, o->Ne, o->M * o->Ne, 1, true, true, 0};
    if (o->gate != ORACLE_CONSTANT) {
        add(a, o->Q, o->M * o->N, oracle_rate(o, ORACLE_Q) / unit, 1 / sqrt(N), 1 / sqrt(N) / M);
        in_turn(a, 1, o->M, o->N);
    }
    add(a, o->W2in, in, oracle_rate(o, ORACLE_W2IN) / unit, 1 / sqrt(N), 1 / sqrt(N) / M);
    oracle_optimizer_matrices(a, into);
    add(a, o->W2out, in, oracle_rate(o, ORACLE_W2OUT) / unit, 1 / sqrt(units), 1 / sqrt(units) / N);
    oracle_optimizer_matrices(a, out);
    return a;
}

struct oracle_optimizer *oracle_optimizer_3(struct oracle3 *o) {
    struct oracle_optimizer *a = start(o, step_3, &o->eta0, o->f);
    double N = o->N, M = o->M, unit = o->eta0;
    add_ends(a, o->block[ORACLE3_W1], o->block[ORACLE3_W4], oracle3_rate(o, ORACLE3_W1) / unit,
             o->N, o->D, o->gamma0);
    int each = o->Ne * o->N;
    struct oracle_matrices into = {1, o->M, o->Ne, o->N, 0, each, o->N, 1, true, false, 0};
    struct oracle_matrices out = {1, o->M, o->N, o->Ne, 0, each, o->Ne, 1, true, true, 0};
    if (o->gate != ORACLE_CONSTANT) {
        add(a, o->block[ORACLE3_Q], oracle3_count(o, ORACLE3_Q), oracle3_rate(o, ORACLE3_Q) / unit,
            1 / sqrt(N), 1 / sqrt(N) / M);
        in_turn(a, 1, o->M, o->N);
    }
    add(a, o->block[ORACLE3_WIN], oracle3_count(o, ORACLE3_WIN),
        oracle3_rate(o, ORACLE3_WIN) / unit, 1 / sqrt(N), pow(N, -1.5) / M);
    oracle_optimizer_matrices(a, into);
    add(a, o->block[ORACLE3_WOUT], oracle3_count(o, ORACLE3_WOUT),
        oracle3_rate(o, ORACLE3_WOUT) / unit, sqrt(N) / o->Ne, pow(N, -1.5) / M);
    oracle_optimizer_matrices(a, out);
    return a;
}

struct oracle_optimizer *oracle_optimizer_residual(struct oracle_residual *o) {
    struct oracle_optimizer *a = start(o, step_residual, &o->eta0, o->f);
    double N = o->N, units = o->E * o->Ne, L = o->L, unit = o->eta0;
    int blocks[] = {ORACLE_RESIDUAL_W1, ORACLE_RESIDUAL_W2, ORACLE_RESIDUAL_R};
    double multiplier[] = {1 / sqrt(N), sqrt(N) / units, 1 / N}, source[] = {N, units, N};
    double nu[] = {1 / (L * units), 1 / (L * N), 1 / (L * o->E)};
    add_ends(a, o->W0, o->w, oracle_residual_rate(o, ORACLE_RESIDUAL_W) / unit, o->N, o->D,
             o->gamma0);
    int n = o->N, all = o->E * o->Ne;
    const struct oracle_matrices of[] = {
        {o->L, o->E, o->Ne, n, all * n, o->Ne * n, n, 1, true, false, 0},
        {o->L, o->E, n, o->Ne, all * n, o->Ne, all, 1, true, true, 0},
        {o->L, 1, o->E, n, o->E * n, 0, n, 1, false, false, 0}};
    for (int k = 0; k < 3; k++) {
        int count;
        double *w = oracle_residual_block(o, blocks[k], &count);
        add(a, w, count, oracle_residual_rate(o, blocks[k]) / unit, 1 / source[k] / multiplier[k],
            nu[k] * multiplier[k]);
        oracle_optimizer_matrices(a, of[k]);
    }
    return a;
}

struct oracle_optimizer *oracle_optimizer_resnet(struct oracle_resnet *o) {
    struct oracle_optimizer *a = start(o, step_resnet, &o->eta0, o->f);
    double sgd = o->gamma0 * o->gamma0 * o->N, N = o->N;
    add_ends(a, o->W0, o->w, sgd, o->N, o->D, o->gamma0);
    for (int l = 0; l < o->L; l++) {
        int count;
        double *W = oracle_resnet_block(o, 2 + l, &count);
        add(a, W, count, sgd, 1 / sqrt(o->L * N), o->branch / sqrt(o->L) * pow(N, -1.5));
        in_turn(a, 1, o->N, o->N);
    }
    return a;
}

/* Matrices of heads, and of experts, all of which are of their own. */
static void transformer_matrices(struct oracle_optimizer *a, const struct oracle_transformer *o,
                                 int kind) {
    bool heads = kind <= ORACLE_W_O, out = kind == ORACLE_W_O || kind == ORACLE_W_2;
    int count = heads ? o->H : o->E, each = heads ? o->N_k : o->N_e;
    if (kind == ORACLE_ROUTER || kind == ORACLE_BIAS)
        return;
    if (out)
        oracle_optimizer_matrices(a, (struct oracle_matrices){1, count, o->N, each, 0, each,
                                                              count * each, 1, false, true, 0});
    else
        in_turn(a, count, each, o->N);
    a->block[a->blocks - 1].heads = heads;
}

struct oracle_optimizer *oracle_optimizer_transformer(struct oracle_transformer *o) {
    struct oracle_optimizer *a = start(o, step_transformer, &o->eta0, o->f);
    double N = o->N, U = o->H * o->N_k, N_e = o->N_e, one = 1 / (o->L * o->b), b = o->b;
    const double rate[] = {one / N, one / N, one / N, one / U,  one * o->kappa_r,
                           one,     one / N, one / N, one / N_e};
    const double nu[] = {b / U, b / U, b / U, b / N, b / N, b, b / N_e, b / N_e, b / N};
    for (int i = 0; i < oracle_transformer_blocks(o); i++) {
        int count, kind = (i - 2) % ORACLE_PER_BLOCK;
        double *w = oracle_transformer_block(o, i, &count), sgd = oracle_transformer_rate(o, i);
        if (i < 2)
            add(a, w, count, sgd, i ? 1 : 1 / sqrt(o->K),
                i ? 1 / (o->gamma0 * N) : 1 / sqrt(o->K) / N);
        else if (sgd > 0 && count > 0) {
            add(a, w, count, sgd, rate[kind], nu[kind]);
            transformer_matrices(a, o, kind);
        }
        a->block[a->blocks - 1].bias |= i >= 2 && kind == ORACLE_BIAS && sgd > 0 && count > 0;
    }
    return a;
}

void oracle_optimizer_free(struct oracle_optimizer *a) {
    for (int i = 0; i < a->blocks; i++) {
        free(a->block[i].G);
        free(a->block[i].first);
        free(a->block[i].second);
    }
    free(a);
}

/* G = dL/dw of every block; the weights stay. */
static double gradient(struct oracle_optimizer *a) {
    const double enormous = 0x1p60;
    double eta0 = *a->eta0, loss, *before[ORACLE_OPTIMIZER_BLOCKS];
    for (int i = 0; i < a->blocks; i++) {
        size_t bytes = (size_t)a->block[i].count * sizeof(double);
        before[i] = memory(1, bytes);
        memcpy(before[i], a->block[i].w, bytes);
    }
    *a->eta0 = enormous;
    loss = a->step(a->network);
    *a->eta0 = eta0;
    for (int i = 0; i < a->blocks; i++) {
        struct oracle_weights *block = &a->block[i];
        for (int k = 0; k < block->count; k++) {
            block->G[k] = (before[i][k] - block->w[k]) / (enormous * block->own);
            block->w[k] = before[i][k];
        }
        free(before[i]);
    }
    return loss;
}

/* As one vector, by the norm in which gradient descent is steepest. */
static void clip(struct oracle_optimizer *a) {
    double square = 0;
    for (int i = 0; i < a->blocks; i++)
        for (int k = 0; k < a->block[i].count; k++)
            square += a->block[i].sgd * a->block[i].G[k] * a->block[i].G[k];
    a->norm = sqrt(square);
    for (int i = 0; i < a->blocks && a->clip > 0 && a->norm > a->clip; i++)
        for (int k = 0; k < a->block[i].count; k++)
            a->block[i].G[k] *= a->clip / a->norm;
}

static double *entry(const struct oracle_matrices *of, double *w, int k, int i, int j) {
    return w + k * of->matrix + i * of->row + j * of->column;
}

/* w -= rate (n m)^1/2 p(M/|M|) for a matrix [n][m] of which each expert has some rows, or columns.
 */
static void muon_matrix(const struct oracle_optimizer *a, const struct oracle_matrices *of,
                        double rate, const double *M, double *w, int first, int experts) {
    int n = of->out ? of->rows : of->rows * experts,
        m = of->out ? of->columns * experts : of->columns;
    double *X = array(n * m);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                int k = first + (of->out ? j / of->columns : i / of->rows);
                long at = entry(of, w, k, i % of->rows, j % of->columns) - w;
                if (pass == 0)
                    X[i * m + j] = M[at];
                else
                    w[at] -= rate * of->rate * sqrt((double)n * m) * X[i * m + j];
            }
        if (pass == 0)
            oracle_muon(n, m, X, a->exact);
    }
    free(X);
}

/* V <- momentum V + G; w moves along V or G + momentum V. */
static void muon_step(const struct oracle_optimizer *a, struct oracle_weights *b, double rate) {
    const struct oracle_matrices *of = &b->matrices;
    bool as_one = (of->units && a->together) || (b->heads && a->heads_together);
    int together = as_one ? of->count : 1;
    for (int k = 0; k < b->count; k++) {
        b->first[k] = a->momentum * b->first[k] + b->G[k];
        b->second[k] = a->nesterov ? b->G[k] + a->momentum * b->first[k] : b->first[k];
    }
    for (int c = 0; c < of->copies; c++)
        for (int k = 0; k < of->count; k += together)
            muon_matrix(a, of, rate, b->second + c * of->copy, b->w + c * of->copy, k, together);
}

static void adam_step(const struct oracle_optimizer *a, struct oracle_weights *b, double rate) {
    for (int k = 0; k < b->count; k++) {
        b->first[k] = a->beta1 * b->first[k] + (1 - a->beta1) * b->G[k];
        b->second[k] = a->beta2 * b->second[k] + (1 - a->beta2) * b->G[k] * b->G[k];
        double mhat = b->first[k] / (1 - pow(a->beta1, a->t));
        double vhat = b->second[k] / (1 - pow(a->beta2, a->t));
        double eps = a->eps * b->nu;
        double step = a->inside ? mhat / sqrt(vhat + eps * eps) : mhat / (sqrt(vhat) + eps);
        b->w[k] -= rate * b->adam_rate * step;
    }
}

static void lion_step(const struct oracle_optimizer *a, struct oracle_weights *b, double rate) {
    for (int k = 0; k < b->count; k++) {
        double u = a->beta1 * b->first[k] + (1 - a->beta1) * b->G[k];
        b->first[k] = a->beta2 * b->first[k] + (1 - a->beta2) * b->G[k];
        b->w[k] -= rate * b->adam_rate * u / (fabs(u) + a->eps * b->nu);
    }
}

static void plain_step(double momentum, struct oracle_weights *b, double rate) {
    for (int k = 0; k < b->count; k++) {
        b->first[k] = momentum * b->first[k] + b->G[k];
        b->w[k] -= rate * b->sgd * b->first[k];
    }
}

double oracle_optimizer_step(struct oracle_optimizer *a) {
    double loss = gradient(a), factor = a->factor ? a->factor[a->t] : 1, rate = a->rate * factor;
    clip(a);
    a->t++;
    for (int i = 0; i < a->blocks; i++) {
        struct oracle_weights *b = &a->block[i];
        for (int k = 0; k < b->count && !b->bias; k++)
            b->w[k] *= 1 - a->decay * factor;
        if (a->muon && b->matrices.copies)
            muon_step(a, b, rate);
        else if (a->muon)
            (a->rest_adam ? adam_step(a, b, a->rest_rate * factor)
                          : plain_step(0, b, a->rest_rate * factor));
        else if (a->lion)
            lion_step(a, b, rate);
        else if (a->adam)
            adam_step(a, b, rate);
        else
            plain_step(a->momentum, b, rate);
    }
    return loss;
}
