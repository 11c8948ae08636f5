/* Responses of the limit are the derivatives that they stand for: finite networks, in which the
 * fields of a matrix are shifted at one time. */
#include "tests/support/support.h"
#include "integrators/integrator.h"
#include "solver/measure/record.h"

#include <gsl/gsl_cdf.h>

/* So small that it hardly ever decides a selection that fluctuations of order N^-1/2 decide. */
#define SHIFT 1e-4

enum { RESPONSES = 4 };

/* A network, of which one matrix, or none, answers what it answers anyway plus SHIFT times signs:
 * another sign for each neuron, input and time. With neuron i shifted alone, at one time, a row of
 * it would move by SHIFT dx_i; all are shifted at once, and the mean over neurons of sign_i dx_i is
 * that of dx_i/SHIFT, plus what others add with random signs, which is zero on average, as is what
 * is quadratic in the signs. */
struct shifted {
    struct net net;
    struct {
        struct map *map;
        const struct parameter *parameter;
        bool forward;
        struct array rows; /* those that answer, of all times */
    } of[RESPONSES];
    int shift;             /* of these; RESPONSES: none */
    int evaluations, each; /* begun so far; from one measured time to the next */
    struct array signs;
};

static struct shifted *now; /* of the wrapped kind below */
static struct map_kind wrapped;

static int pass(struct map *map, bool forward,
                int (*own)(struct map *, struct rows, struct rows, struct err *), struct rows in,
                struct rows out, struct err *err) {
    map->kind = &map_finite;
    int code = own(map, in, out, err);
    map->kind = &wrapped;
    if (now->of[now->shift].forward == forward && !now->net.batch.predicting) {
        int t = (now->evaluations - 1) / now->each;
        rows_add_scaled(SHIFT, array_rows(&now->signs, t * out.count, out.count), out);
    }
    return code;
}

static int forward(struct map *map, struct rows x, struct rows out, struct err *err) {
    now->evaluations += !now->net.batch.predicting;
    return pass(map, true, map_finite.forward, x, out, err);
}

static int backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    return pass(map, false, map_finite.backward, y, out, err);
}

static int add_backward(struct map *map, struct rows y, struct rows out, struct err *err) {
    return pass(map, false, map_finite.add_backward, y, out, err);
}

static int keep(struct map *map, int k, struct rows y, struct err *err) {
    map->kind = &map_finite;
    int code = map_finite.keep(map, k, y, err);
    map->kind = &wrapped;
    return code;
}

static int change(struct map *map, int k, const double *c, struct change *change, struct err *err) {
    map->kind = &map_finite;
    int code = map_finite.change(map, k, c, change, err);
    map->kind = &wrapped;
    return code;
}

static void decay(struct map *map, double factor) {
    map->kind = &map_finite;
    map_finite.decay(map, factor);
    map->kind = &wrapped;
}

static void append(struct array *array, struct rows rows) {
    struct rows added;
    ASK(array_append(array, rows.count, &added, err));
    rows_copy(rows, added);
}

/* All of a run, with number `shift` of these responses shifted; what is shifted forward is seen on
 * y, and backward on x. */
