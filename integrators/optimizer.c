/* Gradient descent with memory, one step after each evaluation, at the rate eta0 s of its time (s:
 * schedule.h), the gradient clipped (clip.h) before anything else:
 *
 * momentum   V = momentum V + K,   W += s V        K: the step of plain gradient descent at eta0
 * adam       of G = (1/P) sum_mu Delta_mu y_mu x_mu^T, minus the gradient of the loss in units
 * where it is of order one at every width: kernels/change.h, with rate eta0 s and eps times the
 *            multipliers of each parameter
 * adamw      the same after W *= 1 - s weight_decay
 *
 * docs/theory/parameterizations.md has the multipliers. */
#include "integrators/clip.h"
#include "integrators/schedule.h"

#include <stdlib.h>

/* What a step is made with: factors of the rate and of the gradient. */
struct pace {
    double schedule, clip;
};

static struct adam adam_of(const struct net *net, const struct training *training,
                           const struct parameter *p, double schedule) {
    double steps = net->t + 1;
    return (struct adam){.beta1 = training->beta1,
                         .beta2 = training->beta2,
                         .rate = training->eta0 * schedule * p->adam.rate,
                         .eps = training->eps * p->adam.eps,
                         .unbias1 = 1 / (1 - pow(training->beta1, steps)),
                         .unbias2 = 1 / (1 - pow(training->beta2, steps)),
                         .inside = training->adam_eps == ADAM_EPS_INSIDE};
}

/* host [K]: the change of plain gradient descent, or G. */
static void move_host(const struct parameter *p, const struct training *training,
                      const struct adam *adam, double schedule, const double *host) {
    double *first = p->host_moment, *second = p->host_moment + p->K;
    for (int j = 0; j < p->K; j++)
        if (adam)
            p->host[j] += adam_step(adam, host[j], first + j, second + j);
        else
            p->host[j] += schedule * (first[j] = training->momentum * first[j] + host[j]);
}

static int move(const struct net *net, const struct training *training, struct pace pace,
                struct parameter *p, struct err *err) {
    bool momentum = training->optimizer == OPTIMIZER_MOMENTUM;
    struct adam adam = adam_of(net, training, p, pace.schedule);
    double rate = momentum ? training->eta0 * net->setup.gamma0 * p->rate : 1;
    struct change change;
    double *host;
    TRY(base_alloc(&host, (size_t)p->K, sizeof *host, err));
    int code = CODE_OK;
    DO(net_change(net, p, 0, pace.clip * rate, &change, host, err));
    if (p->K && !p->host_moment)
        DO(base_alloc(&p->host_moment, 2 * (size_t)p->K, sizeof *p->host_moment, err));
    move_host(p, training, momentum ? NULL : &adam, pace.schedule, host);
    if (p->host)
        goto done;
    DO(momentum ? change_momentum(&change, training->momentum, pace.schedule, p->moment, err)
                : change_adam(&change, adam, p->moment, err));
done:
    free(host);
    return code;
}

static int optimizer_advance(struct net *net, const struct training *training, const double *y,
                             struct err *err) {
    struct pace pace = {.schedule = schedule_factor(training, net->t)};
    TRY(clip_factor(net, training, &pace.clip, err));
    TRY(net_keep(net, 0, err));
    if (training->optimizer == OPTIMIZER_ADAMW)
        net_decay(net, 1 - pace.schedule * training->weight_decay);
    for (int i = 0; i < net->parameters; i++)
        TRY(move(net, training, pace, &net->parameter[i], err));
    net_next(net);
    return net_evaluate(net, training->loss, y, err);
}

const struct integrator integrator_optimizer = {.stages = 1, .advance = optimizer_advance};
