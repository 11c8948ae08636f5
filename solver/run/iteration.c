/* Fixed-point iteration of one replicate, recorded. */
#include "solver/run/iteration.h"
#include "solver/measure/observe.h"

#include <stdio.h>

int iteration_declare(struct record *iterations, const struct config *config,
                      const struct net_setup *setup, int runs, char ***labels, struct err *err) {
    const struct series floored = {.name = "floored",
                                   .dims = "sweep",
                                   .about = "pivots of the causal factors of the kernels that were "
                                            "raised to jitter times the diagonal",
                                   .shape = {(size_t)config->solver.fixed_point.max_sweeps}};
    struct series change = {.name = "change",
                            .dims = "sweep kernel",
                            .about = "relative change of each kernel and response in a sweep",
                            .equation = "|K_new - K| / |K_new|",
                            .shape = {(size_t)config->solver.fixed_point.max_sweeps},
                            .keep_runs = true};
    FREED(base_free) char(*names)[FIXED_POINT_NAME] = NULL;
    int count;
    TRY(fixed_point_names(setup, &names, &count, err));
    TRY(base_alloc(labels, (size_t)count, sizeof **labels + FIXED_POINT_NAME, err));
    for (int k = 0; k < count; k++) {
        (*labels)[k] = (char *)(*labels + count) + k * FIXED_POINT_NAME;
        snprintf((*labels)[k], FIXED_POINT_NAME, "%s", names[k]);
    }
    TRY(record_init(iterations, runs, config->solver.fixed_point.max_sweeps, err));
    iterations->times[TIMES_ALL].axis = "sweep";
    iterations->named = "kernel";
    change.shape[1] = (size_t)count;
    TRY(record_add(iterations, change, err));
    return record_add(iterations, floored, err);
}

const struct fixed_point_kernel *iteration_worst(const struct fixed_point_state *state) {
    const struct fixed_point_kernel *worst = state->kernel;
    for (int k = 1; k < state->count; k++)
        if (state->kernel[k].change > worst->change)
            worst = &state->kernel[k];
    return worst;
}

struct replicate {
    const struct config *config;
    const double *y;
    struct record *record, *iterations;
    const struct iteration_calls *calls;
    struct observer observer;
    int r;
};

static int on_sweep(void *context, const struct fixed_point_state *state, struct err *err) {
    struct replicate *replicate = context;
    struct record *iterations = replicate->iterations;
    double *change = record_at(iterations, &iterations->series[0], replicate->r, state->sweep);
    for (int k = 0; k < state->count; k++)
        change[k] = state->kernel[k].change;
    *record_at(iterations, &iterations->series[1], replicate->r, state->sweep) = state->floored;
    return replicate->calls->sweep(replicate->calls->context, state, err);
}

static int on_measure(void *context, struct net *net, int t, struct err *err) {
    struct replicate *replicate = context;
    if (t == 0)
        TRY(observer_init(&replicate->observer, replicate->config, replicate->y, replicate->record,
                          replicate->r, net, err));
    TRY(observer_measure(&replicate->observer, net, t, err));
    TRY(observer_predict(&replicate->observer, net, t, err));
    return replicate->calls->step(replicate->calls->context, net, t, err);
}

int iteration_run(const struct config *config, const struct net_setup *setup, const double *y,
                  int r, struct record *record, struct record *iterations,
                  const struct iteration_calls *calls, struct err *err) {
    struct replicate replicate = {.config = config,
                                  .y = y,
                                  .record = record,
                                  .iterations = iterations,
                                  .calls = calls,
                                  .r = r};
    const struct fixed_point_calls mine = {&replicate, on_sweep, on_measure};
    int code =
        fixed_point_run(setup, &config->training, y, &config->solver.fixed_point, &mine, err);
    observer_free(&replicate.observer);
    return code;
}
