/* Data sets: inputs and targets, read from files here, drawn or composed by sources beside it. */
#pragma once

#include "kernels/base/base.h"
#include "models/engine/data_shape.h"

struct loss; /* models/engine/loss.h */

/* What is known of data that were drawn by a law: its parameters, the component of each input, and
 * the loss of the predictor that knows the parameters, below which no network comes. */
enum { TRUTH_AXES = 3, TRUTH_ARRAYS = 6 };
struct truth_array {
    const char *name, *dims, *about; /* of /data; dims in words, one for each extent */
    size_t shape[TRUTH_AXES];        /* 0: no such axis */
    double *values;
};
struct data_truth {
    int count;
    struct truth_array array[TRUTH_ARRAYS];
    /* Mean over the test inputs, without any over the training inputs, of the expected loss of that
     * predictor, given the input; with targets for each token over these. NAN: not known. */
    double floor;
    double rate; /* that of infinitely long sequences; NAN: there is none, or it is not known */
};
/* Into *truth, to be freed by data_truth_free. */
int data_truth_init(struct data_truth **truth, struct err *err);
/* One array more, zero, whose values are to be filled; `array` says all but these. */
int data_truth_add(struct data_truth *truth, struct truth_array array, double **values,
                   struct err *err);
void data_truth_free(struct data_truth *truth); /* accepts NULL */

struct data {
    DATA_SHAPE;
    int P;         /* inputs (sequences) that are trained on */
    bool weighted; /* inputs have weights */
    double *X;     /* [P + tests][n][D]; NULL with V: rows follow from token (tokens.h) */
    int *token;    /* [P + tests][n]; NULL without V */
    int *code;     /* NULL, or of a text [V]: codes of the letters, -1: all others */
    /* [P + tests][per_token ? n : 1][C], or without [C] if numbered; with cross_entropy a row of
     * zeros is not asked */
    double *y;
    double *weight; /* NULL, or [P + tests]: how often each counts, mean 1 over P and over tests */
    struct data_truth *truth; /* NULL, or what the law of drawn data is (above); rank 0 alone */
};
/* The arrays of these sizes, zero; targets that are numbered, -1. */
int data_init(struct data *data, const struct data *sizes, struct err *err);
size_t data_rows(const struct data *data);                  /* (P + tests) n */
uint64_t data_hash(uint64_t hash, const struct data *data); /* of sizes and values */
size_t data_places(const struct data *data);                /* that have targets: rows of y */
size_t data_targets(const struct data *data);               /* numbers of y */
size_t data_weights(const struct data *data);               /* numbers of weight */
/* Rows first ... first + count - 1 of X into X [count][D], whether it is kept or not. */
void data_take(const struct data *data, size_t first, size_t count, double *X);
/* Targets of places first ... first + count - 1 into y [count][C], numbered or not. */
void data_ask(const struct data *data, size_t first, size_t count, double *y);

/* Makes targets wrong on purpose: label noise, of classes and of labels +1 and -1. Each target of a
 * training input (or token) that is asked for becomes another class, all being equally likely, or
 * the other sign, with probability `share`, independently. Which ones depends on the seed and their
 * number alone. data->classes or data->numbered; test targets stay. */
void data_make_wrong(struct data *data, double share, uint64_t seed);

/* What targets of a file are to be. */
struct data_wanted {
    const struct loss *loss;
    int outputs;        /* C; 0: from the file */
    int vocabulary;     /* V; 0: from the file */
    bool positions;     /* of tokens, in X (tokens.h) */
    const char *weight; /* the array of weights of the inputs; NULL or "": none */
    size_t most;        /* entries of X, and of y */
};
/* Reads X [P][D] or [P][n][D], or tokens [P][n], and y (any integer or float types) of an HDF5
 * file, X_test or tokens_test and y_test where it has them, and the weights [P] that are
 * asked for, with those of test inputs, NAME_test, where it has them, else 1.
 *
 * y [P][C] or, per token, [P][n][C] are numbers; in y [P] or [P][1], and per token in y [P][n][1]
 * or, of an integer type, [P][n], each is the one output, or with cross_entropy or outputs > 1 the
 * class 0 ... C - 1, which becomes a one-hot row. C = outputs, or 1 + the largest class. With
 * cross_entropy rows are one-hot, and a token is not asked if its class is -1 or its row is zero.
 * V = vocabulary, or what the file says (attribute V of tokens, or dataset V), or 1 + the largest
 * token.
 *
 * CODE_INPUT with one sentence naming the file and what is wrong (data_file.h; shapes that differ,
 * tokens beyond V, labels that are no classes). Sizes are checked before anything is allocated. */
int data_read(struct data *data, const char *path, const struct data_wanted *wanted,
              struct err *err);
/* What stat and open say of a file to be read (libraries only say that they failed), and that it is
 * a regular one; CODE_INPUT, or CODE_SYSTEM where the machine is to blame. */
int data_check_file(const char *path, struct err *err);
void data_free(struct data *data); /* accepts a zeroed struct; idempotent */
