/* Products of few rows (kernels/array/few_rows.h) in each vector code that this machine has,
 * against plain loops, for shapes around the sizes of tiles, panels, strips and parts. Rows are
 * whole numbers, so that sums are exact in every order; behind the sites in use lies NaN.
 * test_few_rows_single.c has the same for single precision. */
#include "kernels/array/backend.h"
#include "kernels/array/few_rows.h"
#include "kernels/array/real.h"
#include "tests/support/support.h"

#include <omp.h>

enum { ROWS = 200, WIDEST = 4608, LINE = 64 / REAL_BYTES };

static real a[ROWS * WIDEST] __attribute__((aligned(64)));
static real b[ROWS * WIDEST] __attribute__((aligned(64)));
static real y[ROWS * WIDEST] __attribute__((aligned(64)));
static double C[ROWS * ROWS], want[ROWS * WIDEST]; /* of a dot product or row by row, [n] */
static real K[ROWS * ROWS];                        /* coefficients of a combination */

/* Whole numbers from -4 to 4, whatever the row is long. */
static double number(int row, int site, int which) {
    return (double)((unsigned)(row * 31 + site * 17 + which * 7 + row * site) % 9) - 4;
}

static void fill(real *x, int rows, int n, int width, int which) {
    for (int k = 0; k < rows; k++)
        for (int i = 0; i < width; i++)
            x[(size_t)k * (size_t)width + (size_t)i] = i < n ? (real)number(k, i, which) : NAN;
}

static const char *const codes[] = {"plain", "avx2", "avx512"};
/* What follows is done by each code of this machine. */
#define EACH_CODE                                                                                  \
    for (size_t code_ = 0; code_ < COUNT(codes); code_++)                                          \
        if (few_rows_use(codes[code_]))

static void check_dots(int na, int nb, int n, int width) {
    int stride = nb + 3;
    for (int k = 0; k < na; k++)
        for (int l = 0; l < stride; l++) {
            double sum = number(k, l, 3);
            for (int i = 0; i < n && l < nb; i++)
                sum += (double)a[(size_t)k * (size_t)width + (size_t)i] *
                       (double)b[(size_t)l * (size_t)width + (size_t)i];
            want[k * stride + l] = sum;
        }
    EACH_CODE {
        for (int k = 0; k < na * stride; k++)
            C[k] = number(k / stride, k % stride, 3);
        few_rows_dots(a, na, b, nb, n, (size_t)width, C, (size_t)stride);
        for (int k = 0; k < na * stride; k++)
            FAIL_IF(C[k] != want[k], "%s: %d rows times %d over %d sites: number %d is %g, not %g",
                    few_rows_name(), na, nb, n, k, C[k], want[k]);
    }
}

/* Rows of y are those that are wanted, [n]. */
static void check_rows(int rows, int n, int width, const char *what, int terms) {
    for (int k = 0; k < rows; k++)
        for (int i = 0; i < n; i++) {
            double now = (double)y[(size_t)k * (size_t)width + (size_t)i];
            if (now != want[k * n + i])
                fail_msg("%s: %s, %d rows of %d terms over %d sites: row %d, site %d is %g, not %g",
                         few_rows_name(), what, rows, terms, n, k, i, now, want[k * n + i]);
        }
}

/* Number (k, l) of a matrix. */
static double at(struct few_rows_matrix m, int k, int l) {
    return (double)m.at[(size_t)k * m.row + (size_t)l * m.column];
}

/* Coefficients lie row by row, or across, or are those of one row for all terms. */
static void check_combine(int ny, int na, int n, int width, double beta) {
    struct few_rows_matrix forms[] = {{K, (size_t)na, 1}, {K, 1, (size_t)ny + 3}, {K, 1, 0}},
                           coefficients = forms[(ny + n) % 3];
    for (int k = 0; k < ny; k++) {
        for (int i = 0; i < n; i++)
            want[k * n + i] = beta == 0 ? 0 : beta * number(k, i, 5);
        for (int l = 0; l < na; l++)
            for (int i = 0; i < n; i++)
                want[k * n + i] +=
                    at(coefficients, k, l) * (double)a[(size_t)l * (size_t)width + (size_t)i];
    }
    EACH_CODE {
        fill(y, ny, beta == 0 ? 0 : n, width, 5);
        few_rows_combine(y, ny, (real)beta, coefficients, a, na, n, (size_t)width);
        check_rows(ny, n, width, "a combination", na);
    }
}

