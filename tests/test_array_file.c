/* Data files that are not HDF5: npz and csv give what HDF5 with the same numbers gives; what is
 * refused; and bytes changed at random, which never do harm. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"
#include "solver/data/data.h"
#include "models/engine/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { P = 3, D = 2, MOST = 1000 };
static const double X[P][D] = {{1, -2}, {0.5, 3}, {-1.5, 0.25}}, y[P] = {1, -1, 1};

/* --- a zip archive, written plainly ---------------------------------------------------------- */

struct bytes {
    unsigned char at[1 << 16];
    size_t size;
};

static void put(struct bytes *to, const void *from, size_t size) {
    assert_true(to->size + size <= sizeof to->at);
    memcpy(to->at + to->size, from, size);
    to->size += size;
}

static void put_number(struct bytes *to, unsigned long value, int count) {
    for (int k = 0; k < count; k++, value >>= 8) { /* count may be above 8 */
        unsigned char byte = (unsigned char)value;
        put(to, &byte, 1);
    }
}

struct zip {
    struct bytes file, list;
    int entries;
};

/* One array: its header as numpy has it, then the numbers; packed by deflate or not. */
static void add(struct zip *zip, const char *name, const char *header, const void *numbers,
                size_t size, bool packed) {
    struct bytes npy = {.size = 0}, out = {.size = 0};
    char text[112], padded[128];
    snprintf(text, sizeof text, "%s", header);
    snprintf(padded, sizeof padded, "%-117s\n", text); /* 10 + 118 = 128 */
    put(&npy, "\x93NUMPY\1\0", 8);
    put_number(&npy, 118, 2);
    put(&npy, padded, 118);
    put(&npy, numbers, size);
    unsigned long crc = crc32(0, npy.at, (uInt)npy.size), place = zip->file.size;
    if (packed) {
        z_stream stream = {.next_in = npy.at,
                           .avail_in = (uInt)npy.size,
                           .next_out = out.at,
                           .avail_out = sizeof out.at};
        assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        out.size = stream.total_out;
        deflateEnd(&stream);
    } else {
        put(&out, npy.at, npy.size);
    }
    snprintf(text, sizeof text, "%s.npy", name);
    const unsigned long rest[] = {0, packed ? 8 : 0, 0, crc, out.size, npy.size};
    const int width[] = {2, 2, 4, 4, 4, 4};
    put(&zip->file, "PK\3\4\x14\0", 6);
    put(&zip->list, "PK\1\2\x14\0\x14\0", 8);
    for (int k = 0; k < 6; k++) {
        put_number(&zip->file, rest[k], width[k]);
        put_number(&zip->list, rest[k], width[k]);
    }
    put_number(&zip->file, strlen(text), 4); /* and no extra field */
    put_number(&zip->list, strlen(text), 2);
    put_number(&zip->list, 0, 12);
    put_number(&zip->list, place, 4);
    put(&zip->file, text, strlen(text));
    put(&zip->list, text, strlen(text));
    put(&zip->file, out.at, out.size);
    zip->entries++;
}

static void finish(struct zip *zip, const char *name) {
    size_t place = zip->file.size;
    put(&zip->file, zip->list.at, zip->list.size);
    put(&zip->file, "PK\5\6\0\0\0\0", 8);
    put_number(&zip->file, (unsigned long)zip->entries, 2);
    put_number(&zip->file, (unsigned long)zip->entries, 2);
    put_number(&zip->file, zip->list.size, 4);
    put_number(&zip->file, place, 4);
    put_number(&zip->file, 0, 2);
    cli_write(name, zip->file.at, zip->file.size);
}

#define FLOATS "{'descr': '<f8', 'fortran_order': False, 'shape': "
#define OF_TYPE(type) "{'descr': " type ", 'fortran_order': False, 'shape': (3, 2), }"

static void good_archive(const char *name, bool packed) {
    struct zip zip = {0};
    add(&zip, "X", FLOATS "(3, 2), }", X, sizeof X, packed);
    add(&zip, "y", FLOATS "(3,), }", y, sizeof y, packed);
    finish(&zip, name);
}

/* --- reading --------------------------------------------------------------------------------- */

static const struct data_wanted wanted = {.loss = &loss_mse, .most = MOST};

