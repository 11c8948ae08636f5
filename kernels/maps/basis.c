/* Rank-revealing orthonormal bases. All rows go against the base together, then in blocks against
 * the rows kept before, then one by one among the rows of their block, which stay in the cache.
 *
 * One projection leaves overlaps of eps times the row; normalising what is left of it enlarges
 * them, together with the overlaps of the rows that were taken out. Each kept row has an account of
 * that, its loss: overlap over eps. Kept rows, of norm one, go through everything once more, as
 * blocks, where the loss is beyond AGAIN, and then have eps again. A row of which less than half
 * is left enlarges what it takes over, so that overlaps would grow from call to call if the
 * account of the base were not kept; it would have to go twice each time.
 * The second time disturbs what the rows of a block have among themselves by squares of eps loss,
 * which LIMIT keeps below the round-off: a row beyond it goes through everything at once and alone.
 * Without that, the fourth row of a chain, each within 1e-4 of the last, would be nine tenths base.
 *
 * On a device each number that comes to the host is waited for, so few rows are made orthonormal by
 * their products among each other, less those with the base (gram_known), which the host often has
 * without another wait; more rows in blocks, by the products of what is left of them (gram_block).
 * Products know what is left of a row to eps times the rows that it is combined of; where that is
 * not enough, rows go one by one there, too. */
#include "kernels/maps/basis.h"
#include "kernels/array/profile.h"

#include <cblas.h>

#define BLOCK 16
#define TOGETHER 128 /* rows whose products with each other are known, at most */
#define AGAIN 4
#define LIMIT 1e7
#define UNSURE 1e-12
/* A row that enters by products is a difference, and what is left of its square decides how far it
 * can be trusted. Above SURE round-off leaves overlaps of eps/SURE at most, and a second look
 * leaves their square, which is two eps. Above 1/SLIGHT no second look is needed: none of 30000
 * random sets was then off by more than 2.1e-15, and with 4 for 2 some were by 5.2e-15. */
#define SLIGHT 2.0
#define SURE 1e-8

struct growth {
    struct rows base, out;   /* the first `kept` rows of out are kept */
    const double *base_loss; /* [base.count], or NULL: one */
    struct rows
        rest; /* those that wait for their block: later rows of out, or on a device others */
    double threshold;
    int kept;
    double *overlap2; /* [out.count] of rows that wait, overlap in units of eps, squared */
    double *loss;     /* [out.count] of rows kept */
    int *pick;        /* [out.count] rows of x that are worked on */
    int *which;       /* [out.count] rows of x, of rows that wait and then of rows kept; or NULL;
                         a device has none */
    double *T;        /* [BASIS_FEW][out.count] zeros */
    double *gram;     /* two matrices and a row, of rows that enter together */
    int *combined;    /* and a row */
    double *C;        /* scratch: products of all rows with the base, or of a block with all rows */
    struct array room; /* for rows that wait, on a device */
};

static struct rows kept_rows(const struct growth *growth, int from) {
    return rows_part(growth->out, from, growth->kept - from);
}

static double norm2_of(struct rows v) {
    double norm2;
    v.array->backend->averages(v, v, &norm2);
    return norm2;
}

/* y -= <y, base> base; C: room, or where `wanted` minus the products. */
static void take_out_base(struct rows base, struct rows y, double *C, bool wanted) {
    if (base.count && y.count)
        rows_low_rank(y, 1, -1, y, base, base, C, wanted);
}

/* What a row takes over of the overlaps of `rows` rows of which parts c are taken out of it. */
static double taken_over(const double *c, const double *loss, int rows) {
    double overlap2 = 0;
    for (int k = 0; k < rows && loss; k++)
        overlap2 += c[k] * loss[k] * (c[k] * loss[k]);
    return overlap2;
}

/* Rows that wait, from mu on, of which rows with these losses have just been taken out. */
static void take_over(struct growth *growth, const double *loss, int rows, int mu, int count) {
    for (int i = 0; i < count; i++)
        growth->overlap2[mu + i] += taken_over(growth->C + (size_t)i * (size_t)rows, loss, rows);
}

/* Row mu, free of the base and of the rows kept before its block, whose first is `first`, is kept
 * if enough of it is left beside its block. */
