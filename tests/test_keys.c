/* Keys, defaults, bounds and what is said of them: as stored in data/ref/keys.ini. A key that is
 * meant to change: ./dmft-solve --defaults > data/ref/keys.ini, and a line in CHANGELOG.md. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/support.h"
#include "solver/settings/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keys_are_those_stored(void **state) {
    (void)state;
    struct param_section *sections;
    size_t count, size;
    char *text, *rest, *line = NULL;
    ASK(config_sections(&sections, &count, err));
    FILE *out = open_memstream(&text, &size), *stored = fopen("data/ref/keys.ini", "r");
    assert_true(out && stored);
    params_defaults(sections, count, out);
    assert_int_equal(fclose(out), 0);
    rest = text;
    for (size_t room = 0; getline(&line, &room, stored) >= 0; rest += strlen(line))
        if (strncmp(rest, line, strlen(line)))
            fail_msg("data/ref/keys.ini, see above: is %.*sstored %s", (int)strcspn(rest, "\n") + 1,
                     rest, line);
    assert_string_equal(rest, "");
    fclose(stored);
    free(line);
    free(text);
    free(sections);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_those_stored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
