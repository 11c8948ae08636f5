/* The queue of each host thread: which task shares a launch with which. */
#include "kernels/array/device_queue.h"

#include <string.h>

#define TASKS 128 /* that wait, at most */
#define ACCESSES (5 * TASKS)
#define ADDS 16u                      /* sites of a thread of a sum, at least */
#define SUM_THREADS ((size_t)1 << 17) /* of a sum, about */
#define SUM_PARTS ((size_t)1 << 15)
#define SUM_LEAST ((size_t)64)
#define SMALL ((size_t)1 << 24) /* products of numbers */
#define SMALL_UNITS ((size_t)4096)

enum launch_kind { LAUNCH_SITES, LAUNCH_WIDE, LAUNCH_SUMS };

struct waiting_launch {
    enum launch_kind kind;
    int count;
    size_t counters;
    const char *where; /* of its first task */
};

/* Where of a range a thread touches it: anywhere, at its own site, or there in its own rows. */
enum reach { REACH_ALL, REACH_SITE, REACH_ROW };

/* A range of memory that a task touches. */
struct access {
    const char *begin, *end;
    enum reach reach;
    bool writes;
    int launch;
};

struct queue {
    struct task site[TASKS];
    struct sum_task sum[TASKS];
    int site_launch[TASKS], sum_launch[TASKS], sites, sums;
    struct waiting_launch launch[TASKS];
    int launches;
    struct access access[ACCESSES];
    int accesses;
    void *gone[TASKS]; /* memory that is set free after the launches */
    int all_gone;
    bool flushing;
};

static thread_local struct queue *self;

static struct queue *own_queue(void) {
    if (!self)
        self = new struct queue();
    return self;
}

void device_queue_end(void) {
    delete self;
    self = NULL;
}

/* What a task is about to touch, beside the accesses that are known. */
struct touched {
    struct access access[5];
    int count;
};

static void touch(struct touched *touched, struct operand x, size_t rows, size_t sites,
                  enum reach reach, bool writes) {
    size_t bytes = x.single ? sizeof(float) : sizeof(double);
    const char *begin = (const char *)x.at;
    if (begin && rows && sites)
        touched->access[touched->count++] = {begin, begin + ((rows - 1) * x.stride + sites) * bytes,
                                             reach, writes, 0};
}

static void touch_numbers(struct touched *touched, const double *numbers, size_t count,
                          bool writes) {
    struct operand x = {(void *)(uintptr_t)numbers, 0, false};
    touch(touched, x, 1, count, REACH_ALL, writes);
}

static bool in_conflict(enum launch_kind kind, const struct access *now, const struct access *old,
                        enum launch_kind old_kind, bool *same_launch) {
    if (now->end <= old->begin || old->end <= now->begin || !(now->writes || old->writes))
        return false;
    enum reach least = now->reach < old->reach ? now->reach : old->reach;
    bool same_rows = now->begin == old->begin && now->end == old->end;
    *same_launch = kind == old_kind && ((kind == LAUNCH_SITES && least >= REACH_SITE) ||
                                        (kind == LAUNCH_WIDE && least == REACH_ROW && same_rows));
    return true;
}

/* The launch that a task of these accesses goes to. */
static int place(struct queue *queue, enum launch_kind kind, struct touched *touched,
                 size_t counters, const char *where) {
    int at = 0, most = kind == LAUNCH_SUMS ? QUEUE_SUMS : QUEUE_SITES;
    for (int n = 0; n < touched->count; n++)
        for (int m = 0; m < queue->accesses; m++) {
            const struct access *old = &queue->access[m];
            bool same;
            if (old->launch >= at &&
                in_conflict(kind, &touched->access[n], old, queue->launch[old->launch].kind, &same))
                at = old->launch + (same ? 0 : 1);
        }
    while (at < queue->launches &&
           (queue->launch[at].kind != kind || queue->launch[at].count >= most ||
            queue->launch[at].counters + counters > QUEUE_COUNTERS))
        at++;
    if (at == queue->launches)
        queue->launch[queue->launches++] = {kind, 0, 0, where};
    queue->launch[at].count++;
    queue->launch[at].counters += counters;
    for (int n = 0; n < touched->count; n++) {
        touched->access[n].launch = at;
        queue->access[queue->accesses++] = touched->access[n];
    }
    return at;
}

