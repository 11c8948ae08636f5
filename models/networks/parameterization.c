/* The papers' tables, in the weights W as they are trained there (docs/theory/parameterizations.md,
 * sections 1 and 2, with the sources): initial standard deviation, rate of gradient descent over
 * eta0, rate of Adam over eta0, eps over eps. Since rates and amplitudes of one matrix in two
 * parameterizations relate in W as they do in any other units, only ratios are taken. */
#include "models/networks/parameterization.h"
#include "models/engine/net.h"

#include <math.h>
#include <string.h>

#define MUP PARAMETERIZATION_MUP
#define MSSP PARAMETERIZATION_MSSP
#define SP PARAMETERIZATION_SP
#define NTP PARAMETERIZATION_NTP
#define SIMP PARAMETERIZATION_SIMP

enum { VARIABLES = 4 }; /* gamma0, N, M, N_e */

/* A matrix in a parameterization, as powers of these; what has no row of its own has that of muP.
 * W1 is that of h1 = W1 x/sqrt D. */
struct row {
    const char *matrix;
    int parameterization;
    double std[VARIABLES], rate[VARIABLES], adam_rate[VARIABLES], adam_eps[VARIABLES];
};

/* W reads rows of N sites, W_e those of N_e inside of an expert. */
static const struct row regime1[] = {
    /*           std        rate      Adam: rate  eps */
    {"W1", MUP, {0}, {2, 1}, {0}, {0, -1}},
    {"W1", SP, {0}, {0}, {0}, {0}},
    {"W1", NTP, {0}, {0}, {0}, {0}},
    {"W", MUP, {0, -.5}, {2}, {0, -1}, {0, -1}},
    {"W", SP, {0, -.5}, {0}, {0}, {0}},
    {"W", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {"W_e", MUP, {0, 0, 0, -.5}, {2, 1, 0, -1}, {0, 0, 0, -1}, {0, -1}},
    {"W_e", SP, {0, 0, 0, -.5}, {0}, {0}, {0}},
    {"W_e", NTP, {0, 0, 0, -.5}, {0, 0, 0, -1}, {0, 0, 0, -.5}, {0, 0, 0, .5}},
    {"Q", MUP, {0, -1}, {2, -1}, {0, -1}, {0}},
    {"Q", SP, {0, -.5}, {0}, {0}, {0}},
    {"Q", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {"Q", SIMP, {0, -.5}, {2}, {0, -1}, {0}},
    {"b", MUP, {0}, {2}, {0}, {0}},
    {"b", SP, {0}, {0}, {0}, {0}},
    {"b", NTP, {0}, {0}, {0}, {0}},
    {"w", MUP, {-1, -1}, {0, -1}, {-1, -1}, {0}},
    {"w", SP, {0, -.5}, {0}, {0}, {0}},
    {"w", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {0},
};

static const struct row regime2[] = {
    {"W1", MUP, {0}, {2, 1}, {0}, {0, -1}},
    {"W1", SP, {0}, {0}, {0}, {0}},
    {"W1", NTP, {0}, {0}, {0}, {0}},
    {"Q", MUP, {0, -.5}, {2, -1, 1}, {0, -1}, {0, 0, -1}},
    {"Q", SP, {0, -.5}, {0}, {0}, {0}},
    {"Q", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {"W_in", MUP, {0, -.5}, {2}, {0, -1}, {0, 0, -1}},
    {"W_in", SP, {0, -.5}, {0}, {0}, {0}},
    {"W_in", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {"W_out", MUP, {0, 0, 0, -.5}, {2, 1, 1, -1}, {0, 0, 0, -1}, {0, -1, -1}},
    {"W_out", MSSP, {0, 0, .5, -.5}, {2, 1, 1, -1}, {0, 0, 0, -1}, {0, -1, -1}},
    {"W_out", SP, {0, 0, 0, -.5}, {0}, {0}, {0}},
    {"W_out", NTP, {0, 0, 0, -.5}, {0, 0, 0, -1}, {0, 0, 0, -.5}, {0, 0, 0, .5}},
    {"w", MUP, {-1, -1}, {0, -1}, {-1, -1}, {0}},
    {"w", SP, {0, -.5}, {0}, {0}, {0}},
    {"w", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {0},
};

/* MSSP differs from muP by what is equal at the start (regime3.c). */
static const struct row regime3[] = {
    {"W1", MUP, {0}, {2, 1}, {0}, {0, -1}},
    {"W1", SP, {0}, {0}, {0}, {0}},
    {"W1", NTP, {0}, {0}, {0}, {0}},
    {"Q", MUP, {0, -.5}, {2, -1, 1}, {0, -1}, {0, 0, -1}},
    {"Q", SP, {0, -.5}, {0}, {0}, {0}},
    {"Q", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {"W_in", MUP, {0, -.5}, {2, 1}, {0, -1}, {0, -1, -1}},
    {"W_in", SP, {0, -.5}, {0}, {0}, {0}},
    {"W_in", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
    {"W_out", MUP, {0, -.5}, {2, 1}, {0, 0, 0, -1}, {0, -1, -1}},
    {"W_out", SP, {0, 0, 0, -.5}, {0}, {0}, {0}},
    {"W_out", NTP, {0, 0, 0, -.5}, {0, 0, 0, -1}, {0, 0, 0, -.5}, {0, 0, 0, .5}},
    {"w", MUP, {-1, -1}, {0, -1}, {-1, -1}, {0}},
    {"w", SP, {0, -.5}, {0}, {0}, {0}},
    {"w", NTP, {0, -.5}, {0, -1}, {0, -.5}, {0, .5}},
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

/* *up or *down *= x^|e|, e a multiple of 1/2: whole powers by products, which are exact where those
 * are. */
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
    double N = width ? width : POPULATION_INFINITE;
    x[0] = program_setup(p)->gamma0;
    x[1] = N;
    x[2] = regime == PARAMETERIZATION_REGIME1 ? network->experts.count : network->routing.kappa * N;
    x[3] = regime == PARAMETERIZATION_REGIME2 ? network->experts.width : network->experts.iota * N;
}

static void scale_weight(const struct program *p, int regime, struct weight *W) {
    const struct table *table = &tables[regime];
    const struct row *own =
        row_of_matrix(table->rows, W->name, program_network(p)->parameterization);
    const struct row *written = row_of_matrix(table->rows, W->name, table->reference);
    double x[VARIABLES];
    const double *to[] = {own->std, own->rate, own->adam_rate, own->adam_eps};
    const double *from[] = {written->std, written->rate, written->adam_rate, written->adam_eps};
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
