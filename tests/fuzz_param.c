/* libFuzzer target: arbitrary bytes as an ini file and as one override. Whatever is accepted must
 * be written and read back as the same text. Build and run: make check-long, make soak. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/fuzz.h"
#include "tests/support/param_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Reads an ini text; on success returns it as written back, to free. */
static char *read_and_write(void *bytes, size_t size, char *override) {
    FREED(params_free) struct params params;
    struct table_config config;
    struct err err = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *in = fmemopen(bytes, size, "r");
    fuzz_require(in != NULL, "no stream");
    struct param_source source = {"fuzz.ini", in, override ? 1 : 0, &override, 0};
    int code = params_read_stream(&params, table_sections, TABLE_COUNT, &source, &config, &err);
    fclose(in);
    fuzz_sentence(code, &err);
    if (!code)
        fuzz_require(!params_text(&params, &text, &length, &err), "not written");
    return text;
}

static void round_trip(void *bytes, size_t size, char *override) {
    char *text = read_and_write(bytes, size, override);
    if (!text)
        return;
    FREED(base_free) char *again = read_and_write(text, strlen(text), NULL);
    fuzz_require(again && !strcmp(text, again), "not read back as written");
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const char least[] = "[run]\nsteps = 7\n";
    char *copy = fuzz_text(bytes, size), begin[sizeof least];
    memcpy(begin, least, sizeof least);
    if (size) /* fmemopen need not take an empty buffer */
        round_trip(copy, size, NULL);
    round_trip(begin, sizeof least - 1, copy);
    free(copy);
    return 0;
}
