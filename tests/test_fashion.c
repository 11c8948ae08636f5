/* Fashion-MNIST: which images are chosen and what becomes of their pixels, by hand from files that
 * the test writes; every damage to a file; and the stored data/fashion_7x7.h5, which another
 * program made from the same images, bit for bit. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/support.h"

#include "solver/data/fashion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define PACKAGE "/usr/share/datasets/fashion-mnist"

enum { COUNT = 9, PIXELS = FASHION_SIDE * FASHION_SIDE, HEADER = 16 };

static char folder[] = "/tmp/test_fashion_XXXXXX";
static char images_path[64], labels_path[64];
/* The files before compression; image n has pixel(n, i). */
static unsigned char images[HEADER + COUNT * PIXELS + 1], labels[8 + COUNT + 1];
static const unsigned char label[COUNT] = {3, 5, 3, 7, 8, 7, 3, 5, 7};

static unsigned char pixel(int n, int i) {
    return (unsigned char)((37 * n * n + 11 * i + n * (i / 28) * (i % 5)) % 256);
}

/* Both files as the package would have them. */
static void good_bytes(void) {
    const unsigned char head[HEADER] = {0, 0, 8, 3, 0, 0, 0, COUNT, 0, 0, 0, 28, 0, 0, 0, 28};
    const unsigned char label_head[8] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    memcpy(images, head, HEADER);
    for (int n = 0; n < COUNT; n++)
        for (int i = 0; i < PIXELS; i++)
            images[HEADER + n * PIXELS + i] = pixel(n, i);
    memcpy(labels, label_head, 8);
    memcpy(labels + 8, label, COUNT);
}

static void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(bytes, 1, size, file) == size && !fclose(file));
}

static void write_gzip(const char *path, const void *bytes, size_t size) {
    gzFile file = gzopen(path, "wb");
    assert_true(file && gzwrite(file, bytes, (unsigned)size) == (int)size && !gzclose(file));
}

static void write_good(void) {
    good_bytes();
    write_gzip(images_path, images, sizeof images - 1);
    write_gzip(labels_path, labels, sizeof labels - 1);
}

static int open_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(images_path, sizeof images_path, "%s/train-images-idx3-ubyte.gz", folder);
    snprintf(labels_path, sizeof labels_path, "%s/train-labels-idx1-ubyte.gz", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    remove(images_path);
    remove(labels_path);
    return rmdir(folder);
}

static const struct fashion two_classes = {folder, {2, {3, 7}}, 1, 4, 7, 0, 0};

/* y [P + tests][C]; x of the images n[P + tests] by the formula of fashion.c in floating point.
 * Every number is below 255 and is a mean of 16 pixels minus another mean: 1e-12 is a thousand
 * times the round-off. */
static void check_inputs(const struct data *data, const int *n, const double *y) {
    double b[8][49] = {{0}};
    int P = data->P, all = P + data->tests;
    for (int mu = 0; mu < all; mu++)
        for (int i = 0; i < PIXELS; i++)
            b[mu][i / 28 / 4 * 7 + i % 28 / 4] += pixel(n[mu], i) / 16.0;
    for (int mu = 0; mu < all; mu++) {
        double c[49], square = 0, length = 0;
        for (int i = 0; i < 49; i++) {
            c[i] = b[mu][i];
            for (int nu = 0; nu < P; nu++)
                c[i] -= b[nu][i] / P;
            square += c[i] * c[i];
            length += data->X[mu * 49 + i] * data->X[mu * 49 + i];
        }
        for (int i = 0; i < 49; i++)
            CHECK_ABS(data->X[mu * 49 + i], 7 * c[i] / sqrt(square), 1e-12, "X[%d][%d]", mu, i);
        CHECK_ABS(length, 49, 1e-12, "|x|^2 of input %d", mu);
        for (int k = mu * data->C; k < (mu + 1) * data->C; k++)
            assert_true(data->y[k] == y[k]);
    }
}

