/* What an author of a network needs. A network is a program on populations of sites, written
 * forward; the backward pass, the learning rules, memory, costs and diagnostics are derived from
 * it, for explicit matrices, the infinite-width limit and the fixed point alike. docs/ADDING.md
 * goes through an example.
 *
 * A struct value stands for rows over the sites of a population (one row for each of the P inputs,
 * or one for all of them) or, for each input, K numbers; at = -1 is none. It is computed later, at
 * every evaluation: `write` only lists what is to be done. The first thing that goes wrong is
 * remembered and told once, when the program is complete: no call here needs to be checked.
 *
 * Conventions. <a b> is the average over sites. f = <w, h>/gamma0; F = gamma0 f. The cotangent g of
 * rows h on a population of n sites is n dF/dh, dF = <g dh>: then the adjoint of each operation is
 * its transpose in < >, and no power of a width appears. A matrix W from m to n sites is used as
 * s_f W with W(0) = a0 x (iid N(0, 1/m)). Learning: gradient descent moves the matrix as it is
 * used, s_f W, by
 *     rate c (1/m) sum_mu Delta_mu g_mu x_mu^T,     c = eta0 gamma0/P, Delta = -dl/df
 * (a matrix with one finite side has no 1/m). Adam moves each of these entries, in units of 1/m, by
 * eta0 times its normalised step, of the gradient (1/P) sum_mu Delta_mu g_mu x_mu^T with eps gamma0
 * (read-out: its gradient is h, and eps itself). Section [init] multiplies a0, [rates] the rate and
 * [eps] Adam's eps, each by a factor and a power of the width, for any matrix by its name. */
#pragma once

#include "kernels/draws/population.h"
#include "models/networks/settings.h"

struct program;
struct net;
struct net_setup;
struct node;
struct json_t; /* jansson */
struct value {
    int at;
};

struct model {
    CHOICE_FIELDS; /* keys: of [network], besides model */
    const char *source;
    const char *solver_keys;      /* of [solver], besides those of every network; NULL: none */
    const struct param_row *rows; /* keys that no other network has; ends with NULL */
    /* NULL: always; else NULL, or why the settings do not fit a network of width N (limit: N = 0
     * with these sites), with *key = the key to blame. */
    const char *(*check)(const struct network *network, int N, int expert_sites, const char **key);
    void (*write)(struct program *p);
    /* NULL: none; else NULL, or the key that, as it is set, leaves a key of `keys` without effect.
     * That is then refused, unless it has its default. */
    const char *(*idle)(const struct network *network, const char *key);
};
/* The row of a network of this project by its fields; its list calls it model_NAME. */
#define MODEL(called, ...) const struct model model_##called = {.name = #called, __VA_ARGS__}
enum { MODEL_MOST = 40 };
/* Ends with NULL. Changed by network_add alone. */
extern const struct model *model_list[MODEL_MOST + 1];
/* One more network, before the rows of section [network] were asked for; *model stays where it is.
 * CODE_INPUT: it is too late, or the name is taken or is none. */
int network_add(const struct model *model, struct err *err);
extern const struct param_row gate_rows[], router_rows[], balance_rows[], attention_rows[];

enum { WEIGHT_STAYS = -1 };
/* A matrix. Numbers left at 0 are 1. */
struct weight {
    const char *name;   /* for settings, output and messages */
    const char *label;  /* NULL, or what its author calls it, of any length; it is never freed */
    const char *family; /* NULL, or the name of what it is one of in the coordinate check */
    double a0, s_f, rate;
    double adam_rate, adam_eps; /* factors of Adam's rate and eps that a paper asks for */
    double muon_rate;           /* factor of Muon's rate; 0: that of Adam's */
    bool zero;                  /* W(0) = 0 */
    bool fixed;                 /* never learns */
    /* The part of [training] weight_decay that acts on it, WEIGHT_STAYS for none. Left at 0 it is 1
     * of a matrix, and none of vectors and numbers. */
    double decays;
    /* Draws of a thin matrix that are matched with nothing. Of a look: its limit is a random one,
     * as if a selection began with ties (program_selects). */
    bool iid;
    bool tied; /* all maps, or embeddings and looks, that have this name are one matrix */
    /* NULL, or the name of the matrix of all attention heads: this map is a part of it, that of one
     * head, or leads to or from heads of few units. [training] muon_heads says whether Muon moves
     * the part of each head or all parts together (heads.c). */
    const char *heads_of;
};

static inline double weight_or_one(double number) {
    return number == 0 ? 1 : number;
}

