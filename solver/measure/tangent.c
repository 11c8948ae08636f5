/* The neural tangent kernel. */
#include "solver/measure/tangent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tangent_name(const struct net *net) {
    return net->output.loss_in_cotangent ? "tangent_loss" : "tangent";
}

static int add_series(struct record *record, const struct net *net, int slot, const char *name,
                      struct err *err) {
    size_t P = (size_t)net->setup.data.P;
    struct series series = {
        .slot = slot,
        .dims = "t mu nu",
        .about = net->output.loss_in_cotangent
                     ? "products of the gradients of the loss of two inputs"
                     : "neural tangent kernel",
        .equation = net->output.loss_in_cotangent
                        ? "rate sum over outputs and tokens of Delta_mu Delta_nu <g_mu "
                          "g_nu><x_mu x_nu>"
                        : "rate <g_mu g_nu><x_mu x_nu>; df/dt = eta0/P sum_nu K Delta_nu",
        .axes = 3,
        .shape = {(size_t)record->T, P, P}};
    snprintf(series.name, sizeof series.name, "%s%s%s", tangent_name(net), *name ? "_" : "", name);
    return record_add(record, series, err);
}

static void add(const double *K, size_t count, double *sum) {
    for (size_t k = 0; k < count; k++)
        sum[k] += K[k];
}

int tangent_kernel(const struct net *net, const char *name, double *K, struct err *err) {
    size_t P = (size_t)net->setup.data.P;
    double *block;
    int code = CODE_OK;
    TRY(base_alloc(&block, P * P, sizeof *block, err));
    memset(K, 0, P * P * sizeof *K);
    for (int i = 0; i < net->parameters.count; i++)
        if (!*name || !strcmp(name, net->parameters.item[i].name)) {
            DO(net_tangent(net, &net->parameters.item[i], block, err));
            add(block, P * P, K);
        }
done:
    free(block);
    return code;
}

/* Slot 0 is the whole kernel, slot 1 + i the block of parameter i. */
static int fill(const struct measuring *m, int item, double *const *out, struct err *err) {
    const struct net *net = m->net;
    size_t P = (size_t)net->setup.data.P;
    (void)item;
    if (m->config->output.tangent == TANGENT_SUM)
        return tangent_kernel(net, "", out[0], err);
    memset(out[0], 0, P * P * sizeof *out[0]);
    for (int i = 0; i < net->parameters.count; i++) {
        TRY(net_tangent(net, &net->parameters.item[i], out[1 + i], err));
        add(out[1 + i], P * P, out[0]);
    }
    return CODE_OK;
}

static int declare(struct record *record, const struct config *config, const struct net *net,
                   const double *y, struct err *err) {
    (void)y;
    if (!config->output.tangent)
        return CODE_OK;
    TRY(record_fill_by(record, fill, 0, 1 + net->parameters.count, err));
    TRY(add_series(record, net, 0, "", err));
    for (int i = 0; i < net->parameters.count && config->output.tangent == TANGENT_BLOCKS; i++)
        TRY(add_series(record, net, 1 + i, net->parameters.item[i].name, err));
    return CODE_OK;
}

double tangent_bytes(const struct net *net) {
    double R = net_most_rows(net), P = net->setup.data.P;
    return (2 * R * R + P * P) * sizeof(double);
}

static double scratch(const struct config *config, const struct net *net) {
    return config->output.tangent ? tangent_bytes(net) : 0;
}

const struct instrument tangent_instrument = {.declare = declare, .scratch = scratch};