static void enter_row(struct growth *growth, int first, int mu) {
    struct rows v = rows_part(growth->out, mu, 1);
    double whole2 = norm2_of(v), left2 = whole2, least2 = growth->threshold * growth->threshold;
    if (growth->kept > first) {
        take_out_base(kept_rows(growth, first), v, growth->C, true);
        take_over(growth, growth->loss + first, growth->kept - first, mu, 1);
        left2 = norm2_of(v);
        if (left2 > least2 && left2 < 0.5 * whole2) {
            take_out_base(kept_rows(growth, first), v, growth->C, false);
            left2 = norm2_of(v);
        }
    }
    if (!(left2 > least2))
        return;
    rows_scale(1 / sqrt(left2), v);
    double loss = sqrt(growth->overlap2[mu] / left2);
    if (loss > LIMIT) {
        take_out_base(growth->base, v, growth->C, false);
        take_out_base(kept_rows(growth, 0), v, growth->C, false);
        double still2 = norm2_of(v);
        if (!(left2 * still2 > least2))
            return;
        rows_scale(1 / sqrt(still2), v);
        loss = 1 / sqrt(still2);
    }
    if (mu > growth->kept)
        rows_copy(v, rows_part(growth->out, growth->kept, 1));
    if (growth->which)
        growth->which[growth->kept] = growth->which[mu];
    growth->loss[growth->kept++] = loss;
}

/* Rows from `from` on, between the first and the last of them that have lost much. */
static struct rows lossy_rows(const struct growth *growth, int from) {
    int end = growth->kept;
    while (from < end && growth->loss[from] <= AGAIN)
        from++;
    while (from < end && growth->loss[end - 1] <= AGAIN)
        end--;
    return rows_part(growth->out, from, end - from);
}

/* Rows that have lost much meet the base once more, which is the last that happens to them. */
static void clean_rows(struct growth *growth) {
    struct rows lossy = lossy_rows(growth, 0);
    take_out_base(growth->base, lossy, growth->C, false);
    for (int k = 0; k < lossy.count; k++)
        growth->loss[lossy.first - growth->out.first + k] = 1;
}

/* Rows as combinations of rows as they were: T x, of which `count` are kept, and which[k] is the
 * row that number k is of. */
struct combined {
    double *T, *TG, *loss; /* [rows][rows], TG: T times the products of x; [rows] */
    double worst;          /* the largest share of squares that cancelled: round-off over eps */
    int *which, count;
};

