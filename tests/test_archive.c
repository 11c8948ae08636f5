/* States on disk: what is written is read back, as many bytes as were announced; and a file with a
 * right sum whose lengths and shapes are wrong is refused for what is wrong with it. */
#define _GNU_SOURCE /* mkstemp */
#include "kernels/archive.h"
#include "kernels/maps/map_limit.h"
#include "tests/support/support.h"

static char name[] = "/tmp/test_archive_XXXXXX";

/* A text, a list, and rows of sites. */
enum { NUMBERS = 3, SITES = 12, GROUP = 3, ROWS = 2 };
struct thing {
    char *text;
    double *list;
    struct array rows;
};

static int thing_archive(struct thing *thing, struct archive *archive, struct err *err) {
    TRY(archive_text(archive, &thing->text, err));
    TRY(archive_list(archive, &thing->list, NUMBERS, sizeof *thing->list, err));
    TRY(archive_array(archive, &thing->rows, &backend_cpu, err));
    return archive_expect(archive, &thing->rows, SITES, GROUP, ROWS, err);
}

static void make(struct thing *thing) {
    double values[ROWS * SITES];
    *thing = (struct thing){0};
    ASK(base_copy(&thing->text, "words", err));
    ASK(base_alloc(&thing->list, NUMBERS, sizeof *thing->list, err));
    ASK(array_init(&thing->rows, &backend_cpu, SITES, GROUP, ROWS, err));
    for (int i = 0; i < NUMBERS; i++)
        thing->list[i] = 0.1 * i;
    for (int i = 0; i < ROWS * SITES; i++)
        values[i] = 1.0 / (i + 1);
    backend_cpu.put(array_all(&thing->rows), values);
}

static void end(struct thing *thing) {
    free(thing->text);
    free(thing->list);
    array_free(&thing->rows);
}

/* Where its parts begin: a length and a text with its zero, a length and a list, a shape of sites,
 * group and rows, and the rows. */
enum {
    TEXT = 0,
    LIST = TEXT + 8 + 6,
    SHAPE = LIST + 8 + 8 * NUMBERS,
    VALUES = SHAPE + 3 * 8,
    ALL = VALUES + 8 * ROWS * SITES
};

static void put(struct thing *thing) {
    struct archive archive = archive_measure();
    ASK(thing_archive(thing, &archive, err));
    assert_true(archive.bytes == ALL);
    ASK(archive_create(&archive, name, false, err));
    int code = thing_archive(thing, &archive, &(struct err){0});
    assert_true(archive.bytes == ALL);
    ASK(archive_close(&archive, code, err));
}

static int get(struct thing *thing, struct err *told) {
    struct archive archive;
    ASK(archive_open(&archive, name, false, err));
    int code = thing_archive(thing, &archive, told);
    return archive_close(&archive, code, told);
}

/* Of a list that is there and an array that has its shape already, which stay where they are, and
 * of what gets them. */
TEST(what_is_written_is_read) {
    double was[ROWS * SITES], is[ROWS * SITES];
    struct thing first, second = {0};
    make(&first);
    put(&first);
    for (int fresh = 0; fresh < 2; fresh++) {
        double list[NUMBERS];
        if (!fresh) {
            second.list = list;
            ASK(array_init(&second.rows, &backend_cpu, SITES, GROUP, 0, err));
        }
        ASK(get(&second, err));
        assert_true(fresh || second.list == list);
        assert_string_equal(second.text, "words");
        assert_memory_equal(second.list, first.list, NUMBERS * sizeof *first.list);
        backend_cpu.get(array_all(&first.rows), was);
        backend_cpu.get(array_all(&second.rows), is);
        assert_memory_equal(is, was, sizeof is);
        second.list = fresh ? second.list : NULL;
        end(&second);
        second = (struct thing){0};
    }
    end(&first);
}

/* A list and an array that are not there stay so, and a list that is not there is none of zeros. */
TEST(nothing_is_read_as_nothing) {
    double number = 7, *none = NULL, *some = &number;
    struct array rows = {0};
    struct archive archive;
    struct err told;
    ASK(archive_create(&archive, name, false, err));
    ASK(archive_list(&archive, &none, 1, sizeof *none, err));
    ASK(archive_array(&archive, &rows, &backend_cpu, err));
    ASK(archive_close(&archive, CODE_OK, err));
    ASK(archive_open(&archive, name, false, err));
    ASK(archive_list(&archive, &none, 1, sizeof *none, err));
    ASK(archive_array(&archive, &rows, &backend_cpu, err));
    assert_true(!none && !rows.memory);
    assert_int_equal(archive_expect(&archive, &rows, SITES, GROUP, -1, &told), CODE_INPUT);
    ASK(archive_close(&archive, CODE_OK, err));
    ASK(archive_open(&archive, name, false, err));
    ASK(archive_list(&archive, &some, 1, sizeof *some, err));
    assert_true(some == &number && number == 7);
    ASK(archive_close(&archive, CODE_OK, err));
}

