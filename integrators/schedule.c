/* Schedules of the learning rate. */
#include "integrators/schedule.h"

#include <math.h>

/* Time from the end of the warmup to that of the decay. */
static double length(const struct training *training) {
    return training->schedule_steps > 0 ? training->schedule_steps
                                        : (training->steps - 1) * training->dt - training->warmup;
}

static bool decays(const struct training *training) {
    return training->schedule == SCHEDULE_LINEAR || training->schedule == SCHEDULE_COSINE;
}

bool schedule_is_cut(const struct training *training) {
    return decays(training) && training->warmup > 0 && length(training) <= 0;
}

bool schedule_follows_steps(const struct training *training) {
    return decays(training) && training->schedule_steps == 0;
}

double schedule_factor(const struct training *training, double tau) {
    double past = tau - training->warmup, end = training->schedule_end;
    if (past < 0)
        return tau / training->warmup;
    if (training->schedule == SCHEDULE_POWER)
        return pow(1 + past / training->schedule_t0, -training->schedule_power);
    double left = past < length(training) ? 1 - past / length(training) : 0;
    if (training->schedule == SCHEDULE_LINEAR)
        return end + (1 - end) * left;
    if (training->schedule == SCHEDULE_COSINE)
        return end + (1 - end) * (1 - cos(acos(-1) * left)) / 2;
    return 1;
}
