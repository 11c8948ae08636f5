/* Each parser appends a sentence to note and returns false if it refuses. */
#include "solver/settings/row.h"

#include <errno.h>
#include <float.h>
#include <limits.h>

/* The words that a row allows, one after the other. */
struct words {
    const char *cursor;
    const struct choice *const *next; /* of a PARAM_ROW, else NULL */
};

const struct choice *const *row_things(const struct param_row *row) {
    return row->type == PARAM_ROW ? row->choices : NULL;
}

static struct words words_of(const struct param_row *row) {
    return (struct words){row->type == PARAM_ROW ? NULL : row->choices, row_things(row)};
}

static bool next_word(struct words *words, struct text_word *word) {
    if (!words->next)
        return words->cursor && text_next_word(&words->cursor, " ", word);
    if (!*words->next)
        return false;
    const char *name = (*words->next++)->name;
    *word = (struct text_word){name, strlen(name)};
    return true;
}

/* The index of a word in the choices, -1 if it is none; nearest may be NULL. */
static int find_choice(const struct param_row *row, struct text_word given,
                       struct text_nearest *nearest) {
    struct words words = words_of(row);
    struct text_word word;
    for (int i = 0; next_word(&words, &word); i++) {
        if (text_same(word, given))
            return i;
        if (nearest)
            text_nearest_try(nearest, word);
    }
    return -1;
}

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

/* What each type is called, and the bytes of a value. */
static const struct {
    const char *what;
    size_t size;
} types[] = {[PARAM_INT] = {"an integer", sizeof(int)},
             [PARAM_SEED] = {"an integer", sizeof(uint64_t)},
             [PARAM_REAL] = {"a number", sizeof(double)},
             [PARAM_CHOICE] = {"one of", sizeof(int)},
             [PARAM_CHOICES] = {"one or several of", sizeof(struct int_list)},
             [PARAM_ROW] = {"one of", sizeof(const struct choice *)},
             [PARAM_TEXT] = {"text", sizeof(const char *)},
             [PARAM_PATH] = {"a path", sizeof(const char *)},
             [PARAM_INTS] = {NULL, sizeof(struct int_list)},
             [PARAM_REALS] = {NULL, sizeof(struct real_list)}};

static bool is_text(const struct param_row *row) {
    return row->type == PARAM_TEXT || row->type == PARAM_PATH;
}

void row_describe(const struct param_row *row, char *note) {
    struct words words = words_of(row);
    struct text_word word;
    while (row->type == PARAM_INT && next_word(&words, &word))
        text_append(note, "%.*s or ", (int)word.length, word.text);
    if (row->type == PARAM_INTS)
        text_append(note, "none or up to %d integers", INT_LIST_MAX);
    else if (row->type == PARAM_REALS)
        text_append(note, "none or up to %d numbers", REAL_LIST_MAX);
    else
        text_append(note, "%s", types[row->type].what);
    while (next_word(&words, &word))
        text_append(note, " %.*s", (int)word.length, word.text);
    if (!is_text(row))
        describe_range(row, note);
}

const struct param_row *row_gate(const struct param_section *section, const struct param_row *row,
                                 const char **cursor) {
    bool choices = row->when && strchr(row->when, '=');
    const struct param_row *gate = section->rows;
    struct text_word word;
    if (!row->when || (choices && *cursor))
        return NULL;
    *cursor = *cursor ? *cursor : row->when;
    if (!text_next_word(cursor, choices ? "=" : " ", &word))
        return NULL;
    while (gate < row && !text_is(word, gate->key))
        gate++;
    assert(gate < row && (gate->type == PARAM_CHOICE || gate->type == PARAM_ROW));
    return gate;
}

/* Whether a word of the gate lets the row be used. */
static bool gate_lets(const struct param_row *gate, const struct param_row *row, const char *cursor,
                      struct text_word given) {
    struct text_word word;
    if (strchr(row->when, '=')) {
        bool found = false;
        while (text_next_word(&cursor, "=|", &word)) {
            assert(find_choice(gate, word, NULL) >= 0);
            found = found || text_same(word, given);
        }
        return found;
    }
    int at = find_choice(gate, given, NULL);
    return at >= 0 && text_lists(row_things(gate)[at]->keys, row->key);
}

