/* An ini given as bytes or as text is read by the table of tests/support/param_table.h, as a
 * program reads its own. */
#pragma once

#include "tests/support/test.h"

#include "tests/support/param_table.h"

enum { STEPS_LINE = 2 }; /* of start */
static const char start[] = "[run]\nsteps = 7\n";

struct fixture {
    char path[512];
    struct params params;
    struct table_config config;
    struct err err;
};

static inline void fixture_free(struct fixture *f) {
    params_free(&f->params);
}

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
    memset(f, 0xa5, sizeof *f); /* what is not written shows */
    f->err = (struct err){0};
    put_file(f, bytes, size);
    int code = params_read(&f->params, table_sections, TABLE_COUNT, f->path, overrides, override,
                           &f->config, &f->err);
    unlink(f->path);
    assert_int_equal(code, f->err.code);
    return code;
}

static inline void accept_bytes(struct fixture *f, const void *bytes, size_t size) {
    FAIL_IF(read_bytes(f, bytes, size, 0, NULL), "refused: %s", f->err.text);
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
