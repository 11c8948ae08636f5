/* What --profile prints: seconds, flops and bytes of every operation at every place, beside what
 * this machine can do, measured at the end of the same run. */
#pragma once

#include "kernels/array/backend.h"
#include "kernels/base/base.h"

/* What all threads together reach: flops a second of dgemm (512 x 512 x 512), bytes a second of
 * a = b + s c over 400 MB. A device: dots over 512 x 512 rows of 65536 sites, copies of rows. */
struct machine {
    double dgemm, bandwidth;
    const char *stream; /* "triad", "copy" */
};
int costs_machine(const struct backend *backend, int threads, struct machine *machine,
                  struct err *err);
/* seconds: of the run (base_cpu_seconds), which used so many threads. */
int costs_print(FILE *stream, const struct backend *backend, double seconds, int threads,
                struct err *err);
