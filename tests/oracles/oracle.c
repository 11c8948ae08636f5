#include "tests/oracles/oracle.h"
#include "tests/oracles/plain.h"

#include <stdarg.h>
#include <string.h>

int oracle_outs(const struct oracle *o) {
    return o->per_token ? o->P * o->n : o->P;
}

struct oracle *oracle_new(struct oracle of) {
    struct oracle *o = memory(1, sizeof *o);
    int *whole_numbers[] = {&of.n, &of.C, &of.L, &of.H, &of.V, &of.regime};
    double *numbers[] = {&of.eta0, &of.gamma0,    &of.beta,        &of.beta_A,
                         &of.rho,  &of.lambda_in, &of.router_rate, &of.branch};
    for (size_t k = 0; k < sizeof whole_numbers / sizeof *whole_numbers; k++)
        *whole_numbers[k] = *whole_numbers[k] ? *whole_numbers[k] : 1;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        *numbers[k] = *numbers[k] != 0 ? *numbers[k] : 1;
    *o = of;
    int rows = o->P * o->n, outs = oracle_outs(o);
    o->X = array(rows * o->D);
    o->y = array(outs * o->C);
    o->f0 = array(outs * o->C);
    o->f = array(outs * o->C);
    o->Delta = array(outs * o->C);
    o->bias = array(o->L * o->V * o->M);
    o->noise = array(o->M);
    o->mask = array(o->L * rows * o->M);
    o->token = memory((size_t)rows, sizeof *o->token);
    o->out = memory((size_t)outs, sizeof *o->out);
    o->rule.rate = 1;
    o->network->declare(o);
    return o;
}

static void forget(struct oracle *o) {
    for (; o->count; o->count--) {
        free(o->kept[o->count - 1].first);
        free(o->kept[o->count - 1].values);
    }
}

void oracle_free(struct oracle *o) {
    if (!o)
        return;
    void *owned[] = {o->X,    o->y,     o->f0,   o->f,     o->Delta,
                     o->bias, o->noise, o->mask, o->token, o->out};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++)
        free(owned[k]);
    for (int b = 0; b < o->blocks; b++) {
        void *of_block[] = {o->block[b].w, o->block[b].G, o->block[b].first, o->block[b].second};
        for (int k = 0; k < 4; k++)
            free(of_block[k]);
    }
    forget(o);
    tape_release(&o->tape);
    free(o);
}

/* --- what networks say ----------------------------------------------------------------------- */

struct oracle_block *oracle_declare(struct oracle *o, int count, double sgd, double adam_rate,
                                    double nu) {
    struct oracle_block *block = &o->block[o->blocks++];
    if (o->blocks > ORACLE_BLOCKS)
        stop("too many blocks");
    *block = (struct oracle_block){.count = count, .sgd = sgd, .adam_rate = adam_rate, .nu = nu};
    block->w = array(count);
    block->G = array(count);
    block->first = array(count);
    block->second = array(count);
    return block;
}

void oracle_declare_ends(struct oracle *o) {
    double sgd = o->gamma0 * o->gamma0 * o->N, in = 1 / sqrt(o->D);
    oracle_declare(o, o->N * o->D, sgd, in, in / o->N);
    oracle_declare(o, o->C * o->N, sgd, 1, 1 / (o->gamma0 * o->N));
}

void oracle_in_turn(struct oracle *o, int count, int rows, int columns) {
    struct oracle_block *block = &o->block[o->blocks - 1];
    block->matrices = (struct oracle_matrices){.copies = 1,
                                               .count = count,
                                               .rows = rows,
                                               .columns = columns,
                                               .matrix = rows * columns,
                                               .row = columns,
                                               .column = 1};
    block->matrices.rate = block->adam_rate;
}

struct oracle_rows *oracle_keep(struct oracle *o, bool gradient, int row, double factor, int first,
                                int width, const char *name, ...) {
    struct oracle_rows new = {.gradient = gradient, .factor = factor, .width = width, .groups = 1};
    va_list list;
    va_start(list, name);
    vsnprintf(new.name, sizeof new.name, name, list);
    va_end(list);
    struct oracle_rows *rows = (struct oracle_rows *)oracle_find(o, new.name);
    if (!rows) {
        if (o->count == ORACLE_KEPT)
            stop("too many rows");
        rows = &o->kept[o->count++];
        *rows = new;
        int most = o->P * o->n > o->C ? o->P * o->n : o->C;
        rows->first = memory((size_t)most, sizeof *rows->first);
        rows->values = array(most * width);
    }
    if (row != rows->rows)
        stop("rows are not kept in order");
    rows->first[rows->rows++] = first;
    return rows;
}

int oracle_read_in(struct oracle *o, int row) {
    int x = tape_put(&o->tape, o->X + row * o->D, o->D);
    return tape_times_matrix(&o->tape, 1 / sqrt(o->D), o->N, o->D, o->block[0].node, x);
}

int oracle_norm(struct oracle *o, int x) {
    struct tape *t = &o->tape;
    int square = tape_total(t, 1.0 / o->N, o->N, tape_product(t, o->N, x, 1, x, 1));
    return tape_quotient(t, o->N, x, 1, tape_map(t, ORACLE_SQRT, 1, square), 0);
}

