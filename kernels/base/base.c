#define _POSIX_C_SOURCE 200809L
#include "kernels/base/base.h"
#include "kernels/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int set_text(struct err *err, int code, bool overflow, char *text) {
    text_mend(text);
    memcpy(err->text, text, strlen(text) + 1);
    err->overflow = overflow;
    return err->code = code;
}

int err_set(struct err *err, int code, const char *format, ...) {
    char text[sizeof err->text];
    PRINT_ARGUMENTS(text, sizeof text, format);
    return set_text(err, code, false, text);
}

int err_overflow(struct err *err, const char *format, ...) {
    char text[sizeof err->text];
    PRINT_ARGUMENTS(text, sizeof text, format);
    return set_text(err, CODE_NUMERICAL, true, text);
}

int err_lapack_memory(struct err *err, int info, const char *what, ...) {
    enum { WORK = -1010, TRANSPOSE = -1011 }; /* as LAPACKE numbers them */
    char text[256];
    if (info != WORK && info != TRANSPOSE)
        return CODE_OK;
    PRINT_ARGUMENTS(text, sizeof text, what);
    return err_set(err, CODE_SYSTEM, "out of memory: %s", text);
}

static _Thread_local const volatile sig_atomic_t *heeded;

void base_heed(const volatile sig_atomic_t *signalled) {
    heeded = signalled;
}

int base_poll(struct err *err, const char *doing, ...) {
    char text[sizeof err->text];
    if (!heeded || !*heeded)
        return CODE_OK;
    PRINT_ARGUMENTS(text, sizeof text, doing);
    return err_set(err, CODE_INTERRUPTED, "interrupted while %.1900s", text);
}

int base_go_on(const struct stop *stop, struct err *err) {
    bool asked = stop && stop->flag && *stop->flag && base_seconds() >= stop->from;
    return asked ? err_set(err, CODE_INTERRUPTED, "interrupted") : CODE_OK;
}

size_t base_product(size_t a, size_t b) {
    return b && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

/* Hands memory to *out, or says that there was none. */
static int give_memory(void *out, void *memory, size_t count, size_t size, struct err *err) {
    memcpy(out, &memory, sizeof memory);
    if (!memory)
        return err_set(err, CODE_SYSTEM, "out of memory: %zu elements of %zu bytes (%.3g GB)",
                       count, size, 1e-9 * (double)count * (double)size);
    return CODE_OK;
}

int base_alloc(void *out, size_t count, size_t size, struct err *err) {
    return give_memory(out, calloc(count ? count : 1, size), count, size, err);
}

int base_alloc_unset(void *out, size_t count, size_t size, struct err *err) {
    size_t bytes = base_product(count, size);
    return give_memory(out, bytes < SIZE_MAX ? malloc(bytes ? bytes : 1) : NULL, count, size, err);
}

/* Room is doubled where the count is a power of two. */
int base_grow(void *added, void *list, int *count, size_t size, struct err *err) {
    unsigned char *first;
    size_t n = (size_t)*count;
    memcpy(&first, list, sizeof first);
    if ((n & (n - 1)) == 0) {
        first = realloc(first, (n ? 2 * n : 1) * size);
        if (!first)
            return err_set(err, CODE_SYSTEM, "out of memory: a list of %zu elements", 2 * n);
        memcpy(list, &first, sizeof first);
    }
    ++*count;
    first = memset(first + n * size, 0, size);
    memcpy(added, &first, sizeof first);
    return CODE_OK;
}

void base_free(void *pointer) {
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

void base_close(FILE **stream) {
    if (*stream)
        fclose(*stream);
}

int base_copy(char **out, const char *text, struct err *err) {
    size_t size = strlen(text) + 1;
    TRY(base_alloc(out, size, 1, err));
    memcpy(*out, text, size);
    return CODE_OK;
}

int base_print(char **out, struct err *err, const char *format, ...) {
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list),
        code = base_alloc(out, (size_t)length + 1, 1, err);
    if (!code)
        vsnprintf(*out, (size_t)length + 1, format, again);
    va_end(again);
    va_end(list);
    return code;
}

int base_file_code(int cause) {
    static const int of_name[] = {ENOENT, ENOTDIR,      EISDIR, EACCES, EPERM,
                                  ELOOP,  ENAMETOOLONG, ENXIO,  EINVAL};
    for (size_t i = 0; i < sizeof of_name / sizeof *of_name; i++)
        if (cause == of_name[i])
            return CODE_INPUT;
    return CODE_SYSTEM;
}

int base_open(FILE **stream, const char *path, struct err *err) {
    struct stat status;
    *stream = NULL;
    /* a pipe that nobody writes would wait here */
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor >= 0 && !fstat(descriptor, &status) && !S_ISREG(status.st_mode)) {
        close(descriptor);
        return err_set(
            err, CODE_INPUT, "%s: is %s", path,
            S_ISDIR(status.st_mode)
                ? "a folder, not a file"
                : "not a regular file; what comes from a pipe is written to a file first");
    }
    if (descriptor >= 0 && (*stream = fdopen(descriptor, "rb")))
        return CODE_OK;
    int cause = errno;
    if (descriptor >= 0)
        close(descriptor);
    return err_set(err, base_file_code(cause), "%s: cannot be opened: %s", path, strerror(cause));
}

static int no_text(const char *what, struct err *err) {
    return err_set(err, CODE_SYSTEM, "out of memory: the text of %s", what);
}

int base_text_begin(FILE **out, char **text, size_t *size, const char *what, struct err *err) {
    *text = NULL;
    *out = open_memstream(text, size);
    return *out ? CODE_OK : no_text(what, err);
}

int base_text_end(FILE *out, const char *what, int code, struct err *err) {
    bool failed = ferror(out) != 0;
    failed = fclose(out) || failed;
    return !code && failed ? no_text(what, err) : code;
}

uint64_t base_hash(uint64_t hash, const void *bytes, size_t size) {
    for (const unsigned char *byte = bytes; size--; byte++)
        hash = (hash ^ *byte) * BASE_PRIME;
    return hash;
}

void *base_locale_begin(void) {
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void base_locale_end(void *before) {
    locale_t own = uselocale(before);
    if (own != before)
        freelocale(own);
}

static double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double base_seconds(void) {
    return clock_seconds(CLOCK_MONOTONIC);
}

double base_cpu_seconds(void) {
    return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

void log_init(struct log *log, bool verbose) {
    *log = (struct log){.verbose = verbose, .terminal = isatty(STDERR_FILENO) != 0};
    log->last = base_seconds();
}

void log_line(struct log *log, const char *format, ...) {
    if (!log->verbose)
        return;
    log_close(log);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

void log_progress(struct log *log, const char *format, ...) {
    double now = base_seconds();
    if (!log->verbose || now - log->last < (log->terminal ? 0.1 : 30.0))
        return;
    log->last = now;
    if (log->terminal)
        fputs("\r\033[K", stderr);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    if (!log->terminal)
        fputc('\n', stderr);
    log->open = log->terminal;
    fflush(stderr);
}

void log_close(struct log *log) {
    if (log->open)
        fputs("\r\033[K", stderr);
    log->open = false;
}
