/* The coordinate check of every matrix of every network, by rows: initial, propagating and
 * effective parts by plain loops, from W(0) of another net of the same draws, or in the limit from
 * what is learned; that they add up to what the network has; and that their rms are the series. */
#include "tests/support/support.h"
#include "kernels/maps/map_limit.h"
#include "integrators/integrator.h"
#include "solver/study/compare.h"

enum { PARTS = 4, MOST = 256, STEPS = 4 };
static const char *const suffix[2][PARTS] = {
    {"_init", "_prop", "_eff", ""},
    {"_back_init", "_back_prop", "_back_eff", "_back"},
};

/* One direction of a matrix at the start: rows x and W(0) x. */
struct start {
    double *in, *made;
};

static double *zeros(size_t count) {
    double *values;
    ASK(base_alloc(&values, count, sizeof *values, err));
    return values;
}

static double mean_square(const double *x, size_t count) {
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += x[k] * x[k] / (double)count;
    return sum;
}

static double *host_matrix(const struct map *map) {
    double *W = zeros(map->declared.target->sites * map->declared.source->sites);
    ASK(map->kind->matrix(map, W, err));
    return W;
}

/* out [P] += factor W x, or W^T x m/n; W [n][m] */
static void apply(const double *W, bool forward, double factor, size_t n, size_t m, const double *x,
                  size_t P, double *out) {
    for (size_t mu = 0; mu < P; mu++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < m; j++)
                if (forward)
                    out[mu * n + i] += factor * W[i * m + j] * x[mu * m + j];
                else
                    out[mu * m + j] +=
                        factor * (double)m / (double)n * W[i * m + j] * x[mu * n + i];
}

/* What a limit map has learned, applied: [P] rows of the other side. */
static double *learned(const struct map *map, bool forward, const double *x, size_t P,
                       const double *initial) {
    size_t n = map->declared.target->sites, m = map->declared.source->sites;
    size_t sites = forward ? n : m, from = forward ? m : n;
    double *out = zeros(P * sites);
    for (size_t k = 0; k < P * sites; k++)
        out[k] = (map->decay - 1) * initial[k];
    if (map->kind == &map_adam && adam_of(map)->D.rows) {
        FREED(base_free) double *D = support_get(array_all(&adam_of(map)->D));
        apply(D, forward, 1.0 / (double)m, n, m, x, P, out);
    }
    FREED(base_free)
    double *q = support_get(array_all(&limit_of(map)->q)),
           *Z = support_get(array_all(&limit_of(map)->Z)),
           *e = support_get(array_all(&limit_of(map)->normals));
    for (int a = 0; a < limit_of(map)->q.rows; a++) {
        double *row = Z + (size_t)a * n, *basis = q + (size_t)a * m;
        for (size_t i = 0; i < n && limit_of(map)->normals.rows; i++)
            row[i] -= map->decay * map->numbers.fg * e[(size_t)a * n + i];
        for (size_t mu = 0; mu < P; mu++) {
            double c = 0;
            for (size_t i = 0; i < from; i++)
                c += (forward ? basis : row)[i] * x[mu * from + i] / (double)from;
            for (size_t i = 0; i < sites; i++)
                out[mu * sites + i] += c * (forward ? row : basis)[i];
        }
    }
    return out;
}

/* W(0) in, as the program has it. */
static double *initial_rows(const struct map *map, bool forward, struct rows in,
                            struct rows whole) {
    FREED(array_free) struct array out = {0};
    ASK(array_keep(&out, whole, err));
    ASK(map->kind->initial(map, 0, forward, in, array_all(&out), err));
    double *values = support_get(array_all(&out));
    return values;
}

/* One direction of a map now: mean squares of the parts are added to square [PARTS]. fresh: the
 * same map of a net that never learns. */
static void check_direction(const struct map *map, const struct map *fresh, bool forward,
                            struct rows in, struct rows whole, struct start *start,
                            double *square) {
    size_t n = map->declared.target->sites, m = map->declared.source->sites;
    size_t P = (size_t)in.count, count = P * whole.array->sites, entries = P * in.array->sites;
    FREED(base_free)
    double *x = support_get(in), *y = support_get(whole), *prop = zeros(count), *eff;
    FREED(base_free) double *initial = initial_rows(map, forward, in, whole);
    assert_int_equal(in.count, whole.count);
    if (!start->in) {
        start->in = support_get(in);
        start->made = initial_rows(map, forward, in, whole);
    }
    if (fresh) {
        double *W0 = host_matrix(fresh), *W = host_matrix(map), *dx = zeros(entries);
        for (size_t k = 0; k < entries; k++)
            dx[k] = x[k] - start->in[k];
        apply(W0, forward, 1, n, m, dx, P, prop);
        eff = zeros(count);
        apply(W, forward, 1, n, m, x, P, eff);
        apply(W0, forward, -1, n, m, x, P, eff);
        free(dx);
        free(W0);
        free(W);
    } else {
        for (size_t k = 0; k < count; k++)
            prop[k] = initial[k] - start->made[k];
        eff = learned(map, forward, x, P, initial);
    }
    double size = 1e-12 * (1 + sqrt(mean_square(y, count)));
    for (size_t k = 0; k < count; k++) {
        CHECK_ABS(initial[k], start->made[k] + prop[k], 100 * size, "%s, W(0) x",
                  map->declared.name);
        CHECK_ABS(start->made[k] + prop[k] + eff[k], y[k], 100 * size, "%s, sum of parts",
                  map->declared.name);
    }
    square[0] += mean_square(start->made, count);
    square[1] += mean_square(prop, count);
    square[2] += mean_square(eff, count);
    square[3] += mean_square(y, count);
}

