/* A program as its executor sees it: a list of nodes in the order they were written.
 *
 * Running is three loops: nodes forward; nodes in reverse, each adding to the cotangents of its
 * arguments; parameters learn. No node knows which kind of map it meets, nor where rows live.
 *
 * Storage (plan.c). Steps are 0 ... n - 1 forward and n ... 2n - 1 in reverse; node i runs at i and
 * 2n - 1 - i. Each value, slope, cotangent and scratch row block is an item with a first and a last
 * step; items whose steps do not overlap share an array, and an operation that may write over its
 * argument takes its array when this is its last step. */
#ifndef MODELS_NODE_H
#define MODELS_NODE_H

#include "models/net/net.h"

struct node;
struct operation {
    const char *name;
    int (*prepare)(struct net *net, struct node *node, struct err *err); /* memory and draws */
    void (*forward)(struct net *net, struct node *node);
    void (*backward)(struct net *net, struct node *node);
    bool slope;       /* keeps f'(x) */
    bool over;        /* the value may take the place of an argument */
    bool over_g;      /* the last part of a cotangent may take the place of the own cotangent */
    bool passes;      /* its own cotangent is its part of an argument's, which may share the rows */
    bool adds;        /* backward adds to cotangents itself: no rows for its parts are planned */
    bool reads;       /* the backward pass reads the arguments */
    bool reads_value; /* and the value */
    bool wide;        /* its cotangent has all rows, and so have the parts of the arguments' */
    bool learns;      /* what follows from it moves with the parameters, whatever it reads */
    bool reads_late;  /* learning reads the (first) argument */
    bool keeps_g;     /* learning reads the cotangent */
    bool linear;      /* in the rows that it takes, so that moments of its own are exact */
    bool of_all;      /* takes what is one for all inputs */
};
extern const struct operation operation_read_in, operation_map, operation_fn, operation_add,
    operation_times, operation_multiply, operation_group_mean, operation_tile, operation_tile_mean,
    operation_average, operation_scale, operation_look, operation_bias, operation_numbers,
    operation_shift, operation_penalty, operation_top, operation_rows, operation_ones,
    operation_sum, operation_product, operation_read_out;

/* A part of a cotangent that a node hands to argument k. */
struct part {
    int item;         /* where it is written; -1: the operation adds by itself, or none is due */
    bool due, first;  /* there is one; and it is the first that the argument gets */
    struct rows rows; /* of the item */
};

struct node {
    const struct operation *op;
    const char *label;     /* NULL, or the name of its rows (program_name_rows) */
    int argument[2];       /* -1: none */
    struct population *on; /* of its rows; NULL: numbers */
    int per;               /* rows of an input: 1, n (tokens), n^2 (their pairs) */
    int count, K;          /* rows: P per, or 1 for all; numbers: [count][K] */
    enum fn fn;
    double k; /* constant factor of fn and times */
    size_t top;
    int column;            /* of the numbers of scale */
    bool causal;           /* of a softmax over tokens */
    int groups;            /* bias: sets of K numbers, one for each kind of token, or 1 */
    double *A;             /* bias: cotangents, each at its token's place; penalty: its gradient */
    struct weight weight;  /* of matrices, with everything that settings multiply */
    struct weight written; /* before that */
    double power;          /* limit: the power of N that settings give the start of the matrix */
    bool frozen;           /* by the settings: it does not even decay */
    struct map *map;
    int use; /* of its matrix, in the order of the nodes: map->declared.uses of them */
    struct thin *thin, *unseen; /* of a read-in: columns over the rest, or NULL */
    double *start;              /* look: origins; bias: its K numbers */
    const struct number_fn *numbers;
    const struct penalty_fn *penalty;
    const struct rows_fn *custom;
    void *context;
    bool moves;                /* it depends on something that learns */
    bool of_all;               /* and on a mean over inputs, which are not those of a look */
    bool measured, measured_g; /* its rows, its cotangent are read once all is done */
    bool kept_g;               /* its cotangent is read then, with as many rows as it has */
    int g_count;               /* rows of the cotangent, P per or 1; numbers: 1; 0: none */
    int parts;                 /* that the cotangent is made of */
    int value_item, slope_item, g_item, work_item; /* -1: none; g_item -2: the read-out's columns */
    struct part part[2];
    struct rows value, slope, g, work;
    double *s, *gs; /* numbers and their cotangent */
};