static double scalar_product(const double *a, const double *b, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* out = G t, and t^T G t; G is symmetric. */
static double apply_gram(const double *G, int rows, const double *t, double *out) {
    for (int i = 0; i < rows; i++)
        out[i] = scalar_product(G + i * rows, t, rows);
    return scalar_product(t, out, rows);
}

/* Row i enters as in enter_row, its products with all rows being those of G, which round-off of
 * rows with squares size2 has disturbed. False: they do not know enough of what is left of it. */
static bool enter_combined(const struct growth *growth, const double *G, const double *square,
                           int rows, int mu, int i, struct combined *combined) {
    double t[BASIS_FEW] = {0}, Gt[BASIS_FEW], least2 = growth->threshold * growth->threshold,
           size2 = 0;
    double overlap2 = growth->overlap2[mu + i], left2 = G[i * rows + i], whole2 = left2;
    t[i] = 1;
    if (!(left2 + UNSURE * square[i] > least2))
        return true;
    for (int again = 0; again < 2 && (!again || left2 < 0.5 * whole2); again++) {
        for (int k = 0; k < combined->count; k++) {
            double c = scalar_product(t, combined->TG + k * rows, i + 1);
            for (int j = 0; j <= i; j++)
                t[j] -= c * combined->T[k * rows + j];
            overlap2 += c * c * combined->loss[k] * combined->loss[k];
        }
        left2 = apply_gram(G, rows, t, Gt);
    }
    for (int j = 0; j < rows; j++)
        size2 += t[j] * t[j] * square[j];
    if (!(fmax(left2, least2) > SURE * size2))
        return false;
    if (!(left2 > least2))
        return true;
    double loss = sqrt(overlap2 / left2);
    if (!(loss <= LIMIT))
        return false;
    for (int j = 0; j < rows; j++) {
        combined->T[combined->count * rows + j] = t[j] / sqrt(left2);
        combined->TG[combined->count * rows + j] = Gt[j] / sqrt(left2);
    }
    combined->worst = fmax(combined->worst, size2 / left2);
    combined->loss[combined->count] = loss;
    combined->which[combined->count++] = i;
    return true;
}

/* Whether `rows` rows from mu on can enter together by their products G. */
static bool combine_all(const struct growth *growth, const double *G, const double *square, int mu,
                        int rows, struct combined *combined) {
    double *memory = growth->gram;
    *combined = (struct combined){.T = memory,
                                  .TG = memory + rows * rows,
                                  .loss = memory + 2 * rows * rows,
                                  .which = growth->combined};
    for (int i = 0; i < rows; i++)
        if (!enter_combined(growth, G, square, rows, mu, i, combined))
            return false;
    return true;
}

static void keep_combined(struct growth *growth, const struct combined *combined) {
    for (int k = 0; k < combined->count; k++)
        growth->loss[growth->kept++] = combined->loss[k];
}

/* Rows mu .. mu + rows - 1, free of all rows kept before, enter together by their products G.
 * False: nothing is done. */
static bool gram_block(struct growth *growth, int mu, int rows, const double *G) {
    struct rows waiting = rows_part(growth->rest, mu, rows);
    double square[BLOCK];
    struct combined combined;
    for (int i = 0; i < rows; i++)
        square[i] = G[i * rows + i];
    if (!combine_all(growth, G, square, mu, rows, &combined))
        return false;
    struct rows kept = rows_part(growth->out, growth->kept, combined.count);
    if (combined.count)
        waiting.array->backend->combine(kept, 0, combined.T, waiting);
    if (combined.worst > SLIGHT)
        kept.array->backend->distant->straighten((struct rows){0}, kept, 0, true);
    keep_combined(growth, &combined);
    return true;
}

/* Picks the rows of x that Pythagoras does not know to be too short beside the base. */
static int pick_rows(struct growth *growth, struct rows x, struct basis_known known) {
    size_t rank = (size_t)growth->base.count;
    int count = 0;
    for (int mu = 0; mu < x.count; mu++) {
        const double *c = known.products + (size_t)mu * rank;
        double square = known.squares[(size_t)mu * basis_step(x)], left2 = square;
        for (size_t a = 0; a < rank; a++)
            left2 -= c[a] * c[a];
        if (!(left2 + UNSURE * square > growth->threshold * growth->threshold))
            continue;
        growth->overlap2[count] = square;
        growth->pick[count++] = mu;
    }
    return count;
}

/* Rows of x enter together by their products with each other and with the base, which the host
 * knows: nothing is waited for. False: they are too many, or these do not know enough of what is
 * left of them; nothing is done. */
static bool gram_known(struct growth *growth, struct rows x, struct basis_known known) {
    const struct backend *backend = x.array->backend;
    int rank = growth->base.count, *pick = growth->pick, rows = pick_rows(growth, x, known);
    double G[BASIS_FEW * BASIS_FEW], square[BASIS_FEW], *all = growth->T;
    struct combined combined;
    if (rows > BASIS_FEW)
        return false;
    for (int i = 0; i < rows; i++) {
        const double *c = known.products + (size_t)pick[i] * (size_t)rank;
        square[i] = growth->overlap2[i];
        growth->overlap2[i] += taken_over(c, growth->base_loss, rank);
        for (int j = 0; j <= i; j++)
            G[i * rows + j] = G[j * rows + i] =
                known.squares[pick[i] * x.count + pick[j]] -
                scalar_product(c, known.products + (size_t)pick[j] * (size_t)rank, rank);
    }
    if (!combine_all(growth, G, square, 0, rows, &combined))
        return false;
    if (!combined.count)
        return true;
    for (int k = 0; k < combined.count; k++)
        for (int j = 0; j < rows; j++)
            all[k * x.count + pick[j]] = combined.T[k * rows + j];
    struct rows out = rows_part(growth->out, 0, combined.count);
    backend->combine(out, 0, all, x);
    if (rank) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, combined.count, rank, x.count, -1,
                    all, x.count, known.products, rank, 0, growth->C, rank);
        backend->combine(out, 1, growth->C, growth->base);
    }
    keep_combined(growth, &combined);
    clean_rows(growth);
    if (combined.worst > SLIGHT)
        backend->distant->straighten((struct rows){0}, out, 0, true);
    return true;
}

/* Whoever calls it holds, and what has come late is there with the products of the first block. */
static void gram_schmidt(struct growth *growth, int count) {
    const struct backend *backend = growth->out.array->backend;
    double G[BLOCK * BLOCK];
    for (int mu = 0; mu < count; mu += BLOCK) {
        int first = growth->kept, rows = count - mu < BLOCK ? count - mu : BLOCK;
        struct rows waiting = rows_part(growth->rest, mu, rows);
        backend_hold(backend, true);
        take_out_base(rows_part(growth->out, 0, first), waiting, growth->C, true);
        if (backend->distant)
            backend->dots(waiting, waiting, G);
        backend_hold(backend, false);
        if (mu == 0) /* C has the products with the base until here */
            take_over(growth, growth->base_loss, growth->base.count, 0, count);
        take_over(growth, growth->loss, first, mu, rows);
        bool together = backend->distant && gram_block(growth, mu, rows, G);
        if (backend->distant && !together)
            rows_copy(waiting, rows_part(growth->out, mu, rows));
        for (int i = 0; i < rows && !together; i++)
            enter_row(growth, first, mu + i);
        take_out_base(rows_part(growth->out, 0, first), lossy_rows(growth, first), growth->C,
                      false);
    }
    clean_rows(growth);
}

