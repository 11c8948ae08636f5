#include "tests/oracles/oracle_transformer.h"
#include "tests/oracles/oracle.h"

struct oracle_transformer *oracle_transformer_new(const struct oracle_sizes *z) {
    struct oracle_transformer *o = memory(1, sizeof *o);
    int R = z->P * z->n, U = z->H * z->N_k, M = z->E * z->N_e, L = z->L, N = z->N;
    *o = (struct oracle_transformer){.P = z->P,
                                     .n = z->n,
                                     .C = z->C,
                                     .K = z->K,
                                     .V = z->V,
                                     .N = N,
                                     .L = L,
                                     .H = z->H,
                                     .N_k = z->N_k,
                                     .E = z->E,
                                     .N_e = z->N_e};
    o->activation = ORACLE_TANH;
    o->loss = ORACLE_MSE;
    o->gate = ORACLE_SOFTMAX;
    o->top = z->E;
    o->norm = o->final_norm = true;
    o->eta0 = o->gamma0 = o->b = o->beta_A = o->beta = o->kappa_r = o->kappa_b = 1;
    o->A = array(R * z->K);
    o->token = memory((size_t)R, sizeof *o->token);
    o->W0 = array(z->K * N);
    o->w = array(z->C * N);
    double **in[] = {&o->W_Q, &o->W_K, &o->W_V, &o->W_O}, **hidden[] = {&o->W1, &o->W3, &o->W2};
    for (int i = 0; i < 4; i++)
        *in[i] = array(L * U * N);
    for (int i = 0; i < 3; i++)
        *hidden[i] = array(L * M * N);
    o->r = array(L * z->E * N);
    o->bias = array(L * z->V * z->E);
    double **outs[] = {&o->y, &o->f0, &o->f, &o->Delta}, **stream[] = {&o->h, &o->x, &o->g};
    double **heads[] = {&o->q, &o->k, &o->v, &o->o, &o->gq, &o->gk, &o->gv};
    double **gates[] = {&o->psi, &o->p, &o->gphi, &o->gpsi},
           **units[] = {&o->u, &o->t, &o->gu, &o->gt};
    for (int i = 0; i < 4; i++) {
        *outs[i] = array(R * z->C);
        *gates[i] = array(L * R * z->E);
        *units[i] = array(L * R * M);
    }
    for (int i = 0; i < 3; i++)
        *stream[i] = array((2 * L + 1) * R * N);
    for (int i = 0; i < 7; i++)
        *heads[i] = array(L * R * U);
    o->s = array((2 * L + 1) * R);
    o->logit = array(L * z->H * R * z->n);
    o->a = array(L * z->H * R * z->n);
    o->work = array(N);
    return o;
}

void oracle_transformer_free(struct oracle_transformer *o) {
    if (!o)
        return;
    double *owned[] = {o->A,  o->y,    o->W0,   o->w,  o->W_Q,   o->W_K,   o->W_V, o->W_O,
                       o->W1, o->W3,   o->W2,   o->r,  o->bias,  o->f0,    o->h,   o->x,
                       o->s,  o->q,    o->k,    o->v,  o->o,     o->logit, o->a,   o->psi,
                       o->p,  o->u,    o->t,    o->f,  o->Delta, o->g,     o->gq,  o->gk,
                       o->gv, o->gphi, o->gpsi, o->gu, o->gt,    o->work};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(o->token);
    free(o);
}

static int rows_of(const struct oracle_transformer *o) {
    return o->P * o->n;
}

static int outs_of(const struct oracle_transformer *o) {
    return o->per_token ? rows_of(o) : o->P;
}

/* Row of the stream (or of its cotangent) at a place, [N]. */
static double *site(const struct oracle_transformer *o, double *all, int place, int row) {
    return all + (place * rows_of(o) + row) * o->N;
}

/* Row of a block over `width` units or numbers. */
static double *of(const struct oracle_transformer *o, double *all, int l, int row, int width) {
    return all + (l * rows_of(o) + row) * width;
}

/* Weights or logits of a token, [n]. */
static double *pairs(const struct oracle_transformer *o, double *all, int l, int head, int row) {
    return all + ((l * o->H + head) * rows_of(o) + row) * o->n;
}

/* out [to] = W x, W [to][from] */
static void times(const double *W, const double *x, int to, int from, double *out) {
    for (int i = 0; i < to; i++)
        out[i] = dot(W + i * from, x, from);
}

