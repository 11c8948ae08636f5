/* The limit of transformers, and of networks with several outputs, against the trajectories of an
 * independent program (data/ref/transformer, see ABOUT there), as tests/support/stored.h says but
 * for the stored errors, of n = 2 to 8 runs: both limits are sampled in the same way, maps
 * conditioned on their past on S sites with independent draws, so that variances are as 1/S, and
 * the variance of a stored entry is that of both programs' replicates, each by its degrees of
 * freedom. Half a unit of the last digit, and 0.03 of the tolerance, are added. Where targets are
 * numbers, the variance of f is taken out of the mean loss on both sides.
 *
 * Attention over few units has no weights to be shown, a row of each head instead. `G0` of topk is
 * left out at t = 14 to 16, where tokens of sequence 0 change expert. */
#include "tests/support/stored.h"

enum { MOST = 128, NAMES = 16 };

/* What one time has of a quantity, of each block `each` columns. */
struct quantity {
    const char *name;
    int each, digits;
    struct course stored, ours;
};

struct reference {
    struct run run;
    int T, count, sites[2]; /* stored, ours */
    struct quantity quantity[NAMES];
};

/* --- ours ------------------------------------------------------------------------------------ */

static struct rows rows_of(const struct net *net, const char *format, int l) {
    TEXT(name, 32, format, l);
    for (int k = 0; k < net->kernels.count; k++)
        if (!strcmp(net->kernels.item[k].name, name))
            return net->kernels.item[k].rows;
    return (struct rows){0};
}

static double product(struct rows x, int a, int b) {
    double value;
    x.array->backend->dots(rows_part(x, a, 1), rows_part(x, b, 1), &value);
    return value;
}

static double mean_square(struct rows x) {
    double sum = 0;
    for (int r = 0; r < x.count; r++)
        sum += product(x, r, r) / x.count;
    return sum;
}

static const struct numbers *numbers_of(const struct net *net, const char *name, int l, int L) {
    TEXT(block, 32, "%s_%d", name, l);
    for (int k = 0; k < net->numbers.count; k++)
        if (!strcmp(net->numbers.item[k].name, block) ||
            (L == 1 && !strcmp(net->numbers.item[k].name, name)))
            return &net->numbers.item[k];
    return NULL;
}

/* Gates of the tokens of sequence 0, their mean; or what its last token attends to. */
static void take_numbers(const struct net *net, const char *name, int l, int width, double *out) {
    int n = net->setup.data.n, L = net->setup.network->block.depth;
    bool gate = !strcmp(name, "gate");
    const char *ours = gate ? "p" : !strcmp(name, "att") ? "attention" : "logits";
    const struct numbers *x = numbers_of(net, ours, l, L);
    for (int i = 0; i < width && !gate; i++)
        out[i] = x->values[(n - 1) * width + i];
    for (int i = 0; i < width && gate; i++) {
        out[i] = 0;
        for (int s = 0; s < n; s++)
            out[i] += x->values[s * width + i] / n;
    }
}

/* Of transformers: n^2 of gradients, per token. */
static void take_kernel(const struct net *net, const char *name, double *out) {
    int L = net->setup.network->block.depth, last = net->batch.rows - 1;
    double n2 = (double)net->setup.data.n * net->setup.data.n;
    struct rows top = rows_of(net, "Ch_%d", L), bottom = rows_of(net, "Cg_%d", 0);
    if (!strcmp(name, "Phi"))
        for (int l = 0; l < L; l++)
            out[l] = mean_square(rows_of(net, "Ch_%d", l + 1));
    else if (!strcmp(name, "PhiL") || !strcmp(name, "G0"))
        for (int i = 0; i < 2; i++)
            out[i] = name[0] == 'P' ? product(top, i * last, i * last)
                                    : n2 * product(bottom, i * last, i * last);
    else if (!strcmp(name, "Phi01"))
        *out = product(top, 0, last);
    else if (!strcmp(name, "G01"))
        *out = n2 * product(bottom, 0, last);
    else
        *out = n2 * mean_square(net->setup.network->experts.count ? rows_of(net, "Cg_mid_%d", L - 1)
                                                                  : rows_of(net, "Cg_%d", L));
}

