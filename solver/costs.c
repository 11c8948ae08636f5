/* The table of --profile. */
#include "solver/costs.h"
#include "kernels/profile.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

/* A pass of the work of one thread, or nothing without memory. */
static void multiply(double *x) {
    enum { n = 512 };
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, x, n, x + n * n, n, 0.0,
                x + 2 * n * n, n);
}

#define TRIAD ((size_t)8 << 20)
static void triad(double *x) {
    double *restrict a = x, *b = x + TRIAD, *c = x + 2 * TRIAD;
#pragma omp simd
    for (size_t i = 0; i < TRIAD; i++)
        a[i] = b[i] + 3 * c[i];
}

/* Passes a second of all threads together, the best of a few rounds. */
static double rate(int threads, void (*work)(double *)) {
    enum { ROUNDS = 5, PASSES = 4 };
    double best = 0;
#pragma omp parallel num_threads(threads)
    {
        double *x = malloc(3 * TRIAD * sizeof *x);
        for (size_t i = 0; i < 3 * TRIAD && x; i++)
            x[i] = 1; /* pages of its own: untouched ones are all the same page of zeros */
        for (int round = 0; round < ROUNDS; round++) {
            double start = 0;
#pragma omp barrier
            start = base_seconds();
            for (int pass = 0; pass < PASSES && x; pass++)
                work(x);
#pragma omp barrier
            double mine = threads * PASSES / (base_seconds() - start);
#pragma omp critical(costs)
            best = mine > best ? mine : best;
        }
        free(x);
    }
    return best;
}

void costs_machine(int threads, double *dgemm, double *bandwidth) {
    *dgemm = rate(threads, multiply) * 2 * 512.0 * 512 * 512;
    *bandwidth = rate(threads, triad) * 3 * sizeof(double) * (double)TRIAD;
}

static int by_seconds(const void *a, const void *b) {
    const struct profile_entry *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static bool is(const struct profile_entry *entry, const char *place, const char *op) {
    return (!place || !strcmp(entry->place, place)) && (!op || !strcmp(entry->op, op));
}

/* What an entry belongs to in the line of shares. */
enum kind { PRODUCTS, SPANS, NORMALS, ACTIVATIONS, MEASURING, FILES, REST, KINDS };
static const char *const kind_name[KINDS] = {"products of maps",
                                             "orthonormalisation",
                                             "normals",
                                             "activations",
                                             "measuring",
                                             "files",
                                             "rest"};

static enum kind kind_of(const struct profile_entry *entry) {
    if (is(entry, NULL, "normals"))
        return NORMALS;
    if (is(entry, NULL, "pointwise"))
        return ACTIVATIONS;
    if (is(entry, "spans", NULL))
        return SPANS;
    if (is(entry, "measuring", NULL))
        return MEASURING;
    if (is(entry, "files", NULL))
        return FILES;
    return is(entry, "network", NULL) ? REST : PRODUCTS;
}

static void print_row(FILE *stream, const struct profile_entry *entry, double total, int threads,
                      double dgemm, double bandwidth) {
    double flops = entry->flops * threads / entry->seconds,
           bytes = entry->bytes * threads / entry->seconds;
    fprintf(stream, "%-22s %-10s %9.0f %9.3f %6.1f %8.2f %7.0f %8.2f %7.0f\n", entry->place,
            entry->op, entry->calls, entry->seconds, 100 * entry->seconds / total, 1e-9 * flops,
            100 * flops / dgemm, 1e-9 * bytes, 100 * bytes / bandwidth);
}

int costs_print(FILE *stream, double wall, int threads, struct err *err) {
    struct profile_entry *entries;
    int count, workers;
    double dgemm, bandwidth, share[KINDS] = {0}, left = 0;
    TRY(profile_read(&entries, &count, &workers, err));
    costs_machine(threads, &dgemm, &bandwidth);
    workers = workers ? workers : 1;
    double total = wall * workers;
    qsort(entries, (size_t)count, sizeof *entries, by_seconds);
    fprintf(stream,
            "profile: %.3f s, %d threads (%d of them with runs of their own); all together dgemm "
            "%.1f GF/s, triad %.1f GB/s\n%-22s %-10s %9s %9s %6s %8s %7s %8s %7s\n",
            wall, threads, workers, 1e-9 * dgemm, 1e-9 * bandwidth, "place", "operation", "calls",
            "seconds", "%", "GF/s", "% dgemm", "GB/s", "% triad");
    for (int k = 0; k < count; k++) {
        share[kind_of(&entries[k])] += entries[k].seconds;
        if (entries[k].seconds >= 0.005 * total)
            print_row(stream, &entries[k], total, workers, dgemm, bandwidth);
        else
            left += entries[k].seconds;
    }
    fprintf(stream, "%-22s %-10s %9s %9.3f %6.1f\n", "others", "", "", left, 100 * left / total);
    share[REST] = total;
    for (int kind = 0; kind < REST; kind++)
        share[REST] -= share[kind];
    fprintf(stream, "shares:");
    for (int kind = 0; kind < KINDS; kind++)
        fprintf(stream, "%s %s %.1f %%", kind ? "," : "", kind_name[kind],
                100 * share[kind] / total);
    fprintf(stream, "\n");
    free(entries);
    return CODE_OK;
}
