#include "integrators/fixed_point.h"
#include "kernels/maps/tape.h"

#include <limits.h>

/* Site quantities are of order one; a kernel of this root mean square is round-off. */
static const double negligible = 1e-12;

struct iteration {
    const struct net_setup *setup;
    const struct training *training;
    const double *y;
    const struct fixed_point_settings *settings;
    const struct fixed_point_calls *calls;
    struct tape tape;
    struct field_settings field;
    struct net net;
    struct batch batch;
    int sweep, count;
    /* Times: of the last pass, of a pass, by which that grows, with kernels that are right or 0. */
    int reached, horizon, stride, front;
    struct fixed_point_kernel *kernel; /* [4 maps], `count` in use */
    struct anderson anderson;
};

double fixed_point_probe(const struct network *network, double probe) {
    return probe > 0 ? probe : network_compresses(network) ? 1e-3 : 0.2;
}

/* A window has room at first for TRIES tries of an adaptive step between two measured times, and
 * may become WINDOWS times as long. */
enum { TRIES = 2, WINDOWS = 8 };

/* Counts the forward passes of a run: those of its steps, for an adaptive one also that which
 * judges a try, and predictions at the start (net_start) and when test inputs are due. */
static double window_of(const struct net_setup *setup, const struct training *training) {
    const struct integrator *integrator = integrator_of(training);
    int P = setup->data.P, inputs = setup->data.inputs, tests = setup->data.tests,
        steps = training->steps - 1;
    double each = integrator->adaptive ? TRIES * (integrator->stages + 1)
                                       : (double)training->flow.substeps * integrator->stages;
    int start = inputs > P ? (inputs + P - 1) / P : 0, passes = (tests + P - 1) / P;
    int due = tests ? 2 + steps / setup->measure.test_every : 0;
    return 1 + steps * each + start + (double)due * passes;
}

/* CODE_INPUT where a window has more rows than int counts. */
static int find_field(const struct net_setup *setup, const struct training *training,
                      const struct fixed_point_settings *settings, struct field_settings *field,
                      struct err *err) {
    double T = window_of(setup, training), P = (double)setup->data.P * fmax(setup->data.n, 1);
    if (T * P > INT_MAX)
        return err_set(
            err, CODE_INPUT,
            "a fixed point of %.3g evaluations of %.0f rows has kernels of %.3g GB each; "
            "take fewer steps, substeps or inputs",
            T, P, 8e-9 * T * P * T * P);
    *field = (struct field_settings){.backend = setup->backend,
                                     .T = (int)T,
                                     .P = (int)P,
                                     .jitter = settings->jitter,
                                     .epsilon = fixed_point_probe(setup->network, settings->probe),
                                     .copies =
                                         2 + (settings->anderson ? 3 : 0) + 2 * settings->anderson};
    return CODE_OK;
}

/* Predicts the test inputs where they are due at measured time t, as the observer does. */
static int predict_tests(struct net *net, int t, struct err *err) {
    const struct net_setup *setup = &net->setup;
    bool due = setup->data.tests && t % setup->measure.test_every == 0;
    return due ? net_predict(net, setup->data.inputs, setup->data.tests, NULL, err) : CODE_OK;
}

/* By the loss, or a kernel. */
static bool runs_away(const struct iteration *it, enum field_pass pass) {
    bool away = net_runs_away(&it->net);
    for (int i = 0; i < it->net.maps.count && pass == FIELD_MEASURE; i++)
        away = away || !(field_largest(it->net.maps.item[i]) < NET_RUNAWAY);
    return away;
}

/* Over the window once, up to the horizon; measure may be NULL. Kernels that are not right yet may
 * drive a network away: then the pass ends early, and the times it did not reach begin again from
 * zero, in sweeps whose horizon has grown to them. */