static void check_add(int rows, int n, int width) {
    const double *c = rows % 2 ? C : NULL;
    for (int k = 0; k < rows; k++)
        C[k] = number(k, 1, 4);
    for (int k = 0; k < rows * n; k++)
        want[k] = number(k / n, k % n, 5) + (c ? c[k / n] : 1) * number(k / n, k % n, 1);
    EACH_CODE {
        fill(y, rows, n, width, 5);
        few_rows_add(y, c, a, rows, n, (size_t)width);
        check_rows(rows, n, width, "a sum", 1);
    }
}

/* The bits of few_rows_dots, of numbers whose sums are rounded. */
static void check_times(int rows, int count, int n, int width) {
    fill(a, rows, n, width, 1);
    fill(b, count, n, width, 2);
    for (int i = 0; i < rows * width; i++)
        a[i] *= (real)0.1;
    EACH_CODE {
        fill(y, count, 0, ROWS, 0);
        memset(C, 0, sizeof C);
        few_rows_dots(a, rows, b, count, n, (size_t)width, C, FEW_ROWS_TIMES);
        few_rows_times(a, rows, b, count, n, (size_t)width, 0.7, 0.3, y, ROWS);
        for (int k = 0; k < count * rows; k++) {
            real wanted = (real)(0.3 * (0.7 * C[k % rows * FEW_ROWS_TIMES + k / rows])),
                 now = y[k / rows * ROWS + k % rows];
            FAIL_IF(memcmp(&wanted, &now, sizeof now) != 0,
                    "%s: %d rows through %d of %d sites: (%d, %d) is %g, not %g", few_rows_name(),
                    count, rows, n, k / rows, k % rows, (double)now, (double)wanted);
        }
    }
}

