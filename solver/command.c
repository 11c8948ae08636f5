#define _POSIX_C_SOURCE 200809L
#include "solver/command.h"
#include "kernels/array/dist.h"
#include "kernels/array/few_rows.h"
#include "solver/files/result.h"
#include "solver/run/states.h"

#include <cblas.h>
#include <gsl/gsl_errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop; /* set by the handler */

enum { LEAST_STACK = 768 << 10 }; /* of settings, and of threads, which have as much */

/* The first Ctrl-C ends the run in order, and after a second that some operation does not hear,
 * such as one factorisation of a large matrix, the program says so. One that comes more than a
 * second later ends it at once; within that second it is the same request (timeout(1) signals the
 * process and then its group). */
static void on_signal(int number) {
    static const char wait[] = "stopping when the operation under way has ended; a second signal "
                               "ends the program at once, and saves nothing\n";
    static struct timespec first;
    struct timespec now;
    if (number == SIGALRM) {
        (void)!write(STDERR_FILENO, wait, sizeof wait - 1);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!stop) {
        first = now;
        alarm(1);
    } else if (now.tv_sec - first.tv_sec > (now.tv_nsec > first.tv_nsec ? 0 : 1))
        _exit(CODE_INTERRUPTED);
    stop = 1;
}

/* A terminal that is closed ends a run, but not where nohup has it ignored. */
static void handle_hangup(const struct sigaction *action) {
    struct sigaction before;
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, action, NULL);
}

const volatile sig_atomic_t *command_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    action.sa_flags = 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    handle_hangup(&action);
    signal(SIGXFSZ, SIG_IGN);
    base_heed(&stop);
    return &stop;
}

void command_tell_partial(struct log *log, const struct io *io) {
    if (io->partial)
        log_line(log,
                 io->behind ? "the last state that could be saved is in %s"
                            : "what was computed is in %s",
                 io->partial);
}

void command_default_signals(void) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    handle_hangup(&(struct sigaction){.sa_handler = SIG_DFL});
}

/* Whether the command asks for text alone, which no thread makes. */
static bool is_question(int argc, char **argv) {
    static const char *const words[] = {"--help",       "-h",        "--version", "--defaults",
                                        "--operations", "--program", "--programs"};
    for (size_t i = 0; argc > 1 && i < sizeof words / sizeof *words; i++)
        if (!strcmp(argv[1], words[i]))
            return true;
    return false;
}

/* OpenBLAS has code without AVX for a processor that is newer than itself, which takes four times
 * as long; it gets the name of one that it knows and that has the same instructions, else NULL. */
static const char *known_processor(void) {
    static const char *const names[] = {
        [FEW_ROWS_AVX2] = "Haswell", [FEW_ROWS_AVX512] = "SkylakeX"};
    const char *taken = openblas_get_corename();
    bool newer = !strcmp(taken, "Prescott") || !strcmp(taken, "Barcelona");
    return newer ? names[few_rows_level()] : NULL;
}

/* Threads that wait for each other should not spin for long: where cores are shared with others a
 * run of 0.35 s took 17 s, else 0.8 s, and where they are not it takes no longer. OpenBLAS is
 * called by single threads and needs none of its own. All is read before main() begins, hence the
 * second start; what the user has set stays. */
static void prepare_libraries(char **argv) {
    const char *const settings[][2] = {{"GOMP_SPINCOUNT", "10000"},
                                       {"OPENBLAS_NUM_THREADS", "1"},
                                       {"OPENBLAS_CORETYPE", known_processor()}};
    bool again = false;
    for (size_t i = getenv("OMP_WAIT_POLICY") ? 1 : 0; i < sizeof settings / sizeof *settings; i++)
        if (settings[i][1] && !getenv(settings[i][0]))
            again = !setenv(settings[i][0], settings[i][1], 0) || again;
    if (again)
        execv("/proc/self/exe", argv); /* if it fails all works as well, but slower */
}