/* Rows of x less their part in the base, without those known as too short. Returns their number. */
static int known_rests(struct growth *growth, struct rows x, struct basis_known known) {
    size_t rank = (size_t)growth->base.count;
    int count = pick_rows(growth, x, known);
    struct rows rest = rows_part(growth->rest, 0, count);
    rows_take(x, growth->pick, rest);
    for (int k = 0; k < count; k++)
        for (size_t a = 0; a < rank; a++)
            growth->C[(size_t)k * rank + a] = -known.products[(size_t)growth->pick[k] * rank + a];
    if (rank && count)
        x.array->backend->combine(rest, 1, growth->C, growth->base);
    return count;
}

static int unknown_rests(struct growth *growth, struct rows x) {
    x.array->backend->averages(x, x, growth->overlap2);
    rows_copy(x, growth->rest);
    take_out_base(growth->base, growth->rest, growth->C, true);
    return x.count;
}

size_t basis_step(struct rows x) {
    return x.array->backend->distant && x.count <= TOGETHER ? (size_t)x.count + 1 : 1;
}

int basis_ask(struct rows base, struct rows x, struct basis_known *known, struct err *err) {
    const struct backend *backend = x.array->backend;
    size_t n = (size_t)x.count, step = basis_step(x);
    TRY(base_alloc(&known->products, n * (size_t)base.count, sizeof *known->products, err));
    TRY(base_alloc(&known->squares, step > 1 ? n * n : n, sizeof *known->squares, err));
    backend->dots(x, base, known->products);
    if (step > 1)
        backend->dots(x, x, known->squares);
    else
        backend->averages(x, x, known->squares);
    return CODE_OK;
}

void basis_forget(struct basis_known *known) {
    free(known->products);
    free(known->squares);
}

int basis_residual(struct rows base, double *loss, struct rows x, struct basis_known known,
                   double threshold, struct array *out, int *which, int *kept, struct err *err) {
    int before = profile_enter("spans", "");
    size_t n = (size_t)x.count, widest = (size_t)(base.count > BLOCK ? base.count : BLOCK);
    size_t together = out->backend->distant ? BASIS_FEW : 0;
    double *memory = NULL;
    int *pick = NULL;
    struct growth growth = {
        .base = base, .base_loss = loss, .threshold = threshold, .which = which};
    int code = CODE_OK;
    *kept = 0;
    DO(array_reserve(out, x.count, err));
    DO(base_alloc(&memory, n * (widest + together + 2) + (2 * together + 1) * together,
                  sizeof *memory, err));
    growth.out = array_rows(out, 0, x.count);
    DO(base_alloc(&pick, n + together, sizeof *pick, err));
    growth.pick = pick;
    growth.combined = pick + n;
    growth.overlap2 = memory;
    growth.loss = memory + n;
    growth.T = memory + 2 * n;
    growth.gram = growth.T + n * together;
    growth.C = growth.gram + (2 * together + 1) * together;
    growth.rest = growth.out;
    if (out->backend->distant) {
        DO(array_init(&growth.room, out->backend, out->sites, out->group, x.count, err));
        growth.rest = array_all(&growth.room);
    }
    for (int mu = 0; which && mu < x.count; mu++)
        which[mu] = mu;
    backend_hold(out->backend, true);
    if (!known.squares || basis_step(x) == 1 || !gram_known(&growth, x, known))
        gram_schmidt(&growth,
                     known.squares ? known_rests(&growth, x, known) : unknown_rests(&growth, x));
    *kept = growth.kept;
    for (int k = 0; k < growth.kept && loss; k++)
        loss[base.count + k] = growth.loss[k];
done:
    backend_hold(out->backend, false);
    array_free(&growth.room);
    free(memory);
    free(pick);
    profile_leave(before);
    return code;
}

bool basis_straightens(const struct backend *backend) {
    return backend->distant && !backend->main;
}

/* Overlaps with the base are eps over what is left of a row after the first time. Rows of a block
 * of which CANCELLED is left of the square (cuda_sites.cu), 3e-7 of a row, then overlap by some
 * 1e-2; the second time knows all of that to eps. */
void basis_straighten(struct rows base, struct rows v, double threshold) {
    const struct distant *distant = v.array->backend->distant;
    int before = profile_enter("spans", "");
    distant->straighten(base, v, threshold, false);
    distant->straighten(base, v, threshold, true);
    profile_leave(before);
}
