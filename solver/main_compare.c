/* dmft-compare: the limit and networks of several widths, parameterizations side by side. */
#include "solver/command.h"
#include "solver/study/compare.h"
#include "solver/files/provenance.h"

struct options {
    struct command command;
    const char *output, *again;
    bool force, help, version, quiet;
};

static const char usage[] =
    "usage: dmft-compare [-o OUT.h5] [--force] [--quiet] FILE.ini [--section.key=value ...]\n"
    "       dmft-compare --continue OUT.h5 [--quiet] [--section.key=value ...]\n"
    "       dmft-compare --help | --version";

static const char help[] =
    "dmft-compare: finite networks of several widths against their infinite-width limit\n"
    "%s\n\n"
    "FILE.ini is an ini of dmft-solve (dmft-solve --defaults) with [reference] widths and seeds,\n"
    "and [network] parameterization may be a list:\n\n"
    "    [network]\n"
    "    parameterization = mup mssp\n"
    "    [reference]\n"
    "    widths = 64 128 256\n"
    "    coordinate_check = yes\n\n"
    "For each parameterization OUT.h5 (default: the ini's name with _compare.h5) has a group,\n"
    "/mup/limit, /mup/reference/N0064 ... as dmft-solve writes them, and /mup/compare: every\n"
    "quantity extrapolated to N = infinity (NAME_inf), its z against the limit (NAME_z), the\n"
    "exponent of |network - limit| in N (NAME_approach), and the exponents of the coordinate\n"
    "check (rms_TERM_exponent). Tables go to the screen.\n";

static int read_options(struct options *options, int argc, char **argv, struct err *err) {
    *options = (struct options){0};
    const struct command_option known[] = {
        {"--force", &options->force, NULL, NULL},
        {"--quiet", &options->quiet, NULL, NULL},
        {"--help", &options->help, NULL, NULL},
        {"-h", &options->help, NULL, NULL},
        {"--version", &options->version, NULL, NULL},
        {"-o", NULL, &options->output, "the name of the output file"},
        {"--continue", NULL, &options->again, "the output of a comparison that kept its state"},
        {0},
    };
    TRY(command_read(&options->command, known, usage, argc, argv, err));
    if (!options->command.file && !options->again && !options->help && !options->version)
        return err_set(err, CODE_INPUT, "which ini file?\n%s", usage);
    return CODE_OK;
}

static int do_compare(struct compare *compare, struct options *options, struct err *err) {
    struct command *command = &options->command;
    FREED(base_free) char *output = NULL, *ini = NULL;
    bool go_on = options->again != NULL;
    int code;
    struct log log;
    command_log(&log, &options->command, options->quiet);
    for (int k = 0; k < COMPARE_MOST; k++) {
        compare->run[k].log = log;
        compare->run[k].program = "dmft-compare";
        compare->run[k].stop = command_signals();
        compare->run[k].states.resume = go_on;
    }
    DO(go_on ? command_continue(command, "dmft-compare", options->again, options->output, &ini,
                                &output, err)
             : command_output(&output, command, options->output, "_compare.h5", err));
    DO(compare_configure(compare, command->file, command->overrides, command->override, err));
    for (int k = 0; k < compare->count; k++)
        DO(command_notes(&compare->run[k].notes, command, err));
    DO(command_refuse_inputs(output, &compare->run[0].params, err));
    DO(compare_run(compare, output, options->force || go_on, err));
    log_line(&compare->run[0].log, "wrote %s", output);
    if (!options->quiet)
        DO(compare_table_print(compare, err));
done:
    for (int k = 0; k < compare->count && code; k++)
        if (compare->run[k].io_open)
            command_tell_partial(&compare->run[k].log, &compare->run[k].io);
    if (code && output)
        command_tell_states(&compare->run[0].log, "dmft-compare", &compare->run[0], output, code);
    return code;
}

int main(int argc, char **argv) {
    struct options options;
    static struct compare compare; /* too large for a small stack */
    struct err err = {0};
    command_start(&argc, &argv);
    int code = read_options(&options, argc, argv, &err);
    if (!code && options.version)
        printf("dmft-compare %s\n", provenance_version);
    else if (!code && options.help)
        printf(help, usage);
    else if (!code)
        code = do_compare(&compare, &options, &err);
    compare_free(&compare);
    return command_end("dmft-compare", code, &err);
}
