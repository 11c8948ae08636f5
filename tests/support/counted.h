/* Allocations are counted, and one of them can be made to fail. The programs that include this are
 * linked with --wrap for every function that allocates (tests/tests.mk). */
#pragma once

#include "tests/support/support.h"

#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* Addresses that were reserved for arrays: of these the pages count that have been written to. */
enum { RESERVED = 1 << 24, MANY = 256 };
static STRUCT(unsigned char *at; size_t size) reserved[MANY];
static int reservations; /* of them that are there */

static atomic_long held, peak;
static atomic_long left; /* allocations until one fails */

static inline void raise_peak(long now) {
    long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        ;
}

/* Everything that is held now. */
static inline void look(void) {
    static unsigned char there[1 << 20];
    long now = atomic_load(&held), page = sysconf(_SC_PAGESIZE);
    for (int k = 0; k < MANY; k++) {
        size_t pages = (reserved[k].size + (size_t)page - 1) / (size_t)page;
        unsigned char *first = reserved[k].at - (uintptr_t)reserved[k].at % (uintptr_t)page;
        if (!reserved[k].at)
            continue;
        if (pages > sizeof there || mincore(first, pages * (size_t)page, there))
            abort();
        for (size_t i = 0; i < pages; i++)
            now += there[i] & 1 ? page : 0;
    }
    raise_peak(now);
}

/* What is held now; the peak is counted from here on. */
static inline long watch(void) {
    long before = atomic_load(&held);
    atomic_store(&peak, before);
    return before;
}

static inline int reserved_at(const void *block) {
    int k = 0;
    while (k < MANY && reserved[k].at != block)
        k++;
    return k;
}

static inline bool fails(void) {
    return atomic_fetch_sub(&left, 1) == 1;
}

static inline void *count(void *block) {
    long size = (long)malloc_usable_size(block);
    raise_peak(atomic_fetch_add(&held, size) + size);
    return block;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    void *block = fails() ? NULL : __real_malloc(size);
    if (size < RESERVED || !block)
        return count(block);
    int k = reserved_at(NULL);
    assert_in_range(k, 0, MANY - 1);
    reservations++;
    reserved[k].at = block;
    reserved[k].size = size;
    return block;
}
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return fails() ? NULL : count(__real_calloc(n, size));
}
void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block) {
    int k = block && reservations ? reserved_at(block) : MANY;
    if (k < MANY) {
        look();
        reservations--;
        reserved[k].at = NULL;
        atomic_fetch_add(&held, (long)malloc_usable_size(block));
    }
    atomic_fetch_sub(&held, (long)malloc_usable_size(block));
    __real_free(block);
}
void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size) {
    if (fails())
        return NULL;
    atomic_fetch_sub(&held, (long)malloc_usable_size(block));
    return count(__real_realloc(block, size));
}

FILE *__real_fmemopen(void *bytes, size_t size, const char *mode);
FILE *__wrap_fmemopen(void *bytes, size_t size, const char *mode);
FILE *__wrap_fmemopen(void *bytes, size_t size, const char *mode) {
    return fails() ? NULL : __real_fmemopen(bytes, size, mode);
}

static inline void none_held_since(long before, const char *name) {
    long now = atomic_load(&held);
    FAIL_IF(now != before, "%s: %ld bytes are still held", name, now - before);
}

static inline void none_since(long before, const char *name) {
    none_held_since(before, name);
    for (int k = 0; k < MANY; k++)
        FAIL_IF(reserved[k].at, "%s: an array is still held", name);
}
