/* The smoothing spline beside the same estimate by dense linear algebra: generalized least squares
 * for the line, and the mean of a Gaussian process given what is left. */
#include "solver/study/spline.h"
#include "tests/support/support.h"

#include <gsl/gsl_linalg.h>
#include <gsl/gsl_rng.h>
#include <math.h>

enum { N = 7, TRIED = 61 };

struct made {
    double x[N], y[N], variance[N];
};

/* Integral over u from 0 to min(a, b) of (a - u)(b - u), by its definition. */
static double covariance(double a, double b) {
    double m = fmin(a, b);
    return a * b * m - (a + b) * m * m / 2 + m * m * m / 3;
}

static double logdet(const double *A, size_t n, double *inverse) {
    gsl_matrix *lu = gsl_matrix_alloc(n, n);
    gsl_permutation *p = gsl_permutation_alloc(n);
    gsl_matrix_view out = gsl_matrix_view_array(inverse, n, n);
    int sign;
    for (size_t i = 0; i < n * n; i++)
        lu->data[i] = A[i];
    gsl_linalg_LU_decomp(lu, p, &sign);
    gsl_linalg_LU_invert(lu, p, &out.matrix);
    double value = gsl_linalg_LU_lndet(lu);
    gsl_permutation_free(p);
    gsl_matrix_free(lu);
    return value;
}

/* Restricted log-likelihood of this roughness, and the estimate at each place. */
static double dense(const struct made *made, double rough, int places, const double *place,
                    double *estimate) {
    double V[N * N], inverse[N * N], XX[4] = {0}, line[4], Xy[2] = {0}, weight[N] = {0}, rest = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            V[i * N + j] = rough * covariance(made->x[i] - made->x[0], made->x[j] - made->x[0]) +
                           (i == j ? made->variance[i] : 0);
    double likelihood = -logdet(V, N, inverse) / 2;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const double a[2] = {1, made->x[i] - made->x[0]}, b[2] = {1, made->x[j] - made->x[0]};
            for (int k = 0; k < 4; k++)
                XX[k] += a[k / 2] * inverse[i * N + j] * b[k % 2];
            for (int k = 0; k < 2; k++)
                Xy[k] += a[k] * inverse[i * N + j] * made->y[j];
        }
    likelihood -= logdet(XX, 2, line) / 2;
    const double height = line[0] * Xy[0] + line[1] * Xy[1],
                 slope = line[2] * Xy[0] + line[3] * Xy[1];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            weight[i] +=
                inverse[i * N + j] * (made->y[j] - height - slope * (made->x[j] - made->x[0]));
    for (int i = 0; i < N; i++)
        rest += weight[i] * (made->y[i] - height - slope * (made->x[i] - made->x[0]));
    for (int k = 0; k < places; k++) {
        double at = place[k] - made->x[0];
        estimate[k] = height + slope * at;
        for (int i = 0; i < N; i++)
            estimate[k] += rough * weight[i] * covariance(at, made->x[i] - made->x[0]);
    }
    return likelihood - rest / 2;
}

/* Curves from a straight line to one that is much rougher than its errors. The largest likelihood
 * of the roughnesses tried, 1e-6 to 1e4 for neighbours that are one apart, decides. 1e-7: the
 * condition of the covariances, 1e8 at most, times round-off, with a margin. */
static void as_dense_algebra_has_it(void **state) {
    (void)state;
    enum { PLACES = 9 };
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2);
    int lowest = 0, highest = 0, between = 0;
    for (int round = 0; round < 24; round++) {
        struct made made;
        struct spline spline;
        struct spline_fit fit;
        double place[PLACES], want[PLACES], best = NAN, most = -INFINITY;
        double scale = round % 4 ? pow(10, round % 4 - 3) : 0, step = 0.2 + gsl_rng_uniform(rng);
        for (int i = 0; i < N; i++) {
            made.x[i] = (i ? made.x[i - 1] : -1) + step * (0.5 + gsl_rng_uniform(rng));
            made.variance[i] = 1e-3 * (0.5 + gsl_rng_uniform(rng));
            made.y[i] = 0.7 - 0.4 * made.x[i] + scale * (2 * gsl_rng_uniform(rng) - 1);
        }
        const double unit = (made.x[N - 1] - made.x[0]) / (N - 1);
        for (int k = 0; k < TRIED; k++) {
            double rough = pow(10, -6 + k / 6.) / (unit * unit * unit),
                   now = dense(&made, rough, 0, NULL, NULL);
            if (now > most) {
                most = now;
                best = rough;
            }
        }
        spline_init(&spline, N, made.x, made.y, made.variance);
        CHECK_ABS(spline.rough, best, 1e-10 * best, "roughness in round %d", round);
        double times = best * unit * unit * unit;
        lowest += times < 1.1e-6;
        highest += times > 1;
        between += times > 2e-6 && times < 1;
        for (int k = 0; k < PLACES; k++)
            place[k] = made.x[0] + k * (made.x[N - 1] - made.x[0]) / (PLACES - 1);
        dense(&made, best, PLACES, place, want);
        spline_solve(&spline, made.y, &fit);
        for (int k = 0; k < PLACES; k++)
            CHECK_ABS(spline_at(&spline, &fit, place[k]), want[k], 1e-7, "round %d, at %g", round,
                      place[k]);
    }
    gsl_rng_free(rng);
    assert_true(lowest && between && highest);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_dense_algebra_has_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
