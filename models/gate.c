/* Gates of a mixture of many experts. */
#include "models/gate.h"
#include "models/plain.h"

#include <math.h>

const char *gate_check(const struct network *network, double experts, const char **key) {
    double K = network->rho * experts;
    *key = "rho";
    if (fabs(K - round(K)) > 1e-9 * experts || K < 0.5)
        return "rho times the number of experts must be a whole number of at least 1";
    return NULL;
}

int gate_init(struct gate *gate, struct net *net, struct population *bottom,
              struct population *experts, struct err *err) {
    const struct network *network = net->setup.network;
    int P = net->setup.P;
    *gate = (struct gate){.kind = network->gate, .beta = network->beta, .share = 1};
    TRY(net_rows(net, experts, P, &gate->phi, err));
    net->gate = gate->phi;
    net->has_router = gate->kind != GATE_CONSTANT;
    gate->one = net->ones;
    if (gate->kind == GATE_CONSTANT)
        return CODE_OK;
    if (network->rho < 1)
        gate->K = (size_t)lround(network->rho * (double)experts->sites);
    if (gate->kind == GATE_SIGMOID && network->aggregation == AGGREGATION_K)
        gate->share = network->rho;
    TRY(net_map(net, (struct map_declaration){"Q", bottom, experts, 1, 1, 1, false}, &gate->Q,
                err));
    TRY(net_rows(net, experts, P, &gate->psi, err));
    TRY(net_rows(net, experts, P, &gate->a, err));
    TRY(net_rows(net, experts, P, &gate->g_psi, err));
    net_parameter(net, (struct parameter){.map = gate->Q,
                                          .rate = network->kappa,
                                          .adam = {1, net->setup.gamma0 / network->kappa},
                                          .y = gate->g_psi});
    TRY(net_rows(net, experts, P, &gate->slope, err));
    TRY(net_rows(net, experts, P, &gate->mask, err));
    TRY(net_rows(net, experts, P, &gate->work, err));
    TRY(net_vector(net, P, &gate->scale, err));
    return net_vector(net, P, &gate->shift, err);
}

/* phi = m exp(beta psi - shift), with the largest exponent at 0. */
static int softmax(struct gate *gate, struct err *err) {
    const struct backend *backend = gate->psi.array->backend;
    int P = gate->psi.count;
    double sites = (double)gate->psi.array->sites;
    TRY(backend->top(gate->psi, 1, gate->work, err));
    backend->averages(gate->psi, gate->work, gate->shift);
    for (int mu = 0; mu < P; mu++) {
        gate->scale[mu] = gate->beta;
        gate->shift[mu] *= -gate->beta * sites;
    }
    backend->pointwise(FN_EXP, gate->scale, gate->shift, gate->psi, gate->phi, (struct rows){0});
    if (gate->K)
        rows_multiply(gate->phi, gate->mask, gate->phi);
    backend->averages(gate->phi, (struct rows){0}, gate->scale);
    for (int mu = 0; mu < P; mu++)
        gate->scale[mu] = 1 / gate->scale[mu];
    backend->pointwise(FN_LINEAR, gate->scale, NULL, gate->phi, gate->phi, (struct rows){0});
    return CODE_OK;
}

static void sigmoid(struct gate *gate) {
    const struct backend *backend = gate->psi.array->backend;
    int P = gate->psi.count;
    for (int mu = 0; mu < P; mu++) {
        gate->scale[mu] = gate->beta;
        gate->shift[mu] = 1 / gate->share;
    }
    backend->pointwise(FN_SIGMOID, gate->scale, NULL, gate->psi, gate->phi, gate->slope);
    if (gate->K) {
        rows_multiply(gate->phi, gate->mask, gate->phi);
        rows_multiply(gate->slope, gate->mask, gate->slope);
    }
    if (gate->share != 1)
        backend->pointwise(FN_LINEAR, gate->shift, NULL, gate->phi, gate->phi, (struct rows){0});
}

int gate_forward(struct gate *gate, struct rows x1, struct err *err) {
    if (gate->kind == GATE_CONSTANT) {
        rows_zero(gate->phi);
        gate->phi.array->backend->pointwise(FN_LINEAR, NULL, gate->one, gate->phi, gate->phi,
                                            (struct rows){0});
        return CODE_OK;
    }
    TRY(map_forward(gate->Q, x1, gate->psi, err));
    if (gate->K)
        TRY(gate->psi.array->backend->top(gate->psi, gate->K, gate->mask, err));
    if (gate->kind == GATE_SOFTMAX)
        return softmax(gate, err);
    sigmoid(gate);
    return CODE_OK;
}

/* a -> g_psi; a is used up. */
static void gradient(struct gate *gate) {
    struct rows a = gate->a, g_psi = gate->g_psi;
    const struct backend *backend = a.array->backend;
    double factor = gate->kind == GATE_SOFTMAX ? gate->beta : gate->beta / gate->share;
    if (gate->kind == GATE_SOFTMAX) {
        backend->averages(gate->phi, a, gate->shift);
        for (int mu = 0; mu < a.count; mu++)
            gate->shift[mu] = -gate->shift[mu];
        backend->pointwise(FN_LINEAR, NULL, gate->shift, a, a, (struct rows){0});
    }
    rows_multiply(gate->kind == GATE_SOFTMAX ? gate->phi : gate->slope, a, g_psi);
    for (int mu = 0; mu < a.count; mu++)
        gate->scale[mu] = factor;
    backend->pointwise(FN_LINEAR, gate->scale, NULL, g_psi, g_psi, (struct rows){0});
}

int gate_backward(struct gate *gate, double to_a, struct rows x, struct rows b, struct rows work,
                  struct rows z, struct rows z1, struct err *err) {
    if (!gate->Q)
        return CODE_OK;
    rows_multiply(x, b, work);
    work.array->backend->group_sum(work, gate->a);
    rows_scale(to_a, gate->a);
    gradient(gate);
    TRY(map_backward(gate->Q, gate->g_psi, z, err));
    rows_add(NULL, z, z1);
    return CODE_OK;
}

int gate_plain(const struct gate *gate, struct plain *plain, struct err *err) {
    plain->agg = 1.0 / plain->M;
    plain->share = gate->share;
    plain_rows(gate->phi, plain->phi);
    if (!gate->Q)
        return CODE_OK;
    plain_rows(gate->psi, plain->psi);
    TRY(plain_map(gate->Q, 1, plain->Q, err));
    if (!plain->W2_init)
        return CODE_OK;
    size_t count = (size_t)plain->P * (size_t)plain->M;
    TRY(base_alloc(&plain->Q_init, count, sizeof(double), err));
    TRY(base_alloc(&plain->Q_eff, count, sizeof(double), err));
    return plain_parts(gate->Q, plain->P, plain->Q_init, plain->Q_eff, err);
}
