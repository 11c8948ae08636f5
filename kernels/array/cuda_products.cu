/* Products of cuda: cuBLAS. Row-major C = A B is column-major C^T = B^T A^T, as cuBLAS has it. */
#include "kernels/array/cuda.h"

#include <assert.h>
#include <string.h>

#define WIDENED ((size_t)1 << 22) /* numbers of single precision that are widened at a time */

/* y [rows][columns] = alpha A B + beta y, all row-major on the device: A [rows][terms], or with
 * a_turned [terms][rows]; B [terms][columns], or with b_turned [columns][terms]. */
template <class real> struct product {
    const real *A, *B;
    size_t a_stride, b_stride;
    bool a_turned, b_turned;
    real alpha, beta;
    real *y;
    size_t y_stride;
};

template <class real>
static bool multiply_by_blas(const product<real> &p, size_t rows, size_t columns, size_t terms,
                             const char *where) {
    cublasOperation_t op_a = p.a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = p.b_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    int m = (int)columns, n = (int)rows, k = (int)terms, lda = (int)p.a_stride,
        ldb = (int)p.b_stride, ldy = (int)p.y_stride;
    cublasStatus_t status;
    if constexpr (sizeof(real) == sizeof(double))
        status = cublasDgemm(device_blas(), op_b, op_a, m, n, k, &p.alpha, p.B, ldb, p.A, lda,
                             &p.beta, p.y, ldy);
    else
        status = cublasSgemm(device_blas(), op_b, op_a, m, n, k, &p.alpha, p.B, ldb, p.A, lda,
                             &p.beta, p.y, ldy);
    return device_good_blas(status, where);
}

/* out [rows][columns] = scale sum_i a_ki b_li + beta out */
static bool sums_of(view<double> a, view<double> b, size_t rows, size_t columns, size_t sites,
                    double scale, double beta, double *out) {
    product<double> p = {a.at, b.at, a.stride, b.stride, false, true, scale, beta, out, columns};
    return multiply_by_blas(p, rows, columns, sites, "dots");
}

/* It has no old out, and takes some sites after the other in double precision. */
static bool widened_sums(view<float> a, view<float> b, size_t rows, size_t columns, size_t sites,
                         double scale, double *out) {
    size_t some = 1 + WIDENED / (rows + columns);
    some = some < sites ? some : sites;
    void *memory;
    bool good = device_borrow((rows + columns) * some * sizeof(double), &memory, "dots");
    view<double> x = {(double *)memory, some}, y = {(double *)memory + rows * some, some};
    for (size_t first = 0; first < sites && good; first += some) {
        size_t count = sites - first < some ? sites - first : some;
        view<float> a_part = {a.at + first, a.stride}, b_part = {b.at + first, b.stride};
        launch("dots", rows, count, cuda_convert<float, double>, a_part, x, rows, count);
        launch("dots", columns, count, cuda_convert<float, double>, b_part, y, columns, count);
        good = sums_of(x, y, rows, columns, count, scale, first > 0, out);
    }
    device_give_back(memory);
    return good;
}

/* out [a.count][b.count] = scale <a_k b_l> */
template <class real>
static bool site_sums(struct rows a, struct rows b, double scale, double *out, const char *where) {
    size_t rows = (size_t)a.count, columns = (size_t)b.count, sites = a.array->sites;
    if (device_queue_small(rows, columns, sites)) {
        bool turned = rows > columns; /* few rows */
        struct sum_task task = {};
        task.a = operand_of(turned ? b : a);
        task.b = operand_of(turned ? a : b);
        task.sites = sites;
        task.rows = (unsigned)(turned ? columns : rows);
        task.columns = (unsigned)(turned ? rows : columns);
        task.scale = scale;
        task.divide = (double)sites;
        task.out = out;
        task.out_row = turned ? 1 : columns;
        task.out_column = turned ? columns : 1;
        device_queue_sum(&task, where);
        return true;
    }
    view<real> x = view_of<real>(a), y = view_of<real>(b);
    if constexpr (sizeof(real) == sizeof(double))
        return sums_of(x, y, rows, columns, sites, scale / (double)sites, 0, out);
    else
        return widened_sums(x, y, rows, columns, sites, scale / (double)sites, out);
}

