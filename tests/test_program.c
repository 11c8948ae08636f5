/* Programs drawn at random from all operations: the derived backward pass against finite
 * differences, in storage that is shared out by the plan; the same bits on poisoned memory and for
 * any number of threads, in networks and the limit; and the sentences for programs that are wrong.
 *
 * Rows go through tanh before the read-out and after every sum and product, so that the loss is of
 * order one as support_gradient asks for. Masks are not drawn: a difference may not cross one. */
#include "tests/support/support.h"
#include "models/engine/node.h"

#include <math.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOTTOM, EXPERTS, UNITS, UNIT, PAIRS, TOP, PLACES, MOST = 64 };

static struct {
    uint32_t state;
    struct population *on[PLACES];
    struct value value[MOST];
    int place[MOST]; /* of value; -1: numbers */
    int columns[MOST];
    bool used[MOST];
    int count, names;
} w; /* what is written */

/* What the six inputs of a run are taken for: P of n tokens each, with C outputs. */
struct shape {
    int P, n, C;
    const struct loss *loss;
    bool per_token;
};
static const struct shape shapes[] = {
    {6, 1, 1, &loss_mse, false},           {6, 1, 3, &loss_mse, false},
    {6, 1, 3, &loss_cross_entropy, false}, {2, 3, 1, &loss_mse, false},
    {2, 3, 2, &loss_cross_entropy, false}, {2, 3, 3, &loss_cross_entropy, true},
    {3, 2, 1, &loss_logistic, true},
};
enum { INPUTS = 6, SHAPES = sizeof shapes / sizeof *shapes, VOCABULARY = 3 };
static const int tokens[INPUTS] = {0, 2, 1, 1, 2, 2};

static int draw(int n) {
    w.state = w.state * 1664525u + 1013904223u;
    return (int)((w.state >> 8) % (uint32_t)n);
}

static void push(struct value value, int place, int columns) {
    assert_true(w.count < MOST);
    w.value[w.count] = value;
    w.place[w.count] = place;
    w.columns[w.count] = columns;
    w.used[w.count++] = false;
}

/* One of the values there; numbers (place -1), of a place, or (-2) of any. */
static int pick(int place) {
    int found[MOST], n = 0;
    for (int i = 0; i < w.count; i++)
        if (w.place[i] == place || (place == -2 && w.place[i] >= 0))
            found[n++] = i;
    return n ? found[draw(n)] : -1;
}

static struct value take(int i) {
    w.used[i] = true;
    return w.value[i];
}

/* Out of the N^2 pairs nothing of order one comes without it. */
static double scale_from(int place) {
    return place == PAIRS ? 1 / sqrt(w.on[EXPERTS]->size) : 1;
}

static void map_to(struct program *p, int i, int place) {
    struct weight W = {.name = program_name(p, "W%d", w.names++),
                       .s_f = (0.5 + draw(2) * 0.5) * scale_from(w.place[i]),
                       .rate = 0.5 + draw(3) * 0.5};
    if (draw(3) == 0) /* all of these are one matrix */
        W = (struct weight){.name = program_name(p, "T%d%d", w.place[i], place),
                            .s_f = scale_from(w.place[i]),
                            .rate = 0.5,
                            .tied = true};
    push(program_map(p, take(i), w.on[place], W), place, 0);
}

static void numbers(struct program *p, int i) {
    int other = pick(w.place[i]);
    if (draw(2)) {
        struct weight Q = {.name = program_name(p, "Q%d", w.names++)};
        push(program_look(p, take(i), 2, Q), -1, 2);
    } else if (draw(2))
        push(program_mean(p, take(i)), -1, 1);
    else
        push(program_average(p, take(i), take(other)), -1, 1);
}

