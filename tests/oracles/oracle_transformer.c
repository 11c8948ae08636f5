/* (1) to (10) of docs/theory/transformer.md, and the rates of (17) to (20). Entries of a matrix
 * have variance 1/fan-in, those of W0, w and r are of order one. Heads are H groups of N_k units,
 * whether H or N_k stays fixed as N grows; X has the coordinates A [P n][D] of the read-in.
 *
 * Blocks of weights: W0 [D][N], w, then for each block W_Q, W_K, W_V [H N_k][N], W_O [N][H N_k]
 * and, where there are M experts, r [M][N], biases [V][M] where they are trained, W1 and, of gated
 * experts, W3 [M N_e][N], and W2 [N][M N_e]. */
#include "tests/oracles/oracle.h"
#include "tests/oracles/plain.h"

static void add(struct oracle *o, int count, double sgd, double rate, double nu) {
    double L = o->L, b = o->branch;
    oracle_declare(o, count, o->gamma0 * o->gamma0 / (L * b * b) * sgd, rate / (L * b), b * nu);
}

/* A matrix of all heads or experts, and the way back. */
static void add_units(struct oracle *o, int count, int each, bool heads, bool out) {
    double N = o->N, all = heads ? count * each : each;
    if (out)
        add(o, count * each * o->N, N / all, 1 / all, 1 / N);
    else
        add(o, count * each * o->N, 1, 1 / N, 1 / all);
    oracle_in_turn(o, count, out ? o->N : each, out ? each : o->N);
    struct oracle_block *block = &o->block[o->blocks - 1];
    block->heads = heads;
    block->matrices.out = out;
    if (out) { /* side by side */
        block->matrices.matrix = each;
        block->matrices.row = count * each;
    }
}

static void declare(struct oracle *o) {
    double N = o->N, sgd = o->gamma0 * o->gamma0 * N, root = sqrt(o->D);
    oracle_declare(o, o->D * o->N, sgd, 1 / root, 1 / root / N);
    oracle_declare(o, o->C * o->N, sgd, 1, 1 / (o->gamma0 * N));
    for (int l = 0; l < o->L; l++) {
        for (int k = 0; k < 4; k++)
            add_units(o, o->H, o->N_k, true, k == 3);
        if (o->M && o->gate != ORACLE_CONSTANT)
            add(o, o->M * o->N, N * o->router_rate, o->router_rate, 1 / N);
        if (o->M && o->biased) {
            add(o, o->V * o->M, 1, 1, 1);
            o->block[o->blocks - 1].bias = true;
        }
        for (int k = 0; k < 2 + o->gated && o->M; k++)
            add_units(o, o->M, o->N_e, false, k == 1 + o->gated);
    }
}

/* (2) of one row */
static int normalised(struct oracle *o, bool norm, int h) {
    return norm ? oracle_norm(o, h) : h;
}

/* (4), (5) of one row of one head: weights of all n tokens; q and k of all rows. */
static int attend(struct oracle *o, int l, int head, int row, int q, int k) {
    struct tape *t = &o->tape;
    int U = o->H * o->N_k, at = head * o->N_k, first = row / o->n * o->n, n = o->n;
    double *seen = array(n);
    for (int s = 0; s < n; s++)
        seen[s] = s <= row % n || !o->causal;
    int logit = tape_linear(t, o->beta_A / o->N_k, n, o->N_k, k + first * U + at, U, 1,
                            q + row * U + at, 1);
    int e = tape_product(t, n, tape_put(t, seen, n), 1, tape_map(t, ORACLE_EXP, n, logit), 1);
    int a = tape_quotient(t, n, e, 1, tape_total(t, 1, n, e), 0);
    free(seen);
    oracle_keep(o, false, row, 1, logit, n, "logits_%d_%d", l, head);
    oracle_keep(o, false, row, 1, a, n, "attention_%d_%d", l, head);
    if (head == 0) { /* the means over heads, whose numbers follow at equal distances */
        struct oracle_rows *logits = oracle_keep(o, false, row, 1, logit, n, "logits_%d", l);
        logits->groups = o->H;
        logits->apart = t->numbers - logit;
        struct oracle_rows *weights = oracle_keep(o, false, row, 1, a, n, "attention_%d", l);
        weights->groups = o->H;
        weights->apart = t->numbers - logit;
    }
    return a;
}

