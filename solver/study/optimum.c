/* Where the final loss is smallest along a key. */
#include "solver/study/optimum.h"
#include "solver/measure/stats.h"

#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdbool.h>

enum { RESAMPLES = 400 }; /* an error known to 1/sqrt(800) */

/* Of the runs that pick[n] names. */
static double typical(enum optimum_kind kind, const double *loss, const int *pick, int n) {
    double sum = 0, picked[n], se;
    for (int k = 0; k < n; k++)
        sum += picked[k] = loss[pick[k]];
    if (kind == OPTIMUM_MEANS)
        return sum / n;
    stats_median(picked, n, &sum, &se);
    return sum;
}

static enum edge locate(enum optimum_kind kind, int count, const double *x,
                        const double *const *loss, const int *pick, int n, double *at, int *best) {
    double least = INFINITY, y[count];
    *best = -1;
    *at = NAN;
    for (int i = 0; i < count; i++) {
        y[i] = loss[i] ? typical(kind, loss[i], pick, n) : NAN;
        if (y[i] < least) {
            least = y[i];
            *best = i;
        }
    }
    if (*best < 0)
        return EDGE_ALL_FAILED;
    *at = x[*best];
    if (*best == 0 || *best == count - 1)
        return *best ? EDGE_HIGHEST : EDGE_LOWEST;
    if (!loss[*best - 1] || !loss[*best + 1])
        return EDGE_FAILED;
    for (int k = -1; k <= 1; k++) {
        y[*best + k] = log(y[*best + k]);
        if (!isfinite(y[*best + k]))
            return EDGE_ZERO;
    }
    *at = stats_vertex(x + *best - 1, y + *best - 1);
    return EDGE_NONE;
}

enum edge optimum_find(enum optimum_kind kind, int count, const double *x,
                       const double *const *loss, int runs, double *at, double *at_se, int *best) {
    int most = runs > 0 ? runs : 1, pick[most], ignored;
    for (int r = 0; r < most; r++)
        pick[r] = r;
    enum edge edge = locate(kind, count, x, loss, pick, runs, at, best);
    double sum = 0, squares = 0, place;
    *at_se = NAN;
    if (edge != EDGE_NONE || runs < 2)
        return edge;
    bool jackknife = kind == OPTIMUM_MEANS;
    int repeats = jackknife ? runs : RESAMPLES;
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_taus2); /* of one seed: repeated calls agree */
    for (int k = 0; k < repeats; k++) {
        for (int r = 0; r < runs; r++)
            pick[r] = jackknife ? r + (r >= k) : (int)gsl_rng_uniform_int(rng, (unsigned)runs);
        locate(kind, count, x, loss, pick, runs - jackknife, &place, &ignored);
        sum += place - *at;
        squares += (place - *at) * (place - *at);
    }
    gsl_rng_free(rng);
    double share = jackknife ? (runs - 1.0) / runs : 1.0 / (RESAMPLES - 1);
    *at_se = sqrt(share * fmax(squares - sum * sum / repeats, 0));
    return edge;
}
