#include "solver/measure/sharpness.h"
#include "solver/measure/observe.h"

#include <lapacke.h>

/* Adam's steps have a preconditioner: a second memory of squares. */
static bool has_preconditioner(const struct training *training) {
    return optimizer_by_entry(training->optimizer) && training->optimizer->memories == 2;
}

int sharpness_init(struct sharpness *s, const struct config *config, const struct net *net,
                   struct err *err) {
    *s = (struct sharpness){.wanted = config->output.sharpness,
                            .by_entry = has_preconditioner(&config->training),
                            .parameters = (size_t)net->parameters.count};
    if (!s->wanted)
        return CODE_OK;
    TRY(base_alloc(&s->value, 1 + s->parameters, sizeof *s->value, err));
    return base_alloc(&s->adam, 1 + s->parameters, sizeof *s->adam, err);
}

void sharpness_free(struct sharpness *s) {
    free(s->value);
    free(s->adam);
    *s = (struct sharpness){0};
}

/* --- the curvature of the loss --------------------------------------------------------------- */

/* The symmetric root of H [C][C], in place; V [C + 1][C] is scratch. */
static int take_root(double *H, int C, double *V, struct err *err) {
    double *values = V + C * C;
    memcpy(V, H, (size_t)(C * C) * sizeof *V);
    int info = LAPACKE_dsyev(LAPACK_ROW_MAJOR, 'V', 'U', C, V, C, values);
    TRY(err_lapack_memory(err, info, "the curvature of the loss"));
    if (info)
        return err_overflow(err, "the curvature of the loss is not finite");
    for (ptrdiff_t c = 0; c < C; c++)
        for (ptrdiff_t d = 0; d < C; d++) {
            H[c * C + d] = 0;
            for (int k = 0; k < C; k++)
                H[c * C + d] += sqrt(fmax(values[k], 0)) * V[c * C + k] * V[d * C + k];
        }
    return CODE_OK;
}

/* The roots of H of all rows of f, [outs][C][C]; of tokens, whose mean the loss is. */
static int find_roots(const struct config *config, const struct net *net, const double *y,
                      double *root, struct err *err) {
    int C = net->setup.data.C, each = net->batch.output_rows / net->setup.data.P;
    double space[C];
    SCRATCH(double, V, (size_t)(C + 1) * (size_t)C);
    for (ptrdiff_t i = 0; i < net->batch.output_rows; i++) {
        size_t input = (size_t)net->batch.index[i / each],
               asked = input * (size_t)each + (size_t)(i % each);
        double *H = root + i * C * C;
        config->training.loss->curvature(C, net->output.f + i * C,
                                         net_targets(&net->setup.data, y, asked, space), H);
        for (int k = 0; k < C * C; k++)
            H[k] *= net_weight(&net->setup.data, input) / each;
        TRY(take_root(H, C, V, err));
    }
    return CODE_OK;
}

/* x [rows of f][C], n columns: root x, in place. */
static void apply_root(const struct net *net, const double *root, int n, double *x) {
    int C = net->setup.data.C;
    double column[C];
    for (ptrdiff_t i = 0; i < net->batch.output_rows; i++)
        for (int k = 0; k < n; k++) {
            for (int c = 0; c < C; c++) {
                column[c] = 0;
                for (int d = 0; d < C; d++)
                    column[c] += root[(i * C + c) * C + d] * x[(i * C + d) * n + k];
            }
            for (int c = 0; c < C; c++)
                x[(i * C + c) * n + k] = column[c];
        }
}

static void transpose_square(double *K, int n) {
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t j = 0; j < i; j++) {
            double swap = K[i * n + j];
            K[i * n + j] = K[j * n + i];
            K[j * n + i] = swap;
        }
}

/* The largest eigenvalue of root K root/P; K is used up. */
static int largest_eigenvalue(const struct net *net, const double *root, double *K, double *value,
                              struct err *err) {
    int n = net->batch.output_rows * net->setup.data.C;
    SCRATCH(double, values, (size_t)n);
    for (ptrdiff_t k = 0; k < (ptrdiff_t)n * n; k++)
        if (!isfinite(K[k]))
            return err_overflow(err, "the sharpness is not finite");
    apply_root(net, root, n, K);
    transpose_square(K, n);
    apply_root(net, root, n, K);
    int info = LAPACKE_dsyev(LAPACK_ROW_MAJOR, 'N', 'U', n, K, n, values);
    TRY(err_lapack_memory(err, info, "the sharpness"));
    *value = values[n - 1] / net->setup.data.P;
    return info ? err_set(err, CODE_NUMERICAL, "the eigenvalues of the sharpness do not converge")
                : CODE_OK;
}

/* --- products of all outputs ----------------------------------------------------------------- */

