/* What cuda does site by site. Kernels read sites, compute in double precision and round. */
#include "kernels/array/cuda.h"

#include <assert.h>
#include <vector>

/* fn(u) and fn'(u). */
static __device__ double function(enum fn fn, double u, double *slope) {
    double value = u;
#define FN_U u
#define FN_VALUE value
#define FN_SLOPE (*slope)
#define FN_REAL(number) number
#define ELEMENT(number, word, formula, loop, rest)                                                 \
    case number:                                                                                   \
        loop;                                                                                      \
        rest;                                                                                      \
        break;
    switch (fn) { FN_ALL(ELEMENT) }
    return value;
}

static __device__ void keep_number(const struct operand &y, size_t at, double value) {
    if (y.single)
        ((float *)y.at)[at] = (float)value;
    else
        ((double *)y.at)[at] = value;
}

/* The group of a site; sites are fewer than 2^31, and short divisions are fast. */
static __device__ size_t group_of(size_t site, unsigned each) {
    return each <= 1 ? site : (unsigned)site / each;
}

/* Rows first .. first + rows - 1 of combinations at site i. */
static __device__ void combine_at(const struct task &t, size_t first, size_t rows, size_t i,
                                  double *out) {
    for (size_t k = 0; k < rows; k++)
        out[k] = t.beta == 0 ? 0 : t.beta * number_of(t.y, (first + k) * t.y.stride + i);
    for (size_t l = 0; l < t.terms; l++) {
        double x = number_of(t.a, l * t.a.stride + i);
        double factor = t.numbers ? t.alpha * t.numbers[l] : t.alpha;
        for (size_t k = 0; k < rows; k++)
            out[k] += factor * number_of(t.C, (first + k) * t.c_row + l * t.c_term) * x;
    }
}

/* What is left of a square in a difference is round-off below this share of it. */
#define CANCELLED 1e-13

/* Rows from `first` on are y = L^-1 y at site i, where L L^T are the products of rows y, found row
 * by row. A row of which too little is left is zero, and so is its column of L. Rows before them
 * are taken out by their products alone. */
static __device__ void straighten_at(const struct task &t, size_t first, size_t i) {
    double lower[STRAIGHT * (STRAIGHT + 1) / 2], y[STRAIGHT]; /* rows of L, one behind the other */
    for (size_t k = 0; k < STRAIGHT && first + k < t.rows; k++) {
        const double *G = t.numbers + (first + k) * t.rows;
        double *L = lower + k * (k + 1) / 2;
        double whole2 = G[first + k], left2 = whole2;
        y[k] = number_of(t.y, (first + k) * t.y.stride + i);
        for (size_t l = 0; l < first; l++)
            y[k] -= G[l] * number_of(t.y, l * t.y.stride + i);
        for (size_t l = 0; l < k; l++) {
            const double *other = lower + l * (l + 1) / 2;
            double sum = G[first + l];
            for (size_t j = 0; j < l; j++)
                sum -= L[j] * other[j];
            L[l] = sum * other[l];
            left2 -= L[l] * L[l];
            y[k] -= L[l] * y[l];
        }
        L[k] = left2 <= t.alpha || left2 <= CANCELLED * whole2 ? 0 : 1 / sqrt(left2);
        y[k] *= L[k];
        keep_number(t.y, (first + k) * t.y.stride + i, y[k]);
    }
}

static __device__ double normal_at(const struct task &t, size_t k, size_t i) {
    double normal[2];
    rng_normal_pair(t.stream, t.stream.draw + (uint32_t)k, (uint32_t)(i / 2), normal);
    return normal[i % 2];
}

static __device__ double strided_sum(const struct task &t, size_t k, size_t i) {
    double sum = 0;
    for (size_t l = 0; l < t.terms; l++)
        sum += number_of(t.a, k * t.a.stride + i * t.c_row + l * t.c_term);
    return sum / t.alpha;
}

