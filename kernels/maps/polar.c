/* Muon's step (polar.h), by blocks: of rows where rows are sites or directions, on the backend; of
 * columns, the sites of an expert, on the host (polar_host.c). */
#include "kernels/maps/polar.h"
#include "kernels/array/profile.h"
#include "kernels/maps/polar_host.h"

#include <cblas.h>
#include <lapacke.h>

/* --- rows ------------------------------------------------------------------------------------ */

/* A [n][n], or (averages) [n]: the mean of <x_k x_l>, or <x_k x_k>, over the parts, in each of
 * which x [parts] has n rows; more: scratch of that size. */
static void mean_products(const struct rows *x, int parts, bool averages, double *A, double *more) {
    size_t n = (size_t)x->count, all = averages ? n : n * n;
    for (int k = 0; k < parts; k++) {
        const struct backend *backend = x[k].array->backend;
        (averages ? backend->averages : backend->dots)(x[k], x[k], k ? more : A);
        for (size_t i = 0; i < all && k; i++)
            A[i] += more[i];
    }
    for (size_t i = 0; i < all && parts > 1; i++)
        A[i] /= parts;
}

/* along <- a along + (b + c A) applied to what x sees of it, the step of polar_factor where `along`
 * stands in the place of a row of x; A [n][n] = <x_k x_l>. */
static int step_along(struct rows x, const double *A, struct rows along, struct err *err) {
    int n = x.count, k = along.count;
    double *C;
    SCRATCH(double, seen, 2 * (size_t)n * (size_t)k);
    C = seen + (size_t)n * (size_t)k;
    along.array->backend->dots(along, rows_main(x), seen);
    polar_seen(k, n, seen, A, C);
    along.array->backend->combine(along, polar_coefficient[0], C, rows_main(x));
    return CODE_OK;
}

/* x <- a x + A (b x + c A x), A = <x_k x_l>, without the host; A has room for it. */
static void step_far(struct rows x, struct rows other, double *A) {
    rows_low_rank(other, 0, polar_coefficient[2], x, x, x, A, false);
    rows_add_scaled(polar_coefficient[1], x, other);
    rows_low_rank(x, polar_coefficient[0], 1, x, x, other, A, false);
}

/* x <- p(x/|x|), x [parts] the parts of a matrix side by side, with <x_k x_l> in the place of
 * products, means over the sites of all parts: the result has site averages of one where it has
 * singular values of one; x <- 0 if |x|^2 = sum <x_k x_k> is least^2 at most. other: scratch of the
 * same shape. along: rows that take the steps of x, of a single part, or of no array. stop: asked
 * between products of matrices. */
static int iterate_rows(const struct rows *x, int parts, double least, const struct rows *other,
                        struct rows along, const struct stop *stop, struct err *err) {
    size_t n = (size_t)x->count;
    double *C, norm2 = 0;
    SCRATCH(double, A, 2 * n * n);
    C = A + n * n;
    mean_products(x, parts, true, A, C);
    for (size_t k = 0; k < n; k++)
        norm2 += A[k];
    for (int part = 0; part < parts; part++)
        rows_scale(sqrt(norm2) <= least ? 0 : 1 / sqrt(norm2), x[part]);
    if (along.array)
        rows_scale(sqrt(norm2) <= least ? 0 : 1 / sqrt(norm2), along);
    for (int k = 0; k < POLAR_STEPS && sqrt(norm2) > least; k++) {
        TRY(base_go_on(stop, err));
        if (x->array->backend->distant && parts == 1 && !along.array) {
            step_far(*x, *other, A);
            continue;
        }
        mean_products(x, parts, false, A, C);
        TRY(base_go_on(stop, err));
        if (along.array)
            TRY(step_along(x[0], A, along, err));
        polar_factor(x->count, A, C);
        TRY(base_go_on(stop, err));
        for (int part = 0; part < parts; part++) {
            x[part].array->backend->combine(other[part], 0, C, x[part]);
            rows_copy(other[part], x[part]);
        }
    }
    return CODE_OK;
}

