/* The container that holds one instance of a network: its populations, maps, thin matrices, the
 * program that it is run from, and how its parameters are moved.
 *
 * A model never knows whether its maps are explicit matrices or limit maps, nor where its rows
 * live (models/language/program.h). Time: everything is measured before the update of its step, and
 * updates take all they need from kept evaluations, so their order is free. */
#pragma once

#include "kernels/array/companions.h"
#include "kernels/maps/field.h"
#include "kernels/maps/thin.h"
#include "models/engine/data_shape.h"
#include "models/engine/loss.h"
#include "models/engine/optimizer.h"
#include "models/language/program.h"

#define NET_NAME 24               /* room for a name that settings can ask for */
enum { KERNEL_OF_READ_OUT = -2 }; /* in the place of a node: of its columns */
/* A kernel that a model measures: the site average of products of two of its rows, times scale. */
struct kernel {
    char name[NET_NAME + 2];              /* or K_ and the name of its rows */
    const char *about, *equation, *label; /* label: NULL, or what its author calls it */
    struct rows rows;
    double scale;        /* with that of the cotangents of its population */
    bool for_all_inputs; /* carries no input index */
    int node;            /* whose rows, or KERNEL_OF_READ_OUT */
    bool gradient;       /* its cotangent */
    bool as_it_is; /* with as many rows as it has: for_all_inputs, where one serves all inputs */
};

/* Rows asked for by name (named.c): a value, or its cotangent; times scale it is the page's. */
struct named_rows {
    char name[NET_NAME];
    int node;
    bool gradient, for_all_inputs; /* for_all_inputs: carries no input index (columns: outputs) */
    const struct population *on;
    struct rows rows;
    double scale;
};

/* Host numbers that a model measures, [shape 0][shape 1][shape 2] at each time. */
struct numbers {
    char name[24];
    const char *dims, *about, *equation, *label; /* dims begins with t, e.g. "t mu k" */
    double *values;
    int axes, shape[3];
    bool gradient; /* cotangents of numbers */
    int node;      /* whose they are; -1: of none */
    bool counted;  /* such as a load (program_counted) */
};

/* A router that the network has told of (program_routes): gates phi, and logits psi if they are
 * known, rows over many experts or M numbers of each input. expert [nodes] (a fixed number): the
 * expert that a node belongs to, which lies between what all experts read and where they are added
 * up, or -1; output [M]: the last node of each, whose rows are on one population, or NULL. */
struct net_router {
    const char *suffix; /* of names: "", or _l of block l */
    int phi, psi;       /* nodes; psi -1: not known */
    int M;              /* of a fixed number; 0: as many as sites */
    bool selects;       /* a gate may be exactly 0 */
    int *expert, *output;
};

/* The infinite-width limit of an instance; a finite network leaves it at 0. */
struct limit_setup {
    int sites, expert_sites; /* Monte Carlo sites of a population, and of experts */
    int unit_sites;          /* of each expert of infinite width */
    int half_number;         /* 0: the whole; 1, 2: which half of its sites this is */
    bool beside_halves;      /* the whole, computed beside its two halves */
    double tolerance;        /* of the bases of limit maps, relative */
    bool sobol;              /* normals begin as scrambled Sobol points */
    bool balanced, centre;
};

/* The inputs of an instance: how many there are, and what they look like. */
struct data_setup {
    DATA_SHAPE;           /* n, C: 0 is 1 */
    int P, K;             /* inputs of an evaluation; directions of their rows */
    int inputs;           /* of the training set; 0: P */
    int test_directions;  /* of test inputs, those that are not among the K */
    const int *token;     /* NULL, or [inputs + tests][n] numbers of tokens, each below V */
    const double *weight; /* [inputs + tests], mean 1 over either; NULL: each counts once */
    /* [inputs + tests][n][K + test_directions] coordinates (thin_coordinates); Adam: X/sqrt(D) */
    const double *A;
    /* Instead of A, where rows are tokens: [V + n][K + test_directions] of a token and (D > V) of a
     * place, whose sum is the row. */
    const double *table, *X; /* X [inputs + tests][n][D], the numbers themselves; not of tokens */
};

/* What is to be measured beside the kernels of the model. */
struct measure_setup {
    double shift, shift_of_jumps; /* by which a limit moves fields, or 0; where sites jump */
    /* Blank-separated names, or NULL: of rows whose distribution over sites is written, of which
     * kernels between experts are, and which have kernels beside those of the model. */
    const char *fields_of, *cross_of, *kernels_of;
    const char *singular_of; /* the same, of matrices whose W(0) stays, or its normals in a limit */
    bool router;             /* the logits of many experts stay */
    bool experts;            /* what routers and their experts write stays */
    bool no_inputs;          /* what a network shows of single inputs is read by nobody */
    int test_every;          /* measured times from one prediction of the test inputs to the next */
    bool check; /* the coordinate check: what matrices read and write stays, and W(0) */
    bool apart; /* gradients are found apart: what backward passes read stays (apart.h) */
};

