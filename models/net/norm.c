/* The norm of the gradient (net.h). */
#include "models/program/node.h"

#include <assert.h>
#include <stdlib.h>

/* X [P][P] = A_mu . A_nu */
static void products(const double *A, int P, int K, double *X) {
    for (int mu = 0; mu < P; mu++)
        for (int nu = 0; nu < P; nu++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += A[mu * K + k] * A[nu * K + k];
            X[mu * P + nu] = sum;
        }
}

/* sum_mu,nu Delta_mu Delta_nu X_mu,nu Y_mu,nu; of Y a single number may serve all. */
static double contract(const struct net *net, const double *X, const double *Y, int rows) {
    int P = net->setup.P;
    double sum = 0;
    for (int mu = 0; mu < P; mu++)
        for (int nu = 0; nu < P; nu++)
            sum +=
                net->Delta[mu] * net->Delta[nu] * X[mu * P + nu] * Y[rows == 1 ? 0 : mu * P + nu];
    return sum;
}

/* X, Y [P][P]: scratch. */
static double square_of(const struct net *net, const struct parameter *p, double *X, double *Y) {
    int P = net->setup.P;
    Y[0] = 1;
    if (p->map)
        map_products(p->map, p->y, X, Y);
    else
        products(p->A, P, p->thin ? p->thin->W.rows : p->K, X);
    if (p->thin)
        p->y.array->backend->dots(p->y, p->y, Y);
    return p->rate * contract(net, X, Y, p->host ? 1 : p->y.count);
}

int net_gradient_norm(const struct net *net, double *norm, struct err *err) {
    size_t P = (size_t)net->setup.P;
    double *X, square = 0;
    TRY(base_alloc(&X, 2 * P * P, sizeof *X, err));
    for (int i = 0; i < net->parameters; i++)
        square += square_of(net, &net->parameter[i], X, X + P * P);
    free(X);
    *norm = sqrt(fmax(square, 0)) / (double)P;
    if (!isfinite(square))
        return err_set(err, CODE_NUMERICAL,
                       "the norm of the gradient is not finite; lower eta0 or gamma0%s",
                       network_hint(net->setup.network));
    return CODE_OK;
}