/* Host matrices of an exact factor of C a, C [n][P] and a rows [P][m]. */
struct factors {
    double *C, *a; /* become orthonormal: [n][P], its first columns; [P][m], its first rows */
    double *C_R, *a_R, *small, *scratch; /* [P][P] each; of polar_host */
    double *tau;
    const struct stop *stop; /* asked between the factorisations, each of which hears nothing */
};

/* C = Q R in place; R [min(n, P)][P]. a likewise, transposed. */
static int factor_thin(struct factors *f, int n, int P, int m, struct err *err) {
    int kc = n < P ? n : P, ka = m < P ? m : P;
    TRY(polar_check(LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, n, P, f->C, P, f->tau), err));
    for (ptrdiff_t i = 0; i < kc; i++)
        for (ptrdiff_t j = i; j < P; j++)
            f->C_R[i * P + j] = f->C[i * P + j];
    TRY(base_go_on(f->stop, err));
    TRY(polar_check(LAPACKE_dorgqr(LAPACK_ROW_MAJOR, n, kc, kc, f->C, P, f->tau), err));
    TRY(base_go_on(f->stop, err));
    TRY(polar_check(LAPACKE_dgeqrf(LAPACK_COL_MAJOR, m, P, f->a, m, f->tau), err));
    for (ptrdiff_t i = 0; i < ka; i++)
        for (ptrdiff_t j = i; j < P; j++)
            f->a_R[i * P + j] = f->a[(size_t)j * (size_t)m + (size_t)i];
    TRY(base_go_on(f->stop, err));
    return polar_check(LAPACKE_dorgqr(LAPACK_COL_MAJOR, m, ka, ka, f->a, m, f->tau), err);
}

/* C a = Q_C (C_R a_R^T) Q_a^T: the small matrix in the middle has its singular values. x becomes
 * the rows of Q_a, C [n][P] what they are to be multiplied by. */
static int exact_factors(struct factors *f, int n, int P, double least, struct rows x,
                         struct err *err) {
    int m = (int)x.array->sites, kc = n < P ? n : P, ka = m < P ? m : P;
    TRY(factor_thin(f, n, P, m, err));
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, kc, ka, P, 1, f->C_R, P, f->a_R, P, 0,
                f->small, ka);
    TRY(base_go_on(f->stop, err));
    TRY(polar_host(kc, ka, f->small, 0, NULL, least, true, f->scratch, err));
    TRY(base_go_on(f->stop, err));
    x.array->backend->put(rows_part(x, 0, ka), f->a);
    for (int i = 0; i < n; i++) { /* row i of Q_C times the small matrix, in its place */
        double *row = f->C + (size_t)i * (size_t)P, *made = f->scratch;
        memset(made, 0, (size_t)P * sizeof *made);
        for (ptrdiff_t k = 0; k < kc; k++)
            for (int l = 0; l < ka; l++)
                made[l] += row[k] * f->small[k * ka + l];
        memcpy(row, made, (size_t)P * sizeof *row);
    }
    return CODE_OK;
}

/* y += factor (exact factor of C a), C [y.count][a.count], as iterate_rows; x: scratch of as many
 * rows as a. */
static int exact_rows(struct rows y, const double *C, struct rows a, double factor, double least,
                      struct rows x, const struct stop *stop, struct err *err) {
    size_t n = (size_t)y.count, P = (size_t)a.count, m = a.array->sites;
    SCRATCH(double, memory, n *P + P * m + 8 * P * P + 3 * P);
    struct factors f = {.C = memory, .a = memory + n * P, .stop = stop};
    f.C_R = f.a + P * m;
    f.a_R = f.C_R + P * P;
    f.small = f.a_R + P * P;
    f.tau = f.small + P * P;
    f.scratch = f.tau + P;
    memcpy(f.C, C, n * P * sizeof *C);
    a.array->backend->get(a, f.a);
    rows_zero(x);
    TRY(base_go_on(stop, err));
    TRY(exact_factors(&f, y.count, a.count, least * sqrt((double)m), x, err));
    for (size_t i = 0; i < n * P; i++)
        f.C[i] *= factor * sqrt((double)m);
    y.array->backend->combine(y, 1, f.C, x);
    return CODE_OK;
}

/* --- the step -------------------------------------------------------------------------------- */