/* What an instance must know of the training. */
struct training_setup {
    int stages;                        /* evaluations that the integrator keeps; for net_bytes */
    const struct optimizer *optimizer; /* NULL: plain gradient descent */
    /* What an optimizer of matrices leaves to another one: all that is no matrix, and these. */
    const struct optimizer *rest_optimizer;
    const char *rest;            /* blank-separated names; NULL: none */
    bool each_expert, each_head; /* takes the part of each expert, or head, for a matrix */
    double read_in;              /* Adam: factor of rate and eps of the read-in */
    double weight_decay;         /* the share of the weights that a step takes at most */
};

/* What an instance is made from. */
struct net_setup {
    const struct network *network;
    const struct model *model;                             /* NULL: that of the settings */
    const struct factor_list *init, *rates, *eps, *decays; /* of matrices; NULL: none */
    const struct backend *backend;
    int N; /* width of a finite network; 0: the limit */
    uint64_t seed;
    int replicate;
    double gamma0;
    struct limit_setup limit;
    struct data_setup data;
    struct measure_setup measure;
    struct training_setup training;
    /* NULL, or: classical mean-field theory, by field maps on this window
     * (integrators/fixed_point.h) */
    const struct field_settings *field;
    int sweep;         /* which draws; 0 unless these are renewed */
    bool declare_only; /* see net_declare */
    struct stop stop;  /* what ends an evaluation that is under way */
};

/* What is kept of an evaluation for a thin matrix or host numbers; maps keep their own. */
struct kept {
    struct array y;
    double *A;
};

/* Multipliers of Adam's rate and eps, for gradients (1/P) sum_mu Delta_mu y_mu x_mu^T (of a thin
 * matrix y A^T, of host numbers A; without Delta where rows carry it: net_output,
 * loss_in_cotangent). */
struct adam_scale {
    double rate, eps;
};

/* What the integrator moves, with the rate that multiplies c Delta_mu: a map or a thin matrix (with
 * its coefficients A [rows][K]), which learn with the rows y (as many, or one), or K host numbers,
 * which move by the sum over rows of A [rows][K]. */
struct parameter {
    const char *name, *label; /* of its matrix (struct weight) */
    const char *whole; /* NULL, or the matrix that all with this name are moved as (heads.c) */
    struct map *map;
    struct thin *thin;
    double *host;
    const double *A;
    int K, rows; /* of host; in x and A, of a matrix with several uses those of all of them */
    double rate, muon_rate; /* muon_rate: of Muon, as adam.rate is of Adam */
    struct adam_scale adam;
    struct rows y;
    int node; /* of the program: whose cotangent y or A is, or, of what is read, whose rows */
    struct kept kept[MAP_STAGES];
    struct array moment[2]; /* velocity; or first and second moment */
    double *host_moment;    /* [2][K] */
};

/* What a pass over the time window changes: rows of sites, or K host numbers, and their start. */
struct kept_state {
    struct rows rows, rows_start;
    double *host, *host_start;
    size_t K;
};

/* Host numbers that belong to an evaluation. */
struct vector {
    double *values;
    size_t length;
};

/* A matrix of the program, as settings may address it. */
struct matrix {
    const char *name, *label;
    bool fixed, zero, decays; /* never learns; starts at 0; has weight decay */
};

/* What is subtracted from an evaluation: values of each input at W(0), [K] with all its rows. */
struct origin {
    double *now, *all; /* [P][K], [inputs + tests][K] */
    int K;
};

/* The inputs of the present evaluation. */
struct net_batch {
    int rows;           /* of an evaluation: R = P n, the tokens of an input side by side */
    int output_rows;    /* rows of f: R, or P */
    int *index;         /* [P] inputs of the next evaluation; at first 0 ... P - 1 */
    double *A, *A_rest; /* [R][K], [R][test_directions] of the last one */
    int *token;         /* [R] of the last one; NULL without */
    bool predicting;    /* inputs that leave no trace: net_predict */
    bool started;       /* the first evaluation has found the origins of its inputs */
};