static void use_numbers(struct program *p, int s) {
    static const double start[] = {0.3, -0.2};
    int x = pick(-2), other = pick(-1), K = w.columns[s], L = w.columns[other];
    if ((K == L || K == 1 || L == 1) && draw(3) == 0) {
        struct value a = take(s), b = take(other);
        push(draw(2) ? program_add_numbers(p, a, b) : program_multiply_numbers(p, a, b), -1,
             K > L ? K : L);
    } else if (w.columns[s] == 2 && draw(2)) {
        static const double starts[2 * VOCABULARY] = {0.3, -0.2, 0.1, 0, -0.4, 0.2};
        struct weight b = {.name = program_name(p, "b%d", w.names++)};
        if (program_setup(p)->data.n > 1 && draw(2))
            push(program_bias_of_tokens(p, take(s), starts, b), -1, 2);
        else
            push(program_bias(p, take(s), start, b), -1, 2);
    } else if (draw(2))
        push(program_scale(p, take(s), draw(w.columns[s]), take(x)), w.place[x], 0);
    else
        push(program_shift(p, take(s), take(x)), w.place[x], 0);
}

/* Between groups and their sites, or the same units in all groups. */
static void regroup(struct program *p, int i) {
    struct value x = take(i);
    int place = w.place[i];
    if (place == EXPERTS)
        push(program_expand(p, x, w.on[UNITS]), UNITS, 0);
    else if (place == UNITS)
        push(program_group_mean(p, x, w.on[EXPERTS]), EXPERTS, 0);
    else if (place == UNIT)
        push(program_tile(p, x, w.on[PAIRS]), PAIRS, 0);
    else if (place == PAIRS)
        push(program_tile_mean(p, x, w.on[UNIT]), UNIT, 0);
    else
        push(program_times(p, 0.7, x), place, 0);
}

static void product(struct program *p, int i) {
    int place = w.place[i], other = pick(place), experts = pick(EXPERTS);
    bool grouped = place == UNITS || place == PAIRS;
    if (grouped && experts >= 0 && draw(2))
        other = experts;
    push(program_fn(p, FN_TANH, 1, program_multiply(p, take(other), take(i))), place, 0);
}

/* Attention at the place of a value: one of the whole population, or of each expert's units. */
static void attention(struct program *p, int i) {
    int place = w.place[i], k = pick(place), v = pick(place);
    bool causal = draw(2);
    struct value A;
    if (place == UNITS && draw(2)) {
        A = program_attend_by_head(p, take(i), take(k), w.on[EXPERTS], 0.8);
        push(program_mix_by_head(p, program_softmax_by_head(p, A, causal), take(v)), place, 0);
        return;
    }
    A = program_attend(p, take(i), take(k), 2);
    push(program_mix(p, program_softmax(p, A, causal), take(v)), place, 0);
}

static void append(struct program *p) {
    static const enum fn fns[] = {FN_TANH, FN_SIGMOID, FN_SOFTPLUS, FN_GELU, FN_ERF};
    int i = pick(-2), s = pick(-1), place = w.place[i];
    switch (draw(program_setup(p)->data.n > 1 ? 13 : 8)) {
    case 0:
    case 1:
        map_to(p, i, draw(PLACES));
        break;
    case 2:
        push(program_fn(p, fns[draw(5)], 0.5 + draw(3) * 0.5, take(i)), place, 0);
        break;
    case 3:
        push(program_fn(p, FN_TANH, 1, program_add(p, take(i), take(pick(place)))), place, 0);
        break;
    case 4:
        product(p, i);
        break;
    case 5:
        regroup(p, i);
        break;
    case 6:
        numbers(p, i);
        break;
    case 7:
        if (s >= 0)
            use_numbers(p, s);
        break;
    case 8:
        push(program_fn(p, FN_TANH, 1, program_norm(p, take(i))), place, 0);
        break;
    case 9: /* no rows of zeros alone, which a norm could meet */
        push(program_add(p, take(i), program_lag(p, take(i), draw(5) - 2)), place, 0);
        break;
    default:
        attention(p, i);
    }
}

