/* What is freed leaves nothing behind, nor does what no memory is left for: allocations of nets
 * fail in turn. */
#define _DEFAULT_SOURCE /* mincore */
#include "include/dmft.h"
#include "solver/data/corpus.h"
#include "solver/data/normals.h"
#include "solver/data/tokens.h"
#include "solver/run/parts.h"
#include "solver/study/compare.h"
#include "tests/support/counted.h"

/* One that is written in Lua. */
TEST(scripts) {
    FREED(run_free) struct run run;
    support_run(&run, "examples/balanced.ini", ARGS("solver.sites=64", "data.inputs=3"));
    for (int N = 0; N <= 32; N += 32) {
        struct net net;
        long before = atomic_load(&held);
        support_begin(&net, &run, N, 0);
        net_free(&net);
        none_since(before, "balanced.lua");
    }
}

/* A value that takes the place of another one: a text of the same length. */
TEST(values) {
    FREED(run_free) struct run run;
    support_run(&run, "data/dense.ini", NULL);
    ASK(params_record(&run.params, "data", "file", "a", err));
    long before = atomic_load(&held);
    ASK(params_record(&run.params, "data", "file", "b", err));
    assert_string_equal(params_find(&run.params, "data", "file")->text, "b");
    none_since(before, "a value");
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

/* One allocation fails, each second one in turn: the code says so, and nothing remains. Of a
 * network they are those that its limit leaves out, and of the next one the other way round, so
 * that what networks share meets every one. Lua may do without. */
static void check_failures(const struct run *run, const char *name, bool lua) {
    static int turn;
    for (int N = 0; N <= 16; N += 16) {
        bool failed = true;
        long n = 1 + (turn + (N > 0)) % 2;
        for (; failed; n += 2) {
            struct net net;
            long before = atomic_load(&held);
            atomic_store(&left, n);
            int code = march(&net, run, N, &failure), lost = backend_list[0]->sync(&failure);
            failed = atomic_exchange(&left, 0) <= 0;
            code = lost ? lost : code;
            if (code != (failed ? CODE_SYSTEM : CODE_OK) && (code || !lua))
                fail_msg("%s, N = %d, allocation %ld: code %d: %s", name, N, n, code,
                         code ? failure.text : "");
            net_free(&net);
            none_since(before, name);
        }
        print_message("%s, N = %d: less than %ld allocations\n", name, N, n);
        assert_true(n > 100);
    }
    turn++;
}

TEST(failures) {
    const char *small[] = LIST("solver.sites=16", "data.inputs=2", "training.steps=3",
                               "solver.threads=1", "data.test_inputs=0", NULL, NULL);
    struct run run;
    static const char *const more[] = {"training.optimizer=adam", "training.integrator=bs32",
                                       "data.test_inputs=3"};
    for (size_t k = 0; k < COUNT(more); k++) {
        small[5] = more[k];
        support_run(&run, "data/dense.ini", small);
        check_failures(&run, more[k], false);
        run_free(&run);
    }
    small[5] = NULL;
    for (const struct model *const *model = model_list; *model; model++)
        if (support_small(&run, *model, small)) {
            check_failures(&run, (*model)->name, !strcmp((*model)->name, "program"));
            run_free(&run);
        }
}

/* Data of these sequences, or (NULL) of a power law, with test inputs. */
static int draw(struct data *data, const struct sequences *sequences, struct err *err) {
    const struct data sizes =
        sequences ? tokens_sizes(sequences, 3, 2, sequences->kind == SEQUENCE_MODULAR ? 3 : 4, true)
                  : (struct data){.P = 3, .tests = 2, .n = 1, .D = 4, .C = 1};
    TRY(data_init(data, &sizes, err));
    return sequences ? tokens_draw(data, sequences, err)
                     : normals_power_law(data, 1, &(struct power_law){1, 1, 0.1}, err);
}

static int read_text(struct data *data, struct err *err) {
    return corpus_read(data,
                       &(struct corpus)LIST(.path = "README.md", .alphabet = "abc", .inputs = 3,
                                            .tests = 2, .n = 4, .stride = 4, .held_out = 0.2,
                                            .positions = true, .seed = 1, .most = 1e9),
                       err);
}

/* Data that are drawn or read from a text: one allocation fails, each in turn. */
TEST(data_failures) {
    static const struct sequences sequences[] = {
        {SEQUENCE_MARKOV, 5, 1, 1}, {SEQUENCE_COPY, 5, 1, 0}, {SEQUENCE_MODULAR, 5, 1, 0}};
    for (int source = 0; source < 5; source++) {
        long failed = 0;
        for (long n = 1; n == failed + 1; n++) {
            struct data data = {0};
            long before = atomic_load(&held);
            atomic_store(&left, n);
            int code = source == 4 ? read_text(&data, &failure)
                                   : draw(&data, source < 3 ? &sequences[source] : NULL, &failure);
            failed += atomic_exchange(&left, 0) <= 0;
            if (code != (failed == n ? CODE_SYSTEM : CODE_OK))
                fail_msg("source %d, allocation %ld: code %d: %s", source, n, code,
                         code ? failure.text : "");
            data_free(&data);
            none_since(before, "data");
        }
        print_message("source %d: %ld allocations\n", source, failed);
        assert_true(failed >= 2);
    }
}

/* An ini whose number of sites is found and then recorded; one allocation fails, each in turn. */
TEST(keys) {
    char *overrides[] = {"solver.sites=auto"};
    long failed = 0;
    for (long n = 1; n == failed + 1; n++) {
        FREED(run_free) struct run run = {0};
        atomic_store(&left, n);
        int code = run_configure(&run, "data/dense.ini", 1, overrides, &failure);
        failed += atomic_exchange(&left, 0) <= 0;
        if (code != (failed == n ? CODE_SYSTEM : CODE_OK))
            fail_msg("allocation %ld: code %d: %s", n, code, code ? failure.text : "");
    }
    print_message("keys: %ld allocations\n", failed);
    assert_true(failed > 100);
}

/* The handle of the library, with what it was given. */
TEST(handles) {
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
     * knows the size. The first runs fill what is kept for all, and of a run some hundred bytes
     * can wait for a few of the next ones: what every run leaves raises the least of twelve runs.
     */
    size_t least[2] = {SIZE_MAX, SIZE_MAX};
    for (int k = 0; k < 26; k++) {
        d = dmft_new();
        assert_int_equal(dmft_text(d, small), 0);
        assert_int_equal(dmft_run(d, NULL, 0), 0);
        dmft_free(d);
        size_t in_use = mallinfo2().uordblks, *half = &least[k >= 14];
        if (k >= 2 && in_use < *half)
            *half = in_use;
    }
    assert_true(least[1] <= least[0]);
}

/* Operations on arrays that are shared out to ranks, of which there is one here: the same numbers,
 * and nothing is left. */
TEST(shared_out) {
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

/* A device as --profile sees one, without values: rates need its operations and their seconds. */
static int device_opens(double *bytes, struct err *err) {
    (void)err;
    *bytes = 1e9;
    return CODE_OK;
}
static int device_alloc(struct array *array, int capacity, struct err *err) {
    array->capacity = capacity;
    array->memory = malloc(1);
    return array->memory ? CODE_OK : err_set(err, CODE_SYSTEM, "out of memory: device");
}
static void device_release(struct array *array) {
    free(array->memory);
}
static void device_dots(struct rows a, struct rows b, double *C) {
    (void)a, (void)b;
    *C = 1;
}
static void device_combine(struct rows y, double beta, const double *C, struct rows a) {
    (void)y, (void)beta, (void)C, (void)a;
}
static void device_pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                             struct rows value, struct rows slope) {
    (void)fn, (void)scale, (void)shift, (void)x, (void)value, (void)slope;
}
static int device_sync(struct err *err) {
    (void)err;
    for (double start = base_seconds(); base_seconds() == start;)
        ; /* the clock has moved on */
    return CODE_OK;
}

/* Without memory for any part of it a device has no rates, and the sentence says so. */
TEST(rates_of_a_device) {
    struct backend device = backend_cpu;
    struct machine machine;
    struct err err = {0};
    int code = CODE_SYSTEM;
    device.open = device_opens;
    device.alloc = device_alloc;
    device.release = device_release;
    device.dots = device_dots;
    device.combine = device_combine;
    device.pointwise = device_pointwise;
    device.sync = device_sync;
    for (long n = 1; code; n++) {
        long before = atomic_load(&held);
        atomic_store(&left, n);
        code = speeds_machine(&device, 1, &machine, &err);
        bool all = atomic_load(&left) > 0;
        atomic_store(&left, 0);
        assert_int_equal(code, all ? CODE_OK : CODE_SYSTEM);
        assert_true(all || strstr(err.text, "out of memory: "));
        none_since(before, "the rates of a device");
        assert_true(!all || n == 4); /* for two arrays, C */
    }
    assert_true(machine.flops > 0 && machine.bandwidth > 0);
    assert_string_equal(machine.stream, "copy");
}

/* Of the tables of dmft-compare nothing is left, with all that they can have: limit and three
 * widths, z, exponents, terms of the coordinate check. */
TEST(comparisons) {
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
    FAIL_IF(code, "%s", why.text);
    long whole = atomic_load(&held);
    ASK(compare_table_print(&compare, err));
    none_held_since(whole, "the tables of a comparison");
    compare_free(&compare);
    unlink(name);
}

int main(void) {
    mallopt(M_MMAP_THRESHOLD, RESERVED); /* what is reserved are fresh pages */
    return run_registered(__FILE__);
}
