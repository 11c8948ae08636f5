/* Networks in single precision beside the same in double: weights, outputs, losses, the coordinate
 * check, memory. (That bits depend neither on threads nor on an interruption is in test_models.)
 * The argument is the backend of single precision; else cpu.
 *
 * How far apart may they be? A rounding to single precision changes a number by at most the share
 * U = 2^-24. Copies of the network in double, each of whose weights is multiplied by 1 + U u at
 * every step, u uniform from -1 to 1, show what one such change of every weight makes of the
 * outputs, whatever their condition: `scale` is the rms difference over COPIES copies. In single
 * precision each operation rounds what it writes, forward and backward, and a product once more for
 * each level of its sums (lanes, strips, pieces, blocks); each of these is to the outputs what the
 * change of the weights before it is. Roundings are independent, so that their squares add up: the
 * difference is expected within sqrt(number of roundings) scale, and three times that is allowed.
 */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/wanted.h"
#include "kernels/maps/map_finite.h"
#include "integrators/integrator.h"

enum { COPIES = 5, T = 6, N = 32 };
#define U 0x1p-24

static char on_backend[64]; /* the key that says which */

/* The arrays of a parameter, at most two. */
static int arrays_of(const struct parameter *p, struct array *array[2]) {
    if (p->host)
        return 0;
    array[0] = p->thin ? &p->thin->W : p->map->kind == &map_finite ? &finite_of(p->map)->W : NULL;
    if (array[0])
        return 1;
    array[0] = &history_of(p->map)->q;
    array[1] = &history_of(p->map)->Z;
    return 2;
}

static void perturb(struct net *net) {
    for (int i = 0; i < net->parameters.count; i++) {
        struct array *array[2];
        for (int k = arrays_of(&net->parameters.item[i], array) - 1; k >= 0; k--) {
            struct rows rows = array_all(array[k]);
            size_t count = (size_t)rows.count * rows.array->sites;
            FREED(base_free) double *x = support_get(rows);
            for (size_t j = 0; j < count; j++)
                x[j] *= 1 + U * uniform();
            rows.array->backend->put(rows, x);
        }
    }
}

/* f and the loss at T times, [T][outputs + 1]. */
/* roundings: of an evaluation, as above. */
static double *trained(const struct run *run, bool perturbed, size_t *count, int *roundings) {
    const struct training *training = &run->config.training;
    FREED(net_free) struct net net;
    FREED(batch_free) struct batch batch;
    double *out;
    support_net(&net, run, N, 0);
    ASK(batch_init(&batch, training, run->data.P, err));
    size_t outs = (size_t)(net.batch.output_rows * net.setup.data.C);
    *count = T * (outs + 1);
    *roundings = 2 * (net.program->nodes + 4 * net.maps.count);
    ASK(base_alloc(&out, *count, sizeof *out, err));
    for (int t = 0; t < T; t++) {
        batch_at(&batch, t, net.batch.index);
        if (perturbed)
            perturb(&net);
        if (t)
            ASK(integrator_of(training)->advance(&net, training, run->data.y, err));
        else
            support_evaluate(&net, run);
        double *now = out + (size_t)t * (outs + 1);
        memcpy(now, net.output.f, outs * sizeof *now);
        now[outs] = net.output.loss;
    }
    return out;
}

static double difference(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum / (double)count);
}

