/* A declared key: what it allows, and its value from its text. Each parser appends a sentence to
 * note and returns false if it refuses. */
#include "solver/settings/row.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void describe_range(const struct param_row *row, char *note) {
    bool low = row->min > -DBL_MAX, high = row->max < DBL_MAX;
    if (row->min == row->max && (row->type == PARAM_INT || row->type == PARAM_INTS))
        text_append(note, ", %d to %d", INT_MIN, INT_MAX);
    else if (row->min == row->max && row->type == PARAM_SEED)
        text_append(note, ", 0 to %llu", (unsigned long long)UINT64_MAX);
    else if (row->min == row->max)
        return;
    else if (low && high)
        text_append(note, ", %.15g to %.15g", row->min, row->max);
    else if (low)
        text_append(note, ", at least %.15g", row->min);
    else if (high)
        text_append(note, ", at most %.15g", row->max);
}

void row_describe(const struct param_row *row, char *note) {
    const char *cursor = row->choices;
    struct text_word word;
    switch (row->type) {
    case PARAM_INT:
    case PARAM_SEED:
        text_append(note, "an integer");
        break;
    case PARAM_REAL:
        text_append(note, "a number");
        break;
    case PARAM_INTS:
        text_append(note, "none or up to %d integers", INT_LIST_MAX);
        break;
    case PARAM_REALS:
        text_append(note, "none or up to %d numbers", INT_LIST_MAX);
        break;
    case PARAM_TEXT:
        text_append(note, "text");
        return;
    case PARAM_CHOICES:
    case PARAM_CHOICE:
        text_append(note, row->type == PARAM_CHOICE ? "one of" : "one or several of");
        while (text_next_word(&cursor, " ", &word))
            text_append(note, " %.*s", (int)word.length, word.text);
        return;
    }
    describe_range(row, note);
}

void row_describe_when(const struct param_row *row, char *note) {
    const char *cursor = row->when;
    struct text_word word;
    text_next_word(&cursor, "=", &word);
    text_append(note, "%.*s =", (int)word.length, word.text);
    for (const char *joint = ""; text_next_word(&cursor, "=|", &word); joint = " or")
        text_append(note, "%s %.*s", joint, (int)word.length, word.text);
}

__attribute__((format(printf, 3, 4))) static bool refuse(const struct param_row *row, char *note,
                                                         const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_append_list(note, format, list);
    va_end(list);
    text_append(note, "; must be ");
    row_describe(row, note);
    return false;
}

static bool in_range(const struct param_row *row, double value) {
    return row->min == row->max || (value >= row->min && value <= row->max);
}

static bool parse_int(const struct param_row *row, struct text_word word, int *out, char *note) {
    char *end, cut[TEXT_CLIP_SIZE];
    errno = 0;
    long long value = strtoll(word.text, &end, 10);
    if (end != word.text + word.length)
        return refuse(row, note, "not an integer at \"%s\"", text_clip(cut, word.text));
    if (errno == ERANGE || value < INT_MIN || value > INT_MAX || !in_range(row, (double)value))
        return refuse(row, note, "out of range at \"%s\"", text_clip(cut, word.text));
    *out = (int)value;
    return true;
}

static bool parse_seed(const struct param_row *row, const char *text, uint64_t *out, char *note) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    /* strtoull takes a sign, and wraps negative numbers round */
    if (!isdigit((unsigned char)*text) || *end)
        return refuse(row, note, "not an unsigned integer");
    if (errno == ERANGE || !in_range(row, (double)value))
        return refuse(row, note, "out of range");
    *out = (uint64_t)value;
    return true;
}

static bool parse_real(const struct param_row *row, struct text_word word, double *out,
                       char *note) {
    char *end, cut[TEXT_CLIP_SIZE];
    errno = 0;
    double value = strtod(word.text, &end);
    if (end == word.text)
        return refuse(row, note, "not a number");
    if (end != word.text + word.length)
        return refuse(row, note, "trailing characters \"%s\"", text_clip(cut, end));
    if (errno == ERANGE && (isinf(value) || value == 0.0))
        return refuse(row, note, "beyond the range of double precision");
    if (!isfinite(value))
        return refuse(row, note, "not a finite number");
    if (!in_range(row, value))
        return refuse(row, note, "out of range");
    *out = value;
    return true;
}

/* The index of a word in the choices, -1 if it is none; nearest may be NULL. */
static int find_choice(const struct param_row *row, struct text_word given,
                       struct text_nearest *nearest) {
    const char *cursor = row->choices;
    struct text_word word;
    for (int i = 0; text_next_word(&cursor, " ", &word); i++) {
        if (word.length == given.length && !memcmp(word.text, given.text, given.length))
            return i;
        if (nearest)
            text_nearest_try(nearest, word);
    }
    return -1;
}

static bool parse_choice(const struct param_row *row, const char *text, int *out, char *note) {
    struct text_nearest nearest = {.given = text};
    *out = find_choice(row, (struct text_word){text, strlen(text)}, &nearest);
    if (*out >= 0)
        return true;
    refuse(row, note, "unknown choice");
    text_nearest_tell(&nearest, note);
    return false;
}

