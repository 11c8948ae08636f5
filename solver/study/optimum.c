/* Where an objective is smallest along a key (optimum.h). */
#include "solver/study/optimum.h"
#include "solver/study/spline.h"
#include "solver/measure/stats.h"

#include <Random123/philox.h>
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINE = 16,  /* places between two values of the key at which a curve is looked at */
    USABLE = 4, /* values of the key at least */
    TAIL = 25   /* samples beyond either end of an interval, of OPTIMUM_SAMPLES: 2.5 % */
};
static const double errors = 2;      /* an estimate below so many of its errors does not decide */
static const double cliff = 3;       /* how many times steeper a rise is than a curve continued */
static const double smallest = 1e-6; /* variance of an estimate at least, for the fit alone */

/* ---- random numbers: functions of what they are for ---- */

enum purpose { RUN = 1, SPREAD, REST, HEIGHT, SLOPE, CLIFF };

/* Uniform between 0 and 1, both excluded. */
static double uniform(enum purpose purpose, int sample, int item, uint32_t column) {
    philox4x32_key_t key = {{UINT32_C(0x6f707469), UINT32_C(0x6d756d31)}};
    philox4x32_ctr_t counter = {{(uint32_t)item, (uint32_t)sample, column, (uint32_t)purpose}};
    return (philox4x32(counter, key).v[0] + 0.5) / 4294967296.0;
}

static double normal(enum purpose purpose, int sample, int item, uint32_t column) {
    return gsl_cdf_ugaussian_Pinv(uniform(purpose, sample, item, column));
}

/* ---- the values of the key that can be used ---- */

struct curve {
    enum optimum_kind kind;
    const struct optimum_point *point[SPLINE_MOST];
    int count, runs, best; /* best: the place of the smallest estimate among them */
    uint32_t N, own;       /* the width; number_of() these estimates */
    double x[SPLINE_MOST], y[SPLINE_MOST];
    double mean[SPLINE_MOST];     /* of the runs, where there are any */
    double scale[SPLINE_MOST];    /* dy over d(estimate) */
    double rest[SPLINE_MOST];     /* error of y that the runs do not show */
    double variance[SPLINE_MOST]; /* of y, for the fit */
    struct spline spline;
    double *picked; /* [runs], scratch */
};

static bool is_usable(const struct optimum_point *point) {
    bool known = isnan(point->error) || point->value > errors * point->error;
    return !point->failed && isfinite(point->value) && point->value > 0 && known;
}

/* The smallest estimate that can be used, or -1. */
static int find_best(int count, const struct optimum_point *point) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (is_usable(&point[i]) && (best < 0 || point[i].value < point[best].value))
            best = i;
    return best;
}

/* What lies beyond point i, the outermost that can be used on this side (-1 or 1). */
static enum optimum_reason beyond(int count, const struct optimum_point *point, int i, int side) {
    if (i + side < 0)
        return OPTIMUM_LOWEST;
    if (i + side == count)
        return OPTIMUM_HIGHEST;
    return point[i + side].failed ? OPTIMUM_FAILED : OPTIMUM_NOISE;
}

/* Whether an estimate that is not told from zero is below the best one by its errors. */
static bool is_undercut(int count, const struct optimum_point *point, int best) {
    bool lower = false;
    for (int i = 0; i < count; i++) {
        const struct optimum_point *p = &point[i];
        lower = lower ||
                (!p->failed && !is_usable(p) && p->value + errors * p->error < point[best].value);
    }
    return lower;
}

/* A number that other estimates do not have. Round-off, which differs between machines, does not
 * change it: samples are then the same on all of them. */
static uint32_t number_of(const struct curve *curve) {
    uint64_t hash = BASE_HASH;
    for (int k = 0; k < curve->count; k++) {
        int64_t y = (int64_t)rint(curve->y[k] * 1e6);
        hash = base_hash(hash, &y, sizeof y);
    }
    return (uint32_t)(hash ^ hash >> 32);
}

