/* A small configuration with a row of every type, for the tests of the ini file. */
#pragma once

#include "solver/settings/param.h"

struct table_run {
    const char *out, *title;
    int steps, threads;
    uint64_t seed;
};
struct table_network {
    int gate, shape;
    double kappa, eta0, slope, floor;
    struct int_list widths, any;
    const char *weights;
    int experts;
};
struct table_config {
    struct table_run run;
    struct table_network network;
    struct factor_list rates, init;
};

#define RUN(field) offsetof(struct table_run, field)
#define NETWORK(field) offsetof(struct table_network, field)
static const struct param_row table_run_rows[] = {
    {"out", PARAM_TEXT, RUN(out), "out.h5", 0, 0, NULL, NULL, "Result file."},
    {"title", PARAM_TEXT, RUN(title), "", 0, 0, NULL, NULL, "Free text.\nOf two lines."},
    {"steps", PARAM_INT, RUN(steps), NULL, 1, 1000, NULL, NULL, "Steps T."},
    {"threads", PARAM_INT, RUN(threads), "1", 0, 0, NULL, NULL, "Any integer."},
    {"seed", PARAM_SEED, RUN(seed), "1", 0, 0, NULL, NULL, "Seed of all draws."},
};
static const struct param_row table_network_rows[] = {
    {"gate", PARAM_CHOICE, NETWORK(gate), "topk", 0, 0, "none topk sigmoid softmax", NULL, "Gate."},
    {"shape", PARAM_CHOICE, NETWORK(shape), "hard", 0, 0, "hard smooth", "gate=sigmoid|softmax",
     "Shape of the gate."},
    {"kappa", PARAM_REAL, NETWORK(kappa), "0.5", 0, 1, NULL, NULL, "Active share."},
    {"eta0", PARAM_REAL, NETWORK(eta0), "1e-1", 0, INFINITY, NULL, NULL, "Learning rate."},
    {"slope", PARAM_REAL, NETWORK(slope), NULL, -3, 3, NULL, "shape=smooth", "Slope."},
    {"floor", PARAM_REAL, NETWORK(floor), "-0.25", 0, 0, NULL, NULL, "Any number."},
    {"widths", PARAM_INTS, NETWORK(widths), "64 128", 1, 4096, NULL, NULL, "Widths N."},
    {"any", PARAM_INTS, NETWORK(any), "none", 0, 0, NULL, NULL, NULL},
    {"weights", PARAM_PATH, NETWORK(weights), NULL, 0, 0, NULL, "gate=softmax", "Weights."},
    {"experts", PARAM_INT, NETWORK(experts), "4", 1, INFINITY, NULL, "gate=none|topk", "Experts."},
};
#undef RUN
#undef NETWORK

#define TABLE_COUNT 4
static const struct param_section table_sections[TABLE_COUNT] = {
    {"run", "What to run.", table_run_rows, sizeof table_run_rows / sizeof *table_run_rows,
     .offset = offsetof(struct table_config, run)},
    {"network", "The network.", table_network_rows,
     sizeof table_network_rows / sizeof *table_network_rows,
     .offset = offsetof(struct table_config, network)},
    {"rates", "Rates by name.", NULL, 0, .offset = offsetof(struct table_config, rates)},
    {"init", "Scales by name.", NULL, 0, .offset = offsetof(struct table_config, init)},
};
