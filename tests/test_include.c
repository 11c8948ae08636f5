/* Comments, quotes, and ini files that include others, from outside. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"
#include "kernels/base/text.h"

#include <sys/stat.h>

static const char base[] =
    "[network]\nmodel = regime2 # sites and units\n[training]\nsteps = 2\t; few\neta0 = 0.5\n"
    "[solver] # small\nsites = 64\nexpert_sites = 64\nreplicates = 1\n";

static char *value(const char *name, const char *key) {
    hid_t file = cli_file(name);
    char *text = cli_text(file, "parameters", "ini"), *found = NULL, line[64];
    snprintf(line, sizeof line, "\n%s = ", key);
    char *at = strstr(text, line);
    if (at) {
        at += strlen(line);
        at[strcspn(at, "\n")] = '\0';
        found = strdup(at);
    }
    free(text);
    H5Fclose(file);
    return found;
}

static void check_value(const char *name, const char *key, const char *want) {
    char *found = value(name, key);
    assert_non_null(found);
    assert_string_equal(found, want);
    free(found);
}

static void solve(const char *ini, const char *output, const char *const *more) {
    struct cli_result result;
    const char *arg[8] = {"--force", "-o", output, ini};
    for (int k = 0; more && more[k]; k++)
        arg[4 + k] = more[k];
    cli_run(&result, arg);
    if (result.code)
        fail_msg("%s: %s", ini, result.err);
    cli_free(&result);
}

CLEAN_TEST(test_values) {
    static const struct {
        const char *text, *value;
    } table[] = {
        {" a b ", "a b"},
        {"a # b", "a"},
        {"a #b ; c", "a"},
        {"a#b;c", "a#b;c"},
        {" # a", ""},
        {"# a", ""},
        {"", ""},
        {"\"a # b\"", "a # b"},
        {" \"a\" # b", "a"},
        {"\"a\"\"b\"", "a\"b"},
        {"\" a \"", " a "},
        {"\"\"", ""},
        {"\"a", NULL},
        {"\"a\" b", NULL},
        {"\"a\"# b", NULL},
        {"\"a\"\"", NULL},
        {"a \"b # c\"", "a \"b"},
    };
    for (size_t k = 0; k < COUNT(table); k++) {
        char text[32];
        snprintf(text, sizeof text, "%s", table[k].text);
        const char *found = text_value(text);
        if (!found != !table[k].value || (found && strcmp(found, table[k].value)))
            fail_msg("[%s]: [%s]", table[k].text, found ? found : "refused");
    }
}

/* A folder with the beginning of a comment in its name: what is recorded is read back. */
CLEAN_TEST(test_record_of_strange_paths) {
    char *text = malloc(sizeof base + 128);
    assert_int_equal(mkdir("set #1 \"x\"", 0777), 0);
    cli_make_data("set #1 \"x\"/good.h5", 2, 3, 4, 3, 3, -1);
    sprintf(text, "%s[data]\nsource = file\nfile = \"set #1 \"\"x\"\"/good.h5\" # here\n", base);
    cli_print("quotes.ini", text);
    solve("quotes.ini", "first.h5", NULL);
    hid_t file = cli_file("first.h5");
    char *ini = cli_text(file, "parameters", "ini");
    H5Fclose(file);
    cli_print("again.ini", ini);
    solve("again.ini", "second.h5", NULL);
    assert_true(cli_same("first.h5", "second.h5", "limit/loss"));
    assert_true(cli_same("first.h5", "second.h5", "data/X"));
    free(ini);
    free(text);
}

/* The text of an attribute of this file, to be freed. */
static char *text_of(const char *name, const char *object, const char *attribute) {
    hid_t file = cli_file(name);
    char *text = cli_text(file, object, attribute);
    H5Fclose(file);
    return text;
}

static const char program[] =
    "local s = population('s')\nlocal h = read_in(s, 'W1')\n"
    "if key('act') == 'tanh # \"x' then h = tanh(h) else h = 3 * relu(h) end\n"
    "read_out(h, 'w')\n";