/* <y, W(0) x> = <W(0)^T y, x> in site averages; in a limit up to what of x and y bases leave out,
 * less than the tolerance, 1e-8, times a few normals. */
static void check_adjoint(const struct map *map, struct rows x, struct rows out, struct rows y,
                          struct rows back) {
    size_t n = out.array->sites, m = x.array->sites;
    FREED(base_free)
    double *Wx = initial_rows(map, true, x, out), *Wy = initial_rows(map, false, y, back),
           *hx = support_get(x), *hy = support_get(y);
    for (size_t mu = 0; mu < (size_t)x.count * (size_t)y.count; mu++) {
        double *a = Wx + mu / (size_t)y.count * n, *b = hy + mu % (size_t)y.count * n, one = 0;
        double *c = hx + mu / (size_t)y.count * m, *d = Wy + mu % (size_t)y.count * m, other = 0;
        for (size_t i = 0; i < n; i++)
            one += a[i] * b[i] / (double)n;
        for (size_t j = 0; j < m; j++)
            other += c[j] * d[j] / (double)m;
        CHECK_ABS(one, other, 1e-7, "%s, transpose", map->declared.name);
    }
}

static double value(const struct record *record, int t, const char *family, const char *part) {
    TEXT(name, 64, "rms_%s%s", family, part);
    assert_non_null(record_find(record, name));
    return *record_at(record, record_find(record, name), 0, t);
}

/* All maps of one family; returns how many. */
static int check_family(const struct net *net, const struct net *fresh, const char *family,
                        struct start (*start)[2], const struct record *record, int t) {
    double square[2][PARTS] = {0};
    int members = 0;
    for (int i = 0; i < net->program->nodes; i++) {
        const struct node *v = &net->program->node[i];
        const char *own = v->matrix.weight.family ? v->matrix.weight.family : v->matrix.weight.name;
        if (!v->matrix.map || strcmp(own, family) != 0)
            continue;
        const struct map *same = fresh ? fresh->program->node[i].matrix.map : NULL;
        struct rows x = net->program->node[v->argument[0]].value,
                    back = node_part(net->program, v, 0)->value,
                    g = node_cotangent(net->program, v)->value;
        check_direction(v->matrix.map, same, true, x, v->value, &start[i][0], square[0]);
        check_direction(v->matrix.map, same, false, g, back, &start[i][1], square[1]);
        check_adjoint(v->matrix.map, x, v->value, g, back);
        members++;
    }
    for (int k = 0; k < 2 * PARTS; k++) {
        double want = sqrt(square[k / PARTS][k % PARTS] / members);
        CHECK_ABS(value(record, t, family, suffix[k / PARTS][k % PARTS]), want, 1e-9 * want + 1e-13,
                  "rms of %s%s at t = %d", family, suffix[k / PARTS][k % PARTS], t);
    }
    return members;
}

/* Thin matrices: the series alone know their parts; they are sums of few numbers. */
static void check_thin(const struct net *net, const struct record *record, int t) {
    const double *f0 = net->program->node[net->program->read_out].matrix.start;
    double sum = 0;
    bool centred = net->setup.N && net->setup.limit.centre;
    for (int mu = 0; mu < net->setup.data.P; mu++) {
        double f = net->output.f[mu] + (centred ? f0[mu] : 0);
        sum += f * f / net->setup.data.P;
    }
    CHECK_ABS(value(record, t, "f", ""), sqrt(sum), 1e-12, "rms of f");
    assert_true(value(record, t, "f", "_delta") <=
                value(record, t, "f", "_prop") + value(record, t, "f", "_eff") + 1e-12);
}

