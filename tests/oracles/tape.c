#include "tests/oracles/tape.h"
#include "tests/oracles/plain.h"

#include <string.h>

static const double TWO_OVER_SQRT_PI = 1.12837916709551257390;
static const double ONE_OVER_SQRT_2PI = 0.398942280401432677940;
static const double SQRT_HALF = 0.707106781186547524401;

double oracle_sigma(enum oracle_activation function, double h) {
    switch (function) {
    case ORACLE_TANH:
        return tanh(h);
    case ORACLE_ERF:
        return erf(h);
    case ORACLE_RELU:
        return h > 0 ? h : 0;
    case ORACLE_GELU:
        return h * 0.5 * erfc(-h * SQRT_HALF);
    case ORACLE_SOFTPLUS:
        return h > 0 ? h + log1p(exp(-h)) : log1p(exp(h));
    case ORACLE_LINEAR:
        return h;
    case ORACLE_SIGMOID:
        return sig(h);
    case ORACLE_EXP:
        return exp(h);
    case ORACLE_SQRT:
        return sqrt(h);
    default:
        stop("unknown function");
        return 0;
    }
}

double oracle_sigma_prime(enum oracle_activation function, double h) {
    switch (function) {
    case ORACLE_TANH:
        return 1 - tanh(h) * tanh(h);
    case ORACLE_ERF:
        return TWO_OVER_SQRT_PI * exp(-h * h);
    case ORACLE_RELU:
        return h > 0 ? 1 : 0;
    case ORACLE_GELU:
        return 0.5 * erfc(-h * SQRT_HALF) + h * ONE_OVER_SQRT_2PI * exp(-h * h / 2);
    case ORACLE_SOFTPLUS:
        return sig(h);
    case ORACLE_LINEAR:
        return 1;
    case ORACLE_SIGMOID:
        return sig(h) * sig(-h);
    case ORACLE_EXP:
        return exp(h);
    case ORACLE_SQRT:
        return 0.5 / sqrt(h);
    default:
        stop("unknown function");
        return 0;
    }
}

/* to[i] from a and b, as the functions of tape.h say. */
struct tape_row {
    enum { LINEAR, SUM, PRODUCT, QUOTIENT, MAP } kind;
    enum oracle_activation function;
    int to, n, m, a, b, step_a, step_b, column;
    double c, d;
};

static int reserve(struct tape *t, int n) {
    int first = t->numbers;
    t->numbers += n;
    if (t->numbers > t->room) {
        t->room = 2 * t->numbers;
        t->value = realloc(t->value, (size_t)t->room * sizeof *t->value);
        t->gradient = realloc(t->gradient, (size_t)t->room * sizeof *t->gradient);
        if (!t->value || !t->gradient)
            stop("out of memory");
    }
    return first;
}

void tape_rewind(struct tape *t) {
    t->numbers = t->rows = 0;
    reserve(t, 1);
    t->value[0] = 1;
}

void tape_release(struct tape *t) {
    free(t->value);
    free(t->gradient);
    free(t->row);
}

int tape_put(struct tape *t, const double *x, int n) {
    int first = reserve(t, n);
    for (int i = 0; i < n; i++)
        t->value[first + i] = x ? x[i] : 0;
    return first;
}

static int add(struct tape *t, struct tape_row row) {
    row.to = reserve(t, row.n);
    if (t->rows == t->row_room) {
        t->row_room = 2 * t->rows + 64;
        t->row = realloc(t->row, (size_t)t->row_room * sizeof *t->row);
        if (!t->row)
            stop("out of memory");
    }
    t->row[t->rows++] = row;
    for (int i = 0; i < row.n; i++) {
        const double *a = t->value + row.a + i * row.step_a, *b = t->value + row.b;
        double sum = 0;
        if (row.kind == LINEAR)
            for (int k = 0; k < row.m; k++)
                sum += row.c * a[k * row.column] * b[k * row.step_b];
        else
            b += i * row.step_b;
        t->value[row.to + i] = row.kind == LINEAR     ? sum
                               : row.kind == SUM      ? row.c * *a + row.d * *b
                               : row.kind == PRODUCT  ? *a * *b
                               : row.kind == QUOTIENT ? *a / *b
                                                      : oracle_sigma(row.function, *a);
    }
    return row.to;
}

