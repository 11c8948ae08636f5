/* Rank-revealing orthonormal bases: block Gram-Schmidt against the base by two products, then among
 * the new rows in order, the whole twice. */
#include "kernels/basis.h"
#include "kernels/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* y -= <y, base> base, with C a scratch matrix of y.count x base.count. */
static void project(struct rows base, struct rows y, double *C) {
    if (!base.count)
        return;
    y.array->backend->dots(y, base, C);
    for (int i = 0; i < y.count * base.count; i++)
        C[i] = -C[i];
    y.array->backend->combine(y, 1, C, base);
}

/* Rows x in their order: what is left of each beside the rows kept before, if its norm exceeds
 * threshold, normalised, into out. Two passes, because one leaves overlaps of eps / (norm left).
 * Returns how many were kept; C is scratch of x.count. */
static int gram_schmidt(struct rows x, double threshold, struct rows out, double *C) {
    const struct backend *backend = x.array->backend;
    int kept = 0;
    for (int mu = 0; mu < x.count; mu++) {
        struct rows v = rows_part(out, kept, 1);
        double norm2;
        rows_copy(rows_part(x, mu, 1), v);
        project(rows_part(out, 0, kept), v, C);
        project(rows_part(out, 0, kept), v, C);
        backend->averages(v, v, &norm2);
        if (!(norm2 > threshold * threshold))
            continue;
        rows_scale(1 / sqrt(norm2), v);
        kept++;
    }
    return kept;
}

/* A rest that is small beside its row has overlaps with the base of eps over its relative norm,
 * which normalising enlarges; so what was kept goes the same way once more. The second product
 * before that keeps them from growing by as much with every row that rests on the one before:
 * without it the fourth row of a chain, each within 1e-4 of the last, is nine tenths base. */
static int residual(struct rows base, struct rows x, const double *known, double threshold,
                    struct array *out, struct array *scratch, int *kept, struct err *err) {
    int n = x.count;
    double *C;
    *kept = 0;
    TRY(array_reserve(out, n, err));
    TRY(array_reserve(scratch, n, err));
    TRY(base_alloc(&C, (size_t)n * (size_t)(base.count + 1), sizeof *C, err));
    struct rows rest = array_rows(scratch, 0, n), first = array_rows(out, 0, n);
    rows_copy(x, rest);
    if (known && base.count) {
        for (int i = 0; i < n * base.count; i++)
            C[i] = -known[i];
        x.array->backend->combine(rest, 1, C, base);
    } else
        project(base, rest, C);
    project(base, rest, C);
    *kept = gram_schmidt(rest, threshold, first, C);
    if (*kept) {
        rest = array_rows(scratch, 0, *kept);
        rows_copy(rows_part(first, 0, *kept), rest);
        project(base, rest, C);
        *kept = gram_schmidt(rest, 0.1, first, C); /* norms near one; less is only noise */
    }
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

int basis_defect(struct rows base, double *defect, struct err *err) {
    double *G;
    *defect = 0;
    TRY(base_alloc(&G, (size_t)base.count * (size_t)base.count, sizeof *G, err));
    if (base.count)
        base.array->backend->dots(base, base, G);
    for (int k = 0; k < base.count; k++)
        for (int l = 0; l < base.count; l++)
            *defect = fmax(*defect, fabs(G[k * base.count + l] - (k == l)));
    free(G);
    return CODE_OK;
}