/* The points around the best one, up to the first on either side that cannot be used. */
static void take_usable(struct curve *curve, int count, const struct optimum_point *point,
                        int best) {
    int first = best, last = best, most = SPLINE_MOST / 2;
    while (first > 0 && is_usable(&point[first - 1]) && best - first < most - 1)
        first--;
    while (last < count - 1 && is_usable(&point[last + 1]) && last - best < most - 1)
        last++;
    curve->runs = point[best].runs;
    for (int i = first; i <= last; i++) {
        double height = log(point[i].value / point[best].value);
        int k = curve->count++;
        curve->best = i == best ? k : curve->best;
        curve->point[k] = &point[i];
        curve->x[k] = point[i].x;
        curve->y[k] = asinh(height);
        curve->scale[k] = 1 / point[i].value / hypot(1, height);
        curve->runs = point[i].runs < curve->runs ? point[i].runs : curve->runs;
        curve->mean[k] =
            point[i].run ? gsl_stats_mean(point[i].run, 1, (size_t)point[i].runs) : NAN;
    }
    curve->own = number_of(curve);
}

/* ---- errors ---- */

/* What run r adds to y at place k. */
static double deviation(const struct curve *curve, int k, int r) {
    const struct optimum_point *point = curve->point[k];
    int n = curve->runs;
    return (point->run[r] - curve->mean[k]) * curve->scale[k] / sqrt(n * (n - 1.0));
}

/* What the runs do to all places alike moves no optimum, and is no error of a fit. Variances of few
 * runs are uncertain: each is drawn towards their geometric mean as by four degrees of freedom. */
static void find_variances(struct curve *curve) {
    int n = curve->runs;
    double pool = 0;
    for (int k = 0; k < curve->count; k++) {
        const struct optimum_point *point = curve->point[k];
        double error = point->error * curve->scale[k], shown = 0;
        bool runs = curve->kind == OPTIMUM_MEANS && point->run;
        curve->variance[k] = curve->kind == OPTIMUM_MEANS && point->run ? 0 : error * error;
        for (int r = 0; r < n && runs; r++) {
            double all = 0;
            for (int i = 0; i < curve->count; i++)
                all += curve->point[i]->run ? deviation(curve, i, r) / curve->count : 0;
            curve->variance[k] += pow(deviation(curve, k, r) - all, 2);
            shown += pow(deviation(curve, k, r), 2);
        }
        double rest = error * error - shown;
        curve->rest[k] = curve->kind == OPTIMUM_MEANS && rest > 1e-9 * shown ? sqrt(rest) : 0;
        curve->variance[k] += runs ? curve->rest[k] * curve->rest[k] : 0;
        pool += log(curve->variance[k] + smallest) / curve->count;
    }
    for (int k = 0; k < curve->count; k++)
        curve->variance[k] =
            ((n - 1) * (curve->variance[k] + smallest) + 4 * exp(pool)) / (n - 1 + 4);
}

/* sqrt(nu/chi^2) of nu degrees of freedom where chi^2 has this quantile. Beyond a thousand degrees,
 * where GSL does not always find it, by the cubes of Wilson and Hilferty, which err by less than
 * 1e-5 there. */
static double student_factor(double quantile, double nu) {
    const double variance = 2 / (9 * nu);
    if (nu <= 1000)
        return sqrt(nu / gsl_cdf_chisq_Pinv(quantile, nu));
    return pow(1 - variance + sqrt(variance) * gsl_cdf_ugaussian_Pinv(quantile), -1.5);
}

/* Places y [count] of one sample, as other runs might have had them. */
static void move(const struct curve *curve, int sample, double *y) {
    int n = curve->runs;
    double spread = student_factor(uniform(SPREAD, sample, 0, curve->N), n - 1);
    double *picked = curve->picked;
    for (int k = 0; k < curve->count; k++) {
        const struct optimum_point *point = curve->point[k];
        double moved = curve->rest[k] * normal(REST, sample, k, curve->own);
        if (curve->kind == OPTIMUM_MEANS && point->run) {
            for (int r = 0; r < n; r++)
                moved += normal(RUN, sample, r, curve->N) * deviation(curve, k, r);
        } else if (point->run) {
            for (int r = 0; r < n; r++)
                picked[r] = point->run[(int)(n * uniform(RUN, sample, r, curve->N))];
            gsl_sort(picked, 1, (size_t)n);
            moved = (gsl_stats_median_from_sorted_data(picked, 1, (size_t)n) - point->value) *
                    curve->scale[k];
        }
        y[k] = curve->y[k] + spread * moved;
    }
}

