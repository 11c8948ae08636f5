/* Blocks: what networks repeat. The mixtures of experts of the three regimes are blocks, from rows
 * x on one population to rows on another, or the same; a network of one of them has it alone. */
#pragma once

#include "models/language/program.h"

struct block {
    int l;       /* its number, in all names: W_in_0, ...; -1: the only one, names without number */
    double b;    /* what its output is multiplied by where it is added to a stream; else 1 */
    double rate; /* of its matrices: 1/(L b^2), so that L blocks move a stream as one does; or 1 */
};
extern const struct model model_regime1, model_regime2, model_regime3;
/* Block l of `depth` = L ones that are added to a stream with b = L^-branch_power. */
struct block block_of_stream(const struct program *p, int l);
/* Names rows h of the stream before block l, or behind the last one, and measures their kernels. */
void block_stream_kernels(struct program *p, int l, struct value h);
/* NAME, or NAME_l. */
const char *block_name(struct program *p, const struct block *block, const char *name);
/* Multiplies rates by that of the block (Adam's: 1/(L b), eps by b), and names by its number; the
 * list ends with NULL. */
void block_weights(struct program *p, const struct block *block, struct weight *const *weights);

/* A matrix of a block in the parameterization of a regime, by the name of its row there. */
struct weight block_weight(struct program *p, const struct block *block, int regime,
                           const char *row);
/* W x with matrix NAME_l, or (i >= 0) NAME_l_i, one of several. */
struct value block_map(struct program *p, const struct block *block, const char *name, int i,
                       struct value x, struct population *to, struct weight W);

/* The mixture of each regime: rows x to rows on `top`; NULL: a new population. */
typedef struct value block_write(struct program *p, const struct block *block, struct value x,
                                 struct population *top);
block_write regime1_block, regime2_block, regime3_block;
/* A network of one mixture, in the parameterization of its regime, with the kernels of the bottom:
 *     h1 = W1 x/sqrt D    x1 = sigma(h1)    f = <w, mixture(x1)>/gamma0 */
void block_network(struct program *p, int regime, block_write *mixture);

/* --- parameterizations as the papers tabulate them ------------------------------------------- */

/* Tables of the mixtures of experts. */
enum { PARAMETERIZATION_REGIME1, PARAMETERIZATION_REGIME2, PARAMETERIZATION_REGIME3 };

/* Multiplies the numbers of these weights (the list ends with NULL), which are those of MSSP (of
 * regime 1: muP), by what the parameterization of this network has in the rows of their names. */
void parameterization_scale(const struct program *p, int regime, struct weight *const *weights);

/* NULL, or why a regime has no such parameterization. */
const char *parameterization_check(const struct network *network, int regime, const char **key);

/* --- parts of single networks ---------------------------------------------------------------- */

/* NULL, or why settings do not fit width N (0: the limit): units of heads, or shared experts. */
const char *attention_check(const struct network *network, int N, const char **key);
const char *experts_check(const struct network *network, int N, const char **key);
/* Rows y of the stream, one for each token, to rows of the stream: attention, whose weights and
 * logits that are numbers are measured, and a fixed number of experts of one hidden layer. */
struct value attention_write(struct program *p, const struct block *block, struct value y,
                             struct population *stream);
struct value experts_write(struct program *p, const struct block *block, struct value y,
                           struct population *stream);
/* Experts of a block of residual and their units, at width N; false: they are no whole numbers. */
bool residual_shape(const struct network *network, int N, double *E, double *N_e);

/* Biased top-K selection that balances the loads of experts, without an auxiliary loss: of many,
 * whose scores are rows, or of a fixed number E.
 *
 *     m_k = 1 for the K = rho E largest c_k + b_k of each input (ties to the lower site)
 *     b_k -= eta_bias (mean_mu m_k - rho)        after each step: no gradient, no gamma0
 *     b_k -= eta_bias sign(mean_mu m_k - rho)    the same by the sign rule
 *
 * The bias acts in the selection only; the mask is a constant in the backward pass. */

/* b_k(0) of E experts of block l, values [E]: bias_std times normals (of the setup's number), or
 * the stratified quantiles Phi^{-1}((k + 1/2)/E). */
void balance_biases(const struct net_setup *setup, int l, int E, double *values);

/* Loads are multiples of one over the number of inputs; closer to their share than this they have
 * it, and round-off is all that differs: the sign rule moves no bias then. Over sites of single
 * precision a count, one over the number and the share are rounded by 2^-24 each. */
