/* Programs in Lua that nobody would write: drawn call by call from all operations with arguments of
 * any kind, or made from those of examples/ by changing words. Each is declared, run as a network
 * and as a limit, and must end in order: done, or refused in one sentence. A thousand of them; with
 * `long`, for a minute. */
#define _XOPEN_SOURCE 700
#include "models/language/operation.h"
#include "tests/support/support.h"

#include <glob.h>
#include <sys/time.h>

enum { SIZE = 1 << 16, LINES = 40, EXAMPLES = 32, PROGRAMS = 1000 };
static bool for_long;
static double seconds = 60;
static uint32_t seed = 12345;
static uint32_t dice = 1;

static int draw(int n) {
    dice = dice * 1664525u + 1013904223u;
    return (int)((dice >> 8) % (uint32_t)n);
}

static const char *any(const char *const *words, int count) {
    return words[draw(count)];
}
#define ANY(words) any(words, sizeof words / sizeof *words)

static void add(char *text, const char *word) {
    if (strlen(text) + strlen(word) + 2 < SIZE)
        strcat(text, word);
}

/* --- drawn ----------------------------------------------------------------------------------- */

/* What a place in a call asks for: X rows, Y rows of the same population, S numbers; P population,
 * W matrix, N name, K small whole number, R number, O options, G options of gates, B biases, C
 * causal, V options of selections, M the mean of numbers. Behind > where the result is: = that of
 * X, P, or S. Now and then something else is put there. */
static const char *const calls[] = LIST(
    "read_in PW>P", "map XPW>P", "map XPW>P", "map XPW>P", "look XKW>S", "sigma X>=", "sigma S>S",
    "tanh XR>=", "relu X>=", "exp X>=", "log S>S", "sigmoid SG>S", "softmax SG>S", "softmax SC>S",
    "softmax XC>=", "expand 2c>3", "group_mean 3b>2", "tile 4e>5", "tile_mean 5d>4", "expand XP>P",
    "tile XP>P", "average XY>S", "mean X>S", "stop S>S", "top XK>=", "bias SBW>S", "attend XYR>S",
    "attend 3YRb>2", "mix SX>=", "mix YX>=", "pool X>=", "norm X>=", "softplus X>=", "exp S>S",
    "tanh S>S", "sigma_of_experts X>=", "top SK>S", "balance_select SKV>S",
    "balance_select XKV>=", "mean_of_rows X>=");

/* The same of a word that is an operation by its row. */
static const char *by_row(void) {
    static char call[64];
    static const struct operation *const *const lists[] = {
        operation_words_of_rows, operation_words_of_tokens, operation_words_of_numbers};
    const struct operation *const *all = lists[draw(3)];
    enum operation_argument kind;
    int count = 0, values = 0;
    while (all[count])
        count++;
    const struct operation *op = all[draw(count)];
    const char *at = op->arguments;
    size_t length = (size_t)snprintf(call, sizeof call - 8, "%s ", op->name);
    while ((kind = operation_argument(&at)) && length < sizeof call - 4)
        call[length++] = kind == ARGUMENT_POPULATION ? 'P'
                         : kind == ARGUMENT_CONSTANT ? 'K'
                         : *op->arguments == 's'     ? 'S'
                         : values++                  ? 'Y'
                                                     : 'X';
    snprintf(call + length, sizeof call - length, "%s",
             strchr(op->arguments, 'p') ? ">P"
             : *op->arguments == 's'    ? ">S"
                                        : ">=");
    return call;
}

static const char *const ends[] = {"kernel XNO>",        "gradient XNO>", "show SNO>",
                                   "show_gradient SNO>", "gates X>",      "read_out_kernel NO>",
                                   "penalty SNO>",       "penalty MNO>",  "name_rows XN>"};

/* Places of the values v1, v2, ...: a population p1 ... p7, or 0 for numbers. */
static int place[LINES + 2], values, matrices, chosen, first;

/* One of the values at a place (-1: on any population), the later ones more often; 0: none. */
static int pick(int at) {
    for (int tries = 0; tries < 40; tries++) {
        int k = 1 + (draw(2) ? draw(values) : values - 1 - draw(values < 4 ? values : 4));
        if (at < 0 ? place[k] > 0 : place[k] == at)
            return k;
    }
    return 0;
}

