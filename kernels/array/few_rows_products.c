/* Products with few rows on one side, in vector code. */
#include "kernels/array/few_rows.h"
#include "kernels/base/base.h"

#include <limits.h>
#include <string.h>

#define CHUNK 8 /* rows that stay in the first cache */
#define SITES FEW_ROWS_SITES
#define COLUMNS 128                     /* of panels, which stay in the second cache, */
#define WHOLE (HIGH < 6 ? HIGH : 6)     /* rows that meet whole rows in a cache */
#define STRIP 4096                      /* sites of a row that is met again */
#define CACHED (262144 / REAL_BYTES)    /* numbers that stay in the second, a quarter of a MB */
#define SHARED ((8 << 20) / REAL_BYTES) /* numbers that stay in the third */
#define AT_ONCE (REAL_BYTES == 4 ? SITES : INT_MAX) /* sites whose products a register adds up */
#define TERMS 256                                   /* of a matrix, and ... */
#define MATRIX_COLUMNS (1024 / REAL_BYTES)          /* ... columns, which are in panels at once */
#define ONE_BY_ONE (16384 / REAL_BYTES) /* numbers of a matrix, a third of the first cache */
#define SLAB 48                         /* rows that lie across, which are copied at once */
#define LINE (64 / REAL_BYTES)          /* numbers that come from memory at once */

#define PEAK_SUMS 12

#define SUFFIX _plain
#define TARGET
#define LANES (16 / REAL_BYTES)
#define NARROW 3
#define WIDE 6
#define PANEL (2 * LANES)
#define HIGH 3
#define COMBINE_ROWS(T) T(3, 0) T(2, 0) T(1, 0)
#define VECTORS(rows) 4
#include "kernels/array/few_rows_tile.h"

#if defined __x86_64__
#define SUFFIX _avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES (32 / REAL_BYTES)
#define NARROW 3
#define WIDE 6
#define PANEL (2 * LANES)
#define HIGH 6
#define COMBINE_ROWS(T) T(6, 1) T(6, 0) T(5, 0) T(4, 0) T(3, 0) T(2, 0) T(1, 0)
#define VECTORS(rows) ((rows) > 4 ? 2 : (rows) > 3 ? 3 : 4)
#include "kernels/array/few_rows_tile.h"

#define SUFFIX _avx512
#define TARGET __attribute__((target("avx512f,avx512vl")))
#define LANES (64 / REAL_BYTES)
#define NARROW 5
#define WIDE 12
#define PANEL (2 * LANES)
#define HIGH 12
#define COMBINE_ROWS(T)                                                                            \
    T(12, 1)                                                                                       \
    T(10, 1) T(8, 1) T(6, 1) T(6, 0) T(5, 1) T(4, 1) T(4, 0) T(3, 0) T(2, 0) T(1, 0)
#define VECTORS(rows) ((rows) > 8 ? 2 : (rows) > 6 ? 3 : 4)
#include "kernels/array/few_rows_tile.h"
#endif

/* Calls the function of the vector code at work. */
#if defined __x86_64__
#define OF_VECTORS(name, ...)                                                                      \
    case FEW_ROWS_AVX512:                                                                          \
        name##_avx512(__VA_ARGS__);                                                                \
        break;                                                                                     \
    case FEW_ROWS_AVX2:                                                                            \
        name##_avx2(__VA_ARGS__);                                                                  \
        break;
#else
#define OF_VECTORS(name, ...)
#endif
#define CALL_BEST(name, ...)                                                                       \
    switch (few_rows_level()) {                                                                    \
        OF_VECTORS(name, __VA_ARGS__)                                                              \
    default:                                                                                       \
        name##_plain(__VA_ARGS__);                                                                 \
    }

void few_rows_dots(const real *a, int na, const real *b, int nb, int n, size_t width, double *C,
                   size_t stride) {
    CALL_BEST(dots, a, na, b, nb, n, width, C, stride)
}

void few_rows_times(const real *W, int rows, const real *x, int count, int n, size_t width,
                    double inner, double outer, real *y, size_t apart) {
    CALL_BEST(times, W, rows, x, count, n, width, inner, outer, y, apart)
}

void few_rows_combine(real *y, int ny, real beta, struct few_rows_matrix C, const real *a, int na,
                      int n, size_t width) {
    CALL_BEST(combine, y, ny, beta, C, a, na, n, width)
}

void few_rows_add(real *y, const double *c, const real *x, int rows, int n, size_t width) {
    CALL_BEST(add, y, c, x, rows, n, width)
}

void few_rows_top(const real *x, int n, int K, real *mask) {
    CALL_BEST(top, x, n, K, mask)
}

void few_rows_matrix(struct few_rows_matrix a, struct few_rows_matrix b, int rows, int terms,
                     int columns, real scale, real beta, real *y, size_t width) {
    CALL_BEST(matrix, a, b, rows, terms, columns, scale, beta, y, width)
}

void few_rows_turned(const real *x, size_t row, int rows, int columns, real *out, size_t width) {
    CALL_BEST(turned, x, row, rows, columns, out, width)
}

#ifndef SINGLE
void few_rows_peak(double *x, long multiply_adds) {
    CALL_BEST(peak, x, multiply_adds)
}
#endif
