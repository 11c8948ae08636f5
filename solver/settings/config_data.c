/* Section [data]: what its keys must be beside each other and beside the loss, and the data.
 * Sources other than files first say how large their data are (plan), are checked, then drawn. */
#define _XOPEN_SOURCE 700
#include "kernels/base/text.h"
#include "solver/settings/config.h"
#include "solver/data/corpus.h"
#include "solver/data/data_file.h"
#include "solver/data/tokens.h"

static struct sequences sequences_of(const struct data_settings *settings) {
    return (struct sequences){.kind = settings->source == SOURCE_MARKOV ? SEQUENCE_MARKOV
                                      : settings->source == SOURCE_COPY ? SEQUENCE_COPY
                                                                        : SEQUENCE_MODULAR,
                              .letters = settings->vocabulary,
                              .seed = settings->seed,
                              .sharpness = settings->sharpness};
}

static bool is_sequences(const struct data_settings *settings) {
    return settings->source == SOURCE_MARKOV || settings->source == SOURCE_COPY ||
           settings->source == SOURCE_MODULAR;
}

/* Whether targets are numbers that a law gives. */
static bool has_numbers(const struct data_settings *settings) {
    return settings->source == SOURCE_MULTI_INDEX || settings->source == SOURCE_POWER_LAW;
}

static bool takes_targets(const struct config *config, enum loss_targets targets) {
    return config->training.loss->targets == targets;
}

/* Whether there is an output for each class. */
static bool has_classes(const struct config *config) {
    return takes_targets(config, LOSS_TARGETS_CLASSES) || config->network.outputs > 1;
}

/* The sizes of what a source other than a file will give. */
static struct data plan_sizes(const struct config *config) {
    const struct data_settings *settings = &config->data;
    struct data sizes = {
        .P = settings->inputs, .tests = settings->tests, .n = 1, .D = settings->dimension, .C = 1};
    struct sequences sequences = sequences_of(settings);
    int outputs = config->network.outputs;
    if (is_sequences(settings))
        return tokens_sizes(&sequences, settings->inputs, settings->tests,
                            settings->source == SOURCE_MODULAR ? 3 : settings->tokens,
                            settings->positions);
    sizes.classes = !has_numbers(settings);
    if (settings->source == SOURCE_GAUSSIAN) {
        sizes.n = settings->tokens;
        sizes.C = !has_classes(config) ? 1 : outputs ? outputs : 2;
    }
    return sizes;
}

/* --- checks ---------------------------------------------------------------------------------- */

static int check_loss(const struct config *config, const struct params *params, struct err *err) {
    const char *loss = config->training.loss->choice.name;
    int outputs = config->network.outputs;
    char classes[TEXT_NOTE] = "";
    loss_name(LOSS_TARGETS_CLASSES, classes);
    if (takes_targets(config, LOSS_TARGETS_SIGNS) && outputs > 1)
        return params_error(params, "network", "outputs", err,
                            "loss = %s has one output; for several there is %s", loss, classes);
    if (takes_targets(config, LOSS_TARGETS_CLASSES) && outputs == 1)
        return params_error(params, "network", "outputs", err,
                            "loss = %s needs at least 2, one for each class", loss);
    return CODE_OK;
}

static int check_sequences(const struct config *config, const struct params *params,
                           struct err *err) {
    const struct data_settings *settings = &config->data;
    const char *source = params_find(params, "data", "source")->text;
    double pairs = (double)settings->vocabulary * settings->vocabulary;
    char classes[TEXT_NOTE] = "";
    loss_name(LOSS_TARGETS_CLASSES, classes);
    if (settings->vocabulary < 2)
        return params_error(params, "data", "vocabulary", err,
                            "source = %s needs at least 2 letters", source);
    if (settings->source != SOURCE_MODULAR && settings->tokens < 2)
        return params_error(params, "data", "tokens", err, "source = %s needs at least 2", source);
    if (settings->source == SOURCE_COPY && settings->tokens % 2)
        return params_error(
            params, "data", "tokens", err,
            "must be even: half are letters, half a separator and the letters again but the last");
    if (settings->source == SOURCE_MODULAR && settings->tests && settings->inputs >= pairs)
        return params_error(params, "data", "test_inputs", err,
                            "all %.0f pairs are trained on; try fewer inputs", pairs);
    if (takes_targets(config, LOSS_TARGETS_SIGNS))
        return params_error(params, "training", "loss", err,
                            "source = %s has a class for each letter; choose %s", source, classes);
    if (settings->source != SOURCE_MARKOV && !takes_targets(config, LOSS_TARGETS_CLASSES))
        return params_error(params, "training", "loss", err,
                            "source = %s asks at some tokens only; choose %s", source, classes);
    return CODE_OK;
}

