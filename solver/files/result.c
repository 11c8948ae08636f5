/* Reading what a run has written. */
#include "solver/files/result.h"

#include <hdf5.h>
#include <hdf5_hl.h>
#include <stdio.h>

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
