/* libFuzzer target: arbitrary bytes as a data file, npz or csv (by the first byte), read as
 * solver/data/data_file.c reads it. HDF5 files are libhdf5's to read: damage to
 * them is tried by test_data_file. Build and run: make soak. */
#define _GNU_SOURCE
#include "solver/data/array_file.h"
#include "tests/support/fuzz.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST = 1000 };

static void read_array(const struct array_file *flat, const struct array_file_entry *array) {
    struct err err = {0};
    double *values;
    size_t count = 1;
    for (int axis = 0; axis < array->rank && count <= MOST; axis++)
        count = array->shape[axis] <= MOST ? count * array->shape[axis] : MOST + 1;
    if (count > MOST || !strchr("fiub", array->kind))
        return;
    fuzz_require(!base_alloc(&values, count, sizeof *values, &err), "out of memory");
    fuzz_sentence(array_file_read(flat, array, values, &err), &err);
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static char name[2][64];
    struct err err = {0};
    struct array_file flat = {.weight = "w"};
    bool is = false;
    const char *path = name[size && *bytes % 2];
    if (!**name) {
        snprintf(name[0], sizeof name[0], "/tmp/fuzz_data_%d.npz", (int)getpid());
        snprintf(name[1], sizeof name[1], "/tmp/fuzz_data_%d.csv", (int)getpid());
    }
    FILE *out = fopen(path, "wb");
    fuzz_require(out && (size < 2 || fwrite(bytes + 1, 1, size - 1, out) == size - 1), "no file");
    fclose(out);
    fuzz_sentence(array_file_open(&flat, &is, path, MOST, &err), &err);
    for (int k = 0; k < flat.count && is && !err.code; k++)
        read_array(&flat, &flat.array[k]);
    array_file_close(&flat);
    unlink(path);
    return 0;
}
