/* Statistics of independent runs. */
#include "solver/measure/stats.h"

#include <assert.h>
#include <float.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>
#include <gsl/gsl_sort_double.h>
#include <math.h>
#include <stdbool.h>

double stats_interval(double se, int n, double level) {
    return n < 2 ? NAN : se * gsl_cdf_tdist_Pinv(0.5 + 0.5 * level, n - 1.0);
}

double stats_round_off(double *const *mean, int count, size_t size) {
    double largest = 0;
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < size && mean[i]; k++)
            largest = fmax(largest, fabs(mean[i][k])); /* passes over NaN */
    return 64 * DBL_EPSILON * largest;
}

/* Returns the chi^2 of the fit. */
static double fit_line(const int *N, const double *mean, const double *se, int count, double *a,
                       double *a_se) {
    double x[count], w[count], b, cov00, cov01, cov11, chi2;
    assert(count >= 2);
    for (int i = 0; i < count; i++) {
        x[i] = 1.0 / N[i];
        w[i] = 1 / (se[i] * se[i]);
        *a = *a_se = NAN;
        if (!(se[i] > 0) || !isfinite(se[i]))
            return NAN;
    }
    gsl_fit_wlinear(x, 1, w, 1, mean, 1, (size_t)count, a, &b, &cov00, &cov01, &cov11, &chi2);
    *a_se = sqrt(cov00);
    return chi2;
}

double stats_shown(double mean, double error) {
    return error <= 1e-12 * fabs(mean) ? 0 : error;
}

void stats_extrapolate(const int *N, const double *mean, const double *se, int count, double *a,
                       double *a_se) {
    fit_line(N, mean, se, count, a, a_se);
}

/* The z that is exceeded as rarely as t of Student's law; beyond what numbers can say, t itself. */
static double normal_of(double t, double freedom) {
    double rare = gsl_cdf_tdist_Q(fabs(t), freedom);
    return rare > 0 ? copysign(gsl_cdf_ugaussian_Qinv(rare), t) : t;
}

/* Whether this is the mean of numbers that are 0 or 1 in each run, as those of a mask are. */
static bool is_share(struct stats_mean mean) {
    double square = mean.value * (1 - mean.value);
    return fabs(mean.se * mean.se * (mean.runs - 1) - square) <= 64 * DBL_EPSILON;
}

double stats_z(const int *N, const struct stats_mean *mean, int count, struct stats_mean limit) {
    double weight = 0, first = 0, second = 0, a = 0;
    double square = limit.se * limit.se, fourth = square * square / (limit.runs - 1);
    bool shares = is_share(limit);
    for (int i = 0; i < count; i++) {
        double w = 1 / (mean[i].se * mean[i].se);
        shares = shares && is_share(mean[i]);
        weight += w;
        first += w / N[i];
        second += w / N[i] / N[i];
    }
    if (shares && limit.se == 0)
        return NAN;
    for (int i = 0; i < count; i++) { /* a is the sum of share_i mean_i */
        double w = 1 / (mean[i].se * mean[i].se),
               share = w * (second - first / N[i]) / (weight * second - first * first),
               part = pow(share * mean[i].se, 2);
        a += share * mean[i].value;
        square += part;
        fourth += part * part / (mean[i].runs - 1);
    }
    double t = (a - limit.value) / sqrt(square);
    return isfinite(t) ? normal_of(t, square * square / fourth) : NAN;
}

double stats_chi2(const int *N, const double *mean, const double *se, int count) {
    double a, a_se;
    return count < 3 ? NAN : fit_line(N, mean, se, count, &a, &a_se);
}

double stats_vertex(const double x[3], const double y[3]) {
    double before = (x[0] + x[1]) / 2, after = (x[1] + x[2]) / 2;
    double down = (y[1] - y[0]) / (x[1] - x[0]), up = (y[2] - y[1]) / (x[2] - x[1]);
    return up > down ? before + (after - before) * down / (down - up) : x[1];
}

void stats_median(double *value, int n, double *median, double *se) {
    double a = (n + 1) / 2.0, first = 0, second = 0, below = 0;
    gsl_sort(value, 1, (size_t)n);
    *median = 0.5 * (value[(n - 1) / 2] + value[n / 2]);
    for (int i = 0; i < n; i++) { /* below `to`: the median of n draws is at most value[i] */
        double to = gsl_cdf_beta_P((i + 1.0) / n, a, a), shift = value[i] - *median;
        first += (to - below) * shift;
        second += (to - below) * shift * shift;
        below = to;
    }
    *se = n < 2 ? NAN : sqrt(fmax(second - first * first, 0));
}

int stats_approach(const int *N, const double *gap, const double *se, double limit_se, int count,
                   double *exponent, double *exponent_se) {
    double x[count], y[count], w[count], own[count], limit[count], c, cov00, cov01, cov11, chi2;
    double mean = 0, weight = 0, spread = 0, scatter = 0, shift = 0;
    int used = 0;
    *exponent = *exponent_se = NAN;
    for (int i = 0; i < count; i++) {
        double error = hypot(se[i], limit_se);
        if (!(error > 0) || !(fabs(gap[i]) > 2 * error))
            continue;
        x[used] = log(N[i]);
        y[used] = log(fabs(gap[i]));
        own[used] = se[i] / gap[i];
        limit[used] = limit_se / gap[i];
        w[used] = gap[i] * gap[i] / (error * error);
        weight += w[used];
        mean += w[used] * x[used];
        used++;
    }
    if (used < 2)
        return used;
    gsl_fit_wlinear(x, 1, w, 1, y, 1, (size_t)used, &c, exponent, &cov00, &cov01, &cov11, &chi2);
    for (int i = 0; i < used; i++) { /* the exponent is the sum of lever y / spread */
        double lever = w[i] * (x[i] - mean / weight);
        spread += lever * x[i];
        scatter += lever * own[i] * lever * own[i];
        shift += lever * limit[i];
    }
    *exponent_se = hypot(sqrt(scatter), shift) / spread;
    return used;
}

void stats_exponent(const int *N, const double *value, const double *se, int count,
                    double *exponent, double *exponent_se) {
    double x[count], c, cov00, cov01, cov11, chi2, mean = 0, spread = 0, scatter = 0;
    assert(count >= 2);
    *exponent = *exponent_se = NAN;
    for (int i = 0; i < count; i++) {
        if (!isfinite(value[i]))
            return;
        x[i] = log(N[i]);
        mean += x[i] / count;
    }
    gsl_fit_linear(x, 1, value, 1, (size_t)count, &c, exponent, &cov00, &cov01, &cov11, &chi2);
    for (int i = 0; i < count; i++) {
        spread += (x[i] - mean) * (x[i] - mean);
        scatter += pow((x[i] - mean) * se[i], 2);
    }
    *exponent_se = sqrt(scatter) / spread;
    if (count >= 3)
        *exponent_se = fmax(*exponent_se, sqrt(cov11));
}
