#include "kernels/maps/spikes.h"
#include "kernels/maps/map_limit.h"
#include "kernels/base/text.h"

#include <cblas.h>
#include <lapacke.h>

/* Roots below this share of the size of what is known of the matrix are round-off of zero, and
 * those nearer to the transition than `near` of it are round-off of the edge. */
static const double negligible = 1e-7, near = 1e-9;
static const double precision = 1e-13; /* of a root, relative */

static double amplitude_of(const struct map *map, bool forward) {
    return map->decay * (forward ? map->numbers.fg : map->numbers.fr);
}

double spikes_edge(const struct map *map) {
    return amplitude_of(map, true) + amplitude_of(map, false);
}

double spikes_lower_edge(const struct map *map) {
    return fabs(amplitude_of(map, true) - amplitude_of(map, false));
}

/* The singular value that belongs to w. */
static double image_of(const struct map *map, double w) {
    return hypot(w, amplitude_of(map, true)) * hypot(w, amplitude_of(map, false)) / w;
}

static double transition_of(const struct map *map) {
    return sqrt(amplitude_of(map, true) * amplitude_of(map, false));
}

double spikes_independent(const struct map *map, double w) {
    return w > transition_of(map) * (1 + near) && w > 0 ? image_of(map, w) : NAN;
}

/* The determinant's matrix w^2 - w D - A of rows p and then q. D [p][q] is its upper block, A
 * [p + q][p + q] has its two blocks on the diagonal. */
struct pencil {
    int p, q;
    double *D, *A;
    double size; /* no root is above it */
};

int spikes_fail(const struct map *map, int info, struct err *err) {
    TRY(err_lapack_memory(err, info, "the singular values of %s", TEXT_SHOWN_OF(&map->declared)));
    return err_overflow(err, "the singular values of %s are not to be found: it is not finite",
                        TEXT_SHOWN_OF(&map->declared));
}

/* --- from averages to the matrix ------------------------------------------------------------- */

/* C [a.count][b.count] = <a_i b_j>; nothing where one of them is empty. */
static void dots_if_any(struct rows a, struct rows b, double *C) {
    if (a.count && b.count)
        rows_main(a).array->backend->dots(rows_main(a), rows_main(b), C);
}

/* E_b = fr e_b + K_b, in rows of its own. */
static int memory_rows(const struct map *map, struct array *E, struct err *err) {
    const struct limit_state *limit = limit_of(map);
    TRY(array_keep(E, array_all(&limit->e), err));
    rows_scale(amplitude_of(map, false), array_all(E));
    if (limit->K.rows)
        rows_add(NULL, rows_main(array_all(&limit->K)), array_all(E));
    return CODE_OK;
}

/* GE - fr^2 to the block of p, GZ - fg^2 to that of q; onto the other basis <E q> and <p Z>. */
static void fill_blocks(const struct map *map, const struct pencil *f, const double *on_q,
                        const double *on_p) {
    int R = f->p + f->q;
    double *Z = f->A + (size_t)f->p * (size_t)(R + 1), fr = amplitude_of(map, false),
           fg = amplitude_of(map, true);
    if (f->p && f->q) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, f->p, f->p, f->q, -1, on_q, f->q, on_q,
                    f->q, 1, f->A, R);
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, f->q, f->q, f->p, -1, on_p, f->q, on_p,
                    f->q, 1, Z, R);
    }
    for (int i = 0; i < R; i++)
        f->A[(size_t)i * (size_t)(R + 1)] -= i < f->p ? fr * fr : fg * fg;
}

/* out, rows of `stride` numbers, = square [n][n]. */
static void place_square(const double *square, int n, double *out, int stride) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            out[(size_t)i * (size_t)stride + (size_t)j] = square[(size_t)i * (size_t)n + (size_t)j];
}

/* work: [max(p, q)^2 + p q] numbers. */
static void fill_pencil(const struct map *map, struct rows E, struct pencil *f, double *work) {
    const struct limit_state *limit = limit_of(map);
    int most = f->p > f->q ? f->p : f->q, R = f->p + f->q;
    double *on_p = work + (size_t)most * (size_t)most, *on_q = f->D, trace = 0, cross = 0;
    struct rows Z = array_all(&limit->Z);
    dots_if_any(E, E, work);
    place_square(work, f->p, f->A, R);
    dots_if_any(Z, Z, work);
    place_square(work, f->q, f->A + (size_t)f->p * (size_t)(R + 1), R);
    for (int i = 0; i < R; i++)
        trace += f->A[(size_t)i * (size_t)(R + 1)];
    dots_if_any(E, array_all(&limit->q), on_q);
    dots_if_any(array_all(&limit->p), Z, on_p);
    fill_blocks(map, f, on_q, on_p);
    for (size_t i = 0; i < (size_t)f->p * (size_t)f->q; i++) {
        f->D[i] += on_p[i]; /* <p_b (W q_a)> = <p_b Z_a> + <E_b q_a> */
        cross += f->D[i] * f->D[i];
    }
    f->size = sqrt(trace + cross) + spikes_edge(map);
}

/* --- its roots ------------------------------------------------------------------------------- */