static int run_pass(struct iteration *it, enum tape_mode mode, enum field_pass pass,
                    int (*measure)(void *context, struct net *net, int t, struct err *err),
                    struct err *err) {
    struct net *net = &it->net;
    const struct training *training = it->training;
    const struct integrator *integrator = integrator_of(training);
    int last = pass == FIELD_MEASURE ? it->horizon : it->reached, used = 0;
    TRY(tape_start(&it->tape, mode, err));
    for (int i = 0; i < net->maps.count; i++)
        TRY(field_begin(net->maps.item[i], pass, err));
    net_rewind(net);
    it->reached = 0;
    while (it->reached < last) {
        batch_at(&it->batch, it->reached, net->batch.index);
        int code = it->reached ? integrator->advance(net, training, it->y, err)
                               : net_evaluate(net, training->loss, it->y, err);
        if (!code && !measure && !runs_away(it, pass))
            code = predict_tests(net, it->reached, err);
        code = backend_cause(net->setup.backend, code, err);
        if (code && code != CODE_NUMERICAL)
            return code;
        if (code || runs_away(it, pass))
            break;
        if (measure)
            TRY(measure(it->calls->context, net, it->reached, err));
        it->reached++;
        used = net->maps.item[0]->terms->evaluations;
    }
    for (int i = 0; i < net->maps.count; i++)
        field_end(net->maps.item[i], used);
    return tape_start(&it->tape, TAPE_OFF, err);
}

/* A net with its normals and probes. */
static int build_net(struct iteration *it, struct err *err) {
    struct net_setup setup = *it->setup;
    struct net *net = &it->net;
    setup.backend = &it->tape.table;
    setup.field = &it->field;
    setup.sweep = it->settings->draws == FIXED_POINT_FRESH ? it->sweep : 0;
    TRY(net_init(net, &setup, err));
    for (int t = 0; t < it->field.T; t++)
        for (int i = 0; i < net->maps.count; i++) {
            TRY(base_go_on(&net->setup.stop, err));
            TRY(field_draw(net->maps.item[i], err));
        }
    TRY(net_draw_unseen(net, err));
    TRY(net_remember(net, err));
    for (int i = 0; i < net->populations.count; i++)
        population_free(net->populations.item[i]); /* the spans: nothing more will be drawn */
    return CODE_OK;
}

/* The name of the k-th of Phi, A, G, B of all maps; false: the map has no such response. */
static bool name_kernel(const struct net *net, int k, char name[FIXED_POINT_NAME]) {
    static const char *const names[] = {"Phi", "A", "G", "B"};
    const struct map *map = net->maps.item[k / 4];
    const struct map_numbers *n = &map->numbers;
    snprintf(name, FIXED_POINT_NAME, "%s_%s", names[k % 4], map->declared.name);
    return k % 4 == 1 ? n->fr != 0 : k % 4 == 3 ? n->fg != 0 : true;
}

static void list_kernels(struct iteration *it) {
    it->count = 0;
    for (int i = 0; i < 4 * it->net.maps.count; i++) {
        const struct map *map = it->net.maps.item[i / 4];
        struct field_kernels *given = &field_of(map)->given, *measured = &field_of(map)->measured;
        struct fixed_point_kernel *kernel = &it->kernel[it->count];
        int side = i % 4 / 2;
        if (!name_kernel(&it->net, i, kernel->name))
            continue;
        kernel->given = i % 2 ? &given->R[side] : &given->K[side];
        kernel->measured = i % 2 ? &measured->R[side] : &measured->K[side];
        it->count++;
    }
}

int fixed_point_names(const struct net_setup *setup, char (**names)[FIXED_POINT_NAME], int *count,
                      struct err *err) {
    FREED(net_free) struct net net = {0};
    *count = 0;
    *names = NULL;
    TRY(net_declare(&net, setup, err));
    TRY(base_alloc(names, 4 * (size_t)net.maps.count, sizeof **names, err));
    for (int i = 0; i < 4 * net.maps.count; i++)
        *count += name_kernel(&net, i, (*names)[*count]);
    return CODE_OK;
}

static int bytes_of(const struct net_setup *setup, const struct field_settings *field, int T,
                    double *bytes, struct err *err) {
    struct net_setup mine = *setup;
    mine.field = field;
    return net_bytes(&mine, field->T, T, bytes, err);
}

int fixed_point_bytes(const struct net_setup *setup, const struct training *training,
                      const struct fixed_point_settings *settings, int T, double *bytes,
                      struct err *err) {
    struct field_settings field;
    TRY(find_field(setup, training, settings, &field, err));
    return bytes_of(setup, &field, T, bytes, err);
}

