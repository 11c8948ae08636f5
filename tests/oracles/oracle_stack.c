#include "tests/oracles/oracle_stack.h"
#include "tests/oracles/oracle.h"

#include <string.h>

int oracle_stack_source(const struct oracle_stack *o, int k) {
    return k == 0 ? o->N : o->N_e;
}

int oracle_stack_target(const struct oracle_stack *o, int k) {
    return k == o->E - 1 ? o->N : o->N_e;
}

double oracle_stack_branch(const struct oracle_stack *o) {
    return o->stream ? pow(o->L, -o->branch_power) : 1;
}

static int entries(const struct oracle_stack *o, int k) {
    return o->M * oracle_stack_source(o, k) * oracle_stack_target(o, k);
}

static void make_block(const struct oracle_stack *o, struct oracle_stack_block *b) {
    b->Q = array(o->M * o->N);
    b->bias = array(o->M);
    double **per_site[] = {&b->in, &b->out, &b->g_in, &b->g_out};
    double **per_expert[] = {&b->psi, &b->phi, &b->g_psi, &b->g_phi};
    for (int i = 0; i < 4; i++) {
        *per_site[i] = array(o->P * o->N);
        *per_expert[i] = array(o->P * o->M);
    }
    for (int k = 0; k < o->E; k++) {
        b->W[k] = array(entries(o, k));
        b->h[k] = array(o->P * o->M * oracle_stack_target(o, k));
        b->g_h[k] = array(o->P * o->M * oracle_stack_target(o, k));
    }
}

struct oracle_stack *oracle_stack_new(int regime, int P, int D, int N, int L, int M, int N_e,
                                      int E) {
    struct oracle_stack *o = memory(1, sizeof *o);
    if (L > ORACLE_STACK_DEPTH || E > ORACLE_STACK_CHAIN)
        stop("too many blocks or matrices");
    *o = (struct oracle_stack){.regime = regime, .P = P, .D = D, .N = N, .L = L, .M = M};
    o->N_e = N_e;
    o->E = E;
    o->stream = true;
    o->gate = ORACLE_SIGMOID_M;
    o->activation = o->expert_activation = ORACLE_TANH;
    o->loss = ORACLE_MSE;
    o->eta0 = o->gamma0 = o->beta = o->rho = o->lambda_in = o->router_rate = o->branch_power = 1;
    double **per_input[] = {&o->y, &o->f0, &o->f, &o->Delta};
    for (int i = 0; i < 4; i++)
        *per_input[i] = array(P);
    o->X = array(P * D);
    o->W1 = array(N * D);
    o->w = array(N);
    o->h1 = array(P * N);
    o->x = array((L + 1) * P * N);
    o->g = array((L + 1) * P * N);
    for (int l = 0; l < L; l++)
        make_block(o, &o->block[l]);
    return o;
}

void oracle_stack_free(struct oracle_stack *o) {
    if (!o)
        return;
    double *own[] = {o->X, o->y, o->W1, o->w, o->f0, o->h1, o->x, o->f, o->Delta, o->g};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        free(own[i]);
    for (int l = 0; l < o->L; l++) {
        struct oracle_stack_block *b = &o->block[l];
        double *of_block[] = {b->Q,   b->bias,  b->in,    b->psi,  b->phi,
                              b->out, b->g_psi, b->g_phi, b->g_in, b->g_out};
        for (size_t i = 0; i < sizeof of_block / sizeof *of_block; i++)
            free(of_block[i]);
        for (int k = 0; k < o->E; k++) {
            free(b->W[k]);
            free(b->h[k]);
            free(b->g_h[k]);
        }
    }
    free(o);
}

/* --- numbers of the page --------------------------------------------------------------------- */

/* What multiplies Q in and W[k] as they act, weights being of variance one. */
static double router_scale(const struct oracle_stack *o) {
    return o->regime == 1 ? 1.0 / o->N : 1 / sqrt(o->N);
}

static double scale(const struct oracle_stack *o, int k) {
    if (o->regime == 2 && k == 1)
        return 1 / sqrt((double)o->M * o->N_e);
    if (o->regime == 3 && k == 1)
        return 1 / (o->M * sqrt(o->N));
    return 1 / sqrt(oracle_stack_source(o, k));
}

