/* Data files, read by a child process (data_file.h). The child checks and reads (stored.c), then
 * sends a report and, unless that is a failure, the numbers of each set; the parent waits. */
#define _XOPEN_SOURCE 700
#include "solver/data/data_file.h"
#include "solver/data/stored.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

void data_file_free(struct data_file *stored) {
    for (enum data_file_role role = 0; role < DATA_FILE_SETS; role++)
        free(stored->set[role].value);
    *stored = (struct data_file){0};
}

/* --- what the child sends -------------------------------------------------------------------- */

struct report {
    struct err err;
    struct data_file stored; /* whose numbers follow, unless err.code */
};

static bool send_bytes(int channel, const void *bytes, size_t size) {
    for (const char *at = bytes; size;) {
        ssize_t sent = write(channel, at, size);
        if (sent < 0 && errno != EINTR)
            return false;
        at += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static bool receive_bytes(int channel, void *bytes, size_t size) {
    for (char *at = bytes; size;) {
        ssize_t got = read(channel, at, size);
        if (!got || (got < 0 && errno != EINTR))
            return false;
        at += got > 0 ? got : 0;
        size -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Ends this process, whose copies of files and memory are left alone. */
static _Noreturn void be_child(int channel, const char *path, const struct data_file *asked,
                               size_t most) {
    struct report report = {.stored = *asked};
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGINT, SIGTERM};
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (size_t k = 0; k < sizeof deadly / sizeof *deadly; k++)
        signal(deadly[k], SIG_DFL);
    stored_read(&report.stored, path, most, &report.err);
    bool sent = send_bytes(channel, &report, sizeof report);
    for (enum data_file_role role = 0; role < DATA_FILE_SETS && sent && !report.err.code; role++) {
        const struct data_file_set *set = &report.stored.set[role];
        sent = send_bytes(channel, set->value, set->count * sizeof *set->value);
    }
    _exit(!sent);
}

/* *whole: the child said all it had to say. */
static int receive(struct data_file *stored, int channel, size_t most, bool *whole,
                   struct err *err) {
    struct report report;
    *whole = receive_bytes(channel, &report, sizeof report);
    if (!*whole)
        return CODE_OK;
    if (report.err.code) {
        *err = report.err;
        return err->code;
    }
    *stored = report.stored;
    for (enum data_file_role role = 0; role < DATA_FILE_SETS; role++)
        stored->set[role].value = NULL;
    for (enum data_file_role role = 0; role < DATA_FILE_SETS && *whole; role++) {
        struct data_file_set *set = &stored->set[role];
        *whole = set->count <= most;
        if (*whole)
            TRY(base_alloc(&set->value, set->count, sizeof *set->value, err));
        *whole = *whole && receive_bytes(channel, set->value, set->count * sizeof *set->value);
    }
    return CODE_OK;
}

static int tell_death(const char *path, int status, struct err *err) {
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (number == SIGINT || number == SIGTERM)
        return err_set(err, CODE_INTERRUPTED, "interrupted while reading data file %s", path);
    if (number == SIGKILL)
        return err_set(err, CODE_SYSTEM, "data file %s: the process that read it was killed", path);
    if (WIFEXITED(status) && WEXITSTATUS(status))
        return err_set(err, CODE_SYSTEM,
                       "data file %s: the process that read it could not hand it over", path);
    return err_set(err, CODE_INPUT, "data file %s: is damaged, reading it broke down", path);
}

int data_file_read(struct data_file *stored, const char *path, const char *weight, size_t most,
                   struct err *err) {
    int channel[2], status = 0;
    bool whole;
    *stored = (struct data_file){0};
    for (int test = 0; test < 2 && weight && *weight; test++)
        snprintf(stored->weight[test], DATA_FILE_WORD, "%s%s", weight, test ? "_test" : "");
    if (pipe(channel))
        return err_set(err, CODE_SYSTEM, "data file %s: no pipe: %s", path, strerror(errno));
    pid_t child = fork();
    if (!child) {
        close(channel[0]);
        be_child(channel[1], path, stored, most);
    }
    close(channel[1]);
    if (child < 0) {
        close(channel[0]);
        return err_set(err, CODE_SYSTEM, "data file %s: no process to read it: %s", path,
                       strerror(errno));
    }
    int code = receive(stored, channel[0], most, &whole, err);
    close(channel[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return code || whole ? code : tell_death(path, status, err);
}
