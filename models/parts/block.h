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
