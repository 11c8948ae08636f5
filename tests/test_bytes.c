/* What is announced is what is allocated: the estimate of a net's memory against the most that our
 * objects hold at once, counted around every allocation (--wrap, tests/tests.mk); and a net that is
 * freed leaves nothing behind, nor does one that no memory is left for. */
#define _DEFAULT_SOURCE /* mincore */
#include "include/dmft.h"
#include "integrators/fixed_point.h"
#include "solver/measure/gradients.h"
#include "solver/study/compare.h"
#include "solver/study/sweep.h"
#include "tests/support/support.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Addresses that were reserved for arrays: of these the pages count that have been written to. */
enum { RESERVED = 1 << 24, MANY = 256 };
static struct {
    unsigned char *at;
    size_t size;
} reserved[MANY];

static atomic_long held, peak;
static atomic_long left; /* allocations until one fails */

static void raise_peak(long now) {
    long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        ;
}

/* Everything that is held now. */
static void look(void) {
    static unsigned char there[1 << 20];
    long now = atomic_load(&held), page = sysconf(_SC_PAGESIZE);
    for (int k = 0; k < MANY; k++) {
        size_t pages = (reserved[k].size + (size_t)page - 1) / (size_t)page;
        unsigned char *first = reserved[k].at - (uintptr_t)reserved[k].at % (uintptr_t)page;
        if (!reserved[k].at)
            continue;
        if (pages > sizeof there || mincore(first, pages * (size_t)page, there))
            abort();
        for (size_t i = 0; i < pages; i++)
            now += there[i] & 1 ? page : 0;
    }
    raise_peak(now);
}

/* What is held now; the peak is counted from here on. */
static long watch(void) {
    long before = atomic_load(&held);
    atomic_store(&peak, before);
    return before;
}

static int reserved_at(const void *block) {
    int k = 0;
    while (k < MANY && reserved[k].at != block)
        k++;
    return k;
}

static bool fails(void) {
    return atomic_fetch_sub(&left, 1) == 1;
}

static void *count(void *block) {
    long size = (long)malloc_usable_size(block);
    raise_peak(atomic_fetch_add(&held, size) + size);
    return block;
}

#define WRAP(name, formal, actual)                                                                 \
    void *__real_##name formal;                                                                    \
    void *__wrap_##name formal;                                                                    \
    void *__wrap_##name formal {                                                                   \
        return fails() ? NULL : count(__real_##name actual);                                       \
    }
WRAP(malloc, (size_t size), (size))
WRAP(calloc, (size_t n, size_t size), (n, size))
void *__real_aligned_alloc(size_t page, size_t size);
void *__wrap_aligned_alloc(size_t page, size_t size);
void *__wrap_aligned_alloc(size_t page, size_t size) {
    void *block = fails() ? NULL : __real_aligned_alloc(page, size);
    int k = reserved_at(NULL);
    if (size < RESERVED || !block)
        return count(block);
    assert_in_range(k, 0, MANY - 1);
    reserved[k].at = block;
    reserved[k].size = size;
    return block;
}
void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
    int k = block ? reserved_at(block) : MANY;
    if (k < MANY) {
        look();
        reserved[k].at = NULL;
        atomic_fetch_add(&held, (long)malloc_usable_size(block));
    }
    atomic_fetch_sub(&held, (long)malloc_usable_size(block));
    __real_free(block);
}
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size) {
    if (fails())
        return NULL;
    atomic_fetch_sub(&held, (long)malloc_usable_size(block));
    return count(__real_realloc(block, size));
}

FILE *__real_fmemopen(void *bytes, size_t size, const char *mode);
FILE *__wrap_fmemopen(void *bytes, size_t size, const char *mode);
FILE *__wrap_fmemopen(void *bytes, size_t size, const char *mode) {
    return fails() ? NULL : __real_fmemopen(bytes, size, mode);
}

static void none_held_since(long before, const char *name) {
    long now = atomic_load(&held);
    if (now != before)
        fail_msg("%s: %ld bytes are still held", name, now - before);
}

