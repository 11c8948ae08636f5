/* Who made a file. VERSION and FLAGS come from the Makefile. */
#define _POSIX_C_SOURCE 200809L
#include "solver/files/provenance.h"
#include "kernels/array/dist.h"
#include "kernels/array/few_rows.h"

#include <cblas.h>
#include <gsl/gsl_version.h>
#include <hdf5.h>
#include <time.h>

const char provenance_version[] = VERSION;

int provenance_tell(provenance_line *tell, void *to, const char *backend, int threads,
                    struct err *err) {
    char count[16], ranks[16], hdf5[32], created[32];
    unsigned major, minor, release;
    time_t now = time(NULL);
    struct tm utc;
    H5get_libversion(&major, &minor, &release);
    snprintf(hdf5, sizeof hdf5, "%u.%u.%u", major, minor, release);
    snprintf(count, sizeof count, "%d", threads);
    snprintf(ranks, sizeof ranks, "%d", dist_ranks());
    strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const char *const rows[][2] = {
        {"version", provenance_version},
        {"compiler", __VERSION__},
        {"flags", FLAGS},
        {"openblas", openblas_get_config()},
        {"gsl", gsl_version},
        {"hdf5", hdf5},
        {"backend", backend},
        {"vectors", few_rows_name()},
        {"threads", count},
        {"ranks", ranks},
        {"created", created},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TRY(tell(to, rows[i][0], rows[i][1], err));
    return CODE_OK;
}

static int write_line(void *io, const char *name, const char *value, struct err *err) {
    return io_provenance(io, name, value, err);
}

int provenance_write(struct io *io, const char *backend, int threads, struct err *err) {
    return provenance_tell(write_line, io, backend, threads, err);
}