static void add_value(char *text, char kind) {
    static const char *const odd[] = {"nil", "3",     "\"W\"", "{}",    "p1",
                                      "N",   "limit", "0/0",   "v1[1]", "v1"};
    char word[64];
    int k = pick(kind == 'X'            ? -1
                 : kind == 'Y' && first ? place[first]
                 : kind < '9'           ? kind - '0'
                                        : 0);
    if (!draw(80)) {
        add(text, ANY(odd));
        return;
    }
    if (!k) { /* there is none yet */
        int to = kind == 'Y' && first ? place[first] : kind <= '9' ? kind - '0' : 1;
        snprintf(word, sizeof word, kind == 'S' ? "mean(v1)" : "map(v1, p%d, \"Y%d\")", to,
                 matrices++);
        first = 0;
        add(text, word);
        return;
    }
    if (kind == 'X' || kind < '9')
        first = k;
    snprintf(word, sizeof word, kind == 'S' && !draw(3) ? "v%d[1]" : "v%d", k);
    add(text, word);
}

static void add_argument(char *text, char kind) {
    static const char *const weights[] = {
        ", a0=0",      ", rate=0", ", s_f=0.5", ", fixed=true", ", zero=true",
        ", rate=-1",   ", a0=0/0", ", s_f=0",   ", rats=2",     ", iid=true",
        ", a0=1e-300", ", a0=N",   ", rate=N",  ", a0=2",       ", rate=3"};
    static const char *const gates[] = {"nil", "{top=1}", "{beta=2}", "nil", "{top=99}", "2"};
    static const char *const causal[] = {"{causal=true}", "{causal=false}"};
    static const char *const options[] =
        LIST("nil", "nil", "{scale=2}", "{axis=\"j\"}", "{axis=\"source\"}", "{about=\"a\\n\"}",
             "{equation=\"x\"}", "{scale=0/0}");
    static const char *const names[] = {"Phi", "Phi", "G", "psi", "loss", "t", "a_diag", "9"};
    static const char *const numbers[] = {"1", "1", "-1", "0.5", "0.5", "2", "1e308", "0/0"};
    static const char *const biases[] = {"{0,0,0,0}", "normals(4)", "{1}",
                                         "{{1,0,0,0},{0,1,0,0},{0,0,1,1}}", "{}"};
    char word[80];
    switch (kind) {
    case 'P':
        chosen = 1 + draw(7);
        snprintf(word, sizeof word, "p%d", chosen);
        break;
    case 'W':
        if (!draw(5) && first)
            snprintf(word, sizeof word, "{name=\"T%d%d\", tied=true}", place[first], chosen);
        else
            snprintf(word, sizeof word, "{name=\"W%d\"%s}", draw(80) ? matrices++ : 1,
                     draw(4) ? "" : ANY(weights));
        break;
    case 'M':
        add(text, "mean_of_rows(");
        add_value(text, 'S');
        snprintf(word, sizeof word, ")");
        break;
    case 'V':
        snprintf(word, sizeof word, "{eta_bias=%s, name=\"n%d\"%s}", ANY(numbers), draw(9),
                 draw(4) ? "" : ", sign=true");
        break;
    case 'N':
        snprintf(word, sizeof word, "\"%s%d\"", ANY(names), draw(20));
        break;
    case 'K':
        snprintf(word, sizeof word, "%d", draw(30) ? 1 + draw(4) : draw(10000));
        break;
    default:
        if (kind <= '9' || strchr("XYS", kind)) {
            add_value(text, kind);
            return;
        }
        if (kind >= 'a') {
            snprintf(word, sizeof word, "p%d", kind - 'a' + 1);
            break;
        }
        snprintf(word, sizeof word, "%s",
                 kind == 'R'   ? ANY(numbers)
                 : kind == 'G' ? ANY(gates)
                 : kind == 'C' ? ANY(causal)
                 : kind == 'B' ? ANY(biases)
                               : ANY(options));
    }
    add(text, word);
}

