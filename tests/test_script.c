/* Networks written in Lua: what a script may say and not do; keys of its own; a text that repeats
 * the run. */
#include "tests/support/script.h"

#include "kernels/base/text.h"

/* Derived gradients by finite differences: sums and products of numbers, gates, stops. */
TEST(gradients) {
    static const char *const names[] =
        LIST("shared_experts", "swiglu", "attention_mixture", "hash_routing", "balanced", "tied",
             "parallel", "gains", "capped", "tied_embedding");
    static const char *const overrides[] = {"data.inputs=3", "reference.widths=16", NULL};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        FREED(run_free) struct run run;
        TEXT(file, 64, "examples/%s.ini", names[k]);
        support_run(&run, file, overrides);
        support_gradient(&run, 16, 23);
    }
}

#define HEAD "local a = population('a')\nlocal h = read_in(a, 'W1')\n"
#define END "read_out(h, 'w')\n"

/* A text as long as a result carries, and one that is longer. */
TEST(long_texts_are_refused) {
    static const char *const none[] = {NULL};
    char text[512];
    for (int length = 199; length < 201; length++) {
        snprintf(text, sizeof text,
                 "key('depth')\n" HEAD "kernel(h, 'K', {about = '%0*d'})\n%s" END, length, 0,
                 length > 199 ? "" : "unknown()\n");
        support_refuse_script(text, none,
                              length > 199 ? "t.lua:4: a text that results carry has control "
                                             "characters, is not UTF-8 or longer than 199 bytes"
                                           : "t.lua:5: unknown name unknown");
    }
}

/* A network of one hidden layer, which has no matrix between populations; then what was recorded
 * reads as the same run, without the file. */
TEST(recorded) {
    static const char *const change[] = {"program.depth=2", "solver.sites=64", "training.steps=3",
                                         NULL};
    FREED(run_free) struct run run, again = {0};
    FREED(two_records_free) struct record record[2];
    FREED(base_free) char *text;
    size_t size;
    support_script_run(&run, "local k = key('depth')\n" HEAD "h = tanh(h, k)\n" END, change);
    ASK(params_text(&run.params, &text, &size, err));
    FILE *out = fopen("test_script.ini", "w");
    assert_non_null(out);
    fwrite(text, 1, size, out);
    assert_int_equal(fclose(out), 0);
    ASK(run_configure(&again, "test_script.ini", 0, NULL, err));
    remove("test_script.ini");
    ASK(run_ensemble(&run, 0, 1, &record[0], err));
    ASK(run_ensemble(&again, 0, 1, &record[1], err));
    support_same(&record[1], &record[0]);
}

/* What a script says of a term of its loss stands with the series. */
TEST(terms_say_what_they_are) {
    static const char *const change[] = {"solver.sites=64", "training.steps=2", NULL};
    RUN_AND_RECORD;
    support_script_run(&run,
                       "key('depth')\n" HEAD
                       "penalty(average(h, h), 'size', {about = 'spread of h', "
                       "equation = '<h h>'})\n" END,
                       change);
    ASK(run_ensemble(&run, 0, 1, &record, err));
    const struct series *size = record_find(&record, "size");
    assert_non_null(size);
    assert_non_null(strstr(size->about, "spread of h"));
    assert_non_null(strstr(size->equation, "<h h>"));
}

/* Attention at every head of four units: derivatives by finite differences. */
TEST(attention_by_head) {
    static const char *const change[] = {"data.inputs=2", "data.tokens=3", "reference.widths=16",
                                         "reference.draws=iid", NULL};
    FREED(run_free) struct run run;
    support_script_run(&run,
                       "key('depth')\n" HEAD "local heads = population('heads', {size = 0.25})\n"
                       "local on = population('units', {of = heads, group = 4})\n"
                       "local q, k, v = map(h, on, 'Q'), map(h, on, 'K'), map(h, on, 'V')\n"
                       "local A = softmax(attend(q, k, 0.8, heads), {causal = true})\n"
                       "h = map(mix(A, v), a, 'O')\n" END,
                       change);
    support_gradient(&run, 16, 17);
}

/* Balanced draws on populations of as many sites are orthogonal, in whatever order those are
 * declared. */
TEST(balanced_draws) {
    static const char *const change[] = {"data.inputs=3", "reference.widths=32",
                                         "reference.draws=balanced", NULL};
    static const char *const order[] = {"local a, b = population('a'), population('b')\n",
                                        "local b, a = population('b'), population('a')\n"};
    for (int i = 0; i < 2; i++) {
        RUN_AND_NET;
        TEXT(text, 256, "key('depth')\n%s%s", order[i],
             "read_out(tanh(map(read_in(a, 'W1'), b, 'V')), 'w')\n");
        support_script_run(&run, text, change);
        support_net(&net, &run, 32, 0);
        FREED(base_free) double *W1 = support_get(array_all(&support_thin(&net, "W1")->W));
        FREED(base_free) double *w = support_get(array_all(&support_thin(&net, "w")->W));
        for (int k = 0; k < run.inputs.K; k++) {
            double product = 0;
            for (int n = 0; n < 32; n++)
                product += W1[32 * k + n] * w[n];
            CHECK_ABS(product, 0, 1e-12, "row %d of W1 and w", k);
        }
    }
}

/* A script is judged with the tokens, outputs and vocabulary of the data: what it writes for those
 * alone are keys, matrices and rows like others. */