/* K [a][b] of parameter i: rates are those of gradient descent. */
static int find_products(const struct sharpness_source *source, int i, double *K, struct err *err) {
    const struct net *net = source->net;
    int P = net->setup.data.P, O = source->outputs, n = P * O;
    SCRATCH(double, block, (size_t)P *(size_t)P);
    for (int o = 0; o < O; o++)
        for (int q = 0; q <= o; q++) {
            struct gradient a = source->gradient(source->context, i, o),
                            b = source->gradient(source->context, i, q);
            TRY(net_products(net, &net->parameters.item[i], &a, &b, block, err));
            for (ptrdiff_t mu = 0; mu < P; mu++)
                for (ptrdiff_t nu = 0; nu < P; nu++) {
                    ptrdiff_t k = mu * O + o, l = nu * O + q;
                    K[k * n + l] = K[l * n + k] = block[mu * P + nu];
                }
        }
    return CODE_OK;
}

static struct gradient own(const void *context, int i, int o UNUSED) {
    const struct net *net = context;
    return (struct gradient){net->parameters.item[i].y, net->parameters.item[i].A};
}

static struct gradient kept(const void *context, int i, int o) {
    return apart_gradient(context, i, o);
}

/* --- noise, and the rate of one step --------------------------------------------------------- */

/* u = K Delta/P, with the squares of the gradient and of those of single inputs. */
static void find_squares(const struct net *net, const double *Delta, const double *K, double *u,
                         double *whole, double *single) {
    int O = net_outputs(net), P = net->setup.data.P, n = P * O;
    *whole = *single = 0;
    for (ptrdiff_t a = 0; a < n; a++) {
        u[a] = 0;
        for (int b = 0; b < n; b++) {
            u[a] += K[a * n + b] * Delta[b] / P;
            if (a / O == b / O)
                *single += Delta[a] * Delta[b] * K[a * n + b] / P;
        }
        *whole += Delta[a] * u[a] / P;
    }
}

/* K: of all parameters. A batch is a sample, without replacement, of all inputs: the noise among
 * its P inputs is on average (P - 1)/P all/(all - 1) times that of all, and the square of its mean
 * too large by noise (all - P)/((all - 1) P). One input tells neither: NaN. */
static void find_noise(struct sharpness *s, const struct config *config, const struct net *net,
                       const double *Delta, const double *root, const double *K, double *u) {
    double whole, single, curved = 0;
    int n = net->batch.output_rows * net->setup.data.C, P = net->setup.data.P;
    double all = net->setup.data.inputs;
    find_squares(net, Delta, K, u, &whole, &single);
    bool sample = config->training.batches.size && P < all;
    s->noise = sample ? P > 1 ? (single - whole) * P / (P - 1) * (all - 1) / all : (double)NAN
                      : single - whole;
    s->square = sample ? whole - s->noise * (all - P) / ((all - 1) * P) : whole;
    s->scale = s->square > 0 ? s->noise / s->square : NAN;
    apply_root(net, root, 1, u);
    for (int a = 0; a < n; a++)
        curved += u[a] * u[a] / P;
    s->greedy = curved > 0 ? whole / curved : NAN;
}

/* eta largest/edge, which gradient descent in steps has and optimizers that know their edge. */
static double edge_of(const struct sharpness *s, const struct training *training, int t) {
    const struct optimizer *optimizer = training->optimizer;
    if (training->integrator->flow || !optimizer->edge)
        return NAN;
    double schedule = schedule_factor(training, t);
    return training->eta0 * schedule * (s->by_entry ? *s->adam : *s->value) /
           optimizer->edge(training, schedule * training->weight_decay);
}

/* The largest eigenvalue of each parameter's part and of their sum, left in `sum`; K is used up. */
static int find_values(double *value, const struct sharpness_source *source,
                       const struct training *training, const double *root, double *K, double *sum,
                       struct err *err) {
    const struct net *net = source->net;
    int n = net->batch.output_rows * net->setup.data.C;
    size_t count = (size_t)n * (size_t)n;
    memset(sum, 0, count * sizeof *sum);
    for (int i = 0; i < net->parameters.count; i++) {
        TRY(training ? sharpness_precondition(source, training, i, K, err)
                     : find_products(source, i, K, err));
        for (size_t k = 0; k < count; k++)
            sum[k] += K[k];
        TRY(largest_eigenvalue(net, root, K, &value[1 + i], err));
    }
    memcpy(K, sum, count * sizeof *sum);
    return largest_eigenvalue(net, root, K, &value[0], err);
}

static int find_sharpness(struct sharpness *s, const struct config *config,
                          const struct sharpness_source *source, const double *Delta,
                          const double *y, struct err *err) {
    const struct net *net = source->net;
    size_t n = (size_t)(net->batch.output_rows * net->setup.data.C);
    SCRATCH(double, K, n *n);
    SCRATCH(double, sum, n *n);
    SCRATCH(double, root, n *(size_t)net->setup.data.C);
    SCRATCH(double, u, n);
    TRY(find_roots(config, net, y, root, err));
    if (s->by_entry)
        TRY(find_values(s->adam, source, &config->training, root, K, sum, err));
    TRY(find_values(s->value, source, NULL, root, K, sum, err));
    find_noise(s, config, net, Delta, root, sum, u);
    s->edge = edge_of(s, &config->training, net->place.t);
    return CODE_OK;
}

