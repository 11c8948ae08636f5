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
                   text_clip(cut, axis->key), sentence);
}

/* ---- values ---- */

static int add_value(struct grid *grid, struct grid_axis *axis, const char *text, size_t length,
                     struct err *err) {
    if (axis->count == VALUES)
        return fail(grid, axis, err, "more than %d values", VALUES);
    char **grown = realloc(axis->text, ((size_t)axis->count + 1) * sizeof *grown);
    if (!grown)
        return err_set(err, CODE_SYSTEM, "out of memory: values of a sweep");
    axis->text = grown;
    TRY(base_alloc(&grown[axis->count], length + 1, 1, err));
    memcpy(grown[axis->count], text, length);
    axis->count++;
    return CODE_OK;
}

/* logspace(first, last, n) and linspace(first, last, n). */
static int add_space(struct grid *grid, struct grid_axis *axis, const char *values,
                     struct err *err) {
    bool logarithmic = values[1] == 'o';
    double first, last;
    int n, end = 0;
    char text[32];
    sscanf(values + strlen("linspace"), " ( %lf , %lf , %d ) %n", &first, &last, &n, &end);
    if (!end || values[strlen("linspace") + (size_t)end])
        return fail(grid, axis, err, "must be %.8s(first, last, n)", values);
    if (!isfinite(first) || !(last > first) || isinf(last) || n < 2 || n > VALUES)
        return fail(grid, axis, err, "%.8s(first, last, n) needs first < last and 2 to %d values",
                    values, VALUES);
    if (logarithmic && first <= 0)
        return fail(grid, axis, err,
                    "logspace(first, last, n) goes from the value first to the value last, which "
                    "must be positive");
    for (int i = 0; i < n; i++) {
        double share = (double)i / (n - 1);
        double value =
            logarithmic ? first * pow(last / first, share) : first + (last - first) * share;
        int length = snprintf(text, sizeof text, "%.6g", value);
        TRY(add_value(grid, axis, text, (size_t)length, err));
    }
    return CODE_OK;
}

static int add_list(struct grid *grid, struct grid_axis *axis, char *values, struct err *err) {
    const char *cursor = values, *separators = strchr(values, '|') ? "|" : " \t";
    struct text_word word;
    while (text_next_word(&cursor, separators, &word)) {
        while (word.length && strchr(" \t", *word.text)) {
            word.text++;
            word.length--;
        }
        while (word.length && strchr(" \t", word.text[word.length - 1]))
            word.length--;
        TRY(add_value(grid, axis, word.text, word.length, err));
    }
    return axis->count ? CODE_OK : fail(grid, axis, err, "no values");
}

/* Numbers if all are; those must increase, others must differ. */
static int check_values(struct grid *grid, struct grid_axis *axis, struct err *err) {
    bool numbers = true;
    char *end;
    TRY(base_alloc(&axis->value, (size_t)axis->count, sizeof *axis->value, err));
    for (int i = 0; i < axis->count; i++) {
        axis->value[i] = strtod(axis->text[i], &end);
        numbers = numbers && end != axis->text[i] && !*end && isfinite(axis->value[i]);
    }
    for (int i = 1; i < axis->count; i++) {
        char cut[TEXT_CLIP_SIZE];
        if (numbers && axis->value[i] <= axis->value[i - 1])
            return fail(grid, axis, err, "values must increase, but %s follows %s", axis->text[i],
                        axis->text[i - 1]);
        for (int k = 0; k < i; k++)
            if (!strcmp(axis->text[i], axis->text[k]))
                return fail(grid, axis, err, "value \"%s\" comes twice",
                            text_clip(cut, axis->text[i]));
    }
    if (!numbers) {
        free(axis->value);
        axis->value = NULL;
    }
    return CODE_OK;
}

/* ---- lines ---- */

