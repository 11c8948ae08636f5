/* What a test program is written in. A test is registered where it stands,
 *
 *     TEST(the_loss_falls) {
 *         ...
 *     }
 *
 * and the main of tests/support/test.c runs those of a program in the order of its file, all or
 * those whose name contains what the environment variable DMFT_TESTS says (make test-NAME K=PART).
 * A program that needs a main of its own ends it with run_registered. */
#pragma once

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/base/base.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A list of strings, ended by NULL: arguments of a program, or settings "section.key=value". */
#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})
/* A list or a row of a table in braces. clang-format fills lines with what stands in it, as with
 * the arguments of a call; of bare braces it gives many an item a line of its own. */
#define LIST(...)                                                                                  \
    { __VA_ARGS__ }
/* The type of the rows of a table with these columns, as in
 * static const STRUCT(const char *ini; int steps) cases[] = {...}; */
#define STRUCT(...)                                                                                \
    struct {                                                                                       \
        __VA_ARGS__;                                                                               \
    }

/* What a call says that fails or is refused. */
__attribute__((unused)) static struct err failure;

/* Declares a string and prints it. */
#define TEXT(name, size, ...)                                                                      \
    char name[size];                                                                               \
    snprintf(name, sizeof name, __VA_ARGS__)

/* Fails the test with a sentence (as by printf) where this holds. */
#define FAIL_IF(wrong, ...)                                                                        \
    do {                                                                                           \
        if (wrong)                                                                                 \
            fail_msg(__VA_ARGS__);                                                                 \
    } while (0)
#define COUNT(table) (sizeof(table) / sizeof *(table))

/* A test between two functions, which may be NULL. All three have `state`: what *state is set to
 * by one is seen by the others. */
#define TEST_BETWEEN(setup, teardown, name)                                                        \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_is_a_test(void) {                              \
        test_add(__LINE__, (struct CMUnitTest){#name, name, setup, teardown, NULL});               \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)
#define TEST_AFTER(setup, name) TEST_BETWEEN(setup, NULL, name)
#define TEST(name) TEST_BETWEEN(NULL, NULL, name)

/* What runs before the first test of a program and after the last one. */
#define AROUND_TESTS(setup, teardown)                                                              \
    __attribute__((constructor)) static void around_tests(void) {                                  \
        test_around(setup, teardown);                                                              \
    }

extern bool is_long; /* whether the program was asked for more: it has the argument `long` */

/* Numbers between -1 and 1, in every run the same. */
extern uint64_t random_state;
double uniform(void);

void test_add(int line, struct CMUnitTest test);
void test_around(CMFixtureFunction setup, CMFixtureFunction teardown);
/* Runs all tests under the name of a group, and returns how many failed. */
int run_registered(const char *group);
