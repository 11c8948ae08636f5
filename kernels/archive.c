#define _POSIX_C_SOURCE 200809L
#include "kernels/archive.h"
#include "kernels/array/companions.h"
#include "kernels/array/dist.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

enum {
    CHUNK = 1 << 20,  /* numbers of an array that are on the host at once */
    WORTH = 128,      /* bytes of memory for each number at most, with room to grow */
    LONGEST = 1 << 28 /* bytes of a text */
};

struct archive archive_measure(void) {
    return (struct archive){.mode = ARCHIVE_MEASURE};
}

/* Hands the code of rank 0 to all ranks that share the archive. */
static int agree_on_code(const struct archive *archive, int code, struct err *err) {
    if (!archive->shared)
        return code;
    dist_broadcast(&code, sizeof code, 0);
    if (code)
        dist_broadcast(err, sizeof *err, 0);
    return code;
}

static int create_new(struct archive *archive, struct err *err) {
    size_t size = strlen(archive->path) + sizeof ".new";
    TRY(base_alloc(&archive->new, size, 1, err));
    snprintf(archive->new, size, "%s.new", archive->path);
    archive->stream = fopen(archive->new, "wb");
    return archive->stream
               ? CODE_OK
               : err_set(err, CODE_SYSTEM, "cannot create %s: %s", archive->new, strerror(errno));
}

int archive_create(struct archive *archive, const char *path, bool shared, struct err *err) {
    *archive = (struct archive){.mode = ARCHIVE_WRITE, .shared = shared, .sum = BASE_HASH};
    TRY(base_copy(&archive->path, path, err));
    return agree_on_code(archive, shared && dist_rank() ? CODE_OK : create_new(archive, err), err);
}

uint64_t archive_sum(uint64_t sum, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t word;
    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = (sum ^ word) * BASE_PRIME;
        sum ^= sum >> 32; /* so that the highest bits of a word reach all others */
    }
    return base_hash(sum, at, size);
}

/* Whole words of what is written, wherever a call begins. */
static void add_to_sum(struct archive *archive, size_t before, const unsigned char *bytes,
                       size_t size) {
    size_t word = sizeof archive->rest, rest = before % word;
    for (; rest && size; size--) {
        archive->rest[rest] = *bytes++;
        rest = (rest + 1) % word;
        if (!rest)
            archive->sum = archive_sum(archive->sum, archive->rest, word);
    }
    archive->sum = archive_sum(archive->sum, bytes, size / word * word);
    memcpy(archive->rest + rest, bytes + size / word * word, size % word);
}

static int say_damaged(const struct archive *archive, struct err *err) {
    return err_set(err, CODE_INPUT,
                   "%s: is damaged, or of another version: its bytes and its sum disagree; without "
                   "the file this run begins anew",
                   archive->path);
}

/* Reads all of it for its sum, and returns to the beginning. */
static int verify_sum(struct archive *archive, struct err *err) {
    unsigned char block[1 << 12];
    uint64_t sum = BASE_HASH, wanted;
    TRY(base_open(&archive->stream, archive->path, err));
    if (fseek(archive->stream, 0, SEEK_END))
        return say_damaged(archive, err);
    long left = ftell(archive->stream) - (long)sizeof wanted;
    archive->left = left > 0 ? (size_t)left : 0;
    rewind(archive->stream);
    for (size_t size; left > 0; left -= (long)size) {
        size = left < (long)sizeof block ? (size_t)left : sizeof block;
        if (fread(block, 1, size, archive->stream) != size)
            return say_damaged(archive, err);
        sum = archive_sum(sum, block, size);
    }
    if (left < 0 || fread(&wanted, sizeof wanted, 1, archive->stream) != 1 || sum != wanted)
        return say_damaged(archive, err);
    rewind(archive->stream);
    return CODE_OK;
}

int archive_open(struct archive *archive, const char *path, bool shared, struct err *err) {
    *archive = (struct archive){.mode = ARCHIVE_READ, .shared = shared};
    TRY(base_copy(&archive->path, path, err));
    return agree_on_code(archive, shared && dist_rank() ? CODE_OK : verify_sum(archive, err), err);
}

/* The sum, and all of it on disk under its name. */
static int write_sum(struct archive *archive, int code, struct err *err) {
    archive->sum = base_hash(archive->sum, archive->rest, (size_t)archive->bytes % 8);
    if (!archive->cause && fwrite(&archive->sum, sizeof archive->sum, 1, archive->stream) != 1)
        archive->cause = errno;
    if (!archive->cause && (fflush(archive->stream) || fsync(fileno(archive->stream))))
        archive->cause = errno;
    if (fclose(archive->stream) && !archive->cause)
        archive->cause = errno;
    if (!code && !archive->cause && rename(archive->new, archive->path))
        archive->cause = errno;
    if (code || archive->cause)
        unlink(archive->new);
    return code || !archive->cause ? code
                                   : err_set(err, CODE_SYSTEM, "cannot write %s: %s", archive->path,
                                             strerror(archive->cause));
}

int archive_close(struct archive *archive, int code, struct err *err) {
    if (archive->stream && archive->mode == ARCHIVE_WRITE)
        code = write_sum(archive, code, err);
    else if (archive->stream)
        fclose(archive->stream);
    if (archive->mode == ARCHIVE_WRITE)
        code = agree_on_code(archive, code, err);
    free(archive->path);
    free(archive->new);
    *archive = (struct archive){0};
    return code;
}

int archive_misfit(const struct archive *archive, const char *what, struct err *err) {
    return err_set(err, CODE_INPUT, "%s: does not belong to this run: %s", archive->path, what);
}