template <class real> void cuda<real>::dots(struct rows a, struct rows b, double *C) {
    size_t count = (size_t)a.count * (size_t)b.count;
    struct slot out;
    if (!count)
        return;
    assert(a.array->sites == b.array->sites && a.array->group == b.array->group);
    cuda_fill_nan(C, count);
    if (device_ready() && device_take(count, &out, "dots") &&
        site_sums<real>(a, b, 1, out.device, "dots"))
        device_fetch(out, C, count, "dots");
}

/* Coefficients on the device: alpha n_l C_kl, C_kl at k row + l term, n_l = 1 without numbers. */
struct matrix {
    struct operand C;
    size_t row, term;
    double alpha;
    const double *numbers;
};

/* out [rows][terms] = alpha n_l C_kl */
template <class real>
static __global__ void k_matrix(view<char> C, bool single, size_t row, size_t term, double alpha,
                                view<const double> numbers, view<real> out, size_t rows,
                                size_t terms) {
    EACH(k, rows, l, terms) {
        size_t at = k * row + l * term;
        double number = single ? (double)((const float *)C.at)[at] : ((const double *)C.at)[at];
        out.at[k * terms + l] = (real)(alpha * (numbers.at ? numbers.at[l] : 1) * number);
    }
}

/* y = beta y + C a by cuBLAS, with coefficients of the sites' precision. */
template <class real>
static void combine_many(struct rows y, double beta, const struct matrix &C, struct rows a) {
    size_t rows = (size_t)y.count, terms = (size_t)a.count;
    bool as_they_are = C.C.single == (sizeof(real) == sizeof(float)) && C.term == 1 && !C.numbers;
    product<real> p = {(const real *)C.C.at,
                       row_at<real>(a),
                       C.row,
                       row_stride(a.array),
                       false,
                       false,
                       as_they_are ? (real)C.alpha : (real)1,
                       (real)beta,
                       row_at<real>(y),
                       row_stride(y.array)};
    void *memory = NULL;
    if (!as_they_are) {
        if (!device_borrow(rows * terms * sizeof(real), &memory, "combine"))
            return;
        view<real> out = {(real *)memory, terms};
        launch("combine", rows, terms, k_matrix<real>, view<char>{(char *)C.C.at, 0}, C.C.single,
               C.row, C.term, C.alpha, view<const double>{C.numbers, 0}, out, rows, terms);
        p.A = out.at;
        p.a_stride = terms;
    }
    multiply_by_blas(p, rows, y.array->sites, terms, "combine");
    device_give_back(memory);
}

template <class real>
static void combine_matrix(struct rows y, double beta, const struct matrix &C, struct rows a,
                           const char *where) {
    if (!device_queue_small((size_t)y.count, (size_t)a.count, y.array->sites)) {
        combine_many<real>(y, beta, C, a);
        return;
    }
    struct task task = {};
    task.kind = TASK_COMBINE;
    task.rows = (unsigned)y.count;
    task.terms = (unsigned)a.count;
    task.sites = y.array->sites;
    task.y = operand_of(y);
    task.a = operand_of(a);
    task.C = C.C;
    task.c_row = C.row;
    task.c_term = C.term;
    task.numbers = C.numbers;
    task.alpha = C.alpha;
    task.beta = beta;
    device_queue(&task, where);
}

static struct matrix matrix_of(const double *numbers, size_t terms) {
    return {{(void *)(uintptr_t)numbers, 0, false}, terms, 1, 1, NULL};
}

template <class real>
void cuda<real>::combine(struct rows y, double beta, const double *C, struct rows a) {
    size_t count = (size_t)y.count * (size_t)a.count;
    struct matrix matrix =
        matrix_of(count ? device_put(C, count, "combine") : NULL, (size_t)a.count);
    if (!a.count || matrix.C.at)
        combine_matrix<real>(y, beta, matrix, a, "combine");
}

