#include "models/parts/block.h"
#include "models/language/adjoint.h"
#include "models/language/operation.h"

const struct param_row router_rows[] = {
    {"q0", PARAM_REAL, NETWORK_KEY(routing.q0), "-1", -1, 1e3, NULL, "gate=sigmoid|softmax",
     "Standard deviation of the initial entries of the router, in units in which muP has 1. "
     "The default -1 means 0 with mssp and in residual, 1 elsewhere."},
    {"router_rate", PARAM_REAL, NETWORK_KEY(routing.router_rate), "1", 0, 1e3, NULL,
     "gate=sigmoid|softmax", "Factor that multiplies the learning rate of the router."},
    {"bias", PARAM_CHOICE, NETWORK_KEY(routing.bias), "none", 0, 0, "none fixed trained",
     "gate=sigmoid|softmax",
     "Bias that is added to the router logits.\n"
     "  none: no bias\n"
     "  fixed: a bias that keeps its initial value\n"
     "  trained: a bias that learns by gradient descent"},
    {"biases", PARAM_REALS, NETWORK_KEY(routing.biases), "", -1e3, 1e3, NULL, "bias=fixed|trained",
     "Initial biases, one number for each expert (with bias_per = token, for each kind of "
     "token in turn). An empty list draws them with standard deviation bias_std."},
    {"bias_per", PARAM_CHOICE, NETWORK_KEY(routing.bias_per), "expert", 0, 0, "expert token",
     "bias=fixed|trained",
     "Whether the bias of an expert depends on the token.\n"
     "  expert: it does not\n"
     "  token: each expert has a bias for each kind of token"},
    {"bias_std", PARAM_REAL, NETWORK_KEY(routing.bias_std), "1", 0, 1e3, NULL, "bias=fixed|trained",
     "Standard deviation of biases that are drawn: of the router logits, and in residual of the "
     "initial selection biases. The limit and all networks of one seed have the same draws; blocks "
     "of stack and transformer have the same biases as one another."},
    {"bias_noise", PARAM_REAL, NETWORK_KEY(routing.bias_noise), "0", 0, 1e3, NULL,
     "gate=sigmoid|softmax",
     "Standard deviation of normal noise that is added to the router logits anew at every "
     "step. The limit and the networks have the same noise, the same for all inputs and blocks."},
    {0},
};

static double router_amplitude(const struct network *network) {
    if (network->routing.q0 >= 0)
        return network->routing.q0;
    return network->parameterization == PARAMETERIZATION_MSSP ? 0 : 1;
}

/* Whether initial biases leave the K-th and the next largest logit of some input equal. */
static bool biases_tied(const struct network *network, int K) {
    int M = network->experts.count;
    bool tied = !network->routing.bias ||
                (!network->routing.biases.count && network->routing.bias_std == 0);
    for (int k = 0; network->routing.bias && k + M <= network->routing.biases.count; k += M)
        tied |= program_tied(network->routing.biases.value + k, M, K);
    return tied;
}

const char *router_check(const struct network *network, const char **key) {
    int M = network->experts.count, K = (int)lround(network->routing.rho * M);
    const char *idle = network_check_balance(network, key);
    if (idle || network->routing.gate == GATE_CONSTANT)
        return idle;
    *key = "q0";
    if (network->routing.q0 < 0 && network->routing.q0 != -1)
        return "an amplitude must be at least 0; -1 stands for that of the parameterization: 0 for "
               "mssp, else 1";
    *key = "rho";
    if (K < 1 || fabs(network->routing.rho * M - K) > 1e-9)
        return "rho times experts must be a whole number of at least 1";
    *key = "biases";
    if (network->routing.bias && network->routing.biases.count &&
        network->routing.biases.count != M && network->routing.bias_per == BIAS_PER_EXPERT)
        return "biases must be one number per expert, or empty";
    *key = "bias";
    if (K < M && network->routing.bias_noise == 0 && router_amplitude(network) == 0 &&
        biases_tied(network, K))
        return "top-K with a zero initial router needs a bias or noise that tells the last expert "
               "that is selected from the next one: their logits are exactly equal";
    return NULL;
}

/* Normals shared by the limit and all networks of a seed. */
static double shared_normal(const struct net *net, uint32_t owner, int draw, int i) {
    struct rng_stream stream = {.seed = net->setup.seed, .purpose = PURPOSE_BIAS, .owner = owner};
    double pair[2];
    rng_normal_pair(stream, (uint32_t)draw, (uint32_t)i / 2, pair);
    return pair[i % 2];
}

double router_normal(const struct program *p, int i) {
    return shared_normal(program_net(p), 0, 0, i);
}

/* All inputs have the same noise. */
static void add_noise(struct net *net, struct node *v) {
    const double *psi = argument(net, v, 0)->s, std = v->constant.factor;
    for (size_t k = 0; k < node_numbers(v); k++)
        v->s[k] =
            psi[k] +
            (std != 0 ? std * shared_normal(net, 1, net->place.t, (int)(k % (size_t)v->K)) : 0);
}

/* -sum q ln q/ln M of q = p/sum p; no number where all gates are 0 */
static void find_entropy(struct net *net, struct node *v) {
    const struct node *gates = argument(net, v, 0);
    const double *p = gates->s, most = log(gates->K);
    int M = gates->K;
    for (ptrdiff_t mu = 0; mu < v->count; mu++, p += M) {
        double sum = 0, value = 0;
        for (int i = 0; i < M; i++)
            sum += p[i];
        for (int i = 0; i < M; i++)
            value -= p[i] > 0 ? p[i] / sum * log(p[i] / sum) : 0;
        value = sum > 0 ? value / most : NAN;
        v->s[mu] = M > 1 ? value : 1;
    }
}

