/* Networks written in Lua: those of examples/ that are built in too, bit for bit; what a script may
 * not do; keys of its own; a text that repeats the run. */
#include "tests/support/support.h"
#include "kernels/base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 24 };

/* Of both, so that only the network differs. */
static const char *const common[] = {
    "training.steps=3",    "training.eta0=0.3",   "training.gamma0=1",
    "solver.replicates=1", "solver.sites=96",     "reference.seeds=1",
    "solver.seed=1",       "reference.draws=iid", "solver.tolerance=1e-3"};

/* What the two are given: [data] and [solver], [network] of the one, [program] of the other. */
static const struct pair {
    const char *name, *width, *shared[6], *network[10], *program[10];
} pairs[] = {
    {"dense", "16", {"data.inputs=3"}, {NULL}, {NULL}},
    {"resnet", "16", {"data.inputs=3"}, {"network.branch=1.5"}, {"program.branch=1.5"}},
    {"regime1",
     "16",
     {"data.inputs=3"},
     {"network.experts=3", "network.rho=1", "network.iota=0.5",
      "network.biases=", "network.gate=softmax", "network.beta=1.5"},
     {"program.experts=3", "program.iota=0.5", "program.gate=softmax", "program.beta=1.5"}},
    {"regime2",
     "16",
     {"data.inputs=3", "solver.expert_sites=64"},
     {"network.gate=softmax", "network.rho=0.5", "network.beta=0.5",
      "network.parameterization=mup"},
     {"program.gate=softmax", "program.rho=0.5", "program.beta=0.5", "program.mup=yes"}},
    {"regime3",
     "16",
     {"data.inputs=3", "solver.expert_sites=16", "solver.unit_sites=16"},
     {"network.beta=2"},
     {"program.beta=2"}},
    {"residual",
     "16",
     {"data.inputs=3", "solver.unit_sites=24"},
     {"network.alpha=1", "network.experts=2", "network.rho=1", "network.eta_bias=0"},
     {NULL}},
    {"stack",
     "16",
     {"data.inputs=3", "solver.expert_sites=64"},
     {"network.block_norm=before"},
     {"program.norm=yes"}},
    {"transformer",
     "16",
     {"data.inputs=2", "data.tokens=4", "data.test_inputs=0"},
     {"network.biases=", "network.heads=2", "network.depth=2"},
     {"program.router_rate=4", "program.heads=2", "program.depth=2"}},
};

static void configure(struct run *run, const struct pair *pair, bool script) {
    char file[64], width[40];
    const char *all[MOST + 1];
    int count = 0;
    snprintf(file, sizeof file, "%s/%s.ini", script ? "examples" : "data", pair->name);
    snprintf(width, sizeof width, "reference.widths=%s", pair->width);
    for (size_t k = 0; k < sizeof common / sizeof *common; k++)
        all[count++] = common[k];
    for (int k = 0; k < 6 && pair->shared[k]; k++)
        all[count++] = pair->shared[k];
    const char *const *own = script ? pair->program : pair->network;
    for (int k = 0; k < 10 && own[k]; k++)
        all[count++] = own[k];
    all[count++] = width;
    all[count] = NULL;
    support_run(run, file, all);
}

/* Every series of the script is one of the built-in network; most of it is f and the loss. */
static void same_bits(const struct record *a, const struct record *b, const char *what) {
    int compared = 0;
    for (int s = 0; s < a->count; s++) {
        const struct series *x = &a->series[s], *y = record_find(b, x->name);
        if (!y || strstr(x->name, "rank"))
            continue;
        compared++;
        assert_int_equal(x->size, y->size);
        if (memcmp(x->values, y->values, x->size * sizeof *x->values))
            fail_msg("%s: %s differs", what, x->name);
    }
    if (compared < 5)
        fail_msg("%s: only %d series in common", what, compared);
}

static void built_in(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        for (int limit = 0; limit < 2; limit++) {
            struct run run[2] = {0};
            struct record record[2];
            for (int script = 0; script < 2; script++) {
                configure(&run[script], &pairs[k], script);
                ASK(run_ensemble(&run[script], limit ? 0 : 16, 1, &record[script], err));
            }
            same_bits(&record[1], &record[0], pairs[k].name);
            for (int script = 0; script < 2; script++) {
                record_free(&record[script]);
                run_free(&run[script]);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
