/* Reading what a run has written. */
#include "solver/files/result.h"
#include "solver/files/hdf5.h"

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