static OPERATION(noise, .rule_of = "numbers",
                 .constants = CONSTANTS(CONSTANT("std", FIELD_REAL, factor)),
                 .zeros = ZEROS_OF_RULE, .forward = add_noise, .adjoint = adjoint_same,
                 .traits = OP_BY_ROW);
static OPERATION(entropy, .rule_of = "numbers", .shape = operation_gives_one,
                 .zeros = ZEROS_OF_RULE, .forward = find_entropy, .traits = OP_BY_ROW | OP_BARE);

/* --- the rules and the program ---------------------------------------------------------------- */

static struct value add_biases(struct program *p, struct value psi, struct weight b) {
    const struct network *network = program_network(p);
    bool tokens = network->routing.bias_per == BIAS_PER_TOKEN;
    int count = network->experts.count * (tokens ? program_setup(p)->data.V : 1);
    double *start = program_memory(p, (size_t)count * sizeof *start);
    if (network->routing.biases.count && network->routing.biases.count != count &&
        !program_setup(p)->declare_only)
        program_fail(p, "biases must be one number per kind of token and expert, %d, or empty",
                     count);
    for (int i = 0; start && i < count; i++)
        start[i] = network->routing.biases.count && i < REAL_LIST_MAX
                       ? network->routing.biases.value[i]
                       : network->routing.bias_std * router_normal(p, i);
    b.fixed = network->routing.bias == BIAS_FIXED;
    return (tokens ? program_bias_of_tokens : program_bias)(p, psi, start, b);
}

/* Shares of the experts in sums of weights exp(beta psi), or of sigmoids, whose logarithms are
 * -softplus(-beta psi): far below 0 they are 0, and their shares are not. */
static struct value weight_shares(struct program *p, struct value psi, struct router_gate gate) {
    if (!gate.softmax)
        psi = program_times(p, -1, program_fn(p, FN_SOFTPLUS, -gate.beta, psi));
    return router_gates(p, psi, (struct value){-1},
                        (struct router_gate){.softmax = true,
                                             .beta = gate.softmax ? gate.beta : 1,
                                             .K = program_network(p)->experts.count});
}

static void add_penalties(struct program *p, const struct block *block, struct router_gate gate,
                          struct value psi, struct value mask) {
    const struct network *network = program_network(p);
    if (network->routing.balance_loss > 0) {
        struct value load = program_mean_of_rows(p, mask),
                     share = program_mean_of_rows(p, weight_shares(p, psi, gate)),
                     each = program_multiply(p, share, load);
        program_penalty_mean(p, program_word(p, "sum", (struct operands){.x = each}),
                             network->routing.balance_loss / network->routing.rho, false,
                             block_name(p, block, "balance_loss"),
                             "load-balancing term of the loss",
                             "balance_loss sum_i load_i/rho mean share_i");
    }
    if (network->routing.z_loss > 0) {
        struct value logits = program_times(p, gate.beta, psi);
        program_penalty_mean(p, program_word(p, "log_sum_exp", (struct operands){.x = logits}),
                             network->routing.z_loss, true, block_name(p, block, "z_loss"),
                             "z-loss term of the loss",
                             "z_loss mean over inputs of (ln sum_i exp(beta psi_i))^2");
    }
}

struct value router_write(struct program *p, const struct block *block, struct value x1,
                          struct weight Q, struct weight b) {
    const struct network *network = program_network(p);
    int M = network->experts.count;
    int K = (int)lround(network->routing.rho * M);
    struct router_gate gate = {network->routing.gate == GATE_SOFTMAX, network->routing.beta, K,
                               network->routing.softmax_over == SOFTMAX_OVER_ALL, NULL};
    Q.a0 = router_amplitude(network) * weight_or_one(Q.a0);
    Q.zero = Q.a0 == 0;
    Q.rate = network->routing.router_rate * weight_or_one(Q.rate);
    Q.adam_rate = network->routing.router_rate * weight_or_one(Q.adam_rate);
    Q.fixed = network->routing.router_rate == 0;
    struct value psi = program_look(p, x1, M, Q), mask = {-1};
    if (network->routing.bias)
        psi = add_biases(p, psi, b);
    psi = program_rule(p, &operation_noise, psi, NULL);
    node_of(p, psi)->constant.factor = network->routing.bias_noise;
    if (K < M)
        mask = balance_select(p, psi,
                              (struct balance_rule){.K = (size_t)K,
                                                    .rho = network->routing.rho,
                                                    .eta_bias = network->routing.eta_bias,
                                                    .suffix = block_name(p, block, "")});
    struct value out = router_gates(p, psi, mask, gate);
    add_penalties(p, block, gate, psi, mask);
    program_routes(p, out, psi, K < M, block_name(p, block, ""));
    program_show(p, psi, "t mu i", block_name(p, block, "psi"), "router logits, bias included",
                 "<Q_i x1> + b_i");
    program_show(p, out, "t mu i", block_name(p, block, "p"), "gates",
                 "softmax or sigmoid of beta psi, top-K");
    program_show_gradient(p, out, "t mu i", block_name(p, block, "gphi"), "gradient of the gates",
                          "<w o(h_i)>");
    program_show(p, program_rule(p, &operation_entropy, out, NULL), "t mu",
                 block_name(p, block, "router_entropy"),
                 "entropy of the gates, 1 where all M are equal",
                 "-sum_i q_i ln q_i / ln M, q = p/sum p");
    return out;
}