/* Row k at site i, of all other kinds; slope: of a function. */
static __device__ double value_at(const struct task &t, size_t k, size_t i, double *slope) {
    double factor = t.C.at ? number_of(t.C, k) : t.numbers ? t.numbers[k] : t.alpha;
    switch (t.kind) {
    case TASK_POINT: {
        double shift = t.numbers ? t.numbers[t.rows + k] : t.beta;
        return function(t.fn, factor * number_of(t.a, k * t.a.stride + i) + shift, slope);
    }
    case TASK_ADD:
        return number_of(t.y, k * t.y.stride + i) + factor * number_of(t.a, k * t.a.stride + i);
    case TASK_MULTIPLY:
        return number_of(t.a, k * t.a.stride + group_of(i, t.each_a)) *
               number_of(t.b, k * t.b.stride + group_of(i, t.each_b));
    case TASK_NORMALS:
        return normal_at(t, k, i);
    case TASK_TAKE:
        return number_of(t.a, (size_t)factor * t.a.stride + i);
    case TASK_TILE:
        return number_of(t.a, k * t.a.stride + (unsigned)i % t.terms);
    case TASK_STRIDED:
        return strided_sum(t, k, i);
    case TASK_NUMBERS:
        return t.alpha * pow(number_of(t.a, i), t.beta) * (t.b.at ? number_of(t.b, i) : 1);
    case TASK_STRAIGHTEN:
    case TASK_COMBINE:
        break;
    }
    return 0;
}

/* Few rows at a time are read before they are written. */
static __device__ void do_task(const struct task &t, size_t first, size_t i) {
    if (t.kind == TASK_STRAIGHTEN) {
        for (size_t k = first; k < t.rows && !first; k += STRAIGHT)
            straighten_at(t, k, i);
        return;
    }
    size_t rows = t.rows - first < QUEUE_ROWS ? t.rows - first : QUEUE_ROWS;
    double value[QUEUE_ROWS], slope[QUEUE_ROWS];
    if (t.kind == TASK_COMBINE)
        combine_at(t, first, rows, i, value);
    else
        for (size_t k = 0; k < rows; k++)
            value[k] = value_at(t, first + k, i, &slope[k]);
    for (size_t k = 0; k < rows && t.y.at; k++)
        keep_number(t.y, (first + k) * t.y.stride + i, value[k]);
    for (size_t k = 0; k < rows && t.kind == TASK_POINT && t.b.at; k++)
        keep_number(t.b, (first + k) * t.b.stride + i, slope[k]);
}

/* A thread does all tasks at its sites, one after the other. */
static __global__ void k_tasks(GRID_CONSTANT(struct site_batch) batch) {
    size_t wide = (size_t)gridDim.x * blockDim.x;
    for (int n = 0; n < batch.count; n++) {
        const struct task &t = batch.task[n];
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < t.sites; i += wide)
            for (size_t k = (size_t)blockIdx.y * QUEUE_ROWS; k < t.rows;
                 k += (size_t)gridDim.y * QUEUE_ROWS)
                do_task(t, k, i);
    }
}

void cuda_launch_sites(const struct site_batch *batch, size_t rows, size_t sites,
                       const char *where) {
    launch(where, rows, sites, k_tasks, *batch);
}

static struct task task_of(enum task_kind kind, struct rows y, struct rows a) {
    struct task task = {};
    task.kind = kind;
    task.rows = (unsigned)y.count;
    task.sites = y.array ? y.array->sites : 0;
    task.y = operand_of(y);
    task.a = operand_of(a);
    task.alpha = 1;
    return task;
}

template <class real> void cuda<real>::normals(struct rows rows, struct rng_stream stream) {
    struct task task = task_of(TASK_NORMALS, rows, {NULL, 0, 0});
    task.stream = stream;
    device_queue(&task, "normals");
}

/* The one number that all of them are. */
static bool all_equal(const double *numbers, int count, double *number) {
    for (int k = 0; numbers && k < count; k++)
        if (!(numbers[k] == numbers[0]))
            return false;
    *number = numbers && count ? numbers[0] : *number;
    return true;
}

static struct operand numbers_at(const double *there) {
    return {(void *)(uintptr_t)there, 0, false};
}

/* Whether the n_k of a task are still to come: they stay where they are. */
static bool take_coming(const double *numbers, int count, struct task *task) {
    task->C = numbers_at(numbers ? device_coming(numbers, (size_t)count) : NULL);
    return task->C.at != NULL;
}

