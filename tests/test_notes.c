/* Notes of a run: what is said of limits that condense, of runs that fail, and until when numbers
 * hold. */
#include "solver/run/findings.h"
#include "solver/run/notes.h"
#include "tests/support/support.h"

static const struct note *find(const struct run *run, const char *code) {
    for (int k = 0; k < run->notes.count; k++)
        if (!strcmp(run->notes.note[k].code, code))
            return &run->notes.note[k];
    return NULL;
}

/* The same network, built in and as a program of the user's: what the gates do decides. */
TEST(gates_that_condense) {
    static const STRUCT(const char *ini, *gate; bool condenses) table[] = {
        {"data/regime2.ini", "network.gate=softmax", true},
        {"data/regime2.ini", "network.gate=sigmoid", false},
        {"examples/regime2.ini", "program.gate=softmax", true},
        {"examples/regime2.ini", "program.gate=sigmoid", false},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(run_free) struct run run;
        support_run(&run, table[i].ini,
                    ARGS(table[i].gate, "training.gamma0=1.5", "training.eta0=0.15",
                         "training.steps=12", "solver.sites=256", "solver.expert_sites=256",
                         "solver.replicates=2", "reference.widths="));
        int code = run_march(&run, &failure);
        const struct note *note = find(&run, "not_self_averaging");
        assert_int_equal(note != NULL, table[i].condenses);
        assert_int_equal(code, CODE_OK);
        if (note) {
            assert_true(note->warning && note->t > 0 && note->t < 12);
            assert_string_equal(note->group, "limit");
        }
    }
}

/* The text of a note of this kind that begins with these names; NULL: there is none. */
static const char *never_moves(const struct run *run, const char *names) {
    for (int k = 0; k < run->notes.count; k++) {
        const struct note *note = &run->notes.note[k];
        if (!strcmp(note->code, "never_moves") && !strncmp(note->text, names, strlen(names)))
            return note->text;
    }
    return NULL;
}

#define SHORT                                                                                      \
    "[data]\ninputs = 8\ndimension = 10\n[training]\nsteps = 5\neta0 = 0.3\n[solver]\n"            \
    "sites = 128\nreplicates = 1\n[reference]\nwidths = 16\nseeds = 2\n"
#define TOP_1                                                                                      \
    "[network]\nmodel = regime1\nexperts = 4\nrho = 0.25\ngate = softmax\nbias = trained\n"
#define TOP_1_LUA(options)                                                                         \
    "[network]\nmodel = program\nprogram_text = local x = sigma(read_in(population('a'), 'W1')); " \
    "local up = population('b'); local p = softmax(bias(look(x, 2, 'Q'), {0.5, 0}, 'b'), "         \
    "{" options "}); read_out(p[1] * map(x, up, 'V1') + p[2] * map(x, up, 'V2'), 'w')\n"
#define CLOSED                                                                                     \
    "[network]\nmodel = program\nprogram_text = local a = population('a'); "                       \
    "local h = map(sigma(read_in(a, 'W1')), a, 'W2'); read_out(relu(-relu(h)), 'w')\n"

/* At the end of an evaluation of this limit the place of the rows that A2 and D2 have read has rows
 * of 0; they learn all the same. */
#define REUSED                                                                                     \
    "[network]\nmodel = program\nprogram_text = local a = population('a'); "                       \
    "local b = population('b', {size = 0.5}); local x = tanh(read_in(a, 'W1')); "                  \
    "local s = bias(look(stop(x), 3, 'Q'), {.1, .3, -.2}, 'bs'); local h; "                        \
    "local p = softmax(s, {top = 2}); local g = vector(x, {name = 'g', start = 1.2}); "            \
    "for i = 1, 3 do local e = map(stop(g * x) + x, b, 'A' .. i); "                                \
    "local z = p[i] * map(tanh(e) * stop(e) + e, a, 'D' .. i); h = h and h + z or z end; "         \
    "penalty(0.2 * average(stop(h), h) ^ 2, 'pen'); h = h * g + stop(h) * x + g; "                 \
    "penalty(0.1 * log_sum_exp(stop(s) * s), 'pen2'); read_out(h, 'w')\n"

/* What training never moves is named with its cause, in a limit and in networks alone; what moves
 * is not. */
