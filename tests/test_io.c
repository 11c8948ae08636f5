/* Records and files: averages against plain sums, what HDF5 gives back, a disk that is full. */
#define _POSIX_C_SOURCE 200809L
#include "solver/files/hdf5.h"
#include "tests/support/files.h"

enum { RUNS = 3, TIMES = 6, POINTS = 30, BASIS = 2 };

/* Some number that differs for all arguments. */
static double number(int series, int run, size_t k) {
    return sin(1.0 + 7.0 * series + 3.0 * run + 0.37 * (double)k);
}

static void fill(struct record *record) {
    for (int a = 0; a < record->count; a++) {
        struct series *series = &record->series[a];
        size_t row = series->size / TIMES;
        for (int run = 0; run < RUNS; run++)
            for (int t = 0; t < record->steps[run]; t++)
                for (size_t k = 0; k < row; k++)
                    record_at(record, series, run, t)[k] = number(a, run, (size_t)t * row + k);
    }
}

/* Three runs, of which the second ended after two times. */
static void make_record(struct record *record) {
    struct series loss = {.name = "loss", .dims = "t", .about = "the loss", .equation = "E^2/2"};
    struct series Phi = {.name = "Phi", .dims = "t mu s nu", .about = "forward kernel"};
    struct series c = {.name = "c", .dims = "t basis", .about = "coefficients"};
    loss.axes = 1;
    Phi.axes = 4;
    c.axes = 2;
    loss.shape[0] = Phi.shape[0] = Phi.shape[2] = c.shape[0] = TIMES;
    Phi.shape[1] = Phi.shape[3] = POINTS;
    c.shape[1] = BASIS;
    loss.keep_runs = true;
    assert_ok(record_init(record, RUNS, TIMES, &failure), &failure);
    assert_ok(record_add(record, loss, &failure), &failure);
    assert_ok(record_add(record, Phi, &failure), &failure);
    assert_ok(record_add(record, c, &failure), &failure);
    for (int run = 0; run < RUNS; run++)
        record->steps[run] = run == 1 ? 2 : TIMES;
    fill(record);
}

static void assert_near(double got, double want, const char *what, size_t k) {
    if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-14))
        fail_msg("%s[%zu] is %.17g instead of %.17g", what, k, got, want);
}

static bool reached(int run, int t, int s) {
    int steps = run == 1 ? 2 : TIMES;
    return t < steps && s < steps;
}

/* The mean and standard error of entry k over the runs that reached the later of t and s, without
 * deviations from the mean: sum_r (x_r - mean)^2 = sum_{q < r} (x_q - x_r)^2 / n. Round-off of a
 * few numbers of order 1 is below 1e-15, here as there. */
static void plain(int series, size_t k, int t, int s, double *mean, double *se) {
    double sum = 0, pairs = 0;
    int n = 0;
    for (int r = 0; r < RUNS; r++) {
        if (!reached(r, t, s))
            continue;
        n++;
        sum += number(series, r, k);
        for (int q = 0; q < r; q++)
            if (reached(q, t, s))
                pairs += pow(number(series, q, k) - number(series, r, k), 2);
    }
    *mean = sum / n;
    *se = sqrt(pairs / (n * n * (n - 1)));
}

static double *read_values(hid_t file, const char *name, size_t count) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(set >= 0);
    hid_t space = H5Dget_space(set);
    assert_int_equal(H5Sget_simple_extent_npoints(space), count);
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    return values;
}

static void assert_scale(hid_t file, const char *name, const char *scale, unsigned axis) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), other = H5Dopen2(file, scale, H5P_DEFAULT);
    assert_true(set >= 0 && other >= 0);
    assert_true(H5DSis_scale(other) > 0);
    if (H5DSis_attached(set, other, axis) <= 0)
        fail_msg("%s is not attached to axis %u of %s", scale, axis, name);
    H5Dclose(set);
    H5Dclose(other);
}

static void assert_filters(hid_t file, const char *name, int filters) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), plist = H5Dget_create_plist(set);
    assert_int_equal(H5Pget_nfilters(plist), filters);
    H5Pclose(plist);
    H5Dclose(set);
}

TEST(test_statistics) {
    FREED(record_free) struct record record;
    make_record(&record);
    for (int a = 0; a < record.count; a++) {
        const struct series *series = &record.series[a];
        FREED(base_free)
        double *mean = calloc(series->size, sizeof *mean), *se = calloc(series->size, sizeof *se);
        assert_true(mean && se);
        record_statistics(&record, series, mean, se);
        for (size_t k = 0; k < series->size; k++) {
            int t = (int)(k / (series->size / TIMES)), s = 0;
            double want, error;
            if (a == 1)
                s = (int)(k / POINTS % TIMES);
            plain(a, k, t, s, &want, &error);
            assert_near(mean[k], want, series->name, k);
            assert_near(se[k], error, series->name, k);
        }
    }
    record_free(&record);
}

