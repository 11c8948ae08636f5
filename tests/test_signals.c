/* What takes long before there is a network hears a signal: data that are drawn, the directions of
 * inputs, the entropy of a chain. The flag is a number that is drawn, so that it is set when the
 * draws have come there, and no time decides. */
#define _POSIX_C_SOURCE 200809L
#include "integrators/fixed_point.h"
#include "kernels/maps/polar.h"
#include "kernels/maps/thin.h"
#include "solver/command.h"
#include "solver/data/normals.h"
#include "solver/data/tokens.h"
#include "solver/measure/observe.h"
#include "tests/support/cli.h"
#include "tests/support/support.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { INPUTS = 6, LENGTH = 8, LETTERS = 5 };

static int gaussian(struct data *data, struct err *err) {
    return normals_draw(data, 1, false, err);
}

static int staircase(struct data *data, struct err *err) {
    return normals_draw(data, 1, true, err);
}

static int power_law(struct data *data, struct err *err) {
    return normals_power_law(data, 1, &(struct power_law){1, 1, 0.1}, err);
}

/* Of INPUTS rows that are drawn one after the other the third sets the flag: the fourth is none. */
TEST(rows_of_numbers) {
    static int (*const draw[])(struct data *, struct err *) = {gaussian, staircase, power_law};
    const struct data sizes = {.P = INPUTS, .n = 1, .D = LENGTH, .C = 1};
    for (size_t k = 0; k < sizeof draw / sizeof *draw; k++) {
        FREED(data_free) struct data data;
        struct err told = {0};
        ASK(data_init(&data, &sizes, err));
        base_heed((const volatile sig_atomic_t *)(data.X + 2 * LENGTH));
        assert_int_equal(draw[k](&data, &told), CODE_INTERRUPTED);
        base_heed(NULL);
        assert_string_equal(told.text, "interrupted while inputs are drawn");
        for (int i = 0; i < INPUTS * LENGTH; i++)
            assert_int_equal(data.X[i] != 0, i < 3 * LENGTH);
    }
}

/* The first letter that is not 0 sets the flag: that of a copy ends its sequence, all others are
 * the last. */
TEST(sequences) {
    const struct sequences drawn[] = {{SEQUENCE_MARKOV, LETTERS, 1, 1},
                                      {SEQUENCE_COPY, LETTERS, 1, 0}};
    for (size_t k = 0; k < sizeof drawn / sizeof *drawn; k++) {
        const struct data sizes = tokens_sizes(&drawn[k], INPUTS, 0, LENGTH, false);
        FREED(data_free) struct data whole, cut;
        struct err told = {0};
        int at = LENGTH;
        ASK(data_init(&whole, &sizes, err));
        ASK(tokens_draw(&whole, &drawn[k], err));
        while (whole.token[at] == 0)
            at++;
        ASK(data_init(&cut, &sizes, err));
        base_heed(cut.token + at);
        assert_int_equal(tokens_draw(&cut, &drawn[k], &told), CODE_INTERRUPTED);
        base_heed(NULL);
        assert_string_equal(told.text, "interrupted while sequences are drawn");
        int drawn_to = drawn[k].kind == SEQUENCE_COPY ? (at / LENGTH + 1) * LENGTH : at + 1;
        for (int i = 0; i < INPUTS * LENGTH; i++)
            assert_int_equal(cut.token[i], i < drawn_to ? whole.token[i] : 0);
    }
}

TEST(rows_of_a_chain) {
    const struct sequences chain = {SEQUENCE_MARKOV, LETTERS, 1, 1};
    double T[LETTERS][LETTERS] = {{0}};
    struct err told = {0};
    base_heed((const volatile sig_atomic_t *)&T[1][LETTERS - 1]);
    assert_int_equal(tokens_chain(&chain, T[0], &told), CODE_INTERRUPTED);
    base_heed(NULL);
    for (int a = 0; a < LETTERS; a++)
        assert_int_equal(T[a][0] != 0, a < 2);
}

