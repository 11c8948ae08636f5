/* The loss, the outputs f and how well they answer, at the training and the test inputs. */
#define _XOPEN_SOURCE 700
#include "solver/measure/instrument.h"

/* The losses of a limit whose outputs do not fluctuate are those of its mean output, from two
 * replicates on (none: shapes). */
static bool has_mean_loss(const struct declaring *d) {
    return d->y && !d->net->setup.N && !d->net->gates.random && d->record->runs != 1;
}

/* --- loss and f ------------------------------------------------------------------------------ */

static int fill_loss(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    *out[0] = m->net->output.loss;
    if (out[1])
        *out[1] = m->net->output.loss / M_LN2;
    return CODE_OK;
}

static int fill_f(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    memcpy(out[0], m->net->output.f,
           (size_t)(m->net->batch.output_rows * m->net->setup.data.C) * sizeof *out[0]);
    return CODE_OK;
}

/* Whether the loss has a meaning in bits: the data are a text, whose every letter is asked for. */
static bool has_bits(const struct config *config) {
    return config->data.source == SOURCE_TEXT;
}

static int add_bits(const struct declaring *d, int slot, const char *name, const char *about,
                    struct err *err) {
    const struct series series = {
        .dims = "t", .about = about, .equation = "loss/ln 2", .keep_runs = true};
    return has_bits(d->config) ? series_add(d, slot, series, err, "%s", name) : CODE_OK;
}

/* A loss of the limit, and where there are bits the bits, are those of the mean of f. */
static int set_mean(const struct declaring *d, const char *loss, const char *bits, const char *of,
                    struct mean_loss_rows rows, struct err *err) {
    const struct training *training = &d->config->training;
    if (!has_mean_loss(d))
        return CODE_OK;
    TRY(mean_loss_set(d->record, loss, of, training, &rows, err));
    rows.scale = 1 / M_LN2;
    return has_bits(d->config) ? mean_loss_set(d->record, bits, of, training, &rows, err) : CODE_OK;
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

int outputs_declare_first(const struct declaring *d, struct err *err) {
    const struct loss *loss = d->config->training.loss;
    const struct data_setup *data = &d->net->setup.data;
    struct series f = outputs_f(data, data->P);
    f.inner = has_mean_loss(d) && d->record->no_inputs;
    TRY(record_fill_by(d->record, fill_loss, 0, 2, err));
    TRY(SERIES_ADD(d, 0, "loss", .dims = "t", .equation = loss->equation, .tex = loss->tex,
                   .about = has_mean_loss(d) ? "mean over inputs of the loss l(f, y) of the mean f "
                                               "of all replicates, by the jackknife"
                                             : "mean over inputs of the loss l(f, y)",
                   .keep_runs = true));
    TRY(add_bits(d, 1, "bits", "loss in bits for each letter of the text", err));
    TRY(record_fill_by(d->record, fill_f, 0, 1, err));
    TRY(series_add(d, 0, f, err, "f"));
    return set_mean(d, "loss", "bits", "f",
                    (struct mean_loss_rows){d->y, data, 0, data->inputs, true, 1}, err);
}

/* --- scores and test inputs ------------------------------------------------------------------ */

enum { ACCURACY, MARGIN, TOP, SCORES, TEST = SCORES, TEST_F = TEST + SCORES, TEST_LOSS, TEST_BITS };
/* What scores are about, of the inputs that are trained on and of the test inputs, and their
 * equations, with one output and with several. */
static const struct {
    const char *name, *about[2], *equation[2];
} scores[SCORES] = {
    {"accuracy",
     {"accuracy on the inputs trained on", "accuracy on the test inputs"},
     {"share of the inputs with y f > 0", "share of rows of y whose class has the largest f"}},
    {"margin",
     {"mean margin of the inputs trained on", "mean margin of the test inputs"},
     {"y f", "f of the class - largest f of another"}},
    {"top_accuracy",
     {"top-K accuracy on the inputs trained on", "top-K accuracy on the test inputs"},
     {"share of rows of y whose class is among the K = top largest f",
      "share of rows of y whose class is among the K = top largest f"}},
};

/* How well outputs answer: sums over rows of outputs f and targets y, [C] each, each input counting
 * with its weight. Where a row of y is one class (or, of one output, +-1), it is right if that is
 * the largest output (has the sign), and among the K largest; ties to the lower class. Its margin
 * is that output minus the largest other (of one output y f). A row of zeros asks for nothing. */
struct score {
    double loss, margin, rows, asked, right, top;
};

int outputs_class(int C, const double *y) {
    int class = -1;
    if (C == 1)
        return *y == 0 ? -1 : *y > 0;
    for (int c = 0; c < C; c++)
        if (y[c] > 0 && (class < 0 || y[c] > y[class]))
            class = c;
    return class;
}

/* Outputs before that of a class; and by how much it is above the largest of the others. */
static int count_before(int C, const double *f, int class, double *margin) {
    int before = 0, other = class == 0;
    for (int c = 0; c < C; c++) {
        before += f[c] > f[class] || (f[c] == f[class] && c < class);
        other = c != class && f[c] > f[other] ? c : other;
    }
    *margin = f[class] - f[other];
    return before;
}

/* loss NULL: the sum of losses, an exponential for each output, is not asked for. */
static void add_score(struct score *score, const struct loss *loss, int C, int K, const double *f,
                      const double *y, double weight) {
    double Delta[C], margin = 0;
    int class = outputs_class(C, y), place = -1;
    if (class >= 0 && C > 1) {
        place = count_before(C, f, class, &margin);
    } else if (class >= 0) {
        margin = *f * *y;
        place = margin > 0 ? 0 : C;
    }
    if (loss)
        score->loss += loss_weighted(loss, weight, C, f, y, Delta);
    score->margin += weight * margin;
    score->rows += weight;
    score->asked += place >= 0 ? weight : 0;
    score->right += place == 0 ? weight : 0;
    score->top += place >= 0 && place < K ? weight : 0;
}

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
        add_score(&score, loss, C, m->config->output.top, f + i * C,
                  net_targets(&net->setup.data, m->y, asked, space),
                  net_weight(&net->setup.data, input));
    }
    return score;
}

