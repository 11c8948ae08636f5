/* What several tests share. Tests run from the top folder of the project. */
#pragma once

#include "models/engine/node.h"
#include "solver/measure/stats.h"
#include "solver/run/run.h"

#include "tests/support/test.h"

/* Fails the test with the program's own sentence. */
#define ASK(call)                                                                                  \
    do {                                                                                           \
        struct err ask_ = {0};                                                                     \
        struct err *err = &ask_;                                                                   \
        if (call)                                                                                  \
            fail_msg("%s:%d: %s", __FILE__, __LINE__, ask_.text);                                  \
    } while (0)

/* |got - want| <= tolerance, printing both and the share of the tolerance that was used. */
#define CHECK_ABS(got, want, tolerance, ...)                                                       \
    support_check(__FILE__, __LINE__, got, want, tolerance, __VA_ARGS__)
void support_check(const char *file, int line, double got, double want, double tolerance,
                   const char *what, ...) __attribute__((format(printf, 6, 7)));

/* Declares a run and a net of it, which the end of the test frees. */
#define RUN_AND_NET                                                                                \
    FREED(run_free) struct run run;                                                                \
    FREED(net_free) struct net net
/* The same of a run and a record, or of two of both. */
#define RUN_AND_RECORD                                                                             \
    FREED(run_free) struct run run;                                                                \
    FREED(record_free) struct record record
#define TWO_RUNS_AND_RECORDS                                                                       \
    FREED(two_runs_free) struct run run[2];                                                        \
    FREED(two_records_free) struct record record[2]

/* Makes a folder under $TMPDIR (default /tmp) whose name begins so, and returns its path, which the
 * caller frees; NULL where that fails. tests/run.sh removes what tests leave there. */
char *support_folder(const char *name);

/* A configured run (no output file): the ini, a file or its text, and a NULL-terminated list of
 * "section.key=value". */
void support_run(struct run *run, const char *file, const char *const *overrides);
/* The same of an ini given as its text (as by printf). */
void support_run_text(struct run *run, const char *const *overrides, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The run of data/NAME.ini of a network made small: six times, few sites, four inputs, one width of
 * 16. False where the overrides do not fit the network, which is printed. */
bool support_small(struct run *run, const struct model *model, const char *const *overrides);
/* A fresh net: width N (0: limit) and number of the replicate or seed. */
void support_net(struct net *net, const struct run *run, int N, int replicate);
/* The same, evaluated once. */
void support_begin(struct net *net, const struct run *run, int N, int replicate);
/* net_evaluate with the run's targets and loss. */
void support_evaluate(struct net *net, const struct run *run);
void support_learn(struct net *net, const struct run *run);
/* The next step of an evaluated net, which is evaluated again. */
void support_step(struct net *net, const struct run *run);
/* So many steps, of which each begins with an evaluation. */
void support_train(struct net *net, const struct run *run, int steps);
/* Judges a finite network of width N by finite differences, every stride-th entry of every
 * parameter after two steps: a step equals -rate dL/dW with the rate that models/language/program.h
 * states, eta0 gamma0^2 lambda n/(m s_f^2) for a map from m to n sites, eta0 gamma0^2 lambda n for
 * a thin matrix, without n for host numbers. Tolerance: the loss is of order one and known to about
 * 1e-15, so at h = 1e-4 a difference carries 1.5e-11 of round-off; ten times that. Truncation,
 * h^4/30 times a fifth derivative, is below 1e-15. Logits at the edge of a mask must be further
 * apart than the 2 h they are moved by (a mask that flips inside a difference shows as an error of
 * order one). */
void support_gradient(const struct run *run, int N, int stride);
/* The same of a fresh net, whatever its program is. */
void support_gradient_of(struct net *net, const struct run *run, int stride);
/* The entries of an explicit matrix: rows over the source sites. */
struct array *support_entries(const struct map *map);
/* The matrix of a finite map, explicit or history, [target sites][source sites], to be freed. */
double *support_matrix(const struct map *map);
/* The mean of f(h), h normal of this variance: the trapezoidal rule, exact to round-off for smooth
 * functions. */
double support_normal_mean(double variance, double (*f)(double));
/* Mean and standard error over the runs of a record of one entry of a series. */
void support_entry(const struct record *record, const char *name, size_t entry, double *mean,
                   double *se);
/* The same of the networks of so many widths. */
void support_means(const struct record *networks, int widths, const char *name, size_t entry,
                   struct stats_mean *mean);
/* All replicates or seeds of a run, width N (0: limit). */
void support_ensemble(struct run *run, int N, struct record *record);
/* One replicate or seed of an ini with overrides, as in support_run; to be freed. */
void support_one(const char *file, const char *const *overrides, int N, struct record *record);
/* Entry k of a series at time t of run r. */
double support_value(const struct record *record, const char *name, int r, int t, size_t k);
/* Fails unless all series of a record are in the other one, bit for bit. */
void support_same(const struct record *record, const struct record *other);
/* Where two records of the same series first differ by a bit within the first T times of the runs
 * that both have; either may have other times behind them. NULL: nowhere. */
const char *support_differs(const struct record *a, const struct record *b, int T);
/* Fails where they do. */
void support_same_times(const struct record *a, const struct record *b, int T, const char *what);
/* dst [count][sites] = factor times the values of rows. */
void support_copy(double *dst, struct rows rows, double factor);
/* Of a matrix that learns, by its name (as by printf). */
struct map *support_map(const struct net *net, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct thin *support_thin(const struct net *net, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
double *support_numbers(const struct net *net, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Values of the numbers that a net measures under this name. */
const double *support_measured(const struct net *net, const char *name);
/* The node of the matrix of this name. */
const struct node *support_weight(const struct net *net, const char *name);
const struct model *support_model(const char *name);
/* Values of rows [count][sites], to be freed. */
double *support_get(struct rows rows);
/* For FREED, of an array of two. */
void two_runs_free(struct run (*runs)[2]);
void two_records_free(struct record (*records)[2]);
void two_nets_free(struct net (*nets)[2]);
