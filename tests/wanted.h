/* Test programs take a backend as argument; without one they run on every one of the list. */
#ifndef TESTS_WANTED_H
#define TESTS_WANTED_H

#include "kernels/backend.h"

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

#endif
