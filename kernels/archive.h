/* States on disk. One function for every kind of thing, xxx_archive(x, archive), both writes it and
 * reads it back into a thing that was made the same way: what it names in order is the format.
 *
 *     archive_create, xxx_archive ..., archive_close   the file is replaced whole or not at all
 *     archive_open, xxx_archive ..., archive_close     refused where its sum disagrees
 *
 * A sum is no proof of what is inside: numbers that are read and count or place something are
 * checked by those who read them.
 *
 * Site arrays cross as numbers in the order of their sites: a state is the same whatever the
 * backend, the threads and the ranks, and any of these can go on from it. */
#pragma once

#include "kernels/array/backend.h"

enum archive_mode { ARCHIVE_MEASURE, ARCHIVE_WRITE, ARCHIVE_READ };

struct archive {
    enum archive_mode mode;
    bool shared;           /* all ranks make the same calls; the file is that of rank 0 */
    FILE *stream;          /* NULL on other ranks, and where nothing is written */
    char *path, *new;      /* new: what is written until it is complete */
    uint64_t sum;          /* of the whole words so far */
    unsigned char rest[8]; /* and what follows them, of bytes % 8 bytes */
    size_t left;           /* bytes before the sum of a file that is read */
    double bytes;          /* so far */
    int cause;             /* errno of the first write that failed; told by archive_close */
};

/* The sum of a file goes on, from BASE_HASH, with these bytes, of which all but the last are whole
 * words of 8: a byte at a time it took longer than to write them. */
uint64_t archive_sum(uint64_t sum, const void *bytes, size_t size);
/* Measures: counts the bytes that would be written. */
struct archive archive_measure(void);
int archive_create(struct archive *archive, const char *path, bool shared, struct err *err);
/* CODE_INPUT where the file is damaged; all of it is read once for its sum. */
int archive_open(struct archive *archive, const char *path, bool shared, struct err *err);
/* Ends it in any case; code: of what was done meanwhile, after which a file that was being written
 * is given up. Returns code, or the failure to write. Accepts a zeroed struct. */
int archive_close(struct archive *archive, int code, struct err *err);

static inline bool archive_reads(const struct archive *archive) {
    return archive->mode == ARCHIVE_READ;
}
int archive_bytes(struct archive *archive, void *bytes, size_t size, struct err *err);
/* Read: a byte that is neither 0 nor 1 does not fit; in a bool it would be undefined. */
int archive_flag(struct archive *archive, bool *flag, struct err *err);
/* A block of `size` bytes for each of `count` elements, or NULL. Read: NULL becomes what was
 * written, and a block is replaced; a block of another size does not fit. */
int archive_list(struct archive *archive, void *list, size_t count, size_t size, struct err *err);
/* A text, to be freed by the caller. Read: *text is NULL before. */
int archive_text(struct archive *archive, char **text, struct err *err);
/* Rows in use. Read: of the sites of the array, or a zeroed one gets its shape, on `backend`; those
 * who count on a shape of it or on its rows ask for it with archive_expect. */
int archive_array(struct archive *archive, struct array *array, const struct backend *backend,
                  struct err *err);
/* Read: CODE_INPUT unless the array is there with such sites and, if rows >= 0, so many rows. */
int archive_expect(const struct archive *archive, const struct array *array, size_t sites,
                   int group, int rows, struct err *err);
/* Expects the shape of these rows. */
int archive_expect_like(const struct archive *archive, const struct array *array, struct rows like,
                        struct err *err);
/* CODE_INPUT: the file does not fit what it is read into. */
int archive_misfit(const struct archive *archive, const char *what, struct err *err);
