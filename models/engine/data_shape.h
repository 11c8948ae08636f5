/* What a data set looks like, whatever its numbers are: one struct, for those who read data (struct
 * data), for networks (struct data_setup), and for checks before anything is read. */
#pragma once

#include <stdbool.h>

#define DATA_SHAPE_PARTS                                                                           \
    int tests;      /* inputs that are only predicted */                                           \
    int n;          /* rows (tokens) of an input; 1: an ordinary input */                          \
    int D;          /* numbers of a row */                                                         \
    int C;          /* outputs */                                                                  \
    int V;          /* vocabulary; 0: no token numbers. D > V: rows know their place, too */       \
    bool per_token; /* targets for each token, else for each input */                              \
    bool classes;   /* targets are one-hot classes, or +-1 with C = 1: accuracy makes sense */     \
    bool numbered;  /* targets are numbers of classes, -1 where nothing is asked, not rows of C */
struct data_shape {
    DATA_SHAPE_PARTS
};
/* A field of other structs: the whole, and its parts as if they were theirs. */
#define DATA_SHAPE                                                                                 \
    union {                                                                                        \
        struct data_shape shape;                                                                   \
        struct {                                                                                   \
            DATA_SHAPE_PARTS                                                                       \
        };                                                                                         \
    }
