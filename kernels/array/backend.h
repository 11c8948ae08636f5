/* Arrays over sites and the dozen coarse operations on them: all that touches site values.
 *
 * A struct array holds rows over the sites of a population; sites may come in groups (the N_e units
 * of an expert: unit j of expert i is site i * group + j). The layout is the backend's own affair
 * (cpu: blocks of BACKEND_BLOCK groups, in a block row after row); the memory may be on a device.
 * Nothing outside a backend may look through array.memory: values cross by put and get only, small
 * matrices (coefficients) are host arrays, row-major. On the backend `shadow`, whose memory is
 * elsewhere and poisoned, whatever looks through array.memory goes wrong.
 *
 * <u v> is the site average (1/S) sum_i u_i v_i. Blocks are cut into at most BACKEND_PARTS parts; a
 * sum over sites is the sum, in order, over the parts of sums, in order, over their blocks, so
 * results have the same bits for any number of threads. A backend that is `split` keeps on each
 * rank (dist.h) the sites of some whole parts; where there are fewer parts than ranks, all sites on
 * every rank. What comes to the host is complete, and the same on all ranks. */
#pragma once

#include "kernels/array/function_rows.h"
#include "kernels/draws/rng.h"
#include "kernels/base/base.h"

#define BACKEND_BLOCK 256
#define BACKEND_PARTS 64
#define STRAIGHT 16

/* What of an array is on this rank: its blocks, and the parts that they make up. */
struct array_split {
    bool over_ranks; /* else everything */
    int parts, first_part, end_part;
    size_t blocks, first, end; /* blocks: of the whole array, as parts */
};

