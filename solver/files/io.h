/* Files: HDF5 out (serial HDF5 and its dimension scales).
 *
 * A result is written under the name OUT.partial, saved at every io_record and io_flush, and
 * renamed to OUT by io_finish, which sets the root attribute complete = 1 and fsyncs file and
 * folder. OUT.partial of a run that goes on is locked: CODE_INPUT. Existing OUT, or OUT.partial of
 * a run that did not end: CODE_INPUT unless force.
 *
 * HDF5 builds the file in memory. To save is to write it whole to OUT.partial.new, fsync, and
 * rename that to OUT.partial. So whatever happens (killed, disk full, power cut), OUT.partial is
 * the readable state of the last save with complete = 0, a save that failed can be repeated, and
 * others may read OUT.partial meanwhile. The price is memory: the size of the file, twice during a
 * save.
 *
 * Every dataset carries attributes dims, about, equation and has a dimension scale attached to each
 * axis; scales of a group live in the group (t, mu, s, nu, basis, run, i ...), so that h5py,
 * xarray.open_dataset(group=...) and h5dump read it. NAME_se is the standard error beside NAME. */
#pragma once

#include "solver/data/coordinates.h"
#include "solver/settings/param.h"
#include "solver/measure/record.h"

struct io {
    char *path, *partial;
    bool behind;     /* the last save failed: `partial` holds an earlier state */
    int lock;        /* of `partial` */
    int64_t file;    /* HDF5 id, 0 = none */
    char prefix[24]; /* of all names of groups: "" or, for instance, "mup/" */
};

/* For the writers of this folder: opens a group of this output (hdf5_open_group). */
int io_open_group(int64_t *group, const struct io *io, const char *path, struct err *err);
/* Turns HDF5's automatic error printing off. */
void io_quiet(void);
/* A program of ours calls this instead, before anything else of HDF5: every file is closed where it
 * is used, so that nothing is left to the end, where HDF5 1.10 crashes if a close has failed. */
void io_begin_program(void);
/* The attribute `program` is dmft-solve; others write theirs. */
int io_create(struct io *io, const char *path, bool force, struct err *err);
/* Opens the file of a run that goes on: OUT may exist, OUT.partial stays until the next save. */
int io_again(struct io *io, const char *path, struct err *err);
/* /parameters: one attribute per key, "section.key", typed (integers, doubles, strings, integer
 * lists; free keys are strings), and a string attribute "ini", which repeats the run. */
int io_parameters(struct io *io, const struct params *params, const void *config, struct err *err);
/* One string attribute of /provenance; creates the group when needed. Call repeatedly. */
int io_provenance(struct io *io, const char *name, const char *value, struct err *err);
/* /data/X ("mu i") and /data/y ("mu"), with several rows of an input "mu token i", with targets per
 * token or several outputs "mu token", "mu c", "mu token c"; tokens ("mu token"), if there are any;
 * of test inputs X_test ("nu i"), y_test ("nu"), ...; letters ("letter") of a text. Unless `all`,
 * no X, and of tokens no y. */
int io_data(struct io *io, const struct data *data, bool all, struct err *err);
/* /data/coordinates ("mu token k", K of them) and coordinates_test ("nu token k_test", K and rest):
 * A as config_coordinates gives it, what read-ins act on. */
int io_coordinates(struct io *io, const struct data *data, const struct coordinates *inputs,
                   struct err *err);
/* /data/batch [T][P] ("t b"): which input, a row of X, was at which place of the batch. */
int io_batches(struct io *io, const int *index, int T, int P, struct err *err);
/* Writes all series of the record into the group (created, with parents, at the first call; later
 * calls rewrite the values in place): NAME, NAME_se, and NAME_runs where keep_runs (where
 * runs_alone, NAME run by run and nothing else); dataset n [T] = runs that reached t. The
 * names along the axis record->named, if it has labels, are strings basis_name [basis]. Flushes. */
int io_record(struct io *io, const char *group, const struct record *record, struct err *err);
/* The axes of a record that are no indices, lists of times and "probability", before any array has
 * them; io_record does it. */
int io_axes(struct io *io, const char *group, const struct record *record, struct err *err);
/* Values of a series as they are, [shape], without statistics. */
int io_series(struct io *io, const char *group, const struct series *series, struct err *err);
/* Coordinates along an axis of a group beside its own, numbers or (text not NULL) words. */
int io_scale(struct io *io, const char *group, const char *name, const char *axis,
             const double *values, const char *const *text, int count, struct err *err);
/* A named string or number attribute on a group (created when needed). */
int io_attribute(struct io *io, const char *group, const char *name, double value, struct err *err);
int io_text(struct io *io, const char *group, const char *name, const char *value, struct err *err);
/* A text as a dataset of one string at the root of this output, for what is too long for an
 * attribute (64 kB). */
int io_document(struct io *io, const char *name, const char *about, const char *text,
                struct err *err);
int io_flush(struct io *io, struct err *err);
/* complete = 1, save, rename, close. If OUT appeared meanwhile and force is not set, CODE_INPUT:
 * the partial file stays, complete, and io open. */
int io_finish(struct io *io, bool force, struct err *err);
/* Tries a last save and closes; the partial file stays. Accepts a zeroed struct; idempotent. */
void io_close(struct io *io);
