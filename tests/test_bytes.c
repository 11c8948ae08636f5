/* What is announced is what is allocated: the estimate of a net's memory against the most that our
 * objects hold at once. */
#define _DEFAULT_SOURCE /* mincore */
#include "integrators/fixed_point.h"
#include "kernels/maps/map_limit.h"
#include "tests/support/counted.h"

/* Ways of training, and how much may be announced of a limit for each byte that is used: bases hold
 * less than their bound, the more the more evaluations it counts on (bs32); the entries of Adam are
 * known beforehand. */
static const STRUCT(double most; const char *more[4]) ways[] = {
    {2.3, {"training.optimizer=gd"}},
    {2.7, {"training.optimizer=momentum", "training.eta0=0.05"}},
    {1.4, {"training.optimizer=adam", "training.eta0=0.02", "solver.sites=512"}},
    {2.9, {"training.integrator=euler", "training.eta0=0.1"}},
    {4.3, {"training.integrator=heun", "training.eta0=0.1"}},
    {5.5, {"training.integrator=bs32", "training.eta0=0.1"}},
    {2.1, {"training.batch=2", "training.order=shuffled", "data.test_inputs=3"}},
    {2.8, {"output.kernels=full"}},
};

enum { UPDATES = 6 };

/* A basis has at most twice the rows that were said; and where nothing meets W(0)^T they are empty.
 * A run has an update less than there are here. */
static void check_ranks(const struct net *net, const struct training *training, const char *name) {
    for (int i = 0; i < net->maps.count && !net->setup.N; i++) {
        const struct map *map = net->maps.item[i];
        double evaluations = integrator_evaluations(training) * (UPDATES + 1) / UPDATES;
        struct map_costs costs = net_map_costs(net, map, evaluations);
        if (map_rank(map, true) > 2 * costs.q || map_rank(map, false) > 2 * costs.p)
            fail_msg("%s, %s: %d and %d rows, %g and %g said", name, map->declared.name,
                     map_rank(map, true), map_rank(map, false), costs.q, costs.p);
        assert_true(map->numbers.fr != 0 || map_learns_backward(&map->declared) || !costs.p);
    }
}

/* Six steps. Beyond what is announced are an array that grows, while the old one is still there
 * (1 + 1.5 of what was 1.5: 5/3), and lists and nodes, some kB for each matrix. A network is
 * announced within the room to grow, 3/2, twice that with the rows of all times (full). */
static void check(const struct model *model, size_t way, int N) {
    enum { LISTS = 1 << 16 };
    struct run run;
    struct net net;
    double announced;
    const char *all[8] = {"solver.sites=1024", "solver.threads=1"};
    for (int k = 0; k < 4; k++)
        all[k + 2] = ways[way].more[k];
    if (!support_small(&run, model, all))
        return;
    struct net_setup setup = run_setup(&run, N, 0);
    const struct training *training = &run.config.training;
    bool full = run.config.output.kernels == KERNELS_FULL;
    ASK(net_bytes(&setup, integrator_evaluations(training), full ? UPDATES : 0, &announced, err));
    long before = watch();
    ASK(net_init(&net, &setup, err));
    for (int t = 0; t < UPDATES; t++) {
        support_evaluate(&net, &run);
        ASK(integrator_of(training)->advance(&net, training, run.data.y, err));
        look();
    }
    check_ranks(&net, training, model->name);
    double used = (double)(atomic_load(&peak) - before);
    double most = !N ? ways[way].most : full ? 3 : 1.6;
    if (used > 5 / 3.0 * announced + LISTS || announced > most * used)
        fail_msg("%s, %s, N = %d: %g bytes announced, %g used", model->name, ways[way].more[0], N,
                 announced, used);
    net_free(&net);
    none_since(before, model->name);
    run_free(&run);
}

/* Ways and networks do not know of each other: of two neighbours among the ways a network is
 * trained in one as a limit, and in the other as a network of finite width. */
TEST(estimates) {
    for (size_t m = 0; model_list[m]; m++)
        for (size_t way = 0; way < COUNT(ways); way++)
            check(model_list[m], way, (m + way) % 2 ? 128 : 0);
}

/* Nearly all that is used is of one kind, whose announcement is exact: least <= announced/used <=
 * most for what else there is. */
