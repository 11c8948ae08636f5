/* The ini file: what is read, and what is written. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/param_read.h"

/* Both integer lists, and numbers by their bits. */
static void same_config(const struct fixture *a, const struct fixture *b) {
    const struct table_network *n = &a->config.network, *m = &b->config.network;
    assert_string_equal(a->config.run.out, b->config.run.out);
    assert_string_equal(a->config.run.title, b->config.run.title);
    assert_int_equal(a->config.run.steps, b->config.run.steps);
    assert_int_equal(a->config.run.threads, b->config.run.threads);
    assert_true(a->config.run.seed == b->config.run.seed);
    assert_int_equal(n->gate, m->gate);
    assert_int_equal(n->shape, m->shape);
    assert_int_equal(n->experts, m->experts);
    assert_memory_equal(&n->kappa, &m->kappa, sizeof n->kappa);
    assert_memory_equal(&n->eta0, &m->eta0, sizeof n->eta0);
    assert_memory_equal(&n->slope, &m->slope, sizeof n->slope);
    assert_memory_equal(&n->floor, &m->floor, sizeof n->floor);
    assert_memory_equal(&n->widths, &m->widths, sizeof n->widths);
    assert_memory_equal(&n->any, &m->any, sizeof n->any);
    assert_string_equal(n->weights, m->weights);
}

TEST(test_defaults_are_filled) {
    FREED(fixture_free) struct fixture f;
    accept(&f, "", NULL);
    assert_string_equal(f.config.run.out, "out.h5");
    assert_string_equal(f.config.run.title, "");
    assert_int_equal(f.config.run.steps, 7);
    assert_true(f.config.run.seed == 1);
    assert_int_equal(f.config.network.gate, 1);
    assert_int_equal(f.config.network.experts, 4);
    assert_true(f.config.network.kappa == 0.5 && f.config.network.eta0 == 0.1);
    assert_true(f.config.network.floor == -0.25);
    assert_int_equal(f.config.network.widths.count, 2);
    assert_int_equal(f.config.network.widths.value[1], 128);
    assert_int_equal(f.config.network.any.count, 0);
    /* unused, and without a default */
    assert_true(f.config.network.slope == 0.0);
    assert_string_equal(f.config.network.weights, "");
    assert_int_equal(params_find(&f.params, "run", "steps")->line, STEPS_LINE);
    assert_int_equal(params_find(&f.params, "network", "kappa")->line, 0);
    assert_string_equal(params_find(&f.params, "network", "eta0")->text, "1e-1");
    assert_null(params_find(&f.params, "network", "steps"));
    assert_null(params_find(&f.params, "nowhere", "steps"));
    params_free(&f.params);
}

TEST(test_every_type_is_read) {
    FREED(fixture_free) struct fixture f;
    accept(&f,
           "title=a b\nseed = 18446744073709551615\n  threads\t=  -2147483648  \n"
           "; a comment\n  # another = 3\n\n[ network ]\ngate = softmax\nshape = smooth\n"
           "kappa = 0x1p-2\neta0 = +.5E1\nslope = -3\nfloor=1e-320\nwidths = 1\t 2  4096\n"
           "any =\nweights =\n[run]\nout = /tmp/x=y.h5\n",
           NULL);
    assert_string_equal(f.config.run.title, "a b");
    assert_true(f.config.run.seed == UINT64_MAX);
    assert_true(f.config.run.threads == INT32_MIN);
    assert_string_equal(f.config.run.out, "/tmp/x=y.h5");
    assert_int_equal(f.config.network.gate, 3);
    assert_int_equal(f.config.network.shape, 1);
    assert_true(f.config.network.kappa == 0.25 && f.config.network.eta0 == 5.0);
    assert_true(f.config.network.slope == -3.0 && f.config.network.floor == 1e-320);
    assert_int_equal(f.config.network.widths.count, 3);
    assert_int_equal(f.config.network.widths.value[2], 4096);
    assert_int_equal(f.config.network.any.count, 0);
    assert_string_equal(f.config.network.weights, "");
    assert_string_equal(params_find(&f.params, "network", "kappa")->text, "0x1p-2");
    assert_int_equal(params_find(&f.params, "network", "gate")->line, 10);
}

