/* Data files that are not what they seem: values in other files or nowhere, and damage anywhere in
 * a file, in every layout that HDF5 has. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/support.h"

#include "solver/data/data.h"
#include "solver/data/data_file.h"

#include <hdf5.h>
#include <pthread.h>

static char folder[] = "/tmp/test_stored_XXXXXX";
static char path[64], other[64], raw[64];

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
static void add_large(hid_t file, const char *name, int rank, const hsize_t *size, hid_t plist,
                      const double *value) {
    hid_t space = H5Screate_simple(rank, size, NULL);
    hid_t set = H5Dcreate2(file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    assert_true(set >= 0);
    if (value)
        assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    if (plist != H5P_DEFAULT)
        H5Pclose(plist);
}

static void add(hid_t file, const char *name, int rank, hid_t plist, const double *value) {
    add_large(file, name, rank, shape, plist, value);
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

/* The file, with X and y of these layouts and values (NULL: nobody has written any). */
static void write_file(hid_t X, const double *x, hid_t y, const double *t) {
    hid_t file = new_file(path);
    add(file, "X", 2, X, x);
    add(file, "y", 1, y, t);
    assert_true(H5Fclose(file) >= 0);
}

static void write_layout(enum layout layout) {
    write_file(layout_of(layout, 2), values, layout_of(layout, 1), targets);
}

static void refused(const char *part) {
    struct data data;
    struct err err = {0};
    int code = data_read(&data, path, &wanted, &err);
    if (code != CODE_INPUT || !strstr(err.text, part) || !strstr(err.text, path) || data.X)
        fail_msg("code %d, or no \"%s\" in: %s", code, part, err.text);
}

static void accepted(void) {
    FREED(data_free) struct data data;
    ASK(data_read(&data, path, &wanted, err));
    assert_memory_equal(data.X, values, sizeof values);
    assert_memory_equal(data.y, targets, sizeof targets);
}

TEST(test_layouts) {
    for (enum layout layout = CONTIGUOUS; layout < LAYOUTS; layout++) {
        write_layout(layout);
        accepted();
    }
}