/* Memory that an operation or a replicate gives back stays with the process for the next one:
 * without this the kernel clears the same pages again at every step, a seventh of the time of small
 * networks, and for every replicate of a limit. */
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 1 << 20);
#endif
}

void command_start(int *argc, char ***argv) {
    keep_memory();
    if (!is_question(*argc, *argv))
        prepare_libraries(*argv);
    dist_start(argc, argv);
    io_begin_program();
    gsl_set_error_handler_off();
}

/* [--]section.key=value, or what was meant so; a file of that name is a file. */
static bool is_override(const char *word) {
    if (!strncmp(word, "--", 2))
        return strchr(word, '=');
    return strchr(word, '=') && access(word, F_OK) != 0;
}

/* The key of an override, without dashes. */
static const char *key_of(const char *word) {
    return word + (strncmp(word, "--", 2) ? 0 : 2);
}

int command_read(struct command *command, const struct command_option *options, const char *usage,
                 int argc, char **argv, struct err *err) {
    struct rlimit stack;
    *command = (struct command){.override = argv};
    if (!getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur < LEAST_STACK)
        return err_set(
            err, CODE_SYSTEM, "a stack of %llu kB is too small, %d are needed: ulimit -s %d",
            (unsigned long long)stack.rlim_cur / 1024, LEAST_STACK / 1024, LEAST_STACK / 1024);
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const struct command_option *option = options;
        while (option->word && strcmp(word, option->word) != 0)
            option++;
        if (option->given) {
            *option->given = true;
        } else if (option->value) {
            if (++i == argc || !argv[i][0])
                return err_set(err, CODE_INPUT, "%s needs %s", word, option->what);
            *option->value = argv[i];
        } else if (!strncmp(word, "--", 2) && strchr(word, '.') && !strchr(word, '=')) {
            return err_set(err, CODE_INPUT, "%s: a key and its value are one word, %s=%s", word,
                           word, i + 1 < argc ? argv[i + 1] : "value");
        } else if (is_override(word)) {
            command->override[command->overrides++] = argv[i]; /* never overtakes i */
        } else if (word[0] == '-') {
            return err_set(err, CODE_INPUT,
                           "unknown option %s; a key is set by --section.key=value\n%s", word,
                           usage);
        } else if (command->file) {
            return err_set(err, CODE_INPUT, "one ini file at a time: %s, %s", command->file, word);
        } else {
            command->file = word;
        }
    }
    return CODE_OK;
}

/* Appends the overrides that count of those that have the key of another one; nothing where each
 * key is given once. */
static void tell_repeated(const struct command *command, char *note) {
    for (int i = 1; i < command->overrides; i++) {
        const char *word = key_of(command->override[i]);
        int before = 0, behind = i + 1;
        while (before < i && !text_same_key(word, key_of(command->override[before])))
            before++;
        while (behind < command->overrides &&
               !text_same_key(word, key_of(command->override[behind])))
            behind++;
        if (before < i && behind == command->overrides)
            text_append(
                note, "%s%s",
                *note ? ", "
                      : "given more than once on the command line, where the last value counts: ",
                word);
    }
}

int command_notes(struct notes *notes, const struct command *command, struct err *err) {
    char text[TEXT_NOTE] = "";
    tell_repeated(command, text);
    return *text ? notes_add(notes, "given_twice", "", -1, NOTE_TOLD, err, "%s", text) : CODE_OK;
}

void command_log(struct log *log, const struct command *command, bool quiet) {
    log_init(log, !quiet && !dist_rank());
    int processes = dist_job_without_mpi();
    if (processes > 1)
        log_line(log,
                 "warning: one of %d processes of a job, but built without MPI: each computes "
                 "everything; make MPI=1 builds a program that shares it out",
                 processes);
    char text[TEXT_NOTE] = "";
    tell_repeated(command, text);
    if (*text)
        log_line(log, "note: %s", text);
}

