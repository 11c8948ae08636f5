/* Section [network] of the ini: what a user says about the network.
 *
 * The rows of keys stand beside what uses them: here those of several networks, in gate.c,
 * router.c and balance.c those of routing, in the file of a network its own. A key that is new to
 * the project adds its row there and its field here. */
#pragma once

#include "kernels/array/backend.h"
#include "kernels/base/key.h"

struct model; /* models/language/program.h */
enum parameterization {
    PARAMETERIZATION_MUP,
    PARAMETERIZATION_MSSP,
    PARAMETERIZATION_SP,
    PARAMETERIZATION_NTP,
    PARAMETERIZATION_SIMP
};
enum gate_kind { GATE_SIGMOID, GATE_SOFTMAX, GATE_CONSTANT };
enum aggregation { AGGREGATION_M, AGGREGATION_K };
enum lambda_in { LAMBDA_IN_1, LAMBDA_IN_KAPPA };
enum expert_output { EXPERT_OUTPUT_LINEAR, EXPERT_OUTPUT_ACTIVATED };
enum read_out { READ_OUT_NORMAL, READ_OUT_ZERO };
enum bias { BIAS_NONE, BIAS_FIXED, BIAS_TRAINED };
enum softmax_over { SOFTMAX_OVER_SELECTED, SOFTMAX_OVER_ALL };
enum bias_per { BIAS_PER_EXPERT, BIAS_PER_TOKEN };
enum pooling { POOLING_DATA, POOLING_MEAN, POOLING_TOKEN };
enum head_limit { HEADS_FIXED, HEADS_MANY };
enum bias_draws { BIAS_NORMAL, BIAS_STRATIFIED };

/* The router, its selection, and what balances the loads of its experts. */
struct routing_settings {
    int gate, aggregation, lambda_in, softmax_over;
    double beta, kappa, rho;
    int bias, bias_draws, bias_per;
    double bias_std, bias_noise;
    struct real_list biases;
    double eta_bias, alpha, q0, router_rate, balance_loss, z_loss;
};

struct expert_settings {
    int count; /* of a fixed number of experts */
    int width, layers, output, activation;
    int many, shared, gated;
    double iota;
};

struct attention_settings {
    int heads, head_limit, head_width, causal, zero_queries;
    double width, beta;
};

/* Blocks that are repeated on a stream. */
struct block_settings {
    int depth, mixture, stream, block_norm, norm, final_norm, pooling;
    double branch, branch_power;
};

/* A network that is written in Lua. */
struct script_settings {
    const char *file;
    const char *text;       /* on one line (script_unfold) */
    struct word_list words; /* its keys, [program] */
};

/* The largest fixed number of experts: each has populations and matrices of its own, and the time
 * to set up a network grows with the square of their number (less than a second for these). */
enum { EXPERTS_MOST = 1000 };
struct network {
    const struct model *model;
    int parameterization, read_out, activation, outputs;
    struct int_list parameterizations; /* as given; `parameterization` is the one of this run */
    struct routing_settings routing;
    struct expert_settings experts;
    struct attention_settings attention;
    struct block_settings block;
    struct script_settings script;
};

#define NETWORK_KEY(field) offsetof(struct network, field)
/* Every row of the section, those of models included; they live as long as the program. */
int network_rows(const struct param_row **rows, size_t *count, struct err *err);
/* The text of a program as it stands in its file, to be freed, from that on one line (\n, \t, \r,
 * \\ and \s, a blank, are one character); NULL: no memory. */
char *script_unfold(const char *folded, size_t *size);
/* For a model's name: NULL if it uses this key, else the keys it uses. */
const char *network_other_keys(const char *name, const char *key);
/* Whether some of these lists of keys have this one, but not the chosen list. */
bool network_only_others(const char *const *lists, int count, int chosen, const char *key);
/* NULL, or why a key that balances experts or bounds logits would do nothing. */
const char *network_check_balance(const struct network *network, const char **key);
/* Whether bases compress in time, and where not (with ReLU or a mask) the settings to blame. */
bool network_compresses(const struct network *network);
const char *network_uncompressed(const struct network *network);
/* Whether the experts of its limit are nodes of a rule: stratified biases, no random router. */
bool network_has_nodes(const struct network *network);
/* Whether these nodes are the experts of the networks, whose number does not grow: those of
 * infinite width, whose units are drawn apart from them. They stay in halves ([solver] halves). */
bool network_keeps_nodes(const struct network *network);
/* The key of a rule that acts once a step of gradient descent, without a gradient; NULL: none. */
const char *network_step_rule(const struct network *network);

/* Whether a number of experts or units that follows from the settings is one: whole, at least 1,
 * and small enough to be counted. */
bool network_whole(double count);
/* NULL, or why a width N (0: the limit) has no whole number iota N of hidden units. */
const char *network_check_iota(const struct network *network, int N, const char **key);
