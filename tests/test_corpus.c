/* A text as data: its letters, alphabets, windows and what is held out, judged by their
 * definitions; refusals; a network that reads one and writes nothing of single inputs. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/support.h"

#include "solver/data/corpus.h"

static char folder[] = "/tmp/test_corpus_XXXXXX";
static char path[64], ini[64];

static int open_folder(void **state) {
    (void)state;
    io_quiet();
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/a.txt", folder);
    snprintf(ini, sizeof ini, "%s/a.ini", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    remove(path), remove(ini);
    return rmdir(folder);
}

static void write_file(const char *to, const char *bytes, size_t size) {
    FREED(base_close) FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
}

/* What all cases begin from. */
static struct corpus corpus_of(int inputs, int n) {
    return (struct corpus)LIST(.path = path, .alphabet = "", .inputs = inputs, .n = n, .stride = n,
                               .positions = true, .seed = 3, .most = 1e8);
}

static void check_codes(const struct data *data, const int *code, int V) {
    assert_int_equal(data->V, V);
    assert_int_equal(data->C, V);
    for (int k = 0; k < V; k++)
        if (data->code[k] != code[k])
            fail_msg("letter %d has code %d, not %d", k, data->code[k], code[k]);
}

/* Letters of one, two, three and four bytes; a byte order mark is none; bytes are what they are. */
TEST(test_letters) {
    static const char text[] = "\xef\xbb\xbf"
                               "b\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\nb";
    struct corpus corpus = corpus_of(1, 4);
    FREED(data_free) struct data data;
    write_file(path, text, sizeof text - 1);
    ASK(corpus_read(&data, &corpus, err));
    check_codes(&data, (const int[]){'\n', 'b', 0xe9, 0x20ac, 0x1f600}, 5);
    assert_memory_equal(data.token, ((const int[]){1, 2, 3, 4}), 4 * sizeof(int));
    assert_memory_equal(data.y, ((const double[]){2, 3, 4, 0}), 4 * sizeof(double));
    assert_true(data.numbered && data.per_token && data.classes && data.D == 9 && !data.X);
    data_free(&data);
    corpus.bytes = true;
    ASK(corpus_read(&data, &corpus, err));
    assert_true(data.V == 14 && data.code[0] == '\n' && data.code[13] == 0xf0);
}

/* The alphabet of the key, in its order, and one token for all else where there is any; the most
 * frequent letters, of those as frequent the first. */
TEST(test_alphabets) {
    static const char text[] = "abcabc\nabdea";
    struct corpus corpus = corpus_of(1, 11);
    FREED(data_free) struct data data;
    write_file(path, text, sizeof text - 1);
    corpus.alphabet = "ba\\n";
    ASK(corpus_read(&data, &corpus, err));
    check_codes(&data, (const int[]){'b', 'a', '\n', -1}, 4);
    assert_memory_equal(data.token, ((const int[]){1, 0, 3, 1, 0, 3, 2, 1, 0, 3, 3}),
                        11 * sizeof(int));
    assert_true(data.y[10] == 1);
    data_free(&data);
    corpus.alphabet = "\\nabcde"; /* nothing else is there */
    ASK(corpus_read(&data, &corpus, err));
    check_codes(&data, (const int[]){'\n', 'a', 'b', 'c', 'd', 'e'}, 6);
    data_free(&data);
    corpus.alphabet = "";
    corpus.vocabulary = 5; /* a 4, b 3, c 2 times, then \n, d, e once */
    ASK(corpus_read(&data, &corpus, err));
    check_codes(&data, (const int[]){'\n', 'a', 'b', 'c', -1}, 5);
}

enum { LETTERS = 2000, WINDOW = 8 };

