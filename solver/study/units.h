/* The runs of a sweep, one at a time: what the Python package, which reads the grid and makes the
 * summary, asks this program for (dmft-solve --units, docs/cluster.md). Every line of the input is
 * a JSON object with one question, every line of the output its answer, or {"code": NUMBER,
 * "error": TEXT}, with "unit": NUMBER where the question is of many.
 *
 * A unit is one point of the grid with one width, or with the limit. Questions "open", "check" and
 * "run" say which sweep it is of:
 *
 *     file, text       the name of the ini, and what it says without [sweep], line for line
 *     words            what the command line sets, [--]section.key=value
 *     points           [point][key] "--section.key=value" of each point
 *     widths, limit    of every point; "open" finds them in the ini
 *
 * {"keys": ["section.key", ...]}   the type of each: "path", "number", "integer" or "word"
 * {"powers": [WORD, ...]}          whether each begins with a power, as N^0.5 does
 * {"open": SWEEP}                  widths, limit; given: an ini that repeats the settings from
 *                                  anywhere; inputs: files that the output must not replace;
 *                                  provenance
 * {"check": SWEEP}                 reads and checks each unit, points first; hash: the names of
 *                                  their files, sixteen digits of all that decides their numbers;
 *                                  note: which keys some points do not use, or ""
 * {"verify": [[FILE, SUM], ...]}   whether each file is what was written (solver/files/partial.h)
 * {"run": SWEEP, "column": C, "output": FILE, "sum": FILE, "jobs": N, "version": TEXT}
 *                                  runs the unit of column C of the first point into a file, with
 *                                  one of N parts of the processors */
#pragma once

#include "kernels/base/base.h"

/* Answers until the input ends, or a signal sets `stop`, which a run that is under way heeds. It
 * dies with the process, or thread, that has started it. */
int units_answer(FILE *questions, FILE *answers, const volatile sig_atomic_t *stop,
                 struct err *err);
