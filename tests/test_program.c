/* Programs drawn at random from all operations: the derived backward pass against finite
 * differences, in storage that is shared out by the plan; the same bits on poisoned memory and for
 * any number of threads, in networks and the limit.
 *
 * Rows go through tanh before the read-out and after every sum and product, so that the loss is of
 * order one as support_gradient asks for. Masks are not drawn: a difference may not cross one. */
#include "tests/support/places.h"
#include "models/language/operation.h"

#include <glob.h>

enum { MOST = 64 };

static struct {
    uint32_t state;
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
static const struct shape shapes[] = LIST(
    {6, 1, 1, &loss_mse, false}, {6, 1, 3, &loss_mse, false}, {6, 1, 3, &loss_cross_entropy, false},
    {2, 3, 1, &loss_mse, false}, {2, 3, 2, &loss_cross_entropy, false},
    {2, 3, 3, &loss_cross_entropy, true}, {3, 2, 1, &loss_logistic, true});
enum { INPUTS = 6, SHAPES = COUNT(shapes), VOCABULARY = 3 };
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
    return place == PAIRS ? 1 / sqrt(on[EXPERTS]->size) : 1;
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
    push(program_map(p, take(i), on[place], W), place, 0);
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

/* A word that is an operation by its row, of these arguments, with its smallest constants. */
static struct value word_of(struct program *p, const struct operation *const *list,
                            const char *others, struct value x) {
    const struct operation *some[32];
    int count = 0;
    for (const struct operation *const *op = list; *op; op++)
        if ((*op)->adjoint && count < 32 && !strpbrk((*op)->arguments, others))
            some[count++] = *op;
    const struct operation *op = some[count > 1 ? draw(count) : 0];
    struct operands given = {.x = x};
    int constants = 0;
    for (const struct constant_field *field = op->constants; field && field->name; field++)
        given.constant[constants++] = fmax(field->least, -2) + draw(5);
    return program_apply(p, op, given);
}

/* Functions of each number by itself, and of all. */
static void of_numbers(struct program *p, int s) {
    int kind = draw(3), K = w.columns[s];
    if (kind == 2)
        push(word_of(p, operation_words_of_numbers, "xyp", take(s)), -1, 1);
    else
        push(kind ? program_power(p, take(s), 2) : program_plus(p, take(s), 0.3), -1, K);
}

static void use_numbers(struct program *p, int s) {
    static const double start[] = {0.3, -0.2};
    int x = pick(-2), other = pick(-1), K = w.columns[s], L = w.columns[other];
    if (draw(5) == 0) {
        of_numbers(p, s);
    } else if (draw(6) == 0) {
        struct weight E = {.name = program_name(p, "E%d", w.names++)};
        push(program_embed(p, take(s), on[w.place[x]], E), w.place[x], 0);
    } else if ((K == L || K == 1 || L == 1) && draw(3) == 0) {
        struct value a = take(s), b = take(other);
        push(draw(2) ? program_add(p, a, b) : program_multiply(p, a, b), -1, K > L ? K : L);
    } else if (K + L < 5 && draw(4) == 0) {
        struct value all = program_join(p, take(s), take(other));
        push(program_pick(p, all, draw(K + L)), -1, 1);
        push(all, -1, K + L);
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
        push(program_expand(p, x, on[UNITS]), UNITS, 0);
    else if (place == UNITS)
        push(program_word(p, "group_mean", (struct operands){.x = x, .on = on[EXPERTS]}), EXPERTS,
             0);
    else if (place == UNIT)
        push(program_word(p, "tile", (struct operands){.x = x, .on = on[PAIRS]}), PAIRS, 0);
    else if (place == PAIRS)
        push(program_word(p, "tile_mean", (struct operands){.x = x, .on = on[UNIT]}), UNIT, 0);
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
        A = program_softmax(p, program_attend(p, take(i), take(k), 0.8, on[EXPERTS]), causal);
        push(program_mix(p, A, take(v)), place, 0);
        if (draw(2)) /* its cotangent is a sum */
            push(program_mix(p, A, take(i)), place, 0);
        return;
    }
    A = program_softmax(p, program_attend(p, take(i), take(k), 2, NULL), causal);
    push(program_mix(p, A, take(v)), place, 0);
    if (draw(2))
        push(program_mix(p, A, take(i)), place, 0);
}

/* To one place less than there are tokens, and back. */
static void between_places(struct program *p, int i) {
    static const double down[] = {0.6, -0.5, 0.4, 0.3, 0.7, -0.6},
                        up[] = {0.8, 0.3, -0.4, 0.5, 0.6, 0.7};
    int n = program_setup(p)->data.n, place = w.place[i];
    struct value few = program_fn(p, FN_TANH, 1, program_mix_places(p, take(i), n - 1, n, down));
    push(program_mix_places(p, few, n, n - 1, up), place, 0);
}

/* A word of tokens, of rows or numbers alone. */
static struct value of_tokens(struct program *p, struct value x) {
    return word_of(p, operation_words_of_tokens, "yps", x);
}

/* What numbers of each token have as rows do. */
static void numbers_of_tokens(struct program *p, int s) {
    static const double S[] = {0.6, -0.5, 0.4, 0.3, 0.7, -0.6, 0.2, 0.1, -0.3};
    int n = program_setup(p)->data.n, q = pick(-2);
    struct value x = take(s);
    if (draw(4) == 0)
        x = program_mix_places(p, x, n, n, S);
    else if (draw(3) == 0)
        x = program_mix(p, program_attend(p, take(q), take(q), 1, NULL), x);
    else
        x = of_tokens(p, x);
    push(program_add(p, take(s), x), -1, w.columns[s]);
}

static void append(struct program *p) {
    static const enum fn fns[] = {FN_TANH, FN_SIGMOID, FN_SOFTPLUS, FN_GELU, FN_ERF};
    int i = pick(-2), s = pick(-1), place = w.place[i];
    switch (draw(program_setup(p)->data.n > 1 ? 14 : 8)) {
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
        if (s >= 0 && program_setup(p)->data.n > 1 && draw(3) == 0)
            numbers_of_tokens(p, s);
        else if (s >= 0)
            use_numbers(p, s);
        break;
    case 8:
        push(program_fn(p, FN_TANH, 1, program_norm(p, take(i))), place, 0);
        break;
    case 9: /* no rows of zeros alone, which a norm could meet */
        push(program_add(p, take(i), of_tokens(p, take(i))), place, 0);
        break;
    case 10:
        between_places(p, i);
        break;
    default:
        attention(p, i);
    }
}

/* What nothing has used yet goes to the top. */
static void write_random(struct program *p) {
    uint32_t state = w.state;
    w.count = w.names = 0;
    populate(p);
    push(program_fn(p, FN_TANH, 1, program_read_in(p, on[BOTTOM], (struct weight){.name = "in"})),
         BOTTOM, 0);
    map_to(p, 0, EXPERTS);
    for (int k = 0; k < 14; k++)
        append(p);
    for (int i = 0; i < w.count; i++)
        if (w.place[i] == -1 && !w.used[i]) {
            int x = pick(-2);
            push(program_scale(p, take(i), w.columns[i] - 1, take(x)), w.place[x], 0);
        }
    struct value top = program_map(p, w.value[0], on[TOP], (struct weight){.name = "last"});
    for (int i = 1; i < w.count; i++)
        if (!w.used[i] && w.place[i] != -1) {
            struct weight W = {.name = program_name(p, "top%d", i), .s_f = scale_from(w.place[i])};
            top = program_add(p, top, program_map(p, w.value[i], on[TOP], W));
        }
    program_read_out(p, program_fn(p, FN_TANH, 1, top), (struct weight){.name = "w"});
    w.state = state; /* the same program for every net of it */
}

static const struct model model_random = {.name = "random", .write = write_random};

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

TEST(gradient_by_differences) {
    static const char *const without[] = {NULL};
    FREED(run_free) struct run run;
    start(&run, without);
    for (int k = 0; k < SHAPES; k++) {
        ask(&run, &shapes[k]);
        for (uint32_t seed = 1; seed <= (k ? 25 : 60); seed++) {
            FREED(net_free) struct net net;
            w.state = (seed + 100 * (uint32_t)k) * 2654435761u;
            new_net(&net, &run, 8, &model_random, &shapes[k]);
            support_gradient_of(&net, &run, 7);
        }
    }
}

/* Every operation of the sources that has an adjoint was met by a program of the test above: one
 * that is added and not drawn is named here. Terms of the loss are judged by test_balance. */
TEST(every_operation_is_drawn) {
    static char text[1 << 16];
    int found = 0;
    glob_t files;
    if (!met[0])
        skip(); /* the test above did not run */
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
        for (char *at = text; (at = strstr(at, "OPERATION(")); at++) {
            const char *end = strstr(at, ");"), *adjoint = strstr(at, ".adjoint");
            if (!end || !adjoint || adjoint > end)
                continue;
            assert_int_equal(sscanf(at, "OPERATION( %63[a-z_]", name), 1);
            found++;
            FAIL_IF(!is_met(name), "%s: no program of tests/test_program.c has %s", path, name);
        }
    }
    globfree(&files);
    assert_true(found > 20);
}

