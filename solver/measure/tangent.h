/* Tangent kernels at equal time, whole and as the sum of the blocks of matrices: [output] tangent.
 * Of the outputs (`tangent`): in gradient flow df_mu/dt = (eta0/P) sum_nu K_mu,nu Delta_nu; of
 * several outputs of an input the mean over these of each one's own. Of the loss of the task
 * (`tangent_loss`) and of each penalty (`tangent_balance_loss`, ...) the products of the gradients
 * of two inputs (solver/measure/gradients.h). */
#ifndef SOLVER_TANGENT_H
#define SOLVER_TANGENT_H

#include "solver/measure/instrument.h"

extern const struct instrument tangent_instrument;

#endif
