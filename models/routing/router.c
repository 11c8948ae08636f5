/* A router over a fixed number of experts. */
#include "models/routing/router.h"
#include "kernels/rng.h"
#include "models/net/net.h"

#include <math.h>

const struct param_row router_rows[] = {
    {"q0", PARAM_REAL, NETWORK_KEY(q0), "-1", -1, 1e3, NULL, "gate=sigmoid|softmax",
     "amplitude of the initial router; -1: 0 for mssp, else 1"},
    {"router_rate", PARAM_REAL, NETWORK_KEY(router_rate), "1", 0, 1e3, NULL, "gate=sigmoid|softmax",
     "multiplier of the learning rate of the router"},
    {"bias", PARAM_CHOICE, NETWORK_KEY(bias), "none", 0, 0, "none fixed trained",
     "gate=sigmoid|softmax", "bias of the router logits"},
    {"biases", PARAM_REALS, NETWORK_KEY(biases), "", -1e3, 1e3, NULL, "bias=fixed|trained",
     "initial biases, one per expert (for each kind of token in turn); empty: drawn with bias_std"},
    {"bias_per", PARAM_CHOICE, NETWORK_KEY(bias_per), "expert", 0, 0, "expert token",
     "bias=fixed|trained", "one bias of each expert, or of each kind of token and expert"},
    {"bias_std", PARAM_REAL, NETWORK_KEY(bias_std), "1", 0, 1e3, NULL, "bias=fixed|trained",
     "of drawn biases, the same for the limit and all networks of a seed; of selection biases"},
    {"bias_noise", PARAM_REAL, NETWORK_KEY(bias_noise), "0", 0, 1e3, NULL, "gate=sigmoid|softmax",
     "of normal noise on the logits at every step, the same for limit and networks"},
    {NULL},
};

static double amplitude(const struct network *network) {
    if (network->q0 >= 0)
        return network->q0;
    return network->parameterization == PARAMETERIZATION_MSSP ? 0 : 1;
}

const char *router_check(const struct network *network, const char **key) {
    int M = network->experts, K = (int)lround(network->rho * M);
    *key = "q0";
    if (network->q0 < 0 && network->q0 != -1)
        return "an amplitude must be at least 0; -1 stands for that of the parameterization: 0 for "
               "mssp, else 1";
    *key = "rho";
    if (K < 1 || fabs(network->rho * M - K) > 1e-9)
        return "rho times experts must be a whole number of at least 1";
    *key = "biases";
    if (network->bias && network->biases.count && network->biases.count != M &&
        network->bias_per == BIAS_PER_EXPERT)
        return "biases must be one number per expert, or empty";
    *key = "bias";
    if (K < M && !network->bias && network->bias_noise == 0 && amplitude(network) == 0)
        return "top-K with a zero initial router needs a bias or noise: its logits are exactly "
               "equal";
    return NULL;
}

bool router_fluctuates(const struct network *network) {
    return network->gate != GATE_CONSTANT &&
           lround(network->rho * network->experts) < network->experts && !network->bias &&
           network->bias_noise == 0;
}

/* Normals shared by the limit and all networks of a seed. */
static double shared_normal(const struct net *net, uint32_t owner, int draw, int i) {
    struct rng_stream stream = {.seed = net->setup.seed, .purpose = PURPOSE_BIAS, .owner = owner};
    double pair[2];
    rng_normal_pair(stream, (uint32_t)draw, (uint32_t)i / 2, pair);
    return pair[i % 2];
}

/* What rowwise functions know: numbers per input. */
struct router {
    int M;
    struct router_gate gate;
    double noise;
};

double router_normal(const struct program *p, int i) {
    return shared_normal(program_net(p), 0, 0, i);
}

static void add_noise(const void *context, const struct net *net, int rows, const double *x,
                      double *out) {
    const struct router *router = context;
    int M = router->M;
    for (int k = 0; k < rows * M; k++)
        out[k] = x[k] + router->noise * shared_normal(net, 1, net->t, k % M);
}

static void pass_on(const void *context, const struct net *net, int rows, const double *x,
                    const double *out, const double *g, double *gx) {
    const struct router *router = context;
    (void)net, (void)x, (void)out;
    for (int k = 0; k < rows * router->M; k++)
        gx[k] += g[k];
}

