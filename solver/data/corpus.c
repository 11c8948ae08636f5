#define _POSIX_C_SOURCE 200809L
#include "solver/data/corpus.h"
#include "kernels/base/text.h"
#include "kernels/draws/rng.h"
#include "solver/data/data_file.h"

#include <errno.h>

enum {
    OWNER_WINDOWS = 3,  /* of PURPOSE_DATA, beside those of tokens.c */
    CODES = TEXT_CODES, /* of characters, and so of bytes */
    BYTES_A_LETTER = 12 /* of the file, a letter, and where its window is drawn */
};

/* The letters of the text as codes, then as tokens. */
struct letters {
    char *bytes;
    size_t size, count;
    int *letter;
    int *token; /* [CODES] of a code, -1: none */
};

static void letters_free(struct letters *text) {
    free(text->bytes);
    free(text->letter);
    free(text->token);
}

/* --- reading --------------------------------------------------------------------------------- */

static int read_bytes(struct letters *text, const struct corpus *corpus, struct err *err) {
    FREED(base_close) FILE *stream = NULL;
    long size = -1;
    TRY(data_check_file(corpus->path, err));
    TRY(base_open(&stream, corpus->path, err));
    if (!fseek(stream, 0, SEEK_END))
        size = ftell(stream);
    rewind(stream);
    if (size < 0)
        return err_set(err, CODE_SYSTEM, "data file %s: %s", corpus->path, strerror(errno));
    if ((double)size * BYTES_A_LETTER > corpus->most)
        return data_file_refuse(corpus->path, err,
                                "a text of %.3g MB needs about %.3g GB, and max_memory leaves "
                                "%.3g; try a part of it, or raise max_memory",
                                1e-6 * (double)size, 1e-9 * (double)size * BYTES_A_LETTER,
                                1e-9 * corpus->most);
    TRY(base_alloc(&text->bytes, (size_t)size + 1, 1, err));
    text->size = fread(text->bytes, 1, (size_t)size, stream);
    if (text->size != (size_t)size || ferror(stream))
        return err_set(err, CODE_SYSTEM, "data file %s: could not be read to its end",
                       corpus->path);
    return CODE_OK;
}

/* The letter at bytes[*at], behind which *at moves; -1: no UTF-8, and *at stays. */
static int next_letter(const struct corpus *corpus, const char *bytes, size_t size, size_t *at) {
    int code;
    if (corpus->bytes)
        return (unsigned char)bytes[(*at)++];
    size_t length = text_character(bytes + *at, size - *at, &code);
    *at += length;
    return length ? code : -1;
}

static int split_letters(struct letters *text, const struct corpus *corpus, struct err *err) {
    size_t at = 0;
    TRY(base_alloc(&text->letter, text->size, sizeof *text->letter, err));
    if (!corpus->bytes && text->size >= 3 && !memcmp(text->bytes, "\xef\xbb\xbf", 3))
        at = 3;
    while (at < text->size) {
        int code = next_letter(corpus, text->bytes, text->size, &at);
        if (code < 0)
            return data_file_refuse(
                corpus->path, err,
                "byte %zu begins no character of UTF-8; unit = bytes reads any file", at);
        text->letter[text->count++] = code;
    }
    return CODE_OK;
}

/* --- the alphabet ---------------------------------------------------------------------------- */

/* A letter of the key alphabet at *at; -1: a backslash before something else, or no UTF-8. */
static int next_said(const struct corpus *corpus, size_t *at) {
    static const char names[] = "nrt\\", are[] = "\n\r\t\\";
    const char *said = corpus->alphabet;
    if (said[*at] != '\\')
        return next_letter(corpus, said, strlen(said), at);
    const char *name = said[*at + 1] ? strchr(names, said[*at + 1]) : NULL;
    if (!name)
        return -1;
    *at += 2;
    return are[name - names];
}

/* The letters of the key. */
static int take_said(struct letters *text, struct data *sizes, const struct corpus *corpus,
                     struct err *err) {
    for (size_t at = 0; corpus->alphabet[at];) {
        size_t before = at;
        int code = next_said(corpus, &at);
        if (code < 0)
            return err_set(err, CODE_INPUT,
                           "[data] alphabet: byte %zu is no letter; \\n, \\r, \\t and \\\\ are, "
                           "and characters of UTF-8",
                           before);
        if (text->token[code] >= 0)
            return err_set(err, CODE_INPUT, "[data] alphabet: the letter %.*s comes twice",
                           (int)(at - before), corpus->alphabet + before);
        sizes->code[sizes->V] = code;
        text->token[code] = sizes->V++;
    }
    return CODE_OK;
}

/* A letter that the text has, so many times. */
struct found {
    size_t times;
    int code;
};

/* The most frequent first; of letters as frequent the first. */
static int by_frequency(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return x->times == y->times ? (x->code > y->code) - (x->code < y->code)
                                : (x->times < y->times) - (x->times > y->times);
}

