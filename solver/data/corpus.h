/* Windows of a text: characters (UTF-8) or bytes, each of which is a token; the target of every
 * token is the next one.
 *
 * A window is n + 1 letters of the text, the last of which is only a target; windows begin at every
 * `stride`-th letter. Training inputs lie in the first part of the text, test inputs in the last
 * `held_out` of it, and no window reaches from one into the other. Of the windows that a part has,
 * those wanted are drawn without repetition, in an order drawn anew for every seed: more inputs
 * begin with the fewer. */
#pragma once

#include "solver/data/data.h"

struct corpus {
    const char *path;
    bool bytes; /* letters are bytes, else characters of UTF-8; a byte order mark is left out */
    /* The letters in the order of their tokens, \n, \r, \t and \\ standing for what they do in C;
     * "": all that the text has, in the order of their codes. */
    const char *alphabet;
    /* Without an alphabet, 0: all letters; else those that are most frequent, all others being the
     * last token. Of an alphabet the last token is there if the text has others. */
    int vocabulary;
    int inputs, tests, n, stride;
    double held_out;
    bool positions;
    uint64_t seed;
    double most; /* bytes that all this may take */
};
/* P, tests, n, D, C = V, token, y (numbered) and code. CODE_INPUT with one sentence that names the
 * file: no UTF-8, one letter only, too few windows, too large. */
int corpus_read(struct data *data, const struct corpus *corpus, struct err *err);
