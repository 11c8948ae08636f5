/* A backend that keeps two companions of all rows: the same sites once more, which see the averages
 * of the first.
 *
 * In the mean-field picture outputs, errors, coefficients of bases, gates of few experts and
 * normalisations are averages over infinitely many sites: a shift of the field of a single site
 * does not move them. How a site answers such a shift is therefore seen on companions of the
 * sites that do all the site does, operation by operation, but for shifts that are added to them
 * alone. Products over sites (dots, averages, get, coefficients that are rows, and what goes
 * through a matrix, times) are those of the main rows; all other operations act on main rows and
 * companions alike. What is drawn or put is the same on all of them.
 *
 * Rows of this table and of the one underneath (bases, spans) may stand in one operation of this
 * table: the latter serve main rows and companions alike where they are read, and where they are
 * written get what the main rows have. So an operation is called by the table of the rows that have
 * companions, or on rows_main of them. */
#pragma once

#include "kernels/array/backend.h"

enum { COMPANIONS = 2 };

struct companions {
    struct backend table; /* first: arrays lead from their backend to here */
    bool rest;            /* while it is set companions stay as they are */
};

/* Must not move while arrays of its table live. */
void companions_init(struct companions *companions, const struct backend *inner);
/* Companion c = 0, 1 of rows, as rows of the backend underneath. */
struct rows companions_rows(struct rows rows, int c);
/* Whether rows have companions that are at work. */
bool companions_work(struct rows rows);