/* Of other networks: diagonals. */
static void take_diagonal(const struct net *net, const char *name, double *out) {
    struct rows x = rows_of(net, strcmp(name, "PhiL") ? name : "Phi3", 0);
    double scale = 1;
    for (int k = 0; k < net->kernels.count; k++)
        if (net->kernels.item[k].rows.array == x.array &&
            net->kernels.item[k].rows.first == x.first)
            scale = net->kernels.item[k].scale;
    for (int mu = 0; mu < net->setup.data.P; mu++)
        out[mu] = scale * product(x, mu, mu);
}

static void take(const struct net *net, const struct quantity *q, double *out) {
    if (!strcmp(q->name, "loss"))
        *out = net->output.loss;
    else if (!strcmp(q->name, "f"))
        memcpy(out, net->output.f, (size_t)q->ours.columns * sizeof *out);
    else if (strcmp(net->model->name, "transformer"))
        take_diagonal(net, q->name, out);
    else if (q->each)
        for (int l = 0; l < net->setup.network->block.depth; l++)
            take_numbers(net, q->name, l, q->each, out + l * q->each);
    else
        take_kernel(net, q->name, out);
}

/* One replicate: sums and sums of squares into mean and se. */
static void march(struct reference *ref, int replicate) {
    FREED(net_free) struct net net;
    support_net(&net, &ref->run, 0, replicate);
    for (int t = 0; t < ref->T; t++) {
        support_evaluate(&net, &ref->run);
        for (int i = 0; i < ref->count; i++) {
            struct quantity *q = &ref->quantity[i];
            int columns = q->ours.columns;
            double now[MOST];
            assert_true(columns <= MOST);
            take(&net, q, now);
            for (int k = 0; k < columns; k++) {
                q->ours.mean[t * columns + k] += now[k];
                q->ours.se[t * columns + k] += now[k] * now[k];
            }
        }
        support_learn(&net, &ref->run);
    }
}

static void march_all(struct reference *ref) {
    int n = ref->run.config.solver.replicates;
    for (int r = 0; r < n; r++)
        march(ref, r);
    for (int i = 0; i < ref->count; i++) {
        struct course *ours = &ref->quantity[i].ours;
        ours->runs = n;
        for (int k = 0; k < ref->T * ours->columns; k++) {
            ours->mean[k] /= n;
            ours->se[k] = sqrt(fmax(ours->se[k] / n - ours->mean[k] * ours->mean[k], 0) / (n - 1));
        }
    }
}

/* --- judging --------------------------------------------------------------------------------- */

static const struct course_rule alone = {.each = true};

/* That of the stored limit, with what our replicates say of it. */
static double theirs(const struct reference *ref, const struct quantity *q, int t, int k) {
    double n[] = {q->stored.runs, q->ours.runs}, se = course_error(&q->stored, &alone, t, k),
           ours = course_error(&q->ours, &alone, t, k) *
                  sqrt(n[1] * ref->sites[1] / (n[0] * ref->sites[0]));
    return sqrt(((n[0] - 1) * se * se + (n[1] - 1) * ours * ours) / (n[0] + n[1] - 2));
}

/* Half a unit of the last digit; and of what the tolerance of the bases leaves the least that was
 * seen, relative to the largest value of all: runs of one replicate at 2048 sites with 1e-2 and
 * 1e-5 differ in f by 0.01 (attention) to 0.4 of 1e-2, most of it noise that se has as well. */
static double rounding(const struct reference *ref, const struct quantity *q, double x) {
    double largest = 0;
    for (int k = 0; k < ref->T * q->stored.columns; k++)
        largest = fmax(largest, fabs(q->stored.mean[k]));
    double digit = x == 0 ? 0 : 0.5 * pow(10, floor(log10(fabs(x))) + 1 - q->digits);
    return digit + 0.03 * ref->run.config.solver.tolerance * largest;
}

static bool resolved(const char *name, const char *quantity, int t) {
    return strcmp(name, "topk") || strcmp(quantity, "G0") || t < 14 || t > 16;
}

static void judge(const struct reference *ref, const char *name, const struct quantity *q,
                  struct score *score) {
    for (int t = 1; t < ref->T; t++)
        for (int k = 0; k < q->ours.columns && resolved(name, q->name, t); k++) {
            double got = q->ours.mean[t * q->ours.columns + k],
                   want = q->stored.mean[t * q->ours.columns + k],
                   mine = course_error(&q->ours, &alone, t, k),
                   other = theirs(ref, q, t, k) + rounding(ref, q, want);
            score_add(score, q->name, k, t, got, want, (got - want) / hypot(mine, other));
        }
}

