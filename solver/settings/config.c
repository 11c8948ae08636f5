/* What one run of the limit or of a network needs, out of the settings. */
#include "kernels/array/profile.h"
#include "solver/settings/config.h"
#include "solver/settings/param_keys.h"

const char *const config_lines[CONFIG_LINES] = {"init", "rates", "eps", "decays"};

int config_coordinates(const struct config *config, const struct data *data,
                       struct coordinates *inputs, struct err *err) {
    const struct net_setup setup = {.training.optimizer = config->training.optimizer,
                                    .training.rest_optimizer =
                                        config->training.muon.rest_optimizer};
    return coordinates_find(inputs, data, net_by_entry(&setup), err);
}

const struct backend *config_backend(const struct config *config, int N) {
    const struct backend *backend = backend_list[config->solver.backend];
    if (N)
        return config->reference.precision == PRECISION_SINGLE ? backend->other : backend;
    return config->split.name ? &config->split : backend;
}

bool config_asks_gradients(const struct config *config) {
    const struct output_settings *output = &config->output;
    return output->tangent || output->gradients ||
           (output->spectra && strstr(output->spectra, "tangent"));
}

const char *config_no_responses(const struct training *training) {
    return training->optimizer->matrices && training->muon.way == MUON_EXACT
               ? "muon = exact raises directions of any size to one, also those that a shift "
                 "makes; newton_schulz has responses"
               : NULL;
}

/* Whether responses are measured, by shifts of fields: the one given, or one that suits a smooth
 * program or one that jumps. What moves entries one by one bends where a gradient is as small as
 * its eps; a shift is to be small beside that, and far above round-off. */
static double shift_of(const struct config *config, int N, double otherwise) {
    const struct training *training = &config->training;
    const struct optimizer *optimizer = training->optimizer,
                           *rest = optimizer->matrices ? training->muon.rest_optimizer : optimizer;
    double probe = config->solver.fixed_point.probe;
    if (N || config->solver.method != METHOD_MARCH || !config->output.responses ||
        config_no_responses(training))
        return 0;
    if (probe == 0 && (optimizer_by_entry(optimizer) || optimizer_by_entry(rest)))
        return fmin(otherwise, fmax(0.4 * training->adam.eps, 1e-6));
    return probe > 0 ? probe : otherwise;
}

struct net_setup config_setup(const struct config *config, int N, int replicate, int P,
                              const struct coordinates *inputs) {
    return (struct net_setup){
        .network = &config->network,
        .init = &config->lines[LINES_INIT],
        .rates = &config->lines[LINES_RATES],
        .eps = &config->lines[LINES_EPS],
        .decays = &config->lines[LINES_DECAYS],
        .backend = profile_backend(config_backend(config, N)),
        .N = N,
        .limit.sites = config->solver.sites,
        .limit.expert_sites = config->solver.expert_sites,
        .limit.unit_sites = config->solver.unit_sites,
        .limit.half_number = config->half,
        .limit.beside_halves = config->solver.halves && !config->half,
        .limit.sobol =
            config->solver.method == METHOD_MARCH && config->solver.draws == LIMIT_DRAWS_SOBOL,
        .limit.tolerance = config->solver.tolerance,
        .limit.balanced = config->reference.draws == DRAWS_BALANCED,
        .limit.centre = N == 0 || config->reference.centre,
        .seed = config->solver.seed,
        .replicate = replicate,
        .gamma0 = config->training.gamma0,
        .data.P = P,
        .data.K = inputs->K,
        .data.A = inputs->A,
        .data.table = inputs->table,
        .data.X = inputs->X,
        .measure.check = config->reference.coordinate_check || config->output.experts,
        .measure.fields_of = config->output.fields,
        .measure.cross_of = config->output.cross,
        .measure.kernels_of = config->output.kernels_of,
        .measure.test_every = config->output.test_every,
        .measure.singular_of = config->output.singular,
        .measure.no_inputs = config->output.inputs == INPUTS_NONE,
        .measure.router = config->output.router,
        .measure.experts = config->output.experts,
        .measure.apart = config_asks_gradients(config) || config->output.sharpness,
        .training.stages = integrator_of(&config->training)->stages,
        .training.optimizer = config->training.optimizer,
        .training.rest_optimizer = config->training.muon.rest_optimizer,
        .training.rest = config->training.muon.rest,
        .training.each_expert = config->training.muon.experts == MUON_EACH,
        .training.weight_decay = config->training.weight_decay,
        .training.each_head = config->training.muon.heads == MUON_EACH,
        .training.read_in =
            config->training.adam.read_in == ADAM_READ_IN_1 || !inputs->K ? 1 : 1 / sqrt(inputs->K),
        .measure.shift = shift_of(config, N, 1e-3),
        .measure.shift_of_jumps = shift_of(config, N, 0.2),
    };
}

struct net_setup config_declare(const struct config *config, int N) {
    static const int token;
    struct net_setup setup = config_setup(config, N, 0, 1, &(struct coordinates){.K = 1});
    setup.declare_only = true;
    setup.data.shape = config->shape;
    setup.data.tests = 0;
    setup.data.token = setup.data.V ? &token : NULL;
    return setup;
}

/* The number of a key of [network]; false: it has no effect on this network. */
static bool number_of(const struct config *config, const struct params *params, const char *key,
                      double *out) {
    const struct param_section *s = params->sections;
    while (strcmp(s->name, "network") != 0)
        s++;
    for (const struct param_row *row = s->rows; row < s->rows + s->count; row++) {
        const char *slot = (const char *)config + s->offset + row->offset;
        if (strcmp(row->key, key) != 0)
            continue;
        *out = row->type == PARAM_INT ? *(const int *)slot : *(const double *)slot;
        return row_used(s, row, param_values(params, s));
    }
    return false;
}

static int settle_factor(const struct config *config, const struct params *params,
                         const char *section, struct factor *factor, int P, int D,
                         struct err *err) {
    for (int k = 0; k < FACTOR_QUANTITIES; k++) {
        const struct factor_quantity *quantity = &factor_quantities[k];
        double number = strcmp(quantity->name, "P") ? D : P, times;
        if (factor->powers[k] == 0)
            continue;
        if (*quantity->key && !number_of(config, params, quantity->key, &number))
            return params_error(params, section, factor->name, err,
                                "this network has no %s, the %s ([network] %s): take it out",
                                quantity->name, quantity->doc, quantity->key);
        times = pow(number, factor->powers[k]);
        if (times == 0 || !isfinite(factor->factor * times))
            return params_error(params, section, factor->name, err,
                                "%s = %g to the power %g is beyond the range of numbers",
                                quantity->name, number, factor->powers[k]);
        factor->factor *= times;
        factor->powers[k] = 0; /* it is in the factor now */
    }
    return CODE_OK;
}

int config_factors(struct config *config, const struct params *params, int P, int D,
                   struct err *err) {
    for (int k = 0; k < CONFIG_LINES; k++)
        for (int i = 0; i < config->lines[k].count; i++)
            TRY(settle_factor(config, params, config_lines[k], &config->lines[k].factor[i], P, D,
                              err));
    return CODE_OK;
}
