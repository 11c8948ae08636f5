/* The whole configuration of a run: one struct per section, and what is checked across keys. */
#pragma once

#include "integrators/fixed_point.h"
#include "solver/data/coordinates.h"
#include "solver/data/normals.h"
#include "solver/settings/param.h"

enum source {
    SOURCE_GAUSSIAN,
    SOURCE_FILE,
    SOURCE_MULTI_INDEX,
    SOURCE_MARKOV,
    SOURCE_COPY,
    SOURCE_MODULAR,
    SOURCE_TEXT,
    SOURCE_POWER_LAW
};
struct text_settings { /* of windows of a text */
    int unit, stride;
    double held_out;
    const char *alphabet;
};
struct label_noise_settings {
    double share;
    uint64_t seed;
};
struct data_settings {
    int source, inputs, tests, dimension, tokens, vocabulary, positions;
    double sharpness;
    uint64_t seed;
    struct power_law law;
    struct text_settings text;
    const char *file, *weight;
    struct label_noise_settings wrong;
};

enum method { METHOD_MARCH, METHOD_FIXED_POINT };
enum { SITES_MOST = 100000000, SITES_AUTO = 2048 }; /* of each kind; with which `auto` begins */
enum limit_draws { LIMIT_DRAWS_NORMAL, LIMIT_DRAWS_SOBOL };
struct solver_settings {
    int method, sites, expert_sites, unit_sites, replicates, backend, threads, check_tolerance,
        halves, draws;
    bool grow; /* sites = auto: they may become more (solver/run/sites.c) */
    uint64_t seed;
    double tolerance, max_memory;
    struct fixed_point_settings fixed_point;
};

enum draws { DRAWS_IID, DRAWS_BALANCED };
enum precision { PRECISION_DOUBLE, PRECISION_SINGLE };
enum coordinate_check { COORDINATE_NONE, COORDINATE_PARTS, COORDINATE_ALIGNED };
struct reference_settings {
    struct int_list widths;
    int seeds, draws, centre, coordinate_check, precision;
};

enum kernels { KERNELS_NONE, KERNELS_DIAGONAL, KERNELS_EQUAL, KERNELS_FULL };
enum tangent { TANGENT_NONE, TANGENT_SUM, TANGENT_BLOCKS };
enum sharpness_blocks { SHARPNESS_NONE, SHARPNESS_SUM, SHARPNESS_BLOCKS };
enum weights { WEIGHTS_NONE, WEIGHTS_INITIAL, WEIGHTS_FINAL, WEIGHTS_BOTH, WEIGHTS_ALL };
enum output_inputs { INPUTS_ALL, INPUTS_NONE };
struct output_settings {
    int kernels, responses, tangent, gradients, sharpness, router, experts, field_sites, weights,
        test_every;
    int top, runs, inputs, singular_values, singular_every;
    const char *kernels_of, *fields, *cross, *spectra, *singular; /* blank-separated names */
    struct int_list fields_at;
    double checkpoint; /* minutes; 0: no states are kept; below 0: states_minutes */
};

/* What the other units of a point have, whose names a unit of a sweep may use. */
struct config_others {
    int width; /* 0: it has widths of its own, or the sweep has none */
    bool limit;
};

/* Sections of lines NAME = FACTOR, one for a matrix. */
enum config_lines { LINES_INIT, LINES_RATES, LINES_EPS, LINES_DECAYS, CONFIG_LINES };
extern const char *const config_lines[CONFIG_LINES];

struct config {
    struct network network;
    struct data_settings data;
    struct training training;
    struct solver_settings solver;
    struct reference_settings reference;
    struct output_settings output;
    struct factor_list lines[CONFIG_LINES]; /* of [init], ...: of matrices, by name */
    struct data_shape shape;
    struct config_others others;
    bool only_told;       /* a description: that the limit does not exist is no error */
    int half;             /* of the sites of the limit: 1, 2; 0: all */
    struct backend split; /* with a name: of a limit whose sites are split over ranks */
};

/* NULL, or why responses of limits that are trained so cannot be measured. */
const char *config_no_responses(const struct training *training);

/* Whether this run, or another of its point in a sweep, is of a limit. */
static inline bool config_has_limit(const struct config *config) {
    return config->solver.replicates || config->others.limit;
}
/* A width of this run, or of the others of its point in a sweep; 0: there is none. */
static inline int config_some_width(const struct config *config) {
    const struct int_list *widths = &config->reference.widths;
    return widths->count ? widths->value[0] : config->others.width;
}

/* The keys of [data]. */
extern const struct param_row config_data_rows[];
extern const size_t config_data_rows_count;
/* The sections in the order of the file; *count of them. The caller frees the array. */
int config_sections(struct param_section **sections, size_t *count, struct err *err);
/* The data set, with test inputs: drawn, or read (a path in the ini is relative to the ini's
 * folder), checked against the loss and the number of outputs. The path is recorded as an absolute
 * one. Data beyond max_memory are refused before anything is allocated. */
int config_data(struct config *config, struct params *params, struct data *data, struct err *err);
/* Takes the shape of the data, which the keys of [data] say but for a file. NULL: there are none
 * yet, and whatever a network asks of tokens it may. */
void config_shape(struct config *config, const struct data *data);
/* What is to be done behind params_read: keys of [solver] that only the network of the file has are
 * left out where the command line gives another one; and config_program. */
int config_complete(struct config *config, struct params *params, struct err *err);
/* The text of a network written in Lua ([network] program; a relative path begins at the ini's
 * folder) into the settings and the record, unless it is there. CODE_INPUT where the file cannot be
 * read or is no text, and where keys of [program] belong to no program. */
int config_program(struct config *config, struct params *params, struct err *err);
/* CODE_INPUT where a key of [program] has been read by no net that was declared. */
int config_program_keys(const struct config *config, const struct params *params, struct err *err);
/* Coordinates of the inputs for this optimizer. */
int config_coordinates(const struct config *config, const struct data *data,
                       struct coordinates *inputs, struct err *err);
/* Multiplies powers of rho, kappa, ..., P inputs and D dimensions into the factors of [init],
 * [rates], [eps] and [decays]; before config_check, which asks networks made with them. CODE_INPUT
 * where the network has not what a power is of. */
int config_factors(struct config *config, const struct params *params, int P, int D,
                   struct err *err);
/* Checks across keys: the keys the model uses, whole numbers of experts for the limit and every
 * width, K = rank of the inputs for balanced draws. config_shape comes before. */
int config_check(const struct config *config, const struct params *params, int K, struct err *err);
/* Its part that asks whether a key has an effect: CODE_INPUT if not, and not at its default. */
int config_keys_check(const struct config *config, const struct params *params, struct err *err);
/* Whether tangent kernels or gradients are measured, not the sharpness alone. */
bool config_asks_gradients(const struct config *config);
/* The backend of networks of width N, or (0) of the limit. It outlives the nets. */
const struct backend *config_backend(const struct config *config, int N);
/* The setup of one run: N = 0 and a replicate of the limit, or a width and a seed. */
struct net_setup config_setup(const struct config *config, int N, int replicate, int P,
                              const struct coordinates *inputs);
/* The setup of a net of one input of that shape, without memory. */
struct net_setup config_declare(const struct config *config, int N);