/* x = M. */
static int add_direction(const struct change *change, const struct polar_rule *rule,
                         struct array *velocity, struct rows x, struct err *err) {
    struct rows v;
    if (rule->exact)
        return change_add(change, 0, 0, x, err);
    TRY(change_remember(velocity, change->entries, &v, err));
    TRY(change_add(change, 0, rule->momentum, v, err));
    rows_copy(v, x);
    if (rule->nesterov) {
        rows_scale(rule->momentum, x);
        TRY(change_add(change, 0, 1, x, err));
    }
    return CODE_OK;
}

/* The norm of a block of `rows` rows whose entries are of order one. */
static double unit_of(const struct change *change, int rows) {
    double columns = change->column_group ? change->column_group : 1;
    return fabs(change->s) * sqrt(columns * (change->row_group ? rows : 1));
}

static int step_columns(const struct change *change, const struct polar_rule *rule, struct rows x,
                        struct rows along, struct err *err) {
    double unit = unit_of(change, x.count), least = POLAR_NOTHING * unit;
    TRY(polar_columns(x, change->column_group, least, rule->exact, along, rule->stop, err));
    rows_scale(rule->rate * unit, x);
    rows_add(NULL, x, change->entries);
    if (along.array)
        rows_add_scaled(rule->rate * unit, along, change->along->entries);
    return CODE_OK;
}

/* Blocks of row_group rows; all rows where these are directions. x, other: scratch, x = M unless
 * the factor is exact; along: rows that take the same step, or of no array. */
static int step_rows(const struct change *change, const struct polar_rule *rule, struct rows x,
                     struct rows other, struct rows along, struct err *err) {
    int all = change->entries.count, group = change->row_group ? change->row_group : all;
    double unit = unit_of(change, group), rate = rule->rate * unit, least = POLAR_NOTHING * unit;
    for (int first = 0; first < all; first += group) {
        struct rows entries = rows_part(change->entries, first, group);
        if (rule->exact) {
            const double *C = change->C + (size_t)first * (size_t)change->a.count;
            TRY(exact_rows(entries, C, change->a, rate, least, other, rule->stop, err));
            continue;
        }
        struct rows block = rows_part(x, first, group), scratch = rows_part(other, first, group);
        TRY(iterate_rows(&block, 1, least, &scratch, along, rule->stop, err));
    }
    if (!rule->exact) {
        rows_scale(rate, x);
        rows_add(NULL, x, change->entries);
    }
    if (along.array && !all) /* M has no rows: its L takes no step */
        rows_zero(along);
    if (along.array)
        rows_add_scaled(rate, along, change->along->entries);
    return CODE_OK;
}

int polar_change(struct change *change, const struct polar_rule *rule, struct array *velocity,
                 struct err *err) {
    const struct array *like = change->entries.array;
    int rows = change->entries.count, before = profile_enter("orthogonalise", "");
    FREED(array_free) struct array x = {0}, other = {0}, along = {0};
    struct rows beside = {0};
    bool columns = change->column_group > 0;
    int code = CODE_OK;
    if (change->along) {
        const struct array *its = change->along->entries.array;
        assert(!change->row_group && !rule->exact);
        DO(array_init(&along, its->backend, its->sites, its->group, its->rows, err));
        beside = array_all(&along);
        DO(add_direction(change->along, rule, change->along_memory, beside, err));
    }
    if (!columns && rule->exact)
        DO(change_fetch(change, err));
    if (!columns)
        DO(array_init(&other, like->backend, like->sites, like->group,
                      rule->exact ? change->a.count : rows, err));
    if (columns || !rule->exact) {
        DO(array_init(&x, like->backend, like->sites, like->group, rows, err));
        DO(add_direction(change, rule, velocity, array_all(&x), err));
    }
    DO(columns ? step_columns(change, rule, array_all(&x), beside, err)
               : step_rows(change, rule, array_all(&x), array_all(&other), beside, err));
done:
    if (change->along)
        change_free(change->along);
    change_free(change);
    profile_leave(before);
    return code;
}

/* --- one matrix of several parts -------------------------------------------------------------- */

