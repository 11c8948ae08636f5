/* The finite networks once more, written from the pages of docs/theory alone: their forward passes
 * on a tape (tape.h), from which all gradients follow, and their optimizers. They judge the network
 * code of the program and share nothing with it.
 *
 * Weights are in the normalisation of the pages. Indices: row < P n of token s of input mu, d < D,
 * sites < N, experts < M, units of an expert < N_e, outputs c < C, blocks l < L. */
#pragma once

#include "tests/oracles/tape.h"

enum oracle_gate {
    ORACLE_SOFTMAX,
    ORACLE_SIGMOID_M, /* phi = m sig(beta psi) */
    ORACLE_SIGMOID_K, /* phi = m sig(beta psi) / rho */
    ORACLE_CONSTANT   /* phi = 1 for every expert whatever rho; there is no router */
};
enum oracle_loss {
    ORACLE_MSE,          /* l = (y - f)^2 / 2, summed over outputs */
    ORACLE_LOGISTIC,     /* l = log(1 + exp(-y f)), y = +-1 */
    ORACLE_CROSS_ENTROPY /* l = -sum_c y_c log softmax_c(f), y one-hot, or 0: l = 0 */
};

/* Matrices that a block consists of: entry (i, j) of matrix k of copy c is number c copy + k matrix
 * + i row + j column. */
struct oracle_matrices {
    int copies, count, rows, columns; /* copies = 0: a block that Muon leaves */
    int copy, matrix, row, column;
    bool units, out; /* count experts of one map, into whose units it leads, or out of them */
    double rate;     /* of an entry of root mean square 1 */
};

/* Weights that learn at one rate. */
struct oracle_block {
    double *w, *G, *first, *second; /* [count]; G = dL/dw */
    int count, node;                /* node: of the first weight on the tape */
    bool bias;                      /* does not decay */
    double sgd, adam_rate, nu;      /* rates over the base rates; eps of Adam over the base eps */
    struct oracle_matrices matrices;
    bool heads; /* each of the matrices belongs to one of so many heads */
};

/* What is compared by name: for each row as many numbers as it has sites, factor times the value or
 * N gamma0 df/d of it. */
struct oracle_rows {
    char name[32];
    bool gradient;
    double factor;
    int rows, width, groups, apart; /* means over groups, whose numbers lie so far apart */
    int *first;                     /* [rows], on the tape */
    double *values;                 /* [rows][width] */
};

/* Of an optimizer, from section 1 of docs/theory/parameterizations.md. */
struct oracle_rule {
    bool adam, inside, lion; /* lion: by entry, too, but not Adam */
    double rate, momentum, beta1, beta2, eps, decay;
    bool muon, exact, nesterov, together, heads_together;
    bool rest_adam; /* of what Muon leaves; else plain */
    double rest_rate;
    const double
        *factor;       /* NULL, or what the rate of each step, and the decay, are multiplied by */
    double clip, norm; /* 0: none; of the last gradient, (sum of rates sgd times G^2)^1/2 */
    int t;
};

struct oracle;
struct oracle_network {
    void (*declare)(struct oracle *o); /* its blocks: read-in, read-out, others */
    void (*pass)(struct oracle *o);    /* from the weights to the outputs */
};
extern const struct oracle_network oracle_stack, oracle_residual, oracle_resnet, oracle_transformer,
    oracle_papers;
enum { PAPERS_W1, PAPERS_Q, PAPERS_B, PAPERS_W2, PAPERS_W3, PAPERS_W4, PAPERS_MATRICES };

enum { ORACLE_BLOCKS = 40, ORACLE_KEPT = 256 };
struct oracle {
    /* Settings for oracle_new. Of n, C, L, H, V, regime and of numbers but eta_b a 0 stands for 1.
     * E: matrices of an expert of a stack; V: kinds of tokens that have biases of their own. */
    const struct oracle_network *network;
    int P, n, D, C, N, L, M, N_e, E, H, N_k, V, regime;
    enum oracle_gate gate;
    enum oracle_activation activation, expert_activation;
    enum oracle_loss loss;
    bool stream, before, after, biased, activated, sp, single; /* of a stack */
    bool causal, norm, final_norm, per_token, gated;           /* of a transformer */
    double eta0, gamma0, beta, beta_A, rho, lambda_in, router_rate, branch, eta_b;
    bool carried; /* cotangents have -dl/df in them */

    double *X;      /* [P n][D] */
    double *y, *f0; /* [outs][C], f0 is subtracted from the output; outs = P n per token or P */
    double *bias;   /* [L][V][M], what does not learn by the gradient */
    double *noise;  /* [M] */
    int *token;     /* [P n], below V */
    struct oracle_block block[ORACLE_BLOCKS];
    int blocks;
    struct oracle_rule rule;

    struct tape tape;  /* what oracle_forward has left */
    int *out;          /* [outs], the first of the C outputs on the tape */
    double *f, *Delta; /* [outs][C]; Delta = -dl/df */
    double *mask;      /* [L][P n][M], 1 where an expert is selected */
    struct oracle_rows kept[ORACLE_KEPT];
    int count;
};

/* A network with the settings of `of`: all weights and data are zero and to be filled in place.
 * Ends the program if memory runs out. */
struct oracle *oracle_new(struct oracle of);
void oracle_free(struct oracle *o); /* accepts NULL */

/* From the weights f, Delta, all rows and the gradients of all blocks; returns the mean loss. */
double oracle_forward(struct oracle *o);
/* Forward and a step of gradient descent, or of the optimizer that rule says; return the loss
 * before the step, whose rows and outputs stay. */
double oracle_step(struct oracle *o);
double oracle_optimizer_step(struct oracle *o);
/* The rows of this name, or NULL; the mean over sites of products of two of them. */
const struct oracle_rows *oracle_find(const struct oracle *o, const char *name);
double oracle_kernel(const struct oracle *o, const char *name, int a, int b);

/* --- for networks ---------------------------------------------------------------------------- */

int oracle_outs(const struct oracle *o);
struct oracle_block *oracle_declare(struct oracle *o, int count, double sgd, double adam_rate,
                                    double nu);
/* Read-in W1 [N][D] and read-out w [C][N]. */
void oracle_declare_ends(struct oracle *o);
/* The last block has matrices [rows][columns] one after the other. */
void oracle_in_turn(struct oracle *o, int count, int rows, int columns);
/* Named numbers of a row, of so many sites. */
struct oracle_rows *oracle_keep(struct oracle *o, bool gradient, int row, double factor, int first,
                                int width, const char *name, ...)
    __attribute__((format(printf, 7, 8)));
int oracle_read_in(struct oracle *o, int row);
/* x/sqrt<x x>, over the N sites. */
int oracle_norm(struct oracle *o, int x);
/* Output i from the stream x at the top. */
void oracle_read_out(struct oracle *o, int i, int x);
/* Gates of row from M logits; of softmax they add up to `sum`. */
int oracle_gate(struct oracle *o, int l, int row, int psi, double sum);
/* gates of each expert times its `each` numbers x */
int oracle_gated(struct oracle *o, int gates, int x, int each);
