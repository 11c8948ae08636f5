/* Random rows on the backend under test, with host copies, for tests of its operations. */
#pragma once

#include "tests/support/each_backend.h"

static inline double *numbers(size_t count, double value) {
    double *list = malloc((count ? count : 1) * sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < count; i++)
        list[i] = value;
    return list;
}

/* Sites in groups; blocks are BACKEND_BLOCK groups, of 17 longer than a strip of a combination. */
struct shape {
    size_t groups;
    int group;
};

static const size_t shape_groups[] = {1, 7, 64, 255, 256, 257, 1000, 2048};

/* Random rows, one more before and after them, in an array with or without spare capacity. */
struct sample {
    struct array array;
    size_t sites, values; /* values: in the rows in the middle */
    int count;
    double *all, *now; /* host copies of all rows: as put, as fetched */
    double *x;         /* the rows in the middle of `all` */
};

static struct sample pool[8]; /* those in use, until release() */
static size_t pooled;

static inline void put_all(struct sample *s) {
    backend->put(array_all(&s->array), s->all);
}

static inline struct sample *sample(struct shape shape, int count) {
    assert_true(pooled < LENGTH(pool));
    struct sample *s = &pool[pooled++];
    *s = (struct sample){.sites = shape.groups * (size_t)shape.group, .count = count};
    ASK(array_init(&s->array, backend, s->sites, shape.group, count + 2, &err));
    ASK(backend->resize(&s->array, count + 2 + (int)(s->sites % 3), &err));
    s->values = s->sites * (size_t)count;
    s->all = numbers(s->values + 2 * s->sites, 0);
    s->now = numbers(s->values + 2 * s->sites, 0);
    s->x = s->all + s->sites;
    for (size_t i = 0; i < s->values + 2 * s->sites; i++)
        s->all[i] = rounded(uniform());
    put_all(s);
    return s;
}

static inline void release(void) {
    while (pooled) {
        struct sample *s = &pool[--pooled];
        array_free(&s->array);
        free(s->all);
        free(s->now);
    }
}

static inline struct rows middle(const struct sample *s) {
    return array_rows(&s->array, 1, s->count);
}

/* The middle rows as they are now; nothing has touched the others. */
static inline const double *fetch(struct sample *s) {
    size_t line = s->sites * sizeof *s->all, last = s->sites + s->values;
    backend->get(array_all(&s->array), s->now);
    assert_memory_equal(s->now, s->all, line);
    assert_memory_equal(s->now + last, s->all + last, line);
    return s->now + s->sites;
}

/* A test, behind which its samples are released. */
#define SAMPLES_TEST(name) TEST_BETWEEN(NULL, teardown, name)

static inline int teardown(void **state) {
    (void)state;
    release();
    return 0;
}
