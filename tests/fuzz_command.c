/* libFuzzer target: arbitrary lines as the words of a command line, whose keys are then set over an
 * ini, with all keys there are. Build and run: make soak. */
#define _GNU_SOURCE
#include "solver/command.h"
#include "tests/support/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void set_keys(const struct command *command) {
    FREED(base_free) struct param_section *sections;
    FREED(params_free) struct params params;
    struct config config;
    struct err err = {0};
    size_t count;
    fuzz_require(!config_sections(&sections, &count, &err), "no keys");
    fuzz_sentence(params_read_text(&params, sections, count, "[network]\nmodel = regime2\n",
                                   &(struct param_source){"fuzz.ini", NULL, command->overrides,
                                                          command->override, 0},
                                   &config, &err),
                  &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    enum { WORDS = 16 };
    bool force = false;
    const char *output = NULL;
    const struct command_option options[] = {
        {"--force", &force, NULL, NULL}, {"-o", NULL, &output, "the name of the output file"}, {0}};
    FREED(base_free) char *text = fuzz_text(bytes, size), *name = NULL;
    char *word[WORDS + 1] = {"dmft-solve"}, *rest = text;
    int words = 1;
    for (char *next; words < WORDS && (next = strsep(&rest, "\n"));)
        word[words++] = next;
    struct command command;
    struct err err = {0};
    int code = command_read(&command, options, "usage", words, word, &err);
    fuzz_require(code == err.code && (!code || (code == CODE_INPUT && *err.text)),
                 "not a sentence");
    if (!code)
        set_keys(&command);
    if (!code && command.file)
        fuzz_require(!command_output(&name, &command, output, ".h5", &err), "no name");
    return 0;
}