template <class real>
void cuda<real>::combine_rows(struct rows y, double beta, struct coefficients C, struct rows a) {
    struct matrix matrix = {operand_of(C.rows), 0, 1, C.scale, NULL};
    matrix.row = matrix.C.stride;
    if (C.turned && a.count) {
        size_t bytes = C.rows.array->backend->bytes;
        matrix.C = operand_factor(C.rows);
        matrix.C.at = (char *)matrix.C.at + (size_t)C.first * bytes;
        matrix.row = 1;
        matrix.term = matrix.C.stride;
        matrix.numbers = device_put(C.c, (size_t)a.count, "combine");
        if (!matrix.numbers)
            return;
    }
    combine_matrix<real>(y, beta, matrix, a, "combine");
}

/* The products stay on the device. */
template <class real>
void cuda<real>::low_rank(const struct rows *y, const struct rows *a, int copies, double beta,
                          double scale, struct rows x, struct rows b, double *C, bool wanted) {
    size_t count = (size_t)x.count * (size_t)b.count;
    struct slot products;
    if (wanted)
        cuda_fill_nan(C, count);
    for (int k = 0; k < copies && !count; k++)
        combine(y[k], beta, C, a[k]);
    if (!count || !device_ready() || !device_take(count, &products, "low_rank") ||
        !site_sums<real>(x, b, scale, products.device, "low_rank"))
        return;
    for (int k = 0; k < copies; k++)
        combine_matrix<real>(y[k], beta, matrix_of(products.device, (size_t)b.count), a[k],
                             "low_rank");
    if (wanted)
        device_fetch(products, C, count, "low_rank");
}

/* G: room for the products of rows v with each other. */
static void straighten_rows(struct rows v, double least, const double *G) {
    struct task task = {};
    task.kind = TASK_STRAIGHTEN;
    task.rows = (unsigned)v.count;
    task.sites = v.array->sites;
    task.y = operand_of(v);
    task.alpha = least * least;
    task.numbers = G;
    device_queue(&task, "straighten");
}

/* Rows that lie nearly outside of the base have the same products before and after. Of a block that
 * others meet, rows that were nearly dependent (CANCELLED) must be orthonormal to round-off. */
template <class real>
void cuda<real>::straighten(struct rows base, struct rows v, double least, bool nearly) {
    size_t rows = (size_t)v.count;
    void *memory = NULL;
    if (!rows || !device_ready() ||
        !device_borrow(rows * rows * sizeof(double), &memory, "straighten"))
        return;
    double *G = (double *)memory;
    if (nearly)
        site_sums<real>(v, v, 1, G, "straighten");
    if (base.count)
        low_rank(&v, &base, 1, 1, -1, v, base, NULL, false);
    if (nearly)
        straighten_rows(v, least, G);
    for (int at = 0; at < v.count && !nearly; at += STRAIGHT) {
        struct rows some = rows_part(v, at, v.count - at < STRAIGHT ? v.count - at : STRAIGHT),
                    before = rows_part(v, 0, at);
        if (at)
            low_rank(&some, &before, 1, 1, -1, some, before, NULL, false);
        for (int last = at + some.count == v.count; last < 2; last++) {
            site_sums<real>(some, some, 1, G, "straighten");
            straighten_rows(some, least, G);
        }
    }
    device_give_back(memory);
}

template <class real>
void cuda<real>::times(double scale, struct rows W, struct rows x, struct rows y) {
    size_t sites = x.array->sites;
    assert((size_t)W.count == y.array->sites && W.array->sites == sites);
    if (!x.count || !device_ready())
        return;
    product<real> p = {row_at<real>(x),
                       row_at<real>(W),
                       row_stride(x.array),
                       row_stride(W.array),
                       false,
                       true,
                       (real)(scale / (double)sites),
                       0,
                       row_at<real>(y),
                       row_stride(y.array)};
    multiply_by_blas(p, (size_t)x.count, (size_t)W.count, sites, "times");
}

template struct cuda<double>;
template struct cuda<float>;