static int check_text(const struct config *config, const struct params *params, struct err *err) {
    const struct data_settings *settings = &config->data;
    char classes[TEXT_NOTE] = "";
    loss_name(LOSS_TARGETS_CLASSES, classes);
    if (!takes_targets(config, LOSS_TARGETS_CLASSES))
        return params_error(params, "training", "loss", err,
                            "source = text has a class for each letter; choose %s", classes);
    if (settings->tokens < 2)
        return params_error(params, "data", "tokens", err, "source = text needs at least 2");
    if (settings->vocabulary == 1)
        return params_error(params, "data", "vocabulary", err,
                            "source = text needs at least 2 letters, or 0 for all");
    if (settings->vocabulary && settings->text.alphabet[0])
        return params_error(params, "data", "vocabulary", err,
                            "the alphabet says which letters there are; give one of the two");
    return CODE_OK;
}

static int check_source(const struct config *config, const struct params *params,
                        const struct data *sizes, struct err *err) {
    const struct data_settings *settings = &config->data;
    const char *source = params_find(params, "data", "source")->text;
    char numbers[TEXT_NOTE] = "";
    loss_name(LOSS_TARGETS_NUMBERS, numbers);
    if (settings->source == SOURCE_MULTI_INDEX && settings->dimension < 4)
        return params_error(params, "data", "dimension", err,
                            "source = multi_index needs at least 4");
    if (has_numbers(settings) && takes_targets(config, LOSS_TARGETS_CLASSES))
        return params_error(params, "training", "loss", err,
                            "targets of source = %s are numbers, not classes; choose %s", source,
                            numbers);
    if (is_sequences(settings))
        TRY(check_sequences(config, params, err));
    int outputs = config->network.outputs;
    if (outputs && outputs != sizes->C)
        return params_error(params, "network", "outputs", err, "source = %s has %d", source,
                            sizes->C);
    return CODE_OK;
}

/* X, its basis and the coordinates take about 3 P n D numbers, P with test inputs; of tokens the
 * rows that open a direction take that. */
static int check_size(const struct config *config, const struct params *params,
                      const struct data *sizes, struct err *err) {
    static const char *const remedy[] = {
        [SOURCE_GAUSSIAN] = "dimension", [SOURCE_MULTI_INDEX] = "dimension",
        [SOURCE_MARKOV] = "vocabulary",  [SOURCE_COPY] = "vocabulary",
        [SOURCE_MODULAR] = "vocabulary", [SOURCE_POWER_LAW] = "dimension"};
    double inputs = (double)sizes->P + sizes->tests, rows = inputs * sizes->n;
    double kept = sizes->V ? fmin(rows, sizes->D) : rows;
    double numbers =
        3 * kept * sizes->D + (sizes->per_token ? rows : inputs) * (sizes->numbered ? 1 : sizes->C);
    struct sequences sequences = sequences_of(&config->data);
    double bytes = sizeof(double) * numbers + (sizes->V ? rows * sizeof(int) : 0) +
                   (is_sequences(&config->data) ? tokens_bytes(&sequences) : 0);
    if (1e-9 * bytes <= config->solver.max_memory)
        return CODE_OK;
    return params_error(params, "solver", "max_memory", err,
                        "the inputs alone would need about %.3g GB; try fewer inputs%s or a "
                        "smaller %s, or raise max_memory",
                        1e-9 * bytes, sizes->n > 1 ? ", fewer tokens" : "",
                        remedy[config->data.source]);
}