/* p of one input; experts outside of the K largest logits (ties to the lower index) have p = 0. */
static void gate_of(const struct router *router, const double *psi, double *p) {
    double largest = psi[0], sum = 0, beta = router->gate.beta;
    bool softmax = router->gate.softmax;
    for (int i = 1; i < router->M; i++)
        largest = fmax(largest, psi[i]);
    for (int i = 0; i < router->M; i++) {
        int before = 0;
        for (int k = 0; k < router->M; k++)
            before += psi[k] > psi[i] || (psi[k] == psi[i] && k < i);
        double value = softmax ? exp(beta * (psi[i] - largest)) : 1 / (1 + exp(-beta * psi[i]));
        p[i] = before < router->gate.K ? value : 0;
        sum += p[i];
    }
    for (int i = 0; i < router->M && softmax; i++)
        p[i] /= sum;
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
    bool softmax = router->gate.softmax;
    (void)net, (void)x;
    for (int mu = 0; mu < rows; mu++) {
        const double *p = out + mu * router->M, *gp = g + mu * router->M;
        double mean = 0;
        for (int i = 0; i < router->M; i++)
            mean += p[i] * gp[i];
        for (int i = 0; i < router->M; i++)
            gx[mu * router->M + i] +=
                router->gate.beta * p[i] * (softmax ? gp[i] - mean : (1 - p[i]) * gp[i]);
    }
}

/* -sum q ln q/ln M of q = p/sum p */
static void entropy(const void *context, const struct net *net, int rows, const double *x,
                    double *out) {
    int M = ((const struct router *)context)->M;
    (void)net;
    for (int mu = 0; mu < rows; mu++) {
        const double *p = x + mu * M;
        double sum = 0, value = 0;
        for (int i = 0; i < M; i++)
            sum += p[i];
        for (int i = 0; i < M; i++)
            value -= p[i] > 0 ? p[i] / sum * log(p[i] / sum) : 0;
        out[mu] = M > 1 ? value / log(M) : 1;
    }
}

struct value router_gates(struct program *p, struct value psi, int M, struct router_gate gate) {
    static const struct number_fn fn = {gates, gates_backward};
    struct router *router = program_memory(p, sizeof *router);
    if (!router)
        return (struct value){-1};
    *router = (struct router){.M = M, .gate = gate};
    return program_numbers(p, &fn, router, psi, M);
}

static const char *name(struct program *p, const char *name, int l) {
    return l < 0 ? name : program_name(p, "%s_%d", name, l);
}

static struct value add_biases(struct program *p, struct value psi, struct weight b) {
    const struct network *network = program_network(p);
    bool tokens = network->bias_per == BIAS_PER_TOKEN;
    int count = network->experts * (tokens ? program_setup(p)->V : 1);
    double *start = program_memory(p, (size_t)count * sizeof *start);
    if (network->biases.count && network->biases.count != count && !program_setup(p)->declare_only)
        program_fail(p, "biases must be one number per kind of token and expert, %d, or empty",
                     count);
    for (int i = 0; start && i < count; i++)
        start[i] = network->biases.count && i < INT_LIST_MAX
                       ? network->biases.value[i]
                       : network->bias_std * shared_normal(program_net(p), 0, 0, i);
    b.fixed = network->bias == BIAS_FIXED;
    return (tokens ? program_bias_of_tokens : program_bias)(p, psi, start, b);
}

struct value router_write(struct program *p, struct value x1, struct weight Q, struct weight b,
                          int l) {
    static const struct number_fn noise = {add_noise, pass_on}, spread = {entropy, NULL};
    const struct network *network = program_network(p);
    struct router *router = program_memory(p, sizeof *router);
    int M = network->experts;
    if (!router)
        return (struct value){-1};
    *router = (struct router){.M = M, .noise = network->bias_noise};
    Q.a0 = amplitude(network) * weight_or_one(Q.a0);
    Q.zero = Q.a0 == 0;
    Q.rate = network->router_rate * weight_or_one(Q.rate);
    Q.adam_rate = network->router_rate * weight_or_one(Q.adam_rate);
    Q.fixed = network->router_rate == 0;
    Q.iid = router_fluctuates(network);
    struct value psi = program_look(p, x1, M, Q);
    if (network->bias)
        psi = add_biases(p, psi, b);
    psi = program_numbers(p, &noise, router, psi, M);
    struct router_gate gate = {network->gate == GATE_SOFTMAX, network->beta,
                               (int)lround(network->rho * M)};
    struct value out = router_gates(p, psi, M, gate);
    program_show(p, psi, "t mu i", name(p, "psi", l), "router logits, bias included",
                 "<Q_i x1> + b_i");
    program_show(p, out, "t mu i", name(p, "p", l), "gates",
                 "softmax or sigmoid of beta psi, top-K");
    program_show_gradient(p, out, "t mu i", name(p, "gphi", l), "gradient of the gates",
                          "<w o(h_i)>");
    program_show(p, program_numbers(p, &spread, router, out, 1), "t mu",
                 name(p, "router_entropy", l), "entropy of the gates, 1 where all M are equal",
                 "-sum_i q_i ln q_i / ln M, q = p/sum p");
    return out;
}