static void none_since(long before, const char *name) {
    none_held_since(before, name);
    for (int k = 0; k < MANY; k++)
        if (reserved[k].at)
            fail_msg("%s: an array is still held", name);
}

/* Ways of training, and how much may be announced of a limit for each byte that is used: bases hold
 * less than their bound, the more the more evaluations it counts on (bs32); the entries of Adam are
 * known beforehand. */
static const struct {
    double most;
    const char *more[4];
} ways[] = {
    {3, {"training.optimizer=gd"}},
    {3, {"training.optimizer=momentum", "training.eta0=0.05"}},
    {1.5, {"training.optimizer=adam", "training.eta0=0.02"}},
    {3, {"training.integrator=euler", "training.eta0=0.1"}},
    {5.5, {"training.integrator=heun", "training.eta0=0.1"}},
    {5.5, {"training.integrator=bs32", "training.eta0=0.1"}},
    {3, {"training.batch=2", "training.order=shuffled", "data.test_inputs=3"}},
    {5.5, {"output.kernels=full"}},
};

/* Six steps. Beyond what is announced are an array that grows, while the old one is still there
 * (1 + 1.5 of what was 1.5: 5/3), and lists and nodes, some kB for each matrix. A network is
 * announced within the room to grow, 3/2, twice that with the rows of all times (full). */
static void check(const struct model *model, size_t way, int N) {
    enum { T = 6, LISTS = 1 << 16 };
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
    ASK(net_bytes(&setup, integrator_evaluations(training), full ? T : 0, &announced, err));
    long before = watch();
    ASK(net_init(&net, &setup, err));
    for (int t = 0; t < T; t++) {
        support_evaluate(&net, &run);
        ASK(integrator_of(training)->advance(&net, training, run.data.y, err));
        look();
    }
    double used = (double)(atomic_load(&peak) - before);
    double most = !N ? ways[way].most : full ? 3 : 1.6;
    if (used > 5 / 3.0 * announced + LISTS || announced > most * used)
        fail_msg("%s, %s, N = %d: %g bytes announced, %g used", model->name, ways[way].more[0], N,
                 announced, used);
    net_free(&net);
    none_since(before, model->name);
    run_free(&run);
}

static void estimates(void **state) {
    (void)state;
    for (const struct model *const *model = model_list; *model; model++)
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
            for (int N = 0; N <= 128; N += 128)
                check(*model, way, N);
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
static void fixed_points(void **state) {
    (void)state;
    static const struct {
        const char *file, *more[5];
    } cases[] = {
        {"data/dense.ini", {"network.depth=3"}},
        {"data/dense.ini",
         {"network.depth=3", "solver.anderson=3", "training.eta0=0.05", "training.gamma0=0.1"}},
        {"data/regime2.ini", {"solver.expert_sites=16"}},
        {"data/resnet.ini", {"network.depth=3"}},
    };
    const struct fixed_point_calls calls = {NULL, swept, measured};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *all[16] = {"data.inputs=4",
                               "training.steps=40",
                               "solver.threads=1",
                               "solver.sites=16",
                               "solver.max_sweeps=5",
                               "solver.method=fixed_point",
                               "solver.fp_tolerance=1e-13"};
        struct run run;
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
        run_free(&run);
    }
}

/* Thin matrices of 400 rows; of the second file the activations of 400 inputs, too, of which not
 * all are there at once. */
