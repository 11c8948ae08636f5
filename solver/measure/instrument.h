/* What is measured of a net is a list of instruments. An instrument is a function that declares
 * series of the record, each with all that is said of it, and before them the function that fills
 * them; at every time the observer calls these in turn (observe.c). Whoever adds a series writes
 * one function that declares and one that fills, in one file, and puts the former in this list. */
#pragma once

#include "kernels/base/text.h"
#include "solver/measure/record.h"
#include "solver/settings/config.h"

struct observer;

/* One run of a net at one time, after net_evaluate: what series are filled from. */
struct measuring {
    const struct config *config;
    const struct net *net;
    const double *y; /* targets of all inputs, [inputs + tests][outputs] */
    struct record *record;
    struct observer *observer; /* with what instruments keep from time to time */
    int run, t, item;          /* item: what the function that fills was given with its series */
    double *room;              /* what was asked for (record_ask) */
};

/* A record whose series are declared, for one kind of net. */
struct declaring {
    struct record *record;
    const struct config *config;
    const struct net *net; /* declared alone: it has shapes and names, and no numbers */
    const double *y;       /* the targets of observe_declare, or NULL */
};
/* It adds its series, none where the net has not what it measures. */
typedef int instrument(const struct declaring *d, struct err *err);
/* record_add of the series of this slot, under a name as printf makes it. Axes token, row, column
 * and k_row may be of fewer places than an input has tokens, since a mixture of places
 * (program_mix_places) may leave fewer rows, and axes of one name have one length in a file: with 9
 * places they are called place9, row9, column9 and k_row9. */
int series_add(const struct declaring *d, int slot, struct series series, struct err *err,
               const char *name, ...) __attribute__((format(printf, 5, 6)));
/* This adds a series by its fields, which stand behind its name. */
#define SERIES_ADD(d, slot, name, ...) series_add(d, slot, (struct series){__VA_ARGS__}, err, name)
/* The sentences of a series, from a row of a table. */
#define SERIES_TEXT(row) .about = (row).about, .equation = (row).equation
/* The word of this number, from 0, of a list in [output]; false: there are fewer. */
bool instrument_word(const char *words, int number, char word[SERIES_NAME]);
/* All instruments, in the order in which the file has their series. */
#define INSTRUMENTS(ROW)                                                                           \
    ROW(outputs_declare_first)                                                                     \
    ROW(kernel_series_declare)                                                                     \
    ROW(fields_declare)                                                                            \
    ROW(weights_declare)                                                                           \
    ROW(singular_declare)                                                                          \
    ROW(router_statistics_declare)                                                                 \
    ROW(cross_kernels_declare)                                                                     \
    ROW(specialisation_declare)                                                                    \
    ROW(expert_norms_declare)                                                                      \
    ROW(tangent_declare)                                                                           \
    ROW(gradients_declare)                                                                         \
    ROW(sharpness_declare)                                                                         \
    ROW(spectra_declare)                                                                           \
    ROW(kernel_series_declare_numbers)                                                             \
    ROW(gates_declare)                                                                             \
    ROW(limit_series_declare_norm)                                                                 \
    ROW(limit_series_declare_steps)                                                                \
    ROW(coordinate_declare)                                                                        \
    ROW(limit_series_declare)                                                                      \
    ROW(carriers_declare)                                                                          \
    ROW(response_declare)                                                                          \
    ROW(still_declare)                                                                             \
    ROW(outputs_declare_last)
#define DECLARE_INSTRUMENT(name) instrument name;
INSTRUMENTS(DECLARE_INSTRUMENT)
#pragma GCC diagnostic error "-Wmissing-prototypes" /* of an instrument that is not in the list */

/* --- what single instruments have for others, in files of these names --- */

/* The series f, of P inputs, with an axis of tokens and one of outputs if there are several. */
struct series outputs_f(const struct data_setup *data, int P);
/* The class that a row of targets asks for, of one output 0 or 1 by the sign; -1: none. */
int outputs_class(int C, const double *y);
/* Evaluates the test inputs where time t asks for it, and fills their series. The net stays. */
int outputs_predict(const struct measuring *m, struct net *net, struct err *err);

/* Appends to text [TEXT_NOTE] why some or all responses of a limit that were asked for are not
 * measured; nothing where all are. */
int response_tell(const struct config *config, const struct net_setup *setup, char *text,
                  struct err *err);

/* How many rows over these sites measuring takes: few where sites are many, since the operating
 * system clears large memory anew each time. */
int carriers_rows(const struct array *array);

#define STILL_SERIES "still"
/* Nothing is said of fewer times: with a read-out of zero, what lies below begins a step later. */
#define STILL_TIMES 5

enum still {
    STILL_MOVES,
    STILL_READS_NOTHING, /* the rows that it acts on are 0 */
    STILL_UNANSWERED,    /* the cotangent of what it gives is */
    STILL_ONE_GATE,      /* because a softmax over one selected expert is 1 */
    STILL_CAUSES
};

/* Names what did not move in any run that went to the end, for this cause. net: a declared one. */
void still_find(const struct record *record, const struct net *net, enum still cause,
                struct text_names *names);

/* The mutual information, in nats, of an expert and a label, sum_l w_l sum_i q_l,i ln(q_l,i/q_i),
 * where the expert of row r is i with probability q [r][M] and q_l are means over the rows of label
 * l, 0 ... labels - 1; rows with a negative label are left out, and with none left it is 0. scratch
 * [labels + 1][M]. */
double specialisation_information(const double *q, int rows, size_t M, const int *label, int labels,
                                  double *scratch);

/* One matrix, or the family of those that a fixed number of experts have. */
struct expert_matrix {
    const struct net_router *router;
    const struct node *node; /* the first of a family */
    bool target;             /* many experts: its target has their units, else its source */
};

/* What item r nodes + i stands for, r < net->routers, i a node; false: nothing. */
bool expert_norms_find(const struct net *net, int item, struct expert_matrix *matrix);
/* The square of the norm of the gradient, or of the change, of each expert: out [experts]. */
int expert_norms_squares(const struct net *net, const struct expert_matrix *matrix, bool change,
                         double *out, struct err *err);

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
