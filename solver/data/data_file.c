/* HDF5 files; what is damaged is refused before its values are read. */
#define _XOPEN_SOURCE 700
#include "solver/data/data_file.h"

#include <errno.h>
#include <hdf5.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *data_file_name(const struct data_file *stored, enum data_file_role role) {
    static const char *const names[2][DATA_FILE_WEIGHT] = {
        {"X", "y", "X_test", "y_test"}, {"tokens", "y", "tokens_test", "y_test"}};
    return role < DATA_FILE_WEIGHT ? names[stored->tokens][role]
                                   : stored->weight[role - DATA_FILE_WEIGHT];
}

void data_file_place(const struct data_file *stored, enum data_file_role role, size_t k,
                     char place[DATA_FILE_NAME]) {
    const struct data_file_set *set = &stored->set[role];
    size_t each = set->count;
    int length = snprintf(place, DATA_FILE_NAME, "%s", data_file_name(stored, role));
    for (int axis = 0; axis < set->rank; axis++) {
        each /= set->shape[axis];
        length += snprintf(place + length, DATA_FILE_NAME - (size_t)length, "[%zu]",
                           k / each % set->shape[axis]);
    }
}

int data_file_refuse(const char *path, struct err *err, const char *format, ...) {
    char text[sizeof err->text];
    PRINT_ARGUMENTS(text, sizeof text, format);
    return err_set(err, CODE_INPUT, "data file %s: %s", path, text);
}

void data_file_free(struct data_file *stored) {
    for (enum data_file_role role = 0; role < DATA_FILE_SETS; role++)
        free(stored->set[role].value);
    *stored = (struct data_file){0};
}

/* An open file with everything that was opened in it. */
struct source {
    const char *path;
    hid_t file, access; /* access: of datasets, refuses links to other files */
    bool outside;       /* a link that led to another file was met */
    int unknown;        /* code of the error that HDF5 could not tell what is there */
    hid_t set[DATA_FILE_SETS];
    hid_t opened[64]; /* six for each set, and a few */
    int count;
};

/* What HDF5 has opened (negative: a failure) is closed with the file. */
static hid_t hold_id(struct source *source, hid_t opened) {
    if (opened >= 0 && source->count < (int)(sizeof source->opened / sizeof opened))
        source->opened[source->count++] = opened;
    return opened;
}

static void close_source(struct source *source) {
    while (source->count)
        H5Idec_ref(source->opened[--source->count]);
}

static herr_t refuse_link(const char *file UNUSED, const char *group UNUSED,
                          const char *other_file UNUSED, const char *object UNUSED,
                          unsigned *flags UNUSED, hid_t plist UNUSED, void *outside) {
    *(bool *)outside = true;
    return -1;
}

/* Without locks: a data set may lie where files cannot be locked, or be open elsewhere. */
static int open_file(struct source *source, struct err *err) {
    if (H5Fis_hdf5(source->path) <= 0)
        return data_file_refuse(source->path, err,
                                "is not an HDF5 file; of an npz or a csv the command "
                                "dmft-data %s -o OUT.h5 makes one",
                                source->path);
    hid_t access = hold_id(source, H5Pcreate(H5P_FILE_ACCESS));
    source->access = hold_id(source, H5Pcreate(H5P_DATASET_ACCESS));
    if (access < 0 || source->access < 0 || H5Pset_file_locking(access, false, true) < 0 ||
        H5Pset_elink_cb(source->access, refuse_link, &source->outside) < 0)
        return err_set(err, CODE_SYSTEM, "data file %s: HDF5 cannot prepare to read it",
                       source->path);
    source->file = hold_id(source, H5Fopen(source->path, H5F_ACC_RDONLY, access));
    if (source->file < 0)
        return data_file_refuse(source->path, err,
                                "cannot be opened as HDF5, it is damaged or incomplete");
    return CODE_OK;
}

static htri_t look_up(hid_t file, const char *object, const char *attribute) {
    return *attribute ? H5Aexists_by_name(file, object, attribute, H5P_DEFAULT)
                      : H5Lexists(file, object, H5P_DEFAULT);
}

/* Whether an object, or an attribute of it, is there. A file is damaged where HDF5 cannot tell, nor
 * in a file of its own, of another driver so that they share nothing (in the same it may say no
 * from then on). A path through groups is missing where one of them is, of which HDF5 cannot tell
 * either. */
