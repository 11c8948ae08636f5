/* Gates and masks of the M numbers of each input: what is selected, and its loads. */
#include "models/parts/router_gate.h"
#include "models/language/adjoint.h"
#include "models/language/operation.h"

#include <gsl/gsl_sort.h>
#include <math.h>
#include <string.h>

/* m_i = 1 for the K largest of psi + b, else 0; ties to the lower index. What is no number is
 * selected, so that the loss is none either and the run ends. */
static void select_largest(const struct router *router, const double *psi, double *m) {
    int M = router->M, K = router->gate.K, left = K;
    double *score = router->scores, *sorted = score + M, least;
    for (int i = 0; i < M; i++)
        score[i] = psi[i] + (router->b ? router->b[i] : 0);
    memcpy(sorted, score, (size_t)M * sizeof *sorted);
    gsl_sort(sorted, 1, (size_t)M);
    least = sorted[M - K];
    for (int i = 0; i < M; i++)
        left -= !(score[i] <= least);
    for (int i = 0; i < M; i++)
        m[i] = !(score[i] <= least) || (score[i] == least && left-- > 0);
}

/* e_i = exp(beta psi_i - max beta psi), whatever the sign of beta. The largest is one of those with
 * m != 0, so that their sum is at least 1; all of them where m is NULL. */
static void shifted_exponentials(const struct router *router, const double *psi, const double *m,
                                 double *e) {
    double origin = NAN, beta = router->gate.beta;
    for (int i = 0; i < router->M; i++)
        if (!m || m[i] != 0)
            origin = beta < 0 ? fmin(origin, psi[i]) : fmax(origin, psi[i]);
    for (int i = 0; i < router->M; i++)
        e[i] = exp(beta * (psi[i] - origin));
}

/* The weights of all experts before a sum is taken out: exponentials up to a factor, or sigmoids.
 */
static void weights_of(const struct router *router, const double *psi, const double *m, double *w) {
    if (router->gate.softmax)
        shifted_exponentials(router, psi, m, w);
    else
        for (int i = 0; i < router->M; i++)
            w[i] = 1 / (1 + exp(-router->gate.beta * psi[i]));
}

static bool over_all(const struct router *router) {
    return router->gate.over_all;
}

/* p of one input: 0 for experts that are not selected. Selection biases may select experts whose
 * exponentials are 0 beside the largest of all. */
static void gate_of(const struct router *router, const double *psi, double *p) {
    bool softmax = router->gate.softmax, all = over_all(router);
    double sum = 0, *m = router->shares;
    select_largest(router, psi, m);
    weights_of(router, psi, all ? NULL : m, p);
    for (int i = 0; i < router->M; i++) {
        sum += m[i] != 0 || all ? p[i] : 0;
        p[i] = m[i] != 0 ? p[i] : 0;
    }
    for (int i = 0; i < router->M && softmax; i++)
        p[i] /= sum;
}

/* A softmax over all. */
static void shares_of_all(const struct router *router, const double *psi, double *q) {
    double sum = 0;
    shifted_exponentials(router, psi, NULL, q);
    for (int i = 0; i < router->M; i++)
        sum += q[i];
    for (int i = 0; i < router->M; i++)
        q[i] /= sum;
}

static void gates_forward(struct net *net, struct node *v) {
    const struct router *router = v->constant.context;
    const double *psi = argument(net, v, 0)->s;
    for (ptrdiff_t mu = 0; mu < v->count; mu++)
        gate_of(router, psi + mu * router->M, v->s + mu * router->M);
}

/* (dp/dpsi)^T g, the mask held. */
static void gates_back_forward(struct net *net, struct node *v) {
    const struct node *gates = argument(net, v, 0);
    const struct router *router = gates->constant.context;
    const double *x = argument(net, gates, 0)->s, *out = gates->s, *g = argument(net, v, 1)->s;
    double *gx = v->s;
    bool softmax = router->gate.softmax, all = over_all(router);
    double beta = router->gate.beta;
    int M = router->M;
    for (ptrdiff_t mu = 0; mu < v->count; mu++) {
        const double *p = out + mu * M, *gp = g + mu * M;
        double mean = 0, *q = router->shares;
        if (all)
            shares_of_all(router, x + mu * M, q);
        for (int i = 0; i < M; i++)
            mean += p[i] * gp[i];
        for (int i = 0; i < M; i++)
            gx[mu * M + i] += all ? beta * (p[i] * gp[i] - q[i] * mean)
                                  : beta * p[i] * (softmax ? gp[i] - mean : (1 - p[i]) * gp[i]);
    }
}

static const struct operation operation_gates_back = {.name = "gates_back",
                                                      .forward = gates_back_forward};

static struct value gates_adjoint(struct program *p, int v, int k, struct value g) {
    struct value gates = {v};
    return adjoint_into(p,
                        adjoint_like(p, &operation_gates_back, gates, g, p->node[v].argument[k]));
}

static void mask_forward(struct net *net, struct node *v) {
    const struct router *router = v->constant.context;
    const double *psi = argument(net, v, 0)->s;
    for (ptrdiff_t mu = 0; mu < v->count; mu++)
        select_largest(router, psi + mu * router->M, v->s + mu * router->M);
}

/* Loads of the experts, what of the masks changed; the numbers themselves are nobody's. A declared
 * net is asked what is selected at the start (ties.c), and has no room for what is measured. */
