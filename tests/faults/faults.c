/* Lets one call of a program fail: linked by --wrap (tests/tests.mk) around every allocation, every
 * growth of a list, write and numerical routine that our own objects call, and asked by the
 * emulation of CUDA at every launch, and at every copy to the host (nan: this one and all later
 * ones are of NaN). The environment says which: DMFT_FAULT = "alloc 7", the seventh of each
 * process; "place 7", the seventh allocation that a chain of calls comes to for the first time;
 * "hdf5 7" likewise a call of HDF5 that writes; "read 7" the seventh that reads a result, "close 7"
 * that closes one; "alloc 0" fails none. At the end, in all cases, DMFT_FAULT_COUNT (a file) gets
 * the number of calls; of "every 0", which fails none, a line for each kind.
 *
 * Memory that our objects set free stays aside for a while, full of NaN: who writes to it by then
 * ends the program, and who reads it gets no number. */
#define _GNU_SOURCE
#include "kernels/base/base.h"

#include <errno.h>
#include <execinfo.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *kind = "";
static long wanted;
static atomic_long calls;
static pid_t owner;
static const char *const every[] = {"alloc", "place", "hdf5",   "write", "launch",
                                    "nan",   "read",  "lapack", "close"};
enum { KINDS = sizeof every / sizeof *every };
static atomic_long calls_of[KINDS];

/* --- memory that was set free ---------------------------------------------------------------- */

enum { ASIDE = 1 << 12, MARKED = 1 << 12 };
static void *aside[ASIDE]; /* in turn */
static size_t next_aside;
static atomic_flag taken = ATOMIC_FLAG_INIT;

static size_t marked_bytes(void *memory) {
    size_t size = memory ? malloc_usable_size(memory) : 0;
    return size < MARKED ? size : MARKED;
}

static void check_untouched(void *memory) {
    const unsigned char *byte = memory;
    for (size_t k = 0; k < marked_bytes(memory); k++)
        if (byte[k] != 0xff) {
            fputs("memory was written to after it had been set free\n", stderr);
            abort();
        }
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory) {
    if (!memory)
        return;
    memset(memory, 0xff, marked_bytes(memory));
    while (atomic_flag_test_and_set(&taken))
        continue;
    void **place = &aside[next_aside++ % ASIDE], *former = *place;
    *place = memory;
    atomic_flag_clear(&taken);
    check_untouched(former);
    __real_free(former);
}

/* --- calls that fail ------------------------------------------------------------------------- */

static void tell(void) {
    for (size_t k = 0; k < ASIDE; k++)
        check_untouched(aside[k]);
    const char *name = getenv("DMFT_FAULT_COUNT");
    FILE *file = name && getpid() == owner ? fopen(name, "w") : NULL;
    if (!file)
        return;
    if (strcmp(kind, "every") != 0)
        fprintf(file, "%ld\n", atomic_load(&calls));
    else
        for (int k = 0; k < KINDS; k++)
            fprintf(file, "%s %ld\n", every[k], atomic_load(&calls_of[k]));
    fclose(file);
}

__attribute__((constructor)) static void begin(void) {
    static char word[32];
    const char *fault = getenv("DMFT_FAULT");
    owner = getpid();
    if (fault && sscanf(fault, "%31s %ld", word, &wanted) == 2)
        kind = word;
    atexit(tell);
}

/* Whether those who have called us have not come here before; of one thread. */
static bool new_place(void) {
    enum { DEPTH = 13, PLACES = 1 << 14 }; /* 12 and this function */
    static uint64_t met[PLACES];
    void *chain[DEPTH];
    uint64_t hash = 14695981039346656037u;
    int depth = backtrace(chain, DEPTH);
    for (int k = 0; k < depth; k++)
        hash = (hash ^ (uintptr_t)chain[k]) * 1099511628211u;
    size_t at = hash >> 50;
    while (met[at] && met[at] != hash)
        at = (at + 1) % PLACES;
    if (met[at])
        return false;
    met[at] = hash;
    return true;
}

/* Of a mutant without a check (tests/mutate.py), above 0 in the call that was checked: what else is
 * called does not fail. */
extern int mutant_inside __attribute__((weak));

static void count_call(const char *of) {
    int k = 0;
    while (strcmp(every[k], of) != 0)
        k++;
    atomic_fetch_add(&calls_of[k], 1);
}