static void check_net(struct run *run, int N) {
    struct net net, fresh;
    FREED(record_free) struct record record;
    struct start start[MOST][2] = {0};
    const struct training *training = &run->config.training;
    ASK(run_ensemble(run, N, 1, &record, err));
    support_net(&net, run, N, 0);
    if (N)
        support_net(&fresh, run, N, 0);
    assert_true(net.program->nodes <= MOST);
    for (int t = 0; t < record.T; t++) {
        int checked = 0;
        if (t)
            ASK(integrator_of(training)->advance(&net, training, run->data.y, err));
        else
            support_evaluate(&net, run);
        for (int i = 0; i < net.program->nodes; i++) {
            const struct node *v = &net.program->node[i];
            const char *family =
                v->matrix.weight.family ? v->matrix.weight.family : v->matrix.weight.name;
            if (v->matrix.map)
                checked += check_family(&net, N ? &fresh : NULL, family, start, &record, t);
        }
        assert_true(checked >= net.maps.count);
        check_thin(&net, &record, t);
    }
    for (int k = 0; k < record.count; k++)
        for (int t = 0; t < record.T && compare_is_term(record.series[k].name); t++)
            assert_true(isfinite(*record_at(&record, &record.series[k], 0, t)));
    for (int i = 0; i < 2 * MOST; i++) {
        free(start[i / 2][i % 2].in);
        free(start[i / 2][i % 2].made);
    }
    net_free(&net);
    if (N)
        net_free(&fresh);
}

#define FILE_DATA                                                                                  \
    "training.steps=4", "training.eta0=0.2", "solver.sites=40", "solver.tolerance=1e-8",           \
        "reference.widths=8", "reference.draws=iid", "output.kernels=none",                        \
        "reference.coordinate_check=yes"
#define TINY FILE_DATA, "data.inputs=2", "data.dimension=3"
#define MANY TINY, "solver.expert_sites=24"
#define BLOCKS TINY, "solver.unit_sites=16", "network.eta_bias=0.02", "network.experts=4"

static const STRUCT(const char *ini, *override[24]) networks[] = {
    {"data/dense.ini", {TINY, "network.read_out=zero"}},
    {"data/dense.ini", {TINY, "network.model=resnet", "network.activation=relu"}},
    {"data/regime1.ini", {TINY, "network.expert_layers=1"}},
    {"data/regime1.ini", {TINY, "network.expert_layers=3", "network.rho=1"}},
    {"data/regime1.ini",
     {TINY, "network.expert_output=activated", "network.parameterization=mup", "network.q0=4"}},
    {"data/ref/coordinate/regime1.ini", {FILE_DATA, "network.gate=constant"}},
    {"data/ref/coordinate/regime1.ini", {FILE_DATA, "network.activation=linear"}},
    {"data/regime2.ini", {MANY, "network.gate=constant"}},
    {"data/regime2.ini", {MANY, "network.gate=softmax", "network.rho=0.5"}},
    {"data/regime2.ini", {MANY, "network.parameterization=mup", "network.activation=linear"}},
    {"data/regime3.ini", {MANY, "solver.unit_sites=16", "network.gate=softmax"}},
    {"data/regime3_mup.ini", {MANY, "solver.unit_sites=16", "network.aggregation=K"}},
    {"data/residual.ini", {BLOCKS}},
    {"data/residual.ini", {BLOCKS, "network.alpha=1", "network.expert_width=2"}},
};

/* The keys of network k, and more. */
static void list_keys(const char *override[28], size_t k, const char *const *more) {
    int n = 0;
    for (; networks[k].override[n]; n++)
        override[n] = networks[k].override[n];
    while ((override[n] = *more++))
        n++;
}

TEST(test_every_optimizer) {
    static const char *const optimizers[][3] = {
        {"training.optimizer=gd"},
        {"training.optimizer=momentum"},
        {"training.optimizer=adam"},
        {"training.optimizer=adamw", "training.weight_decay=0.1"}};
    for (size_t o = 0; o < COUNT(optimizers); o++)
        for (size_t k = 0; k < COUNT(networks); k++) {
            const char *override[28];
            FREED(run_free) struct run run;
            list_keys(override, k, optimizers[o]);
            support_run(&run, networks[k].ini, override);
            check_net(&run, 8);
            if (run.config.solver.replicates)
                check_net(&run, 0);
        }
}

/* Neither draws nor numbers of a run depend on whether it is checked. */
TEST(test_nothing_else_changes) {
    for (size_t k = 0; k < COUNT(networks); k++)
        for (int N = 0; N <= 8; N += 8) {
            const char *override[28];
            FREED(two_records_free) struct record record[2];
            for (int check = 0; check < 2; check++) {
                list_keys(override, k, ARGS(check ? NULL : "reference.coordinate_check=no"));
                support_one(networks[k].ini, override, N, &record[check]);
            }
            const struct series *f[] = {record_find(&record[0], "f"), record_find(&record[1], "f")};
            assert_memory_equal(f[0]->values, f[1]->values, f[0]->size * sizeof(double));
        }
}
