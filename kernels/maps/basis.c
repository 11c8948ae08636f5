/* Rank-revealing orthonormal bases. All rows go against the base together, then in blocks against
 * the rows kept before, then one by one among the rows of their block, which stay in the cache.
 *
 * One projection leaves overlaps of eps times the row; normalising what is left of it enlarges
 * them, together with the overlaps of the rows that were taken out. Each kept row has an account of
 * that, its loss: overlap over eps. Kept rows, of norm one, go through everything once more, as
 * blocks, where the loss asks for it. That leaves eps again, and disturbs what the rows of a block
 * have among themselves by squares of eps loss, which LIMIT keeps below the round-off: a row beyond
 * it goes through everything at once and alone. Without that, the fourth row of a chain, each
 * within 1e-4 of the last, would be nine tenths base. */
#include "kernels/maps/basis.h"
#include "kernels/array/profile.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK 16
#define AGAIN 1.4
#define LIMIT 1e7
#define UNSURE 1e-12

struct growth {
    struct rows base, out; /* the first `kept` rows of out are kept, later ones wait */
    double threshold;
    int kept;
    double *overlap2; /* [out.count] of rows that wait, overlap in units of eps, squared */
    double *loss;     /* [out.count] of rows kept */
    int *which;       /* [out.count] rows of x, of rows that wait and then of rows kept; or NULL */
    double *C;        /* scratch: products of all rows with the base, or of a block with all rows */
};

static struct rows kept_rows(const struct growth *growth, int from) {
    return rows_part(growth->out, from, growth->kept - from);
}

static double norm2_of(struct rows v) {
    double norm2;
    v.array->backend->averages(v, v, &norm2);
    return norm2;
}

/* y -= <y, base> base */
static void project(struct rows base, struct rows y, double *C) {
    if (!base.count || !y.count)
        return;
    y.array->backend->dots(y, base, C);
    for (size_t i = 0; i < (size_t)y.count * (size_t)base.count; i++)
        C[i] = -C[i];
    y.array->backend->combine(y, 1, C, base);
}

/* The same for kept rows `from` to `end` and rows mu onwards that wait, which take their overlaps
 * with the base over. */
static void take_out(struct growth *growth, int from, int end, int mu, int count) {
    project(rows_part(growth->out, from, end - from), rows_part(growth->out, mu, count), growth->C);
    for (int i = 0; i < count; i++)
        for (int k = from; k < end; k++) {
            double c =
                growth->C[(size_t)i * (size_t)(end - from) + (size_t)(k - from)] * growth->loss[k];
            growth->overlap2[mu + i] += c * c;
        }
}

/* Row mu, free of the base and of the rows kept before its block, whose first is `first`, is kept
 * if enough of it is left beside its block. */
static void enter(struct growth *growth, int first, int mu) {
    struct rows v = rows_part(growth->out, mu, 1);
    double whole2 = norm2_of(v), left2 = whole2, least2 = growth->threshold * growth->threshold;
    if (growth->kept > first) {
        take_out(growth, first, growth->kept, mu, 1);
        left2 = norm2_of(v);
        if (left2 > least2 && left2 < 0.5 * whole2) {
            project(kept_rows(growth, first), v, growth->C);
            left2 = norm2_of(v);
        }
    }
    if (!(left2 > least2))
        return;
    rows_scale(1 / sqrt(left2), v);
    double loss = sqrt(growth->overlap2[mu] / left2);
    if (loss > LIMIT) {
        project(growth->base, v, growth->C);
        project(kept_rows(growth, 0), v, growth->C);
        double still2 = norm2_of(v);
        if (!(left2 * still2 > least2))
            return;
        rows_scale(1 / sqrt(still2), v);
        loss = 1 / sqrt(still2);
    }
    if (mu > growth->kept)
        rows_copy(v, rows_part(growth->out, growth->kept, 1));
    if (growth->which)
        growth->which[growth->kept] = growth->which[mu];
    growth->loss[growth->kept++] = loss;
}

/* Rows from `from` on, between the first and the last of them that have lost much. */
static struct rows lossy_rows(const struct growth *growth, int from) {
    int end = growth->kept;
    while (from < end && growth->loss[from] <= AGAIN)
        from++;
    while (from < end && growth->loss[end - 1] <= AGAIN)
        end--;
    return rows_part(growth->out, from, end - from);
}

static void gram_schmidt(struct growth *growth, int count) {
    for (int mu = 0; mu < count; mu += BLOCK) {
        int first = growth->kept, rows = count - mu < BLOCK ? count - mu : BLOCK;
        take_out(growth, 0, first, mu, rows);
        for (int i = 0; i < rows; i++)
            enter(growth, first, mu + i);
        project(rows_part(growth->out, 0, first), lossy_rows(growth, first), growth->C);
    }
    project(growth->base, lossy_rows(growth, 0), growth->C);
}

/* Rows of x less their part in the base, into out; without those that Pythagoras knows to be too
 * short. Returns their number. */
static int rests(struct growth *growth, struct rows x, const double *known) {
    const struct backend *backend = x.array->backend;
    size_t rank = known ? (size_t)growth->base.count : 0;
    int count = 0;
    double *norm2 = growth->overlap2;
    backend->averages(x, x, norm2);
    for (int mu = 0; mu < x.count; mu++) {
        const double *c = known + (size_t)mu * rank;
        double left2 = norm2[mu];
        for (size_t a = 0; a < rank; a++)
            left2 -= c[a] * c[a];
        if (!(left2 + UNSURE * norm2[mu] > growth->threshold * growth->threshold))
            continue;
        for (size_t a = 0; a < rank; a++)
            growth->C[(size_t)count * rank + a] = -c[a];
        norm2[count] = norm2[mu];
        if (growth->which)
            growth->which[count] = mu;
        rows_copy(rows_part(x, mu, 1), rows_part(growth->out, count++, 1));
    }
    struct rows out = rows_part(growth->out, 0, count);
    if (rank)
        backend->combine(out, 1, growth->C, growth->base);
    else
        project(growth->base, out, growth->C);
    return count;
}

static int residual(struct rows base, struct rows x, const double *known, double threshold,
                    struct array *out, int *which, int *kept, struct err *err) {
    size_t n = (size_t)x.count, widest = (size_t)(base.count > BLOCK ? base.count : BLOCK);
    double *memory;
    *kept = 0;
    TRY(array_reserve(out, x.count, err));
    TRY(base_alloc(&memory, n * (widest + 2), sizeof *memory, err));
    struct growth growth = {.base = base,
                            .out = array_rows(out, 0, x.count),
                            .threshold = threshold,
                            .overlap2 = memory,
                            .loss = memory + n,
                            .which = which,
                            .C = memory + 2 * n};
    gram_schmidt(&growth, rests(&growth, x, known));
    *kept = growth.kept;
    free(memory);
    return CODE_OK;
}

int basis_residual(struct rows base, struct rows x, const double *known, double threshold,
                   struct array *out, int *kept, struct err *err) {
    int before = profile_enter("spans", "");
    int code = residual(base, x, known, threshold, out, NULL, kept, err);
    profile_leave(before);
    return code;
}

int basis_residual_which(struct rows base, struct rows x, double threshold, struct array *out,
                         int *which, int *kept, struct err *err) {
    int before = profile_enter("spans", "");
    int code = residual(base, x, NULL, threshold, out, which, kept, err);
    profile_leave(before);
    return code;
}
