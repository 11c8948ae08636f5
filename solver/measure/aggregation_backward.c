/* The coordinate check of experts, backward: gradients at the hidden units, of the gates, and
 * through experts and router. */
#include "solver/measure/aggregation_terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The node of the replay that has the cotangent of node i. */
static const struct node *cotangent_of(const struct aggregation_check *c, int i) {
    return node_cotangent(&c->replay.program, &c->replay.program.node[i]);
}

/* A cotangent, which may be numbers, becomes a kept one. */
static int keep_cotangent(const struct node *g, struct piece *kept, struct err *err) {
    size_t count = node_numbers(g);
    if (g->on)
        return array_keep(&kept->rows, g->value, err);
    if (!kept->s)
        TRY(base_alloc(&kept->s, count, sizeof *kept->s, err));
    memcpy(kept->s, g->s, count * sizeof *kept->s);
    return CODE_OK;
}

/* The cotangents become kept ones, or (minus) lose them. */
static void put_cotangents(const struct node *g, const struct piece *kept, bool minus) {
    size_t count = g->on ? 0 : node_numbers(g);
    if (g->on && minus)
        aggregation_subtract(array_all(&kept->rows), g->value);
    else if (g->on)
        rows_copy(array_all(&kept->rows), g->value);
    for (size_t k = 0; k < count; k++)
        g->s[k] = minus ? g->s[k] - kept->s[k] : kept->s[k];
}

/* Rms over nodes first ... end - 1 of the list of their cotangents, over gamma0. */
static double rms_of(const struct aggregation_check *c, const int *list, int first, int end) {
    double sum = 0, gamma0 = c->replay.view.setup.gamma0;
    for (int k = first; k < end; k++) {
        const struct node *g = cotangent_of(c, list[k]);
        int count = g->on ? 0 : g->count * g->K;
        sum += g->on ? aggregation_square(g->value) : 0;
        for (int i = 0; i < count; i++)
            sum += g->s[i] * g->s[i] / count;
    }
    return sqrt(sum / (end - first)) / gamma0;
}

/* From the cotangent w of h3; or, of several outputs or tokens, sum_c Delta_c w_c. */
static int from_top(struct aggregation_check *c, const struct net *net, bool initial, struct rows w,
                    struct err *err) {
    int h3 = aggregation_h3(net);
    int C = net->setup.data.C, each = net->batch.rows / net->batch.output_rows;
    double *Delta;
    TRY(base_alloc(&Delta, (size_t)(net->batch.rows * C), sizeof *Delta, err));
    for (int k = 0; k < net->batch.rows * C; k++)
        Delta[k] =
            net->output.loss_in_cotangent ? net->output.Delta[k / C / each * C + k % C] / each : 1;
    replay_node(&c->replay, h3);
    net->setup.backend->combine(cotangent_of(c, h3)->value, 0, Delta, w);
    free(Delta);
    return replay_backward(&c->replay, initial, err);
}

/* b, which has no gates, with W4(0) or its change. */
static int find_hidden(struct aggregation_check *c, const struct net *net, struct rows w,
                       double *value, struct err *err) {
    double scale = aggregation_mixture(net)->scale;
    for (int now = 0; now < 2; now++) {
        replay_begin(&c->replay, net);
        aggregation_give(c, net, c->s2);
        struct node *phi = c->s2[0] < 0 ? NULL : &c->replay.program.node[c->s2[0]];
        if (phi && phi->on) {
            rows_zero(phi->value);
            net->setup.backend->pointwise(FN_LINEAR, NULL, net->output.ones, phi->value, phi->value,
                                          (struct rows){0});
        }
        for (int k = 0; phi && !phi->on && k < phi->count * phi->K; k++)
            phi->s[k] = 1;
        TRY(replay_forward(&c->replay, !now, aggregation_h3(net), err));
        TRY(from_top(c, net, !now, w, err));
        for (int k = 1; k < c->nodes; k++) {
            const struct node *g = cotangent_of(c, c->s2[k]);
            if (now)
                put_cotangents(g, &c->part[0][k], true);
            else
                TRY(keep_cotangent(g, &c->part[0][k], err));
        }
        value[now] = scale * rms_of(c, c->s2, 1, c->nodes);
    }
    return CODE_OK;
}