static const char program_rest[] =
    "[data]\ninputs = 2\n[training]\nsteps = 2\n[solver]\nsites = 16\nreplicates = 1\n";

/* What is recorded of a network in Lua repeats the run without its file, also words that need
 * quotes; and readers get its text as it was written, no more and no less. */
CLEAN_TEST(test_record_of_programs) {
    char text[512];
    cli_print("words.lua", program);
    snprintf(text, sizeof text,
             "[network]\nprogram = words.lua\n%s[program]\nact = \"tanh # \"\"x\"\n", program_rest);
    cli_print("words.ini", text);
    solve("words.ini", "words.h5", NULL);
    char *ini = text_of("words.h5", "parameters", "ini");
    assert_non_null(strstr(ini, "\nact = \"tanh # \"\"x\"\n"));
    assert_int_equal(rename("words.lua", "words.old"), 0);
    cli_print("reworded.ini", ini);
    solve("reworded.ini", "reworded.h5", NULL);
    assert_true(cli_same("words.h5", "reworded.h5", "limit/loss"));
    setenv("MALLOC_PERTURB_", "165", 1); /* fresh memory is not zero */
    solve("reworded.ini", "reworded.h5", NULL);
    unsetenv("MALLOC_PERTURB_");
    char *kept = text_of("reworded.h5", "provenance", "network");
    assert_string_equal(kept, program);
    free(kept);
    free(ini);
}

/* Later lines go over earlier ones, the including file over all, the command line over it; paths
 * count from the file that they stand in. The record alone repeats the run. */
CLEAN_TEST(test_includes) {
    assert_int_equal(mkdir("parts", 0777), 0);
    cli_print("parts/base.ini", base);
    cli_make_data("parts/good.h5", 2, 3, 4, 3, 3, -1);
    cli_print("parts/data.ini", "include = base.ini\n[data]\nsource = file\nfile = good.h5\n"
                                "[training]\neta0 = 0.25\ngamma0 = 2\n[rates]\nQ = 3\n");
    cli_print("parts/rates.ini", "[rates]\nQ = 0.5\nW1 = 2\n");
    cli_print("main.ini", "# all\ninclude = parts/data.ini ; first\ninclude = parts/rates.ini\n"
                          "[training]\ngamma0 = 0.5\n");
    solve("main.ini", "main.h5", ARGS("--training.steps=3"));
    check_value("main.h5", "model", "regime2");
    check_value("main.h5", "eta0", "0.25");
    check_value("main.h5", "gamma0", "0.5");
    check_value("main.h5", "steps", "3");
    check_value("main.h5", "Q", "0.5");
    check_value("main.h5", "W1", "2");
    hid_t file = cli_file("main.h5");
    char *ini = cli_text(file, "parameters", "ini");
    H5Fclose(file);
    struct cli_result result;
    cli_run(&result, ARGS("--defaults", "main.ini", "--training.steps=3"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.out, "\neta0 = 0.25\n"));
    assert_non_null(strstr(result.out, "\nfile = parts/good.h5\n"));
    cli_free(&result);
    cli_print("parts/alone.ini", ini);
    solve("parts/alone.ini", "alone.h5", NULL);
    assert_true(cli_same("main.h5", "alone.h5", "limit/loss"));
    assert_true(cli_same("main.h5", "alone.h5", "data/X"));
    free(ini);
}

/* Names of rows are no paths; paths of an included file count from its folder alone, wherever the
 * program is started; and the record of a network in Lua may be included. */
