/* The ini file: what is read, what is refused and with which words, and what is written. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/param_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_LINE = 2 }; /* of start */
static const char start[] = "[run]\nsteps = 7\n";

struct fixture {
    char path[512];
    struct params params;
    struct table_config config;
    struct err err;
};

/* Puts size bytes into a new file. */
static void put_file(struct fixture *f, const void *bytes, size_t size) {
    const char *folder = getenv("TMPDIR");
    int length = snprintf(f->path, sizeof f->path, "%s/test_param_XXXXXX",
                          folder && *folder ? folder : "/tmp");
    assert_true(length > 0 && (size_t)length < sizeof f->path);
    int file = mkstemp(f->path);
    assert_true(file >= 0);
    assert_true(write(file, bytes, size) == (ssize_t)size);
    assert_int_equal(close(file), 0);
}

static int read_bytes(struct fixture *f, const void *bytes, size_t size, int overrides,
                      char *const *override) {
    memset(f, 0, sizeof *f);
    put_file(f, bytes, size);
    int code = params_read(&f->params, table_sections, TABLE_COUNT, f->path, overrides, override,
                           &f->config, &f->err);
    unlink(f->path);
    assert_int_equal(code, f->err.code);
    return code;
}

static void accept_bytes(struct fixture *f, const void *bytes, size_t size) {
    if (read_bytes(f, bytes, size, 0, NULL))
        fail_msg("refused: %s", f->err.text);
}

/* The beginning, then text, then overrides (NULL-terminated, may be NULL). */
static int read_text(struct fixture *f, const char *text, const char *const *override) {
    char *given[4] = {NULL}, *all = malloc(strlen(text) + sizeof start);
    int count = 0;
    assert_non_null(all);
    strcpy(all, start);
    strcat(all, text);
    for (; override && override[count]; count++)
        assert_non_null(given[count] = strdup(override[count]));
    int code = read_bytes(f, all, strlen(all), count, given);
    for (int i = 0; i < count; i++)
        free(given[i]);
    free(all);
    return code;
}

static void accept(struct fixture *f, const char *text, const char *override) {
    if (read_text(f, text, override ? (const char *const[]){override, NULL} : NULL))
        fail_msg("refused: %s", f->err.text);
}

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

static void test_defaults_are_filled(void **state) {
    (void)state;
    struct fixture f;
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
    params_free(&f.params);
}

static void test_every_type_is_read(void **state) {
    (void)state;
    struct fixture f;
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
    params_free(&f.params);
}

static void test_list_of_full_length(void **state) {
    (void)state;
    struct fixture f;
    char text[512] = "[network]\nany =";
    for (int i = 0; i < INT_LIST_MAX; i++)
        strcat(text, " -12345");
    accept(&f, text, NULL);
    assert_int_equal(f.config.network.any.count, INT_LIST_MAX);
    assert_int_equal(f.config.network.any.value[INT_LIST_MAX - 1], -12345);
    params_free(&f.params);
    accept(&f, "[network]\nany = none", NULL);
    assert_int_equal(f.config.network.any.count, 0);
    params_free(&f.params);
}

static void test_shapes_of_a_file(void **state) {
    (void)state;
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
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        accept_bytes(&f, good[i], strlen(good[i]));
        assert_int_equal(f.config.run.steps, 7);
        assert_string_equal(f.config.run.title, "t ; u # v");
        params_free(&f.params);
    }
}

static void test_values_belong_to_their_line(void **state) {
    (void)state;
    struct fixture f;
    static const char *const values[] = {
        "a;b", "a#", "[a]", "k = v", "k: v", "a\tb \"c\"", "\xf0\x9f\x8c\x8d\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[64];
        snprintf(text, sizeof text, "title = %s\n", values[i]);
        accept(&f, text, NULL);
        assert_string_equal(f.config.run.title, values[i]);
        params_free(&f.params);
    }
}

