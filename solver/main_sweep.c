/* dmft-sweep: the runs of an ini file over a grid of its keys, in parallel processes. */
#include "kernels/array/dist.h"
#include "solver/command.h"
#include "solver/files/partial.h"
#include "solver/files/provenance.h"
#include "solver/study/summary.h"
#include "solver/study/sweep.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    struct command command;
    const char *output, *jobs;
    const char *optimum; /* a sweep that is done, to be looked at again */
    struct summary_choice choice;
    bool force, help, version, quiet, retry, points;
};

static const char usage[] =
    "usage: dmft-sweep [-o OUT.h5] [--jobs N] [--retry] [--force] [--quiet] FILE.ini\n"
    "                  [--section.key=value ...]\n"
    "       dmft-sweep --points FILE.ini [--section.key=value ...]\n"
    "       dmft-sweep --optimum OUT.h5 [--along section.key] [--objective NAME] [-o FILE.h5]\n"
    "       dmft-sweep --help | --version";

static const char help[] =
    "dmft-sweep: runs of dmft-solve over a grid of keys\n"
    "%s\n\n"
    "FILE.ini is an ini of dmft-solve with one section more, whose keys are those to vary:\n\n"
    "    [sweep]\n"
    "    network.parameterization = mup mssp\n"
    "    training.eta0 = logspace(0.1, 10, 9)\n"
    "    network.kappa, network.expert_width = 0.25 4 | 0.5 2 | 1 1\n\n"
    "Each line is an axis of the grid. Values are logspace(first, last, n), linspace(first, last,\n"
    "n) or a list, in which | separates values that have blanks. Keys joined by commas vary\n"
    "together: each point, between |, has one value for every key, separated by blanks or by\n"
    "commas. A line can stand on the command line as well, in quotes, and then goes over the one\n"
    "of the file: --sweep.training.eta0=\"0.1 0.2 0.4\".\n\n"
    "Every point is run at each of the [reference] widths and in the limit, each in a process of\n"
    "its own, N at a time (--jobs; default: all cores). Files go to OUT.d, the summary to OUT.h5,\n"
    "and a table of the optimum (or of the losses) to the screen. The same command goes on with a\n"
    "sweep that was stopped or changed; done runs are not repeated. Runs that ended in a\n"
    "numerical failure count as done unless --retry.\n\n"
    "Points are compared by [sweep] objective = test_loss, loss, smooth_loss, time_to=X or\n"
    "NAME[t][i]..., any series at a time t or \"last\" and an entry i or \"mean\" of each further\n"
    "axis (--objective; default: test_loss where there is one), and the optimum is sought along\n"
    "[sweep] along = section.key (--along; default: training.eta0). --optimum does so once more\n"
    "with a sweep that is done, and runs nothing. --points prints the grid as JSON: the ini\n"
    "without [sweep], and the keys and values of each axis.\n";

static int read_options(struct options *options, int argc, char **argv, int *jobs,
                        struct err *err) {
    *options = (struct options){0};
    const struct command_option known[] = {
        {"--force", &options->force, NULL, NULL},
        {"--quiet", &options->quiet, NULL, NULL},
        {"--retry", &options->retry, NULL, NULL},
        {"--points", &options->points, NULL, NULL},
        {"--help", &options->help, NULL, NULL},
        {"-h", &options->help, NULL, NULL},
        {"--version", &options->version, NULL, NULL},
        {"-o", NULL, &options->output, "the name of the output file"},
        {"--jobs", NULL, &options->jobs, "the number of processes"},
        {"--optimum", NULL, &options->optimum, "the file of a sweep"},
        {"--along", NULL, &options->choice.along, "a key of the sweep"},
        {"--objective", NULL, &options->choice.objective, "what points are compared by"},
        {0},
    };
    TRY(command_read(&options->command, known, usage, argc, argv, err));
    if (options->optimum && (options->command.file || options->command.overrides))
        return err_set(err, CODE_INPUT, "--optimum takes a sweep that is done, and no ini or keys");
    if (!options->command.file && !options->help && !options->version && !options->optimum)
        return err_set(err, CODE_INPUT, "which ini file?\n%s", usage);
    if (options->points && (options->output || options->optimum))
        return err_set(err, CODE_INPUT, "--points prints the grid of an ini; it takes no %s",
                       options->output ? "-o" : "--optimum");
    *jobs = omp_get_num_procs();
    char rest;
    if (options->jobs && dist_ranks() > 1)
        return err_set(err, CODE_INPUT,
                       "--jobs is not for several ranks: each makes one run at a "
                       "time");
    if (options->jobs &&
        (sscanf(options->jobs, "%d%c", jobs, &rest) != 1 || *jobs < 1 || *jobs > 1024))
        return err_set(err, CODE_INPUT, "--jobs %s: must be an integer, 1 to 1024", options->jobs);
    return CODE_OK;
}

