/* Gates and masks of the M numbers of each input: what is selected, and its loads. */
#include "models/parts/router_gate.h"
#include "models/engine/net.h"

#include <jansson.h>
#include <math.h>

/* Whether expert i is among the K largest of psi + b; ties to the lower index. */
static bool selected(const struct router *router, const double *psi, int i) {
    const double *b = router->b;
    double own = psi[i] + (b ? b[i] : 0);
    int before = 0;
    for (int k = 0; k < router->M; k++) {
        double other = psi[k] + (b ? b[k] : 0);
        before += other > own || (other == own && k < i);
    }
    return before < router->gate.K;
}

/* e_i = exp(beta psi_i - max beta psi), whatever the sign of beta; returns max beta psi. */
double router_exponentials(const struct router *router, const double *psi, double *e) {
    double origin = psi[0], beta = router->gate.beta;
    for (int i = 1; i < router->M; i++)
        origin = beta < 0 ? fmin(origin, psi[i]) : fmax(origin, psi[i]);
    for (int i = 0; i < router->M; i++)
        e[i] = exp(beta * (psi[i] - origin));
    return beta * origin;
}

/* Of all experts, before a sum of them is taken out: exponentials up to a factor, or sigmoids. */
static void weights_of(const struct router *router, const double *psi, double *w) {
    if (router->gate.softmax)
        router_exponentials(router, psi, w);
    else
        for (int i = 0; i < router->M; i++)
            w[i] = 1 / (1 + exp(-router->gate.beta * psi[i]));
}

static bool over_all(const struct router *router) {
    return router->gate.over_all;
}

/* p of one input: 0 for experts that are not selected. */
static void gate_of(const struct router *router, const double *psi, double *p) {
    bool softmax = router->gate.softmax;
    double sum = 0;
    weights_of(router, psi, p);
    for (int i = 0; i < router->M; i++) {
        bool mine = selected(router, psi, i);
        sum += mine || over_all(router) ? p[i] : 0;
        p[i] = mine ? p[i] : 0;
    }
    for (int i = 0; i < router->M && softmax; i++)
        p[i] /= sum;
}

/* All weights over their sum, which is returned. */
double router_shares(const struct router *router, const double *psi, double *q) {
    double sum = 0;
    weights_of(router, psi, q);
    for (int i = 0; i < router->M; i++)
        sum += q[i];
    for (int i = 0; i < router->M; i++)
        q[i] /= sum;
    return sum;
}

static void gates(const void *context, const struct net *net, int rows, const double *x,
                  double *out) {
    const struct router *router = context;
    (void)net;
    for (int mu = 0; mu < rows; mu++)
        gate_of(router, x + mu * router->M, out + mu * router->M);
}

/* (dp/dpsi)^T g, the mask held. */
static void gates_backward(const void *context, const struct net *net, int rows, const double *x,
                           const double *out, const double *g, double *gx) {
    const struct router *router = context;
    bool softmax = router->gate.softmax, all = over_all(router);
    double beta = router->gate.beta;
    int M = router->M;
    (void)net;
    for (int mu = 0; mu < rows; mu++) {
        const double *p = out + mu * M, *gp = g + mu * M;
        double mean = 0, q[INT_LIST_MAX];
        if (all)
            router_shares(router, x + mu * M, q);
        for (int i = 0; i < M; i++)
            mean += p[i] * gp[i];
        for (int i = 0; i < M; i++)
            gx[mu * M + i] += all ? beta * (p[i] * gp[i] - q[i] * mean)
                                  : beta * p[i] * (softmax ? gp[i] - mean : (1 - p[i]) * gp[i]);
    }
}

/* Loads of the experts, what of the masks changed; the numbers themselves are nobody's. */
static void watch(const void *context, const struct net *net, int rows, const double *x,
                  double *out) {
    const struct router *router = context;
    int M = router->M;
    double flips = 0;
    *router->largest = 0;
    for (int i = 0; i < M; i++) {
        router->load[i] = 0;
        for (int mu = 0; mu < rows; mu++) {
            double m = selected(router, x + mu * M, i);
            router->load[i] += m / rows;
            flips += fabs(m - router->last[mu * M + i]);
            out[mu * M + i] = router->last[mu * M + i] = m;
        }
        *router->largest = fmax(*router->largest, router->load[i] * M / router->gate.K);
    }
    *router->flips = net->batch.started ? flips / (2 * rows * router->gate.K) : 0;
}

