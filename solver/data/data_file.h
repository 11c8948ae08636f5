/* The datasets of a data file (HDF5), as they are stored.
 *
 * libhdf5 may break down in a file that is damaged or made to do harm: a child process tries one
 * first. No link to another file is followed. */
#pragma once

#include "solver/data/data.h"

enum {
    DATA_FILE_RANK = 3,
    DATA_FILE_NAME = 96,
    DATA_FILE_WORD = 32
}; /* DATA_FILE_NAME: bytes of a place or a shape in words; DATA_FILE_WORD: of an array's name */
enum data_file_role {
    DATA_FILE_INPUT,
    DATA_FILE_TARGET,
    DATA_FILE_TEST_INPUT,
    DATA_FILE_TEST_TARGET,
    DATA_FILE_WEIGHT,
    DATA_FILE_TEST_WEIGHT,
    DATA_FILE_SETS
};

struct data_file_set {
    int rank; /* 0: the file has none */
    size_t shape[DATA_FILE_RANK];
    size_t count; /* product of the extents, each in 1 ... INT_MAX */
    bool whole;   /* of an integer type */
    double *value;
};
struct data_file {
    char weight[2][DATA_FILE_WORD]; /* names of the weights, of test inputs too; "": none asked */
    bool tokens;                    /* the inputs are tokens and tokens_test, else X and X_test */
    double vocabulary;              /* attribute V of tokens, or dataset V; 0: neither */
    double floor;                   /* attribute floor_LOSS of the file; NAN: none */
    struct data_file_set set[DATA_FILE_SETS];
};

/* Reads X [P][D] or [P][n][D], or tokens [P][n], and y of one to three axes; X_test or tokens_test
 * with y_test where they are; and the array `weight` [P] (NULL or "": none; below DATA_FILE_WORD -
 * 5 bytes), with WEIGHT_test where it is; and floor_LOSS, the least loss on such data. CODE_INPUT
 * with one sentence naming the file and what is wrong: cannot be opened as HDF5, no such dataset,
 * not numeric, of another rank, empty, more than `most` numbers in inputs or in targets (before
 * anything is allocated), values that are not in this file (external link, virtual dataset,
 * external storage) or were never written, NaN or infinite (with its index, counted from 0),
 * damaged. To be freed in any case. */
int data_file_read(struct data_file *stored, const char *path, const char *weight, const char *loss,
                   size_t most, struct err *err);
/* CODE_INPUT with "data file PATH: " and a sentence. */
int data_file_refuse(const char *path, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void data_file_free(struct data_file *stored); /* accepts a zeroed struct; idempotent */
const char *data_file_name(const struct data_file *stored, enum data_file_role role);
/* "y_test[2][0]": where number k of a set stands. */
void data_file_place(const struct data_file *stored, enum data_file_role role, size_t k,
                     char place[DATA_FILE_NAME]);

/* Targets of a data file: which of the shapes that data.h lists they have, and what they become. */

/* P, tests and n are known; finds per_token and C. */
int targets_shape(struct data *data, const struct data_file *stored,
                  const struct data_wanted *wanted, const char *path, struct err *err);
/* Fills y and finds classes. */
int targets_fill(struct data *data, const struct data_file *stored,
                 const struct data_wanted *wanted, const char *path, struct err *err);

/* Weights of the inputs of a data file: how often each counts in the loss. */
/* Whether there are weights, one for each input, all positive; after the sizes of the inputs. */
int targets_weigh_inputs(struct data *data, const struct data_file *stored, const char *path,
                         struct err *err);
/* Weights over their mean, so that the loss is sum w l/sum w; of test inputs likewise, and 1 where
 * the file has none of these. */
void targets_fill_weights(struct data *data, const struct data_file *stored);
