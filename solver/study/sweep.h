/* A sweep: the runs of an ini file with a section [sweep], in parallel processes.
 *
 * A unit of work is one point of the grid with one width, or with the limit. Each is an ordinary
 * run in a process of its own, writing OUT.d/HASH.h5; HASH is made of everything that decides its
 * numbers (its complete ini, the data, the version of the program), so that a file never stands for
 * a unit that it does not belong to, whatever is changed between two calls. HASH.h5 exists once it
 * is complete; HASH.sum, the sum of its name and bytes, shows that it still is what was written. A
 * unit of which a run ends in a numerical failure (divergence) leaves HASH.failed with the message,
 * and all trajectories in HASH.h5.partial: its means are over the runs that ended, and it bounds
 * where an optimum may be known, since without the networks that diverge the mean of a rate at the
 * edge is too good. Both are done, and are not run again. OUT.d/grid holds the axes and the names
 * of all files. */
#ifndef SOLVER_SWEEP_H
#define SOLVER_SWEEP_H

#include "solver/study/grid.h"
#include "solver/run/run.h"

enum sweep_status { SWEEP_PENDING, SWEEP_RUNNING, SWEEP_DONE, SWEEP_FAILED };
struct sweep_unit {
    uint64_t hash;
    enum sweep_status status;
};

struct sweep {
    struct grid grid;
    int overrides;
    char *const *override;
    struct run base; /* the first point, configured, for its settings */
    struct int_list widths;
    bool limit;
    int columns, count;      /* widths and limit; units in all */
    struct sweep_unit *unit; /* [point][column], the limit last */
    char *output, *folder;   /* OUT.h5, OUT.d */
    int lock;
    struct log log;
    struct notes notes; /* of the sweep as a whole, for its file */
    const volatile sig_atomic_t *stop;
};

/* Reads the ini and checks every unit before anything runs; makes the folder, locks it and looks up
 * what is done. retry: forget failures. */
int sweep_open(struct sweep *sweep, const char *file, int overrides, char *const *override,
               const char *output, bool force, bool retry, struct err *err);
/* A sweep that is done, from its OUT.h5 and OUT.d, to be looked at again: nothing is run, checked
 * or locked. */
int sweep_reopen(struct sweep *sweep, const char *output, struct err *err);
/* The grid of an ini, to be freed, as one line of JSON (dmft-sweep --points): `ini`, what it says
 * without [sweep], with absolute paths, and `axes`, each with its `keys` and its `values`, a list
 * of one text for each key. Only the first point is read; nothing is run or made. */
int sweep_points(struct sweep *sweep, const char *file, int overrides, char *const *override,
                 char **text, struct err *err);
/* Runs what is pending, up to `jobs` units at a time. */
int sweep_work(struct sweep *sweep, int jobs, struct err *err);
/* The same by ranks, one unit for each at a time. Ranks but 0 have nothing in sweep but `stop`. */
int sweep_work_by_ranks(struct sweep *sweep, struct err *err);
void sweep_free(struct sweep *sweep); /* accepts a zeroed struct; idempotent */

/* The file of a unit that is done, or of one of which some runs failed, to be freed; NULL where
 * there is none. */
int sweep_result(char **path, const struct sweep *sweep, int unit, struct err *err);
/* OUT.d/HASH and a suffix, to be freed. */
int sweep_path(char **path, const struct sweep *sweep, int unit, const char *suffix,
               struct err *err);
/* The ini of a point without [sweep], read with the point's values as overrides; `last` are those
 * that pick the width, ended by NULL. */
int sweep_read_point(const struct sweep *sweep, int point, const char *const *last, struct run *run,
                     struct err *err);
int sweep_name_folder(struct sweep *sweep, struct err *err); /* OUT.d, from output */
/* OUT.d/NAME, to be freed. */
int sweep_file(char **path, const struct sweep *sweep, const char *name, struct err *err);
int sweep_width(const struct sweep *sweep, int column); /* 0: the limit */

/* For sweep_open. Paths among the values of [sweep] count from the folder of the ini, as those of
 * its other sections do. */
int sweep_ini_place(struct sweep *sweep, struct err *err);
/* CODE_INPUT where an override gives a key that the sweep varies: it would be lost. */
int sweep_ini_check(const struct sweep *sweep, struct err *err);
/* Takes out of the base what is not the same at all points: the text of a program that is varied.
 */
int sweep_ini_base(struct sweep *sweep, struct err *err);
/* An ini that repeats the sweep from anywhere: all that was given, also by the command line and by
 * included files, with the text of a program and absolute paths. To be freed. */
int sweep_ini_text(char **text, const struct sweep *sweep, struct err *err);

#endif
