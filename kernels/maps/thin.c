#include "kernels/maps/thin.h"

#include <cblas.h>

#define AT_ONCE 256 /* inputs, between two looks for a signal */
#define TURNED 16   /* rows that are read together where a matrix is transposed */
#define FEW 4096    /* entries of coefficients, of which none is tested for 0 */

int thin_init(struct thin *thin, struct population *population, int K, double amplitude,
              struct err *err) {
    thin->population = population;
    TRY(array_init(&thin->W, population->backend, population->sites, population->group, K, err));
    struct rows W = array_all(&thin->W);
    rows_zero(W);
    if (amplitude == 0)
        return CODE_OK;
    population->draws.drawn = true;
    TRY(population_fresh(population, (struct rows){0}, W, err));
    rows_scale(amplitude, W);
    return CODE_OK;
}

void thin_free(struct thin *thin) {
    array_free(&thin->W);
}

void thin_read(const struct thin *thin, const double *A, struct rows out) {
    thin->W.backend->combine(out, 0, A, array_all(&thin->W));
}

int thin_change(const struct thin *thin, const double *A, const double *c, struct rows y,
                struct change *change, struct err *err) {
    int K = thin->W.rows, P = y.count;
    bool few = K * (double)P < FEW;
    double *C;
    TRY(base_alloc(&C, (size_t)K * (size_t)P, sizeof *C, err));
    for (int first = 0; first < P; first += TURNED)
        for (int k = 0; k < K; k++)
            for (int mu = first; mu < P && mu < first + TURNED; mu++)
                if (few || A[mu * K + k] != 0) /* C is 0 already, as nearly all is of tokens */
                    C[k * P + mu] = c[mu] * A[mu * K + k];
    *change = (struct change){.entries = array_all(&thin->W), .a = y, .C = C, .s = 1};
    return CODE_OK;
}

int thin_learn(struct thin *thin, const double *A, const double *c, struct rows y,
               struct err *err) {
    struct change change;
    TRY(thin_change(thin, A, c, y, &change, err));
    return change_apply(&change, err);
}

/* v -= sum_k (B_k . v) B_k; the products are added to a [K], by way of scratch [K]. */
static void subtract_basis(double *v, const double *B, int K, int D, double *scratch, double *a) {
    if (K == 0)
        return;
    cblas_dgemv(CblasRowMajor, CblasNoTrans, K, D, 1, B, D, v, 1, 0, scratch, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, K, D, -1, B, D, scratch, 1, 1, v, 1);
    cblas_daxpy(K, 1, scratch, 1, a, 1);
}

static double norm_of(const double *v, int D) {
    double sum = 0;
    for (int i = 0; i < D; i++)
        sum += v[i] * v[i];
    return sqrt(sum);
}

static int check_length(double length, int mu, struct err *err) {
    return isfinite(length)
               ? CODE_OK
               : err_set(err, CODE_INPUT, "input %d is too large: its length overflows", mu);
}

/* Coordinates of the inputs [P][D] in a basis of the whole space, wide [P][D]: one product. */
static int project_inputs(const double *X, int first, int P, int D, const double *B, double *wide,
                          struct err *err) {
    for (int mu = first; mu < P; mu += AT_ONCE) {
        int count = P - mu < AT_ONCE ? P - mu : AT_ONCE;
        size_t at = (size_t)mu * (size_t)D;
        TRY(base_poll(err, "directions of the inputs are found"));
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, count, D, D, 1 / sqrt((double)D),
                    X + at, D, B, D, 0, wide + at, D);
        for (int k = 0; k < count; k++)
            TRY(check_length(norm_of(wide + at + (size_t)k * (size_t)D, D), mu + k, err));
    }
    return CODE_OK;
}

int thin_coordinates(const double *X, int P, int D, double **A, double **B, int *K,
                     struct err *err) {
    int most = P < D ? P : D, rank = 0, mu;
    FREED(base_free) double *basis = NULL, *wide = NULL, *scratch = NULL;
    TRY(base_alloc(&basis, ((size_t)most + 1) * (size_t)D, sizeof *basis, err));
    TRY(base_alloc(&wide, (size_t)P * (size_t)most, sizeof *wide, err));
    TRY(base_alloc(&scratch, (size_t)most, sizeof *scratch, err));
    for (mu = 0; mu < P && rank < D; mu++) {
        TRY(base_poll(err, "directions of the inputs are found"));
        double *v = basis + (size_t)rank * (size_t)D, *a = wide + (size_t)mu * (size_t)most;
        for (int i = 0; i < D; i++)
            v[i] = X[(size_t)mu * (size_t)D + (size_t)i] / sqrt((double)D);
        double length = norm_of(v, D);
        TRY(check_length(length, mu, err));
        subtract_basis(v, basis, rank, D, scratch, a);
        subtract_basis(v, basis, rank, D, scratch, a);
        double rest = norm_of(v, D);
        if (rest <= 1e-12 * length)
            continue;
        for (int i = 0; i < D; i++)
            v[i] /= rest;
        a[rank++] = rest;
    }
    TRY(project_inputs(X, mu, P, D, basis, wide, err));
    TRY(base_alloc(A, (size_t)P * (size_t)rank, sizeof **A, err));
    for (mu = 0; mu < P; mu++)
        memcpy(*A + (size_t)mu * (size_t)rank, wide + (size_t)mu * (size_t)most,
               (size_t)rank * sizeof **A);
    *K = rank;
    if (B) {
        *B = basis;
        basis = NULL;
    }
    return CODE_OK;
}