/* The gates of a router over many experts, and what kind of limit selections make. */
struct net_gates {
    struct rows rows;   /* of many experts; none without such a router */
    struct rows logits; /* of it, if setup.measure.router */
    struct gate_rule rule;
    bool present;
    bool condenses; /* a few experts may come to carry all averages: gates are exponentials */
    /* A selection begins with a tie (program_selects); and so the limit is a random one, whose
     * outputs differ from draw to draw. */
    bool tied, random;
    /* The largest factor by which a fluctuation of order N^-1/2 of an average of a limit is
     * multiplied on its way into gates or attention weights (program_steep). */
    double steep;
};

/* Outputs and loss of the last evaluation. */
struct net_output {
    /* [output_rows][C], among the vectors: the numbers of the node program.output; -w dl/df */
    double *f, *Delta;
    double *ones;      /* [R n] */
    double loss;       /* of the outputs alone, mean over the rows of f */
    double penalty;    /* what the network adds to it */
    double loss_scale; /* largest of 1, the first loss, and, then and beyond it, that of f = 0 */
    /* With several outputs, tokens or penalties, the backward pass starts from sum_c Delta_c w_c,
     * and learning carries 1 instead of Delta: rows are as many as inputs, whatever C is. */
    bool loss_in_cotangent;
    const struct term *term; /* NULL, or what alone a backward pass begins from (apart.h) */
};

/* Where the parameters are, from where they were committed last (net_place). */
struct net_progress {
    int t;                     /* steps so far; of an adaptive integrator, measured times */
    double weight[MAP_STAGES]; /* of the kept evaluations, in the way from W_n */
    double *stage_Delta;       /* [MAP_STAGES][P]: Delta of these; with loss_in_cotangent 1 */
    bool holds;                /* what net_keep was told of stage 0 */
    double step;               /* of an adaptive integrator, the next to try; 0 at first */
    double step_error;         /* of f, added up over fixed steps that estimate it (flow.c) */
    double *order_difference;  /* [output_rows][C] of f, between the two orders of the last one */
    bool has_step_rule;        /* a script has a rule that acts once a step: there is no flow */
};

/* A list of things of one type, which base_grow and program_grow make longer at its NET_END. */
#define NET_LIST(type)                                                                             \
    struct {                                                                                       \
        type *item;                                                                                \
        int count;                                                                                 \
    }
#define NET_END(list) &(list).item, &(list).count, sizeof *(list).item

struct net {
    const struct model *model;
    struct net_setup setup;
    struct companions companions; /* of rows, for responses: setup.backend is theirs */
    struct program *program;
    /* NULL, or called behind the forward pass: it asks a device for what comes with the rest. */
    int (*ask)(void *asks_for, const struct net *net, struct err *err);
    void *asks_for;
    NET_LIST(struct population *) populations;
    NET_LIST(struct map *) maps;
    NET_LIST(struct thin *) thins;
    NET_LIST(struct array *) arrays;
    NET_LIST(struct parameter) parameters;
    NET_LIST(struct matrix) matrices;
    NET_LIST(struct net_router) routers;
    NET_LIST(struct kernel) kernels;
    NET_LIST(struct numbers) numbers;
    NET_LIST(struct named_rows) field_rows, cross_rows;
    NET_LIST(struct kept_state) kept;
    NET_LIST(struct origin) origins;
    NET_LIST(struct vector) vectors;
    double host_bytes; /* of net_reserve and program_memory */
    struct net_batch batch;
    struct net_gates gates;
    struct net_output output;
    struct net_progress place;
};

/* net must not move afterwards; free it in any case. */
int net_init(struct net *net, const struct net_setup *setup, struct err *err);
/* Its shapes alone, without memory or draws. */
int net_declare(struct net *net, const struct net_setup *setup, struct err *err);
void net_free(struct net *net); /* accepts a zeroed struct; idempotent */
/* Remembers the state before the first evaluation; net_rewind returns to it, maps apart. */
int net_remember(struct net *net, struct err *err);
void net_rewind(struct net *net);

/* Sites that averages over population k of a limit (a declared one will do) come from: of the units
 * of a group, where all groups share them; 0 where only linear functions live, whose moments are
 * exact, or sites are not drawn. */
size_t net_sampled_sites(const struct net *net, int k);
/* Bytes that a net of this setup will need. Bases of limit maps have a share of one row per
 * evaluation and input, and at most what smooth activations were seen to need, 20
 * log10(1/tolerance) for each training input. T > 0 adds rows of T times for kernels. */
int net_bytes(const struct net_setup *setup, double evaluations, int T, double *bytes,
              struct err *err);
/* Two setups of a limit that differ by their sites alone must have the same operations, and their
 * selections the same shares of sites. Else CODE_INPUT, with what the program's author can do. */
