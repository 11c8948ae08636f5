/* Test programs take a backend as argument; without one they run on every one of the list. */
#pragma once

#include "kernels/array/backend.h"
#include "tests/support/test.h"

/* Whether to run on this backend; only: the argument, or NULL. Says why one is skipped that is not
 * there. */
static inline bool wanted(const struct backend *backend, const char *only) {
    double bytes;
    if (only && strcmp(only, backend->name))
        return false;
    if (!backend->open(&bytes, &failure))
        return true;
    printf("[  SKIPPED ] %s\n", failure.text);
    return false;
}

/* Runs the tests once per backend, from number `first` of the list on and then with `single` in
 * single precision, or on that named `only` alone, with the variable `backend` set to it. */
static inline int on_backends(const struct backend **backend, int first, bool single,
                              const char *only) {
    int failed = 0;
    backend_start(1);
    for (int precision = 0; precision <= single; precision++)
        for (int b = first; backend_list[b]; b++) {
            *backend = precision ? backend_list[b]->other : backend_list[b];
            if (*backend && wanted(*backend, only))
                failed += run_registered((*backend)->name);
        }
    return failed;
}

#define ON_BACKENDS(first, single)                                                                 \
    int main(int argc, char **argv) {                                                              \
        return on_backends(&backend, first, single, argc > 1 ? argv[1] : NULL);                    \
    }
#define ON_EACH_BACKEND(first) ON_BACKENDS(first, false)
#define ON_EACH_PRECISION(first) ON_BACKENDS(first, true)