static bool parse_choices(const struct param_row *row, const char *text, struct int_list *out,
                          char *note) {
    struct text_word word;
    char cut[TEXT_CLIP_SIZE];
    for (out->count = 0; text_next_word(&text, " \t", &word); out->count++) {
        snprintf(cut, sizeof cut, "%.*s", (int)word.length, word.text);
        if (!parse_choice(row, cut, &out->value[out->count], note))
            return false;
        for (int k = 0; k < out->count; k++)
            if (out->value[k] == out->value[out->count])
                return refuse(row, note, "\"%s\" comes twice", cut);
    }
    return true; /* all different: never more than there are choices */
}

/* Words of a list, none or blank-separated, into integers or reals (the other is NULL). */
static bool parse_list(const struct param_row *row, const char *text, int *ints, double *reals,
                       int *count, char *note) {
    struct text_word word;
    *count = 0;
    if (!strcmp(text, "none"))
        return true;
    for (; text_next_word(&text, " \t", &word); ++*count) {
        if (*count == INT_LIST_MAX)
            return refuse(row, note, "too many elements");
        if (ints ? !parse_int(row, word, ints + *count, note)
                 : !parse_real(row, word, reals + *count, note))
            return false;
    }
    return true;
}

bool row_parse(const struct param_row *row, const char *text, void *out, char *note) {
    struct int_list *ints = out;
    struct real_list *reals = out;
    if (!*text && row->type != PARAM_TEXT && row->type != PARAM_INTS && row->type != PARAM_REALS)
        return refuse(row, note, "empty value");
    switch (row->type) {
    case PARAM_INT:
        return parse_int(row, (struct text_word){text, strlen(text)}, out, note);
    case PARAM_SEED:
        return parse_seed(row, text, out, note);
    case PARAM_REAL:
        return parse_real(row, (struct text_word){text, strlen(text)}, out, note);
    case PARAM_CHOICE:
        return parse_choice(row, text, out, note);
    case PARAM_CHOICES:
        return parse_choices(row, text, out, note);
    case PARAM_INTS:
        return parse_list(row, text, ints->value, NULL, &ints->count, note);
    case PARAM_REALS:
        return parse_list(row, text, NULL, reals->value, &reals->count, note);
    case PARAM_TEXT:
        memcpy(out, &text, sizeof text);
        return true;
    }
    assert(false); /* no such type */
    return false;
}

void row_zero(const struct param_row *row, const char *text, void *out) {
    switch (row->type) {
    case PARAM_INT:
    case PARAM_CHOICE:
        *(int *)out = 0;
        break;
    case PARAM_SEED:
        *(uint64_t *)out = 0;
        break;
    case PARAM_REAL:
        *(double *)out = 0.0;
        break;
    case PARAM_CHOICES:
    case PARAM_INTS:
        *(struct int_list *)out = (struct int_list){0};
        break;
    case PARAM_REALS:
        *(struct real_list *)out = (struct real_list){0};
        break;
    case PARAM_TEXT:
        memcpy(out, &text, sizeof text);
        break;
    }
}

bool row_users(const struct param_section *section, const struct param_row *row, char *note) {
    const struct param_row *kinds = section->rows;
    const char *cursor = kinds->choices;
    char name[TEXT_CLIP_SIZE], list[TEXT_NOTE] = "";
    bool all = true;
    struct text_word word;
    while (section->other_keys && text_next_word(&cursor, " ", &word)) {
        snprintf(name, sizeof name, "%.*s", (int)word.length, word.text);
        if (section->other_keys(name, row->key))
            all = false;
        else
            text_append(list, " %s", name);
    }
    if (!all && note)
        text_append(note, "; for %s%s", kinds->key, list);
    return all;
}

/* The condition in `when` looks at an earlier row, so the recursion ends; on a key that goes with
 * other values of the first row it always holds. */
bool row_used(const struct param_section *section, const struct param_row *row,
              const struct param_value *values) {
    const char *first = values ? values[0].text : section->rows[0].value;
    if (first ? section->other_keys && section->other_keys(first, row->key)
              : !row_users(section, row, NULL))
        return false;
    if (!row->when)
        return true;
    const char *cursor = row->when;
    struct text_word word;
    const struct param_row *gate = section->rows;
    text_next_word(&cursor, "=", &word);
    while (gate < row && !text_is(word, gate->key))
        gate++;
    assert(gate < row && gate->type == PARAM_CHOICE);
    if (first && section->other_keys && section->other_keys(first, gate->key))
        return true;
    const char *text = values ? values[gate - section->rows].text : gate->value;
    bool holds = false;
    while (text_next_word(&cursor, "=|", &word)) {
        assert(find_choice(gate, word, NULL) >= 0);
        holds = holds || (text && text_is(word, text));
    }
    return holds && row_used(section, gate, values);
}