static void add_call(char *text, const char *call) {
    char name[32];
    const char *kind = strchr(call, ' ') + 1, *end = strchr(call, '>');
    first = chosen = 0;
    snprintf(name, sizeof name, "%.*s(", (int)(kind - 1 - call), call);
    add(text, name);
    for (; kind < end; kind++) {
        add_argument(text, *kind);
        add(text, kind + 1 < end ? ", " : "");
    }
    add(text, ")\n");
    place[values + 1] = end[1] == '='   ? place[first]
                        : end[1] == 'P' ? chosen
                        : end[1] <= '9' ? end[1] - '0'
                                        : 0;
}

static void add_arithmetic(char *text) {
    static const char *const operators[] = {"+", "-", "*", "*", "/", "^", ".."},
                             *const numbers[] = {"2", "0.5", "-1", "1e-300", "0", "N"};
    int kind = draw(4), k;
    first = 0;
    add_value(text, kind == 1 ? 'S' : 'X');
    k = first;
    add(text, !draw(30)   ? ANY(operators)
              : kind == 2 ? operators[3 + draw(2)]
                          : operators[draw(kind == 3 ? 3 : 5)]);
    if (kind == 2)
        add(text, ANY(numbers));
    else
        add_value(text, kind == 0 ? 'Y' : 'S');
    add(text, "\n");
    place[values + 1] = kind == 1 ? 0 : place[k];
}

/* A read-out, mostly of a sum that everything has a part in. */
static void add_ending(char *text) {
    char word[96];
    add(text, "local out = v1\n");
    for (int k = 2; k <= values && draw(50); k++) {
        if (place[k])
            snprintf(word, sizeof word, "out = out + tanh(map(v%d, p1, \"Z%d\"))\n", k, k);
        else
            snprintf(word, sizeof word, "out = out + tanh(v%d[1]*v1)\n", k);
        add(text, word);
    }
    if (draw(30))
        add(text, "read_out(out, \"w\")\n");
}

static void compose(char *text) {
    char word[64];
    int lines = 2 + draw(draw(2) ? 10 : LINES);
    matrices = 2;
    values = 1;
    place[0] = 0;
    place[1] = 1;
    strcpy(text, "local p1 = population(\"a\")\n"
                 "local p2 = population(\"b\", {size=0.5, sites=\"expert_sites\"})\n"
                 "local p3 = population(\"c\", {of=p2, group=2})\n"
                 "local p4 = population(\"d\", {sites=\"unit_sites\"})\n"
                 "local p5 = population(\"e\", {of=p2, units=p4})\n"
                 "local p6 = population(\"g\", {size=4, sites=16})\nlocal p7 = p1\n"
                 "v1 = read_in(p1, \"W1\")\n");
    for (int k = 0; k < lines; k++) {
        if (!draw(10)) {
            add_call(text, ANY(ends));
            continue;
        }
        snprintf(word, sizeof word, "v%d = ", values + 1);
        add(text, word);
        if (draw(3))
            add_call(text, draw(8) ? ANY(calls) : by_row());
        else
            add_arithmetic(text);
        values++;
    }
    add_ending(text);
}

/* --- changed --------------------------------------------------------------------------------- */

static char example[EXAMPLES][SIZE];
static int examples;

static void read_examples(void) {
    glob_t found;
    assert_int_equal(glob("examples/*.lua", 0, NULL, &found), 0);
    for (size_t k = 0; k < found.gl_pathc && examples < EXAMPLES; k++) {
        FREED(base_close) FILE *in = fopen(found.gl_pathv[k], "r");
        assert_non_null(in);
        example[examples][fread(example[examples], 1, SIZE - 1, in)] = '\0';
        examples++;
    }
    globfree(&found);
    assert_true(examples > 10);
}

/* The end of the word that begins here: a name, a number, or one other byte. */
static size_t word_of(const char *text) {
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    return n ? n : 1;
}