static void test_inputs(void **state) {
    (void)state;
    struct data data;
    struct fashion groups = {folder, {4, {7, 8, 5, 3}}, 1, 8, 7, 0, 0}, whole = two_classes;
    write_good();
    ASK(fashion_read(&data, &two_classes, err));
    assert_true(data.P == 4 && data.D == 49);
    check_inputs(&data, (const int[]){0, 3, 2, 5}, (const double[]){1, -1, 1, -1});
    data_free(&data);
    ASK(fashion_read(&data, &groups, err));
    check_inputs(&data, (const int[]){3, 0, 4, 1, 5, 2, 8, 6},
                 (const double[]){1, -1, 1, -1, 1, -1, 1, -1});
    data_free(&data);
    whole.side = FASHION_SIDE;
    ASK(fashion_read(&data, &whole, err));
    assert_int_equal(data.D, PIXELS);
    data_free(&data);
}

/* Squares of an image row by row, and in each its pixels. */
static void test_patches(void **state) {
    (void)state;
    static const int sides[][2] = {{7, 1}, {7, 7}, {28, 4}};
    for (int k = 0; k < 3; k++) {
        struct data whole, cut;
        struct fashion fashion = two_classes;
        int side = fashion.side = sides[k][0], patch = sides[k][1], across = side / patch;
        write_good();
        ASK(fashion_read(&whole, &fashion, err));
        fashion.patch = patch;
        ASK(fashion_read(&cut, &fashion, err));
        assert_true(cut.P == 4 && cut.n == across * across && cut.D == patch * patch);
        for (int mu = 0; mu < 4; mu++)
            for (int y = 0; y < side; y++)
                for (int x = 0; x < side; x++) {
                    int square = mu * cut.n + y / patch * across + x / patch,
                        pixel_of_it = y % patch * patch + x % patch;
                    assert_true(cut.X[square * cut.D + pixel_of_it] ==
                                whole.X[(mu * side + y) * side + x]);
                }
        data_free(&whole);
        data_free(&cut);
    }
}

/* 0: read; else refused with one sentence that names a file. */
static int read_or_refused(const struct fashion *fashion, const char *part) {
    struct err err = {0};
    struct data data;
    int code = fashion_read(&data, fashion, &err);
    if (code && (code != CODE_INPUT || strncmp(err.text, "data file ", 10) != 0 ||
                 !strstr(err.text, part) || data.X || data.y))
        fail_msg("code %d, or no \"%s\" in: %s", code, part, err.text);
    if (!code)
        check_inputs(&data, (const int[]){0, 3, 2, 5}, (const double[]){1, -1, 1, -1});
    data_free(&data);
    return code;
}

/* One output for each class, in the order of the list: images of each class in turn, in a number
 * that need not be a multiple of the classes. */
static void test_classes(void **state) {
    (void)state;
    struct data data;
    struct fashion three = {folder, {3, {7, 3, 5}}, 3, 7, 7, 0, 0};
    write_good();
    ASK(fashion_read(&data, &three, err));
    assert_true(data.P == 7 && data.n == 1 && data.C == 3 && data.classes && !data.per_token);
    check_inputs(&data, (const int[]){3, 0, 1, 5, 2, 7, 8},
                 (const double[]){1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0});
    data_free(&data);
    three.inputs = 9; /* 3 images of each, and there are 3, 3, 2 */
    assert_true(read_or_refused(&three, "images-idx3-ubyte.gz: has 2 images of class 5, and 9 "
                                        "inputs need 3"));
    three.classes = (struct int_list){3, {5, 3, 7}};
    three.inputs = 7;
    assert_true(read_or_refused(&three, "has 2 images of class 5, and 7 inputs need 3"));
}

/* Other labels in the files of the test set; features are centred over the training inputs. */
static void test_test_inputs(void **state) {
    (void)state;
    static const unsigned char other[COUNT] = {7, 3, 5, 7, 3, 8, 3, 5, 7};
    struct fashion both = two_classes;
    struct data data;
    struct err missing;
    char path[2][64];
    both.tests = 4;
    snprintf(path[0], sizeof path[0], "%s/t10k-images-idx3-ubyte.gz", folder);
    snprintf(path[1], sizeof path[1], "%s/t10k-labels-idx1-ubyte.gz", folder);
    write_good();
    assert_int_equal(fashion_read(&data, &both, &missing), CODE_INPUT);
    assert_non_null(strstr(missing.text, "t10k-images-idx3-ubyte.gz: No such file"));
    write_gzip(path[0], images, sizeof images - 1);
    memcpy(labels + 8, other, COUNT);
    write_gzip(path[1], labels, sizeof labels - 1);
    ASK(fashion_read(&data, &both, err));
    assert_true(data.P == 4 && data.tests == 4);
    check_inputs(&data, (const int[]){0, 3, 2, 5, 1, 0, 4, 3},
                 (const double[]){1, -1, 1, -1, 1, -1, 1, -1});
    data_free(&data);
    remove(path[0]);
    remove(path[1]);
}

