#include "tests/support/script.h"

/* A script on one line, as runs record it. */
static const char *fold(const char *text) {
    static char out[4096];
    char *to = out;
    for (; *text; text++) {
        if (*text == '\n' || *text == '\\')
            *to++ = '\\';
        *to++ = *text == '\n' ? 'n' : *text;
    }
    *to = '\0';
    return out;
}

int support_script(struct run *run, const char *text, const char *const *overrides,
                   struct err *err) {
    char whole[4200], *all[16] = {whole, "network.program=t.lua", "program.depth=3"};
    int count = 3;
    snprintf(whole, sizeof whole, "network.program_text=%s", fold(text));
    for (; *overrides; overrides++)
        all[count++] = (char *)(uintptr_t)*overrides;
    *run = (struct run){0};
    *err = (struct err){0};
    return run_configure(run, "examples/dense.ini", count, all, err);
}

void support_script_run(struct run *run, const char *text, const char *const *overrides) {
    FAIL_IF(support_script(run, text, overrides, &failure), "%s", failure.text);
}

void support_refuse_script(const char *text, const char *const *overrides, const char *sentence) {
    FREED(run_free) struct run run;
    int code = support_script(&run, text, overrides, &failure);
    if (code != CODE_INPUT || !strstr(failure.text, sentence))
        fail_msg("%s\n gives %d: %s\n not: %s", text, code, failure.text, sentence);
}

void support_scripts_agree(const char *const text[2], const char *const *overrides) {
    double loss[2], se;
    for (int k = 0; k < 2; k++) {
        RUN_AND_RECORD;
        support_script_run(&run, text[k], overrides);
        ASK(run_ensemble(&run, 16, 1, &record, err));
        support_entry(&record, "loss", 2, &loss[k], &se);
    }
    assert_true(loss[0] > 0 && loss[0] == loss[1]);
}
