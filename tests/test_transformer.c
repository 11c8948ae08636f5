/* The network of models/networks/transformer.c: explicit matrices against the oracle written
 * from docs/theory/transformer.md (tests/oracles/oracle_transformer.c), by gradient descent,
 * momentum and Adam. Its limit: tests/test_transformer_limit.c. */
#include "tests/support/couple.h"
#include "tests/support/sequences.h"

static const int kinds[] = {0, 2, 1, 1, 0, 2, 2, 0, 1, 0, 1, 2};

struct task {
    struct sequences sequences;
    int N;
    const char *network, *training;
    bool centre;
};

/* Whatever the page has, at least once. Masks must not flip within a difference: biases of selected
 * experts are apart. */
static const struct task tasks[] = {
    {{3, 4, 1, false, 0, NULL, false}, 12, "experts = 0\nattention_beta = 2", "", false},
    LIST({3, 3, 2, false, 0, NULL, false}, 12,
         "experts = 0\nheads = 3\ncausal = yes\nnorm = no\nfinal_norm = no\ndepth = 2\n"
         "branch_power = 0.5\nattention_width = 0.5",
         "", false),
    LIST({2, 3, 3, true, 0, NULL, false}, 12,
         "head_limit = many\nhead_width = 2\nattention_width = 0.5\nattention_beta = 1.5\n"
         "experts = 2\ngate = softmax\nbias = fixed\nbiases = 0.3 -0.3\niota = 0.5\nq0 = 1",
         "loss = cross_entropy", false),
    LIST({3, 3, 2, false, 3, kinds, false}, 12,
         "head_limit = many\nhead_width = 4\nzero_queries = yes\ncausal = yes\nexperts = 3\n"
         "rho = 0.333333333333333\ngate = sigmoid\nbias = fixed\nbias_per = token\n"
         "biases = 0.6 0 -0.6 -0.6 0.6 0 0 -0.6 0.6\nq0 = 0\nrouter_rate = 4\ndepth = 2",
         "loss = cross_entropy", false),
    LIST(
        {3, 4, 1, false, 3, kinds, false}, 10,
        "heads = 2\nattention_width = 0.6\nexperts = 4\nrho = 0.5\ngate = softmax\nbias = trained\n"
        "bias_per = token\nbiases = 0.9 0.3 -0.3 -0.9 -0.9 0.9 0.3 -0.3 -0.3 -0.9 0.9 0.3\n"
        "q0 = 0.1\nrouter_rate = 3\ndepth = 2\niota = 0.5\nactivation = erf",
        "", false),
    LIST({2, 3, 4, true, 0, NULL, false}, 9,
         "experts = 1\ngate = constant\niota = 2\nattention_width = 0.3333333333333333\ndepth = 3\n"
         "branch_power = 0.5\nactivation = softplus",
         "", false),
    LIST({3, 2, 2, false, 0, NULL, false}, 12,
         "experts = 2\ngated_experts = yes\nactivation = gelu\ngate = sigmoid\nbeta = 1.7\n"
         "bias = trained\nbiases = 0.5 -0.5\nbias_per = expert\nq0 = 0.7\nheads = 2\n"
         "final_norm = no",
         "loss = cross_entropy", false),
    LIST({5, 1, 3, false, 0, NULL, false}, 12,
         "experts = 3\ngate = constant\ngated_experts = yes\niota = 0.5\nbranch_power = 0",
         "loss = cross_entropy", false),
    LIST({2, 4, 1, true, 0, NULL, false}, 12,
         "experts = 2\ngate = softmax\nbeta = 0.6\nactivation = linear\nnorm = no\nheads = 4\n"
         "head_limit = fixed\nbranch_power = 1.5\ndepth = 2\nread_out = zero",
         "", false),
    LIST({4, 1, 1, false, 0, NULL, false}, 12,
         "experts = 2\ngate = sigmoid\nq0 = 1\nrouter_rate = 2\ncausal = yes\ndepth = 2", "",
         false),
    LIST({3, 3, 2, true, 0, NULL, false}, 12,
         "experts = 2\ngate = softmax\nq0 = 1\ncausal = yes\nhead_limit = many\nhead_width = 12",
         "", true),
};
enum { TASKS = sizeof tasks / sizeof *tasks };

/* optimizer: further lines of [training]. */
static void configure(struct run *run, const struct task *task, const char *optimizer) {
    char network[512], training[512];
    snprintf(network, sizeof network, "model = transformer\n%s%s", task->network,
             strstr(task->network, "depth") ? "" : "\ndepth = 1");
    snprintf(training, sizeof training, "%s\n%s\n[reference]\nwidths = %d\ncentre = %s",
             task->training, optimizer, task->N, task->centre ? "yes" : "no");
    sequences_run(run, &task->sequences, network, training);
}

/* --- beside the oracle ----------------------------------------------------------------------- */

static void open_task(struct couple *p, const struct task *task, const char *optimizer) {
    configure(&p->run, task, optimizer);
    couple_open(p, task->N, 3, "%s", task->network);
}

/* Sums have fewer than 200 terms of order one: round-off is below 200 eps = 4e-14, amplified in
 * four steps by no more than the loss falls, 10: 1e-12. */
TEST(equals_oracle) {
    for (int i = 0; i < TASKS; i++) {
        FREED(couple_close) struct couple p;
        open_task(&p, &tasks[i], "eta0 = 0.1");
        couple_train(&p, 4, 1e-12);
    }
}

/* A step of Adam passes a relative error of a gradient on as an error of the weights eta0 = 0.05
 * times as large, or eta0/eps = 1 times for gradients below eps. So does one of Muon, of each
 * head's part of a matrix or of that of all heads, but for what it multiplies by 485: singular
 * values below 1/100 of the largest, a part of the step that is as small. */
TEST(optimizers) {
#define MUON "optimizer = muon\neta0 = 0.05\neps = 0.1\n"
    static const STRUCT(const char *lines; double weights) ways[] = {
        {"optimizer = momentum\nmomentum = 0.8\neta0 = 0.2", 1e-12},
        {"optimizer = adam\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.95\nadam_eps = outside\neps = 0.1",
         1e-12},
        {"optimizer = adam\neta0 = 0.05\nbeta2 = 0.99\neps = 0.1\nadam_eps = inside", 1e-12},
        {"optimizer = adamw\neta0 = 0.05\nweight_decay = 0.02\neps = 0.1", 1e-12},
        {MUON "muon_heads = each", 1e-11},
        {MUON "muon_heads = together", 1e-11},
        {MUON "muon_heads = together\nnesterov = yes\nmomentum = 0.8", 1e-11},
        {MUON "muon_heads = together\nmuon = exact\nmomentum = 0", 1e-11},
    };
    for (int i = 0; i < TASKS; i++)
        for (size_t k = 0; k < COUNT(ways); k++) {
            FREED(couple_close) struct couple p;
            open_task(&p, &tasks[i], ways[k].lines);
            support_evaluate(&p.net, &p.run);
            for (int t = 0; t < 4; t++)
                couple_advance(&p, t, 1e-12, ways[k].weights);
        }
}