enum { BLOCK = 64 }; /* columns that LAPACK factors at once, and a few more */

/* Where the matrix is factored: space [R][R], work [BLOCK R], pivot [R]. */
struct factors {
    double *space, *work;
    int *pivot;
};

/* How many eigenvalues of the matrix at w are negative: as many as of D in its factors L D L^T. */
static int count_negative(const struct pencil *f, double w, const struct factors *to) {
    int R = f->p + f->q, count = 0, *pivot = to->pivot;
    double *space = to->space;
    for (int i = 0; i < R; i++) {
        double *row = space + (size_t)i * (size_t)R;
        const double *A = f->A + (size_t)i * (size_t)R;
        for (int j = 0; j < R; j++) /* symmetric: the lower triangle is read, in LAPACK's order */
            row[j] = -A[j];
        for (int j = f->p; i < f->p && j < R; j++)
            row[j] = -w * f->D[(size_t)i * (size_t)f->q + (size_t)(j - f->p)];
        row[i] += w * w;
    }
    LAPACKE_dsytrf_work(LAPACK_COL_MAJOR, 'L', R, space, R, pivot, to->work, BLOCK * R);
    for (int i = 0; i < R; i++) {
        if (pivot[i] < 0) { /* a block of two, whose determinant is negative: one of each sign */
            count++;
            i++;
        } else if (space[(size_t)i * (size_t)(R + 1)] < 0)
            count++;
    }
    return count;
}

/* Root number k from above, by halves; it lies between low and high. */
static double find_root(const struct pencil *f, int k, double low, double high,
                        const struct factors *to) {
    while (high - low > precision * high) {
        double middle = low + (high - low) / 2;
        if (count_negative(f, middle, to) > k)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static int solve_pencil(const struct map *map, const struct pencil *f, const struct stop *stop,
                        int count, double *values, struct err *err) {
    size_t R = (size_t)(f->p + f->q);
    double low = fmax(transition_of(map) * (1 + near), negligible * f->size), high = f->size;
    if (!isfinite(f->size))
        return spikes_fail(map, 0, err);
    SCRATCH(double, space, R *R);
    SCRATCH(double, work, BLOCK *R);
    SCRATCH(int, pivot, R);
    const struct factors to = {space, work, pivot};
    int roots = R && low < high ? count_negative(f, low, &to) : 0;
    for (int k = 0; k < count; k++) {
        TRY(base_go_on(stop, err));
        if (k < roots)
            high = find_root(f, k, low, high, &to);
        values[k] = k < roots ? image_of(map, high) : NAN;
    }
    return CODE_OK;
}

/* --- what was learned ------------------------------------------------------------------------ */

/* The square roots of the largest eigenvalues of <L_a L_b>, L [n] rows. */
static int roots_of_products(const struct map *map, struct rows L, int count, double *values,
                             struct err *err) {
    int n = L.count;
    for (int k = 0; k < count; k++)
        values[k] = 0;
    if (!n)
        return CODE_OK;
    SCRATCH(double, G, (size_t)n *(size_t)(n + 1));
    dots_if_any(L, L, G);
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        if (!isfinite(G[i]))
            TRY(spikes_fail(map, 0, err));
    double *eigenvalues = G + (size_t)n * (size_t)n;
    int info = LAPACKE_dsyev(LAPACK_COL_MAJOR, 'N', 'U', n, G, n, eigenvalues);
    if (info)
        TRY(spikes_fail(map, info, err));
    for (int k = 0; k < count && k < n; k++)
        values[k] = sqrt(fmax(eigenvalues[n - 1 - k], 0));
    return CODE_OK;
}

/* Rows with the singular values of what was learned: Z over q without its normals, or K over p. */
static int find_learned(const struct map *map, int count, double *values, struct err *err) {
    const struct limit_state *limit = limit_of(map);
    FREED(array_free) struct array L = {0};
    bool random = !limit->K.rows && limit->normals.rows;
    const struct array *from = limit->K.rows ? &limit->K : random ? &limit->normals : &limit->Z;
    TRY(array_keep(&L, array_all(from), err));
    if (random) {
        rows_scale(-amplitude_of(map, true), array_all(&L));
        rows_add(NULL, rows_main(array_all(&limit->Z)), array_all(&L));
    }
    return roots_of_products(map, array_all(&L), count, values, err);
}

int spikes_find(const struct map *map, const struct stop *stop, int count, double *values,
                double *learned, struct err *err) {
    const struct limit_state *limit = limit_of(map);
    size_t p = (size_t)limit->p.rows, q = (size_t)limit->q.rows, most = p > q ? p : q;
    FREED(array_free) struct array E = {0};
    TRY(find_learned(map, count, learned, err));
    TRY(memory_rows(map, &E, err));
    SCRATCH(double, D, p *q + 1);
    SCRATCH(double, A, (p + q) * (p + q) + 1);
    SCRATCH(double, work, most *most + p * q + 1);
    struct pencil f = {.p = limit->p.rows, .q = limit->q.rows, .D = D, .A = A};
    fill_pencil(map, array_all(&E), &f, work);
    return solve_pencil(map, &f, stop, count, values, err);
}
