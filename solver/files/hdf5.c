#define _POSIX_C_SOURCE 200809L
#include "solver/files/hdf5.h"

#include <hdf5_hl.h>

enum {
    COMPACT = 4096,  /* values; larger datasets are compressed */
    CHUNK = 1 << 17, /* values of a chunk, if it can be: HDF5 caches 1 MiB */
};

/* --- failures -------------------------------------------------------------------------------- */

/* The first, innermost entry of HDF5's error stack is the cause. */
static herr_t find_cause(unsigned depth, const H5E_error2_t *entry, void *cause) {
    if (depth == 0 && entry->desc)
        snprintf(cause, HDF5_SENTENCE, ": %s", entry->desc);
    return 0;
}

int hdf5_check(int64_t result, const char *what, const char *name, struct err *err) {
    if (result >= 0)
        return CODE_OK;
    char cause[HDF5_SENTENCE] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_cause, cause);
    return err_set(err, CODE_SYSTEM, "HDF5 cannot %s %s%s", what, name, cause);
}

static bool lost; /* what could not be closed may not be in the file */

void hdf5_release(const hid_t *id) {
    lost = (*id >= 0 && H5Idec_ref(*id) < 0) || lost;
}

int hdf5_check_closed(const char *name, struct err *err) {
    int result = lost ? -1 : 0;
    lost = false;
    return hdf5_check(result, "close", name, err);
}

/* --- reading --------------------------------------------------------------------------------- */

int hdf5_open(hid_t *file, const char *path, struct err *err) {
    FILE *stream;
    *file = -1;
    TRY(base_open(&stream, path, err));
    fclose(stream);
    htri_t known = H5Fis_hdf5(path);
    if (!known)
        return err_set(err, CODE_INPUT, "%.1600s: is not a result, it is no HDF5 file", path);
    *file = known < 0 ? -1 : H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    return hdf5_check(*file, "open", path, err);
}

int hdf5_tell_file(int code, const char *path, struct err *err) {
    if (code && strncmp(err->text, path, strlen(path)) != 0)
        err_set(err, code, "%.700s: %.1000s", path, err->text);
    return code;
}

/* Whether a file has such a group or dataset. */
static int has_object(hid_t file, const char *object, bool *there, struct err *err) {
    htri_t is = H5LTpath_valid(file, object, false);
    *there = is > 0;
    return hdf5_check(is, "look up", object, err);
}

/* Opens an attribute, or says that there is none. */
static int find_attribute(hid_t file, const char *object, const char *name, hid_t *attribute,
                          struct err *err) {
    bool there;
    *attribute = -1;
    TRY(has_object(file, object, &there, err));
    htri_t is = there ? H5Aexists_by_name(file, object, name, H5P_DEFAULT) : 0;
    TRY(hdf5_check(is, "look up attribute", name, err));
    if (!is)
        return CODE_OK;
    *attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    return hdf5_check(*attribute, "open attribute", name, err);
}

int hdf5_get_number(hid_t file, const char *object, const char *name, double *value,
                    struct err *err) {
    FREED(hdf5_release) hid_t attribute = -1;
    *value = (double)NAN;
    TRY(find_attribute(file, object, name, &attribute, err));
    return attribute < 0 ? CODE_OK
                         : hdf5_check(H5Aread(attribute, H5T_NATIVE_DOUBLE, value),
                                      "read attribute", name, err);
}

int hdf5_get_text(hid_t file, const char *object, const char *name, char **text, struct err *err) {
    FREED(hdf5_release) hid_t attribute = -1, type = -1;
    *text = NULL;
    TRY(find_attribute(file, object, name, &attribute, err));
    if (attribute < 0)
        return CODE_OK;
    FREED(hdf5_release) hid_t kind = H5Aget_type(attribute);
    TRY(hdf5_check(kind, "read attribute", name, err));
    TRY(hdf5_text_type(&type, err));
    return H5Tis_variable_str(kind) > 0
               ? hdf5_check(H5Aread(attribute, type, text), "read attribute", name, err)
               : CODE_OK;
}

/* --- groups ---------------------------------------------------------------------------------- */

int hdf5_prepare(hid_t plist, const char *name, struct err *err) {
    unsigned order = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
    TRY(hdf5_check(plist, "prepare", name, err));
    TRY(hdf5_check(H5Pset_link_creation_order(plist, order), "prepare", name, err));
    return hdf5_check(H5Pset_obj_track_times(plist, false), "prepare", name, err);
}

static int create_group(hid_t file, const char *path, struct err *err) {
    FREED(hdf5_release) hid_t plist = H5Pcreate(H5P_GROUP_CREATE);
    TRY(hdf5_prepare(plist, path, err));
    FREED(hdf5_release) hid_t group = H5Gcreate2(file, path, H5P_DEFAULT, plist, H5P_DEFAULT);
    return hdf5_check(group, "create group", path, err);
}

