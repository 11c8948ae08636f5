#include "solver/measure/stats.h"

#include <float.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_fit.h>

double stats_interval(double se, double freedom, double level) {
    return freedom >= 1 ? se * gsl_cdf_tdist_Pinv(0.5 + 0.5 * level, freedom) : NAN;
}

double stats_largest(const double *values, size_t size) {
    double most = 0;
    for (size_t k = 0; k < size; k++)
        most = fmax(most, fabs(values[k]));
    return most;
}

double stats_round_off(double *const *mean, int count, size_t size) {
    double largest = 0;
    for (int i = 0; i < count; i++)
        largest = mean[i] ? fmax(largest, stats_largest(mean[i], size)) : largest;
    return 64 * DBL_EPSILON * largest;
}

double stats_shown(double mean, double error) {
    return error <= 1e-12 * fabs(mean) ? 0 : error;
}

/* The z that is exceeded as rarely as t of Student's law; beyond what numbers can say, t itself. */
static double normal_of(double t, double freedom) {
    double rare = gsl_cdf_tdist_Q(fabs(t), freedom);
    return rare > DBL_MIN ? copysign(gsl_cdf_ugaussian_Qinv(rare), t) : t;
}

/* The chi^2 of so many degrees that is exceeded as rarely as F is; beyond what numbers can say that
 * of variances that are known. */
static double chi2_of(double F, int degrees, double freedom) {
    double rare = gsl_cdf_fdist_Q(F, degrees, freedom);
    if (rare > 0.5)
        return gsl_cdf_chisq_Pinv(gsl_cdf_fdist_P(F, degrees, freedom), degrees);
    return rare > DBL_MIN ? gsl_cdf_chisq_Qinv(rare, degrees) : degrees * F;
}

struct stats_fit stats_extrapolate(const int *N, const struct stats_mean *mean, int count) {
    struct stats_fit fit = {0};
    double w[count], weight = 0, first = 0, second = 0, slope = 0, fourth = 0;
    double residuals = 0, expected = 0, spread = 0;
    assert(count >= 2);
    for (int i = 0; i < count; i++) {
        w[i] = (double)N[i] * mean[i].runs;
        if (!(mean[i].se > 0) || !isfinite(mean[i].se) || mean[i].runs < 2)
            return (struct stats_fit){NAN, NAN, NAN, NAN};
        weight += w[i];
        first += w[i] / N[i];
        second += w[i] / N[i] / N[i];
    }
    double scale = weight * second - first * first;
    for (int i = 0; i < count; i++) { /* a is the sum of share_i mean_i */
        double share = w[i] * (second - first / N[i]) / scale, part = pow(share * mean[i].se, 2);
        fit.a += share * mean[i].value;
        slope += w[i] * (weight / N[i] - first) / scale * mean[i].value;
        fit.se += part;
        fourth += part * part / (mean[i].runs - 1);
    }
    for (int i = 0; i < count; i++) { /* the line takes up 1 - left of a mean's own deviation */
        double left = 1 - w[i] * (second - 2 * first / N[i] + weight / N[i] / N[i]) / scale;
        double part = left * w[i] * mean[i].se * mean[i].se;
        residuals += w[i] * pow(mean[i].value - fit.a - slope / N[i], 2);
        expected += part;
        spread += part * part / (mean[i].runs - 1);
    }
    fit.freedom = fit.se * fit.se / fourth;
    fit.se = sqrt(fit.se);
    fit.chi2 =
        count < 3 ? NAN : chi2_of(residuals / expected, count - 2, expected * expected / spread);
    return fit;
}

double stats_z(struct stats_fit fit, struct stats_mean limit) {
    double square = fit.se * fit.se, other = limit.se * limit.se, sum = square + other;
    double t = (fit.a - limit.value) / sqrt(sum);
    double fourth = square * square / fit.freedom + other * other / (limit.runs - 1);
    return isfinite(t) ? normal_of(t, sum * sum / fourth) : NAN;
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
