#include "solver/run/parts.h"
#include "kernels/array/few_rows.h"
#include "kernels/array/profile.h"

/* All numbers of the triad, of all threads together: more than caches hold. */
#define TRIAD ((size_t)48 << 20)
#define MULTIPLY_ADDS (1L << 28) /* of a pass */

struct work {
    size_t numbers; /* of one thread */
    void (*pass)(double *x, size_t n);
};

static void multiply(double *x, size_t n UNUSED) {
    few_rows_peak(x, MULTIPLY_ADDS);
}

static void triad(double *x, size_t n) {
    double *restrict a = x, *b = x + n / 3, *c = x + n / 3 * 2;
#pragma omp simd
    for (size_t i = 0; i < n / 3; i++)
        a[i] = b[i] + 3 * c[i];
}

/* Passes a second of all threads together, the best of a few; 0: no memory. */
static double measure_rate(int threads, struct work work) {
    double best = 0;
    bool poor = false;
#pragma omp parallel num_threads(threads)
    {
        double *x = malloc(work.numbers * sizeof *x);
        for (size_t i = 0; i < work.numbers && x; i++)
            x[i] = 1; /* pages of its own: untouched ones are all the same page of zeros */
        for (int pass = 0; pass < 5; pass++) {
#pragma omp barrier
            double start = base_cpu_seconds();
            if (x)
                work.pass(x, work.numbers);
#pragma omp barrier
            double mine = threads / (base_cpu_seconds() - start);
#pragma omp critical(costs)
            {
                best = mine > best ? mine : best;
                poor = poor || !x;
            }
        }
        free(x);
    }
    return poor ? 0 : best;
}

static double seconds_of(const struct backend *backend, struct rows x, struct rows y, double *C,
                         struct err *err) {
    double best = INFINITY;
    for (int round = 0; round < 5; round++) {
        double start = base_seconds();
        for (int pass = 0; pass < 4; pass++)
            if (C)
                backend->dots(x, x, C);
            else
                rows_copy(x, y);
        if (backend->sync(err))
            return 0;
        best = fmin(best, (base_seconds() - start) / 4);
    }
    return best;
}

/* By the operations of the backend: a square of dots, and a copy. */
static int measure_device(const struct backend *backend, struct machine *machine, struct err *err) {
    enum { SIDE = 512, DEEP = 1 << 16, LINES = 32, LONG = 1 << 20 };
    FREED(array_free) struct array square = {0}, line = {0};
    TRY(array_init(&square, backend, DEEP, 1, SIDE, err));
    TRY(array_init(&line, backend, LONG, 1, 2 * LINES, err));
    SCRATCH(double, C, (size_t)SIDE *SIDE);
    rows_zero(array_all(&square));
    rows_zero(array_all(&line));
    double product = seconds_of(backend, array_all(&square), array_all(&square), C, err);
    double copy = seconds_of(backend, array_rows(&line, 0, LINES), array_rows(&line, LINES, LINES),
                             NULL, err);
    *machine = (struct machine){2.0 * SIDE * SIDE * DEEP / product,
                                2.0 * LINES * LONG * sizeof(double) / copy, "dots", "copy"};
    return product > 0 && copy > 0 ? CODE_OK : err->code;
}

int speeds_machine(const struct backend *backend, int threads, struct machine *machine,
                   struct err *err) {
    const struct work products = {1, multiply};
    size_t part = TRIAD / (size_t)threads;
    const struct work lines = {part < 1 << 20 ? 1 << 20 : part, triad};
    double room;
    TRY(backend->open(&room, err));
    if (isfinite(room))
        return measure_device(backend, machine, err);
    *machine = (struct machine){
        measure_rate(threads, products) * 2.0 * MULTIPLY_ADDS,
        measure_rate(threads, lines) * sizeof(double) * (double)lines.numbers, "fma", "triad"};
    if (machine->flops == 0 || machine->bandwidth == 0)
        return err_set(err, CODE_SYSTEM, "out of memory: the rates of this machine");
    return CODE_OK;
}

static int by_seconds(const void *a, const void *b) {
    const struct profile_entry *x = a, *y = b;
    return (x->cost.seconds < y->cost.seconds) - (x->cost.seconds > y->cost.seconds);
}

static bool is_entry(const struct profile_entry *entry, const char *place, const char *op) {
    return (!place || !strcmp(entry->place, place)) && (!op || !strcmp(entry->op, op));
}

/* What an entry belongs to in the line of shares. */
enum kind { PRODUCTS, SPANS, NORMALS, ACTIVATIONS, MEASURING, FILES, OTHER, WAITING, KINDS };
static const char *const kind_name[KINDS] = {
    "products of maps", "orthonormalisation",        "normals", "activations", "measuring", "files",
    "other operations", "waiting and small matrices"};

