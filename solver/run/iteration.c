#include "solver/run/parts.h"

int iteration_declare(struct record *iterations, const struct config *config,
                      const struct net_setup *setup, int runs, struct err *err) {
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
    TRY(record_init(iterations, runs, config->solver.fixed_point.max_sweeps, err));
    iterations->times[TIMES_ALL].axis = "sweep";
    iterations->named = "kernel";
    TRY(record_name_axis(iterations, (size_t)count, err));
    for (int k = 0; k < count; k++)
        snprintf(iterations->labels[k], SERIES_NAME, "%s", names[k]);
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

void iteration_keep(struct record *iterations, int r, const struct fixed_point_state *state) {
    double *change = record_at(iterations, &iterations->series[0], r, state->sweep);
    for (int k = 0; k < state->count; k++)
        change[k] = state->kernel[k].change;
    *record_at(iterations, &iterations->series[1], r, state->sweep) = state->floored;
}
