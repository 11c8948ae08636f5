/* Replicates in two halves of their sites, which removes the bias of order 1/sites. */
#include "tests/support/support.h"
#include "kernels/array/functions.h"
#include "solver/measure/instrument.h"

static void march(struct run *run, const char *file, const char *const *overrides) {
    support_run(run, file, overrides);
    ASK(run_march(run, err));
}

/* Half 1 draws what a limit of as many sites draws; half 2 what the whole has behind that. */
TEST(halves_have_the_draws_of_the_whole) {
    enum { S = 600 };
    struct rng_stream stream = {.seed = 3, .purpose = PURPOSE_POOL, .owner = 2};
    double whole[S], half[S / 2];
    functions_normals(stream, 5, 0, S, whole);
    stream.first_pair = S / 4;
    functions_normals(stream, 5, 0, S / 2, half);
    assert_memory_equal(half, whole + S / 2, sizeof half);

    FREED(run_free) struct run run, small;
    march(&run, "data/regime2.ini",
          ARGS("reference.widths=", "training.steps=4", "solver.sites=64", "solver.expert_sites=64",
               "solver.replicates=3", "solver.halves=yes"));
    march(&small, "data/regime2.ini",
          ARGS("reference.widths=", "training.steps=4", "solver.sites=32", "solver.expert_sites=32",
               "solver.replicates=3"));
    const struct series *f = record_find(&run.results.half[0], "f");
    size_t bytes = 3 * f->size * sizeof *f->values;
    assert_memory_equal(f->values, record_find(&small.results.limit, "f")->values, bytes);
    assert_memory_not_equal(f->values, record_find(&run.results.half[1], "f")->values, bytes);
}

/* Where gates condense, the participation of half the experts is twice that of all, and more: taken
 * off as it is, the bias left less than nothing. */
TEST(participation_stays_positive) {
    FREED(run_free) struct run run;
    march(&run, "data/regime2_softmax.ini",
          ARGS("training.eta0=0.02", "training.gamma0=2", "network.beta=4", "solver.halves=yes",
               "solver.sites=128", "solver.expert_sites=128", "solver.replicates=3",
               "reference.widths=", "training.steps=40"));
    const struct series *gates = record_find(&run.results.limit, "gate_participation");
    const double *values = record_values(&run.results.limit, gates),
                 *half = record_find(&run.results.half[0], "gate_participation")->values;
    bool condensed = false;
    for (size_t k = 0; k < 3 * gates->size; k++) {
        condensed |= half[k] > 2 * gates->values[k];
        assert_true(values[k] > 0);
    }
    assert_true(condensed);
}

/* A number of sites in a program is halved like a key of [solver], and those of its units; so with
 * a number of its own or with the key a program gives the same. */
TEST(numbers_of_a_program_are_halved) {
    static const char *const sites[][2] = {{"64", "32"}, {"'sites'", "'unit_sites'"}};
    FREED(two_runs_free) struct run run[2];
    for (int k = 0; k < 2; k++) {
        char text[800];
        snprintf(
            text, sizeof text,
            "network.program_text=key('depth') local a = population('a', {sites = %s})\\n"
            "local one = population('one', {sites = %s})\\n"
            "local u = population('u', {of = a, units = one, group = %s})\\n"
            "local h = read_in(a, 'W1')\\n"
            "h = h + map(tanh(map(h, u, 'V')), a, {name = 'U', s_f = math.sqrt(a.size/u.size)})\\n"
            "read_out(tanh(h), 'w')",
            sites[k][0], sites[k][1], sites[k][1]);
        march(&run[k], "examples/dense.ini",
              ARGS("network.program=t.lua", text, "reference.widths=", "training.steps=4",
                   "solver.sites=64", "solver.unit_sites=32", "solver.replicates=2",
                   "solver.halves=yes"));
    }
    for (int half = 0; half < 3; half++) {
        const struct record *number = half < 2 ? &run[0].results.half[half] : &run[0].results.limit;
        const struct record *key = half < 2 ? &run[1].results.half[half] : &run[1].results.limit;
        const struct series *f = record_find(number, "f");
        assert_memory_equal(f->values, record_find(key, "f")->values,
                            2 * f->size * sizeof *f->values);
    }
}

/* A selection that takes another share of the sites is another network: where they are halved, and
 * where sites = auto may double them. What takes the same share runs, and so does the maximum by
 * which a softmax is shifted. */
TEST(selections_take_the_same_share) {
    FREED(run_free) struct run run;
    support_run(
        &run, "examples/dense.ini",
        (const char *const[]){
            "network.program=t.lua",
            "network.program_text=key('depth') local e = population('e', {sites = 16, size = 1})\\n"
            "local r = read_in(e, 'R')\\n"
            "local largest = stop(average(r, top(r, 1)) * e.sites)\\n"
            "read_out(top(r, e.sites/4) * top(r, {share = .5}) * tanh(r - largest), 'w')",
            "reference.widths=", "solver.halves=yes", NULL});
    ASK(run_open(&run, NULL, false, err));
}

/* Twice the whole less the mean of the halves, of every series that does not jump; the loss is that
 * of such an f. Sums of a dozen terms: round-off below 12 eps = 3e-15 of them, so 1e-13; of the
 * loss, of order a tenth, 1e-14. */
