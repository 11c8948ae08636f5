/* The ini file: what is refused that is not a line of tests/refusals.txt. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/param_read.h"

TEST(test_conditions_are_checked) {
    FREED(fixture_free) struct fixture f;
    assert_int_equal(read_bytes(&f, "[network]\n", 10, 0, NULL), CODE_INPUT);
    assert_non_null(strstr(f.err.text, ": [run] steps: the key must be given; an integer, 1 to"));
    params_free(&f.params);
    assert_int_equal(read_bytes(&f, "", 0, 0, NULL), CODE_INPUT);
    params_free(&f.params);
    accept(&f, "[network]\nslope = 1\nshape = smooth\ngate = sigmoid\n", NULL);
    assert_true(f.config.network.slope == 1.0);
}

/* Whole files, without the beginning. */
static void refuse_bytes(const char *bytes, size_t size, const char *part) {
    FREED(fixture_free) struct fixture f;
    assert_int_equal(read_bytes(&f, bytes, size, 0, NULL), CODE_INPUT);
    FAIL_IF(!strstr(f.err.text, part), "\"%s\" is not in: %s", part, f.err.text);
    assert_non_null(strstr(f.err.text, strrchr(f.path, '/') + 1));
}
#define REFUSE(literal, part) refuse_bytes(literal, sizeof(literal) - 1, part)

TEST(test_not_a_text_file) {
    REFUSE("[run]\nsteps = \0007\n", ":2: not a text file (byte 0x00)");
    REFUSE("\0", ":1: not a text file (byte 0x00)");
    REFUSE("\177ELF\2\1\1\0", ":1: not a text file (byte 0x02)");
    REFUSE("\x89HDF\r\n\x1a\n", "is an HDF5 file, not an ini");
    REFUSE("[run]\rsteps = 7\r", ":1: a control character or not UTF-8 (byte 0x0d)");
    REFUSE("\xff\xfe[\0", ":1: not a text file (byte 0x00)");
    REFUSE("[run]\ntitle = a\033[2J\n", ":2: not a text file (byte 0x1b)");
    REFUSE("[run]\ntitle = \xc0\xaf\n", ":2: a control character or not UTF-8 (byte 0xc0)");
    REFUSE("[run]\ntitle = \xe0\x80\xaf\n", "(byte 0xe0)"); /* overlong */
    REFUSE("[run]\ntitle = \xed\xa0\x80\n", "(byte 0xed)"); /* surrogate */
    REFUSE("[run]\ntitle = \xf0\x8f\xbf\xbf\n", "(byte 0xf0)");
    REFUSE("[run]\ntitle = \xf4\x90\x80\x80\n", "(byte 0xf4)"); /* beyond U+10FFFF */
    REFUSE("[run]\ntitle = \xc2\x9b\n", "(byte 0xc2)");         /* U+009B, a control character */
    REFUSE("[run]\ntitle = \xe2\x82", "(byte 0xe2)");           /* cut short */
    REFUSE("[run]\ntitle = \x7f\n", "(byte 0x7f)");
    REFUSE("steps = 7\n[run]\n", ":1: key \"steps\" before the first [section]");
}

static int read_open(struct fixture *f, const char *name, FILE *stream) {
    struct param_source source = {name, stream, 0, NULL, 0};
    return params_read_stream(&f->params, table_sections, TABLE_COUNT, &source, &f->config,
                              &f->err);
}

TEST(test_not_a_file) {
    static const char *const cases[][2] = {
        {"/tmp", "/tmp: is a folder"},
        {"/no/such.ini", "/no/such.ini: cannot be opened: No such file"},
        {"", "cannot be opened"},
        {"/dev/zero", "/dev/zero: is not a regular file"},
    };
    struct fixture f;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int code = params_read(&f.params, table_sections, TABLE_COUNT, cases[i][0], 0, NULL,
                               &f.config, &f.err);
        assert_true(code == CODE_INPUT && strstr(f.err.text, cases[i][1]));
        params_free(&f.params);
    }
    FILE *stream = fopen("/dev/null", "w"); /* cannot be read */
    assert_non_null(stream);
    assert_int_equal(read_open(&f, "a.ini", stream), CODE_SYSTEM);
    assert_non_null(strstr(f.err.text, "a.ini: cannot be read"));
    fclose(stream);
    params_free(&f.params);
    f.params = (struct params){0}, params_free(&f.params);
}

/* A message stays within its buffer, keeps its reason and cuts between characters. */
TEST(test_long_names_in_messages) {
    FREED(fixture_free) struct fixture f;
    char text[12001];
    strcpy(text, "[network]\n");
    for (size_t i = 0; i < 3000; i++)
        strcat(text, "\xc3\xa9");
    strcat(text, " = 3\n");
    assert_int_equal(read_text(&f, text, NULL), CODE_INPUT);
    assert_non_null(strstr(f.err.text, "\xa9...: unknown key"));
    params_free(&f.params);
    text[0] = '#';
    assert_int_equal(read_text(&f, text, NULL), CODE_INPUT);
    assert_non_null(strstr(f.err.text, "...: unknown key"));
    params_free(&f.params);
    memset(text, 'k', 9000);
    text[9000] = '\0';
    assert_int_equal(read_text(&f, text, ARGS("--a.b=c")), CODE_INPUT);
    assert_non_null(strstr(f.err.text, ":3:"));
    params_free(&f.params);
    FREED(base_close) FILE *stream = fmemopen(text, 1, "r");
    assert_non_null(stream);
    text[8999] = '\0'; /* a file of that name */
    assert_int_equal(read_open(&f, text, stream), CODE_INPUT);
    assert_non_null(strstr(f.err.text, "k:1: \"k\" has no \"=\""));
}

TEST(test_errors_across_keys) {
    FREED(fixture_free) struct fixture f;
    char want[1024];
    accept(&f, "", "--run.seed=5");
    assert_int_equal(params_error(&f.params, "run", "steps", &f.err, "must exceed %d", 9),
                     CODE_INPUT);
    snprintf(want, sizeof want, "%s:2: [run] steps = 7: must exceed 9", f.path);
    assert_string_equal(f.err.text, want);
    params_error(&f.params, "run", "seed", &f.err, "odd");
    assert_string_equal(f.err.text, "--run.seed=5: odd");
    params_error(&f.params, "network", "kappa", &f.err, "small");
    snprintf(want, sizeof want, "%s: [network] kappa = 0.5 (default): small", f.path);
    assert_string_equal(f.err.text, want);
}