/* On the host, [rows][sites of all parts]: to X, or from it. */
static void copy_parts(const struct rows *x, int parts, bool get, double *X, double *one) {
    size_t rows = (size_t)x->count, first = 0, all = 0;
    for (int k = 0; k < parts; k++)
        all += x[k].array->sites;
    for (int k = 0; k < parts; k++) {
        size_t sites = x[k].array->sites;
        if (get)
            x[k].array->backend->get(x[k], one);
        for (size_t i = 0; i < rows; i++) {
            double *here = one + i * sites, *there = X + i * all + first;
            memcpy(get ? there : here, get ? here : there, sites * sizeof *X);
        }
        if (!get)
            x[k].array->backend->put(x[k], one);
        first += sites;
    }
}

/* iterate_rows of the exact factor. */
static int exact_parts(const struct rows *x, int parts, double least, struct err *err) {
    size_t r = (size_t)x->count, c = 0;
    for (int k = 0; k < parts; k++)
        c += x[k].array->sites;
    size_t all = r * c;
    SCRATCH(double, X, all + polar_scratch(x->count, (int)c, 0));
    copy_parts(x, parts, true, X, X + all);
    TRY(polar_host(x->count, (int)c, X, 0, NULL, least * sqrt((double)c), true, X + all, err));
    polar_scale(all, sqrt((double)c), X);
    copy_parts(x, parts, false, X, X + all);
    return CODE_OK;
}

/* The rows of part k among those that a matrix has. */
static struct rows rows_of_part(const struct polar_part *part, int k, bool stacked,
                                const struct array *x) {
    int first = 0, count = part[k].change.entries.count;
    for (int i = 0; i < k && stacked; i++)
        first += part[i].change.entries.count;
    return array_rows(stacked ? x : &x[k], first, count);
}

/* x, other [blocks]: as M is to be laid out, one array of all rows or one for each part. */
static int move_parts(struct polar_part *part, int parts, bool stacked,
                      const struct polar_rule *rule, struct array *x, struct array *other,
                      struct err *err) {
    int blocks = stacked ? 1 : parts;
    double unit = unit_of(&part->change, part->change.entries.count) * (stacked ? sqrt(parts) : 1);
    SCRATCH(struct rows, rows, 2 * (size_t)blocks);
    for (int k = 0; k < parts; k++)
        TRY(add_direction(&part[k].change, rule, part[k].velocity,
                          rows_of_part(part, k, stacked, x), err));
    for (int k = 0; k < blocks; k++) {
        rows[k] = array_all(&x[k]);
        rows[blocks + k] = array_all(&other[k]);
    }
    TRY(rule->exact ? exact_parts(rows, blocks, POLAR_NOTHING * unit, err)
                    : iterate_rows(rows, blocks, POLAR_NOTHING * unit, rows + blocks,
                                   (struct rows){0}, rule->stop, err));
    for (int k = 0; k < parts; k++) {
        struct rows moved = rows_of_part(part, k, stacked, x);
        rows_scale(rule->rate * unit, moved);
        rows_add(NULL, moved, part[k].change.entries);
    }
    return CODE_OK;
}

int polar_change_parts(struct polar_part *part, int parts, bool stacked,
                       const struct polar_rule *rule, struct err *err) {
    int blocks = stacked ? 1 : parts, before = profile_enter("orthogonalise", ""), rows = 0;
    struct array *x = NULL;
    int code = CODE_OK;
    for (int k = 0; k < parts; k++)
        rows += part[k].change.entries.count;
    DO(base_alloc(&x, 2 * (size_t)blocks, sizeof *x, err));
    for (int k = 0; k < 2 * blocks; k++) {
        const struct rows like = part[k % blocks].change.entries;
        DO(array_init(&x[k], like.array->backend, like.array->sites, like.array->group,
                      stacked ? rows : like.count, err));
    }
    DO(move_parts(part, parts, stacked, rule, x, x + blocks, err));
done:
    for (int k = 0; k < 2 * blocks && x; k++)
        array_free(&x[k]);
    free(x);
    for (int k = 0; k < parts; k++)
        change_free(&part[k].change);
    profile_leave(before);
    return code;
}
