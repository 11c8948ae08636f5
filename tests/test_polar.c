/* Muon's step of a matrix (kernels/maps/polar.h) against plain loops on the host, on every backend:
 * rows that are sites and rows that are directions, experts in rows and in columns, both ways of
 * making a matrix orthogonal, several steps. Tolerance: round-off of sums of some hundred terms,
 * 1e-13, which small singular values multiply by POLAR_GAIN. */
#include "kernels/maps/polar.h"
#include "tests/oracles/oracle_muon.h"
#include "tests/support/each_backend.h"

#include <lapacke.h>

enum { SITES = 600, GROUP = 3, ROWS = 12, INPUTS = 4, STEPS = 2 };

static const struct polar_case {
    const char *name;
    int row_group, column_group; /* of the change */
    double s;
    struct polar_rule rule;
} cases[] = {
    {"directions", 0, 0, 1, {.momentum = .9, .rate = .3}},
    {"directions, experts", 0, GROUP, 1, {.momentum = .9, .rate = .3, .nesterov = true}},
    {"directions, exact", 0, 0, 1, {.rate = .3, .exact = true}},
    {"directions, experts, exact", 0, GROUP, 1, {.rate = .3, .exact = true}},
    {"sites", ROWS, 0, -.01, {.momentum = .8, .rate = .3}},
    {"sites, experts in rows", 4, 0, .01, {.momentum = .8, .rate = .3, .nesterov = true}},
    {"sites, experts in columns", ROWS, GROUP, .01, {.rate = .3}},
    {"sites, exact", ROWS, 0, .01, {.rate = .3, .exact = true}},
    {"sites, experts in rows, exact", 2, 0, -.01, {.rate = .3, .exact = true}},
    {"sites, experts in columns, exact", ROWS, GROUP, .01, {.rate = .3, .exact = true}},
};

/* What a step learns, C [ROWS][INPUTS] times x [INPUTS][SITES]; C has the factor s, as of maps. */
static struct gradient {
    double x[INPUTS * SITES], C[ROWS * INPUTS];
    struct array a; /* x, to be freed */
} g;

static void draw_gradient(int step, int group, double s) {
    draw(g.x, INPUTS * SITES, 2 + (uint32_t)step);
    draw(g.C, ROWS * INPUTS, 12 + (uint32_t)step);
    for (int k = 0; k < ROWS * INPUTS; k++)
        g.C[k] *= s;
    array_free(&g.a);
    array_from(&g.a, SITES, group, g.x, INPUTS);
}

/* Of rows that learn as those from number `first` of the gradient on. */
static struct change change_of(const struct polar_case *one, struct rows entries, int first) {
    size_t count = (size_t)(entries.count * INPUTS);
    struct change change =
        LIST(.entries = entries, .a = array_all(&g.a), .C = memory(count, sizeof *g.C), .s = one->s,
             .row_group = one->row_group, .column_group = one->column_group);
    memcpy(change.C, g.C + first * INPUTS, count * sizeof *g.C);
    return change;
}

/* W += rate sqrt(m) p(M), or of rows that are sites |s| rate sqrt(n m) p(M), M [n][m] a block. */
static void want_block(const struct polar_case *one, const double *M, double *W, int row, int n,
                       int column, int m) {
    FREED(base_free) double *X = memory((size_t)(n * m), sizeof *X);
    bool turned = n < m; /* fewer columns for the rotations of the oracle */
    double factor = one->rule.rate * sqrt(m) * (one->row_group ? fabs(one->s) * sqrt(n) : 1);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            X[turned ? j * n + i : i * m + j] = M[(row + i) * SITES + column + j];
    oracle_muon(turned ? m : n, turned ? n : m, X, one->rule.exact);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            W[(row + i) * SITES + column + j] += factor * X[turned ? j * n + i : i * m + j];
}

static void want_step(const struct polar_case *one, double *V, double *W) {
    FREED(base_free) double *M = memory(ROWS * SITES, sizeof *M);
    int rows = one->row_group ? one->row_group : ROWS;
    int columns = one->column_group ? one->column_group : SITES;
    for (int k = 0; k < ROWS * SITES; k++) {
        double G = 0;
        for (int mu = 0; mu < INPUTS; mu++)
            G += g.C[k / SITES * INPUTS + mu] * g.x[mu * SITES + k % SITES];
        V[k] = one->rule.momentum * V[k] + G;
        M[k] = one->rule.nesterov ? G + one->rule.momentum * V[k] : V[k];
    }
    for (int row = 0; row < ROWS; row += rows)
        for (int column = 0; column < SITES; column += columns)
            want_block(one, M, W, row, rows, column, columns);
}