static int find_apart(struct sharpness *s, const struct config *config, struct apart *apart,
                      double clip, const double *y, struct err *err) {
    struct net *net = apart->net;
    int outputs = net_outputs(net);
    for (int o = 0; o <= outputs; o++) {
        struct term output = {.kind = TERM_OUTPUT, .output = o};
        TRY(apart_pass(apart, o < outputs ? &output : NULL, o, err));
    }
    struct sharpness_source source = {net, kept, apart, outputs, net->output.ones, clip};
    return find_sharpness(s, config, &source, apart->Delta, y, err);
}

int sharpness_find(struct sharpness *s, const struct config *config, struct net *net,
                   const double *y, struct err *err) {
    struct sharpness_source source = {net, own, net, 1, net->output.Delta, 1};
    struct apart apart;
    if (!s->wanted)
        return CODE_OK;
    TRY(integrator_clip(net, &config->training, &source.clip, err));
    if (!net->output.loss_in_cotangent)
        return find_sharpness(s, config, &source, net->output.Delta, y, err);
    int code = apart_begin(&apart, net, net_outputs(net) + 1, err);
    if (!code)
        code = find_apart(s, config, &apart, source.clip, y, err);
    apart_end(&apart);
    return code;
}

enum { EDGE, NOISE, SQUARE, SCALE, GREEDY, NUMBERS };
static const struct series_text number[NUMBERS] = {
    {"edge",
     "rate times sharpness over where steps along it begin to grow; above 1 beyond the edge",
     "eta sharpness/(2 - decay); of momentum /((2 - decay) (1 + momentum)), of Adam "
     "sharpness_adam/((2 - decay) (1 + beta1)/(1 - beta1)); decay: weight_decay times the "
     "schedule"},
    {"gradient_noise", "trace of the covariance of the gradient of the loss of one input",
     "mean_mu |g_mu|^2 - |g|^2, of a batch times P/(P - 1) (n - 1)/n, n all inputs"},
    {"gradient_square", "square of the gradient of the loss of all inputs",
     "|g|^2, of a batch less gradient_noise/P (n - P)/(n - 1)"},
    {"noise_scale", "batch at which noise and gradient are equal",
     "gradient_noise/gradient_square"},
    {"rate_greedy", "rate of gradient descent at which one step lowers the loss most",
     "|g|^2/(g . H g), H of Gauss and Newton"},
};

/* Slots: the numbers, then sharpness of all and of each parameter, then those of Adam. */
static int slot_of(const struct net *net, bool adam, int block) {
    return NUMBERS + (adam ? 1 + net->parameters.count : 0) + 1 + block;
}

static int fill(const struct measuring *m, double *const *out, struct err *err UNUSED) {
    const struct sharpness *s = &m->observer->sharpness;
    const double values[NUMBERS] = {s->edge, s->noise, s->square, s->scale, s->greedy};
    for (int k = 0; k < NUMBERS; k++)
        if (out[k])
            *out[k] = values[k];
    for (int i = -1; i < m->net->parameters.count; i++) {
        double *plain = out[slot_of(m->net, false, i)], *adam = out[slot_of(m->net, true, i)];
        if (plain)
            *plain = s->value[1 + i];
        if (adam)
            *adam = s->adam[1 + i];
    }
    return CODE_OK;
}

static int add_sharpness(const struct declaring *d, bool adam, int block, struct err *err) {
    const struct series series = {
        .dims = "t",
        .about = adam ? "largest eigenvalue of the Gauss-Newton matrix in units of Adam's step"
                      : "largest eigenvalue of the Gauss-Newton matrix",
        .equation = adam ? "of H^1/2 K H^1/2/P, every entry of K over Adam's sqrt(v) + eps"
                         : "of H^1/2 K H^1/2/P, K of all pairs of outputs, H = d^2 l/df^2"};
    char name[SERIES_NAME];
    gradients_name(name, adam ? "sharpness_adam" : "sharpness",
                   block < 0 ? "" : d->net->parameters.item[block].name, "");
    return series_add(d, slot_of(d->net, adam, block), series, err, "%s", name);
}

/* A ratio of what two numbers of a batch are on average would be no average itself. */
static bool is_known(const struct training *training, int k) {
    return k == EDGE    ? !training->integrator->flow && training->optimizer->edge
           : k == SCALE ? !training->batches.size
                        : true;
}

int sharpness_declare(const struct declaring *d, struct err *err) {
    const struct training *training = &d->config->training;
    int matrices = d->net->parameters.count, asked = d->config->output.sharpness;
    if (!asked)
        return CODE_OK;
    TRY(record_fill_by(d->record, fill, 0, NUMBERS + 2 * (1 + matrices), err));
    for (int adam = 0; adam <= has_preconditioner(training); adam++)
        for (int i = -1; i < (asked == SHARPNESS_BLOCKS ? matrices : 0); i++)
            TRY(add_sharpness(d, adam, i, err));
    for (int k = 0; k < NUMBERS; k++) {
        const struct series series = {.dims = "t", SERIES_TEXT(number[k])};
        if (is_known(training, k))
            TRY(series_add(d, k, series, err, "%s", number[k].name));
    }
    return CODE_OK;
}
