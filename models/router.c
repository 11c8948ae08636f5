/* A router over a fixed number of experts. */
#include "models/router.h"
#include "kernels/rng.h"

#include <math.h>

static double router_amplitude(const struct network *network) {
    if (network->q0 >= 0)
        return network->q0;
    return network->parameterization == PARAMETERIZATION_MSSP ? 0 : 1;
}

const char *router_check(const struct network *network, const char **key) {
    int M = network->experts, K = (int)lround(network->rho * M);
    *key = "rho";
    if (K < 1 || fabs(network->rho * M - K) > 1e-9)
        return "rho times experts must be a whole number of at least 1";
    *key = "biases";
    if (network->bias && network->biases.count && network->biases.count != M)
        return "biases must be one number per expert, or empty";
    *key = "bias";
    if (K < M && !network->bias && network->bias_noise == 0 && router_amplitude(network) == 0)
        return "top-K with a zero initial router needs a bias or noise: its logits are exactly "
               "equal";
    return NULL;
}

void router_plan(struct router *router, const struct network *network, int M) {
    *router = (struct router){.M = M, .K = M, .beta = network->beta};
    router->gates = network->gate != GATE_CONSTANT;
    if (router->gates)
        router->K = (int)lround(network->rho * M);
    router->fluctuating = router->K < M && !network->bias && network->bias_noise == 0;
}

/* Normals shared by the limit and all networks of a seed. */
static double shared_normal(const struct net *net, uint32_t owner, int draw, int i) {
    struct rng_stream stream = {.seed = net->setup.seed, .purpose = PURPOSE_BIAS, .owner = owner};
    double pair[2];
    rng_normal_pair(stream, (uint32_t)draw, (uint32_t)i / 2, pair);
    return pair[i % 2];
}

int router_init(struct router *router, struct net *net, struct population *bottom, struct rows x1,
                double amplitude, struct rate rate_Q, struct rate rate_b, struct err *err) {
    const struct network *network = net->setup.network;
    int P = net->setup.P, M = router->M;
    double q0 = router_amplitude(network) * amplitude;
    TRY(net_vector(net, P * M, &router->p, err));
    TRY(net_vector(net, P * M, &router->gphi, err));
    if (!router->gates)
        return CODE_OK;
    TRY((net->setup.N || router->fluctuating ? net_thin_iid : net_thin)(net, bottom, M, q0,
                                                                        &router->Q, err));
    TRY(net_vector(net, P * M, &router->psi, err));
    TRY(net_origin(net, M, &router->start, err));
    TRY(net_vector(net, P * M, &router->gpsi, err));
    TRY(net_vector(net, M, &router->b, err));
    TRY(net_vector(net, P, &router->entropy, err));
    for (int i = 0; i < M && network->bias; i++)
        router->b[i] = network->biases.count ? network->biases.value[i]
                                             : network->bias_std * shared_normal(net, 0, 0, i);
    net_parameter(
        net,
        (struct parameter){
            .thin = router->Q, .A = router->gpsi, .rate = rate_Q.gd, .adam = rate_Q.adam, .y = x1});
    if (network->bias == BIAS_TRAINED)
        net_parameter(net, (struct parameter){.host = router->b,
                                              .A = router->gpsi,
                                              .K = M,
                                              .rate = rate_b.gd,
                                              .adam = rate_b.adam});
    const struct numbers numbers[] = {
        {"psi", "t mu i", "router logits, bias included", "<Q_i x1> + b_i", router->psi, 2, {P, M}},
        {"p", "t mu i", "gates", "softmax or sigmoid of beta psi, top-K", router->p, 2, {P, M}},
        {"gphi", "t mu i", "gradient of the gates", "<w o(h_i)>", router->gphi, 2, {P, M}},
        {"router_entropy",
         "t mu",
         "entropy of the gates, 1 where all M are equal",
         "-sum_i q_i ln q_i / ln M, q = p/sum p",
         router->entropy,
         1,
         {P}},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        net_numbers(net, numbers[k]);
    return CODE_OK;
}

/* p of one input; experts outside of the K largest logits (ties to the lower index) have p = 0. */
static void gate_of(const struct router *router, enum gate_kind kind, const double *psi,
                    double *p) {
    double largest = psi[0], sum = 0;
    for (int i = 1; i < router->M; i++)
        largest = fmax(largest, psi[i]);
    for (int i = 0; i < router->M; i++) {
        int before = 0;
        for (int k = 0; k < router->M; k++)
            before += psi[k] > psi[i] || (psi[k] == psi[i] && k < i);
        double value = kind == GATE_SOFTMAX ? exp(router->beta * (psi[i] - largest))
                                            : 1 / (1 + exp(-router->beta * psi[i]));
        p[i] = before < router->K ? value : 0;
        sum += p[i];
    }
    for (int i = 0; i < router->M && kind == GATE_SOFTMAX; i++)
        p[i] /= sum;
}

static double entropy_of(const double *p, int M) {
    double sum = 0, entropy = 0;
    for (int i = 0; i < M; i++)
        sum += p[i];
    for (int i = 0; i < M; i++)
        entropy -= p[i] > 0 ? p[i] / sum * log(p[i] / sum) : 0;
    return M > 1 ? entropy / log(M) : 1;
}

void router_forward(struct router *router, const struct net *net, struct rows x1) {
    const struct network *network = net->setup.network;
    int P = net->setup.P, M = router->M;
    if (!router->Q) {
        for (int k = 0; k < P * M; k++)
            router->p[k] = 1;
        return;
    }
    if (router->fluctuating)
        x1.array->backend->dots(x1, array_all(&router->Q->W), router->psi);
    else
        net_thin_averages(net, router->Q, x1, router->start, router->psi);
    for (int mu = 0; mu < P; mu++) {
        for (int i = 0; i < M; i++)
            router->psi[mu * M + i] +=
                router->b[i] + network->bias_noise * shared_normal(net, 1, net->t, i);
        gate_of(router, network->gate, router->psi + mu * M, router->p + mu * M);
        router->entropy[mu] = entropy_of(router->p + mu * M, M);
    }
}

/* gpsi = (dp/dpsi)^T gphi, the mask held. */
void router_backward(struct router *router, const struct net *net, struct rows z1) {
    if (!router->Q)
        return;
    bool softmax = net->setup.network->gate == GATE_SOFTMAX;
    for (int mu = 0; mu < net->setup.P; mu++) {
        const double *p = router->p + mu * router->M, *gphi = router->gphi + mu * router->M;
        double mean = 0;
        for (int i = 0; i < router->M; i++)
            mean += p[i] * gphi[i];
        for (int i = 0; i < router->M; i++)
            router->gpsi[mu * router->M + i] =
                router->beta * p[i] * (softmax ? gphi[i] - mean : (1 - p[i]) * gphi[i]);
    }
    z1.array->backend->combine(z1, 1, router->gpsi, array_all(&router->Q->W));
}
