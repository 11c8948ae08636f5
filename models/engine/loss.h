/* The losses that a network can be trained with, one row for each.
 *
 * A loss l(f, y) is of one row of outputs f [C] and of its targets y [C]. The gradient of the whole
 * loss, the mean of w l over inputs (and tokens), is carried back through Delta = -w dl/df, where w
 * is the weight of the input, 1 unless the data say otherwise. Whoever
 * adds a loss writes its row in loss.c and enters it in loss_list: the key [training] loss, its
 * help, the checks of targets, the equation in the file and the tests follow from the row. */
#pragma once

#include "kernels/base/key.h"

/* What the targets of a loss are: which data may be given, and how many outputs there are. */
enum loss_targets {
    LOSS_TARGETS_NUMBERS, /* any numbers; any C */
    LOSS_TARGETS_SIGNS,   /* +1 or -1; C = 1 */
    LOSS_TARGETS_CLASSES  /* rows that add up to 1, or zeros where nothing is asked; C >= 2 */
};

struct loss {
    struct choice choice; /* first: a key chooses among losses */
    const char *equation; /* l(f, y) as plain text, for the attribute of the series in the file */
    const char *tex;      /* the same in TeX, for pictures and pages */
    enum loss_targets targets;
    /* NULL, or what `value` is to find in Delta, of all rows at once: f and Delta are [rows][C]. */
    void (*begin)(int rows, int C, const double *f, double *Delta);
    /* Returns l and writes Delta [C] = -dl/df; Delta may not be f or y. */
    double (*value)(int C, const double *f, const double *y, double *Delta);
    /* H [C][C] = d^2 l/df df', which has no negative eigenvalue; of a kink 0. */
    void (*curvature)(int C, const double *f, const double *y, double *H);
};

/* The losses there are; NULL at the end. The first is the default. */
extern const struct choice *const loss_list[];
extern const struct loss loss_mse, loss_logistic, loss_cross_entropy; /* what others ask for */

/* Its targets in a word: "numbers", "signs" or "classes". */
const char *loss_targets(const struct loss *loss);
/* l and Delta of an input that counts `weight` times; and where the loss has begun with it. */
double loss_weighted(const struct loss *loss, double weight, int C, const double *f,
                     const double *y, double *Delta);
double loss_begun(const struct loss *loss, double weight, int C, const double *f, const double *y,
                  double *Delta);
/* Row k of the list, for loops over all losses; NULL behind the last. */
const struct loss *loss_row(size_t k);
/* Appends to note [TEXT_NOTE] the names of the losses whose targets are of this kind, joined by
 * "or": the remedy in messages. */
void loss_name(enum loss_targets targets, char *note);
