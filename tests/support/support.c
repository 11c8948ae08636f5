/* What several tests share. */
#define _XOPEN_SOURCE 700
#include "tests/support/support.h"
#include "kernels/maps/map_finite.h"

void support_check(const char *file, int line, double got, double want, double tolerance,
                   const char *what, ...) {
    if (fabs(got - want) <= tolerance)
        return;
    char text[256];
    va_list list;
    va_start(list, what);
    vsnprintf(text, sizeof text, what, list);
    va_end(list);
    fail_msg("%s:%d: %s: got %.17g, want %.17g, difference %.3g is %.3g of the tolerance", file,
             line, text, got, want, got - want, fabs(got - want) / tolerance);
}

char *support_folder(const char *name) {
    const char *parent = getenv("TMPDIR");
    size_t size = (parent ? strlen(parent) : 0) + strlen(name) + sizeof "/tmp//_XXXXXX";
    char *path = malloc(size);
    if (!path)
        return NULL;
    snprintf(path, size, "%s/%s_XXXXXX", parent && *parent ? parent : "/tmp", name);
    if (mkdtemp(path))
        return path;
    free(path);
    return NULL;
}

void support_run(struct run *run, const char *file, const char *const *overrides) {
    int count = 0;
    char *override[64];
    if (strchr(file, '[')) {
        support_run_text(run, overrides, "%s", file);
        return;
    }
    while (overrides && overrides[count]) {
        override[count] = (char *)(uintptr_t)overrides[count];
        count++;
    }
    *run = (struct run){0};
    ASK(run_configure(run, file, count, override, err));
}

void support_run_text(struct run *run, const char *const *overrides, const char *format, ...) {
    char name[] = "/tmp/test_run_XXXXXX";
    int id = mkstemp(name);
    FILE *file = id < 0 ? NULL : fdopen(id, "w");
    va_list list;
    assert_non_null(file);
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    assert_int_equal(fclose(file), 0);
    support_run(run, name, overrides);
    remove(name);
}

bool support_small(struct run *run, const struct model *model, const char *const *overrides) {
    char file[64], *all[32] = {"data.inputs=4",     "training.steps=6",    "solver.replicates=2",
                               "reference.seeds=2", "reference.widths=16", "solver.sites=136"};
    const char *keys = model->solver_keys ? model->solver_keys : "";
    int count = 6;
    if (strstr(keys, "expert_sites") && strcmp(model->name, "residual")) /* has its experts */
        all[count++] = "solver.expert_sites=64";
    if (strstr(keys, "unit_sites"))
        all[count++] = "solver.unit_sites=64";
    for (int k = 0; overrides && overrides[k]; k++)
        all[count++] = (char *)(uintptr_t)overrides[k];
    snprintf(file, sizeof file, "data/%s.ini", model->name);
    *run = (struct run){0};
    int code = run_configure(run, file, count, all, &failure);
    if (!code)
        return true;
    run_free(run);
    FAIL_IF(code != CODE_INPUT, "%s: %s", file, failure.text);
    print_message("%s: %s\n", file, failure.text);
    return false;
}

void support_net(struct net *net, const struct run *run, int N, int replicate) {
    struct net_setup setup = run_setup(run, N, replicate);
    ASK(net_init(net, &setup, err));
}

void support_evaluate(struct net *net, const struct run *run) {
    ASK(net_evaluate(net, run->config.training.loss, run->data.y, err));
}

void support_begin(struct net *net, const struct run *run, int N, int replicate) {
    support_net(net, run, N, replicate);
    support_evaluate(net, run);
}

void support_learn(struct net *net, const struct run *run) {
    ASK(net_learn(net, 0, run->config.training.eta0, err));
}

void support_step(struct net *net, const struct run *run) {
    support_learn(net, run);
    support_evaluate(net, run);
}

void support_train(struct net *net, const struct run *run, int steps) {
    for (int t = 0; t < steps; t++) {
        support_evaluate(net, run);
        support_learn(net, run);
    }
}