/* The letters of the text, or the most frequent of them, in the order of their codes. */
static int take_found(struct letters *text, struct data *sizes, const struct corpus *corpus,
                      struct err *err) {
    int kinds = 0, room = corpus->vocabulary;
    SCRATCH(struct found, found, CODES);
    for (size_t k = 0; k < text->count; k++)
        found[text->letter[k]].times++;
    for (int code = 0; code < CODES; code++)
        if (found[code].times)
            found[kinds++] = (struct found){.code = code, .times = found[code].times};
    qsort(found, (size_t)kinds, sizeof *found, by_frequency);
    for (int k = 0; k < (room && room < kinds ? room - 1 : kinds); k++)
        text->token[found[k].code] = CODES;
    for (int code = 0; code < CODES; code++)
        if (text->token[code] == CODES) {
            sizes->code[sizes->V] = code;
            text->token[code] = sizes->V++;
        }
    return CODE_OK;
}

/* code [V], and letters become tokens. */
static int find_alphabet(struct letters *text, struct data *sizes, const struct corpus *corpus,
                         struct err *err) {
    size_t others = 0;
    TRY(base_alloc(&text->token, CODES, sizeof *text->token, err));
    TRY(base_alloc(&sizes->code, CODES, sizeof *sizes->code, err));
    for (int code = 0; code < CODES; code++)
        text->token[code] = -1;
    TRY(corpus->alphabet[0] ? take_said(text, sizes, corpus, err)
                            : take_found(text, sizes, corpus, err));
    for (size_t k = 0; k < text->count; k++) {
        int token = text->token[text->letter[k]];
        others += token < 0;
        text->letter[k] = token < 0 ? sizes->V : token;
    }
    if (others)
        sizes->code[sizes->V++] = -1;
    if (sizes->V < 2)
        return data_file_refuse(corpus->path, err,
                                "has %s, and a text to learn needs at least two letters",
                                text->count ? "one letter only" : "no letter");
    return CODE_OK;
}

/* --- windows --------------------------------------------------------------------------------- */

/* `count` windows of the letters first ... end - 1, as inputs from `to` on. */
static int take_windows(struct data *data, const struct letters *text, const struct corpus *corpus,
                        const size_t part[2], int to, struct err *err) {
    size_t n = (size_t)corpus->n, stride = (size_t)corpus->stride, length = part[1] - part[0];
    size_t windows = length > n ? (length - n - 1) / stride + 1 : 0;
    size_t count = (size_t)(to ? corpus->tests : corpus->inputs);
    struct rng_stream stream = {
        .seed = corpus->seed, .purpose = PURPOSE_DATA, .owner = OWNER_WINDOWS};
    if (windows < count)
        return data_file_refuse(
            corpus->path, err,
            "its %s %zu letters have %zu windows of %zu letters and the next, at "
            "every %zu, where %s = %zu are wanted; try fewer, or a smaller stride%s",
            to ? "last" : "first", length, windows, n, stride, to ? "test_inputs" : "inputs", count,
            to ? ", or a larger held_out" : "");
    SCRATCH(size_t, order, windows);
    for (size_t k = 0; k < windows; k++)
        order[k] = k;
    for (size_t k = 0; k < count; k++) { /* Fisher and Yates; the bias is below 2^-32 */
        uint32_t bits[4];
        rng_bits(stream, (uint32_t)k, to > 0, bits);
        uint64_t random = (uint64_t)bits[1] << 32 | bits[0];
        size_t other = k + (size_t)(random % (windows - k)), window = order[other];
        order[other] = order[k];
        size_t at = part[0] + window * stride, row = ((size_t)to + k) * n;
        for (size_t s = 0; s < n; s++) {
            data->token[row + s] = text->letter[at + s];
            data->y[row + s] = text->letter[at + s + 1];
        }
    }
    return CODE_OK;
}

/* The sizes of the data, whose alphabet is known, are within what is allowed. */
static int check_sizes(const struct data *sizes, const struct corpus *corpus, struct err *err) {
    double rows = (double)data_rows(sizes), D = sizes->D, directions = D < rows ? D : rows;
    double bytes = 12 * rows + 3 * sizeof(double) * D * directions;
    if (bytes <= corpus->most)
        return CODE_OK;
    return data_file_refuse(
        corpus->path, err,
        "%.0f tokens of %d letters need about %.3g GB, and max_memory "
        "leaves %.3g; try fewer inputs, or [data] vocabulary, or raise max_memory",
        rows, sizes->V, 1e-9 * bytes, 1e-9 * corpus->most);
}

int corpus_read(struct data *data, const struct corpus *corpus, struct err *err) {
    struct data sizes = {.P = corpus->inputs,
                         .tests = corpus->tests,
                         .n = corpus->n,
                         .per_token = true,
                         .classes = true,
                         .numbered = true};
    struct letters text = {0};
    int code;
    *data = (struct data){0};
    DO(read_bytes(&text, corpus, err));
    DO(split_letters(&text, corpus, err));
    DO(find_alphabet(&text, &sizes, corpus, err));
    sizes.C = sizes.V;
    sizes.D = sizes.V + (corpus->positions ? sizes.n : 0);
    DO(check_sizes(&sizes, corpus, err));
    DO(data_init(data, &sizes, err));
    const size_t last = (size_t)((double)text.count * (1 - corpus->held_out));
    DO(take_windows(data, &text, corpus, (size_t[]){0, last}, 0, err));
    if (corpus->tests)
        DO(take_windows(data, &text, corpus, (size_t[]){last, text.count}, corpus->inputs, err));
    data->code = sizes.code;
    sizes.code = NULL;
done:
    letters_free(&text);
    free(sizes.code);
    if (code)
        data_free(data);
    return code;
}
