/* What several tests share. Tests run from the top folder of the project. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include "solver/run.h"

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>

/* Fails the test with the program's own sentence. */
#define ASK(call)                                                                                  \
    do {                                                                                           \
        struct err ask_ = {0};                                                                     \
        struct err *err = &ask_;                                                                   \
        if (call)                                                                                  \
            fail_msg("%s:%d: %s", __FILE__, __LINE__, ask_.text);                                  \
    } while (0)

/* |got - want| <= tolerance, printing both and the share of the tolerance that was used. */
#define CHECK_ABS(got, want, tolerance, ...)                                                       \
    support_check(__FILE__, __LINE__, got, want, tolerance, __VA_ARGS__)
void support_check(const char *file, int line, double got, double want, double tolerance,
                   const char *what, ...) __attribute__((format(printf, 6, 7)));

/* A configured run (no output file): the ini and a NULL-terminated list of "section.key=value". */
void support_run(struct run *run, const char *file, const char *const *overrides);
/* A fresh net: width N (0: limit) and number of the replicate or seed. */
void support_net(struct net *net, const struct run *run, int N, int replicate);
/* net_evaluate with the run's targets and loss. */
void support_evaluate(struct net *net, const struct run *run);
void support_learn(struct net *net, const struct run *run);
/* Values of rows [count][sites], to be freed. */
double *support_get(struct rows rows);

#endif
