/* A test program runs only those of its functions whose name contains what the environment variable
 * DMFT_TESTS says: `make test-NAME K=PART`. It is linked with every test and needs no call. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void set_filter(void) {
    static char pattern[256]; /* cmocka keeps the pointer */
    const char *part = getenv("DMFT_TESTS");
    if (!part || !*part)
        return;
    snprintf(pattern, sizeof pattern, "*%s*", part);
    cmocka_set_test_filter(pattern);
}