/* Where nothing that is drawn can be the flag, it is set from the start. */
TEST(directions_and_pairs) {
    volatile sig_atomic_t set = 1;
    const struct sequences modular = {SEQUENCE_MODULAR, LETTERS, 1, 0};
    const struct data sizes = tokens_sizes(&modular, INPUTS, 0, 3, false);
    const double X[] = {1, 2, 3, 4};
    FREED(base_free) double *A = NULL;
    int K;
    FREED(data_free) struct data data;
    struct err told = {0};
    ASK(data_init(&data, &sizes, err));
    base_heed(&set);
    assert_int_equal(tokens_draw(&data, &modular, &told), CODE_INTERRUPTED);
    assert_string_equal(told.text, "interrupted while pairs are drawn");
    assert_int_equal(thin_coordinates(X, 2, 2, &A, NULL, &K, &told), CODE_INTERRUPTED);
    assert_string_equal(told.text, "interrupted while directions of the inputs are found");
    set = 0;
    ASK(tokens_draw(&data, &modular, err));
    ASK(thin_coordinates(X, 2, 2, &A, NULL, &K, err));
    base_heed(NULL);
}

/* Before each part of /data; nothing of the inputs is then written. */
TEST(inputs_of_a_result) {
    volatile sig_atomic_t set = 1;
    double X[] = {1, 2}, y[] = {3};
    const struct data data = {.P = 1, .n = 1, .D = 2, .C = 1, .X = X, .y = y};
    FREED(io_close) struct io io;
    struct err told = {0};
    ASK(io_create(&io, "signals.h5", true, err));
    base_heed(&set);
    assert_int_equal(io_data(&io, &data, true, &told), CODE_INTERRUPTED);
    assert_string_equal(told.text, "interrupted while the inputs are written");
    base_heed(NULL);
    ASK(io_data(&io, &data, true, err));
}

/* Where a network is set up, and its memory is estimated. */
TEST(memory_and_networks) {
    volatile sig_atomic_t set = 1;
    RUN_AND_NET;
    struct err told;
    double bytes;
    support_run_text(&run, (const char *const[]){NULL}, "[network]\nmodel = dense\n");
    struct net_setup setup = run_setup(&run, 16, 0);
    base_heed(&set);
    assert_int_equal(net_bytes(&setup, 1, 0, &bytes, &told), CODE_INTERRUPTED);
    assert_string_equal(told.text, "interrupted while memory is estimated");
    base_heed(NULL);
    setup.declare_only = true; /* no matrix is drawn, which would hear it */
    setup.stop.flag = &set;
    assert_int_equal(net_init(&net, &setup, &told), CODE_INTERRUPTED);
}

/* Singular values hear it where the net does, and nowhere else: the net of a short step does not,
 * so that the step ends and its state is kept. */
TEST(singular_values) {
    for (int N = 0; N <= 16; N += 16) {
        volatile sig_atomic_t set = 0;
        RUN_AND_NET;
        FREED(record_free) struct record record;
        FREED(observer_free) struct observer observer;
        struct err told;
        support_run_text(&run, (const char *const[]){NULL},
                         "[network]\nmodel = dense\ndepth = 2\n[training]\nsteps = 2\n"
                         "[solver]\nsites = 64\n[output]\nsingular = W2\n");
        struct net_setup setup = run_setup(&run, N, 0);
        setup.stop.flag = &set;
        ASK(net_init(&net, &setup, err));
        ASK(record_init(&record, 1, 2, err));
        ASK(observe_declare(&record, &run.config, &net.setup, NULL, err));
        ASK(observer_init(&observer, &run.config, run.data.y, &record, 0, &net, err));
        support_evaluate(&net, &run);
        set = 1;
        assert_int_equal(observer_measure(&observer, &net, 0, &told), CODE_INTERRUPTED);
        net.setup.stop.from = INFINITY;
        ASK(observer_measure(&observer, &net, 0, err));
    }
}

/* A processor that asks for the end once it has come to its n-th call of an operation. */
static volatile sig_atomic_t asked;
static int calls_left, calls_behind;

static void count_call(void) {
    calls_behind += asked;
    asked = asked || !--calls_left;
}

static void asking_normals(struct rows rows, struct rng_stream stream) {
    count_call();
    backend_list[0]->normals(rows, stream);
}

static void asking_dots(struct rows a, struct rows b, double *C) {
    count_call();
    backend_list[0]->dots(a, b, C);
}