/* out [from] += W^T x, W [to][from] */
static void transposed(const double *W, const double *x, int to, int from, double *out) {
    for (int i = 0; i < to; i++)
        for (int j = 0; j < from; j++)
            out[j] += W[i * from + j] * x[i];
}

/* (2) */
static void normalise(struct oracle_transformer *o, int place, bool norm, int row) {
    const double *h = site(o, o->h, place, row);
    double s = norm ? sqrt(dot(h, h, o->N) / o->N) : 1;
    o->s[place * rows_of(o) + row] = s;
    for (int i = 0; i < o->N; i++)
        site(o, o->x, place, row)[i] = h[i] / s;
}

/* Tokens t = 0 ... that token s attends to. */
static int seen(const struct oracle_transformer *o, int row) {
    return o->causal ? row % o->n + 1 : o->n;
}

/* (4), (5), (6) of one row of one head. */
static void attend(struct oracle_transformer *o, int l, int head, int row) {
    int U = o->H * o->N_k, at = head * o->N_k, first = row / o->n * o->n;
    double *logit = pairs(o, o->logit, l, head, row), *a = pairs(o, o->a, l, head, row), sum = 0;
    for (int t = 0; t < o->n; t++)
        logit[t] = o->beta_A / o->N_k *
                   dot(of(o, o->q, l, row, U) + at, of(o, o->k, l, first + t, U) + at, o->N_k);
    for (int t = 0; t < o->n; t++)
        sum += a[t] = t < seen(o, row) ? exp(logit[t]) : 0;
    for (int j = at; j < at + o->N_k; j++)
        of(o, o->o, l, row, U)[j] = 0;
    for (int t = 0; t < o->n; t++) {
        a[t] /= sum;
        for (int j = at; j < at + o->N_k; j++)
            of(o, o->o, l, row, U)[j] += a[t] * of(o, o->v, l, first + t, U)[j];
    }
}

/* (3) to (6) */
static void attention(struct oracle_transformer *o, int l) {
    int U = o->H * o->N_k, N = o->N, R = rows_of(o);
    for (int row = 0; row < R; row++) {
        const double *y = site(o, o->x, 2 * l, row);
        times(o->W_Q + l * U * N, y, U, N, of(o, o->q, l, row, U));
        times(o->W_K + l * U * N, y, U, N, of(o, o->k, l, row, U));
        times(o->W_V + l * U * N, y, U, N, of(o, o->v, l, row, U));
    }
    for (int row = 0; row < R; row++) {
        for (int head = 0; head < o->H; head++)
            attend(o, l, head, row);
        times(o->W_O + l * N * U, of(o, o->o, l, row, U), N, U, o->work);
        for (int i = 0; i < N; i++)
            site(o, o->h, 2 * l + 1, row)[i] = site(o, o->h, 2 * l, row)[i] + o->b * o->work[i];
    }
}

/* (7), (8) */
static void route(struct oracle_transformer *o, int l, int row) {
    int E = o->E, V = o->V;
    const double *y = site(o, o->x, 2 * l + 1, row);
    double *psi = of(o, o->psi, l, row, E), *p = of(o, o->p, l, row, E), sum = 0;
    for (int e = 0; e < E; e++)
        psi[e] = dot(o->r + (l * E + e) * o->N, y, o->N) / o->N +
                 o->bias[(l * V + o->token[row]) * E + e];
    find_mask(psi, E, o->top, p);
    for (int e = 0; e < E; e++) {
        if (o->gate == ORACLE_SOFTMAX)
            p[e] *= exp(o->beta * psi[e]);
        else
            p[e] = o->gate == ORACLE_CONSTANT ? 1 : p[e] * sig(o->beta * psi[e]);
        sum += p[e];
    }
    for (int e = 0; e < E && o->gate == ORACLE_SOFTMAX; e++)
        p[e] /= sum;
}

/* What unit m of the experts gives to W2, without its gate. */
static double given(const struct oracle_transformer *o, int l, int row, int m) {
    int M = o->E * o->N_e;
    return oracle_sigma(o->activation, of(o, o->u, l, row, M)[m]) * of(o, o->t, l, row, M)[m];
}

