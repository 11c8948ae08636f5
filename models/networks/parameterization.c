/* The papers' tables, in the weights W as they are trained there (docs/theory/parameterizations.md,
 * sections 1 and 2, with the sources): initial standard deviation, rate of gradient descent over
 * eta0, rate of Adam over eta0, eps over eps. Since rates and amplitudes of one matrix in two
 * parameterizations relate in W as they do in any other units, only ratios are taken. */
#include "models/parts/block.h"
#include "models/engine/net.h"

#define MUP PARAMETERIZATION_MUP
#define MSSP PARAMETERIZATION_MSSP
#define SP PARAMETERIZATION_SP
#define NTP PARAMETERIZATION_NTP
#define SIMP PARAMETERIZATION_SIMP

enum { NOTHING = -1, GAMMA0, N, M, N_E, VARIABLES };

/* Powers of these: initial standard deviation, rate, and Adam's rate and eps. */
struct powers {
    double std[VARIABLES], rate[VARIABLES], adam_rate[VARIABLES], adam_eps[VARIABLES];
};

/* A matrix in a parameterization; what has no row of its own has that of muP. Its rows are of N or
 * N_E sites (fan_in), or have no size that grows. W1 is that of h1 = W1 x/sqrt D. */
struct row {
    const char *matrix;
    int parameterization, fan_in;
    struct powers powers;
};

/* W reads rows of N sites, W_e those of N_e inside of an expert. */
static const struct row regime1[] = {
    /*                  std    rate    Adam: rate  eps */
    {"W1", MUP, NOTHING, {{0}, {2, 1}, {0}, {0, -1}}},
    {"w", MUP, N, {{-1, -1}, {0, -1}, {-1, -1}, {0}}},
    {"W", MUP, N, {{0, -.5}, {2}, {0, -1}, {0, -1}}},
    {"W_e", MUP, N_E, {{0, 0, 0, -.5}, {2, 1, 0, -1}, {0, 0, 0, -1}, {0, -1}}},
    {"Q", MUP, N, {{0, -1}, {2, -1}, {0, -1}, {0}}},
    {"Q", SIMP, N, {{0, -.5}, {2}, {0, -1}, {0}}},
    {"b", MUP, NOTHING, {{0}, {2}, {0}, {0}}},
    {0},
};

static const struct row regime2[] = {
    {"W1", MUP, NOTHING, {{0}, {2, 1}, {0}, {0, -1}}},
    {"w", MUP, N, {{-1, -1}, {0, -1}, {-1, -1}, {0}}},
    {"Q", MUP, N, {{0, -.5}, {2, -1, 1}, {0, -1}, {0, 0, -1}}},
    {"W_in", MUP, N, {{0, -.5}, {2}, {0, -1}, {0, 0, -1}}},
    {"W_out", MUP, N_E, {{0, 0, 0, -.5}, {2, 1, 1, -1}, {0, 0, 0, -1}, {0, -1, -1}}},
    {"W_out", MSSP, N_E, {{0, 0, .5, -.5}, {2, 1, 1, -1}, {0, 0, 0, -1}, {0, -1, -1}}},
    {0},
};

/* MSSP differs from muP by what is equal at the start (regime3.c). */
static const struct row regime3[] = {
    {"W1", MUP, NOTHING, {{0}, {2, 1}, {0}, {0, -1}}},
    {"w", MUP, N, {{-1, -1}, {0, -1}, {-1, -1}, {0}}},
    {"Q", MUP, N, {{0, -.5}, {2, -1, 1}, {0, -1}, {0, 0, -1}}},
    {"W_in", MUP, N, {{0, -.5}, {2, 1}, {0, -1}, {0, -1, -1}}},
    {"W_out", MUP, N_E, {{0, -.5}, {2, 1}, {0, 0, 0, -1}, {0, -1, -1}}},
    {0},
};