static struct parameter *find_parameter(const struct net *net, const char *format, va_list list) {
    char name[64];
    vsnprintf(name, sizeof name, format, list);
    for (int i = 0; i < net->parameters.count; i++)
        if (!strcmp(net->parameters.item[i].name, name))
            return &net->parameters.item[i];
    fail_msg("there is no matrix %s", name);
    return NULL;
}

struct map *support_map(const struct net *net, const char *format, ...) {
    va_list list;
    va_start(list, format);
    struct map *map = find_parameter(net, format, list)->map;
    va_end(list);
    return map;
}

struct thin *support_thin(const struct net *net, const char *format, ...) {
    va_list list;
    va_start(list, format);
    struct thin *thin = find_parameter(net, format, list)->thin;
    va_end(list);
    return thin;
}

double *support_numbers(const struct net *net, const char *format, ...) {
    va_list list;
    va_start(list, format);
    double *host = find_parameter(net, format, list)->host;
    va_end(list);
    return host;
}

const double *support_measured(const struct net *net, const char *name) {
    for (int k = 0; k < net->numbers.count; k++)
        if (!strcmp(net->numbers.item[k].name, name))
            return net->numbers.item[k].values;
    fail_msg("no numbers %s", name);
    return NULL;
}

const struct node *support_weight(const struct net *net, const char *name) {
    for (int i = 0; i < net->program->nodes; i++)
        if (net->program->node[i].matrix.weight.name &&
            !strcmp(net->program->node[i].matrix.weight.name, name))
            return &net->program->node[i];
    fail_msg("no matrix %s", name);
    return NULL;
}

const struct model *support_model(const char *name) {
    for (const struct model *const *model = model_list; *model; model++)
        if (!strcmp((*model)->name, name))
            return *model;
    fail_msg("there is no model %s", name);
    return NULL;
}

double *support_get(struct rows rows) {
    double *values;
    ASK(base_alloc(&values, (size_t)rows.count * rows.array->sites, sizeof *values, err));
    rows.array->backend->get(rows, values);
    return values;
}

struct array *support_entries(const struct map *map) {
    return &finite_of(map)->W;
}

double *support_matrix(const struct map *map) {
    if (map->kind == &map_finite)
        return support_get(array_all(support_entries(map)));
    size_t n = map->declared.target->sites, m = map->declared.source->sites;
    const struct history_state *history = history_of(map);
    double *W, *q = support_get(array_all(&history->q)), *Z = support_get(array_all(&history->Z));
    ASK(base_alloc(&W, n * m, sizeof *W, err));
    for (size_t k = 0; k < (size_t)history->q.rows; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < m; j++)
                W[i * m + j] += Z[k * n + i] * q[k * m + j] / (double)m / map->declared.s_f;
    free(q);
    free(Z);
    return W;
}

/* W as a history: column j of it belongs to the j-th unit vector. */
static void matrix_put(struct map *map, const double *W) {
    size_t n = map->declared.target->sites, m = map->declared.source->sites;
    struct history_state *history = history_of(map);
    FREED(base_free) double *q, *Z;
    ASK(base_alloc(&q, m * m, sizeof *q, err));
    ASK(base_alloc(&Z, m * n, sizeof *Z, err));
    for (size_t j = 0; j < m; j++) {
        q[j * m + j] = (double)m * map->declared.s_f;
        for (size_t i = 0; i < n; i++)
            Z[j * n + i] = W[i * m + j];
    }
    history->q.rows = history->Z.rows = 0;
    ASK(array_reserve(&history->q, (int)m, err));
    ASK(array_reserve(&history->Z, (int)m, err));
    history->q.backend->put(array_all(&history->q), q);
    history->Z.backend->put(array_all(&history->Z), Z);
}

