/* A program as its executor sees it: a list of nodes, those that its author has written and behind
 * them those of the backward pass (adjoint.h), in the order in which they run.
 *
 * No node knows which kind of map it meets, nor where rows live.
 *
 * K numbers of each input are rows as well, whose K sites are counted one by one: they lie on the
 * host, side by side, whatever the populations are (backend_counted), and operations that combine
 * rows site by site, row by row or token by token serve them, too.
 *
 * Storage (plan.c). Node i runs at step i. Each value of rows has a first and a last step; values
 * whose steps do not overlap share an array, and an operation that may write over its argument
 * takes its array when this is its last step. On a backend that poisons, what a step was
 * the last to use becomes NaN behind it, so that an operation which reads more than it says shows.
 * Numbers that an author has written, and their cotangents, stay: series and learning read them. */
#pragma once

#include "models/engine/net.h"

struct node;
/* Which sides of a matrix are populations: for coordinate check, names, ties, order of draws. */
enum operation_matrix {
    MATRIX_NONE,
    MATRIX_READ_IN, /* from the inputs to a population */
    MATRIX_VECTOR,  /* from the number 1, which is an input of its own, to a population */
    MATRIX_EMBED,   /* from K numbers to a population */
    MATRIX_MAP,     /* from a population to a population */
    MATRIX_LOOK,    /* from a population to K numbers */
    MATRIX_READ_OUT /* from a population to the outputs; its cotangent is that of the program */
};

/* Where the value of an operation is 0 whatever its arguments are elsewhere: what is active of a
 * network goes by it (counts.h). */
enum operation_zeros {
    ZEROS_NONE,      /* nowhere, as of matrices and of means */
    ZEROS_OF_FIRST,  /* where its only argument is */
    ZEROS_OF_EITHER, /* a product: where one of them is */
    ZEROS_OF_BOTH,   /* a sum */
    ZEROS_OF_RULE,   /* but for the `top` sites or numbers that it describes, or where its argument
                        is, if it describes none */
    ZEROS_OF_TOKENS  /* at each site, but for `top` of the tokens */
};

/* What is true of an operation. */
enum operation_trait {
    OP_IN_CONTEXT = 1 << 0, /* its constants lie in node.constant.context, and not in that struct */
    OP_IN_PLACE = 1 << 1,   /* forward allows its value in the place of an argument */
    OP_EVERY_ROW = 1 << 2,  /* its cotangent has a row for each of its own, never one for all */
    OP_LEARNS = 1 << 3,     /* it has parameters, so what follows from it moves */
    OP_SAME_AT_START = 1 << 4, /* where all tokens are of one kind, its argument (ties.c) */
    OP_LINEAR = 1 << 5,        /* in the rows that it takes, so that moments of its own are exact */
    OP_BY_ROW = 1 << 6,        /* a row of the value is made of that row of the arguments alone */
    OP_SCALES_ROWS = 1 << 7,   /* rows of its second argument, each times a number of the first */
    OP_ADDS_AT = 1 << 8,       /* its second argument may be some rows alone (node_expert.added) */
    OP_ACROSS_INPUTS = 1 << 9, /* takes what all inputs share; so does by row without OP_LEARNS */
    OP_CONSTANT = 1 << 10,     /* nothing writes its rows, and they lie outside of the plan */
    OP_FUNCTION = 1 << 11,     /* of one variable: names of its rows are sigma_NAME */
    OP_STARTS_BACKWARD = 1 << 12, /* a term of the loss: its parts are due anyway */
    OP_GROUPED_FACTOR = 1 << 13,  /* the first argument may live on the groups of the second */
    OP_MEAN_OF_COPIES = 1 << 14,  /* of what all experts share */
    OP_BARE = 1 << 15,            /* forward leaves nothing but the value of the node */
    OP_DROPS_ZERO = 1 << 16, /* adjoint reads no cotangent of a number that is 0 (selected.c) */
    OP_OVER_PAIRS = 1 << 17, /* sums over sites, or tokens, for each pair of tokens */
    OP_ADDS = 1 << 18, /* in reverse it can add its value to a sum, where node.onto is not -1; if it
                          is the first, numbers begin at 0, so that forward may always add */
    OP_AS_ARGUMENT = 1 << 19, /* as `back` it has the shape of the argument, else rows as g has */
    OP_OF_VALUE = 1 << 20,    /* as `back` it takes the value of the node and its cotangent */
    OP_MEETS =
        1 << 21, /* a pass of its matrix, which asks about its argument first (map_ask_ahead) */
};