static double sigma(const struct oracle_stack *o, double h) {
    return oracle_sigma(o->expert_activation, h);
}

static double slope(const struct oracle_stack *o, double h) {
    return oracle_sigma_prime(o->expert_activation, h);
}

/* Whether sigma acts on h[k]. */
static bool bends(const struct oracle_stack *o, int k) {
    return k < o->E - 1 || o->activated;
}

/* --- forward --------------------------------------------------------------------------------- */

/* y = x/sqrt<x x>; y may be x. */
static void norm(int N, const double *x, double *y) {
    double square = dot(x, x, N) / N;
    for (int n = 0; n < N; n++)
        y[n] = x[n] / sqrt(square);
}

/* gx = (dy/dx)^T g for the same */
static void norm_backward(int N, const double *x, const double *g, double *gx) {
    double square = dot(x, x, N) / N, product = dot(x, g, N) / N;
    for (int n = 0; n < N; n++)
        gx[n] = (g[n] - x[n] * product / square) / sqrt(square);
}

/* softmax of regime 1 adds up to 1, of the others to M */
static void gate(const struct oracle_stack *o, const double *psi, double *phi) {
    double m[64], sum = 0;
    if (o->M > 64)
        stop("too many experts");
    find_mask(psi, o->M, o->gate == ORACLE_CONSTANT ? o->M : whole(o->rho * o->M), m);
    for (int i = 0; i < o->M; i++)
        sum += m[i] * exp(o->beta * psi[i]);
    for (int i = 0; i < o->M; i++) {
        if (o->gate == ORACLE_SOFTMAX)
            phi[i] = m[i] * exp(o->beta * psi[i]) / sum * (o->regime == 1 ? 1 : o->M);
        else
            phi[i] = o->gate == ORACLE_CONSTANT ? 1 : m[i] * sig(o->beta * psi[i]);
        if (o->gate == ORACLE_SIGMOID_K)
            phi[i] /= o->rho;
    }
}

/* (dphi/dpsi)^T g, the mask held */
static void gate_backward(const struct oracle_stack *o, const double *psi, const double *phi,
                          const double *g, double *g_psi) {
    double total = 0, mean = 0;
    for (int i = 0; i < o->M; i++) {
        total += phi[i];
        mean += phi[i] * g[i];
    }
    for (int i = 0; i < o->M; i++) {
        g_psi[i] = 0;
        if (o->gate == ORACLE_SOFTMAX)
            g_psi[i] = o->beta * phi[i] * (g[i] - mean / total);
        else if (o->gate != ORACLE_CONSTANT)
            g_psi[i] = o->beta * phi[i] * (1 - sig(o->beta * psi[i])) * g[i];
    }
}

/* One block on one input: from b->in to b->out. */
static void block_forward(const struct oracle_stack *o, struct oracle_stack_block *b, int mu) {
    int N = o->N, M = o->M;
    const double *in = b->in + mu * N;
    double *psi = b->psi + mu * M, *phi = b->phi + mu * M, *out = b->out + mu * N;
    for (int i = 0; i < M; i++) {
        psi[i] = o->biased ? b->bias[i] : 0;
        for (int n = 0; n < N; n++)
            psi[i] += router_scale(o) * b->Q[i * N + n] * in[n];
    }
    gate(o, psi, phi);
    memset(out, 0, (size_t)N * sizeof *out);
    for (int i = 0; i < M; i++)
        for (int k = 0; k < o->E; k++) {
            int m = oracle_stack_source(o, k), n = oracle_stack_target(o, k);
            const double *W = b->W[k] + i * n * m;
            const double *below = k ? b->h[k - 1] + (mu * M + i) * m : in;
            double *h = b->h[k] + (mu * M + i) * n;
            for (int a = 0; a < n; a++) {
                h[a] = 0;
                for (int c = 0; c < m; c++)
                    h[a] += scale(o, k) * W[a * m + c] * (k ? sigma(o, below[c]) : below[c]);
                if (k == o->E - 1)
                    out[a] += phi[i] * (o->activated ? sigma(o, h[a]) : h[a]);
            }
        }
}