/* The host numbers or rows of a parameter. */
static size_t parameter_get(const struct parameter *p, double **values) {
    if (p->host) {
        ASK(base_alloc(values, (size_t)p->K, sizeof **values, err));
        memcpy(*values, p->host, (size_t)p->K * sizeof **values);
        return (size_t)p->K;
    }
    if (p->map) {
        *values = support_matrix(p->map);
        return p->map->declared.target->sites * p->map->declared.source->sites;
    }
    struct rows W = array_all(&p->thin->W);
    *values = support_get(W);
    return (size_t)W.count * W.array->sites;
}

static void parameter_put(const struct parameter *p, const double *values) {
    if (p->host) {
        memcpy(p->host, values, (size_t)p->K * sizeof *values);
        return;
    }
    if (p->map && p->map->kind == &map_history) {
        matrix_put(p->map, values);
        return;
    }
    struct rows W = array_all(p->map ? support_entries(p->map) : &p->thin->W);
    W.array->backend->put(W, values);
}

/* Fourth-order central difference of the loss in one entry of a parameter. */
static double difference(struct net *net, const struct run *run, const struct parameter *p,
                         double *values, size_t index, double h) {
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1 / 12., -8 / 12., 8 / 12., -1 / 12.};
    double saved = values[index], sum = 0;
    for (int k = 0; k < 4; k++) {
        values[index] = saved + at[k] * h;
        parameter_put(p, values);
        support_evaluate(net, run);
        sum += weight[k] * (net->output.loss + net->output.penalty) / h;
    }
    values[index] = saved;
    parameter_put(p, values);
    return sum;
}

static void check_parameter(struct net *net, const struct run *run, int index, int stride,
                            double multiplier) {
    const struct parameter *p = &net->parameters.item[index];
    double gamma0 = run->config.training.gamma0, eta0 = run->config.training.eta0;
    double rate = eta0 * gamma0 * gamma0 * multiplier;
    FREED(base_free) double *before, *after, *gradient;
    size_t count = parameter_get(p, &before), step = count > 16 ? (size_t)stride : 1;
    ASK(base_alloc(&gradient, count, sizeof *gradient, err));
    for (size_t k = 0; k < count; k += step)
        gradient[k] = difference(net, run, p, before, k, 1e-4);
    support_evaluate(net, run);
    support_learn(net, run);
    parameter_get(p, &after);
    for (size_t k = 0; k < count; k += step)
        CHECK_ABS(after[k] - before[k], -rate * gradient[k], rate * 1.5e-10,
                  "parameter %d, entry %zu", index, k);
}

/* dL/dW in units of the declared step: entries of s_f W move by lambda c/m sum Delta y x, and
 * y = n gamma0 df/dh; of a thin matrix there is no m. */
static double declared(const struct parameter *p) {
    if (p->host)
        return p->rate;
    if (p->thin)
        return p->rate * p->thin->population->size;
    double s_f = p->map->declared.s_f;
    return p->rate * p->map->declared.target->size / (p->map->declared.source->size * s_f * s_f);
}

/* After two steps. */
void support_gradient_of(struct net *net, const struct run *run, int stride) {
    support_train(net, run, 2);
    for (int i = 0; i < net->parameters.count; i++)
        check_parameter(net, run, i, stride, declared(&net->parameters.item[i]));
}

void support_gradient(const struct run *run, int N, int stride) {
    FREED(net_free) struct net net;
    support_net(&net, run, N, 0);
    support_gradient_of(&net, run, stride);
}

void support_copy(double *dst, struct rows rows, double factor) {
    FREED(base_free) double *values = support_get(rows);
    for (size_t k = 0; k < (size_t)rows.count * rows.array->sites; k++)
        dst[k] = factor * values[k];
}

double support_normal_mean(double variance, double (*f)(double)) {
    const double step = 1e-2;
    double sum = 0;
    for (int i = -1000; i <= 1000; i++) {
        double h = i * step;
        sum += f(sqrt(variance) * h) * exp(-h * h / 2) * step / sqrt(2 * acos(-1));
    }
    return sum;
}

