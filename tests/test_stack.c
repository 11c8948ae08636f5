/* Finite networks of models/stack.c: against finite differences of the loss and the plain-loop
 * oracle (tests/oracles/oracle_stack.c, itself judged by differences), along the gradient, with
 * momentum and with Adam. */
#include "tests/support/oracles.h"
#include "tests/oracles/oracle_stack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ADAM "training.optimizer=adam", "training.eta0=0.05", "training.eps=0.1"
#define ONE                                                                                        \
    "network.mixture=regime1", "network.kappa=1", "network.experts=2", "network.bias=trained"
#define THREE "network.mixture=regime3", "network.iota=0.25"
#define MUP "network.parameterization=mup"

static const char *const cases[][12] = {
    {"network.depth=1"},
    {"network.depth=3", "network.branch_power=0.5", "network.gate=softmax", "network.beta=0.7"},
    {"network.stream=no", "network.lambda_in=kappa", "network.expert_activation=relu"},
    {MUP, "network.block_norm=both", "network.rho=0.5", "network.aggregation=K"},
    {MUP, "network.gate=constant", "network.stream=no", "network.block_norm=after"},
    {THREE, "network.activation=erf", "network.gate=softmax"},
    {THREE, "network.stream=no", "network.block_norm=both", "training.loss=logistic"},
    {THREE, MUP, "network.depth=3", "network.branch_power=0.3", "network.block_norm=before"},
    {THREE, MUP, "network.gate=constant", "network.depth=1", "network.stream=no"},
    {ONE, MUP, "network.expert_layers=2", "network.iota=0.5", "network.q0=2"},
    {ONE, "network.expert_layers=1", "network.stream=no", "network.gate=softmax"},
    {ONE, MUP, "network.expert_layers=3", "network.expert_output=activated", "network.iota=1.5",
     "network.block_norm=both", "network.branch_power=0.5", "network.router_rate=3"},
};
enum { CASES = sizeof cases / sizeof *cases };
static const char *const optimized[][12] = {
    {ADAM, "network.depth=3", "network.branch_power=0.5", "network.block_norm=before"},
    {ADAM, MUP, "network.stream=no", "training.adam_eps=inside"},
    {ADAM, THREE, "network.gate=softmax", "network.branch_power=0.5"},
    {ADAM, THREE, MUP, "training.optimizer=adamw", "training.weight_decay=0.03"},
    {ADAM, ONE, MUP, "network.expert_layers=3", "network.iota=0.5", "network.router_rate=3"},
    {"training.optimizer=momentum", "training.momentum=0.7", "network.branch_power=0.5"},
    {"training.optimizer=momentum", THREE, "network.block_norm=both"},
    {"training.optimizer=momentum", ONE, "network.expert_layers=2", "network.iota=0.5"},
};
enum { OPTIMIZED = sizeof optimized / sizeof *optimized, N = 8 };

static void configure(struct run *run, const char *const more[12]) {
    const char *overrides[20] = {"data.inputs=3",       "data.dimension=5",
                                 "training.eta0=0.2",   "training.gamma0=1.5",
                                 "reference.centre=no", "solver.replicates=0"};
    memcpy(overrides + 6, more, 12 * sizeof *more);
    support_run(run, "data/stack.ini", overrides);
}

/* Section 2 of the page, in units of eta0 gamma0^2 N/m for entries of variance 1/m. */
static double page_rate(const struct net *net, int parameter) {
    const struct network *network = net->setup.network;
    const char *name = net->parameter[parameter].name;
    double b = network->stream ? pow(network->depth, -network->branch_power) : 1;
    double own = network->stream ? 1 / (network->depth * b * b) : 1;
    if (!strcmp(name, "W1") || !strcmp(name, "w"))
        return 1;
    if (network->mixture == 0)
        return own * (name[0] == 'Q' ? network->router_rate : 1);
    if (name[0] == 'Q')
        return own * network->kappa;
    if (network->mixture == 2)
        return own * net->setup.N;
    bool kappa = network->lambda_in == LAMBDA_IN_KAPPA && !strncmp(name, "W_in", 4);
    return own * (kappa ? network->kappa : 1);
}