TEST(what_never_moves) {
    static const struct {
        const char *ini, *change, *names, *why; /* why NULL: it moves */
    } table[] = {
        {TOP_1 SHORT, "training.optimizer=gd", "Q, b never move:", "softmax_over = all"},
        {TOP_1 SHORT, "training.optimizer=adam", "Q, b never move:", "softmax_over = all"},
        {TOP_1 SHORT, "solver.replicates=0", "Q, b never move:", "softmax_over = all"},
        {TOP_1 SHORT, "network.router_rate=0", "b never moves:", "softmax_over = all"},
        {TOP_1 SHORT, "training.steps=4", "Q", NULL}, /* too short to say */
        {TOP_1 SHORT, "network.z_loss=0.1", "Q", NULL},
        {TOP_1 SHORT, "network.softmax_over=all", "Q", NULL},
        {TOP_1 SHORT, "network.rho=0.5", "Q", NULL},
        {TOP_1_LUA("top = 1") SHORT, "training.optimizer=gd", "Q, b never move:", "over the selec"},
        {TOP_1_LUA("") SHORT, "training.optimizer=gd", "Q", NULL},
        {CLOSED SHORT, "training.optimizer=gd", "W1, W2 never move:", "reaches the loss"},
        {CLOSED SHORT, "training.optimizer=gd", "w never moves:", "read there is exactly 0"},
        {REUSED SHORT, "training.optimizer=gd", "A2", NULL},
        {REUSED SHORT, "training.optimizer=gd", "A3, D3 never move:", "no input selects"},
    };
    for (size_t k = 0; k < COUNT(table); k++) {
        FREED(run_free) struct run run;
        support_run_text(&run, ARGS(table[k].change), "%s", table[k].ini);
        assert_int_equal(run_march(&run, &failure), CODE_OK);
        const char *text = never_moves(&run, table[k].names);
        if (!text != !table[k].why || (text && !strstr(text, table[k].why)))
            fail_msg("%zu: %s", k, text ? text : "no note");
    }
}

/* A limit whose bases need more sites than it has is told from one that diverges. */
TEST(causes_of_failures) {
    static const STRUCT(const char *overrides[4]; enum record_cause cause)
        table[] = {{{"solver.sites=300"}, CAUSE_SITES},
                   /* more rows than there is room for, at once */
                   {{"solver.sites=300", "data.inputs=290", "data.dimension=290"}, CAUSE_SITES},
                   {{"training.eta0=1e6"}, CAUSE_DIVERGED}};
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(run_free) struct run run;
        support_run_text(&run, table[i].overrides,
                         "[network]\nmodel = dense\nactivation = relu\n[data]\ninputs = 64\n"
                         "dimension = 40\n[training]\nsteps = 9\neta0 = 0.1\n"
                         "[solver]\nsites = 2048\nreplicates = 1\n");
        assert_int_equal(run_march(&run, &failure), CODE_NUMERICAL);
        assert_true(run.results.limit.failed[0]);
        assert_int_equal(run.results.limit.cause[0], table[i].cause);
        if (table[i].overrides[1])
            assert_int_equal(run.results.limit.steps[0], 0);
        const struct note *note = find(&run, "limit_failed");
        assert_non_null(note);
        assert_int_equal(note->t, run.results.limit.steps[0]);
        assert_non_null(strstr(failure.text, note->text));
    }
}

/* One replicate that fails before the next begins has no sampling error that is known, which is not
 * that it has none. */
TEST(one_replicate_has_no_error) {
    FREED(run_free) struct run run;
    support_run_text(&run, NULL,
                     "[network]\nmodel = dense\nactivation = relu\n[training]\nsteps = 9\n"
                     "eta0 = 100\n[solver]\nsites = 256\nreplicates = 2\nthreads = 1\n");
    assert_int_equal(run_march(&run, &failure), CODE_NUMERICAL);
    assert_true(run.results.limit.failed[0] && run.results.limit.steps[0] > 1);
    assert_int_equal(run.results.limit.steps[1], 0);
    assert_null(find(&run, "no_sampling_error"));
}

/* Of replicates that fail at once, in threads of their own, each counts as failed, whichever was
 * the first. */