/* Links in the same file are followed, those to another file are not, even if it is there. */
TEST(test_links) {
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

TEST(test_virtual) {
    hid_t file = new_file(other), space = H5Screate_simple(2, shape, NULL);
    add(file, "X", 2, H5P_DEFAULT, values);
    H5Fclose(file);
    for (int missing = 0; missing < 2; missing++) {
        hid_t plist = creation();
        assert_true(H5Pset_virtual(plist, space, missing ? "/nowhere.h5" : other, "/X", space) >=
                    0);
        write_file(plist, NULL, H5P_DEFAULT, targets);
        refused("X is a virtual dataset");
    }
    H5Sclose(space);
}

TEST(test_external) {
    for (int missing = 0; missing < 2; missing++) {
        hid_t plist = creation();
        assert_true(H5Pset_external(plist, raw, 0, H5F_UNLIMITED) >= 0);
        write_file(plist, missing ? NULL : values, H5P_DEFAULT, targets);
        if (missing)
            remove(raw);
        refused("X is stored in external files");
    }
}

TEST(test_unwritten) {
    for (enum layout layout = CONTIGUOUS; layout < LAYOUTS; layout++) {
        if (layout == COMPACT)
            continue; /* has its values from the start */
        write_file(H5P_DEFAULT, values, layout_of(layout, 1), NULL);
        refused("y was never written");
    }
    write_file(layout_of(CHUNKED, 2), NULL, H5P_DEFAULT, targets);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
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

/* A signal is heard while values are read, whatever the kind of file. */
TEST(test_signal) {
    volatile sig_atomic_t set = 1;
    struct data data;
    struct err told = {0};
    write_layout(CONTIGUOUS);
    base_heed(&set);
    assert_int_equal(data_read(&data, path, &wanted, &told), CODE_INTERRUPTED);
    base_heed(NULL);
    assert_non_null(strstr(told.text, "interrupted while reading data file"));
    assert_null(data.X);
    accepted();
}

static bool hangs; /* the child that tries a file */

static void hang(void) {
    alarm(hangs ? 200 : 0); /* it ends where nobody ends it */
    while (hangs)
        pause();
}

/* Nor does the program wait for a child that goes on reading: what was said to it alone ends both.
 * Without that this test does not end but by its alarm. */
TEST(test_signal_to_the_parent) {
    volatile sig_atomic_t set = 1;
    struct data data;
    struct err told = {0};
    write_layout(CONTIGUOUS);
    assert_int_equal(pthread_atfork(NULL, NULL, hang), 0);
    hangs = true;
    alarm(100);
    base_heed(&set);
    assert_int_equal(data_read(&data, path, &wanted, &told), CODE_INTERRUPTED);
    base_heed(NULL);
    alarm(0);
    hangs = false;
    assert_non_null(strstr(told.text, "interrupted while reading data file"));
    accepted();
}

static void put_byte(FILE *file, size_t at, unsigned char byte) {
    assert_true(!fseek(file, (long)at, SEEK_SET) && fputc(byte, file) == byte && !fflush(file));
}

/* Bytes of the file set to 0, to 0xff and to their complement, every 101st or (long) every 5th: it
 * is read, or refused with one sentence. What is read is finite, and nothing stays open. */
TEST(test_damaged) {
    int read = 0, said = 0;
    for (enum layout layout = CONTIGUOUS; layout < LAYOUTS; layout++) {
        static unsigned char bytes[1 << 15];
        write_layout(layout);
        FREED(base_close)
        FILE *file = fopen(path, "r+b"); /* one byte is written: a whole file would be flushed */
        size_t size = fread(bytes, 1, sizeof bytes, file);
        assert_true(size > 1000 && size < sizeof bytes);
        for (size_t at = layout; at < size; at += is_long ? 5 : 101)
            for (int kind = 0; kind < 3; kind++) {
                unsigned char was = bytes[at];
                FREED(data_free) struct data data;
                struct err err = {0};
                put_byte(file, at, kind == 0 ? 0 : kind == 1 ? 0xff : (unsigned char)~was);
                int code = data_read(&data, path, &wanted, &err);
                put_byte(file, at, was);
                if (code && (code != CODE_INPUT || strncmp(err.text, "data file ", 10)))
                    fail_msg("layout %d, byte %zu: code %d: %s", layout, at, code, err.text);
                read += !code;
                said += code != 0;
                for (size_t k = 0; !code && k < data_rows(&data) * (size_t)data.D; k++)
                    assert_true(isfinite(data.X[k]));
            }
    }
    print_message("%d read, %d refused\n", read, said);
    assert_true(read && said);
    assert_int_equal(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), 0);
}

/* More numbers than are read at once, in chunks that end elsewhere. It is the last one, since a
 * child that tries a file has all of this memory in its tables. */
TEST(test_large) {
    enum { ROWS = 3000, COLUMNS = 1501 };
    static double X[ROWS][COLUMNS], y[ROWS];
    const hsize_t size[2] = {ROWS, COLUMNS}, chunk[2] = {1000, 700};
    const struct data_wanted many = {.loss = &loss_mse, .most = ROWS * COLUMNS};
    struct data data;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++)
            y[i] = X[i][k] = i * 1e-3 + k;
    for (int chunked = 0; chunked < 2; chunked++) {
        hid_t file = new_file(path), plist = creation();
        if (chunked)
            assert_true(H5Pset_chunk(plist, 2, chunk) >= 0);
        add_large(file, "X", 2, size, plist, X[0]);
        add_large(file, "y", 1, size, H5P_DEFAULT, y);
        H5Fclose(file);
        ASK(data_read(&data, path, &many, err));
        assert_memory_equal(data.X, X, sizeof X);
        assert_memory_equal(data.y, y, sizeof y);
        data_free(&data);
    }
}

static int quiet(void **state) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return open_folder(state);
}

AROUND_TESTS(quiet, remove_folder)