static void populate(struct program *p) {
    const struct net_setup *setup = program_setup(p);
    size_t S = (size_t)setup->limit.sites;
    w.on[BOTTOM] = program_population(p, "bottom", 1, S, 1);
    w.on[EXPERTS] = program_population(p, "experts", 0.5, S / 2, 1);
    w.on[UNITS] = program_population(p, "units", 1, S / 2 * 2, 2);
    w.on[UNIT] = program_population(p, "unit", 0.25, S / 4, 1);
    w.on[PAIRS] = program_population(p, "pairs", 0.25 * w.on[EXPERTS]->size, S / 2 * (S / 4),
                                     (int)w.on[UNIT]->sites);
    w.on[UNITS]->of = w.on[PAIRS]->of = w.on[EXPERTS];
    w.on[PAIRS]->units = w.on[UNIT];
    w.on[TOP] = program_population(p, "top", 1, S, 1);
}

/* What nothing has used yet goes to the top. */
static void write_random(struct program *p) {
    uint32_t state = w.state;
    w.count = w.names = 0;
    populate(p);
    push(program_fn(p, FN_TANH, 1, program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"})),
         BOTTOM, 0);
    map_to(p, 0, EXPERTS);
    for (int k = 0; k < 14; k++)
        append(p);
    for (int i = 0; i < w.count; i++)
        if (w.place[i] == -1 && !w.used[i]) {
            int x = pick(-2);
            push(program_scale(p, take(i), w.columns[i] - 1, take(x)), w.place[x], 0);
        }
    struct value top = program_map(p, w.value[0], w.on[TOP], (struct weight){.name = "last"});
    for (int i = 1; i < w.count; i++)
        if (!w.used[i] && w.place[i] != -1) {
            struct weight W = {.name = program_name(p, "top%d", i), .s_f = scale_from(w.place[i])};
            top = program_add(p, top, program_map(p, w.value[i], w.on[TOP], W));
        }
    program_read_out(p, program_fn(p, FN_TANH, 1, top), (struct weight){.name = "w"});
    w.state = state; /* the same program for every net of it */
}

static const struct model model_random = {.name = "random", .write = write_random};

static void start(struct run *run, const char *const *more) {
    const char *overrides[16] = {"data.inputs=6", "data.dimension=4", "training.eta0=0.1",
                                 "training.gamma0=1.5", "reference.widths="};
    for (int n = 5; *more; n++)
        overrides[n] = *more++;
    support_run(run, "data/dense.ini", overrides);
}

static const char *met[64]; /* names of operations */

static bool is_met(const char *name) {
    for (int k = 0; k < 64 && met[k]; k++)
        if (!strcmp(met[k], name))
            return true;
    return false;
}

static void note(const char *name) {
    int k = 0;
    while (met[k] && strcmp(met[k], name))
        k++;
    assert_true(k < 63);
    met[k] = name;
}

static void new_net(struct net *net, const struct run *run, int N, const struct model *model,
                    const struct shape *shape) {
    struct net_setup setup = run_setup(run, N, 0);
    setup.model = model;
    setup.data.P = setup.data.inputs = shape->P;
    setup.data.n = shape->n;
    setup.data.C = shape->C;
    setup.data.per_token = shape->per_token;
    setup.data.token = shape->n > 1 ? tokens : NULL;
    setup.data.V = VOCABULARY;
    ASK(net_init(net, &setup, err));
    for (int i = 0; i < net->program->nodes; i++)
        note(net->program->node[i].op->name);
}

/* The loss of this shape, with targets: +-1; or class i mod C of row i, the last not asked for. */
static void ask(struct run *run, const struct shape *shape) {
    int rows = shape->per_token ? shape->P * shape->n : shape->P;
    run->config.training.loss = shape->loss;
    free(run->data.y);
    ASK(base_alloc(&run->data.y, (size_t)(rows * shape->C), sizeof *run->data.y, err));
    for (int i = 0; i < rows; i++)
        if (shape->C == 1)
            run->data.y[i] = i % 2 ? -1 : 1;
        else if (i < rows - 1)
            run->data.y[i * shape->C + i % shape->C] = 1;
}

/* Draws the programs of all shapes; judged: and takes their gradients by differences. */
static void each_program(bool judged) {
    static const char *const none[] = {NULL};
    struct run run;
    start(&run, none);
    for (int k = 0; k < SHAPES; k++) {
        ask(&run, &shapes[k]);
        for (uint32_t seed = 1; seed <= (k ? 25 : 60); seed++) {
            struct net net;
            w.state = (seed + 100 * (uint32_t)k) * 2654435761u;
            new_net(&net, &run, 8, &model_random, &shapes[k]);
            if (judged)
                support_gradient_of(&net, &run, 7, NULL);
            net_free(&net);
        }
    }
    run_free(&run);
}

/* Every operation of the sources that has a backward pass is met by a program of this file: one
 * that is added and not drawn is named here. Terms of the loss are judged by test_balance. */
static void every_operation_is_drawn(void **state) {
    (void)state;
    static char text[1 << 16];
    int found = 0;
    glob_t files;
    each_program(false);
    assert_int_equal(glob("models/language/*.c", 0, NULL, &files), 0);
    for (size_t k = 0; k < files.gl_pathc; k++) {
        char name[64], *path = files.gl_pathv[k];
        if (strstr(path, "/penalty.c"))
            continue;
        FILE *in = fopen(path, "r");
        assert_non_null(in);
        text[fread(text, 1, sizeof text - 1, in)] = '\0';
        assert_true(feof(in));
        fclose(in);
        for (char *at = text; (at = strstr(at, ".name = \"")); at++) {
            const char *end = strstr(at, "};"), *backward = strstr(at, ".backward");
            if (!end || !backward || backward > end)
                continue;
            assert_int_equal(sscanf(at, ".name = \"%63[^\"]", name), 1);
            found++;
            if (!is_met(name))
                fail_msg("%s: no program of tests/test_program.c has %s", path, name);
        }
    }
    globfree(&files);
    assert_true(found > 20);
}

static void gradient_by_differences(void **state) {
    (void)state;
    each_program(true);
}

enum { STEPS = 4, MOST_OUTPUTS = INPUTS * 3 };

/* f after each of four steps, on a backend. */
static void train(const struct run *run, int N, const struct shape *shape, double *f) {
    struct net net;
    new_net(&net, run, N, &model_random, shape);
    for (int t = 0; t < STEPS; t++) {
        support_evaluate(&net, run);
        memcpy(f + MOST_OUTPUTS * t, net.output.f,
               (size_t)(net.batch.output_rows * net.setup.data.C) * sizeof *f);
        support_learn(&net, run);
    }
    net_free(&net);
}

/* Rows that are read before they are written are NaN on the backend `shadow`. */
static void same_bits_on_poisoned_memory(void **state) {
    (void)state;
    static const char *const more[][4] = {
        {"solver.sites=64", "solver.backend=cpu"},
        {"solver.sites=64", "solver.backend=shadow"},
        {"solver.sites=64", "solver.backend=cpu", "solver.threads=2"}};
    for (int k = 1; k < 3; k++)
        for (uint32_t seed = 1; seed <= 35; seed++)
            for (int N = 0; N <= 8; N += 8) {
                double f[2][STEPS * MOST_OUTPUTS] = {{0}};
                const struct shape *shape = &shapes[seed % SHAPES];
                for (int i = 0; i < 2; i++) {
                    struct run run;
                    start(&run, more[i * k]);
                    ask(&run, shape);
                    w.state = seed * 2654435761u;
                    train(&run, N, shape, f[i]);
                    run_free(&run);
                }
                double last = f[0][(STEPS - 1) * MOST_OUTPUTS];
                assert_true(last == last && last != 0);
                assert_memory_equal(f[0], f[1], sizeof f[0]);
            }
}

static void write_nothing(struct program *p) {
    populate(p);
}

static void write_numbers_as_rows(struct program *p) {
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    program_read_out(p, program_fn(p, FN_TANH, 1, program_mean(p, x)),
                     (struct weight){.name = "w"});
    program_population(p, "late", 1, 8, 1);
}

static void write_two_populations(struct program *p) {
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    struct value y = program_map(p, x, w.on[EXPERTS], (struct weight){.name = "W"});
    program_read_out(p, program_add(p, x, y), (struct weight){.name = "w"});
}

/* One matrix from the bottom to `there`, and once more from `here` to the bottom, or with another
 * rate. */
static void tie(struct program *p, int there, int here, double rate) {
    const struct weight T = {.name = "T", .tied = true},
                        U = {.name = "T", .tied = true, .rate = rate};
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    struct value y = program_map(p, x, w.on[there], T);
    struct value z = program_map(p, here == BOTTOM ? x : y, w.on[BOTTOM], U);
    program_read_out(p, here == TOP ? x : z, (struct weight){.name = "w"});
}

static void write_tied_elsewhere(struct program *p) {
    tie(p, EXPERTS, EXPERTS, 1);
}

static void write_tied_at_another_rate(struct program *p) {
    tie(p, BOTTOM, BOTTOM, 2);
}

static void write_tied_for_nothing(struct program *p) {
    tie(p, BOTTOM, TOP, 0);
}

static void write_tied_read_in(struct program *p) {
    populate(p);
    program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in", .tied = true});
}

static void write_matrix_for_nothing(struct program *p) {
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    program_map(p, x, w.on[EXPERTS], (struct weight){.name = "lost"});
    program_read_out(p, x, (struct weight){.name = "w"});
}

static void write_tile_that_does_not_fit(struct program *p) {
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    program_read_out(p, program_tile(p, x, w.on[PAIRS]), (struct weight){.name = "w"});
}

static void write_bias_of_rows(struct program *p) {
    const double start[] = {0};
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    program_bias(p, x, start, (struct weight){.name = "b"});
    program_read_out(p, x, (struct weight){.name = "w"});
}

static void write_kernel_of_nothing(struct program *p) {
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    program_kernel(p, (struct value){-1}, 1, "Phi", "", "");
    program_read_out(p, x, (struct weight){.name = "w"});
}

static void write_two_read_outs(struct program *p) {
    populate(p);
    struct value x = program_read_in(p, w.on[BOTTOM], (struct weight){.name = "in"});
    program_read_out(p, x, (struct weight){.name = "w"});
    program_read_out(p, x, (struct weight){.name = "v"});
}

/* The first thing that is wrong is told, nothing crashes, and nothing leaks (make SAN=1). */
static void wrong_programs_are_told(void **state) {
    (void)state;
    static const struct {
        void (*write)(struct program *p);
        const char *part;
    } cases[] = {
        {write_nothing, "reads nothing out"},
        {write_numbers_as_rows, "takes rows over a population"},
        {write_two_populations, "different populations, bottom and experts"},
        {write_matrix_for_nothing, "does not depend on matrix lost"},
        {write_two_read_outs, "two read-outs"},
        {write_tile_that_does_not_fit, "tile from population bottom does not fit pairs"},
        {write_bias_of_rows, "a bias takes numbers"},
        {write_kernel_of_nothing, "kernel Phi is not of rows"},
        {write_tied_elsewhere,
         "the tied matrix T maps bottom to experts, and cannot map experts to"},
        {write_tied_at_another_rate, "the tied matrix T has other numbers"},
        {write_tied_for_nothing, "does not depend on matrix T"},
        {write_tied_read_in, "matrix in: only maps may be tied, not read_in"},
    };
    static const char *const none[] = {NULL};
    struct run run;
    start(&run, none);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct model model = {.name = "wrong", .write = cases[k].write};
        struct net_setup setup = run_setup(&run, 8, 0);
        struct net net;
        struct err err = {0};
        setup.model = &model;
        assert_int_equal(net_init(&net, &setup, &err), CODE_INPUT);
        if (!strstr(err.text, cases[k].part))
            fail_msg("%s: does not say \"%s\"", err.text, cases[k].part);
        assert_int_equal(net.populations.count,
                         6); /* none behind a fault: net_free would miss it */
        net_free(&net);
    }
    run_free(&run);
}

