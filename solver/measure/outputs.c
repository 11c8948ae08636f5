#define _XOPEN_SOURCE 700
#include "solver/measure/outputs.h"
#include "solver/measure/mean_loss.h"
#include "solver/measure/score.h"

#include <math.h>
#include <string.h>

/* The losses of a limit whose outputs do not fluctuate are those of its mean output, from two
 * replicates on (none: shapes). */
static bool has_mean_loss(const struct record *record, const struct net *net) {
    return record->y && !net->setup.N && !net->gates.random && record->runs != 1;
}

/* --- loss and f ------------------------------------------------------------------------------ */

static int fill_loss(const struct measuring *m, double *const *out, struct err *err) {
    (void)err;
    *out[0] = m->net->output.loss;
    if (out[1])
        *out[1] = m->net->output.loss / M_LN2;
    return CODE_OK;
}

static int fill_f(const struct measuring *m, double *const *out, struct err *err) {
    (void)err;
    memcpy(out[0], m->net->output.f,
           (size_t)(m->net->batch.output_rows * m->net->setup.data.C) * sizeof *out[0]);
    return CODE_OK;
}

/* Whether the loss has a meaning in bits: the data are a text, whose every letter is asked for. */
static bool has_bits(const struct config *config) {
    return config->data.source == SOURCE_TEXT;
}

static int add_bits(struct record *record, int slot, const char *name, const char *of,
                    struct err *err) {
    struct series series = {.slot = slot, .dims = "t", .equation = "loss/ln 2", .keep_runs = true};
    series.about = !strcmp(of, "loss") ? "loss in bits for each letter of the text"
                                       : "loss of the test inputs in bits for each letter";
    memcpy(series.name, name, strlen(name) + 1);
    return record_add(record, series, err);
}

/* A loss of the limit, and where there are bits the bits, are those of the mean of f. */
static int set_mean(struct record *record, const struct config *config, const char *loss,
                    const char *bits, const char *of, struct mean_loss_rows rows, struct err *err) {
    TRY(mean_loss_set(record, loss, of, &config->training, &rows, err));
    rows.scale = 1 / M_LN2;
    return has_bits(config) ? mean_loss_set(record, bits, of, &config->training, &rows, err)
                            : CODE_OK;
}

struct series outputs_f(const struct data_setup *data, int P) {
    size_t C = (size_t)data->C;
    bool tokens = data->per_token, several = C > 1;
    return (struct series){.name = "f",
                           .dims = tokens    ? several ? "t mu token c" : "t mu token"
                                   : several ? "t mu c"
                                             : "t mu",
                           .about = "output of the network, minus f(0) where centred",
                           .equation = "<w, h_top> / gamma0",
                           .shape = {0, (size_t)P, tokens ? (size_t)data->n : C, C},
                           .keep_runs = true};
}

int outputs_declare_first(struct record *record, const struct config *config, const struct net *net,
                          struct err *err) {
    const struct loss *loss = config->training.loss;
    bool of_mean = has_mean_loss(record, net);
    const struct series l = {
        .name = "loss",
        .dims = "t",
        .about = of_mean ? "mean over inputs of the loss l(f, y) of the mean f of all replicates, "
                           "by the jackknife"
                         : "mean over inputs of the loss l(f, y)",
        .equation = loss->equation,
        .tex = loss->tex,
        .keep_runs = true};
    struct series f = outputs_f(&net->setup.data, net->setup.data.P);
    f.inner = of_mean && record->no_inputs;
    const struct mean_loss_rows rows = {
        record->y, &net->setup.data, 0, net->setup.data.inputs, true, 1};
    TRY(record_fill_by(record, fill_loss, 0, 2, err));
    TRY(record_add(record, l, err));
    if (has_bits(config))
        TRY(add_bits(record, 1, "bits", "loss", err));
    TRY(record_fill_by(record, fill_f, 0, 1, err));
    TRY(record_add(record, f, err));
    return of_mean ? set_mean(record, config, "loss", "bits", "f", rows, err) : CODE_OK;
}

/* --- scores and test inputs ------------------------------------------------------------------ */

enum {
    ACCURACY,
    TOP,
    MARGIN,
    TEST_F,
    TEST_LOSS,
    TEST_ACCURACY,
    TEST_TOP,
    TEST_MARGIN,
    TEST_BITS,
    SLOTS
};

/* The score of inputs mu of the last evaluation, whose loss is known, or (NULL) of the inputs
 * first, first + 1, ..., to which f belongs. */
static struct score score_of(const struct measuring *m, const struct net *net, const int *mu,
                             int first, int count, const double *f) {
    const struct loss *loss = mu ? NULL : m->config->training.loss;
    int C = net->setup.data.C, each = net_outputs(net) / C;
    struct score score = {0};
    double space[C];
    for (ptrdiff_t i = 0; i < (ptrdiff_t)count * each; i++) {
        size_t input = (size_t)(mu ? mu[i / each] : first + i / each),
               asked = input * (size_t)each + (size_t)(i % each);
        score_add(&score, loss, C, m->config->output.top, f + i * C,
                  net_targets(&net->setup.data, m->y, asked, space),
                  net_weight(&net->setup.data, input));
    }
    return score;
}