/* l(f) of one input, and Delta */
static double loss(const struct oracle_stack *o, double f, double y, double *Delta) {
    if (o->loss == ORACLE_LOGISTIC) {
        *Delta = y * sig(-y * f);
        return log(1 + exp(-y * f));
    }
    *Delta = y - f;
    return (y - f) * (y - f) / 2;
}

static double input_forward(struct oracle_stack *o, int mu) {
    int P = o->P, D = o->D, N = o->N;
    for (int n = 0; n < N; n++) {
        o->h1[mu * N + n] = 0;
        for (int d = 0; d < D; d++)
            o->h1[mu * N + n] += o->W1[n * D + d] * o->X[mu * D + d] / sqrt(D);
        o->x[mu * N + n] = oracle_sigma(o->activation, o->h1[mu * N + n]);
    }
    for (int l = 0; l < o->L; l++) {
        struct oracle_stack_block *b = &o->block[l];
        const double *x = o->x + (l * P + mu) * N;
        double *next = o->x + ((l + 1) * P + mu) * N;
        memcpy(b->in + mu * N, x, (size_t)N * sizeof *x);
        if (o->before)
            norm(N, x, b->in + mu * N);
        block_forward(o, b, mu);
        memcpy(next, b->out + mu * N, (size_t)N * sizeof *next);
        if (o->after)
            norm(N, next, next);
        for (int n = 0; n < N && o->stream; n++)
            next[n] = x[n] + oracle_stack_branch(o) * next[n];
    }
    o->f[mu] = -o->f0[mu];
    for (int n = 0; n < N; n++)
        o->f[mu] += o->w[n] * o->x[(o->L * P + mu) * N + n] / (o->gamma0 * N);
    return loss(o, o->f[mu], o->y[mu], &o->Delta[mu]);
}

double oracle_stack_forward(struct oracle_stack *o) {
    double sum = 0;
    for (int mu = 0; mu < o->P; mu++)
        sum += input_forward(o, mu);
    return sum / o->P;
}

/* --- backward -------------------------------------------------------------------------------- */

/* From b->g_out to b->g_in. */
static void block_backward(const struct oracle_stack *o, struct oracle_stack_block *b, int mu) {
    int N = o->N, M = o->M;
    double *g_in = b->g_in + mu * N;
    memset(g_in, 0, (size_t)N * sizeof *g_in);
    for (int i = 0; i < M; i++)
        for (int k = o->E - 1; k >= 0; k--) {
            int m = oracle_stack_source(o, k), n = oracle_stack_target(o, k);
            const double *W = b->W[k] + i * n * m, *h = b->h[k] + (mu * M + i) * n;
            double *g = b->g_h[k] + (mu * M + i) * n;
            double *down = k ? b->g_h[k - 1] + (mu * M + i) * m : g_in;
            if (k == o->E - 1) {
                double *g_phi = &b->g_phi[mu * M + i];
                *g_phi = 0;
                for (int a = 0; a < n; a++) {
                    double out = b->g_out[mu * N + a];
                    *g_phi += out * (o->activated ? sigma(o, h[a]) : h[a]);
                    g[a] = b->phi[mu * M + i] * out;
                }
            }
            for (int a = 0; a < n && bends(o, k); a++)
                g[a] *= slope(o, h[a]);
            for (int c = 0; c < m; c++) {
                double sum = 0;
                for (int a = 0; a < n; a++)
                    sum += scale(o, k) * W[a * m + c] * g[a];
                down[c] = k ? sum : down[c] + sum;
            }
        }
    gate_backward(o, b->psi + mu * M, b->phi + mu * M, b->g_phi + mu * M, b->g_psi + mu * M);
    for (int i = 0; i < M; i++)
        for (int n = 0; n < N; n++)
            g_in[n] += router_scale(o) * b->Q[i * N + n] * b->g_psi[mu * M + i];
}

