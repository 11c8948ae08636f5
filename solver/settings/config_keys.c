/* The sections of the ini file that are not a network's or an integrator's, and keys that have no
 * effect where they are. */
#include "solver/settings/config.h"
#include "solver/settings/row.h"

#define ROWS(rows) rows, sizeof rows / sizeof *rows

#define OFFSET(field) offsetof(struct solver_settings, field)
static const struct param_row solver_rows[] = {
    {"method", PARAM_CHOICE, OFFSET(method), "march", 0, 0, "march fixed_point", NULL,
     "Method that computes the limit.\n"
     "  march: once forward in time (docs/method.md)\n"
     "  fixed_point: repeated sweeps until two-time kernels and responses agree (docs/methods.md)"},
    {"sites", PARAM_INT, OFFSET(sites), "2048", 8, SITES_MOST, "auto", NULL,
     "Number S of Monte Carlo samples (sites) of each hidden population.\n"
     "  auto: 2048, and where these are too few for the bases of the limit once more with twice "
     "as many of every kind, as long as max_memory allows"},
    {"expert_sites", PARAM_INT, OFFSET(expert_sites), "2048", 1, SITES_MOST, NULL, NULL,
     "Number of Monte Carlo samples (sites) of the experts, in a limit of infinitely many. Experts "
     "of infinite width with bias_draws = stratified are no samples: there are [network] experts."},
    {"unit_sites", PARAM_INT, OFFSET(unit_sites), "512", 8, SITES_MOST, NULL, NULL,
     "Number of Monte Carlo samples (sites) of the hidden units of an expert, in a limit of "
     "infinitely many."},
    {"replicates", PARAM_INT, OFFSET(replicates), "8", 0, 100000, NULL, NULL,
     "Number of independent runs of the limit, for its error bars. 0 trains finite networks only."},
    {"draws", PARAM_CHOICE, OFFSET(draws), "sobol", 0, 0, "normal sobol", "method=march",
     "How the normal random numbers of the limit are drawn.\n"
     "  normal: independently\n"
     "  sobol: the first 40 of each site from scrambled points that fill space evenly, as those of "
     "Sobol: errors are smaller by a factor of 1 to 10"},
    {"halves", PARAM_CHOICE, OFFSET(halves), "no", 0, 0, "no yes", NULL,
     "Whether the bias of order 1/sites is removed.\n"
     "  no: it is left. At the sites of data/ it was up to .2 errors of 8 replicates in dense "
     "networks and regimes 1 and 2, .4 in regime 3 and stacks, and two in residual networks, "
     "transformers and with SwiGLU\n"
     "  yes: each replicate runs again in two halves of its sites, at twice the cost, and a "
     "warning says where much was taken off"},
    {"seed", PARAM_SEED, OFFSET(seed), "1", 0, 0, NULL, NULL,
     "Seed of all random weights, of the limit and of the networks."},
    {"tolerance", PARAM_REAL, OFFSET(tolerance), "1e-3", 1e-8, 0.1, NULL, NULL,
     "Share of a row's size (rms) below which what is new in it is dropped from the limit. The "
     "error of f is a few hundredths of it where training is stable."},
    {"check_tolerance", PARAM_CHOICE, OFFSET(check_tolerance), "no", 0, 0, "no yes", NULL,
     "Whether the error that tolerance makes is measured.\n"
     "  no: it is not\n"
     "  yes: the first replicate runs again at a third of tolerance, and all errors contain the "
     "difference"},
    {"backend", PARAM_CHOICE, OFFSET(backend), "cpu", 0, 0, BACKEND_NAMES, NULL,
     "Device that does the computation.\n"
     "  cpu: the processor\n"
     "  shadow: the processor, with separate memory that shows wrong accesses, for tests\n"
     "  cuda: a GPU, in programs built by make CUDA=1"},
    {"threads", PARAM_INT, OFFSET(threads), "0", 0, 1024, NULL, NULL,
     "Number of OpenMP threads. 0 takes all; results do not depend on it."},
    {"max_memory", PARAM_REAL, OFFSET(max_memory), "8", 1e-3, 1e6, NULL, NULL,
     "Largest memory in GB that a run may need by its estimate, above which it is refused."},
    {"fp_tolerance", PARAM_REAL, OFFSET(fixed_point.tolerance), "1e-4", 1e-13, 1, NULL,
     "method=fixed_point",
     "Largest relative change of a kernel in the last sweep, at which the fixed point is reached."},
    {"max_sweeps", PARAM_INT, OFFSET(fixed_point.max_sweeps), "200", 1, 100000, NULL,
     "method=fixed_point", "Largest number of sweeps, after which the run fails."},
    {"damping", PARAM_REAL, OFFSET(fixed_point.damping), "1", 1e-3, 1, NULL, "method=fixed_point",
     "Share of the new kernels in the mixture with the old ones after each sweep. 1 does not damp, "
     "and the sweeps then end exactly (docs/methods.md)."},
    {"anderson", PARAM_INT, OFFSET(fixed_point.anderson), "0", 0, ANDERSON_DEPTH, NULL,
     "method=fixed_point",
     "Number of earlier sweeps in Anderson's mixing, which begins once changes are small. 0 mixes "
     "by damping alone."},
    {"sweep_draws", PARAM_CHOICE, OFFSET(fixed_point.draws), "common", 0, 0, "common fresh",
     "method=fixed_point",
     "Random numbers of the sweeps.\n"
     "  common: the same in every sweep\n"
     "  fresh: new ones in every sweep"},
    {"jitter", PARAM_REAL, OFFSET(fixed_point.jitter), "1e-8", 1e-15, 1e-3, NULL,
     "method=fixed_point",
     "Smallest pivot of a kernel divided by its diagonal element. Smaller pivots are raised to "
     "it."},
    {"probe", PARAM_REAL, OFFSET(fixed_point.probe), "0", 0, 10, NULL, NULL,
     "Shift of the fields by which responses are measured, in the fixed point or with [output] "
     "responses. 0 takes 1e-3, or 0.2 where relu or a selection jumps at single sites (in the "
     "fixed point with any rho < 1); with Adam, AdamW or Lion at most 0.4 [training] eps, which "
     "their steps bend at."},
};
#undef OFFSET