static void check_good(const char *name) {
    struct data data;
    struct err err = {0};
    if (data_read(&data, name, &wanted, &err))
        fail_msg("%s", err.text);
    assert_true(data.P == P && data.D == D && data.C == 1 && data.tests == 0);
    assert_memory_equal(data.X, X, sizeof X);
    assert_memory_equal(data.y, y, sizeof y);
    data_free(&data);
}

static void test_good_files(void **state) {
    (void)state;
    good_archive("plain.npz", false);
    check_good("plain.npz");
    good_archive("packed.npz", true);
    check_good("packed.npz");
    cli_print("bare.csv", "1,-2,1\n.5, 3,\t-1\r\n\n-1.5,25e-2,1");
    check_good("bare.csv");
    cli_print("names.csv", "# mine\ny;first;second\n1;1;-2\n# more\n-1;0.5;3\n1;-1.5;0.25\n");
    check_good("names.csv");
    cli_print("tabs.csv", "\xef\xbb\xbf"
                          "a\ty\tb\n1\t1\t-2\n0.5\t-1\t3\n-1.5\t1\t0.25\n");
    check_good("tabs.csv");
}

/* A longer name than those of data, first at 32 letters: whatever the entry holds. */
static void test_long_names_are_passed_over(void **state) {
    (void)state;
    struct zip zip = {0};
    add(&zip, "abcdefghijklmnopqrstuvwxyz012345", "nothing", X, sizeof X, false);
    add(&zip, "X", FLOATS "(3, 2), }", X, sizeof X, false);
    add(&zip, "y", FLOATS "(3,), }", y, sizeof y, false);
    finish(&zip, "long.npz");
    check_good("long.npz");
}

/* An array that is longer, packed, than what is read of a file at a time; the last one. */
static void test_long_arrays(void **state) {
    (void)state;
    enum { LONG = 1500 };
    static double in[LONG][D], out[LONG];
    const struct data_wanted all = {.loss = &loss_mse, .most = 3 * LONG};
    struct zip zip = {0};
    struct data data;
    for (int k = 0; k < D * LONG; k++)
        in[k / D][k % D] = sin(k); /* all digits differ: it does not pack well */
    for (int k = 0; k < LONG; k++)
        out[k] = k;
    add(&zip, "y", FLOATS "(1500,), }", out, sizeof out, true);
    size_t before = zip.file.size;
    add(&zip, "X", FLOATS "(1500, 2), }", in, sizeof in, true);
    assert_true(zip.file.size - before > 1 << 14);
    finish(&zip, "large.npz");
    ASK(data_read(&data, "large.npz", &all, err));
    assert_int_equal(data.P, LONG);
    assert_memory_equal(data.X, in, sizeof in);
    assert_memory_equal(data.y, out, sizeof out);
    data_free(&data);
}

/* Types, byte order and the order of axes; tokens with V; several targets. */
static void test_types(void **state) {
    (void)state;
    static const float by_column[D][P] = {{1, 0.5f, -1.5f}, {-2, 3, 0.25f}};
    static const unsigned char halves[P * D * 2] = {0x3c, 0, 0xc0, 0,    0x38, 0,
                                                    0x42, 0, 0xbe, 0x00, 0x34, 0};
    static const int8_t small[P] = {1, -1, 1};
    static const unsigned char big[P][8] = {{0, 0, 0, 0, 0, 0, 0, 1},
                                            {255, 255, 255, 255, 255, 255, 255, 255},
                                            {0, 0, 0, 0, 0, 0, 0, 1}};
    struct zip zip = {0}, other = {0}, letters = {0};
    add(&zip, "X", "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", by_column,
        sizeof by_column, true);
    add(&zip, "y", "{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }", small, sizeof small,
        false);
    finish(&zip, "columns.npz");
    check_good("columns.npz");
    add(&other, "y", "{'descr': '>i8', 'fortran_order': False, 'shape': (3, 1), }", big, sizeof big,
        true);
    add(&other, "X", OF_TYPE("'>f2'"), halves, sizeof halves, true);
    finish(&other, "halves.npz");
    check_good("halves.npz");

    static const uint16_t tokens[2][3] = {{0, 1, 2}, {2, 2, 0}},
                          next[2][3] = {{1, 2, 0}, {2, 0, 1}};
    static const int32_t V = 5;
    const struct data_wanted entropy = {.loss = &loss_cross_entropy, .most = MOST};
    struct data data;
    struct err err = {0};
    add(&letters, "tokens", "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }", tokens,
        sizeof tokens, true);
    add(&letters, "y", "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }", next,
        sizeof next, true);
    add(&letters, "V", "{'descr': '<i4', 'fortran_order': False, 'shape': (), }", &V, sizeof V,
        false);
    finish(&letters, "tokens.npz");
    if (data_read(&data, "tokens.npz", &entropy, &err))
        fail_msg("%s", err.text);
    assert_true(data.P == 2 && data.n == 3 && data.V == 5 && data.C == 3 && data.per_token);
    for (int k = 0; k < 6; k++)
        assert_int_equal(data.token[k], tokens[k / 3][k % 3]);
    data_free(&data);

    cli_print("two.csv", "y0,a,y1\n1,2,3\n4,5,6\n");
    if (data_read(&data, "two.csv", &wanted, &err))
        fail_msg("%s", err.text);
    assert_true(data.P == 2 && data.D == 1 && data.C == 2);
    assert_true(data.y[1] == 3 && data.y[2] == 4 && data.X[1] == 5);
    data_free(&data);
}

