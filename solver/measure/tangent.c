/* The neural tangent kernel. */
#include "solver/measure/tangent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tangent_name(const struct net *net) {
    return net->weighted ? "tangent_loss" : "tangent";
}

static int declare(struct record *record, const struct net *net, const char *name,
                   struct err *err) {
    size_t P = (size_t)net->setup.P;
    struct series series = {
        .dims = "t mu nu",
        .about = net->weighted ? "products of the gradients of the loss of two inputs"
                               : "neural tangent kernel",
        .equation = net->weighted ? "rate sum over outputs and tokens of Delta_mu Delta_nu <g_mu "
                                    "g_nu><x_mu x_nu>"
                                  : "rate <g_mu g_nu><x_mu x_nu>; df/dt = eta0/P sum_nu K Delta_nu",
        .axes = 3,
        .shape = {(size_t)record->T, P, P}};
    snprintf(series.name, sizeof series.name, "%s%s%s", tangent_name(net), *name ? "_" : "", name);
    return record_add(record, series, err);
}

int tangent_declare(struct record *record, const struct config *config, const struct net *net,
                    struct err *err) {
    if (config->output.tangent)
        TRY(declare(record, net, "", err));
    for (int i = 0; i < net->parameters && config->output.tangent == TANGENT_BLOCKS; i++)
        TRY(declare(record, net, net->parameter[i].name, err));
    return CODE_OK;
}

static void add(const double *K, size_t count, double *sum) {
    for (size_t k = 0; k < count; k++)
        sum[k] += K[k];
}

int tangent_kernel(const struct net *net, const char *name, double *K, struct err *err) {
    size_t P = (size_t)net->setup.P;
    double *block;
    int code = CODE_OK;
    TRY(base_alloc(&block, P * P, sizeof *block, err));
    memset(K, 0, P * P * sizeof *K);
    for (int i = 0; i < net->parameters; i++)
        if (!*name || !strcmp(name, net->parameter[i].name)) {
            DO(net_tangent(net, &net->parameter[i], block, err));
            add(block, P * P, K);
        }
done:
    free(block);
    return code;
}

int tangent_measure(const struct config *config, const struct net *net, int t, int run,
                    struct record *record, struct series **next, struct err *err) {
    size_t P = (size_t)net->setup.P;
    if (!config->output.tangent)
        return CODE_OK;
    double *sum = record_at(record, (*next)++, run, t);
    if (config->output.tangent == TANGENT_SUM)
        return tangent_kernel(net, "", sum, err);
    memset(sum, 0, P * P * sizeof *sum);
    for (int i = 0; i < net->parameters; i++) {
        double *block = record_at(record, (*next)++, run, t);
        TRY(net_tangent(net, &net->parameter[i], block, err));
        add(block, P * P, sum);
    }
    return CODE_OK;
}

double tangent_bytes(const struct net *net) {
    double R = net_most_rows(net), P = net->setup.P;
    return (2 * R * R + P * P) * sizeof(double);
}
