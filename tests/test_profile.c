/* The profile: flops and bytes of every operation as kernels/array/profile.h says, by hand; places;
 * and the clock behind its seconds. */
#define _POSIX_C_SOURCE 200809L
#include "kernels/array/profile.h"
#include "tests/support/support.h"

#include <omp.h>
#include <time.h>

enum { S = 6, GROUP = 2, A = 3, B = 2 };

/* Rows a [A], b [B], c [A] over S sites; one row x over S/GROUP sites, one over GROUP. */
static struct {
    const struct backend *ops;
    struct array a, b, c, sites, group;
    double host[A * S];
} made;

static void make(struct array *array, size_t sites, int group, int rows) {
    ASK(array_init(array, made.ops, sites, group, rows, err));
    made.ops->put(array_all(array), made.host);
}

static int open_all(void **state) {
    (void)state;
    profile_on = true;
    made.ops = profile_backend(backend_list[0]);
    for (int i = 0; i < A * S; i++)
        made.host[i] = 1 + i % 5;
    int before = profile_enter("made", "");
    make(&made.a, S, GROUP, A);
    make(&made.b, S, GROUP, B);
    make(&made.c, S, GROUP, A);
    make(&made.sites, S / GROUP, 1, 1);
    make(&made.group, GROUP, 1, 1);
    profile_leave(before);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    array_free(&made.a);
    array_free(&made.b);
    array_free(&made.c);
    array_free(&made.sites);
    array_free(&made.group);
    return 0;
}

/* What is counted for an operation at a place. */
static struct profile_cost cost_of(const char *place, const char *op) {
    FREED(base_free) struct profile_entry *entries;
    struct profile_cost cost = {0};
    int count, found = 0;
    ASK(profile_read(&entries, &count, err));
    for (int k = 0; k < count; k++)
        if (!strcmp(entries[k].place, place) && !strcmp(entries[k].op, op)) {
            cost = entries[k].cost;
            found++;
        }
    assert_true(found <= 1);
    return cost;
}

static void check(const char *place, const char *op, double calls, double flops, double numbers) {
    struct profile_cost cost = cost_of(place, op);
    if (cost.calls != calls || cost.flops != flops || cost.bytes != 8 * numbers)
        fail_msg("%s of %s: %g calls, %g flops, %g bytes instead of %g, %g, %g", op, place,
                 cost.calls, cost.flops, cost.bytes, calls, flops, 8 * numbers);
    assert_true(cost.seconds >= 0);
}

TEST(costs_are_counted) {
    const struct backend *ops = made.ops;
    const struct rows none = {0}, a = array_all(&made.a), b = array_all(&made.b),
                      c = array_all(&made.c), sites = array_all(&made.sites),
                      group = array_all(&made.group);
    double C[A * B], host[A * S];
    check("made", "move", 5, 0, 2 * (A * S + B * S + A * S + S / GROUP + GROUP));
    ops->get(a, host);
    check("network", "move", 1, 0, 2 * A * S);
    ops->normals(b, (struct rng_stream){.seed = 1});
    check("network", "normals", 1, B * S, B * S);
    ops->dots(a, b, C);
    check("network", "dots", 1, 2 * A * B * S, (A + B) * S);
    ops->averages(a, rows_part(b, 0, 1), C);
    check("network", "averages", 1, 2 * A * S, (A + 1) * S);
    ops->averages(a, none, C);
    check("network", "averages", 2, 4 * A * S, (2 * A + 1) * S);
    memset(C, 0, sizeof C);
    ops->combine(c, 0, C, b);
    check("network", "combine", 1, 2 * A * B * S, (A + B) * S);
    ops->combine(c, 1, C, b);
    check("network", "combine", 2, 4 * A * B * S, (2 * A + 2 * B + A) * S);
    ops->pointwise(FN_TANH, NULL, NULL, a, c, none);
    check("network", "pointwise", 1, A * S, 2 * A * S);
    ops->pointwise(FN_TANH, NULL, NULL, a, none, c);
    check("network", "pointwise", 2, 2 * A * S, 4 * A * S);
    ops->multiply(a, rows_part(b, 0, 1), c);
    check("network", "multiply", 1, A * S, (2 * A + 1) * S);
    ops->top(a, 2, c);
    check("network", "top", 1, A * S, 2 * A * S);
    struct entry_rule adam = {ENTRY_ADAM, 0.9, 0.9, 0.1, 1, 1, 1};
    ops->entries(adam, b, rows_part(a, 0, B), rows_part(a, 0, B), rows_part(c, 0, B));
    check("network", "entries", 1, 10 * B * S, 7 * B * S);
    ops->group_sum(rows_part(a, 0, 1), sites);
    check("network", "move", 2, S, 2 * A * S + S + S / GROUP);
    ops->tile(group, rows_part(c, 0, 1));
    check("network", "move", 3, S, 2 * A * S + 2 * S + S / GROUP + GROUP);
    ops->tile_mean(rows_part(a, 0, 1), group);
    check("network", "move", 4, 2 * S, 2 * A * S + 3 * S + S / GROUP + 2 * GROUP);
    ASK(ops->sync(err));
}