/* Of populations and matrices there are as many as have draws of their own. */
static void write_too_many(struct program *p) {
    for (int k = 0; k <= RNG_OWNERS; k++)
        program_population(p, "many", 1, 8, 1);
}

static void draws_are_of_one_owner(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    struct model model = {.name = "many", .write = write_too_many};
    struct run run;
    start(&run, none);
    struct net_setup setup = run_setup(&run, 8, 0);
    struct net net;
    struct err err = {0};
    setup.model = &model;
    setup.declare_only = true;
    assert_int_equal(net_init(&net, &setup, &err), CODE_INPUT);
    assert_string_equal(err.text, "network many: it has more than 65536 populations");
    net_free(&net);
    run_free(&run);
}

/* A chain of layers holds, of each, the value and the slope of its function, which take the place
 * of what they are made of, and one cotangent, which takes its own place from layer to layer. */
static void storage_is_reused(void **state) {
    (void)state;
    for (int depth = 1; depth <= 4; depth++)
        for (int N = 0; N <= 32; N += 32) {
            char layers[32];
            const char *const more[] = {layers, "reference.widths=32", "solver.sites=64", NULL};
            struct run run;
            struct net net;
            snprintf(layers, sizeof layers, "network.depth=%d", depth);
            support_run(&run, "data/dense.ini", more);
            support_net(&net, &run, N, 0);
            assert_int_equal(net.arrays.count, 2 * depth + 1);
            net_free(&net);
            run_free(&run);
        }
}

