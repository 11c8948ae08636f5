/* The ini file: what is refused and with which words. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/param_read.h"

#include <stdio.h>
#include <string.h>

static void test_names_are_refused(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {"[network]\nkapa = 3", {0}, {":4: [network] kapa: unknown key; did you mean \"kappa\"?"}},
        {"[network]\nKAPPA = 3", {0}, {":4:", "did you mean \"kappa\"?"}},
        {"[network]\nkappa:x = 3", {0}, {":4:", "kappa:x: unknown key", "\"kappa\"?"}},
        {"[network]\nga ;te = none", {0}, {":4:", "[network] ga ;te: unknown key"}},
        {"[network]\nzz = 3", {0}, {":4: [network] zz: unknown key", "there are gate shape"}},
        {"[network]\nseed = 3", {0}, {":4:", "[network] seed", "it belongs to [run]"}},
        {"[netwrok]\n", {0}, {":3: [netwrok]: unknown section; did you mean \"network\"?"}},
        {"[]\n", {0}, {":3: []: unknown section; there are [run] [network]"}},
        {"[output]\n", {0}, {":3: [output]: unknown section; there are [run] [network]"}},
        {"[network\n", {0}, {":3: \"[network\" is not a section line"}},
        {"[network] gate = none\n", {0}, {":3:", "is not a section line"}},
        {"[network]# why\n", {0}, {":3:", "is not a section line"}},
        {"title\n", {0}, {":3: \"title\" has no \"=\""}},
        {"title: 3\n", {0}, {":3: \"title: 3\" has no \"=\"", "key = value"}},
        {"title = 3\n  and more\n", {0}, {":4: \"and more\" has no \"=\""}},
        {" = 3\n", {0}, {":3: no key before \"=\""}},
        {"=\n", {0}, {":3: no key before \"=\""}},
        {"title = 1\n\n[network]\n[run]\ntitle = 1\n",
         {0},
         {":7: [run] title: duplicate key", "in line 3"}},
        {"steps = 7\n", {0}, {":3: [run] steps: duplicate key", "in line 2"}},
    };
    CHECK_REFUSALS(table);
}

static void test_values_are_refused(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {"threads = 3x",
         {0},
         {":3: [run] threads = 3x: not an integer", "-2147483648 to 21474836"}},
        {"threads = 1e", {0}, {":3: [run] threads = 1e: not an integer"}},
        {"threads = 1e-1",
         {0},
         {":3: [run] threads = 1e-1: not a whole number at \"1e-1\"; must be an integer"}},
        {"threads = 2.5", {0}, {":3:", "not a whole number at \"2.5\""}},
        {"threads = 1.0000000000000000000000001", {0}, {":3:", "not a whole number"}},
        {"threads = 1.5.0", {0}, {":3:", "not an integer"}},
        {"threads = .", {0}, {":3:", "not an integer"}},
        {"threads = +-1", {0}, {":3:", "not an integer"}},
        {"threads = 1e 3", {0}, {":3:", "not an integer"}},
        {"threads = 1e3e3", {0}, {":3:", "not an integer"}},
        {"threads = 1e999999999999999999999", {0}, {":3:", "out of range"}},
        {"threads = -2147483649", {0}, {":3:", "out of range"}},
        {"threads = 0x10", {0}, {":3:", "not an integer"}},
        {"threads = 1; one", {0}, {":3: [run] threads = 1; one: not an integer"}},
        {"threads = -", {0}, {":3:", "not an integer"}},
        {"threads =", {0}, {":3: [run] threads = : empty value; must be an integer"}},
        {"threads = 2147483648", {0}, {":3:", "out of range", "to 2147483647"}},
        {"threads = 99999999999999999999", {0}, {":3:", "out of range"}},
        {"seed = -1", {0}, {":3: [run] seed = -1: out of range", "0 to 18446744073709551615"}},
        {"seed = 18446744073709551616", {0}, {":3:", "out of range", "18446744073709551615"}},
        {"seed = 1.8446744073709551616e19", {0}, {":3:", "out of range"}},
        {"seed = 1.5", {0}, {":3: [run] seed = 1.5: not a whole number; must be an integer"}},
        {"seed =", {0}, {":3:", "empty value"}},
        {"[network]\nkappa = 1.5", {0}, {":4: [network] kappa = 1.5: out of range", "0 to 1"}},
        {"[network]\nkappa = -1e-9", {0}, {":4:", "out of range", "0 to 1"}},
        {"[network]\nkappa = 0.5;", {0}, {":4:", "trailing characters \";\"", "0 to 1"}},
        {"[network]\nkappa = 0,5", {0}, {":4:", "a number has a point and no comma"}},
        {"[network]\nkappa = half", {0}, {":4: [network] kappa = half: not a number"}},
        {"[network]\nkappa = ", {0}, {":4:", "empty value; must be a number, 0 to 1"}},
        {"[network]\neta0 = -1", {0}, {":4:", "must be a number, at least 0"}},
        {"[network]\nfloor = nan", {0}, {":4: [network] floor = nan: not a finite number"}},
        {"[network]\nfloor = -inf", {0}, {":4:", "not a finite number"}},
        {"[network]\neta0 = Infinity", {0}, {":4:", "not a finite number"}},
        {"[network]\nfloor = 1e999", {0}, {":4:", "beyond the range"}},
        {"[network]\nfloor = 1e-999", {0}, {":4:", "beyond the range"}},
        {"[network]\ngate = softmex",
         {0},
         {":4: [network] gate = softmex: unknown choice", "one of none topk sigmoid softmax",
          "did you mean \"softmax\"?"}},
        {"[network]\ngate = Topk", {0}, {":4:", "did you mean \"topk\"?"}},
        {"[network]\ngate = 1", {0}, {":4:", "one of none topk sigmoid softmax"}},
        {"[network]\ngate = none topk", {0}, {":4:", "unknown choice"}},
        {"[network]\ngate =", {0}, {":4:", "empty value; must be one of none topk sigmoid"}},
        {"[network]\nwidths = 64 0", {0}, {":4:", "out of range at \"0\"", "1 to 4096"}},
        {"[network]\nwidths = 64, 128", {0}, {":4:", "numbers are separated by blanks"}},
        {"[network]\nwidths = none 5", {0}, {":4:", "not an integer"}},
        {"[network]\nany = 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
         {0},
         {":4: [network] any = ", "too many elements", "up to 32 integers"}},
    };
    CHECK_REFUSALS(table);
}

static void test_conditions_are_checked(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {"[network]\nshape = smooth",
         {0},
         {":4: [network] shape = smooth", "used only when [network] gate = sigmoid or softmax"}},
        {"[network]\ngate = softmax\nexperts = 3\nweights = w",
         {0},
         {":5: [network] experts", "used only when [network] gate = none or topk"}},
        {"[network]\nslope = 1", {0}, {":4:", "used only when [network] shape = smooth"}},
        {"[network]\ngate = sigmoid\nshape = smooth",
         {0},
         {": [network] slope: the key must be given; a number, -3 to 3"}},
        {"[network]\ngate = softmax", {0}, {": [network] weights: the key must be given; a path"}},
        {"[network]\ngate = sigmoid\nexperts = 2",
         {0},
         {":5: [network] experts = 2", "used only when [network] gate = none or topk"}},
        {"", {"--network.shape=smooth"}, {"--network.shape=smooth: ", "gate = sigmoid or softmax"}},
    };
    CHECK_REFUSALS(table);
    struct fixture f;
    assert_int_equal(read_bytes(&f, "[network]\n", 10, 0, NULL), CODE_INPUT);
    assert_non_null(strstr(f.err.text, ": [run] steps: the key must be given; an integer, 1 to"));
    params_free(&f.params);
    assert_int_equal(read_bytes(&f, "", 0, 0, NULL), CODE_INPUT);
    params_free(&f.params);
    accept(&f, "[network]\nslope = 1\nshape = smooth\ngate = sigmoid\n", NULL);
    assert_true(f.config.network.slope == 1.0);
    params_free(&f.params);
}

static void test_overrides_are_refused(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {"", {"--network.kappa=3"}, {"--network.kappa=3: out of range", "0 to 1"}},
        {"", {"network.kappa=3"}, {"--network.kappa=3: out of range"}},
        {"", {"--network.kapa=3"}, {"--network.kapa=3: unknown key; did you mean \"kappa\"?"}},
        {"", {"--network.seed=3"}, {"--network.seed=3: unknown key; it belongs to [run]"}},
        {"", {"--netwrok.kappa=3"}, {"--netwrok.kappa=3: unknown section", "\"network\"?"}},
        {"", {"--.kappa=3"}, {"unknown section"}},
        {"", {"--network.=3"}, {"unknown key"}},
        {"", {"--kappa=0.5"}, {"--kappa=0.5: must be --section.key=value, here --network.kappa"}},
        {"", {"--network.kappa"}, {"--network.kappa: must be --section.key=value"}},
        {"", {"--verbose"}, {"--verbose: must be --section.key=value"}},
        {"", {"="}, {"=: must be --section.key=value"}},
        {"", {""}, {"must be --section.key=value"}},
        {"", {"--run.title=a\nb"}, {"--run.title=a...: a control character"}},
        {"", {"--run.title=\xff"}, {"--run.title=...: a control character or not UTF-8"}},
        {"", {"--run.threads="}, {"--run.threads=: empty value"}},
        /* a wrong value is refused even where another one replaces it */
        {"", {"--run.steps=x", "--run.steps=5"}, {"--run.steps=x: not an integer"}},
        {"threads = x", {"--run.threads=5"}, {":3: [run] threads = x: not an integer"}},
    };
    CHECK_REFUSALS(table);
}

