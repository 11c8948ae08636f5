/* How many sites carry the feature kernels of a limit: rows of which that is known exactly, and
 * what a run says where a few units come to hold an average. */
#include "solver/run/notes.h"
#include "tests/support/support.h"

#define HEAD                                                                                       \
    "[data]\ninputs = 20\ndimension = 10\n[training]\nsteps = 3\n[solver]\nsites = 512\n"          \
    "replicates = 2\n[reference]\nwidths = 16\nseeds = 2\n"
#define PROGRAM(kernel)                                                                            \
    "[network]\nmodel = program\nprogram_text = local a = population('a'); local h = "             \
    "read_in(a, 'W1'); kernel(" kernel                                                             \
    ", 'K'); read_out(map(sigma(h), population('b'), 'W2'), 'w')\n"

/* A mask of K sites is K equal sites and nothing; zeros are all equal. The twenty inputs do not fit
 * into one block of rows. */
TEST(masks_have_as_many_as_they_select) {
    static const STRUCT(const char *ini; double sites) table[] = {
        {PROGRAM("top(h, {share = 0.25})") HEAD, 128},
        {PROGRAM("2 * top(h, 8)") HEAD, 8},
        {PROGRAM("relu(-relu(h))") HEAD, 512},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        FREED(run_free) struct run run;
        support_run_text(&run, NULL, "%s", table[i].ini);
        assert_int_equal(run_march(&run, &failure), CODE_OK);
        const struct record *limit = &run.results.limit;
        const struct series *carriers = record_find(limit, "carriers");
        assert_non_null(carriers);
        for (int r = 0; r < limit->runs; r++)
            for (int t = 0; t < limit->T; t++)
                assert_true(*record_at(limit, carriers, r, t) == table[i].sites);
    }
}

/* Units that multiply two rows: at the rate of the example enough sites carry the averages at all
 * of its steps, and at twice its rate soon no more. */
TEST(units_that_run_away_are_told) {
    for (int fast = 0; fast < 2; fast++) {
        FREED(run_free) struct run run;
        support_run(&run, "examples/fine_experts.ini",
                    ARGS(fast ? "training.eta0=0.1" : "training.eta0=0.05", "reference.widths="));
        assert_int_equal(run_march(&run, &failure), CODE_OK);
        const struct note *note = NULL;
        for (int k = 0; k < run.notes.count; k++)
            if (!strcmp(run.notes.note[k].code, "not_self_averaging"))
                note = &run.notes.note[k];
        assert_true(!note == !fast);
        if (note) {
            assert_true(note->warning && note->t >= 2 && note->t <= 4);
            assert_non_null(strstr(note->text, "fewer than 10 sites carry a feature kernel"));
        }
    }
}
