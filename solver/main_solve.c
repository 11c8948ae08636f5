/* dmft-solve: the infinite-width limit of mixture-of-experts training, beside finite networks. */
#define _POSIX_C_SOURCE 200809L /* getline */
#include "kernels/array/dist.h"
#include "kernels/array/profile.h"
#include "models/lua/script.h"
#include "solver/command.h"
#include "solver/run/parts.h"
#include "solver/files/provenance.h"
#include "solver/files/result.h"
#include "solver/run/report.h"
#include "solver/run/states.h"
#include "solver/settings/names.h"
#include "solver/study/units.h"

#include <errno.h>
#include <jansson.h>

struct options {
    struct command command;
    const char *output, *again, *predict;
    bool force, help, version, defaults, operations, program, programs, units, estimate, quiet;
    bool profile, no_limit;
};

static const char usage[] =
    "usage: dmft-solve [-o OUT.h5] [--force] [--quiet] [--profile] FILE.ini [--section.key=value "
    "...]\n"
    "       dmft-solve --continue OUT.h5 [--quiet] [--profile] [--section.key=value ...]\n"
    "       dmft-solve --predict DATA -o PREDICTION.h5 [--force] OUT.h5\n"
    "       dmft-solve --help [NETWORK [--section.key=value ...]] | --version\n"
    "       dmft-solve --defaults [FILE.ini [--section.key=value ...]]\n"
    "       dmft-solve --program [--no-limit] FILE.ini [--section.key=value ...]\n"
    "       dmft-solve --programs | --units\n"
    "       dmft-solve --estimate FILE.ini [--section.key=value ...]\n"
    "       dmft-solve --operations";

static int read_options(struct options *options, int argc, char **argv, struct err *err) {
    *options = (struct options){0};
    const struct command_option known[] = {
        {"--force", &options->force, NULL, NULL},
        {"--quiet", &options->quiet, NULL, NULL},
        {"--profile", &options->profile, NULL, NULL},
        {"--help", &options->help, NULL, NULL},
        {"-h", &options->help, NULL, NULL},
        {"--version", &options->version, NULL, NULL},
        {"--defaults", &options->defaults, NULL, NULL},
        {"--operations", &options->operations, NULL, NULL},
        {"--program", &options->program, NULL, NULL},
        {"--programs", &options->programs, NULL, NULL},
        {"--no-limit", &options->no_limit, NULL, NULL},
        {"--units", &options->units, NULL, NULL},
        {"--estimate", &options->estimate, NULL, NULL},
        {"-o", NULL, &options->output, "the name of the output file"},
        {"--continue", NULL, &options->again, "the output of a run that kept its state"},
        {"--predict", NULL, &options->predict, "a data file with inputs"},
        {0},
    };
    TRY(command_read(&options->command, known, usage, argc, argv, err));
    if (!options->command.file && !options->again && !options->help && !options->version &&
        !options->defaults && !options->operations && !options->programs && !options->units)
        return err_set(err, CODE_INPUT, "which ini file?\n%s", usage);
    if (options->predict && (!options->output || options->again || options->command.overrides))
        return err_set(
            err, CODE_INPUT,
            "--predict needs -o and the output of a run that kept its state, and takes no keys");
    if ((options->program || options->estimate) && (options->again || options->output))
        return err_set(err, CODE_INPUT, "%s of an ini; it takes no %s",
                       options->program ? "--program prints the network"
                                        : "--estimate prints the costs",
                       options->again ? "--continue" : "-o");
    if (options->no_limit && !options->program)
        return err_set(err, CODE_INPUT,
                       "--no-limit goes with --program; of a run: --solver.replicates=0");
    return CODE_OK;
}

/* The keys of an ini, of those that it includes and of the command line, as one ini. */
static int print_whole(const struct command *command, const struct param_section *sections,
                       size_t count, struct err *err) {
    FREED(params_free) struct params params = {0};
    struct config config;
    FREED(base_free) char *text = NULL;
    size_t size;
    TRY(params_read(&params, sections, count, command->file, command->overrides, command->override,
                    &config, err));
    TRY(params_text(&params, &text, &size, err));
    fputs(text, stdout);
    return CODE_OK;
}

/* The keys that a first run sets. */
static const char *const first_keys[] = {
    "network.model",     "network.parameterization", "data.source",
    "data.inputs",       "training.steps",           "training.eta0",
    "training.gamma0",   "training.optimizer",       "solver.sites",
    "solver.replicates", "reference.widths",         NULL};