/* Whole files, without the beginning. */
static void refuse_bytes(const char *bytes, size_t size, const char *part) {
    struct fixture f;
    assert_int_equal(read_bytes(&f, bytes, size, 0, NULL), CODE_INPUT);
    if (!strstr(f.err.text, part))
        fail_msg("\"%s\" is not in: %s", part, f.err.text);
    assert_non_null(strstr(f.err.text, strrchr(f.path, '/') + 1));
    params_free(&f.params);
}
#define REFUSE(literal, part) refuse_bytes(literal, sizeof(literal) - 1, part)

static void test_not_a_text_file(void **state) {
    (void)state;
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

static void test_not_a_file(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"/tmp", "/tmp: is a folder"},
        {"/no/such.ini", "/no/such.ini: cannot be opened: No such file"},
        {"", "cannot be opened"},
        {"/dev/zero", "/dev/zero: is not a regular file"},
    };
    struct fixture f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
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
static void test_long_names_in_messages(void **state) {
    (void)state;
    struct fixture f;
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
    assert_int_equal(read_text(&f, text, (const char *const[]){"--a.b=c", NULL}), CODE_INPUT);
    assert_non_null(strstr(f.err.text, ":3:"));
    params_free(&f.params);
    FILE *stream = fmemopen(text, 1, "r");
    assert_non_null(stream);
    text[8999] = '\0'; /* a file of that name */
    assert_int_equal(read_open(&f, text, stream), CODE_INPUT);
    assert_non_null(strstr(f.err.text, "k:1: \"k\" has no \"=\""));
    fclose(stream);
    params_free(&f.params);
}

static void test_errors_across_keys(void **state) {
    (void)state;
    struct fixture f;
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
    params_free(&f.params);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_refused),      cmocka_unit_test(test_values_are_refused),
        cmocka_unit_test(test_conditions_are_checked), cmocka_unit_test(test_overrides_are_refused),
        cmocka_unit_test(test_not_a_text_file),        cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_long_names_in_messages), cmocka_unit_test(test_errors_across_keys),
    };
    return cmocka_run_group_tests_name("param_refusals", tests, NULL, NULL);
}
