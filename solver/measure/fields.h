/* How rows are distributed over the sites of their population: [output] fields.
 *
 * Of each row of a value, or of a cotangent in the normalisation of the theory page, at the times
 * [output] fields_at: quantiles over sites at the probabilities FIELDS_PROBABILITIES, linear
 * between order statistics (the i-th of S at (i - 1)/(S - 1)), the mean, the mean square, and the
 * first sites of the first run as they are. Sites of a group (units of an expert) are consecutive;
 * where there are fewer the rest is NaN. */
#pragma once

#include "solver/measure/instrument.h"

#define FIELDS_PROBABILITIES 27
extern const double fields_probability[FIELDS_PROBABILITIES];

/* Axes of the rows of a net by name, between the axes `first` ("t", "at") and `last`. */
enum fields_form { FIELDS_ONE, FIELDS_MU, FIELDS_TOKEN, FIELDS_COLUMN, FIELDS_FORMS };
#define FIELDS_DIMS(first, last)                                                                   \
    { first last, first " mu" last, first " mu token" last, first " c" last }
enum fields_form fields_form(const struct net *net, const struct named_rows *named);
/* Writes the lengths of these axes; returns the place behind them. */
size_t *fields_shape(const struct net *net, const struct named_rows *named, size_t *shape);

/* Sorts x [sites]; its quantiles to out [FIELDS_PROBABILITIES], an axis of the record. */
void fields_quantiles(double *x, size_t sites, double *out);
void fields_axis(struct record *record);
