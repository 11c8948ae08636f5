/* Notes of a run: what is said of limits that condense, of runs that fail, and until when numbers
 * hold. */
#include "solver/run/notes.h"
#include "solver/run/run.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

static const struct note *find(const struct run *run, const char *code) {
    for (int k = 0; k < run->notes.count; k++)
        if (!strcmp(run->notes.note[k].code, code))
            return &run->notes.note[k];
    return NULL;
}

/* The same network, built in and as a program of the user's: what the gates do decides. */
static void gates_that_condense(void **state) {
    (void)state;
    static const struct {
        const char *ini, *gate;
        bool condenses;
    } table[] = {
        {"data/regime2.ini", "network.gate=softmax", true},
        {"data/regime2.ini", "network.gate=sigmoid", false},
        {"examples/regime2.ini", "program.gate=softmax", true},
        {"examples/regime2.ini", "program.gate=sigmoid", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *const overrides[] = {
            table[i].gate,         "training.gamma0=1.5", "training.eta0=0.15",
            "training.steps=12",   "solver.sites=256",    "solver.expert_sites=256",
            "solver.replicates=2", "reference.widths=",   NULL};
        struct run run;
        struct err err;
        support_run(&run, table[i].ini, overrides);
        int code = run_march(&run, &err);
        const struct note *note = find(&run, "not_self_averaging");
        assert_int_equal(note != NULL, table[i].condenses);
        assert_int_equal(code, CODE_OK);
        if (note) {
            assert_true(note->warning && note->t > 0 && note->t < 12);
            assert_string_equal(note->group, "limit");
        }
        run_free(&run);
    }
}

/* A limit whose bases need more sites than it has is told from one that diverges. */
static void causes_of_failures(void **state) {
    (void)state;
    static const struct {
        const char *key, *value;
        enum record_cause cause;
    } table[] = {{"solver", "sites=300", CAUSE_SITES}, {"training", "eta0=1e6", CAUSE_DIVERGED}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[64];
        struct run run;
        struct err err;
        snprintf(text, sizeof text, "%s.%s", table[i].key, table[i].value);
        const char *const overrides[] = {text, NULL};
        support_run_text(&run, overrides,
                         "[network]\nmodel = dense\nactivation = relu\n[data]\ninputs = 64\n"
                         "dimension = 40\n[training]\nsteps = 9\neta0 = 0.1\n"
                         "[solver]\nsites = 2048\nreplicates = 1\n");
        assert_int_equal(run_march(&run, &err), CODE_NUMERICAL);
        assert_true(run.limit.failed[0]);
        assert_int_equal(run.limit.cause[0], table[i].cause);
        const struct note *note = find(&run, "limit_failed");
        assert_non_null(note);
        assert_int_equal(note->t, run.limit.steps[0]);
        assert_non_null(strstr(err.text, note->text));
        run_free(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_that_condense),
        cmocka_unit_test(causes_of_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