TEST(shape_of_the_data) {
    static const char text[] =
        "key('depth')\n" HEAD "if tokens == 4 and outputs == 3 and vocabulary == 0 then\n"
        "    h = key('beta', 1.0) * map(h, a, 'T')\n"
        "    name_rows(h, 'top')\nend\n" END;
    static const char *const change[] =
        LIST("data.tokens=4", "training.loss=cross_entropy", "network.outputs=3", "program.beta=2",
             "rates.T=0.5", "output.fields=top", NULL),
                             *const others[] = {"data.tokens=4", "program.beta=2", NULL};
    FREED(run_free) struct run run;
    support_script_run(&run, text, change);
    support_refuse_script(text, others, "program.beta=2: the program never reads this key");
    support_refuse_script("key('depth')\n" HEAD "bias(look(h, 1, 'Q'), {{1}}, 'b')\n" END,
                          others + 2,
                          "t.lua:4: a bias of each kind of token needs inputs that are tokens");
}

/* Of pooled scores, one row of each input: loads and thresholds by plain loops. */
TEST(selection_of_inputs) {
    enum { P = 4, E = 16, K = 5 };
    static const char *const change[] = {"data.inputs=4", "data.tokens=3", "reference.widths=16",
                                         NULL};
    static const char *const text[] = {"", ", {eta_bias = 0.1}"};
    for (int biases = 0; biases < 2; biases++) {
        RUN_AND_NET;
        TEXT(script, 512,
             "key('depth')\n" HEAD "local s = pool(map(tanh(h), a, 'Q'))\n"
             "local m = balance_select(s, 5%s)\nkernel(s, 'S')\nkernel(m, 'M')\n"
             "read_out(map(m * s, a, 'V'), 'w')\n",
             text[biases]);
        support_script_run(&run, script, change);
        support_begin(&net, &run, E, 0);
        FREED(base_free)
        double *s = support_get(net.kernels.item[0].rows),
               *m = support_get(net.kernels.item[1].rows);
        double largest = 0, spread = 0;
        for (int k = 0; k < E; k++) {
            double load = 0;
            for (int mu = 0; mu < P; mu++)
                load += m[mu * E + k] / P;
            largest = fmax(largest, load * E / K);
            spread += (load - (double)K / E) * (load - (double)K / E) / E;
        }
        CHECK_ABS(*support_measured(&net, "load_largest"), largest, 1e-14, "largest");
        CHECK_ABS(*support_measured(&net, "load2"), spread, 1e-14, "spread");
        for (int mu = 0; mu < P && biases; mu++) {
            double least = INFINITY;
            for (int k = 0; k < E; k++)
                least = m[mu * E + k] > 0 ? fmin(least, s[mu * E + k]) : least;
            CHECK_ABS(support_measured(&net, "qstar")[mu], least, 1e-14, "threshold %d", mu);
        }
        support_step(&net, &run);
    }
}

#define PAIRS                                                                                      \
    "key('depth')\n" HEAD "local heads = population('heads', {size = 0.25})\n"                     \
    "local on = population('units', {of = heads, group = 4})\n"                                    \
    "local A = attend(map(h, on, 'Q'), map(h, on, 'K'), 1, heads)\n"

/* Numbers of each pair of tokens: their masks are kept. */
TEST(selection_of_pairs) {
    static const char *const change[] = {"data.inputs=2", "data.tokens=3", "reference.widths=16",
                                         NULL};
    RUN_AND_NET;
    bool kept = false;
    support_script_run(&run,
                       PAIRS "local s = look(A, 4, 'R')\n"
                             "penalty(balance_select(s, 2, {eta_bias = 0.1}) * s, 'r')\n" END,
                       change);
    support_net(&net, &run, 16, 0);
    support_train(&net, &run, 3);
    for (int k = 0; k < net.program->kept; k++)
        kept |= net.arrays.item[k]->sites == 4 && net.arrays.item[k]->rows == 2 * 9;
    assert_true(kept);
    support_refuse_script(
        PAIRS "balance_select(A, 2)\n" END, change,
        "t.lua:7: a selection among experts that is measured takes one row of each input or "
        "token, not of each pair of tokens");
}

/* A map that reads what does not move hands nothing back; of a family, what the others do counts.
 */
TEST(coordinates_of_a_constant) {
    static const char text[] = "key('depth')\n" HEAD "local c = top(h, 8)\n"
                               "h = h + map(c, a, 'W') + map(c, a, {name = 'U', family = 'F'})\n"
                               "h = map(tanh(h), a, {name = 'V', family = 'F'})\n" END;
    static const char *const change[] = {"data.inputs=2",       "reference.widths=16",
                                         "reference.seeds=1",   "reference.coordinate_check=yes",
                                         "solver.replicates=1", "solver.sites=64",
                                         "training.steps=2",    NULL};
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_RECORD;
        support_script_run(&run, text, change);
        ASK(run_ensemble(&run, N, 1, &record, err));
        assert_true(record_find(&record, "rms_W") && !record_find(&record, "rms_W_back"));
        assert_non_null(record_find(&record, "rms_F_back"));
    }
}

/* A quarter of 16 sites is 4 of them, and a half of two numbers one, bit by bit. */
TEST(a_share_is_that_many) {
    static const char
        *const change[] = {"data.inputs=2", "reference.widths=16", "solver.replicates=0",
                           "training.steps=3", NULL},
               *const text[] = {
                   "key('depth')\n" HEAD "local q = look(h, 2, 'Q')\n"
                   "h = h + top(h, 4) * h * (q * top(q, 1))[2]\n" END,
                   "key('depth')\n" HEAD "local q = look(h, 2, 'Q')\n"
                   "h = h + top(h, {share = 0.25}) * h * (q * top(q, {share = 0.5}))[2]\n" END};
    support_scripts_agree(text, change);
}