/* Behind its last use a row is NaN, which an operation that reads more than it says would meet;
 * what is read when all is done, and only that, is there still. */
static void what_is_of_no_more_use_is_poisoned(void **state) {
    (void)state;
    for (int poisons = 0; poisons < 2; poisons++) {
        const char *const more[] = {poisons ? "solver.backend=shadow" : "solver.backend=cpu",
                                    "solver.sites=64", NULL};
        struct run run;
        struct net net;
        int gone = 0;
        support_run(&run, "data/transformer.ini", more);
        support_net(&net, &run, 0, 0);
        support_evaluate(&net, &run);
        for (int k = 0; k < net.program->leases; k++) {
            struct lease lease = net.program->lease[k];
            double mean;
            for (int l = 0; l < net.program->leases; l++) /* the last that had these rows */
                if (net.program->lease[l].rows.array == lease.rows.array &&
                    net.program->lease[l].end > lease.end)
                    lease = net.program->lease[l];
            net.setup.backend->averages(rows_part(lease.rows, 0, 1), (struct rows){0}, &mean);
            assert_int_equal(isnan(mean) != 0, lease.end < 2 * net.program->nodes);
            gone += isnan(mean) != 0;
        }
        assert_int_equal(gone > 0, poisons);
        net_free(&net);
        run_free(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_by_differences),
        cmocka_unit_test(same_bits_on_poisoned_memory),
        cmocka_unit_test(wrong_programs_are_told),
        cmocka_unit_test(storage_is_reused),
        cmocka_unit_test(draws_are_of_one_owner),
        cmocka_unit_test(every_operation_is_drawn),
        cmocka_unit_test(what_is_of_no_more_use_is_poisoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
