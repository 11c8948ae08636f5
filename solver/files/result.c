/* Reading what a run has written. */
#include "solver/files/result.h"
#include "solver/files/hdf5.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int result_failed(const char *path, const char *group, int *failed, struct err *err) {
    double complete = 0, number = 0;
    hid_t file;
    TRY(hdf5_open(&file, path, err));
    int code = hdf5_get_number(file, "/", "complete", &complete, err);
    if (!code)
        code = hdf5_get_number(file, group, "failed", &number, err);
    *failed = complete == 1 && number > 0 ? (int)number : 0;
    return hdf5_close(file, code, path, err);
}

int result_program(const char *path, char **program, struct err *err) {
    hid_t file;
    *program = NULL;
    TRY(hdf5_open(&file, path, err));
    int code = hdf5_get_text(file, "/", "program", program, err);
    if (!code && !*program)
        code = err_set(err, CODE_INPUT,
                       "%.1600s: is not a result of dmft-solve, dmft-compare or dmft-sweep", path);
    return hdf5_close(file, code, path, err);
}

int result_texts(const char *path, const char *set, char ***text, int *count, struct err *err) {
    hid_t file, data = -1, type = -1, space = -1;
    hsize_t size = 0;
    bool there;
    int code;
    *text = NULL;
    *count = 0;
    TRY(hdf5_open(&file, path, err));
    DO(hdf5_has(file, set, &there, err));
    if (!there)
        DO(err_set(err, CODE_INPUT, "%.1600s: has no list %s", path, set));
    DO(hdf5_text_type(&type, err));
    data = H5Dopen2(file, set, H5P_DEFAULT);
    space = data < 0 ? -1 : H5Dget_space(data);
    DO(hdf5_check(space, "open", set, err));
    if (H5Sget_simple_extent_ndims(space) != 1 ||
        H5Sget_simple_extent_dims(space, &size, NULL) < 0 || size > INT_MAX)
        DO(err_set(err, CODE_INPUT, "%.1600s: %s is no list", path, set));
    DO(base_alloc(text, (size_t)size, sizeof **text, err));
    DO(hdf5_check(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *text), "read", set, err));
    *count = (int)size;
done:
    code = hdf5_shut(H5Sclose, space, code, path, err);
    code = hdf5_shut(H5Tclose, type, code, path, err);
    code = hdf5_shut(H5Dclose, data, code, path, err);
    return hdf5_close(file, code, path, err);
}