void cuda_numbers(double *out, const double *a, double power, double factor, const double *b,
                  size_t count) {
    struct slot slot;
    struct task task = {};
    if (!device_ready() || !device_room(3 * (count + ALIGNED), "numbers") ||
        !device_take(count, &slot, "numbers"))
        return;
    task.kind = TASK_NUMBERS;
    task.rows = 1;
    task.sites = count;
    task.y = numbers_at(slot.device);
    task.a = numbers_at(device_put(a, count, "numbers"));
    task.b = numbers_at(b ? device_put(b, count, "numbers") : NULL);
    task.alpha = factor;
    task.beta = power;
    cuda_fill_nan(out, count);
    device_queue(&task, "numbers");
    device_fetch(slot, out, count, "numbers");
}

template <class real> void cuda<real>::add(const double *c, struct rows x, struct rows y) {
    struct task task = task_of(TASK_ADD, y, x);
    if (take_coming(c, y.count, &task) || all_equal(c, y.count, &task.alpha) ||
        (task.numbers = device_put(c, (size_t)y.count, "add")))
        device_queue(&task, "add");
}

/* Numbers of rows are copied, where they are not all the same. */
static bool put_affine(const double *scale, const double *shift, int rows, struct task *task) {
    std::vector<double> both;
    if (take_coming(scale, rows, task))
        scale = NULL;
    if (all_equal(scale, rows, &task->alpha) && all_equal(shift, rows, &task->beta))
        return true;
    for (int k = 0; k < rows; k++)
        both.push_back(scale ? scale[k] : 1);
    for (int k = 0; k < rows; k++)
        both.push_back(shift ? shift[k] : 0);
    task->numbers = device_put(both.data(), both.size(), "pointwise");
    return task->numbers != NULL;
}

template <class real>
void cuda<real>::pointwise(enum fn fn, const double *scale, const double *shift, struct rows x,
                           struct rows value, struct rows slope) {
    struct task task = task_of(TASK_POINT, value, x);
    task.fn = fn;
    task.rows = (unsigned)x.count;
    task.sites = x.array->sites;
    task.b = operand_of(slope);
    if (put_affine(scale, shift, x.count, &task))
        device_queue(&task, "pointwise");
}

/* A site of a factor serves `each` sites of y. */
template <class real> void cuda<real>::multiply(struct rows a, struct rows b, struct rows y) {
    int group = y.array->group;
    struct task task = task_of(TASK_MULTIPLY, y, a);
    task.a = operand_factor(a);
    task.b = operand_factor(b);
    task.each_a = (unsigned)(a.array->group == group ? 1 : group);
    task.each_b = (unsigned)(b.array->group == group ? 1 : group);
    device_queue(&task, "multiply");
}

template <class real> void cuda<real>::take(struct rows x, const int *which, struct rows out) {
    struct task task = task_of(TASK_TAKE, out, x);
    std::vector<double> numbers(which, which + out.count);
    task.terms = (unsigned)x.count;
    task.numbers = device_put(numbers.data(), numbers.size(), "take");
    if (task.numbers)
        device_queue(&task, "take");
}

template <class real> void cuda<real>::tile(struct rows x, struct rows y) {
    struct task task = task_of(TASK_TILE, y, x);
    task.terms = (unsigned)x.array->sites;
    assert((size_t)y.array->group == x.array->sites && x.array->group == 1 && x.count == y.count);
    device_queue(&task, "tile");
}

template <class real>
static __global__ void k_entries(struct entry_rule rule, view<real> g, view<real> m, view<real> v,
                                 view<real> y, size_t rows, size_t sites) {
    EACH(k, rows, i, sites) {
        real *out = y.at + k * y.stride + i, *first = m.at + k * m.stride + i,
             *second = v.at + k * v.stride + i;
        double mean = (double)*first, square = (double)*second;
        double step = entry_step(&rule, (double)g.at[k * g.stride + i], &mean, &square);
        *out = (real)((double)*out + step);
        *first = (real)mean;
        if (second != first)
            *second = (real)square;
    }
}

template <class real>
void cuda<real>::entries(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                         struct rows y) {
    size_t rows = (size_t)y.count;
    launch("entries", rows, y.array->sites, k_entries<real>, rule, view_of<real>(g),
           view_of<real>(m), view_of<real>(v.array ? v : m), view_of<real>(y), rows,
           y.array->sites);
}

template struct cuda<double>;
template struct cuda<float>;