/* One operation: everything that the rest of the program asks about it. Executor, planner, costs,
 * names and coordinate check ask these fields and never which operation they meet. Most operations
 * leave most fields at 0, and then the value has rows of its own. Set a field where the comment
 * behind it is true. */
struct operation {
    const char *name; /* in messages and in the description of a program (describe.h) */
    /* NULL, or "numbers", "rows" or "penalty": its name in the description, and `name` its rule. */
    const char *rule_of;
    const struct constant_field *constants; /* of its own, in that description; NULL: none */
    /* They make the operation a word of scripts (models/language/apply.c), and mean what they do in
     * struct script_word: x, y are rows, s numbers, p a population, every other argument the next
     * of its constants. NULL: functions of models/lua/ build it, or models alone. */
    const char *arguments, *gives, *doc;
    /* Such a word's own shape, where it is not that of its first argument, and what it refuses by
     * program_fail; on: the population p, or NULL. NULL: none. */
    void (*shape)(struct program *p, struct node *node, struct population *on);
    int (*prepare)(struct net *net, struct node *node, struct err *err); /* memory and draws */
    void (*forward)(struct net *net, struct node *node);
    /* NULL, or: forward has only asked a device for numbers (node_asked), which come with any later
     * wait; this makes them the value, before anybody reads it. */
    void (*finish)(struct net *net, struct node *node);
    /* NULL, or forward where numbers of arguments, one of each row, are still to come from a
     * device; so are those that it makes (struct distant). */
    void (*late)(struct net *net, struct node *node);
    /* The part of argument k's cotangent, where `g` is that of node v: appends nodes of ordinary
     * words by adjoint_append, or returns g itself. NULL: it is a constant. */
    struct value (*adjoint)(struct program *p, int v, int k, struct value g);
    /* Instead of `adjoint`: the operation that makes such a part, of its cotangent. */
    const struct operation *back;
    /* Appends the node of the numbers that node v learns with, made of its cotangent g; -1, or
     * NULL: it learns with g itself. */
    struct value (*learned)(struct program *p, int v, struct value g);
    /* Whether the value jumps or has a kink, so that bases do not stop growing (costs.c). */
    bool (*jumps)(const struct program *p, int node);
    /* NULL, or: with the node's context, once a step, after the parameters have learnt. */
    void (*after_step)(void *context);
    /* Whether the function leaves 0 where its argument is (counts.h). NULL: with ZEROS_OF_FIRST it
     * does, with ZEROS_OF_RULE it does not. */
    bool (*keeps_zero)(const struct node *v);
    enum operation_matrix matrix;
    enum operation_zeros zeros;
    unsigned traits; /* enum operation_trait */
};
/* The row of an operation by its fields; the rest of the program calls it operation_NAME. */
#define OPERATION(called, ...)                                                                     \
    const struct operation operation_##called = {.name = #called, __VA_ARGS__}
static inline bool operation_has_adjoint(const struct operation *op) {
    return op->adjoint || op->back;
}
extern const struct operation operation_read_in, operation_map, operation_fn, operation_add,
    operation_times, operation_multiply, operation_average, operation_scale, operation_look,
    operation_embed, operation_bias, operation_vector, operation_shift, operation_top,
    operation_ones, operation_constant, operation_read_out;

/* The matrix of a node, which tied nodes share, or its numbers that learn. */
struct node_matrix {
    struct weight weight;  /* with everything that settings multiply */
    struct weight written; /* before that */
    double power;          /* limit: the power of N that settings give the start of the matrix */
    double decays;         /* the part of the run's weight decay that it has; 0: it has none */
    struct map *map;
    int use; /* which use of its matrix, in the order of the nodes: of map->declared.uses */
    struct thin *thin, *unseen; /* of a read-in: columns over the test directions, or NULL */
    double *start; /* look, read-out: origins; bias: its K numbers; vector: NULL, or each entry */
};

/* What the author gave an operation beside its arguments; each operation reads its own. */
struct node_constant {
    enum fn fn;
    double factor; /* of fn and times */
    size_t top;
    int column;      /* of the numbers of scale */
    int first;       /* of the numbers of an input, from 0 */
    bool causal;     /* of a softmax over tokens */
    bool transposed; /* of the matrices of a mixture of tokens */
    int by;          /* tokens of a lag; columns of mix_places */
    int groups;      /* bias: sets of K numbers, one for each kind of token, or 1 */
    /* A constant has [n][group, or sites if there are no groups], mix_places has [per][by]. */
    const double *given;
    void *context;
};

