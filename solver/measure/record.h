/* What a run measures: named arrays over time, one copy per replicate of the limit or per seed of
 * a finite network, and their mean and standard error.
 *
 * Time is the first axis (or the number of a sweep: `axis`); entry t is measured before update t. A
 * run that was stopped or has failed has recorded steps[run] <= T times; averages at t are over the
 * runs that reached t. */
#pragma once

#include "kernels/archive.h"
#include "kernels/base/key.h"

#define SERIES_AXES 31 /* an HDF5 array has one more, for runs */
/* The longest are cosine_PENALTY_PENALTY_MATRIX_approach_se, of names below NET_NAME each. */
#define SERIES_NAME 96

/* The times along the first axis of a series: all of them, or a list of its record. */
enum series_times { TIMES_ALL, TIMES_FIELDS, TIMES_WEIGHTS, TIMES_KINDS };
struct record_times {
    const char *axis;
    struct int_list list; /* ascending; of TIMES_ALL empty */
};

/* A function of the mean over runs of another series, at each time by itself. The function of one
 * run's values has a bias that does not fall with the number of runs (half their variance times its
 * curvature). Hence the jackknife: of n runs, with value(-r) that of the mean without run r, the
 * mean and the standard error are those of the pseudo-values
 *
 *     n value - (n - 1) value(-r)
 *
 * whose bias is that of order 1/n^2 of value, and none where the function is quadratic. */
struct of_mean {
    char of[SERIES_NAME];
    /* At (sum - without)/count; without: NULL, or one run's values. */
    double (*value)(const void *context, int t, const double *sum, const double *without,
                    int count);
    void *context;        /* one block */
    double *sum, *pseudo; /* scratch; [runs][T] */
};

/* One quantity. dims names the axes, blank-separated, times first; no two series have one name. */
struct series {
    char name[SERIES_NAME];
    int slot;                            /* its place among the series of one filler, from 0 */
    const char *dims, *about, *equation; /* about, equation: sentences for the reader */
    const char *label;                   /* NULL, or what the author of the network calls it */
    const char *tex;                     /* NULL, or the equation in TeX, for pictures */
    int axes;                            /* as many as dims names; record_add counts them */
    enum series_times times;
    size_t shape[SERIES_AXES]; /* shape[0], T or the number of its times, comes from record_add */
    size_t size;               /* product of shape */
    bool no_error_law;         /* jumps, or an extreme: no 1/N law and no normal errors */
    /* What can be the same in all runs by chance, whose error is then not known: anything that is
     * counted, such as a load or an accuracy; 0 where a selection leaves something out. */
    bool counted, left_out;
    bool positive;           /* above 0 by nature: halves correct its logarithm */
    bool keep_runs;          /* also stored run by run, as NAME_runs with first axis "run" */
    bool first_run;          /* of run 0 alone, with neither mean nor error */
    bool runs_alone;         /* stored run by run alone, NAME with first axis "run" */
    bool inner;              /* not stored: others are found from it */
    bool computation;        /* tells of the computation, and has no error of tolerance */
    double *values;          /* [runs][size], or [size] */
    struct of_mean *of_mean; /* NULL, or what its mean is instead of that of values */
};

/* A row of a table of series: a name, or what a name begins or ends with, and two sentences. */
struct series_text {
    const char *name, *about, *equation;
};

/* Writes the values of some series at one time of one run. out
 * [slots]: where the series of this slot goes, NULL where there is none. */
struct measuring; /* instrument.h */
typedef int record_fill(const struct measuring *m, double *const *out, struct err *err);
/* Asks for numbers of the rows of a net, which come into m->room before the series are filled. */
typedef int record_ask(const struct measuring *m, struct err *err);
struct filler {
    record_fill *fill;
    record_ask *ask; /* NULL: it fills at once */
    size_t room;     /* numbers; of those of a device each filler has its own place */
    bool forward;    /* it asks about rows of the forward pass alone */
    int item;
    int first, count; /* of its series in the record */
};

/* Why a run failed: what it computes explodes, its bases need more sites than it has, or its steps
 * or sweeps do not come to what their tolerance asks for. */
enum record_cause { CAUSE_NONE, CAUSE_DIVERGED, CAUSE_SITES, CAUSE_TOLERANCE, CAUSES };