/* One line of the section: key = values. */
static int add_axis(struct grid *grid, char *key, char *values, int line, struct err *err) {
    struct grid_axis *axis = &grid->axis[grid->axes];
    struct grid_axis here = {.key = key, .line = line};
    if (grid->axes == GRID_AXES)
        return fail(grid, &here, err, "a sweep varies at most %d keys", GRID_AXES);
    for (int k = 0; k < grid->axes; k++)
        if (!strcmp(grid->axis[k].key, key))
            return fail(grid, &here, err, "duplicate key, given before in line %d",
                        grid->axis[k].line);
    if (!strchr(key, '.'))
        return fail(grid, &here, err, "a key to vary is written section.key");
    if (!strcmp(key, "reference.widths") || !strcmp(key, "solver.replicates"))
        return fail(grid, &here, err,
                    "every sweep runs the limit and each of the [reference] widths, it cannot "
                    "vary this key");
    grid->axes++;
    axis->line = line;
    TRY(base_copy(&axis->key, key, err));
    if (!strncmp(values, "logspace", 8) || !strncmp(values, "linspace", 8))
        TRY(add_space(grid, axis, values, err));
    else
        TRY(add_list(grid, axis, values, err));
    TRY(check_values(grid, axis, err));
    if (grid->points > POINTS / axis->count)
        return fail(grid, axis, err, "more than %d points in all", POINTS);
    grid->points *= axis->count;
    return CODE_OK;
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
    return add_axis(grid, text_trim(text), text_trim(equals + 1), number, err);
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
    return !line[strspn(line, " \t\r\n")];
}

/* Copies lines to grid->rest and takes those of [sweep]; a section line ends it. */
static int split(struct grid *grid, FILE *in, FILE *rest, FILE *whole, struct err *err) {
    char *line = NULL;
    size_t size = 0;
    bool inside = false, found = false;
    int code = CODE_OK, number = 0;
    for (ssize_t length; (length = getline(&line, &size, in)) >= 0;) {
        fwrite(line, 1, (size_t)length, whole);
        number++;
        if (line[strspn(line, " \t")] == '[') {
            inside = is_section(line);
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
        code = err_set(err, CODE_INPUT, "%s: cannot be read: %s", grid->file, strerror(errno));
    else if (!found || !grid->axes)
        code = err_set(err, CODE_INPUT, "%s: %s; a single run is made by dmft-solve", grid->file,
                       found ? "[sweep] has no keys" : "there is no section [sweep]");
done:
    free(line);
    return code;
}

int grid_read(struct grid *grid, const char *file, struct err *err) {
    size_t rest_size, ini_size;
    *grid = (struct grid){.points = 1};
    TRY(base_copy(&grid->file, file, err));
    FILE *in = fopen(file, "r");
    if (!in)
        return err_set(err, CODE_INPUT, "%s: cannot be opened: %s", file, strerror(errno));
    FILE *rest = open_memstream(&grid->rest, &rest_size);
    FILE *whole = open_memstream(&grid->ini, &ini_size);
    int code = CODE_OK;
    if (rest && whole)
        code = split(grid, in, rest, whole, err);
    bool failed = !rest || ferror(rest) || !whole || ferror(whole);
    failed = (rest && fclose(rest)) || failed;
    failed = (whole && fclose(whole)) || failed;
    fclose(in);
    if (!code && failed)
        code = err_set(err, CODE_SYSTEM, "out of memory: the text of %s", file);
    return code;
}

void grid_free(struct grid *grid) {
    for (int a = 0; a < grid->axes; a++) {
        struct grid_axis *axis = &grid->axis[a];
        for (int i = 0; i < axis->count; i++)
            free(axis->text[i]);
        free(axis->text);
        free(axis->value);
        free(axis->key);
    }
    free(grid->file);
    free(grid->ini);
    free(grid->rest);
    *grid = (struct grid){0};
}

int grid_index(const struct grid *grid, int point, int axis) {
    for (int a = grid->axes - 1; a > axis; a--)
        point /= grid->axis[a].count;
    return point % grid->axis[axis].count;
}
