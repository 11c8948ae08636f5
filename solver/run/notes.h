/* What a reader must know of the numbers of a run beyond their errors: warnings, from which time on
 * a number is not what it stands for, and notes. One place collects them, and the screen, the file
 * and the marks of sweeps are made from it. */
#pragma once

#include "kernels/base/base.h"

struct io;
struct run;

/* From so many unmatched normals for each site of a population on, biases of several errors were
 * seen; with fewer, smaller ones (docs/testing_log.md, unmatched normals). */
#define NOTES_UNMATCHED 1.0

/* Halves warn where they take off so many standard errors of bias: 20 runs of networks of which
 * they leave less than a quarter of one had at most 0.33 (docs/testing_log.md, sites of inis). */
#define NOTES_TAKEN 0.35

/* A run warns where the estimated errors of all fixed steps are so large beside f. They are added
 * up as if none faded, and so are one to four times the largest error (docs/testing_log.md). */
#define NOTES_COARSE 0.02
/* A wide network, where a run has none to set beside its limit. */
enum { NOTES_WIDE = 10000 };
enum { NOTES_WORD = 32, NOTES_TEXT = 1600 };

struct note {
    char code[NOTES_WORD];  /* a word for programs, as "edge_of_stability" (docs/output.md) */
    char group[NOTES_WORD]; /* of the file: "limit", "reference/N0064"; "": the whole run */
    char text[NOTES_TEXT];  /* whole sentences; broken lines begin with two blanks */
    int t;                  /* the first time from which it holds; -1: of no time */
    bool warning;           /* with a time: the numbers of the group hold until then */
    bool told;              /* is on the screen already */
};
struct notes {
    int count;
    struct note *note;
};

/* Adds a note; and more to the text of the one that was added last. */
enum { NOTE_WARNS = 1, NOTE_TOLD = 2 };
int notes_add(struct notes *notes, const char *code, const char *group, int t, int kind,
              struct err *err, const char *format, ...) __attribute__((format(printf, 7, 8)));
void notes_more(struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the notes that are not yet on the screen, on standard output. */
void notes_print(const struct notes *notes);
void notes_forget(struct notes *notes, const char *group); /* those of one group */
void notes_free(struct notes *notes);                      /* accepts a zeroed struct; idempotent */

/* Judges limit and networks as far as they came, and adds what is to be said of them to run->notes.
 * Once, when all is collected. */
int notes_collect(struct run *run, struct err *err);
/* /notes, and attributes of /limit and of each /reference/N.... (docs/output.md). */
int notes_write(struct run *run, struct err *err);