static void check_share(const char *name, int N, double announced, long before, double least,
                        double most) {
    double used = (double)(atomic_load(&peak) - before), share = announced / used;
    if (!(share >= least && share <= most))
        fail_msg("%s, N = %d: %g bytes announced, %g used", name, N, announced, used);
}

static int swept(void *context, const struct fixed_point_state *state, struct err *err) {
    (void)context, (void)state, (void)err;
    return CODE_OK;
}

static int measured(void *context, struct net *net, int t, struct err *err) {
    (void)context, (void)net, (void)t, (void)err;
    return CODE_OK;
}

/* Kernels and responses between 160 rows over 16 sites, and Anderson's memory of them where sweeps
 * come near enough for it. */
TEST(fixed_points) {
    static const STRUCT(const char *file, *more[5]) cases[] = {
        {"data/dense.ini", {"network.depth=3"}},
        {"data/dense.ini",
         {"network.depth=3", "solver.anderson=3", "training.eta0=0.05", "training.gamma0=0.1"}},
        {"data/regime2.ini", {"solver.expert_sites=16"}},
        {"data/resnet.ini", {"network.depth=3"}},
    };
    const struct fixed_point_calls calls = {NULL, swept, measured, NULL};
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *all[16] =
            LIST("data.inputs=4", "training.steps=40", "solver.threads=1", "solver.sites=16",
                 "solver.max_sweeps=5", "solver.method=fixed_point", "solver.fp_tolerance=1e-13");
        FREED(run_free) struct run run;
        struct err told;
        double announced;
        for (int k = 0; k < 5; k++)
            all[k + 7] = cases[i].more[k];
        support_run(&run, cases[i].file, all);
        struct net_setup setup = run_setup(&run, 0, 0);
        const struct training *training = &run.config.training;
        const struct fixed_point_settings *settings = &run.config.solver.fixed_point;
        ASK(fixed_point_bytes(&setup, training, settings, 0, &announced, err));
        long before = watch();
        assert_int_equal(fixed_point_run(&setup, training, run.data.y, settings, &calls, &told),
                         CODE_NUMERICAL); /* five sweeps are too few */
        check_share(cases[i].file, 0, announced, before, 0.98, 1.02);
        none_since(before, cases[i].file);
    }
}

/* Thin matrices of 400 rows; of the second file the activations of 400 inputs, too, of which not
 * all are there at once. */