int command_output(char **name, const struct command *command, const char *given,
                   const char *ending, struct err *err) {
    if (given)
        return base_copy(name, given, err);
    const char *slash = strrchr(command->file, '/');
    const char *base = slash ? slash + 1 : command->file;
    size_t length = strlen(base);
    if (length > 4 && !strcmp(base + length - 4, ".ini"))
        length -= 4;
    return base_print(name, err, "%.*s%s", (int)length, base, ending);
}

/* The program that goes on with a result must be the one that wrote it: another would not find the
 * states, begin anew, and replace the result. What was begun last, OUT.h5.partial, decides. */
static int check_writer(const char *program, const char *result, struct err *err) {
    size_t size = strlen(result) + sizeof ".partial";
    struct stat status;
    FREED(base_free) char *writer = NULL;
    char path[size];
    snprintf(path, size, "%s.partial", result);
    if (stat(path, &status) || !status.st_size)
        snprintf(path, size, "%s", result);
    if (stat(path, &status))
        return CODE_OK; /* nothing was written yet */
    TRY(result_program(path, &writer, err));
    bool compared = !strcmp(writer, "dmft-compare");
    if (!strcmp(writer, "dmft-sweep"))
        return err_set(
            err, CODE_INPUT,
            "--continue %s: is of dmft-sweep, which goes on by the command that began the sweep",
            result);
    if (compared != !strcmp(program, "dmft-compare"))
        return err_set(err, CODE_INPUT, "--continue %s: is of %s: %s --continue %s goes on with it",
                       result, writer, compared ? "dmft-compare" : "dmft-solve", result);
    return CODE_OK;
}

int command_continue(struct command *command, const char *program, const char *result,
                     const char *given, char **ini, char **output, struct err *err) {
    if (command->file || given)
        return err_set(err, CODE_INPUT,
                       "--continue %s goes on with the ini of that run, into that file; it takes "
                       "keys to change, but no %s",
                       result, given ? "-o" : "ini file");
    TRY(base_copy(output, result, err));
    if (!dist_rank())
        TRY(check_writer(program, result, err));
    TRY(states_ini(ini, result, err));
    command->file = *ini;
    return CODE_OK;
}

void command_tell_states(struct log *log, const char *program, const struct run *run,
                         const char *output, int code) {
    if (code != CODE_NUMERICAL && states_kept(run))
        log_line(log, "it goes on with: %s --continue %s", program, output);
    else if (code == CODE_NUMERICAL && states_count(run))
        log_line(log,
                 "states of what did not fail are in %s.state: %s --continue %s goes on from them, "
                 "with other widths, seeds or replicates, and --force removes them",
                 output, program, output);
}

int command_refuse_input(const char *output, const char *input, struct err *err) {
    struct stat a, b;
    if (!dist_rank() && input[0] && !stat(output, &a) && !stat(input, &b) && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return err_set(err, CODE_INPUT, "-o %s would overwrite an input of this run", output);
    return CODE_OK;
}

int command_refuse_inputs(const char *output, const struct params *params, struct err *err) {
    TRY(command_refuse_input(output, params->file, err));
    for (int k = 0; k < params->includes; k++)
        TRY(command_refuse_input(output, params->include[k], err));
    FOR_EACH_OF (const struct param_section, s, params->sections, params->count)
        for (size_t r = 0; r < s->count; r++) {
            FREED(base_free) char *path = NULL;
            if (s->rows[r].type != PARAM_PATH)
                continue;
            TRY(params_path(params, s->name, s->rows[r].key, &path, err));
            TRY(command_refuse_input(output, path, err));
        }
    return CODE_OK;
}

int command_end(const char *program, int code, struct err *err) {
    if (!code && (fflush(stdout) || ferror(stdout)))
        code = err_set(err, CODE_SYSTEM, "cannot write to standard output");
    if (code)
        dist_yield();
    if (code && dist_rank())
        fprintf(stderr, "%s: rank %d: %s\n", program, dist_rank(), err->text);
    else if (code)
        fprintf(stderr, "%s: %s\n", program, err->text);
    dist_end(code);
    return code;
}