static void train(struct shifted *s, const struct run *run, const char *const *names, int shift,
                  int N, int seed) {
    const struct training *training = &run->config.training;
    FREED(batch_free) struct batch batch;
    *s = (struct shifted){.shift = shift};
    support_net(&s->net, run, N, seed);
    ASK(batch_init(&batch, training, run->data.P, err));
    for (int k = 0; k < RESPONSES && names[k]; k++) {
        s->of[k].forward = *names[k] == 'B';
        s->of[k].map = support_map(&s->net, "%s", names[k] + 2);
        for (int i = 0; i < s->net.parameters.count; i++)
            if (s->net.parameters.item[i].map == s->of[k].map)
                s->of[k].parameter = &s->net.parameters.item[i];
        const struct map_declaration *map = &s->of[k].map->declared;
        const struct population *on = s->of[k].forward ? map->target : map->source;
        int count = !s->of[k].forward && map->for_all_inputs ? 1 : s->net.batch.rows;
        ASK(array_init(&s->of[k].rows, &backend_cpu, on->sites, on->group, 0, err));
        if (k != shift)
            continue;
        ASK(array_init(&s->signs, &backend_cpu, on->sites, on->group, training->steps * count,
                       err));
        backend_cpu.normals(
            array_all(&s->signs),
            (struct rng_stream){.seed = 7, .replicate = (uint32_t)seed, .purpose = PURPOSE_PROBE});
        assert_true(s->of[k].map->kind == &map_finite);
        s->of[k].map->kind = &wrapped;
    }
    now = s;
    s->each = (int)integrator_evaluations(training) / training->steps;
    for (int t = 0; t < training->steps; t++) {
        batch_at(&batch, t, s->net.batch.index);
        if (t)
            ASK(integrator_of(training)->advance(&s->net, training, run->data.y, err));
        else
            support_evaluate(&s->net, run);
        for (int k = 0; k < RESPONSES && names[k]; k++)
            append(&s->of[k].rows, s->of[k].forward ? s->of[k].parameter->y : s->of[k].map->x);
    }
    if (shift < RESPONSES)
        s->of[shift].map->kind = &map_finite;
}

static void drop(struct shifted *s) {
    for (int k = 0; k < RESPONSES; k++)
        array_free(&s->of[k].rows);
    array_free(&s->signs);
    net_free(&s->net);
}

/* The entries of response k, laid out as in a file, of one network and the same without a shift. */
static void measure(const struct run *run, const struct shifted *plain, struct shifted *s,
                    double *entries) {
    int k = s->shift, T = run->config.training.steps;
    const struct map *map = s->of[k].map;
    double target = map->declared.target->cotangent_scale,
           source = map->declared.source->cotangent_scale,
           decay = run->config.training.weight_decay,
           scale = s->of[k].forward
                       ? map->numbers.fg * map->numbers.fg / (source == 0 ? 1 : source)
                       : map->numbers.fr * map->numbers.fr * (target == 0 ? 1 : target);
    struct rows moved = array_all(&s->of[k].rows);
    rows_add_scaled(-1, array_all(&plain->of[k].rows), moved);
    backend_cpu.dots(moved, array_all(&s->signs), entries);
    int rows = moved.count, columns = s->signs.rows;
    for (int i = 0; i < rows * columns; i++) { /* W(0) has decayed at both times */
        int t = i / columns / (rows / T), at = i % columns / (columns / T);
        entries[i] *= scale / SHIFT * pow(1 - decay, t + at);
    }
}

/* Sums over networks of the entries of a response, and of their squares. */
struct sums {
    const struct series *series;
    double *one, *sum, *square;
};

/* Every entry of a response. One of them is off by more than `most` standard errors by chance in
 * one of 1000 such comparisons. */
static void compare(const struct record *record, const struct sums *of, int networks) {
    const char *name = of->series->name;
    size_t size = of->series->size, compared = 0;
    FREED(base_free) double *limit;
    double *error, squares = 0, largest = 0;
    double most = gsl_cdf_tdist_Qinv(0.5e-3 / (double)size, networks - 1);
    ASK(record_average(record, name, &limit, &error, err));
    for (size_t k = 0; k < size; k++) {
        double mean = of->sum[k] / networks,
               se2 =
                   error[k] * error[k] + (of->square[k] / networks - mean * mean) / (networks - 1);
        if (limit[k] == 0 && error[k] == 0) /* of a later time */
            continue;
        CHECK_ABS(limit[k], mean, most * sqrt(se2), "%s, entry %zu", name, k);
        squares += (limit[k] - mean) * (limit[k] - mean) / se2;
        largest = fmax(largest, fabs(mean) / sqrt(se2));
        compared++;
    }
    fprintf(stderr, "    %s: %zu entries, rms z %.2f, largest %.0f errors\n", name, compared,
            sqrt(squares / (double)compared), largest);
    assert_true(largest > most); /* more than noise would give */
}

