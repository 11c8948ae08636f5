/* What experts do: [output] experts. Of every router, whose gates are rows over many experts or
 * numbers of a fixed number of them: what the expert tells of the input, which inputs have experts
 * in common, who has the largest share, and the order statistics of the logits. All experts of all
 * runs count, not a sample of them.
 *
 * Gates phi of one input are turned into shares q that add up to 1, |phi| over the sum of them: the
 * limit's many experts are its sites, and a sum over them is the same number whatever their number
 * is. An input whose gates are all 0 has no part in these. */
#include "solver/measure/instrument.h"
#include "models/engine/node.h"

#include <gsl/gsl_sort_double.h>

/* Many experts show their 2^k-th largest logit, k < PLACES; a fixed number shows all of them. */
enum { PLACES = 12, AXES_LENGTH = 128 };
enum quantity {
    INFORMATION,
    OF_CLASS,
    OF_TOKEN,
    OVERLAP,
    COSELECTION,
    DEAD,
    SHARE,
    LARGEST,
    INPUT_SHARE,
    INPUT_LARGEST,
    LOGITS,
    CORRELATION,
    QUANTITIES
};
enum form { ONCE, ROWS, PAIRS, ORDER, MEMBERS };
static const struct {
    const char *name, *about, *equation;
    enum form form;
    bool no_error_law, runs_alone;
} quantities[QUANTITIES] = {
    {"expert_information", "mutual information of expert and input, in nats",
     "mean over inputs of sum_i q_i ln(q_i/mean q_i), q = |phi|/sum |phi|", ONCE, false, false},
    {"expert_information_class", "mutual information of expert and class, in nats",
     "sum over classes c of p_c sum_i q_c,i ln(q_c,i/mean q_i), q_c the mean over the class", ONCE,
     false, false},
    {"expert_information_token", "mutual information of expert and kind of token, in nats",
     "sum over kinds v of p_v sum_i q_v,i ln(q_v,i/mean q_i), q_v the mean over the kind", ONCE,
     false, false},
    {"expert_overlap", "overlap of the gates of two inputs, 1 where they are alike",
     "<phi_mu phi_nu>/(<phi_mu phi_mu><phi_nu phi_nu>)^1/2", PAIRS, false, false},
    {"expert_coselection", "share of the experts of one input that another one is routed to",
     "<m_mu m_nu>/(<m_mu><m_nu>)^1/2, m = 1 where phi is not 0", PAIRS, false, false},
    {"expert_dead", "share of the experts that have less than a hundredth of the average share",
     "mean over experts of [M mean over inputs of q_i < 0.01]", ONCE, true, false},
    {"expert_share", "share of the largest expert", "max_i mean over inputs of q_i", ONCE, true,
     false},
    {"expert_largest", "number of the largest expert", "argmax_i mean over inputs of q_i", ONCE,
     true, true},
    {"expert_share_of_input", "share of the largest expert of an input", "max_i q_i", ROWS, true,
     false},
    {"expert_of_input", "number of the largest expert of an input", "argmax_i q_i", ROWS, true,
     true},
    {"expert_logits", "order statistics of the logits", NULL, ORDER, true, false},
    {"expert_correlation", "correlation of the outputs of two experts",
     "<x_i x_j>/(<x_i x_i><x_j x_j>)^1/2, 0 where one of them puts nothing out", MEMBERS, false,
     false},
};

/* Adds the rows of label l, divided by their number, which is returned. */
static int mean_of(const double *q, int rows, size_t M, const int *label, int l, double *mean) {
    int count = 0;
    memset(mean, 0, M * sizeof *mean);
    for (int r = 0; r < rows; r++)
        if (label[r] == l) {
            count++;
            for (size_t i = 0; i < M; i++)
                mean[i] += q[(size_t)r * M + i];
        }
    for (size_t i = 0; i < M && count; i++)
        mean[i] /= count;
    return count;
}