static int take_bytes(struct archive *archive, void *bytes, size_t size, struct err *err) {
    bool good = !archive->stream ||
                (size <= archive->left && fread(bytes, 1, size, archive->stream) == size);
    archive->left -= good && archive->stream ? size : 0;
    if (archive->shared) {
        dist_broadcast(&good, sizeof good, 0);
        dist_broadcast(bytes, size, 0);
    }
    return good ? CODE_OK : archive_misfit(archive, "it is too short", err);
}

int archive_bytes(struct archive *archive, void *bytes, size_t size, struct err *err) {
    size_t before = (size_t)archive->bytes;
    archive->bytes += (double)size;
    if (archive->mode == ARCHIVE_READ)
        return take_bytes(archive, bytes, size, err);
    if (!archive->stream || archive->cause)
        return CODE_OK;
    add_to_sum(archive, before, bytes, size);
    if (fwrite(bytes, 1, size, archive->stream) != size)
        archive->cause = errno;
    return CODE_OK;
}

int archive_flag(struct archive *archive, bool *flag, struct err *err) {
    unsigned char byte = archive_reads(archive) ? 0 : *flag;
    TRY(archive_bytes(archive, &byte, 1, err));
    if (byte > 1)
        return archive_misfit(archive, "a flag is neither 0 nor 1", err);
    *flag = byte;
    return CODE_OK;
}

int archive_list(struct archive *archive, void *list, size_t count, size_t size, struct err *err) {
    void *first;
    memcpy(&first, list, sizeof first);
    uint64_t stored = first ? count : UINT64_MAX;
    TRY(archive_bytes(archive, &stored, sizeof stored, err));
    if (stored == UINT64_MAX)
        return CODE_OK;
    if (archive_reads(archive) && stored != count)
        return archive_misfit(archive, "a list has another length", err);
    if (archive_reads(archive) && !first) {
        TRY(base_alloc(list, count, size, err));
        memcpy(&first, list, sizeof first);
    }
    return archive_bytes(archive, first, count * size, err);
}

int archive_text(struct archive *archive, char **text, struct err *err) {
    uint64_t size = archive_reads(archive) ? 0 : strlen(*text) + 1;
    TRY(archive_bytes(archive, &size, sizeof size, err));
    if (archive_reads(archive)) {
        if (size == 0 || size > LONGEST)
            return archive_misfit(archive, "a text has an impossible length", err);
        TRY(base_alloc(text, size, 1, err));
    }
    TRY(archive_bytes(archive, *text, size, err));
    return (*text)[size - 1] ? archive_misfit(archive, "a text has no end", err) : CODE_OK;
}

/* Some rows at a time, through the host. */
static int pass_values(struct archive *archive, struct rows all, struct err *err) {
    size_t sites = all.array->sites;
    int some = 1 + (int)(CHUNK / sites);
    FREED(base_free) double *host = NULL;
    some = some < all.count ? some : all.count;
    TRY(base_alloc(&host, (size_t)some * sites, sizeof *host, err));
    for (int k = 0; k < all.count; k += some) {
        struct rows rows = rows_part(all, k, some < all.count - k ? some : all.count - k);
        if (!archive_reads(archive))
            all.array->backend->get(rows, host);
        TRY(archive_bytes(archive, host, (size_t)rows.count * sites * sizeof *host, err));
        if (archive_reads(archive))
            all.array->backend->put(rows, host);
    }
    return CODE_OK;
}

int archive_expect(const struct archive *archive, const struct array *array, size_t sites,
                   int group, int rows, struct err *err) {
    bool fits = array->memory && array->sites == sites && array->group == group &&
                (rows < 0 || array->rows == rows);
    return fits || !archive_reads(archive)
               ? CODE_OK
               : archive_misfit(archive, "an array has another shape", err);
}

int archive_expect_like(const struct archive *archive, const struct array *array, struct rows like,
                        struct err *err) {
    return archive_expect(archive, array, like.array->sites, like.array->group, like.count, err);
}

int archive_array(struct archive *archive, struct array *array, const struct backend *backend,
                  struct err *err) {
    struct {
        uint64_t sites;
        int64_t group, rows;
    } shape = {array->sites, array->group, array->memory ? array->rows : -1};
    TRY(archive_bytes(archive, &shape, sizeof shape, err));
    if (archive_reads(archive) && shape.rows >= 0) {
        if (shape.rows > INT_MAX || shape.group < 1 || shape.group > INT_MAX || !shape.sites ||
            shape.sites % (uint64_t)shape.group != 0 ||
            shape.sites > SIZE_MAX / WORTH / (1 + (size_t)shape.rows))
            return archive_misfit(archive, "an array has an impossible shape", err);
        if (!array->memory)
            TRY(array_init(array, backend, shape.sites, (int)shape.group, 0, err));
        if (array->sites != shape.sites || array->group != (int)shape.group)
            return archive_misfit(archive, "its arrays have other sites", err);
        array->rows = 0;
        TRY(array_reserve(array, (int)shape.rows, err));
    }
    if (shape.rows < 0)
        return CODE_OK;
    int copies = array->backend->main ? 1 + COMPANIONS : 1;
    if (archive->mode == ARCHIVE_MEASURE) {
        archive->bytes += copies * (double)shape.rows * (double)shape.sites * sizeof(double);
        return CODE_OK;
    }
    TRY(pass_values(archive, array_all(array), err));
    for (int c = 0; c + 1 < copies; c++)
        TRY(pass_values(archive, companions_rows(array_all(array), c), err));
    return CODE_OK;
}
