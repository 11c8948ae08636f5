#include "solver/run/parts.h"
#include "kernels/base/text.h"
#include "models/engine/node.h"
#include "solver/run/ensemble.h"

enum { LIVES = 10 }; /* weights of the start that fall to e^-LIVES are forgotten early in a run */
#define ROUNDED 1e-9 /* of a sum of equal shares */

/* Adds a note and says it at once. kind: 0, or NOTE_WARNS. */
__attribute__((format(printf, 6, 7))) static int tell_note(struct run *run, const char *code,
                                                           const char *group, int kind,
                                                           struct err *err, const char *format,
                                                           ...) {
    char text[NOTES_TEXT];
    PRINT_ARGUMENTS(text, sizeof text, format);
    log_line(&run->log, "%s: %s", kind ? "warning" : "note", text);
    return notes_add(&run->notes, code, group, -1, kind | NOTE_TOLD, err, "%s", text);
}

/* Bases that do not compress grow by P n an evaluation; and so does any basis while every step
 * brings inputs of its own. A population between two maps has a basis and normals for both. */
static int warn_rank(struct run *run, struct err *err) {
    const struct solver_settings *solver = &run->config.solver;
    const char *keys = run->config.network.model->solver_keys;
    const struct training *training = &run->config.training;
    int P = batch_size(training, run->data.P), n = run->data.n, least = solver->sites;
    double evaluations = integrator_evaluations(training), rows = (double)P * n * evaluations;
    double step = rows / training->steps;
    bool compresses = network_compresses(&run->config.network);
    int parts = solver->halves ? 2 : 1;
    char end[96] = "";
    if (text_lists(keys, "expert_sites") && solver->expert_sites < least)
        least = solver->expert_sites;
    least /= parts;
    if (compresses)
        rows = fmin(rows, (double)run->data.P * n);
    if (!solver->replicates || ensemble_iterates(run, 0) || (compresses && P == run->data.P) ||
        4 * rows <= POPULATION_ROOM * least)
        return CODE_OK;
    if (rows > POPULATION_RANK_LIMIT * least && least > POPULATION_SMALL)
        snprintf(end, sizeof end, "; the run will probably %s at step %d",
                 solver->grow ? "begin again with twice as many sites" : "end",
                 (int)(POPULATION_RANK_LIMIT * least / step));
    return tell_note(run, "bases_grow", "limit", NOTE_WARNS, err,
                     "with %s bases grow by %d every evaluation, up to %.0f of %d sites%s%s; more "
                     "than %.0f sites keep all normals matched",
                     compresses ? "new inputs at every step"
                                : network_uncompressed(&run->config.network),
                     P * n, fmin(rows, least), least, parts > 1 ? " in each half" : "", end,
                     parts * 4 * rows / POPULATION_ROOM);
}

/* Scales and rates of all networks are meant for inputs with |x|^2 = D, which drawn ones have. */
static int note_scale(struct run *run, struct err *err) {
    const struct data *data = &run->data;
    size_t each = (size_t)data->n * (size_t)data->D, count = (size_t)data->P * each;
    double sum = 0;
    for (size_t k = 0; k < count && data->X; k++)
        sum +=
            data->X[k] * data->X[k] / (double)count * (data->weight ? data->weight[k / each] : 1);
    if (run->config.data.file[0] && data->X && (sum < 0.5 || sum > 2))
        return tell_note(
            run, "scale_of_inputs", "", 0, err,
            "|x|^2/D of the inputs is %.3g on average, where networks expect about 1%s", sum,
            sum > 0 ? "; scale X, or centre it" : "");
    return CODE_OK;
}

/* Whether numbers are all those from 0, or 1, to some number above 2, and none but these. */
static bool looks_like_classes(const double *y, size_t count, int *last) {
    enum { MOST = 100 };
    bool seen[MOST + 1] = {false};
    *last = 0;
    for (size_t k = 0; k < count; k++) {
        if (!(y[k] >= 0 && y[k] <= MOST) || y[k] != floor(y[k]))
            return false;
        seen[(int)y[k]] = true;
        *last = y[k] > *last ? (int)y[k] : *last;
    }
    for (int c = 1; c <= *last; c++)
        if (!seen[c])
            return false;
    return *last >= 2;
}

/* Inputs of three axes are sequences, which only attention tells from one another; rows of one
 * number are pixels, as convolutions take them. */
static int note_axes(struct run *run, struct err *err) {
    const struct data *data = &run->data;
    const char *keys = run->config.network.model->keys;
    if (!run->config.data.file[0] || !data->X || data->n == 1 || data->D == 1 || !keys ||
        strstr(keys, "attention"))
        return CODE_OK;
    return tell_note(run, "inputs_of_tokens", "", 0, err,
                     "X has three axes, so that each input is a sequence of %d tokens of %d "
                     "numbers; of an image make one row of %d numbers, X.reshape(len(X), -1)",
                     data->n, data->D, data->n * data->D);
}

/* Targets of a file that are read as numbers and look like classes, and classes that look as if
 * they were counted from 1. */