void row_describe_when(const struct param_section *section, const struct param_row *row,
                       char *note) {
    const char *cursor = NULL, *joint = "";
    const struct param_row *gate;
    while ((gate = row_gate(section, row, &cursor))) {
        struct words words = words_of(gate);
        struct text_word word;
        text_append(note, "%s%s =", joint, gate->key);
        joint = "";
        while (next_word(&words, &word))
            if (gate_lets(gate, row, cursor, word)) {
                text_append(note, "%s %.*s", joint, (int)word.length, word.text);
                joint = " or";
            }
        joint = ", or when ";
    }
}

__attribute__((format(printf, 3, 4))) static bool refuse(const struct param_row *row, char *note,
                                                         const char *format, ...) {
    TEXT_APPEND_ARGUMENTS(note, format);
    text_append(note, "; must be ");
    row_describe(row, note);
    return false;
}

static bool in_range(const struct param_row *row, double value) {
    return row->min == row->max || (value >= row->min && value <= row->max);
}

/* The whole number that a word writes, as 1500, 1.5e3 or 1500.0, without rounding: its sign and
 * size, UINT64_MAX with *large where it is larger. Returns what is wrong with it, or NULL. */
static const char *read_whole(struct text_word word, bool *negative, uint64_t *size, bool *large) {
    const char *text = word.text + strspn(word.text, "+-"), *last = word.text + word.length;
    long digits = (long)strcspn(text, "eE \t"), point = (long)strcspn(text, ".eE \t");
    char *end;
    strtod(word.text, &end);
    if (end != last || strspn(word.text, "0123456789.eE+-") < word.length)
        return "not an integer";
    long shift = text + digits < last ? strtol(text + digits + 1, NULL, 10) : 0;
    long whole = point + (shift > 10000 ? 10000 : shift < -10000 ? -10000 : shift);
    *negative = *word.text == '-';
    *large = false;
    *size = 0;
    for (long i = 0; i < digits || whole > 0; i++) { /* zeros where there are no more digits */
        unsigned digit = i < digits ? (unsigned)(text[i] - '0') : 0;
        if (i < digits && text[i] == '.')
            continue;
        if (whole-- > 0) {
            *large = *large || *size > (UINT64_MAX - digit) / 10;
            *size = *large ? UINT64_MAX : 10 * *size + digit;
        } else if (digit) {
            return "not a whole number";
        }
    }
    return NULL;
}

static bool parse_int(const struct param_row *row, struct text_word word, int *out, char *note) {
    char cut[TEXT_CLIP_SIZE];
    bool negative, large;
    uint64_t size;
    const char *wrong = read_whole(word, &negative, &size, &large);
    if (wrong)
        return refuse(row, note, "%s at \"%s\"", wrong, text_clip(cut, word.text));
    double value = negative ? -(double)size : (double)size;
    if (value < INT_MIN || value > INT_MAX || !in_range(row, value))
        return refuse(row, note, "out of range at \"%s\"", text_clip(cut, word.text));
    *out = (int)value;
    return true;
}

static bool parse_seed(const struct param_row *row, const char *text, uint64_t *out, char *note) {
    bool negative, large;
    const char *wrong = read_whole((struct text_word){text, strlen(text)}, &negative, out, &large);
    if (wrong)
        return refuse(row, note, "%s", wrong);
    return (!large && (!negative || !*out) && in_range(row, (double)*out)) ||
           refuse(row, note, "out of range");
}

