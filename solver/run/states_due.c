/* When a state is to be kept (states.h). */
#include "solver/run/states.h"

static const double quick = 1e9;       /* bytes: seconds on any disk */
static const double minutes_auto = 10; /* without [output] checkpoint */

double states_minutes(const struct run *run) {
    const struct solver_settings *solver = &run->config.solver;
    bool stateless = solver->grow || (solver->method == METHOD_FIXED_POINT && solver->replicates);
    double given = run->config.output.checkpoint;
    return given >= 0 ? given : stateless ? 0 : minutes_auto;
}

bool states_due(const struct run *run, double kept, bool last) {
    double seconds = 60 * states_minutes(run), now = base_seconds();
    bool asked = run->config.output.checkpoint > 0;
    return seconds > 0 &&
           (now - kept >= seconds || (last && (asked || now - run->states.since >= seconds)));
}

bool states_quick(const struct state *state) {
    struct archive archive = archive_measure();
    struct err err;
    return !state_archive(state, &archive, &err) && archive.bytes < quick;
}