static void change(char *text) {
    static char out[2 * SIZE];
    static const char *const words[] =
        LIST("nil", "0", "-1", "1e400", "nil()", "(", "{", "}", "end", "while true do",
             "for i=1,1e9 do", "\"", "\\", "[[", "function", "0/0", "..", "^", "%", "#", "\r",
             "\x01", "string.format", "N", "key(\"x\")", "error(p)");
    const char *other = example[draw(examples)];
    strcpy(text, example[draw(examples)]);
    for (int k = 1 + draw(3); k > 0; k--) {
        size_t length = strlen(text), at = (size_t)draw((int)length),
               from = (size_t)draw((int)strlen(other));
        size_t word = word_of(text + at), theirs = word_of(other + from);
        out[0] = '\0';
        strncat(out, text, at);
        if (draw(2))
            strcat(out, ANY(words));
        else if (draw(3))
            strncat(out, other + from, theirs);
        strcat(out, text + at + (draw(4) ? word : 0));
        out[SIZE / 2] = '\0';
        strcpy(text, out);
    }
}

/* --- run ------------------------------------------------------------------------------------- */

/* As config_program does it. */
static void fold(const char *text, char *out) {
    static const char pairs[][2] = {{'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}, {'\\', '\\'}};
    for (; *text; text++) {
        char as = 0;
        for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
            as = *text == pairs[k][0] ? pairs[k][1] : as;
        if (as)
            *out++ = '\\';
        *out++ = as ? as : *text;
    }
    *out = '\0';
}

static int outcome[4];

static void judge(int code, const struct err *err, const char *text) {
    bool good = code == CODE_OK || code == CODE_INPUT || code == CODE_NUMERICAL;
    if (!good || (code && (!*err->text || strchr(err->text, '\n'))))
        fail_msg("%d: %s\n%s", code, err->text, text);
    outcome[code]++;
}

static void try_program(struct run *run, const char *text) {
    static char folded[2 * SIZE];
    fold(text, folded);
    run->config.network.script.text = folded;
    run->config.output.kernels = draw(3);
    for (int N = 0; N <= 8; N += 8) {
        struct net_setup setup = run_setup(run, N, 0);
        struct record record = {0};
        struct err err = {0};
        double bytes = 0;
        int code = net_bytes(&setup, 3, 3, &bytes, &err);
        if (!code && bytes < 5e7) {
            code = run_ensemble(run, N, 1, &record, &err);
            record_free(&record);
        }
        judge(code, &err, text);
    }
}

TEST(programs) {
    static char text[SIZE];
    FREED(two_runs_free) struct run run[2];
    static const struct itimerval most = {.it_value.tv_sec = 30}, unlimited; /* of processors */
    double end = base_seconds() + seconds;
    read_examples();
    support_run(&run[0], "examples/dense.ini",
                ARGS("data.inputs=2", "training.steps=3", "solver.sites=64", "program.depth=2"));
    support_run(&run[1], "examples/hash_routing.ini",
                ARGS("data.inputs=2", "training.steps=3", "solver.sites=64", "data.tokens=3",
                     "data.vocabulary=3"));
    for (int k = 0; k < 2; k++) {
        run[k].config.solver.expert_sites = 8;
        run[k].config.solver.unit_sites = 8;
        run[k].config.network.script.words.count = 0;
    }
    for (int k = 0; for_long ? base_seconds() < end : k < PROGRAMS; k++) {
        dice = (uint32_t)k * 2654435761u + seed;
        setitimer(ITIMER_PROF, &most, NULL); /* a program that hangs is ended */
        (draw(3) ? compose : change)(text);
        try_program(&run[draw(2)], text);
    }
    setitimer(ITIMER_PROF, &unlimited, NULL);
    print_message("%d nets done, %d refused, %d failed numerically\n", outcome[0],
                  outcome[CODE_INPUT], outcome[CODE_NUMERICAL]);
    assert_true(outcome[0] > 0 && outcome[CODE_INPUT] > 0);
}

int main(int argc, char **argv) {
    for_long = argc > 1;
    if (argc > 3) { /* soak SEED SECONDS */
        seed = (uint32_t)strtoul(argv[2], NULL, 10);
        seconds = atof(argv[3]);
    }
    return run_registered(__FILE__);
}
