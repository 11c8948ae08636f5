/* The cubic smoothing spline through a few estimates with errors, for solver/study/optimum.c: the
 * mean of a process f with f'' = white noise of variance `rough` per unit of x, a straight line of
 * unknown height and slope added, given y_i = f(x_i) + noise of variance v_i. (Wahba, Spline Models
 * for Observational Data, 1990, chapter 1.) */
#ifndef SOLVER_SPLINE_H
#define SOLVER_SPLINE_H

#include "kernels/base/base.h"

enum { SPLINE_MOST = 64 }; /* estimates at most */

struct spline {
    int count;
    double x[SPLINE_MOST], rough;
    double factor[SPLINE_MOST][SPLINE_MOST]; /* Cholesky factor of the covariance of y */
    double line[SPLINE_MOST][2]; /* that covariance inverted on the lines 1 and x - x_0 */
    double inverse[3];           /* of the 2 x 2 normal matrix of the lines: 00, 01, 11 */
};

/* What one vector of estimates gives. */
struct spline_fit {
    double height, slope, weight[SPLINE_MOST];
};

/* x [count] increasing, 3 <= count <= SPLINE_MOST, variances positive. rough is found from y by
 * restricted maximum likelihood. */
void spline_init(struct spline *spline, int count, const double *x, const double *y,
                 const double *variance);
void spline_solve(const struct spline *spline, const double *y, struct spline_fit *fit);
double spline_at(const struct spline *spline, const struct spline_fit *fit, double x);

#endif
