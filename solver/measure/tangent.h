/* The neural tangent kernel at equal time, whole and as the sum of the blocks of matrices:
 * [output] tangent. In gradient flow df_mu/dt = (eta0/P) sum_nu K_mu,nu Delta_nu
 * (models/engine/net.h, net_tangent). Of several outputs or tokens the error Delta is inside,
 * summed over them. */
#ifndef SOLVER_TANGENT_H
#define SOLVER_TANGENT_H

#include "solver/measure/instrument.h"

extern const struct instrument tangent_instrument;
/* K [P][P] of the parameter of this name, or (empty name) of all. */
int tangent_kernel(const struct net *net, const char *name, double *K, struct err *err);
/* "tangent", or where Delta is inside "tangent_loss". */
const char *tangent_name(const struct net *net);
/* Bytes that finding one takes. */
double tangent_bytes(const struct net *net);

#endif