/* Labels, and what suits the numbers of inputs. */
static int check_inputs(const struct config *config, const struct params *params,
                        const struct data *data, struct err *err) {
    const struct training *training = &config->training;
    size_t n = data->per_token ? (size_t)data->n : 1, first = (size_t)data->P * n;
    for (size_t k = 0; k < data_places(data) && takes_targets(config, LOSS_TARGETS_SIGNS); k++) {
        const char *name = k < first ? "y" : "y_test";
        size_t at = k < first ? k : k - first;
        if (fabs(data->y[k]) != 1 && n > 1)
            return params_error(params, "training", "loss", err,
                                "labels must be +1 or -1, but %s[%zu][%zu] = %g", name, at / n,
                                at % n, data->y[k]);
        if (fabs(data->y[k]) != 1)
            return params_error(params, "training", "loss", err,
                                "labels must be +1 or -1, but %s[%zu] = %g", name, at, data->y[k]);
    }
    if (training->batches.size > data->P)
        return params_error(params, "training", "batch", err, "there are only %d inputs", data->P);
    if (training->batches.order && !training->batches.size)
        return params_error(params, "training", "order", err, "it is used only with batch");
    return CODE_OK;
}

/* --- what lies in files ---------------------------------------------------------------------- */

static int data_path(const struct params *params, char **path, struct err *err) {
    if (!params_find(params, "data", "file")->text[0])
        return params_error(params, "data", "file", err, "this source needs the path of %s",
                            !strcmp(params_find(params, "data", "source")->text, "text")
                                ? "a text"
                                : "an HDF5 file with X and y");
    return params_path(params, "data", "file", path, err);
}

/* The path as an absolute one in the record and in the settings. */
static int record_path(struct params *params, const char *path, const char **setting,
                       struct err *err) {
    FREED(base_free) char *whole = realpath(path, NULL);
    TRY(params_record(params, "data", "file", whole ? whole : path, err));
    *setting = params_find(params, "data", "file")->text;
    return CODE_OK;
}

static int read_file(struct config *config, struct params *params, struct data *data,
                     struct err *err) {
    struct data_settings *settings = &config->data;
    const struct data_wanted wanted = {
        .loss = config->training.loss,
        .outputs = config->network.outputs,
        .vocabulary = settings->vocabulary,
        .positions = settings->positions,
        .weight = settings->weight,
        .most = (size_t)(config->solver.max_memory * 1e9 / 3 / sizeof(double))};
    FREED(base_free) char *path = NULL;
    TRY(data_path(params, &path, err));
    if (strlen(settings->weight) + strlen("_test") >= DATA_FILE_WORD)
        return params_error(params, "data", "weight", err, "a name has at most %zu letters",
                            DATA_FILE_WORD - 1 - strlen("_test"));
    TRY(data_read(data, path, &wanted, err));
    if (!data->V && (settings->vocabulary || !settings->positions))
        return params_error(params, "data", settings->vocabulary ? "vocabulary" : "positions", err,
                            "it is for tokens, and data file %s has X", path);
    return record_path(params, path, &settings->file, err);
}

static int read_text(struct config *config, struct params *params, struct data *data,
                     struct err *err) {
    struct data_settings *settings = &config->data;
    struct corpus corpus = {.bytes = settings->text.unit,
                            .alphabet = settings->text.alphabet,
                            .vocabulary = settings->vocabulary,
                            .inputs = settings->inputs,
                            .tests = settings->tests,
                            .n = settings->tokens,
                            .stride =
                                settings->text.stride ? settings->text.stride : settings->tokens,
                            .held_out = settings->text.held_out,
                            .positions = settings->positions,
                            .seed = settings->seed,
                            .most = config->solver.max_memory * 1e9};
    FREED(base_free) char *path = NULL;
    TRY(check_text(config, params, err));
    TRY(data_path(params, &path, err));
    corpus.path = path;
    TRY(corpus_read(data, &corpus, err));
    if (config->network.outputs && config->network.outputs != data->C)
        return params_error(params, "network", "outputs", err, "the text has %d letters", data->C);
    return record_path(params, path, &settings->file, err);
}