static void thin_matrices(void **state) {
    (void)state;
#define LOOK                                                                                       \
    "data.inputs=2", "network.program=t.lua",                                                      \
        "network.program_text=local a = population('a', {size = key('depth') / 3}) "               \
        "local h = read_in(a, 'W1') read_out(sum(look(h, 400, 'Q')) * h, 'w')"
#define WIDE "data.inputs=400", "data.dimension=400", "network.depth=1"
    static const struct {
        int N;
        double most;
        const char *file, *more[4];
    } cases[] = {
        {0, 1.1, "examples/dense.ini", {LOOK}},
        {512, 1.1, "examples/dense.ini", {LOOK}},
        {0, 1.1, "data/dense.ini", {WIDE}},
        {512, 1.3, "data/dense.ini", {WIDE}},
        {512, 1.1, "data/dense.ini", {WIDE, "reference.draws=balanced"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *all[8] = {"solver.sites=1024", "solver.threads=1", "reference.widths=512"};
        struct run run;
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
        check_share(cases[i].file, cases[i].N, announced, before, 0.9, cases[i].most);
        net_free(&net);
        none_since(before, cases[i].file);
        run_free(&run);
    }
}

/* Bases as long as they can be, since all rows are new behind kinks, of matrices that start at zero
 * or are drawn. Beside what is announced is an array that grows, as above. */
static void bases(void **state) {
    (void)state;
    enum { T = 24 };
#define BEHIND_KINKS(start)                                                                        \
    "network.program_text=local a = population('a', {size = key('depth') / 3}) "                   \
    "local h = relu(read_in(a, 'W1')) for k = 1, 3 do h = relu(h + map(h, a, {name = 'V' .. k, "   \
    "a0 = " start "})) end read_out(h, 'w')"
    static const char *const programs[] = {BEHIND_KINKS("0"), BEHIND_KINKS("1")};
    for (int i = 0; i < 2; i++) {
        const char *const all[] = {"data.inputs=4",
                                   "solver.sites=1024",
                                   "solver.threads=1",
                                   "reference.widths=",
                                   "solver.tolerance=1e-8",
                                   "network.program=t.lua",
                                   programs[i],
                                   NULL};
        struct run run;
        struct net net;
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
        net_free(&net);
        run_free(&run);
    }
}

/* One that is written in Lua. */
static void scripts(void **state) {
    (void)state;
    static const char *const small[] = {"solver.sites=64", "data.inputs=3", NULL};
    struct run run;
    support_run(&run, "examples/balanced.ini", small);
    for (int N = 0; N <= 32; N += 32) {
        struct net net;
        long before = atomic_load(&held);
        support_net(&net, &run, N, 0);
        support_evaluate(&net, &run);
        net_free(&net);
        none_since(before, "balanced.lua");
    }
    run_free(&run);
}

/* A value that takes the place of another one: a text of the same length. */
static void values(void **state) {
    (void)state;
    struct run run;
    support_run(&run, "data/dense.ini", (const char *const[]){NULL});
    ASK(params_record(&run.params, "data", "file", "a", err));
    long before = atomic_load(&held);
    ASK(params_record(&run.params, "data", "file", "b", err));
    assert_string_equal(params_find(&run.params, "data", "file")->text, "b");
    none_since(before, "a value");
    run_free(&run);
}

/* What a net puts aside while gradients are found apart, in rows. */
static double put_aside(const struct net *net) {
    double bytes = 0;
    for (int i = 0; i < net->arrays.count && net->output.loss_in_cotangent; i++)
        bytes += (double)array_bytes(net->arrays.item[i], net->arrays.item[i]->rows);
    return bytes;
}

/* What a tangent kernel takes is announced for the matrix of the most rows. Beside it are tiles of
 * products, of 2^21 bytes at most, which one thread alone fills; and malloc rounds each block up,
 * three of them and those that are put aside, a large one to whole pages. */
static void tangents(void **state) {
    (void)state;
    enum { P = 200, TILES = 1 << 21 };
    static const char *const many[] = {"data.inputs=200", "data.test_inputs=0", "solver.threads=1",
                                       "output.tangent=sum", NULL};
    const double page = (double)sysconf(_SC_PAGESIZE);
    for (const struct model *const *model = model_list; *model; model++) {
        struct run run;
        struct net net;
        struct gradients g;
        if (!support_small(&run, *model, many))
            continue;
        support_net(&net, &run, 16, 0);
        support_evaluate(&net, &run);
        ASK(gradients_init(&g, &run.config, &net, err));
        long before = watch();
        ASK(gradients_find(&g, &net, err));
        double used = (double)(atomic_load(&peak) - before), rows = put_aside(&net),
               announced = gradients_scratch(&run.config, &net) + rows;
        double rounding =
            (3 + (net.output.loss_in_cotangent ? net.arrays.count + net.vectors.count : 0)) * page;
        if (used > announced + TILES + rounding || announced > 1.1 * used)
            fail_msg("%s: %g bytes announced, %g used", (*model)->name, announced, used);
        none_since(before, "a tangent kernel");
        gradients_free(&g);
        net_free(&net);
        run_free(&run);
    }
}

/* Of a sweep that has nothing to do. */
static void rounds(void **state) {
    (void)state;
    const volatile sig_atomic_t stop = 0;
    struct sweep sweep = {.stop = &stop};
    long before = atomic_load(&held);
    ASK(sweep_work_by_ranks(&sweep, err));
    none_since(before, "a round");
}

/* A net, its start and two steps. */
static int march(struct net *net, const struct run *run, int N, struct err *err) {
    const struct training *training = &run->config.training;
    struct net_setup setup = run_setup(run, N, 0);
    TRY(net_init(net, &setup, err));
    TRY(net_evaluate(net, training->loss, run->data.y, err));
    for (int t = 0; t < 2; t++)
        TRY(integrator_of(training)->advance(net, training, run->data.y, err));
    return CODE_OK;
}

/* One allocation fails, each in turn: the code says so, and nothing remains. Lua may do without. */
static void check_failures(const struct run *run, const char *name, int N, bool lua) {
    struct net net;
    struct err err;
    long failed = 0;
    for (long n = 1; n == failed + 1; n++) {
        long before = atomic_load(&held);
        atomic_store(&left, n);
        int code = march(&net, run, N, &err), lost = backend_list[0]->sync(&err);
        failed += atomic_exchange(&left, 0) <= 0;
        code = lost ? lost : code;
        if (code != (failed == n ? CODE_SYSTEM : CODE_OK) && (code || !lua))
            fail_msg("%s, N = %d, allocation %ld: code %d: %s", name, N, n, code,
                     code ? err.text : "");
        net_free(&net);
        none_since(before, name);
    }
    print_message("%s, N = %d: %ld allocations\n", name, N, failed);
    assert_true(failed > 100);
}

static void failures(void **state) {
    (void)state;
    const char *small[] = {"solver.sites=16",
                           "data.inputs=2",
                           "training.steps=3",
                           "solver.threads=1",
                           "data.test_inputs=0",
                           NULL,
                           NULL};
    struct run run;
    support_run(&run, "examples/balanced.ini", small);
    check_failures(&run, "balanced.lua", 0, true);
    run_free(&run);
    static const char *const more[] = {"training.optimizer=adam", "training.integrator=bs32",
                                       "data.test_inputs=3"};
    for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
        small[5] = more[k];
        support_run(&run, "data/dense.ini", small);
        check_failures(&run, more[k], 0, false);
        check_failures(&run, more[k], 16, false);
        run_free(&run);
    }
    small[5] = NULL;
    for (const struct model *const *model = model_list; *model; model++)
        if (support_small(&run, *model, small)) {
            bool lua = !strcmp((*model)->name, "program");
            check_failures(&run, (*model)->name, 0, lua);
            check_failures(&run, (*model)->name, 16, lua);
            run_free(&run);
        }
}

/* The handle of the library, with what it was given. */
static void handles(void **state) {
    (void)state;
    static const char small[] = "[network]\nmodel = dense\n[solver]\nsites = 8\nthreads = 1\n"
                                "replicates = 1\n[training]\nsteps = 2\n";
    long before = atomic_load(&held);
    struct dmft *d = dmft_new();
    for (int k = 0; k < 2; k++) {
        assert_int_equal(dmft_text(d, "[network]\n"), 0);
        assert_int_equal(dmft_file(d, "examples/dense.ini"), 0);
        assert_int_equal(dmft_set(d, "training.steps", "3"), 0);
    }
    dmft_free(d);
    none_since(before, "struct dmft");
    /* One allocation of a run fails, each in turn. */
    long failed = 0;
    for (long n = 1; n == failed + 1; n++) {
        d = dmft_new();
        assert_int_equal(dmft_text(d, small), 0);
        atomic_store(&left, n);
        int code = dmft_run(d, NULL, 0);
        failed += atomic_exchange(&left, 0) <= 0;
        if (code != (failed == n ? CODE_SYSTEM : CODE_OK) || !code == !!*dmft_error(d))
            fail_msg("a run, allocation %ld: code %d: %s", n, code, dmft_error(d));
        dmft_free(d);
    }
    print_message("a run: %ld allocations\n", failed);
    assert_true(failed > 100);
    /* A run leaves nothing. Of texts that the C library allocates and our objects free it alone
     * knows the size; the first runs fill what is kept for all. */
    size_t in_use[6];
    for (int k = 0; k < 6; k++) {
        d = dmft_new();
        assert_int_equal(dmft_text(d, small), 0);
        assert_int_equal(dmft_run(d, NULL, 0), 0);
        dmft_free(d);
        in_use[k] = mallinfo2().uordblks;
    }
    assert_int_equal(in_use[5], in_use[4]);
}

/* Operations on arrays that are shared out to ranks, of which there is one here: the same numbers,
 * and nothing is left. */
static void shared_out(void **state) {
    (void)state;
    enum { SITES = 1000, GROUP = 4 };
    double x[2 * SITES], u[2][2], C[2][4], tiled[2][2 * GROUP];
    for (int i = 0; i < 2 * SITES; i++)
        x[i] = sin(i);
    for (int shared = 0; shared < 2; shared++) {
        struct backend backend = backend_cpu;
        struct array a, units;
        long before = atomic_load(&held);
        backend.split = shared;
        ASK(array_init(&a, &backend, SITES, GROUP, 2, err));
        ASK(array_init(&units, &backend, GROUP, 1, 2, err));
        assert_true(a.split.over_ranks == shared);
        backend.put(array_all(&a), x);
        backend.averages(array_all(&a), array_all(&a), u[shared]);
        backend.dots(array_all(&a), array_all(&a), C[shared]);
        backend.tile_mean(array_all(&a), array_all(&units));
        backend.get(array_all(&units), tiled[shared]);
        backend.tile(array_all(&units), array_all(&a));
        ASK(backend.sync(err));
        array_free(&a);
        array_free(&units);
        none_since(before, shared ? "shared out" : "not shared out");
    }
    assert_memory_equal(u[0], u[1], sizeof u[0]);
    assert_memory_equal(C[0], C[1], sizeof C[0]);
    assert_memory_equal(tiled[0], tiled[1], sizeof tiled[0]);
}

/* Of the tables of dmft-compare nothing is left, with all that they can have: limit and three
 * widths, z, exponents, terms of the coordinate check. */
static void comparisons(void **state) {
    (void)state;
    static struct compare compare;
    static char *const small[] = {"training.steps=4",    "solver.sites=64",
                                  "solver.replicates=2", "solver.expert_sites=64",
                                  "reference.seeds=2",   "reference.widths=16 24 32"};
    struct err why;
    char name[32]; /* another suite may run in the same folder */
    snprintf(name, sizeof name, "bytes_%ld.h5", (long)getpid());
    ASK(compare_configure(&compare, "data/regime2_compare.ini", 6, small, err));
    unlink(name);
    int code = compare_run(&compare, name, false, &why);
    if (code)
        fail_msg("%s", why.text);
    long whole = atomic_load(&held);
    ASK(compare_table_print(&compare, err));
    none_held_since(whole, "the tables of a comparison");
    compare_free(&compare);
    unlink(name);
}

int main(void) {
    mallopt(M_MMAP_THRESHOLD, RESERVED); /* what is reserved are fresh pages */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts),       cmocka_unit_test(values),
        cmocka_unit_test(rounds),        cmocka_unit_test(tangents),
        cmocka_unit_test(failures),      cmocka_unit_test(handles),
        cmocka_unit_test(estimates),     cmocka_unit_test(fixed_points),
        cmocka_unit_test(thin_matrices), cmocka_unit_test(bases),
        cmocka_unit_test(shared_out),    cmocka_unit_test(comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