static bool is_there(struct source *source, const char *object, const char *attribute) {
    htri_t said = look_up(source->file, object, attribute);
    if (said < 0 && (*attribute || !strchr(object, '/'))) {
        hid_t access = hold_id(source, H5Pcreate(H5P_FILE_ACCESS)), file = -1;
        if (access >= 0 && H5Pset_fapl_stdio(access) >= 0)
            file = hold_id(source, H5Fopen(source->path, H5F_ACC_RDONLY, access));
        bool damaged = file < 0 || look_up(file, object, attribute) < 0;
        source->unknown = damaged ? CODE_INPUT : CODE_SYSTEM;
    }
    return said > 0;
}

/* The values must be in this file: another one may be any file of the user, or be missing, which
 * HDF5 reads as zeros. */
static int check_layout(struct source *source, hid_t set, const char *name, struct err *err) {
    const char *path = source->path;
    hid_t plist = hold_id(source, H5Dget_create_plist(set));
    H5D_layout_t layout = plist < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(plist);
    int external = plist < 0 ? -1 : H5Pget_external_count(plist);
    if (layout < 0 || external < 0)
        return data_file_refuse(path, err, "%s has a damaged description", name);
    if (layout != H5D_VIRTUAL && !external)
        return CODE_OK;
    return data_file_refuse(path, err,
                            "%s is %s, its values are in other files, which are not read; "
                            "copy them into this file",
                            name, external ? "stored in external files" : "a virtual dataset");
}

static int open_dataset(struct source *source, const char *name, hid_t *set, bool *whole,
                        struct err *err) {
    const char *path = source->path;
    if (!is_there(source, name, ""))
        return data_file_refuse(path, err, "has no dataset %s%s", name,
                                strcmp(name, "X") ? ""
                                                  : " of numbers, and none that is called tokens");
    *set = hold_id(source, H5Dopen2(source->file, name, source->access));
    if (source->outside)
        return data_file_refuse(path, err,
                                "%s is a link to another file, which is not followed; copy it "
                                "into this file",
                                name);
    if (*set < 0) {
        hid_t object = hold_id(source, H5Oopen(source->file, name, source->access));
        if (object >= 0 && H5Iget_type(object) == H5I_DATASET)
            return err_set(err, CODE_SYSTEM, "data file %s: HDF5 cannot open %s", path, name);
        return data_file_refuse(path, err, "%s is not a dataset", name);
    }
    TRY(check_layout(source, *set, name, err));
    hid_t type = hold_id(source, H5Dget_type(*set));
    H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    if (class != H5T_INTEGER && class != H5T_FLOAT)
        return data_file_refuse(path, err, "%s does not hold integers or floats", name);
    *whole = class == H5T_INTEGER;
    return CODE_OK;
}

/* "4 x 3" */
static void tell_shape(const hsize_t *shape, int rank, char text[DATA_FILE_NAME]) {
    int length = 0;
    for (int axis = 0; axis < rank; axis++)
        length += snprintf(text + length, DATA_FILE_NAME - (size_t)length, "%s%llu",
                           axis ? " x " : "", (unsigned long long)shape[axis]);
}

/* The extents; *most numbers are allowed, and those of this set are taken off. */
static int get_shape(struct source *source, struct data_file *stored, enum data_file_role role,
                     size_t *most, struct err *err) {
    static const char *const needed[] = {"2 or 3 (P inputs of D numbers, or of n rows of D)",
                                         "1 to 3 (P numbers, or of each input C, n, or n x C)",
                                         "2 (P inputs of n tokens)", "1 (a number for each input)"};
    const char *name = data_file_name(stored, role), *path = source->path;
    struct data_file_set *set = &stored->set[role];
    bool target = role == DATA_FILE_TARGET || role == DATA_FILE_TEST_TARGET,
         weight = role >= DATA_FILE_WEIGHT;
    int least = target || weight ? 1 : 2, last = weight                      ? 1
                                                 : stored->tokens && !target ? 2
                                                                             : DATA_FILE_RANK;
    hsize_t shape[H5S_MAX_RANK];
    char text[DATA_FILE_NAME];
    hid_t space = hold_id(source, H5Dget_space(source->set[role]));
    int rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, shape, NULL);
    if (rank < least || rank > last)
        return data_file_refuse(path, err, "%s has rank %d, needed is %s", name, rank,
                                needed[weight           ? 3
                                       : target         ? 1
                                       : stored->tokens ? 2
                                                        : 0]);
    tell_shape(shape, rank, text);
    set->count = 1;
    for (int axis = 0; axis < rank; axis++)
        if (!shape[axis])
            return data_file_refuse(path, err, "%s is empty (%s numbers)", name, text);
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] > INT_MAX || set->count > *most / shape[axis])
            return data_file_refuse(path, err, "%s is too large, %s numbers where %zu are allowed",
                                    name, text, *most);
        set->shape[axis] = (size_t)shape[axis];
        set->count *= set->shape[axis];
    }
    set->rank = rank;
    *most -= set->count;
    return CODE_OK;
}

