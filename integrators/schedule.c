#include "integrators/integrator.h"

static double constant(const struct training *training UNUSED, double past UNUSED,
                       double left UNUSED) {
    return 1;
}

static double linear(const struct training *training, double past UNUSED, double left) {
    double end = training->schedule.end;
    return end + (1 - end) * left;
}

static double cosine(const struct training *training, double past UNUSED, double left) {
    double end = training->schedule.end;
    return end + (1 - end) * (1 - cos(acos(-1) * left)) / 2;
}

static double polynomial(const struct training *training, double past UNUSED, double left) {
    double end = training->schedule.end;
    return end + (1 - end) * pow(left, training->schedule.power);
}

static double power(const struct training *training, double past, double left UNUSED) {
    return pow(1 + past / training->schedule.t0, -training->schedule.power);
}

CHOICE(schedule, constant, "1", NULL, .factor = constant);
CHOICE(schedule, linear,
       "falls along a line to schedule_end, which it reaches after schedule_steps",
       "schedule_steps schedule_end", .ends = true, .factor = linear);
CHOICE(schedule, cosine, "falls along half a cosine to schedule_end, after schedule_steps",
       "schedule_steps schedule_end", .ends = true, .factor = cosine);
CHOICE(schedule, polynomial,
       "falls to schedule_end, after schedule_steps, as the power schedule_power of "
       "the time that is left",
       "schedule_steps schedule_end schedule_power", .ends = true, .factor = polynomial);
CHOICE(schedule, power, "(1 + t/schedule_t0)^-schedule_power", "schedule_power schedule_t0",
       .factor = power);

const struct choice *const schedule_list[] = {
    &schedule_constant.choice,   &schedule_linear.choice, &schedule_cosine.choice,
    &schedule_polynomial.choice, &schedule_power.choice,  NULL};

/* Time from the end of the warmup to that of the decay. */
static double decay_time(const struct training *training) {
    return training->schedule.steps > 0
               ? training->schedule.steps
               : (training->steps - 1) * training->flow.dt - training->schedule.warmup;
}

bool schedule_is_cut(const struct training *training) {
    return training->schedule.kind->ends && training->schedule.warmup > 0 &&
           decay_time(training) <= 0;
}

bool schedule_follows_steps(const struct training *training) {
    return training->schedule.kind->ends && training->schedule.steps == 0;
}

double schedule_factor(const struct training *training, double tau) {
    double past = tau - training->schedule.warmup;
    if (past < 0)
        return tau / training->schedule.warmup;
    double left = past < decay_time(training) ? 1 - past / decay_time(training) : 0;
    return training->schedule.kind->factor(training, past, left);
}
