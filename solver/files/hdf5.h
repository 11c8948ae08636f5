/* HDF5, as the result file wants it: groups that are made when needed, attributes that may be
 * written again, datasets with attributes dims, about and equation and a dimension scale on each
 * axis.
 *
 * A function that opens something sets an id, -1 on failure, which its caller declares as one that
 * is freed by hdf5_release. */
#pragma once

#include "kernels/base/base.h"

#include <hdf5.h>

enum {
    HDF5_RANK = H5S_MAX_RANK, /* axes of a dataset at most */
    HDF5_NAME = 256,          /* bytes of a name in the file */
    HDF5_SENTENCE = 1024,     /* bytes of an attribute made here */
};

/* CODE_SYSTEM if the result of an HDF5 call (an id, a size, a truth value or a status) is negative;
 * what says what could not be done to the object called name. */
int hdf5_check(int64_t result, const char *what, const char *name, struct err *err);
/* Closes an id unless it is negative. Where that fails hdf5_check_closed fails next, once. */
void hdf5_release(const hid_t *id);
int hdf5_check_closed(const char *name, struct err *err);

/* A file to be read. CODE_INPUT if its name or a right is wrong or it is no HDF5 file, CODE_SYSTEM
 * if it cannot be read now, or is damaged. */
int hdf5_open(hid_t *file, const char *path, struct err *err);
/* Returns code, of whatever has failed in it, which is then told with its name. */
int hdf5_tell_file(int code, const char *path, struct err *err);
/* That something is not there is one thing, and that it cannot be read, CODE_SYSTEM, another: a
 * number that was lost must not look as one that never was. These give the attribute of a group or
 * dataset: its number, NAN if it is not there, or its text, to be freed, NULL if there is none. */
int hdf5_get_number(hid_t file, const char *object, const char *name, double *value,
                    struct err *err);
int hdf5_get_text(hid_t file, const char *object, const char *name, char **text, struct err *err);

/* For files and groups: lists in the order of creation (netCDF-4 wants that), no dates, so that the
 * same run gives the same bytes. plist: as H5Pcreate gave it. */
int hdf5_prepare(hid_t plist, const char *name, struct err *err);
/* Opens the group "a/b/c" of a file ("": the root), creating what is missing. */
int hdf5_open_group(hid_t *group, hid_t file, const char *path, struct err *err);

/* Writes an attribute, count values or one scalar if count < 0; an existing one must have this
 * type and count. */
int hdf5_set_attribute(hid_t object, const char *name, hid_t type, int count, const void *value,
                       struct err *err);
int hdf5_set_text(hid_t object, const char *name, const char *value, struct err *err);
/* Strings of any length, UTF-8: what h5py returns as str. */
int hdf5_text_type(hid_t *type, struct err *err);

/* What is written as one dataset. */
struct dataset {
    const char *name, *dims, *about, *equation; /* dims: names of the axes, blank-separated */
    int rank;
    hsize_t shape[HDF5_RANK];
    hid_t type;
};
/* What has one axis. */
struct dataset hdf5_line(const char *name, const char *axis, const char *about, size_t count,
                         hid_t type);
/* The dataset, made with the scales of its axes if the group lacks them (0, 1, ...), or its values
 * anew: its shape stays, for a name, and an axis of a group, mean one thing. */
int hdf5_write_array(hid_t group, const struct dataset *array, const void *values, struct err *err);
/* Places of the first axis that are compressed together, in each of which an array has so many
 * values: what is written in such parts is compressed once. */
size_t hdf5_rows_of_chunk(size_t values);
/* Writes `count` places of the first axis, from `first` on; what was never written is 0. */
int hdf5_write_part(hid_t group, const struct dataset *array, hsize_t first, hsize_t count,
                    const void *values, struct err *err);
/* The coordinates of an axis; before any array that has this axis. */
int hdf5_write_scale(hid_t group, const struct dataset *array, const void *values, struct err *err);