void support_entry(const struct record *record, const char *name, size_t entry, double *mean,
                   double *se) {
    const struct series *series = record_find(record, name);
    FREED(base_free) double *all;
    ASK(base_alloc(&all, 2 * series->size, sizeof *all, err));
    record_statistics(record, series, all, all + series->size);
    *mean = all[entry];
    *se = all[series->size + entry];
}

void support_means(const struct record *networks, int widths, const char *name, size_t entry,
                   struct stats_mean *mean) {
    for (int i = 0; i < widths; i++) {
        support_entry(&networks[i], name, entry, &mean[i].value, &mean[i].se);
        mean[i].runs = networks[i].runs;
    }
}

void support_ensemble(struct run *run, int N, struct record *record) {
    ASK(run_ensemble(run, N, N ? run->config.reference.seeds : run->config.solver.replicates,
                     record, err));
}

void support_one(const char *file, const char *const *overrides, int N, struct record *record) {
    FREED(run_free) struct run run;
    support_run(&run, file, overrides);
    ASK(run_ensemble(&run, N, 1, record, err));
}

double support_value(const struct record *record, const char *name, int r, int t, size_t k) {
    const struct series *series = record_find(record, name);
    FAIL_IF(!series, "there is no %s", name);
    return record_at(record, series, r, t)[k];
}

void support_same(const struct record *record, const struct record *other) {
    for (int k = 0; k < record->count; k++) {
        const struct series *one = &record->series[k], *two = record_find(other, one->name);
        assert_true(two && one->size == two->size);
        if (memcmp(one->values, two->values,
                   (size_t)record->runs * one->size * sizeof *one->values))
            fail_msg("%s differs", one->name);
    }
}

/* The first entry of a series that differs from that of the other record within T times, and its
 * run; false: none does. */
static bool find_difference(const struct record *a, const struct series *x, const struct record *b,
                            const struct series *y, int T, int *run, size_t *entry) {
    size_t row = x->size / (size_t)a->T, width = row; /* values of one time, and of one s */
    bool full = false;
    const char *axis = x->dims;
    for (int i = 0; i < x->axes; i++, axis += strcspn(axis, " ") + 1) {
        if (full)
            width *= x->shape[i];
        else if (axis[0] == 's' && (axis[1] == ' ' || !axis[1]))
            full = true, width = 1;
    }
    for (*run = 0; *run < a->runs && *run < b->runs; ++*run)
        for (*entry = 0; *entry < row * (size_t)T; ++*entry) {
            size_t t = *entry / row, k = *entry % row, j = k;
            if (full) { /* [mu][s][nu], s < T of either record */
                size_t past = (size_t)a->T * width, mu = k / past;
                if (k % past >= (size_t)T * width)
                    continue;
                j = mu * (size_t)b->T * width + k % past;
            }
            if (memcmp(record_at(a, x, *run, (int)t) + k, record_at(b, y, *run, (int)t) + j,
                       sizeof(double)))
                return true;
        }
    return false;
}

const char *support_differs(const struct record *a, const struct record *b, int T) {
    static char text[128];
    for (int s = 0; s < a->count; s++) {
        const struct series *x = &a->series[s], *y = record_find(b, x->name);
        int run = 0;
        size_t entry = 0;
        if (y && !find_difference(a, x, b, y, T, &run, &entry))
            continue;
        snprintf(text, sizeof text, y ? "%s run %d entry %zu" : "no %s", x->name, run, entry);
        return text;
    }
    return a->count == b->count ? NULL : "one has more series";
}

void support_same_times(const struct record *a, const struct record *b, int T, const char *what) {
    const char *differs = support_differs(a, b, T);
    FAIL_IF(differs, "%s: %s", what, differs);
}

void two_runs_free(struct run (*runs)[2]) {
    for (int k = 0; k < 2; k++)
        run_free(&(*runs)[k]);
}

void two_records_free(struct record (*records)[2]) {
    for (int k = 0; k < 2; k++)
        record_free(&(*records)[k]);
}

void two_nets_free(struct net (*nets)[2]) {
    for (int k = 0; k < 2; k++)
        net_free(&(*nets)[k]);
}
