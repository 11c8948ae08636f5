/* Sweeps over the window until the kernels no longer change. */
#include "integrators/fixed_point.h"
#include "integrators/anderson.h"
#include "kernels/freeze.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Site quantities are of order one; a kernel of this root mean square is round-off. */
static const double negligible = 1e-12;

/* Losses and kernels that only those of an early sweep can cause. */
static const double runaway = 1e6;

struct iteration {
    const struct net_setup *setup;
    const struct training *training;
    const double *y;
    const struct fixed_point_settings *settings;
    const struct fixed_point_calls *calls;
    struct freeze freeze;
    struct field_settings field;
    struct net net;
    int sweep, count, reached; /* times of the last pass */
    struct fixed_point_kernel kernel[4 * NET_MAPS];
    struct anderson anderson;
};

double fixed_point_probe(const struct network *network, double probe) {
    return probe > 0 ? probe : net_compresses(network) ? 1e-3 : 0.2;
}

/* Over the window once; measure may be NULL. From kernels that are not right yet a network may run
 * away: then the pass ends early, and the times it did not reach begin again from zero. */
static int run_pass(struct iteration *it, enum freeze_mode mode, enum field_pass pass,
                    int (*measure)(void *context, const struct net *net, int t, struct err *err),
                    struct err *err) {
    struct net *net = &it->net;
    int last = pass == FIELD_MEASURE ? it->training->steps : it->reached;
    TRY(freeze_start(&it->freeze, mode, err));
    for (int i = 0; i < net->maps; i++)
        TRY(field_begin(net->map[i], pass, err));
    net_rewind(net);
    for (int t = 0; t < last; t++) {
        if (t)
            TRY(integrator_gd.advance(net, it->training, it->y, err));
        int code = net_evaluate(net, (enum loss)it->training->loss, it->y, err);
        if (code && code != CODE_NUMERICAL)
            return code;
        double largest = code ? INFINITY : net->loss;
        for (int i = 0; i < net->maps && pass == FIELD_MEASURE; i++)
            largest = fmax(largest, field_largest(net->map[i]));
        if (!(largest < runaway)) {
            it->reached = t;
            break;
        }
        it->reached = t + 1;
        if (measure)
            TRY(measure(it->calls->context, net, t, err));
    }
    for (int i = 0; i < net->maps; i++)
        field_end(net->map[i], it->reached);
    return freeze_start(&it->freeze, FREEZE_OFF, err);
}

/* A net with its normals and probes. One evaluation tells the maps how many rows they meet. */
static int build(struct iteration *it, struct err *err) {
    struct net_setup setup = *it->setup;
    struct net *net = &it->net;
    setup.backend = &it->freeze.table;
    setup.field = &it->field;
    setup.sweep = it->settings->draws == FIXED_POINT_FRESH ? it->sweep : 0;
    TRY(net_init(net, &setup, err));
    TRY(net_remember(net, err));
    TRY(net_evaluate(net, (enum loss)it->training->loss, it->y, err));
    for (int t = 0; t < it->field.T; t++)
        for (int i = 0; i < net->maps; i++)
            TRY(field_draw(net->map[i], err));
    for (int i = 0; i < net->populations; i++)
        population_free(net->population[i]); /* the spans: nothing more will be drawn */
    return CODE_OK;
}

static void list_kernel(struct iteration *it, const char *name, const struct map *map,
                        struct twotime *given, struct twotime *measured) {
    struct fixed_point_kernel *kernel = &it->kernel[it->count];
    if (!given->value)
        return;
    snprintf(kernel->name, sizeof kernel->name, "%s_%s", name, map->declared.name);
    kernel->given = given;
    kernel->measured = measured;
    it->count++;
}

static void list_kernels(struct iteration *it) {
    it->count = 0;
    for (int i = 0; i < it->net.maps; i++) {
        const struct map *map = it->net.map[i];
        struct field_kernels *given = &map->field->given, *measured = &map->field->measured;
        for (int k = 0; k < 2; k++) {
            list_kernel(it, k ? "G" : "Phi", map, &given->K[k], &measured->K[k]);
            list_kernel(it, k ? "B" : "A", map, &given->R[k], &measured->R[k]);
        }
    }
}