#define BALANCE_EVEN 1e-9
#define BALANCE_EVEN_SINGLE 2.5e-7
/* A share rho of the experts, K of them; b starts at `start` [sites] (NULL: 0). Block l of L, or a
 * suffix, tells what is measured from what others of the network measure. */
struct balance_rule {
    size_t K;
    double rho, eta_bias;
    bool sign; /* the sign rule */
    const double *start;
    int l, L;
    const char *suffix; /* NULL: none */
};
struct balance_rule balance_rule(const struct network *network, const struct population *experts,
                                 int l, int L);
/* The mask of the K largest scores + b; b moves by eta_bias, and numbers have none where that is 0.
 * Thresholds and biases of rows are measured, and what balance_watch measures. */
struct value balance_select(struct program *p, struct value scores, struct balance_rule rule);
/* A mask as it is; its loads (of rows their spread), the largest and flips are measured. */
struct value balance_watch(struct program *p, struct value mask, struct balance_rule rule);

/* Gates c = m sig(psi) over the experts of block l of `depth`, m = 1 for rho = 1; psi = R h. Logits
 * and gradients are measured; for rho < 1 also thresholds, loads and biases. */
struct value balance_write(struct program *p, struct value h, struct population *experts,
                           struct weight R, int l);

/* A router over a fixed number M of experts: logits and gates are numbers, [P][M], not sites.
 *
 *     psi_i = <Q_i, x1> + b_i (+ noise)      p = softmax(beta psi) | sig(beta psi) | 1
 *
 * Top-K: p = 0 but for the K = rho M largest logits, ties to the lower index; the mask is a
 * constant in the backward pass. Q(0) has amplitude q0; in the limit psi(0) = b.
 *
 * Top-K without bias or noise, or with biases that are equal across the K-th place: fluctuations
 * decide the first selections, and the limit is a random one (models/language/ties.c). */

/* NULL, or why the settings, a constant gate among them, do not fit M = experts. */
const char *router_check(const struct network *network, const char **key);
/* p, M numbers; Q is q0 times as large and learns router_rate times as fast as its weight says.
 * The block names what is measured. */
struct value router_write(struct program *p, const struct block *block, struct value x1,
                          struct weight Q, struct weight b);

/* softmax(beta psi) or sig(beta psi) of the numbers psi, 0 but for the K largest: where the mask
 * (none where all have gates) is 1. */
struct router_gate {
    bool softmax;
    double beta;
    int K;
    bool over_all;  /* of softmax: before the mask is taken */
    double *shares; /* scratch of the gates: as many as there are */
};
struct value router_gates(struct program *p, struct value psi, struct value mask,
                          struct router_gate gate);
/* Normals shared by the limit and all networks of a seed, i >= 0. */
double router_normal(const struct program *p, int i);

/* Gates of a mixture of many experts: phi(psi), normalised to be of order one (M times the
 * papers').
 *
 *     softmax   phi = m exp(beta psi)/E[m exp(beta psi)]
 *     sigmoid   phi = m sig(beta psi)/share
 *     constant  phi = 1, and no router
 *
 * E is the average over experts; share = 1 (aggregation M) or rho (aggregation K); m = 1, or the
 * mask of the rho x sites largest logits of each input, a constant in the backward pass. */

/* NULL, or why rho does not fit a number of experts. */
const char *gate_check(const struct network *network, double experts, const char **key);
/* Asks gate_check, and whether there is a whole number M = kappa N of experts. */
const char *gate_check_kappa(const struct network *network, int N, int expert_sites,
                             const char **key);
bool gate_is_constant(const struct program *p);
/* phi over the experts, and *psi, the logits: what the router Q makes of x1. Not to be called for a
 * constant gate (gate_is_constant). */
struct value gate_write(struct program *p, const struct block *block, struct value x1,
                        struct population *experts, struct weight Q, struct value *psi);
/* A mixture of many experts, from rows x1 to rows h3: logits and gates (none: at -1), rows of the
 * units before and after sigma, times the gates. */
struct gate_mixture {
    struct value x1, psi, phi, h_in, x, x2, h3;
};
/* Names of these rows; where the block is the whole network, also kernels of the top, and what the
 * coordinate check asks for: the scale of program_aggregation, and how many experts there are. */
void gate_show(struct program *p, const struct block *block, struct gate_mixture mixture,
               double scale, size_t experts);
/* The gradient kernel of the logits of kappa N experts; none for a constant gate. */
void gate_gradient(struct program *p, struct value psi, const char *name);
/* phi x over the units of the experts; x alone if the gate is constant. */
struct value gate_apply(struct program *p, struct value phi, struct value x);
