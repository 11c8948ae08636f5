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

/* e_i = exp(beta psi_i - max beta psi), whatever the sign of beta; returns max beta psi. The
 * largest is one of those with m != 0, so that their sum is at least 1; all of them where m is
 * NULL. */
static double shifted_exponentials(const struct router *router, const double *psi, const double *m,
                                   double *e) {
    double origin = NAN, beta = router->gate.beta;
    for (int i = 0; i < router->M; i++)
        if (!m || m[i] != 0)
            origin = beta < 0 ? fmin(origin, psi[i]) : fmax(origin, psi[i]);
    for (int i = 0; i < router->M; i++)
        e[i] = exp(beta * (psi[i] - origin));
    return beta * origin;
}

double router_exponentials(const struct router *router, const double *psi, double *e) {
    return shifted_exponentials(router, psi, NULL, e);
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

/* All weights over their sum. Of sigmoids the largest factor exp(x) of x < 0 is taken out of all
 * first: far below 0 they are 0, and their shares those of a softmax. */
void router_shares(const struct router *router, const double *psi, double *q) {
    double sum = 0, origin = -INFINITY, beta = router->gate.beta;
    if (router->gate.softmax)
        shifted_exponentials(router, psi, NULL, q);
    for (int i = 0; i < router->M; i++)
        origin = fmax(origin, fmin(beta * psi[i], 0));
    for (int i = 0; i < router->M && !router->gate.softmax; i++)
        q[i] = exp(fmin(beta * psi[i], 0) - origin) / (1 + exp(-fabs(beta * psi[i])));
    for (int i = 0; i < router->M; i++)
        sum += q[i];
    for (int i = 0; i < router->M; i++)
        q[i] /= sum;
}

static void gates(const void *context, const struct net *net, int rows, const double *x,
                  double *out) {
    const struct router *router = context;
    (void)net;
    for (ptrdiff_t mu = 0; mu < rows; mu++)
        gate_of(router, x + mu * router->M, out + mu * router->M);
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
            router_shares(router, x + mu * M, q);
        for (int i = 0; i < M; i++)
            mean += p[i] * gp[i];
        for (int i = 0; i < M; i++)
            gx[mu * M + i] += all ? beta * (p[i] * gp[i] - q[i] * mean)
                                  : beta * p[i] * (softmax ? gp[i] - mean : (1 - p[i]) * gp[i]);
    }
}

static const struct operation operation_gates_back = {.name = "gates_back",
                                                      .forward = gates_back_forward};

static struct value gates_adjoint(struct program *p, int v, struct value g) {
    struct value gates = {v};
    return adjoint_into(p,
                        adjoint_like(p, &operation_gates_back, gates, g, p->node[v].argument[0]));
}

static void masks(const void *context, const struct net *net, int rows, const double *x,
                  double *out) {
    const struct router *router = context;
    (void)net;
    for (ptrdiff_t mu = 0; mu < rows; mu++)
        select_largest(router, x + mu * router->M, out + mu * router->M);
}

/* Loads of the experts, what of the masks changed; the numbers themselves are nobody's. A declared
 * net is asked what is selected at the start (ties.c), and has no room for what is measured. */
static void watch(const void *context, const struct net *net, int rows, const double *x,
                  double *out) {
    const struct router *router = context;
    int M = router->M;
    double flips = 0;
    if (net->setup.declare_only) {
        masks(context, net, rows, x, out);
        return;
    }
    *router->largest = 0;
    memset(router->load, 0, (size_t)M * sizeof *router->load);
    for (ptrdiff_t mu = 0; mu < rows; mu++) {
        select_largest(router, x + mu * M, out + mu * M);
        for (int i = 0; i < M; i++) {
            router->load[i] += out[mu * M + i] / rows;
            flips += fabs(out[mu * M + i] - router->last[mu * M + i]);
        }
    }
    memcpy(router->last, out, (size_t)rows * (size_t)M * sizeof *out);
    for (int i = 0; i < M; i++)
        *router->largest = fmax(*router->largest, router->load[i] * M / router->gate.K);
    *router->flips = net->batch.started ? flips / (2.0 * rows * router->gate.K) : 0;
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

static const struct constant_field constants[] = {ROUTER_CONSTANTS, {0}};

/* The masks; what is seen of them, and their biases. */
struct value router_watch(struct program *p, struct router *router, struct value psi,
                          const char *suffix) {
    static const struct number_fn seen = {
        .rule_name = {"mask", constants}, .forward = watch, .rule = move_biases, .jumps = true};
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
    return program_numbers(p, &seen, router, psi, M);
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
    static const struct number_fn mask = {
        .rule_name = {"mask", constants}, .forward = masks, .jumps = true};
    struct router *router = router_new(p, M, (struct router_gate){.K = K});
    program_selects(p, psi, K);
    return router ? program_numbers(p, &mask, router, psi, M) : (struct value){-1};
}

struct value router_select(struct program *p, struct value psi, int M, struct balance_rule rule) {
    struct router *router = router_new(p, M, (struct router_gate){.K = (int)rule.K});
    if (!router)
        return (struct value){-1};
    router->eta_bias = rule.eta_bias;
    router->sign = rule.sign;
    return router_watch(p, router, psi, rule.suffix);
}

struct value router_apply(struct program *p, const struct router *router, struct value psi) {
    static const struct number_fn all = {.rule_name = {"gates", constants},
                                         .forward = gates,
                                         .adjoint = gates_adjoint},
                                  masked = {.rule_name = {"gates", constants},
                                            .forward = gates,
                                            .adjoint = gates_adjoint,
                                            .jumps = true,
                                            .drops_zero = true};
    program_steep_gates(p, psi, router->gate.beta, router->gate.softmax, router->gate.K);
    return program_numbers(p, router->gate.K < router->M ? &masked : &all, router, psi, router->M);
}

struct value router_gates(struct program *p, struct value psi, int M, struct router_gate gate) {
    struct router *router = router_new(p, M, gate);
    if (!router)
        return (struct value){-1};
    program_selects(p, psi, gate.K);
    return router_apply(p, router, psi);
}
