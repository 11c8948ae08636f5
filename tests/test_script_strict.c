/* What a network in Lua may not say without a word about it: options that would have no effect,
 * zeros that stand for numbers left out, populations that only happen to have as many sites, powers
 * of the width that have no limit. And what it may say and must work. */
#define _XOPEN_SOURCE 700
#include "tests/support/script.h"

#define HEAD "local a = population('a')\nlocal h = read_in(a, 'W1')\n"
#define END "read_out(h, 'w')\n"

static const char *const none[] = {NULL}, *const tokens[] = {"data.tokens=4", NULL};

/* A function takes the options that docs/programs.md names, and no others. */
TEST(options_are_those_of_the_page) {
    static const char *const cases[][2] = {
        {"`population(", "population('b', {unheard = 1})\n"},
        {"`balance_select(", "balance_select(h, 1, {unheard = 1})\n"},
        {"`gates(", "gates(h, h, {unheard = 1})\n"},
        {"`gradient(", "gradient(h, 'G', {unheard = 1})\n"},
        {"`kernel(", "kernel(h, 'K', {unheard = 1})\n"},
        {"`name_rows(", "name_rows(h, 'x', {unheard = 1})\n"},
        {"`penalty(", "penalty(mean(h), 'p', {unheard = 1})\n"},
        {"`pooling(", "pooling(2, 2, {unheard = 1})\n"},
        {"`read_out_kernel(", "read_out_kernel('G', {unheard = 1})\n"},
        {"`show(", "show(mean(h), 's', {unheard = 1})\n"},
        {"`show_gradient(", "show_gradient(mean(h), 's', {unheard = 1})\n"},
        {"`sigmoid(", "sigmoid(mean(h), {unheard = 1})\n"},
        {"`top(", "top(h, {unheard = 1})\n"},
        {"`window(", "window(2, 2, {unheard = 1})\n"},
    };
    static char page[1 << 16];
    FILE *file = fopen("docs/programs.md", "r");
    assert_true(file && fread(page, 1, sizeof page - 1, file) > 0 && feof(file));
    fclose(file);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[512], wanted[256] = "unknown option unheard; there are:";
        const char *at = strstr(page, cases[k][0]);
        FAIL_IF(!at || !(at = strchr(at, '{')), "no options of %s", cases[k][0]);
        size_t length = strlen(wanted), end = strcspn(at, "}");
        for (const char *name = at + 1; name < at + end; name += strcspn(name, "=") + 3)
            length += (size_t)snprintf(wanted + length, sizeof wanted - length, " %.*s",
                                       (int)strcspn(name, "="), name);
        snprintf(text, sizeof text, HEAD "%s" END, cases[k][1]);
        support_refuse_script(text, none, wanted);
    }
}

/* As many sites do not make two populations one, nor one the groups of the other. */
TEST(populations_are_told_apart) {
    /* One unit for each site is as many sites, and does go with them. */
    FREED(run_free) struct run run;
    support_script_run(&run,
                       "key('depth')\n" HEAD "local u = population('u', {of = a, group = 1})\n"
                       "h = map(h * tanh(map(h, u, 'V')), a, 'U')\n" END,
                       none);
}

/* [output] router = yes measures the loads of gates whose logits nobody knows. */
TEST(loads_of_gates_without_logits) {
    FREED(record_free) struct record record;
    support_one("examples/regime2.ini",
                ARGS("output.router=yes", "training.steps=2", "solver.sites=64",
                     "solver.expert_sites=32", "reference.widths="),
                0, &record);
    const struct series *load = record_find(&record, "gate_load");
    assert_non_null(load);
    assert_null(record_find(&record, "gate_threshold"));
    /* Quantiles over experts of phi/<phi> increase, around 1. */
    size_t last = load->size / load->shape[0] - 1;
    assert_true(load->values[0] < 1 && load->values[last] > 1);
}