/* Rows of an evaluation that an expert of a fixed number has: those at which number `column` of a
 * node of gates is not 0; all of them where few are left out. */
struct expert_rows {
    int numbers, column, all;
    struct map_some some;
};

/* What a node has that is computed for the rows of one expert alone (selected.c). */
struct node_expert {
    struct expert_rows *of; /* NULL: for all rows */
    bool apart;             /* its value is these rows side by side */
    bool added;             /* so it is, and a sum adds it at their places */
    bool gated;             /* rows of it, or of its cotangent, are 0 where a gate is */
    int x, g; /* nodes of such rows of its argument, and cotangent, that have all; -1: none */
};

/* When the rows of a node are needed, what of the backward pass belongs to it, and its storage. */
struct node_plan {
    bool moves;                /* it depends on something that learns */
    bool across_inputs;        /* and on a mean over inputs, which are not those of a prediction */
    bool measured, measured_g; /* its rows, its cotangent are read once all is done */
    bool kept_g;               /* its cotangent is read then, with as many rows as it has */
    bool counted;              /* it is made of selections and constants alone (counts.h) */
    bool left_out, left_out_g; /* it, its cotangent is 0 where a selection leaves it out */
    bool idle;                 /* numbers that nobody reads: they are not found */
    bool adds;      /* of the backward pass: it can add its value to that of the node `onto` */
    bool forward;   /* it stands there, but runs, or is written, with node `of` */
    int g;          /* the node whose value is its cotangent; -1: none */
    int slope;      /* that of its slope, or -1 */
    int learned;    /* that of the numbers that it learns with instead of its cotangent, or -1 */
    int part[2];    /* those of what it hands back to its arguments, or -1 */
    int begin;      /* from this node on its cotangent is complete */
    int differ;     /* of the backward pass: rows that differ by more than a factor */
    int asks_ahead; /* on a device: the first node that asks about its rows, or -1 */
    int asks_ahead_too; /* and the next one that asks about what this one does */
    int last;           /* the step behind which its storage is free; -1: another node has it */
};

struct node {
    const struct operation *op;
    const char *rows_name; /* NULL, or the name of its rows (program_name_rows) */
    const char *tex;       /* NULL, or their symbol in TeX (program_rows_tex) */
    int argument[2];       /* -1: none */
    int onto; /* of the backward pass: the node to whose value it adds, as its own; -1: none */
    int of;   /* of the backward pass: the node in whose reverse it runs; -1: as written */
    struct population *on; /* of its rows; NULL: numbers */
    int per;               /* rows of an input: 1, n (tokens), n^2 (their pairs), or places */
    int count, K;          /* rows: P per, or 1 for all; numbers: [count][K] */
    struct node_constant constant;
    struct node_matrix matrix;
    struct node_plan plan;
    struct node_expert expert;
    double *A; /* penalty: its gradient; choices among tokens: scratch */
    struct rows value, work;
    double *s;     /* of numbers their value, [count][K]; of a penalty its series */
    double *asked; /* NULL, or numbers of a device until they are added to the value */
    double growth; /* limit: the power of N in its value (growth.c) */
};

/* Averages of rows that are written into numbers as the node runs. */
struct measure {
    int node;
    bool gradient;
    int power;
    double scale, *out;
    bool asked; /* out is to be scaled, once it has come */
};

/* What models say about their experts (program_aggregation); nodes. */
struct mixture {
    int x1, phi;
    double scale;
    struct gate_rule rule;
    int rows, *s2;
    size_t experts; /* of each of these rows */
};

#define ASKED_NODES 64
struct program {
    struct net *net;
    struct node *node;
    struct measure *measure;
    void **memory;
    struct expert_rows **expert;
    int nodes, all; /* [0, nodes) as written; [nodes, all) the backward pass (adjoint.h) */
    int grown;      /* nodes whose growth is known */
    int reverse;    /* while that is written: the node whose parts are appended */
    int measures, memories, experts;
    int kept;               /* so many of the first arrays of the net are those of program_keep */
    int read_out, output;   /* the node that reads out, and that whose numbers are f; -1: none */
    int gates, logits;      /* -1: none */
    struct mixture mixture; /* of no rows: none */
    double *c;              /* [R n] scratch */
    int *order;             /* [nodes] in which their parts of the backward pass are written */
    int asked[ASKED_NODES]; /* nodes whose numbers are not made their value yet, in order */
    int asks;
    int code;
    struct err err;      /* the first that went wrong */
    struct node nowhere; /* what is written behind a failure, and read of values that are none */
    struct population nobody; /* likewise, of populations */
    /* While somebody else's program is written: bytes of the host that it may take in all, beside
     * the rows of populations, and those that are left. 0: any number. */
    size_t most_bytes, bytes_left;
};
/* Counts bytes of the host before they are allocated. CODE_INPUT: so many are not left. net_allow
 * does so for what lies in arrays, which the net counts by themselves. */
