#define _POSIX_C_SOURCE 200809L
#include "kernels/base/text.h"

#include <ctype.h>
#include <search.h>

void text_append(char *note, const char *format, ...) {
    TEXT_APPEND_ARGUMENTS(note, format);
}

size_t text_character(const char *bytes, size_t size, int *code) {
    static const int least[] = {0, 0x80, 0x800, 0x10000};
    unsigned char first = size ? (unsigned char)*bytes : 0xff;
    size_t more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : 3;
    if ((more == 3 && first >> 3 != 30) || more >= size)
        return 0;
    *code = more ? first & (0x3f >> more) : first;
    for (size_t k = 1; k <= more; k++) {
        if ((unsigned char)bytes[k] >> 6 != 2)
            return 0;
        *code = *code << 6 | (bytes[k] & 0x3f);
    }
    bool none = *code < least[more] || *code >= TEXT_CODES || (*code >= 0xd800 && *code < 0xe000);
    return none ? 0 : 1 + more;
}

/* Bytes of the character at text, 0 if it is a control character or not UTF-8. */
static size_t character_length(const char *text) {
    int code = 0;
    size_t length = text_character(text, strnlen(text, 4), &code);
    bool control = code < 0x20 ? code != '\t' : code >= 0x7f && code < 0xa0;
    return control ? 0 : length;
}

const char *text_find_bad(const char *text) {
    while (*text) {
        size_t length = character_length(text);
        if (!length)
            return text;
        text += length;
    }
    return NULL;
}

void text_mend(char *text) {
    for (char *at = text; *at;) {
        size_t length = (unsigned char)*at < 0x80 ? 1 : character_length(at);
        unsigned char first = (unsigned char)*at;
        bool last = !length && first >= 0xc2 && first <= 0xf4 && strlen(at) < 4;
        for (const char *rest = at + 1; last && *rest; rest++)
            last = ((unsigned char)*rest & 0xc0) == 0x80;
        if (!length)
            *at = last ? '\0' : '?';
        at += length ? length : last ? 0 : 1;
    }
}

/* Bytes of the whole characters that text begins with, `most` at most. */
static size_t whole_characters(const char *text, size_t most) {
    size_t end = 0, step;
    while (text[end] && (step = character_length(text + end)) && end + step <= most)
        end += step;
    return end;
}

const char *text_clip(char out[TEXT_CLIP_SIZE], const char *text) {
    size_t end = whole_characters(text, TEXT_CLIP);
    snprintf(out, TEXT_CLIP_SIZE, "%.*s%s", (int)end, text, text[end] ? "..." : "");
    return out;
}

struct text_shown text_shown(const char *name, const char *label) {
    struct text_shown out;
    size_t length = label ? strlen(label) : 0;
    if (length > TEXT_SHOWN) {
        size_t begin = whole_characters(label, TEXT_SHOWN / 2), rest = length - TEXT_SHOWN / 2;
        while (((unsigned char)label[rest] & 0xc0) == 0x80)
            rest++;
        snprintf(out.text, sizeof out.text, "%.32s (%.*s...%s)", name, (int)begin, label,
                 label + rest);
    } else if (label)
        snprintf(out.text, sizeof out.text, "%.32s (%s)", name, label);
    else
        snprintf(out.text, sizeof out.text, "%.32s", name);
    return out;
}