/* (3) to (6): h of all rows after attention */
static void attention(struct oracle *o, int l, int first, int *h) {
    struct tape *t = &o->tape;
    int U = o->H * o->N_k, N = o->N, R = o->P * o->n, of[3] = {0};
    int *y = memory((size_t)R, sizeof *y), *a = memory((size_t)o->H, sizeof *a);
    for (int row = 0; row < R; row++)
        y[row] = normalised(o, o->norm, h[row]);
    for (int k = 0; k < 3; k++)
        for (int row = 0; row < R; row++) {
            int x = tape_times_matrix(t, 1, U, N, o->block[first + k].node, y[row]);
            of[k] = row ? of[k] : x;
        }
    for (int row = 0; row < R; row++) {
        int v = of[2] + row / o->n * o->n * U, out = 0;
        for (int head = 0; head < o->H; head++)
            a[head] = attend(o, l, head, row, of[0], of[1]);
        for (int head = 0; head < o->H; head++) {
            int x = tape_linear(t, 1, o->N_k, o->n, v + head * o->N_k, 1, U, a[head], 1);
            out = head ? out : x;
        }
        h[row] = tape_sum(t, N, 1, h[row], o->branch,
                          tape_times_matrix(t, 1, N, U, o->block[first + 3].node, out));
    }
    free(y);
    free(a);
}

/* (7), (8) of one row; *next goes on to the first matrix of the experts */
static int route(struct oracle *o, int l, int row, int y, int *next) {
    struct tape *t = &o->tape;
    int M = o->M, at = (l * o->V + o->token[row]) * M, psi = tape_put(t, o->bias + at, M);
    if (o->gate != ORACLE_CONSTANT)
        psi = tape_sum(t, M, 1, psi, 1,
                       tape_times_matrix(t, 1.0 / o->N, M, o->N, o->block[(*next)++].node, y));
    if (o->biased)
        psi = tape_sum(t, M, 1, psi, 1, o->block[(*next)++].node + o->token[row] * M);
    int p = oracle_gate(o, l, row, psi, 1);
    oracle_keep(o, false, row, 1, psi, M, "psi_%d", l);
    oracle_keep(o, false, row, 1, p, M, "p_%d", l);
    oracle_keep(o, true, row, 1.0 / o->N, p, M, "gphi_%d", l);
    return p;
}

/* (7) to (9) of one row: what is added to the stream */
static int experts(struct oracle *o, int l, int row, int next, int h) {
    struct tape *t = &o->tape;
    int M = o->M * o->N_e, N = o->N, y = normalised(o, o->norm, h);
    int p = route(o, l, row, y, &next);
    int x = tape_map(t, o->activation, M, tape_times_matrix(t, 1, M, N, o->block[next++].node, y));
    if (o->gated)
        x = tape_product(t, M, x, 1, tape_times_matrix(t, 1, M, N, o->block[next++].node, y), 1);
    x = oracle_gated(o, p, x, o->N_e);
    return tape_times_matrix(t, o->branch, N, M, o->block[next].node, x);
}

static void keep_stream(struct oracle *o, const int *h, int l, const char *between) {
    for (int row = 0; row < o->P * o->n; row++) {
        oracle_keep(o, false, row, 1, h[row], o->N, "Ch_%s%d", between, l);
        oracle_keep(o, true, row, 1, h[row], o->N, "Cg_%s%d", between, l);
    }
}

/* (10) */
static void read_out(struct oracle *o, const int *h) {
    int count = o->per_token ? 1 : o->n;
    for (int i = 0; i < oracle_outs(o); i++) {
        int mean = 0;
        for (int s = 0; s < count; s++) {
            int x = normalised(o, o->final_norm, h[i * count + s]);
            mean = tape_sum(&o->tape, o->N, 1.0 / count, x, s ? 1 : 0, s ? mean : x);
        }
        oracle_read_out(o, i, mean);
    }
}

static void pass(struct oracle *o) {
    struct tape *t = &o->tape;
    int R = o->P * o->n, N = o->N, D = o->D, each = (o->blocks - 2) / o->L;
    int *h = memory((size_t)R, sizeof *h);
    for (int row = 0; row < R; row++) /* (1) */
        h[row] = tape_linear(t, 1, N, D, o->block[0].node, 1, N, tape_put(t, o->X + row * D, D), 1);
    for (int l = 0; l < o->L; l++) {
        int first = 2 + l * each;
        keep_stream(o, h, l, "");
        attention(o, l, first, h);
        if (!o->M)
            continue;
        keep_stream(o, h, l, "mid_");
        for (int row = 0; row < R; row++)
            h[row] = tape_sum(t, N, 1, h[row], 1, experts(o, l, row, first + 4, h[row]));
    }
    keep_stream(o, h, o->L, "");
    read_out(o, h);
    free(h);
}

const struct oracle_network oracle_transformer = {declare, pass};
