/* Trained vectors and numbers: against the same network written with a matrix that reads ones;
 * closed forms of limits; decay; what is refused. test_models goes on from their states, and
 * test_networks has their limits beside networks. */
#include "tests/support/script.h"

#include "integrators/integrator.h"

#define READ "key('depth')\nlocal a = population('a')\n"

/* The vector W 1 of a matrix that starts at 0 moves as a trained vector does: by rate/m times m
 * entries with gradient descent, and each entry alike with Adam. Losses of six steps of a network
 * agree to round-off, which 20 sums of 16 numbers in other orders make. */
TEST(vectors_beside_matrices_that_read_ones) {
    static const char *const text = READ
        "local b = population('b', {size = 2})\n"
        "local h = read_in(a, 'W1')\n"
        "local function vec(x, p, W) %s end\n"
        "local y = norm(h)\n"
        "y = y + vec(y, a, {name = 'g', zero = true, rate = 2, adam_rate = 0.5}) * y\n"
        "h = tanh(map(y, b, 'W2') + vec(y, b, {name = 'b2', zero = true, s_f = 2, rate = 4}))\n"
        "read_out(h, 'w')\n",
                             *const made[] = {"return map(exp(x, 0), p, W)", "return vector(p, W)"},
                             *const ways[][3] = {{"training.optimizer=gd"},
                                                 {"training.optimizer=momentum"},
                                                 {"training.optimizer=adam", "training.eta0=0.05"},
                                                 {"training.optimizer=lion", "training.eta0=0.05"}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        FREED(two_records_free) struct record record[2];
        for (int i = 0; i < 2; i++) {
            char whole[1024];
            FREED(run_free) struct run run;
            snprintf(whole, sizeof whole, text, made[i]);
            support_script_run(&run, whole,
                               ARGS(ways[k][0], ways[k][1] ? ways[k][1] : "training.eta0=0.3",
                                    "training.steps=6", "data.inputs=5"));
            ASK(run_ensemble(&run, 16, 1, &record[i], err));
        }
        double first = support_value(&record[0], "loss", 0, 0, 0);
        assert_true(fabs(support_value(&record[0], "loss", 0, 5, 0) - first) > 0.05);
        for (int t = 0; t < 6; t++)
            CHECK_ABS(support_value(&record[1], "loss", 0, t, 0),
                      support_value(&record[0], "loss", 0, t, 0), 1e-13, "%s, t = %d", ways[k][0],
                      t);
    }
}

/* f = <w b>/gamma0 with nothing but a vector b and the read-out w. With S = c sum Delta a step is
 * b += rate S w, w += S b, so that <w w>, <b b> and <w b> are all that there is. */
TEST(closed_form) {
    enum { STEPS = 8, INPUTS = 3 };
    const double gamma0 = 1.25, eta0 = 0.5, rate = 1.5;
    for (int normal = 0; normal < 2; normal++) {
        RUN_AND_NET;
        TEXT(text, 256, READ "read_out(vector(a, {name = 'b', rate = 1.5%s}), 'w')\n",
             normal ? "" : ", start = 0");
        support_script_run(
            &run, text,
            ARGS("training.eta0=0.5", "training.gamma0=1.25", "data.inputs=3", "solver.sites=64"));
        support_net(&net, &run, 0, 0);
        double ww = 1, bb = normal, wb = 0, moved = 0;
        for (int t = 0; t < STEPS; t++) {
            support_evaluate(&net, &run);
            double S = 0;
            for (int mu = 0; mu < INPUTS; mu++) {
                CHECK_ABS(net.output.f[mu], wb / gamma0, 1e-12, "t = %d", t);
                S += eta0 * gamma0 / INPUTS * (run.data.y[mu] - wb / gamma0);
            }
            moved = fmax(moved, fabs(wb));
            double next = wb + S * (bb + rate * ww) + rate * S * S * wb,
                   squares = bb + 2 * rate * S * wb + rate * rate * S * S * ww;
            ww += 2 * S * wb + S * S * bb;
            bb = squares;
            wb = next;
            support_learn(&net, &run);
        }
        assert_true(moved > 0.1);
    }
}

/* The number s of f = s <w x>/gamma0, beside a bias of numbers that are 0: the same bits. Several
 * of them: a list. */
TEST(numbers_beside_biases) {
    static const char *const more[] = {NULL};
#define X READ "local x = tanh(read_in(a, 'W1'))\nlocal zero = 0 * mean(x)\n"
    static const char *const one[] = {
        X "local s = scalar(x, {name = 's', start = 0.5, rate = 2})\nread_out(s * x, 'w')\n",
        X "local s = bias(zero, {0.5}, {name = 's', rate = 2})\nread_out(s * x, 'w')\n"};
    static const char *const two[] = {
        X "local s = softmax(scalar({name = 's', start = {0.5, -1}}))\n"
          "read_out(s[1] * x + s[2] * x * x, 'w')\n",
        X
        "local s = softmax(bias(look(x, 2, {name = 'Q', a0 = 0, fixed = true}), {0.5, -1}, 's'))\n"
        "read_out(s[1] * x + s[2] * x * x, 'w')\n"};
    support_scripts_agree(one, more);
    support_scripts_agree(two, more);
}