static const struct table {
    const struct row *rows;
    int reference; /* what the networks themselves are written in */
} tables[] = {
    [PARAMETERIZATION_REGIME1] = {regime1, MUP},
    [PARAMETERIZATION_REGIME2] = {regime2, MSSP},
    [PARAMETERIZATION_REGIME3] = {regime3, MSSP},
};

static const struct row *row_of_matrix(const struct row *rows, const char *matrix,
                                       int parameterization) {
    for (const struct row *row = rows; row->matrix; row++)
        if (row->parameterization == parameterization && !strcmp(row->matrix, matrix))
            return row;
    return parameterization == MUP ? NULL : row_of_matrix(rows, matrix, MUP);
}

/* sp and ntp are rules for all matrices: the standard deviation is that of 1/fan_in, and rates are
 * those of the entries themselves, or of entries that start at order one. */
static struct powers powers_of(const struct row *rows, const char *matrix, int parameterization) {
    const struct row *row = row_of_matrix(rows, matrix, parameterization);
    struct powers powers = {0};
    if (parameterization != SP && parameterization != NTP)
        return row->powers;
    if (row->fan_in == NOTHING)
        return powers;
    powers.std[row->fan_in] = -.5;
    if (parameterization == NTP) {
        powers.rate[row->fan_in] = -1;
        powers.adam_rate[row->fan_in] = -.5;
        powers.adam_eps[row->fan_in] = .5;
    }
    return powers;
}

/* *up or *down *= x^|e|, e a multiple of 1/2: whole powers by products, exact where those are. */
static void multiply_power(double x, double e, double *up, double *down) {
    double size = fabs(e), power = size == floor(size) ? 1 : sqrt(x);
    for (int k = 0; k < (int)size; k++)
        power *= x;
    *(e > 0 ? up : down) *= power;
}

/* gamma0, N, M and N_e, which rows have powers of. */
static void size_variables(const struct program *p, int regime, double x[VARIABLES]) {
    const struct network *network = program_network(p);
    int width = program_setup(p)->N;
    double size = width ? width : POPULATION_INFINITE;
    x[GAMMA0] = program_setup(p)->gamma0;
    x[N] = size;
    x[M] =
        regime == PARAMETERIZATION_REGIME1 ? network->experts.count : network->routing.kappa * size;
    x[N_E] =
        regime == PARAMETERIZATION_REGIME2 ? network->experts.width : network->experts.iota * size;
}

static void scale_weight(const struct program *p, int regime, struct weight *W) {
    const struct table *table = &tables[regime];
    struct powers own = powers_of(table->rows, W->name, program_network(p)->parameterization);
    struct powers written = powers_of(table->rows, W->name, table->reference);
    double x[VARIABLES];
    const double *to[] = {own.std, own.rate, own.adam_rate, own.adam_eps};
    const double *from[] = {written.std, written.rate, written.adam_rate, written.adam_eps};
    if (!W->muon_rate) /* its step is the same in all of them */
        W->muon_rate = weight_or_one(W->adam_rate);
    double *number[] = {&W->a0, &W->rate, &W->adam_rate, &W->adam_eps};
    size_variables(p, regime, x);
    for (int k = 0; k < 4; k++) {
        double up = 1, down = 1;
        for (int i = 0; i < VARIABLES; i++)
            multiply_power(x[i], to[k][i] - from[k][i], &up, &down);
        *number[k] = weight_or_one(*number[k]) * (up / down);
    }
}

void parameterization_scale(const struct program *p, int regime, struct weight *const *weights) {
    for (; *weights; weights++)
        scale_weight(p, regime, *weights);
}

const char *parameterization_check(const struct network *network, int regime, const char **key) {
    *key = "parameterization";
    if (network->parameterization == SIMP && regime != PARAMETERIZATION_REGIME1)
        return "simp is a router over a fixed number of experts: mup, mssp, sp or ntp here, or "
               "model = regime1";
    return NULL;
}
