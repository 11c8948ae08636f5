/* Changes of explicit entries, plain and by optimizers (kernels/maps/change.h), against loops over
 * host numbers, on every backend: entries in groups, several blocks of sites, more rows than are
 * moved at once. Tolerance: sums of three products of order one, a few dozen roundings in three
 * steps. */
#include "kernels/maps/change.h"
#include "tests/support/each_backend.h"

enum { SITES = 1400, GROUP = 2, ROWS = 130, FEW = 40, INPUTS = 3, STEPS = 3 };

struct fixture {
    struct array entries, a;
    double *want, *first, *second; /* [ROWS][SITES] */
    double *C, *given;             /* [ROWS][INPUTS], [INPUTS][SITES] */
};

static void start(struct fixture *f) {
    f->want = memory((size_t)ROWS * SITES, sizeof(double));
    f->first = memory((size_t)ROWS * SITES, sizeof(double));
    f->second = memory((size_t)ROWS * SITES, sizeof(double));
    f->C = memory((size_t)ROWS * INPUTS, sizeof(double));
    f->given = memory((size_t)INPUTS * SITES, sizeof(double));
    draw(f->want, (size_t)ROWS * SITES, 1);
    draw(f->given, (size_t)INPUTS * SITES, 2);
    array_from(&f->entries, SITES, GROUP, f->want, ROWS);
    array_from(&f->a, SITES, GROUP, f->given, INPUTS);
}

/* A fresh change of the first `rows` entry rows. */
static struct change fresh(struct fixture *f, int rows, double s, uint32_t number) {
    struct change change = {
        .entries = array_rows(&f->entries, 0, rows), .a = array_all(&f->a), .s = s};
    draw(f->C, (size_t)rows * INPUTS, number);
    change.C = memory((size_t)rows * INPUTS, sizeof(double));
    memcpy(change.C, f->C, (size_t)rows * INPUTS * sizeof(double));
    return change;
}

static double gradient(const struct fixture *f, int row, int site) {
    double g = 0;
    for (int mu = 0; mu < INPUTS; mu++)
        g += f->C[row * INPUTS + mu] * f->given[mu * SITES + site];
    return g;
}

static void finish(struct fixture *f) {
    double *got = values(array_all(&f->entries));
    for (int k = 0; k < ROWS * SITES; k++)
        if (!(fabs(got[k] - f->want[k]) <= ROUND_OFF * fmax(1, fabs(f->want[k]))))
            fail_msg("%s: entry %d: %.17g instead of %.17g", backend->name, k, got[k], f->want[k]);
    array_free(&f->entries);
    array_free(&f->a);
    double *const lists[] = {got, f->want, f->first, f->second, f->C, f->given};
    for (size_t i = 0; i < LENGTH(lists); i++)
        free(lists[i]);
}

TEST(plain) {
    struct fixture f;
    start(&f);
    struct change change = fresh(&f, ROWS, 1, 3);
    ASK(change_apply(&change, &err));
    for (int k = 0; k < ROWS * SITES; k++)
        f.want[k] += gradient(&f, k / SITES, k % SITES);
    finish(&f);
}

/* Rows that come later start with velocity zero; the rate is that of the step alone. */
TEST(momentum) {
    struct fixture f;
    FREED(array_free) struct array velocity = {0};
    start(&f);
    for (int t = 0; t < STEPS; t++) {
        int rows = t ? ROWS : FEW;
        struct change change = fresh(&f, rows, 1, (uint32_t)(4 + t));
        ASK(change_momentum(&change, 0.7, 1 + 0.5 * t, &velocity, &err));
        for (int k = 0; k < rows * SITES; k++) {
            f.first[k] = 0.7 * f.first[k] + gradient(&f, k / SITES, k % SITES);
            f.want[k] += (1 + 0.5 * t) * f.first[k];
        }
    }
    finish(&f);
}

/* s times smaller entries, whose gradients are s times smaller, make the same steps s times
 * smaller; of the other sign too, as the entries of W used as s_f W with s_f < 0. */
TEST(adam) {
    const double beta1 = 0.8, beta2 = 0.95, rate = 0.3, eps = 0.1;
    for (int kind = 0; kind < 4; kind++) {
        bool inside = kind % 2;
        double s = kind < 2 ? 0x1p-10 : -0x1p-10;
        struct fixture f;
        struct array moment[2] = {{0}};
        start(&f);
        for (int t = 1; t <= STEPS; t++) {
            struct entry_rule step =
                LIST(inside ? ENTRY_ADAM_INSIDE : ENTRY_ADAM, beta1, beta2, rate, eps,
                     1 / (1 - pow(beta1, t)), 1 / (1 - pow(beta2, t)));
            struct change change = fresh(&f, ROWS, s, (uint32_t)(7 + t));
            for (int k = 0; k < ROWS * INPUTS; k++)
                change.C[k] *= s;
            ASK(change_entries(&change, step, moment, 2, &err));
            for (int k = 0; k < ROWS * SITES; k++) {
                double g = gradient(&f, k / SITES, k % SITES);
                f.first[k] = beta1 * f.first[k] + (1 - beta1) * g;
                f.second[k] = beta2 * f.second[k] + (1 - beta2) * g * g;
                double m = f.first[k] / (1 - pow(beta1, t)), v = f.second[k] / (1 - pow(beta2, t));
                f.want[k] += s * rate * m / (inside ? sqrt(v + eps * eps) : sqrt(v) + eps);
            }
        }
        array_free(&moment[0]);
        array_free(&moment[1]);
        finish(&f);
    }
}

ON_EACH_BACKEND(0)