CLEAN_TEST(test_included_from_elsewhere) {
    char text[512];
    assert_int_equal(mkdir("far", 0777), 0);
    assert_int_equal(mkdir("far/sub", 0777), 0);
    cli_print("far/base.ini", base);
    cli_make_data("far/x.h5", 2, 3, 4, 3, 3, -1);
    cli_make_data("far/sub/x.h5", 2, 2, 4, 2, 3, -1);
    cli_print("far/rows.ini", "include = base.ini\n[data]\nsource = file\nfile = x.h5\n"
                              "[output]\nfields = h1\nkernels_of = h1\n");
    cli_print("far/sub/data.ini", "[data]\nfile = x.h5\n");
    cli_print("far/one.ini", "include = rows.ini\n");
    cli_print("far/two.ini", "include = rows.ini\ninclude = sub/data.ini\n");
    solve("far/one.ini", "one.h5", NULL);
    solve("far/two.ini", "two.h5", NULL);
    check_value("one.h5", "fields", "h1");
    for (int k = 0; k < 2; k++) {
        size_t count;
        hid_t file = cli_file(k ? "two.h5" : "one.h5");
        free(cli_values(file, "data/X", &count));
        H5Fclose(file);
        assert_int_equal(count, k ? 8 : 12);
    }

    cli_print("far/sub/words.lua", program);
    snprintf(text, sizeof text, "[network]\nprogram = words.lua\n%s[program]\nact = b\n",
             program_rest);
    cli_print("far/sub/words.ini", text);
    cli_print("far/words.ini", "include = sub/words.ini\n");
    solve("far/words.ini", "far.h5", NULL);
    char *ini = text_of("far.h5", "parameters", "ini");
    cli_print("far/sub/record.ini", ini);
    cli_print("far/record.ini", "include = sub/record.ini\n");
    solve("far/record.ini", "record.h5", NULL);
    assert_true(cli_same("far.h5", "record.h5", "limit/loss"));
    free(ini);
}

CLEAN_TEST(test_refusals) {
    static const struct {
        const char *ini, *part[3];
    } table[] = {
        {"include = none.ini\n",
         {"case.ini:1: include = none.ini: none.ini: cannot be opened: No such file"}},
        {"include =\n", {"case.ini:1: include", "which file?"}},
        {"include = /dev/zero\n", {"/dev/zero: is not a regular file"}},
        {"include = parts\n", {"parts: is a folder"}},
        {"include = case.ini\n", {"case.ini:1:", "case.ini would include itself"}},
        {"include = parts/many_7.ini\n", {"more than 1000 files are included"}},
        {"include = parts/a.ini\n", {"parts/b.ini:2: include = a.ini", "would include itself"}},
        {"include = parts/bad.ini\n", {"parts/bad.ini:3: [training] eta: unknown key", "\"eta0\""}},
        {"include = parts/value.ini\n", {"parts/value.ini:2: [training] eta0 = fast: not a"}},
        {"include = parts/sweep.ini\n", {"parts/sweep.ini:1: [sweep]: it must stand in the ini"}},
        {"[network]\ninclude = parts/a.ini\n", {"case.ini:2: [network] include: unknown key"}},
        {"[network]\nmodel = \"regime2\n", {"case.ini:2: [network]", "in double quotes ends"}},
        {"[network]\nmodel = regime2\nmodel = dense\n", {"duplicate key, given before in line 2"}},
        {"include = parts/unused.ini\n[network]\nmodel = dense\n",
         {"parts/unused.ini:2: [network] kappa = 2: model = dense does not use it"}},
    };
    for (int k = 0; k < 8; k++) { /* eight files of the next kind each: 8^7 */
        char name[32], text[256] = "";
        snprintf(name, sizeof name, "parts/many_%d.ini", k);
        for (int j = 0; k && j < 8; j++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "include = many_%d.ini\n",
                     k - 1);
        cli_print(name, text);
    }
    cli_print("parts/a.ini", "include = b.ini\n");
    cli_print("parts/b.ini", "\ninclude = a.ini\n");
    cli_print("parts/bad.ini", "[training]\n\neta = 1\n");
    cli_print("parts/value.ini", "[training]\neta0 = fast\n");
    cli_print("parts/sweep.ini", "[sweep]\ntraining.eta0 = 1 2 3\n");
    cli_print("parts/unused.ini", "[network]\nkappa = 2\n");
    for (size_t k = 0; k < COUNT(table); k++) {
        struct cli_result result;
        cli_print("case.ini", table[k].ini);
        cli_run(&result, ARGS("-o", "out.h5", "case.ini"));
        if (!cli_ended(&result, 2, table[k].part))
            fail_msg("case %zu", k);
        cli_free(&result);
    }
}

