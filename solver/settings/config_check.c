/* Checks across keys. */
#include "solver/settings/config.h"
#include "integrators/schedule.h"
#include "solver/settings/matrices.h"
#include "solver/settings/names.h"

#include <math.h>

/* What moves by a rule of discrete steps has no gradient flow; and errors cannot be controlled
 * below the jumps that a limit makes when a direction enters a basis. */
static int check_flow(const struct config *config, const struct params *params, struct err *err) {
    const struct training *training = &config->training;
    const char *rule = network_step_rule(&config->network);
    if (training->integrator->flow && (rule || training->batches.size))
        return params_error(params, rule ? "network" : "training", rule ? rule : "batch", err,
                            "it acts once a step of gradient descent and has no gradient flow; it "
                            "needs [training] integrator = gd");
    if (config->solver.method == METHOD_FIXED_POINT && config->solver.replicates &&
        optimizer_normalises(training->optimizer))
        return params_error(params, "training", "optimizer", err,
                            "a step of %s is no linear combination of gradients, and of what "
                            "matrices learn method = fixed_point knows the coefficients of such "
                            "combinations alone: gd or momentum, or method = march",
                            training->optimizer->choice.name);
    if (training->integrator->adaptive && config->solver.replicates &&
        fmin(training->flow.rtol, training->flow.atol) < config->solver.tolerance)
        return params_error(
            params, "training", training->flow.rtol < config->solver.tolerance ? "rtol" : "atol",
            err,
            "it must not be below [solver] tolerance = %g: the limit is no smoother "
            "than that",
            config->solver.tolerance);
    return CODE_OK;
}

/* The exact factor of a sum of gradients has directions of round-off. */
static int check_muon(const struct config *config, const struct params *params, struct err *err) {
    const struct training *training = &config->training;
    if (training->optimizer->matrices && training->muon.way == MUON_EXACT &&
        training->momentum != 0)
        return params_error(params, "training", "momentum", err,
                            "muon = exact moves along one gradient, since a sum of them has ever "
                            "smaller singular values, which it would make as large as the others: "
                            "momentum = 0, or muon = newton_schulz");
    return CODE_OK;
}

/* A decay to the end of the run has to begin in it. */
static int check_schedule(const struct config *config, const struct params *params,
                          struct err *err) {
    const struct training *training = &config->training;
    if (schedule_is_cut(training))
        return params_error(params, "training", "warmup", err,
                            "the rate falls after it, to the end of the run at %g: it must be "
                            "shorter, or schedule_steps given",
                            (training->steps - 1) * training->flow.dt);
    return CODE_OK;
}

/* The coordinate check compares with the start. */
static int check_coordinate(const struct config *config, const struct params *params,
                            struct err *err) {
    if (config->reference.coordinate_check && config->training.batches.size)
        return params_error(params, "reference", "coordinate_check", err,
                            "it follows the same inputs and has no minibatches");
    return CODE_OK;
}

/* Muon's exact step raises all singular values to one, down to those of round-off. */
static int check_precision(const struct config *config, const struct params *params,
                           struct err *err) {
    const struct training *training = &config->training;
    if (config->reference.precision == PRECISION_SINGLE && training->optimizer->matrices &&
        training->muon.way == MUON_EXACT)
        return params_error(params, "reference", "precision", err,
                            "with [training] muon = exact the step depends on singular values that "
                            "single precision does not know: double, or muon = newton_schulz");
    return CODE_OK;
}

/* What a network asks of tokens. */
static int check_tokens(const struct config *config, const struct params *params, struct err *err) {
    if (config->network.routing.bias && config->network.routing.bias_per == BIAS_PER_TOKEN &&
        !config->shape.V)
        return params_error(params, "network", "bias_per", err,
                            "the inputs are no tokens, of which there are kinds: expert");
    return CODE_OK;
}

/* What is measured of single inputs cannot be left out and asked for. */
static int check_inputs(const struct config *config, const struct params *params, struct err *err) {
    const struct output_settings *output = &config->output;
    bool asked = output->kernels || output->tangent || output->gradients || output->sharpness ||
                 output->experts || output->kernels_of[0] || output->cross[0] || output->spectra[0];
    if (output->inputs == INPUTS_NONE && asked)
        return params_error(
            params, "output", "inputs", err,
            "none goes with kernels = none, without kernels_of, cross, spectra, "
            "tangent, gradients, sharpness and experts, which are of single inputs");
    return CODE_OK;
}