#define OFFSET(field) offsetof(struct reference_settings, field)
static const struct param_row reference_rows[] = {
    {"widths", PARAM_INTS, OFFSET(widths), "", 1, 1000000, NULL, NULL,
     "Widths N of the finite networks that are trained beside the limit. An empty list trains "
     "none."},
    {"seeds", PARAM_INT, OFFSET(seeds), "16", 1, 1000000, NULL, NULL,
     "Number of networks of each width, with independent seeds."},
    {"draws", PARAM_CHOICE, OFFSET(draws), "iid", 0, 0, "iid balanced", NULL,
     "How the initial weights of the networks are drawn.\n"
     "  iid: independently\n"
     "  balanced: with W1^T W1 = N I and |w|^2 = N, which varies less over seeds and has the same "
     "limit"},
    {"centre", PARAM_CHOICE, OFFSET(centre), "yes", 0, 0, "no yes", NULL,
     "Output that networks are trained with and that is recorded.\n"
     "  no: f\n"
     "  yes: f - f(0), as in the limit"},
    {"precision", PARAM_CHOICE, OFFSET(precision), "double", 0, 0, "double single", NULL,
     "Precision of the numbers of the networks; the limit has double precision.\n"
     "  double: 64 bits\n"
     "  single: 32 bits, about twice as fast in half the memory. Sums over neurons, losses and "
     "series stay in double, and weights begin as those of double, rounded"},
    {"coordinate_check", PARAM_CHOICE, OFFSET(coordinate_check), "no", 0, 0, "no yes alignment",
     NULL,
     "Whether each signal, forward and backward, is split into its initial, propagating and "
     "effective part.\n"
     "  no: it is not\n"
     "  yes: it is, at every measured time\n"
     "  alignment: it is, and of networks the parts over the size of the entries of the matrix and "
     "of its input are measured, too"},
};
#undef OFFSET

