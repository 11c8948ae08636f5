/* The list of integrators and the settings of training. */
#include "integrators/integrator.h"
#include "integrators/optimizer.h"
#include "integrators/schedule.h"

const struct integrator *integrator_of(const struct training *training) {
    return training->optimizer->plain ? training->integrator : &integrator_optimizer;
}

const struct choice *const integrator_list[] = {&integrator_gd.choice, &integrator_euler.choice,
                                                &integrator_heun.choice, &integrator_bs32.choice,
                                                NULL};

#define OFFSET(field) offsetof(struct training, field)
const struct param_row training_rows[] = {
    {"steps", PARAM_INT, OFFSET(steps), "20", 1, 1000000, NULL, NULL,
     "measured times T; gradient descent makes T - 1 updates"},
    {"eta0", PARAM_REAL, OFFSET(eta0), "0.3", 0, 1e6, NULL, NULL, "learning rate eta0"},
    {"gamma0", PARAM_REAL, OFFSET(gamma0), "1", 1e-6, 1e6, NULL, NULL,
     "feature learning strength: 0.1 is lazy, 1 is rich"},
    {"batch", PARAM_INT, OFFSET(batch), "0", 0, 100000, NULL, NULL,
     "inputs of a step, P; 0: all of them"},
    {"order", PARAM_CHOICE, OFFSET(order), "cyclic", 0, 0, "cyclic shuffled", NULL,
     "in which batches go through the inputs, epoch after epoch: their own, or one drawn anew for "
     "each epoch"},
    {"order_seed", PARAM_SEED, OFFSET(order_seed), "1", 0, 0, NULL, "order=shuffled",
     "of these draws alone: the batches are the same whatever [solver] seed is"},
    {"loss", PARAM_ROW, OFFSET(loss), "mse", 0, 0, loss_list, NULL,
     "what training makes small, the mean over inputs of l(f, y)"},
    {"integrator", PARAM_ROW, OFFSET(integrator), "gd", 0, 0, integrator_list, NULL,
     "how training goes on in time"},
    {"optimizer", PARAM_ROW, OFFSET(optimizer), "gd", 0, 0, optimizer_list, "integrator",
     "what a step of gradient descent is"},
    {"momentum", PARAM_REAL, OFFSET(momentum), "0.9", 0, 1, NULL, "optimizer",
     "v = momentum v + gradient, W -= rate v"},
    {"beta1", PARAM_REAL, OFFSET(beta1), "0.9", 0, 0.999999, NULL, "optimizer",
     "decay of the mean gradient that Adam and Lion keep"},
    {"beta2", PARAM_REAL, OFFSET(beta2), "0.999", 0, 0.999999, NULL, "optimizer",
     "decay of the mean square that Adam keeps; of Lion's mean gradient, after beta1"},
    {"eps", PARAM_REAL, OFFSET(eps), "0.05", 1e-12, 1e6, NULL, "optimizer",
     "eps0 of Adam and Lion, relative to the size of gradients at any width (docs/theory/"
     "parameterizations.md); far below 0.05 the limit is approached slowly"},
    {"adam_eps", PARAM_CHOICE, OFFSET(adam_eps), "outside", 0, 0, "outside inside", "optimizer",
     "outside: m/(sqrt(v) + eps); inside: m/sqrt(v + eps^2)"},
    {"adam_read_in", PARAM_CHOICE, OFFSET(adam_read_in), "sqrt_D", 0, 0, "sqrt_D 1", "optimizer",
     "by what Adam's rate and eps of the entries of W1, of variance 1, are divided"},
    {"weight_decay", PARAM_REAL, OFFSET(weight_decay), "0.01", 0, 1, NULL, "optimizer",
     "omega: a step begins with W *= 1 - omega, biases excepted; the same at any width"},
    {"schedule", PARAM_ROW, OFFSET(schedule), "constant", 0, 0, schedule_list, NULL,
     "the learning rate after warmup, over eta0"},
    {"warmup", PARAM_REAL, OFFSET(warmup), "0", 0, 1e9, NULL, NULL,
     "steps (gradient flow: time) in which the rate grows from 0 along a line"},
    {"schedule_steps", PARAM_REAL, OFFSET(schedule_steps), "0", 0, 1e9, NULL, "schedule",
     "steps (time) after warmup in which the rate falls to its end; 0: all that are left; a number "
     "keeps a run the beginning of a longer one"},
    {"schedule_end", PARAM_REAL, OFFSET(schedule_end), "0", 0, 1, NULL, "schedule",
     "what is left of the rate in the end, over eta0"},
    {"schedule_power", PARAM_REAL, OFFSET(schedule_power), "0.5", 0, 10, NULL, "schedule",
     "with which the rate falls"},
    {"schedule_t0", PARAM_REAL, OFFSET(schedule_t0), "1", 1e-6, 1e9, NULL, "schedule",
     "steps (time) after warmup at which it begins to fall; 1/sqrt(t): as many as in warmup"},
    {"clip", PARAM_REAL, OFFSET(clip), "0", 0, 1e12, NULL, "integrator",
     "largest norm of the gradient, above which it is scaled down; 0: none. The norm is of order "
     "one at any width (docs/method.md, section 10) and written as gradient_norm"},
    {"dt", PARAM_REAL, OFFSET(dt), "1", 1e-6, 1e6, NULL, "integrator",
     "time between two measured times; gradient descent makes one step in time 1"},
    {"substeps", PARAM_INT, OFFSET(substeps), "1", 1, 1000000, NULL, "integrator",
     "steps between two measured times"},
    {"rtol", PARAM_REAL, OFFSET(rtol), "1e-3", 1e-10, 1, NULL, "integrator",
     "error of f in a step is at most atol + rtol |f|; not below the tolerance of a limit"},
    {"atol", PARAM_REAL, OFFSET(atol), "1e-3", 1e-12, 1, NULL, "integrator", "see rtol"},
};
const size_t training_rows_count = sizeof training_rows / sizeof *training_rows;

double integrator_evaluations(const struct training *training) {
    return (double)training->steps * training->substeps * integrator_of(training)->stages;
}