/* The floors of sequences are cross-entropies of the next letter given those before, those of
 * vectors halves of squares; a file says of which loss its floor is. */
static void forget_floor(const struct config *config, struct data *data) {
    bool known =
        config->data.source == SOURCE_FILE || (data->V ? takes_targets(config, LOSS_TARGETS_CLASSES)
                                                       : config->training.loss == &loss_mse);
    bool sees_ahead = !network_other_keys(config->network.model->name, "causal") &&
                      !config->network.attention.causal; /* the letter that is asked for */
    if (data->truth && !known)
        data->truth->rate = NAN;
    if (data->truth && (!known || (data->V && sees_ahead)))
        data->truth->floor = NAN;
}

static int draw_data(struct config *config, struct params *params, struct data *data,
                     struct err *err) {
    const struct data_settings *settings = &config->data;
    const struct data sizes = plan_sizes(config);
    const struct sequences sequences = sequences_of(settings);
    TRY(check_source(config, params, &sizes, err));
    TRY(check_size(config, params, &sizes, err));
    TRY(data_init(data, &sizes, err));
    if (is_sequences(settings)) {
        TRY(tokens_draw(data, &sequences, err));
    } else if (settings->source == SOURCE_POWER_LAW) {
        TRY(normals_power_law(data, settings->seed, &settings->law, err));
    } else
        TRY(normals_draw(data, settings->seed, settings->source == SOURCE_MULTI_INDEX, err));
    return CODE_OK;
}

/* Targets are of inputs or of tokens: so must the outputs be. */
static int check_pooling(const struct config *config, const struct params *params,
                         const struct data *data, struct err *err) {
    int pooling = config->network.block.pooling;
    if (pooling == POOLING_DATA || (pooling == POOLING_TOKEN) == data->per_token)
        return CODE_OK;
    return params_error(params, "network", "pooling", err,
                        data->per_token ? "the data have targets for each token: token"
                                        : "the data have one target for each input: mean");
}

/* Only training inputs get wrong targets; no law says what is lost on these. */
static int make_wrong(const struct config *config, const struct params *params, struct data *data,
                      struct err *err) {
    const struct label_noise_settings *wrong = &config->data.wrong;
    if (wrong->share == 0)
        return params_at_default(params, "data", "label_noise_seed")
                   ? CODE_OK
                   : params_error(params, "data", "label_noise_seed", err,
                                  "it is used only with label_noise");
    if (!data->classes && !data->numbered)
        return params_error(params, "data", "label_noise", err,
                            "the targets are numbers, neither classes nor +1 and -1; sources with "
                            "a law have the key noise, and to y of a file it is added there");
    data_make_wrong(data, wrong->share, wrong->seed);
    if (data->truth && !data->tests)
        data->truth->floor = NAN;
    return CODE_OK;
}

void config_shape(struct config *config, const struct data *data) {
    bool file = config->data.source == SOURCE_FILE || config->data.source == SOURCE_TEXT;
    int outputs = config->network.outputs;
    const struct data none = {0};
    config->shape = !file ? plan_sizes(config).shape : data ? data->shape : none.shape;
    if (file && outputs)
        config->shape.C = outputs;
    if (!data && !config->shape.V)
        config->shape.V = 1;
}

int config_data(struct config *config, struct params *params, struct data *data, struct err *err) {
    TRY(check_loss(config, params, err));
    if (config->data.source == SOURCE_FILE)
        TRY(read_file(config, params, data, err));
    else if (config->data.source == SOURCE_TEXT)
        TRY(read_text(config, params, data, err));
    else
        TRY(draw_data(config, params, data, err));
    forget_floor(config, data);
    TRY(check_pooling(config, params, data, err));
    TRY(make_wrong(config, params, data, err));
    return check_inputs(config, params, data, err);
}
