/* What several tests share. */
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void support_check(const char *file, int line, double got, double want, double tolerance,
                   const char *what, ...) {
    if (fabs(got - want) <= tolerance)
        return;
    char text[256];
    va_list list;
    va_start(list, what);
    vsnprintf(text, sizeof text, what, list);
    va_end(list);
    fail_msg("%s:%d: %s: got %.17g, want %.17g, difference %.3g is %.3g of the tolerance", file,
             line, text, got, want, got - want, fabs(got - want) / tolerance);
}

void support_run(struct run *run, const char *file, const char *const *overrides) {
    int count = 0;
    char *override[64];
    while (overrides && overrides[count]) {
        override[count] = (char *)(uintptr_t)overrides[count];
        count++;
    }
    *run = (struct run){0};
    ASK(run_configure(run, file, count, override, err));
}

void support_net(struct net *net, const struct run *run, int N, int replicate) {
    struct net_setup setup = config_setup(&run->config, N, replicate, run->data.P, run->K, run->A);
    ASK(net_init(net, &setup, err));
}

void support_evaluate(struct net *net, const struct run *run) {
    ASK(net_evaluate(net, (enum loss)run->config.training.loss, run->data.y, err));
}

void support_learn(struct net *net, const struct run *run) {
    ASK(net_learn(net, run->config.training.eta0, err));
}

double *support_get(struct rows rows) {
    double *values;
    ASK(base_alloc(&values, (size_t)rows.count * rows.array->sites, sizeof *values, err));
    rows.array->backend->get(rows, values);
    return values;
}
