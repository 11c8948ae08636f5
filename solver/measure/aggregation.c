/* The composite terms of "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable
 * Parameterization" (its figures 1 and Q.26, equations I.4 and I.6), in its notation:
 *
 *     s1 = x1   h2 = W2 s1   s2 = sigma(h2)   h3 = agg sum_i phi_i W3_i s2_i   f = W4 h3
 *
 * With 0 for t = 0 and d for the difference from it,
 *     h3 = A1 + A21 + A22 + A3
 *     A1  = agg sum phi W3_0 s2_0           A21 = agg sum phi W3_0 (sigma(W2_0 s1) - s2_0)
 *     A3  = agg sum phi dW3 s2              A22 = agg sum phi W3_0 (s2 - sigma(W2_0 s1))
 * and the gradient of f with respect to s1
 *     b = W3^T W4^T                         b00 + b0d + bd0 + bdd: W3_0 or dW3, W4_0 or dW4
 *     experts: A4 + A5 + A6 + E             W2_0 or dW2 times g2 of W3_0 or dW3; A4: both initial,
 *                                           A5: W2_0, dW3; A6: dW2, W3_0; E: both learned
 *                                           g2 = agg phi sigma'(h2) b
 *     router:  R00 + R0d + Rd0 + Rdd        Q0 or dQ, then W3_0 or dW3
 *     I6: W2_0^T g2_0 (init) + W2_0^T dg2 (prop) + dW2^T g2 (eff)
 * Of each the root of the mean square over entries, experts and inputs is kept. Gradients are
 * multiplied by the width (df/dphi by 1/agg), which makes them cotangents over gamma0, and b is
 * multiplied by what the network says. All follow from replays of the network between s1 and h3. In
 * the limit there is h3 alone. */
#include "solver/measure/aggregation_terms.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name, *about, *equation;
} term[TERMS] = {
    {"h3", "output of the mixture", "A1 + A21 + A22 + A3"},
    {"h3_delta", "its change", "h3 - h3_0"},
    {"h3i_init", "output of one expert, initial", "W3_0 s2_0"},
    {"h3i_prop", "output of one expert, propagating", "W3_0 ds2"},
    {"h3i_eff", "output of one expert, effective", "dW3 s2"},
    {"A1", "aggregated: initial", "agg sum phi W3_0 s2_0"},
    {"A21", "aggregated: propagating from the bottom", "agg sum phi W3_0 (sigma(W2_0 s1) - s2_0)"},
    {"A22", "aggregated: propagating from W2", "agg sum phi W3_0 (s2 - sigma(W2_0 s1))"},
    {"A3", "aggregated: effective", "agg sum phi dW3 s2"},
    {"b_00", "gradient at the hidden units", "W3_0^T W4_0"},
    {"b_d0", "gradient at the hidden units", "dW3^T W4_0"},
    {"b_0d", "gradient at the hidden units", "W3_0^T dW4"},
    {"b_dd", "gradient at the hidden units", "dW3^T dW4"},
    {"dphi_init", "gradient of the gates, W3_0", "(b_00 + b_0d) s2"},
    {"dphi_upd", "gradient of the gates, dW3", "(b_d0 + b_dd) s2"},
    {"dphi", "gradient of the gates", "b s2"},
    {"A4", "gradient through the experts", "N sum W2_0^T g2[W3_0]"},
    {"A6", "gradient through the experts", "N sum dW2^T g2[W3_0]"},
    {"A5", "gradient through the experts", "N sum W2_0^T g2[dW3]"},
    {"E", "gradient through the experts", "N sum dW2^T g2[dW3]"},
    {"d1e", "gradient through the experts", "A4 + A5 + A6 + E"},
    {"R00", "gradient through the router", "N Q0^T dpsi[W3_0]"},
    {"Rd0", "gradient through the router", "N dQ^T dpsi[W3_0]"},
    {"R0d", "gradient through the router", "N Q0^T dpsi[dW3]"},
    {"Rdd", "gradient through the router", "N dQ^T dpsi[dW3]"},
    {"d1r", "gradient through the router", "R00 + R0d + Rd0 + Rdd"},
    {"I6_init", "backward aggregation, initial", "N sum W2_0^T g2_0"},
    {"I6_prop", "backward aggregation, propagating", "N sum W2_0^T dg2"},
    {"I6_eff", "backward aggregation, effective", "N sum dW2^T g2"},
};

static bool signal_exists(const struct net *net, int k) {
    bool router = (k >= DPHI_INIT && k <= DPHI) || (k >= R00 && k <= D1R);
    return aggregation_mixture(net)->rows && (!router || aggregation_mixture(net)->phi >= 0) &&
           (net->setup.N || k <= H3_DELTA);
}

int aggregation_declare(struct record *record, const struct net *net, record_fill *fill,
                        struct err *err) {
    if (aggregation_mixture(net)->rows)
        TRY(record_fill_by(record, fill, 0, TERMS, err));
    for (int k = 0; k < TERMS; k++) {
        struct series series = {.slot = k,
                                .dims = "t",
                                .about = term[k].about,
                                .equation = term[k].equation,
                                .axes = 1,
                                .shape = {(size_t)record->T}};
        snprintf(series.name, sizeof series.name, "rms_%s", term[k].name);
        if (signal_exists(net, k))
            TRY(record_add(record, series, err));
    }
    return CODE_OK;
}

/* --- arithmetic ------------------------------------------------------------------------------ */

