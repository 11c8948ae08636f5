/* Tables of numbers as text. */
#define _POSIX_C_SOURCE 200809L
#include "solver/data/array_file.h"
#include "kernels/base/text.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is known of a table while its lines come. */
struct table {
    const struct array_file *flat;
    int line, columns;
    char separator;
    enum column { COLUMN_INPUT, COLUMN_TARGET, COLUMN_WEIGHT, COLUMNS } * kind; /* [columns] */
    int count[COLUMNS];                                                         /* of each kind */
    size_t rows, room, most;
    double *values; /* [rows][columns] */
};

static bool read_number(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end;
}

/* y, y0, y1, ... */
static bool names_target(const char *name) {
    return *name == 'y' && !name[1 + strspn(name + 1, "0123456789")];
}

static enum column kind_of(const struct table *table, const char *name) {
    const char *weight = table->flat->weight;
    if (weight && *weight && !strcmp(name, weight))
        return COLUMN_WEIGHT;
    return names_target(name) ? COLUMN_TARGET : COLUMN_INPUT;
}

/* From the first line: separator, columns, what each of them is; *names: it has no numbers. */
static int begin(struct table *table, const char *line, bool *names, struct err *err) {
    char *copy, *cursor, *field;
    double value;
    table->separator = strchr(line, ',') ? ',' : strchr(line, '\t') ? '\t' : ';';
    *names = false;
    TRY(base_copy(&copy, line, err));
    for (cursor = copy; (field = text_next_part(&cursor, table->separator)); table->columns++)
        *names = *names || !read_number(field, &value);
    free(copy);
    TRY(base_alloc(&table->kind, (size_t)table->columns, sizeof *table->kind, err));
    TRY(base_copy(&copy, line, err));
    cursor = copy;
    for (int k = 0; (field = text_next_part(&cursor, table->separator)); k++) {
        table->kind[k] = *names                    ? kind_of(table, field)
                         : k == table->columns - 1 ? COLUMN_TARGET
                                                   : COLUMN_INPUT;
        table->count[table->kind[k]]++;
    }
    free(copy);
    if (!table->count[COLUMN_TARGET] || !table->count[COLUMN_INPUT])
        return err_set(err, CODE_INPUT, "data file %s: %s", table->flat->path,
                       !table->count[COLUMN_TARGET] ? "no column is called y (or y0, y1, ...)"
                       : table->columns > 1         ? "no column is left for X"
                                                    : "has one column, and X and y need two");
    return CODE_OK;
}

static int add_row(struct table *table, char *line, struct err *err) {
    const char *path = table->flat->path;
    size_t columns = (size_t)table->columns;
    char *field, cut[TEXT_CLIP_SIZE];
    int k = 0;
    if (table->rows == table->room) {
        size_t most = table->most / columns, room = table->room ? 2 * table->room : 64;
        table->room = room < most ? room : most;
        if (table->rows == table->room)
            return err_set(err, CODE_INPUT,
                           "data file %s: is too large, more than %zu lines of %zu numbers where "
                           "%zu numbers are allowed",
                           path, table->rows, columns, table->most);
        double *grown = realloc(table->values, table->room * columns * sizeof *grown);
        if (!grown)
            return err_set(err, CODE_SYSTEM, "out of memory: data file %s", path);
        table->values = grown;
    }
    for (; (field = text_next_part(&line, table->separator)); k++) {
        double value;
        if (!read_number(field, &value))
            return err_set(err, CODE_INPUT, "data file %s:%d: field %d, \"%s\", is not a number",
                           path, table->line, k + 1, text_clip(cut, field));
        if (k < table->columns)
            table->values[table->rows * columns + (size_t)k] = value;
    }
    if (k != table->columns)
        return err_set(err, CODE_INPUT, "data file %s:%d: has %d fields, the first line %d", path,
                       table->line, k, table->columns);
    table->rows++;
    return CODE_OK;
}

/* The columns of one kind as an array. */
static int take(struct array_file *flat, const struct table *table, enum column kind,
                struct err *err) {
    struct array_file_entry *array = &flat->array[flat->count++];
    size_t columns = (size_t)table->count[kind], at = 0;
    snprintf(array->name, sizeof array->name, "%s",
             kind == COLUMN_WEIGHT   ? flat->weight
             : kind == COLUMN_TARGET ? "y"
                                     : "X");
    array->rank = kind != COLUMN_INPUT && columns == 1 ? 1 : 2;
    array->shape[0] = table->rows;
    array->shape[1] = columns;
    array->count = table->rows * columns;
    array->whole = true;
    TRY(base_alloc(&array->values, array->count, sizeof *array->values, err));
    for (size_t k = 0; k < table->rows * (size_t)table->columns; k++)
        if (table->kind[k % (size_t)table->columns] == kind) {
            array->values[at++] = table->values[k];
            array->whole = array->whole && table->values[k] == floor(table->values[k]);
        }
    return CODE_OK;
}

/* line: a buffer of getline, which the caller frees. */
static int read_lines(struct table *table, struct array_file *flat, char **line, size_t *size,
                      struct err *err) {
    for (ssize_t length; (length = getline(line, size, flat->stream)) >= 0;) {
        char *text = *line;
        TRY(base_poll(err, "reading data file %s", flat->path));
        table->line++;
        if (table->line == 1 && !strncmp(text, "\xef\xbb\xbf", 3))
            text += 3;
        if (length && (*line)[length - 1] == '\n')
            (*line)[--length] = '\0';
        if (length && (*line)[length - 1] == '\r')
            (*line)[--length] = '\0';
        if (memchr(*line, '\r', (size_t)length))
            return err_set(err, CODE_INPUT,
                           "data file %s:%d: a carriage return within a line; lines end with LF or "
                           "CR LF, not with CR alone",
                           flat->path, table->line);
        if (memchr(*line, '\0', (size_t)length))
            return err_set(err, CODE_INPUT, "data file %s:%d: not text (byte 0x00)", flat->path,
                           table->line);
        if (!text[strspn(text, " \t")] || *text == '#')
            continue;
        const char *bad = text_find_bad(text);
        if (bad)
            return err_set(err, CODE_INPUT, "data file %s:%d: not text (byte 0x%02x)", flat->path,
                           table->line, (unsigned char)*bad);
        bool names = false;
        if (!table->columns)
            TRY(begin(table, text, &names, err));
        if (!names)
            TRY(add_row(table, text, err));
    }
    if (!table->rows)
        return err_set(err, CODE_INPUT, "data file %s: has no numbers", flat->path);
    for (enum column kind = COLUMN_INPUT; kind < COLUMNS; kind++)
        if (table->count[kind])
            TRY(take(flat, table, kind, err));
    return CODE_OK;
}

int array_file_csv_open(struct array_file *flat, size_t most, struct err *err) {
    struct table table = {.flat = flat, .most = most < SIZE_MAX / 2 ? 2 * most : most};
    char *line = NULL;
    size_t size = 0;
    int code = read_lines(&table, flat, &line, &size, err);
    free(line);
    free(table.kind);
    free(table.values);
    return code;
}
