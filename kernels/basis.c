/* Rank-revealing orthonormal bases: all rows against the base, twice, by two products each; then
 * row by row among themselves, and against the base again where round-off asks for it. */
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

/* Overlaps with the base, in units of the round-off, beyond which a row goes through it again: they
 * stay below 7e-15. */
#define LOSS 30

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

/* Rows x in their order, free of the base to round-off: what is left of each beside the rows kept
 * before, if its norm exceeds threshold, normalised, into out. Two passes, because one leaves
 * overlaps of eps over the norm left. norm2 [x.count]: of the rows. loss [x.count], of rows kept:
 * overlap with the base over eps. What is left of a row brings eps of it along, and the overlaps of
 * the rows that it rests on; normalising enlarges both. Without settling, the fourth row of a
 * chain, each within 1e-4 of the last, is nine tenths base. */
static int gram_schmidt(struct rows base, struct rows x, const double *norm2, double threshold,
                        struct rows out, double *loss, double *C) {
    const struct backend *backend = x.array->backend;
    int kept = 0;
    for (int mu = 0; mu < x.count; mu++) {
        struct rows v = rows_part(out, kept, 1), before = rows_part(out, 0, kept);
        double left2, overlap2 = norm2[mu];
        rows_copy(rows_part(x, mu, 1), v);
        project(before, v, C);
        for (int k = 0; k < kept; k++)
            overlap2 += C[k] * C[k] * loss[k] * loss[k];
        project(before, v, C);
        backend->averages(v, v, &left2);
        if (!(left2 > threshold * threshold))
            continue;
        rows_scale(1 / sqrt(left2), v);
        loss[kept] = sqrt(overlap2 / left2);
        if (loss[kept] > LOSS) {
            loss[kept] = 1;
            if (!settle(base, before, v, C))
                continue;
        }
        kept++;
    }
    return kept;
}

/* Only rows that exceed the threshold before others are taken out of them can do so afterwards. */
static int candidates(struct rows rest, double threshold, double *norm2) {
    int count = 0;
    rest.array->backend->averages(rest, rest, norm2);
    for (int mu = 0; mu < rest.count; mu++) {
        if (!(norm2[mu] > threshold * threshold))
            continue;
        if (mu > count)
            rows_copy(rows_part(rest, mu, 1), rows_part(rest, count, 1));
        norm2[count++] = norm2[mu];
    }
    return count;
}

static int residual(struct rows base, struct rows x, const double *known, double threshold,
                    struct array *out, struct array *scratch, int *kept, struct err *err) {
    int n = x.count;
    double *C;
    *kept = 0;
    TRY(array_reserve(out, n, err));
    TRY(array_reserve(scratch, n, err));
    TRY(base_alloc(&C, (size_t)n * (size_t)(base.count + 3), sizeof *C, err));
    double *norm2 = C + n * (base.count + 1), *loss = norm2 + n;
    struct rows rest = array_rows(scratch, 0, n);
    rows_copy(x, rest);
    if (known && base.count) {
        for (int i = 0; i < n * base.count; i++)
            C[i] = -known[i];
        x.array->backend->combine(rest, 1, C, base);
    } else
        project(base, rest, C);
    rest = rows_part(rest, 0, candidates(rest, threshold, norm2));
    if (rest.count)
        project(base, rest, C);
    *kept = gram_schmidt(base, rest, norm2, threshold, array_rows(out, 0, n), loss, C);
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
