/* The file that a sweep leaves, and what its groups share. */
#ifndef SOLVER_SUMMARY_H
#define SOLVER_SUMMARY_H

#include "solver/files/io.h"
#include "solver/study/sweep.h"

/* What is asked for instead of what [sweep] says (NULL: nothing): how points are compared
 * (solver/study/objective.h), and the key along which the optimum is sought
 * (solver/study/optima.h). */
struct summary_choice {
    const char *objective, *along;
};

/* Whether the choice can be met, before anything is run: CODE_INPUT. */
int summary_check(const struct sweep *sweep, const struct summary_choice *choice, struct err *err);
/* Reads the files of a sweep that is done, writes `output` (NULL: nothing), and prints its tables
 * (unless the log is quiet): the objective of all units, then the optima. What a reader must know
 * of some of the numbers is added to sweep->notes, which are in the file, too. */
int summary_write(struct sweep *sweep, const struct summary_choice *choice, const char *output,
                  struct err *err);
/* Before anything is run: the axes and the names of the files, from which the folder of a sweep in
 * progress is read (python/dmft/folder.py). */
int summary_grid(const struct sweep *sweep, const char *path, struct err *err);

/* A series over every axis but `without` (-1: all), and N; *dims, to be freed, holds their names.
 */
int summary_axes(struct series *series, char **dims, const struct sweep *sweep, int without,
                 struct err *err);
/* Scales of the group: every axis but `without`, and N (infinite: the limit). The group's attribute
 * `coordinates` names the keys of lists of points, as netCDF's conventions have it. */
int summary_scales(struct io *io, const char *group, const struct sweep *sweep, int without,
                   struct err *err);
/* A series of this shape under this name. */
int summary_series(struct io *io, const char *group, struct series series, const char *name,
                   const char *about, double *values, struct err *err);

#endif