/* Many of these numbers are equal, and NaN of either sign is the largest. */
static void check_top(int n) {
    fill(a, 1, n, LINE * (n / LINE + 1), 1);
    for (int i = 3; i < n; i += 29)
        a[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -(real)NAN : (real)-0.0;
    for (int i = 0; i < n; i++) { /* its place in the order */
        want[i] = 0;
        for (int j = 0; j < n; j++)
            want[i] += a[j] > a[i] || (isnan(a[j]) && !isnan(a[i])) ||
                       (j < i && (a[j] == a[i] || (isnan(a[j]) && isnan(a[i]))));
    }
    EACH_CODE
    for (int most = 0; most <= n; most++) {
        few_rows_top(a, n, most, y);
        for (int i = 0; i < n; i++)
            if ((double)y[i] != (want[i] < most))
                fail_msg("%s: the %d largest of %d: number %d is marked %g", few_rows_name(), most,
                         n, i, (double)y[i]);
    }
}

static size_t padded(int n) {
    return (size_t)((n + LINE - 1) / LINE * LINE);
}

/* Number (k, l) of a factor that lies row by row, or turned, column by column. */
static struct few_rows_matrix factor(real *x, int rows, int columns, bool turned, int which) {
    size_t width = padded(turned ? rows : columns);
    fill(x, turned ? columns : rows, turned ? rows : columns, (int)width, which);
    return (struct few_rows_matrix){x, turned ? 1 : width, turned ? width : 1};
}

static void check_matrix(int rows, int terms, int columns, int form) {
    static const double betas[] = {0, 1, 0.5};
    double beta = betas[(rows + terms) % 3];
    size_t width = padded(columns);
    struct few_rows_matrix left = factor(a, rows, terms, form & 1, 1),
                           right = factor(b, terms, columns, form & 2, 2);
    for (int k = 0; k < rows; k++)
        for (int i = 0; i < columns; i++) {
            double sum = 0;
            for (int l = 0; l < terms; l++)
                sum += at(left, k, l) * at(right, l, i);
            want[k * columns + i] = sum / 4 + (beta == 0 ? 0 : beta * number(k, i, 5));
        }
    EACH_CODE {
        fill(y, rows, beta == 0 ? 0 : columns, (int)width, 5);
        few_rows_matrix(left, right, rows, terms, columns, (real)0.25, (real)beta, y, width);
        check_rows(rows, columns, (int)width, form & 1 ? "a matrix, turned" : "a matrix", terms);
    }
}

static void check_turned(int rows, int columns) {
    size_t row = padded(columns), width = padded(rows);
    fill(a, rows, columns, (int)row, 1);
    EACH_CODE {
        fill(y, columns, 0, (int)width, 0);
        y[(size_t)columns * width] = 7;
        few_rows_turned(a, row, rows, columns, y, width);
        for (int k = 0; k < rows; k++)
            for (int l = 0; l < columns; l++)
                if ((double)y[(size_t)l * width + (size_t)k] != number(k, l, 1))
                    fail_msg("%s: %d rows of %d columns, turned: row %d, column %d",
                             few_rows_name(), rows, columns, k, l);
        assert_true(y[(size_t)columns * width] == 7);
    }
}

/* Around the sizes of tiles, panels, slabs and parts. */
static void check_matrices(void) {
    static const int rows[] = {1, 3, 11, 24, 29, 49, 97}, terms[] = {1, 5, 17, 64, 257, 513},
                     columns[] = {1, 8, 15, 33, 64, 255, 273};
    for (int k = 0; k < 7; k++)
        for (int l = 0; l < 7; l++)
            check_turned(rows[k], columns[l]);
    for (int k = 0; k < 7; k++)
        for (int l = 0; l < 6; l++)
            for (int form = 0; form < 4; form++)
                check_matrix(rows[k], terms[l], columns[(k + l + form) % 7], form);
}

/* Numbers of rows up to two panels and a bit, and some beyond; the longer factor varies. */
static void check_shapes(int n, int width, int step) {
    static const int many[] = {48, 63, 129, 150};
    fill(a, ROWS, n, width, 1);
    fill(b, ROWS, n, width, 2);
    for (int nb = 1; nb <= 37; nb += step) {
        int na = nb + (nb * 7 + n) % 27;
        check_dots(na, nb, n, width);
        check_combine(nb, na, n, width, nb % 3 * 0.5);
        check_add(nb, n, width);
        check_combine(na, nb, n, width, 1);
    }
    for (int k = 0; k < 4 && step == 1; k++) {
        check_dots(ROWS - 3 * k, many[k], n, width);
        check_combine(many[k], ROWS - k, n, width, k % 2);
    }
    for (int k = 0; k < 4 * 9 && n <= FEW_ROWS_SITES; k++)
        check_times(k % 9 + n % 13 + 1, k / 9 + 1, n, width);
}

TEST(every_code) {
    static const int sites[] = {1, 5, 8, 9, 31, 33, 65, 255, 256};
    for (size_t k = 0; k < COUNT(codes); k++)
        if (!few_rows_use(codes[k]))
            print_message("this machine has no %s\n", codes[k]);
        else
            assert_string_equal(few_rows_name(), codes[k]);
    for (int k = 0; k < ROWS * ROWS; k++)
        K[k] = (real)number(k, 1, 4);
    for (size_t k = 0; k < COUNT(sites); k++)
        check_shapes(sites[k], (int)padded(sites[k]), 1);
    check_shapes(512, 512, 4);
    check_shapes(515, (int)padded(515), 3);
    check_shapes(4101, WIDEST, 7);
    check_matrices();
    for (int n = 1; n <= FEW_ROWS_TOP; n++)
        check_top(n);
    assert_true(few_rows_use(NULL));
}

/* Of whole numbers, whose sums are exact. */
static void check_all_dots(struct array x[2], double *sums) {
    int sites = (int)x[0].sites;
    double *values[2];
    for (int i = 0; i < 2; i++) {
        ASK(base_alloc(&values[i], (size_t)(x[i].rows * sites), sizeof **values, err));
        for (int k = 0; k < x[i].rows * sites; k++)
            values[i][k] = number(k / sites, k % sites, i);
        REAL_BACKEND.put(array_all(&x[i]), values[i]);
    }
    REAL_BACKEND.dots(array_all(&x[0]), array_all(&x[1]), sums);
    for (int k = 0; k < x[0].rows; k++)
        for (int l = 0; l < x[1].rows; l++) {
            double sum = 0, now = sums[k * x[1].rows + l] * sites;
            for (int s = 0; s < sites; s++)
                sum += values[0][k * sites + s] * values[1][l * sites + s];
            if (fabs(now - sum) > 4 * DBL_EPSILON * fabs(sum)) /* over the sites, and back */
                fail_msg("%d rows times %d: (%d, %d) is %g, not %g", x[0].rows, x[1].rows, k, l,
                         now, sum);
        }
    free(values[0]);
    free(values[1]);
}

/* Beyond few rows the plain code leaves the products to BLAS, whose order of additions depends on
 * the shapes that it is given: these must not depend on the number of threads. */
TEST(bits_of_plain_code_on_threads) {
    static const int shapes[][3] = {
        {700, 17, 300}, {1029, 40, 129}, {301, 150, 700}, {1500, 30, 257}, {277, 277, 515}};
    assert_true(few_rows_use("plain"));
    for (int k = 0; k < (int)(COUNT(shapes)); k++) {
        const int *shape = shapes[k], rows[2] = {shape[0], shape[1]};
        size_t sites = (size_t)shape[2], count = (size_t)rows[0] * (size_t)rows[1];
        double *one = calloc(2 * count, sizeof *one), *many = one + count;
        struct array x[2];
        for (int i = 0; i < 2; i++) {
            struct rng_stream stream = {.seed = 5, .owner = (uint32_t)i};
            ASK(array_init(&x[i], &REAL_BACKEND, sites, 1, rows[i], err));
            REAL_BACKEND.normals(array_all(&x[i]), stream);
        }
        for (int threads = 1; threads <= 8; threads = threads < 3 ? threads + 1 : threads + 5) {
            omp_set_num_threads(threads);
            REAL_BACKEND.dots(array_all(&x[0]), array_all(&x[1]), threads == 1 ? one : many);
            if (threads > 1 && memcmp(one, many, count * sizeof *one) != 0)
                fail_msg("%d rows times %d over %d sites: other bits on %d threads", rows[0],
                         rows[1], shape[2], threads);
        }
        check_all_dots(x, one);
        free(one);
        array_free(&x[0]);
        array_free(&x[1]);
    }
    assert_true(few_rows_use(NULL));
}

/* Numbers whose squares are 0, and no numbers at all, are not 0. */
TEST(rows_that_are_not_0) {
    static const double numbers[] = {0, REAL_BYTES == 4 ? 1e-30 : 1e-200, NAN, 0};
    size_t sites = 2 * BACKEND_BLOCK + 3;
    FREED(base_free) double *values = calloc(4 * sites, sizeof *values);
    double live[4];
    FREED(array_free) struct array x;
    ASK(array_init(&x, &REAL_BACKEND, sites, 1, 4, err));
    for (size_t k = 0; k < 4; k++)
        values[(k + 1) * sites - 1] = numbers[k];
    REAL_BACKEND.put(array_all(&x), values);
    rows_look_live(array_all(&x), live);
    for (int k = 0; k < 4; k++)
        assert_int_equal(live[k] != 0, numbers[k] != 0);
}

TEST(a_code_that_does_not_exist) {
    const char *best = few_rows_name();
    assert_false(few_rows_use("abacus"));
    assert_string_equal(few_rows_name(), best);
}
