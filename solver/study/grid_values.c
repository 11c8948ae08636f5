/* The values of a line of [sweep]: a list, points of several keys, logspace or linspace. */
#include "solver/study/grid_values.h"
#include "solver/settings/factor.h"
#include "kernels/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 10000 };

/* ---- reading ---- */

static char *next_word(char **cursor) {
    char *word = *cursor + strspn(*cursor, " \t"), *end = word + strcspn(word, " \t");
    *cursor = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

/* One more point, whose values are still to be set. */
static int add_point(struct grid *grid, struct grid_axis *axis, struct err *err) {
    if (axis->count == VALUES)
        return grid_fail(grid, axis, err, "more than %d values; try fewer", VALUES);
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
        return grid_fail(grid, axis, err,
                         "point %d has no value for %s; each has one value for each of "
                         "the %d keys",
                         axis->count, axis->key[k].name, axis->keys);
    if (axis->keys > 1 && is_space(text))
        return grid_fail(
            grid, axis, err,
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
        return grid_fail(grid, axis, err, "must be %.8s(first, last, n)", values);
    if (!isfinite(first) || !(last > first) || isinf(last) || !(count >= 2 && count <= VALUES) ||
        count != floor(count))
        return grid_fail(grid, axis, err,
                         "%.8s(first, last, n) needs first < last and 2 to %d values", values,
                         VALUES);
    if (logarithmic && first <= 0)
        return grid_fail(
            grid, axis, err,
            "logspace(first, last, n) goes from the value first to the value last, which "
            "must be positive");
    int n = (int)count;
    for (int i = 0; i < n; i++) {
        double share = (double)i / (n - 1);
        double value = i == n - 1    ? last /* to the last digit */
                       : logarithmic ? first * pow(last / first, share)
                                     : first + (last - first) * share;
        write_number(text, value);
        TRY(add_point(grid, axis, err));
        TRY(set_value(grid, axis, 0, text, err));
    }
    return CODE_OK;
}

/* Whether blanks, which separate values here, would cut a factor with a power, as in 3 N^-0.5 or
 * N ^ 2, in two. */
static bool cuts_power(const char *values) {
    bool number = false; /* the word before is one */
    struct text_word word;
    char *end;
    while (text_next_word(&values, " \t", &word)) {
        bool power = factor_is_power(word.text);
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
        return grid_fail(grid, axis, err,
                         "value %d is empty; | stands between values, and the word "
                         "none is an empty list",
                         axis->count);
    if (axis->keys == 1)
        return set_value(grid, axis, 0, point, err);
    if (!*point)
        return grid_fail(grid, axis, err,
                         "point %d is empty; | stands between points, and each has one "
                         "value for each of the %d keys",
                         axis->count, axis->keys);
    for (; (value = commas ? text_next_part(&point, ',') : next_word(&point)); k++)
        if (k < axis->keys)
            TRY(set_value(grid, axis, k, value, err));
    if (k != axis->keys)
        return grid_fail(
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
        return grid_fail(grid, axis, err,
                         axis->keys > 1 ? "no points; they are separated by |, each "
                                          "with one value for each key"
                                        : "no values; they are a list, logspace(first, "
                                          "last, n) or linspace(first, last, n)");
    if (!commas && (!bars || axis->keys > 1) && cuts_power(values))
        return grid_fail(grid, axis, err,
                         "blanks separate values here, and would cut a factor from its power; "
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
            return grid_fail(grid, axis, err,
                             "values must increase or decrease, each once, but %s follows %s",
                             key->text[i], key->text[i - 1]);
        for (int j = 0; !ordered && j < i; j++)
            if (same_point(axis, i, j)) {
                char *text;
                TRY(grid_point(&text, axis, i, err));
                text_clip(cut, text);
                free(text);
                return grid_fail(grid, axis, err, "%s \"%s\" comes twice; each is given once",
                                 axis->keys > 1 ? "point" : "value", cut);
            }
    }
    return CODE_OK;
}

int grid_read_values(struct grid *grid, struct grid_axis *axis, char *values, struct err *err) {
    if (axis->keys == 1 && is_space(values))
        TRY(add_space(grid, axis, values, err));
    else
        TRY(add_list(grid, axis, values, err));
    return check_points(grid, axis, err);
}