static void gradient_by_differences(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct run run;
        configure(&run, cases[i]);
        support_gradient_rates(&run, N, 5, page_rate);
        run_free(&run);
    }
}

struct couple {
    struct run run;
    struct net net;
    struct oracle_stack *oracle;
    double *A, *B; /* of the inputs: X/sqrt(D) = A B */
    int K;
};

/* to [M][n][m] += factor s_f W of a map, if the net has it; shared: the same for every expert. */
static void add_map(const struct couple *p, const char *name, int l, bool shared, bool out,
                    double factor, double *to) {
    const struct oracle_stack *o = p->oracle;
    int n = out ? N : o->N_e, m = out ? o->N_e : N;
    char full[32];
    snprintf(full, sizeof full, "%s_%d", name, l);
    for (int k = 0; k < p->net.maps; k++) {
        const struct map *map = p->net.map[k];
        if (strcmp(map->declared.name, full))
            continue;
        double *W = support_matrix(map);
        for (int at = 0; at < o->M * n * m; at++) {
            int i = at / (n * m), a = at / m % n, c = at % m, expert = shared ? 0 : i;
            int entry = out ? (a * (shared ? 1 : o->M) + expert) * m + c : (expert * n + a) * m + c;
            to[at] += factor * map->declared.s_f * W[entry];
        }
        free(W);
    }
}

/* Matrices of the experts of block l, which act as s_f W: what the page multiplies is taken off. */
static void copy_experts(const struct couple *p, int l, int k, double *to) {
    const struct oracle_stack *o = p->oracle;
    int m = oracle_stack_source(o, k), n = oracle_stack_target(o, k);
    double in = sqrt(N), out = o->regime == 2 ? sqrt(o->M * o->N_e) : o->M * sqrt(N);
    memset(to, 0, (size_t)(o->M * n * m) * sizeof *to);
    for (int i = 0; i < o->M && o->regime == 1; i++) {
        double *W = support_matrix(support_map(&p->net, "W%d_%d_%d", k + 2, l, i));
        for (int at = 0; at < n * m; at++)
            to[i * n * m + at] = sqrt(m) * W[at];
        free(W);
    }
    if (o->regime == 1)
        return;
    add_map(p, k ? "W_out" : "W_in", l, false, k, k ? out : in, to);
    add_map(p, k ? "P_out" : "P_in", l, false, k, k ? out : in, to);
    add_map(p, k ? "A_out" : "A_in", l, true, k, k ? sqrt(N) : in, to); /* mean over experts */
}

/* A parameter of the net (numbered as in oracle_stack_parameter) in the form of the page. */
static void copy_parameter(const struct couple *p, int index, double *out) {
    const struct oracle_stack *o = p->oracle;
    int l = (index - 2) / (2 + o->E), k = (index - 2) % (2 + o->E);
    if (index == 0) {
        double *W = support_get(array_all(&support_thin(&p->net, "W1")->W));
        for (int a = 0; a < N * o->D; a++) {
            out[a] = 0;
            for (int d = 0; d < p->K; d++)
                out[a] += W[d * N + a / o->D] * p->B[d * o->D + a % o->D];
        }
        free(W);
    } else if (index == 1)
        support_copy(out, array_all(&support_thin(&p->net, "w")->W), 1);
    else if (k == 0 && o->regime == 1)
        support_copy(out, array_all(&support_thin(&p->net, "Q_%d", l)->W), 1);
    else if (k == 0) {
        double *W = support_matrix(support_map(&p->net, "Q_%d", l));
        for (int a = 0; a < o->M * N; a++)
            out[a] = sqrt(N) * W[a];
        free(W);
    } else if (k == 1)
        memcpy(out, support_numbers(&p->net, "b_%d", l), (size_t)o->M * sizeof *out);
    else
        copy_experts(p, l, k - 2, out);
}