/* One byte of either file changed before compression, or its length. */
static void test_malformed(void **state) {
    (void)state;
    static const struct {
        bool in_labels;
        size_t at;
        unsigned char value;
        int longer;
        const char *part;
    } table[] = {
        {false, 0, 1, 0, "images-idx3-ubyte.gz: is not an IDX file"},
        {false, 2, 9, 0, "images-idx3-ubyte.gz: is not an IDX file"},
        {true, 3, 3, 0, "labels-idx1-ubyte.gz: is not an IDX file"},
        {false, 7, COUNT - 1, 0, "has 8 images, but there are 9 labels"},
        {false, 4, 0xff, 0, "has 4278190089 images, but there are 9 labels"},
        {true, 7, COUNT + 1, 0, "has 9 images, but there are 10 labels"},
        {false, 11, 27, 0, "has images of 27 x 28 pixels instead of 28 x 28"},
        {false, 15, 29, 0, "has images of 28 x 29 pixels instead of 28 x 28"},
        {true, 9, 10, 0, "labels-idx1-ubyte.gz: label 10 of image 1, where 0 to 9"},
        {false, 0, 0, 1, "images-idx3-ubyte.gz: is longer than its header says"},
        {true, 0, 0, 1, "labels-idx1-ubyte.gz: is longer than its header says"},
        {false, 0, 0, -1, "images-idx3-ubyte.gz: is damaged or incomplete"},
        {true, 0, 0, -1, "labels-idx1-ubyte.gz: is damaged or incomplete"},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        write_good();
        bool second = table[k].in_labels;
        unsigned char *bytes = second ? labels : images;
        size_t size = (second ? sizeof labels : sizeof images) - 1;
        bytes[table[k].at] = table[k].value;
        write_gzip(second ? labels_path : images_path, bytes, size + (size_t)table[k].longer);
        assert_int_equal(read_or_refused(&two_classes, table[k].part), CODE_INPUT);
    }
}

static void test_missing(void **state) {
    (void)state;
    struct fashion other = two_classes;
    write_good();
    remove(labels_path);
    assert_true(read_or_refused(&two_classes, "labels-idx1-ubyte.gz: No such file or directory; "
                                              "install Debian's package dataset-fashion-mnist"));
    write_bytes(labels_path, labels, sizeof labels - 1);
    assert_true(read_or_refused(&two_classes, "labels-idx1-ubyte.gz: is not a gzip file"));
    write_bytes(labels_path, labels, 0);
    assert_true(read_or_refused(&two_classes, "labels-idx1-ubyte.gz: is not a gzip file"));
    write_good();
    other.inputs = 8;
    assert_true(read_or_refused(&other, "has 3 images of the classes with y = +1, and 8 inputs"));
    for (int i = 0; i < COUNT * PIXELS; i++)
        images[HEADER + i] = 7;
    write_gzip(images_path, images, sizeof images - 1);
    assert_true(read_or_refused(&two_classes, "input 0 is the mean of all 4 inputs"));
}

/* Either file cut at every length is refused; with any byte inverted it is refused or, in the few
 * bytes of gzip's header that say nothing of the content, read as before. */
