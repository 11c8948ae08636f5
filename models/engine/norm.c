/* The norm of the gradient (net.h). */
#include "models/engine/node.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Rows that a parameter learns with, and which of an evaluation the k-th of them is. */
static int rows_of(const struct parameter *p) {
    return p->map && p->map->some ? p->map->some->count : p->rows;
}

static int row_of(const struct parameter *p, int k) {
    return p->map && p->map->some ? p->map->some->which[k] : k;
}

/* X [rows][rows] = A_mu . B_nu */
static void products(const double *A, const double *B, int rows, int K, double *X) {
    for (int mu = 0; mu < rows; mu++)
        for (int nu = 0; nu < rows; nu++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += A[mu * K + k] * B[nu * K + k];
            X[mu * rows + nu] = sum;
        }
}

/* sum_mu,nu Delta_mu Delta_nu X_mu,nu Y_mu,nu over rows, which may have Delta inside; of Y a single
 * number may serve all. */
static double contract(const struct net *net, const struct parameter *p, const double *X,
                       const double *Y, bool one) {
    const double *Delta = net->output.loss_in_cotangent ? net->output.ones : net->output.Delta;
    int R = net->batch.rows, rows = rows_of(p);
    double sum = 0;
    for (int mu = 0; mu < rows; mu++)
        for (int nu = 0; nu < rows; nu++)
            sum += Delta[row_of(p, mu) % R] * Delta[row_of(p, nu) % R] * X[mu * rows + nu] *
                   Y[one ? 0 : mu * rows + nu];
    return sum;
}

/* <x_mu x_nu> and <y_mu y_nu>, of which one number may serve all; [R][R]. */
static void factors(const struct parameter *p, const struct gradient *a, const struct gradient *b,
                    double *X, double *Y) {
    Y[0] = 1;
    if (p->map)
        map_products(p->map, p->y, X, Y);
    else
        products(a->A, b->A, p->rows, p->thin ? p->thin->W.rows : p->K, X);
    if (p->thin || (p->map && (a->y.array != p->y.array || b->y.array != p->y.array)))
        a->y.array->backend->dots(a->y, b->y, Y);
}

static bool one(const struct parameter *p) {
    return p->host || p->y.count == 1;
}

/* X, Y [R][R]: scratch. */
static double square_of(const struct net *net, const struct parameter *p, double *X, double *Y) {
    const struct gradient own = {p->y, p->A};
    factors(p, &own, &own, X, Y);
    return p->rate * contract(net, p, X, Y, one(p));
}

int net_products(const struct net *net, const struct parameter *p, const struct gradient *a,
                 const struct gradient *b, double *K, struct err *err) {
    size_t P = (size_t)net->setup.data.P, rows = (size_t)rows_of(p);
    double *X, *Y;
    TRY(base_alloc(&X, 2 * rows * rows, sizeof *X, err));
    Y = X + rows * rows;
    factors(p, a, b, X, Y);
    memset(K, 0, P * P * sizeof *K);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            K[(size_t)net_input(net, p, row_of(p, (int)i)) * P +
              (size_t)net_input(net, p, row_of(p, (int)j))] +=
                p->rate * X[i * rows + j] * Y[one(p) ? 0 : i * rows + j];
    free(X);
    return CODE_OK;
}

/* C [rows][rows] = rate/P^2 Delta_mu Delta_nu V_mu,nu; V of one number serves all if `one_number`.
 */
static void weigh(const struct net *net, const struct parameter *p, const double *V,
                  bool one_number, double *C) {
    const double *Delta = net->output.loss_in_cotangent ? net->output.ones : net->output.Delta;
    int rows = p->rows, R = net->batch.rows;
    double scale = p->rate / ((double)net->setup.data.P * net->setup.data.P);
    for (int mu = 0; mu < rows; mu++)
        for (int nu = 0; nu < rows; nu++)
            C[mu * rows + nu] =
                scale * Delta[mu % R] * Delta[nu % R] * V[one_number ? 0 : mu * rows + nu];
}

/* out_i = sum_mu,nu C_mu,nu u_mu,i u_nu,i; of one row that serves all, C is added up. */
static int quadratic(double *C, int rows, struct rows u, double *out, struct err *err) {
    const struct backend *backend = u.array->backend;
    int n = u.count, code = CODE_OK;
    struct array array = {0};
    double *ones = NULL;
    for (int k = 1; k < rows * rows && n == 1; k++)
        C[0] += C[k];
    DO(base_alloc(&ones, (size_t)n, sizeof *ones, err));
    for (int k = 0; k < n; k++)
        ones[k] = 1;
    DO(array_init(&array, backend, u.array->sites, u.array->group, n + 1, err));
    struct rows work = array_rows(&array, 0, n), sum = array_rows(&array, n, 1);
    backend->combine(work, 0, C, u);
    backend->multiply(u, work, work);
    backend->combine(sum, 0, ones, work);
    backend->get(sum, out);
    DO(backend->sync(err));
done:
    array_free(&array);
    free(ones);
    return code;
}

int net_gradient_of_sites(const struct net *net, const struct parameter *p, bool target,
                          double *out, struct err *err) {
    size_t rows = (size_t)p->rows;
    double *X;
    assert(p->map);
    TRY(base_alloc(&X, 3 * rows * rows, sizeof *X, err));
    double *Y = X + rows * rows, *C = Y + rows * rows;
    const struct gradient own = {p->y, p->A};
    factors(p, &own, &own, X, Y);
    weigh(net, p, target ? X : Y, !target && one(p), C);
    int code = quadratic(C, p->rows, target ? p->y : p->map->x, out, err);
    free(X);
    return code;
}

int net_gradient_of_columns(const struct net *net, const struct parameter *p, double *out,
                            struct err *err) {
    size_t rows = (size_t)p->rows;
    int K = p->thin->W.rows;
    double *X;
    TRY(base_alloc(&X, 3 * rows * rows, sizeof *X, err));
    double *Y = X + rows * rows, *C = Y + rows * rows;
    const struct gradient own = {p->y, p->A};
    factors(p, &own, &own, X, Y);
    weigh(net, p, Y, one(p), C);
    for (int k = 0; k < K; k++) {
        out[k] = 0;
        for (size_t mu = 0; mu < rows; mu++)
            for (size_t nu = 0; nu < rows; nu++)
                out[k] += C[mu * rows + nu] * p->A[(int)mu * K + k] * p->A[(int)nu * K + k];
    }
    free(X);
    return CODE_OK;
}

int net_tangent(const struct net *net, const struct parameter *p, double *K, struct err *err) {
    const struct gradient own = {p->y, p->A};
    return net_products(net, p, &own, &own, K, err);
}

int net_gradient_norm(const struct net *net, double *norm, struct err *err) {
    size_t R = (size_t)net_most_rows(net);
    double *X, square = 0;
    TRY(base_alloc(&X, 2 * R * R, sizeof *X, err));
    for (int i = 0; i < net->parameters.count; i++)
        square += square_of(net, &net->parameters.item[i], X, X + R * R);
    free(X);
    *norm = sqrt(fmax(square, 0)) / net->setup.data.P;
    if (!isfinite(square))
        return err_set(err, CODE_NUMERICAL,
                       "the norm of the gradient is not finite; lower eta0 or gamma0%s",
                       net_hint(net));
    return CODE_OK;
}