/* Windows of a text whose letter number k has code 0x100 + k, so that a letter is its place. */
TEST(test_windows) {
    static char text[3 * LETTERS];
    bool seen[LETTERS] = {false};
    size_t size = 0;
    struct corpus corpus = corpus_of(0, WINDOW);
    struct data data, fewer;
    for (int k = 0; k < LETTERS; k++) {
        int code = 0x100 + k;
        if (code >= 0x800)
            text[size++] = (char)(0xe0 | code >> 12);
        text[size++] = (char)(code >= 0x800 ? 0x80 | (code >> 6 & 0x3f) : 0xc0 | code >> 6);
        text[size++] = (char)(0x80 | (code & 0x3f));
    }
    write_file(path, text, size);
    corpus.held_out = .25;
    corpus.stride = 4;
    corpus.inputs =
        373; /* all: windows begin at 0, 4, ..., 1488; the next would need letter 1500 */
    corpus.tests = 20;
    ASK(corpus_read(&data, &corpus, err));
    assert_int_equal(data.V, LETTERS);
    int moved = 0;
    for (int mu = 0; mu < data.P + data.tests; mu++) {
        const int *token = data.token + mu * WINDOW;
        int first = mu < data.P ? 0 : 1500, end = mu < data.P ? 1500 : LETTERS;
        assert_true(!seen[token[0]] && (token[0] - first) % 4 == 0);
        assert_in_range(token[0], first, end - WINDOW - 1);
        seen[token[0]] = true;
        moved += token[0] != 4 * mu;
        for (int s = 0; s < WINDOW; s++) {
            assert_int_equal(token[s], token[0] + s);
            assert_true(data.y[mu * WINDOW + s] == token[0] + s + 1);
        }
    }
    assert_true(moved > data.P / 2); /* of a random order one stays where it was, on average */
    corpus.inputs = 30;
    ASK(corpus_read(&fewer, &corpus, err));
    assert_memory_equal(fewer.token, data.token, 30 * WINDOW * sizeof(int));
    assert_memory_equal(fewer.token + 30 * WINDOW, data.token + 373 * WINDOW,
                        20 * WINDOW * sizeof(int));
    data_free(&fewer);
    corpus.seed++;
    ASK(corpus_read(&fewer, &corpus, err));
    assert_true(memcmp(fewer.token, data.token, 30 * WINDOW * sizeof(int)) != 0);
    data_free(&fewer);
    corpus.inputs = 374;
    struct err why = {0};
    assert_int_equal(corpus_read(&fewer, &corpus, &why), CODE_INPUT);
    assert_non_null(strstr(why.text, "first 1500 letters have 373 windows"));
    data_free(&data);
}

TEST(test_refused) {
    static const struct {
        const char *text, *alphabet, *part;
        int inputs, tests;
        double most;
    } cases[] = {
        {"", "", "has no letter, and a text to learn needs at least two", 1, 0, 1e8},
        {"aaaaaaaaaa", "", "has one letter only", 1, 0, 1e8},
        {"ab", "", "have 0 windows of 4 letters", 1, 0, 1e8},
        {"abababababababababababab", "", "last 3 letters have 0 windows", 1, 1, 1e8},
        {"ab\xff", "", "byte 2 begins no character of UTF-8; unit = bytes", 1, 0, 1e8},
        {"ab\xc3", "", "byte 2 begins no character", 1, 0, 1e8},
        {"\xc0\x80 ab", "", "byte 0 begins no character", 1, 0, 1e8},
        {"\xed\xa0\x80 ab", "", "byte 0 begins no character", 1, 0, 1e8},
        {"abcabcabc", "abca", "the letter a comes twice", 1, 0, 1e8},
        {"abcabcabc", "ab\\q", "byte 2 is no letter", 1, 0, 1e8},
        {"abcabcabc", "ab\\", "byte 2 is no letter", 1, 0, 1e8},
        {"abcabcabc", "", "a text of 9e-06 MB needs about 1.08e-07 GB, and max_memory leaves 5e-08",
         1, 0, 50},
        {"abcabcabc", "", "tokens of 3 letters need about", 1, 0, 200},
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        struct corpus corpus = corpus_of(cases[k].inputs, 4);
        struct err why = {0};
        struct data data;
        write_file(path, cases[k].text, strlen(cases[k].text));
        corpus.alphabet = cases[k].alphabet;
        corpus.tests = cases[k].tests;
        corpus.held_out = .1;
        corpus.most = cases[k].most;
        int code = corpus_read(&data, &corpus, &why);
        if (code != CODE_INPUT || !strstr(why.text, cases[k].part) || data.token || data.code)
            fail_msg("case %zu: code %d, or no \"%s\" in: %s", k, code, cases[k].part, why.text);
    }
    struct corpus corpus = corpus_of(1, 4);
    struct err why = {0};
    struct data data;
    corpus.path = "/nowhere/a.txt";
    assert_int_equal(corpus_read(&data, &corpus, &why), CODE_INPUT);
    assert_non_null(strstr(why.text, "/nowhere/a.txt"));
}

