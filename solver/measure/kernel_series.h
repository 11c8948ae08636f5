/* The kernels that a network measures, in the form that [output] kernels asks for, and the host
 * numbers that it writes by itself. */
#pragma once

#include "solver/measure/instrument.h"

/* The name of a kernel of the net: of cotangents with their term (gradients.h), G1 or G1_loss. */
void kernel_series_name(char name[SERIES_NAME], const struct net *net, const struct kernel *kernel);
/* A series of a kernel, or of numbers, of a term; ending: "" of all times, "_diag" or "_equal". */
int kernel_series_add(const struct declaring *d, const struct kernel *kernel, const char *term,
                      int slot, const char *ending, struct err *err);
int kernel_series_add_numbers(const struct declaring *d, const struct numbers *numbers,
                              const char *term, int slot, struct err *err);

/* With full kernels, the rows of all earlier times. */
struct kernel_history {
    struct array *rows; /* [kernels], each [T * P] or [T] */
    int kernels;
};
int kernel_history_init(struct kernel_history *history, const struct config *config,
                        const struct net *net, struct err *err);
int kernel_history_archive(struct kernel_history *history, struct archive *archive,
                           struct err *err);
void kernel_history_free(struct kernel_history *history); /* accepts a zeroed struct */

/* Two-time kernels of single experts (expert_kernels.c). Declares those of kernel number `item` of
 * the net, behind its own filler, which keeps the rows of all times. There are none but for rows
 * over units of experts that [output] kernels_of names. */
int expert_kernels_declare(const struct declaring *d, int item, struct err *err);
