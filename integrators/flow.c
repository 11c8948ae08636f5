/* Gradient flow by explicit Runge-Kutta schemes: K_k is the right-hand side at stage k, with the
 * rate of its time, h the step.
 *
 * heun, order 2:   K_1 at W + h K_0;   W += h (K_0 + K_1)/2
 * Its first stage is a step of Euler's, of order 1, and f of the two differ by d = h^2 f''/2. On
 * W' = lambda W, z = h lambda, that is z^2/2, and the stage moved f by m = z, so that 2 d^2/(3 m)
 * is z^3/6, the error of a step of heun. Where f'' happens to be small, h^3 f'''/6 tells, a third
 * of the change of d since the step before. Both are added.
 *
 * bs32, order 3, of Bogacki & Shampine (1989):
 *     K_1 at W + h/2 K_0,   K_2 at W + 3h/4 K_1,   W += h (2 K_0 + 3 K_1 + 4 K_2)/9
 * The step is judged by f, beside f of the same stages with weights of order 2. Those of the
 * original pair need a fourth stage, of the next step; ours, (7, 15, 14)/36, need none and have the
 * same error (h lambda)^3/48 on W' = lambda W. */
#include "integrators/integrator.h"

/* A step has a length, times eta0, and the schedule's factor at each of its stages. */
struct step {
    double h, factor[MAP_STAGES];
};

/* From time tau, with stages after shares c[1], c[2] of h. */
static struct step step_of(const struct training *training, double tau, double h, int stages,
                           const double *c) {
    struct step step = {.h = training->eta0 * h};
    for (int k = 0; k < stages; k++)
        step.factor[k] = schedule_factor(training, tau + c[k] * h);
    return step;
}

static int place_stage(struct net *net, const struct step *step, int stages, const double *weight,
                       struct err *err) {
    double steps[MAP_STAGES];
    for (int k = 0; k < stages; k++)
        steps[k] = step->h * weight[k] * step->factor[k];
    return net_place(net, stages, steps, err);
}

/* The error of f in a step, from f at its start and after its first stage: of the worst output. */
static double heun_error(struct net *net, const double *start, const double *euler) {
    double moved = 0, apart = 0, change = 0;
    for (int mu = 0; mu < net->batch.output_rows * net->setup.data.C; mu++) {
        double d = net->output.f[mu] - euler[mu];
        moved = fmax(moved, fabs(euler[mu] - start[mu]));
        apart = fmax(apart, fabs(d));
        change = fmax(change, fabs(d - net->place.order_difference[mu]));
        net->place.order_difference[mu] = d;
    }
    return (moved > 0 ? 2 * apart * apart / (3 * moved) : 0) + (net->place.t > 1 ? change / 3 : 0);
}

static int heun_advance(struct net *net, const struct training *training, const double *y,
                        struct err *err) {
    static const double c[] = {0, 1}, first[] = {1}, heun[] = {0.5, 0.5};
    const struct loss *loss = training->loss;
    size_t count = (size_t)(net->batch.output_rows * net->setup.data.C);
    FREED(base_free) double *start = NULL, *euler = NULL;
    double h = training->flow.dt / training->flow.substeps;
    TRY(base_alloc(&start, count, sizeof *start, err));
    TRY(base_alloc(&euler, count, sizeof *euler, err));
    for (int i = 0; i < training->flow.substeps; i++) {
        struct step step = step_of(training, net->place.t * h, h, 2, c);
        memcpy(start, net->output.f, count * sizeof *start);
        TRY(net_keep(net, 0, false, err));
        TRY(place_stage(net, &step, 1, first, err));
        TRY(net_evaluate(net, loss, y, err));
        memcpy(euler, net->output.f, count * sizeof *euler);
        TRY(net_keep(net, 1, false, err));
        TRY(place_stage(net, &step, 2, heun, err));
        net_commit(net);
        net->place.t++;
        TRY(net_evaluate(net, loss, y, err));
        net->place.step_error += heun_error(net, start, euler);
    }
    return CODE_OK;
}

