/* Errors, checked allocation, clocks and log: what every part of dmft-solve may include, with the
 * headers of C that most files need, which these do not include again.
 *
 * A function that can fail returns int: 0, or the exit code of the program (enum code), and then
 * has written one sentence into struct err. Nothing below main() ends the program. */
#pragma once

#include <assert.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Behind a parameter that the signature of a table of functions has, and this function does not
 * ask. */
#define UNUSED __attribute__((unused))

#ifdef __CUDACC__ /* what kernels call is compiled for the device, too */
#define ON_DEVICE __host__ __device__
#else
#define ON_DEVICE
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Exit codes of the program, and return values of every function that can fail. */
enum code {
    CODE_OK = 0,
    CODE_SYSTEM = 1,
    CODE_INPUT = 2,
    CODE_NUMERICAL = 3,
    CODE_INTERRUPTED = 130
};

/* Writes what a function is given behind its parameter `format`, as printf has it, to text. */
#define PRINT_ARGUMENTS(text, size, format)                                                        \
    do {                                                                                           \
        va_list list_;                                                                             \
        va_start(list_, format);                                                                   \
        vsnprintf(text, size, format, list_);                                                      \
        va_end(list_);                                                                             \
    } while (0)

struct err {
    int code;
    bool overflow; /* numbers became too large: whoever knows the step adds a remedy (net_remedy) */
    char text[2048];
};

/* Writes the sentence and returns code. err->text may be among the arguments: words around it. */
int err_set(struct err *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* CODE_NUMERICAL, of numbers that are infinite, none, or beyond every bound. */
int err_overflow(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* CODE_SYSTEM, and the sentence, where the info of a routine of LAPACK says that it had no memory
 * for `what`; else 0, and the caller says what a failure means. */
int err_lapack_memory(struct err *err, int info, const char *what, ...)
    __attribute__((format(printf, 3, 4)));

/* Passes a failure on; TRY returns, DO jumps to the label done of a function with an int code,
 * where more is to be done than to free what is FREED. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_code_ = (call);                                                                    \
        if (try_code_)                                                                             \
            return try_code_;                                                                      \
    } while (0)
#define DO(call)                                                                                   \
    do {                                                                                           \
        if ((code = (call)))                                                                       \
            goto done;                                                                             \
    } while (0)

/* a b, or SIZE_MAX where that is larger, which no memory has. */
size_t base_product(size_t a, size_t b);
/* Zeroed memory for count elements of the given size; the product is checked. *out = NULL on
 * failure. A count of 0 gives a valid pointer. */
int base_alloc(void *out, size_t count, size_t size, struct err *err);
/* The same, with anything in it: for what is written as a whole before it is read. */
int base_alloc_unset(void *out, size_t count, size_t size, struct err *err);
/* One more zeroed element of `size` bytes at the end of a list (a pointer to its first element),
 * which may move; *added points to it. */
int base_grow(void *added, void *list, int *count, size_t size, struct err *err);
/* Loops over a list, or its first elements and their count; `element` points to each in turn. */
#define FOR_EACH(type, element, list) FOR_EACH_OF (type, element, (list).item, (list).count)
#define FOR_EACH_OF(type, element, first, count)                                                   \
    for (type *element = first, *element##_end = (count) ? element + (count) : element;            \
         element < element##_end; element++)
/* In front of a declaration: what it declares goes to this function where its block ends, the last
 * declared first; base_free is that of pointers, base_close that of files, which may be NULL. A
 * failure may then leave by TRY at any line. */
#define FREED(by) __attribute__((cleanup(by)))
void base_free(void *pointer);
void base_close(FILE **stream);
/* Declares such a pointer to `count` zeroed elements, in a function that has an err. It stands
 * behind no jump to `done`. */
#define SCRATCH(type, name, count)                                                                 \
    FREED(base_free) type *name = NULL;                                                            \
    TRY(base_alloc(&name, count, sizeof *name, err))
/* A copy of a string, or a text as printf makes it, to be freed; CODE_SYSTEM without memory. */
int base_copy(char **out, const char *text, struct err *err);
int base_print(char **out, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a file that cannot be opened or read for this cause (errno) is: CODE_INPUT where a name or a
 * right is wrong, else CODE_SYSTEM. */
int base_file_code(int cause);
/* Opens a regular file to be read; the caller closes *stream. CODE_INPUT, and a sentence that
 * begins with the path, also of a folder, and of a pipe, whose writer may never come. */
int base_open(FILE **stream, const char *path, struct err *err);
/* These two write a text into memory: what goes to *out between them. `what` says in a message
 * whose text it is. The caller frees *text, whatever happens; it is complete if the second returns
 * no failure, neither its own nor that of the writer (code). */
int base_text_begin(FILE **out, char **text, size_t *size, const char *what, struct err *err);
int base_text_end(FILE *out, const char *what, int code, struct err *err);

/* FNV-1a, 64 bits, of more bytes; begins with BASE_HASH. */
#define BASE_HASH UINT64_C(0xcbf29ce484222325)
#define BASE_PRIME UINT64_C(0x100000001b3)
uint64_t base_hash(uint64_t hash, const void *bytes, size_t size);

/* From begin to end this thread reads and writes numbers with a decimal point, whatever the locale
 * of the process: who calls the library may have set another. end gets what begin gave. */
void *base_locale_begin(void);
void base_locale_end(void *before);

/* From now on this thread's base_poll asks whether this is 0: what a signal sets. NULL: nothing is
 * heeded. For what takes long before there is a network, which has a flag of its own. */
void base_heed(const volatile sig_atomic_t *signalled);
/* CODE_INTERRUPTED once it is not 0, with a sentence that ends with what was being done: "while
 * reading x.ini". Loops that may last call it at every turn of a millisecond or less. */
int base_poll(struct err *err, const char *doing, ...) __attribute__((format(printf, 2, 3)));

double base_seconds(void);     /* wall clock, from an arbitrary origin */
double base_cpu_seconds(void); /* that this thread has worked; nothing while others have its core */

/* What asks a run to end. A flag that a signal sets is heeded from a time on, so that a short step
 * that is under way comes to its end and its state can be kept. */
struct stop {
    const volatile sig_atomic_t *flag; /* not zero: end; NULL: nothing asks */
    double from;                       /* in base_seconds(); 0: at once */
};
/* CODE_INTERRUPTED once it asks; NULL: nothing asks. What lasts calls it at every tenth of a second
 * or less. */
int base_go_on(const struct stop *stop, struct err *err);

/* What the user sees while a run goes on; everything goes to standard error. */
struct log {
    bool verbose;  /* else errors only */
    bool terminal; /* a progress line that rewrites itself */
    double last;   /* time of the last progress line */
    bool open;     /* a progress line stands on the terminal */
};
void log_init(struct log *log, bool verbose);
void log_line(struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* On a terminal at most ten times a second, else at most once in thirty seconds. */
void log_progress(struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_close(struct log *log); /* ends a standing progress line */

#ifdef __cplusplus
}
#endif
