/* What is refused, and with which sentence: all of tests/refusals.txt, which says how it is read,
 * but for sweeps (test_sweep_grid.py), and of tests/refusals_lua.txt. A run of the program that is
 * refused ends with code 2, says one line and leaves no file. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cli.h"
#include "tests/support/param_read.h"
#include "tests/support/script.h"

enum { FIELDS = 8, CASES = 128, SECTIONS = 64 };
/* A line of the table: its text, then arguments; parts of the sentence. */
struct line {
    char *field[FIELDS + 1], *part[FIELDS + 1];
};
struct section {
    char mode[16], name[64];
    struct line line[CASES];
    int lines;
};
static struct section sections[SECTIONS];
static int count;

/* --- the table ------------------------------------------------------------------------------- */

static char *unescape(const char *from, size_t length) {
    char *text = calloc(length + 1, 1), *to = text;
    assert_non_null(text);
    for (size_t i = 0; i < length; i++) {
        unsigned byte = (unsigned char)from[i];
        if (byte == '\\') {
            byte = from[++i] == 'n' ? '\n' : (unsigned char)from[i];
            if (byte == 'x' && sscanf(from + i + 1, "%2x", &byte) == 1)
                i += 2;
        }
        *to++ = (char)byte;
    }
    return text;
}

/* What stands between separators, and ends at `end`. */
static void split(const char *text, const char *end, const char *separator, char **field) {
    size_t length = strlen(separator);
    for (int k = 0;; k++) {
        const char *next = strstr(text, separator);
        assert_true(k < FIELDS);
        next = next && next < end ? next : end;
        field[k] = unescape(text, (size_t)(next - text));
        if (next == end)
            return;
        text = next + length;
    }
}

/* A line begins with a blank, so that one without a text begins with a separator. */
static void read_line(const char *text) {
    struct section *section = &sections[count - 1];
    const char *sentence = strstr(text, " => ");
    assert_true(count > 0 && section->lines < CASES);
    FAIL_IF(!sentence, "no sentence: %s", text);
    struct line *line = &section->line[section->lines++];
    split(text, sentence, " @ ", line->field);
    split(sentence + 4, text + strlen(text), " ~ ", line->part);
    line->field[0] += *line->field[0] == ' ';
}

/* Lines that begin with two blanks go on with the one before; those before the first section, with
 * a #, are no cases. */
static void read_table(const char *name) {
    static char whole[8192];
    bool begun = false;
    *whole = '\0';
    FREED(base_free) char *next = NULL;
    FREED(base_close) FILE *file = fopen(name, "r");
    assert_non_null(file);
    for (size_t room = 0; getline(&next, &room, file) >= 0;) {
        next[strcspn(next, "\n")] = '\0';
        if (*whole && strncmp(next, "  ", 2)) {
            read_line(whole);
            *whole = '\0';
        }
        if (!strncmp(next, "== ", 3)) {
            assert_true(count < SECTIONS);
            begun = true;
            struct section *section = &sections[count++];
            assert_int_equal(sscanf(next, "== %15[a-z]: %63s", section->mode, section->name), 2);
        } else if (*next && (begun || *next != '#')) {
            snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%s%s", *whole ? "" : " ",
                     next + (*whole ? 1 : 0));
        }
    }
    if (*whole)
        read_line(whole);
}

/* --- cases ----------------------------------------------------------------------------------- */

/* Runs the program with what the mode of the section puts in front of the text. */
static bool refused_by_program(const char *mode, const struct line *line) {
    const char *arg[FIELDS + 4] = {"-o", "out.h5", "case.ini"};
    bool alone = !strcmp(mode, "line");
    char text[2048];
    FREED(cli_free) struct cli_result result;
    memcpy(arg + (alone ? 0 : 3), line->field + 1, FIELDS * sizeof *arg);
    if (!strcmp(mode, "data"))
        snprintf(text, sizeof text, CLI_DATA("%s"), line->field[0]);
    else
        snprintf(text, sizeof text, "%s%s", !strcmp(mode, "small") ? cli_small : "",
                 line->field[0]);
    if (!alone)
        cli_print("case.ini", text);
    cli_run(&result, arg);
    bool good = cli_ended(&result, 2, (const char *const *)line->part);
    const char *const left[] = {"out.h5", "out.h5.partial"};
    for (size_t k = 0; k < COUNT(left); k++)
        if (cli_exists(left[k])) {
            print_error("%s is left\n", left[k]);
            good = false;
        }
    cli_clean(NULL);
    return good;
}

/* Whether all parts are in the one line of a message. */
static bool says(const char *message, char *const *part) {
    for (; *part; part++)
        if (!strstr(message, *part) || strchr(message, '\n')) {
            print_error("\"%s\" is not in, or more than one line: %s\n", *part, message);
            return false;
        }
    return true;
}

/* By the rows of param_table.h; its name is in the sentence but where an override is wrong. */
static bool refused_by_rows(const struct line *line) {
    FREED(fixture_free) struct fixture f;
    read_text(&f, line->field[0], (const char *const *)line->field + 1);
    bool good = f.err.code == CODE_INPUT && says(f.err.text, line->part) &&
                (line->field[1] || strstr(f.err.text, strrchr(f.path, '/') + 1));
    return good;
}

/* A run is refused where it is configured, or opened, or before anything of it is computed. */
static bool refused_run(struct run *run, struct err *err, const struct line *line) {
    if (!err->code && !run_open(run, NULL, false, err))
        run_march(run, err);
    return err->code == CODE_INPUT && says(err->text, line->part);
}

