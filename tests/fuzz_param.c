/* libFuzzer target: arbitrary bytes as an ini file and as one override. Whatever is accepted must
 * be written and read back as the same text. Build with
 * clang -fsanitize=fuzzer,address,undefined and run with a folder of examples, for instance data.
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/param_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

/* Reads an ini text; on success returns it as written back, to free. */
static char *read_and_write(void *bytes, size_t size, char *override) {
    struct params params;
    struct table_config config;
    struct err err = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *in = fmemopen(bytes, size, "r");
    require(in != NULL, "no stream");
    int code = params_read_stream(&params, table_sections, TABLE_COUNT, "fuzz.ini", in,
                                  override ? 1 : 0, &override, &config, &err);
    fclose(in);
    require(code == err.code && (code == CODE_OK || code == CODE_INPUT), "unexpected code");
    require(!code || (*err.text && !strchr(err.text, '\n')), "not a sentence");
    if (!code)
        require(!params_text(&params, &text, &length, &err), "not written");
    params_free(&params);
    return text;
}

static void round_trip(void *bytes, size_t size, char *override) {
    char *text = read_and_write(bytes, size, override);
    if (!text)
        return;
    char *again = read_and_write(text, strlen(text), NULL);
    require(again && !strcmp(text, again), "not read back as written");
    free(text);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char least[] = "[run]\nsteps = 7\n";
    char *copy = malloc(size + 1), begin[sizeof least];
    require(copy != NULL, "out of memory");
    memcpy(begin, least, sizeof least);
    if (size)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    if (size) /* fmemopen need not take an empty buffer */
        round_trip(copy, size, NULL);
    round_trip(begin, sizeof least - 1, copy);
    free(copy);
    return 0;
}