/* Loads settle at rho. */
static void move_biases(void *context) {
    struct router *router = context;
    for (int i = 0; i < router->M && router->b; i++)
        router->b[i] -= router->eta_bias * (router->load[i] - (double)router->gate.K / router->M);
}

json_t *router_constants(const void *context) {
    const struct router *router = context;
    return json_pack("{s:b, s:f, s:i, s:b, s:f}", "softmax", router->gate.softmax, "beta",
                     router->gate.beta, "top", router->gate.K, "over_all", router->gate.over_all,
                     "eta_bias", router->eta_bias);
}

/* The masks; what is seen of them, and their biases. */
struct value router_watch(struct program *p, struct router *router, struct value psi,
                          const char *suffix) {
    static const struct number_fn seen = {.rule_name = {"mask", router_constants},
                                          .forward = watch,
                                          .rule = move_biases,
                                          .jumps = true};
    int M = router->M;
    program_selects(p, psi, router->gate.K);
    router->last = program_keep_numbers(p, program_count(p, psi) * M);
    if (router->eta_bias != 0)
        router->b = program_keep_numbers(p, M);
    router->load = program_series(p, "t i", M, 0, program_name(p, "load%s", suffix),
                                  "share of the inputs that an expert has", "mean_mu m_i");
    router->largest = program_series(p, "t", 1, 0, program_name(p, "load_largest%s", suffix),
                                     "largest load of an expert over rho", "max_i load_i / rho");
    router->flips =
        program_series(p, "t", 1, 0, program_name(p, "flips%s", suffix),
                       "share of the selected experts that were not at the last evaluation", "");
    return program_numbers(p, &seen, router, psi, M);
}

static void masks(const void *context, const struct net *net, int rows, const double *x,
                  double *out) {
    const struct router *router = context;
    (void)net;
    for (int k = 0; k < rows * router->M; k++)
        out[k] = selected(router, x + k / router->M * router->M, k % router->M);
}

static struct router *new_router(struct program *p, int M, struct router_gate gate) {
    struct router *router = program_memory(p, sizeof *router);
    if (router)
        *router = (struct router){.M = M, .gate = gate};
    return router;
}

struct value router_top(struct program *p, struct value psi, int M, int K) {
    static const struct number_fn mask = {
        .rule_name = {"mask", router_constants}, .forward = masks, .jumps = true};
    struct router *router = new_router(p, M, (struct router_gate){.K = K});
    program_selects(p, psi, K);
    return router ? program_numbers(p, &mask, router, psi, M) : (struct value){-1};
}

struct value router_select(struct program *p, struct value psi, int M, int K, double eta_bias,
                           const char *suffix) {
    struct router *router = new_router(p, M, (struct router_gate){.K = K});
    if (!router)
        return (struct value){-1};
    router->eta_bias = eta_bias;
    return router_watch(p, router, psi, suffix);
}

struct value router_apply(struct program *p, const struct router *router, struct value psi) {
    static const struct number_fn all = {.rule_name = {"gates", router_constants},
                                         .forward = gates,
                                         .backward = gates_backward},
                                  masked = {.rule_name = {"gates", router_constants},
                                            .forward = gates,
                                            .backward = gates_backward,
                                            .jumps = true};
    program_steep_gates(p, psi, router->gate.beta, router->gate.softmax, router->gate.K);
    return program_numbers(p, router->gate.K < router->M ? &masked : &all, router, psi, router->M);
}

struct value router_gates(struct program *p, struct value psi, int M, struct router_gate gate) {
    struct router *router = new_router(p, M, gate);
    if (!router)
        return (struct value){-1};
    program_selects(p, psi, gate.K);
    return router_apply(p, router, psi);
}
