/* Lets one call of a program fail: linked by --wrap (tests/tests.mk) around every allocation, write
 * and numerical routine that our own objects call, and asked by the emulation of CUDA at every
 * launch, and at every copy to the host (nan: this one and all later ones are of NaN). The
 * environment says which: DMFT_FAULT = "alloc 7", the seventh of each process; "alloc 0" fails
 * none. At the end, in all cases, DMFT_FAULT_COUNT (a file) gets the number of calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *kind = "";
static long wanted;
static atomic_long calls;
static pid_t owner;

static void tell(void) {
    const char *name = getenv("DMFT_FAULT_COUNT");
    FILE *file = name && getpid() == owner ? fopen(name, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%ld\n", atomic_load(&calls));
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

/* Whether this call, of this kind, is the one. */
static bool fails(const char *of, int cause) {
    if (!*of || strcmp(kind, of) != 0 || atomic_fetch_add(&calls, 1) + 1 != wanted)
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
WRAP(void *, aligned_alloc, (size_t page, size_t size), (page, size), "alloc", ENOMEM, NULL)
WRAP(char *, strdup, (const char *text), (text), "alloc", ENOMEM, NULL)
WRAP(FILE *, open_memstream, (char **text, size_t *size), (text, size), "alloc", ENOMEM, NULL)

WRAP(ssize_t, write, (int file, const void *bytes, size_t size), (file, bytes, size), "write",
     ENOSPC, -1)
WRAP(size_t, fwrite, (const void *bytes, size_t size, size_t count, FILE *file),
     (bytes, size, count, file), fileno(file) < 0 ? "" : "write", ENOSPC, 0)
WRAP(int, fsync, (int file), (file), "write", EIO, -1)
WRAP(int, rename, (const char *from, const char *to), (from, to), "write", EIO, -1)
WRAP(int, link, (const char *from, const char *to), (from, to), "write", EIO, -1)

/* What an iteration that does not converge returns. */
WRAP(int, LAPACKE_dgelsd,
     (int layout, int m, int n, int k, double *a, int lda, double *b, int ldb, double *s,
      double least, int *rank),
     (layout, m, n, k, a, lda, b, ldb, s, least, rank), "lapack", 0, 1)
WRAP(int, LAPACKE_dsyev, (int layout, char job, char part, int n, double *a, int lda, double *w),
     (layout, job, part, n, a, lda, w), "lapack", 0, 1)
