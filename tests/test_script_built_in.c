/* Networks written in Lua that are built in too: the same bits, and where words differ, the same
 * numbers. */
#include "tests/support/script.h"

enum { MOST = 24 };

/* Of both, so that only the network differs. */
static const char *const common[] =
    LIST("training.steps=3", "training.eta0=0.3", "training.gamma0=1", "solver.replicates=1",
         "solver.sites=96", "reference.seeds=1", "solver.seed=1", "reference.draws=iid",
         "solver.tolerance=1e-3", "reference.coordinate_check=yes", "solver.halves=no");

/* What the two are given: [data] and [solver], [network] of the one, [program] of the other. */
static const struct pair {
    const char *name, *width, *shared[6], *network[10], *program[10];
} pairs[] = {
    {"dense", "16", {"data.inputs=3"}, {NULL}, {NULL}},
    {"resnet", "16", {"data.inputs=3"}, {"network.branch=1.5"}, {"program.branch=1.5"}},
    LIST("regime1", "16", {"data.inputs=3", "output.experts=yes"},
         {"network.experts=3", "network.rho=1", "network.iota=0.5",
          "network.biases=", "network.gate=softmax", "network.beta=1.5"},
         {"program.experts=3", "program.iota=0.5", "program.gate=softmax", "program.beta=1.5"}),
    {"regime1", /* a random limit, whose sites go with the size of a population */
     "16",
     {"data.inputs=3"},
     {"network.experts=4", "network.rho=0.5", "network.iota=0.5", "network.expert_layers=2",
      "network.q0=1", "network.bias=fixed", "network.biases=0 0 0 0", "network.gate=softmax"},
     {"program.experts=4", "program.rho=0.5", "program.iota=0.5", "program.expert_layers=2",
      "program.q0=1", "program.bias=none", "program.gate=softmax"}},
    LIST("regime2", "16", {"data.inputs=3", "solver.expert_sites=64", "output.experts=yes"},
         {"network.gate=softmax", "network.rho=0.5", "network.beta=0.5",
          "network.parameterization=mup"},
         {"program.gate=softmax", "program.rho=0.5", "program.beta=0.5", "program.mup=yes"}),
    LIST("regime3", "16",
         {"data.inputs=3", "solver.expert_sites=16", "solver.unit_sites=16", "output.experts=yes"},
         {"network.beta=2"}, {"program.beta=2"}),
    LIST("residual", "16", {"data.inputs=3", "solver.unit_sites=24"},
         {"network.alpha=1", "network.experts=2", "network.rho=1", "network.eta_bias=0"}, {NULL}),
    LIST("stack", "16", {"data.inputs=3", "solver.expert_sites=64"}, {"network.block_norm=before"},
         {"program.norm=yes"}),
    LIST("transformer", "16", {"data.inputs=2", "data.tokens=4", "data.test_inputs=0"},
         {"network.biases=", "network.heads=2", "network.depth=2"},
         {"program.router_rate=4", "program.heads=2", "program.depth=2"}),
    LIST("transformer", "16",
         {"data.inputs=2", "data.tokens=4", "data.test_inputs=0", "training.optimizer=adam"},
         {"network.biases=", "network.heads=2", "network.depth=2"},
         {"program.router_rate=4", "program.heads=2", "program.depth=2"}),
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

/* Whether a program that tells its gates has what the built-in network has of them. */
static void same_experts(const struct record *script, const struct record *built) {
    for (int s = 0; s < built->count; s++) {
        const char *name = built->series[s].name;
        if (!strncmp(name, "expert_", 7) && !record_find(script, name))
            fail_msg("the script has no %s", name);
    }
}

/* Every series of the script is one of the built-in network; most of it is f and the loss. */
static void same_bits(const struct record *a, const struct record *b, const char *what) {
    int compared = 0;
    for (int s = 0; s < a->count; s++) {
        const struct series *x = &a->series[s], *y = record_find(b, x->name);
        FAIL_IF(!y && !strncmp(x->name, "rms_", 4), "%s: %s of the script alone", what, x->name);
        if (!y || strstr(x->name, "rank"))
            continue;
        compared++;
        assert_int_equal(x->size, y->size);
        if (memcmp(x->values, y->values, x->size * sizeof *x->values))
            fail_msg("%s: %s differs", what, x->name);
    }
    FAIL_IF(compared < 3, "%s: only %d series in common", what, compared);
}

TEST(built_in) {
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        for (int limit = 0; limit < 2; limit++) {
            FREED(two_runs_free) struct run run[2] = {0};
            FREED(two_records_free) struct record record[2];
            for (int script = 0; script < 2; script++) {
                configure(&run[script], &pairs[k], script);
                ASK(run_ensemble(&run[script], limit ? 0 : 16, 1, &record[script], err));
            }
            same_bits(&record[1], &record[0], pairs[k].name);
            same_experts(&record[1], &record[0]);
        }
}

/* Loads balanced by biases and terms of the loss, in other words than the built-in networks: equal
 * to them up to the round-off of eight steps, some hundred operations of numbers of order one. */
TEST(balanced) {
#define SMALL                                                                                      \
    "data.inputs=6", "data.dimension=10", "data.source=gaussian", "training.steps=8",              \
        "training.eta0=0.3", "training.gamma0=1", "solver.sites=128", "solver.replicates=1",       \
        "solver.tolerance=1e-4", "reference.widths=16", "reference.seeds=1", "reference.draws=iid"
    static const char *const files[][2] = {{"examples/balanced.ini", "data/regime1.ini"},
                                           {"examples/regime2.ini", "data/regime2.ini"},
                                           {"examples/regime2.ini", "data/regime2.ini"}};
    static const char *const cases[][2][24] = {
        {{SMALL, "program.eta_bias=0.05", "program.balance_loss=0.3", "program.z_loss=0.02",
          "program.beta=1.5"},
         {SMALL, "network.eta_bias=0.05", "network.balance_loss=0.3", "network.z_loss=0.02",
          "network.beta=1.5", "network.experts=4", "network.expert_layers=1", "network.rho=0.5",
          "network.gate=softmax", "network.bias=trained",
          "network.biases=", "network.parameterization=mssp"}},
        {{SMALL, "solver.expert_sites=64", "program.gate=softmax", "program.rho=0.5",
          "program.eta_bias=0.05", "program.balance_loss=0.3", "program.z_loss=0.02"},
         {SMALL, "solver.expert_sites=64", "network.gate=softmax", "network.rho=0.5",
          "network.eta_bias=0.05", "network.balance_loss=0.3", "network.z_loss=0.02",
          "network.beta=1"}},
        {{SMALL, "solver.expert_sites=64", "program.rho=0.5", "program.balance_loss=0.2"},
         {SMALL, "solver.expert_sites=64", "network.gate=sigmoid", "network.rho=0.5",
          "network.balance_loss=0.2", "network.beta=1"}},
    };
    for (size_t k = 0; k < sizeof files / sizeof *files; k++)
        for (int N = 0; N <= 16; N += 16) {
            TWO_RUNS_AND_RECORDS;
            int compared = 0;
            for (int i = 0; i < 2; i++) {
                support_run(&run[i], files[k][i], cases[k][i]);
                ASK(run_ensemble(&run[i], N, 1, &record[i], err));
            }
            for (int s = 0; s < record[0].count; s++) {
                const struct series *x = &record[0].series[s],
                                    *y = record_find(&record[1], x->name);
                compared += y != NULL;
                for (size_t j = 0; y && j < x->size; j++)
                    CHECK_ABS(x->values[j], y->values[j], 1e-12 * fmax(1, fabs(y->values[j])),
                              "%s, N = %d: %s[%zu]", files[k][0], N, x->name, j);
            }
            assert_true(compared > 6 && record_find(&record[0], "balance_loss") &&
                        record_find(&record[1], "load_largest"));
        }
}

/* A product of rows of experts and of their units is the same in either order. */
TEST(products_of_experts_and_units) {
#define PRODUCT(p)                                                                                 \
    "key('depth')\nlocal a = population('a')\nlocal h = read_in(a, 'W1')\n"                        \
    "local e = population('e')\nlocal u = population('u', {of = e, group = 2})\n"                  \
    "local g, v = map(h, e, 'R'), tanh(map(h, u, 'V'))\nread_out(map(" p ", a, 'U'), 'w')\n"
    static const char *const text[] = {PRODUCT("v * g"), PRODUCT("g * v")},
                             *const change[] = {"data.inputs=2", "reference.widths=16",
                                                "training.steps=3", NULL};
    support_scripts_agree(text, change);
}