static void make_oracle(struct couple *p) {
    static const enum oracle_gate gate[] = {[GATE_SIGMOID] = ORACLE_SIGMOID_M,
                                            [GATE_SOFTMAX] = ORACLE_SOFTMAX,
                                            [GATE_CONSTANT] = ORACLE_CONSTANT};
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    const struct data *data = &p->run.data;
    int regime = network->mixture + 1;
    int M = regime == 1 ? network->experts : (int)lround(network->kappa * N);
    int N_e = regime == 2 ? network->expert_width : (int)lround(network->iota * N);
    struct oracle_stack *o = p->oracle =
        oracle_stack_new(regime, data->P, data->D, N, network->depth, M, N_e,
                         regime == 1 ? network->expert_layers : 2);
    bool ours = network->expert_activation > 0; /* 0: that of the network */
    o->activation = oracles_activation(network->activation);
    o->expert_activation =
        ours ? oracles_activation(network->expert_activation - 1) : o->activation;
    o->gate = gate[network->gate];
    if (network->gate == GATE_SIGMOID && network->aggregation == AGGREGATION_K && regime > 1)
        o->gate = ORACLE_SIGMOID_K;
    o->loss = c->training.loss == &loss_mse ? ORACLE_MSE : ORACLE_LOGISTIC;
    o->stream = network->stream;
    o->before = network->block_norm & 1;
    o->after = network->block_norm & 2;
    o->biased = regime == 1 && network->bias == BIAS_TRAINED;
    o->activated = regime == 1 && network->expert_output == EXPERT_OUTPUT_ACTIVATED;
    o->gamma0 = c->training.gamma0;
    o->eta0 = c->training.eta0;
    o->beta = network->beta;
    o->rho = network->rho;
    o->router_rate = network->router_rate;
    o->lambda_in = network->lambda_in == LAMBDA_IN_KAPPA ? network->kappa : 1;
    o->branch_power = network->branch_power;
    memcpy(o->X, data->X, (size_t)(data->P * data->D) * sizeof *o->X);
    memcpy(o->y, data->y, (size_t)data->P * sizeof *o->y);
}

static void make_couple(struct couple *p, const char *const more[12]) {
    configure(&p->run, more);
    support_net(&p->net, &p->run, N, 3);
    const struct data *data = &p->run.data;
    ASK(thin_coordinates(data->X, data->P, data->D, &p->A, &p->B, &p->K, err));
    if (optimizer_by_entry(p->run.config.training.optimizer)) { /* the inputs themselves */
        p->K = data->D;
        free(p->B);
        p->B = calloc((size_t)(p->K * p->K), sizeof *p->B);
        for (int d = 0; d < p->K; d++)
            p->B[d * p->K + d] = 1;
    }
    make_oracle(p);
    double *w, rate;
    for (int i = 0, count; oracle_stack_parameter(p->oracle, i, &w, &count, &rate); i++)
        if (w)
            copy_parameter(p, i, w);
}

static void free_couple(struct couple *p) {
    oracle_stack_free(p->oracle);
    net_free(&p->net);
    run_free(&p->run);
    free(p->A);
    free(p->B);
}

/* --- kernels --------------------------------------------------------------------------------- */

/* rows [P][sites] of the page, of what a kernel is of; returns sites. */
struct wanted {
    double *rows, scale;
    int sites;
};

static struct wanted plain(const double *rows, int P, int sites, double scale) {
    struct wanted w = {calloc((size_t)(P * sites), sizeof(double)), scale, sites};
    memcpy(w.rows, rows, (size_t)(P * sites) * sizeof *rows);
    return w;
}

/* phi_i sigma(h_ij), or without phi; their means over i where `mean`. */
static struct wanted units(const struct oracle_stack *o, const struct oracle_stack_block *b,
                           bool gated, bool mean) {
    int all = o->M * o->N_e, sites = mean ? o->N_e : all;
    struct wanted w = {calloc((size_t)(o->P * sites), sizeof(double)), 1, sites};
    for (int mu = 0; mu < o->P; mu++)
        for (int u = 0; u < all; u++)
            w.rows[mu * sites + (mean ? u % o->N_e : u)] +=
                oracle_sigma(o->expert_activation, b->h[0][mu * all + u]) *
                (gated ? b->phi[mu * o->M + u / o->N_e] : 1) / (mean ? o->M : 1);
    return w;
}

