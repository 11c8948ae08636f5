/* The backends cpu and shadow beside one another: the same bits for any number of threads, and what
 * shadow does with memory that nobody has written or may read. */
#define _DEFAULT_SOURCE
#include "tests/support/sample.h"

#include <omp.h>
#include <sys/wait.h>

SAMPLES_TEST(test_fresh_shadow_rows_are_nan) {
    backend = &backend_shadow;
    for (size_t n = 0; n < LENGTH(shape_groups); n++) {
        struct sample *s = sample((struct shape){shape_groups[n], 3}, 5);
        FREED(array_free) struct array array;
        struct rows added;
        ASK(array_init(&array, backend, s->sites, 3, 5, &err));
        for (int k = 0; k < 3; k++) { /* new, then appended over a move */
            backend->get(array_rows(&array, 5 * k, 5), s->now);
            for (size_t i = 0; i < s->values; i++)
                assert_true(isnan(s->now[i]));
            ASK(array_append(&array, 5, &added, &err));
        }
        release();
    }
}

SAMPLES_TEST(test_shadow_memory_cannot_be_touched) {
    backend = &backend_shadow;
    struct sample *s = sample((struct shape){7, 1}, 3);
    size_t last = array_bytes(&s->array, s->array.capacity) / sizeof(double) - 1;
    for (int way = 0; way < 4; way++) { /* first and last value, read and written */
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
            signal(SIGSEGV, SIG_DFL);
            volatile double *value = (double *)s->array.memory + (way / 2 ? last : 0);
            if (way % 2)
                *value = 1;
            _exit(*value == 0 ? 0 : 1);
        }
        int status;
        assert_true(waitpid(child, &status, 0) == child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
}

/* Of numbers that are counted as of those of a population, K are selected whatever they are: NaN of
 * either sign before infinity, of equal ones the first. */
SAMPLES_TEST(test_counted_numbers_are_selected) {
    static const double numbers[] = {1, NAN, 3, -NAN, 2, INFINITY, -0.0, 5, 0, -INFINITY, 5, 5, 5};
    static const size_t rank[] = {9, 0, 7, 1, 8, 2, 10, 3, 11, 12, 4, 5, 6};
    FREED(array_free) struct array x = {0}, mask = {0};
    ASK(array_init(&x, &backend_counted, LENGTH(numbers), 1, 1, &err));
    ASK(array_init(&mask, &backend_counted, LENGTH(numbers), 1, 1, &err));
    memcpy(counted_numbers(array_all(&x)), numbers, sizeof numbers);
    for (size_t K = 0; K <= LENGTH(numbers); K++) {
        backend_counted.top(array_all(&x), K, array_all(&mask));
        for (size_t i = 0; i < LENGTH(numbers); i++)
            assert_true(counted_numbers(array_all(&mask))[i] == (rank[i] < K));
    }
}

/* Results of all operations on the same random input; *size values, to be freed. */
static double *results(struct shape shape, size_t *size) {
    random_state = 77;
    struct sample *a = sample(shape, 70), *b = sample(shape, 33), *y = sample(shape, 70);
    struct sample *coarse = sample((struct shape){shape.groups, 1}, 70);
    *size = 7 * y->values + 3 * 70 * 70;
    double *out = numbers(*size, 0), *next = out + 3 * 70 * 70;
    backend->dots(middle(a), middle(b), out);
    backend->dots(middle(a), middle(a), out + 70 * 70);
    backend->averages(middle(a), rows_part(middle(b), 0, 1), out + 2 * 70 * 70);
    for (int way = 0; way < 7; way++, next += y->values) {
        struct sample *to = way == 6 ? coarse : y;
        if (way == 0)
            backend->combine(middle(y), 0.5, out, middle(b));
        else if (way == 1)
            backend->pointwise(FN_GELU, out, out + 70, middle(a), middle(y), none);
        else if (way == 2)
            backend->pointwise(FN_TANH, out, out + 70, middle(a), none, middle(y));
        else if (way == 3)
            rows_multiply(middle(a), middle(coarse), middle(y));
        else if (way == 4)
            backend->top(middle(a), 3, middle(y));
        else if (way == 5)
            backend->normals(middle(y), (struct rng_stream){1, 2, 3, 4, PURPOSE_POOL, 5, 0, 0});
        else
            backend->group_sum(middle(a), middle(coarse));
        memcpy(next, fetch(to), to->values * sizeof *next);
    }
    release();
    return out;
}

SAMPLES_TEST(test_bits_depend_on_nothing) {
    static const struct shape shapes[] = {{7, 1}, {257, 5}, {1000, 2}};
    for (size_t n = 0; n < LENGTH(shapes); n++) {
        double *out[6];
        for (int way = 0; way < 6; way++) {
            size_t size;
            backend = way % 2 ? &backend_shadow : &backend_cpu;
            omp_set_num_threads(way / 2 + 1);
            out[way] = results(shapes[n], &size);
            assert_memory_equal(out[way], out[0], size * sizeof *out[way]);
        }
        for (int way = 0; way < 6; way++)
            free(out[way]);
    }
}
