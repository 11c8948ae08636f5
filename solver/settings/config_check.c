/* Checks across keys. */
#include "solver/settings/names.h"

/* A check that needs no more than its answer: where it is broken, and what is said of the key. */
struct rule {
    bool broken;
    const char *section, *key, *sentence;
};

/* Errors of a flow cannot be controlled below the jumps that a limit makes when a direction enters
 * a basis, and a decay of the rate to the end of the run has to begin in it. */
static int check_training(const struct config *config, const struct params *params,
                          struct err *err) {
    const struct training *training = &config->training;
    if (config->solver.method == METHOD_FIXED_POINT && config->solver.replicates &&
        optimizer_normalises(training->optimizer))
        return params_error(params, "training", "optimizer", err,
                            "method = fixed_point needs steps that are linear combinations of "
                            "gradients, and a step of %s is none: take optimizer = gd or momentum, "
                            "or method = march",
                            training->optimizer->choice.name);
    if (training->integrator->adaptive && config->solver.replicates &&
        fmin(training->flow.rtol, training->flow.atol) < config->solver.tolerance)
        return params_error(
            params, "training", training->flow.rtol < config->solver.tolerance ? "rtol" : "atol",
            err, "it must not be below [solver] tolerance = %g: the limit is no smoother than that",
            config->solver.tolerance);
    if (schedule_is_cut(training))
        return params_error(params, "training", "warmup", err,
                            "the rate falls after it, to the end of the run at %g: it must be "
                            "shorter, or schedule_steps given",
                            (training->steps - 1) * training->flow.dt);
    return CODE_OK;
}

static int check_rules(const struct config *config, const struct params *params, struct err *err) {
    const struct training *training = &config->training;
    const struct output_settings *output = &config->output;
    const struct solver_settings *solver = &config->solver;
    const char *step = network_step_rule(&config->network);
    bool exact = training->optimizer->matrices && training->muon.way == MUON_EXACT,
         of_inputs = output->kernels || output->tangent || output->gradients || output->sharpness ||
                     output->experts || output->kernels_of[0] || output->cross[0] ||
                     output->spectra[0],
         sweeps = solver->method == METHOD_FIXED_POINT && solver->replicates;
    double minutes = output->checkpoint;
    const struct rule rules[] = {
        /* What moves by a rule of discrete steps has no gradient flow. */
        {training->integrator->flow && (step || training->batches.size),
         step ? "network" : "training", step ? step : "batch",
         "it acts once a step of gradient descent and has no gradient flow; it needs [training] "
         "integrator = gd"},
        /* The exact factor of a sum of gradients has directions of round-off. */
        {exact && training->momentum != 0, "training", "momentum",
         "muon = exact moves along one gradient, since a sum of them has ever smaller singular "
         "values, which it would make as large as the others: momentum = 0, or muon = "
         "newton_schulz"},
        {config->reference.coordinate_check && training->batches.size, "reference",
         "coordinate_check", "it follows the same inputs and has no minibatches"},
        {config->reference.precision == PRECISION_SINGLE && exact, "reference", "precision",
         "with [training] muon = exact the step depends on singular values that single precision "
         "does not know: double, or muon = newton_schulz"},
        {config->network.routing.bias && config->network.routing.bias_per == BIAS_PER_TOKEN &&
             !config->shape.V,
         "network", "bias_per", "the inputs are no tokens, of which there are kinds: expert"},
        {output->inputs == INPUTS_NONE && of_inputs, "output", "inputs",
         "none goes with kernels = none, without kernels_of, cross, spectra, tangent, gradients, "
         "sharpness and experts, which are of single inputs"},
        {minutes < 0 && minutes != -1, "output", "checkpoint",
         "minutes are above 0; 0 keeps no state, and -1 leaves it to the program"},
        /* A state lies between two times. */
        {minutes > 0 && sweeps, "output", "checkpoint",
         "method = fixed_point sweeps over all times and keeps no state: checkpoint = 0"},
        {minutes > 0 && solver->grow, "output", "checkpoint",
         "with [solver] sites = auto a limit may begin again with more sites, and keeps no state: "
         "give a number of sites, or checkpoint = 0"},
        {!solver->replicates && !config->reference.widths.count, "solver", "replicates",
         "without a limit there must be [reference] widths"},
        {solver->replicates && solver->method != METHOD_MARCH &&
             (solver->halves || solver->check_tolerance),
         "solver", solver->halves ? "halves" : "check_tolerance", "it needs method = march"},
    };
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
        if (rules[k].broken)
            return params_error(params, rules[k].section, rules[k].key, err, "%s",
                                rules[k].sentence);
    return CODE_OK;
}

/* Why the settings of a network do not fit width N (0: the limit with these expert_sites), with the
 * key to blame; NULL: they fit, as they do any width where the model has nothing to check. */
static const char *misfit_of(const struct config *config, int N, int sites, const char **key) {
    const struct model *model = config->network.model;
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
    TRY(check_training(config, params, err));
    TRY(check_rules(config, params, err));
    if (config->solver.replicates && K > config->solver.sites / (config->solver.halves ? 2 : 1))
        return params_error(params, "solver", "sites", err,
                            "the inputs have %d directions, and as many sites%s are needed", K,
                            config->solver.halves ? " in each half" : "");
    if (config->solver.replicates)
        TRY(check_limit(config, params, err));
    if (config->solver.replicates && config->solver.halves)
        TRY(check_halves(config, params, err));
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