void text_name(struct text_names *names, const char *name) {
    static const char others[] = " and 2147483647 others";
    char *at = names->text + names->end;
    size_t room = sizeof names->text - names->end;
    bool fits = names->told < TEXT_NAMES && strlen(name) + sizeof others + 2 < room;
    if (names->count++ == names->told && fits) {
        names->told++;
        names->end += (size_t)snprintf(at, room, "%s%s", names->end ? ", " : "", name);
        return;
    }
    int more = names->count - names->told;
    snprintf(at, room, " and %d other%s", more, more > 1 ? "s" : "");
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

char *text_trim(char *text) {
    while (is_blank(*text))
        text++;
    size_t length = strlen(text);
    while (length && is_blank(text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

/* Whether a comment begins at text[at]. */
static bool is_comment(const char *text, size_t at) {
    return (text[at] == '#' || text[at] == ';') && (!at || is_blank(text[at - 1]));
}

bool text_ends(const char *text) {
    size_t at = strspn(text, " \t\r\n");
    return !text[at] || (at && is_comment(text, at));
}

static char *read_quoted(char *text) {
    char *in = text + 1, *out = text;
    while (*in && (*in != '"' || in[1] == '"')) {
        in += *in == '"';
        *out++ = *in++;
    }
    if (!*in)
        return NULL;
    bool good = text_ends(in + 1);
    *out = '\0';
    return good ? text : NULL;
}

char *text_value(char *text) {
    size_t end = 0;
    while (is_blank(*text))
        text++;
    if (*text == '"')
        return read_quoted(text);
    while (text[end] && !is_comment(text, end))
        end++;
    text[end] = '\0';
    return text_trim(text);
}

bool text_wants_quotes(const char *value) {
    size_t length = strlen(value);
    for (size_t at = 0; at < length; at++)
        if (is_comment(value, at))
            return true;
    return length && (*value == '"' || is_blank(*value) || is_blank(value[length - 1]));
}

bool text_next_word(const char **cursor, const char *separators, struct text_word *word) {
    word->text = *cursor + strspn(*cursor, separators);
    word->length = strcspn(word->text, separators);
    *cursor = word->text + word->length;
    return word->length > 0;
}

bool text_same(struct text_word a, struct text_word b) {
    return a.length == b.length && !memcmp(a.text, b.text, a.length);
}

bool text_same_key(const char *a, const char *b) {
    for (;; a++, b++) {
        a += strspn(a, " \t");
        b += strspn(b, " \t");
        bool ends = !*a || *a == '=', other_ends = !*b || *b == '=';
        if (ends || other_ends || *a != *b)
            return ends && other_ends;
    }
}

bool text_is(struct text_word word, const char *text) {
    return text_same(word, (struct text_word){text, strlen(text)});
}

bool text_lists(const char *words, const char *word) {
    struct text_word next;
    while (words && text_next_word(&words, " ", &next))
        if (text_is(next, word))
            return true;
    return false;
}

static size_t smaller_of(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Letters that are to be inserted, left out, changed or swapped with their neighbour, without
 * regard to case; name.length <= TEXT_CLIP. */
static size_t edit_distance(const char *given, struct text_word name) {
    size_t rows[3][TEXT_CLIP + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= name.length; j++)
        row[j] = j;
    for (size_t i = 0; given[i]; i++) {
        size_t *next = before;
        before = above, above = row, row = next;
        row[0] = i + 1;
        for (size_t j = 0; j < name.length; j++) {
            int a = tolower((unsigned char)given[i]), b = tolower((unsigned char)name.text[j]);
            row[j + 1] = smaller_of(above[j] + (a != b), smaller_of(row[j], above[j + 1]) + 1);
            if (i && j && a == tolower((unsigned char)name.text[j - 1]) &&
                b == tolower((unsigned char)given[i - 1]))
                row[j + 1] = smaller_of(row[j + 1], before[j - 1] + 1);
        }
    }
    return row[name.length];
}

/* Near: one edit, or a third of the letters of a long name, so that "uot" is near to "out", and
 * "path" not to "gate"; and a letter is left. */
void text_nearest_try(struct text_nearest *nearest, struct text_word name) {
    size_t given = strlen(nearest->given);
    size_t length = given > name.length ? given : name.length;
    if (length > TEXT_CLIP)
        return;
    size_t limit = length < 6 ? 1 : length / 3;
    size_t distance = edit_distance(nearest->given, name);
    if (distance > limit || distance >= length)
        return;
    if (!nearest->name.length || distance < nearest->distance) {
        nearest->distance = distance;
        nearest->name = name;
    }
}

void text_nearest_tell(const struct text_nearest *nearest, char *note) {
    if (nearest->name.length)
        text_append(note, "; did you mean \"%.*s\"?", (int)nearest->name.length,
                    nearest->name.text);
}

static int in_order(const void *a, const void *b) {
    return strcmp(a, b);
}

const char *text_keep(const char *text) {
    static void *kept; /* a tree */
    char *copy = NULL, **found;
    struct err unused;
#pragma omp critical(text_keep)
    {
        found = tfind(text, &kept, in_order);
        if (!found && !base_copy(&copy, text, &unused) && !(found = tsearch(copy, &kept, in_order)))
            free(copy);
    }
    return found ? *found : NULL;
}
