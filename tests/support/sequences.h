/* Runs on sequences of tokens with several outputs, read from a data file that is made for them. */
#pragma once

#include "tests/support/support.h"

struct sequences {
    int P, n, C;
    bool per_token;
    int V;            /* kinds of tokens; 0: rows of five normals */
    const int *token; /* [P n], below V */
    bool placeless;   /* rows are one-hot tokens, without their places */
};

/* A run with this section [network] and these lines of [training] (gamma0 = 1.3), which other
 * sections may follow. Targets: row i is +-1 for one output, else class i mod C; the last of all
 * tokens is not asked for anything. */
void sequences_run(struct run *run, const struct sequences *sequences, const char *network,
                   const char *training);
/* Rows of targets. */
int sequences_outs(const struct sequences *sequences);