/* New draws: another net, with the kernels of this one. */
static int renew(struct iteration *it, struct err *err) {
    struct net *net = &it->net;
    struct field_kernels *kept;
    int maps = net->maps, code = CODE_OK;
    TRY(base_alloc(&kept, (size_t)maps, sizeof *kept, err));
    for (int i = 0; i < maps; i++) {
        kept[i] = net->map[i]->field->given;
        net->map[i]->field->given = (struct field_kernels){0};
    }
    net_free(net);
    DO(build(it, err));
    for (int i = 0; i < maps; i++) {
        struct field_kernels zero = net->map[i]->field->given;
        net->map[i]->field->given = kept[i];
        kept[i] = zero;
    }
    list_kernels(it);
done:
    for (int i = 0; i < maps; i++)
        field_kernels_free(&kept[i]);
    free(kept);
    return code;
}

static double norm2(const double *a, const double *b, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += (a[i] - (b ? b[i] : 0)) * (a[i] - (b ? b[i] : 0));
    return sum;
}

/* Relative changes; the largest one. */
static double changes(struct iteration *it, int *worst) {
    double largest = 0;
    *worst = 0;
    for (int k = 0; k < it->count; k++) {
        struct fixed_point_kernel *kernel = &it->kernel[k];
        size_t size = twotime_size(kernel->given);
        double scale = norm2(kernel->measured->value, NULL, size);
        double change = norm2(kernel->measured->value, kernel->given->value, size);
        bool empty = fmax(scale, change) < negligible * negligible * (double)size;
        kernel->change = empty ? 0 : scale > 0 ? sqrt(change / scale) : INFINITY;
        if (kernel->change > largest) {
            largest = kernel->change;
            *worst = k;
        }
    }
    return largest;
}

static struct fixed_point_state state_of(const struct iteration *it) {
    int floored = 0;
    for (int i = 0; i < it->net.maps; i++)
        floored += it->net.map[i]->field->floored;
    return (struct fixed_point_state){&it->net, it->sweep, it->count, floored, it->kernel};
}

static int iterate(struct iteration *it, bool *converged, int *worst, struct err *err) {
    const struct fixed_point_settings *settings = it->settings;
    *converged = false;
    for (; it->sweep < settings->max_sweeps; it->sweep++) {
        if (it->sweep && settings->draws == FIXED_POINT_FRESH)
            TRY(renew(it, err));
        TRY(run_pass(it, FREEZE_RECORD, FIELD_MEASURE, NULL, err));
        TRY(run_pass(it, FREEZE_REPLAY, FIELD_PROBE_V, NULL, err));
        TRY(run_pass(it, FREEZE_REPLAY, FIELD_PROBE_U, NULL, err));
        *converged =
            changes(it, worst) <= settings->tolerance && it->reached == it->training->steps;
        struct fixed_point_state state = state_of(it);
        TRY(it->calls->sweep(it->calls->context, &state, err));
        TRY(anderson_mix(&it->anderson, it->kernel, it->count, err));
        if (*converged)
            return CODE_OK;
    }
    return CODE_OK;
}

int fixed_point_run(const struct net_setup *setup, const struct training *training, const double *y,
                    const struct fixed_point_settings *settings,
                    const struct fixed_point_calls *calls, struct err *err) {
    struct iteration *it;
    bool converged;
    int worst = 0, code;
    TRY(base_alloc(&it, 1, sizeof *it, err));
    *it =
        (struct iteration){.setup = setup,
                           .training = training,
                           .y = y,
                           .settings = settings,
                           .calls = calls,
                           .anderson = {.depth = settings->anderson, .damping = settings->damping}};
    it->field =
        (struct field_settings){.backend = setup->backend,
                                .T = training->steps,
                                .P = setup->P,
                                .jitter = settings->jitter,
                                .epsilon = fixed_point_probe(setup->network, settings->probe)};
    freeze_init(&it->freeze, setup->backend);
    DO(build(it, err));
    list_kernels(it);
    DO(iterate(it, &converged, &worst, err));
    DO(run_pass(it, FREEZE_OFF, FIELD_MEASURE, calls->measure, err));
    struct fixed_point_state state = state_of(it);
    DO(calls->finish(calls->context, &state, err));
    if (!converged)
        code = err_set(err, CODE_NUMERICAL,
                       "not converged in %d sweeps: %s still changes by %.2g, fp_tolerance is %g; "
                       "raise max_sweeps, lower damping, or set anderson",
                       settings->max_sweeps, it->kernel[worst].name, it->kernel[worst].change,
                       settings->tolerance);
done:
    net_free(&it->net);
    anderson_free(&it->anderson);
    freeze_free(&it->freeze);
    free(it);
    return code;
}
