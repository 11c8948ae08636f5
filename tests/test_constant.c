/* Constant rows: the numbers of a function at the places of the sites, by token and in groups, in
 * networks and limits; networks that have them learn by the derivative of their loss. */
#include "tests/support/support.h"

static const char ini[] =
    "[network]\nmodel = program\nprogram_text = "
    "local a = population('a'); local g = population('g', {of = a, group = 4}); "
    "local c = constant(a, function(u, s) return u + s / 10 end); "
    "local d = constant(g, function(u, s) return 1 - u * u * s / 5 end); "
    "local h = tanh(read_in(a, 'W0')) * c; local x = map(h, g, 'V') * d; "
    "read_out(pool(h + map(tanh(x), a, 'W')), 'w')\n"
    "[data]\ninputs = 2\ntokens = 3\n[solver]\nsites = 48\nreplicates = 1\n"
    "[reference]\nwidths = 12\n";

static double of_sites(double u, int s) {
    return u + s / 10.;
}

static double of_groups(double u, int s) {
    return 1 - u * u * s / 5;
}

static void check(const struct node *v, size_t each, double (*f)(double u, int s)) {
    FREED(base_free) double *rows = support_get(v->value);
    size_t sites = v->on->sites;
    assert_int_equal(v->count, 6);
    for (size_t r = 0; r < 6; r++)
        for (size_t i = 0; i < sites; i++) {
            double u = ((double)(i % each) + 0.5) / (double)each;
            CHECK_ABS(rows[r * sites + i], f(u, (int)(r % 3) + 1), 4e-15, "row %zu, site %zu", r,
                      i);
        }
}

TEST(values) {
    FREED(run_free) struct run run;
    support_run_text(&run, NULL, ini);
    for (int N = 0; N <= 12; N += 12) {
        FREED(net_free) struct net net;
        int found = 0;
        support_begin(&net, &run, N, 1);
        support_step(&net, &run);
        for (int i = 0; i < net.program->nodes; i++) {
            const struct node *v = &net.program->node[i];
            if (strcmp(v->op->name, "constant") != 0)
                continue;
            check(v, found ? 4 : v->on->sites, found ? of_groups : of_sites);
            found++;
        }
        assert_int_equal(found, 2);
    }
    support_gradient(&run, 12, 23);
}
