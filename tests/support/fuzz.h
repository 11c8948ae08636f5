/* What fuzz targets share. */
#pragma once

#include "kernels/base/base.h"

static inline void fuzz_require(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Done, or refused with one sentence. */
static inline void fuzz_sentence(int code, const struct err *err) {
    fuzz_require(code == err->code && (code == CODE_OK || code == CODE_INPUT), "unexpected code");
    fuzz_require(!code || (*err->text && !strchr(err->text, '\n')), "not a sentence");
}

/* The bytes and a zero, to be freed. */
static inline char *fuzz_text(const uint8_t *bytes, size_t size) {
    char *copy = malloc(size + 1);
    fuzz_require(copy != NULL, "out of memory");
    if (size)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}