int alike_check(const struct net_setup *setup, const struct net_setup *other, struct err *err);
/* What it is reckoned with of one map. */
struct map_costs net_map_costs(const struct net *net, const struct map *map, double evaluations);
/* Forward, loss and Delta, backward of the inputs `index`: everything that can be measured at this
 * place. loss: the mean over these inputs (and tokens). y: all targets [..][per_token ? n : 1][C]
 */
int net_evaluate(struct net *net, const struct loss *loss, const double *y, struct err *err);
/* Whether training diverges: loss > NET_RUNAWAY loss_scale at a measured time. */
#define NET_RUNAWAY 1e6
bool net_runs_away(const struct net *net);
/* Where an evaluation after so many steps has failed: adds to err_overflow what to try. */
void net_remedy(const struct net *net, int steps, struct err *err);
/* f [output_rows][C] of the inputs of the last evaluation at this place, not centred. */
int net_forward(struct net *net, double *f, struct err *err);
int net_outputs(const struct net *net); /* numbers of f of one input: C, or of each token */

/* f [count][net_outputs] of inputs first, first + 1, ... of the training set and, after it, the
 * test inputs, at this place (predict.c), or NULL. They leave nothing but a place in the window of
 * field maps. Before the end of the first evaluation it finds their origins. */
int net_predict(struct net *net, int first, int count, double *f, struct err *err);
/* Draws, after all else of a fixed point, the columns of read-ins that only test inputs have. */
int net_draw_unseen(struct net *net, struct err *err);
/* A [K] and rest [test_directions] of row number `row` of all inputs. */
void net_coordinates(const struct data_setup *data, size_t row, double *A, double *rest);
/* The targets [C] of place number `place` of all, in y, or of their number made in space [C]. */
const double *net_targets(const struct data_setup *data, const double *y, size_t place,
                          double *space);
/* How often an input counts in the loss, of all inputs; 1 without weights. */
double net_weight(const struct data_setup *data, size_t input);
/* For net_evaluate: A and origins of inputs `index`; origins of all after the first one. */
void net_load_batch(struct net *net);
int net_start(struct net *net, struct err *err);

/* The norm of the gradient of the loss at the last evaluation (norm.c),
 *
 *     norm^2 = sum over matrices of
 *              rate (1/P^2) sum_mu,nu Delta_mu Delta_nu <y_mu y_nu> <x_mu x_nu>,
 *
 * a sum of site averages: of order one at any width, and known in the limit. It is the Euclidean
 * norm in the units in which plain gradient descent has the same rate eta0 for every entry, so that
 * the loss falls by eta0 norm^2 in a small step. Rates are always those of gradient descent. */
int net_gradient_norm(const struct net *net, double *norm, struct err *err);

/* What each site of one side of a map has of the square of this norm, times the number of sites:
 * the mean of out [sites] is the part of parameter p. Of the columns of a thin matrix (out [K]),
 * what each has. */
int net_gradient_of_sites(const struct net *net, const struct parameter *p, bool target,
                          double *out, struct err *err);
int net_gradient_of_columns(const struct net *net, const struct parameter *p, double *out,
                            struct err *err);

/* The block of parameter p of the neural tangent kernel [P][P] at the last evaluation,
 *     rate <y_mu y_nu><x_mu x_nu>,     df_mu/dt = eta0/P sum_nu (sum of all blocks)_mu,nu Delta_nu
 * in gradient flow. With loss_in_cotangent Delta is inside, summed over outputs and tokens:
 * (df_mu/dW . Delta_mu)(df_nu/dW . Delta_nu), whose sum over mu, nu and blocks is P^2 norm^2. */
int net_tangent(const struct net *net, const struct parameter *p, double *K, struct err *err);
/* A gradient of a backward pass: the rows y and, but for maps, the coefficients A that a parameter
 * learnt with. Then net_products has the products of two of them. */
struct gradient {
    struct rows y;
    const double *A;
};
int net_products(const struct net *net, const struct parameter *p, const struct gradient *a,
                 const struct gradient *b, double *K, struct err *err);
/* Rows number i < net_names: whether they have a name, and which. */
int net_names(const struct net *net);
bool net_name(const struct net *net, int i, char name[NET_NAME]);

/* Moving the parameters (stage.c). From where they were last committed, W_n, they can be placed at
 *     W_n + sum_k weight_k K_k,    K_k = gamma0/P rate sum_mu Delta_mu y_mu x_mu^T
 * with the evaluations kept as stages k; a gradient step has the one weight eta0. Each place is
 * reached from the one before by the difference of the weights. */