/* The ini in the summary of a sweep repeats it without the files that were included. */
CLEAN_TEST(test_sweeps) {
    struct cli_result result;
    cli_print("sweep.ini", "include = parts/base.ini\n[sweep] # two\ntraining.eta0 = 0.1 1 # 10\n");
    cli_program("dmft-sweep");
    cli_run(&result, ARGS("-o", "sweep.h5", "sweep.ini", "--training.gamma0=0.5"));
    assert_int_equal(result.code, 0);
    cli_free(&result);
    hid_t file = cli_file("sweep.h5");
    char *ini = cli_text(file, "parameters", "ini");
    H5Fclose(file);
    assert_int_equal(rename("parts/base.ini", "parts/hidden"), 0);
    cli_print("resweep.ini", ini);
    cli_run(&result, ARGS("-o", "resweep.h5", "resweep.ini"));
    if (result.code)
        fail_msg("%s", result.err);
    assert_true(cli_same("sweep.h5", "resweep.h5", "sweep/loss"));
    assert_int_equal(rename("parts/hidden", "parts/base.ini"), 0);
    cli_free(&result);
    free(ini);
    cli_program("dmft-solve");
}

static void sweep(const char *output, const char *ini) {
    struct cli_result result;
    cli_program("dmft-sweep");
    cli_run(&result, ARGS("--quiet", "--jobs", "2", "-o", output, ini));
    if (result.code)
        fail_msg("%s: %s", ini, result.err);
    cli_free(&result);
    cli_program("dmft-solve");
}

/* Paths among the values of a sweep count from its ini, and what is recorded repeats the sweep from
 * another folder: with the data, the text of a program, words of choices that use other keys. */
CLEAN_TEST(test_sweeps_from_elsewhere) {
    char text[512];
    assert_int_equal(mkdir("away", 0777), 0);
    assert_int_equal(mkdir("away/again", 0777), 0);
    cli_make_data("away/a.h5", 2, 3, 4, 3, 3, -1);
    cli_make_data("away/b.h5", 2, 3, 4, 3, 2, 1);
    cli_print("away/words.lua", program);
    cli_print("away/other.lua", "local s = population('s')\nlocal h = read_in(s, 'W1')\n"
                                "read_out(tanh(h), 'w')\n");
    cli_print("away/third.lua", "local s = population('s')\nlocal h = read_in(s, 'W1')\n"
                                "read_out(relu(h), 'w')\n");
    static const char rest[] = "[training]\nsteps = 2\n[solver]\nsites = 16\nreplicates = 1\n";
    static const char *const inis[] = {
        "[network]\nmodel = dense\n[data]\nsource = file\nfile = a.h5\n[sweep]\n"
        "data.file = a.h5 b.h5\ntraining.optimizer = adam gd\n",
        "[network]\nprogram = words.lua\n[data]\ninputs = 2\n[program]\nact = \"tanh # \"\"x\"\n"
        "[sweep]\ntraining.eta0, training.gamma0 = 0.1 1 | 0.2 0.5 # two\n",
        "[network]\nprogram = words.lua\n[data]\ninputs = 2\n"
        "[sweep]\nnetwork.program = other.lua third.lua\n",
    };
    for (int k = 0; k < 3; k++) {
        char first[32], second[32];
        snprintf(first, sizeof first, "away_%d.h5", k);
        snprintf(second, sizeof second, "again_%d.h5", k);
        snprintf(text, sizeof text, "%s%s", rest, inis[k]);
        cli_print("away/sweep.ini", text);
        sweep(first, "away/sweep.ini");
        char *ini = text_of(first, "parameters", "ini");
        cli_print("away/again/sweep.ini", ini);
        assert_int_equal(rename("away/words.lua", "away/hidden"), 0);
        sweep(second, "away/again/sweep.ini");
        assert_int_equal(rename("away/hidden", "away/words.lua"), 0);
        assert_true(cli_same(first, second, "sweep/loss"));
        free(ini);
    }
}

