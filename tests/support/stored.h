/* Limits beside those that other programs computed (data/ref; ABOUT of each folder says how):
 * z = (ours - stored)/sqrt(se^2 + se_stored^2), and |z| <= 4 at every time but the first.
 *
 * A standard error of n runs is itself uncertain by 1/sqrt(2 (n - 1)), and stored limits have 2 to
 * 8 runs. So each is replaced by the root mean square of its neighbours, those at t - 1, t and t +
 * 1 and of all inputs that a series has; both sides alike, and never over quantities. */
#pragma once

#include "tests/support/support.h"

#include <hdf5.h>

/* A quantity at every time, mean and standard error [T][columns], of so many runs. */
struct course {
    int T, columns, runs;
    double *mean, *se;
};
void course_free(struct course *c);

/* data/ref/NAME.h5, to be closed: FREED(close_file). */
hid_t stored_open(const char *name);
void close_file(hid_t *file);
/* /limit/NAME of the file with NAME_se. All that stands behind the time is a column. */
void stored_course(struct course *c, hid_t file, const char *name);
/* Our series of this name, or a kernel at equal times. */
void own_course(struct course *c, const struct record *record, const char *name);
/* Leaves columns first, first + step, ..., as many as `count`. */
void course_pick(struct course *c, int first, int count, int step);
/* The mean loss over runs has half the variance of f of one run in it, (1/2P) sum_mu n se_f^2,
 * which depends on method and sites: it is taken out, where ours is the loss of the mean output. */
void course_subtract_variance(struct course *loss, const struct course *f, int P);

/* What is known of errors. Numbers were stored with so many digits: `rounding`, and `share` of the
 * number, are taken off a difference before it is judged. */
struct course_rule {
    bool each;     /* a column is no neighbour of another */
    bool relative; /* errors of neighbours are alike relative to their means */
    double exact;  /* an error below tells that all runs agree: it is no neighbour, and where it is
                    * so on both sides `rounding` stands for the error, which has the truncation of
                    * our bases in it, too */
    double rounding, share;
};
/* That of column k at time t, from its neighbours. */
double course_error(const struct course *c, const struct course_rule *rule, int t, int k);

struct score {
    double largest, squares; /* |z|, sum of z^2 */
    int count;
};
/* Prints what is beyond 4. */
void score_add(struct score *score, const char *what, int k, int t, double got, double want,
               double z);
/* All columns of the two at times 1 to `last`. */
void course_judge(struct score *score, const char *what, const struct course *ours,
                  const struct course *stored, const struct course_rule *rule, int last);
/* Judges the loss, and hands out f of both sides to whoever judges it. */
void course_judge_loss(struct score *score, hid_t file, const struct record *record,
                       const struct course_rule *rule, int P, struct course *f,
                       struct course *stored_f);
/* Fails beyond 4, and where the rms is larger than this one: entries share runs, so that their z
 * move together. */
void score_end(const struct score *score, const char *name, double rms);

/* <sigma(h)^2> of tanh at the start, h normal of variance |X_mu|^2/D. */
double stored_start(const struct data *data, int mu);