int net_spend(struct net *net, size_t bytes, struct err *err);
int net_allow(struct net *net, size_t bytes, struct err *err);
/* Does what net_rows does, for rows over the sites that an array without memory tells of. */
int net_array(struct net *net, struct array like, int count, struct rows *rows, struct err *err);

/* An array for the rows of a node, or for its numbers, whose sites are counted; without memory. */
struct array node_array(const struct node *v);
/* How many numbers a node has in an evaluation: [count][K]. */
static inline size_t node_numbers(const struct node *v) {
    return (size_t)v->count * (size_t)v->K;
}

/* Whether two views begin at the same row of one array. */
static inline bool same_rows(struct rows a, struct rows b) {
    return a.array == b.array && a.first == b.first;
}

/* NULL, or the node that has the cotangent of node v, or what v hands back to argument k. */
static inline const struct node *node_cotangent(const struct program *p, const struct node *v) {
    return v->plan.g < 0 ? NULL : &p->node[v->plan.g];
}

static inline const struct node *node_part(const struct program *p, const struct node *v, int k) {
    return v->plan.part[k] < 0 ? NULL : &p->node[v->plan.part[k]];
}

/* Delta of each row of the last evaluation [R C], or 1 where cotangents have it inside. */
static inline const double *net_deltas(const struct net *net) {
    return net->output.loss_in_cotangent ? net->output.ones : net->output.Delta;
}

/* A node of this operation that knows its arguments alone. */
struct node node_of_operation(const struct operation *op, struct value a, struct value b);
/* For what adds a node: it has the shape of argument a (rows for each input, or numbers), or one
 * row for each token. Arguments that do not exist are at -1. After a failure *out does not exist,
 * and the node is one that nobody reads, so that whoever completes it need not ask. */
struct node *node_append(struct program *p, const struct operation *op, struct value a,
                         struct value b, struct value *out);
/* These append rows like those of x, or as many numbers; rows alone; and numbers [count][K]. */
struct node *node_append_like(struct program *p, const struct operation *op, struct value x,
                              struct value *out);
struct node *node_append_rows(struct program *p, const struct operation *op, struct value x,
                              struct value *out);
struct node *node_append_numbers(struct program *p, const struct operation *op, struct value a,
                                 struct value b, int K, struct value *out);
/* Takes rows of one population, of each input or one for all; `what`: the operation in messages. */
struct node *node_append_pair(struct program *p, const struct operation *op, const char *what,
                              struct value a, struct value b, struct value *out);
/* Rows of an input; a failure where an evaluation would have more than can be counted. */
void node_shape(struct program *p, struct node *node, ptrdiff_t per);
/* A value that does not exist has a node without rows and numbers. */
struct node *node_of(const struct program *p, struct value x);
/* Whether the arguments exist (b may be none) and are rows; is numbers; and there are as many for
 * each input, or one for all. */
bool node_given_rows(struct program *p, const char *op, struct value a, struct value b);
bool node_given_numbers(struct program *p, const char *op, struct value s);
bool node_paired(struct program *p, const char *op, struct value a, struct value b);
/* Whether each site of `groups` has a group of these units, as units->of says. */
bool node_groups(const struct population *groups, const struct population *units);
/* Whether a node is the first use of a matrix or of biases: tied ones have several. */
static inline bool node_begins_matrix(const struct node *v) {
    return v->matrix.weight.name && v->matrix.use == 0;
}
int net_read_ins(const struct net *net); /* how many there are, of all inputs */
/* Whether its rows are columns times coefficients that no operation has made. */
static inline bool node_reads_no_rows(const struct node *v) {
    return v->op->matrix == MATRIX_READ_IN || v->op->matrix == MATRIX_VECTOR ||
           v->op->matrix == MATRIX_EMBED;
}
/* The name by which its matrix is counted among others of a kind. */
static inline const char *node_family(const struct node *v) {
    return v->matrix.weight.family ? v->matrix.weight.family : v->matrix.weight.name;
}
/* For what adds to a program: the first failure is kept, and whether there is one. */
bool program_failed(struct program *p, int code);
/* Its code, with the sentence. */
int program_result(const struct program *p, struct err *err);
/* One more element of a list, as base_grow; NULL after a failure. */
void *program_grow(struct program *p, void *list, int *count, size_t size);

