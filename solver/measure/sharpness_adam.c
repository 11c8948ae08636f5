/* Products between gradients with every entry in units of Adam's step.
 *
 * Entries [i][j] of a parameter have the gradients sum_r a_r,i b_r,j over rows r, and what Adam
 * divides the step of one by is made of its memory and of the gradient that training has now. Of a
 * map, a and b are y and x over the sites of both sides; of a thin matrix, its coefficients and
 * rows over sites; of numbers on the host there is no b. */
#include "solver/measure/sharpness.h"

#include <cblas.h>

/* Values of one parameter on the host; the last of O + 1 gradients is that of training. */
struct entries {
    int R, O;              /* rows of a gradient; outputs */
    size_t lines, columns; /* entries */
    bool same;             /* b is the same for all outputs */
    double *a, *b;         /* [O + 1][R][lines], [O + 1 or 1][R][columns] */
    const double *host;    /* squares of numbers on the host, or NULL */
    struct array *square;  /* of entries [lines][columns]; without memory: 0 */
    double unit; /* of the memory: what an entry changes by when the learned part does by 1 */
    double mean; /* of an entry in the product of two rows */
};

static void get_rows(struct rows y, int R, size_t sites, double *out) {
    y.array->backend->get(y, out);
    for (int r = y.count; r < R; r++)
        memcpy(out + (size_t)r * sites, out, sites * sizeof *out);
}

/* What depends on the kind of the parameter. */
static void describe_entries(const struct parameter *p, struct entries *e) {
    e->columns = 1;
    e->unit = 1;
    e->square = p->host ? NULL : (struct array *)&p->moment[1];
    if (p->map) {
        const struct map_declaration *map = &p->map->declared;
        e->lines = map->target->sites;
        e->columns = map->source->sites;
        e->same = true;
        e->unit = p->map->kind == &map_finite ? 1 / (map->s_f * (double)e->columns) : 1;
        e->mean = 1 / ((double)e->lines * (double)e->columns);
    } else if (p->thin) {
        e->lines = (size_t)p->thin->W.rows;
        e->columns = p->thin->W.sites;
        e->mean = 1 / (double)e->columns;
    } else {
        e->lines = (size_t)p->K;
        e->mean = 1;
        e->host = p->host_moment ? p->host_moment + p->K : NULL;
    }
}

static void fill_entries(const struct sharpness_source *source, int i, struct entries *e) {
    const struct parameter *p = &source->net->parameters.item[i];
    size_t R = (size_t)e->R;
    if (p->map)
        p->map->x.array->backend->get(p->map->x, e->b);
    for (int o = 0; o <= e->O; o++) {
        struct gradient g = source->gradient(source->context, i, o);
        double *a = e->a + (size_t)o * R * e->lines, *b = e->b + (size_t)o * R * e->columns;
        if (p->map)
            get_rows(g.y, e->R, e->lines, a);
        else
            memcpy(a, g.A, R * e->lines * sizeof *a);
        if (p->thin)
            get_rows(g.y, e->R, e->columns, b);
        for (size_t r = 0; r < R && p->host; r++)
            b[r] = 1;
    }
}

/* weight [columns] of the entries of row i: their mean times rate over what divides the step. */
static void weigh_entries(const struct sharpness_source *source, const struct parameter *p,
                          const struct entries *e, const struct entry_rule *rule, size_t i,
                          double *v, double *weight) {
    const struct net *net = source->net;
    size_t R = (size_t)e->R, own = (size_t)e->O * R;
    const double *b = e->b + (e->same ? 0 : own * e->columns);
    memset(v, 0, e->columns * sizeof *v);
    if (e->square && e->square->memory && (int)i < e->square->rows)
        e->square->backend->get(array_rows(e->square, (int)i, 1), v);
    if (e->host)
        v[0] = e->host[i];
    memset(weight, 0, e->columns * sizeof *weight); /* gradients first */
    for (size_t r = 0; r < R; r++) {
        double x = source->Delta[net_input(net, p, (int)r)] * e->a[(own + r) * e->lines + i];
        for (size_t j = 0; j < e->columns; j++)
            weight[j] += x * b[r * e->columns + j] / net->setup.data.P;
    }
    for (size_t j = 0; j < e->columns; j++) {
        double g = weight[j] * source->clip,
               square = rule->beta2 * v[j] / (e->unit * e->unit) + (1 - rule->beta2) * g * g,
               size = rule->unbias2 * square, eps = rule->eps;
        double step = rule->form == ENTRY_ADAM_INSIDE ? sqrt(size + eps * eps) : sqrt(size) + eps;
        weight[j] = step > 0 ? e->mean * p->adam.rate / net->setup.gamma0 / step : 0;
    }
}

/* q [rows][rows] = sum_j weight_j b_r,j b_s,j, of the rows of all outputs or those of any. */
static void weighted_products(const struct entries *e, const double *weight, double *z, double *q) {
    size_t rows = (size_t)(e->same ? 1 : e->O) * (size_t)e->R;
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < e->columns; j++)
            z[r * e->columns + j] = sqrt(weight[j]) * e->b[r * e->columns + j];
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)rows, (int)e->columns, 1,
                z, (int)e->columns, z, (int)e->columns, 0, q, (int)rows);
}

/* K += the part of the entries of row i. */
static void add_row(const struct net *net, const struct parameter *p, const struct entries *e,
                    size_t i, const double *q, double *K) {
    size_t R = (size_t)e->R, all = (size_t)e->O * R, rows = e->same ? R : all;
    ptrdiff_t n = (ptrdiff_t)net->setup.data.P * e->O;
    for (size_t k = 0; k < all; k++)
        for (size_t l = 0; l < all; l++) {
            int mu = net_input(net, p, (int)(k % R)), nu = net_input(net, p, (int)(l % R));
            ptrdiff_t at = mu * e->O + (int)(k / R), to = nu * e->O + (int)(l / R);
            double both = q[(e->same ? k % R : k) * rows + (e->same ? l % R : l)];
            K[at * n + to] += e->a[k * e->lines + i] * e->a[l * e->lines + i] * both;
        }
}

int sharpness_precondition(const struct sharpness_source *source, const struct training *training,
                           int i, double *K, struct err *err) {
    const struct net *net = source->net;
    const struct parameter *p = &net->parameters.item[i];
    struct optimizer_step step = {
        .training = training, .parameter = p, .schedule = 1, .t = net->place.t};
    struct entry_rule rule = training->optimizer->rule(&step);
    struct entries e = {.R = p->rows, .O = source->outputs};
    size_t n = (size_t)net->setup.data.P * (size_t)e.O, R = (size_t)p->rows, all = (size_t)e.O * R;
    describe_entries(p, &e);
    memset(K, 0, n * n * sizeof *K);
    SCRATCH(double, a, (all + R) * e.lines);
    SCRATCH(double, b, (e.same ? R : all + R) * e.columns);
    SCRATCH(double, v, 2 * e.columns);
    SCRATCH(double, z, (e.same ? R : all) * e.columns);
    SCRATCH(double, q, all *all);
    e.a = a;
    e.b = b;
    fill_entries(source, i, &e);
    TRY(net->setup.backend->sync(err));
    for (size_t k = 0; k < e.lines; k++) {
        weigh_entries(source, p, &e, &rule, k, v, v + e.columns);
        weighted_products(&e, v + e.columns, z, q);
        add_row(net, p, &e, k, q, K);
    }
    return CODE_OK;
}