/* E_i[g_ij] */
static struct wanted mean_gradient(const struct oracle_stack *o,
                                   const struct oracle_stack_block *b) {
    int all = o->M * o->N_e;
    struct wanted w = {calloc((size_t)(o->P * o->N_e), sizeof(double)), 1, o->N_e};
    for (int k = 0; k < o->P * all; k++)
        w.rows[k / all * o->N_e + k % o->N_e] += b->g_h[0][k];
    return w;
}

/* Of expert i of regime 1, at matrix k: o(h) or the cotangent. */
static struct wanted expert(const struct oracle_stack *o, const struct oracle_stack_block *b,
                            bool gradient, int k, int i) {
    int n = oracle_stack_target(o, k);
    struct wanted w = {calloc((size_t)(o->P * n), sizeof(double)), 1, n};
    for (int mu = 0; mu < o->P; mu++)
        for (int a = 0; a < n; a++) {
            int at = (mu * o->M + i) * n + a;
            w.rows[mu * n + a] =
                gradient ? b->g_h[k][at] : oracle_sigma(o->expert_activation, b->h[k][at]);
        }
    return w;
}

static struct wanted find_wanted(const struct oracle_stack *o, const char *name) {
    int P = o->P, all = o->M * o->N_e, i = 0, k = 0, l = 0;
    double branch = oracle_stack_branch(o), kappa = (double)o->M / N, own = 1 / (branch * branch);
    const char *end = strchr(name, '_');
    size_t length = end ? (size_t)(end - name) : strlen(name);
    char base[24];
    snprintf(base, sizeof base, "%.*s", (int)length, name);
    if (end)
        sscanf(end, "_%d_%d", &l, &i);
    const struct oracle_stack_block *b = &o->block[l];
    struct wanted w;
    if (!strcmp(base, "Cw"))
        return plain(o->w, 1, N, 1);
    if (!strcmp(base, "Ch") || !strcmp(base, "Cg"))
        return plain((base[1] == 'h' ? o->x : o->g) + l * P * N, P, N, 1);
    if (!strcmp(base, "Phib") || !strcmp(base, "Phibar") || !strcmp(base, "PhiE"))
        return units(o, b, base[3] == 'b', false);
    if (!strcmp(base, "Phitil"))
        return units(o, b, true, true);
    if (!strcmp(base, "phit2"))
        return plain(b->phi, P, o->M, 1);
    if (!strcmp(base, "Gphi") || !strcmp(base, "G1phi"))
        return plain(b->g_psi, P, o->M, own * kappa * kappa);
    if (!strcmp(base, "Gb") || !strcmp(base, "Gbar"))
        return plain(b->g_h[0], P, all, own * (base[2] ? o->M * o->M : kappa * kappa));
    if (!strcmp(base, "Gtil"))
        w = mean_gradient(o, b);
    else if (sscanf(base, "Phi%d", &k) == 1 || sscanf(base, "G%d", &k) == 1)
        w = expert(o, b, base[0] == 'G', k - 2, i);
    else
        fail_msg("what is %s?", name);
    w.scale = base[0] == 'G' ? own : 1;
    return w;
}

static void check_kernels(const struct couple *p, int index) {
    double K[64];
    for (int k = 0; k < p->net.kernels; k++) {
        const struct kernel *kernel = &p->net.kernel[k];
        struct rows rows = kernel->rows;
        struct wanted w = find_wanted(p->oracle, kernel->name);
        rows.array->backend->dots(rows, rows, K);
        for (int a = 0; a < rows.count * rows.count; a++) {
            double want = 0;
            for (int n = 0; n < w.sites; n++)
                want += w.rows[a / rows.count * w.sites + n] *
                        w.rows[a % rows.count * w.sites + n] * w.scale / w.sites;
            CHECK_ABS(kernel->scale * K[a], want, 1e-12 * fmax(1, fabs(want)), "case %d: %s[%d]",
                      index, kernel->name, a);
        }
        free(w.rows);
    }
}