enum { VALUES = ROWS + 2 };

/* Of one block M [n][m] alone: squares add up to 1, fourth powers to |M M^T|^2/|M|^4, in plain
 * loops. There are min(n, m) values; of directions of a limit m, of which it knows n. */
static void spectrum_of(const char *name, int n, int m, const double *M, bool directions,
                        double s[VALUES]) {
    double square = 0, fourth = 0, squares = 0, fourths = 0;
    int least = n < m ? n : m;
    FREED(array_free) struct array rows = {0};
    array_from(&rows, (size_t)m, 1, M, n);
    const struct array *velocity[] = {&rows};
    struct polar_momentum V = {.velocity = velocity, .parts = 1, .directions = directions};
    ASK(polar_spectrum(&V, VALUES, s, &err));
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            double product = 0;
            for (int j = 0; j < m; j++)
                product += M[i * m + j] * M[k * m + j];
            square += i == k ? product : 0;
            fourth += product * product;
        }
    for (int k = 0; k < VALUES; k++) {
        assert_true(k < least ? s[k] >= 0 : directions && k < m ? s[k] == 0 : isnan(s[k]));
        assert_true(k == 0 || k >= least || s[k] <= s[k - 1]);
        squares += k < least ? pow(s[k], 2) : 0;
        fourths += k < least ? pow(s[k], 4) : 0;
    }
    if (!(fabs(squares - 1) <= ROUND_OFF && fabs(fourths - fourth / square / square) <= ROUND_OFF))
        fail_msg("%s: squares add up to %.17g, fourth powers to %.17g instead of %.17g", name,
                 squares, fourths, fourth / square / square);
}

/* Of the momentum V [ROWS][SITES], the mean over its blocks. */
static void want_spectrum(const struct polar_case *one, const double *V,
                          const struct array *velocity) {
    int n = one->row_group ? one->row_group : ROWS,
        m = one->column_group ? one->column_group : SITES;
    double got[VALUES], s[VALUES], want[VALUES] = {0}, blocks = ROWS / n * (SITES / m);
    FREED(base_free) double *M = memory((size_t)(n * m), sizeof *M);
    for (int row = 0; row < ROWS; row += n)
        for (int column = 0; column < SITES; column += m) {
            for (int i = 0; i < n; i++)
                memcpy(M + i * m, V + (row + i) * SITES + column, (size_t)m * sizeof *M);
            spectrum_of(one->name, n, m, M, !one->row_group, s);
            for (int k = 0; k < VALUES; k++)
                want[k] += s[k] / blocks;
        }
    struct polar_momentum momentum =
        LIST(.velocity = &velocity, .parts = 1, .directions = !one->row_group,
             .row_group = one->row_group, .column_group = one->column_group);
    ASK(polar_spectrum(&momentum, VALUES, got, &err));
    for (int k = 0; k < VALUES; k++)
        if (isnan(want[k]) ? !isnan(got[k]) : !(fabs(got[k] - want[k]) <= ROUND_OFF))
            fail_msg("%s: value %d is %.17g instead of %.17g", one->name, k, got[k], want[k]);
}

static void judge(const struct polar_case *one) {
    double *W = memory(ROWS * SITES, sizeof *W), *V = memory(ROWS * SITES, sizeof *V), *got;
    FREED(array_free) struct array entries = {0}, velocity = {0};
    draw(W, ROWS * SITES, 1);
    array_from(&entries, SITES, GROUP, W, ROWS);
    for (int step = 0; step < STEPS; step++) {
        draw_gradient(step, GROUP, one->s);
        struct change change = change_of(one, array_all(&entries), 0);
        ASK(polar_change(&change, &one->rule, &velocity, &err));
        want_step(one, V, W);
    }
    got = values(array_all(&entries));
    for (int k = 0; k < ROWS * SITES; k++)
        if (!(fabs(got[k] - W[k]) <= POLAR_GAIN * ROUND_OFF * fmax(1, fabs(W[k]))))
            fail_msg("%s, %s: entry %d: %.17g instead of %.17g", backend->name, one->name, k,
                     got[k], W[k]);
    if (!one->rule.exact)
        want_spectrum(one, V, &velocity);
    free(W), free(V), free(got);
}

