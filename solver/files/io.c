/* The result file: what of the program goes into it, composed in memory (hdf5.h) and saved whole,
 * so that the file on disk is always one finished state. Order of calls: io_create, any of the
 * writers, io_finish, io_close. */
#define _POSIX_C_SOURCE 200809L
#include "solver/files/io.h"
#include "solver/files/hdf5.h"
#include "solver/files/partial.h"

#include <unistd.h>

enum { GROW = 1 << 22 }; /* bytes by which the file in memory grows */

void io_quiet(void) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void io_begin_program(void) {
    H5dont_atexit();
    io_quiet();
}

int io_open_group(int64_t *group, const struct io *io, const char *path, struct err *err) {
    char whole[HDF5_NAME];
    size_t length = (size_t)snprintf(whole, sizeof whole, "%s%s", io->prefix, path);
    assert(length < sizeof whole);
    (void)length;
    return hdf5_open_group(group, io->file, whole, err);
}

/* --- attributes ------------------------------------------------------------------------------ */

int io_attribute(struct io *io, const char *group, const char *name, double value,
                 struct err *err) {
    FREED(hdf5_release) hid_t id = -1;
    TRY(io_open_group(&id, io, group, err));
    return hdf5_set_attribute(id, name, H5T_NATIVE_DOUBLE, -1, &value, err);
}

int io_text(struct io *io, const char *group, const char *name, const char *value,
            struct err *err) {
    FREED(hdf5_release) hid_t id = -1;
    TRY(io_open_group(&id, io, group, err));
    return hdf5_set_text(id, name, value, err);
}

int io_provenance(struct io *io, const char *name, const char *value, struct err *err) {
    return io_text(io, "provenance", name, value, err);
}

/* One key; slot is its place in the configuration. Names of choices say more than their numbers. */
static int set_parameter(hid_t group, const char *name, const struct param_row *row,
                         const char *text, const void *slot, struct err *err) {
    const struct int_list *list = slot;
    const struct real_list *reals = slot;
    switch (row->type) {
    case PARAM_INT:
        return hdf5_set_attribute(group, name, H5T_NATIVE_INT, -1, slot, err);
    case PARAM_SEED:
        return hdf5_set_attribute(group, name, H5T_NATIVE_UINT64, -1, slot, err);
    case PARAM_REAL:
        return hdf5_set_attribute(group, name, H5T_NATIVE_DOUBLE, -1, slot, err);
    case PARAM_INTS:
        return hdf5_set_attribute(group, name, H5T_NATIVE_INT, list->count, list->value, err);
    case PARAM_REALS:
        return hdf5_set_attribute(group, name, H5T_NATIVE_DOUBLE, reals->count, reals->value, err);
    default: /* words */
        return hdf5_set_text(group, name, text, err);
    }
}

int io_parameters(struct io *io, const struct params *params, const void *config, struct err *err) {
    const struct param_value *value = params->values;
    FREED(base_free) char *ini = NULL;
    FREED(hdf5_release) hid_t group = -1;
    size_t size;
    TRY(io_open_group(&group, io, "parameters", err));
    for (size_t s = 0; s < params->count; s++) {
        const struct param_section *section = &params->sections[s];
        for (size_t k = 0; k < section->count; k++, value++) {
            const struct param_row *row = &section->rows[k];
            const char *slot = (const char *)config + section->offset + row->offset;
            char name[HDF5_NAME];
            snprintf(name, sizeof name, "%s.%s", section->name, row->key);
            TRY(set_parameter(group, name, row, value->text, slot, err));
        }
    }
    FOR_EACH_OF (const struct param_free, key, params->free, params->frees) {
        char name[HDF5_NAME];
        snprintf(name, sizeof name, "%s.%s", key->section->name, key->key);
        TRY(hdf5_set_text(group, name, key->value.text, err));
    }
    TRY(params_text(params, &ini, &size, err));
    return hdf5_set_text(group, "ini", ini, err);
}

/* --- datasets -------------------------------------------------------------------------------- */

