/* What every network of model_list has for nothing, seen on data/NAME.ini (or examples/tied.ini,
 * gains.ini) made small: its derived gradients and their norm by finite differences, and every way
 * of training it with the same bits for any number of threads, on the backend that poisons, in
 * longer runs and in runs that go on from a state. A new network is judged here without a line. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"

#include <glob.h>

/* Ways of training, the fixed point last; where one does not fit a network, that is printed. */
static const char *const table[][5] = {
    {0},
    {"training.batch=2", "training.order=shuffled", "data.test_inputs=3"},
    {"training.optimizer=adam", "training.eta0=0.02", "training.batch=2", "data.test_inputs=3"},
    {"training.schedule=cosine", "training.schedule_steps=3", "training.warmup=1",
     "training.clip=0.2"},
    {"training.optimizer=momentum", "training.eta0=0.05", "training.warmup=1", "training.clip=0.2"},
    {"training.integrator=heun", "training.eta0=0.1"},
    {"training.integrator=bs32", "training.eta0=0.1"},
    {"output.responses=yes", "training.optimizer=adam", "training.eta0=0.02", "training.batch=2",
     "data.test_inputs=3"},
    {"output.kernels=full"},
    {"output.kernels=equal", "output.kernels_of=w", "output.tangent=blocks",
     "output.spectra=tangent"},
    {"output.responses=yes", "training.optimizer=muon", "training.eta0=0.02"},
    {"reference.precision=single", "training.batch=2", "data.test_inputs=3",
     "reference.draws=balanced"},
    {"reference.coordinate_check=yes", "rates.w=2", "init.w=0.5", "output.weights=all"},
    {"training.weight_decay=0.1", "decays.w=0.3", "data.test_inputs=3"},
    {"solver.method=fixed_point", "reference.widths=", "solver.max_sweeps=40",
     "solver.fp_tolerance=1e-4"},
};
enum { FIXED_POINT = COUNT(table) - 1, MOST_WAYS = COUNT(table) + 16 };

/* Those of the table, and one for each optimizer that begins none of its rows. */
static const char *ways[MOST_WAYS][5];
static int way_count;

static int list_ways(void **state) {
    static char key[16][64];
    (void)state;
    memcpy(ways, table, sizeof table);
    way_count = COUNT(table);
    for (int k = 0; optimizer_list[k]; k++) {
        bool begins = optimizer_row((size_t)k)->plain; /* as the first row */
        snprintf(key[k], sizeof key[k], "training.optimizer=%s", optimizer_list[k]->name);
        for (size_t way = 1; way < COUNT(table); way++)
            begins |= !strcmp(table[way][0], key[k]);
        if (!begins) {
            ways[way_count][0] = key[k];
            ways[way_count++][1] = "training.eta0=0.02";
        }
    }
    return 0;
}

/* What a way is called. */
static const char *name_of(int way) {
    return ways[way][0] ? ways[way][0] : "gradient descent";
}

/* Programs: blocks that share one matrix; trained vectors and a number; an output behind the
 * read-out. */
static const struct model programs[] = {
    {.name = "../examples/tied"}, {.name = "../examples/gains"}, {.name = "../examples/capped"}};
enum { PROGRAMS = COUNT(programs) };

/* Network number i: those that are built in, and these; NULL after the last. */
static const struct model *nth(int i) {
    int built_in = 0;
    while (model_list[built_in])
        built_in++;
    return i < built_in ? model_list[i] : i < built_in + PROGRAMS ? &programs[i - built_in] : NULL;
}

/* How many sweeps the fixed point takes is for its window to decide, so that it has no other steps
 * here. */
static bool begin(struct run *run, const struct model *model, int way, const char *const *change) {
    const char *overrides[12] = {"solver.sites=72"};
    int n = 1;
    for (int k = 0; k < 3 && change && change[k]; k++)
        if (way != FIXED_POINT || strncmp(change[k], "training.steps", 14) != 0)
            overrides[n++] = change[k];
    memcpy(overrides + n, ways[way], sizeof ways[way]);
    overrides[n + 5] = NULL;
    return support_small(run, model, overrides);
}

TEST(gradients) {
    const struct model *model;
    for (int i = 0; (model = nth(i)); i++) {
        FREED(run_free) struct run run;
        assert_true(begin(&run, model, 0, NULL)); /* ways[0] fits all */
        support_gradient(&run, 16, 23);
    }
}

/* dL/dh of a step h of plain gradient descent along stage 0, from four places. */
static double slope(struct net *net, const struct run *run) {
    static const double place[] = {1, -1, 2, -2}, weight[] = {8, -8, -1, 1}, h = 1e-3;
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        double step = place[k] * h;
        ASK(net_place(net, 1, &step, err));
        support_evaluate(net, run);
        sum += weight[k] * (net->output.loss + net->output.penalty) / (12 * h);
    }
    return sum;
}

/* The loss falls by eta0 norm^2, after two steps (at first a router that is zero has ties). The
 * loss is known to about 1e-15, a difference to 1.5e-12; ten times that. Of a limit f misses some
 * hundredths of the tolerance of its bases, and so does its slope. */