TEST(steps) {
    for (size_t k = 0; k < LENGTH(cases); k++)
        judge(&cases[k]);
}

/* --- rows that take the same step ------------------------------------------------------------- */

enum { BESIDE = 5 };

/* Rows that learn what the last BESIDE rows of a matrix learn move as these do; beside a matrix of
 * no rows yet, whose norm is 0, they rest. */
static void judge_along(const struct polar_case *one, int rows) {
    double *zero = memory(ROWS * SITES, sizeof *zero), *want, *got;
    struct array entries = {0}, velocity = {0}, beside = {0}, remembered = {0};
    array_from(&entries, SITES, GROUP, zero, ROWS);
    array_from(&beside, SITES, GROUP, zero, BESIDE);
    for (int step = 0; step < STEPS; step++) {
        draw_gradient(step, GROUP, 1);
        struct change change = change_of(one, array_rows(&entries, 0, rows), 0),
                      along = change_of(one, array_all(&beside), ROWS - BESIDE);
        change.along = &along;
        change.along_memory = &remembered;
        ASK(polar_change(&change, &one->rule, &velocity, &err));
    }
    want = values(array_rows(&entries, ROWS - BESIDE, BESIDE));
    got = values(array_all(&beside));
    for (int k = 0; k < BESIDE * SITES; k++)
        if (!(fabs(got[k] - want[k]) <= POLAR_GAIN * ROUND_OFF))
            fail_msg("%s, %s, %d rows: entry %d beside it: %.17g instead of %.17g", backend->name,
                     one->name, rows, k, got[k], want[k]);
    array_free(&entries), array_free(&velocity), array_free(&beside), array_free(&remembered);
    free(zero), free(want), free(got);
}

TEST(along) {
    for (size_t k = 0; k < LENGTH(cases); k++)
        if (!cases[k].row_group && !cases[k].rule.exact) {
            judge_along(&cases[k], ROWS);
            judge_along(&cases[k], 0);
        }
}

/* --- one matrix of several parts ---------------------------------------------------------------
 */

enum { PARTS = 3 };

/* Part k of rows [count][SITES]: some of the rows, or of the sites of each. */
static double *cut(const double *all, int count, bool stacked, int k) {
    int rows = stacked ? count / PARTS : count, sites = stacked ? SITES : SITES / PARTS;
    double *part = memory((size_t)(rows * sites), sizeof *part);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < sites; j++)
            part[i * sites + j] =
                stacked ? all[(k * rows + i) * SITES + j] : all[i * SITES + k * sites + j];
    return part;
}

struct cut_matrix {
    struct array entries[PARTS], a[PARTS], velocity[PARTS];
};

/* What is left of a step in parts is what it is of the whole: `whole` after it. */
static void judge_parts(const struct polar_case *one, bool stacked, struct cut_matrix *m,
                        const struct array *whole) {
    int rows = stacked ? ROWS / PARTS : ROWS, sites = stacked ? SITES : SITES / PARTS;
    struct polar_part part[PARTS];
    FREED(base_free) double *want = values(array_all(whole));
    for (int k = 0; k < PARTS; k++) {
        FREED(base_free) double *some = stacked ? NULL : cut(g.x, INPUTS, false, k);
        array_free(&m->a[k]);
        array_from(&m->a[k], (size_t)sites, 1, some ? some : g.x, INPUTS);
        part[k].change = change_of(one, array_all(&m->entries[k]), stacked ? k * rows : 0);
        part[k].change.a = array_all(&m->a[k]);
        part[k].change.row_group = one->row_group ? rows : 0;
        part[k].velocity = &m->velocity[k];
    }
    struct polar_rule rule = one->rule;
    /* rate is that of a part: of rows that are sites all count, of directions none */
    if (stacked && !one->row_group)
        rule.rate /= sqrt(PARTS);
    ASK(polar_change_parts(part, PARTS, stacked, &rule, &err));
    for (int k = 0; k < PARTS; k++) {
        double *its = cut(want, ROWS, stacked, k), *got = values(array_all(&m->entries[k]));
        for (int i = 0; i < rows * sites; i++)
            if (!(fabs(got[i] - its[i]) <= POLAR_GAIN * ROUND_OFF * fmax(1, fabs(its[i]))))
                fail_msg("%s, %s, %s: entry %d of part %d: %.17g instead of %.17g", backend->name,
                         one->name, stacked ? "stacked" : "side by side", i, k, got[i], its[i]);
        free(its), free(got);
    }
}