/* However they are written, and without rounding. */
TEST(test_whole_numbers) {
    static const STRUCT(const char *text; int value) table[] =
        LIST({"1.5e3", 1500}, {"1500.0", 1500}, {"15e+2", 1500}, {"150000E-2", 1500}, {"-.2e1", -2},
             {"+7", 7}, {"1.", 1}, {"0e99999", 0}, {"0.00e-5", 0}, {"2.147483647e9", INT32_MAX},
             {"-2147483648", INT32_MIN});
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(fixture_free) struct fixture f;
        TEXT(text, 64, "threads = %s\n", table[i].text);
        accept(&f, text, NULL);
        assert_int_equal(f.config.run.threads, table[i].value);
    }
    FREED(fixture_free) struct fixture f;
    accept(&f, "seed = 1.8446744073709551615e19\n[network]\nwidths = 1e2 1.5e3\n", NULL);
    assert_true(f.config.run.seed == UINT64_MAX);
    assert_int_equal(f.config.network.widths.value[0], 100);
    assert_int_equal(f.config.network.widths.value[1], 1500);
    params_free(&f.params);
    accept(&f, "seed = 1e3\n", NULL);
    assert_true(f.config.run.seed == 1000);
}

TEST(test_list_of_full_length) {
    FREED(fixture_free) struct fixture f;
    char text[512] = "[network]\nany =";
    for (int i = 0; i < INT_LIST_MAX; i++)
        strcat(text, " -12345");
    accept(&f, text, NULL);
    assert_int_equal(f.config.network.any.count, INT_LIST_MAX);
    assert_int_equal(f.config.network.any.value[INT_LIST_MAX - 1], -12345);
    params_free(&f.params);
    accept(&f, "[network]\nany = none", NULL);
    assert_int_equal(f.config.network.any.count, 0);
}

TEST(test_shapes_of_a_file) {
    struct fixture f;
    static const char *const good[] = {
        "[run]\r\nsteps = 7\r\ntitle = \"t ; u # v\"\r\n",       /* CRLF */
        "\xef\xbb\xbf[run]\nsteps = 7\ntitle = \"t ; u # v\"\n", /* byte order mark */
        "\xef\xbb\xbf\r\n[run]\r\nsteps = 7\r\r\ntitle=\"t ; u # v\"",
        "[run]\nsteps = 7\ntitle = \"t ; u # v\"",                            /* no last newline */
        "[run] # one\nsteps = 7 ; seven\ntitle = \"t ; u # v\"\t# \"two\"\n", /* comments */
        "  [run]  \n\tsteps = 7\n    title = \t \"t ; u # v\" \t ", /* no continuation lines */
        "[run]\nsteps = 7\n[network]\n[run]\ntitle = \"t ; u # v\"\n[network]\n[network]",
        "#\n;\n\n \n[run]\nsteps=7\n# title = x\ntitle=\"t ; u # v\"\n",
    };
    for (size_t i = 0; i < COUNT(good); i++) {
        accept_bytes(&f, good[i], strlen(good[i]));
        assert_int_equal(f.config.run.steps, 7);
        assert_string_equal(f.config.run.title, "t ; u # v");
        params_free(&f.params);
    }
}

TEST(test_values_belong_to_their_line) {
    struct fixture f;
    static const char *const values[] = {
        "a;b", "a#", "[a]", "k = v", "k: v", "a\tb \"c\"", "\xf0\x9f\x8c\x8d\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < COUNT(values); i++) {
        TEXT(text, 64, "title = %s\n", values[i]);
        accept(&f, text, NULL);
        assert_string_equal(f.config.run.title, values[i]);
        params_free(&f.params);
    }
}

