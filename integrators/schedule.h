/* How the learning rate changes in the course of training: eta(tau) = eta0 schedule_factor(tau),
 * tau in steps of gradient descent, or the time of gradient flow. With w = warmup, e =
 * schedule_end, s = (tau - w)/schedule_steps, 1 at most:
 *
 *     warmup      tau/w                            before w: the first step has rate 0
 *     constant    1
 *     linear      1 - (1 - e) s
 *     cosine      e + (1 - e) (1 + cos(pi s))/2
 *     polynomial  e + (1 - e) (1 - s)^p            p = schedule_power
 *     power       (1 + (tau - w)/t0)^-p            t0 = schedule_t0
 *
 * schedule_steps = 0 ends with the run: s = 1 at the last measured time, which no step of gradient
 * descent begins at. These are the schedules of linear, cosine and inverse square root decay with
 * warmup (p = 1/2, t0 = w) that users of PyTorch know, step for step. */
#pragma once

#include "integrators/integrator.h"

/* One row for each schedule. */
struct schedule {
    struct choice choice; /* first: a key chooses among schedules */
    bool ends;            /* the rate falls to its end in a given time, and stays there */
    /* eta/eta0 at a time `past` after warmup; of a schedule that ends, `left` falls from 1 to 0. */
    double (*factor)(const struct training *training, double past, double left);
};
extern const struct choice *const schedule_list[]; /* NULL at the end */
extern const struct schedule schedule_constant, schedule_linear, schedule_cosine,
    schedule_polynomial, schedule_power;

/* tau >= 0. */
double schedule_factor(const struct training *training, double tau);
/* Whether the run ends before its warmup does, with a decay that waits for it. */
bool schedule_is_cut(const struct training *training);

/* Whether the rate at a time depends on how long the run is. */
bool schedule_follows_steps(const struct training *training);