static void input_backward(struct oracle_stack *o, int mu) {
    int P = o->P, N = o->N;
    memcpy(o->g + (o->L * P + mu) * N, o->w, (size_t)N * sizeof *o->w);
    for (int l = o->L - 1; l >= 0; l--) {
        struct oracle_stack_block *b = &o->block[l];
        const double *above = o->g + ((l + 1) * P + mu) * N;
        double *g = o->g + (l * P + mu) * N, *g_out = b->g_out + mu * N;
        for (int n = 0; n < N; n++)
            g_out[n] = oracle_stack_branch(o) * above[n];
        if (o->after) {
            double *copy = array(N);
            memcpy(copy, g_out, (size_t)N * sizeof *copy);
            norm_backward(N, b->out + mu * N, copy, g_out);
            free(copy);
        }
        block_backward(o, b, mu);
        memcpy(g, b->g_in + mu * N, (size_t)N * sizeof *g);
        if (o->before)
            norm_backward(N, o->x + (l * P + mu) * N, b->g_in + mu * N, g);
        for (int n = 0; n < N && o->stream; n++)
            g[n] += above[n];
    }
}

void oracle_stack_backward(struct oracle_stack *o) {
    for (int mu = 0; mu < o->P; mu++)
        input_backward(o, mu);
}

/* --- learning -------------------------------------------------------------------------------- */

bool oracle_stack_parameter(const struct oracle_stack *o, int index, double **w, int *count,
                            double *rate) {
    double N = o->N, unit = o->gamma0 * o->gamma0, b = oracle_stack_branch(o);
    double own = o->stream ? 1 / (o->L * b * b) : 1, kappa = o->M / N;
    int per_block = 2 + o->E, l = (index - 2) / per_block, k = (index - 2) % per_block;
    if (index < 2) {
        *w = index ? o->w : o->W1;
        *count = index ? o->N : o->N * o->D;
        *rate = unit * N;
        return true;
    }
    if (l >= o->L)
        return false;
    const struct oracle_stack_block *block = &o->block[l];
    *w = k == 0 ? block->Q : k == 1 ? block->bias : block->W[k - 2];
    *count = k == 0 ? o->M * o->N : k == 1 ? o->M : entries(o, k - 2);
    *rate = unit * own;
    if (k == 0)
        *rate *= o->regime == 1 ? N * o->router_rate : N * kappa;
    else if (k > 1)
        *rate *= o->regime == 1 ? N : o->regime == 3 ? N * N : k == 2 ? N * o->lambda_in : N;
    if ((k == 1 && !o->biased) || (k == 0 && o->gate == ORACLE_CONSTANT))
        *w = NULL;
    return true;
}

/* -dL/dw: (1/P) sum Delta_mu (N gamma0 df/dw)/(N gamma0) */
static double force(const struct oracle_stack *o, int mu) {
    return o->Delta[mu] / (o->P * o->N * o->gamma0);
}

static void block_step(const struct oracle_stack *o, struct oracle_stack_block *b, int mu,
                       const double *rate) {
    int N = o->N, M = o->M;
    double c = o->eta0 * force(o, mu);
    for (int i = 0; i < M; i++) {
        double g = b->g_psi[mu * M + i];
        for (int n = 0; n < N; n++)
            b->Q[i * N + n] += c * rate[0] * router_scale(o) * g * b->in[mu * N + n];
        b->bias[i] += o->biased ? c * rate[1] * g : 0;
        for (int k = 0; k < o->E; k++) {
            int m = oracle_stack_source(o, k), n = oracle_stack_target(o, k);
            const double *x = k ? b->h[k - 1] + (mu * M + i) * m : b->in + mu * N;
            const double *g_h = b->g_h[k] + (mu * M + i) * n;
            for (int a = 0; a < n; a++)
                for (int d = 0; d < m; d++)
                    b->W[k][(i * n + a) * m + d] +=
                        c * rate[2 + k] * scale(o, k) * g_h[a] * (k ? sigma(o, x[d]) : x[d]);
        }
    }
}

