/* How sharp the loss is where a net stands, and how noisy its gradient: [output] sharpness.
 *
 * All of it follows from the products K [a][b] between the gradients of the outputs, a = (mu, o)
 * for output o of input mu, and from H [a][b] = d^2 l/df_a df_b, which joins outputs of one input
 * alone. The loss is the mean of l over P inputs and over the tokens of each.
 *
 * sharpness: the largest eigenvalue of H^1/2 K H^1/2/P, which is that of the Gauss-Newton part of
 *     the Hessian, in units in which gradient descent has the rate eta0 for every entry.
 * sharpness_adam: the same with every entry in units of Adam's step.
 * edge: the rate times the sharpness of the optimizer over what the optimizer bears (2 of gradient
 *     descent). Above 1 steps along the steepest direction grow.
 * gradient_noise, gradient_square: the trace of the covariance of the gradient of one input's loss
 *     and |g|^2 of their mean, both over the inputs that batches are drawn from: of a batch they
 * are unbiased estimates, NaN of one input. noise_scale: their ratio, without batches: the batch in
 * which noise and gradient are equal. rate_greedy: |g|^2/(g . H g), the rate at which one step
 * lowers the loss most. */
#pragma once

#include "solver/measure/instrument.h"

struct sharpness {
    bool wanted, by_entry; /* by_entry: in units of Adam's step too */
    size_t parameters;
    double *value, *adam; /* [1 + parameters]: of all, of each; or NULL */
    double noise, square, scale, greedy, edge;
};

int sharpness_init(struct sharpness *sharpness, const struct config *config, const struct net *net,
                   struct err *err);
void sharpness_free(struct sharpness *sharpness); /* accepts a zeroed struct */
/* After net_evaluate; y: targets of all inputs. The net stays as it is. */
int sharpness_find(struct sharpness *sharpness, const struct config *config, struct net *net,
                   const double *y, struct err *err);

/* What parameter i learns with: o < outputs, the gradient of output o; outputs: of training. */
typedef struct gradient sharpness_gradient(const void *context, int i, int o);
struct sharpness_source {
    const struct net *net;
    sharpness_gradient *gradient;
    const void *context;
    int outputs;
    const double *Delta; /* of each input of training's gradient; with loss_in_cotangent 1 */
    double clip;         /* what this gradient is multiplied by */
};
/* sharpness_adam.c: K [P outputs][P outputs] of parameter i with every entry divided by what Adam
 * divides its step by, and multiplied by its rate over eta0. */
int sharpness_precondition(const struct sharpness_source *source, const struct training *training,
                           int i, double *K, struct err *err);
