/* Rank-revealing orthonormal bases: all rows against the base by two products, then row by row. */
#include "kernels/basis.h"
#include "kernels/profile.h"

#include <math.h>
#include <stdlib.h>

/* y -= <y, base> base, with C a scratch matrix of y.count x base.count. */
static void project(struct rows base, struct rows y, double *C) {
    if (!base.count)
        return;
    y.array->backend->dots(y, base, C);
    for (int i = 0; i < y.count * base.count; i++)
        C[i] = -C[i];
    y.array->backend->combine(y, 1, C, base);
}

/* v, a row of norm one but for round-off enlarged in normalising, goes through all again; returns
 * whether it is still there. */
static bool settle(struct rows base, struct rows before, struct rows v, double *C) {
    double norm2;
    project(base, v, C);
    project(before, v, C);
    v.array->backend->averages(v, v, &norm2);
    if (!(norm2 > 0.01))
        return false;
    rows_scale(1 / sqrt(norm2), v);
    return true;
}

/* Rows x in their order, without their part in the base: what is left of each beside the rows kept
 * before, if its norm exceeds threshold, normalised, into out. A rest that is small beside its row
 * has overlaps of eps over its relative norm, which normalising enlarges: so it is projected twice,
 * and once more afterwards, on the base too. That must be done before a next row rests on it: else
 * the fourth row of a chain, each within 1e-4 of the last, is nine tenths base. */
static int gram_schmidt(struct rows base, struct rows x, double threshold, struct rows out,
                        double *C) {
    const struct backend *backend = x.array->backend;
    int kept = 0;
    for (int mu = 0; mu < x.count; mu++) {
        struct rows v = rows_part(out, kept, 1), before = rows_part(out, 0, kept);
        double norm2;
        rows_copy(rows_part(x, mu, 1), v);
        project(before, v, C);
        project(before, v, C);
        backend->averages(v, v, &norm2);
        if (!(norm2 > threshold * threshold))
            continue;
        rows_scale(1 / sqrt(norm2), v);
        kept += settle(base, before, v, C);
    }
    return kept;
}

static int residual(struct rows base, struct rows x, const double *known, double threshold,
                    struct array *out, struct array *scratch, int *kept, struct err *err) {
    int n = x.count;
    double *C;
    *kept = 0;
    TRY(array_reserve(out, n, err));
    TRY(array_reserve(scratch, n, err));
    TRY(base_alloc(&C, (size_t)n * (size_t)(base.count + 1), sizeof *C, err));
    struct rows rest = array_rows(scratch, 0, n);
    rows_copy(x, rest);
    if (known && base.count) {
        for (int i = 0; i < n * base.count; i++)
            C[i] = -known[i];
        x.array->backend->combine(rest, 1, C, base);
    } else
        project(base, rest, C);
    *kept = gram_schmidt(base, rest, threshold, array_rows(out, 0, n), C);
    free(C);
    return CODE_OK;
}

int basis_residual(struct rows base, struct rows x, const double *known, double threshold,
                   struct array *out, struct array *scratch, int *kept, struct err *err) {
    int before = profile_enter("spans", "");
    int code = residual(base, x, known, threshold, out, scratch, kept, err);
    profile_leave(before);
    return code;
}