TEST(thin_matrices) {
#define LOOK                                                                                       \
    "data.inputs=2", "network.program=t.lua",                                                      \
        "network.program_text=local a = population('a', {size = key('depth') / 3}) "               \
        "local h = read_in(a, 'W1') read_out(sum(look(h, 400, 'Q')) * h, 'w')"
#define WIDE "data.inputs=400", "data.dimension=400", "network.depth=1"
    static const STRUCT(int N; double most; const char *file, *more[4]) cases[] = {
        {0, 1.1, "examples/dense.ini", {LOOK}},
        {512, 1.1, "examples/dense.ini", {LOOK}},
        {0, 1.1, "data/dense.ini", {WIDE}},
        {512, 1.3, "data/dense.ini", {WIDE}},
        {512, 1.1, "data/dense.ini", {WIDE, "reference.draws=balanced"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *all[8] = {"solver.sites=1024", "solver.threads=1", "reference.widths=512"};
        FREED(run_free) struct run run;
        struct net net;
        double announced;
        for (int k = 0; k < 4; k++)
            all[k + 3] = cases[i].more[k];
        support_run(&run, cases[i].file, all);
        struct net_setup setup = run_setup(&run, cases[i].N, 0);
        ASK(net_bytes(&setup, 1, 0, &announced, err));
        long before = watch();
        ASK(net_init(&net, &setup, err));
        support_evaluate(&net, &run);
        double least = 0.9;
        if (cases[i].N) { /* with what a step keeps, and its products while it lasts */
            ASK(integrator_of(&run.config.training)
                    ->advance(&net, &run.config.training, run.data.y, err));
            least = 2 / 3.0;
        }
        look();
        check_share(cases[i].file, cases[i].N, announced, before, least, cases[i].most);
        net_free(&net);
        none_since(before, cases[i].file);
    }
}

/* Bases as long as they can be, since all rows are new behind kinks, of matrices that start at zero
 * or are drawn. Beside what is announced is an array that grows, as above. */
TEST(bases) {
    enum { T = 24 };
#define BEHIND_KINKS(start)                                                                        \
    "network.program_text=local a = population('a', {size = key('depth') / 3}) "                   \
    "local h = relu(read_in(a, 'W1')) for k = 1, 3 do h = relu(h + map(h, a, {name = 'V' .. k, "   \
    "a0 = " start "})) end read_out(h, 'w')"
    static const char *const programs[] = {BEHIND_KINKS("0"), BEHIND_KINKS("1")};
    for (int i = 0; i < 2; i++) {
        const char *const all[] = LIST("data.inputs=4", "solver.sites=1024", "solver.threads=1",
                                       "reference.widths=", "solver.tolerance=1e-8",
                                       "network.program=t.lua", programs[i], NULL);
        RUN_AND_NET;
        double announced;
        support_run(&run, "examples/dense.ini", all);
        struct net_setup setup = run_setup(&run, 0, 0);
        const struct training *training = &run.config.training;
        ASK(net_bytes(&setup, T, 0, &announced, err));
        long before = watch();
        ASK(net_init(&net, &setup, err));
        for (int t = 0; t < T; t++) {
            support_evaluate(&net, &run);
            ASK(integrator_of(training)->advance(&net, training, run.data.y, err));
        }
        check_share(programs[i], 0, announced, before, 0.6, 1);
    }
}

/* Beside the entries of two matrices of a network Muon keeps as many, and while it moves one of
 * them four times as many as that has. */
TEST(muon_needs_room) {
    enum { N = 512, ENTRIES = N * N * sizeof(double), TILES = 1 << 21 };
    FREED(run_free) struct run run;
    struct net net;
    double announced;
    support_run(&run, "data/dense.ini",
                ARGS("network.depth=3", "training.optimizer=muon", "solver.threads=1",
                     "data.inputs=4", "reference.widths=512"));
    struct net_setup setup = run_setup(&run, N, 0);
    const struct training *training = &run.config.training;
    ASK(net_bytes(&setup, 1, 0, &announced, err));
    CHECK_ABS(announced / ENTRIES, 8, 0.4, "matrices");
    long before = watch();
    ASK(net_init(&net, &setup, err));
    support_evaluate(&net, &run);
    ASK(integrator_of(training)->advance(&net, training, run.data.y, err));
    look();
    double used = (double)(atomic_load(&peak) - before);
    if (used > announced + TILES || announced > 1.05 * used)
        fail_msg("%g bytes announced, %g used", announced, used);
    net_free(&net);
    none_since(before, "muon");
}

/* Matrices of two heads that are moved as one. */
TEST(muon_of_parts_leaves_nothing) {
    for (int N = 0; N <= 32; N += 32) {
        FREED(run_free) struct run run;
        struct net net;
        support_run(&run, "data/transformer.ini",
                    ARGS("network.heads=2", "training.muon_heads=together", "solver.sites=64",
                         "training.optimizer=muon", "solver.threads=1"));
        long before = watch();
        support_begin(&net, &run, N, 0);
        ASK(integrator_of(&run.config.training)
                ->advance(&net, &run.config.training, run.data.y, err));
        net_free(&net);
        none_since(before, "heads");
    }
}

/* Arrays that come and go take the places of those before them, though something small stays behind
 * each of them, as from replicate to replicate: the heap grows by less than one of them. */
TEST(arrays_fit_where_arrays_were) {
    enum { ARRAYS = 8, ROUNDS = 4 };
    struct array array[ARRAYS];
    void *stays[ROUNDS][ARRAYS];
    size_t heap = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < ARRAYS; k++) {
            ASK(array_init(&array[k], &backend_cpu, 1024, 1, 128, err));
            assert_int_equal((uintptr_t)array[k].memory % 64, 0);
            assert_non_null(stays[round][k] = malloc(3000 + 160 * (size_t)k));
        }
        for (int k = 0; k < ARRAYS; k++)
            array_free(&array[k]);
        heap = round ? heap : mallinfo2().arena;
    }
#ifndef __SANITIZE_ADDRESS__
    assert_in_range(mallinfo2().arena, heap, heap + (1 << 20));
#endif
    for (int k = 0; k < ROUNDS * ARRAYS; k++)
        free(stays[k / ARRAYS][k % ARRAYS]);
}

int main(void) {
    mallopt(M_MMAP_THRESHOLD, RESERVED); /* what is reserved are fresh pages */
    return run_registered(__FILE__);
}