/* ---- curves ---- */

/* Where the curve is looked at: place j. */
static double place(const struct curve *curve, int j) {
    int k = j / FINE;
    double left = curve->x[k], share = (double)(j % FINE) / FINE;
    return j % FINE ? left + share * (curve->x[k + 1] - left) : left;
}

/* A path of the process without its line, at all places: of integrated white noise. */
static void draw_path(const struct curve *curve, int sample, double *path) {
    int places = FINE * (curve->count - 1) + 1;
    double slope = 0, amplitude = sqrt(curve->spline.rough);
    path[0] = 0;
    for (int j = 1; j < places; j++) {
        double step = place(curve, j) - place(curve, j - 1), root = amplitude * sqrt(step);
        double a = normal(SLOPE, sample, j, 0), b = normal(HEIGHT, sample, j, 0);
        path[j] = path[j - 1] + slope * step + root * step * (a / 2 + b / sqrt(12));
        slope += root * a;
    }
}

/* The lowest place of the curve through y [count], or through y less a path, plus the path; *least:
 * how low. -INFINITY or INFINITY where it is the first or last place. */
static double lowest(const struct curve *curve, const double *y, const double *path,
                     double *least) {
    int places = FINE * (curve->count - 1) + 1, best = 0;
    double rest[SPLINE_MOST], height[places];
    struct spline_fit fit;
    for (int k = 0; k < curve->count; k++)
        rest[k] = y[k] - (path ? path[FINE * k] : 0);
    spline_solve(&curve->spline, rest, &fit);
    for (int j = 0; j < places; j++) {
        height[j] = spline_at(&curve->spline, &fit, place(curve, j)) + (path ? path[j] : 0);
        best = height[j] < height[best] ? j : best;
    }
    *least = height[best];
    if (best == 0 || best == places - 1)
        return best ? INFINITY : -INFINITY;
    const double x[] = {place(curve, best - 1), place(curve, best), place(curve, best + 1)};
    return path ? x[1] : stats_vertex(x, height + best - 1);
}

/* The value of the key up to which the curve may go down although the next is high: on this side
 * (-1 or 1) of the best, the estimate rises far more than the parabola through the best and two on
 * the other side has it, which is bent little. NAN: no such rise. */
static double find_cliff(const struct curve *curve, int side) {
    int k = curve->best, a = k - side, b = k - 2 * side, next = k + side;
    if (next < 0 || next >= curve->count || b < 0 || b >= curve->count)
        return NAN;
    double h[4], w[3], variance = curve->variance[next];
    const int at[] = {k, a, b, next};
    for (int i = 0; i < 4; i++)
        h[i] = sinh(curve->y[at[i]]);
    double continued = 0, chord = 0;
    for (int i = 0; i < 3; i++) {
        w[i] = 1;
        for (int j = 0; j < 3; j++)
            if (j != i)
                w[i] *= (curve->x[next] - curve->x[at[j]]) / (curve->x[at[i]] - curve->x[at[j]]);
        continued += w[i] * h[i];
        variance += w[i] * w[i] * curve->variance[at[i]];
    }
    double far = (curve->x[next] - curve->x[k]) / (curve->x[k] - curve->x[a]);
    chord = h[0] + (h[0] - h[1]) * far;
    bool rises = h[3] - continued > cliff * (fabs(continued - chord) + sqrt(variance));
    return rises ? curve->x[next] : NAN;
}