static void refuse(const char *name, size_t most, const char *part) {
    struct data data;
    struct err err = {0};
    struct data_wanted less = wanted;
    less.most = most;
    assert_int_equal(data_read(&data, name, &less, &err), CODE_INPUT);
    if (!strstr(err.text, part) || !strstr(err.text, name) || strchr(err.text, '\n'))
        fail_msg("\"%s\" is not in: %s", part, err.text);
}

static void test_refused_tables(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } table[] = {
        {"", "has no numbers"},
        {"a,y\n", "has no numbers"},
        {"1\n2\n", "has one column"},
        {"y,y1\n1,2\n", "no column is left for X"},
        {"a,b\n1,2\n", "no column is called y"},
        {"1,2,3\n4,5\n", ":2: has 2 fields, the first line 3"},
        {"1,2\n4,5,6\n", ":2: has 3 fields"},
        {"1,2\n4,\n", ":2: field 2, \"\", is not a number"},
        {"a,y\n\n1,x\n", ":3: field 2, \"x\", is not a number"},
        {"1,\"2\"\n3,4\n5,\"6\"\n", "no column is called y"},
        {"1,2\nnan,4\n", "X[1][0] is NaN"},
        {"a,y\nnan,2\n3,4\n", "X[0][0] is NaN"},
        {"1,2\n3,inf\n", "y[1] is infinite"},
        {"1,2\n3,4\001\n", ":2: not text (byte 0x01)"},
        {"1,2\r3,4\r5,6\r", ":1: a carriage return within a line"},
        {"a,y\n1,2\r3,4\n5,6\n", ":2: a carriage return within a line"},
    };
    for (size_t k = 0; k < COUNT(table); k++) {
        cli_print("bad.csv", table[k].text);
        refuse("bad.csv", MOST, table[k].part);
    }
    char *text = calloc(1, 20000);
    for (int k = 0; k < 4000; k++)
        strcat(text, "1,2\n");
    cli_print("long.csv", text);
    free(text);
    refuse("long.csv", 100, "too large");
}

/* More columns than lines: as many numbers as are allowed, or two lines more. */
static void test_wide_tables(void **state) {
    (void)state;
    enum { WIDTH = 50, LINES = 6 };
    char text[1000] = "";
    for (int line = 0; line < LINES; line++)
        for (int k = 0; k < WIDTH; k++)
            strcat(text, k == WIDTH - 1 ? "1\n" : "2,");
    cli_print("wide.csv", text);
    struct data data;
    struct data_wanted less = wanted;
    less.most = LINES * WIDTH;
    ASK(data_read(&data, "wide.csv", &less, err));
    assert_true(data.P == LINES && data.D == WIDTH - 1);
    data_free(&data);
    refuse("wide.csv", (LINES - 2) * WIDTH / 2, "too large");
}