static struct backend asking_backend(bool dots, int calls) {
    struct backend mine = *backend_list[0];
    mine.normals = dots ? mine.normals : asking_normals;
    mine.dots = dots ? asking_dots : mine.dots;
    calls_left = calls;
    asked = calls_behind = 0;
    return mine;
}

static int goes_on(void *context UNUSED, const struct fixed_point_state *state UNUSED,
                   struct err *err UNUSED) {
    return CODE_OK;
}

/* The fields of a fixed point are drawn matrix by matrix and time by time, behind the normals of
 * the net, those of both sides of a matrix at once: that of the other side still comes. */
TEST(fields_of_a_fixed_point) {
    RUN_AND_NET;
    const struct fixed_point_calls calls = {.sweep = goes_on};
    struct err told;
    support_run_text(&run, (const char *const[]){NULL},
                     "[network]\nmodel = dense\ndepth = 2\n[training]\nsteps = 4\n"
                     "[solver]\nmethod = fixed_point\nsites = 64\n");
    struct net_setup setup = run_setup(&run, 0, 0);
    struct backend mine = asking_backend(false, INT_MAX);
    setup.backend = &mine;
    ASK(net_init(&net, &setup, err));
    mine = asking_backend(false, INT_MAX - calls_left + 1);
    setup.stop.flag = &asked;
    assert_int_equal(fixed_point_run(&setup, &run.config.training, run.data.y,
                                     &run.config.solver.fixed_point, &calls, &told),
                     CODE_INTERRUPTED);
    assert_true(asked);
    assert_int_equal(calls_behind, 1);
}

/* A step of Muon is fifteen products of matrices, or as many of every expert; of an exact factor
 * several factorisations, between which it listens. */
TEST(steps_of_matrices) {
    enum { ROWS = 8, SITES = 16 };
    const struct polar_rule rule = {.stop = &(struct stop){.flag = &asked}, .rate = 1};
    const double C[ROWS] = {1}, entry[SITES] = {1};
    FREED(array_free) struct array a = {0}, entries = {0}, velocity = {0};
    struct backend mine = asking_backend(true, 2);
    struct err told;
    ASK(array_init(&a, &mine, SITES, 1, 1, err));
    ASK(array_init(&entries, &mine, SITES, 1, ROWS, err));
    mine.put(array_all(&a), entry);
    struct change change = {.entries = array_all(&entries), .a = array_all(&a), .s = 1};
    ASK(base_alloc(&change.C, ROWS, sizeof *C, err));
    memcpy(change.C, C, sizeof C);
    assert_int_equal(polar_change(&change, &rule, &velocity, &told), CODE_INTERRUPTED);
    assert_int_equal(calls_behind, 0);
    const struct polar_rule exact = {.stop = rule.stop, .rate = 1, .exact = true};
    struct change again = {.entries = array_all(&entries), .a = array_all(&a), .s = 1};
    ASK(base_alloc(&again.C, ROWS, sizeof *C, err));
    memcpy(again.C, C, sizeof C);
    assert_true(asked);
    assert_int_equal(polar_change(&again, &exact, &velocity, &told), CODE_INTERRUPTED);
}

/* A chain that seldom leaves a cycle needs many steps to its law: minutes, after a tenth of a
 * second for the matrix. */
CLEAN_TEST(entropy_of_a_chain) {
    FREED(cli_free) struct cli_result result;
    cli_print("chain.ini", "[network]\nmodel = dense\n[data]\nsource = markov\nvocabulary = 1000\n"
                           "sharpness = 20\ntokens = 2\n[training]\nloss = cross_entropy\n");
    pid_t pid = cli_start(ARGS("chain.ini", "-o", "out.h5"), 0);
    cli_work(pid, 0.4);
    kill(pid, SIGINT);
    cli_wait(pid, &result);
    assert_true(
        cli_ended(&result, 130, ARGS("interrupted while the entropy of the chain is found")));
}

