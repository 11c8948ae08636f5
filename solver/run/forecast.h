/* What can be said of a run before it begins: bases that will grow, scale of inputs, few sites. */
#pragma once

#include "solver/run/run.h"

/* Adds these notes to run->notes and tells them on the log. For run_open. */
int forecast_notes(struct run *run, struct err *err);
/* Those of the limit alone, which depend on its sites. For a limit that begins again. */
int forecast_limit(struct run *run, struct err *err);