int tape_linear(struct tape *t, double c, int n, int m, int W, int row, int column, int x,
                int step) {
    return add(t, (struct tape_row){.kind = LINEAR,
                                    .n = n,
                                    .m = m,
                                    .a = W,
                                    .step_a = row,
                                    .column = column,
                                    .b = x,
                                    .step_b = step,
                                    .c = c});
}

int tape_times_matrix(struct tape *t, double c, int n, int m, int W, int x) {
    return tape_linear(t, c, n, m, W, m, 1, x, 1);
}

int tape_total(struct tape *t, double c, int n, int a) {
    return tape_linear(t, c, 1, n, a, 0, 1, 0, 0);
}

int tape_sum(struct tape *t, int n, double c, int a, double d, int b) {
    return add(t,
               (struct tape_row){
                   .kind = SUM, .n = n, .a = a, .step_a = 1, .b = b, .step_b = 1, .c = c, .d = d});
}

int tape_product(struct tape *t, int n, int a, int step_a, int b, int step_b) {
    return add(t, (struct tape_row){
                      .kind = PRODUCT, .n = n, .a = a, .step_a = step_a, .b = b, .step_b = step_b});
}

int tape_quotient(struct tape *t, int n, int a, int step_a, int b, int step_b) {
    return add(t,
               (struct tape_row){
                   .kind = QUOTIENT, .n = n, .a = a, .step_a = step_a, .b = b, .step_b = step_b});
}

int tape_map(struct tape *t, enum oracle_activation function, int n, int a) {
    return add(t,
               (struct tape_row){.kind = MAP, .function = function, .n = n, .a = a, .step_a = 1});
}

int tape_select(struct tape *t, int M, int K, int s, const double *b, double *mask) {
    double *q = array(M);
    for (int k = 0; k < M; k++)
        q[k] = t->value[s + k] + b[k];
    find_mask(q, M, K, mask);
    free(q);
    return tape_product(t, M, tape_put(t, mask, M), 1, s, 1);
}

void tape_clear(struct tape *t) {
    memset(t->gradient, 0, (size_t)t->numbers * sizeof *t->gradient);
}

/* From g, the gradient of to[i], to those of its arguments. */
static void back(struct tape *t, const struct tape_row *row, int i, double g) {
    int a = row->a + i * row->step_a, b = row->b + i * row->step_b;
    double x = t->value[a];
    switch (row->kind) {
    case LINEAR:
        for (int k = 0; k < row->m; k++) {
            int from = a + k * row->column, by = row->b + k * row->step_b;
            t->gradient[from] += row->c * g * t->value[by];
            t->gradient[by] += row->c * g * t->value[from];
        }
        return;
    case SUM:
        t->gradient[a] += row->c * g;
        t->gradient[b] += row->d * g;
        return;
    case PRODUCT:
        t->gradient[a] += g * t->value[b];
        t->gradient[b] += g * x;
        return;
    case QUOTIENT:
        t->gradient[a] += g / t->value[b];
        t->gradient[b] -= g / t->value[b] * (x / t->value[b]); /* of x/x exactly 0 */
        return;
    case MAP:
        t->gradient[a] += g * oracle_sigma_prime(row->function, x);
    }
}

void tape_sweep(struct tape *t) {
    for (int r = t->rows - 1; r >= 0; r--)
        for (int i = t->row[r].n - 1; i >= 0; i--)
            back(t, &t->row[r], i, t->gradient[t->row[r].to + i]);
}
