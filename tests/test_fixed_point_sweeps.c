/* Sweeps of fixed-point iteration: where undamped ones end exactly, how far those with fresh draws
 * come, and a last pass that fails. */
#include "tests/support/support.h"
#include "kernels/maps/field.h"
#include "solver/run/parts.h"

struct ends {
    int end; /* first sweep that changed nothing but round-off; -1: none yet */
    double change;
};

static int on_sweep(void *context, const struct fixed_point_state *state, struct err *err) {
    struct ends *ends = context;
    (void)err;
    ends->change = iteration_worst(state)->change;
    if (ends->end < 0 && ends->change < 1e-10)
        ends->end = state->sweep;
    return CODE_OK;
}

static int on_measure(void *context, struct net *net, int t, struct err *err) {
    (void)context, (void)net, (void)t, (void)err;
    return CODE_OK;
}

/* The iteration of a configured run. */
static int iterate(const struct run *run, const struct fixed_point_calls *calls, struct err *err) {
    struct net_setup setup = config_setup(&run->config, 0, 0, run->data.P, &run->inputs);
    return fixed_point_run(&setup, &run->config.training, run->data.y,
                           &run->config.solver.fixed_point, calls, err);
}

/* Undamped sweeps with common random numbers: after 2 x (wide maps in series) x T sweeps the next
 * one finds the same kernels, up to round-off (1e-16 over the probes' shift 1e-3, and the floor of
 * the factors: 1e-16/1e-8). Damped ones are far from it. */
TEST(sweeps_end_exactly) {
    static const STRUCT(const char *file, *more; int series)
        cases[] = {{"data/dense.ini", "network.depth=2", 1},
                   {"data/dense.ini", "network.depth=4", 3},
                   {"data/resnet.ini", "network.depth=2", 2},
                   {"data/regime2.ini", "solver.expert_sites=256", 2},
                   {"data/regime3.ini", "solver.expert_sites=16", 2}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int damped = 0; damped < 2; damped++) {
            const char *overrides[] = LIST(
                "solver.method=fixed_point", cases[i].more, "solver.sites=256", "training.steps=4",
                "reference.widths=", damped ? "solver.damping=0.7" : "solver.damping=1",
                strstr(cases[i].file, "regime3") ? "solver.unit_sites=128" : NULL, NULL);
            FREED(run_free) struct run run;
            struct ends ends = {.end = -1};
            const struct fixed_point_calls calls = {&ends, on_sweep, on_measure, NULL};
            support_run(&run, cases[i].file, overrides);
            run.config.solver.fixed_point.max_sweeps = 2 * cases[i].series * 4 + 1;
            run.config.solver.fixed_point.tolerance = 1e-13;
            int code = iterate(&run, &calls, &failure);
            assert_true(!code || (code == CODE_NUMERICAL && strstr(failure.text, "max_sweeps")));
            if (damped)
                assert_true(ends.change > 1e-8);
            else
                assert_in_range(ends.end, 4, 2 * cases[i].series * 4);
        }
}

enum { MOST_STEPS = 4096 };

/* What was learned after each measured time of each pass. */
static struct steps_taken {
    int count, pass[MOST_STEPS], evaluations[MOST_STEPS];
    double step[MOST_STEPS], learned[MOST_STEPS];
} taken;

static int note_step(struct net *net, const struct training *training, const double *y,
                     struct err *err) {
    const struct field *field = field_of(net->maps.item[0]);
    TRY(integrator_bs32.advance(net, training, y, err));
    assert_true(taken.count < MOST_STEPS);
    taken.pass[taken.count] = field->pass;
    taken.evaluations[taken.count] = field->terms.evaluations;
    taken.step[taken.count] = net->place.step;
    for (int a = 0; a < field->terms.numbers; a++)
        taken.learned[taken.count] += (a + 1) * field->terms.c[a];
    taken.count++;
    return CODE_OK;
}

/* The passes with probes are given the averages of the first pass of their sweep, so that bs32
 * chooses the same steps to the last bit, also where it tries some twice and where the window had
 * to become longer: then that pass has no probes behind it and is made again. */