static void watch_forward(struct net *net, struct node *v) {
    const struct router *router = v->constant.context;
    int M = router->M;
    double flips = 0, *m = v->s;
    mask_forward(net, v);
    if (net->setup.declare_only)
        return;
    *router->largest = 0;
    memset(router->load, 0, (size_t)M * sizeof *router->load);
    for (ptrdiff_t mu = 0; mu < v->count; mu++)
        for (int i = 0; i < M; i++) {
            router->load[i] += m[mu * M + i] / v->count;
            flips += fabs(m[mu * M + i] - router->last[mu * M + i]);
        }
    memcpy(router->last, m, node_numbers(v) * sizeof *m);
    for (int i = 0; i < M; i++)
        *router->largest = fmax(*router->largest, router->load[i] * M / router->gate.K);
    *router->flips = net->batch.started ? flips / (2.0 * v->count * router->gate.K) : 0;
}

/* Loads settle at rho. */
static void move_biases(void *context) {
    struct router *router = context;
    for (int i = 0; i < router->M && router->b; i++) {
        double excess = router->load[i] - (double)router->gate.K / router->M;
        if (router->sign)
            excess = (excess > BALANCE_EVEN) - (excess < -BALANCE_EVEN);
        router->b[i] -= router->eta_bias * excess;
    }
}

#define ROUTER_CONSTANT(name, type, member) CONSTANT_OF(struct router, name, type, member)
static const struct constant_field constants[] = {
    ROUTER_CONSTANT("softmax", FIELD_BOOL, gate.softmax),
    ROUTER_CONSTANT("beta", FIELD_REAL, gate.beta),
    ROUTER_CONSTANT("top", FIELD_INT, gate.K),
    ROUTER_CONSTANT("over_all", FIELD_BOOL, gate.over_all),
    ROUTER_CONSTANT("eta_bias", FIELD_REAL, eta_bias),
    ROUTER_CONSTANT("sign", FIELD_BOOL, sign),
    {0}};

/* All of them find their numbers in a router. */
#define ROUTER_RULE                                                                                \
    .rule_of = "numbers", .constants = constants, .in_context = true, .zeros = ZEROS_OF_RULE,      \
    .across_inputs = true, .by_row = true
static const struct operation operation_gates = {ROUTER_RULE, .name = "gates",
                                                 .forward = gates_forward,
                                                 .adjoint = gates_adjoint},
                              operation_top_gates = {ROUTER_RULE,
                                                     .name = "gates",
                                                     .forward = gates_forward,
                                                     .adjoint = gates_adjoint,
                                                     .jumps = operation_always,
                                                     .drops_zero = true},
                              operation_mask = {ROUTER_RULE, .name = "mask",
                                                .forward = mask_forward, .jumps = operation_always},
                              operation_watched_mask = {
                                  ROUTER_RULE, .name = "mask", .forward = watch_forward,
                                  .after_step = move_biases, .jumps = operation_always};

/* The masks; what is seen of them, and their biases. */
struct value router_watch(struct program *p, struct router *router, struct value psi,
                          const char *suffix) {
    int M = router->M;
    program_selects(p, psi, router->gate.K);
    router->last = program_keep_numbers(p, program_count(p, psi), M);
    if (router->eta_bias != 0) {
        program_count_inputs_once(p, "eta_bias");
        double *b = program_keep_numbers(p, M, 1);
        router->b = program_setup(p)->declare_only ? NULL : b; /* no room: they start at 0 */
    }
    router->load = program_counted(p, "t i", M, 0, program_name(p, "load%s", suffix),
                                   "share of the inputs that an expert has", "mean_mu m_i");
    router->largest = program_counted(p, "t", 1, 0, program_name(p, "load_largest%s", suffix),
                                      "largest load of an expert over rho", "max_i load_i / rho");
    router->flips =
        program_counted(p, "t", 1, 0, program_name(p, "flips%s", suffix),
                        "share of the selected experts that were not at the last evaluation", "");
    return program_rule(p, &operation_watched_mask, psi, router);
}

struct router *router_new(struct program *p, int M, struct router_gate gate) {
    struct router *router = program_memory(p, sizeof *router);
    double *scratch = program_memory(p, 3 * (size_t)M * sizeof *scratch);
    if (!router || !scratch)
        return NULL;
    *router = (struct router){.M = M, .gate = gate, .shares = scratch, .scores = scratch + M};
    return router;
}

struct value router_top(struct program *p, struct value psi, int M, int K) {
    struct router *router = router_new(p, M, (struct router_gate){.K = K});
    program_selects(p, psi, K);
    return router ? program_rule(p, &operation_mask, psi, router) : (struct value){-1};
}

struct value router_select(struct program *p, struct value psi, int M, struct balance_rule rule) {
    struct router *router = router_new(p, M, (struct router_gate){.K = (int)rule.K});
    if (!router)
        return (struct value){-1};
    router->eta_bias = rule.eta_bias;
    router->sign = rule.sign;
    return router_watch(p, router, psi, rule.suffix);
}

struct value router_apply(struct program *p, struct router *router, struct value psi) {
    program_steep_gates(p, psi, router->gate.beta, router->gate.softmax, router->gate.K);
    bool some = router->gate.K < router->M;
    return program_rule(p, some ? &operation_top_gates : &operation_gates, psi, router);
}

struct value router_gates(struct program *p, struct value psi, int M, struct router_gate gate) {
    struct router *router = router_new(p, M, gate);
    if (!router)
        return (struct value){-1};
    program_selects(p, psi, gate.K);
    return router_apply(p, router, psi);
}
