/* Keys, defaults, bounds and what is said of them are those stored in data/ref/keys.ini. Whoever
 * means to change a key writes them anew: ./dmft-solve --defaults > data/ref/keys.ini. And all is
 * said in sentences, each word of a choice explained, in lines that a terminal holds. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cli.h"
#include "tests/support/support.h"
#include "solver/settings/config.h"
#include "solver/settings/row.h"

#include <ctype.h>

static void keys_are_those_stored(void **state) {
    (void)state;
    FREED(base_free) struct param_section *sections;
    size_t count, size;
    FREED(base_free) char *text, *line = NULL;
    char *rest;
    ASK(config_sections(&sections, &count, err));
    FILE *out = open_memstream(&text, &size), *stored = fopen("data/ref/keys.ini", "r");
    assert_true(out && stored);
    params_defaults(sections, count, out);
    assert_int_equal(fclose(out), 0);
    rest = text;
    for (size_t room = 0; getline(&line, &room, stored) >= 0; rest += strlen(line))
        FAIL_IF(strncmp(rest, line, strlen(line)), "data/ref/keys.ini, see above: is %.*sstored %s",
                (int)strcspn(rest, "\n") + 1, rest, line);
    assert_string_equal(rest, "");
    fclose(stored);
}

static int words_of(const char *text, size_t length) {
    int words = 0;
    for (size_t i = 0; i < length; i++)
        words += text[i] != ' ' && (!i || text[i - 1] == ' ');
    return words;
}

/* One sentence or several: three words at least, from a capital letter to a full stop. */
static void check_sentence(const char *name, const char *text) {
    size_t length = strcspn(text, "\n");
    if (!isupper((unsigned char)*text) || words_of(text, length) < 3 || text[length - 1] != '.')
        fail_msg("%s is not explained in a sentence: %s", name, text);
}

/* Whether a line "  WORD WORD: ..." of the text is about this word. */
static bool explains(const char *text, struct text_word word) {
    for (const char *line = text; (line = strchr(line, '\n'));) {
        const char *cursor = ++line, *end = line + strcspn(line, ":\n");
        struct text_word given;
        while (*end == ':' && text_next_word(&cursor, " :", &given) && given.text < end)
            if (text_same(given, word))
                return end[1] == ' ' && end[2] && end[2] != '\n';
    }
    return false;
}

static void check_row(const char *section, const struct param_row *row) {
    char name[TEXT_NOTE] = "";
    text_append(name, "%s.%s", section, row->key);
    const char *words = row->type == PARAM_ROW ? NULL : row->choices;
    struct text_word word;
    assert_true(row->doc && *row->doc);
    check_sentence(name, row->doc);
    while (words && text_next_word(&words, " ", &word))
        if (!explains(row->doc, word))
            fail_msg("%s does not say what %.*s is", name, (int)word.length, word.text);
    for (const struct choice *const *thing = row_things(row); thing && *thing; thing++)
        if (!(*thing)->doc || !*(*thing)->doc)
            fail_msg("%s does not say what %s is", name, (*thing)->name);
    for (const char *line = row->doc; (line = strchr(line, '\n'));) {
        size_t length = strcspn(++line, "\n");
        if (strncmp(line, "  ", 2) != 0 || line[length - 1] == '.')
            fail_msg("%s: a line of a choice is \"  word: what it is\", not %s", name, line);
    }
}

static void keys_are_explained(void **state) {
    (void)state;
    FREED(base_free) struct param_section *sections;
    size_t count;
    ASK(config_sections(&sections, &count, err));
    for (size_t s = 0; s < count; s++) {
        check_sentence(sections[s].name, sections[s].doc);
        for (size_t r = 0; r < sections[s].count; r++)
            check_row(sections[s].name, &sections[s].rows[r]);
    }
}

/* ---- the program ---- */

static char *printed(const char *const *arg) {
    struct cli_result result;
    cli_run(&result, arg);
    assert_int_equal(result.code, 0);
    free(result.err);
    return result.out;
}

static void check_lines(const char *const *arg) {
    FREED(base_free) char *text = printed(arg);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strcspn(line, "\n") > 100)
            fail_msg("%s: longer than 100 columns: %.*s", arg[0], (int)strcspn(line, "\n"), line);
}

static void lines_fit(void **state) {
    (void)state;
    static const char *const programs[] = {"dmft-compare", "dmft-sweep", "dmft-solve"};
    for (size_t k = 0; k < COUNT(programs); k++) {
        cli_program(programs[k]);
        check_lines(ARGS("--help"));
    }
    check_lines(ARGS("--defaults"));
    for (const struct model *const *model = model_list; *model; model++)
        check_lines(ARGS("--help", (*model)->name));
}

/* Each on one line, before all others, and once more in its section. */
static void first_keys_come_first(void **state) {
    (void)state;
    static const char *const keys[] =
        LIST("network.model", "network.parameterization", "data.source", "data.inputs",
             "training.steps", "training.eta0", "training.gamma0", "training.optimizer",
             "solver.sites", "solver.replicates", "reference.widths");
    static const char *const sections[] = {"network",   "data",   "training", "solver",
                                           "reference", "output", "rates",    "init"};
    char *help = printed(ARGS("--help")), part[64];
    const char *line = strstr(help, "should know first:\n");
    assert_non_null(line);
    for (size_t k = 0; k < COUNT(keys); k++) {
        line = strchr(line, '\n') + 1;
        snprintf(part, sizeof part, "  %s ", keys[k]);
        if (strncmp(line, part, strlen(part)) != 0 || words_of(line, strcspn(line, "\n")) < 4)
            fail_msg("not %s: %.100s", keys[k], line);
    }
    line = strchr(line, '\n') + 1;
    assert_int_equal(*line, '\n');
    for (size_t k = 0; k < COUNT(keys); k++) {
        snprintf(part, sizeof part, "\n  %s ", keys[k]);
        assert_non_null(strstr(line, part));
    }
    for (size_t k = 0; k < COUNT(sections); k++) {
        snprintf(part, sizeof part, "\n\n[%s]", sections[k]);
        line = strstr(line, part);
        assert_non_null(line);
    }
    free(help);
}

/* Nothing decays that was not asked to, as in a plain Adam or Muon. */
static void default_decays(void **state) {
    (void)state;
    for (int k = 0; optimizer_list[k]; k++) {
        char key[64];
        FREED(run_free) struct run run;
        snprintf(key, sizeof key, "training.optimizer=%s", optimizer_list[k]->name);
        support_run(&run, "data/dense.ini", ARGS(key));
        if (run.config.training.weight_decay != 0)
            fail_msg("%s: %g", optimizer_list[k]->name, run.config.training.weight_decay);
    }
}

int main(void) {
    const struct CMUnitTest rows[] =
        LIST(cmocka_unit_test(keys_are_those_stored), cmocka_unit_test(keys_are_explained),
             cmocka_unit_test(default_decays));
    const struct CMUnitTest programs[] =
        LIST(cmocka_unit_test(lines_fit), cmocka_unit_test(first_keys_come_first));
    int failed = cmocka_run_group_tests_name("keys", rows, NULL, NULL);
    return failed + cmocka_run_group_tests_name("help", programs, cli_open, cli_close);
}