TEST(test_missing) {
    FREED(record_free) struct record record;
    make_record(&record);
    double mean[TIMES], se[TIMES];
    record.steps[0] = record.steps[2] = 4;
    struct series *loss = record_find(&record, "loss");
    assert_ptr_equal(loss, &record.series[0]);
    assert_null(record_find(&record, "los"));
    record_at(&record, loss, 0, 0)[0] = NAN;
    record_at(&record, loss, 1, 3)[0] = 99; /* not reached: must not count */
    record_statistics(&record, loss, mean, se);
    assert_true(isnan(mean[0]) && isnan(se[0]));
    assert_near(mean[3], (number(0, 0, 3) + number(0, 2, 3)) / 2, "loss", 3);
    assert_true(isnan(mean[4]) && isnan(se[4]));
    assert_int_equal(record_reached(&record, 1), 3);
    assert_int_equal(record_reached(&record, 2), 2);
    assert_int_equal(record_reached(&record, 4), 0);
    record.steps[0] = 0; /* now one run alone reaches t = 2 */
    record_statistics(&record, loss, mean, se);
    assert_true(mean[2] == number(0, 2, 2) && isnan(se[2]));
}

TEST(test_too_large) {
    FREED(record_free) struct record record;
    struct series series = {.name = "K", .dims = "t mu", .axes = 2, .shape = {4, SIZE_MAX / 8}};
    assert_ok(record_init(&record, 1, 4, &failure), &failure);
    assert_refused(record_add(&record, series, &failure), CODE_SYSTEM, "K [t mu]", &failure);
    assert_int_equal(record.count, 0);
    record_free(&record);
    series.shape[1] = 1000; /* shapes alone */
    assert_ok(record_init(&record, 0, 4, &failure), &failure);
    assert_ok(record_add(&record, series, &failure), &failure);
    assert_int_equal(record.series[0].size, 4000);
}

static void check_group(hid_t file, const struct record *record, const char *group) {
    char name[128];
    for (int a = 0; a < record->count; a++) {
        const struct series *series = &record->series[a];
        double *want = calloc(2 * series->size, sizeof *want), *se = want + series->size;
        assert_non_null(want);
        record_statistics(record, series, want, se);
        snprintf(name, sizeof name, "%s/%s", group, series->name);
        FREED(base_free) double *got = read_values(file, name, series->size);
        assert_text(file, name, "dims", series->dims);
        assert_text(file, name, "about", series->about);
        strcat(name, "_se");
        FREED(base_free) double *got_se = read_values(file, name, series->size);
        assert_text(file, name, "dims", series->dims);
        for (size_t k = 0; k < series->size; k++) {
            assert_true(got[k] == want[k] || (isnan(got[k]) && isnan(want[k])));
            assert_true(got_se[k] == se[k] || (isnan(got_se[k]) && isnan(se[k])));
        }
        free(want);
    }
}

static void check_result(const char *path, const struct record *record) {
    FREED(close_file) hid_t file = open_file(path);
    check_group(file, record, "limit");
    check_group(file, record, "reference/N64");
    double *runs = read_values(file, "limit/loss_runs", RUNS * TIMES);
    FREED(base_free) double *reached = read_values(file, "limit/n", TIMES);
    double *t = read_values(file, "limit/t", TIMES);
    for (int k = 0; k < RUNS * TIMES; k++)
        assert_true(k / TIMES == 1 && k % TIMES >= 2 ? isnan(runs[k])
                                                     : runs[k] == record->series[0].values[k]);
    for (int k = 0; k < TIMES; k++)
        assert_true(t[k] == k && reached[k] == (k < 2 ? 3 : 2));
    free(runs);
    free(t);
    assert_text(file, "limit/loss", "equation", "E^2/2");
    assert_text(file, "limit/loss_se", "about",
                "standard error of the mean of loss over independent runs");
    assert_text(file, "limit", "note", "second");
    assert_text(file, "provenance", "version", "1.2");
    assert_text(file, "/", "program", "dmft-solve");
    static const char *const axes[] = {"limit/t", "limit/mu", "limit/s", "limit/nu"};
    for (unsigned k = 0; k < 4; k++) {
        assert_scale(file, "limit/Phi", axes[k], k);
        assert_scale(file, "limit/Phi_se", axes[k], k);
    }
    assert_filters(file, "limit/Phi", 2); /* shuffle, gzip */
    assert_filters(file, "limit/loss", 0);
    assert_scale(file, "limit/loss_runs", "limit/run", 0);
    assert_scale(file, "limit/loss_runs", "limit/t", 1);
    assert_scale(file, "limit/basis_name", "limit/basis", 0);
    assert_scale(file, "reference/N64/c", "reference/N64/basis", 1);
    assert_scale(file, "data/X", "data/i", 1);
    assert_true(H5Lexists(file, "reference/N64/basis_name", H5P_DEFAULT) == 0);
    assert_true(H5Lexists(file, "limit/Phi_runs", H5P_DEFAULT) == 0);
    double N = 0;
    assert_true(H5LTget_attribute_double(file, "reference/N64", "N", &N) >= 0 && N == 64);
}