int hdf5_open_group(hid_t *group, hid_t file, const char *path, struct err *err) {
    char part[HDF5_NAME];
    size_t length = strlen(path);
    assert(length < sizeof part);
    *group = -1;
    for (size_t end = 0; end < length;) {
        end += strspn(path + end, "/");
        end += strcspn(path + end, "/");
        snprintf(part, sizeof part, "%.*s", (int)end, path);
        htri_t exists = H5Lexists(file, part, H5P_DEFAULT);
        TRY(hdf5_check(exists, "look up", part, err));
        if (!exists)
            TRY(create_group(file, part, err));
    }
    *group = H5Gopen2(file, length ? path : "/", H5P_DEFAULT);
    return hdf5_check(*group, "open group", path, err);
}

/* --- attributes ------------------------------------------------------------------------------ */

int hdf5_set_attribute(hid_t object, const char *name, hid_t type, int count, const void *value,
                       struct err *err) {
    hsize_t length = count > 0 ? (hsize_t)count : 0;
    htri_t exists = H5Aexists(object, name);
    FREED(hdf5_release) hid_t space = -1, attribute = -1;
    TRY(hdf5_check(exists, "look up attribute", name, err));
    space = count < 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &length, NULL);
    TRY(hdf5_check(space, "describe attribute", name, err));
    attribute = exists ? H5Aopen(object, name, H5P_DEFAULT)
                       : H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    TRY(hdf5_check(attribute, "create attribute", name, err));
    return hdf5_check(H5Awrite(attribute, type, value), "write attribute", name, err);
}

int hdf5_text_type(hid_t *type, struct err *err) {
    *type = H5Tcopy(H5T_C_S1);
    TRY(hdf5_check(*type, "describe", "strings", err));
    TRY(hdf5_check(H5Tset_size(*type, H5T_VARIABLE), "describe", "strings", err));
    return hdf5_check(H5Tset_cset(*type, H5T_CSET_UTF8), "describe", "strings", err);
}

int hdf5_set_text(hid_t object, const char *name, const char *value, struct err *err) {
    FREED(hdf5_release) hid_t type = -1;
    const char *text = value ? value : "";
    TRY(hdf5_text_type(&type, err));
    return hdf5_set_attribute(object, name, type, -1, &text, err);
}

/* --- datasets -------------------------------------------------------------------------------- */

struct dataset hdf5_line(const char *name, const char *axis, const char *about, size_t count,
                         hid_t type) {
    return (struct dataset){name, axis, about, "", 1, {count}, type};
}

size_t hdf5_rows_of_chunk(size_t values) {
    return values < CHUNK ? CHUNK / values : 1;
}

/* Large arrays are cut into chunks along their first axes and compressed. */
static int set_storage(hid_t plist, const struct dataset *array, struct err *err) {
    TRY(hdf5_check(plist, "prepare", array->name, err));
    TRY(hdf5_check(H5Pset_obj_track_times(plist, false), "prepare", array->name, err));
    hsize_t count = 1, chunk[HDF5_RANK];
    for (int k = 0; k < array->rank; k++)
        count *= chunk[k] = array->shape[k];
    if (count <= COMPACT)
        return CODE_OK;
    for (int k = 0; k < array->rank && count > CHUNK; k++) {
        hsize_t rest = count / chunk[k]; /* values of one index of axis k */
        chunk[k] = hdf5_rows_of_chunk(rest);
        count = rest * chunk[k];
    }
    TRY(hdf5_check(H5Pset_chunk(plist, array->rank, chunk), "prepare", array->name, err));
    TRY(hdf5_check(H5Pset_shuffle(plist), "prepare", array->name, err));
    return hdf5_check(H5Pset_deflate(plist, 1), "prepare", array->name, err);
}

