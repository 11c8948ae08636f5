/* What a run asks of a device, counted by the emulation (tests/cuda_host): operations that are
 * launched, waits of the host, bytes that cross, and memory that is asked for. On a device an
 * operation takes some 4 microseconds to launch and a wait some 15, so that these counts, and not
 * sites, decide what a run of few sites takes. The bounds are what was counted when they were
 * written, and a tenth more; of waits none or, of the transformer, a fiftieth, so that one more in
 * each step fails. */
#include "tests/support/support.h"
#include "tests/support/wanted.h"

struct counts {
    long launches, waits, sent, fetched, allocations;
};
/* NULL: this program does not run on the emulation. */
struct counts *emulated_counted(void) __attribute__((weak));

static void count(const char *file, const char *const *more, int N, struct counts most) {
    FREED(record_free) struct record record;
    const char *overrides[16] = {"solver.backend=cuda", "solver.replicates=1", "solver.threads=1",
                                 "training.steps=10"};
    struct counts *now = emulated_counted(), before = *now;
    for (int n = 4; *more; n++)
        overrides[n] = *more++;
    support_one(file, overrides, N, &record);
    long launches = now->launches - before.launches, waits = now->waits - before.waits,
         sent = now->sent - before.sent, fetched = now->fetched - before.fetched,
         allocations = now->allocations - before.allocations;
    printf("%s, N = %d: %ld launches, %ld waits, %ld bytes sent, %ld fetched, %ld allocations\n",
           file, N, launches, waits, sent, fetched, allocations);
    assert_in_range(launches, 1, most.launches);
    assert_in_range(waits, 1, most.waits);
    assert_in_range(sent, 1, most.sent);
    assert_in_range(fetched, 1, most.fetched);
    assert_in_range(allocations, 1, most.allocations);
}

TEST(a_limit_asks_little_of_a_device) {
    if (!emulated_counted)
        skip();
    count("data/regime2.ini",
          ARGS("output.kernels=none", "output.responses=no", "solver.sites=512",
               "solver.expert_sites=512"),
          0, (struct counts){500, 30, 655000, 157000, 614});
    count("data/regime2.ini", ARGS("solver.sites=256", "solver.expert_sites=256"), 0,
          (struct counts){700, 70, 1080000, 355000, 1096});
    count("data/residual.ini",
          ARGS("solver.halves=no", "solver.sites=160", "solver.unit_sites=160", "data.inputs=4",
               "network.experts=8"),
          0, (struct counts){810, 80, 120000, 181000, 864});
    count("data/transformer.ini", ARGS("solver.halves=no", "solver.sites=160"), 0,
          (struct counts){3830, 322, 5750000, 16200000, 2875});
}

/* Nothing that a network computes is for its host to decide. */
TEST(a_network_asks_little_of_a_device) {
    if (!emulated_counted)
        skip();
    count("data/regime1.ini", ARGS("output.kernels=none"), 32,
          (struct counts){277, 21, 50000, 37500, 84});
    count("data/residual.ini", ARGS("data.inputs=4", "network.experts=8"), 32,
          (struct counts){554, 25, 40000, 93500, 265});
    count("data/muon.ini", ARGS(NULL), 32, (struct counts){550, 38, 13000, 24200, 199});
    count("data/transformer.ini", ARGS("data.test_inputs=0"), 32,
          (struct counts){594, 71, 430000, 260000, 214});
}

/* Whether a gradient is exactly 0 comes from a device a step late, and from the last step never. */
TEST(what_never_moves_on_a_device) {
    static const char *const steps[] = {"training.steps=4", "training.steps=5"};
    if (!emulated_counted)
        skip();
    for (int k = 0; k < 2; k++) {
        FREED(run_free) struct run run;
        bool told = false;
        support_run_text(
            &run, ARGS(steps[k]),
            "[network]\nmodel = regime1\nexperts = 4\nrho = 0.25\ngate = softmax\nbias = trained\n"
            "[data]\ninputs = 8\ndimension = 10\n[solver]\nsites = 64\n"
            "replicates = 2\nbackend = cuda\n");
        assert_int_equal(run_march(&run, &failure), CODE_OK);
        for (int n = 0; n < run.notes.count; n++)
            told |= !strncmp(run.notes.note[n].text, "Q, b never move:", 16);
        assert_int_equal(told, k);
    }
}

int main(void) {
    backend_start(1);
    return run_registered("counts");
}