double aggregation_square(struct rows x) {
    double square, sum = 0;
    for (int k = 0; k < x.count; k++) {
        struct rows row = rows_part(x, k, 1);
        x.array->backend->averages(row, row, &square);
        sum += square / x.count;
    }
    return sum;
}

void aggregation_subtract(struct rows x, struct rows y) {
    static const double minus = -1;
    for (int k = 0; k < x.count; k++)
        rows_add(&minus, rows_part(x, k, 1), rows_part(y, k, 1));
}

const struct mixture *aggregation_mixture(const struct net *net) {
    return &net->program->mixture;
}

int aggregation_h3(const struct net *net) {
    const struct node *node = net->program->node;
    int h3 = node[net->program->read_out].argument[0], x = node[h3].argument[0];
    return x >= 0 && node[h3].per < node[x].per ? x : h3;
}

double aggregation_rms(struct rows x) {
    return sqrt(aggregation_square(x));
}

void aggregation_give(struct aggregation_check *c, const struct net *net, const int *list) {
    for (int k = list[0] < 0; k < c->nodes; k++)
        replay_give(&c->replay, net, list[k]);
}

/* --- measuring ------------------------------------------------------------------------------- */

static int begin_check(struct aggregation_check *c, const struct net *net, struct err *err) {
    const struct program *p = net->program;
    const struct mixture *a = aggregation_mixture(net);
    const struct array *h3 = p->node[aggregation_h3(net)].value.array,
                       *x1 = p->node[a->x1].value.array;
    TRY(array_keep(&c->h3, p->node[aggregation_h3(net)].value, err));
    if (!net->setup.N)
        return CODE_OK;
    c->nodes = 1 + a->rows;
    size_t nodes = (size_t)c->nodes;
    TRY(base_alloc(&c->h, 2 * nodes, sizeof *c->h, err));
    TRY(base_alloc(&c->start, 3 * nodes, sizeof *c->start, err));
    c->s2 = c->h + nodes;
    c->part[0] = c->start + nodes;
    c->part[1] = c->start + 2 * nodes;
    c->h[0] = c->s2[0] = a->phi;
    for (int k = 1; k < c->nodes; k++) {
        const struct node *v = &p->node[a->s2[k - 1]];
        c->s2[k] = a->s2[k - 1];
        c->h[k] = v->op->function ? v->argument[0] : c->s2[k];
        TRY(array_keep(&c->start[k].rows, v->value, err));
    }
    TRY(array_keep(&c->w, array_all(&p->node[p->read_out].matrix.thin->W), err));
    assert(h3->sites == x1->sites);
    TRY(array_init(&c->work, h3->backend, h3->sites, h3->group, 3 * net->batch.rows, err));
    return replay_init(&c->replay, net, a->x1, aggregation_h3(net), err);
}

int aggregation_fill(struct aggregation_check *c, const struct net *net, int t, double *const *out,
                     struct err *err) {
    double value[TERMS] = {0};
    if (t == 0)
        TRY(begin_check(c, net, err));
    struct rows h3 = net->program->node[aggregation_h3(net)].value;
    struct array change = {0};
    value[H3] = aggregation_rms(h3);
    TRY(array_keep(&change, h3, err));
    aggregation_subtract(array_all(&c->h3), array_all(&change));
    value[H3_DELTA] = aggregation_rms(array_all(&change));
    array_free(&change);
    if (net->setup.N) {
        TRY(aggregation_forward(c, net, value, err));
        for (int k = 1; k < c->nodes; k++)
            TRY(aggregation_experts(c, net, k, value, err));
        for (int k = H3I_INIT; k <= H3I_EFF; k++)
            value[k] = sqrt(value[k]);
        TRY(aggregation_backward(c, net, t, value, err));
    }
    for (int k = 0; k < TERMS; k++)
        if (out[k])
            *out[k] = value[k];
    return CODE_OK;
}

/* Rows alone are kept of nodes: all of them have rows. */
int aggregation_archive(struct aggregation_check *c, const struct net *net, struct archive *archive,
                        struct err *err) {
    const struct backend *backend = net->setup.backend;
    const struct program *p = net->program;
    if (!aggregation_mixture(net)->rows)
        return CODE_OK;
    if (archive_reads(archive))
        TRY(begin_check(c, net, err));
    TRY(archive_array(archive, &c->h3, backend, err));
    TRY(archive_expect_like(archive, &c->h3, p->node[aggregation_h3(net)].value, err));
    TRY(archive_array(archive, &c->w, backend, err));
    TRY(archive_array(archive, &c->back, backend, err));
    if (net->setup.N) {
        TRY(archive_expect_like(archive, &c->w, array_all(&p->node[p->read_out].matrix.thin->W),
                                err));
        TRY(archive_expect(archive, &c->back, c->work.sites, c->work.group, net->batch.rows, err));
    }
    for (int k = 1; k < c->nodes; k++) {
        TRY(archive_array(archive, &c->start[k].rows, backend, err));
        TRY(archive_expect_like(archive, &c->start[k].rows, p->node[c->s2[k]].value, err));
    }
    return c->nodes ? replay_archive(&c->replay, archive, err) : CODE_OK;
}

void aggregation_free(struct aggregation_check *c) {
    for (int k = 0; k < 3 * c->nodes && c->start; k++) {
        array_free(&c->start[k].rows);
        free(c->start[k].s);
    }
    free(c->start);
    free(c->h);
    replay_free(&c->replay);
    array_free(&c->h3);
    array_free(&c->w);
    array_free(&c->back);
    array_free(&c->work);
    *c = (struct aggregation_check){0};
}
