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
 * multiplied by what the network says. In the limit there is h3 alone. */
#include "solver/measure/coordinate.h"

static const struct series_text term[TERMS] = {
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
    return net->program->mixture.rows && (!router || net->program->mixture.phi >= 0) &&
           (net->setup.N || k <= H3_DELTA);
}

int aggregation_matrices(const struct net *net) {
    return net->setup.N && net->program->mixture.rows ? 5 : 0; /* W2, W3, their changes, scratch */
}

int aggregation_declare(const struct declaring *d, record_fill *fill, struct err *err) {
    if (d->net->program->mixture.rows)
        TRY(record_fill_by(d->record, fill, 0, TERMS, err));
    for (int k = 0; k < TERMS; k++) {
        const struct series series = {.dims = "t", SERIES_TEXT(term[k])};
        if (signal_exists(d->net, k))
            TRY(series_add(d, k, series, err, "rms_%s", term[k].name));
    }
    return CODE_OK;
}

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

/* What the read-out reads, before its tokens are pooled. */
static struct rows find_h3(const struct net *net) {
    const struct node *node = net->program->node;
    int h3 = node[net->program->read_out].argument[0], x = node[h3].argument[0];
    return node[x >= 0 && node[h3].per < node[x].per ? x : h3].value;
}

static int begin_check(struct aggregation_check *check, const struct net *net, struct err *err) {
    size_t count = (size_t)net->batch.rows * (size_t)net->setup.N;
    TRY(array_keep(&check->h3, find_h3(net), err));
    TRY(base_alloc(&check->x1, count, sizeof *check->x1, err));
    return base_alloc(&check->back, count, sizeof *check->back, err);
}

int aggregation_fill(struct aggregation_check *check, const struct net *net,
                     const struct coordinate_matrix *start, int t, double *const *out,
                     struct err *err) {
    double value[TERMS] = {0};
    struct rows h3 = find_h3(net);
    FREED(array_free) struct array change = {0};
    if (t == 0)
        TRY(begin_check(check, net, err));
    TRY(array_keep(&change, h3, err));
    aggregation_subtract(array_all(&check->h3), array_all(&change));
    value[H3] = sqrt(aggregation_square(h3));
    value[H3_DELTA] = sqrt(aggregation_square(array_all(&change)));
    if (net->setup.N)
        TRY(aggregation_terms(check, net, start, t == 0, value, err));
    for (int k = 0; k < TERMS; k++)
        if (out[k])
            *out[k] = value[k];
    return CODE_OK;
}

int aggregation_archive(struct aggregation_check *check, const struct net *net,
                        struct archive *archive, struct err *err) {
    size_t count = (size_t)net->batch.rows * (size_t)net->setup.N;
    if (!net->program->mixture.rows)
        return CODE_OK;
    TRY(archive_array(archive, &check->h3, net->setup.backend, err));
    TRY(archive_expect_like(archive, &check->h3, find_h3(net), err));
    TRY(archive_list(archive, &check->x1, count, sizeof *check->x1, err));
    TRY(archive_list(archive, &check->back, count, sizeof *check->back, err));
    bool missing = net->setup.N && (!check->x1 || !check->back);
    return archive_reads(archive) && missing
               ? archive_misfit(archive, "numbers of the coordinate check are missing", err)
               : CODE_OK;
}

void aggregation_free(struct aggregation_check *check) {
    free(check->x1);
    free(check->back);
    array_free(&check->h3);
    *check = (struct aggregation_check){0};
}