/* Whether this call, of this kind, is the one. */
static bool fails(const char *of, int cause) {
    if (&mutant_inside && mutant_inside <= 0)
        return false;
    if (*of && !strcmp(kind, "every")) {
        bool file = !strcmp(of, "hdf5"), memory = !strcmp(of, "alloc"),
             first = (file || memory) && new_place();
        if (!file || first)
            count_call(of);
        if (memory && first)
            count_call("place");
        return false;
    }
    bool file = !strcmp(of, "hdf5"), place = !strcmp(kind, "place") && !strcmp(of, "alloc");
    if (!*of || (strcmp(kind, of) != 0 && !place) || ((file || place) && !new_place()) ||
        atomic_fetch_add(&calls, 1) + 1 != wanted)
        return false;
    errno = cause;
    return true;
}

int emulated_fault(void);
int emulated_fault(void) {
    return fails("launch", 0);
}

int emulated_nan(void);
int emulated_nan(void) {
    return fails("nan", 0) || (!strcmp(kind, "nan") && wanted && atomic_load(&calls) > wanted);
}

/* type name(arguments), which the program sees instead, and that of the library. */
#define WRAP(type, name, formal, actual, of, cause, failed)                                        \
    type __real_##name formal;                                                                     \
    type __wrap_##name formal;                                                                     \
    type __wrap_##name formal {                                                                    \
        return fails(of, cause) ? failed : __real_##name actual;                                   \
    }

WRAP(void *, malloc, (size_t size), (size), "alloc", ENOMEM, NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), "alloc", ENOMEM, NULL)
WRAP(void *, realloc, (void *old, size_t size), (old, size), "alloc", ENOMEM, NULL)
WRAP(char *, strdup, (const char *text), (text), "alloc", ENOMEM, NULL)

/* One more element of a list, whose memory grows where it doubles alone. */
WRAP(int, base_grow, (void *added, void *list, int *count, size_t size, struct err *err),
     (added, list, count, size, err), "alloc", ENOMEM,
     err_set(err, CODE_SYSTEM, "out of memory: a list"))

/* A stream into memory, or a file that is written, which loses what it has not handed on yet. */
static struct {
    FILE *file;
    char **text;
} stream[64];

FILE *__real_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size) {
    FILE *file = fails("alloc", ENOMEM) ? NULL : __real_open_memstream(text, size);
    size_t k = 0;
    while (k < 63 && stream[k].file)
        k++;
    stream[k].file = file;
    stream[k].text = text;
    return file;
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file) {
    size_t k = 0, streams = sizeof stream / sizeof *stream;
    while (k < streams && stream[k].file != file)
        k++;
    bool failed = fails(k < streams ? "alloc" : __fwritable(file) ? "write" : "", ENOMEM);
    int code = __real_fclose(file), cause = errno;
    if (k < streams)
        stream[k].file = NULL;
    if (failed && k < streams)
        **stream[k].text = 0;
    errno = failed ? ENOSPC : cause;
    return failed ? EOF : code;
}

WRAP(ssize_t, write, (int file, const void *bytes, size_t size), (file, bytes, size), "write",
     ENOSPC, -1)
WRAP(size_t, fwrite, (const void *bytes, size_t size, size_t count, FILE *file),
     (bytes, size, count, file), fileno(file) < 0 ? "" : "write", ENOSPC, 0)
WRAP(int, fsync, (int file), (file), "write", EIO, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), "write", EIO, -1)
WRAP(int, link, (const char *from, const char *to), (from, to), "write", EIO, -1)
WRAP(int, unlink, (const char *path), (path), "write", EIO, -1)

/* What an iteration that does not converge returns. */
WRAP(int, LAPACKE_dgelsd,
     (int layout, int m, int n, int k, double *a, int lda, double *b, int ldb, double *s,
      double least, int *rank),
     (layout, m, n, k, a, lda, b, ldb, s, least, rank), "lapack", 0, 1)
WRAP(int, LAPACKE_dgesvd,
     (int layout, char u, char vt, int m, int n, double *a, int lda, double *s, double *left,
      int ldu, double *right, int ldvt, double *rest),
     (layout, u, vt, m, n, a, lda, s, left, ldu, right, ldvt, rest), "lapack", 0, 1)
WRAP(int, LAPACKE_dgesdd,
     (int layout, char job, int m, int n, double *a, int lda, double *s, double *left, int ldu,
      double *right, int ldvt),
     (layout, job, m, n, a, lda, s, left, ldu, right, ldvt), "lapack", 0, 1)
WRAP(int, LAPACKE_dgeqrf, (int layout, int m, int n, double *a, int lda, double *tau),
     (layout, m, n, a, lda, tau), "lapack", 0, 1)
WRAP(int, LAPACKE_dorgqr, (int layout, int m, int n, int k, double *a, int lda, const double *tau),
     (layout, m, n, k, a, lda, tau), "lapack", 0, 1)
