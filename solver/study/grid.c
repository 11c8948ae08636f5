/* The [sweep] section of an ini file: its lines and their keys. */
#define _POSIX_C_SOURCE 200809L
#include "solver/study/grid.h"
#include "kernels/base/text.h"
#include "solver/settings/param.h"
#include "solver/study/grid_given.h"
#include "solver/study/grid_values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 100000 };

int grid_fail(const struct grid *grid, const struct grid_axis *axis, struct err *err,
              const char *format, ...) {
    char sentence[TEXT_NOTE] = "", cut[TEXT_CLIP_SIZE];
    va_list list;
    va_start(list, format);
    text_append_list(sentence, format, list);
    va_end(list);
    text_clip(cut, axis->name);
    if (!axis->line)
        return err_set(err, CODE_INPUT, "--sweep.%s: %s", cut, sentence);
    return err_set(err, CODE_INPUT, "%.700s:%d: [sweep] %s: %s", grid->file, axis->line, cut,
                   sentence);
}

/* Says that a key stood in another line, or in another place of this one. */
static int fail_twice(const struct grid *grid, const struct grid_axis *axis, const char *name,
                      const struct grid_axis *other, struct err *err) {
    char place[TEXT_NOTE] = "on the command line", cut[TEXT_CLIP_SIZE];
    if (other->line)
        snprintf(place, sizeof place, "in line %d", other->line);
    if (other == axis)
        snprintf(place, sizeof place, other->line ? "in this line, %d" : "in this word",
                 other->line);
    return grid_fail(grid, axis, err, "duplicate key %s, given before %s; each is given once",
                     text_clip(cut, name), place);
}

/* Checks a key and gives it to the axis. */
static int add_key(struct grid *grid, struct grid_axis *axis, const char *name, struct err *err) {
    char cut[TEXT_CLIP_SIZE];
    int other;
    text_clip(cut, name);
    if (!*name)
        return grid_fail(grid, axis, err,
                         "a key is missing; keys that vary together are written "
                         "section.key, section.key");
    if (strpbrk(name, " \t"))
        return grid_fail(grid, axis, err,
                         "a key has no blanks, as \"%s\" has; keys that vary together are written "
                         "section.key, section.key",
                         cut);
    if (!strchr(name, '.'))
        return grid_fail(grid, axis, err,
                         "\"%s\" is not a key to vary, which is written section.key", cut);
    if (!strcmp(name, "reference.widths") || !strcmp(name, "solver.replicates"))
        return grid_fail(grid, axis, err,
                         "every sweep runs the limit and each of the [reference] widths, it cannot "
                         "vary %s",
                         name);
    if (!strcmp(name, "output.checkpoint"))
        return grid_fail(grid, axis, err,
                         "%s says how often states are kept and changes no number, so that all "
                         "its values are one run; it belongs to [output]",
                         name);
    for (int k = 0; k < grid->keys; k++)
        if (!strcmp(grid_key(grid, k, &other)->name, name))
            return fail_twice(grid, axis, name, &grid->axis[other], err);
    struct grid_key *grown = realloc(axis->key, ((size_t)axis->keys + 1) * sizeof *grown);
    if (!grown)
        return err_set(err, CODE_SYSTEM, "out of memory: keys of a sweep");
    axis->key = grown;
    grown[axis->keys++] = (struct grid_key){0};
    grid->keys++;
    return base_copy(&grown[axis->keys - 1].name, name, err);
}

/* Takes the blanks around commas out. */
static void join_keys(char *keys) {
    char *end = keys;
    for (const char *c = keys; *c; c++)
        if (!strchr(" \t", *c))
            *end++ = *c;
    *end = '\0';
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
    join_keys(axis->name);
    if (grid->axes > GRID_LINES)
        return grid_fail(
            grid, axis, err,
            "a sweep has at most %d lines; keys that vary together can share one, and a "
            "key with one value belongs to its own section",
            GRID_LINES);
    for (char *name; (name = text_next_part(&keys, ','));)
        TRY(add_key(grid, axis, name, err));
    TRY(grid_read_values(grid, axis, values, err));
    if (grid->points > POINTS / axis->count)
        return grid_fail(grid, axis, err, "more than %d points in all; try fewer values", POINTS);
    grid->points *= axis->count;
    return CODE_OK;
}

/* Where objective = ..., along = ... or columns = ... goes; NULL: the line is none of these. */
static char **find_setting(struct grid *grid, const char *name) {
    return !strcmp(name, "objective") ? &grid->objective
           : !strcmp(name, "along")   ? &grid->along
           : !strcmp(name, "columns") ? &grid->columns
                                      : NULL;
}

/* A line NAME = VALUES, of the command line if its number is 0. */
static int take_values(struct grid *grid, char *name, char *values, int number, struct err *err) {
    char **setting = find_setting(grid, name);
    if (!setting)
        return add_axis(grid, name, values, number, err);
    if (*setting || !*values)
        return grid_fail(grid, &(struct grid_axis){.name = name, .line = number}, err, "%s",
                         *values ? "is given twice" : "has no value");
    return base_copy(setting, values, err);
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
    struct grid_given *given = grid_given_find(grid, text_trim(text));
    if (!given || given->taken)
        return take_values(grid, text_trim(text), values, number, err);
    given->taken = true;
    return take_values(grid, given->name, given->values, 0, err);
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
    for (int i = 0; i < grid->givens; i++)
        if (!grid->given[i].taken)
            DO(take_values(grid, grid->given[i].name, grid->given[i].values, 0, err));
    if (!code && !grid->axes)
        code = err_set(err, CODE_INPUT,
                       "%s: %s, and there is no --sweep.section.key=VALUES; a single run is made "
                       "by dmft-solve",
                       grid->file, found ? "[sweep] has no keys" : "there is no section [sweep]");
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

int grid_read(struct grid *grid, const char *file, int overrides, char *const *override,
              struct err *err) {
    *grid = (struct grid){.points = 1};
    TRY(base_copy(&grid->file, file, err));
    TRY(grid_given_read(grid, overrides, override, err));
    FILE *in;
    TRY(params_open(&in, file, err));
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
    grid_given_free(grid);
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
    free(grid->columns);
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
