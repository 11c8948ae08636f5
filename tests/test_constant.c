/* Constant rows: the numbers of a function at the places of the sites, by token and in groups, in
 * networks and limits; refusals; networks that have them learn by the derivative of their loss. */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/support.h"

#include "models/engine/node.h"

#define BEGIN                                                                                      \
    "local a = population('a')\nlocal g = population('g', {of = a, group = 4})\n"                  \
    "local h = read_in(a, 'W0')\n"
#define END                                                                                        \
    "h = tanh(h) * c\nlocal x = map(h, g, 'V') * d\n"                                              \
    "read_out(pool(h + map(tanh(x), a, 'W')), 'w')\n"
static const char program[] =
    BEGIN "local c = constant(a, function(u, s) return u + s / 10 end)\n"
          "local d = constant(g, function(u, s) return 1 - u * u * s / 5 end)\n" END;

static char file[] = "/tmp/test_constant_XXXXXX";

/* A run of this program; CODE_OK or what its refusal is. */
static int open_run(struct run *run, const char *text, struct err *why) {
    char ini[96], *key[] = {"data.tokens=3", "data.inputs=2", "reference.widths=12",
                            "solver.sites=48", "solver.replicates=1"};
    FILE *out = fopen(file, "w");
    fputs(text, out);
    fclose(out);
    snprintf(ini, sizeof ini, "%s.ini", file);
    out = fopen(ini, "w");
    fprintf(out, "[network]\nprogram = %s\n", file);
    fclose(out);
    *run = (struct run){0};
    int code = run_configure(run, ini, 5, key, why);
    remove(ini);
    return code;
}

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
    ASK(open_run(&run, program, err));
    for (int N = 0; N <= 12; N += 12) {
        FREED(net_free) struct net net;
        int found = 0;
        support_begin(&net, &run, N, 1);
        support_learn(&net, &run);
        support_evaluate(&net, &run);
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

TEST(refusals) {
    static const char *const cases[][2] = {
        {BEGIN "local c = constant(a, 3)\nlocal d = c\n" END, "function expected, got number"},
        {BEGIN "local c = constant(a, function(u, s) return 'x' end)\nlocal d = c\n" END,
         "must give a number from -1e6 to 1e6, and at u = "},
        {BEGIN "local c = constant(a, function(u, s) return 1 / (s - 2) end)\nlocal d = c\n" END,
         "token 2, it does not"},
        {BEGIN "local c = constant(a, function(u, s) return u.x end)\nlocal d = c\n" END,
         "attempt to index a number value"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        FREED(run_free) struct run run;
        struct err why = {0};
        int code = open_run(&run, cases[k][0], &why);
        if (code != CODE_INPUT || !strstr(why.text, cases[k][1]))
            fail_msg("case %zu: code %d, or no \"%s\" in: %s", k, code, cases[k][1], why.text);
    }
}

static int make_file(void **state) {
    (void)state;
    return mkstemp(file) < 0;
}

static int remove_file(void **state) {
    (void)state;
    return remove(file);
}

AROUND_TESTS(make_file, remove_file)
