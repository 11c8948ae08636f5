/* The list of integrators and the settings of training. */
#include "integrators/integrator.h"

const struct integrator *integrator_of(const struct training *training) {
    return training->optimizer->plain ? training->integrator : &integrator_optimizer;
}

const struct choice *const integrator_list[] = {&integrator_gd.choice, &integrator_euler.choice,
                                                &integrator_heun.choice, &integrator_bs32.choice,
                                                NULL};

#define OFFSET(field) offsetof(struct training, field)
const struct param_row training_rows[] = {
    {"steps", PARAM_INT, OFFSET(steps), "20", 1, 1000000, NULL, NULL,
     "Number T of measured times; gradient descent makes T - 1 updates. The first measurement "
     "is at initialisation."},
    {"eta0", PARAM_REAL, OFFSET(eta0), "0.3", 0, 1e6, NULL, NULL,
     "Learning rate eta0 of every optimizer. The parameterization multiplies it, for each "
     "matrix, by a power of the width (docs/theory/parameterizations.md)."},
    {"gamma0", PARAM_REAL, OFFSET(gamma0), "1", 1e-6, 1e6, NULL, NULL,
     "Strength gamma0 of feature learning: 0.1 is lazy, 1 is rich."},
    {"batch", PARAM_INT, OFFSET(batches.size), "0", 0, 100000, NULL, NULL,
     "Number of inputs in a minibatch. 0 takes all inputs in every step."},
    {"order", PARAM_CHOICE, OFFSET(batches.order), "cyclic", 0, 0, "cyclic shuffled", NULL,
     "Order in which minibatches go through the inputs, epoch after epoch.\n"
     "  cyclic: the order of the data\n"
     "  shuffled: a random order, drawn anew for each epoch"},
    {"order_seed", PARAM_SEED, OFFSET(batches.seed), "1", 0, 0, NULL, "order=shuffled",
     "Seed of the shuffled orders, which do not depend on [solver] seed."},
    {"loss", PARAM_ROW, OFFSET(loss), "mse", 0, 0, loss_list, NULL,
     "Loss function l(f, y), of which training minimises the mean over the inputs."},
    {"integrator", PARAM_ROW, OFFSET(integrator), "gd", 0, 0, integrator_list, NULL,
     "Method by which training goes on in time. A unit of time is one step of gradient descent."},
    {"optimizer", PARAM_ROW, OFFSET(optimizer), "gd", 0, 0, optimizer_list, "integrator",
     "Rule by which gradient descent updates the weights."},
    {"momentum", PARAM_REAL, OFFSET(momentum), "0.9", 0, 1, NULL, "optimizer",
     "Factor by which the velocity v decays in each step: v = momentum v + gradient, W -= "
     "rate v. In Muon it is v that is made orthogonal."},
    {"muon", PARAM_CHOICE, OFFSET(muon.way), "newton_schulz", 0, 0, "newton_schulz exact",
     "optimizer",
     "How Muon makes the velocity of a matrix orthogonal.\n"
     "  newton_schulz: five Newton-Schulz steps, as in use: singular values of nearly 1, but for "
     "small ones\n"
     "  exact: singular values of 1; without momentum"},
    {"nesterov", PARAM_CHOICE, OFFSET(muon.nesterov), "no", 0, 0, "no yes", "optimizer",
     "What Muon makes orthogonal.\n"
     "  no: the velocity v\n"
     "  yes: the gradient + momentum v, as public implementations do"},
    {"muon_experts", PARAM_CHOICE, OFFSET(muon.experts), "each", 0, 0, "each together", "optimizer",
     "What Muon takes for one matrix where a matrix leads to or from the units of many experts.\n"
     "  each: the part of each expert\n"
     "  together: the parts of all experts side by side"},
    {"muon_heads", PARAM_CHOICE, OFFSET(muon.heads), "each", 0, 0, "each together", "optimizer",
     "What Muon takes for one matrix in an attention layer of several heads.\n"
     "  each: the part of each head\n"
     "  together: the parts of all heads, as one query, key, value or output matrix"},
    {"rest_optimizer", PARAM_ROW, OFFSET(muon.rest_optimizer), "adam", 0, 0, optimizer_rest_list,
     "optimizer",
     "Optimizer of what Muon does not move: read-in, read-out, routers over a fixed number of "
     "experts, biases, and the matrices of the key rest."},
    {"rest_eta0", PARAM_REAL, OFFSET(muon.rest_eta0), "0.05", 0, 1e6, NULL, "optimizer",
     "Learning rate of rest_optimizer, as eta0 is that of Muon."},
    {"rest", PARAM_TEXT, OFFSET(muon.rest), "", 0, 0, NULL, "optimizer",
     "Names of matrices that rest_optimizer moves although Muon could: Q, say, for the router of "
     "many experts, or W_Q W_K of attention, whose gradients vanish at first in the limit "
     "(docs/theory/muon.md, section 4)."},
    {"beta1", PARAM_REAL, OFFSET(adam.beta1), "0.9", 0, 0.999999, NULL, "optimizer rest_optimizer",
     "Decay factor of the running mean of the gradient in Adam and AdamW. In Lion it weighs "
     "that mean against the gradient in the update."},
    {"beta2", PARAM_REAL, OFFSET(adam.beta2), "0.999", 0, 0.999999, NULL,
     "optimizer rest_optimizer",
     "Decay factor of the running mean of the squared gradient in Adam and AdamW, and of the "
     "running mean of the gradient in Lion."},
    {"eps", PARAM_REAL, OFFSET(adam.eps), "0.05", 1e-12, 1e6, NULL, "optimizer rest_optimizer",
     "Constant eps of Adam, AdamW and Lion, in units of the size of gradients at any width "
     "(docs/theory/parameterizations.md). Far below 0.05 networks approach the limit slowly."},
    {"adam_eps", PARAM_CHOICE, OFFSET(adam.eps_place), "outside", 0, 0, "outside inside",
     "optimizer rest_optimizer",
     "Where eps stands in the update of Adam, with m and v the running means of the gradient "
     "and of its square.\n"
     "  outside: m/(sqrt(v) + eps)\n"
     "  inside: m/sqrt(v + eps^2)"},
    {"adam_read_in", PARAM_CHOICE, OFFSET(adam.read_in), "sqrt_D", 0, 0, "sqrt_D 1",
     "optimizer rest_optimizer",
     "Number by which the learning rate and eps of Adam, AdamW and Lion are divided for the "
     "read-in W1, whose entries have variance 1.\n"
     "  sqrt_D: the square root of the input dimension, as in the tables of the papers\n"
     "  1: no division; Adam moves the read-in as all else"},
    {"weight_decay", PARAM_REAL, OFFSET(weight_decay), "0", 0, 1, NULL, "optimizer",
     "Coefficient omega of decoupled weight decay, the same at any width: each step begins "
     "with W *= 1 - omega (omega times the factor of the schedule), biases excepted, so that at a "
     "constant rate about 1/omega steps are remembered. In PyTorch omega is lr times weight_decay: "
     "AdamW(lr=0.001, weight_decay=0.1) has omega = 0.001 x 0.1 = 0.0001, far below 0.1."},
    {"schedule", PARAM_ROW, OFFSET(schedule.kind), "constant", 0, 0, schedule_list, NULL,
     "Schedule of the learning rate after the warmup, as a factor of eta0 at the time t since "
     "then."},
    {"warmup", PARAM_REAL, OFFSET(schedule.warmup), "0", 0, 1e9, NULL, NULL,
     "Number of steps (in gradient flow, the time) in which the learning rate grows linearly "
     "from 0."},
    {"schedule_steps", PARAM_REAL, OFFSET(schedule.steps), "0", 0, 1e9, NULL, "schedule",
     "Number of steps (in gradient flow, the time) in which the learning rate falls after the "
     "warmup. 0 takes all that are left, so that the rate depends on the length of the run."},
    {"schedule_end", PARAM_REAL, OFFSET(schedule.end), "0", 0, 1, NULL, "schedule",
     "Final learning rate divided by eta0."},
    {"schedule_power", PARAM_REAL, OFFSET(schedule.power), "0.5", 0, 10, NULL, "schedule",
     "Exponent with which the learning rate falls."},
    {"schedule_t0", PARAM_REAL, OFFSET(schedule.t0), "1", 1e-6, 1e9, NULL, "schedule",
     "Number of steps (in gradient flow, the time) after the warmup at which the learning rate "
     "begins to fall. With schedule_power = 0.5 and the value of warmup it falls as 1/sqrt(t)."},
    {"clip", PARAM_REAL, OFFSET(clip), "0", 0, 1e12, NULL, "integrator",
     "Largest norm of the gradient, above which it is scaled down. 0 does not clip. The norm "
     "is of order one at any width (docs/learning.md, section 10) and written as gradient_norm."},
    {"dt", PARAM_REAL, OFFSET(flow.dt), "1", 1e-6, 1e6, NULL, "integrator",
     "Time between two measurements. In a unit of time gradient descent makes one step."},
    {"substeps", PARAM_INT, OFFSET(flow.substeps), "1", 1, 1000000, NULL, "integrator",
     "Number of integration steps between two measurements."},
    {"rtol", PARAM_REAL, OFFSET(flow.rtol), "1e-3", 1e-10, 1, NULL, "integrator",
     "Relative tolerance of adaptive steps: the error of f in a step is at most atol + rtol "
     "|f|. It must not be below [solver] tolerance."},
    {"atol", PARAM_REAL, OFFSET(flow.atol), "1e-3", 1e-12, 1, NULL, "integrator",
     "Absolute tolerance of adaptive steps: the error of f in a step is at most atol + rtol "
     "|f|. It must not be below [solver] tolerance."},
};
const size_t training_rows_count = sizeof training_rows / sizeof *training_rows;

double integrator_evaluations(const struct training *training) {
    return (double)training->steps * training->flow.substeps * integrator_of(training)->stages;
}

int integrator_clip(const struct net *net, const struct training *training, double *factor,
                    struct err *err) {
    double norm;
    *factor = 1;
    if (training->clip == 0)
        return CODE_OK;
    TRY(net_gradient_norm(net, &norm, err));
    if (norm > training->clip)
        *factor = training->clip / norm;
    return CODE_OK;
}