TEST(test_line_of_any_length) {
    FREED(fixture_free) struct fixture f;
    char value[5001], text[20000] = "# ", *end = text + 2;
    for (size_t i = 0; i < 5000; i++)
        value[i] = (char)('a' + i % 26);
    value[199] = value[2500] = ';';
    value[200] = value[2501] = ' ';
    value[5000] = '\0';
    end += sprintf(end, "%s\ntitle = %s\n", value, value);
    /* thousands of blanks before and behind */
    sprintf(end, "%4000s seed %3000s 5", "", "=");
    accept(&f, text, NULL);
    assert_string_equal(f.config.run.title, value);
    assert_true(f.config.run.seed == 5);
    assert_int_equal(params_find(&f.params, "run", "seed")->line, 5);
}

TEST(test_overrides) {
    FREED(fixture_free) struct fixture f;
    accept(&f, "title = file\n", "--run.title= line ; 1 ");
    assert_string_equal(f.config.run.title, "line ; 1");
    assert_int_equal(params_find(&f.params, "run", "title")->line, ON_COMMAND_LINE);
    params_free(&f.params);
    accept(&f, "", "run.seed = 5");
    assert_true(f.config.run.seed == 5);
    params_free(&f.params);
    assert_int_equal(read_text(&f, "", ARGS("--run.steps=8", "--network.any=1 2", "run.steps=9")),
                     CODE_OK);
    assert_int_equal(f.config.run.steps, 9);
    assert_int_equal(f.config.network.any.count, 2);
}

/* As a string to free. */
static char *written(const struct params *params) {
    char *text;
    size_t size;
    assert_int_equal(params_text(params, &text, &size, &failure), CODE_OK);
    return text;
}

static char *defaults(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    params_defaults(table_sections, TABLE_COUNT, stream);
    fclose(stream);
    return text;
}

TEST(test_defaults_read_back) {
    FREED(fixture_free) struct fixture f, g;
    char *text = defaults(), *given[] = {"--run.steps=7"};
    assert_non_null(strstr(text, "\n# steps =\n"));
    assert_non_null(strstr(text, "\n# Free text.\n# Of two lines.\n"));
    assert_non_null(
        strstr(text, "\n# Learning rate.\n# Allowed: a number, at least 0.\neta0 = 1e-1\n"));
    assert_non_null(strstr(text, "used only when gate = sigmoid or softmax.\n# shape = hard\n"));
    assert_int_equal(read_bytes(&f, text, strlen(text), 1, given), CODE_OK);
    accept(&g, "", NULL);
    same_config(&f, &g);
    free(text);
}

TEST(test_written_values_read_back) {
    static const char *const texts[] = LIST(
        "",
        "title = # ; = [x]\nseed = 18446744073709551615\n[network]\nany = -1 5\nwidths=\nexperts=9",
        "out =\n[network]\ngate = softmax\nshape = smooth\nslope = 0.1\nweights = =w\nkappa=1e-3",
        "[network]\ngate = sigmoid\neta0 = 0.30000000000000004\nfloor = -0x1.8p-3\nwidths = none");
    for (size_t i = 0; i < COUNT(texts); i++) {
        FREED(fixture_free) struct fixture f, g;
        accept(&f, texts[i], i ? "--network.kappa=0.125" : NULL);
        FREED(base_free) char *text = written(&f.params);
        accept_bytes(&g, text, strlen(text));
        same_config(&f, &g);
        FREED(base_free) char *again = written(&g.params);
        assert_string_equal(text, again);
    }
}

TEST(test_help) {
    FREED(base_free) char *text = NULL;
    size_t size = 0, keys = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    params_help(table_sections, TABLE_COUNT, stream);
    fclose(stream);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        keys += !strncmp(at, "\n  ", 3) && at[3] != ' ';
    assert_int_equal(keys, table_sections[0].count + table_sections[1].count + 2);
    assert_non_null(strstr(text, "\n[run] What to run.\n  run.out "));
    assert_non_null(strstr(text, "Active share. [default 0.5; a number, 0 to 1]\n"));
    assert_non_null(strstr(text, "[required; an integer, 1 to 1000]"));
    assert_non_null(strstr(text, "Free text. [default empty; text]\n   "));
    assert_non_null(strstr(text, "   Of two lines.\n  run.steps "));
    assert_non_null(strstr(text, " [default hard; one of hard smooth; only when gate =\n "));
}