/* (7) to (9) of one row */
static void experts(struct oracle_transformer *o, int l, int row) {
    int M = o->E * o->N_e, N = o->N;
    const double *y = site(o, o->x, 2 * l + 1, row), *p = of(o, o->p, l, row, o->E);
    double *next = site(o, o->h, 2 * l + 2, row), *t = of(o, o->t, l, row, M);
    route(o, l, row);
    times(o->W1 + l * M * N, y, M, N, of(o, o->u, l, row, M));
    times(o->W3 + l * M * N, y, M, N, t);
    for (int m = 0; m < M && !o->gated; m++)
        t[m] = 1;
    for (int i = 0; i < N; i++) {
        next[i] = site(o, o->h, 2 * l + 1, row)[i];
        for (int m = 0; m < M; m++)
            next[i] += o->b * o->W2[(l * N + i) * M + m] * p[m / o->N_e] * given(o, l, row, m);
    }
}

static double cross_entropy(int C, const double *f, const double *y, double *Delta) {
    double sum = 0, asked = 0, l = 0;
    for (int c = 0; c < C; c++) {
        sum += exp(f[c]);
        asked += y[c];
    }
    for (int c = 0; c < C; c++) {
        Delta[c] = y[c] - asked * exp(f[c]) / sum;
        l -= y[c] * log(exp(f[c]) / sum);
    }
    return l;
}

/* (10) of output row i, and l */
static double read_out(struct oracle_transformer *o, int i) {
    int C = o->C, first = o->per_token ? i : i * o->n, count = o->per_token ? 1 : o->n;
    double *f = o->f + i * C, *Delta = o->Delta + i * C, l = 0;
    for (int c = 0; c < C; c++) {
        f[c] = -o->f0[i * C + c];
        for (int s = 0; s < count; s++)
            f[c] += dot(o->w + c * o->N, site(o, o->x, 2 * o->L, first + s), o->N) /
                    (o->gamma0 * o->N * count);
    }
    if (o->loss == ORACLE_CROSS_ENTROPY)
        return cross_entropy(C, f, o->y + i * C, Delta);
    for (int c = 0; c < C; c++) {
        Delta[c] = o->y[i * C + c] - f[c];
        l += Delta[c] * Delta[c] / 2;
    }
    return l;
}

double oracle_transformer_forward(struct oracle_transformer *o) {
    int R = rows_of(o), N = o->N;
    double loss = 0;
    for (int row = 0; row < R; row++)
        for (int i = 0; i < N; i++) { /* (1) */
            double *h = site(o, o->h, 0, row);
            h[i] = 0;
            for (int k = 0; k < o->K; k++)
                h[i] += o->A[row * o->K + k] * o->W0[k * N + i];
        }
    for (int l = 0; l < o->L; l++) {
        for (int row = 0; row < R; row++)
            normalise(o, 2 * l, o->norm, row);
        attention(o, l);
        for (int row = 0; row < R; row++) {
            normalise(o, 2 * l + 1, o->norm, row);
            experts(o, l, row); /* none: copies the row */
        }
    }
    for (int row = 0; row < R; row++)
        normalise(o, 2 * o->L, o->final_norm, row);
    for (int i = 0; i < outs_of(o); i++)
        loss += read_out(o, i) / outs_of(o);
    return loss;
}

/* D_{mu s, c} */
static double force(const struct oracle_transformer *o, int row, int c) {
    return o->Delta[(o->per_token ? row : row / o->n) * o->C + c] / o->n;
}

/* g [N] += b norm'(gy) at a place: below (11) */
static void norm_back(struct oracle_transformer *o, int place, bool norm, int row, double b,
                      const double *gy, double *g) {
    const double *y = site(o, o->x, place, row);
    double s = o->s[place * rows_of(o) + row], mean = norm ? dot(y, gy, o->N) / o->N : 0;
    for (int i = 0; i < o->N; i++)
        g[i] += b * (gy[i] - y[i] * mean) / s;
}

