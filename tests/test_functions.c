/* The functions of one variable, of every backend: values, slopes, large arguments, NaN. */
#include "tests/support/each_backend.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sf_erf.h>
#include <gsl/gsl_sf_fermi_dirac.h>

static const enum fn functions[] = {FN_LINEAR, FN_TANH,    FN_ERF, FN_RELU, FN_GELU, FN_SOFTPLUS,
                                    FN_SILU,   FN_SIGMOID, FN_EXP, FN_SIN,  FN_COS};

static double least(void) {
    return backend->bytes == sizeof(float) ? (double)FLT_MIN : DBL_MIN;
}

static double largest(void) {
    return backend->bytes == sizeof(float) ? (double)FLT_MAX : DBL_MAX;
}

struct jet {
    long double value, slope;
};

/* fn(u) and fn'(u) in extended precision. */
static struct jet reference(enum fn fn, long double u) {
    const long double pi = acosl(-1), normal = erfcl(-u * sqrtl(0.5L)) / 2;
    switch (fn) {
    case FN_TANH:
        return (struct jet){tanhl(u), 1 / (coshl(u) * coshl(u))};
    case FN_ERF:
        return (struct jet){erfl(u), 2 / sqrtl(pi) * expl(-u * u)};
    case FN_RELU:
        return (struct jet){u > 0 ? u : 0, u > 0};
    case FN_GELU:
        return (struct jet){u * normal, normal + u * expl(-u * u / 2) / sqrtl(2 * pi)};
    case FN_SOFTPLUS:
        return (struct jet){fmaxl(u, 0) + log1pl(expl(-fabsl(u))), 1 / (1 + expl(-u))};
    case FN_SILU:
        return (struct jet){u / (1 + expl(-u)), 1 / (1 + expl(-u)) + u / (2 + expl(u) + expl(-u))};
    case FN_SIGMOID:
        return (struct jet){1 / (1 + expl(-u)), 1 / (2 + expl(u) + expl(-u))};
    case FN_EXP:
        return (struct jet){expl(u), expl(u)};
    case FN_SIN:
        return (struct jet){sinl(u), cosl(u)};
    case FN_COS:
        return (struct jet){cosl(u), -sinl(u)};
    case FN_LOG:
        return (struct jet){logl(u), 1 / u};
    case FN_INVERSE:
        return (struct jet){1 / u, -1 / (u * u)};
    case FN_LINEAR:
        break;
    }
    return (struct jet){u, 1};
}

/* Library functions are good to a few units, and a rounding of u or inside of the argument costs
 * |fn'(u) u| eps. Slopes are of order one and so are second derivatives, except those of exp. Where
 * results underflow they need only be as small. */
static void check_function(enum fn fn, double u, double value, double slope) {
    struct jet want = reference(fn, u);
    long double v = fabsl(want.value), d = fabsl(want.slope), tiny = 1000 * least();
    if (fn == FN_EXP && u > log(largest())) {
        assert_true(value == INFINITY && slope == INFINITY);
        return;
    }
    assert_true(isfinite(value) && isfinite(slope));
    assert_near(value, want.value, 16 * eps() * (v + d * fabs(u)) + tiny);
    assert_near(slope, want.slope, 16 * eps() * (d + (fn != FN_EXP)) * (1 + fabs(u)) + tiny);
}

/* Values and slopes of fn at u, by the backend. */
static void evaluate(enum fn fn, const double *u, size_t count, double *value, double *slope) {
    FREED(array_free) struct array x;
    ASK(array_init(&x, backend, count, 1, 3, &err));
    backend->put(array_rows(&x, 0, 1), u);
    rows_fn(fn, array_rows(&x, 0, 1), array_rows(&x, 1, 1), array_rows(&x, 2, 1));
    backend->get(array_rows(&x, 1, 1), value);
    backend->get(array_rows(&x, 2, 1), slope);
}

TEST(test_functions) {
    static const double large[] = {10, 20, 26.5, 30, 38, 50, 100, 700, 709, 710, 745, 750, 800};
    enum { GRID = 3201, ALL = GRID + 2 * LENGTH(large) };
    double u[ALL], value[ALL], slope[ALL];
    for (int i = 0; i < ALL; i++)
        u[i] =
            rounded(i < GRID ? (i - GRID / 2) / 200.0 : large[(i - GRID) / 2] * (i % 2 ? 1 : -1));
    for (size_t n = 0; n < LENGTH(functions); n++) {
        enum fn fn = functions[n];
        evaluate(fn, u, ALL, value, slope);
        for (int i = 0; i < ALL; i++)
            check_function(fn, u[i], value[i], slope[i]);
        for (int i = 0; i < GRID; i++) { /* a second opinion */
            double opinion = fn == FN_ERF        ? gsl_sf_erf(u[i])
                             : fn == FN_GELU     ? u[i] * gsl_cdf_ugaussian_P(u[i])
                             : fn == FN_SOFTPLUS ? gsl_sf_fermi_dirac_0(u[i])
                             : fn == FN_SIGMOID  ? gsl_sf_fermi_dirac_m1(u[i])
                                                 : value[i];
            assert_near(value[i], opinion, 50 * eps() * (1 + fabs(u[i])));
        }
        assert_true(fn != FN_RELU || (value[GRID / 2] == 0 && slope[GRID / 2] == 0)); /* at 0 */
    }
}