static double *column(const struct net *net, const char *name, int *count) {
    for (int i = 0; i < net->program->nodes; i++) {
        const struct node *v = &net->program->node[i];
        if (!v->matrix.weight.name || strcmp(v->matrix.weight.name, name))
            continue;
        if (v->matrix.thin) {
            *count = (int)v->matrix.thin->W.sites;
            return support_get(array_all(&v->matrix.thin->W));
        }
        double *copy = malloc((size_t)v->K * sizeof *copy);
        assert_non_null(copy);
        *count = v->K;
        return memcpy(copy, v->matrix.start, (size_t)v->K * sizeof *copy);
    }
    fail_msg("no %s", name);
    return NULL;
}

/* Decay of a half: matrices unless they say no, vectors and numbers if they say yes or which part;
 * numbers that never learn stay. */
TEST(decay) {
    static const STRUCT(const char *name; double left)
        cases[] = {{"W1", 0.5}, {"v0", 1},   {"v1", 0.5}, {"v2", 1}, {"v3", 0.875},
                   {"s0", 1},   {"s1", 0.5}, {"s2", 1},   {"w", 1},  {"q", 0.9375}};
    FREED(run_free) struct run run;
    struct net net;
    support_script_run(
        &run,
        READ "local x = read_in(a, 'W1') + vector(a, 'v0') + vector(a, {name = 'v1', decays = "
             "true}) + vector(a, {name = 'v2', start = 2, decays = false}) + vector(a, {name = "
             "'v3', start = 2, fixed = true, decays = 0.25})\n"
             "x = scalar('s0') * scalar({name = 's1', start = 3, decays = true}) * x\n"
             "x = scalar({name = 's2', fixed = true, decays = true}) * x\n"
             "x = look(x, 1, {name = 'q', decays = 0.25}) * x\n"
             "read_out(x, {name = 'w', decays = false})\n",
        (const char *const[]){"training.weight_decay=0.5", "decays.q=0.5", NULL});
    for (int N = 0; N <= 16; N += 16) {
        support_net(&net, &run, N, 0);
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            int count;
            FREED(base_free) double *before = column(&net, cases[k].name, &count);
            net_decay(&net, 0.5);
            FREED(base_free) double *after = column(&net, cases[k].name, &count);
            for (int i = 0; i < count; i++)
                assert_true(before[i] != 0 && after[i] == cases[k].left * before[i]);
        }
        net_free(&net);
    }
}

/* At the start: one number, or normals of the standard deviation a0 s_f; of the limit without what
 * vanishes with the width. */
TEST(starts) {
    FREED(run_free) struct run run;
    struct net net;
    int count;
    support_script_run(
        &run,
        READ "local x = read_in(a, 'W1') + vector(a, {name = 'v', start = 3, a0 = 0.5, s_f = 2})"
             " + vector(a, {name = 'n', a0 = 0.5}) + vector(a, {name = 'p', a0 = N ^ -0.5})\n"
             "read_out(x, 'w')\n",
        (const char *const[]){"init.v=2", NULL});
    for (int N = 0; N <= 4096; N += 4096) {
        support_net(&net, &run, N, 0);
        FREED(base_free)
        double *v = column(&net, "v", &count), *n = column(&net, "n", &count),
               *p = column(&net, "p", &count);
        double square = 0, small = 0;
        for (int i = 0; i < count; i++) {
            assert_true(v[i] == 6);
            square += n[i] * n[i] / count;
            small += p[i] * p[i] / count;
        }
        /* five standard errors of a mean of squares, sqrt(2/n) of it; matched normals have none */
        CHECK_ABS(square, 0.25, N ? 0.25 * 5 * sqrt(2.0 / N) : 1e-14, "N = %d", N);
        CHECK_ABS(small, N ? 1.0 / N : 0, N ? 5 * sqrt(2.0 / N) / N : 0, "N = %d", N);
        net_free(&net);
    }
}

/* The classical fixed point against the march: losses within 4 standard errors of both, which are
 * of eight replicates each. */
TEST(fixed_point) {
    static const char *const text =
        READ "local b = population('b')\nlocal x = tanh(read_in(a, 'W1') + vector(a, 'v'))\n"
             "local h = vector(b, {name = 'g', start = 1}) * map(x, b, 'W2')\n"
             "read_out(tanh(h + vector(b, {name = 'b2', start = 0})), 'w')\n";
    FREED(two_records_free) struct record record[2];
    for (int k = 0; k < 2; k++) {
        FREED(run_free) struct run run;
        const char *const more[] =
            LIST("solver.sites=512", "solver.replicates=8", "data.inputs=3", "training.steps=6",
                 "training.eta0=0.5", "training.gamma0=1.5", k ? "solver.method=fixed_point" : NULL,
                 "solver.fp_tolerance=1e-3", NULL);
        support_script_run(&run, text, more);
        ASK(run_ensemble(&run, 0, 8, &record[k], err));
    }
    for (size_t t = 1; t < 6; t++) {
        double mean[2], se[2];
        for (int k = 0; k < 2; k++)
            support_entry(&record[k], "loss", t, &mean[k], &se[k]);
        CHECK_ABS(mean[1], mean[0], 4 * hypot(se[0], se[1]), "t = %zu", t);
    }
}
