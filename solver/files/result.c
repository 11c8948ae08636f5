/* Reading what a run has written. */
#include "solver/files/result.h"
#include "solver/files/hdf5.h"

#include <errno.h>
#include <hdf5_hl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int read_losses(hid_t file, const char *set, double **loss, int *runs, int *T,
                       struct err *err) {
    int complete = 0, rank;
    hsize_t shape[2];
    bool good = file >= 0 && H5LTget_attribute_int(file, "/", "complete", &complete) >= 0 &&
                complete == 1 && H5LTget_dataset_ndims(file, set, &rank) >= 0 && rank == 2 &&
                H5LTget_dataset_info(file, set, shape, NULL, NULL) >= 0;
    if (!good)
        return err_set(err, CODE_SYSTEM, "is not a complete file with %s", set);
    *runs = (int)shape[0];
    *T = (int)shape[1];
    TRY(base_alloc(loss, (size_t)(shape[0] * shape[1]), sizeof **loss, err));
    if (H5LTread_dataset_double(file, set, *loss) < 0)
        return err_set(err, CODE_SYSTEM, "%s cannot be read", set);
    return CODE_OK;
}

int result_losses(const char *path, const char *group, double **loss, int *runs, int *T,
                  struct err *err) {
    char set[128];
    *loss = NULL;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    snprintf(set, sizeof set, "%s/loss_pseudo", group);
    if (file < 0 || H5LTpath_valid(file, set, false) <= 0)
        snprintf(set, sizeof set, "%s/loss_runs", group);
    int code = read_losses(file, set, loss, runs, T, err);
    if (file >= 0)
        H5Fclose(file);
    return code ? err_set(err, code, "%.700s: %.1000s", path, err->text) : CODE_OK;
}

int result_failed(const char *path, const char *group) {
    int complete = 0, failed = 0;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    bool known = file >= 0 && H5LTget_attribute_int(file, "/", "complete", &complete) >= 0 &&
                 complete == 1 && H5LTpath_valid(file, group, false) > 0 &&
                 H5Aexists_by_name(file, group, "failed", H5P_DEFAULT) > 0 &&
                 H5LTget_attribute_int(file, group, "failed", &failed) >= 0;
    if (file >= 0)
        H5Fclose(file);
    return known ? failed : 0;
}

int result_program(const char *path, char **program, struct err *err) {
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), type = -1;
    hid_t attribute = file < 0 ? -1 : H5Aopen(file, "program", H5P_DEFAULT);
    int code = hdf5_text_type(&type, err);
    *program = NULL;
    if (!code && file < 0 && access(path, F_OK))
        code = err_set(err, CODE_INPUT, "%.1600s: cannot be opened: %s", path, strerror(errno));
    if (!code && (attribute < 0 || H5Aread(attribute, type, program) < 0 || !*program))
        code = err_set(err, CODE_INPUT,
                       "%.1600s: is not a result of dmft-solve, dmft-compare or "
                       "dmft-sweep",
                       path);
    code = hdf5_shut(H5Tclose, type, code, path, err);
    code = hdf5_shut(H5Aclose, attribute, code, path, err);
    return hdf5_shut(H5Fclose, file, code, path, err);
}

int result_texts(const char *path, const char *set, char ***text, int *count, struct err *err) {
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), type = -1, space = -1;
    hid_t data = file < 0 ? -1 : H5Dopen2(file, set, H5P_DEFAULT);
    hsize_t size = 0;
    int code;
    *text = NULL;
    *count = 0;
    DO(hdf5_text_type(&type, err));
    space = data < 0 ? -1 : H5Dget_space(data);
    if (space < 0 || H5Sget_simple_extent_ndims(space) != 1 ||
        H5Sget_simple_extent_dims(space, &size, NULL) < 0 || size > INT_MAX)
        DO(err_set(err, CODE_INPUT, "%.1600s: has no list %s", path, set));
    DO(base_alloc(text, (size_t)size, sizeof **text, err));
    if (H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *text) < 0)
        DO(err_set(err, CODE_INPUT, "%.1600s: %s cannot be read", path, set));
    *count = (int)size;
done:
    code = hdf5_shut(H5Sclose, space, code, path, err);
    code = hdf5_shut(H5Tclose, type, code, path, err);
    code = hdf5_shut(H5Dclose, data, code, path, err);
    return hdf5_shut(H5Fclose, file, code, path, err);
}