/* Optimizers and losses, as words are printed: how an optimizer moves a matrix, and what it is;
 * what the targets of a loss are, and its formula in TeX. */
static void print_rows(void) {
    for (size_t k = 0; optimizer_row(k); k++)
        printf("Optimizers\t%s\t%s\t\t%s\t-\n", optimizer_list[k]->name,
               optimizer_class(optimizer_row(k)), optimizer_list[k]->doc);
    for (size_t k = 0; loss_row(k); k++)
        printf("Losses\t%s\t%s\t\t%s\t-\n", loss_list[k]->name, loss_targets(loss_row(k)),
               loss_row(k)->tex);
}

static int print_help(const struct options *options, struct err *err) {
    const struct command *command = &options->command;
    FREED(base_free) struct param_section *sections = NULL;
    size_t count;
    const struct model *const *model = model_list;
    while (*model && (!command->file || strcmp((*model)->name, command->file)))
        model++;
    if (options->help && *model)
        return matrices_help(command->file, command->overrides, command->override, stdout, err);
    TRY(config_sections(&sections, &count, err));
    if (options->version) {
        printf("dmft-solve %s\n", provenance_version);
    } else if (options->operations) {
        script_print_words(stdout);
        print_rows();
    } else if (options->defaults && command->file) {
        return print_whole(command, sections, count, err);
    } else if (options->defaults) {
        params_defaults(sections, count, stdout);
    } else {
        printf("dmft-solve: infinite-width limits of mixture-of-experts training\n%s\nWrites "
               "OUT.h5 (default: the ini's name in the current folder). Exit codes: 0 done, 1 "
               "system error,\n2 bad input, 3 numerical failure, 130 interrupted.\n\n"
               "The keys that one should know first:\n",
               usage);
        params_help_first(sections, count, first_keys, stdout);
        printf("\nAll keys, by the section of the ini that they stand in:\n");
        params_help(sections, count, stdout);
        printf("\nNetworks (--help NETWORK: its keys and matrices):\n");
        for (model = model_list; *model; model++)
            printf("%-11s %s\n", (*model)->name, (*model)->doc);
    }
    return CODE_OK;
}

/* Rank 0 tells them. What cannot be told of a run that is done is a warning. */
static void tell_costs(const struct run *run, double start) {
    double seconds = base_cpu_seconds() - start, exchanges, bytes;
    struct err err;
    if (dist_rank())
        return;
    command_default_signals();
    dist_traffic(&exchanges, &bytes);
    if (dist_ranks() > 1)
        fprintf(stderr, "ranks: %.0f exchanges, %.3g MB received by rank 0\n", exchanges,
                1e-6 * bytes);
    if (speeds_print(stderr, backend_list[run->config.solver.backend], seconds, run->threads, &err))
        fprintf(stderr, "warning: no profile: %s\n", err.text);
}

static int configure_run(struct run *run, const struct command *command, struct err *err) {
    return run_configure(run, command->file, command->overrides, command->override, err);
}

/* The networks of an ini and their limit as data (docs/program_format.md); nothing is computed. */
static int print_program(struct run *run, const struct command *command, bool limit,
                         struct err *err) {
    FREED(base_free) char *text = NULL;
    run->config.only_told = true;
    TRY(configure_run(run, command, err));
    TRY(description_text(run, limit, &text, err));
    puts(text);
    return CODE_OK;
}

/* The words of a command line without options, from a JSON list of texts. */
static int print_answer(struct run *run, json_t *words, struct err *err) {
    bool no_limit = false;
    const struct command_option known[] = {{"--no-limit", &no_limit, NULL, NULL}, {0}};
    size_t count = json_array_size(words);
    struct command command;
    SCRATCH(const char *, argv, count + 2);
    for (size_t k = 0; k < count; k++)
        if (!(argv[k + 1] = json_string_value(json_array_get(words, k))))
            return err_set(err, CODE_INPUT, "word %zu is no text", k + 1);
    TRY(command_read(&command, known, usage, (int)count + 1, (char **)(uintptr_t)argv, err));
    return command.file ? print_program(run, &command, !no_limit, err)
                        : err_set(err, CODE_INPUT, "which ini file?");
}

/* Each line of standard input is a JSON list of the words that would follow --program; its answer
 * is a line as --program prints it, or {"code": NUMBER, "error": TEXT}. The Python front end, which
 * asks for the networks of many settings, starts this program once and not for each of them, which
 * takes longer than the answer. */
