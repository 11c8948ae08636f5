/* Mixtures of places: windows and pooling by their definition, in networks and in limits; finite
 * differences through strides and pooling; axes of results. */
#include "tests/support/support.h"

enum { P = 2, HEIGHT = 5, WIDTH = 7 };

/* The k-th node with this operation. */
static const struct node *find(const struct net *net, const char *operation, int k) {
    for (int i = 0; i < net->program->nodes; i++)
        if (!strcmp(net->program->node[i].op->name, operation) && k-- == 0)
            return &net->program->node[i];
    fail_msg("no %s", operation);
    return NULL;
}

/* The mean over size[0] x size[1] places of an image x that begin at (y, z); outside it is 0. */
static double mean_of(const double *x, int y, int z, const int size[2], size_t sites) {
    double sum = 0;
    for (int i = y; i < y + size[0]; i++)
        for (int j = z; j < z + size[1]; j++)
            if (i >= 0 && i < HEIGHT && j >= 0 && j < WIDTH)
                sum += x[(size_t)(i * WIDTH + j) * sites];
    return sum / (size[0] * size[1]);
}

struct windows {
    int to[2], size[2], stride[2], offset[2];
};

/* v: windows of an image, from (offset) on; of pooling the means over them. */
static void check(const struct net *net, const struct node *v, struct windows w) {
    size_t sites = v->on->sites;
    int places = w.to[0] * w.to[1];
    FREED(base_free)
    double *x = support_get(net->program->node[v->argument[0]].value), *out = support_get(v->value);
    assert_int_equal(v->value.count, P * places);
    for (int mu = 0; mu < P; mu++)
        for (int s = 0; s < places; s++)
            for (size_t i = 0; i < sites; i++) {
                const double *own = x + (size_t)(mu * HEIGHT * WIDTH) * sites + i;
                double want = mean_of(own, s / w.to[1] * w.stride[0] + w.offset[0],
                                      s % w.to[1] * w.stride[1] + w.offset[1], w.size, sites),
                       got = out[(size_t)(mu * places + s) * sites + i];
                assert_true(fabs(want - got) <= 16 * DBL_EPSILON * (1 + fabs(want)));
            }
}

/* All windows of 3 x 2 places of an image of 5 x 7, every second one in width, one place beyond the
 * upper and lower border; and the means over windows of 2 x 3. */
TEST(windows) {
    static const char script[] =
        "network.program_text=key(\"window\", 3)\\nkey(\"stride\", 2)\\n"
        "local p = population(\"p\")\\nlocal x = read_in(p, \"W\")\\n"
        "kernel(x, \"X\")\\nlocal y = pool(x)\\nfor k, S in ipairs(window(5, 7, {size = {3, 2}, "
        "stride = {1, 2}, padding = {1, 0}})) do\\n local z = mix(x, S)\\n kernel(z, \"Z\" .. k)\\n"
        " y = y + pool(z)\\nend\\nlocal z = mix(x, pooling(5, 7, {size = {2, 3}}))\\n"
        "kernel(z, \"Z\")\\nread_out(y + pool(z), \"w\")\\n";
    const char *more[] = {
        script, "data.tokens=35", "data.inputs=2", "data.dimension=3", "solver.sites=128", NULL};
    FREED(run_free) struct run run;
    support_run(&run, "examples/convolution.ini", more);
    for (int N = 0; N <= 8; N += 8) {
        FREED(net_free) struct net net;
        support_begin(&net, &run, N, 1);
        for (int k = 0; k < 6; k++)
            check(&net, find(&net, "mix_places", k),
                  (struct windows){{5, 3}, {1, 1}, {1, 2}, {k / 2 - 1, k % 2}});
        check(&net, find(&net, "mix_places", 6), (struct windows){{2, 2}, {2, 3}, {2, 3}, {0, 0}});
    }
}

/* A matrix that is written down: each of its rows mixes what the six tokens have. */
TEST(numbers_of_a_matrix) {
    static const double weights[2][6] = {{0.5, -1, 0, 2, 0.25, -0.75}, {-0.3, 0, 1.5, 0, 0.125, 4}};
    const char *more[] = {
        "network.program_text=key(\"window\", 3)\\nkey(\"stride\", 2)\\n"
        "local x = read_in(population(\"p\"), \"W\")\\nkernel(x, \"X\")\\n"
        "local z = mix(x, {{0.5, -1, 0, 2, 0.25, -0.75}, "
        "{-0.3, 0, 1.5, 0, 0.125, 4}})\\nkernel(z, \"Z\")\\nread_out(pool(z), \"w\")\\n",
        "data.tokens=6", "data.inputs=2", NULL};
    RUN_AND_NET;
    support_run(&run, "examples/convolution.ini", more);
    support_begin(&net, &run, 8, 1);
    const struct node *z = find(&net, "mix_places", 0);
    FREED(base_free)
    double *x = support_get(net.program->node[z->argument[0]].value), *out = support_get(z->value);
    for (int row = 0; row < 2 * P; row++)
        for (int i = 0; i < 8; i++) {
            double want = 0, size = 0;
            for (int t = 0; t < 6; t++) {
                double part = weights[row % 2][t] * x[(row / 2 * 6 + t) * 8 + i];
                want += part;
                size += fabs(part);
            }
            CHECK_ABS(out[row * 8 + i], want, 8 * DBL_EPSILON * size, "row %d, site %d", row, i);
        }
}

/* Finite differences, and rows of each layer: all tokens, and every second one. */
TEST(layers) {
    static const STRUCT(const char *ini; int places)
        cases[] = {{"examples/convolution.ini", 3}, {"examples/image.ini", 4}};
    for (int k = 0; k < 2; k++) {
        RUN_AND_NET;
        const char *more[] = {"solver.sites=256", "training.eta0=1", NULL};
        support_run(&run, cases[k].ini, more);
        support_net(&net, &run, 8, 1);
        assert_int_equal(find(&net, "map", 0)->value.count, net.setup.data.P * cases[k].places);
        support_gradient(&run, 8, 7);
    }
}

/* Thresholds of a selection among places: as many for each input as there are places. */
TEST(selections) {
    const char *more[] = {"network.program_text=key(\"window\", 3)\\nkey(\"stride\", 2)\\n"
                          "local p = population(\"p\")\\nlocal z = mix(read_in(p, \"W\"), "
                          "pooling(1, 6, {size = 2}))\\nkernel(z, \"Z\")\\n"
                          "read_out(pool(balance_select(z, 2, {eta_bias = 0.1}) * z), \"w\")\\n",
                          "data.tokens=6", "data.inputs=2", NULL};
    RUN_AND_NET;
    support_run(&run, "examples/convolution.ini", more);
    support_begin(&net, &run, 8, 1);
    const struct node *z = find(&net, "mix_places", 0);
    const struct numbers *qstar = net.numbers.item;
    while (strcmp(qstar->name, "qstar"))
        qstar++;
    assert_int_equal(qstar->shape[1], P);
    assert_int_equal(qstar->shape[2], 3);
    FREED(base_free) double *x = support_get(z->value);
    for (int row = 0; row < P * 3; row++) {
        int above = 0;
        for (int i = 0; i < 8; i++)
            above += x[row * 8 + i] > qstar->values[row] + 1e-12;
        assert_int_equal(above, 1);
    }
}