/* Of a file or of the text of one. */
static bool refused_by_keys(const struct line *line) {
    const char *file = line->field[0];
    FREED(run_free) struct run run = {0};
    struct err err = {0};
    struct fixture f = {0};
    int overrides = 0;
    while (line->field[1 + overrides])
        overrides++;
    if (strchr(file, '[')) {
        put_file(&f, file, strlen(file));
        file = f.path;
    }
    run_configure(&run, file, overrides, line->field + 1, &err);
    unlink(f.path);
    return refused_run(&run, &err, line);
}

#define HEAD "local a = population('a')\nlocal h = read_in(a, 'W1')\n"

/* A network in Lua, between lines that the mode gives. */
static bool refused_script(const char *mode, const struct line *line) {
    static const char *const around[][3] = {
        {"program", "", ""},
        {"script", HEAD, "read_out(h, 'w')\n"},
        {"output", "local a = population('a')\nlocal f = read_out(read_in(a, 'W1'), 'w')\n", ""},
        {"others",
         HEAD "local b = population('b')\nlocal u = population('u', {of = a, group = 2})\n"
              "local v = read_in(u, 'V1')\nlocal c = read_in(b, 'C1')\n",
         "read_out(h, 'w')\n"}};
    char text[1024];
    size_t k = 0;
    FREED(run_free) struct run run;
    while (k < COUNT(around) && strcmp(around[k][0], mode))
        k++;
    FAIL_IF(k == COUNT(around), "no mode %s", mode);
    snprintf(text, sizeof text, "%s%s%s", around[k][1], line->field[0], around[k][2]);
    support_script(&run, text, (const char *const *)line->field + 1, &failure);
    return refused_run(&run, &failure, line);
}

static bool of_program(const char *mode) {
    static const char *const modes[] = {"small", "ini", "data", "line"};
    bool found = false;
    for (size_t k = 0; k < COUNT(modes); k++)
        found |= !strcmp(modes[k], mode);
    return found;
}

/* All of a section, so that one run of the test shows every failure. */
static void refusals(void **state) {
    const struct section *section = *state;
    int failures = 0;
    for (int i = 0; i < section->lines; i++) {
        const struct line *line = &section->line[i];
        bool good = of_program(section->mode)          ? refused_by_program(section->mode, line)
                    : !strcmp(section->mode, "params") ? refused_by_rows(line)
                    : !strcmp(section->mode, "keys")   ? refused_by_keys(line)
                                                       : refused_script(section->mode, line);
        if (!good)
            print_error("%s: %s %s\n", section->name, line->field[0],
                        line->field[1] ? line->field[1] : "");
        failures += !good;
    }
    assert_true(section->lines > 0);
    assert_int_equal(failures, 0);
}

static char *good; /* the bytes of good.h5 */
static size_t good_size;

/* What inis and command lines of the table name. */
static int open_with_files(void **state) {
    if (cli_open(state))
        return -1;
    cli_make_data("good.h5", 2, 3, 4, 3, 3, -1);
    cli_make_data("label.h5", 2, 3, 4, 3, 3, 0.5);
    cli_make_data("nan.h5", 2, 3, 4, 3, NAN, -1);
    cli_make_data("infinite.h5", 2, 3, 4, 3, 3, INFINITY);
    cli_make_data("long.h5", 2, 3, 4, 3, 1e200, -1);
    cli_make_data("flat.h5", 1, 3, 1, 3, 3, -1);
    cli_make_data("lengths.h5", 2, 3, 4, 2, 3, -1);
    cli_make_data("rows0.h5", 2, 0, 4, 0, 3, -1);
    cli_make_data("columns0.h5", 2, 3, 0, 3, 3, -1);
    cli_make_data("no_y.h5", 2, 3, 4, -1, 3, -1);
    cli_make_data("no_x.h5", -1, 3, 4, 3, 3, -1);
    good = cli_read("good.h5", &good_size);
    cli_write("short.h5", good, good_size / 2);
    cli_print("text.h5", "X y\n");
    cli_write("nul.ini", "[network]\nmodel = \0regime2\n", 27);
    return mkdir("folder", 0777) || mkfifo("pipe.h5.partial", 0600) || mkfifo("pipe.ini", 0600);
}

/* Nothing that was there has changed. */
static void files_stay(void **state) {
    (void)state;
    size_t size;
    FREED(base_free) char *bytes = cli_read("small.ini", NULL);
    assert_string_equal(bytes, cli_small);
    free(bytes);
    bytes = cli_read("good.h5", &size);
    assert_true(size == good_size && !memcmp(bytes, good, size));
    free(good);
    assert_false(cli_exists("small.h5") || cli_exists("folder/out.h5"));
    assert_false(cli_exists("good.h5.partial") || cli_exists("small.ini.partial"));
}

int main(void) {
    struct CMUnitTest tests[2][SECTIONS + 1];
    size_t counts[2] = {0};
    read_table("tests/refusals.txt");
    read_table("tests/refusals_lua.txt");
    for (int i = 0; i < count; i++) {
        if (!strcmp(sections[i].mode, "sweep"))
            continue;
        int where = of_program(sections[i].mode);
        tests[where][counts[where]++] = (struct CMUnitTest){
            .name = sections[i].name, .test_func = refusals, .initial_state = &sections[i]};
    }
    tests[1][counts[1]++] = (struct CMUnitTest)cmocka_unit_test(files_stay);
    return _cmocka_run_group_tests("refusals", tests[0], counts[0], NULL, NULL) +
           _cmocka_run_group_tests("refusals of the program", tests[1], counts[1], open_with_files,
                                   cli_close);
}
