/* Ranks, by MPI or alone. Errors of MPI end the job with its own message (MPI_ERRORS_ARE_FATAL). */
#define _POSIX_C_SOURCE 200809L
#include "kernels/array/dist.h"
#include "kernels/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef MPI
#include <mpi.h>

/* Set once, by dist_start. */
static int dist_here, dist_count = 1;

static double dist_exchanges, dist_bytes;

static void tally_exchange(size_t bytes) {
    dist_exchanges++;
    dist_bytes += (double)bytes;
}

void dist_traffic(double *exchanges, double *bytes) {
    *exchanges = dist_exchanges;
    *bytes = dist_bytes;
}

/* Entries of one message: MPI counts in int. */
static const size_t most = 1 << 30;

void dist_start(int *argc, char ***argv) {
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &dist_here);
    MPI_Comm_size(MPI_COMM_WORLD, &dist_count);
    if (dist_here && !freopen("/dev/null", "w", stdout))
        MPI_Abort(MPI_COMM_WORLD, 1);
}

void dist_end(int code) {
    if (code && dist_count > 1)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
}

void dist_yield(void) {
    struct timespec left = {.tv_sec = 3};
    while (dist_here && nanosleep(&left, &left)) /* the signal that ends the job also ends naps */
        ;
}

int dist_rank(void) {
    return dist_here;
}

int dist_ranks(void) {
    return dist_count;
}

int dist_job_without_mpi(void) {
    return 0;
}

void dist_broadcast(void *bytes, size_t size, int root) {
    tally_exchange(size);
    for (size_t done = 0; done < size && dist_count > 1; done += most) {
        size_t left = size - done;
        MPI_Bcast((char *)bytes + done, (int)(left < most ? left : most), MPI_BYTE, root,
                  MPI_COMM_WORLD);
    }
}

void dist_collect(double *values, const size_t *first) {
    int count[dist_count], at[dist_count];
    for (int r = 0; r < dist_count; r++) {
        at[r] = (int)first[r];
        count[r] = (int)(first[r + 1] - first[r]);
    }
    if (first[dist_count] > most) {
        fprintf(stderr, "rank %d: a message of %zu numbers is too long\n", dist_here,
                first[dist_count]);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tally_exchange((first[dist_count] - (size_t)count[dist_here]) * sizeof *values);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, count, at, MPI_DOUBLE,
                   MPI_COMM_WORLD);
}

void dist_sum(size_t *counts, int n) {
    tally_exchange((size_t)n * sizeof *counts);
    if (dist_count > 1)
        MPI_Allreduce(MPI_IN_PLACE, counts, n, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
}

void dist_largest(uint64_t *values, int n) {
    tally_exchange((size_t)n * sizeof *values);
    if (dist_count > 1)
        MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
}

bool dist_any(bool mine) {
    tally_exchange(sizeof(int));
    int any = mine;
    if (dist_count > 1)
        MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

int dist_lowest(int mine, int *rank) {
    struct {
        int value, rank;
    } pair = {mine, dist_here};
    if (dist_count > 1)
        MPI_Allreduce(MPI_IN_PLACE, &pair, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    *rank = pair.rank;
    return pair.value;
}

#else

void dist_start(int *argc UNUSED, char ***argv UNUSED) {
}

void dist_end(int code) {
    (void)code;
}

void dist_yield(void) {
}

int dist_rank(void) {
    return 0;
}

int dist_ranks(void) {
    return 1;
}

int dist_job_without_mpi(void) {
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int most = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        int count = size ? atoi(size) : 0;
        most = count > most ? count : most;
    }
    return most;
}

void dist_broadcast(void *bytes UNUSED, size_t size UNUSED, int root UNUSED) {
}

void dist_collect(double *values UNUSED, const size_t *first UNUSED) {
}

void dist_sum(size_t *counts UNUSED, int n UNUSED) {
}

void dist_largest(uint64_t *values UNUSED, int n UNUSED) {
}

void dist_traffic(double *exchanges, double *bytes) {
    *exchanges = *bytes = 0;
}

bool dist_any(bool mine) {
    return mine;
}

int dist_lowest(int mine, int *rank) {
    *rank = 0;
    return mine;
}

#endif

double *dist_buffer(size_t count) {
    double *buffer = malloc((count ? count : 1) * sizeof *buffer);
    if (!buffer) {
        fprintf(stderr, "rank %d: out of memory: a message of %zu numbers\n", dist_rank(), count);
        dist_end(1);
        abort();
    }
    return buffer;
}
