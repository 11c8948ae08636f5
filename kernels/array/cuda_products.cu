/* Products of cuda: cuBLAS. Row-major C = A B is column-major C^T = B^T A^T, as cuBLAS has it. */
#include "kernels/array/cuda.h"

#include <assert.h>
#include <string.h>

#define WIDENED ((size_t)1 << 22)     /* numbers of single precision that are widened at a time */
#define FEW 16                        /* rows whose sums a thread adds up side by side */
#define FEW_THREADS ((size_t)1 << 17) /* of them, about, where there are sites enough */
#define FEW_PARTS ((size_t)256)
#define FEW_ADDS ((size_t)16) /* sites of a thread, at least */

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
static bool multiply(const product<real> &p, size_t rows, size_t columns, size_t terms,
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
    return multiply(p, rows, columns, sites, "dots");
}

/* out [k of FEW][l][part] = the sum over sites part, part + parts, ... of a_k b_l: each site of b
 * is read once, as it is. */
static __global__ void k_few_sums(view<float> a, size_t rows, view<float> b, size_t columns,
                                  size_t sites, size_t parts, double *out) {
    EACH(l, columns, part, parts) {
        double sum[FEW];
        for (size_t k = 0; k < FEW; k++)
            sum[k] = 0;
        for (size_t i = part; i < sites; i += parts) {
            double value = (double)b.at[l * b.stride + i];
            for (size_t k = 0; k < FEW; k++)
                if (k < rows)
                    sum[k] += value * (double)a.at[k * a.stride + i];
        }
        for (size_t k = 0; k < FEW; k++)
            if (k < rows)
                out[(k * columns + l) * parts + part] = sum[k];
    }
}

/* out[n] = scale times the sum of in[n][parts], or with columns > 0 that of n = k columns + l at
 * l rows + k. */
static __global__ void k_few_totals(const double *in, size_t count, size_t parts, double scale,
                                    size_t columns, double *out) {
    EACH(k, 1, n, count) {
        double sum = 0;
        for (size_t part = 0; part < parts; part++)
            sum += in[n * parts + part];
        size_t at = columns ? n % columns * (count / columns) + n / columns : n;
        out[at + k] = scale * sum;
    }
}

/* Sums of few rows; turned: out is [columns][rows]. */
static bool few_sums(view<float> a, view<float> b, size_t rows, size_t columns, size_t sites,
                     double scale, bool turned, double *out) {
    size_t parts = FEW_THREADS / columns;
    void *memory;
    parts = parts < FEW_PARTS ? parts : FEW_PARTS;
    parts = parts < sites / FEW_ADDS ? parts : sites / FEW_ADDS;
    parts = parts ? parts : 1;
    if (!device_borrow(rows * columns * parts * sizeof(double), &memory, "dots"))
        return false;
    launch("dots", columns, parts, k_few_sums, a, rows, b, columns, sites, parts, (double *)memory);
    launch("dots", 1, rows * columns, k_few_totals, (const double *)memory, rows * columns, parts,
           scale, turned ? columns : (size_t)0, out);
    device_give_back(memory, "dots");
    return true;
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
    device_give_back(memory, "dots");
    return good;
}

template <class real>
static bool site_sums(struct rows a, struct rows b, size_t sites, double scale, double *out) {
    view<real> x = view_of<real>(a), y = view_of<real>(b);
    size_t rows = (size_t)a.count, columns = (size_t)b.count;
    if constexpr (sizeof(real) == sizeof(double))
        return sums_of(x, y, rows, columns, sites, scale, 0, out);
    else if (rows <= FEW)
        return few_sums(x, y, rows, columns, sites, scale, false, out);
    else if (columns <= FEW)
        return few_sums(y, x, columns, rows, sites, scale, true, out);
    else
        return widened_sums(x, y, rows, columns, sites, scale, out);
}

template <class real> void cuda_products<real>::dots(struct rows a, struct rows b, double *C) {
    size_t count = (size_t)a.count * (size_t)b.count, sites = count ? a.array->sites : 0;
    struct slot out;
    if (!count)
        return;
    assert(a.array->sites == b.array->sites && a.array->group == b.array->group);
    cuda_fill_nan(C, count);
    if (device_ready() && device_take(count, &out, "dots") &&
        site_sums<real>(a, b, sites, 1.0 / (double)sites, out.device))
        device_fetch(out, {C, count, 1, 1}, "dots");
}

/* y = beta y + c a; without a: y = beta y */
template <class real>
static __global__ void k_combine(view<real> y, double beta, double c, view<real> a, size_t rows,
                                 size_t sites) {
    EACH(k, rows, i, sites) {
        real *out = y.at + k * y.stride + i;
        double old = beta == 0 ? 0 : beta * (double)*out;
        *out = (real)(a.at ? old + c * (double)a.at[k * a.stride + i] : old);
    }
}

/* y = beta y + C a, C [y.count][a.count] on the device, or turned. */
template <class real>
static void combine_matrix(struct rows y, double beta, double scale, view<real> C, bool turned,
                           struct rows a) {
    product<real> p = {
        C.at,  row_at<real>(a), C.stride,   row_stride(a.array), turned,
        false, (real)scale,     (real)beta, row_at<real>(y),     row_stride(y.array)};
    multiply(p, (size_t)y.count, y.array->sites, (size_t)a.count, "combine");
}