/* More sites than are on the host at once: two rows, then one. */
TEST(rows_cross_in_parts) {
    enum { MANY = 600000 };
    FREED(array_free) struct array first, second = {0};
    struct archive archive;
    FREED(base_free) double *was, *is;
    ASK(base_alloc(&was, 3 * MANY, sizeof *was, err));
    ASK(base_alloc(&is, 3 * MANY, sizeof *is, err));
    for (int i = 0; i < 3 * MANY; i++)
        was[i] = i;
    ASK(array_init(&first, &backend_cpu, MANY, 1, 3, err));
    backend_cpu.put(array_all(&first), was);
    ASK(archive_create(&archive, name, false, err));
    ASK(archive_array(&archive, &first, &backend_cpu, err));
    ASK(archive_close(&archive, CODE_OK, err));
    ASK(archive_open(&archive, name, false, err));
    ASK(archive_array(&archive, &second, &backend_cpu, err));
    ASK(archive_close(&archive, CODE_OK, err));
    backend_cpu.get(array_all(&second), is);
    assert_memory_equal(is, was, 3 * MANY * sizeof *is);
}

/* The file of `size` bytes and, behind them, their sum. */
static void write_file(const unsigned char *bytes, size_t size) {
    uint64_t sum = archive_sum(BASE_HASH, bytes, size);
    FILE *file = fopen(name, "wb");
    assert_true(file && fwrite(bytes, 1, size, file) == size &&
                fwrite(&sum, sizeof sum, 1, file) == 1 && !fclose(file));
}

/* A sum that only multiplies keeps the highest bit of a word there, and two of them cancel. */
TEST(two_changed_signs_change_the_sum) {
    double numbers[4] = {1, 2, 3, 4};
    uint64_t sum = archive_sum(BASE_HASH, numbers, sizeof numbers);
    numbers[0] = -1, numbers[2] = -3;
    assert_true(archive_sum(BASE_HASH, numbers, sizeof numbers) != sum);
}

TEST(wrong_numbers_are_named) {
    static const char length[] = "a text has an impossible length",
                      shape[] = "an array has an impossible shape",
                      sites[] = "its arrays have other sites", other[] = "an array has another",
                      cut[] = "it is too short";
    static const STRUCT(int at, bytes; int64_t number; const char *said) cases[] = {
        {TEXT, 8, 0, length},
        {TEXT, 8, (1 << 28) + 1, length},
        {TEXT, 8, 1 << 28, cut},
        {TEXT, 8, -1, length},
        {LIST - 1, 1, 'x', "a text has no end"},
        {LIST, 8, NUMBERS - 1, "a list has another length"},
        {LIST, 8, NUMBERS + 1, "a list has another length"},
        {SHAPE, 8, 0, shape},
        {SHAPE, 8, SITES + 1, shape},
        {SHAPE, 8, SITES + GROUP, sites},
        {SHAPE, 8, (int64_t)3 << 61, shape}, /* whose bytes are none, but for an overflow */
        {SHAPE + 8, 8, 0, shape},
        {SHAPE + 8, 8, -GROUP, shape},
        {SHAPE + 8, 8, (int64_t)1 << 32, shape},
        {SHAPE + 8, 8, GROUP + 1, sites},
        {SHAPE + 16, 8, (int64_t)1 << 32, shape},
        {SHAPE + 16, 8, ROWS + 1, cut},
        {SHAPE + 16, 8, ROWS - 1, other},
        {ALL, 0, 0, NULL},
    };
    struct thing thing;
    make(&thing);
    put(&thing);
    end(&thing);
    unsigned char good[ALL], bad[ALL];
    FILE *file = fopen(name, "rb");
    assert_true(file && fread(good, 1, ALL, file) == ALL && !fclose(file));
    for (size_t k = 0; k < COUNT(cases); k++) {
        struct err told = {0};
        memcpy(bad, good, ALL);
        memcpy(bad + cases[k].at, &cases[k].number, (size_t)cases[k].bytes);
        write_file(bad, ALL);
        thing = (struct thing){0};
        if (cases[k].said == sites)
            ASK(array_init(&thing.rows, &backend_cpu, SITES, GROUP, 0, err));
        int code = get(&thing, &told);
        if (code != (cases[k].said ? CODE_INPUT : CODE_OK) ||
            (code && !strstr(told.text, cases[k].said)))
            fail_msg("byte %d: %lld: code %d: %s", cases[k].at, (long long)cases[k].number, code,
                     told.text);
        end(&thing);
    }
    for (size_t left = 0; left < ALL; left++) { /* wherever it ends: its sum is no part of it */
        struct err told = {0};
        write_file(good, left);
        thing = (struct thing){0};
        assert_int_equal(get(&thing, &told), CODE_INPUT);
        assert_non_null(strstr(told.text, cut));
        end(&thing);
    }
}