static void put_scores(const struct score *score, double *right, double *top, double *margin) {
    if (right)
        *right = score->right / score->asked;
    if (top)
        *top = score->top / score->asked;
    if (margin)
        *margin = score->margin / score->asked;
}

static int fill_scores(const struct measuring *m, double *const *out, struct err *err) {
    const struct net *net = m->net;
    (void)err;
    if (out[ACCURACY]) {
        struct score score =
            score_of(m, net, net->batch.index, 0, net->setup.data.P, net->output.f);
        put_scores(&score, out[ACCURACY], out[TOP], out[MARGIN]);
    }
    return CODE_OK;
}

static double *place_of(const struct measuring *m, const char *name) {
    const struct series *series = record_find(m->record, name);
    return series ? record_at(m->record, series, m->run, m->t) : NULL;
}

int outputs_predict(const struct measuring *m, struct net *net, struct err *err) {
    int inputs = net->setup.data.inputs, tests = net->setup.data.tests;
    FREED(base_free) double *f = NULL;
    double *kept = place_of(m, "test_f");
    if (!tests || m->t % net->setup.measure.test_every)
        return CODE_OK;
    TRY(base_alloc(&f, (size_t)tests * (size_t)net_outputs(net), sizeof *f, err));
    TRY(net_predict(net, inputs, tests, f, err));
    struct score score = score_of(m, net, NULL, inputs, tests, f);
    put_scores(&score, place_of(m, "test_accuracy"), place_of(m, "test_top_accuracy"),
               place_of(m, "test_margin"));
    *place_of(m, "test_loss") = score.loss / score.rows;
    if (place_of(m, "test_bits"))
        *place_of(m, "test_bits") = score.loss / score.rows / M_LN2;
    if (kept)
        memcpy(kept, f, (size_t)tests * (size_t)net_outputs(net) * sizeof *f);
    return CODE_OK;
}

/* Accuracies jump, so they have neither normal errors nor a 1/N law. */
static int add_score(struct record *record, int slot, const char *name, const char *about,
                     const char *equation, struct err *err) {
    bool counted = slot != MARGIN && slot != TEST_MARGIN;
    struct series series = {.slot = slot,
                            .dims = "t",
                            .about = about,
                            .equation = equation,
                            .no_error_law = counted,
                            .counted = counted};
    memcpy(series.name, name, strlen(name) + 1);
    return record_add(record, series, err);
}

/* test_f is kept of one replicate, too: more may join a run that goes on. */
static int add_test_loss(struct record *record, const struct config *config, const struct net *net,
                         struct err *err) {
    const struct net_setup *setup = &net->setup;
    bool of_mean = has_mean_loss(record, net);
    size_t T = (size_t)record->T;
    int outputs = net_outputs(net);
    const struct series f = {.name = "test_f",
                             .slot = TEST_F,
                             .dims = "t output",
                             .about = "outputs at the test inputs",
                             .equation = "",
                             .shape = {T, (size_t)(setup->data.tests * outputs)},
                             .inner = true};
    const struct series loss = {
        .name = "test_loss",
        .slot = TEST_LOSS,
        .dims = "t",
        .about = of_mean ? "mean over test inputs of the loss of the mean f of all replicates, by "
                           "the jackknife; NaN where not evaluated"
                         : "mean over test inputs of the loss, NaN where not evaluated",
        .equation = "as loss",
        .keep_runs = true};
    if (record->y && !setup->N)
        TRY(record_add(record, f, err));
    TRY(record_add(record, loss, err));
    const struct mean_loss_rows rows = {record->y,         &setup->data, setup->data.inputs,
                                        setup->data.tests, false,        1};
    if (has_bits(config))
        TRY(add_bits(record, TEST_BITS, "test_bits", "test_loss", err));
    return of_mean ? set_mean(record, config, "test_loss", "test_bits", "test_f", rows, err)
                   : CODE_OK;
}

int outputs_declare_last(struct record *record, const struct config *config, const struct net *net,
                         struct err *err) {
    const struct net_setup *setup = &net->setup;
    bool top = config->output.top;
    const char *right = setup->data.C > 1 ? "share of rows of y whose class has the largest f"
                                          : "share of the inputs with y f > 0",
               *among = "share of rows of y whose class is among the K = top largest f",
               *margin = setup->data.C > 1 ? "f of the class - largest f of another" : "y f";
    TRY(record_fill_by(record, fill_scores, 0, SLOTS, err));
    if (setup->data.classes) {
        TRY(add_score(record, ACCURACY, "accuracy", "accuracy on the inputs trained on", right,
                      err));
        TRY(add_score(record, MARGIN, "margin", "mean margin of the inputs trained on", margin,
                      err));
    }
    if (setup->data.classes && top)
        TRY(add_score(record, TOP, "top_accuracy", "top-K accuracy on the inputs trained on", among,
                      err));
    if (!setup->data.tests)
        return CODE_OK;
    TRY(add_test_loss(record, config, net, err));
    if (setup->data.classes) {
        TRY(add_score(record, TEST_ACCURACY, "test_accuracy", "accuracy on the test inputs", right,
                      err));
        TRY(add_score(record, TEST_MARGIN, "test_margin", "mean margin of the test inputs", margin,
                      err));
    }
    if (setup->data.classes && top)
        TRY(add_score(record, TEST_TOP, "test_top_accuracy", "top-K accuracy on the test inputs",
                      among, err));
    return CODE_OK;
}