/* From W_n, which is stage 0, to the evaluated end of a step. low [P]: f of order 2. */
static int bs32_try(struct net *net, const struct training *training, const double *y,
                    const struct step *step, double *low, struct err *err) {
    static const double half[] = {0.5}, late[] = {0, 0.75};
    static const double second[] = {7 / 36., 15 / 36., 14 / 36.},
                        third[] = {2 / 9., 3 / 9., 4 / 9.};
    const struct loss *loss = training->loss;
    TRY(place_stage(net, step, 1, half, err));
    TRY(net_evaluate(net, loss, y, err));
    TRY(net_keep(net, 1, false, err));
    TRY(place_stage(net, step, 2, late, err));
    TRY(net_evaluate(net, loss, y, err));
    TRY(net_keep(net, 2, false, err));
    TRY(place_stage(net, step, 3, second, err));
    TRY(net_forward(net, low, err));
    TRY(place_stage(net, step, 3, third, err));
    return net_evaluate(net, loss, y, err);
}

/* The largest error of f in units of what is allowed, after a step that began at `start`; NaN where
 * f is not finite, for which a step was too large. */
static double bs32_error(const struct net *net, const struct training *training,
                         const double *start, const double *low) {
    double error = 0;
    for (int mu = 0; mu < net->batch.output_rows * net->setup.data.C; mu++) {
        double f = net->output.f[mu], allowed = fmax(fabs(f), fabs(start[mu]));
        allowed = training->flow.atol + training->flow.rtol * allowed;
        double apart = fabs(f - low[mu]) / allowed;
        if (isnan(apart) || apart > error)
            error = apart;
    }
    return error;
}

/* Steps are cut to land on t + 1; the next call goes on with the step that was proposed. */
static int bs32_advance(struct net *net, const struct training *training, const double *y,
                        struct err *err) {
    static const double c[] = {0, 0.5, 0.75};
    size_t count = (size_t)(net->batch.output_rows * net->setup.data.C);
    FREED(base_free) double *start = NULL, *low = NULL;
    double end = (net->place.t + 1) * training->flow.dt, left = training->flow.dt;
    bool accepted = true;
    TRY(base_alloc(&start, count, sizeof *start, err));
    TRY(base_alloc(&low, count, sizeof *low, err));
    if (net->place.step ==
        0) /* far inside stability: gradient descent lives with eta0 of order one */
        net->place.step = fmin(left, 0.1 / training->eta0);
    while (left > 0) {
        double h = left <= net->place.step ? left : fmin(net->place.step, left / 2);
        if (accepted) {
            TRY(net_keep(net, 0, false, err));
            memcpy(start, net->output.f, count * sizeof *start);
        }
        struct step step = step_of(training, end - left, h, 3, c);
        int code = bs32_try(net, training, y, &step, low, err);
        bool overflow = code == CODE_NUMERICAL && err->overflow;
        if (code && !overflow)
            return code;
        double error = overflow ? INFINITY : bs32_error(net, training, start, low);
        double proposed = h * fmin(fmax(0.9 / cbrt(error), 0.2), 4);
        accepted = error <= 1;
        if (accepted) {
            net_commit(net);
            left -= h;
            net->place.step = h < net->place.step ? fmax(proposed, net->place.step) : proposed;
        } else if ((net->place.step = proposed) < FLOW_LEAST * training->flow.dt) {
            return err_set(err, CODE_NUMERICAL,
                           "the step of bs32 fell to %.2g; raise rtol and atol, or take fixed "
                           "steps: integrator = heun",
                           net->place.step);
        }
    }
    net->place.t++;
    return CODE_OK;
}

CHOICE(integrator, heun, "gradient flow in fixed steps of order 2", "dt substeps", .flow = true,
       .estimates = true, .stages = 2, .advance = heun_advance);
CHOICE(integrator, bs32, "gradient flow in adaptive steps of order 3", "dt rtol atol", .flow = true,
       .adaptive = true, .stages = 3, .advance = bs32_advance);
