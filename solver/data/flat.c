/* Which kind of file it is. */
#include "solver/data/flat.h"

#include <errno.h>
#include <string.h>

int flat_open(struct flat *flat, bool *is, const char *path, size_t most, struct err *err) {
    size_t length = strlen(path);
    bool csv = length > 4 && !strcmp(path + length - 4, ".csv");
    char first[4] = "";
    *flat = (struct flat){.path = path, .stream = fopen(path, "rb")};
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
    return npz ? flat_npz_open(flat, err) : csv ? flat_csv_open(flat, most, err) : CODE_OK;
}

const struct flat_array *flat_find(const struct flat *flat, const char *name) {
    for (int k = 0; k < flat->count; k++)
        if (!strcmp(flat->array[k].name, name))
            return &flat->array[k];
    return NULL;
}

int flat_read(const struct flat *flat, const struct flat_array *array, double *values,
              struct err *err) {
    if (!array->values)
        return flat_npz_read(flat, array, values, err);
    memcpy(values, array->values, array->count * sizeof *values);
    return CODE_OK;
}
