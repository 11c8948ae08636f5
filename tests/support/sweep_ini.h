/* The ini of small sweeps: case.ini with seventeen lines of a network, and the lines of [sweep]
 * that a test gives behind them, from line 18 on. */
#ifndef TESTS_SWEEP_INI_H
#define TESTS_SWEEP_INI_H

#include "tests/support/cli.h"

static inline void sweep_ini(const char *sweep) {
    static const char head[] =
        "[network]\nmodel = regime2\nkappa = 0.5\n[data]\ninputs = 3\ndimension = 4\n[training]\n"
        "steps = 4\n[solver]\nsites = 64\nexpert_sites = 64\nreplicates = 2\nthreads = 1\n"
        "[reference]\nwidths = 8\nseeds = 2\n[sweep]\n";
    char text[4096];
    snprintf(text, sizeof text, "%s%s", head, sweep);
    cli_print("case.ini", text);
}

#endif
