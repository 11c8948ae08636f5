/* Statistics of independent runs. */
#include "solver/stats.h"

#include <assert.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>
#include <math.h>

double stats_interval(double se, int n, double level) {
    return n < 2 ? NAN : se * gsl_cdf_tdist_Pinv(0.5 + 0.5 * level, n - 1.0);
}

void stats_extrapolate(const int *N, const double *mean, const double *se, int count, double *a,
                       double *a_se) {
    double x[count], w[count], b, cov00, cov01, cov11, chi2;
    assert(count >= 2);
    for (int i = 0; i < count; i++) {
        x[i] = 1.0 / N[i];
        w[i] = 1 / (se[i] * se[i]);
        *a = *a_se = NAN;
        if (!(se[i] > 0) || !isfinite(se[i]))
            return;
    }
    gsl_fit_wlinear(x, 1, w, 1, mean, 1, (size_t)count, a, &b, &cov00, &cov01, &cov11, &chi2);
    *a_se = sqrt(cov00);
}

double stats_vertex(const double x[3], const double y[3]) {
    double before = (x[0] + x[1]) / 2, after = (x[1] + x[2]) / 2;
    double down = (y[1] - y[0]) / (x[1] - x[0]), up = (y[2] - y[1]) / (x[2] - x[1]);
    return up > down ? before + (after - before) * down / (down - up) : x[1];
}