/* What was read is not written over: not the ini alone. */
CLEAN_TEST(test_inputs_are_spared) {
    char text[512];
    cli_print("spared.ini", "[training]\neta0 = 0.5\n");
    cli_print("spared.lua", program);
    snprintf(text, sizeof text,
             "include = spared.ini\n[network]\nprogram = spared.lua\n[program]\nact = b\n%s",
             program_rest);
    cli_print("sparing.ini", text);
    static const char *const names[] = {"spared.ini", "spared.lua", "sparing.ini"};
    for (int k = 0; k < 3; k++) {
        struct cli_result result;
        cli_run(&result, ARGS("--force", "-o", names[k], "sparing.ini"));
        if (!cli_ended(&result, 2, ARGS("would overwrite an input of this run")))
            fail_msg("%s", names[k]);
        cli_free(&result);
    }
    struct cli_result result;
    cli_program("dmft-sweep");
    cli_print("blank.ini", "include = parts/base.ini\n[sweep]\ntraining.eta0 = 0.1 1\n");
    cli_run(&result, ARGS("-o", "blank.h5", "blank.ini", "-- training . eta0 = 0.5"));
    assert_true(cli_ended(&result, 2, ARGS("[sweep] varies this key")));
    cli_free(&result);
    cli_print("paths.ini", "[network]\nmodel = dense\n[data]\nsource = file\nfile = away/a.h5\n"
                           "[sweep]\ndata.file = away/a.h5 away/b.h5\n");
    cli_run(&result, ARGS("--force", "-o", "away/b.h5", "paths.ini"));
    assert_true(cli_ended(&result, 2, ARGS("-o away/b.h5 would overwrite an input")));
    cli_free(&result);
    cli_program("dmft-solve");
}

/* A source on the command line takes the place of that in the file: keys of [data] that do not
 * go with it are left out there, in an included file, too, and refused beside it. */
CLEAN_TEST(test_another_source) {
    struct cli_result result;
    cli_make_data("data.h5", 2, 3, 4, 3, -1, -1);
    cli_print("parts/data.ini", "[data]\ninputs = 6\nseed = 2\n");
    cli_print("case.ini", "include = parts/data.ini\ninclude = parts/base.ini\n[data]\n"
                          "dimension = 3\n");
    solve("case.ini", "out.h5", ARGS("--data.source=file", "--data.file=data.h5"));
    check_value("out.h5", "source", "file");
    cli_run(&result, ARGS("-o", "new.h5", "case.ini", "--data.source=file", "--data.file=data.h5",
                          "--data.inputs=6"));
    assert_true(cli_ended(&result, 2, ARGS("--data.inputs=6", "used only when")));
    cli_free(&result);
    cli_print("case.ini", "include = parts/base.ini\n[data]\nsource = file\nfile = data.h5\n"
                          "dimension = 3\n");
    cli_run(&result, ARGS("-o", "new.h5", "case.ini"));
    assert_true(cli_ended(&result, 2, ARGS("[data] dimension = 3", "used only when")));
    cli_free(&result);
}

/* A signal is heeded while files are read, which are included here or not. */
CLEAN_TEST(signals_while_reading) {
    static volatile sig_atomic_t signalled;
    struct param_section *sections;
    size_t count;
    ASK(config_sections(&sections, &count, err));
    cli_print("included.ini", "[data]\ninputs = 4\n");
    cli_print("main.ini", "include = included.ini\n[network]\nmodel = dense\n");
    for (int heeded = 0; heeded < 2; heeded++)
        for (signalled = 0; signalled < 2; signalled++) {
            struct params params;
            struct config config;
            struct err why = {0};
            base_heed(heeded ? &signalled : NULL);
            int code = params_read(&params, sections, count, "main.ini", 0, NULL, &config, &why);
            base_heed(NULL);
            params_free(&params);
            assert_int_equal(code, heeded && signalled ? CODE_INTERRUPTED : CODE_OK);
            if (code)
                assert_string_equal(why.text, "interrupted while reading main.ini");
        }
    free(sections);
}

AROUND_TESTS(cli_open, cli_close)
