/* The parts of a run that are a few functions each, in files of these names. */
#pragma once

#include "solver/run/run.h"

/* memory.c: the estimate of memory, before anything is allocated. */

/* Tells what the run will need. run_open calls it first: CODE_INPUT with what to have less of where
 * that is more than [solver] max_memory, CODE_SYSTEM where a device has less. */
int memory_check(struct run *run, struct err *err);
/* Bytes: the most memory that this process has had since it runs this program; getrusage counts
 * what ran in it before, such as Python, too. */
double memory_most(void);

/* forecast.c: what can be said of a run before it begins: bases that will grow, scale of inputs,
 * few sites. */

enum { SITES_PER_REPLICATE = 64 }; /* biases are below half an error (docs/method.md, section 3) */
/* Adds these notes to run->notes and tells them on the log. For run_open. */
int forecast_notes(struct run *run, struct err *err);
/* Adds the notes of the limit alone, which depend on its sites, for a limit that begins again. */
int forecast_limit(struct run *run, struct err *err);

/* sites.c: [solver] sites = auto: the limit begins with few sites, and where its bases outgrow
 * them again with twice as many of every kind that the network has. What is computed with the last
 * number is what a run with that number computes, bit for bit; the record has the number. */

/* Where the sites are `auto`: the number to begin with, enough for K directions of the inputs.
 * Before config_check. */
void sites_begin(struct config *config, int K);
/* Records the numbers that `auto` stands for now among the settings of a run. The sweep that it
 * belongs to has kept `auto`. */
int sites_record(struct run *run, struct err *err);
/* A run has ended with this code: *again, and all is ready for a new beginning with twice the
 * sites, where the limit had too few. Else the code stays as it is, and the sentence says what
 * hinders, where it is memory. All ranks call it. */
int sites_raise(struct run *run, int code, bool *again, struct err *err);

/* Each kind of sites that the limit draws, so many times fewer; and twice as many. */
void sites_divide(struct config *config, int by);
void sites_double(struct config *config);

/* recheck.c: the limit again, for its errors: the first replicate at a third of the tolerance
 * (check_tolerance), and each replicate in two halves of its sites (halves; record.h). Both come
 * before the limit, whose means and errors contain them from the beginning. Nothing of them is
 * written; of halves states are kept, as of the limit. */

/* Before a run: its limit with halves of its sites, and with sites = auto the one with twice as
 * many, must be the same limit, which a program may miss that selects so many sites. Else
 * CODE_INPUT. */
int recheck_check(const struct run *run, struct err *err);
/* What this rank makes, if it was asked for; the record run->results.limit must be declared. */
int recheck_compute(struct run *run, struct err *err);
/* What all ranks made, to all ranks. */
int recheck_collect(struct run *run, struct err *err);
void recheck_free(struct run *run);
/* The run whose limit is half number 1 or 2 of the sites. It shares all that it points to. */
struct run recheck_half(const struct run *run, int number);

/* iteration.c: the limit by fixed-point iteration: what its sweeps record. */

/* The series of a record over sweeps: change [sweep][kernel] and floored [sweep]. */
int iteration_declare(struct record *iterations, const struct config *config,
                      const struct net_setup *setup, int runs, struct err *err);

/* Records what a sweep of replicate r has come to. */
void iteration_keep(struct record *iterations, int r, const struct fixed_point_state *state);
/* The kernel that changed most. */
const struct fixed_point_kernel *iteration_worst(const struct fixed_point_state *state);

/* exchange.c: what ranks tell each other about a run. With one rank nothing happens. */

/* Parameters that rank 0 has read -> all ranks. */
int exchange_params(struct params *params, const struct param_section *sections, size_t count,
                    struct config *config, struct err *err);
/* Data that rank 0 has read -> all ranks. */
int exchange_data(struct data *data, struct err *err);
/* Run r of a record, of rank `root` -> all ranks. */
void exchange_run(struct record *record, int r, int root);
/* The failure that comes first: code of this rank is 0, or what failed at `place`. */
int exchange_failure(int code, int place, struct err *err);

/* speeds.c: what --profile prints: seconds, flops and bytes of every operation at every place,
 * beside what this machine can do, measured at the end of the same run. */

/* What all threads together reach: flops a second of multiply-adds in registers, which no library
 * that does not know the processor makes slower, and bytes a second of a = b + s c over 400 MB. A
 * device: dots over 512 x 512 rows of 65536 sites, copies of rows. */
struct machine {
    double flops, bandwidth;
    const char *product, *stream; /* "fma", "triad"; "dots", "copy" */
};
int speeds_machine(const struct backend *backend, int threads, struct machine *machine,
                   struct err *err);
/* seconds: of the run (base_cpu_seconds), which used so many threads. */
int speeds_print(FILE *stream, const struct backend *backend, double seconds, int threads,
                 struct err *err);

/* estimate.c: what a run will cost: --estimate. */

/* Prints the CPU time and peak memory of a configured run, from trials of the limit with fewer
 * sites and of networks with fewer steps, and the replicates and sites for other errors of the
 * loss; no trial is left. Both are taken to grow linearly with sites, since ranks hardly depend on
 * them, and with steps of networks; what is only seen at some steps (test inputs, kernels at some
 * times) may be missed. A trial is a process of its own with one thread, and writes to a folder in
 * $TMPDIR that is removed. CODE_INPUT on devices and several ranks, and where a trial fails. */
int estimate_print(struct run *run, FILE *stream, struct err *err);

/* description.c: what a run computes, as data: the networks of all widths and their limit, with
 * the settings that make them. `dmft-solve --program` prints it, every result file holds it
 * (dataset `description`), and the Python front end reads it. docs/program_format.md has the
 * schema. */

/* The whole as JSON text on one line, to be freed by the caller; the run is configured
 * (run_prepare) and nothing of it is computed. A limit that does not exist is null, and `no_limit`
 * says why; one that is not wanted is left out. */
int description_text(const struct run *run, bool limit, char **text, struct err *err);

/* predict.c: outputs at inputs that come after a run is done, from the states that it has kept:
 * those that it would have had with these as test inputs, with the same bits. */

/* run: configured as the one whose states they are, of the file `result`, and states_open has
 * found these. path: a data file, whose X or tokens are the inputs; its targets are not looked at.
 * Into the file `output`, as a result with one time, that of the states: `f`
 * [1][inputs][tokens][C] of the limit and of each width, its mean over runs, its error and f_runs.
 * Of halves, too, there must be states: they take the bias off. Networks that failed, as many as
 * the result says, have no output. CODE_INPUT where another run has no state at its end, or the
 * inputs are of another shape. */
int predict_run(struct run *run, const char *result, const char *path, const char *output,
                bool force, struct err *err);
