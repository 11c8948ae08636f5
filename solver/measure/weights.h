/* The matrices of networks as they are used, [output] weights, run by run: first, last, both, or at
 * all times. The limit has none.
 *
 *     weights_NAME       between populations    [target][source]     (W x)_i = sum_j W_ij x_j
 *                        a read-in              [site][k]            sum_k W_ik A_mu,k
 *                        a look                 [k][site]            <Q_k x>, a mean over sites
 *                        the read-out           [output][site]       f_c = <w_c h>/gamma0 - f_c(0)
 *                        a bias                 [k], [set][k]        s_k + b_k
 *     weights_NAME_rest  a read-in              [site][direction]    columns of what test inputs
 *                                                                    alone have; they never learn
 *
 * A are the coordinates of the inputs (config_coordinates), in the file /data/coordinates. A tied
 * matrix is there once. */
#ifndef SOLVER_WEIGHTS_H
#define SOLVER_WEIGHTS_H

#include "solver/measure/instrument.h"

extern const struct instrument weights_instrument;

#endif