static void launch_sites(struct queue *queue, int number) {
    struct site_batch batch = {};
    size_t sites = 0, rows = 1;
    for (int n = 0; n < queue->sites; n++)
        if (queue->site_launch[n] == number) {
            const struct task *task = &queue->site[n];
            batch.task[batch.count++] = *task;
            size_t parts = (task->rows + QUEUE_ROWS - 1) / QUEUE_ROWS;
            sites = sites > task->sites ? sites : task->sites;
            if (queue->launch[number].kind == LAUNCH_WIDE && rows < parts)
                rows = parts;
        }
    cuda_launch_sites(&batch, rows, sites, queue->launch[number].where);
}

/* Numbers that the threads of a sum leave for each other. */
static size_t partial_numbers(const struct sum_task &task) {
    size_t width = task.pairs ? 1 : task.rows < QUEUE_FEW ? task.rows : QUEUE_FEW;
    return sum_units(task) * task.parts * width;
}

/* They are borrowed for all sums of a launch at once: memory costs the host as much as a launch. */
static void launch_sums(struct queue *queue, int number) {
    struct sum_batch batch = {};
    size_t parts = 0, numbers = 0;
    unsigned first = 0;
    void *memory;
    batch.counters = device_counters();
    for (int n = 0; n < queue->sums; n++)
        numbers += queue->sum_launch[n] == number ? partial_numbers(queue->sum[n]) : 0;
    if (!device_borrow(numbers * sizeof(double), &memory, queue->launch[number].where))
        return;
    numbers = 0;
    for (int n = 0; n < queue->sums; n++)
        if (queue->sum_launch[n] == number) {
            const struct sum_task *task = &queue->sum[n];
            batch.task[batch.count] = *task;
            batch.task[batch.count].partial = (double *)memory + numbers;
            batch.task[batch.count++].first = first;
            first += sum_units(*task) * task->counters;
            batch.units += sum_units(*task);
            numbers += partial_numbers(*task);
            parts = parts > task->parts ? parts : task->parts;
        }
    cuda_launch_sums(&batch, parts, queue->launch[number].where);
    device_free(memory);
}

void device_flush(void) {
    struct queue *queue = own_queue();
    if (queue->flushing)
        return;
    queue->flushing = true;
    device_send_all();
    for (int n = 0; n < queue->launches; n++)
        if (queue->launch[n].kind == LAUNCH_SUMS)
            launch_sums(queue, n);
        else
            launch_sites(queue, n);
    for (int n = 0; n < queue->all_gone; n++)
        device_free(queue->gone[n]);
    queue->launches = queue->sites = queue->sums = queue->accesses = queue->all_gone = 0;
    queue->flushing = false;
}

void device_give_back(void *memory) {
    struct queue *queue = own_queue();
    if (queue->all_gone == TASKS)
        device_flush();
    if (memory && queue->launches)
        queue->gone[queue->all_gone++] = memory;
    else if (memory)
        device_free(memory);
}

/* Whether threads of their own for some of the rows are worth a launch of its own. */
static bool is_wide(size_t rows, size_t terms) {
    return rows > QUEUE_ROWS && (rows + QUEUE_ROWS - 1) / QUEUE_ROWS * terms > QUEUE_SERIAL;
}

