/* When a state is to be kept (states.h). */
#include "solver/run/states.h"

#include <sys/statvfs.h>

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

bool states_quick(const struct state *state, double *bytes) {
    struct archive archive = archive_measure();
    struct err err;
    int code = state_archive(state, &archive, &err);
    *bytes = archive.bytes;
    return !code && archive.bytes < quick;
}

bool states_leave_room(double bytes, double available, double size) {
    return available - bytes >= size / 10;
}

bool states_fit(const struct run *run, double bytes) {
    struct statvfs disk;
    if (statvfs(run->states.folder, &disk))
        return true; /* unknown */
    double block = (double)disk.f_frsize;
    return states_leave_room(bytes, block * (double)disk.f_bavail, block * (double)disk.f_blocks);
}
