/* dmft-solve: the infinite-width limit of mixture-of-experts training, beside finite networks. */
#define _POSIX_C_SOURCE 200809L
#include "solver/provenance.h"
#include "solver/report.h"

#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop; /* set by the handler, read through run.stop */

/* The first Ctrl-C ends the run in order. One that comes more than a second later ends it at once;
 * within that second it is the same request (timeout(1) signals the process and then its group). */
static void on_signal(int number) {
    static struct timespec first;
    struct timespec now;
    (void)number;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!stop)
        first = now;
    else if (now.tv_sec - first.tv_sec > 1)
        _exit(CODE_INTERRUPTED);
    stop = 1;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

struct options {
    const char *file, *output;
    bool force, help, version, defaults, quiet;
    int overrides;
    char **override;
};

static const char usage[] =
    "usage: dmft-solve [-o OUT.h5] [--force] [--quiet] FILE.ini [--section.key=value ...]\n"
    "       dmft-solve --help | --version | --defaults";

/* [--]section.key=value, or what was meant so; a file of that name is a file. */
static bool is_override(const char *word) {
    if (!strncmp(word, "--", 2))
        return strchr(word, '.') || strchr(word, '=');
    return strchr(word, '=') && access(word, F_OK) != 0;
}

static int read_options(struct options *options, int argc, char **argv, struct err *err) {
    *options = (struct options){.override = argv};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!strcmp(word, "--force"))
            options->force = true;
        else if (!strcmp(word, "--quiet"))
            options->quiet = true;
        else if (!strcmp(word, "--help") || !strcmp(word, "-h"))
            options->help = true;
        else if (!strcmp(word, "--version"))
            options->version = true;
        else if (!strcmp(word, "--defaults"))
            options->defaults = true;
        else if (!strcmp(word, "-o")) {
            if (++i == argc || !argv[i][0])
                return err_set(err, CODE_INPUT, "-o needs the name of the output file");
            options->output = argv[i];
        } else if (is_override(word))
            options->override[options->overrides++] = argv[i]; /* never overtakes i */
        else if (word[0] == '-')
            return err_set(err, CODE_INPUT, "unknown option %s\n%s", word, usage);
        else if (options->file)
            return err_set(err, CODE_INPUT, "one ini file at a time: %s, %s", options->file, word);
        else
            options->file = word;
    }
    if (!options->file && !options->help && !options->version && !options->defaults)
        return err_set(err, CODE_INPUT, "which ini file?\n%s", usage);
    return CODE_OK;
}

static int print_help(const struct options *options, struct err *err) {
    struct param_section *sections;
    size_t count;
    TRY(config_sections(&sections, &count, err));
    if (options->version) {
        printf("dmft-solve %s\n", provenance_version);
    } else if (options->defaults) {
        params_defaults(sections, count, stdout);
    } else {
        printf(
            "dmft-solve: infinite-width limits of mixture-of-experts training\n%s"
            "\nWrites OUT.h5 (default: the ini's name in the current folder). Exit codes: 0 done, "
            "1 system error,\n2 bad input, 3 numerical failure, 130 interrupted.\n\nKeys:\n",
            usage);
        params_help(sections, count, stdout);
        printf("\nNetworks:\n");
        for (const struct model *const *model = model_list; *model; model++)
            printf("%-10s %s\n", (*model)->name, (*model)->doc);
    }
    free(sections);
    return CODE_OK;
}

/* regime2.h5 in the current folder for data/regime2.ini. */
static int output_name(const struct options *options, char **name, struct err *err) {
    if (options->output)
        return base_copy(name, options->output, err);
    const char *slash = strrchr(options->file, '/');
    const char *base = slash ? slash + 1 : options->file;
    size_t length = strlen(base);
    if (length > 4 && !strcmp(base + length - 4, ".ini"))
        length -= 4;
    TRY(base_alloc(name, length + 4, 1, err));
    memcpy(*name, base, length);
    strcpy(*name + length, ".h5");
    return CODE_OK;
}

/* The output must not be one of the files the run reads, --force or not. */
static int check_output(const char *output, const char *input, struct err *err) {
    struct stat a, b;
    if (input[0] && !stat(output, &a) && !stat(input, &b) && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return err_set(err, CODE_INPUT, "-o %s would overwrite an input of this run", output);
    return CODE_OK;
}

static int solve(struct run *run, const struct options *options, struct err *err) {
    char *output = NULL;
    int code;
    DO(output_name(options, &output, err));
    DO(run_configure(run, options->file, options->overrides, options->override, err));
    DO(check_output(output, options->file, err));
    DO(check_output(output, run->config.data.file, err));
    DO(run_open(run, output, options->force, err));
    DO(run_march(run, err));
    DO(run_finish(run, options->force, err));
    log_line(&run->log, "wrote %s", output);
    DO(report_print(run, err));
done:
    if (code && run->io_open)
        log_line(&run->log, "what was computed is in %s", run->io.partial);
    free(output);
    return code;
}

int main(int argc, char **argv) {
    struct options options;
    struct run run = {.stop = &stop};
    struct err err = {0};
    io_quiet();
    gsl_set_error_handler_off();
    catch_signals();
    int code = read_options(&options, argc, argv, &err);
    log_init(&run.log, options.quiet ? 0 : 1);
    if (!code && (options.help || options.version || options.defaults))
        code = print_help(&options, &err);
    else if (!code)
        code = solve(&run, &options, &err);
    run_free(&run);
    if (!code && (fflush(stdout) || ferror(stdout)))
        code = err_set(&err, CODE_SYSTEM, "cannot write to standard output");
    if (code)
        fprintf(stderr, "dmft-solve: %s\n", err.text);
    return code;
}