/* --optimum: tables, and with -o a file, of other choices than those of the sweep. */
static int look_again(struct sweep *sweep, const struct options *options, struct err *err) {
    if (options->output) {
        TRY(command_refuse_input(options->output, options->optimum, err));
        TRY(partial_check(options->output, options->force, err));
    }
    TRY(sweep_reopen(sweep, options->optimum, err));
    TRY(summary_check(sweep, &options->choice, err));
    return summary_write(sweep, &options->choice, options->output, err);
}

static int print_points(struct sweep *sweep, const struct command *command, struct err *err) {
    char *text = NULL;
    TRY(sweep_points(sweep, command->file, command->overrides, command->override, &text, err));
    puts(text);
    free(text);
    return CODE_OK;
}

/* The files that the sweep goes through are not written over either. */
static int spare_values(const struct sweep *sweep, const char *output, struct err *err) {
    for (int k = 0, a; k < sweep->grid.keys; k++) {
        const struct grid_key *key = grid_key(&sweep->grid, k, &a);
        for (int i = 0; i < sweep->grid.axis[a].count; i++)
            if (params_is_path(&sweep->base.params, key->name))
                TRY(command_refuse_input(output, key->text[i], err));
    }
    return CODE_OK;
}

static int run(struct sweep *sweep, const struct options *options, int jobs, struct err *err) {
    const struct command *command = &options->command;
    char *output = NULL, *grid = NULL;
    int code;
    if (dist_rank())
        return sweep_work_by_ranks(sweep, err);
    DO(command_notes(&sweep->notes, command, err));
    DO(command_output(&output, command, options->output, ".h5", err));
    DO(command_refuse_input(output, command->file, err));
    DO(sweep_open(sweep, command->file, command->overrides, command->override, output,
                  options->force, options->retry, err));
    DO(command_refuse_inputs(output, &sweep->base.params, err));
    DO(spare_values(sweep, output, err));
    DO(summary_check(sweep, &options->choice, err));
    DO(sweep_file(&grid, sweep, "grid", err));
    DO(summary_grid(sweep, grid, err));
    DO(dist_ranks() > 1 ? sweep_work_by_ranks(sweep, err) : sweep_work(sweep, jobs, err));
    code = summary_write(sweep, &options->choice, output, err);
    if (code == CODE_SYSTEM)
        err_set(err, code, "%.1200s; the runs in %.600s are complete, the same command goes on",
                err->text, sweep->folder);
    DO(code);
    log_line(&sweep->log, "wrote %s", output);
done:
    free(grid);
    free(output);
    return code;
}

int main(int argc, char **argv) {
    struct options options;
    struct sweep sweep = {.stop = command_signals()};
    struct err err = {0};
    int jobs;
    command_start(&argc, &argv);
    int code = read_options(&options, argc, argv, &jobs, &err);
    command_log(&sweep.log, &options.command, options.quiet);
    if (!code && options.version)
        printf("dmft-sweep %s\n", provenance_version);
    else if (!code && options.help)
        printf(help, usage);
    else if (!code && options.optimum)
        code = look_again(&sweep, &options, &err);
    else if (!code && options.points)
        code = print_points(&sweep, &options.command, &err);
    else if (!code)
        code = run(&sweep, &options, jobs, &err);
    sweep_free(&sweep);
    return command_end("dmft-sweep", code, &err);
}