#define OFFSET(field) offsetof(struct output_settings, field)
static const struct param_row output_rows[] = {
    {"kernels", PARAM_CHOICE, OFFSET(kernels), "diagonal", 0, 0, "none diagonal equal full", NULL,
     "Which elements of the kernels are written.\n"
     "  none: none\n"
     "  diagonal: those of equal times and inputs, [T][P]\n"
     "  equal: those of equal times, [T][P][P]\n"
     "  full: all, [T][P][T][P], and those of equal times and inputs"},
    {"responses", PARAM_CHOICE, OFFSET(responses), "no", 0, 0, "no yes", NULL,
     "Whether the responses A and B of the limit are measured (docs/method.md): how much rows move "
     "when a field at an earlier step is shifted.\n"
     "  no: they are not\n"
     "  yes: of every matrix between populations, at about three times the cost of the limit"},
    {"kernels_of", PARAM_TEXT, OFFSET(kernels_of), "", 0, 0, NULL, NULL,
     "Names of further rows whose kernels are written. dmft-solve --help NETWORK lists the names; "
     "g_NAME is the cotangent of NAME."},
    {"fields", PARAM_TEXT, OFFSET(fields), "", 0, 0, NULL, NULL,
     "Names of rows whose distribution over sites is written: quantiles, moments and single sites. "
     "dmft-solve --help NETWORK lists the names."},
    {"fields_at", PARAM_INTS, OFFSET(fields_at), "", 0, 1e9, NULL, NULL,
     "Times t at which these distributions are written, ascending. An empty list takes the first "
     "and the last."},
    {"field_sites", PARAM_INT, OFFSET(field_sites), "64", 0, 1e6, NULL, NULL,
     "Number of sites of the first replicate whose values are written one by one."},
    {"weights", PARAM_CHOICE, OFFSET(weights), "none", 0, 0, "none initial final both all", NULL,
     "Measured times at which the weight matrices of the networks are written, as the network uses "
     "them.\n"
     "  none: never\n"
     "  initial: at the first\n"
     "  final: at the last\n"
     "  both: at the first and the last\n"
     "  all: at all"},
    {"cross", PARAM_TEXT, OFFSET(cross), "", 0, 0, NULL, NULL,
     "Names of rows of experts whose kernels between different experts are written."},
    {"tangent", PARAM_CHOICE, OFFSET(tangent), "none", 0, 0, "none sum blocks", NULL,
     "Whether the neural tangent kernel [T][P][P] is written.\n"
     "  none: it is not\n"
     "  sum: the whole kernel\n"
     "  blocks: the whole kernel and the part of each matrix"},
    {"gradients", PARAM_CHOICE, OFFSET(gradients), "no", 0, 0, "no yes", NULL,
     "Whether gradients are measured apart.\n"
     "  no: gradient kernels are of the gradient that training has\n"
     "  yes: gradient kernels of the outputs, of the loss of the task and of each penalty; norms "
     "of these gradients and cosines between them, of each matrix too"},
    {"sharpness", PARAM_CHOICE, OFFSET(sharpness), "none", 0, 0, "none sum blocks", NULL,
     "Whether the largest eigenvalue of the Gauss-Newton matrix is measured, its distance to the "
     "edge of stability, and the noise of gradients.\n"
     "  none: they are not\n"
     "  sum: of all matrices together\n"
     "  blocks: the eigenvalue of each matrix too"},
    {"router", PARAM_CHOICE, OFFSET(router), "no", 0, 0, "no yes", NULL,
     "Whether the routing over many experts is measured.\n"
     "  no: it is not\n"
     "  yes: the threshold of the logits, the normalisation of a softmax and the loads of experts"},
    {"experts", PARAM_CHOICE, OFFSET(experts), "no", 0, 0, "no yes", NULL,
     "Whether it is measured what experts do: what they tell of the inputs, which of them share "
     "inputs, and how much each of them learns.\n"
     "  no: it is not\n"
     "  yes: of every router of the network"},
    {"spectra", PARAM_TEXT, OFFSET(spectra), "", 0, 0, NULL, NULL,
     "Names of kernels whose eigenvalues and alignment with the targets are written. The name "
     "tangent is that of the neural tangent kernel."},
    {"singular", PARAM_TEXT, OFFSET(singular), "", 0, 0, NULL, NULL,
     "Names of matrices between populations whose singular values are written, over sqrt(n/m) of a "
     "matrix n x m: the largest ones of networks, and in the limit those that training has pulled "
     "out of the bulk. dmft-solve --help NETWORK lists the names."},
    {"singular_values", PARAM_INT, OFFSET(singular_values), "8", 1, 100000, NULL, NULL,
     "Number of singular values that are written of each matrix, from the largest on."},
    {"singular_every", PARAM_INT, OFFSET(singular_every), "1", 1, 1000000, NULL, NULL,
     "Number n such that singular values are found at every n-th measured time, and at the last."},
    {"test_every", PARAM_INT, OFFSET(test_every), "1", 1, 1000000, NULL, NULL,
     "Number n such that test inputs are evaluated at every n-th measured time."},
    {"top", PARAM_INT, OFFSET(top), "0", 0, 100000, NULL, NULL,
     "Number K of the top-K accuracies that are written, for several classes. 0 writes none."},
    {"inputs", PARAM_CHOICE, OFFSET(inputs), "all", 0, 0, "all none", NULL,
     "Whether what there is of single inputs is written.\n"
     "  all: the data, and of every input its outputs, kernels and all else that is measured\n"
     "  none: no series with an axis of inputs, and, unless weights are written, no X, and of "
     "tokens no y either; for long runs of many inputs"},
    {"runs", PARAM_CHOICE, OFFSET(runs), "no", 0, 0, "no yes", NULL,
     "Which series are written run by run, as NAME_runs, beside their means.\n"
     "  no: the loss and the outputs\n"
     "  yes: all"},
    {"checkpoint", PARAM_REAL, OFFSET(checkpoint), "-1", -1, 1e6, NULL, NULL,
     "Time in minutes after which the state of each replicate and seed is saved in OUT.h5.state, "
     "and again when it is done, for --continue. 0 saves none. The default -1 saves every 10 "
     "minutes what takes less than 1 GB, if a tenth of the disk is free, and removes all states "
     "when the run is done."},
};
#undef OFFSET