/* Whether a few experts may carry the averages is asked of the gates, not of a key: exponentials of
 * rows have no bound, sigmoids and the z-loss beside them do no harm. */
TEST(gates_that_condense) {
    static const STRUCT(const char *ini, *change, *other; bool condenses) cases[] = {
        {"examples/regime2.ini", "program.gate=softmax", "program.rho=0.5", true},
        {"examples/regime2.ini", "program.gate=sigmoid", "program.z_loss=0.1", false},
        {"data/regime2.ini", "network.gate=softmax", NULL, true},
        {"data/regime2.ini", "network.gate=sigmoid", "network.z_loss=0.1", false},
        {"data/regime1.ini", "network.gate=softmax", NULL, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        RUN_AND_NET;
        support_run(
            &run, cases[k].ini,
            (const char *const[]){"reference.widths=16", cases[k].change, cases[k].other, NULL});
        support_net(&net, &run, 16, 0);
        FAIL_IF(net.gates.condenses != cases[k].condenses, "%s %s", cases[k].ini, cases[k].change);
        err_overflow(&failure, "the loss is not finite");
        net_remedy(&net, 1, &failure);
        assert_true((strstr(failure.text, "or beta") != NULL) == cases[k].condenses);
    }
}

/* It says which row is zero, and not that the rate is too large. */
TEST(norm_of_zero) {
    RUN_AND_NET;
    struct err why = {0};
    support_script_run(
        &run, "key('depth')\n" HEAD "h = norm(map(h, a, {name = 'V', a0 = 0}))\n" END, none);
    support_net(&net, &run, 16, 0);
    assert_int_equal(net_evaluate(&net, run.config.training.loss, run.data.y, &why),
                     CODE_NUMERICAL);
    if (!strstr(why.text, "norm of rows on population a: row 0 of input 0 is zero"))
        fail_msg("%s", why.text);
}

/* A matrix that never learns decays, unless [rates] freezes it. */
TEST(fixed_matrices_decay_or_are_frozen) {
    static const char *const decay = "training.weight_decay=0.01";
    for (int frozen = 0; frozen < 2; frozen++) {
        RUN_AND_NET;
        support_script_run(&run,
                           "key('depth')\n" HEAD "h = map(h, a, {name = 'V', fixed = true})\n" END,
                           (const char *const[]){decay, frozen ? "rates.V=0" : NULL, NULL});
        support_net(&net, &run, 16, 0);
        FREED(base_free) double *before = support_matrix(net.maps.item[0]);
        net_decay(&net, 0.5);
        FREED(base_free) double *after = support_matrix(net.maps.item[0]);
        assert_true(after[3] == (frozen ? 1 : 0.5) * before[3] && before[3] != 0);
    }
}

/* What grows with the width and is taken back has a limit: with powers alone, the one without them
 * to the bit, since N is a power of 2 there. */
TEST(growth_that_is_taken_back) {
    static const char *const texts[] =
        LIST(HEAD "h = tanh(relu(h))\n" END, HEAD "h = tanh(N ^ -0.5 * relu(N ^ 0.5 * h))\n" END,
             HEAD "h = tanh(N ^ 0.5 * (N ^ -0.5 * relu(h)))\n" END,
             HEAD "h = tanh((N ^ -0.5 * mean(h * h)) * (N ^ 0.5 * relu(h)))\n" END,
             HEAD "h = tanh(norm(N ^ 0.5 * h))\n" END,
             HEAD "h = tanh(1 / (N ^ 0.5 * exp(h)) + h)\n" END);
    double loss = 0;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        RUN_AND_NET;
        TEXT(script, 300, "key('depth')\n%s", texts[k]);
        support_script_run(&run, script, none);
        support_begin(&net, &run, 0, 0);
        ASK(net_learn(&net, 0, 0.3, err));
        support_evaluate(&net, &run);
        loss = k ? loss : net.output.loss;
        assert_true(k > 2 || net.output.loss == loss);
    }
}