enum { STEPS = 4, MOST_OUTPUTS = INPUTS * 3 };

/* f after each of four steps, on a backend. */
static void train(const struct run *run, int N, const struct shape *shape, double *f) {
    FREED(net_free) struct net net;
    new_net(&net, run, N, &model_random, shape);
    for (int t = 0; t < STEPS; t++) {
        support_evaluate(&net, run);
        memcpy(f + MOST_OUTPUTS * t, net.output.f,
               (size_t)(net.batch.output_rows * net.setup.data.C) * sizeof *f);
        support_learn(&net, run);
    }
}

/* Rows that are read before they are written are NaN on the backend `shadow`. */
TEST(same_bits_on_poisoned_memory) {
    static const char *const more[][3] = {{"solver.sites=64"},
                                          {"solver.sites=64", "solver.backend=shadow"},
                                          {"solver.sites=64", "solver.threads=2"}};
    for (uint32_t seed = 1; seed <= 35; seed++)
        for (int N = 0; N <= 8; N += 8) {
            double f[3][STEPS * MOST_OUTPUTS] = {{0}};
            const struct shape *shape = &shapes[seed % SHAPES];
            for (int i = 0; i < 3; i++) {
                FREED(run_free) struct run run;
                start(&run, more[i]);
                ask(&run, shape);
                w.state = seed * 2654435761u;
                train(&run, N, shape, f[i]);
            }
            double last = f[0][(STEPS - 1) * MOST_OUTPUTS];
            assert_true(last == last && last != 0);
            assert_memory_equal(f[0], f[1], sizeof f[0]);
            assert_memory_equal(f[0], f[2], sizeof f[0]);
        }
}
