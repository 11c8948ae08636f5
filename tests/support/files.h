/* What tests of files share: a folder of its own for every test, whose path is the state; what a
 * call returned, with its sentence; and what HDF5 gives back. */
#pragma once

#include "tests/support/test.h"

#include "solver/files/io.h"

#include <hdf5.h>
#include <hdf5_hl.h>

void close_file(hid_t *file); /* for FREED */

/* A test in a folder of its own. */
#define FOLDER_TEST(name) TEST_BETWEEN(open_folder, remove_folder, name)

/* A folder of its own for every test: the state. */
static inline int open_folder(void **state) {
    static const char pattern[] = "/tmp/test_files_XXXXXX";
    *state = malloc(sizeof pattern);
    if (!*state)
        return -1;
    memcpy(*state, pattern, sizeof pattern);
    return mkdtemp(*state) ? 0 : -1;
}

/* The files that the tests leave, and no others. */
static inline int remove_folder(void **state) {
    static const char *const names[] = {"out.h5", "out.h5.partial", "data.h5", "sub"};
    char path[PATH_MAX];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        snprintf(path, sizeof path, "%s/%s", (const char *)*state, names[k]);
        remove(path);
    }
    int failed = rmdir(*state);
    free(*state);
    return failed;
}

static inline const char *in_folder(char path[PATH_MAX], void **state, const char *name) {
    snprintf(path, PATH_MAX, "%s/%s", (const char *)*state, name);
    return path;
}

static inline bool exists(const char *path) {
    struct stat status;
    return !lstat(path, &status);
}

static inline void assert_ok(int code, const struct err *err) {
    FAIL_IF(code, "code %d: %s", code, err->text);
}

static inline void assert_refused(int got, int code, const char *part, const struct err *err) {
    if (got != code || err->code != code || !strstr(err->text, part))
        fail_msg("code %d instead of %d, or no \"%s\" in: %s", got, code, part, err->text);
}

static inline int quiet(void **state) {
    (void)state;
    io_quiet();
    return 0;
}

static inline int close_library(void **state) {
    (void)state;
    return H5close();
}

static inline hid_t open_file(const char *path) {
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static inline int read_complete(const char *path) {
    int value = -1;
    hid_t file = open_file(path);
    assert_true(H5LTget_attribute_int(file, "/", "complete", &value) >= 0);
    assert_true(H5Fclose(file) >= 0);
    return value;
}

/* A string attribute must be of variable length and UTF-8. */
static inline void assert_text(hid_t file, const char *object, const char *name, const char *want) {
    hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(attribute >= 0);
    hid_t type = H5Aget_type(attribute);
    assert_true(H5Tis_variable_str(type) > 0);
    assert_int_equal(H5Tget_cset(type), H5T_CSET_UTF8);
    char *text = NULL;
    assert_true(H5Aread(attribute, type, &text) >= 0);
    assert_string_equal(text ? text : "", want);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attribute);
}