/* How a set lies in its file. */
struct storage {
    int rank;
    hsize_t shape[H5S_MAX_RANK], chunk[H5S_MAX_RANK]; /* chunk: 1 without chunks */
    hsize_t needed, written; /* pieces: HDF5 reads what was never written as zeros */
};

/* false: its description is damaged. H5Dread breaks down where the numbers are said to be longer
 * than what the file has of them. */
static bool find_storage(struct source *source, hid_t set, struct storage *in) {
    hid_t plist = hold_id(source, H5Dget_create_plist(set)),
          space = hold_id(source, H5Dget_space(set)), type = hold_id(source, H5Dget_type(set));
    H5D_layout_t layout = plist < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(plist);
    hsize_t size = type < 0 ? 0 : H5Tget_size(type), count = 1, of_chunk = 1;
    in->rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, in->shape, NULL);
    in->needed = 1;
    if (in->rank < 0 || layout < 0 || size < 1 || size > 16 || H5Tget_offset(type) < 0 ||
        H5Tget_precision(type) < 1 ||
        (hsize_t)H5Tget_offset(type) + H5Tget_precision(type) > 8 * size)
        return false;
    for (int axis = 0; axis < in->rank; axis++) {
        in->chunk[axis] = 1;
        count *= in->shape[axis];
    }
    if (layout != H5D_CHUNKED) {
        in->written = layout == H5D_COMPACT || H5Dget_storage_size(set) > 0;
        return !in->written || H5Dget_storage_size(set) >= count * size;
    }
    if (in->rank < 1 || H5Pget_chunk(plist, in->rank, in->chunk) != in->rank ||
        H5Dget_num_chunks(set, space, &in->written) < 0)
        return false;
    for (int axis = 0; axis < in->rank; axis++) {
        if (!in->chunk[axis] || in->chunk[axis] > UINT32_MAX / size / of_chunk)
            return false;
        in->needed *= (in->shape[axis] + in->chunk[axis] - 1) / in->chunk[axis];
        of_chunk *= in->chunk[axis];
    }
    return true;
}

/* Whole chunks along the first axis, a few million numbers at a time, so that a signal is heard. */
static int read_rows(struct source *source, hid_t set, const struct storage *in, double *values,
                     const char *name, struct err *err) {
    hid_t space = hold_id(source, H5Dget_space(set)), part;
    hsize_t first[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK], each = 1, some;
    for (int axis = 1; axis < in->rank; axis++)
        each *= count[axis] = in->shape[axis];
    some = in->rank ? ((1 << 21) / each / in->chunk[0] + 1) * in->chunk[0] : 1;
    for (hsize_t rows = in->rank ? in->shape[0] : 1; first[0] < rows; first[0] += some) {
        TRY(base_poll(err, "reading data file %s", source->path));
        count[0] = rows - first[0] < some ? rows - first[0] : some;
        part = in->rank ? H5Screate_simple(in->rank, count, NULL) : H5Screate(H5S_SCALAR);
        if (part < 0)
            return err_set(err, CODE_SYSTEM, "data file %s: HDF5 cannot prepare to read %s",
                           source->path, name);
        bool good = (!in->rank ||
                     H5Sselect_hyperslab(space, H5S_SELECT_SET, first, NULL, count, NULL) >= 0) &&
                    H5Dread(set, H5T_NATIVE_DOUBLE, part, space, H5P_DEFAULT,
                            values + first[0] * each) >= 0;
        H5Sclose(part);
        if (!good)
            return data_file_refuse(source->path, err,
                                    "%s cannot be read, it is damaged or compressed by a "
                                    "filter that is not installed",
                                    name);
    }
    return CODE_OK;
}