double oracle_stack_step(struct oracle_stack *o) {
    int P = o->P, N = o->N, D = o->D, count, per_block = 2 + o->E;
    double mean = oracle_stack_forward(o), rate[2 + ORACLE_STACK_DEPTH * 8], *w;
    oracle_stack_backward(o);
    for (int i = 0; oracle_stack_parameter(o, i, &w, &count, &rate[i]);)
        i++;
    for (int mu = 0; mu < P; mu++) {
        double c = o->eta0 * force(o, mu);
        for (int n = 0; n < N; n++) {
            double g1 = o->g[mu * N + n] * oracle_sigma_prime(o->activation, o->h1[mu * N + n]);
            for (int d = 0; d < D; d++)
                o->W1[n * D + d] += c * rate[0] * g1 * o->X[mu * D + d] / sqrt(D);
            o->w[n] += c * rate[1] * o->x[(o->L * P + mu) * N + n];
        }
        for (int l = 0; l < o->L; l++)
            block_step(o, &o->block[l], mu, rate + 2 + l * per_block);
    }
    return mean;
}

/* --- Adam ------------------------------------------------------------------------------------ */

static double step(void *o) {
    return oracle_stack_step(o);
}

/* Rates and eps of W over those of w = W/a: eta/a, a eps. */
static void set(struct oracle_weights *weights, double a, double rate, double nu) {
    weights->adam_rate = rate / a;
    weights->nu = a * nu;
}

static void add(struct oracle_optimizer *a, double *w, int count, double sgd) {
    struct oracle_weights *weights = &a->block[a->blocks++];
    if (a->blocks > ORACLE_OPTIMIZER_BLOCKS)
        stop("too many parameters");
    *weights = (struct oracle_weights){.w = w, .count = count, .own = sgd, .sgd = sgd};
    weights->G = array(count);
    weights->first = array(count);
    weights->second = array(count);
}

/* Of parameter k of a block: (9) of the page, from the columns of parameterizations.md. */
static void set_adam(const struct oracle_stack *o, struct oracle_weights *weights, int k) {
    double N = o->N, M = o->M, b = oracle_stack_branch(o), m = oracle_stack_source(o, k - 2);
    double sum = o->regime == 1 ? 1 : M; /* experts among which a gradient is shared */
    double own = o->stream ? 1 / (o->L * b) : 1;
    if (k == 0)
        set(weights, o->regime == 1 ? 1 / N : 1 / sqrt(N),
            own / N * (o->regime == 1 ? o->router_rate : 1), b / sum);
    else if (k == 1)
        set(weights, 1, own, b);
    else if (o->regime == 2 && k == 2)
        set(weights, 1 / sqrt(m), own / m, b / M);
    else /* W_out = M x (what acts) in regimes 2 and 3 */
        set(weights, scale(o, k - 2) * (k == 3 ? sum : 1), own / m, b / (N * sum));
    weights->bias = k == 1;
}

/* Routers over many experts are matrices, and what an expert has. */
static void set_matrices(const struct oracle_stack *o, struct oracle_optimizer *a, int k) {
    if (k == 1 || (k == 0 && o->regime == 1))
        return;
    int n = k ? oracle_stack_target(o, k - 2) : o->M, m = k ? oracle_stack_source(o, k - 2) : o->N;
    oracle_optimizer_matrices(a, (struct oracle_matrices){1, k ? o->M : 1, n, m, 0, n * m, m, 1,
                                                          k && o->regime > 1, k == 3, 0});
}

struct oracle_optimizer *oracle_optimizer_stack(struct oracle_stack *o) {
    struct oracle_optimizer *a = memory(1, sizeof *a);
    *a = (struct oracle_optimizer){
        .network = o, .step = step, .eta0 = &o->eta0, .f = o->f, .rate = 1};
    double *w, rate;
    for (int i = 0, count; oracle_stack_parameter(o, i, &w, &count, &rate); i++) {
        if (!w)
            continue;
        add(a, w, count, rate);
        struct oracle_weights *weights = &a->block[a->blocks - 1];
        if (i == 0)
            set(weights, 1 / sqrt(o->D), 1.0 / o->D, 1.0 / o->N);
        else if (i == 1)
            set(weights, 1 / (o->gamma0 * o->N), 1 / (o->gamma0 * o->N), 1);
        else
            set_adam(o, weights, (i - 2) % (2 + o->E));
        if (i > 1)
            set_matrices(o, a, (i - 2) % (2 + o->E));
    }
    return a;
}
