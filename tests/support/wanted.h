/* Test programs take a backend as argument; without one they run on every one of the list. */
#ifndef TESTS_WANTED_H
#define TESTS_WANTED_H

#include "kernels/array/backend.h"

#include <stdio.h>
#include <string.h>

/* Whether to run on this backend; only: the argument, or NULL. Says why one is skipped that is not
 * there. */
static inline bool wanted(const struct backend *backend, const char *only) {
    double bytes;
    struct err err;
    if (only && strcmp(only, backend->name))
        return false;
    if (!backend->open(&bytes, &err))
        return true;
    printf("[  SKIPPED ] %s\n", err.text);
    return false;
}

/* Runs a group of tests once per backend, from number `first` of the list on, or on that named
 * `only`, with the variable `backend` set to it; counts failures. */
#define EACH_BACKEND(first, tests, only, failed)                                                   \
    do {                                                                                           \
        backend_start(1);                                                                          \
        for (int b_ = first; backend_list[b_]; b_++) {                                             \
            if (!wanted(backend_list[b_], only))                                                   \
                continue;                                                                          \
            backend = backend_list[b_];                                                            \
            failed += cmocka_run_group_tests_name(backend->name, tests, NULL, NULL);               \
        }                                                                                          \
    } while (0)

/* The same and then in single precision, or that alone where `only` is its name. */
#define EACH_PRECISION(first, tests, only, failed)                                                 \
    do {                                                                                           \
        EACH_BACKEND(first, tests, only, failed);                                                  \
        for (int b_ = first; backend_list[b_]; b_++) {                                             \
            backend = backend_list[b_]->other;                                                     \
            if (backend && wanted(backend, only))                                                  \
                failed += cmocka_run_group_tests_name(backend->name, tests, NULL, NULL);           \
        }                                                                                          \
    } while (0)

#endif