static int create_dataset(hid_t *set, hid_t group, const struct dataset *array, struct err *err) {
    const char *name = array->name;
    FREED(hdf5_release) hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    TRY(set_storage(plist, array, err));
    FREED(hdf5_release) hid_t space = H5Screate_simple(array->rank, array->shape, NULL);
    TRY(hdf5_check(space, "describe", name, err));
    *set = H5Dcreate2(group, name, array->type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    TRY(hdf5_check(*set, "create dataset", name, err));
    TRY(hdf5_set_text(*set, "dims", array->dims, err));
    TRY(hdf5_set_text(*set, "about", array->about, err));
    return hdf5_set_text(*set, "equation", array->equation, err);
}

/* Opens the dataset if the group has it, else *set = -1. Its shape must be that of the array: a
 * name, and the axes of a group, mean one thing. */
static int open_dataset(hid_t *set, hid_t group, const struct dataset *array, struct err *err) {
    *set = -1;
    htri_t exists = H5Lexists(group, array->name, H5P_DEFAULT);
    TRY(hdf5_check(exists, "look up", array->name, err));
    if (!exists)
        return CODE_OK;
    *set = H5Dopen2(group, array->name, H5P_DEFAULT);
    TRY(hdf5_check(*set, "open dataset", array->name, err));
    FREED(hdf5_release) hid_t space = H5Dget_space(*set);
    TRY(hdf5_check(space, "describe", array->name, err));
    hsize_t shape[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, shape, NULL);
    bool same = rank == array->rank;
    for (int k = 0; same && k < rank; k++)
        same = shape[k] == array->shape[k];
    assert(rank < 0 || same);
    return hdf5_check(rank, "describe", array->name, err);
}

static int create_scale(hid_t *scale, hid_t group, const struct dataset *array, const void *values,
                        struct err *err) {
    TRY(create_dataset(scale, group, array, err));
    TRY(hdf5_check(H5Dwrite(*scale, array->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
                   "write dataset", array->name, err));
    return hdf5_check(H5DSset_scale(*scale, array->name), "make a scale of", array->name, err);
}

/* The scale of an axis, open; 0, 1, ..., length - 1 if it is new in the group. */
static int open_scale(hid_t *scale, hid_t group, const char *axis, hsize_t length,
                      struct err *err) {
    const struct dataset array =
        hdf5_line(axis, axis, "index along this axis, from 0", (size_t)length, H5T_NATIVE_INT);
    TRY(open_dataset(scale, group, &array, err));
    if (*scale >= 0)
        return CODE_OK;
    SCRATCH(int, values, (size_t)length);
    for (hsize_t k = 0; k < length; k++)
        values[k] = (int)k;
    return create_scale(scale, group, &array, values, err);
}

/* Opens the dataset; where it is new it comes after the scales of its axes, which it needs, and
 * which are attached to it. */
static int open_array(hid_t *set, hid_t group, const struct dataset *array, struct err *err) {
    int code = CODE_OK, scales = 0;
    hid_t scale[HDF5_RANK];
    FREED(base_free) char *dims = NULL;
    char *axis, *rest;
    TRY(open_dataset(set, group, array, err));
    if (*set >= 0)
        return CODE_OK;
    TRY(base_copy(&dims, array->dims, err));
    for (int k = 0; k < array->rank && !code; k++) {
        axis = strtok_r(k ? NULL : dims, " ", &rest);
        assert(axis);
        code = open_scale(&scale[scales++], group, axis, array->shape[k], err);
    }
    if (!code)
        code = create_dataset(set, group, array, err);
    for (int k = 0; k < array->rank && !code; k++)
        code = hdf5_check(H5DSattach_scale(*set, scale[k], (unsigned)k), "attach the scales of",
                          array->name, err);
    while (scales--)
        hdf5_release(&scale[scales]);
    return code;
}

int hdf5_write_array(hid_t group, const struct dataset *array, const void *values,
                     struct err *err) {
    FREED(hdf5_release) hid_t set = -1;
    TRY(open_array(&set, group, array, err));
    return hdf5_check(H5Dwrite(set, array->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
                      "write dataset", array->name, err);
}

int hdf5_write_part(hid_t group, const struct dataset *array, hsize_t first, hsize_t count,
                    const void *values, struct err *err) {
    FREED(hdf5_release) hid_t set = -1;
    hsize_t start[HDF5_RANK] = {first}, shape[HDF5_RANK] = {count};
    for (int k = 1; k < array->rank; k++)
        shape[k] = array->shape[k];
    TRY(open_array(&set, group, array, err));
    FREED(hdf5_release) hid_t all = H5Dget_space(set);
    TRY(hdf5_check(all, "describe", array->name, err));
    TRY(hdf5_check(H5Sselect_hyperslab(all, H5S_SELECT_SET, start, NULL, shape, NULL), "describe",
                   array->name, err));
    FREED(hdf5_release) hid_t part = H5Screate_simple(array->rank, shape, NULL);
    TRY(hdf5_check(part, "describe", array->name, err));
    return hdf5_check(H5Dwrite(set, array->type, part, all, H5P_DEFAULT, values), "write dataset",
                      array->name, err);
}

int hdf5_write_scale(hid_t group, const struct dataset *array, const void *values,
                     struct err *err) {
    FREED(hdf5_release) hid_t scale = -1;
    TRY(open_dataset(&scale, group, array, err));
    return scale < 0 ? create_scale(&scale, group, array, values, err) : CODE_OK;
}
