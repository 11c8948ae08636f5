/* What a reader must know of the numbers of a sweep: the notes of its runs, and what its points
 * show together. */
#ifndef SOLVER_SWEEP_NOTES_H
#define SOLVER_SWEEP_NOTES_H

#include "solver/run/notes.h"
#include "solver/study/cells.h"

/* Adds the notes of all units, one for each code, with the text of the first unit that has it and
 * the names of these units; points at the edge of stability; and limits that rest. They are told
 * already, by the letters of the table, but for the last. CODE_SYSTEM: no memory. */
int sweep_notes_add(struct notes *notes, const struct cells *cells, struct err *err);

#endif