/* Of a dataset, or of the group (name ""); 0: there is none. */
static int attribute(hid_t file, const char *name, const char *key) {
    char path[64];
    int value = 0;
    snprintf(path, sizeof path, "/limit/%s", name);
    if (H5Aexists_by_name(file, path, key, H5P_DEFAULT) <= 0)
        return 0;
    hid_t id = H5Aopen_by_name(file, path, key, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Aread(id, H5T_NATIVE_INT, &value) >= 0);
    H5Aclose(id);
    return value;
}

static bool of_blocks(const char *name) {
    return !strcmp(name, "att") || !strcmp(name, "logit") || !strcmp(name, "gate");
}

static void open_case(struct reference *ref, const char *name, const char *const *overrides) {
    static const char *const names[] = {"loss", "f",   "Phi",   "Phi01", "G01",  "Gmid", "PhiL",
                                        "G0",   "att", "logit", "gate",  "Phi1", "G1"};
    char path[64];
    *ref = (struct reference){0};
    snprintf(path, sizeof path, "data/ref/transformer/%s.ini", name);
    support_run(&ref->run, path, overrides);
    backend_start(1);
    snprintf(path, sizeof path, "transformer/%s", name);
    FREED(close_file) hid_t file = stored_open(path);
    ref->sites[0] = attribute(file, "", "S");
    ref->sites[1] = ref->run.config.solver.sites;
    const struct network *network = &ref->run.config.network;
    bool many = network->attention.head_limit == HEADS_MANY;
    for (size_t k = 0; k < COUNT(names); k++) {
        struct quantity *q = &ref->quantity[ref->count];
        snprintf(path, sizeof path, "/limit/%s", names[k]);
        if (H5Lexists(file, path, H5P_DEFAULT) <= 0 ||
            (many && (!strcmp(names[k], "att") || !strcmp(names[k], "logit"))))
            continue;
        stored_course(&q->stored, file, names[k]);
        q->ours = q->stored;
        size_t size = (size_t)(q->stored.T * q->stored.columns);
        ASK(base_alloc(&q->ours.mean, size, sizeof *q->ours.mean, err));
        ASK(base_alloc(&q->ours.se, size, sizeof *q->ours.se, err));
        q->name = names[k];
        q->each = of_blocks(names[k]) ? q->stored.columns / network->block.depth : 0;
        q->digits = attribute(file, names[k], "digits");
        ref->T = q->stored.T;
        ref->count++;
    }
}

static void close_case(struct reference *ref) {
    for (int i = 0; i < ref->count; i++) {
        course_free(&ref->quantity[i].stored);
        course_free(&ref->quantity[i].ours);
    }
    run_free(&ref->run);
}

static void one_case(const char *name, const char *const *overrides) {
    FREED(close_case) struct reference ref;
    struct score score = {0};
    open_case(&ref, name, overrides);
    march_all(&ref);
    struct quantity *loss = &ref.quantity[0], *f = &ref.quantity[1];
    if (ref.run.config.training.loss == &loss_mse) {
        course_subtract_variance(&loss->stored, &f->stored, ref.run.data.P);
        course_subtract_variance(&loss->ours, &f->ours, ref.run.data.P);
    }
    for (int i = 0; i < ref.count; i++)
        judge(&ref, name, &ref.quantity[i], &score);
    score_end(&score, name, 1.5);
}

TEST(exact) {
    one_case("attn", NULL);
    one_case("zeroq", NULL);
}

/* A few cases, with fewer replicates; or all. */
TEST(sampled) {
    static const char *const all[] = LIST("topkz", "dense_ce3", "tokz", "soft", "topk", "two",
                                          "heads", "headstok", "dense_mse10", "regime2_mssp_ce3");
    static const char *const draws[] = {"solver.draws=normal", NULL}, *const few[] = {
                                                                          "solver.draws=normal",
                                                                          "solver.replicates=8",
                                                                          NULL};
    for (size_t k = 0; k < (is_long ? COUNT(all) : 2); k++)
        one_case(all[k], is_long ? draws : few);
}
