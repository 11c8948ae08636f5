#include "models/parts/block.h"
#include "models/engine/net.h"

const struct param_row gate_rows[] = {
    {"gate", PARAM_CHOICE, NETWORK_KEY(routing.gate), "sigmoid", 0, 0, "sigmoid softmax constant",
     NULL,
     "Gate function phi(psi) of the router logits psi.\n"
     "  sigmoid: 1/(1 + exp(-beta psi)) of each expert by itself\n"
     "  softmax: the softmax over experts of beta psi\n"
     "  constant: 1 for every expert, without a router"},
    {"beta", PARAM_REAL, NETWORK_KEY(routing.beta), "1", 1e-6, 1e6, NULL, "gate=sigmoid|softmax",
     "Inverse temperature beta of the gate, which is a function of beta psi."},
    {"rho", PARAM_REAL, NETWORK_KEY(routing.rho), "1", 1e-6, 1, NULL, "gate=sigmoid|softmax",
     "Share rho = K/M of the experts that are selected for each input. 1 is soft routing: all "
     "of them."},
    {"aggregation", PARAM_CHOICE, NETWORK_KEY(routing.aggregation), "M", 0, 0, "M K",
     "gate=sigmoid",
     "Number by which the sum over experts is divided.\n"
     "  M: all experts\n"
     "  K: the selected ones, as in the papers' top-K"},
    {0},
};

const char *gate_check(const struct network *network, double experts, const char **key) {
    double K = network->routing.rho * experts;
    *key = "rho";
    if (fabs(K - round(K)) > 1e-9 * experts || K < 0.5)
        return "rho times the number of experts must be a whole number of at least 1";
    return NULL;
}

const char *gate_check_kappa(const struct network *network, int N, int expert_sites,
                             const char **key) {
    double M = N ? network->routing.kappa * N : expert_sites;
    const char *idle = network_check_balance(network, key);
    if (idle)
        return idle;
    *key = "kappa";
    if (!network_whole(M))
        return "kappa times the width must be a whole number of experts, at least 1";
    return network->routing.gate == GATE_CONSTANT ? NULL : gate_check(network, round(M), key);
}

bool gate_is_constant(const struct program *p) {
    return program_network(p)->routing.gate == GATE_CONSTANT;
}

static struct value over_mean(struct program *p, struct value e) {
    return program_scale(p, program_fn(p, FN_INVERSE, 1, program_mean(p, e)), 0, e);
}

/* exp(beta (psi - max psi)), *shift: -max psi. The same number is taken off all logits, which
 * changes no softmax, so that the largest logit may be a constant in the backward pass. */
static struct value shifted_exponential(struct program *p, double beta, struct value psi,
                                        const struct population *experts, struct value *shift) {
    struct value share = program_average(p, psi, program_top(p, psi, 1));
    *shift = program_stop(p, program_times(p, -(double)experts->sites, share));
    return program_fn(p, FN_EXP, beta, program_shift(p, *shift, psi));
}

/* Sigmoids of beta psi up to a common factor. Far below 0 all of them are 0, but their logarithms,
 * -softplus(-beta psi), are not. */
static struct value sigmoids_of_any_size(struct program *p, struct value psi,
                                         const struct population *experts) {
    double beta = program_network(p)->routing.beta;
    struct value shift, softplus = program_fn(p, FN_SOFTPLUS, -beta, psi);
    return shifted_exponential(p, 1, program_times(p, -1, softplus), experts, &shift);
}

/* ln <exp(beta psi)> = ln <exp(beta (psi - max))> + beta max, without overflow. The sum does not
 * depend on the largest logit, so the gradient is right although that is a constant. */
static struct value log_mean(struct program *p, struct value psi,
                             const struct population *experts) {
    double beta = program_network(p)->routing.beta;
    struct value shift, e = shifted_exponential(p, beta, psi, experts, &shift);
    return program_add(p, program_fn(p, FN_LOG, 1, program_mean(p, e)),
                       program_times(p, -beta, shift));
}

