/* What is measured of a net is a list of instruments. An instrument is a function that declares
 * series of the record, each with all that is said of it, and before them the function that fills
 * them; at every time the observer calls these in turn (observe.c). Whoever adds a series writes
 * one function that declares and one that fills, in one file, and puts the former in this list. */
#pragma once

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
