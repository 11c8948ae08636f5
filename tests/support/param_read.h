/* An ini given as bytes or as text is read by the table of tests/support/param_table.h, as a
 * program reads its own; and tables of inis that must be refused. */
#ifndef TESTS_PARAM_READ_H
#define TESTS_PARAM_READ_H

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/param_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_LINE = 2 }; /* of start */
static const char start[] = "[run]\nsteps = 7\n";

struct fixture {
    char path[512];
    struct params params;
    struct table_config config;
    struct err err;
};

/* Puts size bytes into a new file. */
static inline void put_file(struct fixture *f, const void *bytes, size_t size) {
    const char *folder = getenv("TMPDIR");
    int length = snprintf(f->path, sizeof f->path, "%s/test_param_XXXXXX",
                          folder && *folder ? folder : "/tmp");
    assert_true(length > 0 && (size_t)length < sizeof f->path);
    int file = mkstemp(f->path);
    assert_true(file >= 0);
    assert_true(write(file, bytes, size) == (ssize_t)size);
    assert_int_equal(close(file), 0);
}

static inline int read_bytes(struct fixture *f, const void *bytes, size_t size, int overrides,
                             char *const *override) {
    memset(f, 0, sizeof *f);
    put_file(f, bytes, size);
    int code = params_read(&f->params, table_sections, TABLE_COUNT, f->path, overrides, override,
                           &f->config, &f->err);
    unlink(f->path);
    assert_int_equal(code, f->err.code);
    return code;
}

static inline void accept_bytes(struct fixture *f, const void *bytes, size_t size) {
    if (read_bytes(f, bytes, size, 0, NULL))
        fail_msg("refused: %s", f->err.text);
}

/* The beginning, then text, then overrides (NULL-terminated, may be NULL). */
static inline int read_text(struct fixture *f, const char *text, const char *const *override) {
    char *given[4] = {NULL}, *all = malloc(strlen(text) + sizeof start);
    int count = 0;
    assert_non_null(all);
    strcpy(all, start);
    strcat(all, text);
    for (; override && override[count]; count++)
        assert_non_null(given[count] = strdup(override[count]));
    int code = read_bytes(f, all, strlen(all), count, given);
    for (int i = 0; i < count; i++)
        free(given[i]);
    free(all);
    return code;
}

static inline void accept(struct fixture *f, const char *text, const char *override) {
    if (read_text(f, text, override ? (const char *const[]){override, NULL} : NULL))
        fail_msg("refused: %s", f->err.text);
}

struct refusal {
    const char *text;        /* behind the beginning, so that its first line is line 3 */
    const char *override[3]; /* up to two */
    const char *part[4]; /* of the message; the file is always one unless an override is given */
};

static inline void check_refusals(const struct refusal *refusal, size_t count) {
    struct fixture f;
    for (size_t i = 0; i < count; i++) {
        if (!read_text(&f, refusal[i].text, refusal[i].override))
            fail_msg("accepted: %s", refusal[i].text);
        assert_int_equal(f.err.code, CODE_INPUT);
        const char *name = strrchr(f.path, '/') + 1;
        if (!refusal[i].override[0] && !strstr(f.err.text, name))
            fail_msg("no file name: %s", f.err.text);
        for (size_t k = 0; k < 4 && refusal[i].part[k]; k++)
            if (!strstr(f.err.text, refusal[i].part[k]))
                fail_msg("\"%s\" is not in: %s", refusal[i].part[k], f.err.text);
        if (strchr(f.err.text, '\n'))
            fail_msg("more than one line: %s", f.err.text);
        params_free(&f.params);
    }
}
#define CHECK_REFUSALS(table) check_refusals(table, sizeof(table) / sizeof *(table))

#endif