#ifdef __cplusplus
extern "C" {
#endif

struct array {
    const struct backend *backend;
    void *memory;
    size_t sites;
    int group;
    int rows;            /* in use */
    int capacity;        /* allocated */
    size_t block, width; /* array_block and array_width, of one that was allocated */
    struct array_split split;
};

/* Rows first .. first + count - 1 of an array. count = 0, array = NULL: nothing. */
struct rows {
    const struct array *array;
    int first, count;
};

#define FN_NUMBER(number, ...) number,
enum fn { FN_ALL(FN_NUMBER) };
enum { FN_COUNT = FN_INVERSE + 1 };
#undef FN_NUMBER
extern const char *const functions_name[FN_COUNT];

/* How optimizers move one entry along g, minus its gradient, with memories m and v of earlier
 * steps; each returns the change of the entry:
 *
 *     ENTRY_ADAM, _INSIDE   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2,
 *                           rate m^/(sqrt(v^) + eps), or with eps inside rate m^/sqrt(v^ + eps^2),
 *                           m^ = unbias1 m, v^ = unbias2 v, unbias = 1/(1 - beta^steps)
 *     ENTRY_LION            u = beta1 m + (1 - beta1) g,   m = beta2 m + (1 - beta2) g,
 *                           rate u/(|u| + eps);   v is not touched
 */
enum entry_form { ENTRY_ADAM, ENTRY_ADAM_INSIDE, ENTRY_LION };
struct entry_rule {
    enum entry_form form;
    double beta1, beta2, rate, eps, unbias1, unbias2;
};

/* Coefficients that are the numbers of rows R, for combinations of rows a:
 *
 *     C[k][l] = scale R_k,l                       R has a number of sites for each row of a
 *     C[k][l] = scale c[l] R_l,(first + k)        turned; R has as many rows as a, or one for all
 */
struct coefficients {
    struct rows rows;
    double scale;
    bool turned;
    double *c; /* [rows of a] */
    int first; /* site */
};

#define ENTRY_REAL double
#define ENTRY(name) entry_##name
#include "kernels/array/entry.h"

struct backend {
    const char *name;
    size_t bytes; /* of the number of a site: 8, or 4 in single precision */
    /* Bytes from which on an array that grows takes only the memory that was written to, not its
     * room to grow; 0: none does. */
    size_t large;
    /* The table of the other precision; NULL: there is none. */
    const struct backend *other;
    /* NULL, or the table underneath one that keeps companions of all rows (companions.h). */
    const struct backend *main;
    /* Whether it is there, and the bytes free in a memory of its own (host memory: HUGE_VAL). */
    int (*open)(double *bytes, struct err *err);
    /* Memory for capacity rows, uninitialised (shadow: NaN). */
    int (*alloc)(struct array *array, int capacity, struct err *err);
    /* At least this capacity; the rows in use keep their values. */
    int (*resize)(struct array *array, int capacity, struct err *err);
    void (*release)(struct array *array);
    /* host [rows.count][sites] -> rows, and back. */
    void (*put)(struct rows rows, const double *host);
    void (*get)(struct rows rows, double *host);
    /* Row k: standard normals of draw stream.draw + k, site by site. */
    void (*normals)(struct rows rows, struct rng_stream stream);
    /* C[k][l] = <a_k b_l>,  C host [a.count][b.count]. */
    void (*dots)(struct rows a, struct rows b, double *C);
    /* out[k] = <a_k b_k>; b of one row serves all k; b without array: out[k] = <a_k>. */
    void (*averages)(struct rows a, struct rows b, double *out);
    /* Whether a row has a number that is not 0. NULL: averages say so. */
    bool (*is_live)(struct rows row);
    /* y_k = beta y_k + sum_l C[k][l] a_l,  C host [y.count][a.count]; y and a do not overlap.
     * beta = 0: y is not read. */
    void (*combine)(struct rows y, double beta, const double *C, struct rows a);
    /* combine with coefficients that are rows: rows_combine. */
    void (*combine_rows)(struct rows y, double beta, struct coefficients C, struct rows a);
    /* y_k,i = scale <W_i x_k>: rows_times. */
    void (*times)(double scale, struct rows W, struct rows x, struct rows y);
    /* y_k += c[k] x_k,  c host (NULL: 1); y and x have as many rows and do not overlap. */
    void (*add)(const double *c, struct rows x, struct rows y);
    /* u = scale[k] x_k + shift[k] (NULL: 1, 0);  value = fn(u), slope = fn'(u).
     * value or slope may have no array; either may be x itself. */
    void (*pointwise)(enum fn fn, const double *scale, const double *shift, struct rows x,
                      struct rows value, struct rows slope);
    /* y = a b. Factors of one row serve all rows; factors over the groups of y serve each unit.
     * y may be a or b when their shapes agree. */
    void (*multiply)(struct rows a, struct rows b, struct rows y);
    /* y_i = sum_j x_ij over the group of site i of y. */
    void (*group_sum)(struct rows x, struct rows y);
    /* y_ij = x_j: the same units in every group; x has the sites of a group of y, y.count rows. */
    void (*tile)(struct rows x, struct rows y);
    /* y_j = mean over the groups i of x_ij; shapes as in tile. */
    void (*tile_mean)(struct rows x, struct rows y);
    /* mask = 1 on the K largest sites of each row of x, else 0; 0 <= K <= sites; ties go to the
     * lower site. NaN is larger than all numbers. */
    void (*top)(struct rows x, size_t K, struct rows mask);
    /* y += entry_step(g, m, v), entry by entry; the rows are of one shape. v may have no array
     * where the form does not touch it. */
    void (*entries)(struct entry_rule rule, struct rows g, struct rows m, struct rows v,
                    struct rows y);
    /* Waits for all operations of this thread and reports a failure of any of them. An array
     * belongs to the thread that works on it; others may have it after a sync. */
    int (*sync)(struct err *err);
    bool can_split; /* whether a copy of the table may be ... */
    bool split;     /* ... split: arrays keep the blocks of this rank alone */
    bool poisons;   /* whether rows that are of no more use are to become NaN (rows_poison) */
    bool counted;   /* whether rows lie side by side on the host (counted_numbers) */
    /* NULL, or: the host waits long for each number, and a few large operations are faster than
     * many small ones. */
    const struct distant *distant;
};

/* What such a backend does so that its host need not wait (backend_hold, rows_low_rank). */
struct distant {
    void (*hold)(bool begin);  /* NULL: numbers come at once */
    void (*later)(bool begin); /* NULL as well */
    void (*arrive)(const double *numbers, size_t count);
    int (*tell)(struct err *err); /* sync, of what waits have seen: it waits for nothing */
    /* rows_low_rank of y[k] with a[k], for each k < copies. */
    void (*low_rank)(const struct rows *y, const struct rows *a, int copies, double beta,
                     double scale, struct rows x, struct rows b, double *C, bool wanted);
    /* Rows v become what is left of them beside the orthonormal base, orthonormal, each with those
     * before it; one of which no more than `least` is left, or only round-off, becomes zero.
     * nearly: this was done before, so that overlaps with the base, and with rows STRAIGHT places
     * before, are below the root of eps. */
    void (*straighten)(struct rows base, struct rows v, double least, bool nearly);
    void (*take)(struct rows x, const int *which, struct rows out);
    /* out_k = factor a_k^power b_k (NULL: 1), which comes late. Here, as the scale of pointwise,
     * and as c of add and combine, numbers may be still to come themselves, as they were asked for.
     */
    void (*numbers)(double *out, const double *a, double power, double factor, const double *b,
                    size_t count);
};

extern const struct backend backend_cpu;        /* OpenBLAS and OpenMP */
extern const struct backend backend_cpu_single; /* the same in single precision */
extern const struct backend backend_shadow;     /* the same on separate, poisoned memory */
extern const struct backend backend_shadow_single;
extern const struct backend backend_cuda; /* cuBLAS and own kernels; make CUDA=1 */
extern const struct backend backend_cuda_single;
/* This backend has the numbers that are counted, K sites of each row, whatever populations have. */
extern const struct backend backend_counted;
/* Returns its rows as they are, [count][K]; NULL where the array has no memory. */
double *counted_numbers(struct rows rows);
extern const struct backend *const backend_list[]; /* ends with NULL */
#define BACKEND_NAMES "cpu shadow cuda"

/* One-time settings of the libraries underneath (single-threaded BLAS inside blocks). */
void backend_start(int threads);
/* While this thread holds, numbers that operations give to the host (dots, averages, low_rank) may
 * come late: all of them with one wait, at the next end of a hold, whoever began it. Their memory
 * must live until then. */
static inline void backend_hold(const struct backend *backend, bool begin) {
    if (backend->distant && backend->distant->hold)
        backend->distant->hold(begin);
}
/* A device has `later`, a hold whose end waits for nothing: numbers come with any later wait of the
 * thread, or when it asks for them, which it must do before their memory goes: backend_arrive waits
 * where one of these numbers has not come, or of none (NULL) where any has not. */
static inline bool backend_has_later(const struct backend *backend) {
    return backend->distant && backend->distant->later;
}
static inline void backend_later(const struct backend *backend, bool begin) {
    if (backend_has_later(backend))
        backend->distant->later(begin);
}
static inline void backend_arrive(const struct backend *backend, const double *numbers,
                                  size_t count) {
    if (backend->distant)
        backend->distant->arrive(numbers, count);
}
/* sync, except on a device, which tells of what it has failed in until it was last waited for, and
 * so of all that has come from it. */
static inline int backend_check(const struct backend *backend, struct err *err) {
    return backend->distant ? backend->distant->tell(err) : backend->sync(err);
}
/* code, or where that is CODE_NUMERICAL and an operation has failed before, what sync says: the
 * numbers were those of the failure. */
int backend_cause(const struct backend *backend, int code, struct err *err);

/* The table underneath, or itself; rows without their companions; and companions that become what
 * the rows are (companions.c). */
static inline const struct backend *backend_main(const struct backend *backend) {
    return backend->main ? backend->main : backend;
}
struct rows rows_main(struct rows rows);
void rows_follow(struct rows rows);

int array_init(struct array *array, const struct backend *backend, size_t sites, int group,
               int rows, struct err *err);
void array_free(struct array *array); /* accepts a zeroed struct; idempotent */
/* Makes room for k more rows (capacity grows by half) and returns them, uninitialised. */
int array_append(struct array *array, int k, struct rows *rows, struct err *err);
/* Becomes a copy of rows; a zeroed array gets its shape, and its backend if it has none. */
int array_keep(struct array *copy, struct rows rows, struct err *err);
/* At least `rows` rows in use. */
int array_reserve(struct array *array, int rows, struct err *err);
struct rows array_rows(const struct array *array, int first, int count);
struct rows array_all(const struct array *array);
static inline struct rows rows_part(struct rows rows, int first, int count) {
    struct rows part = {rows.array, rows.first + first, count};
    return part;
}
void rows_copy(struct rows x, struct rows y); /* y = x */
/* Copies rows between backends, through the host; their precisions may differ. */
int rows_cross(struct rows x, struct rows y, struct err *err);
static inline void rows_fn(enum fn fn, struct rows x, struct rows value, struct rows slope) {
    x.array->backend->pointwise(fn, NULL, NULL, x, value, slope);
}
static inline void rows_multiply(struct rows a, struct rows b, struct rows y) {
    y.array->backend->multiply(a, b, y);
}
static inline void rows_add(const double *c, struct rows x, struct rows y) {
    y.array->backend->add(c, x, y);
}
/* Rows through a matrix, whose rows W, one for each site of y, lie over the sites of x, and back:
 *
 *     y_k,i = scale <W_i x_k>                 rows_times
 *     x_k,j = scale sum_i y_k,i W_i,j         rows_combine, whose coefficients are the rows y
 *
 * On the processor, in double precision, the sums are those of dots and combine, bit by bit; in
 * single precision those of eight rows and more are numbers of the sites, too. y and a of
 * rows_combine do not overlap. */
int rows_times(double scale, struct rows W, struct rows x, struct rows y, struct err *err);
int rows_combine(struct rows y, double beta, struct coefficients C, struct rows a, struct err *err);
/* C [rows][terms] on the host. */
int rows_coefficients(struct coefficients C, int rows, int terms, double **out, struct err *err);
/* A matrix of low rank meets rows:  y_k = beta y_k + scale sum_l <x_k b_l> a_l. x may be y, y and a
 * do not overlap. C is room for [x.count][b.count] numbers; where they are wanted, it holds
 * scale <x_k b_l> afterwards. */
void rows_low_rank(struct rows y, double beta, double scale, struct rows x, struct rows b,
                   struct rows a, double *C, bool wanted);
/* Some rows of many, number k of them being number which[k], in order: out_k = x_which[k]; the
 * first rows of x go to these places, and all others become 0; and y_which[k] += x_k. */
void rows_take(struct rows x, const int *which, struct rows out);
void rows_spread(struct rows x, const int *which, int count);
void rows_add_at(struct rows x, const int *which, struct rows y);
/* live[k] is not 0 where row k has a number that is not 0; from a device it comes as averages do.
 */
void rows_look_live(struct rows x, double *live);
void rows_scale(double factor, struct rows x);                     /* x *= factor */
void rows_add_scaled(double factor, struct rows x, struct rows y); /* y += factor x */
void rows_poison(struct rows x);                                   /* x = NaN */
static inline void rows_zero(struct rows y) {
    struct rows none = {NULL, 0, 0};
    y.array->backend->combine(y, 0, NULL, none);
}
/* Sites of a block, numbers from a row to the next (rows are padded to multiples of 64 bytes, and
 * never are pages apart, since numbers that are would share a few places of a cache), and bytes of
 * `rows` rows on this rank: of arrays with backend, sites and group, allocated or not. */
size_t array_find_block(const struct array *array);
static inline size_t array_block(const struct array *array) {
    return array->block ? array->block : array_find_block(array);
}
size_t array_find_width(const struct array *array);
static inline size_t array_width(const struct array *array) {
    return array->width ? array->width : array_find_width(array);
}
size_t array_part(const struct array_split *split, int part); /* the first block of a part */
int array_rank(const struct array_split *split, int rank);    /* the first part of a rank */
size_t array_bytes(const struct array *array, int rows);
/* Bytes of an array that has grown to so many rows, with its room for half as many more. */
double array_grown_bytes(const struct array *array, double rows);

#ifdef __cplusplus
}
#endif
