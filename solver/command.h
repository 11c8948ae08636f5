/* The command line of the programs: options, one ini file, overrides; signals. */
#pragma once

#include "solver/run/run.h"

/* An option: --word alone sets *given; with a value (-o OUT) it sets *value. */
struct command_option {
    const char *word;
    bool *given;
    const char **value, *what; /* what the value is, for messages */
};
struct command {
    const char *file; /* NULL if none was given */
    int overrides;
    char **override; /* [--]section.key=value */
};

/* The beginning of main. */
void command_start(int *argc, char ***argv);
/* Reads the command line; options end with a NULL word. */
int command_read(struct command *command, const struct command_option *options, const char *usage,
                 int argc, char **argv, struct err *err);
/* The log is that of rank 0, unless quiet. It warns where a parallel job has started a program that
 * was built without MPI, and says which keys the command line gives twice (the last counts). */
void command_log(struct log *log, const struct command *command, bool quiet);
/* What is said of these keys, as notes for the file of a run or a sweep. */
int command_notes(struct notes *notes, const struct command *command, struct err *err);
/* The output to be freed: as given, or for data/regime2.ini the file regime2 + ending (".h5") in
 * the current folder. */
int command_output(char **name, const struct command *command, const char *given,
                   const char *ending, struct err *err);
/* --continue of this program: the ini and the output (both to be freed) of a result whose states
 * were kept, in the place of those of a command line, which may give neither. Refused where another
 * program wrote the result, complete or partial. */
int command_continue(struct command *command, const char *program, const char *result,
                     const char *given, char **ini, char **output, struct err *err);
/* How to go on after a failure with this code, where states are kept. After a numerical one the
 * same run would fail again. */
void command_tell_states(struct log *log, const char *program, const struct run *run,
                         const char *output, int code);
/* CODE_INPUT if the output is this input, --force or not (where files are looked at: rank 0). */
int command_refuse_input(const char *output, const char *input, struct err *err);
/* CODE_INPUT if the output was read: the ini, one that it includes, or any path in it. */
int command_refuse_inputs(const char *output, const struct params *params, struct err *err);
/* Catches SIGINT and SIGTERM; the first one sets what is returned, a later one ends the program. A
 * file that grows too large (ulimit -f) is an error of write. */
const volatile sig_atomic_t *command_signals(void);
/* After a failure: which file holds what, if one is open. */
void command_tell_partial(struct log *log, const struct io *io);
/* From now on they end the program. */
void command_default_signals(void);
/* The end of main: tells a failure, and returns the exit code. A failure of one rank ends all. */
int command_end(const char *program, int code, struct err *err);