static bool parse_real(const struct param_row *row, struct text_word word, double *out,
                       char *note) {
    char *end, cut[TEXT_CLIP_SIZE];
    errno = 0;
    double value = strtod(word.text, &end);
    if (end == word.text)
        return refuse(row, note, "not a number");
    if (*end == ',')
        return refuse(
            row, note,
            "a number has a point and no comma; several values are for dmft-sweep, in its [sweep]");
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

static bool parse_choice(const struct param_row *row, const char *text, int *out, char *note) {
    struct text_nearest nearest = {.given = text};
    *out = find_choice(row, (struct text_word){text, strlen(text)}, &nearest);
    if (*out >= 0)
        return true;
    refuse(row, note, "unknown choice");
    const char *ours = synonyms_choice(text);
    if (ours && find_choice(row, (struct text_word){ours, strlen(ours)}, NULL) >= 0)
        text_append(note, "; here it is called %s", ours);
    else if (strcmp(row->key, "source") || !synonyms_tell_source(text, note))
        text_nearest_tell(&nearest, note);
    return false;
}

static bool parse_row(const struct param_row *row, const char *text, void *out, char *note) {
    int at;
    if (!parse_choice(row, text, &at, note))
        return false;
    memcpy(out, &row_things(row)[at], sizeof(const struct choice *));
    return true;
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
        if (*count == (ints ? INT_LIST_MAX : REAL_LIST_MAX))
            return refuse(row, note, "too many elements");
        if (memchr(word.text, ',', word.length))
            return refuse(row, note, "numbers are separated by blanks, and not by commas");
        if (ints ? !parse_int(row, word, ints + *count, note)
                 : !parse_real(row, word, reals + *count, note))
            return false;
    }
    return true;
}

bool row_at_default(const struct param_row *row, const char *text) {
    union row_value given, usual;
    char note[TEXT_NOTE] = "";
    if (!row->value || is_text(row))
        return row->value && !strcmp(text, row->value);
    memset(&given, 0, sizeof given); /* {0} may leave what is behind the first member */
    memset(&usual, 0, sizeof usual);
    return row_parse(row, text, &given, note) && row_parse(row, row->value, &usual, note) &&
           !memcmp(&given, &usual, sizeof given);
}

bool row_parse(const struct param_row *row, const char *text, void *out, char *note) {
    const struct text_word word = {text, strlen(text)};
    struct int_list *ints = out;
    struct real_list *reals = out;
    if (!*text && !is_text(row) && row->type != PARAM_INTS && row->type != PARAM_REALS)
        return refuse(row, note, "empty value");
    switch (row->type) {
    case PARAM_INT:
        if (find_choice(row, word, NULL) < 0)
            return parse_int(row, word, out, note);
        row_zero(row, text, out);
        return true;
    case PARAM_SEED:
        return parse_seed(row, text, out, note);
    case PARAM_REAL:
        return parse_real(row, word, out, note);
    case PARAM_CHOICE:
        return parse_choice(row, text, out, note);
    case PARAM_CHOICES:
        return parse_choices(row, text, out, note);
    case PARAM_ROW:
        return parse_row(row, text, out, note);
    case PARAM_INTS:
        return parse_list(row, text, ints->value, NULL, &ints->count, note);
    case PARAM_REALS:
        return parse_list(row, text, NULL, reals->value, &reals->count, note);
    case PARAM_TEXT:
    case PARAM_PATH:
        row_zero(row, text, out);
        return true;
    }
    assert(false); /* no such type */
    return false;
}

void row_zero(const struct param_row *row, const char *text, void *out) {
    memset(out, 0, types[row->type].size);
    if (row->type == PARAM_ROW) /* the first, so that nobody meets NULL */
        memcpy(out, row_things(row), sizeof(const struct choice *));
    else if (is_text(row))
        memcpy(out, &text, sizeof text);
}

bool row_users(const struct param_section *section, const struct param_row *row, char *note) {
    const struct param_row *kinds = section->rows;
    struct words words = words_of(kinds);
    char name[TEXT_CLIP_SIZE], list[TEXT_NOTE] = "";
    bool all = true;
    struct text_word word;
    while (section->other_keys && next_word(&words, &word)) {
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

/* The conditions in `when` look at earlier rows, so the recursion ends; on a key that goes with
 * other values of the first row it always holds. */
bool row_used(const struct param_section *section, const struct param_row *row,
              const struct param_value *values) {
    const char *first = values ? values[0].text : section->rows[0].value;
    if (first ? section->other_keys && section->other_keys(first, row->key)
              : !row_users(section, row, NULL))
        return false;
    if (!row->when)
        return true;
    const char *cursor = NULL;
    const struct param_row *gate;
    while ((gate = row_gate(section, row, &cursor))) {
        if (first && section->other_keys && section->other_keys(first, gate->key))
            return true;
        const char *given = values ? values[gate - section->rows].text : NULL;
        const char *text = given ? given : gate->value;
        if (text && gate_lets(gate, row, cursor, (struct text_word){text, strlen(text)}) &&
            row_used(section, gate, values))
            return true;
    }
    return false;
}
