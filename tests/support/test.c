#include "tests/support/test.h"

enum { MOST = 64 };
static struct CMUnitTest tests[MOST]; /* in the order of their lines */
static int lines[MOST], count;
static CMFixtureFunction before, behind;
bool is_long;
uint64_t random_state = 1;

double uniform(void) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (double)((random_state * 0x2545f4914f6cdd1dULL) >> 11) * 0x1p-52 - 1;
}

void test_add(int line, struct CMUnitTest test) {
    int k = count++;
    if (count > MOST)
        abort();
    for (; k && lines[k - 1] > line; k--) {
        tests[k] = tests[k - 1];
        lines[k] = lines[k - 1];
    }
    tests[k] = test;
    lines[k] = line;
}

void test_around(CMFixtureFunction setup, CMFixtureFunction teardown) {
    before = setup;
    behind = teardown;
}

int run_registered(const char *group) {
    return _cmocka_run_group_tests(group, tests, (size_t)count, before, behind);
}

__attribute__((constructor)) static void set_filter(void) {
    static char pattern[256]; /* cmocka keeps the pointer */
    const char *part = getenv("DMFT_TESTS");
    if (!part || !*part)
        return;
    snprintf(pattern, sizeof pattern, "*%s*", part);
    cmocka_set_test_filter(pattern);
}

__attribute__((weak)) int main(int argc, char **argv) {
    is_long = argc > 1 && !strcmp(argv[1], "long");
    return run_registered("tests");
}