/* Maps and spans copy and scale rows by pointwise operations, too. */
static enum kind kind_of(const struct profile_entry *entry) {
    if (is_entry(entry, NULL, "normals"))
        return NORMALS;
    if (is_entry(entry, "spans", NULL))
        return SPANS;
    if (is_entry(entry, "measuring", NULL))
        return MEASURING;
    if (is_entry(entry, "files", NULL))
        return FILES;
    if (is_entry(entry, "network", "pointwise"))
        return ACTIVATIONS;
    return is_entry(entry, "network", NULL) ? OTHER : PRODUCTS;
}

static void print_row(FILE *stream, const struct profile_entry *entry, double total, int threads,
                      const struct machine *machine) {
    const struct profile_cost *cost = &entry->cost;
    double flops = cost->flops * threads / cost->seconds,
           bytes = cost->bytes * threads / cost->seconds;
    fprintf(stream, "%-22s %-10s %9.0f %9.3f %6.1f %9.3g %7.0f %9.3g %7.0f\n", entry->place,
            entry->op, cost->calls, cost->seconds / threads, 100 * cost->seconds / total,
            1e-9 * cost->flops, 100 * flops / machine->flops, 1e-9 * cost->bytes,
            100 * bytes / machine->bandwidth);
}

static void print_left(FILE *stream, const char *what, double seconds, double total, int threads) {
    fprintf(stream, "%-43s %9.3f %6.1f\n", what, seconds / threads, 100 * seconds / total);
}

/* Returns how many seconds the operations would take at the rates of the machine, if each moves its
 * bytes, or makes its flops where that takes longer. Numbers that lie in a cache move faster. */
static double find_floor(const struct profile_entry *entries, int count,
                         const struct machine *machine) {
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += fmax(entries[k].cost.flops / machine->flops,
                    entries[k].cost.bytes / machine->bandwidth);
    return sum;
}

/* share: CPU seconds of each kind, of all threads together. Files, waiting and small matrices move
 * nothing that a floor counts, so they are told beside what the operations took. */
static void print_floor(FILE *stream, double floor, const double *share, double seconds,
                        int threads, const struct machine *machine) {
    double operations = seconds - (share[FILES] + share[WAITING]) / threads;
    if (floor > 0)
        fprintf(stream,
                "floor: %.3g s, each operation at the rate of %s or of %s, whichever is slower; "
                "operations took %.2f of it, files %.3g s, %s %.3g s, the whole run %.2f\n",
                floor, machine->product, machine->stream, operations / floor,
                share[FILES] / threads, kind_name[WAITING], share[WAITING] / threads,
                seconds / floor);
}

int speeds_print(FILE *stream, const struct backend *backend, double seconds, int threads,
                 struct err *err) {
    FREED(base_free) struct profile_entry *entries = NULL;
    int count;
    struct machine machine;
    double share[KINDS] = {0}, left = 0, total = seconds * threads;
    TRY(speeds_machine(backend, threads, &machine, err));
    TRY(profile_read(&entries, &count, err));
    qsort(entries, (size_t)count, sizeof *entries, by_seconds);
    fprintf(stream,
            "profile: %.3f s of CPU time, %d threads; all together %s %.1f GF/s, %s %.1f GB/s\n"
            "%-22s %-10s %9s %9s %6s %9s %% %-5s %9s %% %s\n",
            seconds, threads, machine.product, 1e-9 * machine.flops, machine.stream,
            1e-9 * machine.bandwidth, "place", "operation", "calls", "seconds", "%", "Gflop",
            machine.product, "GB", machine.stream);
    for (int k = 0; k < count; k++) {
        share[kind_of(&entries[k])] += entries[k].cost.seconds;
        if (entries[k].cost.seconds >= 0.005 * total)
            print_row(stream, &entries[k], total, threads, &machine);
        else
            left += entries[k].cost.seconds;
    }
    share[WAITING] = total;
    for (int kind = 0; kind < WAITING; kind++)
        share[WAITING] -= share[kind];
    print_left(stream, "other rows", left, total, threads);
    print_left(stream, kind_name[WAITING], share[WAITING], total, threads);
    fprintf(stream, "shares:");
    for (int kind = 0; kind < KINDS; kind++)
        fprintf(stream, "%s %s %.1f %%", kind ? "," : "", kind_name[kind],
                100 * share[kind] / total);
    fprintf(stream, "\n");
    print_floor(stream, find_floor(entries, count, &machine), share, seconds, threads, &machine);
    return CODE_OK;
}
