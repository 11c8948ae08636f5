/* Data files that are not what they seem: values in other files or nowhere, and damage anywhere in
 * a file, in every layout that HDF5 has. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/support.h"

#include "solver/data/data.h"
#include "solver/data/data_file.h"

#include <hdf5.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/test_stored_XXXXXX";
static char path[64], other[64], raw[64];

static bool closely;
static const double values[6] = {1, 2, 3, 4, 5, 6}, targets[2] = {1, -1};
static const hsize_t shape[2] = {2, 3};
static const struct data_wanted wanted = {.loss = &loss_logistic, .most = 1000};

static int open_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/data.h5", folder);
    snprintf(other, sizeof other, "%s/other.h5", folder);
    snprintf(raw, sizeof raw, "%s/raw", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    remove(path);
    remove(other);
    remove(raw);
    return rmdir(folder);
}

static hid_t new_file(const char *name) {
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

/* plist: of the creation, closed here. */
static void add(hid_t file, const char *name, int rank, hid_t plist, const double *value) {
    hid_t space = H5Screate_simple(rank, shape, NULL);
    hid_t set = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(set >= 0);
    if (value)
        assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    if (plist != H5P_DEFAULT)
        H5Pclose(plist);
}

static hid_t creation(void) {
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(plist >= 0);
    return plist;
}

enum layout { CONTIGUOUS, COMPACT, CHUNKED, COMPRESSED, LAYOUTS };
static hid_t layout_of(enum layout layout, int rank) {
    static const hsize_t chunk[2] = {1, 2};
    hid_t plist = creation();
    if (layout == COMPACT)
        assert_true(H5Pset_layout(plist, H5D_COMPACT) >= 0);
    if (layout >= CHUNKED)
        assert_true(H5Pset_chunk(plist, rank, chunk) >= 0);
    if (layout == COMPRESSED)
        assert_true(H5Pset_shuffle(plist) >= 0 && H5Pset_deflate(plist, 6) >= 0 &&
                    H5Pset_fletcher32(plist) >= 0);
    return plist;
}

static void write_layout(enum layout layout) {
    hid_t file = new_file(path);
    add(file, "X", 2, layout_of(layout, 2), values);
    add(file, "y", 1, layout_of(layout, 1), targets);
    assert_true(H5Fclose(file) >= 0);
}

static void refused(const char *part) {
    struct data data;
    struct err err = {0};
    int code = data_read(&data, path, &wanted, &err);
    if (code != CODE_INPUT || !strstr(err.text, part) || !strstr(err.text, path) || data.X)
        fail_msg("code %d, or no \"%s\" in: %s", code, part, err.text);
}

static void accepted(void) {
    struct data data;
    ASK(data_read(&data, path, &wanted, err));
    assert_memory_equal(data.X, values, sizeof values);
    assert_memory_equal(data.y, targets, sizeof targets);
    data_free(&data);
}

static void test_layouts(void **state) {
    (void)state;
    for (enum layout layout = CONTIGUOUS; layout < LAYOUTS; layout++) {
        write_layout(layout);
        accepted();
    }
}

/* Links in the same file are followed, those to another file are not, even if it is there. */
static void test_links(void **state) {
    (void)state;
    static const char *const chains[] = {"/away", "/group/X"}; /* link to it; through a group */
    hid_t file = new_file(other);
    add(file, "X", 2, H5P_DEFAULT, values);
    H5Fclose(file);

    file = new_file(path);
    add(file, "here", 2, H5P_DEFAULT, values);
    add(file, "y", 1, H5P_DEFAULT, targets);
    assert_true(H5Lcreate_soft("/here", file, "X", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    accepted();

    for (int k = 0; k < 3; k++) {
        file = new_file(path);
        add(file, "y", 1, H5P_DEFAULT, targets);
        assert_true(
            H5Lcreate_external(other, "/X", file, k ? "away" : "X", H5P_DEFAULT, H5P_DEFAULT) >= 0);
        assert_true(H5Lcreate_external(other, "/", file, "group", H5P_DEFAULT, H5P_DEFAULT) >= 0);
        if (k)
            assert_true(H5Lcreate_soft(chains[k - 1], file, "X", H5P_DEFAULT, H5P_DEFAULT) >= 0);
        H5Fclose(file);
        refused("X is a link to another file");
    }
}

static void test_virtual(void **state) {
    (void)state;
    hid_t file = new_file(other), space = H5Screate_simple(2, shape, NULL);
    add(file, "X", 2, H5P_DEFAULT, values);
    H5Fclose(file);
    for (int missing = 0; missing < 2; missing++) {
        hid_t plist = creation();
        assert_true(H5Pset_virtual(plist, space, missing ? "/nowhere.h5" : other, "/X", space) >=
                    0);
        file = new_file(path);
        add(file, "X", 2, plist, NULL);
        add(file, "y", 1, H5P_DEFAULT, targets);
        H5Fclose(file);
        refused("X is a virtual dataset");
    }
    H5Sclose(space);
}

static void test_external(void **state) {
    (void)state;
    for (int missing = 0; missing < 2; missing++) {
        hid_t plist = creation(), file = new_file(path);
        assert_true(H5Pset_external(plist, raw, 0, H5F_UNLIMITED) >= 0);
        add(file, "X", 2, plist, missing ? NULL : values);
        add(file, "y", 1, H5P_DEFAULT, targets);
        H5Fclose(file);
        if (missing)
            remove(raw);
        refused("X is stored in external files");
    }
}

static void test_unwritten(void **state) {
    (void)state;
    for (enum layout layout = CONTIGUOUS; layout < LAYOUTS; layout++) {
        if (layout == COMPACT)
            continue; /* has its values from the start */
        hid_t file = new_file(path);
        add(file, "X", 2, H5P_DEFAULT, values);
        add(file, "y", 1, layout_of(layout, 1), NULL);
        H5Fclose(file);
        refused("y was never written");
    }
    hid_t file = new_file(path);
    add(file, "X", 2, layout_of(CHUNKED, 2), NULL);
    add(file, "y", 1, H5P_DEFAULT, targets);
    hid_t set = H5Dopen2(file, "X", H5P_DEFAULT), space = H5Dget_space(set);
    const hsize_t start[2] = {0, 0}, count[2] = {2, 2}; /* two chunks of four */
    hid_t memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, values) >= 0);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    refused("X was never written in some parts");
}

