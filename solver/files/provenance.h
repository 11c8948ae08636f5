/* Who made a file: version, compiler, libraries, backend, threads, ranks. */
#pragma once

#include "solver/files/io.h"

extern const char provenance_version[]; /* with the git description when built from a checkout */
/* Gives every line to `tell`, with `to`; the first failure is returned. */
typedef int provenance_line(void *to, const char *name, const char *value, struct err *err);
int provenance_tell(provenance_line *tell, void *to, const char *backend, int threads,
                    struct err *err);
int provenance_write(struct io *io, const char *backend, int threads, struct err *err);
