/* Products with few rows on one side, in vector code chosen at run time. */
#include "kernels/array/few_rows.h"

#include <limits.h>
#include <string.h>

#define CHUNK 8 /* rows that stay in the first cache */
#define SITES FEW_ROWS_SITES
#define COLUMNS 128  /* of panels, which stay in the second cache, */
#define STRIP 4096   /* sites of a row that is met again */
#define CACHED 32768 /* numbers that stay in the second, a quarter of a MB */

#define SUFFIX _plain
#define TARGET
#define LANES 2
#define NARROW 3
#define WIDE 6
#define PANEL 4
#define HIGH 3
#include "kernels/array/few_rows_tile.h"

#if defined __x86_64__
#define SUFFIX _avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 4
#define NARROW 3
#define WIDE 6
#define PANEL 8
#define HIGH 3
#include "kernels/array/few_rows_tile.h"

#define SUFFIX _avx512
#define TARGET __attribute__((target("avx512f,avx512vl")))
#define LANES 8
#define NARROW 5
#define WIDE 12
#define PANEL 16
#define HIGH 6
#include "kernels/array/few_rows_tile.h"
#endif

enum level { PLAIN, AVX2, AVX512, BEST };

static const char *const names[] = {"plain", "avx2", "avx512"};
static enum level chosen = BEST;

static enum level best_level(void) {
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return AVX2;
#endif
    return PLAIN;
}

static enum level level(void) {
    return chosen == BEST ? best_level() : chosen;
}

bool few_rows_use(const char *name) {
    chosen = BEST;
    for (enum level l = PLAIN; name && l <= best_level(); l++)
        if (!strcmp(names[l], name))
            chosen = l;
    return !name || chosen != BEST;
}

const char *few_rows_name(void) {
    return names[level()];
}

int few_rows_most(void) {
    return level() == PLAIN ? 16 : INT_MAX;
}

void few_rows_dots(const double *a, int na, const double *b, int nb, int n, size_t width, double *C,
                   size_t stride) {
    switch (level()) {
#if defined __x86_64__
    case AVX512:
        dots_avx512(a, na, b, nb, n, width, C, stride);
        break;
    case AVX2:
        dots_avx2(a, na, b, nb, n, width, C, stride);
        break;
#endif
    default:
        dots_plain(a, na, b, nb, n, width, C, stride);
    }
}

void few_rows_combine(double *y, int ny, double beta, const double *C, const double *a, int na,
                      int n, size_t width) {
    switch (level()) {
#if defined __x86_64__
    case AVX512:
        combine_avx512(y, ny, beta, C, a, na, n, width);
        break;
    case AVX2:
        combine_avx2(y, ny, beta, C, a, na, n, width);
        break;
#endif
    default:
        combine_plain(y, ny, beta, C, a, na, n, width);
    }
}