FOLDER_TEST(test_result) {
    static const char *const labels[] = {"linear", "cubic \xce\xb7"};
    char path[PATH_MAX], partial[PATH_MAX];
    struct io io;
    FREED(record_free) struct record record;
    double X[] = {1, 2, 3, 4, 5, 6}, y[] = {-1, 1};
    const struct data data = {.P = 2, .n = 1, .D = 3, .C = 1, .X = X, .y = y};
    in_folder(path, state, "out.h5");
    in_folder(partial, state, "out.h5.partial");
    make_record(&record);
    assert_ok(record_name_axis(&record, 2, &failure), &failure);
    for (int k = 0; k < 2; k++)
        strcpy(record.labels[k], labels[k]);
    record.series[0].values[0] = 5; /* to be written over below */
    assert_ok(io_create(&io, path, false, &failure), &failure);
    assert_int_equal(read_complete(partial), 0);
    assert_ok(io_provenance(&io, "version", "1.2", &failure), &failure);
    assert_ok(io_data(&io, &data, true, &failure), &failure);
    assert_ok(io_record(&io, "limit", &record, &failure), &failure);
    assert_ok(io_text(&io, "limit", "note", "first", &failure), &failure);
    fill(&record);
    assert_ok(io_record(&io, "limit", &record, &failure), &failure);
    assert_ok(io_text(&io, "limit", "note", "second", &failure), &failure);
    free(record.labels);
    record.labels = NULL;
    assert_ok(io_record(&io, "reference/N64", &record, &failure), &failure);
    assert_ok(io_attribute(&io, "reference/N64", "N", 64, &failure), &failure);
    assert_int_equal(read_complete(partial), 0);
    assert_ok(io_finish(&io, false, &failure), &failure);
    io_close(&io);
    assert_false(exists(partial));
    assert_int_equal(read_complete(path), 1);
    check_result(path, &record);
}

/* Inputs that are written in two parts, and test inputs behind them. */
FOLDER_TEST(test_inputs_in_parts) {
    enum { INPUTS = 301, TESTS = 20, TOKENS = 2, LENGTH = 300 };
    static double X[(INPUTS + TESTS) * TOKENS * LENGTH], y[INPUTS + TESTS];
    const struct data data = {
        .P = INPUTS, .tests = TESTS, .n = TOKENS, .D = LENGTH, .C = 1, .X = X, .y = y};
    struct io io;
    char path[PATH_MAX];
    in_folder(path, state, "out.h5");
    assert_true(hdf5_rows_of_chunk(TOKENS * LENGTH) < INPUTS);
    for (size_t k = 0; k < COUNT(X); k++)
        X[k] = number(0, 0, k);
    for (size_t k = 0; k < INPUTS + TESTS; k++)
        y[k] = number(1, 0, k);
    assert_ok(io_create(&io, path, false, &failure), &failure);
    assert_ok(io_data(&io, &data, true, &failure), &failure);
    assert_ok(io_finish(&io, false, &failure), &failure);
    io_close(&io);
    FREED(close_file) hid_t file = open_file(path);
    static const char *const name[] = {"data/X", "data/X_test", "data/y", "data/y_test"};
    for (int k = 0; k < 4; k++) {
        size_t each = k < 2 ? TOKENS * LENGTH : 1, count = k % 2 ? TESTS : INPUTS;
        FREED(base_free) double *found = read_values(file, name[k], count * each);
        const double *whole = (k < 2 ? X : y) + (k % 2 ? INPUTS * each : 0);
        assert_memory_equal(found, whole, count * each * sizeof *found);
    }
    assert_scale(file, "data/X", "data/token", 1);
    assert_filters(file, "data/X", 2);
}

