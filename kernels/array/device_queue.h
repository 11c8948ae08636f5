/* Small operations of a device wait here until something needs them, so that few launches do many.
 *
 * A launch costs a device some 4 microseconds, more than most operations of a limit take there. So
 * an operation becomes a task in the queue of its thread. device_flush launches what waits: tasks
 * that work site by site share a launch, one after the other in each thread of the device, which
 * has a site to itself; and sums over sites share a launch where none needs what another one
 * writes. Whoever works on the device past the queue (launch, cuBLAS) flushes it first.
 *
 * A task is put into the earliest launch that its memory allows. What it reads and writes is
 * compared, as ranges of addresses, with that of all tasks that wait. */
#pragma once

#include "kernels/array/device.h"

#define QUEUE_SITES 19 /* tasks of a launch: its parameters have 4096 bytes */
#define QUEUE_SUMS 28
#define QUEUE_ROWS 4     /* rows of a task that a thread works on at a time */
#define QUEUE_TERMS 20   /* a task that combines no rows takes a thread as long as so many terms */
#define QUEUE_SERIAL 200 /* more terms of a thread are worth a launch with more threads */
#define QUEUE_FEW 16u    /* rows of a that a thread adds up products of */
#define QUEUE_COUNTERS ((size_t)1 << 17)

/* Rows of either precision, as view. */
struct operand {
    void *at;
    size_t stride;
    bool single;
};

static inline struct operand operand_of(struct rows rows) {
    struct operand all = {NULL, 0, false};
    if (rows.array) {
        all.single = rows.array->backend->bytes == sizeof(float);
        all.stride = row_stride(rows.array);
        all.at = (char *)rows.array->memory +
                 (size_t)rows.first * all.stride * rows.array->backend->bytes;
    }
    return all;
}

/* A factor of one row serves all. */
static inline struct operand operand_factor(struct rows rows) {
    struct operand all = operand_of(rows);
    if (rows.count == 1)
        all.stride = 0;
    return all;
}

ON_DEVICE static inline double number_of(const struct operand &x, size_t at) {
    return x.single ? (double)((const float *)x.at)[at] : ((const double *)x.at)[at];
}

/* y_k at each of `sites` sites, for each of `rows` rows k; n_k are `numbers`, or where there are
 * none alpha; of TASK_POINT and TASK_ADD those of C where it has any:
 *
 *     TASK_POINT       fn(n_k a_k + shift), shift being numbers behind n or beta; slopes to b
 *     TASK_ADD         y_k + n_k a_k
 *     TASK_MULTIPLY    a_k b_k, a site of which serves each_a, each_b sites
 *     TASK_COMBINE     beta y_k + sum over l < terms of alpha n_l C_kl a_l, n_l being 1 where there
 *                      are none; C_kl lies at k c_row + l c_term
 *     TASK_STRAIGHTEN  y become orthonormal (struct distant); numbers are their products with each
 *                      other, alpha the least square of what is left
 *     TASK_NORMALS     normals of draw stream.draw + k
 *     TASK_TAKE        a_(n_k)
 *     TASK_TILE        a_k of site i modulo terms
 *     TASK_STRIDED     sum over l < terms of a_k at i c_row + l c_term, over alpha
 *     TASK_NUMBERS     alpha a^beta b, of which b may be missing
 */
enum task_kind {
    TASK_POINT,
    TASK_ADD,
    TASK_MULTIPLY,
    TASK_COMBINE,
    TASK_STRAIGHTEN,
    TASK_NORMALS,
    TASK_TAKE,
    TASK_TILE,
    TASK_STRIDED,
    TASK_NUMBERS
};
struct task {
    enum task_kind kind;
    enum fn fn;
    unsigned rows, terms, each_a, each_b;
    size_t sites;
    struct operand y, a, b, C;
    size_t c_row, c_term;
    const double *numbers;
    double alpha, beta;
    struct rng_stream stream;
};

/* out[k out_row + l out_column] = scale sum_i a_k,i b_l,i / divide. Of pairs: out[l out_column]
 * with a_l,i for a_k,i; without b, b_l,i = 1. What follows is the queue's. */
struct sum_task {
    struct operand a, b;
    size_t sites;
    unsigned rows, columns;
    bool pairs;
    double scale, divide, *out;
    size_t out_row, out_column;
    unsigned parts, counters, first; /* threads of a column, and its counters; the first one */
    double *partial;
};

/* Parameters of a launch. The emulation asks for each address. */
struct site_batch {
    int count;
    struct task task[QUEUE_SITES];
    template <class F> void each_address(F f) {
        for (int n = 0; n < count; n++) {
            f(task[n].y.at), f(task[n].a.at), f(task[n].b.at), f(task[n].C.at);
            f(task[n].numbers);
        }
    }
};
struct sum_batch {
    int count;
    unsigned units;
    unsigned *counters;
    struct sum_task task[QUEUE_SUMS];
    template <class F> void each_address(F f) {
        f(counters);
        for (int n = 0; n < count; n++)
            f(task[n].a.at), f(task[n].b.at), f(task[n].out), f(task[n].partial);
    }
};
static_assert(sizeof(struct site_batch) <= 4096 && sizeof(struct sum_batch) <= 4096,
              "parameters of a launch");

/* A column meets few rows at a time. */
ON_DEVICE static inline unsigned sum_chunks(const struct sum_task &task) {
    return task.pairs ? 1 : (task.rows + QUEUE_FEW - 1) / QUEUE_FEW;
}
ON_DEVICE static inline unsigned sum_units(const struct sum_task &task) {
    return sum_chunks(task) * task.columns;
}

/* Threads count those of a group that are done, and groups of groups. */
#define SUM_GROUP 16u
static inline unsigned sum_counters(unsigned parts) {
    unsigned all = 0;
    for (; parts > 1; all += parts)
        parts = (parts + SUM_GROUP - 1) / SUM_GROUP;
    return all;
}

extern "C" {
void device_queue(const struct task *task, const char *where);
void device_queue_sum(const struct sum_task *task, const char *where);
/* Whether sums are for the queue, and not for a library. */
bool device_queue_small(size_t rows, size_t columns, size_t sites);
/* At the end of a thread. */
void device_queue_end(void);
/* cuda_sites.cu, cuda_sums.cu */
void cuda_launch_sites(const struct site_batch *batch, size_t rows, size_t sites,
                       const char *where);
void cuda_launch_sums(const struct sum_batch *batch, size_t parts, const char *where);
}