/* The last evaluation becomes stage k. holds: stage 0, for an update before the next pass, in which
 * parameters learn from the rows where they are. */
int net_keep(struct net *net, int k, bool holds, struct err *err);
/* Stages from `stages` on have weight 0. */
int net_place(struct net *net, int stages, const double *weight, struct err *err);
void net_commit(struct net *net); /* the present place is W_n */
/* One gradient step of the last evaluation: net_decay, step K_0, and the model's own rule. */
int net_learn(struct net *net, double share, double step, struct err *err);
/* What the entries of parameter p change by (or, added to host [K], its host numbers) for
 * W += rate/P sum_mu Delta_mu y_mu x_mu^T along stage 0. */
int net_change(const struct net *net, const struct parameter *p, double rate, struct change *change,
               double *host, struct err *err);
/* c [rows of p] = rate Delta_mu/P of stage k. */
void net_coefficients(const struct net *net, const struct parameter *p, int k, double rate,
                      double *c);
/* W *= 1 - share times the factor of W (node_matrix.decays). */
void net_decay(struct net *net, double share);
void net_next(struct net *net); /* the parameters have moved: the model's own rule, t + 1 */
/* The state of an evaluated net between two steps: all that the next step and evaluation read, but
 * for stages, which are kept anew. Not of field maps. of: NULL, or reads that of a net of the same
 * training inputs that had these other test inputs; origins of this one's own, which net_start
 * finds, stay. */
int net_archive(struct net *net, const struct data_setup *of, struct archive *archive,
                struct err *err);
void net_drop_stages(struct net *net);  /* frees what was kept */
void net_drop_moments(struct net *net); /* frees what the optimizer remembers */

/* --- for program.c and what belongs to it ---------------------------------------------------- */

/* iid: draws that are matched with nothing. */
int net_thin(struct net *net, struct population *population, int K, double amplitude, bool iid,
             struct thin *thin, struct err *err);
struct node;
/* A read-in of all inputs, with what it has for predictions. */
int net_read_in(struct net *net, struct node *v, struct err *err);
void net_read(struct net *net, struct node *v);
/* How many numbers of draws lie between what two predicted inputs begin with. */
uint32_t net_predict_stride(const struct net *net, const struct population *population);
/* Host numbers [P][K], of all rows of an input, that are subtracted and belong to W(0). */
int net_origin(struct net *net, int K, double **now, struct err *err);
int net_rows(struct net *net, const struct population *population, int count, struct rows *rows,
             struct err *err);
/* Zeroed host memory [count][each], which the caller frees. A net that is only declared gets an
 * address that nobody may read or write, and counts what it stands for. */
int net_reserve(struct net *net, void *out, size_t count, size_t each, size_t size,
                struct err *err);
/* Host numbers [count][each] of an evaluation. */
int net_vector(struct net *net, size_t count, size_t each, double **vector, struct err *err);
/* The input [0, P) of row i of a parameter; and the most rows that one has, at least batch.rows. */
int net_input(const struct net *net, const struct parameter *p, int i);
int net_input_rows(const struct net *net, const struct parameter *p); /* of an input, in a row */
int net_most_rows(const struct net *net);
/* What moves a matrix between populations of this name, or (NULL) what has a finite side. */
const struct optimizer *net_optimizer(const struct net_setup *setup, const char *map);
/* Whether two parameters are one, or are moved as one matrix; whether number i is so with an
 * earlier one; and whether one has rows below those of the other, or else columns beside them
 * (heads.c). */
bool net_moved_together(const struct parameter *a, const struct parameter *b);
bool net_moved_before(const struct net *net, int i);
bool net_stacked(const struct net *net, const struct parameter *a, const struct parameter *b);
/* NULL, or why no responses of this limit can be measured. */
const char *net_no_responses(const struct net *net);
/* Whether some parameters move entry by entry. */
bool net_by_entry(const struct net_setup *setup);
/* Tolerance of the bases of a limit's maps: Muon multiplies what is small by POLAR_GAIN. */
double net_tolerance(const struct net_setup *setup);
/* Whether what a map learns by are the rows x themselves, not their coordinates. */
bool net_keeps_rows(const struct net *net, const struct map *map);
/* The kind that a map of this instance is. */
const struct map_kind *net_map_kind(const struct net *net, const struct map_declaration *declared);
/* Where the draws of `sites` sites begin in their stream. */
uint32_t net_first_pair(const struct net_setup *setup, size_t sites);
/* Draws of this instance: of a population's pool, a matrix, ... number `owner`. */
struct rng_stream net_stream(const struct net *net, enum purpose purpose, int owner);
