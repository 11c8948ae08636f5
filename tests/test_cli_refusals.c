/* The program from outside: what it refuses that is not a line of tests/refusals.txt. */
#define _POSIX_C_SOURCE 200809L
#include "kernels/array/backend.h"
#include "tests/support/cli.h"

#include <errno.h>

/* Not compiled in, or its device is hidden: one sentence, before anything is written. */
CLEAN_TEST(test_backend_that_is_not_there) {
    FREED(cli_free) struct cli_result result;
    double bytes;
    cli_print("case.ini", cli_small);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
    int code = backend_cuda.open(&bytes, &failure);
    assert_true(code == CODE_SYSTEM || code == CODE_INPUT);
    assert_non_null(strstr(failure.text, code == CODE_INPUT ? "make CUDA=1" : "finds no device"));
    cli_run(&result, ARGS("-o", "out.h5", "case.ini", "--solver.backend=cuda"));
    assert_true(cli_ended(&result, code, ARGS(failure.text)));
    assert_false(cli_exists("out.h5") || cli_exists("out.h5.partial"));
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* A key that says what is anyway may stand where it is not used, and no other value of it. */
CLEAN_TEST(test_unused_keys_at_their_defaults) {
    static const char *const keys[][2] = {
        {"--network.bias=none", "--network.bias=fixed"},
        {"--network.beta=1.0", "--network.beta=2"},
        {"--network.rho=1", "--network.rho=0.5"},
        {"--solver.expert_sites=2048", "--solver.expert_sites=8"},
        {"--reference.seeds=16", "--reference.seeds=2"},
        {"--output.singular_values=8e0", "--output.singular_values=3"}};
    cli_print("dense.ini", "[network]\nmodel = dense\nbias = none\n[solver]\nsites = 64\n");
    for (size_t i = 0; i < COUNT(keys); i++)
        for (int other = 0; other < 2; other++) {
            FREED(cli_free) struct cli_result result;
            cli_run(&result, ARGS("--program", "dense.ini", keys[i][other]));
            FAIL_IF(result.code != 2 * other, "%s: %s", keys[i][other], result.err);
        }
}

CLEAN_TEST(test_permissions) {
    static const STRUCT(const char *arg[6], *part[3]; int code) table[] = {
        {{"locked.ini"}, {"locked.ini: cannot be opened: Permission denied"}, 2},
        {{"data.ini"}, {"data file locked.h5: cannot be opened: Permission denied"}, 2},
        {{"small.ini", "-o", "locked/out.h5"}, {"locked/out.h5", "Permission denied"}, 1},
    };
    cli_print("locked.ini", cli_small);
    cli_print("locked.h5", "");
    cli_print("data.ini", CLI_DATA("locked.h5"));
    assert_int_equal(mkdir("locked", 0555), 0);
    assert_int_equal(chmod("locked.ini", 0), 0);
    assert_int_equal(chmod("locked.h5", 0), 0);
    size_t failures = 0;
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(cli_free) struct cli_result result;
        cli_wait(cli_start(table[i].arg, CLI_NO_RIGHTS), &result);
        if (result.code == CLI_NO_SUCH_RIGHT) {
            print_message("permissions: root cannot give up its rights here, so not tested\n");
            cli_free(&result);
            skip();
        }
        failures += !cli_ended(&result, table[i].code, table[i].part);
    }
    assert_int_equal(failures, 0);
    assert_false(cli_exists("locked/out.h5") || cli_exists("locked/out.h5.partial"));
}

CLEAN_TEST(test_force) {
    FREED(cli_free) struct cli_result result;
    cli_print("out.h5", "mine\n");
    cli_refused(2, ARGS("small.ini", "-o", "out.h5"),
                ARGS("output out.h5: exists already", "--force"));
    FREED(base_free) char *bytes = cli_read("out.h5", NULL);
    assert_string_equal(bytes, "mine\n");
    assert_false(cli_exists("out.h5.partial"));
    cli_run(&result, ARGS("--force", "small.ini", "-o", "out.h5"));
    assert_int_equal(result.code, 0);
    assert_non_null(strstr(result.err, "\nwrote out.h5\n"));
    assert_non_null(strstr(result.out, "limit"));
    assert_int_equal(cli_complete("out.h5"), 1);
    assert_false(cli_exists("out.h5.partial"));
    cli_clean(NULL);
}

/* Opening its own memory succeeds, reading at its beginning is an input/output error. */
CLEAN_TEST(test_input_output_errors_of_an_ini) {
    static const char *const programs[] = {"dmft-compare", "dmft-solve"};
    for (size_t i = 0; i < COUNT(programs); i++) {
        cli_program(programs[i]);
        cli_refused(1, ARGS("-o", "out.h5", "/proc/self/mem"),
                    ARGS("/proc/self/mem: cannot be read: Input/output error"));
    }
    assert_int_equal(base_file_code(EIO), CODE_SYSTEM);
    assert_int_equal(base_file_code(EMFILE), CODE_SYSTEM);
    assert_int_equal(base_file_code(ENOENT), CODE_INPUT);
}

AROUND_TESTS(cli_open, cli_close)