/* A small run on the text, with these keys. */
static int configure(struct run *run, const char *const *key, struct err *why) {
    char file[96],
        *all[24] = LIST(file, "data.source=text", "data.tokens=4", "data.inputs=6",
                        "data.test_inputs=2", "data.held_out=0.4", "training.steps=4",
                        "training.batch=3", "training.loss=cross_entropy", "solver.sites=64",
                        "solver.replicates=2", "solver.tolerance=1e-2", "reference.widths=16",
                        "reference.seeds=2", "output.test_every=3");
    int count = 15;
    snprintf(file, sizeof file, "data.file=%s", path);
    for (int k = 0; key[k]; k++)
        all[count++] = (char *)(uintptr_t)key[k];
    write_file(ini, "[network]\nmodel = dense\n", 24);
    write_file(path, "abcdabddabcdaacdabcdacbdabcdabcdabcdabcccbdabcdabbb", 50);
    *run = (struct run){0};
    return run_configure(run, ini, count, all, why);
}

/* Keys that do not go together. */
TEST(test_keys) {
    static const char *const cases[][3] = {
        {"training.loss=mse", "", "a class for each letter; choose cross_entropy"},
        {"data.alphabet=ab", "data.vocabulary=3", "give one of the two"},
        {"data.vocabulary=1", "", "needs at least 2 letters, or 0 for all"},
        {"data.tokens=1", "", "source = text needs at least 2"},
        {"network.outputs=9", "", "the text has 4 letters"},
        {"data.sharpness=2", "", "used only when"},
        {"data.inputs=60", "", "try fewer, or a smaller stride"},
        {"data.held_out=0", "data.test_inputs=1", "or a larger held_out"},
    };
    for (size_t k = 0; k < COUNT(cases); k++) {
        FREED(run_free) struct run run;
        struct err why = {0};
        int code = configure(&run, ARGS(cases[k][0], cases[k][1][0] ? cases[k][1] : NULL), &why);
        if (code != CODE_INPUT || !strstr(why.text, cases[k][2]))
            fail_msg("case %zu: code %d, or no \"%s\" in: %s", k, code, cases[k][2], why.text);
    }
}

/* Whatever is of single inputs, by itself. */
TEST(test_what_is_of_inputs) {
    static const char *const asked[] = {"output.kernels=diagonal", "output.tangent=sum",
                                        "output.gradients=yes",    "output.sharpness=sum",
                                        "output.experts=yes",      "output.kernels_of=h1",
                                        "output.cross=Phi1_Phi2",  "output.spectra=Phi1"};
    for (size_t k = 0; k < COUNT(asked); k++) {
        FREED(run_free) struct run run = {0};
        struct err why = {0};
        char *key[] = {"output.inputs=none", "output.kernels=none", (char *)(uintptr_t)asked[k]};
        int code = run_configure(&run, "data/dense.ini", 3, key, &why);
        if (code != CODE_INPUT || !strstr(why.text, "inputs=none: none goes with kernels = none"))
            fail_msg("%s: code %d, %s", asked[k], code, why.text);
    }
}

/* Networks and limits read a text: bits are the loss over ln 2, of a limit that of its mean output;
 * inputs = none changes no number and leaves out all that is of single inputs. */
TEST(test_run) {
    for (int N = 0; N <= 16; N += 16) {
        FREED(two_runs_free) struct run run[2];
        FREED(two_records_free) struct record record[2] = {{0}, {0}};
        for (int none = 0; none < 2; none++) {
            ASK(configure(
                &run[none],
                ARGS(none ? "output.inputs=none" : "output.inputs=all", "output.kernels=none"),
                err));
            ASK(run_ensemble(&run[none], N, 2, &record[none], err));
            for (int k = 0; k < record[none].count; k++) {
                const struct series *series = &record[none].series[k];
                assert_false(none && !series->inner && strstr(series->dims, "mu"));
            }
        }
        assert_non_null(record_find(&record[0], "f"));
        for (int k = 0; k < 2; k++) {
            static const char *const names[][2] = {{"loss", "bits"}, {"test_loss", "test_bits"}};
            double loss[2][4], bits[4];
            for (int none = 0; none < 2; none++) {
                double *mean = NULL, *error;
                ASK(record_average(&record[none], names[k][0], &mean, &error, err));
                memcpy(loss[none], mean, sizeof loss[none]);
                free(mean);
                ASK(record_average(&record[none], names[k][1], &mean, &error, err));
                memcpy(bits, mean, sizeof bits);
                free(mean);
                for (int t = 0; t < 4; t += 3)
                    CHECK_ABS(bits[t], loss[none][t] / log(2), 1e-13, "bits at t = %d", t);
            }
            for (int t = 0; t < 4; t += 3)
                assert_true(loss[0][t] == loss[1][t] && loss[0][t] > 0);
        }
    }
}

AROUND_TESTS(open_folder, remove_folder)