struct model {
    int depth, kind;
    double eta;
    uint64_t seed;
    const char *file;
    struct int_list widths, none;
};
#define KEY(name, is)                                                                              \
    .doc = "a key", .key = #name, .type = is, .offset = offsetof(struct model, name)
static const struct param_row rows[] = {
    {KEY(depth, PARAM_INT), .value = NULL, .min = 1, .max = 9},
    {KEY(eta, PARAM_REAL), .value = "0.1"},
    {KEY(seed, PARAM_SEED), .value = "18446744073709551615"},
    {KEY(kind, PARAM_CHOICE), .value = "a", .choices = "a b"},
    {KEY(file, PARAM_TEXT), .value = "", .when = "kind=b"},
    {KEY(widths, PARAM_INTS), .value = "1 2 3"},
    {KEY(none, PARAM_INTS), .value = ""},
};
static const struct param_section section = {"model", "a model", rows, 7, .offset = 0};

static void read_model(struct params *params, struct model *model, const char *text) {
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(stream);
    struct param_source source = {"test", stream, 0, NULL, 0};
    int code = params_read_stream(params, &section, 1, &source, model, &failure);
    fclose(stream);
    assert_ok(code, &failure);
}

FOLDER_TEST(test_parameters) {
    char path[PATH_MAX];
    struct io io;
    FREED(params_free) struct params params, again;
    struct model model, copy;
    read_model(&params, &model, "[model]\ndepth = 3\nkind = b\nfile = a b/c.h5\n");
    assert_ok(io_create(&io, in_folder(path, state, "out.h5"), false, &failure), &failure);
    assert_ok(io_parameters(&io, &params, &model, &failure), &failure);
    assert_ok(io_finish(&io, false, &failure), &failure);
    FREED(close_file) hid_t file = open_file(path);
    hsize_t count = 9;
    H5T_class_t class;
    size_t bytes;
    int depth = 0, widths[3] = {0};
    double eta = 0;
    unsigned long seed = 0;
    const char *group = "parameters";
    assert_true(H5LTget_attribute_int(file, group, "model.depth", &depth) >= 0 && depth == 3);
    assert_true(H5LTget_attribute_double(file, group, "model.eta", &eta) >= 0 && eta == 0.1);
    assert_true(H5LTget_attribute_ulong(file, group, "model.seed", &seed) >= 0);
    assert_true(seed == UINT64_MAX);
    assert_true(H5LTget_attribute_int(file, group, "model.widths", widths) >= 0);
    assert_true(widths[0] == 1 && widths[1] == 2 && widths[2] == 3);
    assert_true(H5LTget_attribute_info(file, group, "model.none", &count, &class, &bytes) >= 0);
    assert_int_equal(count, 0);
    assert_text(file, group, "model.kind", "b");
    assert_text(file, group, "model.file", "a b/c.h5");

    char *text = NULL;
    hid_t ini = H5Aopen_by_name(file, group, "ini", H5P_DEFAULT, H5P_DEFAULT);
    hid_t type = H5Aget_type(ini);
    assert_true(H5Aread(ini, type, &text) >= 0);
    read_model(&again, &copy, text);
    assert_int_equal(copy.depth, 3);
    assert_string_equal(copy.file, "a b/c.h5");
    assert_true(copy.eta == 0.1 && copy.seed == UINT64_MAX && copy.kind == 1);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(ini);
}

/* A full disk, for which a limit on the size of files stands in: the last save survives, and the
 * run may go on when there is room again. */
FOLDER_TEST(test_disk_full) {
    char path[PATH_MAX], partial[PATH_MAX], left[PATH_MAX];
    struct io io;
    FREED(record_free) struct record record;
    struct rlimit limit, small;
    make_record(&record);
    in_folder(partial, state, "out.h5.partial");
    in_folder(left, state, "out.h5.partial.new");
    assert_ok(io_create(&io, in_folder(path, state, "out.h5"), false, &failure), &failure);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 10000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int recorded = io_record(&io, "limit", &record, &failure);
    int finished = io_finish(&io, false, &failure);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(recorded, CODE_SYSTEM);
    assert_refused(finished, CODE_SYSTEM, partial, &failure);
    assert_non_null(strstr(failure.text, "out.h5.partial: File too large; it still holds what was "
                                         "saved before"));
    assert_true(io.behind);
    assert_false(exists(left) || exists(path));
    assert_int_equal(read_complete(partial), 0);
    assert_ok(io_record(&io, "limit", &record, &failure), &failure);
    assert_int_equal(read_complete(partial), 0);
    assert_ok(io_finish(&io, false, &failure), &failure);
    assert_int_equal(read_complete(path), 1);
}

AROUND_TESTS(quiet, close_library)
