#include "solver/files/result.h"
#include "solver/files/hdf5.h"

int result_failed(const char *path, const char *group, int *failed, struct err *err) {
    double complete = 0, number = 0;
    FREED(hdf5_release) hid_t file = -1;
    TRY(hdf5_open(&file, path, err));
    int code = hdf5_get_number(file, "/", "complete", &complete, err);
    if (!code)
        code = hdf5_get_number(file, group, "failed", &number, err);
    *failed = complete == 1 && number > 0 ? (int)number : 0;
    return hdf5_tell_file(code, path, err);
}

int result_program(const char *path, char **program, struct err *err) {
    FREED(hdf5_release) hid_t file = -1;
    *program = NULL;
    TRY(hdf5_open(&file, path, err));
    TRY(hdf5_tell_file(hdf5_get_text(file, "/", "program", program, err), path, err));
    return *program ? CODE_OK
                    : err_set(err, CODE_INPUT,
                              "%.1600s: is not a result of dmft-solve, dmft-compare or dmft-sweep",
                              path);
}
