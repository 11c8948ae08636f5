/* The norm of the gradient (net.h): of products of rows with each other where they are few, or of
 * the gradient itself. */
#include "kernels/maps/map_finite.h"
#include "models/engine/node.h"

/* Rows that a parameter learns with, and which of an evaluation the k-th of them is. */
static int rows_of(const struct parameter *p) {
    return p->map && p->map->some ? p->map->some->count : p->rows;
}

static ptrdiff_t row_of(const struct parameter *p, ptrdiff_t k) {
    return p->map && p->map->some ? p->map->some->which[k] : k;
}

/* X [rows][rows] = A_mu . B_nu */
static void inner_products(const double *A, const double *B, int rows, int K, double *X) {
    for (ptrdiff_t mu = 0; mu < rows; mu++)
        for (ptrdiff_t nu = 0; nu < rows; nu++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += A[mu * K + k] * B[nu * K + k];
            X[mu * rows + nu] = sum;
        }
}

/* sum_mu,nu Delta_mu Delta_nu X_mu,nu Y_mu,nu over rows, which may have Delta inside; of Y a single
 * number may serve all. */
static double contract_kernels(const struct net *net, const struct parameter *p, const double *X,
                               const double *Y, bool one) {
    const double *Delta = net_deltas(net);
    int R = net->batch.rows, rows = rows_of(p);
    double sum = 0;
    for (ptrdiff_t mu = 0; mu < rows; mu++)
        for (int nu = 0; nu < rows; nu++)
            sum += Delta[row_of(p, mu) % R] * Delta[row_of(p, nu) % R] * X[mu * rows + nu] *
                   Y[one ? 0 : mu * rows + nu];
    return sum;
}

/* <x_mu x_nu> and <y_mu y_nu>, of which one number may serve all; [R][R]. */
static void two_kernels(const struct parameter *p, const struct gradient *a,
                        const struct gradient *b, double *X, double *Y) {
    Y[0] = 1;
    if (p->map)
        p->map->kind->products(p->map, p->y, X, Y);
    else
        inner_products(a->A, b->A, p->rows, p->thin ? p->thin->W.rows : p->K, X);
    if (p->thin || (p->map && (a->y.array != p->y.array || b->y.array != p->y.array)))
        a->y.array->backend->dots(a->y, b->y, Y);
}

static bool has_one_row(const struct parameter *p) {
    return p->host || p->y.count == 1;
}

/* How many rows has the gradient of a map, or of a thin matrix turned? */
static int formed_count(const struct parameter *p) {
    return p->map ? (int)p->map->declared.target->sites : p->thin->W.rows;
}

/* Whether the gradient itself, of n x m entries, takes less work than the products of its rows with
 * each other. Of numbers on the host it always does. */
static bool is_formed(const struct net *net, const struct parameter *p) {
    if (p->host)
        return true;
    if (p->y.count == 1 || (p->map && net_map_kind(net, &p->map->declared) != &map_finite))
        return false;
    size_t n = (size_t)formed_count(p),
           m = p->map ? p->map->declared.source->sites : p->y.array->sites;
    return n * m < (size_t)rows_of(p) * (n + m);
}

/* c [rows] = Delta of each row that the parameter learns with. */
static void gather_deltas(const struct net *net, const struct parameter *p, double *c) {
    const double *Delta = net_deltas(net);
    for (int mu = 0; mu < rows_of(p); mu++)
        c[mu] = Delta[row_of(p, mu) % net->batch.rows];
}

/* sum_k (sum_mu Delta_mu A_mu,k)^2 */
static double square_of_host(const struct parameter *p, const double *c) {
    double square = 0;
    for (int k = 0; k < p->K; k++) {
        double sum = 0;
        for (ptrdiff_t mu = 0; mu < p->rows; mu++)
            sum += c[mu] * p->A[mu * p->K + k];
        square += sum * sum;
    }
    return square;
}

/* Rows of the gradient that are there at once. */
enum { FORMED = 256 };

/* G_i = sum_mu Delta_mu y_mu,i x_mu of sites i = first, ..., or of columns, of thin matrices,
 * G_k = sum_mu Delta_mu A_mu,k y_mu. */
static int form_gradient(const struct parameter *p, double *c, int first, struct rows G,
                         struct err *err) {
    int P = p->y.count, K = p->thin ? p->thin->W.rows : 0;
    const struct coefficients C = {p->y, 1, true, c, first};
    if (p->map)
        return rows_combine(G, 0, C, p->map->x, err);
    SCRATCH(double, part, (size_t)G.count *(size_t)P);
    for (ptrdiff_t k = 0; k < G.count; k++)
        for (ptrdiff_t mu = 0; mu < P; mu++)
            part[k * P + mu] = c[mu] * p->A[mu * K + first + k];
    G.array->backend->combine(G, 0, part, p->y);
    return CODE_OK;
}

/* The mean over i, or the sum over k, of <G G>. */
static int square_formed(const struct parameter *p, double *c, double *square, struct err *err) {
    const struct array *like = p->map ? p->map->x.array : p->y.array;
    int all = formed_count(p), some = all < FORMED ? all : FORMED;
    double out[FORMED];
    FREED(array_free) struct array G = {0};
    *square = 0;
    TRY(array_init(&G, like->backend, like->sites, like->group, some, err));
    for (int first = 0; first < all; first += some) {
        struct rows rows = array_rows(&G, 0, all - first < some ? all - first : some);
        TRY(form_gradient(p, c, first, rows, err));
        like->backend->averages(rows, rows, out);
        for (int k = 0; k < rows.count; k++)
            *square += out[k] / (p->map ? all : 1);
    }
    return CODE_OK;
}