/* Replaces the net by one with the same kernels, for new draws or for a longer window. */
static int renew_net(struct iteration *it, struct err *err) {
    struct net *net = &it->net;
    struct field_kernels *kept;
    int maps = net->maps.count, code = CODE_OK;
    TRY(base_alloc(&kept, (size_t)maps, sizeof *kept, err));
    for (int i = 0; i < maps; i++) {
        kept[i] = field_of(net->maps.item[i])->given;
        field_of(net->maps.item[i])->given = (struct field_kernels){0};
    }
    net_free(net);
    DO(build_net(it, err));
    for (int i = 0; i < maps; i++) {
        struct field_kernels *given = &field_of(net->maps.item[i])->given;
        for (int side = 0; side < 2; side++) {
            twotime_copy(&kept[i].K[side], &given->K[side]);
            twotime_copy(&kept[i].R[side], &given->R[side]);
        }
    }
    list_kernels(it);
done:
    for (int i = 0; i < maps; i++)
        field_kernels_free(&kept[i]);
    free(kept);
    return code;
}

static double weighted_square(const double *a, const double *b, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += (a[i] - (b ? b[i] : 0)) * (a[i] - (b ? b[i] : 0));
    return sum;
}

/* Relative changes; the largest one. */
static double find_changes(struct iteration *it, int *worst) {
    double largest = 0;
    *worst = 0;
    for (int k = 0; k < it->count; k++) {
        struct fixed_point_kernel *kernel = &it->kernel[k];
        size_t size = twotime_size(kernel->given);
        double scale = weighted_square(kernel->measured->value, NULL, size);
        double change = weighted_square(kernel->measured->value, kernel->given->value, size);
        bool empty = fmax(scale, change) < negligible * negligible * (double)size;
        /* infinite where the measured kernel is zero, NaN where the pass diverged */
        double relative = sqrt(change / scale);
        kernel->change = empty ? 0 : isfinite(relative) ? relative : INFINITY;
        if (kernel->change > largest) {
            largest = kernel->change;
            *worst = k;
        }
    }
    return largest;
}

static struct fixed_point_state state_of(const struct iteration *it) {
    int floored = 0;
    for (int i = 0; i < it->net.maps.count; i++)
        floored += field_of(it->net.maps.item[i])->floored;
    return (struct fixed_point_state){it->sweep, it->count, floored, it->reached, it->kernel};
}

/* Without accidents the horizon is the whole window. After one, it is where the pass ended, and
 * grows when the kernels up to there are about right. False: they are right, and still the network
 * runs away at the very next time. */
static bool move_horizon(struct iteration *it, double change) {
    int T = it->training->steps;
    double about = it->stride > 1 ? 0.1 : it->settings->tolerance;
    if (it->reached < it->horizon) {
        if (it->reached <= it->front && it->horizon == it->front + 1)
            return false;
        it->horizon = it->reached > 1 ? it->reached : 1;
        it->stride = it->stride > 4 ? it->stride / 4 : 1;
    } else if (it->horizon < T && change <= about) {
        it->front = it->stride > 1 ? 0 : it->horizon;
        it->horizon = it->horizon + it->stride < T ? it->horizon + it->stride : T;
        it->stride *= 2;
    }
    return true;
}

/* Asks whether a window may have T evaluations: it must not be too much longer than at first, and
 * memory must be left for it. If it may, *limit is NULL, else what the user can raise beside rtol
 * and atol, for the sentence. */
static int may_lengthen(const struct iteration *it, int T, const char **limit, struct err *err) {
    struct field_settings field;
    double left = it->settings->bytes_left, first, longer;
    TRY(find_field(it->setup, it->training, it->settings, &field, err));
    *limit = T > WINDOWS * field.T ? "" : NULL;
    if (*limit || left == 0)
        return CODE_OK;
    TRY(bytes_of(it->setup, &field, 0, &first, err));
    field.T = T;
    TRY(bytes_of(it->setup, &field, 0, &longer, err));
    *limit = longer - first > left ? " or max_memory" : NULL;
    return CODE_OK;
}

/* Makes the window longer after a pass whose adaptive steps have left little room in it, or none.
 * The first draws stay the same. */
