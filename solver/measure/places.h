/* Axes of places. Rows that a mixture of places has left (program_mix_places) are not one for each
 * token, and axes of one name have one length in a file. */
#pragma once

#include "models/engine/net.h"
#include "solver/measure/record.h"

/* record_add of a series whose axes token, row, column or k_row may be of fewer places than an
 * input has tokens: with 9 of them they are called place9, row9, column9 and k_row9. */
int places_add(struct record *record, const struct net *net, struct series series, struct err *err);
