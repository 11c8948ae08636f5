#include "solver/run/findings.h"

struct moments {
    double mean, se;
};

/* The moments of n numbers that are `stride` apart, with the numbers `less` taken off. */
static struct moments moments_of(const double *x, const double *less, size_t stride, int n) {
    double sum = 0, squares = 0;
    for (int r = 0; r < n; r++)
        sum += (x[(size_t)r * stride] - (less ? less[(size_t)r * stride] : 0)) / n;
    for (int r = 0; r < n; r++)
        squares += pow(x[(size_t)r * stride] - (less ? less[(size_t)r * stride] : 0) - sum, 2);
    return (struct moments){sum, sqrt(squares / (n - 1) / n)};
}

/* At the times that all runs reached. values, plain: [runs][size], with halves and without. */
static void update_largest(const struct record *limit, const struct series *series,
                           const double *values, const double *plain, struct correction *largest) {
    size_t row = series->size / series->shape[0];
    for (int t = 0; t < limit->T && record_reached(limit, t) == limit->runs; t++) {
        double taken = 0, noise = 0;
        int entries = 0;
        for (size_t i = 0; i < row; i++) {
            size_t at = (size_t)t * row + i;
            struct moments value = moments_of(values + at, NULL, series->size, limit->runs),
                           off = moments_of(plain + at, values + at, series->size, limit->runs);
            if (!(value.se > 0))
                continue;
            taken += pow(off.mean / value.se, 2);
            noise += pow(off.se / value.se, 2);
            entries++;
        }
        double size = entries ? sqrt(fmax(taken - noise, 0) / entries) : 0;
        if (size > largest->size)
            *largest = (struct correction){series->name, t, size};
    }
}

int correction_find(const struct record *limit, struct correction *largest, struct err *err) {
    static const char *const names[] = {"loss", "f"};
    struct record alone = *limit;
    alone.half = NULL;
    *largest = (struct correction){0};
    for (size_t k = 0; k < sizeof names / sizeof *names && limit->half && limit->runs > 1; k++) {
        const struct series *series = record_find(limit, names[k]);
        if (!series)
            continue;
        SCRATCH(double, plain, (size_t)limit->runs * series->size);
        memcpy(plain, record_values(&alone, series),
               (size_t)limit->runs * series->size * sizeof *plain);
        update_largest(limit, series, record_values(limit, series), plain, largest);
    }
    return CODE_OK;
}
