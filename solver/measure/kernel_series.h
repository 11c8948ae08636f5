/* The kernels that a network measures, in the form that [output] kernels asks for, and the host
 * numbers that it writes by itself. */
#ifndef SOLVER_KERNEL_SERIES_H
#define SOLVER_KERNEL_SERIES_H

#include "solver/measure/instrument.h"

extern const struct instrument kernel_series, kernel_series_numbers;

/* With full kernels, the rows of all earlier times. */
struct kernel_history {
    struct array *rows; /* [kernels], each [T * P] or [T] */
    int kernels;
    double *products; /* scratch */
};
int kernel_history_init(struct kernel_history *history, const struct config *config,
                        const struct net *net, int T, struct err *err);
int kernel_history_archive(struct kernel_history *history, struct archive *archive,
                           struct err *err);
void kernel_history_free(struct kernel_history *history); /* accepts a zeroed struct */

#endif
