/* Who made a file: version, compiler, libraries, backend, threads, ranks. */
#ifndef SOLVER_PROVENANCE_H
#define SOLVER_PROVENANCE_H

#include "solver/files/io.h"

extern const char provenance_version[]; /* with the git description when built from a checkout */
int provenance_write(struct io *io, const char *backend, int threads, struct err *err);

#endif