int config_sections(struct param_section **sections, size_t *count, struct err *err) {
    const struct param_row *rows;
    size_t known;
    TRY(network_rows(&rows, &known, err));
    const struct param_section all[] = {
        {"network", "The network and its parameterization.", rows, known,
         offsetof(struct config, network), network_other_keys, .implied = "program"},
        {"program",
         "Keys of a network that is written in Lua ([network] program), by the names that it "
         "reads.",
         NULL, 0, offsetof(struct config, network) + offsetof(struct network, script.words),
         .words = true},
        {"data", "The inputs and targets.", config_data_rows, config_data_rows_count,
         .offset = offsetof(struct config, data)},
        {"training", "The loss, the optimizer and the learning rate.", training_rows,
         training_rows_count, .offset = offsetof(struct config, training)},
        {"solver", "The numerics of the limit.", ROWS(solver_rows),
         .offset = offsetof(struct config, solver)},
        {"reference", "The finite networks that are trained beside the limit.",
         ROWS(reference_rows), .offset = offsetof(struct config, reference)},
        {"output", "What is written beside the loss and the outputs.", ROWS(output_rows),
         .offset = offsetof(struct config, output)},
        {"rates",
         "Factors that multiply the learning rates of matrices, by name; dmft-solve --help NETWORK "
         "lists the names. W2 stands for all of W2_0, W2_1, ..., several lines for one matrix "
         "multiply, and a factor of 0 freezes a matrix.",
         NULL, 0, .offset = offsetof(struct config, lines[LINES_RATES])},
        {"init", "Factors that multiply the initial scales of matrices, by name as in [rates].",
         NULL, 0, .offset = offsetof(struct config, lines[LINES_INIT])},
        {"eps", "Factors above 0 that multiply Adam's eps of matrices, by name as in [rates].",
         NULL, 0, .offset = offsetof(struct config, lines[LINES_EPS])},
        {"decays",
         "Factors that multiply [training] weight_decay of matrices, by name as in [rates]: 0.3 "
         "for three tenths of it, 0 for none. None can lose more than all of itself in a step.",
         NULL, 0, .offset = offsetof(struct config, lines[LINES_DECAYS])},
    };
    *count = sizeof all / sizeof *all;
    TRY(base_alloc(sections, *count, sizeof **sections, err));
    memcpy(*sections, all, sizeof all);
    return CODE_OK;
}

