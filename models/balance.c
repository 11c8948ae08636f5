/* Biased top-K selection that balances loads. */
#include "models/balance.h"

#include <math.h>
#include <stdlib.h>

/* x with normal distribution function p: Newton's rule from 0, which approaches from one side. */
static double quantile(double p) {
    const double sqrt_half = 0.70710678118654752440, sqrt_2pi = 2.50662827463100050242;
    double x = 0, upper = p < 0.5 ? p : 1 - p; /* P(X > x) */
    for (int i = 0; i < 60; i++)
        x += (0.5 * erfc(x * sqrt_half) - upper) * sqrt_2pi * exp(0.5 * x * x);
    return p < 0.5 ? -x : x;
}

void balance_biases(const struct net_setup *setup, int l, int E, double *values) {
    const struct network *network = setup->network;
    struct rng_stream stream = {.seed = setup->seed,
                                .replicate = (uint32_t)setup->replicate,
                                .owner = (uint32_t)l,
                                .purpose = PURPOSE_BIAS};
    double pair[2];
    for (int k = 0; k < E; k++) {
        rng_normal_pair(stream, 0, (uint32_t)k / 2, pair);
        values[k] = network->bias_std *
                    (network->bias_draws == BIAS_NORMAL ? pair[k % 2] : quantile((k + 0.5) / E));
    }
}

static int init_biases(struct net *net, int l, struct rows b, struct err *err) {
    double *values;
    if (net->setup.declare_only)
        return CODE_OK;
    TRY(base_alloc(&values, b.array->sites, sizeof *values, err));
    balance_biases(&net->setup, l, (int)b.array->sites, values);
    b.array->backend->put(b, values);
    free(values);
    return CODE_OK;
}

int balance_init(struct balance *balance, struct net *net, struct population *experts, int l,
                 struct err *err) {
    int P = net->setup.P;
    if (net->setup.network->rho == 1)
        return CODE_OK;
    balance->K = (size_t)lround(net->setup.network->rho * (double)experts->sites);
    TRY(net_vector(net, P, &balance->mean, err));
    for (int mu = 0; mu < P; mu++)
        balance->mean[mu] = 1.0 / P;
    TRY(net_rows(net, experts, 1, &balance->b, err));
    TRY(net_rows(net, experts, 1, &balance->load, err));
    TRY(net_rows(net, experts, P, &balance->q, err));
    TRY(net_rows(net, experts, P, &balance->m, err));
    net_carry(net, balance->b);
    return init_biases(net, l, balance->b, err);
}

int balance_select(struct balance *balance, const struct net *net, struct rows c, struct rows sd,
                   double *qstar, double *load2, double *b2, struct err *err) {
    struct rows q = balance->q, m = balance->m, b = balance->b, load = balance->load;
    const struct backend *backend = net->setup.backend;
    int P = c.count;
    double less[P], mean, shift = -net->setup.network->rho;
    rows_copy(c, q);
    backend->combine(q, 1, net->ones, b);
    TRY(backend->top(q, balance->K - 1, m, err)); /* the K-th largest is what K has beside K - 1 */
    backend->averages(q, m, less);
    TRY(backend->top(q, balance->K, m, err));
    backend->averages(q, m, qstar);
    for (int mu = 0; mu < P; mu++)
        qstar[mu] = (qstar[mu] - less[mu]) * (double)q.array->sites;
    rows_multiply(m, c, c);
    rows_multiply(m, sd, sd);
    backend->combine(load, 0, balance->mean, m);
    backend->pointwise(FN_LINEAR, NULL, &shift, load, load, (struct rows){0});
    backend->averages(load, load, load2);
    backend->averages(b, b, b2);
    backend->averages(b, (struct rows){0}, &mean);
    *b2 -= mean * mean;
    return CODE_OK;
}

void balance_update(struct balance *balance, double eta_bias) {
    double c = -eta_bias;
    if (balance->K)
        rows_add(&c, balance->load, balance->b);
}