TEST(values_are_those_without_the_bias) {
    FREED(run_free) struct run run;
    double mean[64], se[64], f[64];
    march(&run, "data/dense.ini",
          ARGS("reference.widths=", "training.steps=6", "solver.sites=64", "solver.replicates=3",
               "solver.halves=yes"));
    const struct record *all = &run.results.limit, *half = run.results.half;
    for (int k = 0; k < all->count; k++) {
        const struct series *series = &all->series[k];
        if (series->runs_alone)
            continue;
        record_statistics(all, series, mean, se);
        for (size_t i = 0; i < series->size && !series->of_mean; i++) {
            double want = 0;
            for (int r = 0; r < 3; r++) {
                size_t at = (size_t)r * series->size + i;
                want += series->computation
                            ? series->values[at] / 3
                            : (2 * series->values[at] - half[0].series[k].values[at] / 2 -
                               half[1].series[k].values[at] / 2) /
                                  3;
            }
            CHECK_ABS(mean[i], want, 1e-13 * fmax(1, fabs(want)), "%s", series->name);
        }
        if (!strcmp(series->name, "f"))
            memcpy(f, mean, series->size * sizeof *f);
    }
    /* mse: the loss of the mean f, less its variance */
    record_statistics(all, record_find(all, "f"), f, se);
    double loss = 0, variance = 0, losses[6], loss_se[6];
    for (int mu = 0; mu < 4; mu++) {
        loss += pow(run.data.y[mu] - f[5 * 4 + mu], 2) / 8;
        variance += pow(se[5 * 4 + mu], 2) / 8;
    }
    record_statistics(all, record_find(all, "loss"), losses, loss_se);
    CHECK_ABS(losses[5], loss - variance, 1e-14, "loss");
}

/* Normals that found no room by the last step: mean over runs, and its error. */
static double fallback(const struct record *record, double *se) {
    double mean[6], all[6];
    record_statistics(record, record_find(record, "fallback"), mean, all);
    *se = all[5];
    return mean[5];
}

/* Where halves have no room to match normals the whole does not match them either, although by
 * itself it has: else (3.2) subtracts the bias of another law. As many but for ranks, which differ
 * by chance. */
TEST(halves_and_whole_match_the_same_normals) {
    const char *overrides[] = {"reference.widths=",   "training.steps=6",  "solver.sites=448",
                               "solver.replicates=8", "solver.halves=yes", NULL};
    FREED(run_free) struct run run, alone;
    double se[2];
    march(&run, "data/resnet.ini", overrides);
    overrides[4] = NULL;
    march(&alone, "data/resnet.ini", overrides);
    assert_true(fallback(&alone.results.limit, &se[0]) == 0);
    double whole = fallback(&run.results.limit, &se[0]);
    for (int k = 0; k < 2; k++) {
        double half = fallback(&run.results.half[k], &se[1]);
        assert_true(half > 20);
        CHECK_ABS(whole, half, 4 * hypot(se[0], se[1]), "half %d", k + 1);
    }
}

static double at(const struct run *run, double *se) {
    double mean;
    support_entry(&run->results.limit, "Phi3_diag", 6 * 4, &mean, se);
    return mean;
}

/* Phi3(6) of data/dense.ini at 64 sites, 720 replicates, against 30 in halves at 2048: the bias is
 * above five errors without halves, and below three with them; its size is what the halves said;
 * and the errors are hardly larger. */
TEST(bias_is_removed) {
    FREED(run_free) struct run small, large;
    double se[3];
    march(&small, "data/dense.ini",
          ARGS("reference.widths=", "training.steps=7", "solver.sites=64", "solver.replicates=720",
               "solver.halves=yes"));
    march(&large, "data/dense.ini",
          ARGS("reference.widths=", "training.steps=7", "solver.sites=2048", "solver.replicates=30",
               "solver.halves=yes"));
    double truth = at(&large, &se[2]), halves = at(&small, &se[1]) - truth;
    small.results.limit.half = NULL;
    double plain = at(&small, &se[0]) - truth;
    printf("bias without halves %.5f(%.5f), with them %.5f(%.5f)\n", plain, hypot(se[0], se[2]),
           halves, hypot(se[1], se[2]));
    assert_true(plain > 5 * hypot(se[0], se[2]));
    CHECK_ABS(halves, 0, 3 * hypot(se[1], se[2]), "bias in halves");
    assert_true(se[1] < 1.3 * se[0]);
}

/* E tanh(sqrt(K) z)^2 by the rule of rectangles, exact to round-off for such functions. */
static double tanh_squared(double K) {
    double sum = 0, step = 0.05;
    for (int i = -200; i <= 200; i++)
        sum += pow(tanh(sqrt(K) * i * step), 2) * exp(-pow(i * step, 2) / 2);
    return sum * step / sqrt(2 * acos(-1));
}

/* Phi1(0) of data/dense.ini with Sobol points, against the integral: the bias of 512 sites is below
 * a quarter of the error of 8 replicates, which 800 know to a tenth of it, so .25 + 3/10. Halves of
 * one set of points instead of a set each have -.97 for the first input. */
TEST(halves_of_points_have_no_bias) {
    enum { RUNS = 800, D = 10 };
    FREED(run_free) struct run run;
    march(&run, "data/dense.ini",
          ARGS("reference.widths=", "training.steps=1", "solver.sites=512", "solver.replicates=800",
               "solver.halves=yes", "solver.draws=sobol"));
    for (size_t mu = 0; mu < 4; mu++) {
        double mean, se, K = 0;
        for (size_t d = 0; d < D; d++)
            K += pow(run.data.X[mu * D + d], 2) / D;
        support_entry(&run.results.limit, "Phi1_diag", mu, &mean, &se);
        CHECK_ABS((mean - tanh_squared(K)) / (se * sqrt(RUNS / 8)), 0, 0.25 + 3 / sqrt(RUNS / 8),
                  "input %zu, in errors", mu);
    }
}