int io_scale(struct io *io, const char *group, const char *name, const char *axis,
             const double *values, const char *const *text, int count, struct err *err) {
    struct dataset array = hdf5_line(name, axis, "coordinates", (size_t)count, H5T_NATIVE_DOUBLE);
    FREED(hdf5_release) hid_t id = -1, words = -1;
    TRY(io_open_group(&id, io, group, err));
    TRY(hdf5_text_type(&words, err));
    if (text)
        array.type = words;
    return hdf5_write_array(id, &array, text ? (const void *)text : values, err);
}

int io_document(struct io *io, const char *name, const char *about, const char *text,
                struct err *err) {
    FREED(hdf5_release) hid_t group = -1, type = -1;
    TRY(io_open_group(&group, io, "", err));
    TRY(hdf5_text_type(&type, err));
    const struct dataset array = {name, "", about, "", 0, {0}, type};
    return hdf5_write_array(group, &array, &text, err);
}

/* --- the file -------------------------------------------------------------------------------- */

int io_flush(struct io *io, struct err *err) {
    int code = CODE_OK;
    FREED(base_free) char *bytes = NULL;
    ssize_t size = -1;
    DO(hdf5_check_closed(io->partial, err));
    DO(hdf5_check(H5Fflush(io->file, H5F_SCOPE_LOCAL), "complete", io->partial, err));
    DO(hdf5_check(size = H5Fget_file_image(io->file, NULL, 0), "measure", io->partial, err));
    DO(base_alloc(&bytes, (size_t)size, 1, err));
    DO(hdf5_check(H5Fget_file_image(io->file, bytes, (size_t)size), "copy", io->partial, err));
    DO(partial_write(io->partial, &io->lock, bytes, (size_t)size, err));
done:
    io->behind = code != CODE_OK;
    return code;
}

/* An empty HDF5 file in memory. The driver takes the name but leaves the disk alone. */
static int create_file(struct io *io, struct err *err) {
    FREED(hdf5_release) hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    FREED(hdf5_release) hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    TRY(hdf5_prepare(creation, io->partial, err));
    TRY(hdf5_check(access, "prepare", io->partial, err));
    TRY(hdf5_check(H5Pset_fapl_core(access, GROW, false), "prepare", io->partial, err));
    hid_t file = H5Fcreate(io->partial, H5F_ACC_TRUNC, creation, access);
    TRY(hdf5_check(file, "create", io->partial, err));
    io->file = file;
    return CODE_OK;
}

static int set_complete(struct io *io, int complete, struct err *err) {
    return hdf5_set_attribute(io->file, "complete", H5T_NATIVE_INT, -1, &complete, err);
}

static void release_file(struct io *io) {
    if (io->file > 0)
        H5Fclose(io->file); /* memory only: what was to be kept has been saved */
    if (io->partial)
        close(io->lock);
    free(io->path);
    free(io->partial);
    *io = (struct io){0};
}

static int create_result(struct io *io, const char *path, bool force, bool save, struct err *err) {
    int code = CODE_OK;
    *io = (struct io){0};
    DO(partial_check(path, force, err));
    DO(base_copy(&io->path, path, err));
    DO(partial_create(&io->partial, &io->lock, path, force, err));
    DO(create_file(io, err));
    DO(set_complete(io, 0, err));
    DO(hdf5_set_text(io->file, "program", "dmft-solve", err));
    if (save)
        DO(io_flush(io, err));
done:
    if (code && io->partial)
        partial_abandon(io->partial);
    if (code)
        release_file(io);
    return code;
}

int io_create(struct io *io, const char *path, bool force, struct err *err) {
    return create_result(io, path, force, true, err);
}

int io_again(struct io *io, const char *path, struct err *err) {
    return create_result(io, path, true, false, err);
}

int io_finish(struct io *io, bool force, struct err *err) {
    struct err ignored;
    TRY(set_complete(io, 1, err));
    int code = io_flush(io, err);
    if (code) {
        set_complete(io, 0, &ignored);
        return code;
    }
    TRY(partial_place(io->partial, io->path, force, err));
    code = partial_sync(io->path, err);
    release_file(io);
    return code;
}

void io_close(struct io *io) {
    struct err ignored;
    if (io->file > 0)
        io_flush(io, &ignored);
    release_file(io);
}