/* Completes node->matrix.weight: missing numbers are 1, those of the settings of the user are
 * multiplied in, and the net lists it. false after a failure. */
bool weight_settle(struct program *p, struct node *node);
/* If this matrix is tied and has a use, node becomes one more of them, with the population that it
 * reads. false: this is the first. */
bool weight_tied(struct program *p, struct node *node, struct population *target, struct weight W);
/* Does so for a thin matrix, whose K columns lie on `on`. */
bool weight_tied_thin(struct program *p, struct node *node, const struct population *on,
                      struct weight W);
/* The complete program fails where maps that are moved as one matrix do not fit together. */
void heads_check(struct program *p);
/* The power of the nominal infinite size, N = 2^400, in a number of the limit: the multiple of 1/2
 * that a constant factor between 2^-40 and 2^40 leads to; else what the number itself says, so that
 * N^0.2 is not taken for a constant. */
double weight_power(double number);
/* The program of a limit fails where x, which the sentence calls so, grows with the width. */
void growth_refuse(struct program *p, struct value x, const char *what);
/* a0 as it is to be drawn, `largest` being what it makes of the matrix as it is used, forward or
 * backward: in the limit a power of N either vanishes, or grows, which is refused. */
double weight_initial(struct program *p, const struct node *node, double largest);
/* a0 s_f: of a thin matrix or of numbers, which are kept as they are used. */
double weight_column(struct program *p, const struct node *node);

/* The shift of fields that a net of this setup chooses; 0: it measures no responses. */
int net_shift(const struct net_setup *setup, double *shift, struct err *err);
/* Writes the program of the net's model; then shapes of cotangents, storage, memory, draws. */
int program_build(struct net *net, struct err *err);
void program_free(struct program *p); /* accepts NULL */
int plan_storage(struct net *net, struct err *err);
/* The node of the rows or numbers that a parameter reads, or of its cotangent, where it learns from
 * them behind the backward pass; else -1. */
int node_learned_from(const struct net *net, const struct parameter *parameter, bool read);
/* What the settings ask for by name: before storage is planned, and when rows are there. */
int named_select(struct program *p, struct err *err);
void named_connect(struct net *net);
/* Whether the numbers of node i, or their cotangent, are a series of the run. */
bool node_shown(const struct net *net, int i, bool gradient);
/* What routers and experts write stays, if the settings ask for it (routed.c). */
int routed_select(struct program *p, struct err *err);
/* NULL, or an earlier limit map that reads the same rows as this one, so that it meets the same
 * directions: both with one use (costs.c). */
const struct map *net_leader(const struct net *net, const struct node *v);
/* Which nodes leave rows out (selected.c): before storage is planned. */
int selected_find(struct net *net, struct err *err);
/* How many a mask or gates select, as the operation describes itself (top); 0: it selects none. */
double node_selects(const struct node *v);
/* Once these numbers are there (-1: all), which rows that are. */
void selected_refresh(struct net *net, int numbers);
/* Whether a node leaves out rows now; and what its matrix reads. */
bool selected_some(const struct node *v);
struct rows selected_argument(const struct program *p, const struct node *v);
/* An operation, for the rows that its node has. */
void selected_run(struct net *net, struct node *v);
/* For measured.c and named.c: a kernel of a node's rows, or of its cotangent as it is. */
void program_add_kernel(struct program *p, struct kernel kernel, const char *name);
/* One node. */
int node_run(struct net *net, struct node *v, struct err *err);
/* Whether the numbers that an average asks for are its value, and not added to it. */
static inline bool node_asks_value(const struct program *p, const struct node *v) {
    return v->of < 0 ||
           (v->onto < 0 && v->K == 1 && !v->expert.of && v->count == p->node[v->argument[0]].count);
}
/* Where numbers that are added to the value of a node come first. */
static inline double *node_asked(const struct net *net, const struct node *v) {
    return v->asked ? v->asked : net->program->c;
}
/* Numbers that nodes and series have asked a device for are there; a failure is what they tell of.
 * A backward pass ends with it, and whoever has called program_forward alone calls it. */
int program_arrive(struct net *net, struct err *err);
/* Before an evaluation: a device is asked about what its backward pass knows already. */
int program_ask_ahead(const struct net *net, struct err *err);
int program_forward(struct net *net, struct err *err);
int program_backward(struct net *net, struct err *err);
void program_rules(struct net *net);
double program_penalties(const struct net *net); /* the sum of these terms of the loss */
