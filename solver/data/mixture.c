#include "solver/data/mixture.h"
#include "solver/data/truth.h"
#include "kernels/draws/rng.h"

#include <math.h>
#include <stdlib.h>

/* Of PURPOSE_DATA, beside those of normals.c (0), tokens.c and corpus.c. */
enum { OWNER_INPUTS = 4, OWNER_MEANS, OWNER_TEACHERS, OWNER_NOISE, OWNER_KIND };

static struct rng_stream stream_of(const struct task *task, uint32_t owner) {
    return (struct rng_stream){.seed = task->seed, .purpose = PURPOSE_DATA, .owner = owner};
}

/* Standard normals, row `draw` of a stream. */
static void normals(struct rng_stream stream, size_t draw, size_t count, double *out) {
    double pair[2];
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            rng_normal_pair(stream, (uint32_t)draw, (uint32_t)(i / 2), pair);
        out[i] = pair[i % 2];
    }
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static double noise_of(const struct task *task, size_t mu) {
    double e;
    normals(stream_of(task, OWNER_NOISE), mu, 1, &e);
    return task->noise * e;
}

/* ---- mixture ---- */

struct mixture {
    size_t K, D;
    double *means, *teachers; /* [K][D] */
    double *weight;           /* [K] workspace */
};

/* The expected loss of the best predictor at x, without noise. */
static double spread(const struct mixture *m, const struct task *task, const double *x) {
    double r = task->separation, most = -INFINITY, sum = 0, mean = 0, square = 0;
    for (size_t k = 0; k < m->K; k++) {
        double distance = 0;
        for (size_t i = 0; i < m->D; i++) {
            double d = x[i] - r * m->means[k * m->D + i];
            distance += d * d;
        }
        m->weight[k] = -distance / (2 * (1 - r * r));
        most = fmax(most, m->weight[k]);
    }
    for (size_t k = 0; k < m->K; k++)
        sum += m->weight[k] = exp(m->weight[k] - most);
    for (size_t k = 0; k < m->K; k++) {
        double u = dot(m->teachers + k * m->D, x, m->D) / sqrt((double)m->D);
        mean += m->weight[k] / sum * u;
        square += m->weight[k] / sum * u * u;
    }
    return fmax(square - mean * mean, 0) / 2;
}

/* Means and teachers into the truth. */
static int draw_laws(struct mixture *m, struct data_truth *truth, const struct task *task,
                     struct err *err) {
    const size_t shape[] = {m->K, m->D};
    TRY(truth_add(truth,
                  (struct truth_array){.name = "means",
                                       .dims = "law i",
                                       .about = "means m of the components",
                                       .shape = {shape[0], shape[1]}},
                  &m->means, err));
    TRY(truth_add(truth,
                  (struct truth_array){.name = "teachers",
                                       .dims = "law i",
                                       .about = "teachers t of the components, y = <t, x>/sqrt(D)",
                                       .shape = {shape[0], shape[1]}},
                  &m->teachers, err));
    for (size_t k = 0; k < m->K; k++) {
        TRY(base_poll(err, "components of the inputs are drawn"));
        normals(stream_of(task, OWNER_MEANS), k, m->D, m->means + k * m->D);
        normals(stream_of(task, OWNER_TEACHERS), k, m->D, m->teachers + k * m->D);
    }
    return CODE_OK;
}

static int draw_mixture(struct data *data, const struct task *task, struct err *err) {
    struct mixture m = {.K = (size_t)task->components, .D = (size_t)data->D};
    size_t P = (size_t)data->P, tests = (size_t)data->tests;
    double r = task->separation, *label[2] = {NULL, NULL}, sum = 0;
    uint32_t bits[4];
    TRY(base_alloc(&m.weight, m.K, sizeof *m.weight, err));
    int code;
    DO(draw_laws(&m, data->truth, task, err));
    DO(truth_add(data->truth,
                 (struct truth_array){.name = "component",
                                      .dims = "mu",
                                      .about = "the component of each input",
                                      .shape = {P}},
                 &label[0], err));
    if (tests)
        DO(truth_add(data->truth,
                     (struct truth_array){.name = "component_test",
                                          .dims = "nu",
                                          .about = "the component of each test input",
                                          .shape = {tests}},
                     &label[1], err));
    for (size_t mu = 0; mu < P + tests; mu++) {
        double *x = data->X + mu * m.D;
        DO(base_poll(err, "inputs are drawn"));
        rng_bits(stream_of(task, OWNER_KIND), (uint32_t)mu, 0, bits);
        size_t k = (size_t)((((uint64_t)bits[1] << 32 | bits[0])) % m.K);
        normals(stream_of(task, OWNER_INPUTS), mu, m.D, x);
        for (size_t i = 0; i < m.D; i++)
            x[i] = r * m.means[k * m.D + i] + sqrt(1 - r * r) * x[i];
        data->y[mu] = dot(m.teachers + k * m.D, x, m.D) / sqrt((double)m.D) + noise_of(task, mu);
        label[mu >= P][mu >= P ? mu - P : mu] = (double)k;
        if (mu >= P || !tests)
            sum += spread(&m, task, x);
    }
    data->truth->floor = sum / (double)(tests ? tests : P) + task->noise * task->noise / 2;
done:
    free(m.weight);
    return code;
}

/* ---- power_law ---- */

/* i^-power, i = 1 ... D, with this sum. */
static void power_law(double *out, size_t D, double power, double total) {
    double sum = 0;
    for (size_t i = 0; i < D; i++)
        sum += out[i] = pow((double)(i + 1), -power);
    for (size_t i = 0; i < D; i++)
        out[i] *= total / sum;
}

static int draw_power_law(struct data *data, const struct task *task, struct err *err) {
    size_t D = (size_t)data->D, inputs = (size_t)data->P + (size_t)data->tests;
    double *lambda, *share;
    TRY(truth_add(data->truth,
                  (struct truth_array){.name = "spectrum",
                                       .dims = "i",
                                       .about = "variance lambda of each number of x",
                                       .shape = {D}},
                  &lambda, err));
    TRY(truth_add(data->truth,
                  (struct truth_array){
                      .name = "target_shares",
                      .dims = "i",
                      .about = "share s of the variance of the targets along each number of x",
                      .shape = {D}},
                  &share, err));
    power_law(lambda, D, task->spectrum, (double)D);
    power_law(share, D, task->target, 1);
    for (size_t mu = 0; mu < inputs; mu++) {
        double *x = data->X + mu * D, y = noise_of(task, mu);
        TRY(base_poll(err, "inputs are drawn"));
        normals(stream_of(task, OWNER_INPUTS), mu, D, x);
        for (size_t i = 0; i < D; i++) {
            y += sqrt(share[i]) * x[i];
            x[i] *= sqrt(lambda[i]);
        }
        data->y[mu] = y;
    }
    data->truth->floor = task->noise * task->noise / 2;
    return CODE_OK;
}

double mixture_bytes(const struct data *sizes, int components) {
    return 2 * sizeof(double) * (double)components * sizes->D;
}

int mixture_draw(struct data *data, const struct task *task, struct err *err) {
    TRY(truth_init(&data->truth, err));
    return task->components ? draw_mixture(data, task, err) : draw_power_law(data, task, err);
}
