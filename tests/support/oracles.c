/* What tests share that set networks beside oracles. */
#include "tests/support/oracles.h"
#include "integrators/optimizer.h"

#include <stdlib.h>
#include <string.h>

enum oracle_activation oracles_activation(int function) {
    static const enum oracle_activation activation[] = {
        [FN_LINEAR] = ORACLE_LINEAR, [FN_TANH] = ORACLE_TANH, [FN_ERF] = ORACLE_ERF,
        [FN_RELU] = ORACLE_RELU,     [FN_GELU] = ORACLE_GELU, [FN_SOFTPLUS] = ORACLE_SOFTPLUS};
    assert_true((size_t)function < sizeof activation / sizeof *activation);
    return activation[function];
}

void oracles_set_optimizer(struct oracle_optimizer *a, const struct training *training) {
    a->adam = optimizer_by_entry(training->optimizer);
    a->lion = training->optimizer == &optimizer_lion;
    a->inside = training->adam.eps_place == ADAM_EPS_INSIDE;
    a->rate = training->eta0;
    a->muon = training->optimizer == &optimizer_muon;
    a->exact = training->muon.way == MUON_EXACT;
    a->nesterov = training->muon.nesterov;
    a->together = training->muon.experts == MUON_TOGETHER;
    a->heads_together = training->muon.heads == MUON_TOGETHER;
    a->rest_adam = training->muon.rest_optimizer == &optimizer_adam;
    a->rest_rate = training->muon.rest_eta0;
    a->momentum = a->muon || training->optimizer == &optimizer_momentum ? training->momentum : 0;
    a->beta1 = training->adam.beta1;
    a->beta2 = training->adam.beta2;
    a->eps = training->adam.eps;
    a->decay = training->weight_decay;
    a->clip = training->clip;
}

/* dL/dw of every stride-th entry, to be freed. */
static double *slopes(void *oracle, double (*loss)(void *), const struct oracles_parameter *p,
                      int stride) {
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1 / 12., -8 / 12., 8 / 12., -1 / 12.};
    const double h = 1e-4;
    double *slope = calloc((size_t)p->count + 1, sizeof *slope);
    for (int k = 0; k < p->count; k += stride) {
        double saved = p->w[k];
        for (int a = 0; a < 4; a++) {
            p->w[k] = saved + at[a] * h;
            slope[k] += weight[a] * loss(oracle) / h;
        }
        p->w[k] = saved;
    }
    return slope;
}

void oracles_judge(void *oracle, double (*loss)(void *), double (*step)(void *),
                   const struct oracles_parameter *parameter, int parameters, int stride,
                   const char *what) {
    double *before[ORACLES_PARAMETERS], *slope[ORACLES_PARAMETERS];
    assert_true(parameters <= ORACLES_PARAMETERS);
    step(oracle);
    for (int i = 0; i < parameters; i++) {
        const struct oracles_parameter *p = &parameter[i];
        before[i] = calloc((size_t)p->count + 1, sizeof **before);
        if (p->count)
            memcpy(before[i], p->w, (size_t)p->count * sizeof **before);
        slope[i] = slopes(oracle, loss, p, stride);
    }
    step(oracle);
    for (int i = 0; i < parameters; i++) {
        const struct oracles_parameter *p = &parameter[i];
        for (int k = 0; k < p->count; k += stride)
            CHECK_ABS(p->w[k] - before[i][k], -p->rate * slope[i][k], p->rate * 1.5e-10,
                      "%s: parameter %d, entry %d", what, i, k);
        free(before[i]);
        free(slope[i]);
    }
}
