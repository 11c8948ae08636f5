#include "kernels/array/profile.h"
#include "kernels/array/operations.h"

#include <omp.h>

enum op { DOTS, AVERAGES, COMBINE, POINTWISE, MULTIPLY, NORMALS, ENTRIES, MOVE, TOP, OTHER, OPS };
static const char *const op_name[OPS] = {"dots",    "averages", "combine", "pointwise", "multiply",
                                         "normals", "entries",  "move",    "top",       ""};

#define PLACES 512 /* more are "network" */

struct table {
    struct table *next;
    int places, here;
    char place[PLACES][PROFILE_NAME];
    struct profile_cost cost[PLACES][OPS];
};

bool profile_on;
static const struct backend *inner[2]; /* in double and in single precision */
static struct table *tables;           /* of all threads; they stay to the end of the program */
static _Thread_local struct table *mine;
static _Thread_local struct err failure; /* met while an operation was waited for */

static const struct backend *any_inner(void) {
    return inner[0] ? inner[0] : inner[1];
}

static const struct backend *inner_of(struct rows rows) {
    return inner[rows.array->backend->bytes != sizeof(double)];
}

/* NULL without memory: then nothing is counted. */
static struct table *my_table(void) {
    if (mine)
        return mine;
    struct table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    strcpy(table->place[0], "network");
    table->places = 1;
#pragma omp critical(profile)
    {
        table->next = tables;
        tables = table;
    }
    return mine = table;
}

int profile_push(const char *place, const char *part) {
    struct table *table = my_table();
    char name[PROFILE_NAME];
    int k = 0;
    if (!table)
        return 0;
    snprintf(name, sizeof name, "%s%s%s", place, *part ? " " : "", part);
    while (k < table->places && strcmp(table->place[k], name) != 0)
        k++;
    if (k == PLACES)
        k = 0;
    else if (k == table->places)
        memcpy(table->place[table->places++], name, sizeof name);
    int before = table->here;
    table->here = k;
    return before;
}

void profile_pop(int before) {
    struct table *table = my_table();
    if (table)
        table->here = before;
}

/* All threads work on an operation, or wait for it, unless each has a run of its own. */
static void count_operation(enum op op, double start, double flops, double bytes) {
    struct table *table = my_table();
    struct err err;
    if (!failure.code && any_inner() && any_inner()->sync(&err))
        failure = err;
    if (!table)
        return;
    struct profile_cost *cost = &table->cost[table->here][op];
    cost->calls++;
    cost->seconds += (base_cpu_seconds() - start) * (omp_in_parallel() ? 1 : omp_get_max_threads());
    cost->flops += flops;
    cost->bytes += bytes;
}

void profile_other(double start) {
    if (profile_on)
        count_operation(OTHER, start, 0, 0);
}

/* On this rank. */
static double cells_of(struct rows rows) {
    if (!rows.array)
        return 0;
    const struct array_split *split = &rows.array->split;
    double part = (double)(split->end - split->first) / (double)split->blocks;
    return part * (double)rows.array->sites * rows.count;
}

static double bytes_of(struct rows rows) {
    return rows.array ? cells_of(rows) * (double)rows.array->backend->bytes : 0;
}

#define IN(rows) rows
#define OF(C) C
#define HAND_ON(name, parameters, handed, rows, to, kind, flops, moved)                            \
    static void profile_##name parameters {                                                        \
        double start = base_cpu_seconds();                                                         \
        inner_of(rows)->name handed;                                                               \
        count_operation(kind, start, flops, moved);                                                \
    }
BACKEND_OPERATIONS(HAND_ON)

static int profile_sync(struct err *err) {
    int code = failure.code ? failure.code : any_inner()->sync(err);
    if (failure.code)
        *err = failure;
    failure.code = 0;
    return code;
}

#define ENTER(name, ...) table->name = profile_##name;
const struct backend *profile_backend(const struct backend *backend) {
    static struct backend all[2][2]; /* on whole and on split arrays, in either precision */
    int single = backend->bytes != sizeof(double);
    struct backend *table = &all[backend->split][single];
    if (!profile_on)
        return backend;
#pragma omp critical(profile)
    if (!table->name) {
        inner[single] = inner[single] ? inner[single] : backend;
        *table = *backend;
        BACKEND_OPERATIONS(ENTER)
        table->sync = profile_sync;
    }
    return table;
}

static void merge_table(const struct table *table, struct profile_entry *all, int *number) {
    for (int k = 0; k < table->places; k++)
        for (int op = 0; op < OPS; op++) {
            const struct profile_cost *from = &table->cost[k][op];
            int at = 0;
            if (from->calls == 0)
                continue;
            while (at < *number &&
                   (all[at].op != op_name[op] || strcmp(all[at].place, table->place[k]) != 0))
                at++;
            struct profile_entry *to = &all[at];
            if (at == *number) {
                *to = (struct profile_entry){.op = op_name[op]};
                memcpy(to->place, table->place[k], sizeof to->place);
                ++*number;
            }
            to->cost.calls += from->calls;
            to->cost.seconds += from->seconds;
            to->cost.flops += from->flops;
            to->cost.bytes += from->bytes;
        }
}

int profile_read(struct profile_entry **entries, int *number, struct err *err) {
    size_t room = 0;
    *number = 0;
    for (const struct table *table = tables; table; table = table->next)
        for (int k = 0; k < table->places; k++)
            for (int op = 0; op < OPS; op++)
                room += table->cost[k][op].calls > 0;
    TRY(base_alloc(entries, room, sizeof **entries, err));
    for (const struct table *table = tables; table; table = table->next)
        merge_table(table, *entries, number);
    return CODE_OK;
}