static int note_targets(struct run *run, struct err *err) {
    const struct data *data = &run->data;
    const struct loss *loss = run->config.training.loss;
    size_t count = (size_t)data->P * (data->per_token ? (size_t)data->n : 1), zeros = 0, ones = 0,
           first = 0;
    int C = data->C;
    for (size_t k = 0; k < count && C == 1; k++) {
        zeros += data->y[k] == 0;
        ones += data->y[k] == 1;
    }
    if (zeros && ones && zeros + ones == count)
        return tell_note(
            run, "targets_0_1", "", 0, err,
            "all targets are 0 or 1, which loss = %s takes for numbers: outputs begin at 0, one of "
            "the two; -1 and +1 treat them alike, and cross_entropy takes 0 and 1 for classes",
            loss->choice.name);
    int last;
    if (C == 1 && !data->classes && looks_like_classes(data->y, count, &last))
        return tell_note(run, "targets_count", "", 0, err,
                         "all targets are whole numbers up to %d, which loss = %s takes for "
                         "numbers: if they are classes, choose cross_entropy",
                         last, loss->choice.name);
    for (size_t k = 0; k < count && C > 1; k++)
        first += data->numbered ? data->y[k] == 0 : data->y[k * (size_t)C] != 0;
    if (C > 1 && data->classes && !first)
        return tell_note(run, "class_0_missing", "", 0, err,
                         "no training target is of class 0, so that %d outputs serve %d classes at "
                         "most; classes count from 0: subtract 1 from those that count from 1",
                         C, C - 1);
    return CODE_OK;
}

/* Weights decay by weight_decay times the factor of the schedule. PyTorch asks for a coefficient,
 * which it multiplies by the learning rate: 0.1 is far less there than here. */
static int note_decay(struct run *run, struct err *err) {
    const struct training *training = &run->config.training;
    double lives = 0;
    int updates = training->steps - 1, last = 0;
    for (int t = updates - 1; t >= 0 && training->weight_decay > 0; t--) {
        last += lives < 1 - ROUNDED;
        lives += training->weight_decay * schedule_factor(training, t);
    }
    if (lives < LIVES - ROUNDED)
        return CODE_OK;
    return tell_note(run, "weights_decay_fast", "", 0, err,
                     "each step takes %g of all weights that decay in full (weight_decay, times "
                     "the schedule), so that of %d steps about the last %d are remembered; in "
                     "PyTorch it is lr times weight_decay, 0.0001 for 0.001 and 0.1",
                     training->weight_decay, updates, last);
}

/* Says that a plain Adam moves the read-in as all else. It says so where the key is given, too: a
 * run that goes on has all keys of its beginning. */
static int note_read_in(struct run *run, struct err *err) {
    const struct training *training = &run->config.training;
    const struct optimizer *mover =
        training->optimizer->matrices ? training->muon.rest_optimizer : training->optimizer;
    const struct config *config = &run->config;
    struct net_setup setup =
        run_setup(run, config->solver.replicates ? 0 : config_some_width(config), 0);
    double factor = setup.training.read_in;
    FREED(net_free) struct net net = {0};
    if (!mover->rule || factor == 1)
        return CODE_OK;
    TRY(net_declare(&net, &setup, err));
    if (!net_read_ins(&net))
        return CODE_OK;
    return tell_note(run, "adam_read_in", "", 0, err,
                     "%s has eta0 and eps over sqrt(D) = %.3g for the read-in, as in the tables of "
                     "the papers: [training] adam_read_in = sqrt_D; 1 moves it as all else",
                     mover->choice.name, 1 / factor);
}

/* Biases fall as 1/sites and errors as 1/sqrt(sites replicates): all kinds of sites that are too
 * few for the replicates, of a run without halves, which would measure it (findings.h). */
static int warn_sites(struct run *run, struct err *err) {
    int replicates = run->config.solver.replicates;
    size_t wanted = (size_t)SITES_PER_REPLICATE * (size_t)replicates;
    struct net_setup setup = run_setup(run, 0, 0);
    char kinds[400] = "";
    FREED(net_free) struct net net = {0};
    TRY(net_declare(&net, &setup, err));
    for (int k = 0; k < net.populations.count; k++) {
        size_t sites = net_sampled_sites(&net, k), used = strlen(kinds);
        if (sites && sites < wanted)
            snprintf(kinds + used, sizeof kinds - used, "%s%s %zu", used ? ", " : "",
                     net.populations.item[k]->name, sites);
    }
    if (*kinds)
        TRY(tell_note(
            run, "few_sites", "limit", NOTE_WARNS, err,
            "too few sites for %d replicates (%s): with %zu or more of each kind biases are mostly "
            "below half of a standard error, but not in every network; raise them in [solver], "
            "lower replicates, or let halves = yes measure the bias and take it off",
            replicates, kinds, wanted));
    return CODE_OK;
}

int forecast_limit(struct run *run, struct err *err) {
    const struct solver_settings *solver = &run->config.solver;
    TRY(warn_rank(run, err));
    return solver->replicates > 1 && !solver->halves ? warn_sites(run, err) : CODE_OK;
}

int forecast_notes(struct run *run, struct err *err) {
    TRY(note_scale(run, err));
    TRY(note_axes(run, err));
    if (run->config.data.source == SOURCE_FILE)
        TRY(note_targets(run, err));
    TRY(note_decay(run, err));
    TRY(note_read_in(run, err));
    return forecast_limit(run, err);
}