void oracle_read_out(struct oracle *o, int i, int x) {
    o->out[i] =
        tape_times_matrix(&o->tape, 1 / (o->gamma0 * o->N), o->C, o->N, o->block[1].node, x);
}

int oracle_gate(struct oracle *o, int l, int row, int psi, double sum) {
    struct tape *t = &o->tape;
    int M = o->M, K = o->gate == ORACLE_CONSTANT ? M : whole(o->rho * M);
    double *mask = o->mask + (l * o->P * o->n + row) * M;
    find_mask(t->value + psi, M, K, mask);
    int m = tape_put(t, mask, M), beta_psi = tape_sum(t, M, o->beta, psi, 0, psi);
    if (o->gate == ORACLE_CONSTANT)
        return m;
    if (o->gate != ORACLE_SOFTMAX) {
        int p = tape_product(t, M, m, 1, tape_map(t, ORACLE_SIGMOID, M, beta_psi), 1);
        return tape_sum(t, M, o->gate == ORACLE_SIGMOID_K ? 1 / o->rho : 1, p, 0, p);
    }
    int e = tape_product(t, M, m, 1, tape_map(t, ORACLE_EXP, M, beta_psi), 1);
    return tape_quotient(t, M, e, 1, tape_total(t, 1 / sum, M, e), 0);
}

int oracle_gated(struct oracle *o, int gates, int x, int each) {
    int first = 0;
    for (int i = 0; i < o->M; i++) {
        int of_expert = tape_product(&o->tape, each, gates + i, 0, x + i * each, 1);
        first = i ? first : of_expert;
    }
    return first;
}

/* --- both passes ----------------------------------------------------------------------------- */

/* l of output row i, and its Delta */
static double lose(struct oracle *o, int i) {
    const double *f = o->f + i * o->C, *y = o->y + i * o->C;
    double *Delta = o->Delta + i * o->C, sum = 0, asked = 0, l = 0;
    for (int c = 0; c < o->C; c++) {
        sum += exp(f[c]);
        asked += y[c];
    }
    for (int c = 0; c < o->C; c++)
        if (o->loss == ORACLE_MSE) {
            Delta[c] = y[c] - f[c];
            l += Delta[c] * Delta[c] / 2;
        } else if (o->loss == ORACLE_CROSS_ENTROPY) {
            Delta[c] = y[c] - asked * exp(f[c]) / sum;
            l -= y[c] * log(exp(f[c]) / sum);
        } else {
            Delta[c] = y[c] * sig(-y[c] * f[c]);
            l += oracle_sigma(ORACLE_SOFTPLUS, -y[c] * f[c]);
        }
    return l;
}

/* A reverse sweep from f_ic times unit, times Delta_ic where the loss is in it. */
static void sweep(struct oracle *o, double unit, bool loss) {
    tape_clear(&o->tape);
    for (int i = 0; i < oracle_outs(o); i++)
        for (int c = 0; c < o->C; c++)
            o->tape.gradient[o->out[i] + c] = unit * (loss ? o->Delta[i * o->C + c] : 1);
    tape_sweep(&o->tape);
}

static void fill_rows(struct oracle *o) {
    for (int k = 0; k < o->count; k++) {
        struct oracle_rows *rows = &o->kept[k];
        const double *from = rows->gradient ? o->tape.gradient : o->tape.value;
        for (int i = 0; i < rows->rows * rows->width; i++)
            for (int g = 0; g < rows->groups; g++)
                rows->values[i] +=
                    rows->factor / rows->groups *
                    from[rows->first[i / rows->width] + g * rows->apart + i % rows->width];
    }
}

double oracle_forward(struct oracle *o) {
    double loss = 0;
    int outs = oracle_outs(o);
    forget(o);
    tape_rewind(&o->tape);
    for (int b = 0; b < o->blocks; b++)
        o->block[b].node = tape_put(&o->tape, o->block[b].w, o->block[b].count);
    o->network->pass(o);
    for (int i = 0; i < outs; i++) {
        for (int c = 0; c < o->C; c++)
            o->f[i * o->C + c] = o->tape.value[o->out[i] + c] - o->f0[i * o->C + c];
        loss += lose(o, i) / outs;
    }
    sweep(o, o->gamma0 * o->N * o->P / outs, o->carried);
    fill_rows(o);
    sweep(o, -1.0 / outs, true);
    for (int b = 0; b < o->blocks; b++)
        memcpy(o->block[b].G, o->tape.gradient + o->block[b].node,
               (size_t)o->block[b].count * sizeof(double));
    return loss;
}

const struct oracle_rows *oracle_find(const struct oracle *o, const char *name) {
    for (int k = 0; k < o->count; k++)
        if (!strcmp(o->kept[k].name, name))
            return &o->kept[k];
    return NULL;
}

double oracle_kernel(const struct oracle *o, const char *name, int a, int b) {
    const struct oracle_rows *rows = oracle_find(o, name);
    if (!rows || a >= rows->rows || b >= rows->rows)
        stop(name);
    return dot(rows->values + a * rows->width, rows->values + b * rows->width, rows->width) /
           rows->width;
}