/* Coefficients, as the host has put them, as numbers of the sites; *memory is to be given back. */
template <class real>
static const real *coefficients_of(struct slot in, size_t count, void **memory) {
    if constexpr (sizeof(real) == sizeof(double)) {
        (void)count, (void)memory;
        return in.device;
    } else {
        if (!device_borrow(count * sizeof(real), memory, "combine"))
            return NULL;
        view<double> wide = {in.device, count};
        view<real> rounded = {(real *)*memory, count};
        launch("combine", 1, count, cuda_convert<double, real>, wide, rounded, (size_t)1, count);
        return rounded.at;
    }
}

template <class real>
void cuda_products<real>::combine(struct rows y, double beta, const double *C, struct rows a) {
    size_t count = (size_t)y.count * (size_t)a.count, sites = y.array->sites;
    struct rows none = {NULL, 0, 0};
    struct slot in;
    void *memory = NULL;
    if (!y.count || !device_ready())
        return;
    if (count <= 1) {
        launch("combine", (size_t)y.count, sites, k_combine<real>, view_of<real>(y), beta,
               count ? *C : 0.0, view_of<real>(count ? a : none), (size_t)y.count, sites);
        return;
    }
    if (!device_take(count, &in, "combine"))
        return;
    memcpy(in.host, C, count * sizeof *C);
    if (!device_send(in, count, "combine"))
        return;
    const real *matrix = coefficients_of<real>(in, count, &memory);
    view<real> all = {(real *)(uintptr_t)matrix, (size_t)a.count};
    if (matrix)
        combine_matrix(y, beta, 1, all, false, a);
    device_give_back(memory, "combine");
}

/* out [terms][rows] = scale c_l R_l,(first + k), number k of row l. */
template <class real>
static __global__ void k_gather(view<real> R, const double *c, double scale, size_t first,
                                real *out, size_t terms, size_t rows) {
    EACH(l, terms, k, rows) {
        out[l * rows + k] = (real)(scale * c[l] * (double)R.at[l * R.stride + first + k]);
    }
}

template <class real>
void cuda_products<real>::combine_rows(struct rows y, double beta, struct coefficients C,
                                       struct rows a) {
    size_t rows = (size_t)y.count, terms = (size_t)a.count;
    struct slot factors;
    void *memory = NULL;
    if (!y.count || !device_ready())
        return;
    if (!terms) {
        combine(y, beta, NULL, a);
        return;
    }
    if (!C.turned) {
        combine_matrix(y, beta, C.scale, view_of<real>(C.rows), false, a);
        return;
    }
    if (!device_take(terms, &factors, "combine"))
        return;
    memcpy(factors.host, C.c, terms * sizeof(double));
    if (!device_send(factors, terms, "combine") ||
        !device_borrow(rows * terms * sizeof(real), &memory, "combine"))
        return;
    view<real> all = {(real *)memory, rows};
    launch("combine", terms, rows, k_gather<real>, factor_of<real>(C.rows),
           (const double *)factors.device, C.scale, (size_t)C.first, all.at, terms, rows);
    combine_matrix(y, beta, 1, all, true, a);
    device_give_back(memory, "combine");
}

/* The products stay on the device. */
template <class real>
void cuda_products<real>::low_rank(struct rows y, double beta, double scale, struct rows x,
                                   struct rows b, struct rows a, double *C, bool wanted) {
    size_t count = (size_t)x.count * (size_t)b.count, sites = count ? x.array->sites : 0;
    struct slot products;
    void *memory = NULL;
    if (wanted)
        cuda_fill_nan(C, count);
    if (!count)
        combine(y, beta, C, a);
    if (!count || !device_ready() || !device_take(count, &products, "low_rank") ||
        !site_sums<real>(x, b, sites, scale / (double)sites, products.device))
        return;
    const real *matrix = coefficients_of<real>(products, count, &memory);
    view<real> all = {(real *)(uintptr_t)matrix, (size_t)a.count};
    if (matrix)
        combine_matrix(y, beta, 1, all, false, a);
    device_give_back(memory, "low_rank");
    if (wanted)
        device_fetch(products, {C, count, 1, 1}, "low_rank");
}

/* out_k = v_k - sum over l < k of G_kl v_l - (G_kk - 1)/2 v_k, G the products of v: Gram-Schmidt to
 * first order. */
template <class real>
static __global__ void k_straighten(view<real> v, const double *G, view<real> out, size_t rows,
                                    size_t sites) {
    EACH(k, rows, i, sites) {
        double sum = (1.5 - 0.5 * G[k * rows + k]) * (double)v.at[k * v.stride + i];
        for (size_t l = 0; l < k; l++)
            sum -= G[k * rows + l] * (double)v.at[l * v.stride + i];
        out.at[k * out.stride + i] = (real)sum;
    }
}

template <class real> void cuda_products<real>::straighten(struct rows v, struct rows out) {
    size_t rows = (size_t)v.count, sites = v.array->sites;
    struct slot G;
    if (device_ready() && device_take(rows * rows, &G, "straighten") &&
        site_sums<real>(v, v, sites, 1.0 / (double)sites, G.device))
        launch("straighten", rows, sites, k_straighten<real>, view_of<real>(v),
               (const double *)G.device, view_of<real>(out), rows, sites);
}

template <class real>
void cuda_products<real>::times(double scale, struct rows W, struct rows x, struct rows y) {
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
    multiply(p, (size_t)x.count, (size_t)W.count, sites, "times");
}

template struct cuda_products<double>;
template struct cuda_products<float>;
