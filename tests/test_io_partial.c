/* The partial file of a run: who writes it, and what is left of it where a run ends or is cut. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/files.h"
#include "solver/files/partial.h"

#include <errno.h>
#include <fcntl.h>

FOLDER_TEST(test_partials) {
    char path[PATH_MAX], first[PATH_MAX];
    struct io a, b;
    in_folder(path, state, "out.h5");
    in_folder(first, state, "out.h5.partial");
    assert_ok(io_create(&a, path, false, &failure), &failure);
    assert_string_equal(a.partial, first);
    assert_refused(io_create(&b, path, false, &failure), CODE_INPUT, "another run is writing",
                   &failure);
    assert_ok(io_flush(&a, &failure), &failure);
    assert_refused(io_create(&b, path, true, &failure), CODE_INPUT, "another run is writing",
                   &failure);

    /* out.h5 is there now: this run keeps its result under the partial name */
    assert_int_equal(close(open(path, O_WRONLY | O_CREAT, 0666)), 0);
    assert_ok(io_text(&a, "/", "who", "a", &failure), &failure);
    assert_refused(io_finish(&a, false, &failure), CODE_INPUT, first, &failure);
    io_close(&a);
    io_close(&a);
    assert_int_equal(read_complete(first), 1);
    assert_refused(io_create(&b, path, false, &failure), CODE_INPUT, "exists already", &failure);
    assert_int_equal(remove(path), 0);

    /* a later one does not replace it unless told to, and then clears it by its success */
    assert_refused(io_create(&b, path, false, &failure), CODE_INPUT, "add --force", &failure);
    assert_int_equal(read_complete(first), 1);
    assert_ok(io_create(&b, path, true, &failure), &failure);
    assert_int_equal(read_complete(first), 0);
    assert_ok(io_text(&b, "/", "who", "b", &failure), &failure);
    assert_ok(io_finish(&b, true, &failure), &failure);
    assert_false(exists(first));
    FREED(close_file) hid_t file = open_file(path);
    assert_text(file, "/", "who", "b");
}

/* Stopped without io_finish: what was flushed is there, and says that it is not all. */
FOLDER_TEST(test_interrupted) {
    char path[PATH_MAX], partial[PATH_MAX];
    struct io io;
    assert_ok(io_create(&io, in_folder(path, state, "out.h5"), false, &failure), &failure);
    assert_ok(io_text(&io, "a/b", "note", "kept", &failure), &failure);
    assert_ok(io_flush(&io, &failure), &failure);
    io_close(&io);
    assert_false(exists(path));
    in_folder(partial, state, "out.h5.partial");
    assert_int_equal(read_complete(partial), 0);
    FREED(close_file) hid_t file = open_file(partial);
    assert_text(file, "a/b", "note", "kept");
}

/* What failed before, and is no affair of the folder, is not taken for a failure of it. */
FOLDER_TEST(test_an_old_failure_is_none_of_the_folder) {
    char path[PATH_MAX];
    in_folder(path, state, "out.h5");
    errno = EIO;
    assert_ok(partial_sync(path, &failure), &failure);
}

FOLDER_TEST(test_bad_names) {
    static const struct {
        const char *name, *part;
    } cases[] = {{"none/out.h5", "none"}, {"sub", "regular file"}, {"sub/", "regular file"}};
    char path[PATH_MAX];
    struct io io;
    assert_int_equal(mkdir(in_folder(path, state, "sub"), 0777), 0);
    for (size_t k = 0; k < COUNT(cases); k++) {
        in_folder(path, state, cases[k].name);
        assert_refused(io_create(&io, path, true, &failure), CODE_INPUT, cases[k].part, &failure);
        io_close(&io);
    }
    assert_refused(io_create(&io, "", false, &failure), CODE_INPUT, "empty", &failure);
    assert_refused(io_create(&io, "/dev/null", true, &failure), CODE_INPUT, "regular file",
                   &failure);
    assert_refused(io_create(&io, "/proc/out.h5", true, &failure), CODE_SYSTEM, "/proc/out.h5",
                   &failure);
    FILE *file = fopen(in_folder(path, state, "data.h5"), "w");
    assert_non_null(file);
    fclose(file);
    in_folder(path, state, "data.h5/out.h5");
    assert_refused(io_create(&io, path, true, &failure), CODE_INPUT, "data.h5", &failure);
}

AROUND_TESTS(quiet, close_library)