static void same_spectrum(const struct polar_case *one, bool stacked, struct cut_matrix *m,
                          const struct array *velocity) {
    const struct array *parts[PARTS];
    double got[VALUES], want[VALUES];
    for (int k = 0; k < PARTS; k++)
        parts[k] = &m->velocity[k];
    struct polar_momentum V = {parts, PARTS, stacked, .directions = !one->row_group};
    ASK(polar_spectrum(&V, VALUES, got, &err));
    V.velocity = &velocity;
    V.parts = 1;
    ASK(polar_spectrum(&V, VALUES, want, &err));
    for (int k = 0; k < VALUES; k++)
        if (isnan(want[k]) ? !isnan(got[k]) : !(fabs(got[k] - want[k]) <= ROUND_OFF))
            fail_msg("%s: value %d is %.17g instead of %.17g", one->name, k, got[k], want[k]);
}

static void judge_cut(const struct polar_case *one, bool stacked) {
    FREED(base_free) double *W = memory(ROWS * SITES, sizeof *W);
    FREED(array_free) struct array entries = {0}, velocity = {0};
    struct cut_matrix m = {0};
    draw(W, ROWS * SITES, 1);
    array_from(&entries, SITES, 1, W, ROWS);
    for (int k = 0; k < PARTS; k++) {
        FREED(base_free) double *some = cut(W, ROWS, stacked, k);
        array_from(&m.entries[k], stacked ? SITES : SITES / PARTS, 1, some,
                   stacked ? ROWS / PARTS : ROWS);
    }
    for (int step = 0; step < STEPS; step++) {
        draw_gradient(step, 1, 1);
        struct change change = change_of(one, array_all(&entries), 0);
        ASK(polar_change(&change, &one->rule, &velocity, &err));
        judge_parts(one, stacked, &m, &entries);
    }
    if (!one->rule.exact)
        same_spectrum(one, stacked, &m, &velocity);
    for (int k = 0; k < PARTS; k++) {
        array_free(&m.entries[k]);
        array_free(&m.a[k]);
        array_free(&m.velocity[k]);
    }
}

/* Cut one way or the other, and put together again. */
TEST(parts) {
    for (size_t k = 0; k < LENGTH(cases); k++)
        if ((!cases[k].row_group || cases[k].row_group == ROWS) && !cases[k].column_group) {
            judge_cut(&cases[k], true);
            judge_cut(&cases[k], false);
        }
}

/* No gradient, no step, and no division by zero; nor for a gradient that is round-off. */
static void nothing_of(double size) {
    double *W = memory(ROWS * SITES, sizeof *W), *got;
    FREED(array_free) struct array entries = {0};
    struct array velocity = {0};
    draw(W, ROWS * SITES, 1);
    array_from(&entries, SITES, GROUP, W, ROWS);
    for (size_t k = 0; k < LENGTH(cases); k++) {
        draw_gradient(0, GROUP, size * cases[k].s);
        struct change change = change_of(&cases[k], array_all(&entries), 0);
        ASK(polar_change(&change, &cases[k].rule, &velocity, &err));
        if (!cases[k].row_group) { /* round-off, or nothing, has no singular values */
            double s[1];
            const struct array *all[] = {&velocity};
            struct polar_momentum V = LIST(.velocity = all, .parts = 1, .directions = true,
                                           .column_group = cases[k].column_group);
            ASK(polar_spectrum(&V, 1, s, &err));
            assert_true(isnan(s[0]));
        }
        array_free(&velocity);
    }
    got = values(array_all(&entries));
    assert_memory_equal(got, W, ROWS * SITES * sizeof *W);
    free(W), free(got);
}

/* A routine of LAPACK that has no memory says nothing of the gradient. */
TEST(memory_of_lapack) {
    assert_int_equal(polar_check(LAPACK_TRANSPOSE_MEMORY_ERROR, &err), CODE_SYSTEM);
    assert_string_equal(err.text, "out of memory: the singular values of a gradient");
    assert_int_equal(polar_check(LAPACK_WORK_MEMORY_ERROR, &err), CODE_SYSTEM);
    assert_int_equal(polar_check(1, &err), CODE_NUMERICAL);
    assert_int_equal(polar_check(0, &err), CODE_OK);
}

TEST(nothing) {
    nothing_of(0);
    nothing_of(1e-15);
    array_free(&g.a); /* before the next backend */
}

ON_EACH_BACKEND(0)