static void test_line_of_any_length(void **state) {
    (void)state;
    struct fixture f;
    char value[5001], text[20000] = "# ", *end = text + 2;
    for (size_t i = 0; i < 5000; i++)
        value[i] = (char)('a' + i % 26);
    value[199] = value[2500] = ';';
    value[200] = value[2501] = ' ';
    value[5000] = '\0';
    end += sprintf(end, "%s\ntitle = %s\n", value, value);
    /* more blanks than the line of inih holds, before and behind */
    sprintf(end, "%4000s seed %3000s 5", "", "=");
    accept(&f, text, NULL);
    assert_string_equal(f.config.run.title, value);
    assert_true(f.config.run.seed == 5);
    assert_int_equal(params_find(&f.params, "run", "seed")->line, 5);
    params_free(&f.params);
}

struct refusal {
    const char *text;        /* behind the beginning, so that its first line is line 3 */
    const char *override[3]; /* up to two */
    const char *part[4]; /* of the message; the file is always one unless an override is given */
};

static void check_refusals(const struct refusal *refusal, size_t count) {
    struct fixture f;
    for (size_t i = 0; i < count; i++) {
        if (!read_text(&f, refusal[i].text, refusal[i].override))
            fail_msg("accepted: %s", refusal[i].text);
        assert_int_equal(f.err.code, CODE_INPUT);
        const char *name = strrchr(f.path, '/') + 1;
        if (!refusal[i].override[0] && !strstr(f.err.text, name))
            fail_msg("no file name: %s", f.err.text);
        for (size_t k = 0; k < 4 && refusal[i].part[k]; k++)
            if (!strstr(f.err.text, refusal[i].part[k]))
                fail_msg("\"%s\" is not in: %s", refusal[i].part[k], f.err.text);
        if (strchr(f.err.text, '\n'))
            fail_msg("more than one line: %s", f.err.text);
        params_free(&f.params);
    }
}
#define CHECK_REFUSALS(table) check_refusals(table, sizeof(table) / sizeof *(table))

