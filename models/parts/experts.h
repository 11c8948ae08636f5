/* A fixed number of experts of one hidden layer of infinite width, in a block of a stream
 * (docs/theory/transformer.md).
 *
 *     p = gate(<r_e y> + b_e)     sum_e W2_e p_e sigma(W1_e y)     gated: sigma(W1_e y) W3_e y
 *
 * Shared experts, the last ones, have gate 1. Derived cotangents on the units of an expert are
 * b iota times those of the page. */
#pragma once

#include "models/parts/block.h"

/* NULL, or why the settings do not fit width N (0: the limit), or have shared experts alone. */
const char *experts_check(const struct network *network, int N, const char **key);
/* Rows y of the stream, one for each token, to rows of the stream. */
struct value experts_write(struct program *p, const struct block *block, struct value y,
                           struct population *stream);