/* Each byte of a file counts for its sum; and what fails leaves the file that was there. */
TEST(a_file_is_whole_or_refused) {
    struct thing thing;
    struct archive archive;
    struct err told;
    char new[sizeof name + 4];
    make(&thing);
    put(&thing);
    ASK(archive_create(&archive, name, false, err));
    ASK(archive_bytes(&archive, &(int){1}, sizeof(int), err));
    assert_int_equal(archive_close(&archive, CODE_NUMERICAL, &told), CODE_NUMERICAL);
    snprintf(new, sizeof new, "%s.new", name);
    assert_true(access(new, F_OK) != 0);
    end(&thing);
    thing = (struct thing){0};
    ASK(get(&thing, err));
    end(&thing);
    for (long at = 0; at < ALL + 8; at += 7) {
        FREED(base_close) FILE *file = fopen(name, "r+b");
        assert_non_null(file);
        for (int back = 0; back < 2; back++) {
            assert_int_equal(fseek(file, at, SEEK_SET), 0);
            int byte = fgetc(file);
            assert_int_equal(fseek(file, at, SEEK_SET), 0);
            assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
            fflush(file);
            int code = archive_open(&archive, name, false, &told);
            assert_int_equal(code, back ? CODE_OK : CODE_INPUT);
            assert_int_equal(archive_close(&archive, code, &told), code);
        }
    }
    int code = archive_create(&archive, "/nowhere/x", false, &told);
    assert_int_equal(code, CODE_SYSTEM);
    assert_non_null(strstr(told.text, "cannot create /nowhere/x.new: No such file"));
    assert_int_equal(archive_close(&archive, code, &told), CODE_SYSTEM);
}

/* A byte that is neither 0 nor 1 is no flag, whatever the sum of the file. */
TEST(flags_are_zero_or_one) {
    static const unsigned char bytes[] = {0, 1, 2, 141};
    for (size_t k = 0; k < sizeof bytes; k++) {
        struct archive archive;
        struct err told;
        bool flag = k == 0;
        ASK(archive_create(&archive, name, false, err));
        ASK(archive_bytes(&archive, (void *)(uintptr_t)&bytes[k], 1, err));
        ASK(archive_close(&archive, CODE_OK, err));
        ASK(archive_open(&archive, name, false, err));
        int code = archive_flag(&archive, &flag, &told);
        assert_int_equal(code, k < 2 ? CODE_OK : CODE_INPUT);
        assert_true(k > 1 || flag == (k == 1));
        assert_true(k < 2 || strstr(told.text, "a flag is neither 0 nor 1"));
        assert_int_equal(archive_close(&archive, code, &told), code);
    }
}

/* The coordinates of the last pass in a basis, which learning reads. A map that has none yet is
 * written, and refused where it is read. */
TEST(a_basis_has_coefficients) {
    RUN_AND_NET;
    struct archive archive;
    struct err told;
    support_run(&run, "data/dense.ini", ARGS("solver.sites=64", "solver.replicates=1"));
    support_begin(&net, &run, 0, 0);
    struct map *map = support_map(&net, "W2");
    for (int known = 1; known >= 0; known--) {
        assert_true(limit_of(map)->q.rows > 0);
        if (!known) {
            free(limit_of(map)->x_q);
            limit_of(map)->x_q = NULL;
        }
        ASK(archive_create(&archive, name, false, err));
        ASK(archive_close(&archive, map->kind->archive(map, &archive, err), err));
        ASK(archive_open(&archive, name, false, err));
        int code = archive_close(&archive, map->kind->archive(map, &archive, &told), &told);
        assert_int_equal(code, known ? CODE_OK : CODE_INPUT);
    }
    assert_non_null(strstr(told.text, "a basis has no coefficients"));
}

static int make_file(void **state) {
    (void)state;
    int file = mkstemp(name);
    return file < 0 || close(file);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(name);
}

AROUND_TESTS(make_file, remove_file)
