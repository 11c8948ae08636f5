/* Gradient descent, of full batches or minibatches: one step of size eta0 (times gamma0^2 N and the
 * rate of each block, docs/theory/regime2.md section 1). The limit is that of the same discrete
 * algorithm, exactly. Euler's scheme of gradient flow is the same with steps eta0 dt/substeps; dt
 * and substeps are 1 for gradient descent. Weights decay in gradient descent alone. */
#include "integrators/integrator.h"

static int gd_advance(struct net *net, const struct training *training, const double *y,
                      struct err *err) {
    double h = training->flow.dt / training->flow.substeps, clip;
    for (int i = 0; i < training->flow.substeps; i++) {
        double schedule = schedule_factor(training, net->place.t * h);
        TRY(integrator_clip(net, training, &clip, err));
        TRY(net_learn(net, schedule * training->weight_decay, clip * training->eta0 * schedule * h,
                      err));
        TRY(net_evaluate(net, training->loss, y, err));
    }
    return CODE_OK;
}

CHOICE(integrator, gd, "gradient descent, one step in a unit of time", "optimizer clip",
       .stages = 1, .advance = gd_advance);
CHOICE(integrator, euler, "gradient flow in fixed steps of order 1", "dt substeps", .flow = true,
       .stages = 1, .advance = gd_advance);

/* x -> (1 - decay - rate curvature) x */
static double edge(const struct training *training UNUSED, double decay) {
    return 2 - decay;
}

CHOICE(optimizer, gd, "a step down the gradient, W -= rate gradient", "weight_decay", .plain = true,
       .edge = edge);