/* (12), (13) of one row: g at the place below the experts */
static void experts_back(struct oracle_transformer *o, int l, int row) {
    int M = o->E * o->N_e, N = o->N, E = o->E;
    const double *above = site(o, o->g, 2 * l + 2, row), *p = of(o, o->p, l, row, E);
    double *g = site(o, o->g, 2 * l + 1, row), *gphi = of(o, o->gphi, l, row, E),
           *gpsi = of(o, o->gpsi, l, row, E), mean = 0;
    double *gu = of(o, o->gu, l, row, M), *gt = of(o, o->gt, l, row, M), *gy = o->work;
    for (int e = 0; e < E; e++)
        gphi[e] = 0;
    for (int m = 0; m < M; m++) {
        int e = m / o->N_e;
        double z = 0, u = of(o, o->u, l, row, M)[m];
        for (int i = 0; i < N; i++)
            z += o->W2[(l * N + i) * M + m] * above[i];
        gphi[e] += z * given(o, l, row, m) / N;
        gu[m] = p[e] * oracle_sigma_prime(o->activation, u) * z * of(o, o->t, l, row, M)[m];
        gt[m] = o->gated ? p[e] * oracle_sigma(o->activation, u) * z : 0;
    }
    for (int e = 0; e < E; e++)
        mean += p[e] * gphi[e];
    for (int e = 0; e < E; e++)
        gpsi[e] = o->gate == ORACLE_CONSTANT  ? 0
                  : o->gate == ORACLE_SOFTMAX ? o->beta * p[e] * (gphi[e] - mean)
                                              : o->beta * p[e] * (1 - p[e]) * gphi[e];
    for (int i = 0; i < N; i++) {
        g[i] = above[i];
        gy[i] = 0;
    }
    transposed(o->W1 + l * M * N, gu, M, N, gy);
    transposed(o->W3 + l * M * N, gt, M, N, gy);
    transposed(o->r + l * E * N, gpsi, E, N, gy);
    norm_back(o, 2 * l + 1, o->norm, row, o->b, gy, g);
}

/* (14), (15) of one row s of one head; u [U]: of that row. Adds to gk, gv of all rows t. */
static void attend_back(struct oracle_transformer *o, int l, int head, int row, const double *u) {
    int U = o->H * o->N_k, at = head * o->N_k, first = row / o->n * o->n;
    const double *a = pairs(o, o->a, l, head, row);
    double *q = of(o, o->q, l, row, U), *gq = of(o, o->gq, l, row, U), mean = 0;
    for (int t = 0; t < o->n; t++)
        mean += a[t] * dot(u + at, of(o, o->v, l, first + t, U) + at, o->N_k) / o->N_k;
    for (int t = 0; t < o->n; t++) {
        const double *k = of(o, o->k, l, first + t, U);
        double *gk = of(o, o->gk, l, first + t, U), *gv = of(o, o->gv, l, first + t, U);
        double B = dot(u + at, of(o, o->v, l, first + t, U) + at, o->N_k) / o->N_k;
        B = a[t] * (B - mean);
        for (int j = at; j < at + o->N_k; j++) {
            gv[j] += a[t] * u[j];
            gq[j] += o->beta_A * B * k[j];
            gk[j] += o->beta_A * B * q[j];
        }
    }
}

/* (14) to (16) */
static void attention_back(struct oracle_transformer *o, int l) {
    int U = o->H * o->N_k, N = o->N, R = rows_of(o);
    double *u = array(U), *gy = o->work;
    for (int i = l * R * U; i < (l + 1) * R * U; i++)
        o->gq[i] = o->gk[i] = o->gv[i] = 0;
    for (int row = 0; row < R; row++) {
        for (int j = 0; j < U; j++)
            u[j] = 0;
        transposed(o->W_O + l * N * U, site(o, o->g, 2 * l + 1, row), N, U, u);
        for (int head = 0; head < o->H; head++)
            attend_back(o, l, head, row, u);
    }
    for (int row = 0; row < R; row++) {
        double *g = site(o, o->g, 2 * l, row);
        for (int i = 0; i < N; i++) {
            g[i] = site(o, o->g, 2 * l + 1, row)[i];
            gy[i] = 0;
        }
        transposed(o->W_Q + l * U * N, of(o, o->gq, l, row, U), U, N, gy);
        transposed(o->W_K + l * U * N, of(o, o->gk, l, row, U), U, N, gy);
        transposed(o->W_V + l * U * N, of(o, o->gv, l, row, U), U, N, gy);
        norm_back(o, 2 * l, o->norm, row, o->b, gy, g);
    }
    free(u);
}

void oracle_transformer_backward(struct oracle_transformer *o) {
    int R = rows_of(o), N = o->N, top = 2 * o->L;
    for (int row = 0; row < R; row++) { /* (11) */
        double *g = site(o, o->g, top, row);
        for (int i = 0; i < N; i++) {
            g[i] = o->work[i] = 0;
            for (int c = 0; c < o->C; c++)
                o->work[i] += force(o, row, c) * o->w[c * N + i];
        }
        norm_back(o, top, o->final_norm, row, 1, o->work, g);
    }
    for (int l = o->L - 1; l >= 0; l--) {
        for (int row = 0; row < R; row++)
            experts_back(o, l, row);
        attention_back(o, l);
    }
}

/* W [to][from] += rate y x^T */
static void learn(double *W, double rate, const double *y, int to, const double *x, int from) {
    for (int i = 0; i < to; i++)
        for (int j = 0; j < from; j++)
            W[i * from + j] += rate * y[i] * x[j];
}

