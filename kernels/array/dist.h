/* Ranks: the processes of `mpirun -n R`, all of which run this program. Built without MPI (with:
 * make MPI=1) there is one, and all of this is trivial.
 *
 * Ranks share out whole runs (solver/run/ensemble.c) or, of one run, whole blocks of sites
 * (backend.h). They make the same calls in the same order, from their main thread; everything that
 * these decide is the same on all of them to the last bit. Only rank 0 reads and writes files and
 * prints; but states of whole runs (solver/run/states.h) are files of the rank that makes them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first and the last call of a program. Standard output of ranks other than 0 is dropped. */
void dist_start(int *argc, char ***argv);
/* After a failure (code not 0) all ranks end at once, wherever they are. */
void dist_end(int code);
/* Call before printing this rank's failure: waits three seconds, in which rank 0, if it has failed
 * too, prints its own and ends the job. */
void dist_yield(void);

int dist_rank(void);
int dist_ranks(void);
/* Built without MPI: how many processes a job has that this one was started in, else 0. */
int dist_job_without_mpi(void);

/* bytes of rank `root` -> all ranks. */
void dist_broadcast(void *bytes, size_t size, int root);
/* values[first[r]] ... values[first[r + 1] - 1] of each rank r -> all ranks; first [ranks + 1]. */
void dist_collect(double *values, const size_t *first);
/* Sums over ranks, largest values of all ranks. */
void dist_sum(size_t *counts, int n);
void dist_largest(uint64_t *values, int n);
bool dist_any(bool mine);
/* The lowest value of all ranks, and a rank that has it. */
int dist_lowest(int mine, int *rank);
/* Exchanges so far in which all ranks took part, and the bytes that came to this rank or, of what
 * it broadcast itself, left it. */
void dist_traffic(double *exchanges, double *bytes);
/* Memory for messages, to be freed. Without it the job ends. */
double *dist_buffer(size_t count);

#ifdef __cplusplus
}
#endif