/* A state lies between two times. */
static int check_states(const struct config *config, const struct params *params, struct err *err) {
    double minutes = config->output.checkpoint;
    if (minutes < 0 && minutes != -1)
        return params_error(params, "output", "checkpoint", err,
                            "minutes are above 0; 0 keeps no state, and -1 leaves it to the "
                            "program");
    if (config->output.checkpoint > 0 && config->solver.method == METHOD_FIXED_POINT &&
        config->solver.replicates)
        return params_error(params, "output", "checkpoint", err,
                            "method = fixed_point sweeps over all times and keeps no state: "
                            "checkpoint = 0");
    if (config->output.checkpoint > 0 && config->solver.grow)
        return params_error(params, "output", "checkpoint", err,
                            "with [solver] sites = auto a limit may begin again with more sites, "
                            "and keeps no state: give a number of sites, or checkpoint = 0");
    return CODE_OK;
}

/* Why the settings of a network do not fit width N (0: the limit with these expert_sites), with the
 * key to blame; NULL: they fit, as they do any width where the model has nothing to check. */
static const char *misfit_of(const struct config *config, int N, int sites, const char **key) {
    const struct model *model = model_list[config->network.model];
    return model->check ? model->check(&config->network, N, sites, key) : NULL;
}

/* Checks that the sites of a limit have halves. */
static int check_halves(const struct config *config, const struct params *params, struct err *err) {
    static const char *const keys[] = {"sites", "expert_sites", "unit_sites"};
    const struct solver_settings *solver = &config->solver;
    const int sites[] = {solver->sites, solver->expert_sites, solver->unit_sites};
    bool nodes = network_keeps_nodes(&config->network);
    const char *key;
    for (int k = 0; k < 3; k++)
        if (sites[k] % 2 && !(nodes && k == 1))
            return params_error(params, "solver", keys[k], err, "halves = yes: it must be even");
    const char *reason = nodes ? NULL : misfit_of(config, 0, solver->expert_sites / 2, &key);
    return reason ? params_error(params, "solver", "halves", err, "%s (expert_sites/2 = %d)",
                                 reason, solver->expert_sites / 2)
                  : CODE_OK;
}

/* The limit again (solver/run/recheck.h). */
static int check_again(const struct config *config, const struct params *params, struct err *err) {
    const struct solver_settings *solver = &config->solver;
    if (solver->method != METHOD_MARCH && (solver->halves || solver->check_tolerance))
        return params_error(params, "solver", solver->halves ? "halves" : "check_tolerance", err,
                            "it needs method = march");
    return solver->halves ? check_halves(config, params, err) : CODE_OK;
}

/* Checks the sites of the limit, and suggests expert_sites that fit. */
static int check_limit(const struct config *config, const struct params *params, struct err *err) {
    static const int others[] = {1 << 20, 1000000, 720720};
    const char *key, *ignored;
    const char *reason = misfit_of(config, 0, config->solver.expert_sites, &key);
    bool blamed = false;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        blamed = blamed || misfit_of(config, 0, others[k], &ignored) != reason;
    if (reason && blamed)
        return params_error(params, "network", key, err, "%s (limit: expert_sites = %d)", reason,
                            config->solver.expert_sites);
    return reason ? params_error(params, "network", key, err, "%s", reason) : CODE_OK;
}

int config_check(const struct config *config, const struct params *params, int K, struct err *err) {
    const struct int_list *widths = &config->reference.widths;
    const char *key, *reason;
    TRY(config_keys_check(config, params, err));
    TRY(check_flow(config, params, err));
    TRY(check_muon(config, params, err));
    TRY(check_schedule(config, params, err));
    TRY(check_coordinate(config, params, err));
    TRY(check_precision(config, params, err));
    TRY(check_tokens(config, params, err));
    TRY(check_inputs(config, params, err));
    TRY(check_states(config, params, err));
    if (config->solver.replicates && K > config->solver.sites / (config->solver.halves ? 2 : 1))
        return params_error(params, "solver", "sites", err,
                            "the inputs have %d directions, and as many sites%s are needed", K,
                            config->solver.halves ? " in each half" : "");
    if (config->solver.replicates == 0 && widths->count == 0)
        return params_error(params, "solver", "replicates", err,
                            "without a limit there must be [reference] widths");
    if (config->solver.replicates)
        TRY(check_limit(config, params, err));
    if (config->solver.replicates)
        TRY(check_again(config, params, err));
    for (int i = 0; i < widths->count; i++) {
        int N = widths->value[i];
        if ((reason = misfit_of(config, N, 0, &key)))
            return params_error(params, "network", key, err, "%s (width N = %d)", reason, N);
        if (i && N <= widths->value[i - 1])
            return params_error(params, "reference", "widths", err, "widths must increase");
        if (config->reference.draws == DRAWS_BALANCED && N < K + 1)
            return params_error(params, "reference", "widths", err,
                                "balanced draws over %d input directions need N >= %d", K, K + 1);
    }
    TRY(matrices_check(config, params, err));
    return names_check(config, params, err);
}