/* Averages of rows that are written into numbers as the node runs. */
struct measure {
    int node;
    bool gradient;
    int power;
    double scale, *out;
};

/* What models say about their experts (program_aggregation); nodes. */
struct mixture {
    int x1, phi;
    double scale;
    int rows, *s2;
    size_t experts; /* of each of these rows */
};

struct program {
    struct net *net;
    struct node *node;
    struct measure *measure;
    void **memory;
    int nodes, measures, memories;
    int read_out;           /* its node; -1: none yet */
    int gates, logits;      /* -1: none */
    struct mixture mixture; /* of no rows: none */
    double *c;              /* [R n] scratch */
    int code;
    struct err err; /* the first that went wrong */
};

/* For what adds a node: it has the shape of argument a (rows for each input, or numbers), or one
 * row for each token; NULL after a failure. Arguments that do not exist are at -1. */
struct node *node_append(struct program *p, const struct operation *op, struct value a,
                         struct value b, struct value *out);
/* Rows like those of x; numbers [count][K]. */
struct node *node_append_rows(struct program *p, const struct operation *op, struct value x,
                              struct value *out);
struct node *node_append_numbers(struct program *p, const struct operation *op, struct value a,
                                 struct value b, int K, struct value *out);
void node_shape(const struct program *p, struct node *node, int per);
struct node *node_of(const struct program *p, struct value x);
/* Whether the arguments exist (b may be none) and are rows; is numbers; and there are as many for
 * each input, or one for all. */
bool node_given_rows(struct program *p, const char *op, struct value a, struct value b);
bool node_given_numbers(struct program *p, const char *op, struct value s);
bool node_paired(struct program *p, const char *op, struct value a, struct value b);
/* Whether each site of `groups` has a group of these units, as units->of says. */
bool node_groups(const struct population *groups, const struct population *units);
/* For what adds to a program: the first failure is kept, and whether there is one. */
bool program_failed(struct program *p, int code);
/* One more element of a list, as net_grow; NULL after a failure. */
void *program_grow(struct program *p, void *list, int *count, size_t size);

static inline bool node_is(const struct node *node, const struct operation *op) {
    return node->op == op;
}

/* Of node->weight: missing numbers are 1, those of the settings of the user are multiplied in, and
 * the net lists it. false after a failure. */
bool weight_settle(struct program *p, struct node *node);
/* Of a tied matrix that has a use: makes node, with the population that it reads, one more of them.
 * false: this is the first. */
bool weight_tied(struct program *p, struct node *node, struct population *target, struct weight W);
/* a0 as it is to be drawn, `largest` being what it makes of the matrix as it is used, forward or
 * backward: in the limit a power of N either vanishes, or grows, which is refused. */
double weight_initial(struct program *p, const struct node *node, double largest);
/* a0 s_f: of a thin matrix or of numbers, which are kept as they are used. */
double weight_column(struct program *p, const struct node *node);

/* Writes the program of the net's model; then shapes of cotangents, storage, memory, draws. */
int program_build(struct net *net, struct err *err);
void program_free(struct program *p); /* accepts NULL */
int plan_storage(struct net *net, struct err *err);
/* What the settings ask for by name: before storage is planned, and when rows are there. */
int named_select(struct program *p, struct err *err);
void named_connect(struct net *net);
/* For measured.c and named.c: a kernel of a node's rows, or of its cotangent as it is. */
void program_add_kernel(struct program *p, struct kernel kernel, const char *name);
/* One operation, if it has anything to do. */
int node_forward(struct net *net, struct node *v, struct err *err);
int node_backward(struct net *net, struct node *v, struct err *err);
/* CODE_INTERRUPTED once a signal asks for the end: before each operation. */
int program_poll(const struct net *net, struct err *err);
int program_forward(struct net *net, struct err *err);
int program_backward(struct net *net, struct err *err);
void program_rules(struct net *net);
double program_penalties(const struct net *net); /* the sum of these terms of the loss */

#endif