/* Inner places count for themselves. */
TEST(places_are_nested) {
    double C[A * A];
    int outer = profile_enter("outer", "");
    made.ops->dots(array_all(&made.a), array_all(&made.b), C);
    int inner = profile_enter("inner", "part");
    for (int k = 0; k < 2; k++)
        made.ops->dots(array_all(&made.b), array_all(&made.b), C);
    profile_leave(inner);
    made.ops->dots(array_all(&made.a), array_all(&made.a), C);
    profile_leave(outer);
    check("outer", "dots", 2, 2 * A * (A + B) * S, (3 * A + B) * S);
    check("inner part", "dots", 2, 4 * B * B * S, 4 * B * S);
}

static int place_now(void) {
    int place = profile_enter("probe", "");
    profile_leave(place);
    return place;
}

/* What a run of a limit or of networks enters it leaves. */
TEST(places_are_left) {
    int before = place_now();
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_RECORD;
        support_run(&run, "data/regime2.ini",
                    ARGS("training.steps=3", "solver.sites=64", "solver.expert_sites=64",
                         "solver.replicates=1", "reference.seeds=1", "solver.threads=1",
                         "output.tangent=sum", "output.router=yes"));
        support_ensemble(&run, N, &record);
        assert_int_equal(place_now(), before);
    }
}

static double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A thread that sleeps does not work. */
TEST(cpu_time_does_not_pass_alone) {
    struct timespec pause = {.tv_nsec = 200000000};
    double before = base_cpu_seconds(), start = clock_now();
    nanosleep(&pause, NULL);
    assert_true(clock_now() - start >= 0.2);
    assert_true(base_cpu_seconds() >= before && base_cpu_seconds() - before < 0.1);
}

/* Between two looks at the clock, at times that are half a second apart. */
TEST(seconds_are_those_of_the_clock) {
    for (int k = 0; k < 2; k++) {
        struct timespec pause = {.tv_nsec = 500000000};
        for (int look = 0; look < 100; look++) {
            double before = clock_now(), seconds = base_seconds(), after = clock_now();
            assert_true(before <= seconds && seconds <= after);
        }
        if (!k)
            nanosleep(&pause, NULL);
    }
}

/* Seconds of all threads. */
TEST(time_is_counted) {
    int threads = omp_get_max_threads(), before = profile_enter("outside", "");
    double start = clock_now();
    profile_other(base_cpu_seconds() - 1000);
    double passed = clock_now() - start;
    profile_leave(before);
    struct profile_cost cost = cost_of("outside", "");
    check("outside", "", 1, 0, 0);
    assert_true(cost.seconds >= threads * (1000 - 1e-6));
    assert_true(cost.seconds <= threads * (1000 + passed + 1e-6));
}

AROUND_TESTS(open_all, close_all)