/* e: exponentials of softmax gates, without mask or scale. */
static void add_penalties(struct program *p, const struct block *block, struct value psi,
                          const struct population *experts, struct value e, struct value mask) {
    const struct network *network = program_network(p);
    if (network->routing.balance_loss > 0) {
        if (network->routing.gate != GATE_SOFTMAX)
            e = sigmoids_of_any_size(p, psi, experts);
        struct value load = program_mean_of_rows(p, mask),
                     share = program_mean_of_rows(p, over_mean(p, e));
        program_penalty_mean(p, program_average(p, share, load),
                             network->routing.balance_loss / network->routing.rho, false,
                             block_name(p, block, "balance_loss"),
                             "load-balancing term of the loss",
                             "balance_loss <load M share> / rho");
    }
    if (network->routing.z_loss > 0)
        program_penalty_mean(p, log_mean(p, psi, experts), network->routing.z_loss, true,
                             block_name(p, block, "z_loss"), "z-loss term of the loss",
                             "z_loss mean over inputs of (ln <exp(beta psi)>)^2");
}

struct value gate_write(struct program *p, const struct block *block, struct value x1,
                        struct population *experts, struct weight Q, struct value *psi) {
    const struct network *network = program_network(p);
    bool masked = network->routing.rho < 1, softmax = network->routing.gate == GATE_SOFTMAX;
    int l = block->l < 0 ? 0 : block->l, L = block->l < 0 ? 1 : network->block.depth;
    struct balance_rule rule = balance_rule(network, experts, l, L);
    struct value mask = {-1}, e, phi, shift;
    *psi = program_map(p, x1, experts, Q);
    if (masked && network->routing.eta_bias == 0)
        mask = balance_watch(p, program_top(p, *psi, rule.K), rule);
    e = softmax ? shifted_exponential(p, network->routing.beta, *psi, experts, &shift)
                : program_fn(p, FN_SIGMOID, network->routing.beta, *psi);
    if (masked && network->routing.eta_bias != 0)
        mask = balance_select(p, softmax ? *psi : e, rule);
    phi = e;
    if (masked && !(softmax && network->routing.softmax_over == SOFTMAX_OVER_ALL))
        phi = program_multiply(p, mask, phi);
    if (softmax)
        phi = over_mean(p, phi);
    if (masked && softmax && network->routing.softmax_over == SOFTMAX_OVER_ALL)
        phi = program_multiply(p, mask, phi);
    if (!softmax && network->routing.aggregation == AGGREGATION_K)
        phi = program_times(p, 1 / network->routing.rho, phi);
    add_penalties(p, block, *psi, experts, e, mask);
    program_gates(p, phi, *psi,
                  (struct gate_rule){.beta = network->routing.beta,
                                     .share = network->routing.rho,
                                     .by_logits = network->routing.eta_bias == 0,
                                     .sum = softmax,
                                     .over_all = network->routing.softmax_over == SOFTMAX_OVER_ALL,
                                     .most = network->routing.aggregation == AGGREGATION_K
                                                 ? 1 / network->routing.rho
                                                 : 1});
    program_routes(p, phi, *psi, masked, block_name(p, block, ""));
    return phi;
}

struct value gate_apply(struct program *p, struct value phi, struct value x) {
    return gate_is_constant(p) ? x : program_multiply(p, phi, x);
}

void gate_show(struct program *p, const struct block *block, struct gate_mixture mixture,
               double scale, size_t experts) {
    program_name_rows(p, mixture.psi, block_name(p, block, "psi"));
    program_name_rows(p, mixture.phi, block_name(p, block, "phi"));
    program_name_rows(p, mixture.h_in, block_name(p, block, "h_in"));
    program_name_rows(p, mixture.x2, block_name(p, block, "x2"));
    program_name_rows(p, mixture.h3, block_name(p, block, "h3"));
    if (block->l >= 0)
        return;
    program_aggregation(p, mixture.x1, mixture.phi, scale, program_net(p)->gates.rule);
    program_expert(p, mixture.x, experts);
    program_kernel(p, mixture.h3, 1, "Phi3", "feature kernel of the top layer", "<h3 h3>");
    program_read_out_kernel(p, "G3", "gradient kernel of the top layer; w depends on no input",
                            "<w w>");
}

void gate_gradient(struct program *p, struct value psi, const char *name) {
    double kappa = program_network(p)->routing.kappa;
    if (!gate_is_constant(p))
        program_gradient(p, psi, kappa * kappa, name, "gradient kernel of the router logits",
                         "kappa^2 <g_psi g_psi>");
}