double specialisation_information(const double *q, int rows, size_t M, const int *label, int labels,
                                  double *scratch) {
    double *all = scratch + (size_t)labels * M, value = 0;
    int total = 0;
    memset(all, 0, M * sizeof *all);
    for (int l = 0; l < labels; l++) {
        double *mean = scratch + (size_t)l * M;
        int count = mean_of(q, rows, M, label, l, mean);
        total += count;
        for (size_t i = 0; i < M; i++)
            all[i] += count * mean[i];
    }
    for (int l = 0; l < labels; l++) {
        const double *mean = scratch + (size_t)l * M;
        double sum = 0;
        int count = 0;
        for (int r = 0; r < rows; r++)
            count += label[r] == l;
        for (size_t i = 0; i < M; i++)
            sum += mean[i] > 0 ? mean[i] * log(mean[i] * total / all[i]) : 0;
        value += total ? count * sum / total : 0;
    }
    return value;
}

static size_t largest_of(const double *x, size_t count) {
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        largest = x[i] > x[largest] ? i : largest;
    return largest;
}

/* Products [n][n], of which those below the diagonal are there, become correlations: over the root
 * of the squares on the diagonal, and 0 where one of these is 0. */
static void make_correlations(double *products, int n) {
    for (ptrdiff_t a = 0; a < n; a++)
        for (ptrdiff_t b = 0; b < a; b++) {
            double both = products[a * n + a] * products[b * n + b],
                   one = both > 0 ? products[a * n + b] / sqrt(both) : 0;
            products[a * n + b] = products[b * n + a] = one;
        }
    for (ptrdiff_t a = 0; a < n; a++)
        products[a * n + a] = products[a * n + a] > 0;
}

/* <x_mu x_nu> over the root of the squares; selected: of whether x is not 0. */
static void overlap_of(const double *x, int rows, size_t M, bool selected, double *out) {
    for (ptrdiff_t a = 0; a < rows; a++)
        for (int b = 0; b <= a; b++) {
            double ab = 0;
            for (size_t i = 0; i < M; i++) {
                double u = x[(size_t)a * M + i], v = x[(size_t)b * M + i];
                ab += selected ? u != 0 && v != 0 : u * v;
            }
            out[a * rows + b] = ab;
        }
    make_correlations(out, rows);
}

/* --- what routers have ----------------------------------------------------------------------- */

static size_t experts_of(const struct net *net, const struct net_router *router) {
    return router->M ? (size_t)router->M : net->program->node[router->phi].on->sites;
}

/* Inputs, or tokens, that the router has gates of. */
static int rows_of(const struct net *net, const struct net_router *router) {
    const struct node *v = &net->program->node[router->phi];
    return net->setup.data.P * v->per;
}

static bool has_quantity(const struct net *net, const struct net_router *router, enum quantity k) {
    switch (k) {
    case OF_CLASS:
        return net->setup.data.classes &&
               (!net->setup.data.per_token || rows_of(net, router) == net->setup.data.P ||
                rows_of(net, router) == net->batch.rows);
    case OF_TOKEN:
        return net->setup.data.token && rows_of(net, router) == net->batch.rows;
    case COSELECTION:
        return router->selects;
    case LOGITS:
        return router->psi >= 0;
    case CORRELATION:
        return router->output != NULL;
    default:
        return true;
    }
}

/* Values of a node, x [rows][M]; one row that serves all is repeated. */
static void take_values(const struct net *net, int node, int rows, size_t M, double *x) {
    const struct node *v = &net->program->node[node];
    if (v->on)
        net->setup.backend->get(v->value, x);
    else
        memcpy(x, v->s, (size_t)v->count * M * sizeof *x);
    for (int r = 1; r < rows && v->count == 1; r++)
        memcpy(x + (size_t)r * M, x, M * sizeof *x);
}

/* x becomes shares; label [rows] = the number of the row, -1 where all gates are 0. */
static void make_shares(double *x, int rows, size_t M, int *label) {
    for (int r = 0; r < rows; r++) {
        double *q = x + (size_t)r * M, sum = 0;
        for (size_t i = 0; i < M; i++)
            sum += q[i] = fabs(q[i]);
        for (size_t i = 0; i < M && sum > 0; i++)
            q[i] /= sum;
        label[r] = sum > 0 ? r : -1;
    }
}