TEST(all_that_fail_have_failed) {
    FREED(run_free) struct run run;
    support_run_text(&run, NULL,
                     "[network]\nmodel = dense\nactivation = relu\n[data]\ninputs = 64\n"
                     "dimension = 40\n[training]\nsteps = 9\neta0 = 1e6\n"
                     "[solver]\nsites = 512\nreplicates = 4\nthreads = 4\n");
    assert_int_equal(run_march(&run, &failure), CODE_NUMERICAL);
    for (int r = 0; r < 4; r++)
        assert_int_equal(run.results.limit.failed[r], run.results.limit.cause[r] != CAUSE_NONE);
}

/* SwiGLU experts that grow out of a saddle, of few sites: halves take off a standard error, and
 * more than a half is left (docs/testing_log.md). A dense network of the same sites is none the
 * worse, and without halves nothing is known. */
TEST(biases_of_few_sites) {
    static const STRUCT(const char *ini, *sites, *more, *halves; bool warns) table[] = {
        {"examples/swiglu.ini", "solver.sites=512", "solver.expert_sites=512", "solver.halves=yes",
         true},
        {"examples/swiglu.ini", "solver.sites=512", "solver.expert_sites=512", "solver.halves=no",
         false},
        {"data/dense.ini", "solver.sites=2048", "solver.draws=sobol", "solver.halves=yes", false},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(run_free) struct run run;
        struct correction taken;
        support_run(&run, table[i].ini,
                    ARGS(table[i].sites, table[i].halves, "solver.replicates=8", table[i].more,
                         "solver.seed=4", "training.steps=10", "reference.widths="));
        ASK(run_march(&run, err));
        const struct note *note = find(&run, "bias_of_sites");
        ASK(correction_find(&run.results.limit, &taken, err));
        print_message("%s: %.2f errors of %s taken off\n", table[i].ini, taken.size,
                      taken.size > 0 ? taken.series : "anything");
        assert_int_equal(note != NULL, table[i].warns);
        assert_int_equal(taken.size > NOTES_TAKEN, table[i].warns);
        assert_true(!note || (note->warning && !strcmp(note->group, "limit")));
    }
}

/* Gates and attention weights that amplify the fluctuations of networks; biases that keep gates
 * apart do not let them. Seen in networks: attention_beta = 30 without zero_queries, loss at t = 9
 * 1.073 in the limit, 1.108(8) at N = 256; beta = 1e6 of regime1 with biases, as far apart as at 1.
 */
TEST(gates_that_amplify) {
    static const STRUCT(const char *ini, *overrides[6]; bool told) table[] = {
        {"data/transformer.ini", {"network.attention_beta=1e6", "data.test_inputs=0"}, true},
        {"data/transformer.ini", {"network.attention_beta=30", "data.test_inputs=0"}, false},
        {"data/transformer.ini",
         {"network.attention_beta=30", "data.test_inputs=0", "reference.widths=12 800",
          "reference.seeds=1"},
         true},
        {"data/transformer.ini",
         {"network.attention_beta=10", "data.test_inputs=0", "reference.widths=12 800",
          "reference.seeds=1"},
         false},
        {"data/regime1.ini", {"network.beta=1e6"}, false},
        {"data/regime1.ini", {"network.beta=1e6", "network.bias=none", "network.rho=1"}, true},
        {"data/regime1.ini", {"network.q0=1e3", "network.bias=none", "network.rho=1"}, true},
        {"data/regime1.ini", {"network.q0=50", "network.bias=none", "network.rho=1"}, false},
        {"data/regime2.ini", {"network.beta=1e6", "solver.expert_sites=64"}, false},
        {"examples/regime1.ini", {"program.beta=1e6", "program.bias=none", "program.rho=1"}, true},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        const char *overrides[12] = {"training.steps=1", "solver.sites=64", "solver.replicates=1",
                                     "reference.widths="};
        int count = 4;
        for (int k = 0; table[i].overrides[k]; k++)
            overrides[count++] = table[i].overrides[k];
        FREED(run_free) struct run run;
        support_run(&run, table[i].ini, overrides);
        assert_int_equal(run_march(&run, &failure), CODE_OK);
        const struct note *note = find(&run, "steep_gates");
        if ((note != NULL) != table[i].told)
            fail_msg("%s, %s: %s", table[i].ini, table[i].overrides[0], note ? note->text : "-");
    }
}

