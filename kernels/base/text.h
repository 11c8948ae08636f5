/* Words, trimming, cutting and nearest names: the text work behind the ini file. */
#pragma once

#include "kernels/base/base.h"

enum {
    TEXT_CLIP = 64,      /* bytes of a user's word in a message */
    TEXT_CLIP_SIZE = 72, /* the same with "..." */
    TEXT_SHOWN = 160,    /* bytes of a label in a message */
    TEXT_NOTE = 1024,    /* a sentence */
    TEXT_NAMES = 16,     /* things that a sentence names */
};

/* A part of a string, not terminated. */
struct text_word {
    const char *text;
    size_t length;
};

/* Appends to the string in note[TEXT_NOTE]; what does not fit is cut off. */
void text_append(char *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends so what a function is given behind its parameter `format`. */
#define TEXT_APPEND_ARGUMENTS(note, format)                                                        \
    PRINT_ARGUMENTS((note) + strlen(note), TEXT_NOTE - strlen(note), format)

/* Makes a sentence that may have been cut, or names a file, UTF-8, which JSON and HDF5 ask for:
 * bytes at its end that begin a letter are taken off, and others that are no UTF-8 become '?'. */
void text_mend(char *text);
/* Bytes of the character of UTF-8 that so many bytes begin with, and its code, below TEXT_CODES; 0:
 * they begin with none. */
enum { TEXT_CODES = 0x110000 };
size_t text_character(const char *bytes, size_t size, int *code);
/* The first byte of a control character other than a tab, or that is not UTF-8; NULL: none. */
const char *text_find_bad(const char *text);
/* Cuts a long text between characters; returns out. */
const char *text_clip(char out[TEXT_CLIP_SIZE], const char *text);
/* What messages call a thing: its name, by which settings address it, and behind it in brackets the
 * label that its author gave it (NULL: none), whose middle is left out where it is long. name: at
 * most 32 bytes. */
struct text_shown {
    char text[TEXT_SHOWN + 48];
};
struct text_shown text_shown(const char *name, const char *label);
/* The text of a struct that has a name and a label; it lives as long as the call that is given it.
 */
#define TEXT_SHOWN_OF(thing) text_shown((thing)->name, (thing)->label).text
/* Names in a sentence: the first TEXT_NAMES, or fewer where they are long, and how many others
 * there are. Zeroed, it has none. */
struct text_names {
    char text[TEXT_NOTE];
    int count, told;
    size_t end; /* of those that are told */
};
void text_name(struct text_names *names, const char *name);
/* What stands behind the "=" of an ini, in place: without the blanks around it and without a
 * comment, which begins with # or ; behind a blank. Between double quotes it is what stands there,
 * "" for a quote. NULL: no quote at the end, or more behind it than a comment. */
char *text_value(char *text);
/* Whether nothing follows but blanks and a comment. */
bool text_ends(const char *text);
/* Whether it has to stand between quotes there. */
bool text_wants_quotes(const char *value);
/* Takes blanks off both ends in place; returns the new beginning. */
char *text_trim(char *text);
/* The next word at *cursor, which moves behind it; false at the end. */
bool text_next_word(const char **cursor, const char *separators, struct text_word *word);
bool text_same(struct text_word a, struct text_word b);
bool text_is(struct text_word word, const char *text);
/* Whether two texts are the same up to a "=" or their ends, wherever they have blanks: the keys of
 * lines "section.key = value". */
bool text_same_key(const char *a, const char *b);
/* Whether the word is one of these, with blanks between them; words may be NULL. */
bool text_lists(const char *words, const char *word);

/* A copy that lives as long as the program runs, the same for the same text; NULL without memory.
 * By any thread. */
const char *text_keep(const char *text);

/* The nearest of several names to the given one. */
struct text_nearest {
    const char *given;
    size_t distance;
    struct text_word name; /* length 0: nothing near enough */
};
void text_nearest_try(struct text_nearest *nearest, struct text_word name);
void text_nearest_tell(const struct text_nearest *nearest, char *note); /* "; did you mean ..." */
