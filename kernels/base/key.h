/* A declared key of the ini file, and lists of numbers: what rows of keys are written with,
 * wherever a part of the program has keys of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A declared key of the ini file. The row alone drives default, check, help and record. */
enum param_type {
    PARAM_INT,     /* int; 0 where it is one of the words in choices, if there are any */
    PARAM_SEED,    /* uint64_t */
    PARAM_REAL,    /* double */
    PARAM_CHOICE,  /* int, the index in choices */
    PARAM_CHOICES, /* struct int_list of such, one or more, all different */
    PARAM_ROW,     /* const struct choice *, one of those in choices */
    PARAM_TEXT,    /* const char *, owned by struct params; "" when empty */
    PARAM_PATH,    /* the same, of a file or folder: params_path says where it is */
    PARAM_INTS,    /* struct int_list, blank-separated, may be empty */
    PARAM_REALS    /* struct real_list, likewise */
};
#define INT_LIST_MAX 32
struct int_list {
    int count;
    int value[INT_LIST_MAX];
};
#define REAL_LIST_MAX 1024
struct real_list {
    int count;
    double value[REAL_LIST_MAX];
};
/* One thing of a kind that a key chooses from: a loss, an optimizer, a network. The struct of the
 * kind begins with this one, or its fields, so that a pointer to it is a pointer to the thing.
 * keys: blank-separated, those of the same section that this thing reads; or NULL. */
#define CHOICE_FIELDS const char *name, *doc, *keys
struct choice {
    CHOICE_FIELDS;
};
/* The row of such a thing, kind_NAME, by its text, its keys and the other fields of its kind. */
#define CHOICE(kind, called, text, keys, ...)                                                      \
    const struct kind kind##_##called = {.choice = {#called, text, keys}, __VA_ARGS__}
struct param_row {
    const char *key;
    enum param_type type;
    size_t offset;     /* in the struct of its section */
    const char *value; /* default as text; NULL: must be given */
    double min, max;   /* closed range of numbers and of every list element; unused if equal */
    /* PARAM_CHOICE and PARAM_CHOICES have their words here, blank-separated, and PARAM_INT those
     * that may stand in the place of a number; PARAM_ROW has its things, a const struct choice
     * *const [], NULL at the end; all others NULL. */
    const void *choices;
    /* The row is used only then: "key=choice|choice" names choices of an earlier key of the same
     * section; "key" alone, of a PARAM_ROW, means the choices whose `keys` contain this row, and
     * several such keys, blank-separated, that any of them does. */
    const char *when;
    /* A sentence or more, which begins with what the value is; the first should say enough for a
     * list of keys. Of a PARAM_CHOICE and PARAM_CHOICES then a line for each word, "\n  word: what
     * it does"; of a PARAM_ROW the things say it themselves. */
    const char *doc;
};

/* What a section with free keys gives (struct param_section): NAME = FACTOR N^POWER, in the order
 * of the names, and powers of other quantities, which are numbers once the configuration is whole
 * (factor_quantities in solver/settings/param_keys.h): they are then multiplied into the factor. */
enum { FACTOR_QUANTITIES = 7 };
struct factor {
    const char *name;
    double factor, power; /* factor >= 0; power 0: the same at every width */
    double powers[FACTOR_QUANTITIES];
};
struct factor_list {
    int count;
    struct factor *factor; /* as the names, owned by struct params */
};

/* What a section whose free keys are words gives: NAME = TEXT, in the order of the names. */
struct word {
    const char *name, *text;
    bool read; /* somebody has asked for it */
};
struct word_list {
    int count;
    struct word *word;
};