WRAP(int, LAPACKE_dsyev, (int layout, char job, char part, int n, double *a, int lda, double *w),
     (layout, job, part, n, a, lda, w), "lapack", 0, 1)

/* HDF5, where results are read. */
#define READ_WRAP(type, name, formal, actual) WRAP(type, name, formal, actual, "read", EIO, -1)
READ_WRAP(hid_t, H5Fopen, (const char *name, unsigned flags, hid_t list), (name, flags, list))
READ_WRAP(htri_t, H5LTpath_valid, (hid_t at, const char *path, hbool_t object), (at, path, object))
READ_WRAP(htri_t, H5Aexists_by_name, (hid_t at, const char *object, const char *name, hid_t list),
          (at, object, name, list))
READ_WRAP(hid_t, H5Aopen_by_name,
          (hid_t at, const char *object, const char *name, hid_t a, hid_t b),
          (at, object, name, a, b))
READ_WRAP(herr_t, H5Aread, (hid_t at, hid_t type, void *value), (at, type, value))
READ_WRAP(herr_t, H5Dread,
          (hid_t at, hid_t type, hid_t memory, hid_t space, hid_t list, void *values),
          (at, type, memory, space, list, values))
READ_WRAP(herr_t, H5LTget_dataset_ndims, (hid_t at, const char *name, int *rank), (at, name, rank))
READ_WRAP(herr_t, H5LTget_dataset_info,
          (hid_t at, const char *name, hsize_t *shape, H5T_class_t *type, size_t *size),
          (at, name, shape, type, size))
READ_WRAP(herr_t, H5LTread_dataset_double, (hid_t at, const char *name, double *values),
          (at, name, values))

/* Of HDF5 itself, which shares this one: a file that is closed, and of which one is told, as NFS
 * may do, that it could not be. */
int close(int file) {
    char link[64], path[256] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    bool result =
        !strcmp(kind, "close") && readlink(link, path, sizeof path - 1) > 0 && strstr(path, ".h5");
    int code = (int)syscall(SYS_close, file);
    return result && fails("close", EIO) ? -1 : code;
}

/* HDF5, where they are written. */
#define FILE_WRAP(type, name, formal, actual) WRAP(type, name, formal, actual, "hdf5", 0, -1)
FILE_WRAP(htri_t, H5Lexists, (hid_t at, const char *name, hid_t access), (at, name, access))
FILE_WRAP(hid_t, H5Gcreate2, (hid_t at, const char *name, hid_t a, hid_t b, hid_t c),
          (at, name, a, b, c))
FILE_WRAP(hid_t, H5Gopen2, (hid_t at, const char *name, hid_t access), (at, name, access))
FILE_WRAP(hid_t, H5Acreate2,
          (hid_t at, const char *name, hid_t type, hid_t space, hid_t a, hid_t b),
          (at, name, type, space, a, b))
FILE_WRAP(herr_t, H5Awrite, (hid_t at, hid_t type, const void *value), (at, type, value))
FILE_WRAP(hid_t, H5Screate_simple, (int rank, const hsize_t *shape, const hsize_t *most),
          (rank, shape, most))
FILE_WRAP(hid_t, H5Screate, (H5S_class_t type), (type))
FILE_WRAP(herr_t, H5Pset_obj_track_times, (hid_t list, hbool_t tracked), (list, tracked))
FILE_WRAP(herr_t, H5Pset_chunk, (hid_t list, int rank, const hsize_t *shape), (list, rank, shape))
FILE_WRAP(herr_t, H5Pset_deflate, (hid_t list, unsigned level), (list, level))
FILE_WRAP(hid_t, H5Dcreate2,
          (hid_t at, const char *name, hid_t type, hid_t space, hid_t a, hid_t b, hid_t c),
          (at, name, type, space, a, b, c))
FILE_WRAP(hid_t, H5Dopen2, (hid_t at, const char *name, hid_t access), (at, name, access))
FILE_WRAP(herr_t, H5Dwrite,
          (hid_t at, hid_t type, hid_t memory, hid_t space, hid_t list, const void *values),
          (at, type, memory, space, list, values))
FILE_WRAP(hid_t, H5Fcreate, (const char *name, unsigned flags, hid_t a, hid_t b),
          (name, flags, a, b))
FILE_WRAP(herr_t, H5Fflush, (hid_t file, H5F_scope_t scope), (file, scope))
FILE_WRAP(ssize_t, H5Fget_file_image, (hid_t file, void *bytes, size_t size), (file, bytes, size))
FILE_WRAP(herr_t, H5DSset_scale, (hid_t at, const char *name), (at, name))
FILE_WRAP(herr_t, H5DSattach_scale, (hid_t at, hid_t scale, unsigned axis), (at, scale, axis))