static void test_refused_archives(void **state) {
    (void)state;
    static const struct {
        const char *name, *header;
        size_t size;
        const char *part;
    } table[] = {
        {"Z", FLOATS "(3, 2), }", sizeof X, "has no array X"},
        {"X", FLOATS "(3, 3), }", sizeof X, "another size than its shape"},
        {"X", FLOATS "(3, 1), }", sizeof X, "another size than its shape"},
        {"X", FLOATS "(6,), }", sizeof X, "X has rank 1"},
        {"X", FLOATS "(3, 2, 1, 1, 1, 1, 1, 1, ), }", sizeof X, "X has rank 8"},
        {"X", FLOATS "(0, 2), }", 0, "X is empty"},
        {"X", FLOATS "(99999, 99999), }", sizeof X, "X is too large"},
        {"X", FLOATS "(18446744073709551615, 2), }", sizeof X, "X is too large"},
        {"X", FLOATS "(-3, 2), }", sizeof X, "is not understood"},
        {"X", FLOATS "(3, 2", sizeof X, "is not understood"},
        {"X", FLOATS "(1,1,1,1,1,1,1,1,1), }", sizeof X, "is not understood"},
        {"X", FLOATS "(3, 2), 'more': 1, }", sizeof X, "is not understood"},
        {"X", FLOATS "(3, 2), 'descr': '<f8', }", sizeof X, "is not understood"},
        {"X", "{'fortran_order': False, 'shape': (3, 2), }", sizeof X, "is not understood"},
        {"X", "{'descr': '<f8', 'shape': (3, 2), }", sizeof X, "is not understood"},
        {"X", "{'descr': '<f8', 'fortran_order': False, }", sizeof X, "is not understood"},
        {"X", FLOATS "(3, 2), } }", sizeof X, "is not understood"},
        {"X", FLOATS "(3, , 2), }", sizeof X, "is not understood"},
        {"X", FLOATS "(3 2), }", sizeof X, "is not understood"},
        {"X", FLOATS "(03, 2), }", sizeof X, "is not understood"},
        {"X", FLOATS "(6), }", sizeof X, "is not understood"},
        {"X", FLOATS "[3, 2], }", sizeof X, "is not understood"},
        {"X", "{'descr': '<f8', 'fortran_order': Truest, 'shape': (3, 2), }", sizeof X,
         "is not understood"},
        {"X", "{'descr': '<f8' 'fortran_order': False, 'shape': (3, 2), }", sizeof X,
         "is not understood"},
        {"X", "{descr: '<f8', 'fortran_order': False, 'shape': (3, 2), }", sizeof X,
         "is not understood"},
        {"X", "x = {'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }", sizeof X,
         "is not understood"},
        {"X", OF_TYPE("'|O'"), sizeof X, "does not hold integers or floats"},
        {"X", OF_TYPE("'<c8'"), sizeof X, "does not hold integers or floats"},
        {"X", OF_TYPE("'|f1'"), P * D, "does not hold integers or floats"},
        {"X", OF_TYPE("'<f16'"), P * D, "does not hold integers or floats"},
        {"X", OF_TYPE("'<b2'"), P * D * 2, "does not hold integers or floats"},
        {"X", OF_TYPE("'<i3'"), P * D * 3, "does not hold integers or floats"},
        {"X", OF_TYPE("[('a', '<f8')]"), sizeof X, "does not hold integers or floats"},
    };
    for (size_t k = 0; k < COUNT(table); k++) {
        struct zip zip = {0};
        add(&zip, table[k].name, table[k].header, X, table[k].size, k % 2);
        add(&zip, "y", FLOATS "(3,), }", y, sizeof y, true);
        finish(&zip, "bad.npz");
        refuse("bad.npz", MOST, table[k].part);
    }
    cli_print("name.npz", "neither");
    refuse("name.npz", MOST, "is not an HDF5 file, npz or .csv");
}

/* Which of two arrays of one name would be read depends on the reader; a boolean is one of two
 * bytes; and a product of extents that is 1 only modulo 2^64 is not one number. */
