/* A finite map whose cotangents are 0 for most rows: such rows are left out of the products, and
 * results are those of plain sums over all. Rows that are some of all go to and from their places;
 * and networks whose experts have their own rows alone learn what others learn. */
#include "tests/support/support.h"

enum { P = 16, M = 24, N = 20 };

static struct population source, target;
static double x[P][M], y[P][N], W[N][M], c[P];
static struct array rows_x, rows_y, rows_out;

static void make(struct population *p, size_t sites) {
    *p = (struct population){
        .backend = &backend_cpu, .size = (double)sites, .sites = sites, .group = 1};
    ASK(population_init(p, err));
}

/* Rows with values for which live[mu] is set; no number is exact in the sums. */
static void make_rows(const bool *live) {
    for (int mu = 0; mu < P; mu++) {
        c[mu] = 0.1 * cos(mu);
        for (int j = 0; j < M; j++)
            x[mu][j] = sin(1 + 3.7 * mu + 1.3 * j);
        for (int i = 0; i < N; i++)
            y[mu][i] = live[mu] ? cos(2 + 2.9 * mu + 0.7 * i) : 0;
    }
    backend_cpu.put(array_all(&rows_x), &x[0][0]);
    backend_cpu.put(array_all(&rows_y), &y[0][0]);
}

static void is_matrix(const struct map *map, const char *what) {
    double now[N][M];
    ASK(map->kind->matrix(map, &now[0][0], err));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            CHECK_ABS(now[i][j], W[i][j], 1e-14, "%s: W[%d][%d]", what, i, j); /* P + 2 roundings */
}

/* Rows of `out` are so many times W^T y, and 0 where y is. */
static void is_backward(const struct map *map, int times, const char *what) {
    double out[P][M];
    backend_cpu.get(array_all(&rows_out), &out[0][0]);
    for (int mu = 0; mu < P; mu++)
        for (int j = 0; j < M; j++) {
            double sum = 0;
            for (int i = 0; i < N; i++)
                sum += y[mu][i] * W[i][j] / map->numbers.r;
            CHECK_ABS(out[mu][j], times * sum, times * 1e-13, "%s: row %d, site %d", what, mu, j);
            assert_true(y[mu][0] != 0 || out[mu][j] == 0);
        }
}

/* W^T y, and W after a step along these rows, by plain sums. */
static void judge(struct map *map, const bool *live, const char *what) {
    double scratch[P][N];
    make_rows(live);
    ASK(map_forward(map, array_all(&rows_x), array_all(&rows_y), err));
    backend_cpu.get(array_all(&rows_y), &scratch[0][0]);
    make_rows(live);                                                                /* y again */
    rows_fn(FN_LINEAR, array_all(&rows_x), array_all(&rows_out), (struct rows){0}); /* not 0 */
    ASK(map_backward(map, array_all(&rows_y), array_all(&rows_out), err));
    is_backward(map, 1, what);
    map->every_row = true;
    ASK(map_backward(map, array_all(&rows_y), array_all(&rows_out), err));
    ASK(map_add_backward(map, array_all(&rows_y), array_all(&rows_out), err));
    map->every_row = false;
    is_backward(map, 2, what);
    ASK(map_keep(map, 0, array_all(&rows_y), err));
    rows_zero(array_all(&rows_y)); /* what is kept outlives the rows */
    ASK(map_learn(map, 0, c, err));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            for (int mu = 0; mu < P; mu++)
                W[i][j] += c[mu] * y[mu][i] * x[mu][j] / M;
    is_matrix(map, what);
}

static void make_map(struct map *map) {
    make(&source, M);
    make(&target, N);
    ASK(array_init(&rows_x, &backend_cpu, M, 1, P, err));
    ASK(array_init(&rows_y, &backend_cpu, N, 1, P, err));
    ASK(array_init(&rows_out, &backend_cpu, M, 1, P, err));
    ASK(map_init(map, &map_finite,
                 (struct map_declaration){"W", &source, &target, 1, 1, false, false, 1, NULL},
                 (struct map_settings){.stream = {.seed = 3}}, err));
    ASK(map->kind->matrix(map, &W[0][0], err));
}

static void free_map(struct map *map) {
    map_free(map);
    array_free(&rows_x);
    array_free(&rows_y);
    array_free(&rows_out);
    population_free(&source);
    population_free(&target);
}

TEST(rows_that_are_zero_change_nothing) {
    FREED(free_map) struct map map;
    bool live[P] = {false};
    make_map(&map);
    live[3] = live[7] = live[8] = live[15] = true;
    judge(&map, live, "four of sixteen");
    live[0] = true, live[15] = false;
    judge(&map, live, "the first and not the last");
    for (int mu = 0; mu < P; mu++)
        live[mu] = mu != 5;
    judge(&map, live, "all but one");
    for (int mu = 0; mu < P; mu++)
        live[mu] = mu == 5;
    judge(&map, live, "one");
    live[5] = false;
    judge(&map, live, "none");
    for (int mu = 0; mu < P; mu++)
        live[mu] = true;
    judge(&map, live, "all");
}

