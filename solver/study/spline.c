/* The cubic smoothing spline (spline.h). */
#include "solver/study/spline.h"

#include <math.h>

/* Roughness is sought between these, in units in which neighbours are one apart on average; from
 * the least, which leaves a straight line, to the largest, which goes through every estimate. */
static const double least = 1e-6, most = 1e4;
enum { TRIALS = 61 };

/* Covariance of the process without its line, for a roughness of one, at distances from x_0. */
static double covariance(double a, double b) {
    double least_of = fmin(a, b);
    return least_of * least_of * least_of / 3 + fabs(a - b) * least_of * least_of / 2;
}

/* In place: the solution of (factor factor^T) z = y. */
static void solve(const struct spline *spline, double *y, int stride) {
    int n = spline->count;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++)
            y[i * stride] -= spline->factor[i][j] * y[j * stride];
        y[i * stride] /= spline->factor[i][i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            y[i * stride] -= spline->factor[j][i] * y[j * stride];
        y[i * stride] /= spline->factor[i][i];
    }
}

/* Makes everything for this roughness, and returns the restricted log-likelihood of y. */
static double prepare(struct spline *spline, const double *y, const double *variance) {
    int n = spline->count;
    double likelihood = 0, normal[3] = {0}, rest = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            double a = spline->x[i] - spline->x[0], b = spline->x[j] - spline->x[0];
            double sum = spline->rough * covariance(a, b) + (i == j ? variance[i] : 0);
            for (int k = 0; k < j; k++)
                sum -= spline->factor[i][k] * spline->factor[j][k];
            spline->factor[i][j] = i == j ? sqrt(sum) : sum / spline->factor[j][j];
        }
    for (int i = 0; i < n; i++) {
        spline->line[i][0] = 1;
        spline->line[i][1] = spline->x[i] - spline->x[0];
        likelihood -= log(spline->factor[i][i]);
    }
    solve(spline, &spline->line[0][0], 2);
    solve(spline, &spline->line[0][1], 2);
    for (int i = 0; i < n; i++) {
        normal[0] += spline->line[i][0];
        normal[1] += spline->line[i][1];
        normal[2] += spline->line[i][1] * (spline->x[i] - spline->x[0]);
    }
    double determinant = normal[0] * normal[2] - normal[1] * normal[1];
    spline->inverse[0] = normal[2] / determinant;
    spline->inverse[1] = -normal[1] / determinant;
    spline->inverse[2] = normal[0] / determinant;
    struct spline_fit fit;
    spline_solve(spline, y, &fit);
    for (int i = 0; i < n; i++) /* weights are orthogonal to lines */
        rest += y[i] * fit.weight[i];
    return likelihood - log(determinant) / 2 - rest / 2;
}

void spline_init(struct spline *spline, int count, const double *x, const double *y,
                 const double *variance) {
    double unit = (x[count - 1] - x[0]) / (count - 1), best = NAN, likelihood = -INFINITY;
    spline->count = count;
    for (int i = 0; i < count; i++)
        spline->x[i] = x[i];
    for (int k = 0; k < TRIALS; k++) {
        spline->rough = least * pow(most / least, k / (TRIALS - 1.0)) / pow(unit, 3);
        double now = prepare(spline, y, variance);
        if (now > likelihood) {
            likelihood = now;
            best = spline->rough;
        }
    }
    spline->rough = best;
    prepare(spline, y, variance);
}

void spline_solve(const struct spline *spline, const double *y, struct spline_fit *fit) {
    int n = spline->count;
    double on[2] = {0};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            on[k] += spline->line[i][k] * y[i];
    fit->height = spline->inverse[0] * on[0] + spline->inverse[1] * on[1];
    fit->slope = spline->inverse[1] * on[0] + spline->inverse[2] * on[1];
    for (int i = 0; i < n; i++)
        fit->weight[i] = y[i] - fit->height - fit->slope * (spline->x[i] - spline->x[0]);
    solve(spline, fit->weight, 1);
}

double spline_at(const struct spline *spline, const struct spline_fit *fit, double x) {
    double at = x - spline->x[0], sum = 0;
    for (int i = 0; i < spline->count; i++)
        sum += fit->weight[i] * covariance(at, spline->x[i] - spline->x[0]);
    return fit->height + fit->slope * at + spline->rough * sum;
}