/* Of the limit, and of networks alone. */
TEST(steps_that_are_too_coarse) {
    for (int coarse = 0; coarse < 2; coarse++)
        for (int networks = 0; networks < 2; networks++) {
            const char *const overrides[] =
                LIST("training.integrator=heun", coarse ? "training.dt=10" : "training.dt=0.3",
                     "training.steps=12", "solver.sites=512",
                     networks ? "solver.replicates=0" : "solver.replicates=1",
                     networks ? "reference.widths=16 24" : "reference.widths=", "reference.seeds=1",
                     NULL);
            FREED(run_free) struct run run;
            support_run(&run, "data/dense.ini", overrides);
            assert_int_equal(run_march(&run, &failure), CODE_OK);
            const struct note *note = find(&run, "coarse_steps");
            assert_int_equal(note != NULL, coarse);
            if (note)
                assert_string_equal(note->group, networks ? "reference/N0024" : "limit");
        }
}

/* Where responses cannot be measured none is written, and one sentence says why. */
TEST(responses_that_are_not_measured) {
    static const STRUCT(const char *file, *more, *part; bool written)
        cases[] = {{"data/dense.ini", "training.optimizer=adam", NULL, true},
                   {"data/dense.ini", "training.integrator=heun", NULL, true},
                   {"data/dense.ini", "training.optimizer=muon", NULL, true},
                   {"data/dense.ini", "training.muon=exact", "muon = exact", false},
                   {"examples/convolution.ini", "data.inputs=2", "W2_1, W2_2", false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool exact = strstr(cases[i].more, "exact") != NULL;
        const char *const overrides[] =
            LIST("output.responses=yes", "training.steps=2", "solver.sites=64",
                 "solver.replicates=2", "reference.widths=", cases[i].more,
                 exact ? "training.optimizer=muon" : NULL, "training.momentum=0", NULL);
        FREED(run_free) struct run run;
        support_run(&run, cases[i].file, overrides);
        assert_int_equal(run_march(&run, &failure), CODE_OK);
        const struct note *note = find(&run, "no_responses");
        assert_true(cases[i].part ? note && strstr(note->text, cases[i].part) : !note);
        assert_int_equal(record_find(&run.results.limit, "A_W2") != NULL, cases[i].written);
    }
}

/* Gates of one input just within and just beyond each bound of docs/method.md, section 5. */
TEST(bounds_of_gates) {
    static const struct {
        double participation, start, largest; /* of its start; the largest gate then and now */
        bool condensed, concentrated;
    } table[] = {{0.904, 1, 1, false, false},      {0.896, 1, 1, false, true},
                 {0.754, 1, 1, false, true},       {0.746, 1, 1, true, true},
                 {0.95, 10, 29.9, false, false},   {0.95, 10, 30.1, true, false},
                 {0.95, 15.2, 30.3, false, false}, {0.95, 15.1, 30.3, true, false}};
    struct series series = {.dims = "t mu", .axes = 2, .shape = {2, 1}};
    FREED(record_free) struct record record;
    struct condense gates;
    ASK(record_init(&record, 1, 2, err));
    strcpy(series.name, "gate_participation");
    ASK(record_add(&record, series, err));
    strcpy(series.name, "gate_largest");
    ASK(record_add(&record, series, err));
    record.steps[0] = 2;
    for (size_t k = 0; k < COUNT(table); k++) {
        double *ratio = record_at(&record, &record.series[0], 0, 0),
               *largest = record_at(&record, &record.series[1], 0, 0);
        ratio[0] = 0.5;
        ratio[1] = 0.5 * table[k].participation;
        largest[0] = table[k].start;
        largest[1] = table[k].largest;
        assert_true(condense_find(&record, true, &gates));
        if (gates.condensed != (table[k].condensed ? 1 : 2) ||
            gates.concentrated != (table[k].concentrated ? 1 : 2))
            fail_msg("row %zu: %d, %d", k, gates.condensed, gates.concentrated);
    }
}

/* Matrices of which networks have singular values and the limit has not are named as they are in
 * [output] singular. */
TEST(singular_values_of_networks_alone) {
    FREED(run_free) struct run run;
    support_run(&run, "data/dense.ini",
                ARGS("training.optimizer=adam", "output.singular=W2", "training.steps=2",
                     "solver.sites=64", "solver.replicates=1", "reference.widths=8",
                     "reference.seeds=1"));
    ASK(run_march(&run, err));
    const struct note *note = find(&run, "singular_values_of_networks");
    assert_non_null(note);
    FAIL_IF(!strstr(note->text, "has no singular values of W2: the optimizer"), "%s", note->text);
}