/* All names of rows, cotangents left out. */
static void list_rows(const struct net *net, char *text, size_t size) {
    char name[NET_NAME];
    text[0] = 0;
    for (int i = 0; i < net_names(net) / 2; i++)
        if (net_name(net, i, name))
            snprintf(text + strlen(text), size - strlen(text), "%s ", name);
}

/* Several functions of the same rows: the first one but exp is sigma_NAME, others are called by
 * their function, and what that does not tell apart has no name. */
TEST(functions_of_the_same_rows) {
    static const char *const cases[][2] = {
        {HEAD "h = tanh(h) * sigmoid(h)\n" END, "W1 sigma_W1 sigmoid_W1 w "},
        {HEAD "h = exp(h) * sigmoid(h) * exp(h)\n" END, "W1 exp_W1 sigma_W1 w "},
        {HEAD "h = tanh(h) * tanh(h, 2) * tanh(h, 3)\n" END, "W1 sigma_W1 tanh_W1 w "},
        {HEAD "local t = tanh(h)\nname_rows(t, 't')\nh = sigmoid(h) * t\n" END, "W1 t sigma_W1 w "},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        RUN_AND_NET;
        char text[200], script[300];
        snprintf(script, sizeof script, "key('depth')\n%s", cases[k][0]);
        support_script_run(&run, script, none);
        support_net(&net, &run, 16, 0);
        list_rows(&net, text, sizeof text);
        assert_string_equal(text, cases[k][1]);
    }
}

/* A file of as many bytes as a program may have, and of one more. */
TEST(long_programs_are_refused) {
    enum { LONGEST = 1048576 };
    char name[] = "/tmp/test_long_XXXXXX", key[64], *override[] = {key};
    FILE *file = fdopen(mkstemp(name), "w");
    assert_non_null(file);
    fprintf(file, "key('depth', 1)\n" HEAD "%*s\n" END,
            LONGEST - (int)strlen("key('depth', 1)\n" HEAD "\n" END), "");
    snprintf(key, sizeof key, "network.program=%s", name);
    for (int more = 0; more < 2; more++) {
        FREED(run_free) struct run run = {0};
        struct err why = {0};
        fflush(file);
        int code = run_configure(&run, "examples/dense.ini", 1, override, &why);
        if (code != (more ? CODE_INPUT : CODE_OK) ||
            (more && !strstr(why.text, "longer than a program may be, 1048576 bytes")))
            fail_msg("code %d: %s", code, why.text);
        fputc('\n', file);
    }
    fclose(file);
    remove(name);
}

/* A signal is heard at every word, on a thread that heeds the signal and on others. */
TEST(signals_are_heard) {
    volatile sig_atomic_t set = 1;
    FREED(run_free) struct run run;
    struct net net;
    struct err told;
    support_script_run(&run,
                       "local a = population('a')\nconstant(a, math.abs)\n"
                       "read_out(read_in(a, 'W1'), 'w')\nkey('depth')\n",
                       (const char *const[]){NULL});
    struct net_setup setup = run_setup(&run, 16, 0);
    setup.declare_only = true;
    for (int k = 0; k < 2; k++) {
        base_heed(k ? NULL : &set);
        setup.stop.flag = k ? &set : NULL;
        assert_int_equal(net_init(&net, &setup, &told), CODE_INTERRUPTED);
        assert_string_equal(told.text,
                            k ? "interrupted" : "interrupted while network t.lua is written");
        net_free(&net);
    }
}

/* What a selection of a selection begins with is asked of a net that is only declared, which has no
 * room for the loads of 512 experts nor for their biases. */
TEST(selections_of_a_declared_net) {
    FREED(run_free) struct run run;
    support_script_run(&run,
                       HEAD "local s = look(h, 512, 'Q')\n"
                            "local m = balance_select(s, 3, {eta_bias = 0.1})\n"
                            "read_out(sum(first_rows(m, 1) * s)[1] * h, 'w')\nkey('depth')\n",
                       tokens);
}
