#include "kernels/array/few_rows.h"

#include <limits.h>
#include <string.h>

static const char *const names[] = {"plain", "avx2", "avx512"};
static enum few_rows_level chosen = FEW_ROWS_BEST;

static enum few_rows_level best_level(void) {
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return FEW_ROWS_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return FEW_ROWS_AVX2;
#endif
    return FEW_ROWS_PLAIN;
}

enum few_rows_level few_rows_level(void) {
    return chosen == FEW_ROWS_BEST ? best_level() : chosen;
}

bool few_rows_use(const char *name) {
    chosen = FEW_ROWS_BEST;
    for (enum few_rows_level l = FEW_ROWS_PLAIN; name && l <= best_level(); l++)
        if (!strcmp(names[l], name))
            chosen = l;
    return !name || chosen != FEW_ROWS_BEST;
}

const char *few_rows_name(void) {
    return names[few_rows_level()];
}

int few_rows_most(void) {
    return few_rows_level() == FEW_ROWS_PLAIN ? 16 : INT_MAX;
}