static int lengthen_window(struct iteration *it, bool *longer, struct err *err) {
    int T = it->field.T, used = it->net.maps.item[0]->terms->evaluations;
    const char *limit;
    *longer = integrator_of(it->training)->adaptive && used > T - T / 8;
    if (!*longer)
        return CODE_OK;
    TRY(may_lengthen(it, 2 * T, &limit, err));
    if (limit)
        return err_set(err, CODE_NUMERICAL,
                       "sweep %d: the steps come to %d evaluations at %d of %d measured times, "
                       "for which there is no room; raise rtol and atol%s, or take fixed steps: "
                       "integrator = heun",
                       it->sweep, used, it->reached, it->training->steps, limit);
    it->field.T = 2 * T;
    anderson_free(&it->anderson);
    it->anderson =
        (struct anderson){.depth = it->settings->anderson, .damping = it->settings->damping};
    return renew_net(it, err);
}

static int run_sweeps(struct iteration *it, bool *converged, int *worst, struct err *err) {
    const struct fixed_point_settings *settings = it->settings;
    bool longer;
    *converged = false;
    for (; it->sweep < settings->max_sweeps; it->sweep++) {
        if (it->sweep && settings->draws == FIXED_POINT_FRESH)
            TRY(renew_net(it, err));
        do {
            TRY(run_pass(it, TAPE_RECORD, FIELD_MEASURE, NULL, err));
            TRY(lengthen_window(it, &longer, err));
        } while (longer);
        TRY(run_pass(it, TAPE_REPLAY, FIELD_PROBE_V, NULL, err));
        TRY(run_pass(it, TAPE_REPLAY, FIELD_PROBE_U, NULL, err));
        double change = find_changes(it, worst);
        *converged = change <= settings->tolerance && it->reached == it->training->steps;
        struct fixed_point_state state = state_of(it);
        TRY(it->calls->sweep(it->calls->context, &state, err));
        TRY(anderson_mix(&it->anderson, it->kernel, it->count, err));
        if (*converged || !move_horizon(it, change))
            return CODE_OK;
    }
    return CODE_OK;
}

int fixed_point_run(const struct net_setup *setup, const struct training *training, const double *y,
                    const struct fixed_point_settings *settings,
                    const struct fixed_point_calls *calls, struct err *err) {
    struct iteration *it;
    bool converged;
    int worst = 0, swept, code;
    TRY(base_alloc(&it, 1, sizeof *it, err));
    *it =
        (struct iteration){.setup = setup,
                           .training = training,
                           .y = y,
                           .settings = settings,
                           .calls = calls,
                           .horizon = training->steps,
                           .stride = training->steps,
                           .anderson = {.depth = settings->anderson, .damping = settings->damping}};
    tape_init(&it->tape, setup->backend);
    DO(find_field(setup, training, settings, &it->field, err));
    DO(batch_init(&it->batch, training, setup->data.inputs ? setup->data.inputs : setup->data.P,
                  err));
    DO(build_net(it, err));
    DO(base_alloc(&it->kernel, 4 * (size_t)it->net.maps.count, sizeof *it->kernel, err));
    list_kernels(it);
    DO(run_sweeps(it, &converged, &worst, err));
    swept = it->reached;
    DO(run_pass(it, TAPE_OFF, FIELD_MEASURE, calls->measure, err));
    if (it->reached < training->steps && (converged || it->reached <= it->front)) {
        code =
            err_overflow(err, "step %d: the loss or a kernel exceeds %g", it->reached, NET_RUNAWAY);
        net_remedy(&it->net, it->reached, err);
    } else if (!converged && it->kernel[worst].change <= settings->tolerance)
        code = err_set(err, CODE_NUMERICAL,
                       "not converged in %d sweeps, which have come to %d of %d measured times; "
                       "raise max_sweeps",
                       settings->max_sweeps, swept, training->steps);
    else if (!converged)
        code = err_set(err, CODE_NUMERICAL,
                       "not converged in %d sweeps: %s still changes by %.2g, fp_tolerance is %g; "
                       "raise max_sweeps, lower damping, or set anderson",
                       settings->max_sweeps, it->kernel[worst].name, it->kernel[worst].change,
                       settings->tolerance);
done:
    if (calls->end)
        calls->end(calls->context);
    net_free(&it->net);
    batch_free(&it->batch);
    anderson_free(&it->anderson);
    tape_free(&it->tape);
    free(it->kernel);
    free(it);
    return code;
}
