/* What the oracles share; nothing of the program. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static inline void stop(const char *text) {
    fprintf(stderr, "oracle: %s\n", text);
    abort();
}

/* Zeroed. */
static inline void *memory(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size);
    if (!block)
        stop("out of memory");
    return block;
}

static inline double *array(int count) {
    return memory((size_t)count, sizeof(double));
}

static inline double dot(const double *x, const double *y, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

static inline double sig(double x) {
    return 1 / (1 + exp(-x));
}

/* K of a share of experts. */
static inline int whole(double K) {
    if (fabs(K - round(K)) > 1e-9 || K < 0.5)
        stop("rho times the number of experts is not a whole number");
    return (int)lround(K);
}

/* m_i = 1 where fewer than K of the M logits come before i, of equal ones the lower first */
static inline void find_mask(const double *psi, int M, int K, double *m) {
    for (int i = 0; i < M; i++) {
        int before = 0;
        for (int k = 0; k < M; k++)
            before += psi[k] > psi[i] || (psi[k] == psi[i] && k < i);
        m[i] = before < K;
    }
}