/* Cotangents of the gates and of h2 through W3(0), and through its change. */
static int find_gradients(struct aggregation_check *c, const struct net *net, double *value,
                          struct err *err) {
    int first = c->h[0] < 0;
    struct rows w = array_all(&net->program->node[net->program->read_out].matrix.thin->W);
    for (int now = 0; now < 2; now++) {
        replay_begin(&c->replay, net);
        aggregation_give(c, net, c->h);
        TRY(replay_forward(&c->replay, !now, aggregation_h3(net), err));
        TRY(from_top(c, net, !now, w, err));
        if (!first)
            value[now ? DPHI : DPHI_INIT] = rms_of(c, c->h, 0, 1);
        for (int k = first; k < c->nodes; k++) {
            const struct node *g = cotangent_of(c, c->h[k]);
            if (now)
                put_cotangents(g, &c->part[0][k], true);
            TRY(keep_cotangent(g, &c->part[now][k], err));
        }
    }
    if (!first)
        value[DPHI_UPD] = rms_of(c, c->h, 0, 1);
    return CODE_OK;
}

/* From nodes first ... end - 1 to x1: value[0 ... 3] of W(0), dW with both parts, then of the sum.
 * The work rows become what W(0) and what W hands back of both. */
static int find_paths(struct aggregation_check *c, const struct net *net, int first, int end,
                      double *value, struct err *err) {
    int x1 = aggregation_mixture(net)->x1, P = net->batch.rows;
    struct rows g = cotangent_of(c, x1)->value, sum[2], before = array_rows(&c->work, 2 * P, P);
    double gamma0 = net->setup.gamma0;
    for (int k = 0; k < 2; k++) {
        sum[k] = array_rows(&c->work, k * P, P);
        rows_zero(sum[k]);
    }
    for (int part = 0; part < 2; part++)
        for (int now = 0; now < 2; now++) {
            replay_begin(&c->replay, net);
            replay_give(&c->replay, net, x1);
            if (first == 0)
                TRY(replay_forward(&c->replay, false, c->h[0], err));
            for (int k = first; k < end; k++) {
                replay_node(&c->replay, c->h[k]);
                put_cotangents(cotangent_of(c, c->h[k]), &c->part[part][k], false);
            }
            TRY(replay_backward(&c->replay, !now, err));
            rows_add(NULL, g, sum[now]);
            if (now)
                aggregation_subtract(before, g);
            else
                rows_copy(g, before);
            value[2 * part + now] = aggregation_rms(g) / gamma0;
        }
    value[4] = aggregation_rms(sum[1]) / gamma0;
    return CODE_OK;
}

int aggregation_backward(struct aggregation_check *c, const struct net *net, int t, double *value,
                         struct err *err) {
    int P = net->batch.rows;
    double gamma0 = net->setup.gamma0;
    struct array change = {0};
    int code;
    DO(array_keep(&change, array_all(&net->program->node[net->program->read_out].matrix.thin->W),
                  err));
    aggregation_subtract(array_all(&c->w), array_all(&change));
    DO(find_hidden(c, net, array_all(&c->w), value + B_00, err));
    DO(find_hidden(c, net, array_all(&change), value + B_0D, err));
    DO(find_gradients(c, net, value, err));
    if (c->h[0] >= 0)
        DO(find_paths(c, net, 0, 1, value + R00, err));
    DO(find_paths(c, net, 1, c->nodes, value + A4, err));
    struct rows initial = array_rows(&c->work, 0, P), whole = array_rows(&c->work, P, P);
    if (t == 0)
        DO(array_keep(&c->back, initial, err));
    aggregation_subtract(initial, whole);
    value[I6_EFF] = aggregation_rms(whole) / gamma0;
    aggregation_subtract(array_all(&c->back), initial);
    value[I6_PROP] = aggregation_rms(initial) / gamma0;
    value[I6_INIT] = aggregation_rms(array_all(&c->back)) / gamma0;
done:
    array_free(&change);
    return code;
}