/* (17), (18) of one row */
static void learn_block(struct oracle_transformer *o, int l, int row) {
    int U = o->H * o->N_k, M = o->E * o->N_e, N = o->N, E = o->E;
    double c_b = o->eta0 * o->gamma0 / o->P / (o->L * o->b);
    const double *y = site(o, o->x, 2 * l, row);
    learn(o->W_Q + l * U * N, c_b / N, of(o, o->gq, l, row, U), U, y, N);
    learn(o->W_K + l * U * N, c_b / N, of(o, o->gk, l, row, U), U, y, N);
    learn(o->W_V + l * U * N, c_b / N, of(o, o->gv, l, row, U), U, y, N);
    learn(o->W_O + l * U * N, c_b / U, site(o, o->g, 2 * l + 1, row), N, of(o, o->o, l, row, U), U);
    y = site(o, o->x, 2 * l + 1, row);
    double *out = array(M);
    for (int m = 0; m < M; m++)
        out[m] = of(o, o->p, l, row, E)[m / o->N_e] * given(o, l, row, m);
    learn(o->W1 + l * M * N, c_b / N, of(o, o->gu, l, row, M), M, y, N);
    learn(o->W3 + l * M * N, c_b / N, of(o, o->gt, l, row, M), M, y, N);
    if (E)
        learn(o->W2 + l * M * N, c_b / o->N_e, site(o, o->g, 2 * l + 2, row), N, out, M);
    learn(o->r + l * E * N, c_b * o->kappa_r, of(o, o->gpsi, l, row, E), E, y, N);
    for (int e = 0; e < E; e++)
        o->bias[(l * o->V + o->token[row]) * E + e] +=
            c_b * o->kappa_b * of(o, o->gpsi, l, row, E)[e];
    free(out);
}

double oracle_transformer_step(struct oracle_transformer *o) {
    double loss = oracle_transformer_forward(o), c = o->eta0 * o->gamma0 / o->P;
    oracle_transformer_backward(o);
    for (int row = 0; row < rows_of(o); row++) {
        for (int l = 0; l < o->L; l++)
            learn_block(o, l, row);
        for (int i = 0; i < o->C; i++) /* (19) */
            learn(o->w + i * o->N, c * force(o, row, i), (double[]){1}, 1,
                  site(o, o->x, 2 * o->L, row), o->N);
        learn(o->W0, c, o->A + row * o->K, o->K, site(o, o->g, 0, row), o->N);
    }
    return loss;
}

int oracle_transformer_blocks(const struct oracle_transformer *o) {
    return 2 + o->L * ORACLE_PER_BLOCK;
}

double *oracle_transformer_block(const struct oracle_transformer *o, int block, int *count) {
    int U = o->H * o->N_k, M = o->E * o->N_e, N = o->N, l = (block - 2) / ORACLE_PER_BLOCK;
    double *const all[] = {o->W_Q, o->W_K, o->W_V, o->W_O, o->r, o->bias, o->W1, o->W3, o->W2};
    const int size[] = {U * N, U * N, U * N, U * N, o->E * N, o->V * o->E, M * N, M * N, M * N};
    if (block < 2) {
        *count = N * (block ? o->C : o->K);
        return block ? o->w : o->W0;
    }
    int kind = (block - 2) % ORACLE_PER_BLOCK;
    *count = size[kind];
    return all[kind] + l * size[kind];
}

double oracle_transformer_rate(const struct oracle_transformer *o, int block) {
    double unit = o->gamma0 * o->gamma0, N = o->N;
    if (block < 2)
        return unit * N;
    /* W_Q, W_K, W_V, W_O, the router, its bias, W_1, W_3, W_2 */
    const double of_kind[ORACLE_PER_BLOCK] = {1,          1, 1, N / (o->H * o->N_k), N * o->kappa_r,
                                              o->kappa_b, 1, 1, N / o->N_e};
    return unit / (o->L * o->b * o->b) * of_kind[(block - 2) % ORACLE_PER_BLOCK];
}

double oracle_transformer_hh(const struct oracle_transformer *o, int place, int row, int other) {
    return dot(site(o, o->h, place, row), site(o, o->h, place, other), o->N) / o->N;
}

double oracle_transformer_gg(const struct oracle_transformer *o, int place, int row, int other) {
    return dot(site(o, o->g, place, row), site(o, o->g, place, other), o->N) / o->N;
}
