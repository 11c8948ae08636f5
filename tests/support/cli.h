/* Running the program as a user does: in a folder of its own, with what it printed and wrote. */
#pragma once

#include "tests/support/test.h"
#include <hdf5.h>
#include <sys/types.h>

#define CLEAN_TEST(name) TEST_AFTER(cli_clean, name)

/* A small run of 12 lines; small.ini in the folder. */
extern const char cli_small[];
/* The beginning of an ini with a data file. */
#define CLI_DATA(file) "[network]\nmodel = regime2\n[data]\nsource = file\nfile = " file "\n"

/* Group setup and teardown: finds the program (environment variable DMFT_SOLVE, else ./dmft-solve),
 * then enters an empty folder, which is removed at the end. All names below lie in it. */
int cli_open(void **state);
int cli_close(void **state);

/* From now on another program of the same folder is run. */
void cli_program(const char *name);

/* How a run ended. code: exit status, or minus the number of the signal that ended it. */
struct cli_result {
    int code;
    char *out, *err;
};

enum {
    CLI_NO_READER = 1,      /* standard output is a pipe that nobody reads */
    CLI_NO_RIGHTS = 2,      /* permissions of files count, even for root */
    CLI_NO_SUCH_RIGHT = 125 /* exit status where root cannot give up its rights */
};

/* arg: what follows the name of the program, ended by NULL. One run at a time. */
pid_t cli_start(const char *const *arg, int flags);
void cli_wait(pid_t pid, struct cli_result *result); /* fails a run of more than five minutes */
void cli_run(struct cli_result *result, const char *const *arg);
void cli_free(struct cli_result *result);
/* Runs the program and wants success. */
void cli_must(const char *const *arg);
/* Runs another program of the folder and wants success. */
void cli_done(const char *name, const char *const *arg);
/* Runs small.ini with these arguments (ended by NULL) into out.h5 and wants success. */
void cli_solve(const char *const *more);
/* The same, and the file is kept under another name. */
void cli_solve_as(const char *name, const char *const *more);
void cli_pause(double seconds);
/* Until the program has had so much time of processors: under load that is later. */
void cli_work(pid_t pid, double seconds);

/* Whether a run ended with this code, wrote nothing on standard output and on standard error one
 * line "dmft-solve: ..." (the program's name) that contains all parts (ended by NULL), with none
 * but log lines before and usage behind it. Prints what is wrong. */
bool cli_ended(const struct cli_result *result, int code, const char *const *part);
/* Runs and wants such an end. */
void cli_refused(int code, const char *const *arg, const char *const *part);

void cli_write(const char *name, const void *bytes, size_t size);
void cli_print(const char *name, const char *text);
char *cli_read(const char *name, size_t *size); /* ends with a zero byte, which size leaves out */
bool cli_exists(const char *name);
/* Removes out.h5, its partial file its states and the folder out.d of a sweep; also a setup for
 * tests. */
int cli_clean(void **state);

/* A data file with X [P][D] (rank 1: X [P], below 0: none), X[0][2] = X2, and, unless its length is
 * negative, y, y[1] = y1; all else is good. */
/* A data file: a line has the numbers of X, then y and, where weighted, w, with commas between
 * them. */
void cli_lines(const char *name, const char *lines, bool weighted);
void cli_make_data(const char *name, int rank, int P, int D, int length, double X2, double y1);
hid_t cli_file(const char *name);
void close_file(hid_t *file);
int cli_complete(const char *name);
/* Values of a dataset as doubles, to be freed; shape (of rank) may be NULL. */
double *cli_values(hid_t file, const char *set, size_t *count);
/* The strings of a dataset, one line each; to be freed. */
char *cli_words(hid_t file, const char *set);
char *cli_text(hid_t file, const char *object, const char *attribute); /* to be freed */
/* Whether the first values of the dataset, all of those of the first file, are the same bits. */
bool cli_same(const char *first, const char *second, const char *set);
/* Replaces so many bytes of a state from `at` on; sum: and the sum behind them with the one that
 * goes with them. */
void cli_change_state(const char *name, size_t at, const void *bytes, size_t count, bool sum);
/* Fails unless all datasets of numbers of the first file, at least so many, are the same bits in
 * the second. */
void cli_same_files(const char *first, const char *second, const char *what, int least);
