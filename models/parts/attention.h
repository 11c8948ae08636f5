/* Attention over the tokens of an input (docs/theory/transformer.md, equations (3) to (6)).
 *
 *     q, k, v = W_Q y, W_K y, W_V y     a = softmax_t(beta_A <q_s k_t>)
 *     sum over heads of W_O a v
 *
 * In the limit of a fixed number of heads all are the same, and one of their total width is
 * marched. Derived cotangents on heads are b r times those of the page, r the width of a head over
 * N. */
#pragma once

#include "models/parts/block.h"

/* NULL, or why the units of heads do not fit width N (0: the limit). */
const char *attention_check(const struct network *network, int N, const char **key);
/* Rows y of the stream, one for each token, to rows of the stream. Weights and logits that are
 * numbers are measured. */
struct value attention_write(struct program *p, const struct block *block, struct value y,
                             struct population *stream);