/* Three rows of sixteen side by side, and a step along them: c is of all sixteen. */
TEST(rows_that_are_some_of_all_teach) {
    static const int which[] = {3, 7, 8};
    const struct map_some some = {which, 3};
    FREED(free_map) struct map map;
    bool all[P];
    make_map(&map);
    for (int mu = 0; mu < P; mu++)
        all[mu] = true;
    make_rows(all);
    rows_take(array_all(&rows_x), which, array_rows(&rows_x, 0, 3));
    rows_take(array_all(&rows_y), which, array_rows(&rows_y, 0, 3));
    map.some = &some;
    map.x = array_rows(&rows_x, 0, 3);
    ASK(map_keep(&map, 0, array_rows(&rows_y, 0, 3), err));
    ASK(map_learn(&map, 0, c, err));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            for (int k = 0; k < 3; k++)
                W[i][j] += c[which[k]] * y[which[k]][i] * x[which[k]][j] / M;
    is_matrix(&map, "some");
}

/* To their places among rows of 0, and added to others. */
TEST(rows_go_to_their_places) {
    static const int which[] = {0, 4, 5, 15}, last[] = {2, 3};
    FREED(free_map) struct map map;
    bool all[P] = {true};
    double out[P][M];
    make_map(&map);
    make_rows(all);
    rows_spread(array_all(&rows_x), which, 4);
    backend_cpu.get(array_all(&rows_x), &out[0][0]);
    for (int mu = 0, k = 0; mu < P; mu++) {
        bool mine = k < 4 && which[k] == mu;
        for (int j = 0; j < M; j++)
            assert_true(out[mu][j] == (mine ? x[k][j] : 0));
        k += mine;
    }
    rows_add_at(array_rows(&rows_x, 4, 2), last, array_all(&rows_x));
    rows_add_at(array_rows(&rows_x, 4, 1), last, array_all(&rows_x));
    backend_cpu.get(array_all(&rows_x), &out[0][0]);
    for (int j = 0; j < M; j++) {
        assert_true(out[2][j] == 2 * x[1][j] && out[3][j] == x[2][j]);
        assert_true(out[1][j] == 0 && out[4][j] == x[1][j]);
    }
}

/* Which nodes of a transformer have the rows of an expert alone, unless its gates' cotangents are a
 * series; that f is the one of a network that computes all rows; and with Adam, which divides by
 * small numbers, all matrices. */
TEST(networks_leave_out_experts) {
    const char *const of_inputs[] = {"output.inputs=all", "output.inputs=none"};
    for (int none = 0; none < 2; none++) {
        FREED(run_free) struct run run;
        FREED(two_nets_free) struct net nets[2];
        support_run_text(&run, ARGS(of_inputs[none]),
                         "[network]\nmodel = transformer\nexperts = 4\nshared_experts = 1\n"
                         "gated_experts = yes\ngate = softmax\nq0 = 1\nrho = 0.5\niota = 1\n"
                         "[data]\nsource = markov\ninputs = 4\ntokens = 5\nvocabulary = 4\n"
                         "[training]\nloss = cross_entropy\noptimizer = adam\neta0 = 0.01\n"
                         "steps = 2\nclip = 0.5\n[solver]\nreplicates = 0\n"
                         "[reference]\nwidths = 16\n[output]\nkernels = none\n");
        for (int k = 0; k < 2; k++) {
            run.config.output.tangent = k; /* takes gradients to pieces, and all rows */
            support_net(&nets[k], &run, 16, 0);
            support_evaluate(&nets[k], &run);
        }
        const struct node *in = support_weight(&nets[0], "W1_0_1"),
                          *out = support_weight(&nets[0], "W2_0_1");
        assert_true((in->expert.of != NULL) == none && in->expert.of == out->expert.of);
        assert_true(in->expert.apart == none && !out->expert.apart);
        assert_true(out->expert.added == none && !support_weight(&nets[0], "W2_0_0")->expert.added);
        assert_true(!in->matrix.map->every_row && !out->matrix.map->every_row);
        assert_true(support_weight(&nets[0], "W_O_0")->matrix.map->every_row);
        assert_true(selected_some(in) == none);
        for (int k = 0; k < nets[0].program->experts; k++)
            assert_true(nets[0].program->expert[k]->some.count < 4 * 5);
        assert_null(support_weight(&nets[0], "W1_0_4")->expert.of); /* the shared one */
        const struct node *shared = support_weight(&nets[0], "W1_0_4");
        assert_true(node_part(nets[0].program, shared, 0)->onto >= 0); /* it adds to a cotangent */
        assert_null(support_weight(&nets[0], "W_O_0")->expert.of);
        assert_int_equal(nets[1].program->experts, 0);
        for (int k = 0; k < 2; k++)
            for (int t = 0; t < 3; t++)
                ASK(integrator_of(&run.config.training)
                        ->advance(&nets[k], &run.config.training, run.data.y, err));
        for (int k = 0; k < 4 * 5 * run.data.C; k++)
            CHECK_ABS(nets[0].output.f[k], nets[1].output.f[k], 1e-11, "f %d", k);
        for (int i = 0; i < nets[0].maps.count; i++) {
            FREED(base_free)
            double *a = support_matrix(nets[0].maps.item[i]),
                   *b = support_matrix(nets[1].maps.item[i]);
            for (int k = 0; k < 16 * 16; k++)
                CHECK_ABS(a[k], b[k], 1e-11, "%s", nets[0].maps.item[i]->declared.name);
        }
    }
}

