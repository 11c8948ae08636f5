/* libdmft: runs of dmft-solve from a C program, of networks that it brings along or of those that
 * are there. Link by `cc x.c $(pkg-config --cflags --libs dmft)`; examples/own_network.c is whole.
 *
 *     struct dmft *d = dmft_new();
 *     struct dmft_series loss;
 *     if (dmft_file(d, "x.ini") || dmft_set(d, "training.eta0", "0.5") || dmft_run(d, NULL, 0) ||
 *         dmft_series(d, 0, "loss", &loss))
 *         fprintf(stderr, "%s\n", dmft_error(d));
 *     dmft_free(d);
 *
 * A call that can fail returns 0 or one of enum dmft_code, the exit codes of the programs, and
 * dmft_error has one sentence; an argument that is NULL, where NULL is not said to be allowed, is
 * DMFT_INPUT. Nothing here ends the process, prints, or catches signals.
 *
 * One run at a time in a process, and all calls from one thread (but dmft_stop): a run uses threads
 * of its own, [solver] threads. A child of fork may run, too, also where its parent has run.
 * OpenBLAS is set to one thread. Where cores are shared with others, GOMP_SPINCOUNT=10000 in the
 * environment keeps threads that wait from holding them, and OPENBLAS_CORETYPE names a processor to
 * an OpenBLAS that is older than this one, and slow on it.
 *
 * What is declared here stays as it is while the major number of the library does. The builder of
 * networks (models/language/program.h) may change with every version: DMFT_BUILDER counts. */
#ifndef DMFT_H
#define DMFT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DMFT_BUILDER 1

enum dmft_code {
    DMFT_OK = 0,
    DMFT_SYSTEM = 1,    /* memory, disk */
    DMFT_INPUT = 2,     /* ini, keys, data, names */
    DMFT_NUMERICAL = 3, /* divergence, too few sites */
    DMFT_INTERRUPTED = 130
};

const char *dmft_version(void);

struct dmft;
struct dmft *dmft_new(void);                  /* NULL: no memory */
void dmft_free(struct dmft *d);               /* accepts NULL */
const char *dmft_error(const struct dmft *d); /* of the last call that failed, else "" */

/* A network of one's own (models/language/program.h), for all of the process; before anything is
 * read or run. *model stays where it is. Then `[network] model = NAME` is this one. */
struct model;
int dmft_add_network(struct dmft *d, const struct model *model);
/* Sites of the limit, for program_population: of neurons, of experts, of units of experts. Where a
 * tie makes the limit random, neurons of another size than 1 take program_sites instead. With
 * [solver] halves = yes they are those of a half while it is computed; a number that is made of
 * nothing else would stay whole. */
struct program;
size_t dmft_sites(const struct program *p);
size_t dmft_expert_sites(const struct program *p);
size_t dmft_unit_sites(const struct program *p);

/* What to run: an ini file, or the text of one (paths in it then count from the current folder);
 * the last one given holds. Keys "section.key" go over it; a key that was set before gets the new
 * value. All are copied, and checked by dmft_run. */
int dmft_file(struct dmft *d, const char *ini);
int dmft_text(struct dmft *d, const char *text);
int dmft_set(struct dmft *d, const char *key, const char *value);

/* Runs the limit and the networks, and writes the file `output` (NULL: none) as dmft-solve does;
 * force: over what is there. May be called again, with other settings: results are those of the
 * last run, as far as it came. */
int dmft_run(struct dmft *d, const char *output, int force);
/* Ends the run that is under way in order, with DMFT_INTERRUPTED: from a handler of signals, or
 * another thread. Between two runs it does nothing. */
void dmft_stop(struct dmft *d);

/* A quantity of the limit (N = 0) or of networks of width N (docs/output.md), over `axes` axes, the
 * first of which is time. mean, se: [shape[0]]...[shape[axes - 1]], mean over replicates or seeds
 * and its standard error (NaN with one run). All belongs to d until its next run. Matrices
 * ([output] weights) have no mean: they are in the file alone. */
struct dmft_series {
    const char *name, *dims, *about; /* dims: names of the axes, "t mu" */
    int runs, axes;
    const size_t *shape;
    size_t size; /* the product of shape */
    const double *mean, *se;
};
int dmft_series(struct dmft *d, int N, const char *name, struct dmft_series *out);
/* The names of all quantities, k = 0, 1, ...; NULL behind the last. */
const char *dmft_name(struct dmft *d, int N, int k);

#ifdef __cplusplus
}
#endif

#endif
