/* What experts do: [output] experts. Of every router, whose gates are rows over many experts or
 * numbers of a fixed number of them: what the expert tells of the input, which inputs have experts
 * in common, who has the largest share, and the order statistics of the logits. All experts of all
 * runs count, not a sample of them. */
#pragma once

#include "solver/measure/instrument.h"

/* The mutual information, in nats, of an expert and a label, sum_l w_l sum_i q_l,i ln(q_l,i/q_i),
 * where the expert of row r is i with probability q [r][M] and q_l are means over the rows of label
 * l, 0 ... labels - 1; rows with a negative label are left out, and with none left it is 0. scratch
 * [labels + 1][M]. */
double specialisation_information(const double *q, int rows, size_t M, const int *label, int labels,
                                  double *scratch);
