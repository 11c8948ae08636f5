/* dmft-compare: networks of several widths against the limit, for each of several
 * parameterizations. */
#pragma once

#include "solver/run/run.h"

#define COMPARE_MOST 5 /* parameterizations there are */

/* What became of one parameterization. */
struct comparison {
    char name[24]; /* the parameterization; of a network that has none, the model */
    /* One "run"; for every series NAME of the networks but those of the coordinate check:
     *   NAME_inf, NAME_inf_se       a of a + b/N through all widths
     *   NAME_chi2                   of that fit, with two degrees of freedom fewer than widths
     *   NAME_z                      (a - limit)/its standard error; NaN, as the approach, where the
     *                               limit rests (solver/run/at_rest.c)
     *   NAME_approach, .._se, .._n  the exponent of |network - limit| and how many widths gave it
     * and for these, which may go as any power of N:
     *   rms_TERM_exponent, .._se    the exponent of the term itself */
    struct record record;
};

struct compare {
    struct run run[COMPARE_MOST];
    struct comparison side[COMPARE_MOST];
    int count;
};

/* Reads and checks everything, the same ini for all sides. */
int compare_configure(struct compare *compare, const char *file, int overrides,
                      char *const *override, struct err *err);
/* Runs all sides into one file. */
int compare_run(struct compare *compare, const char *output, bool force, struct err *err);
void compare_free(struct compare *compare); /* accepts a zeroed struct; idempotent */

/* What is between all sides of a run; for compare_run and tests, which have the records of the
 * ensembles. comparison->record is made here. */
int compare_fit(const struct run *run, struct comparison *comparison, struct err *err);

bool compare_is_term(const char *name); /* of the coordinate check */

/* Tables on standard output: the loss of one side, then z, exponents of the
 * approach and those of the coordinate check side by side. */
int compare_table_print(const struct compare *compare, struct err *err);