/* All of these responses; a network without shifts serves all of them. */
static void compare_all(const struct run *run, const struct record *record,
                        const char *const *names, int N, int networks) {
    struct sums of[RESPONSES] = {0};
    struct shifted plain, s;
    for (int k = 0; k < RESPONSES && names[k]; k++) {
        of[k].series = record_find(record, names[k]);
        assert_non_null(of[k].series);
        ASK(base_alloc(&of[k].one, 3 * of[k].series->size, sizeof *of[k].one, err));
        of[k].sum = of[k].one + of[k].series->size;
        of[k].square = of[k].sum + of[k].series->size;
    }
    for (int seed = 0; seed < networks; seed++) {
        train(&plain, run, names, RESPONSES, N, seed);
        for (int k = 0; k < RESPONSES && names[k]; k++) {
            train(&s, run, names, k, N, seed);
            measure(run, &plain, &s, of[k].one);
            drop(&s);
            for (size_t i = 0; i < of[k].series->size; i++) {
                of[k].sum[i] += of[k].one[i];
                of[k].square[i] += of[k].one[i] * of[k].one[i];
            }
        }
        drop(&plain);
    }
    for (int k = 0; k < RESPONSES && names[k]; k++) {
        compare(record, &of[k], networks);
        free(of[k].one);
    }
}

/* Runs of the limit take the more time, of which 8 of 1024 sites, or 16 of 256, are as many sites
 * as 40 networks have neurons, or more. There are 24 networks of Muon, which iterates on each of
 * its matrices.
 *
 * Every kind of learning from single sites: what adds, remembers, decays, moves entries; fresh
 * inputs at each step; selections, whose jumps are in the means over neurons. */
