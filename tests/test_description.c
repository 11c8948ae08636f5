/* What networks are, as text, where memory is short: some allocations of the JSON
 * library fail in turn, and all of the last ones, which write the text. */
#include "solver/run/parts.h"
#include "tests/support/support.h"

#include <errno.h>
#include <jansson.h>

static long calls, fails; /* the one that fails; 0: none */

static void *allocate(size_t size) {
    if (++calls != fails)
        return malloc(size);
    errno = ENOMEM;
    return NULL;
}

static int text_of(const struct run *run, char **text, struct err *err) {
    calls = 0;
    return description_text(run, true, text, err);
}

/* Fails unless it ends in a sentence, or did not need what failed and is the same text. */
static void without(const struct run *run, const char *file, long n, const char *whole) {
    struct err err = {0};
    FREED(base_free) char *text = NULL;
    fails = n;
    int code = text_of(run, &text, &err);
    fails = 0;
    if (code ? code != CODE_SYSTEM || text || !strstr(err.text, "out of memory: ")
             : !text || strcmp(text, whole) != 0)
        fail_msg("%s, allocation %ld: code %d, %s", file, n, code, code ? err.text : text);
}

static void check(const struct run *run, const char *file) {
    enum { SOME = 60, LAST = 40 };
    FREED(base_free) char *whole = NULL;
    ASK(text_of(run, &whole, err));
    long all = calls;
    assert_true(all > LAST);
    for (long n = 1; n <= all; n += n < all - LAST && all > SOME ? all / SOME : 1)
        without(run, file, n, whole);
}

TEST(memory_is_short) {
    static const char *const files[] = {"data/dense.ini", "data/regime2.ini",
                                        "data/transformer.ini"};
    json_set_alloc_funcs(allocate, free);
    for (size_t k = 0; k < COUNT(files); k++) {
        FREED(run_free) struct run run;
        support_run(&run, files[k], NULL);
        check(&run, files[k]);
    }
    json_set_alloc_funcs(malloc, free);
}

/* JSON knows no infinite number: that is no lack of memory. */
TEST(a_number_is_infinite) {
    FREED(run_free) struct run run;
    struct err err = {0};
    char *text = NULL;
    support_run(&run, "data/dense.ini", NULL);
    run.config.training.eta0 = INFINITY;
    errno = ENOMEM; /* of long ago */
    assert_int_equal(description_text(&run, true, &text, &err), CODE_INPUT);
    assert_non_null(strstr(err.text, "would have a number that is infinite or none"));
}
