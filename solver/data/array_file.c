/* Which kind of file it is. */
#include "solver/data/array_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int array_file_open(struct array_file *flat, bool *is, const char *path, size_t most,
                    struct err *err) {
    size_t length = strlen(path);
    bool csv = length > 4 && !strcmp(path + length - 4, ".csv");
    char first[4] = "";
    flat->path = path;
    flat->stream = fopen(path, "rb");
    *is = false;
    if (!flat->stream)
        return err_set(err, base_file_code(errno), "data file %s: %s", path, strerror(errno));
    bool npz = fread(first, 1, 4, flat->stream) == 4 &&
               (!memcmp(first, "PK\3\4", 4) || !memcmp(first, "PK\5\6", 4));
    rewind(flat->stream);
    *is = npz || csv;
    if (!csv || npz) {
        fclose(flat->stream);
        flat->stream = NULL;
    }
    return npz   ? array_file_npz_open(flat, err)
           : csv ? array_file_csv_open(flat, most, err)
                 : CODE_OK;
}

void array_file_close(struct array_file *flat) {
    for (int k = 0; k < flat->count; k++)
        free(flat->array[k].values);
    if (flat->stream)
        fclose(flat->stream);
    array_file_npz_close(flat);
    *flat = (struct array_file){0};
}

const struct array_file_entry *array_file_find(const struct array_file *flat, const char *name) {
    for (int k = 0; k < flat->count; k++)
        if (!strcmp(flat->array[k].name, name))
            return &flat->array[k];
    return NULL;
}

int array_file_read(const struct array_file *flat, const struct array_file_entry *array,
                    double *values, struct err *err) {
    if (!array->values)
        return array_file_npz_read(flat, array, values, err);
    memcpy(values, array->values, array->count * sizeof *values);
    return CODE_OK;
}