TEST(gradient_norms) {
    const struct model *model;
    for (int i = 0; (model = nth(i)); i++)
        for (int N = 0; N <= 16; N += 16) {
            RUN_AND_NET;
            double norm;
            assert_true(support_small(&run, model, ARGS("solver.tolerance=1e-6")));
            support_begin(&net, &run, N, 0);
            for (int t = 0; t < 2; t++) {
                support_step(&net, &run);
            }
            ASK(net_gradient_norm(&net, &norm, err));
            ASK(net_keep(&net, 0, false, err));
            CHECK_ABS(-slope(&net, &run), norm * norm, N ? 1.5e-11 : 1e-8, "%s, N = %d",
                      model->name, N);
        }
}

/* What may not change a bit of a run with one thread: other threads, more steps, the backend that
 * poisons; all of them at once, or all but the backend. Each network is trained in every second way
 * as finite networks and in the others as a limit, and meets one of these lists with one way and
 * the other with the next (`long`: both, in every way). Every third of these runs is cut, too, and
 * goes on from a state. */
enum { CHANGES = 3 };
static const char *const changes[CHANGES][3] = {
    {"solver.threads=1"},
    {"solver.threads=2", "training.steps=7"},
    {"solver.threads=3", "training.steps=7", "solver.backend=shadow"}};

/* The last run of a record learns, or it would be the same for any reason. */
static void learns(const struct record *record, const char *what) {
    const struct series *f = record_find(record, "f");
    const double *first = record_at(record, f, record->runs - 1, 0);
    const double *last = record_at(record, f, record->runs - 1, record->T - 1);
    double moved = 0;
    for (size_t k = 0; k < f->size / (size_t)record->T; k++)
        moved = fmax(moved, fabs(last[k] - first[k]));
    FAIL_IF(!(moved > 1e-3), "%s: no entry of f moves by more than %g", what, moved);
}

static char *folder; /* of states */

/* The first times of the first run on the backend that poisons, kept; the others from there. */
static void go_on(const struct model *model, int way, int N, const struct record *whole) {
    char what[128], first[32], states[PATH_MAX];
    glob_t found;
    int cut = 1 + (way + (N > 0)) % 5;
    snprintf(first, sizeof first, "training.steps=%d", cut);
    snprintf(what, sizeof what, "%s, %s, N = %d, from step %d on", model->name, name_of(way), N,
             cut);
    for (int part = 0; part < 2; part++) {
        RUN_AND_RECORD;
        if (!begin(&run, model, way, part ? ARGS("solver.threads=2") : ARGS(first)))
            fail_msg("%s", what);
        run.config.output.checkpoint = 60;
        run.states.resume = part > 0;
        if (!part)
            run.config.solver.backend = 1;
        ASK(base_copy(&run.states.folder, folder, err));
        ASK(run_ensemble(&run, N, 1, &record, err));
        assert_int_equal(record.T, part ? 6 : cut);
        if (part)
            support_same_times(&record, whole, 6, what);
    }
    snprintf(states, sizeof states, "%s/*.state", folder);
    assert_int_equal(glob(states, 0, NULL, &found), 0);
    for (size_t k = 0; k < found.gl_pathc; k++)
        assert_int_equal(remove(found.gl_pathv[k]), 0);
    globfree(&found);
}

/* Whether list k is met by this one of two. */
static bool is_met(int k, int half) {
    return is_long || k == 0 || k - 1 == half % 2;
}

/* False where the network cannot be trained so. */
static bool compare(const struct model *model, int way, int N, bool cut, int half) {
    struct record record[CHANGES];
    for (int k = 0; k < CHANGES; k++) {
        char what[128];
        struct run run;
        if (!is_met(k, half))
            continue;
        if (way == FIXED_POINT && model == &programs[1])
            return false; /* its first sweep has queries and keys of 0, which have no norm */
        if (!begin(&run, model, way, changes[k]))
            return false;
        snprintf(what, sizeof what, "%s, %s, N = %d, %s ...", model->name, name_of(way), N,
                 changes[k][0]);
        ASK(run_ensemble(&run, N, 2, &record[k], err));
        run_free(&run);
        learns(&record[k], what);
        support_same_times(&record[0], &record[k], 6, what);
    }
    if (cut)
        go_on(model, way, N, &record[0]);
    for (int k = 0; k < CHANGES; k++)
        if (is_met(k, half))
            record_free(&record[k]);
    return true;
}

TEST(bits) {
    folder = support_folder("test_models");
    assert_non_null(folder);
    const struct model *model;
    for (int i = 0; (model = nth(i)); i++)
        for (int way = 0; way < way_count; way++)
            if (way == FIXED_POINT) {
                compare(model, way, 0, false, i);
            } else {
                bool limit = (i + way) % 2, cut = is_long || (i + way) / 2 % 3 == 0;
                if ((!is_long && !limit) || compare(model, way, 0, cut, (i + way) / 2))
                    if (is_long || !limit)
                        compare(model, way, 16, cut, (i + way) / 2 + 1);
            }
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

AROUND_TESTS(list_ways, NULL)