/* The central difference is within h^2/6 of the third derivative, itself below 6 (exp: f), and
 * within eps |f|/h for round-off. */
TEST(test_slopes_are_derivatives) {
    enum { GRID = 800 };
    const double h =
        backend->bytes == sizeof(float) ? 0x1p-8 : 0x1p-17; /* sums with it are exact on the grid */
    double u[3 * GRID], f[3 * GRID], slope[3 * GRID];
    for (int i = 0; i < 3 * GRID; i++)
        u[i] = (2 * (i / 3) - GRID + 1) / 128.0 + (i % 3 - 1) * h;
    for (size_t n = 0; n < LENGTH(functions); n++) {
        evaluate(functions[n], u, 3 * GRID, f, slope);
        for (int i = 1; i < 3 * GRID; i += 3)
            assert_near(slope[i], (f[i + 1] - f[i - 1]) / (2 * h),
                        h * h * fmax(1, fabs(f[i])) + 4 * eps() * fabs(f[i]) / h);
    }
}

/* A row read before it is written shows. */
TEST(test_functions_keep_nan) {
    for (size_t n = 0; n < LENGTH(functions); n++) {
        double u = NAN, value, slope;
        evaluate(functions[n], &u, 1, &value, &slope);
        if (!isnan(value))
            fail_msg("%s: function %d of NaN is %g", backend->name, (int)functions[n], value);
    }
}

TEST(test_inverse_and_log) {
    const double u[] = {
        1, -1, 3, rounded(1e-3), -7e5, backend->bytes == sizeof(float) ? 0x1p60 : 0x1p500, 1.125};
    double value[LENGTH(u)], slope[LENGTH(u)], zero = 0;
    evaluate(FN_INVERSE, u, LENGTH(u), value, slope);
    for (size_t i = 0; i < LENGTH(u); i++) {
        assert_near(value[i], 1 / u[i], eps() * fabs(1 / u[i]));
        assert_near(slope[i], -1 / (u[i] * u[i]), 2 * eps() / (u[i] * u[i]));
    }
    evaluate(FN_LOG, u, LENGTH(u), value, slope);
    for (size_t i = 0; i < LENGTH(u); i++) {
        struct jet want = reference(FN_LOG, u[i]);
        assert_true(u[i] > 0 || isnan(value[i]));
        if (u[i] > 0)
            assert_near(value[i], want.value, 4 * eps() * fabsl(want.value));
        assert_near(slope[i], want.slope, eps() * fabsl(want.slope));
    }
    evaluate(FN_LOG, &zero, 1, value, slope);
    assert_true(value[0] == -INFINITY && slope[0] == INFINITY);
}

/* In the last place of x. */
static double unit(double x) {
    return backend->bytes == sizeof(float) ? (double)(nextafterf((float)x, INFINITY) - (float)x)
                                           : nextafter(x, INFINITY) - x;
}

/* The library says 4 units in the last place, measured: tanh 1.2 (libm 2.2), erf 2.5, exp 3.1. */
TEST(test_units_in_the_last_place) {
    enum { COUNT = 100000 };
    static const STRUCT(enum fn fn; double most, units)
        cases[] = {{FN_TANH, 20, 3}, {FN_ERF, 6, 4}, {FN_EXP, 30, 4}};
    static double u[COUNT], value[COUNT], slope[COUNT];
    for (size_t n = 0; n < LENGTH(cases); n++) {
        long double worst = 0;
        for (int i = 0; i < COUNT; i++) /* half of them near 0 */
            u[i] = rounded(cases[n].most * (2 * (i + 0.5) / COUNT - 1) * (i % 2 ? 1e-3 : 1));
        evaluate(cases[n].fn, u, COUNT, value, slope);
        for (int i = 0; i < COUNT; i++) {
            long double want = reference(cases[n].fn, u[i]).value;
            worst = fmaxl(worst, fabsl(value[i] - want) / unit(fabs((double)want)));
        }
        print_message("%s, function %d: %.2Lf units\n", backend->name, (int)cases[n].fn, worst);
        assert_true(worst <= cases[n].units);
    }
}

ON_EACH_PRECISION(0)