static int read_values(struct source *source, hid_t set, double *values, const char *name,
                       struct err *err) {
    struct storage in;
    if (!find_storage(source, set, &in))
        return data_file_refuse(source->path, err, "%s has a damaged description", name);
    if (in.written < in.needed)
        return data_file_refuse(source->path, err, "%s was never written%s", name,
                                in.written ? " in some parts" : "");
    return read_rows(source, set, &in, values, name, err);
}

static int read_set(struct source *source, struct data_file *stored, enum data_file_role role,
                    struct err *err) {
    struct data_file_set *set = &stored->set[role];
    char place[DATA_FILE_NAME];
    TRY(base_alloc(&set->value, set->count, sizeof *set->value, err));
    TRY(read_values(source, source->set[role], set->value, data_file_name(stored, role), err));
    for (size_t k = 0; k < set->count; k++) {
        if (isfinite(set->value[k]))
            continue;
        data_file_place(stored, role, k, place);
        return data_file_refuse(source->path, err, "%s is %s", place,
                                isnan(set->value[k]) ? "NaN" : "infinite");
    }
    return CODE_OK;
}

/* V: an attribute of tokens or a dataset beside it, one number. */
static int read_vocabulary(struct source *source, struct data_file *stored, struct err *err) {
    hid_t tokens = source->set[DATA_FILE_INPUT], set = -1, space = -1;
    bool attribute = is_there(source, data_file_name(stored, DATA_FILE_INPUT), "V"), whole, good;
    if (!attribute && !is_there(source, "V", ""))
        return CODE_OK;
    if (attribute) {
        set = hold_id(source, H5Aopen(tokens, "V", H5P_DEFAULT));
        space = set < 0 ? -1 : hold_id(source, H5Aget_space(set));
    } else {
        TRY(open_dataset(source, "V", &set, &whole, err));
        space = hold_id(source, H5Dget_space(set));
    }
    good = space >= 0 && H5Sget_simple_extent_npoints(space) == 1;
    if (good && attribute)
        good = H5Aread(set, H5T_NATIVE_DOUBLE, &stored->vocabulary) >= 0;
    else if (good)
        TRY(read_values(source, set, &stored->vocabulary, "V", err));
    double V = stored->vocabulary;
    if (!good || !(V >= 1 && V <= INT_MAX && V == floor(V)))
        return data_file_refuse(source->path, err, "V must be one positive integer");
    return CODE_OK;
}

/* Attribute floor_LOSS of the file, one number. */
static void read_floor(struct source *source, struct data_file *stored, const char *loss) {
    char name[DATA_FILE_NAME];
    snprintf(name, sizeof name, "floor_%s", loss);
    hid_t floor = is_there(source, "/", name)
                      ? hold_id(source, H5Aopen(source->file, name, H5P_DEFAULT))
                      : -1;
    hid_t space = floor < 0 ? -1 : hold_id(source, H5Aget_space(floor));
    if (space < 0 || H5Sget_simple_extent_npoints(space) != 1 ||
        H5Aread(floor, H5T_NATIVE_DOUBLE, &stored->floor) < 0)
        stored->floor = NAN;
}

/* Which of the two kinds of inputs there is; what would be passed over is refused. */
static int choose_inputs(struct source *source, struct data_file *stored, struct err *err) {
    stored->tokens = is_there(source, "tokens", "");
    const struct data_file other = {.tokens = !stored->tokens};
    const char *input = data_file_name(stored, DATA_FILE_INPUT);
    for (enum data_file_role role = DATA_FILE_INPUT; role <= DATA_FILE_TEST_INPUT;
         role += DATA_FILE_TEST_INPUT)
        if (is_there(source, data_file_name(&other, role), "") && (stored->tokens || role))
            return data_file_refuse(source->path, err,
                                    "has %s beside %s; inputs are one or the other",
                                    data_file_name(&other, role), input);
    if (is_there(source, "y_test", "") &&
        !is_there(source, data_file_name(stored, DATA_FILE_TEST_INPUT), ""))
        return data_file_refuse(source->path, err, "has y_test and no %s",
                                data_file_name(stored, DATA_FILE_TEST_INPUT));
    return CODE_OK;
}