/* After a second that nothing hears, as one factorisation of a large matrix, a sentence comes. */
TEST(a_second_without_a_word) {
    int channel[2];
    char said[200] = "";
    assert_int_equal(pipe(channel), 0);
    pid_t child = fork();
    if (!child) {
        command_signals();
        dup2(channel[1], STDERR_FILENO);
        raise(SIGINT);
        unsigned left = alarm(0);
        raise(SIGALRM);
        _exit((int)left);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_true(read(channel[0], said, sizeof said - 1) > 0 && !close(channel[0]));
    assert_non_null(strstr(said, "stopping when the operation under way has ended"));
    close(channel[1]);
}

/* While it waits for a question the program has nothing to save: a signal ends it at once. */
CLEAN_TEST(answers_about_programs) {
    static const int deadly[] = {SIGINT, SIGTERM};
    for (size_t k = 0; k < COUNT(deadly); k++) {
        int channel[2], kept = dup(STDIN_FILENO);
        FREED(cli_free) struct cli_result result;
        struct stat answer = {0};
        assert_int_equal(pipe(channel), 0);
        assert_true(kept >= 0 && dup2(channel[0], STDIN_FILENO) >= 0);
        assert_int_equal(fcntl(channel[1], F_SETFD, FD_CLOEXEC), 0);
        pid_t pid = cli_start(ARGS("--programs"), 0);
        assert_true(dup2(kept, STDIN_FILENO) >= 0 && !close(kept) && !close(channel[0]));
        assert_int_equal(write(channel[1], "1\n", 2), 2);
        while (stat("stdout.txt", &answer) || !answer.st_size)
            cli_pause(2e-3);
        kill(pid, deadly[k]);
        close(channel[1]);
        cli_wait(pid, &result);
        assert_int_equal(result.code, -deadly[k]);
        assert_non_null(strstr(result.out, "no JSON list of words"));
    }
}

/* A path that a sentence cuts within a letter, and a line that is no UTF-8: both are answered, and
 * so is what comes after them. */
CLEAN_TEST(answers_in_any_letters) {
    enum { LETTERS_OF_PATH = 1024 };
    FREED(cli_free) struct cli_result result;
    char *question = calloc(1, 2 * LETTERS_OF_PATH + 64), *at = question + 2;
    assert_non_null(question);
    memcpy(question, "[\"", 2);
    for (int k = 0; k < LETTERS_OF_PATH; k++, at += 2)
        memcpy(at, "\xc3\xa9", 2);
    strcpy(at, ".ini\"]\n[\"\xff.ini\"]\n[\"none.ini\"]\n");
    cli_print("questions", question);
    free(question);
    int kept = dup(STDIN_FILENO), file = open("questions", O_RDONLY);
    assert_true(kept >= 0 && file >= 0 && dup2(file, STDIN_FILENO) >= 0);
    cli_run(&result, ARGS("--programs"));
    assert_true(dup2(kept, STDIN_FILENO) >= 0 && !close(kept) && !close(file));
    const char *second = strchr(result.out, '\n'),
               *third = second ? strchr(second + 1, '\n') : NULL;
    assert_true(
        !result.code && third && strstr(result.out, "{\"code\":2,\"error\":") == result.out &&
        strstr(second, "no JSON list of words") < third && strstr(third, "none.ini: cannot"));
}

/* A signal is heeded while files are read, which are included here or not. */
CLEAN_TEST(signals_while_reading) {
    static volatile sig_atomic_t signalled;
    FREED(base_free) struct param_section *sections;
    size_t count;
    ASK(config_sections(&sections, &count, err));
    cli_print("included.ini", "[data]\ninputs = 4\n");
    cli_print("main.ini", "include = included.ini\n[network]\nmodel = dense\n");
    for (int heeded = 0; heeded < 2; heeded++)
        for (signalled = 0; signalled < 2; signalled++) {
            FREED(params_free) struct params params;
            struct config config;
            struct err why = {0};
            base_heed(heeded ? &signalled : NULL);
            int code = params_read(&params, sections, count, "main.ini", 0, NULL, &config, &why);
            base_heed(NULL);
            assert_int_equal(code, heeded && signalled ? CODE_INTERRUPTED : CODE_OK);
            if (code)
                assert_string_equal(why.text, "interrupted while reading main.ini");
        }
}

AROUND_TESTS(cli_open, cli_close)
