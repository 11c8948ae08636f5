/* Sizes beyond any memory: one sentence that names what is too much, and no crash. What is counted
 * by the tokens of an input squared is beyond int long before the inputs themselves are. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "tests/support/cli.h"

static const char tokens[] =
    "[network]\nmodel = transformer\nexperts = 0\n[data]\nsource = markov\npositions = no\n"
    "vocabulary = 4\ntokens = 5000\ninputs = 172\n[training]\nsteps = 2\n"
    "[solver]\nsites = 8\nreplicates = 1\nthreads = 1\n";

/* Addresses that the program may have: what it refuses, it must not have allocated. A program with
 * a sanitizer needs terabytes of them. */
static void limit_memory(void) {
#ifndef __SANITIZE_ADDRESS__
    struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
#endif
}

CLEAN_TEST(test_refusals) {
    static const STRUCT(const char *arg[4], *part[4]) table[] = {
        {{NULL}, {"max_memory = 8", "GB", "tokens, inputs"}},
        {{"--data.inputs=86"}, {"max_memory = 8", "GB", "tokens, inputs"}},
        {{"--data.tokens=10000", "--data.inputs=2"}, {"max_memory = 8", "GB", "tokens, inputs"}},
        {{"--solver.method=fixed_point"}, {"max_memory = 8", "GB", "tokens, inputs"}},
        {{"--solver.replicates=0", "--reference.widths=16", "--reference.seeds=1"},
         {"max_memory = 8", "GB", "tokens, inputs"}},
        {{"--network.head_limit=many"},
         {"172 inputs of 5000 tokens would have 4.3e+09 rows of pairs of tokens", "34.4 GB",
          "fewer tokens or inputs"}},
    };
    limit_memory();
    cli_program("dmft-solve");
    cli_print("huge.ini", tokens);
    for (size_t k = 0; k < COUNT(table); k++) {
        FREED(cli_free) struct cli_result result;
        const char *arg[5] = {"huge.ini"};
        for (int a = 0; a < 3 && table[k].arg[a]; a++)
            arg[a + 1] = table[k].arg[a];
        cli_run(&result, arg);
        if (!cli_ended(&result, 2, table[k].part))
            fail_msg("case %zu: exit code %d: %s", k, result.code, result.err);
    }
}

/* A net that is only declared says what its numbers would take, and takes none of it. */
CLEAN_TEST(test_declared) {
    RUN_AND_NET;
    struct err told;
    double n = 5000, P = 6;
    support_run_text(&run, ARGS("data.inputs=6", "data.tokens=5"), tokens);
    struct net_setup setup = run_setup(&run, 0, 0);
    setup.data.n = 5000;
    setup.declare_only = true;
    ASK(net_init(&net, &setup, err));
    double most = 0;
    for (int i = 0; i < net.vectors.count; i++)
        most = fmax(most, (double)net.vectors.item[i].length);
    assert_true(most == P * n * n && net.host_bytes > 8 * P * n * n);
    net_free(&net);
    setup.data.C = 100000;
    setup.data.P = 100;
    assert_int_equal(net_init(&net, &setup, &told), CODE_INPUT);
    assert_string_equal(told.text, "100 inputs of 5000 tokens with 100000 outputs make 5e+10 "
                                   "numbers in one evaluation (400 GB), and at most 2147483647 are "
                                   "possible: take fewer inputs, fewer tokens, or minibatches "
                                   "([training] batch)");
}

AROUND_TESTS(cli_open, cli_close)