/* Whether the network's limit draws these sites; other keys of [solver] are of all networks. */
static bool uses_key(const struct config *config, const char *key) {
    bool sites = !strcmp(key, "expert_sites") || !strcmp(key, "unit_sites");
    return !sites || text_lists(config->network.model->solver_keys, key);
}

/* Experts of infinite width at fixed quantiles are no samples: the limit has the networks'. */
static int take_nodes(struct config *config, struct params *params, struct err *err) {
    const struct network *network = &config->network;
    int E = network->experts.count, *sites = &config->solver.expert_sites;
    char text[16];
    if (!network_keeps_nodes(network) || network->routing.rho == 1)
        return CODE_OK;
    if (params_find(params, "solver", "expert_sites")->line && *sites != E)
        return params_error(params, "solver", "expert_sites", err,
                            "the limit has the %d experts of the networks ([network] experts), at "
                            "the quantiles of bias_draws = stratified: take the key out",
                            E);
    *sites = E;
    snprintf(text, sizeof text, "%d", E);
    return params_record(params, "solver", "expert_sites", text, err);
}

int config_complete(struct config *config, struct params *params, struct err *err) {
    int model = params_find(params, "network", "model")->line;
    struct param_value *value = (struct param_value *)params_find(params, "solver", "method");
    for (size_t i = 0; i < sizeof solver_rows / sizeof *solver_rows; i++, value++) {
        const struct param_row *row = &solver_rows[i];
        char note[TEXT_NOTE] = "";
        if (uses_key(config, row->key) || !params_go_over(model, value->line))
            continue;
        params_leave(value);
        TRY(base_copy(&value->text, row->value, err));
        row_parse(row, value->text, (char *)&config->solver + row->offset, note);
    }
    TRY(take_nodes(config, params, err));
    return config_program(config, params, err);
}

/* A key of the network that another one leaves without effect; at its default it does no harm. */
static int check_idle(const struct config *config, const struct params *params, struct err *err) {
    const struct model *model = config->network.model;
    const struct param_row *rows, *first = NULL;
    const char *gate = NULL;
    char others[TEXT_NOTE] = "";
    size_t count;
    TRY(network_rows(&rows, &count, err));
    for (size_t i = 0; i < count && model->idle; i++) {
        const char *by = params_at_default(params, "network", rows[i].key)
                             ? NULL
                             : model->idle(&config->network, rows[i].key);
        if (by && first)
            text_append(others, "%s %s", *others ? "," : "; nor have", rows[i].key);
        first = by && !first ? &rows[i] : first;
        gate = by && !gate ? by : gate;
    }
    return !first ? CODE_OK
                  : params_error(params, "network", first->key, err,
                                 "it has no effect with %s = %s: the network would not have what "
                                 "it asks for; take it out, or give it its default, %s%s",
                                 gate, params_find(params, "network", gate)->text, first->value,
                                 others);
}

/* Keys of [solver] and [reference] that nothing would use. One at its default does no harm: the
 * recorded ini of a run has them all. Networks may be switched off by an empty `widths`; then the
 * rest of [reference] may stay. */
int config_keys_check(const struct config *config, const struct params *params, struct err *err) {
    static const char *const networks[] = {"seeds", "draws", "centre", "precision",
                                           "coordinate_check"};
    const struct model *model = config->network.model;
    for (size_t i = 0; i < sizeof solver_rows / sizeof *solver_rows; i++) {
        const struct param_row *row = &solver_rows[i];
        if (!uses_key(config, row->key) && !params_at_default(params, "solver", row->key))
            return params_error(params, "solver", row->key, err, "model %s does not use it",
                                model->name);
    }
    if (!params_at_default(params, "solver", "probe") && config->solver.method == METHOD_MARCH &&
        !config->output.responses)
        return params_error(params, "solver", "probe", err,
                            "it is used only with method = fixed_point or [output] responses");
    TRY(check_idle(config, params, err));
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (!params_at_default(params, "reference", networks[i]) &&
            !params_find(params, "reference", "widths")->line)
            return params_error(params, "reference", networks[i], err,
                                "it is used only with [reference] widths");
    return CODE_OK;
}