const struct network *program_network(const struct program *p);
const struct net_setup *program_setup(const struct program *p); /* models/engine/net.h */
const struct net *program_net(const struct program *p);
/* A name made as by printf; it lives as long as the program. */
const char *program_name(struct program *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void program_fail(struct program *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A failure where inputs have weights, which `what` does not know: it counts every input once. */
void program_count_inputs_once(struct program *p, const char *what);
/* Memory of `size` bytes that lives as long as the net, zeroed; NULL after a failure. */
void *program_memory(struct program *p, size_t size);
/* Rows of a value, or sets of its numbers: one for each input, token or pair of tokens, or one for
 * all; 0 after a failure. */
int program_count(const struct program *p, struct value x);

/* `relative` is the size in units of the width N (or, times another size, of N^2); `sites` of the
 * limit; group: units for each site of another population, which the author sets as ->of. */
struct population *program_population(struct program *p, const char *name, double relative,
                                      size_t sites, int group);
/* [solver] sites; in a limit whose selections begin with ties (program_selects), times the size. */
size_t program_sites(const struct program *p, double relative);
/* This population has that many sites, none of them grouped. */
struct population *program_layer(struct program *p, const char *name, double relative);

/* Names the rows of a value for [output] fields: `name`, and g_`name` of their cotangent. Others
 * have the name of the matrix that makes them, sigma_NAME for a function of rows NAME, or none. */
void program_name_rows(struct program *p, struct value x, const char *name);
/* The symbol of these rows in TeX, for generated equations; without it one is made of the name. */
void program_rows_tex(struct program *p, struct value x, const char *tex);

/* Whether settings for matrix `given` are for this one: W1 for W1, W1_0 and W1_0_2. */
bool program_addresses(const char *given, const char *name);
/* Whether a list (or NULL), with blanks or tabs between its words, has one for this matrix. */
bool program_lists(const char *list, const char *name);

/* --- rows ------------------------------------------------------------------------------------ */

struct value program_read_in(struct program *p, struct population *bottom, struct weight W);
/* Numbers first to last, from 1, of each input or token: of tokens V, each 1 where the token is of
 * this kind, and n, each 1 where it stands at this place. */
struct value program_input(struct program *p, int first, int last);
/* Rows sum_k s_k E_k of K numbers s, with a trained vector E_k for each of them; it learns as a
 * read-in does. Where E is tied, other embeddings, looks and the read-out may share the vectors. */
struct value program_embed(struct program *p, struct value s, struct population *on,
                           struct weight E);
struct value program_map(struct program *p, struct value x, struct population *target,
                         struct weight W); /* s_f W x */
/* A trained vector: one number at each site, the same in all rows, of which an input has as many as
 * `like` (none: one for each token). At the start each is a0 s_f times *start, or (NULL) times a
 * normal. It learns as a read-in of the number 1 does: v_i += rate c sum_mu Delta_mu g_mu,i. */
struct value program_vector(struct program *p, struct population *on, struct value like,
                            const double *start, struct weight v);
struct value program_fn(struct program *p, enum fn fn, double k, struct value x); /* fn(k x) */
struct value program_sigma(struct program *p, struct value x); /* [network] activation */
/* [network] expert_activation, or that. */
struct value program_sigma_of_experts(struct program *p, struct value x);
struct value program_add(struct program *p, struct value a, struct value b);
struct value program_times(struct program *p, double k, struct value x);
/* These are the rows x, constant in the backward pass. */
struct value program_stop(struct program *p, struct value x);
/* a b, site by site; a may live on the groups that the sites of b belong to; b may have one row. */
struct value program_multiply(struct program *p, struct value a, struct value b);
struct value program_expand(struct program *p, struct value x, struct population *units);
/* What a word that is an operation by its row is given: values, the population p, constants in the
 * order of its arguments. */
enum { OPERANDS_CONSTANTS = 4 };
struct operands {
    struct value x, y;
    struct population *on;
    double constant[OPERANDS_CONSTANTS];
};
/* The word `name` of docs/programs.md, one of these: group_mean, tile, tile_mean, noise, lag,
 * sum, log_sum_exp, top_rows, first_rows. */
struct value program_word(struct program *p, const char *name, struct operands given);
/* 1 on the K largest sites of each row, or numbers, ties to the lower; constant backward. */
struct value program_top(struct program *p, struct value x, size_t K);
/* One row of ones. */
struct value program_ones(struct program *p, struct population *on);
/* Rows that never change, the same for all inputs: values [n][group] of the tokens at the sites of
 * a group, or [n][sites] where there are no groups. They live as long as the program. */
struct value program_constant(struct program *p, struct population *on, const double *values);

/* --- numbers --------------------------------------------------------------------------------- */

struct value program_average(struct program *p, struct value a, struct value b); /* <a b> */
struct value program_mean(struct program *p, struct value a);                    /* <a> */
struct value program_scale(struct program *p, struct value s, int column, struct value x);
/* x + s, the same number at each site. */
struct value program_shift(struct program *p, struct value s, struct value x);
/* <Q_k, x>, K of them. In a limit, unless it is a random one, their values at the first evaluation
 * are subtracted: they are 0 but for sampling errors. */
struct value program_look(struct program *p, struct value x, int K, struct weight Q);
/* K trained numbers b (or fixed ones), the same for all inputs, at first a0 s_f times `start`; an
 * input has as many rows of them as `like` has (none: one for each token). */
struct value program_trained(struct program *p, struct value like, int K, const double *start,
                             struct weight b);
/* s + b, with K such numbers. */
struct value program_bias(struct program *p, struct value s, const double *start, struct weight b);
/* Here each kind of token has a set of numbers, start [V][K]. */
struct value program_bias_of_tokens(struct program *p, struct value s, const double *start,
                                    struct weight b);
/* A constant of an operation: its name in the description of a network (docs/program_format.md),
 * and where it lies in struct node_constant, or in the context of the node. Lists of constants end
 * without a name. */
enum field_type { FIELD_REAL, FIELD_INT, FIELD_SIZE, FIELD_BOOL, FIELD_FUNCTION, FIELD_LIST };
struct constant_field {
    const char *name;
    enum field_type type;
    size_t offset;
    double least, most; /* that a script may give */
    /* FIELD_LIST: makes it. Where it gives null, the constant is left out; NULL without memory. */
    struct json_t *(*list)(const struct node *node);
};
#define CONSTANT_OF(holder, label, kind, member)                                                   \
    { .name = label, .type = kind, .offset = offsetof(holder, member) }
/* s + c and s^c of each of the numbers s. */
struct value program_plus(struct program *p, struct value s, double c);
struct value program_power(struct program *p, struct value s, double c);

/* To be told by whatever takes the K largest of the numbers s, as a constant in the backward pass.
 * Where the K-th and the one after it are equal at the start of the limit, fluctuations select, and
 * the limit is a random one (models/language/ties.c). */
void program_selects(struct program *p, struct value s, int K);
/* Tells it of what takes, for each number, C of the tokens of an input: those where it is largest,
 * or (above) some of those where it is above 0. */
void program_selects_rows(struct program *p, struct value s, int C, bool above);
/* Tells it of a function that has a kink where a number is 0. */
void program_bends(struct program *p, struct value s);
/* Whether the K-th largest of M numbers is equal to the one after it. */
bool program_tied(const double *x, int M, int K);
/* To be told by whatever makes gates of numbers: a softmax or sigmoids of beta s, 0 but for the K
 * largest; and by what multiplies averages on their way into such a function. Networks have the
 * limit's gates only at widths that are large against the square of the factor (struct net). */
void program_steep_gates(struct program *p, struct value s, double beta, bool softmax, int K);
void program_steep(struct program *p, double factor);

/* Number `column` of them, from 0; and all numbers of a and b, side by side. */
struct value program_pick(struct program *p, struct value s, int column);
struct value program_join(struct program *p, struct value a, struct value b);

/* --- tokens: the n rows of an input side by side --------------------------------------------- */

/* Logits beta <q_s k_t> of the tokens s and t of an input: numbers [R][n], or (heads) rows on a
 * population of heads, n^2 of an input, whose averages are over the units of a head; their softmax
 * over t, over t <= s if causal; and rows sum_t A_st v_t, or numbers v, with weights of a kind. */
struct value program_attend(struct program *p, struct value q, struct value k, double beta,
                            struct population *heads);
struct value program_softmax(struct program *p, struct value logits, bool causal);
struct value program_mix(struct program *p, struct value A, struct value v);
/* Rows sum_t S_st x_t of places s, from the rows of an input: S [places][from] is a constant that
 * lives as long as the program, of finite entries that are not all 0; 1 <= places <= n, and `from`
 * the number of rows of x for each input. Shifts, strides and pooling, which convolutions are made
 * of. Between places there are maps, functions, sums, products, pooling, lags and choices;
 * attention is between tokens. */
struct value program_mix_places(struct program *p, struct value x, int places, int from,
                                const double *S);
/* The mean over the tokens or places of an input: one row of it. */
struct value program_pool(struct program *p, struct value x);
/* x/sqrt<x x> */
struct value program_norm(struct program *p, struct value x);

/* --- ends ------------------------------------------------------------------------------------ */

/* C numbers <w_c, h>/gamma0, once in a program, less what they are at the first evaluation where
 * outputs are centred; tokens are pooled first where outputs are of inputs. They are the output f,
 * unless the author makes others of them the output: with a bias, say, or below a cap. */
struct value program_read_out(struct program *p, struct value h, struct weight w);
void program_output(struct program *p, struct value s);

/* `count` rows on the population of x, or of as many numbers as x has, that stay from step to step;
 * the numbers `start` [sites] are those of row 0. */
struct rows program_keep(struct program *p, struct value x, int count, const double *start);

/* A term of the loss: c times the mean over rows of the sum of the numbers s, or of the sum of
 * their squares. It is measured as `name`; the loss that is written is of the outputs alone. */
void program_penalty_mean(struct program *p, struct value s, double c, bool square,
                          const char *name, const char *about, const char *equation);
/* The mean over all rows, or all numbers of inputs: one row, or K numbers, which go with their like
 * into terms of the loss, and not into the output. */
struct value program_mean_of_rows(struct program *p, struct value x);
/* --- what is measured ------------------------------------------------------------------------ */

/* scale times <x x> of a value, or of its cotangent, over times and inputs. for_all_inputs: the
 * rows carry no input index. */
void program_kernel(struct program *p, struct value x, double scale, const char *name,
                    const char *about, const char *equation);
void program_gradient(struct program *p, struct value x, double scale, const char *name,
                      const char *about, const char *equation);
/* The read-out's own kernel <w w>. */
void program_read_out_kernel(struct program *p, const char *name, const char *about,
                             const char *equation);
/* Numbers of a value, or their cotangent, at every time; dims is "t mu", "t mu i" or "t mu source",
 * to which an axis of tokens is added where they have one. */
void program_show(struct program *p, struct value s, const char *dims, const char *name,
                  const char *about, const char *equation);
void program_show_gradient(struct program *p, struct value s, const char *dims, const char *name,
                           const char *about, const char *equation);
/* Where number `index` of `count` like ones (of blocks, say) is written at every time; dims is "t
 * l", or "t" for a single one. */
double *program_series(struct program *p, const char *dims, int count, int index, const char *name,
                       const char *about, const char *equation);
/* program_series of a number that is counted, such as a load: where all runs agree, nobody knows
 * its error. */
double *program_counted(struct program *p, const char *dims, int count, int index, const char *name,
                        const char *about, const char *equation);
/* This series is of numbers of the rows of x: [P per], per of them for each input. The axes are t,
 * l and mu, and token (of fewer rows, place) where an input has several. */
double *program_series_of(struct program *p, struct value x, int count, int index, const char *name,
                          const char *about, const char *equation);
/* out [P] = <x>, or <x x> (power 2), of rows or of their cotangent. */
void program_measure(struct program *p, struct value x, bool gradient, int power, double *out);
/* Gates phi of many experts and their logits psi (none: at -1), for the series about gates. */
struct gate_rule {
    double beta, share; /* of the experts that is routed to, phi > 0 */
    bool by_logits;     /* those of the largest logits */
    bool sum, over_all; /* phi is divided by <m exp(beta psi)>; m of these, or of all experts */
    double most;        /* else phi/most is a sigmoid of beta psi, or 0 */
};
void program_gates(struct program *p, struct value phi, struct value psi, struct gate_rule rule);
/* For the coordinate check, experts of one hidden layer between x1 and the read-out, which apart
 * from their activation and the gates phi (none: at -1) is linear:
 *     h3 = agg sum_i phi_i W3_i s2_i     s2_i = sigma(W2_i x1)     agg = 1, or 1/M where M grows
 * scale: of W3^T w as a cotangent of s2, to the papers' normalisation; rule: of the gates, which
 * program_routes tells of. Then each s2, with the number of experts that it is of, side by side. */
void program_aggregation(struct program *p, struct value x1, struct value phi, double scale,
                         struct gate_rule rule);
void program_expert(struct program *p, struct value s2, size_t experts);
/* Tells [output] experts of each router: rows over many experts, or numbers of a fixed number,
 * which scale what single experts make (program_scale); selects: a gate may be exactly 0. suffix:
 * that of the names of its series. */
void program_routes(struct program *p, struct value phi, struct value psi, bool selects,
                    const char *suffix);
