/* The note of what training never moves. */
#include "solver/run/never_moves.h"
#include "solver/measure/still.h"
#include "solver/run/ensemble.h"
#include "solver/run/notes.h"

#include <stdio.h>
#include <string.h>

int never_moves_find(struct run *run, int N, const struct record *record, struct err *err) {
    static const char *const why[STILL_CAUSES] = {
        [STILL_READS_NOTHING] = "what is read there is exactly 0 at every step",
        [STILL_UNANSWERED] = "the gradient is exactly 0 at every step, since nothing that depends "
                             "on it reaches the loss (experts that no input selects, say)",
        [STILL_ONE_GATE] = "the gradient is exactly 0 at every step, since one expert is selected, "
                           "and a softmax over the selected is 1 whatever the logits; a softmax "
                           "over all has a gradient ([network] softmax_over = all)"};
    struct net_setup setup = run_setup(run, N, 0);
    char group[ENSEMBLE_GROUP], text[NOTES_TEXT];
    struct text_names names;
    FREED(net_free) struct net net = {0};
    ensemble_group(group, N);
    TRY(net_declare(&net, &setup, err));
    for (int cause = STILL_READS_NOTHING; cause < STILL_CAUSES; cause++) {
        bool told = false;
        still_find(record, &net, cause, &names);
        snprintf(text, sizeof text, "%s never move%s: %s", names.text, names.count > 1 ? "" : "s",
                 why[cause]);
        for (int k = 0; k < run->notes.count; k++)
            told = told || !strcmp(run->notes.note[k].text, text);
        struct note *note = names.count && !told
                                ? notes_add(&run->notes, "never_moves", group, -1, false, err)
                                : NULL;
        if (note)
            notes_text(note, "%s", text);
        TRY(note || !names.count || told ? CODE_OK : err->code);
    }
    return CODE_OK;
}
