/* Sequences of tokens: the rows that they become, and sources of them.
 *
 * A row of X is one-hot in its token and, if D = V + n, in its place in the sequence,
 *     X/sqrt(D) = (one-hot token, one-hot place)/sqrt(2), or one-hot token if D = V:
 * |x|^2 = D. */
#pragma once

#include "solver/data/data.h"

/* X [count][D] of rows first ... first + count - 1. */
void tokens_rows(const struct data *data, size_t first, size_t count, double *X);
/* Finds the rows of X that open a new direction, in their order: row [V + n] gets their numbers,
 * *count of them, and the first *trained are of training inputs. A row joins its token to its
 * place, and it opens a direction if no rows before have joined these two. */
int tokens_open(const struct data *data, size_t *row, int *trained, int *count, struct err *err);
/* Their orthonormal basis in this order, basis [D][count], which is zero: the new direction of a
 * row joins a set A of tokens and places to a set B, and all directions within each are there, so
 * that it is 1/|A| on all of A and -1/|B| on B, with the other sign on places. */
int tokens_basis(const struct data *data, const size_t *row, int count, double *basis,
                 struct err *err);

/* What is drawn; letters are the numbers 0 ... letters - 1.
 *
 * markov:
 *     n + 1 letters of a chain: the first uniform, each further one from a row of the matrix of
 *     tokens_chain. The last is only a target; the target of every token is the next letter. The
 *     truth (data.h) has the matrix, and what a predictor loses in cross-entropy that knows it.
 *
 * copy:
 *     m = n/2 uniform letters a, a separator, and all of them but the last again,
 *         a_1 ... a_m | a_1 ... a_(m-1)
 *     Tokens from the separator (number `letters`) on are asked for the next one, a_1 ... a_m;
 *     those before it are not.
 *
 * modular:
 *     a, b, '=' (number `letters`), n = 3: the last is asked for a + b mod letters, the others for
 *     nothing. Pairs (a, b) are all different, in random order, first those of the training inputs;
 *     where more are wanted than there are, the order is gone through again, for test inputs
 *     without those that are trained on.
 *
 * Sequence mu does not depend on the number of sequences. */
enum sequence { SEQUENCE_MARKOV, SEQUENCE_COPY, SEQUENCE_MODULAR };
struct sequences {
    enum sequence kind;
    int letters;
    uint64_t seed;
    double sharpness;
};
/* P, tests, n, D, C = letters, V: letters and the token that is none, if any. */
struct data tokens_sizes(const struct sequences *sequences, int P, int tests, int n,
                         bool positions);
/* Bytes of workspace of tokens_draw. */
double tokens_bytes(const struct sequences *sequences);
/* token, X and y of data of these sizes, which are zero. Of modular: less than letters^2 training
 * inputs, or no test inputs. */
int tokens_draw(struct data *data, const struct sequences *sequences, struct err *err);
/* T [letters][letters]: probability that b follows a, softmax over b of sharpness times normals. */
int tokens_chain(const struct sequences *sequences, double *T, struct err *err);