/* Keys of a way to train every network; of some optimizers a smaller rate. */
static const char *const ways[][4] = {
    {NULL},
    {"training.batch=2", "training.order=shuffled"},
    {"training.integrator=heun", "training.eta0=0.1"},
    {"training.schedule=cosine", "training.schedule_steps=3", "training.clip=0.2"},
    {"reference.draws=balanced", "reference.centre=no"},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Way number i, and behind the table one for each optimizer. */
static const char *begin(struct run *run, const struct model *model, int way, bool single,
                         bool *fits) {
    static char optimizer[64];
    const char *keys[8] = {single ? "reference.precision=single" : "reference.precision=double",
                           "reference.widths=32", single ? on_backend : "solver.backend=cpu"};
    if (way < WAYS)
        memcpy(keys + 3, ways[way], sizeof ways[way]);
    else {
        snprintf(optimizer, sizeof optimizer, "training.optimizer=%s",
                 optimizer_list[way - WAYS]->name);
        keys[3] = optimizer;
        keys[4] = "training.eta0=0.02";
    }
    *fits = support_small(run, model, keys);
    return keys[3] ? keys[3] : "";
}

static void judge(const struct model *model, int way) {
    struct run run[2];
    bool fits;
    size_t count;
    int roundings;
    const char *what = begin(&run[0], model, way, false, &fits);
    if (!fits)
        return;
    begin(&run[1], model, way, true, &fits);
    FREED(base_free)
    double *exact = trained(&run[0], false, &count, &roundings),
           *single = trained(&run[1], false, &count, &roundings);
    double square = 0;
    for (int k = 0; k < COPIES; k++) {
        double *copy = trained(&run[0], true, &count, &roundings),
               d = difference(copy, exact, count);
        square += d * d / COPIES;
        free(copy);
    }
    double d = difference(single, exact, count);
    CHECK_ABS(d, 0, 3 * sqrt(roundings * square), "%s, %s", model->name, what);
    FAIL_IF(!(d > sqrt(square) / 10), "%s, %s: is that single precision?", model->name, what);
    for (int k = 0; k < 2; k++)
        run_free(&run[k]);
}

TEST(outputs_and_losses) {
    bool all = !strcmp(on_backend, "solver.backend=cpu"); /* else one way in four, for speed */
    for (const struct model *const *model = model_list; *model; model++)
        for (int way = 0; way < WAYS || optimizer_list[way - WAYS]; way++)
            if (all || (way + (model - model_list)) % 4 == 0)
                judge(*model, way);
}

/* Each is that of double, rounded, times a rounded scale: three roundings. Balanced draws of a
 * population are orthogonal to what was drawn on others before, as it is there, rounded: that adds
 * roundings of rows, whose rms is the largest amplitude, one. */
TEST(weights_at_the_start) {
    static const int some[] = {0, 4};
    for (const struct model *const *model = model_list; *model; model++)
        for (int k = 0; k < 2; k++) {
            FREED(two_runs_free) struct run run[2];
            FREED(two_nets_free) struct net net[2];
            bool fits;
            for (int s = 0; s < 2; s++) {
                begin(&run[s], *model, some[k], s, &fits);
                support_net(&net[s], &run[s], N, 0);
            }
            for (int i = 0; i < net[0].parameters.count; i++) {
                struct array *array[2][2];
                int count = arrays_of(&net[0].parameters.item[i], array[0]);
                arrays_of(&net[1].parameters.item[i], array[1]);
                for (int a = 0; a < count; a++) {
                    FREED(base_free)
                    double *x = support_get(array_all(array[0][a])),
                           *y = support_get(array_all(array[1][a]));
                    size_t size = (size_t)array[0][a]->rows * array[0][a]->sites;
                    assert_true(array[0][a]->backend->bytes == 8);
                    assert_true(array[1][a]->backend->bytes == 4);
                    for (size_t j = 0; j < size; j++)
                        CHECK_ABS(y[j], x[j], 3 * U * (fabs(x[j]) + k), "%s: entry %zu of %s",
                                  (*model)->name, j, net[0].parameters.item[i].name);
                }
            }
        }
}

/* Of f = <w x> before training, the rms over inputs of what its terms would add up to if all had
 * one sign: they cancel to a share of 1/160 in residual, and f is good to some U of them, not of
 * itself.
 */
static double terms_of_output(struct net *net, const struct run *run) {
    double squares = 0;
    support_evaluate(net, run);
    const struct program *p = net->program;
    const struct node *v = &p->node[p->read_out];
    struct rows rows = p->node[v->argument[0]].value;
    FREED(base_free) double *x = support_get(rows), *w = support_get(array_all(&v->matrix.thin->W));
    size_t sites = rows.array->sites;
    for (int k = 0; k < rows.count; k++) {
        double sum = 0, terms = 0;
        for (size_t i = 0; i < sites; i++) {
            sum += w[i] * x[(size_t)k * sites + i];
            terms += fabs(w[i] * x[(size_t)k * sites + i]);
        }
        squares += pow(v->matrix.start[k] * terms / sum, 2) / rows.count;
    }
    return sqrt(squares);
}

/* A part of a signal is a difference of rows, which are good to some U of the whole signal; so is
 * the part, however small it is. */
TEST(parts_of_signals) {
    for (const struct model *const *model = model_list; *model; model++) {
        FREED(two_records_free) struct record record[2];
        int parts = 0, roundings = 0;
        double terms = 0;
        for (int s = 0; s < 2; s++) {
            RUN_AND_NET;
            assert_true(support_small(&run, *model,
                                      ARGS("reference.widths=32", "reference.coordinate_check=yes",
                                           s ? on_backend : "solver.backend=cpu",
                                           s ? "reference.precision=single" : NULL)));
            support_net(&net, &run, N, 0);
            roundings = 2 * (net.program->nodes + 4 * net.maps.count);
            terms = s ? terms : terms_of_output(&net, &run);
            ASK(run_ensemble(&run, N, 2, &record[s], err));
        }
        for (int k = 0; k < record[0].count; k++) {
            static const char *const ends[] = {"_init", "_prop", "_eff"};
            const struct series *part = &record[0].series[k], *whole, *other;
            TEXT(name, SERIES_NAME, "%s", part->name);
            for (int e = 0; e < 3; e++)
                if (strstr(name, ends[e]))
                    *strstr(name, ends[e]) = 0;
            if (strncmp(name, "rms_", 4) || !strcmp(name, part->name) ||
                !(whole = record_find(&record[0], name)))
                continue;
            other = record_find(&record[1], part->name);
            for (size_t i = 0; i < 2 * part->size; i++) {
                double size = fmax(whole->values[i], strcmp(name, "rms_f") ? 0 : terms);
                CHECK_ABS(other->values[i], part->values[i], 3 * sqrt(roundings) * U * size,
                          "%s: number %zu of %s", (*model)->name, i, part->name);
            }
            parts++;
        }
        assert_true(parts >= 4);
    }
}

/* Site arrays have half the bytes, and all that is estimated of a network is site arrays but for a
 * hundredth. */
TEST(memory_is_half) {
    for (const struct model *const *model = model_list; *model; model++) {
        double bytes[2];
        for (int s = 0; s < 2; s++) {
            FREED(run_free) struct run run;
            assert_true(support_small(&run, *model,
                                      ARGS("reference.widths=512", "training.optimizer=adam",
                                           s ? "reference.precision=single" : NULL)));
            struct net_setup setup = run_setup(&run, 512, 0);
            ASK(net_bytes(&setup, 6, 0, &bytes[s], err));
        }
        CHECK_ABS(bytes[1] / bytes[0], 0.5, 0.01, "%s", (*model)->name);
    }
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "cpu";
    snprintf(on_backend, sizeof on_backend, "solver.backend=%s", name);
    for (int b = 0; backend_list[b]; b++)
        if (wanted(backend_list[b], name))
            return run_registered(__FILE__);
    return argc < 2; /* skipped */
}