static void test_damaged(void **state) {
    (void)state;
    const char *const path[] = {images_path, labels_path};
    for (int k = 0; k < 2; k++) {
        unsigned char bytes[sizeof images];
        int read = 0;
        write_good();
        FILE *file = fopen(path[k], "rb");
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        assert_true(size > 20 && size < sizeof bytes);
        for (size_t at = 0; at < size; at++) {
            write_bytes(path[k], bytes, at);
            assert_int_equal(read_or_refused(&two_classes, path[k]), CODE_INPUT);
            bytes[at] ^= 0xff;
            write_bytes(path[k], bytes, size);
            read += !read_or_refused(&two_classes, path[k]);
            bytes[at] ^= 0xff;
        }
        assert_in_range(read, 0, 6); /* the time (4 bytes), the speed, the system */
    }
}

static void test_keys(void **state) {
    (void)state;
    static const struct {
        const char *key, *other, *part;
    } table[] = {
        {"data.inputs=3", "", "must be even"},
        {"data.test_inputs=3", "", "must be even"},
        {"data.side=5", "", "must divide 28"},
        {"data.patch=2", "", "must divide side = 7"},
        {"data.patch=29", "", "0 to 28"},
        {"data.classes=3", "", "an even number of labels"},
        {"data.classes=", "", "an even number of labels"},
        {"data.classes=1 2 3 1", "", "label 1 comes twice"},
        {"data.classes=1 10", "", "0 to 9"},
        {"data.folder=", "", "path of the folder"},
        {"data.folder=nowhere", "", "data file nowhere/train-images"},
        {"solver.max_memory=0.001", "data.side=28", "a smaller side"},
        {"data.classes=3", "training.loss=cross_entropy", "at least two labels"},
        {"data.classes=3 4 3", "training.loss=cross_entropy", "label 3 comes twice"},
        {"network.outputs=3", "training.loss=cross_entropy", "source = fashion has 4"},
        {"network.outputs=1", "training.loss=cross_entropy", "needs at least 2"},
        {"network.outputs=4", "training.loss=logistic", "logistic has one output"},
        {"network.outputs=5", "training.loss=mse", "source = fashion has 4"},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        char other[64], key[64], *override[] = {key, other};
        struct run run = {0};
        struct err err = {0};
        snprintf(key, sizeof key, "%s", table[k].key);
        snprintf(other, sizeof other, "%s", table[k].other);
        int code = run_configure(&run, "data/fashion.ini", *other ? 2 : 1, override, &err);
        if (code != CODE_INPUT || !strstr(err.text, table[k].part))
            fail_msg("%s: code %d, or no \"%s\" in: %s", table[k].key, code, table[k].part,
                     err.text);
        run_free(&run);
    }
}

static void test_package(void **state) {
    (void)state;
    if (access(PACKAGE, F_OK)) {
        print_message("[  SKIPPED ] package: no %s here\n", PACKAGE);
        skip();
    }
    struct run run;
    struct data stored;
    support_run(&run, "data/fashion.ini",
                (const char *const[]){"data.classes=2 4", "data.inputs=32", "data.side=7", NULL});
    const struct data_wanted wanted = {.loss = &loss_logistic, .most = 32 * 49};
    ASK(data_read(&stored, "data/fashion_7x7.h5", &wanted, err));
    assert_true(run.data.P == 32 && run.data.D == 49 && run.data.C == 1 && run.data.classes);
    assert_memory_equal(run.data.X, stored.X, 32 * 49 * sizeof *stored.X);
    assert_memory_equal(run.data.y, stored.y, 32 * sizeof *stored.y);
    assert_string_equal(run.config.data.folder, PACKAGE);
    data_free(&stored);
    run_free(&run);

    const struct fashion ten = {PACKAGE, {10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, 10, 25, 7, 13, 0};
    ASK(fashion_read(&stored, &ten, err));
    assert_true(stored.P == 25 && stored.tests == 13 && stored.C == 10);
    for (int k = 0; k < 38 * 10; k++)
        assert_true(stored.y[k] == (k % 10 == (k < 250 ? k / 10 : k / 10 - 25) % 10));
    data_free(&stored);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs),    cmocka_unit_test(test_patches),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_missing),
        cmocka_unit_test(test_damaged),   cmocka_unit_test(test_keys),
        cmocka_unit_test(test_package),   cmocka_unit_test(test_test_inputs),
        cmocka_unit_test(test_classes),
    };
    return cmocka_run_group_tests_name("fashion", tests, open_folder, remove_folder);
}
