#include "integrators/fixed_point.h"

#include <cblas.h>
#include <lapacke.h>

void anderson_free(struct anderson *anderson) {
    free(anderson->x);
    *anderson = (struct anderson){0};
}

/* All lists in one piece, which x begins. */
static int make_room(struct anderson *anderson, const struct fixed_point_kernel *kernel, int count,
                     struct err *err) {
    size_t size = 0;
    for (int k = 0; k < count; k++)
        size += twotime_size(kernel[k].given);
    TRY(base_alloc(&anderson->x, (3 + 2 * (size_t)anderson->depth) * size, sizeof(double), err));
    anderson->size = size;
    anderson->F = anderson->x + size;
    anderson->weight = anderson->F + size;
    for (int j = 0; j < anderson->depth; j++) {
        anderson->dx[j] = anderson->weight + (1 + 2 * (size_t)j) * size;
        anderson->dF[j] = anderson->dx[j] + size;
    }
    return CODE_OK;
}

/* x, F and weights of this sweep; the difference to the sweep before takes the oldest place. */
static void remember_sweep(struct anderson *anderson, const struct fixed_point_kernel *kernel,
                           int count) {
    int slot = anderson->pushed % anderson->depth;
    double *dx = anderson->dx[slot], *dF = anderson->dF[slot];
    size_t i = 0;
    for (int k = 0; k < count; k++) {
        size_t size = twotime_size(kernel[k].given);
        const double *given = kernel[k].given->value, *measured = kernel[k].measured->value;
        double norm = cblas_dnrm2((int)size, measured, 1);
        for (size_t a = 0; a < size; a++, i++) {
            double F = measured[a] - given[a];
            dx[i] = given[a] - anderson->x[i];
            dF[i] = F - anderson->F[i];
            anderson->x[i] = given[a];
            anderson->F[i] = F;
            anderson->weight[i] = norm > 0 ? 1 / (norm * norm) : 0;
        }
    }
    anderson->pushed += anderson->met > 0;
    anderson->met++;
}

static double weighted_product(const struct anderson *anderson, const double *a, const double *b) {
    double sum = 0;
    for (size_t i = 0; i < anderson->size; i++)
        sum += anderson->weight[i] * a[i] * b[i];
    return sum;
}

/* gamma [known], from the normal equations; directions below 1e-6 of the largest are left out. */
static int solve_normal_equations(const struct anderson *anderson, int known, double *gamma,
                                  struct err *err) {
    double H[ANDERSON_DEPTH * ANDERSON_DEPTH], singular[ANDERSON_DEPTH];
    lapack_int rank, info;
    for (int j = 0; j < known; j++) {
        for (int l = 0; l < known; l++)
            H[j * known + l] = weighted_product(anderson, anderson->dF[j], anderson->dF[l]);
        gamma[j] = weighted_product(anderson, anderson->dF[j], anderson->F);
    }
    info = LAPACKE_dgelsd(LAPACK_ROW_MAJOR, known, known, 1, H, known, gamma, 1, singular, 1e-12,
                          &rank);
    TRY(err_lapack_memory(err, info, "the mixing of sweeps"));
    if (info)
        return err_set(err, CODE_NUMERICAL,
                       "the mixing of sweeps failed (dgelsd: %d); lower anderson", (int)info);
    return CODE_OK;
}

/* Far from the fixed point differences tell nothing: the map is not linear there. */
static bool is_near(const struct fixed_point_kernel *kernel, int count) {
    static const double near = 0.1;
    double change = 0;
    for (int k = 0; k < count; k++)
        change = fmax(change, kernel[k].change);
    return change < near;
}

int anderson_mix(struct anderson *anderson, const struct fixed_point_kernel *kernel, int count,
                 struct err *err) {
    double gamma[ANDERSON_DEPTH];
    if (anderson->depth && is_near(kernel, count)) {
        if (!anderson->size)
            TRY(make_room(anderson, kernel, count, err));
        remember_sweep(anderson, kernel, count);
    } else {
        anderson->pushed = anderson->met = 0;
    }
    int known = anderson->pushed < anderson->depth ? anderson->pushed : anderson->depth;
    if (known)
        TRY(solve_normal_equations(anderson, known, gamma, err));
    size_t i = 0;
    for (int k = 0; k < count; k++)
        for (size_t a = 0; a < twotime_size(kernel[k].given); a++, i++) {
            double *given = &kernel[k].given->value[a], d = anderson->damping;
            double next = (1 - d) * *given + d * kernel[k].measured->value[a];
            for (int j = 0; j < known; j++)
                next -= gamma[j] * (anderson->dx[j][i] + d * anderson->dF[j][i]);
            *given = next;
        }
    return CODE_OK;
}
