/* The loss of the limit. Its outputs do not fluctuate: it is the loss of the mean of f over
 * replicates, where the mean of the losses would have half the variance of f of one replicate. */
#pragma once

#include "integrators/integrator.h"
#include "models/engine/net.h"
#include "solver/measure/record.h"

/* Rows of outputs and of their targets. */
struct mean_loss_rows {
    const double *y; /* targets of all inputs; copied */
    const struct data_setup *data;
    int first, inputs; /* that the series `of` is about */
    bool batches;      /* of `inputs` those in the batch of their step, else all */
    double scale;      /* of the loss */
};

/* The series `name`, dims "t", becomes the loss of the mean of the series `of`, [t] and rows. */
int mean_loss_set(const struct record *record, const char *name, const char *of,
                  const struct training *training, const struct mean_loss_rows *rows,
                  struct err *err);