static int square_of(const struct net *net, const struct parameter *p, double *square,
                     struct err *err) {
    const struct gradient own = {p->y, p->A};
    size_t rows = (size_t)rows_of(p);
    bool formed = is_formed(net, p);
    SCRATCH(double, scratch, formed ? rows : 2 * rows * rows);
    if (formed) {
        gather_deltas(net, p, scratch);
        if (p->host)
            *square = square_of_host(p, scratch);
        else
            TRY(square_formed(p, scratch, square, err));
    } else {
        two_kernels(p, &own, &own, scratch, scratch + rows * rows);
        *square = contract_kernels(net, p, scratch, scratch + rows * rows, has_one_row(p));
    }
    *square *= p->rate;
    return CODE_OK;
}

int net_products(const struct net *net, const struct parameter *p, const struct gradient *a,
                 const struct gradient *b, double *K, struct err *err) {
    size_t P = (size_t)net->setup.data.P, rows = (size_t)rows_of(p);
    double *Y;
    SCRATCH(double, X, 2 * rows * rows);
    Y = X + rows * rows;
    two_kernels(p, a, b, X, Y);
    memset(K, 0, P * P * sizeof *K);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            K[(size_t)net_input(net, p, (int)row_of(p, (ptrdiff_t)i)) * P +
              (size_t)net_input(net, p, (int)row_of(p, (ptrdiff_t)j))] +=
                p->rate * X[i * rows + j] * Y[has_one_row(p) ? 0 : i * rows + j];
    return CODE_OK;
}

/* C [rows][rows] = rate/P^2 Delta_mu Delta_nu <x_mu x_nu>, or (y) <y_mu y_nu>; behind it is as much
 * room for each of these. */
static void weigh_pairs(const struct net *net, const struct parameter *p, bool y, double *C) {
    const double *Delta = net_deltas(net);
    const struct gradient own = {p->y, p->A};
    int rows = p->rows, R = net->batch.rows;
    double scale = p->rate / ((double)net->setup.data.P * net->setup.data.P);
    double *X = C + (size_t)rows * (size_t)rows, *Y = X + (size_t)rows * (size_t)rows;
    const double *V = y ? Y : X;
    bool one_number = y && has_one_row(p);
    two_kernels(p, &own, &own, X, Y);
    for (ptrdiff_t mu = 0; mu < rows; mu++)
        for (int nu = 0; nu < rows; nu++)
            C[mu * rows + nu] =
                scale * Delta[mu % R] * Delta[nu % R] * V[one_number ? 0 : mu * rows + nu];
}

/* out_i = sum_mu,nu C_mu,nu u_mu,i u_nu,i; of one row that serves all, C is added up. */
static int quadratic_form(double *C, int rows, struct rows u, double *out, struct err *err) {
    const struct backend *backend = u.array->backend;
    int n = u.count;
    FREED(array_free) struct array array = {0};
    for (ptrdiff_t k = 1; k < (ptrdiff_t)rows * rows && n == 1; k++)
        C[0] += C[k];
    SCRATCH(double, ones, (size_t)n);
    for (int k = 0; k < n; k++)
        ones[k] = 1;
    TRY(array_init(&array, backend, u.array->sites, u.array->group, n + 1, err));
    struct rows work = array_rows(&array, 0, n), sum = array_rows(&array, n, 1);
    backend->combine(work, 0, C, u);
    backend->multiply(u, work, work);
    backend->combine(sum, 0, ones, work);
    backend->get(sum, out);
    return backend->sync(err);
}

int net_gradient_of_sites(const struct net *net, const struct parameter *p, bool target,
                          double *out, struct err *err) {
    size_t rows = (size_t)p->rows;
    assert(p->map);
    SCRATCH(double, C, 3 * rows * rows);
    weigh_pairs(net, p, !target, C);
    return quadratic_form(C, p->rows, target ? p->y : p->map->x, out, err);
}

int net_gradient_of_columns(const struct net *net, const struct parameter *p, double *out,
                            struct err *err) {
    size_t rows = (size_t)p->rows, K = (size_t)p->thin->W.rows;
    SCRATCH(double, C, 3 * rows * rows);
    weigh_pairs(net, p, true, C);
    for (size_t k = 0; k < K; k++) {
        out[k] = 0;
        for (size_t mu = 0; mu < rows; mu++)
            for (size_t nu = 0; nu < rows; nu++)
                out[k] += C[mu * rows + nu] * p->A[mu * K + k] * p->A[nu * K + k];
    }
    return CODE_OK;
}

int net_tangent(const struct net *net, const struct parameter *p, double *K, struct err *err) {
    const struct gradient own = {p->y, p->A};
    return net_products(net, p, &own, &own, K, err);
}

int net_gradient_norm(const struct net *net, double *norm, struct err *err) {
    double sum = 0, square;
    for (int i = 0; i < net->parameters.count; i++) {
        TRY(square_of(net, &net->parameters.item[i], &square, err));
        sum += square;
    }
    *norm = sqrt(fmax(sum, 0)) / net->setup.data.P;
    if (!isfinite(sum))
        return err_overflow(err, "the norm of the gradient is not finite");
    return CODE_OK;
}