/* Bytes that a core file of this process may have, afterwards `now` (NULL: as before). */
static rlim_t core_limit(const rlim_t *now) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_CORE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = now && *now < limit.rlim_max ? *now : limit.rlim_max;
    if (now)
        assert_int_equal(setrlimit(RLIMIT_CORE, &limit), 0);
    return before;
}

/* What the process that reads meets in H5Dread, instead of values; it leaves no core file. */
static int fate; /* 0: nothing; a signal; an end: */
enum { SILENT = -1, RAVING = -2 /* says that there are more numbers than there can be */ };

/* As the process that reads tells what it has found (data_file.c), by the only pipe that is open
 * for writing. */
static void rave(void) {
    struct {
        struct err err;
        struct data_file stored;
    } report = {0};
    for (int k = 0; k < DATA_FILE_SETS; k++)
        report.stored.set[k].count = SIZE_MAX / 2;
    for (int descriptor = 3; descriptor < 64; descriptor++) {
        struct stat status;
        if (!fstat(descriptor, &status) && S_ISFIFO(status.st_mode))
            _exit(write(descriptor, &report, sizeof report) < 0);
    }
    _exit(1);
}

herr_t __real_H5Dread(hid_t set, hid_t type, hid_t memory, hid_t file, hid_t plist, void *out);
herr_t __wrap_H5Dread(hid_t set, hid_t type, hid_t memory, hid_t file, hid_t plist, void *out);
herr_t __wrap_H5Dread(hid_t set, hid_t type, hid_t memory, hid_t file, hid_t plist, void *out) {
    if (fate && core_limit(NULL))
        _exit(9);
    if (fate == SILENT)
        _exit(0);
    if (fate == RAVING)
        rave();
    if (fate)
        raise(fate);
    return __real_H5Dread(set, type, memory, file, plist, out);
}

static void test_death(void **state) {
    (void)state;
    static const struct {
        int fate, code;
        const char *part;
    } cases[] = {
        {SIGSEGV, CODE_INPUT, "is damaged, reading it broke down"},
        {SIGABRT, CODE_INPUT, "is damaged, reading it broke down"},
        {SILENT, CODE_INPUT, "is damaged, reading it broke down"},
        {RAVING, CODE_INPUT, "is damaged, reading it broke down"},
        {SIGKILL, CODE_SYSTEM, "the process that read it was killed"},
        {SIGINT, CODE_INTERRUPTED, "interrupted while reading data file"},
        {SIGTERM, CODE_INTERRUPTED, "interrupted while reading data file"},
    };
    write_layout(CONTIGUOUS);
    const rlim_t most = RLIM_INFINITY, before = core_limit(&most);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct data data;
        struct err err = {0};
        fate = cases[k].fate;
        int code = data_read(&data, path, &wanted, &err);
        fate = 0;
        if (code != cases[k].code || !strstr(err.text, cases[k].part) || data.X)
            fail_msg("code %d, or no \"%s\" in: %s", code, cases[k].part, err.text);
    }
    core_limit(&before);
    accepted();
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

/* Bytes of the file set to 0, to 0xff and to their complement, every 61st or (long) every 5th: it
 * is read, or refused with one sentence, and this process lives. What is read is finite. */
static void test_damaged(void **state) {
    (void)state;
    int read = 0, broke = 0, said = 0;
    for (enum layout layout = CONTIGUOUS; layout < LAYOUTS; layout++) {
        static unsigned char bytes[1 << 15];
        write_layout(layout);
        FILE *file = fopen(path, "rb");
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        assert_true(size > 1000 && size < sizeof bytes);
        for (size_t at = layout; at < size; at += closely ? 5 : 61)
            for (int kind = 0; kind < 3; kind++) {
                unsigned char was = bytes[at];
                struct data data;
                struct err err = {0};
                bytes[at] = kind == 0 ? 0 : kind == 1 ? 0xff : (unsigned char)~was;
                file = fopen(path, "wb");
                assert_true(file && fwrite(bytes, 1, size, file) == size && !fclose(file));
                bytes[at] = was;
                int code = data_read(&data, path, &wanted, &err);
                if (code && (code != CODE_INPUT || strncmp(err.text, "data file ", 10)))
                    fail_msg("layout %d, byte %zu: code %d: %s", layout, at, code, err.text);
                read += !code;
                said += code != 0;
                broke += strstr(err.text, "broke down") != NULL;
                for (size_t k = 0; !code && k < data_rows(&data) * (size_t)data.D; k++)
                    assert_true(isfinite(data.X[k]));
                data_free(&data);
            }
    }
    print_message("%d read, %d refused, of which HDF5 broke down in %d\n", read, said, broke);
    assert_true(read && said);
}

static int quiet(void **state) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return open_folder(state);
}

int main(int argc, char **argv) {
    closely = argc > 1 && !strcmp(argv[1], "long");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),   cmocka_unit_test(test_links),
        cmocka_unit_test(test_virtual),   cmocka_unit_test(test_external),
        cmocka_unit_test(test_unwritten), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_death),
    };
    return cmocka_run_group_tests_name("stored", tests, quiet, remove_folder);
}
