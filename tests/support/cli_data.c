/* Data files that tests of the programs write. */
#include "kernels/archive.h"
#include "tests/support/cli.h"

static void make_set(hid_t file, const char *name, int rank, const hsize_t *shape,
                     const double *values) {
    hid_t space = H5Screate_simple(rank, shape, NULL);
    hid_t set =
        H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(set >= 0);
    if (H5Sget_simple_extent_npoints(space) > 0)
        assert_true(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

void cli_lines(const char *name, const char *lines, bool weighted) {
    double value[64], X[64], y[2][16];
    hsize_t P = 0, numbers = 0;
    for (char *end; *lines; lines = end + 1, numbers++) {
        value[numbers] = strtod(lines, &end);
        assert_true(end > lines && (*end == ',' || *end == '\n') && numbers < 63);
        P += *end == '\n';
    }
    hsize_t columns = numbers / P, D = columns - (weighted ? 2 : 1);
    for (hsize_t k = 0; k < numbers; k++)
        if (k % columns < D)
            X[k / columns * D + k % columns] = value[k];
        else
            y[k % columns - D][k / columns] = value[k];
    FREED(close_file) hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    make_set(file, "X", 2, (const hsize_t[]){P, D}, X);
    make_set(file, "y", 1, &P, y[0]);
    if (weighted)
        make_set(file, "w", 1, &P, y[1]);
}

void cli_make_data(const char *name, int rank, int P, int D, int length, double X2, double y1) {
    double X[] = {1, 2, X2, -1, 0.5, 3, 2, -2, 1, 1, 0, 1}, y[] = {1, y1, -1, 1};
    hsize_t x_shape[] = {(hsize_t)P, (hsize_t)D}, y_shape[] = {(hsize_t)length};
    FREED(close_file) hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    if (rank >= 0)
        make_set(file, "X", rank, x_shape, X);
    if (length >= 0)
        make_set(file, "y", 1, y_shape, y);
}

void cli_change_state(const char *name, size_t at, const void *bytes, size_t count, bool sum) {
    size_t size;
    FREED(base_free) char *text = cli_read(name, &size);
    assert_true(at + count <= size);
    memcpy(text + at, bytes, count);
    uint64_t now = archive_sum(BASE_HASH, text, size - sizeof now);
    if (sum)
        memcpy(text + size - sizeof now, &now, sizeof now);
    cli_write(name, text, size);
}
