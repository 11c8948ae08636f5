/* Small networks in Lua that tests write themselves. */
#pragma once

#include "tests/support/support.h"

/* Reads a run of examples/dense.ini with the network `text`, called t.lua, and overrides up to a
 * NULL ("section.key=value", at most 12); [program] depth = 3 is given. Returns the code of
 * run_configure. run_free(run) in any case. */
int support_script(struct run *run, const char *text, const char *const *overrides,
                   struct err *err);
/* The same, and fails the test with the sentence where it is refused. */
void support_script_run(struct run *run, const char *text, const char *const *overrides);
/* Fails the test unless such a run is refused with this sentence, or a part of it. */
void support_refuse_script(const char *text, const char *const *overrides, const char *sentence);
/* Fails the test unless one network of N = 16 has the same loss after two steps, bit by bit, in
 * both texts. */
void support_scripts_agree(const char *const text[2], const char *const *overrides);
