/* Singular values of the momentum of a matrix (polar.h). */
#include "kernels/maps/polar_host.h"
#include "kernels/maps/polar.h"

#include <lapacke.h>

/* Adds singular values of X [r][c] over |X| to values, unless |X| is `least` at most; *counted: how
 * many matrices were added. s [min(r, c)] is scratch. */
static int add_spectrum(int r, int c, double *X, double *s, double least, int count, double *values,
                        int *counted, struct err *err) {
    int n = r < c ? r : c;
    double none, size = polar_norm((size_t)r * (size_t)c, X);
    if (size <= least)
        return CODE_OK;
    TRY(polar_check(LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', c, r, X, c, s, &none, 1, &none, 1), err));
    for (int k = 0; k < count && k < n; k++)
        values[k] += s[k] / size;
    (*counted)++;
    return CODE_OK;
}

/* The rows of all parts [rows][sites] on the host. */
static int gather_parts(const struct polar_momentum *V, size_t rows, size_t sites, double *out,
                        struct err *err) {
    size_t first = 0;
    SCRATCH(double, one, rows *sites);
    for (int k = 0; k < V->parts; k++) {
        const struct array *velocity = V->velocity[k];
        size_t count = (size_t)velocity->rows, columns = velocity->sites;
        velocity->backend->get(array_all(velocity), one);
        for (size_t i = 0; i < count; i++)
            memcpy(out + (V->stacked ? (first + i) * sites : i * sites + first), one + i * columns,
                   columns * sizeof *out);
        first += V->stacked ? count : columns;
    }
    return CODE_OK;
}

int polar_spectrum(const struct polar_momentum *momentum, int count, double *values,
                   struct err *err) {
    size_t rows = 0, sites = 0;
    for (int k = 0; k < momentum->parts; k++) {
        size_t its_rows = (size_t)momentum->velocity[k]->rows, its = momentum->velocity[k]->sites;
        rows = momentum->stacked || !k ? rows + its_rows : rows;
        sites = momentum->stacked && k ? sites : sites + its;
    }
    size_t r = momentum->row_group ? (size_t)momentum->row_group : rows,
           c = momentum->column_group ? (size_t)momentum->column_group : sites, n = r < c ? r : c;
    bool directions = momentum->directions;
    FREED(base_free) double *V = NULL, *X = NULL;
    double least = directions ? POLAR_NOTHING * sqrt((double)c) : 0;
    int counted = 0;
    for (size_t k = 0; k < (size_t)count; k++)
        values[k] = k < n || (directions && k < c) ? 0 : NAN;
    if (rows) {
        TRY(base_alloc(&V, rows * sites, sizeof *V, err));
        TRY(base_alloc(&X, r * c + n, sizeof *X, err));
        TRY(gather_parts(momentum, rows, sites, V, err));
    }
    for (size_t row = 0; row < rows; row += r)
        for (size_t column = 0; column < sites; column += c) {
            for (size_t k = 0; k < r; k++)
                memcpy(X + k * c, V + (row + k) * sites + column, c * sizeof *X);
            TRY(add_spectrum((int)r, (int)c, X, X + r * c, least, count, values, &counted, err));
        }
    for (int k = 0; k < count; k++)
        values[k] = counted ? values[k] / counted : NAN;
    return CODE_OK;
}