static void test_refused_arrays(void **state) {
    (void)state;
    static const unsigned char odd[P] = {0, 2, 1};
    static const double tokens[2][2] = {{0, 1}, {1, 0}};
    static const int64_t V = 2;
    struct zip twice = {0}, booleans = {0}, wrapped = {0};
    add(&twice, "X", FLOATS "(3, 2), }", X, sizeof X, false);
    add(&twice, "y", FLOATS "(3,), }", y, sizeof y, false);
    add(&twice, "X", FLOATS "(3, 2), }", X, sizeof X, false);
    finish(&twice, "twice.npz");
    refuse("twice.npz", MOST, "has two arrays X");
    add(&booleans, "X", FLOATS "(3, 2), }", X, sizeof X, false);
    add(&booleans, "y", "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", odd,
        sizeof odd, false);
    finish(&booleans, "odd.npz");
    refuse("odd.npz", MOST, "y has booleans that are neither 0 nor 1");
    add(&wrapped, "tokens", FLOATS "(2, 2), }", tokens, sizeof tokens, false);
    add(&wrapped, "y", FLOATS "(2, 2), }", tokens, sizeof tokens, false);
    add(&wrapped, "V",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 12297829382473034411), }", &V,
        sizeof V, false);
    finish(&wrapped, "wrapped.npz");
    refuse("wrapped.npz", MOST, "V must be one positive integer");
}

/* Entries that say of themselves that they are encrypted. */
static void test_encrypted_archives(void **state) {
    (void)state;
    size_t size;
    good_archive("plain.npz", false);
    char *bytes = cli_read("plain.npz", &size);
    for (size_t at = 0; at + 10 < size; at++)
        if (!memcmp(bytes + at, "PK\3\4", 4))
            bytes[at + 6] |= 1;
        else if (!memcmp(bytes + at, "PK\1\2", 4))
            bytes[at + 8] |= 1;
    cli_write("secret.npz", bytes, size);
    free(bytes);
    refuse("secret.npz", MOST, "X is encrypted or packed in a way that is not read");
}

/* Cut at every length, and with bytes changed: read or refused by a sentence; what is read has been
 * summed. */
static void test_damaged_archives(void **state) {
    (void)state;
    size_t size;
    unsigned long seed = 1;
    good_archive("good.npz", true);
    char *good = cli_read("good.npz", &size), *bad = malloc(size);
    int refused = 0, tried = 0;
    for (size_t k = 0; k < 300; k++) {
        struct data data;
        struct err err = {0};
        size_t length = k < 100 ? size * k / 100 : size;
        memcpy(bad, good, size);
        for (int change = 0; change < 3 && k >= 100; change++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bad[(seed >> 33) % size] ^= (char)(1 << (seed >> 61));
        }
        cli_write("cut.npz", bad, length);
        int code = data_read(&data, "cut.npz", &wanted, &err);
        tried++;
        if (!code) {
            assert_true(data.P == P && data.D == D);
            assert_memory_equal(data.X, X, sizeof X);
            assert_memory_equal(data.y, y, sizeof y);
            data_free(&data);
            continue;
        }
        refused++;
        assert_int_equal(code, CODE_INPUT);
        assert_null(strstr(err.text, "broke down"));
    }
    assert_true(refused > 150 && refused < tried);
    free(good);
    free(bad);
}

/* From the command line. */
static void test_runs(void **state) {
    (void)state;
    static const char rest[] = "[training]\nsteps = 2\n[solver]\nsites = 64\nexpert_sites = 64\n";
    good_archive("run.npz", true);
    cli_print("run.csv", "1,-2,1\n.5,3,-1\n-1.5,.25,1\n");
    for (int k = 0; k < 2; k++) {
        struct cli_result result;
        char ini[256];
        snprintf(ini, sizeof ini, "%s%s", k ? CLI_DATA("run.npz") : CLI_DATA("run.csv"), rest);
        cli_print("data.ini", ini);
        cli_run(&result, ARGS("-o", k ? "npz.h5" : "csv.h5", "data.ini"));
        if (result.code)
            fail_msg("%s", result.err);
        cli_free(&result);
    }
    assert_true(cli_same("npz.h5", "csv.h5", "limit/loss"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_good_files),         TEST(test_long_names_are_passed_over),
        TEST(test_long_arrays),        TEST(test_types),
        TEST(test_refused_tables),     TEST(test_wide_tables),
        TEST(test_refused_archives),   TEST(test_refused_arrays),
        TEST(test_damaged_archives),   TEST(test_runs),
        TEST(test_encrypted_archives),
    };
    return cmocka_run_group_tests_name("flat", tests, cli_open, cli_close);
}