/* Labels of the rows that have gates: classes of inputs (or tokens), or kinds of tokens. */
static int label_rows(const struct measuring *m, enum quantity k, int rows, const int *own,
                      int *label) {
    const struct net *net = m->net;
    const struct net_setup *setup = &net->setup;
    double space[setup->data.C];
    int per = rows / setup->data.P, answers = setup->data.per_token ? setup->data.n : 1;
    for (int r = 0; r < rows; r++) {
        int mu = r / per, answer = per > 1 && answers > 1 ? r % per : 0;
        size_t asked = (size_t)net->batch.index[mu] * (size_t)answers + (size_t)answer;
        const double *y = net_targets(&setup->data, m->y, asked, space);
        label[r] = own[r] < 0      ? -1
                   : k == OF_CLASS ? outputs_class(setup->data.C, y)
                                   : net->batch.token[r];
    }
    return k == OF_TOKEN ? setup->data.V : setup->data.C == 1 ? 2 : setup->data.C;
}

/* What the mean over inputs, q [M], says. */
static void fill_mean(const double *q, size_t M, double *const *out) {
    size_t dead = 0, largest = largest_of(q, M);
    for (size_t i = 0; i < M; i++)
        dead += q[i] * (double)M < 0.01;
    *out[DEAD] = (double)dead / (double)M;
    *out[SHARE] = q[largest];
    *out[LARGEST] = (double)largest;
}

static int fill_shares(const struct measuring *m, const double *q, int rows, size_t M,
                       const int *own, double *const *out, struct err *err) {
    const struct net_setup *setup = &m->net->setup;
    int most = rows > setup->data.C + 1 ? rows : setup->data.C + 1;
    most = setup->data.V > most ? setup->data.V : most;
    SCRATCH(int, label, (size_t)rows);
    SCRATCH(double, scratch, ((size_t)most + 1) * M);
    for (enum quantity k = OF_CLASS; k <= OF_TOKEN; k++)
        if (out[k]) {
            int labels = label_rows(m, k, rows, own, label);
            *out[k] = specialisation_information(q, rows, M, label, labels, scratch);
        }
    *out[INFORMATION] = specialisation_information(q, rows, M, own, rows, scratch);
    for (int r = 0; r < rows; r++) {
        size_t largest = largest_of(q + (size_t)r * M, M);
        out[INPUT_SHARE][r] = q[(size_t)r * M + largest];
        out[INPUT_LARGEST][r] = (double)largest;
        label[r] = own[r] < 0 ? -1 : 0;
    }
    mean_of(q, rows, M, label, 0, scratch);
    fill_mean(scratch, M, out);
    return CODE_OK;
}

/* x [rows][M] logits, which are sorted. */
static void fill_logits(double *x, int rows, size_t M, bool all, double *out) {
    for (int r = 0; r < rows; r++) {
        double *psi = x + (size_t)r * M;
        size_t places = all ? M : PLACES;
        gsl_sort(psi, 1, M);
        for (size_t k = 0; k < places; k++) {
            size_t place = all ? k + 1 : (size_t)1 << k;
            out[(size_t)r * places + k] = place <= M ? psi[M - place] : NAN;
        }
    }
}

/* out [rows][M][M] of outputs, rows over one population. */
static int fill_correlation(const struct net *net, const struct net_router *router, double *out,
                            struct err *err) {
    const struct node *node = net->program->node;
    int M = router->M, rows = node[router->output[0]].value.count;
    SCRATCH(double, products, (size_t)rows);
    for (int i = 0; i < M; i++)
        for (int j = 0; j <= i; j++) {
            struct rows a = node[router->output[i]].value, b = node[router->output[j]].value;
            net->setup.backend->averages(a, b, products);
            for (ptrdiff_t r = 0; r < rows; r++)
                out[(r * M + i) * M + j] = products[r];
        }
    for (ptrdiff_t r = 0; r < rows; r++)
        make_correlations(out + (size_t)(r * M * M), M);
    return CODE_OK;
}