/* --- against the oracle ---------------------------------------------------------------------- */

static void check_output(const struct couple *p, double loss, double tolerance, int index, int t) {
    CHECK_ABS(p->net.loss, loss, tolerance, "case %d: loss at %d", index, t);
    for (int mu = 0; mu < p->run.data.P; mu++)
        CHECK_ABS(p->net.f[mu], p->oracle->f[mu], tolerance * fmax(1, fabs(p->oracle->f[mu])),
                  "case %d: f[%d] at %d", index, mu, t);
}

static void check_parameters(const struct couple *p, double tolerance, int index) {
    double *want, rate;
    for (int i = 0, count; oracle_stack_parameter(p->oracle, i, &want, &count, &rate); i++) {
        if (!want)
            continue;
        double *got = calloc((size_t)count, sizeof *got);
        copy_parameter(p, i, got);
        for (int k = 0; k < count; k++)
            CHECK_ABS(got[k], want[k], tolerance * fmax(1, fabs(want[k])),
                      "case %d: parameter %d entry %d", index, i, k);
        free(got);
    }
}

/* Sums of fewer than 200 terms of order one: round-off below 200 eps = 4e-14, amplified in four
 * steps by no more than 10, and once more by norms of small rows: 1e-12. */
static void equals_oracle(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct couple p;
        make_couple(&p, cases[i]);
        for (int t = 0; t < 4; t++) {
            support_evaluate(&p.net, &p.run);
            double loss = oracle_stack_forward(p.oracle);
            oracle_stack_backward(p.oracle);
            check_output(&p, loss, 1e-12, i, t);
            check_kernels(&p, i);
            support_learn(&p.net, &p.run);
            oracle_stack_step(p.oracle);
            check_parameters(&p, 1e-12, i);
        }
        free_couple(&p);
    }
}

/* The same with momentum, Adam and AdamW. Adam divides by sqrt(v) + eps: a gradient's round-off is
 * divided by the eps of 0.1 of its order-one scale, five times in a row. */
static void optimizers(void **state) {
    (void)state;
    for (int i = 0; i < OPTIMIZED; i++) {
        struct couple p;
        make_couple(&p, optimized[i]);
        const struct training *training = &p.run.config.training;
        struct oracle_optimizer *a = oracle_optimizer_stack(p.oracle);
        oracles_set_optimizer(a, training);
        for (int t = 0; t < 5; t++) {
            support_evaluate(&p.net, &p.run);
            check_output(&p, oracle_optimizer_step(a), 1e-12, i, t);
            ASK(integrator_of(training)->advance(&p.net, training, p.run.data.y, err));
            check_parameters(&p, 1e-11, i);
        }
        oracle_optimizer_free(a);
        free_couple(&p);
    }
}

static double loss_of(void *oracle) {
    return oracle_stack_forward(oracle);
}

static double step_of(void *oracle) {
    return oracle_stack_step(oracle);
}

static void oracle_by_differences(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct couple p;
        struct oracles_parameter all[ORACLES_PARAMETERS], *a = all;
        char what[24];
        make_couple(&p, cases[i]);
        for (int k = 0; oracle_stack_parameter(p.oracle, k, &a->w, &a->count, &a->rate); k++, a++) {
            a->count = a->w ? a->count : 0;
            a->rate *= p.oracle->eta0;
        }
        snprintf(what, sizeof what, "case %d", i);
        oracles_judge(p.oracle, loss_of, step_of, all, (int)(a - all), 1, what);
        free_couple(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_by_differences),
        cmocka_unit_test(gradient_by_differences),
        cmocka_unit_test(equals_oracle),
        cmocka_unit_test(optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
