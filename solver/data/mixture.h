/* Regression tasks of which the best predictor is known, in units in which |x|^2 = D and the
 * targets have variance 1 on average, plus that of the noise.
 *
 * mixture:
 *     one of K components, k, with probability 1/K each; x = r m_k + sqrt(1 - r^2) g and
 *     y = <t_k, x>/sqrt D + noise e, where means m_k, teachers t_k, g and e are standard normals.
 *     At separation r = 0 nothing in x tells the component. With p_k(x) proportional to
 *     exp(-|x - r m_k|^2/(2 (1 - r^2))) and u_k = <t_k, x>/sqrt D the best predictor is
 *     sum_k p_k u_k, and its expected loss (sum_k p_k u_k^2 - (sum_k p_k u_k)^2 + noise^2)/2.
 *
 * power_law:
 *     x_i = sqrt(lambda_i) g_i, lambda_i proportional to i^-a with the sum D, and
 *     y = sum_i sqrt(s_i) g_i + noise e, s_i proportional to i^-b with the sum 1: the spectrum of
 *     the inputs and the share of the targets along each of its directions. The best predictor
 *     knows s, and its loss is noise^2/2. */
#ifndef SOLVER_MIXTURE_H
#define SOLVER_MIXTURE_H

#include "solver/data/data.h"

struct task {
    int components;           /* K of a mixture; 0: power_law */
    double separation, noise; /* 0 <= separation < 1 */
    double spectrum, target;  /* the exponents a and b */
    uint64_t seed;
};
/* Bytes of the means and the teachers in the truth. */
double mixture_bytes(const struct data *sizes, int components);
/* X, y and truth of data of these sizes, which are zero; n = C = 1. Input mu does not depend on the
 * number of inputs. */
int mixture_draw(struct data *data, const struct task *task, struct err *err);

#endif
