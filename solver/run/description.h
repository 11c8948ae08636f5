/* What a run computes, as data: the networks of all widths and their limit, with the settings that
 * make them. `dmft-solve --program` prints it, every result file holds it (dataset `description`),
 * and the Python front end reads it. docs/program_format.md has the schema. */
#pragma once

#include "solver/run/run.h"

/* The whole as JSON text on one line, to be freed by the caller; the run is configured
 * (run_prepare) and nothing of it is computed. A limit that does not exist is null, and `no_limit`
 * says why; one that is not wanted is left out. */
int description_text(const struct run *run, bool limit, char **text, struct err *err);