TEST(networks_respond_alike) {
#define SMALL "solver.sites=256", "solver.replicates=32" /* matrices of entries */
    static const struct {
        const char *file;
        int N;
        const char *responses[RESPONSES], *more[8];
    } cases[] = {
        {"data/dense.ini", 128, {"A_W2", "B_W2", "A_W3", "B_W3"}, {NULL}},
        LIST("data/dense.ini", 128, {"A_W2", "B_W3"},
             {"training.optimizer=momentum", "training.eta0=.1"}),
        {"data/dense.ini", 128, {"A_W2", "B_W3"}, {"training.weight_decay=.2"}},
        LIST("data/dense.ini", 128, {"A_W2", "B_W2", "A_W3", "B_W3"},
             {"training.optimizer=adam", "training.eta0=.1", SMALL}),
        LIST("data/dense.ini", 128, {"A_W3", "B_W2"},
             {"training.optimizer=lion", "training.weight_decay=.1", "training.eta0=.1", SMALL}),
        LIST("data/dense.ini", 128, {"A_W3", "B_W2"},
             {"training.batch=2", "training.optimizer=adam", SMALL}),
        LIST("data/dense.ini", 128, {"A_W2", "B_W2", "A_W3", "B_W3"},
             {"training.integrator=heun", "training.substeps=2"}),
        {"data/regime1.ini", 128, {"A_W2_0", "B_W2_1"}, {NULL}},
        {"data/regime1.ini", /* entries bend at eps, and no single site jumps */
         128,
         {"A_W2_0"},
         {"training.optimizer=adam", "training.eta0=.05", SMALL}},
        LIST("data/regime1.ini", 128, {"A_W2_0", "A_W2_3"},
             {"network.parameterization=mup", "network.gate=sigmoid", "network.bias=none",
              "network.biases="}),
        {"data/dense.ini", /* without A_W3: networks of Muon, which multiplies small singular values
                            * by up to 485, come to it slowly; off by .013, .008 and .005 of .11 at
                            * widths 96, 192 and 384, of two inputs */
         96,
         {"A_W2", "B_W2", "B_W3"},
         {"training.optimizer=muon", "training.eta0=.1", "training.rest_eta0=.05"}},
        LIST("data/dense.ini", 96, {"A_W2", "B_W2"},
             {"training.optimizer=muon", "training.eta0=.1", "training.nesterov=no",
              "training.momentum=.5", "training.weight_decay=.1"}),
        {"data/stack.ini", /* matrices out of the units of experts learn backward */
         128,
         {"A_W_out_0", "B_W_out_0", "A_W_in_1"},
         {"training.optimizer=muon", "training.eta0=.05", "training.rest_eta0=.02",
          "training.steps=3", SMALL, "solver.expert_sites=128"}},
        {"data/regime2.ini", /* each expert's part by itself */
         128,
         {"A_Q", "B_W_in", "A_W_in", "B_W_out"},
         {"training.optimizer=muon", "training.eta0=.05", "training.rest_eta0=.02", SMALL,
          "solver.expert_sites=128"}},
        LIST("data/regime2.ini", 128, {"A_Q", "B_W_in", "A_W_out", "B_W_out"},
             {"training.optimizer=adam", "training.eta0=.05", SMALL, "solver.expert_sites=128"}),
        LIST("data/regime2.ini", 96, {"A_W_in", "B_Q"},
             {"training.optimizer=muon", "training.eta0=.05", "training.rest_optimizer=gd",
              "training.rest_eta0=.3", "training.muon_experts=together",
              "solver.expert_sites=512"}),
        LIST("data/regime3.ini", 64, {"A_Q", "B_Q"},
             {"training.optimizer=adam", "training.eta0=.05", "solver.sites=128",
              "solver.expert_sites=32", "solver.unit_sites=32", "solver.replicates=32"}),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *overrides[16] = {"training.steps=4",  "solver.sites=1024",
                                     "solver.halves=no",  "solver.replicates=16",
                                     "reference.widths=", "output.kernels=none",
                                     "reference.seeds=1", "output.responses=yes"};
        FREED(run_free) struct run run;
        FREED(record_free) struct record record = {0};
        memcpy(overrides + 8, cases[i].more, sizeof cases[i].more);
        support_run(&run, cases[i].file, overrides);
        run.config.solver.replicates /= is_long ? 1 : 2;
        bool muon = !strcmp(run.config.training.optimizer->choice.name, "muon");
        int networks = (muon ? 24 : 40) * (is_long ? 2 : 1);
        support_ensemble(&run, 0, &record);
        compare_all(&run, &record, cases[i].responses, cases[i].N, networks);
    }
}

/* Their rows are not copied where one evaluation is used up at once. */
TEST(matrices_that_learn_backward_respond_to_muon) {
    const char *overrides[] = LIST(
        "training.optimizer=muon", "training.steps=3", "solver.sites=64", "solver.replicates=1",
        "reference.widths=", "output.kernels=none", "output.responses=yes", NULL);
    FREED(run_free) struct run run;
    FREED(record_free) struct record record = {0};
    int responses = 0;
    support_run(&run, "data/residual.ini", overrides);
    support_ensemble(&run, 0, &record);
    for (int s = 0; s < record.count; s++) {
        const struct series *series = &record.series[s];
        responses += !strncmp(series->name, "A_", 2) || !strncmp(series->name, "B_", 2);
        for (size_t k = 0; k < series->size; k++)
            assert_true(isfinite(series->values[k]));
    }
    assert_true(responses > 0);
}

int main(int argc, char **argv) {
    is_long = argc > 1 && !strcmp(argv[1], "long");
    backend_start(1); /* small arrays */
    wrapped = map_finite;
    wrapped.forward = forward;
    wrapped.backward = backward;
    wrapped.add_backward = add_backward;
    wrapped.keep = keep;
    wrapped.change = change;
    wrapped.decay = decay;
    return run_registered(__FILE__);
}