static int print_answers(const struct run *first, struct err *err) {
    FREED(base_free) char *line = NULL;
    size_t room = 0;
    int code = CODE_OK;
    command_default_signals();
    while (!code && getline(&line, &room, stdin) >= 0) {
        FREED(run_free) struct run run = {.stop = first->stop};
        struct err why = {0};
        json_auto_t *words = json_loads(line, 0, NULL), *failed = NULL;
        int refused = json_is_array(words)
                          ? print_answer(&run, words, &why)
                          : err_set(&why, CODE_INPUT, "no JSON list of words: %s", line);
        if (refused && (!(failed = json_pack("{s:i,s:s}", "code", refused, "error", why.text)) ||
                        json_dumpf(failed, stdout, JSON_COMPACT) || puts("") == EOF))
            code = err_set(err, CODE_SYSTEM, "an answer cannot be written");
        if (fflush(stdout))
            code = err_set(err, CODE_SYSTEM, "an answer cannot be written: %s", strerror(errno));
    }
    return code;
}

static int solve_run(struct run *run, struct options *options, struct err *err) {
    struct command *command = &options->command;
    FREED(base_free) char *output = NULL, *ini = NULL;
    double start = base_cpu_seconds();
    bool begun = false;
    int code;
    profile_on = options->profile;
    run->states.resume = options->again != NULL;
    options->force |= run->states.resume;
    DO(run->states.resume ? command_continue(command, "dmft-solve", options->again, options->output,
                                             &ini, &output, err)
                          : command_output(&output, command, options->output, ".h5", err));
    DO(configure_run(run, command, err));
    DO(command_notes(&run->notes, command, err));
    DO(command_refuse_inputs(output, &run->params, err));
    DO(run_open(run, output, options->force, err));
    begun = true;
    DO(run_march(run, err));
    DO(run_finish(run, options->force, err));
    log_line(&run->log, "wrote %s", output);
    if (!options->quiet)
        DO(report_print(run, err));
done:
    if (code && run->io_open)
        command_tell_partial(&run->log, &run->io);
    if (code && begun)
        command_tell_states(&run->log, "dmft-solve", run, output, code);
    if (begun && options->profile && (!code || dist_ranks() == 1))
        tell_costs(run, start);
    return code;
}

/* Outputs of a run that is done at the inputs of a data file. */
static int predict_outputs(struct run *run, struct options *options, struct err *err) {
    const char *result = options->command.file;
    FREED(base_free) char *ini = NULL, *writer = NULL;
    if (dist_ranks() > 1)
        return err_set(err, CODE_INPUT, "--predict is of one process: start it without mpirun");
    run->states.resume = true;
    TRY(result_program(result, &writer, err));
    if (strcmp(writer, "dmft-solve"))
        return err_set(err, CODE_INPUT, "--predict %s: is of %s, and must be of dmft-solve", result,
                       writer);
    TRY(states_ini(&ini, result, err));
    TRY(command_refuse_input(options->output, result, err));
    TRY(command_refuse_input(options->output, options->predict, err));
    TRY(run_configure(run, ini, 0, NULL, err));
    TRY(states_open(run, result, true, err));
    TRY(predict_run(run, result, options->predict, options->output, options->force, err));
    log_line(&run->log, "wrote %s", options->output);
    return CODE_OK;
}

int main(int argc, char **argv) {
    struct options options;
    static struct run run; /* too large for a small stack */
    struct err err = {0};
    run.stop = command_signals();
    command_start(&argc, &argv);
    int code = read_options(&options, argc, argv, &err);
    command_log(&run.log, &options.command, options.quiet);
    if (!code && (options.help || options.version || options.defaults || options.operations))
        code = print_help(&options, &err);
    else if (!code && options.programs)
        code = print_answers(&run, &err);
    else if (!code && options.units)
        code = units_answer(stdin, stdout, run.stop, &err);
    else if (!code && options.program)
        code = print_program(&run, &options.command, !options.no_limit, &err);
    else if (!code && options.estimate)
        code = configure_run(&run, &options.command, &err) || estimate_print(&run, stdout, &err)
                   ? err.code
                   : CODE_OK;
    else if (!code && options.predict)
        code = predict_outputs(&run, &options, &err);
    else if (!code)
        code = solve_run(&run, &options, &err);
    run_free(&run);
    return command_end("dmft-solve", code, &err);
}