static void test_names_are_refused(void **state) {
    (void)state;
    static const struct refusal table[] = {
        {"[network]\nkapa = 3", {0}, {":4: [network] kapa: unknown key; did you mean \"kappa\"?"}},
        {"[network]\nKAPPA = 3", {0}, {":4:", "did you mean \"kappa\"?"}},
        {"[network]\nkappa:x = 3", {0}, {":4:", "kappa:x: unknown key", "\"kappa\"?"}},
        {"[network]\nga ;te = none", {0}, {":4:", "[network] ga ;te: unknown key"}},
        {"[network]\nlr = 3", {0}, {":4: [network] lr: unknown key", "there are gate shape"}},
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
        {"threads = 1.0", {0}, {":3:", "not an integer"}},
        {"threads = 0x10", {0}, {":3:", "not an integer"}},
        {"threads = 1; one", {0}, {":3: [run] threads = 1; one: not an integer"}},
        {"threads = -", {0}, {":3:", "not an integer"}},
        {"threads =", {0}, {":3: [run] threads = : empty value; must be an integer"}},
        {"threads = 2147483648", {0}, {":3:", "out of range", "to 2147483647"}},
        {"threads = 99999999999999999999", {0}, {":3:", "out of range"}},
        {"seed = -1", {0}, {":3: [run] seed = -1: not an unsigned integer", "0 to 18446744073709"}},
        {"seed = 18446744073709551616", {0}, {":3:", "out of range", "18446744073709551615"}},
        {"seed = 1.5", {0}, {":3:", "not an unsigned integer"}},
        {"seed =", {0}, {":3:", "empty value"}},
        {"[network]\nkappa = 1.5", {0}, {":4: [network] kappa = 1.5: out of range", "0 to 1"}},
        {"[network]\nkappa = -1e-9", {0}, {":4:", "out of range", "0 to 1"}},
        {"[network]\nkappa = 0.5;", {0}, {":4:", "trailing characters \";\"", "0 to 1"}},
        {"[network]\nkappa = 0,5", {0}, {":4:", "trailing characters \",5\""}},
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
        {"[network]\nwidths = 64, 128", {0}, {":4:", "not an integer at \"64, 128\""}},
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

static void test_overrides(void **state) {
    (void)state;
    struct fixture f;
    accept(&f, "title = file\n", "--run.title= line ; 1 ");
    assert_string_equal(f.config.run.title, "line ; 1");
    assert_int_equal(params_find(&f.params, "run", "title")->line, -1);
    params_free(&f.params);
    accept(&f, "", "run.seed = 5");
    assert_true(f.config.run.seed == 5);
    params_free(&f.params);
    const char *const twice[] = {"--run.steps=8", "--network.any=1 2", "run.steps=9", NULL};
    assert_int_equal(read_text(&f, "", twice), CODE_OK);
    assert_int_equal(f.config.run.steps, 9);
    assert_int_equal(f.config.network.any.count, 2);
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
    struct param_source source = {name, stream, 0, NULL};
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

/* As a string to free. */
static char *written(const struct params *params) {
    struct err err;
    char *text;
    size_t size;
    assert_int_equal(params_text(params, &text, &size, &err), CODE_OK);
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

static void test_defaults_read_back(void **state) {
    (void)state;
    struct fixture f, g;
    char *text = defaults(), *given[] = {"--run.steps=7"};
    assert_non_null(strstr(text, "\n# steps =\n"));
    assert_non_null(strstr(text, "\n# Free text.\n# Of two lines.\n"));
    assert_non_null(
        strstr(text, "\n# Learning rate.\n# Allowed: a number, at least 0.\neta0 = 1e-1\n"));
    assert_non_null(strstr(text, "used only when gate = sigmoid or softmax.\n# shape = hard\n"));
    assert_int_equal(read_bytes(&f, text, strlen(text), 1, given), CODE_OK);
    accept(&g, "", NULL);
    same_config(&f, &g);
    params_free(&f.params);
    params_free(&g.params);
    free(text);
}

static void test_written_values_read_back(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "title = # ; = [x]\nseed = 18446744073709551615\n[network]\nany = -1 5\nwidths=\nexperts=9",
        "out =\n[network]\ngate = softmax\nshape = smooth\nslope = 0.1\nweights = =w\nkappa=1e-3",
        "[network]\ngate = sigmoid\neta0 = 0.30000000000000004\nfloor = -0x1.8p-3\nwidths = none",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct fixture f, g;
        accept(&f, texts[i], i ? "--network.kappa=0.125" : NULL);
        char *text = written(&f.params);
        accept_bytes(&g, text, strlen(text));
        same_config(&f, &g);
        char *again = written(&g.params);
        assert_string_equal(text, again);
        params_free(&f.params);
        params_free(&g.params);
        free(text);
        free(again);
    }
}

static void test_help(void **state) {
    (void)state;
    char *text = NULL;
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
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_filled),
        cmocka_unit_test(test_every_type_is_read),
        cmocka_unit_test(test_list_of_full_length),
        cmocka_unit_test(test_shapes_of_a_file),
        cmocka_unit_test(test_values_belong_to_their_line),
        cmocka_unit_test(test_line_of_any_length),
        cmocka_unit_test(test_names_are_refused),
        cmocka_unit_test(test_values_are_refused),
        cmocka_unit_test(test_conditions_are_checked),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_overrides_are_refused),
        cmocka_unit_test(test_not_a_text_file),
        cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_long_names_in_messages),
        cmocka_unit_test(test_errors_across_keys),
        cmocka_unit_test(test_defaults_read_back),
        cmocka_unit_test(test_written_values_read_back),
        cmocka_unit_test(test_help),
    };
    return cmocka_run_group_tests_name("param", tests, NULL, NULL);
}
