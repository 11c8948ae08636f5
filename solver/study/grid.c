/* The [sweep] section of an ini file. */
#define _POSIX_C_SOURCE 200809L
#include "solver/study/grid.h"
#include "kernels/base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 10000, POINTS = 100000 };

__attribute__((format(printf, 4, 5))) static int fail(const struct grid *grid,
                                                      const struct grid_axis *axis, struct err *err,
                                                      const char *format, ...) {
    char sentence[TEXT_NOTE] = "", cut[TEXT_CLIP_SIZE];
    va_list list;
    va_start(list, format);
    text_append_list(sentence, format, list);
    va_end(list);
    return err_set(err, CODE_INPUT, "%.700s:%d: [sweep] %s: %s", grid->file, axis->line,
                   text_clip(cut, axis->name), sentence);
}

/* ---- values ---- */

static char *next_word(char **cursor) {
    char *word = *cursor + strspn(*cursor, " \t"), *end = word + strcspn(word, " \t");
    *cursor = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

/* One more point, whose values are still to be set. */
static int add_point(struct grid *grid, struct grid_axis *axis, struct err *err) {
    if (axis->count == VALUES)
        return fail(grid, axis, err, "more than %d values; try fewer", VALUES);
    for (int k = 0; k < axis->keys; k++) {
        struct grid_key *key = &axis->key[k];
        char **grown = realloc(key->text, ((size_t)axis->count + 1) * sizeof *grown);
        if (!grown)
            return err_set(err, CODE_SYSTEM, "out of memory: values of a sweep");
        key->text = grown;
        grown[axis->count] = NULL;
    }
    axis->count++;
    return CODE_OK;
}

static bool is_space(const char *text) {
    return !strncmp(text, "logspace", 8) || !strncmp(text, "linspace", 8);
}

/* The value of key k at the last point. */
static int set_value(struct grid *grid, struct grid_axis *axis, int k, const char *text,
                     struct err *err) {
    if (axis->keys > 1 && !*text)
        return fail(grid, axis, err,
                    "point %d has no value for %s; each has one value for each of "
                    "the %d keys",
                    axis->count, axis->key[k].name, axis->keys);
    if (axis->keys > 1 && is_space(text))
        return fail(grid, axis, err,
                    "%.8s(first, last, n) makes values of one key; several keys in one line need "
                    "their points, each with %d values, separated by |",
                    text, axis->keys);
    return base_copy(&axis->key[k].text[axis->count - 1], text, err);
}

/* Six digits, and whole numbers without an exponent, which keys of integers would not take. */
static void write_number(char text[32], double value) {
    double most = 1e15;
    snprintf(text, 32, "%.6g", value);
    double rounded = value == floor(value) ? value : strtod(text, NULL);
    if (rounded == floor(rounded) && fabs(rounded) < most)
        snprintf(text, 32, "%.0f", rounded);
}

/* logspace(first, last, n) and linspace(first, last, n). */
static int add_space(struct grid *grid, struct grid_axis *axis, const char *values,
                     struct err *err) {
    bool logarithmic = values[1] == 'o';
    double first, last, count;
    int end = 0;
    char text[32];
    /* the count as a double, which does not wrap round */
    sscanf(values + strlen("linspace"), " ( %lf , %lf , %lf ) %n", &first, &last, &count, &end);
    if (!end || values[strlen("linspace") + (size_t)end])
        return fail(grid, axis, err, "must be %.8s(first, last, n)", values);
    if (!isfinite(first) || !(last > first) || isinf(last) || !(count >= 2 && count <= VALUES) ||
        count != floor(count))
        return fail(grid, axis, err, "%.8s(first, last, n) needs first < last and 2 to %d values",
                    values, VALUES);
    if (logarithmic && first <= 0)
        return fail(grid, axis, err,
                    "logspace(first, last, n) goes from the value first to the value last, which "
                    "must be positive");
    int n = (int)count;
    for (int i = 0; i < n; i++) {
        double share = (double)i / (n - 1);
        double value =
            logarithmic ? first * pow(last / first, share) : first + (last - first) * share;
        write_number(text, value);
        TRY(add_point(grid, axis, err));
        TRY(set_value(grid, axis, 0, text, err));
    }
    return CODE_OK;
}

/* Whether blanks, which separate values here, would cut a factor with a power of the width, as in
 * 3 N^-0.5 or N ^ 2, in two. */
static bool cuts_power(const char *values) {
    bool number = false; /* the word before is one */
    struct text_word word;
    char *end;
    while (text_next_word(&values, " \t", &word)) {
        bool power = *word.text == 'N' && (word.length == 1 || word.text[1] == '^');
        if (*word.text == '^' || word.text[word.length - 1] == '^' || (power && number))
            return true;
        strtod(word.text, &end);
        number = end == word.text + word.length;
    }
    return false;
}

/* The text of one point, cut into the values of its keys. */
static int take_point(struct grid *grid, struct grid_axis *axis, char *point, bool commas,
                      struct err *err) {
    char cut[TEXT_CLIP_SIZE], *value;
    int k = 0;
    text_clip(cut, point);
    TRY(add_point(grid, axis, err));
    if (axis->keys == 1 && !*point)
        return fail(grid, axis, err,
                    "value %d is empty; | stands between values, and the word "
                    "none is an empty list",
                    axis->count);
    if (axis->keys == 1)
        return set_value(grid, axis, 0, point, err);
    if (!*point)
        return fail(grid, axis, err,
                    "point %d is empty; | stands between points, and each has one "
                    "value for each of the %d keys",
                    axis->count, axis->keys);
    for (; (value = commas ? text_next_part(&point, ',') : next_word(&point)); k++)
        if (k < axis->keys)
            TRY(set_value(grid, axis, k, value, err));
    if (k != axis->keys)
        return fail(
            grid, axis, err,
            "point %d, \"%s\", has %d value%s, and it must have one for each of the %d keys; "
            "%s separate values, | points",
            axis->count, cut, k, k == 1 ? "" : "s", axis->keys,
            commas ? "commas" : "blanks (or, for values with blanks, commas)");
    return CODE_OK;
}

static int add_list(struct grid *grid, struct grid_axis *axis, char *values, struct err *err) {
    bool bars = axis->keys > 1 || strchr(values, '|'),
         commas = axis->keys > 1 && strchr(values, ',');
    char *point;
    if (!*values)
        return fail(grid, axis, err,
                    axis->keys > 1 ? "no points; they are separated by |, each "
                                     "with one value for each key"
                                   : "no values; they are a list, logspace(first, "
                                     "last, n) or linspace(first, last, n)");
    if (!commas && (!bars || axis->keys > 1) && cuts_power(values))
        return fail(grid, axis, err,
                    "blanks separate values here, and would cut a factor from its power of N; "
                    "write it without blanks, as 3N^-0.5, or %s",
                    bars ? "commas between the values of a point" : "| between values");
    while ((point = bars ? text_next_part(&values, '|') : next_word(&values)))
        TRY(take_point(grid, axis, point, commas, err));
    return CODE_OK;
}

/* ---- checks ---- */

/* The values of a key as numbers, if all are. */
static int find_numbers(struct grid_key *key, int count, struct err *err) {
    bool numbers = true;
    char *end;
    TRY(base_alloc(&key->value, (size_t)count, sizeof *key->value, err));
    for (int i = 0; i < count; i++) {
        key->value[i] = strtod(key->text[i], &end);
        numbers = numbers && end != key->text[i] && !*end && isfinite(key->value[i]);
    }
    if (!numbers) {
        free(key->value);
        key->value = NULL;
    }
    return CODE_OK;
}

/* Less than, equal to or greater than 0: value i of a key of numbers is below, at or above value j;
 * whole numbers beyond those of a double, as seeds may be, are compared as such. */
static int compare_values(const struct grid_key *key, int i, int j) {
    const char *a = key->text[i], *b = key->text[j];
    if (key->value[i] != key->value[j])
        return key->value[i] < key->value[j] ? -1 : 1;
    if (a[strspn(a, "0123456789")] || b[strspn(b, "0123456789")])
        return 0;
    unsigned long long x = strtoull(a, NULL, 10), y = strtoull(b, NULL, 10);
    return (x > y) - (x < y);
}

static bool same_point(const struct grid_axis *axis, int i, int j) {
    for (int k = 0; k < axis->keys; k++) {
        const struct grid_key *key = &axis->key[k];
        if (key->value ? compare_values(key, i, j) : strcmp(key->text[i], key->text[j]) != 0)
            return false;
    }
    return true;
}

/* Numbers of a single key must increase, or decrease; all else must differ. */
static int check_points(struct grid *grid, struct grid_axis *axis, struct err *err) {
    const struct grid_key *key = axis->key;
    char cut[TEXT_CLIP_SIZE];
    for (int k = 0; k < axis->keys; k++)
        TRY(find_numbers(&axis->key[k], axis->count, err));
    bool ordered = axis->keys == 1 && key->value;
    for (int i = 1; i < axis->count; i++) {
        int step = ordered ? compare_values(key, i, i - 1) : 0;
        if (ordered && (step == 0 || (step > 0) != (compare_values(key, 1, 0) > 0)))
            return fail(grid, axis, err,
                        "values must increase or decrease, each once, but %s follows %s",
                        key->text[i], key->text[i - 1]);
        for (int j = 0; !ordered && j < i; j++)
            if (same_point(axis, i, j)) {
                char *text;
                TRY(grid_point(&text, axis, i, err));
                text_clip(cut, text);
                free(text);
                return fail(grid, axis, err, "%s \"%s\" comes twice; each is given once",
                            axis->keys > 1 ? "point" : "value", cut);
            }
    }
    return CODE_OK;
}

/* ---- lines ---- */

/* Checks a key and gives it to the axis. */
static int add_key(struct grid *grid, struct grid_axis *axis, const char *name, struct err *err) {
    char cut[TEXT_CLIP_SIZE];
    int other;
    text_clip(cut, name);
    if (!*name)
        return fail(grid, axis, err,
                    "a key is missing; keys that vary together are written "
                    "section.key, section.key");
    if (strpbrk(name, " \t"))
        return fail(grid, axis, err,
                    "a key has no blanks, as \"%s\" has; keys that vary together are written "
                    "section.key, section.key",
                    cut);
    if (!strchr(name, '.'))
        return fail(grid, axis, err, "\"%s\" is not a key to vary, which is written section.key",
                    cut);
    if (!strcmp(name, "reference.widths") || !strcmp(name, "solver.replicates"))
        return fail(grid, axis, err,
                    "every sweep runs the limit and each of the [reference] widths, it cannot "
                    "vary %s",
                    name);
    for (int k = 0; k < grid->keys; k++)
        if (!strcmp(grid_key(grid, k, &other)->name, name))
            return fail(grid, axis, err,
                        "duplicate key %s, given before in %s%d; each is given once", cut,
                        other == grid->axes - 1 ? "this line, " : "line ", grid->axis[other].line);
    struct grid_key *grown = realloc(axis->key, ((size_t)axis->keys + 1) * sizeof *grown);
    if (!grown)
        return err_set(err, CODE_SYSTEM, "out of memory: keys of a sweep");
    axis->key = grown;
    grown[axis->keys++] = (struct grid_key){0};
    grid->keys++;
    return base_copy(&grown[axis->keys - 1].name, name, err);
}

/* One line of the section: keys = values. */
static int add_axis(struct grid *grid, char *keys, char *values, int line, struct err *err) {
    struct grid_axis *grown = realloc(grid->axis, ((size_t)grid->axes + 1) * sizeof *grown), *axis;
    if (!grown)
        return err_set(err, CODE_SYSTEM, "out of memory: keys of a sweep");
    grid->axis = grown;
    axis = &grown[grid->axes++];
    *axis = (struct grid_axis){.line = line};
    TRY(base_copy(&axis->name, keys, err));
    char *end = axis->name; /* without the blanks around commas */
    for (const char *c = keys; *c; c++)
        if (!strchr(" \t", *c))
            *end++ = *c;
    *end = '\0';
    if (grid->axes > GRID_LINES)
        return fail(grid, axis, err,
                    "a sweep has at most %d lines; keys that vary together can share one, and a "
                    "key with one value belongs to its own section",
                    GRID_LINES);
    for (char *name; (name = text_next_part(&keys, ','));)
        TRY(add_key(grid, axis, name, err));
    if (axis->keys == 1 && is_space(values))
        TRY(add_space(grid, axis, values, err));
    else
        TRY(add_list(grid, axis, values, err));
    TRY(check_points(grid, axis, err));
    if (grid->points > POINTS / axis->count)
        return fail(grid, axis, err, "more than %d points in all; try fewer values", POINTS);
    grid->points *= axis->count;
    return CODE_OK;
}

/* objective = ..., along = ...: *taken is false if the line is none of these. */
static int take_setting(struct grid *grid, const char *name, const char *value, int number,
                        bool *taken, struct err *err) {
    char **setting = !strcmp(name, "objective") ? &grid->objective
                     : !strcmp(name, "along")   ? &grid->along
                                                : NULL;
    *taken = setting != NULL;
    if (setting && (*setting || !*value))
        return err_set(err, CODE_INPUT, "%.700s:%d: [sweep] %s: %s", grid->file, number, name,
                       *value ? "is given twice" : "has no value");
    return setting ? base_copy(setting, value, err) : CODE_OK;
}

static int take_line(struct grid *grid, char *line, int number, struct err *err) {
    char *text = text_trim(line), *equals = strchr(text, '='), cut[TEXT_CLIP_SIZE];
    if (!*text || *text == '#' || *text == ';')
        return CODE_OK;
    if (text_find_bad(text))
        return err_set(err, CODE_INPUT, "%.700s:%d: a control character or not UTF-8", grid->file,
                       number);
    if (!equals)
        return err_set(err, CODE_INPUT, "%.700s:%d: [sweep] \"%s\" has no \"=\"", grid->file,
                       number, text_clip(cut, text));
    *equals = '\0';
    char *values = text_value(equals + 1);
    if (!values)
        return err_set(err, CODE_INPUT, "%.700s:%d: [sweep] a quote without its end", grid->file,
                       number);
    bool taken;
    TRY(take_setting(grid, text_trim(text), values, number, &taken, err));
    return taken ? CODE_OK : add_axis(grid, text_trim(text), values, number, err);
}

/* Whether a line is [sweep], with blanks wherever an ini may have them. */
static bool is_section(const char *line) {
    static const char *const parts[] = {"[", "sweep", "]"};
    for (int k = 0; k < 3; k++) {
        line += strspn(line, " \t");
        if (strncmp(line, parts[k], strlen(parts[k])) != 0)
            return false;
        line += strlen(parts[k]);
    }
    return text_ends(line);
}

/* Copies lines and takes those of [sweep]; a section line ends it. */
static int split(struct grid *grid, FILE *in, FILE *rest, struct err *err) {
    char *line = NULL;
    size_t size = 0;
    bool inside = false, found = false;
    int code = CODE_OK, number = 0;
    for (ssize_t length; (length = getline(&line, &size, in)) >= 0;) {
        number++;
        if (memchr(line, '\0', (size_t)length))
            DO(err_set(err, CODE_INPUT, "%.700s:%d: not a text file (byte 0x00)", grid->file,
                       number));
        const char *text = line;
        if (number == 1 && !strncmp(text, "\xef\xbb\xbf", 3))
            text += 3;
        if (text[strspn(text, " \t")] == '[') {
            inside = is_section(text);
            found = found || inside;
            fwrite(inside ? "\n" : line, 1, inside ? 1 : (size_t)length, rest);
        } else if (inside) {
            fputc('\n', rest);
            DO(take_line(grid, line, number, err));
        } else {
            fwrite(line, 1, (size_t)length, rest);
        }
    }
    if (ferror(in))
        code = err_set(err, base_file_code(errno), "%s: cannot be read: %s", grid->file,
                       strerror(errno));
    else if (!found || !grid->axes)
        code = err_set(err, CODE_INPUT, "%s: %s; a single run is made by dmft-solve", grid->file,
                       found ? "[sweep] has no keys" : "there is no section [sweep]");
done:
    free(line);
    return code;
}

static int read_stream(struct grid *grid, FILE *in, struct err *err) {
    FILE *rest;
    size_t size;
    int code = base_text_begin(&rest, &grid->rest, &size, grid->file, err);
    if (!code)
        code = base_text_end(rest, grid->file, split(grid, in, rest, err), err);
    fclose(in);
    return code;
}

int grid_read(struct grid *grid, const char *file, struct err *err) {
    *grid = (struct grid){.points = 1};
    TRY(base_copy(&grid->file, file, err));
    FILE *in;
    TRY(base_open(&in, file, err));
    return read_stream(grid, in, err);
}

int grid_read_text(struct grid *grid, const char *file, const char *text, struct err *err) {
    *grid = (struct grid){.points = 1};
    TRY(base_copy(&grid->file, file, err));
    FILE *in = fmemopen((void *)text, strlen(text), "r");
    if (!in)
        return err_set(err, CODE_INPUT, "%s: has no text of an ini", file);
    return read_stream(grid, in, err);
}

void grid_free(struct grid *grid) {
    for (int a = 0; a < grid->axes; a++) {
        struct grid_axis *axis = &grid->axis[a];
        for (int k = 0; k < axis->keys; k++) {
            for (int i = 0; i < axis->count; i++)
                free(axis->key[k].text[i]);
            free(axis->key[k].text);
            free(axis->key[k].value);
            free(axis->key[k].name);
        }
        free(axis->key);
        free(axis->name);
    }
    free(grid->axis);
    free(grid->file);
    free(grid->rest);
    free(grid->objective);
    free(grid->along);
    *grid = (struct grid){0};
}

int grid_index(const struct grid *grid, int point, int axis) {
    for (int a = grid->axes - 1; a > axis; a--)
        point /= grid->axis[a].count;
    return point % grid->axis[axis].count;
}

int grid_point(char **text, const struct grid_axis *axis, int i, struct err *err) {
    size_t size = 1;
    bool commas = false;
    for (int k = 0; k < axis->keys; k++) {
        size += strlen(axis->key[k].text[i]) + 2;
        commas = commas || strpbrk(axis->key[k].text[i], " \t");
    }
    TRY(base_alloc(text, size, 1, err));
    for (int k = 0; k < axis->keys; k++) {
        if (k)
            strcat(*text, commas ? ", " : " ");
        strcat(*text, axis->key[k].text[i]);
    }
    return CODE_OK;
}

const struct grid_key *grid_key(const struct grid *grid, int k, int *axis) {
    int a = 0;
    for (; k >= grid->axis[a].keys; a++)
        k -= grid->axis[a].keys;
    if (axis)
        *axis = a;
    return &grid->axis[a].key[k];
}