/* out [SCORES], NULL where a score is not asked for. */
static void put_scores(const struct score *score, double *const *out) {
    const double sum[SCORES] = {score->right, score->margin, score->top};
    for (int k = 0; k < SCORES; k++)
        if (out[k])
            *out[k] = sum[k] / score->asked;
}

static int fill_scores(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct net *net = m->net;
    if (out[ACCURACY]) {
        struct score score =
            score_of(m, net, net->batch.index, 0, net->setup.data.P, net->output.f);
        put_scores(&score, out);
    }
    return CODE_OK;
}

static double *place_of(const struct measuring *m, const char *name) {
    const struct series *series = record_find(m->record, name);
    return series ? record_at(m->record, series, m->run, m->t) : NULL;
}

int outputs_predict(const struct measuring *m, struct net *net, struct err *err) {
    int inputs = net->setup.data.inputs, tests = net->setup.data.tests;
    double *kept = place_of(m, "test_f");
    if (!tests || m->t % net->setup.measure.test_every)
        return CODE_OK;
    SCRATCH(double, f, (size_t)tests *(size_t)net_outputs(net));
    TRY(net_predict(net, inputs, tests, f, err));
    struct score score = score_of(m, net, NULL, inputs, tests, f);
    put_scores(&score, (double *const[]){place_of(m, "test_accuracy"), place_of(m, "test_margin"),
                                         place_of(m, "test_top_accuracy")});
    *place_of(m, "test_loss") = score.loss / score.rows;
    if (place_of(m, "test_bits"))
        *place_of(m, "test_bits") = score.loss / score.rows / M_LN2;
    if (kept)
        memcpy(kept, f, (size_t)tests * (size_t)net_outputs(net) * sizeof *f);
    return CODE_OK;
}

/* Accuracies jump, so they have neither normal errors nor a 1/N law. */
static int add_scores(const struct declaring *d, bool test, struct err *err) {
    for (int k = 0; k < SCORES && d->net->setup.data.classes; k++) {
        const struct series series = {.dims = "t",
                                      .about = scores[k].about[test],
                                      .equation = scores[k].equation[d->net->setup.data.C > 1],
                                      .no_error_law = k != MARGIN,
                                      .counted = k != MARGIN};
        if (k != TOP || d->config->output.top)
            TRY(series_add(d, (test ? TEST : 0) + k, series, err, "%s%s", test ? "test_" : "",
                           scores[k].name));
    }
    return CODE_OK;
}

/* test_f is kept of one replicate, too: more may join a run that goes on. */
static int add_test_loss(const struct declaring *d, struct err *err) {
    const struct data_setup *data = &d->net->setup.data;
    if (d->y && !d->net->setup.N)
        TRY(SERIES_ADD(d, TEST_F, "test_f", .dims = "t output", .equation = "", .inner = true,
                       .about = "outputs at the test inputs",
                       .shape = {0, (size_t)data->tests * (size_t)net_outputs(d->net)}));
    TRY(SERIES_ADD(d, TEST_LOSS, "test_loss", .dims = "t", .equation = "as loss", .keep_runs = true,
                   .about = has_mean_loss(d)
                                ? "mean over test inputs of the loss of the mean f of all "
                                  "replicates, by the jackknife; NaN where not evaluated"
                                : "mean over test inputs of the loss, NaN where not evaluated"));
    TRY(add_bits(d, TEST_BITS, "test_bits", "loss of the test inputs in bits for each letter",
                 err));
    return set_mean(d, "test_loss", "test_bits", "test_f",
                    (struct mean_loss_rows){d->y, data, data->inputs, data->tests, false, 1}, err);
}

int outputs_declare_last(const struct declaring *d, struct err *err) {
    TRY(record_fill_by(d->record, fill_scores, 0, TEST_BITS + 1, err));
    TRY(add_scores(d, false, err));
    if (!d->net->setup.data.tests)
        return CODE_OK;
    TRY(add_test_loss(d, err));
    return add_scores(d, true, err);
}