/* Arrays of test inputs and weights are read where they are, or are asked for. */
static bool is_read(struct source *source, const struct data_file *stored,
                    enum data_file_role role) {
    bool tests = is_there(source, data_file_name(stored, DATA_FILE_TEST_INPUT), "");
    if (role >= DATA_FILE_WEIGHT && !stored->weight[0][0])
        return false;
    if (role == DATA_FILE_TEST_WEIGHT)
        return tests && is_there(source, stored->weight[1], "");
    return tests || (role != DATA_FILE_TEST_INPUT && role != DATA_FILE_TEST_TARGET);
}

static int read_sets(struct source *source, struct data_file *stored, const char *loss, size_t most,
                     struct err *err) {
    size_t left[2] = {most, most}; /* for inputs and for targets */
    TRY(open_file(source, err));
    TRY(choose_inputs(source, stored, err));
    for (enum data_file_role role = 0; role < DATA_FILE_SETS; role++)
        if (is_read(source, stored, role))
            TRY(open_dataset(source, data_file_name(stored, role), &source->set[role],
                             &stored->set[role].whole, err));
    for (enum data_file_role role = 0; role < DATA_FILE_SETS; role++)
        if (is_read(source, stored, role))
            TRY(get_shape(source, stored, role, &left[role % 2], err));
    size_t P = stored->set[DATA_FILE_INPUT].shape[0],
           tests = stored->set[DATA_FILE_TEST_INPUT].shape[0];
    if (P + tests > INT_MAX)
        return data_file_refuse(source->path, err, "%zu and %zu inputs are too many", P, tests);
    for (enum data_file_role role = 0; role < DATA_FILE_SETS; role++)
        if (stored->set[role].rank)
            TRY(read_set(source, stored, role, err));
    if (stored->tokens)
        TRY(read_vocabulary(source, stored, err));
    read_floor(source, stored, loss);
    return CODE_OK;
}

/* What HDF5 could not look up is not taken for missing. */
static int read_source(struct source *source, struct data_file *stored, const char *loss,
                       size_t most, struct err *err) {
    int code = read_sets(source, stored, loss, most, err);
    if (source->unknown)
        return err_set(err, source->unknown, "data file %s: HDF5 cannot look up its data%s",
                       source->path, source->unknown == CODE_INPUT ? ", it is damaged" : "");
    return code;
}

/* Some damage ends a process within libhdf5 (a chunk of no length divides by 0 where the dataset is
 * opened), so a child reads the file first, and says nothing but that it has lived; what a library
 * or a test does at such a signal, the child does not. */
static int try_in_child(const struct data_file *asked, const char *path, const char *loss,
                        size_t most, struct err *err) {
    static const int ends[] = {SIGINT, SIGTERM, SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGABRT};
    int status = 0;
    pid_t ended, child = fork();
    if (child < 0)
        return err_set(err, CODE_SYSTEM, "data file %s: no process to try it: %s", path,
                       strerror(errno));
    if (!child) {
        struct source source = {.path = path};
        struct data_file stored = *asked;
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            signal(ends[k], SIG_DFL);
        read_source(&source, &stored, loss, most, err);
        _exit(0);
    }
    while (!(ended = waitpid(child, &status, WNOHANG)) || (ended < 0 && errno == EINTR)) {
        if (base_poll(err, "reading data file %s", path)) /* which the child may not hear */
            kill(child, SIGKILL);
        nanosleep(&(const struct timespec){0, 1000000}, NULL);
    }
    TRY(base_poll(err, "reading data file %s", path));
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == SIGKILL || number == SIGINT || number == SIGTERM)
        return err_set(err, CODE_SYSTEM, "data file %s: a signal ended its trial", path);
    return status ? data_file_refuse(path, err, "is damaged, libhdf5 breaks down in it") : CODE_OK;
}

int data_file_read(struct data_file *stored, const char *path, const char *weight, const char *loss,
                   size_t most, struct err *err) {
    struct source source = {.path = path};
    *stored = (struct data_file){0};
    for (int test = 0; test < 2 && weight && *weight; test++)
        snprintf(stored->weight[test], DATA_FILE_WORD, "%s%s", weight, test ? "_test" : "");
    if (H5Fis_hdf5(path) > 0)
        TRY(try_in_child(stored, path, loss, most, err));
    int code = read_source(&source, stored, loss, most, err);
    close_source(&source);
    return code;
}