/* item: the router. */
static int fill(const struct measuring *m, double *const *out, struct err *err) {
    const struct net *net = m->net;
    const struct net_router *router = &net->routers.item[m->item];
    size_t M = experts_of(net, router);
    int rows = rows_of(net, router);
    SCRATCH(double, x, (size_t)rows *M);
    SCRATCH(int, own, (size_t)rows);
    if (out[LOGITS]) {
        take_values(net, router->psi, rows, M, x);
        fill_logits(x, rows, M, router->M > 0, out[LOGITS]);
    }
    take_values(net, router->phi, rows, M, x);
    overlap_of(x, rows, M, false, out[OVERLAP]);
    if (out[COSELECTION])
        overlap_of(x, rows, M, true, out[COSELECTION]);
    make_shares(x, rows, M, own);
    TRY(fill_shares(m, x, rows, M, own, out, err));
    if (out[CORRELATION])
        TRY(fill_correlation(net, router, out[CORRELATION], err));
    return CODE_OK;
}

/* Adds the axes behind the first one: of `rows` rows of inputs or tokens, and of what the form has
 * of each. Axes of experts carry the name of their router, as two of them may have different
 * numbers. dims: room for their names. */
static void add_axes(const struct net *net, const struct net_router *router, enum form form,
                     int rows, struct series *series, char dims[AXES_LENGTH]) {
    size_t M = experts_of(net, router), P = (size_t)net->setup.data.P, *shape = series->shape + 1;
    bool tokens = rows > net->setup.data.P, few = router->M > 0, alone = form == ONCE || rows == 1;
    const char *mu = alone ? "" : tokens ? " mu token" : " mu", *s = router->suffix;
    series->dims = dims;
    if (form == PAIRS) {
        snprintf(dims, AXES_LENGTH, "t %s", tokens ? "row column" : "mu nu");
        *shape++ = (size_t)rows;
        *shape++ = (size_t)rows;
        return;
    }
    if (!alone)
        *shape++ = P;
    if (!alone && tokens)
        *shape++ = (size_t)rows / P;
    if (form == ORDER) {
        snprintf(dims, AXES_LENGTH, few ? "t%s place%.32s" : "t%s place_2", mu, s);
        *shape++ = few ? M : PLACES;
    } else if (form == MEMBERS) {
        snprintf(dims, AXES_LENGTH, "t%s expert%.32s other%.32s", mu, s, s);
        *shape++ = M;
        *shape++ = M;
    } else {
        snprintf(dims, AXES_LENGTH, "t%s", mu);
    }
}

static int add_quantity(const struct declaring *d, const struct net_router *router, enum quantity k,
                        struct err *err) {
    int rows =
        k == CORRELATION ? d->net->program->node[router->output[0]].count : rows_of(d->net, router);
    bool smooth = k == OVERLAP || k == CORRELATION;
    const char *order = router->M ? "the 1st, 2nd, ... largest psi" : "the 2^k-th largest psi";
    char dims[AXES_LENGTH];
    struct series series = {.about = quantities[k].about,
                            .equation = k == LOGITS ? order : quantities[k].equation,
                            .no_error_law = quantities[k].no_error_law,
                            .runs_alone = quantities[k].runs_alone,
                            .counted = k == DEAD || (router->selects && !smooth && k != LOGITS),
                            .left_out = router->selects && smooth};
    add_axes(d->net, router, quantities[k].form, rows, &series, dims);
    return series_add(d, k, series, err, "%s%s", quantities[k].name, router->suffix);
}

int specialisation_declare(const struct declaring *d, struct err *err) {
    for (int r = 0; r < d->net->routers.count && d->config->output.experts; r++) {
        TRY(record_fill_by(d->record, fill, r, QUANTITIES, err));
        for (enum quantity k = 0; k < QUANTITIES; k++)
            if (has_quantity(d->net, &d->net->routers.item[r], k))
                TRY(add_quantity(d, &d->net->routers.item[r], k, err));
    }
    return CODE_OK;
}
