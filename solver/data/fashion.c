/* Fashion-MNIST: 60 000 training images of 28 x 28 grey pixels with labels 0 to 9 in two IDX files,
 * gzipped, as Debian's package dataset-fashion-mnist has them; 10 000 test images in two more.
 *
 * Inputs are of each kind in turn, y = +1 and -1 or the classes; those of a kind in the order of
 * the file. An image becomes the means b[mu][i] of D = side^2 blocks of pixels, i = side row +
 * column; then c[mu][i] = b[mu][i] - sum_nu b[nu][i] / P,      x[mu] = sqrt(D) c[mu] / |c[mu]|,
 * every feature centred over the P training inputs, then every input scaled to |x|^2 = D. Factors
 * that an input has in common drop out, so P c is summed in whole pixels: exact up to |P c|^2.
 *
 * The files are read to their ends, image by image, for the checksum that gzip has there. */
#define _POSIX_C_SOURCE 200809L
#include "solver/data/fashion.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { PIXELS = FASHION_SIDE * FASHION_SIDE };

/* An IDX file of unsigned bytes: 0 0 8 rank, the extents (32 bits, high byte first), the values. */
struct idx {
    char *path;
    gzFile file;
    uint32_t extent[3];
};

static int idx_read(struct idx *idx, unsigned char *bytes, unsigned count, struct err *err) {
    int got = gzread(idx->file, bytes, count);
    return got == (int)count
               ? CODE_OK
               : err_set(err, CODE_INPUT, "data file %s: is damaged or incomplete", idx->path);
}

static int idx_open(struct idx *idx, const char *folder, const char *name, unsigned char rank,
                    struct err *err) {
    size_t size = strlen(folder) + strlen(name) + 2;
    unsigned char header[16];
    TRY(base_alloc(&idx->path, size, 1, err));
    snprintf(idx->path, size, "%s/%s", folder, name);
    if (access(idx->path, F_OK))
        return err_set(err, CODE_INPUT,
                       "data file %s: %s; install Debian's package dataset-fashion-mnist, or set "
                       "[data] folder",
                       idx->path, strerror(errno));
    TRY(data_check_file(idx->path, err));
    idx->file = gzopen(idx->path, "rb");
    if (!idx->file)
        return err_set(err, CODE_SYSTEM, "data file %s: %s", idx->path, strerror(errno));
    if (gzdirect(idx->file))
        return err_set(err, CODE_INPUT, "data file %s: is not a gzip file", idx->path);
    TRY(idx_read(idx, header, 4 + 4 * (unsigned)rank, err));
    if (memcmp(header, (const unsigned char[]){0, 0, 8, rank}, 4) != 0)
        return err_set(err, CODE_INPUT,
                       "data file %s: is not an IDX file of unsigned bytes with rank %d", idx->path,
                       rank);
    for (int k = 0; k < rank; k++)
        for (int byte = 0; byte < 4; byte++)
            idx->extent[k] = idx->extent[k] << 8 | header[4 + 4 * k + byte];
    return CODE_OK;
}

/* Nothing is left, and gzip's checksum agrees. */
static int idx_end(struct idx *idx, struct err *err) {
    unsigned char byte;
    int status, got = gzread(idx->file, &byte, 1);
    gzerror(idx->file, &status);
    if (got > 0)
        return err_set(err, CODE_INPUT, "data file %s: is longer than its header says", idx->path);
    if (got < 0 || status != Z_OK)
        return err_set(err, CODE_INPUT, "data file %s: is damaged or incomplete", idx->path);
    return CODE_OK;
}

static void idx_close(struct idx *idx) {
    if (idx->file)
        gzclose_r(idx->file);
    free(idx->path);
}

/* Sums over blocks of pixels. */
static void add_blocks(const unsigned char *pixel, int side, double *x) {
    int block = FASHION_SIDE / side;
    for (int row = 0; row < FASHION_SIDE; row++)
        for (int column = 0; column < FASHION_SIDE; column++)
            x[row / block * side + column / block] += pixel[row * FASHION_SIDE + column];
}

/* 0: y = +1, 1: y = -1, or the class; -1: of no chosen class. */
static int kind_of(int label, const struct fashion *fashion) {
    const struct int_list *classes = &fashion->classes;
    for (int c = 0; c < classes->count; c++)
        if (classes->value[c] == label)
            return fashion->C > 1 ? c : 2 * c >= classes->count;
    return -1;
}

static void set_target(struct data *data, int mu, int kind) {
    double *y = data->y + (size_t)mu * (size_t)data->C;
    if (data->C == 1)
        *y = kind ? -1 : 1;
    else
        y[kind] = 1;
}

/* Input first + place is of kind place % kinds. */
static int check_found(const int *found, int count, const struct fashion *fashion, const char *path,
                       struct err *err) {
    int kinds = fashion->C > 1 ? fashion->C : 2;
    for (int kind = 0; kind < kinds; kind++) {
        int needed = (count - kind + kinds - 1) / kinds;
        if (found[kind] >= needed)
            continue;
        if (fashion->C > 1)
            return err_set(err, CODE_INPUT,
                           "data file %s: has %d images of class %d, and %d inputs need %d", path,
                           found[kind], fashion->classes.value[kind], count, needed);
        return err_set(err, CODE_INPUT,
                       "data file %s: has %d images of the classes with y = %s1, and %d inputs "
                       "need %d",
                       path, found[kind], kind ? "-" : "+", count, needed);
    }
    return CODE_OK;
}