struct record {
    /* NULL, or [2], each with all runs: run r with the first and the second half of its sites. An
     * average over S sites that share what they average has a bias b/S in what follows from it
     * (docs/method.md, section 3): of a run, x - (mean of halves - x) stands for x. Where x is a
     * sum over sites halves and whole fluctuate together, so the error hardly grows. */
    const struct record *half;
    double *whole; /* scratch for that, [runs][largest size] */
    /* NULL, or run 0 with a finer tolerance: what that changes is part of all errors. */
    const struct record *finer;
    struct record_times times[TIMES_KINDS]; /* axes "t", "at", "kept" */
    const char *named;                      /* of the axis whose entries have names: "basis" */
    bool no_inputs; /* series of single inputs (axes mu and nu) are left out, but for inner ones */
    int runs, T;
    int *steps;               /* [runs] times recorded */
    bool *failed;             /* [runs] ended by a numerical failure, which the others outlived */
    enum record_cause *cause; /* [runs] why */
    struct err failure;       /* of the first of these */
    int count;
    struct series *series;
    int fillers, slots; /* slots: the most that a filler is given */
    struct filler *filler;
    /* NULL, or the numbers along the axis "probability". */
    const double *probability;
    int probabilities;
    char **labels; /* names along the axis `named`, one block that belongs to the record; or NULL */
};

/* runs = 0: shapes alone, without memory for values. */
int record_init(struct record *record, int runs, int T, struct err *err);
/* The series that are added from here on, until the next call, are filled by this function, which
 * is given so many slots. */
int record_fill_by(struct record *record, record_fill *fill, int item, int slots, struct err *err);
/* That function finds in m->room what this one has asked for, `room` numbers. */
void record_ask_by(struct record *record, record_ask *ask, size_t room, bool forward);
/* Adds a series (values NaN), whose strings must outlive the record. shape[0] becomes the number of
 * its times. CODE_INPUT where there is a series of this name. */
int record_add(struct record *record, struct series series, struct err *err);
/* Once all series are there. A group of the file holds for each NAME also what io_record derives
 * from it (NAME_se, NAME_runs, NAME_pseudo, NAME_tolerance), a scale for each axis, and a few
 * arrays of its own. CODE_INPUT with a sentence where two of these would have one name, whoever
 * gave it: a built-in network, one in C or one in Lua; and where there are more arrays than a file
 * takes, NAME_tolerance only with the error of the tolerance. */
int record_check_names(const struct record *record, bool tolerance, struct err *err);
/* The first `steps` times of a run, the same however many there are in all. */
int record_archive(struct record *record, int run, int steps, struct archive *archive,
                   struct err *err);
/* A series with dims "t" becomes a function of the mean of the series `of`; only `of`, `value` and
 * `context`, which now belongs to the record, are set by the caller. */
int record_set_of_mean(const struct record *record, const char *name, struct of_mean of_mean,
                       struct err *err);
/* Room for so many names along the axis `named`, SERIES_NAME bytes each with their end. */
int record_name_axis(struct record *record, size_t count, struct err *err);
void record_free(struct record *record); /* accepts a zeroed struct; idempotent */
struct series *record_find(const struct record *record, const char *name); /* NULL if absent */
/* Its values at t; NULL where it has none: at a time that is not among its own, and of another run
 * of a series of the first run alone. */
double *record_at(const struct record *record, const struct series *series, int run, int t);
/* The time of row `row` along its first axis. */
int record_time(const struct record *record, const struct series *series, size_t row);
/* Whether it has a mean over runs, and errors of sampling and of tolerance. */
bool record_averages(const struct series *series);

/* half: two records of as many runs, which must outlive it. */
int record_set_half(struct record *record, const struct record *half, struct err *err);
/* What mean and standard error are made of, [runs][size]: values, those that stand for them with
 * halves, or pseudo-values where two runs or more reached t; to be read before the next call. Not
 * by two threads at once. */
const double *record_values(const struct record *record, const struct series *series);
/* difference[size]: run 0 minus what it is with the finer tolerance, NaN where one of them has not
 * been; false: none is known of this series. */
bool record_tolerance(const struct record *record, const struct series *series, double *difference);
/* mean[size], se[size], of a series that is not stored run by run alone; se is NaN where fewer than
 * two runs reached t, and where all agree on what is counted, or on 0 of what may be left out; mean
 * where none reached it; se contains, in quadrature, record_tolerance. Sums in the order of runs.
 * Entries with t in two axes ("t ... s ...") count runs that reached the later of both times. */
void record_statistics(const struct record *record, const struct series *series, double *mean,
                       double *se);
/* The statistics of the series of this name, if there is one with a mean: *mean and *se, one block
 * to be freed as *mean; else both stay as they are. */
int record_average(const struct record *record, const char *name, double **mean, double **se,
                   struct err *err);
/* Runs that reached t. */
int record_reached(const struct record *record, int t);
/* How many have failed, and the first of them (runs: none). */
int record_failures(const struct record *record, int *first);
/* A series with a value beyond RECORD_MOST at t, or NULL: no error can be made of its square. */
#define RECORD_MOST 1e150
const char *record_overflow(const struct record *record, int run, int t);
