/* The norm of the gradient (net.h). */
#include "models/engine/node.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* X [rows][rows] = A_mu . A_nu */
static void products(const double *A, int rows, int K, double *X) {
    for (int mu = 0; mu < rows; mu++)
        for (int nu = 0; nu < rows; nu++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += A[mu * K + k] * A[nu * K + k];
            X[mu * rows + nu] = sum;
        }
}

/* sum_mu,nu Delta_mu Delta_nu X_mu,nu Y_mu,nu over rows, which may have Delta inside; of Y a single
 * number may serve all. */
static double contract(const struct net *net, const double *X, const double *Y, int rows,
                       bool one) {
    const double *Delta = net->weighted ? net->ones : net->Delta;
    int R = net->rows;
    double sum = 0;
    for (int mu = 0; mu < rows; mu++)
        for (int nu = 0; nu < rows; nu++)
            sum += Delta[mu % R] * Delta[nu % R] * X[mu * rows + nu] * Y[one ? 0 : mu * rows + nu];
    return sum;
}

/* <x_mu x_nu> and <y_mu y_nu>, of which one number may serve all; [R][R]. */
static void factors(const struct parameter *p, double *X, double *Y) {
    Y[0] = 1;
    if (p->map)
        map_products(p->map, p->y, X, Y);
    else
        products(p->A, p->rows, p->thin ? p->thin->W.rows : p->K, X);
    if (p->thin)
        p->y.array->backend->dots(p->y, p->y, Y);
}

static bool one(const struct parameter *p) {
    return p->host || p->y.count == 1;
}

/* X, Y [R][R]: scratch. */
static double square_of(const struct net *net, const struct parameter *p, double *X, double *Y) {
    factors(p, X, Y);
    return p->rate * contract(net, X, Y, p->rows, one(p));
}

int net_tangent(const struct net *net, const struct parameter *p, double *K, struct err *err) {
    size_t P = (size_t)net->setup.P, rows = (size_t)p->rows;
    double *X, *Y;
    TRY(base_alloc(&X, 2 * rows * rows, sizeof *X, err));
    Y = X + rows * rows;
    factors(p, X, Y);
    memset(K, 0, P * P * sizeof *K);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            K[(size_t)net_input(net, p, (int)i) * P + (size_t)net_input(net, p, (int)j)] +=
                p->rate * X[i * rows + j] * Y[one(p) ? 0 : i * rows + j];
    free(X);
    return CODE_OK;
}

int net_gradient_norm(const struct net *net, double *norm, struct err *err) {
    size_t R = (size_t)net_most_rows(net);
    double *X, square = 0;
    TRY(base_alloc(&X, 2 * R * R, sizeof *X, err));
    for (int i = 0; i < net->parameters; i++)
        square += square_of(net, &net->parameter[i], X, X + R * R);
    free(X);
    *norm = sqrt(fmax(square, 0)) / net->setup.P;
    if (!isfinite(square))
        return err_set(err, CODE_NUMERICAL,
                       "the norm of the gradient is not finite; lower eta0 or gamma0%s",
                       net_hint(net));
    return CODE_OK;
}