/* Outputs of 16 inputs after six steps of a network in Lua; all: its gradients are taken to pieces,
 * for which it has all rows of everything. */
static void train_script(const char *script, const char *key, bool all, double f[P]) {
    RUN_AND_NET;
    TEXT(text, 1024, "network.program_text=%s", script);
    support_run_text(&run, ARGS(text, key),
                     "[network]\nprogram = t.lua\n[data]\ninputs = 16\n[training]\n"
                     "eta0 = 0.3\n[solver]\nreplicates = 0\n[reference]\nwidths = 16\n"
                     "[output]\nkernels = none\ninputs = none\n");
    run.config.output.tangent = all;
    support_begin(&net, &run, 16, 0);
    assert_int_equal(net.program->experts, all || (key && strstr(key, "late=1")) ? 0 : 4);
    for (int t = 0; t < 6; t++)
        ASK(integrator_of(&run.config.training)
                ->advance(&net, &run.config.training, run.data.y, err));
    memcpy(f, net.output.f, P * sizeof *f);
}

static void same_outputs(double f[2][P]) {
    for (int mu = 0; mu < P; mu++)
        CHECK_ABS(f[1][mu], f[0][mu], 1e-11, "f of input %d", mu);
    assert_true(fabs(f[0][0] - f[0][1]) > 1e-2);
}

/* Experts that add, and multiply by, rows that all inputs have: outputs are those of a network that
 * has all rows. */
TEST(experts_beside_rows_of_all) {
    static const char script[] =
        "local a = population('a') local h = sigma(read_in(a, 'W1')) "
        "local p = softmax(bias(look(h, 4, 'Q'), normals(4), 'b'), {top = 2}) local out "
        "for i = 1, 4 do local m = map(h, a, 'V' .. i) "
        "m = p[i] * (sigma(m + h) * h + map(m * h + m, a, 'U' .. i)) "
        "out = out and out + m or m end read_out(out, 'w')";
    double f[2][P];
    for (int all = 0; all < 2; all++)
        train_script(script, NULL, all, f[all]);
    same_outputs(f);
}

/* A script that writes its experts in front of the router: the selection is not known when they are
 * evaluated, so they have all rows, and outputs are those of the usual order. */
TEST(experts_in_front_of_their_router) {
    static const char script[] =
        "local h = sigma(read_in(population('bottom'), 'W1')) "
        "local top, m = population('top'), {} "
        "local function experts() for i = 1, 4 do "
        "m[i] = map(sigma(map(h, top, 'W2_' .. i)), top, 'W3_' .. i) end end "
        "if key('late') == 1 then experts() end "
        "local psi = bias(look(h, 4, {name = 'Q', a0 = 0}), normals(4), 'b') "
        "local p = softmax(psi, {top = 2, beta = 1}) "
        "if key('late') == 0 then experts() end "
        "local out = p[1] * m[1] for i = 2, 4 do out = out + p[i] * m[i] end read_out(out, 'w')";
    double f[2][P];
    for (int late = 0; late < 2; late++)
        train_script(script, late ? "program.late=1" : "program.late=0", false, f[late]);
    same_outputs(f);
}

/* Means over heads of logits and of weights, a sum and a multiple of each, and the entropy of gates
 * are not found where they are no series. */
TEST(means_that_nobody_reads) {
    static const char *const of_inputs[] = {"output.inputs=all", "output.inputs=none"};
    for (int none = 0; none < 2; none++) {
        RUN_AND_NET;
        int idle = 0;
        support_run(&run, "data/transformer.ini",
                    ARGS("network.heads=2", "output.kernels=none", of_inputs[none]));
        support_net(&net, &run, 16, 0);
        for (int i = 0; i < net.program->nodes; i++)
            idle += net.program->node[i].plan.idle;
        /* a sum, a factor and a stop, of logits and of weights; the entropy of gates */
        assert_int_equal(idle, none ? 7 : 0);
    }
}