void device_queue(const struct task *task, const char *where) {
    struct queue *queue = own_queue();
    struct touched touched = {};
    size_t rows = task->rows, sites = task->sites, terms = task->terms;
    enum task_kind kind = task->kind;
    bool all = kind == TASK_COMBINE;
    size_t from = all || kind == TASK_TAKE ? terms : rows, read = sites, each = task->each_a;
    if (!rows || !sites || !device_ready() || !device_good(cudaSuccess, where))
        return;
    if (queue->sites + queue->sums == TASKS)
        device_flush();
    if (kind == TASK_TILE)
        read = terms;
    if (kind == TASK_STRIDED)
        read = (sites - 1) * task->c_row + (terms - 1) * task->c_term + 1;
    if (each > 1)
        read = sites / each;
    touch(&touched, task->y, rows, sites, REACH_ROW, true);
    touch(&touched, task->a, from, read,
          read != sites              ? REACH_ALL
          : all || kind == TASK_TAKE ? REACH_SITE
                                     : REACH_ROW,
          false);
    if (kind == TASK_POINT)
        touch(&touched, task->b, rows, sites, REACH_ROW, true);
    if (kind == TASK_MULTIPLY && task->each_b > 1)
        touch(&touched, task->b, rows, sites / task->each_b, REACH_ALL, false);
    else if (kind == TASK_MULTIPLY || kind == TASK_NUMBERS)
        touch(&touched, task->b, rows, sites, REACH_ROW, false);
    if (all && terms)
        touch(&touched, task->C, 1, (rows - 1) * task->c_row + (terms - 1) * task->c_term + 1,
              REACH_ALL, false);
    if (kind == TASK_POINT || kind == TASK_ADD)
        touch(&touched, task->C, 1, rows, REACH_ALL, false);
    if (kind == TASK_STRAIGHTEN || all) /* those of a combination may come from the device, too */
        touch_numbers(&touched, task->numbers, all ? terms : rows * rows, false);
    queue->site[queue->sites] = *task;
    queue->site_launch[queue->sites++] = place(
        queue,
        kind != TASK_STRAIGHTEN && is_wide(rows, all || kind == TASK_STRIDED ? terms : QUEUE_TERMS)
            ? LAUNCH_WIDE
            : LAUNCH_SITES,
        &touched, 0, where);
}

/* Threads of a column. */
static size_t parts_of(size_t sites, size_t units) {
    size_t parts = SUM_THREADS / units;
    parts = parts > SUM_LEAST ? parts : SUM_LEAST;
    parts = parts < SUM_PARTS ? parts : SUM_PARTS;
    parts = parts < sites / ADDS ? parts : sites / ADDS;
    return parts ? parts : 1;
}

bool device_queue_small(size_t rows, size_t columns, size_t sites) {
    size_t few = rows < columns ? rows : columns, many = rows < columns ? columns : rows;
    return rows * columns * sites <= SMALL &&
           (few + QUEUE_FEW - 1) / QUEUE_FEW * many <= SMALL_UNITS;
}

void device_queue_sum(const struct sum_task *what, const char *where) {
    struct queue *queue = own_queue();
    struct touched touched = {};
    struct sum_task task = *what;
    size_t rows = task.pairs ? task.columns : task.rows, sites = task.sites;
    size_t units = sum_units(task);
    if (!units || !sites || !device_ready())
        return;
    task.parts = (unsigned)parts_of(sites, units);
    task.counters = sum_counters(task.parts);
    if (queue->sites + queue->sums == TASKS)
        device_flush();
    touch(&touched, task.a, rows, sites, REACH_ALL, false);
    touch(&touched, task.b, task.columns, sites, REACH_ALL, false);
    touch_numbers(&touched, task.out,
                  (task.pairs ? 0 : (rows - 1) * task.out_row) +
                      (task.columns - 1) * task.out_column + 1,
                  true);
    int at = place(queue, LAUNCH_SUMS, &touched, units * task.counters, where);
    queue->sum[queue->sums] = task;
    queue->sum_launch[queue->sums++] = at;
}