static void draw_samples(const struct curve *curve, double scale, struct optimum *optimum) {
    const double rise[] = {find_cliff(curve, -1), find_cliff(curve, 1)};
    double y[SPLINE_MOST], path[FINE * SPLINE_MOST];
    for (int b = 0; b < OPTIMUM_SAMPLES; b++) {
        double least;
        move(curve, b, y);
        draw_path(curve, b, path);
        double at = lowest(curve, y, path, &least);
        for (int side = 0; side < 2; side++) {
            double left = (rise[side] - at) * (side ? 1 : -1);
            if (isfinite(at) && left > 0)
                at += (rise[side] - at) * uniform(CLIFF, b, side, curve->own);
        }
        optimum->sample[b] = at;
        optimum->sample_value[b] = scale * exp(sinh(least));
    }
}

/* ---- the optimum ---- */

static void find_interval(const double *sample, double *low, double *high) {
    double sorted[OPTIMUM_SAMPLES];
    memcpy(sorted, sample, sizeof sorted);
    gsl_sort(sorted, 1, OPTIMUM_SAMPLES);
    *low = sorted[TAIL - 1];
    *high = sorted[OPTIMUM_SAMPLES - TAIL];
}

static void forget(struct optimum *optimum) {
    *optimum = (struct optimum){.best = -1, .at = NAN, .low = NAN, .high = NAN};
    optimum->value = optimum->value_low = optimum->value_high = NAN;
    for (int b = 0; b < OPTIMUM_SAMPLES; b++)
        optimum->sample[b] = optimum->sample_value[b] = NAN;
}

/* The middle of the samples and what holds 95 % of them, if that lies inside. */
static void conclude(struct optimum *optimum, const struct curve *curve, enum optimum_reason below,
                     enum optimum_reason above) {
    double scale = curve->point[curve->best]->value, least;
    draw_samples(curve, scale, optimum);
    find_interval(optimum->sample, &optimum->low, &optimum->high);
    double at = lowest(curve, curve->y, NULL, &least);
    bool down = isinf(optimum->low) || at == -INFINITY;
    bool up = isinf(optimum->high) || at == INFINITY;
    optimum->reason = down && up ? OPTIMUM_NOISE : down ? below : up ? above : OPTIMUM_KNOWN;
    if (down || up)
        return;
    optimum->at = fmin(fmax(at, optimum->low), optimum->high);
    optimum->value = scale * exp(sinh(least));
    find_interval(optimum->sample_value, &optimum->value_low, &optimum->value_high);
}

int optimum_find(struct optimum *optimum, enum optimum_kind kind, int count,
                 const struct optimum_point *point, int N, struct err *err) {
    struct curve *curve;
    int code = CODE_OK, present = 0, best = find_best(count, point);
    forget(optimum);
    for (int i = 0; i < count; i++)
        present += !point[i].failed;
    optimum->best = best;
    optimum->reason = present ? OPTIMUM_NOISE : OPTIMUM_NONE;
    if (best < 0 || is_undercut(count, point, best))
        return CODE_OK;
    TRY(base_alloc(&curve, 1, sizeof *curve, err));
    curve->kind = kind;
    curve->N = (uint32_t)N;
    take_usable(curve, count, point, best);
    int last = curve->count - 1, low = (int)(curve->point[0] - point),
        high = (int)(curve->point[last] - point);
    enum optimum_reason below = beyond(count, point, low, -1),
                        above = beyond(count, point, high, 1);
    if (curve->best == 0 || curve->best == last)
        optimum->reason = curve->best == last ? above : below;
    else if (curve->runs < 2)
        optimum->reason = OPTIMUM_SINGLE;
    else if (curve->count < USABLE)
        optimum->reason = OPTIMUM_FEW;
    else {
        DO(base_alloc(&curve->picked, (size_t)curve->runs, sizeof *curve->picked, err));
        find_variances(curve);
        spline_init(&curve->spline, curve->count, curve->x, curve->y, curve->variance);
        conclude(optimum, curve, below, above);
    }
done:
    free(curve->picked);
    free(curve);
    return code;
}