TEST(passes_of_a_sweep_take_the_same_steps) {
    static const char *const cases[][3] = {{"training.eta0=1"},
                                           {"training.eta0=2", "training.rtol=2e-3"}};
    for (size_t i = 0; i < 2; i++) {
        const char *overrides[9] = {"solver.method=fixed_point", "solver.sites=256",
                                    "solver.fp_tolerance=1e-2",  "training.integrator=bs32",
                                    "training.steps=4",          "reference.widths="};
        struct integrator integrator = integrator_bs32;
        struct ends ends = {.end = -1};
        const struct fixed_point_calls calls = {&ends, on_sweep, on_measure, NULL};
        FREED(run_free) struct run run;
        int compared = 0, again = 0;
        for (int k = 0; cases[i][k]; k++)
            overrides[6 + k] = cases[i][k];
        support_run(&run, "data/dense.ini", overrides);
        memset(&taken, 0, sizeof taken);
        integrator.advance = note_step;
        run.config.training.integrator = &integrator;
        ASK(iterate(&run, &calls, err));
        for (int first = 0, end; first < taken.count; first = end) {
            for (end = first; end < taken.count && taken.pass[end] == taken.pass[first];)
                end++;
            if (taken.pass[first] != FIELD_MEASURE || end == taken.count)
                continue;  /* the last pass of the run is that which is measured */
            int steps = 0; /* of the pass before the probes, the last of some in a row */
            while (steps < end - first && taken.pass[end + steps] == FIELD_PROBE_V)
                steps++;
            again += end - first - steps;
            assert_true(steps > 0 && end + 2 * steps <= taken.count);
            for (int k = 0; k < steps; k++)
                for (int pass = 1; pass < 3; pass++) {
                    int a = end - steps + k, b = a + pass * steps;
                    assert_int_equal(taken.pass[b], pass == 1 ? FIELD_PROBE_V : FIELD_PROBE_U);
                    assert_int_equal(taken.evaluations[b], taken.evaluations[a]);
                    assert_true(taken.step[b] == taken.step[a]);
                    assert_true(taken.learned[b] == taken.learned[a]);
                    compared++;
                }
        }
        print_message("%s: %d steps compared, %d in windows that were too short\n", cases[i][0],
                      compared, again);
        assert_true(compared > 30 && again > 0);
    }
}

static struct {
    bool now;
    int code; /* that sync gives */
} broken;

static void broken_dots(struct rows a, struct rows b, double *C) {
    backend_cpu.dots(a, b, C);
    for (int k = 0; k < a.count * b.count && broken.now; k++)
        C[k] = NAN;
}

static void broken_averages(struct rows a, struct rows b, double *out) {
    backend_cpu.averages(a, b, out);
    for (int k = 0; k < a.count && broken.now; k++)
        out[k] = NAN;
}

static int broken_sync(struct err *err) {
    return broken.now && broken.code ? err_set(err, broken.code, "broken") : CODE_OK;
}

static int break_down(void *context, struct net *net, int t, struct err *err) {
    (void)context, (void)net, (void)t, (void)err;
    broken.now = true;
    return CODE_OK;
}

/* An operation that has no memory, or numbers that are none, behind the last sweep. */
TEST(a_last_pass_that_fails) {
    const struct fixed_point_calls calls = {&(struct ends){.end = -1}, on_sweep, break_down, NULL};
    struct backend backend = backend_cpu;
    FREED(run_free) struct run run;
    support_run(&run, "data/dense.ini",
                ARGS("solver.method=fixed_point", "solver.fp_tolerance=1", "solver.sites=64"));
    struct net_setup setup = config_setup(&run.config, 0, 0, run.data.P, &run.inputs);
    backend.dots = broken_dots;
    backend.averages = broken_averages;
    backend.sync = broken_sync;
    setup.backend = &backend;
    for (int k = 0; k < 2; k++) {
        struct err told;
        broken.now = false;
        broken.code = k ? CODE_SYSTEM : CODE_OK;
        assert_int_equal(fixed_point_run(&setup, &run.config.training, run.data.y,
                                         &run.config.solver.fixed_point, &calls, &told),
                         k ? CODE_SYSTEM : CODE_NUMERICAL);
        assert_non_null(strstr(told.text, k ? "broken" : "step 1: the loss or a kernel exceeds"));
    }
}

/* New normals in every sweep: the kernels settle at the level of the sampling noise. */
TEST(fresh_draws) {
    FREED(run_free) struct run run;
    struct ends ends = {.end = -1};
    const struct fixed_point_calls calls = {&ends, on_sweep, on_measure, NULL};
    support_run(&run, "data/dense.ini",
                ARGS("solver.method=fixed_point", "solver.sweep_draws=fresh",
                     "reference.widths=", "solver.sites=1024", "training.steps=5",
                     "solver.fp_tolerance=1e-6", "solver.max_sweeps=20"));
    assert_int_equal(iterate(&run, &calls, &failure), CODE_NUMERICAL);
    assert_true(ends.change > 1e-4 && ends.change < 1);
}
