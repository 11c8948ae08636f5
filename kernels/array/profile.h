/* Where the time goes: a table of operations that counts calls, seconds, flops and bytes of
 * another one's, for each place of the program (a map and its direction, the growth of spans,
 * measuring, files; "network" otherwise). Off, it costs a branch where a place is entered or left
 * and nothing in an operation. Nested places count for the inner one. Threads count for themselves;
 * read when they are done. Ranks count what they do. Every operation is waited for, so a device
 * runs slower under it than without. */
#pragma once

#include "kernels/array/backend.h"

extern bool profile_on; /* set once, before anything is made */

/* The table to use instead of `backend`, of which there is one in a program (split or not, in
 * double and in single precision); itself when off. */
const struct backend *profile_backend(const struct backend *backend);

int profile_push(const char *place, const char *part);
void profile_pop(int before);
/* Until profile_leave with the result, what this thread does is done at place (and part). */
static inline int profile_enter(const char *place, const char *part) {
    return profile_on ? profile_push(place, part) : 0;
}
static inline void profile_leave(int before) {
    if (profile_on)
        profile_pop(before);
}

/* seconds: CPU time of the thread that asks for an operation, so that other programs on its core do
 * not count, times the threads that the operation has, at work or waiting; CUDA waits at work.
 * flops: two for each product of dots, averages and combine, ten for an element of entries, none
 * for what is only moved (put, get, tile), one for an element of the others. bytes: of rows that
 * are read and of rows that are written; those that are changed (y of entries and its moments, y of
 * combine unless beta = 0) count as both, and so does what put and get move. */
struct profile_cost {
    double calls, seconds, flops, bytes;
};
#define PROFILE_NAME 40
/* op "": time at the place outside of operations and inner places, if asked for (profile_other). */
struct profile_entry {
    char place[PROFILE_NAME];
    const char *op;
    struct profile_cost cost;
};
/* Since `start` (base_cpu_seconds) no operation has counted the time at this place. */
void profile_other(double start);
/* All entries, added up over threads: to be freed by the caller. */
int profile_read(struct profile_entry **entries, int *count, struct err *err);