/* Inputs first ... first + count - 1. */
static int choose(struct data *data, int first, int count, const struct fashion *fashion,
                  struct idx *images, struct idx *labels, struct err *err) {
    int found[FASHION_CLASSES] = {0}, kinds = fashion->C > 1 ? fashion->C : 2;
    for (uint32_t n = 0; n < images->extent[0]; n++) {
        unsigned char pixel[PIXELS], label;
        TRY(idx_read(images, pixel, PIXELS, err));
        TRY(idx_read(labels, &label, 1, err));
        if (label >= FASHION_CLASSES)
            return err_set(err, CODE_INPUT, "data file %s: label %d of image %u, where 0 to %d are",
                           labels->path, label, n, FASHION_CLASSES - 1);
        int kind = kind_of(label, fashion);
        if (kind < 0 || kinds * found[kind] + kind >= count)
            continue;
        int mu = first + kinds * found[kind]++ + kind;
        set_target(data, mu, kind);
        add_blocks(pixel, fashion->side, data->X + (size_t)mu * (size_t)data->D);
    }
    TRY(idx_end(images, err));
    TRY(idx_end(labels, err));
    return check_found(found, count, fashion, images->path, err);
}

static int normalise(struct data *data, const char *path, struct err *err) {
    size_t P = (size_t)data->P, D = (size_t)data->D, all = P + (size_t)data->tests;
    double sum[PIXELS] = {0};
    for (size_t mu = 0; mu < P; mu++)
        for (size_t i = 0; i < D; i++)
            sum[i] += data->X[mu * D + i];
    for (size_t mu = 0; mu < all; mu++) {
        double *x = data->X + mu * D, square = 0;
        for (size_t i = 0; i < D; i++) {
            x[i] = (double)P * x[i] - sum[i];
            square += x[i] * x[i];
        }
        if (square == 0)
            return err_set(err, CODE_INPUT,
                           "data file %s: input %zu is the mean of all %zu inputs and cannot be "
                           "scaled to |x|^2 = D",
                           path, mu, P);
        for (size_t i = 0; i < D; i++)
            x[i] = x[i] * sqrt((double)D) / sqrt(square);
    }
    return CODE_OK;
}

/* From the files of the training set (train) or the test set (t10k). */
static int read_set(struct data *data, int first, int count, const struct fashion *fashion,
                    const char *set, struct err *err) {
    struct idx images = {0}, labels = {0};
    char name[64];
    int code;
    snprintf(name, sizeof name, "%s-images-idx3-ubyte.gz", set);
    DO(idx_open(&images, fashion->folder, name, 3, err));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", set);
    DO(idx_open(&labels, fashion->folder, name, 1, err));
    if (images.extent[1] != FASHION_SIDE || images.extent[2] != FASHION_SIDE)
        DO(err_set(err, CODE_INPUT, "data file %s: has images of %u x %u pixels instead of %d x %d",
                   images.path, images.extent[1], images.extent[2], FASHION_SIDE, FASHION_SIDE));
    if (images.extent[0] != labels.extent[0])
        DO(err_set(err, CODE_INPUT, "data file %s: has %u images, but there are %u labels",
                   images.path, images.extent[0], labels.extent[0]));
    DO(choose(data, first, count, fashion, &images, &labels, err));
done:
    idx_close(&images);
    idx_close(&labels);
    return code;
}

/* Of each image its squares, row by row, and in each of them its pixels. */
static int cut(struct data *data, int side, int patch, struct err *err) {
    size_t D = (size_t)data->D;
    double *image;
    TRY(base_alloc(&image, D, sizeof *image, err));
    data->D = patch * patch;
    data->n = side / patch * (side / patch);
    for (int mu = 0; mu < data->P + data->tests; mu++) {
        double *x = data->X + (size_t)mu * D;
        memcpy(image, x, D * sizeof *x);
        for (int row = 0; row < side; row++)
            for (int column = 0; column < side; column++)
                x[(row / patch * (side / patch) + column / patch) * data->D + row % patch * patch +
                  column % patch] = image[row * side + column];
    }
    free(image);
    return CODE_OK;
}

int fashion_read(struct data *data, const struct fashion *fashion, struct err *err) {
    int P = fashion->inputs, tests = fashion->tests, code;
    const struct data sizes = {.P = P,
                               .tests = tests,
                               .n = 1,
                               .D = fashion->side * fashion->side,
                               .C = fashion->C,
                               .classes = true};
    DO(data_init(data, &sizes, err));
    DO(read_set(data, 0, P, fashion, "train", err));
    if (tests)
        DO(read_set(data, P, tests, fashion, "t10k", err));
    DO(normalise(data, fashion->folder, err));
    if (fashion->patch)
        DO(cut(data, fashion->side, fashion->patch, err));
done:
    if (code)
        data_free(data);
    return code;
}
