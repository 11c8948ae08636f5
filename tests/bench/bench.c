/* make bench: what one replicate of the limit costs beside one finite network, and how well each
 * knows the loss. Ratios of one run on one machine; nothing here decides a test. */
#define _DEFAULT_SOURCE
#include "solver/run/run.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int configure(struct run *run, int steps, int threads, struct err *err) {
    char T[64], n[64];
    snprintf(T, sizeof T, "training.steps=%d", steps);
    snprintf(n, sizeof n, "solver.threads=%d", threads);
    char *override[] = {T, n, (char[]){"reference.draws=iid"}, (char[]){"output.kernels=none"},
                        (char[]){"output.responses=no"}};
    return run_configure(run, "data/regime2.ini", 5, override, err);
}

/* Two blocks, 8 sequences of 8 letters of 8, D = 16. At tolerance 1e-2 the bases of 64 rows a step
 * would be full at step 40. */
static int configure_transformer(struct run *run, int steps, int threads, struct err *err) {
    static char given[][32] = {"network.depth=2",   "data.inputs=8",         "data.tokens=8",
                               "data.vocabulary=8", "solver.tolerance=3e-2", "data.test_inputs=0",
                               "solver.sites=1024", "reference.draws=iid",   "output.kernels=none"};
    enum { GIVEN = sizeof given / sizeof *given };
    char T[64], n[64], *override[GIVEN + 2] = {T, n};
    snprintf(T, sizeof T, "training.steps=%d", steps);
    snprintf(n, sizeof n, "solver.threads=%d", threads);
    for (int i = 0; i < GIVEN; i++)
        override[2 + i] = given[i];
    return run_configure(run, "data/transformer.ini", GIVEN + 2, override, err);
}

typedef int configure_fn(struct run *run, int steps, int threads, struct err *err);

/* CPU seconds and peak memory (MB) of one run in a process of its own, on one thread. */
static int cost(configure_fn *how, int N, int steps, double *seconds, double *megabytes) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct run run = {0};
        struct record record = {0};
        struct err err;
        int code = how(&run, steps, 1, &err);
        if (!code)
            code = run_ensemble(&run, N, 1, &record, &err);
        if (code)
            fprintf(stderr, "bench: %s\n", err.text);
        _exit(code);
    }
    struct rusage usage;
    int status;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status)
        return 1;
    *seconds = (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec +
               (double)usage.ru_stime.tv_sec + 1e-6 * (double)usage.ru_stime.tv_usec;
    *megabytes = (double)usage.ru_maxrss / 1024;
    return 0;
}

static int print_transformer(void) {
    enum { STEPS = 50 };
    double seconds, memory;
    printf("\ndata/transformer.ini with L = 2, P = 8, n = 8, D = 16, tolerance 3e-2, one thread\n"
           "%-20s %6s %10s %12s %10s\n",
           "one run", "steps", "CPU s", "ms a step", "peak MB");
    for (int N = 0; N <= 1024; N += 1024) {
        if (cost(configure_transformer, N, STEPS, &seconds, &memory))
            return 1;
        printf("%-20s %6d %10.3f %12.3f %10.0f\n", N ? "network, N = 1024" : "limit, S = 1024",
               STEPS, seconds, 1e3 * seconds / STEPS, memory);
    }
    return 0;
}

/* Standard deviation of the loss over runs, [steps]. */
static int deviations(int N, int steps, int runs, double *sd, struct err *err) {
    struct run run = {0};
    struct record record = {0};
    double *mean = NULL;
    int code;
    DO(base_alloc(&mean, (size_t)steps, sizeof *mean, err));
    DO(configure(&run, steps, 0, err));
    DO(run_ensemble(&run, N, runs, &record, err));
    const struct series *loss = record_find(&record, "loss");
    record_statistics(&record, loss, mean, sd);
    for (int t = 0; t < steps; t++)
        sd[t] *= sqrt(runs);
done:
    free(mean);
    record_free(&record);
    run_free(&run);
    return code;
}

int main(void) {
    enum { SHORT = 20, LONG = 200, RUNS = 16 };
    static const struct {
        const char *what;
        int N, steps;
    } rows[] = {{"limit, S = 2048", 0, SHORT},      {"limit, S = 2048", 0, LONG},
                {"network, N = 1024", 1024, SHORT}, {"network, N = 1024", 1024, LONG},
                {"network, N = 2048", 2048, SHORT}, {"network, N = 2048", 2048, LONG}};
    enum { ROWS = sizeof rows / sizeof *rows };
    double seconds[ROWS], memory[ROWS], limit[SHORT], network[SHORT], worst = INFINITY;
    struct err err;
    printf("data/regime2.ini (MSSP, sigmoid, kappa 0.5, N_e 2, P 4), one thread\n"
           "%-20s %6s %10s %12s %10s\n",
           "one run", "steps", "CPU s", "ms a step", "peak MB");
    for (int i = 0; i < ROWS; i++) {
        if (cost(configure, rows[i].N, rows[i].steps, &seconds[i], &memory[i]))
            return 1;
        printf("%-20s %6d %10.3f %12.3f %10.0f\n", rows[i].what, rows[i].steps, seconds[i],
               1e3 * seconds[i] / rows[i].steps, memory[i]);
    }
    printf("limit / network N = 2048: CPU %.2f at T = 20, %.2f at T = 200\n",
           seconds[0] / seconds[4], seconds[1] / seconds[5]);
    printf("limit, step from 20 to 200 / step up to 20: %.2f\n",
           (seconds[1] - seconds[0]) / (LONG - SHORT) / (seconds[0] / SHORT));
    if (deviations(0, SHORT, RUNS, limit, &err) || deviations(2048, SHORT, RUNS, network, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        return 1;
    }
    printf("standard deviation of the loss over %d runs (+- %.0f %%)\n   t     limit   network   "
           "ratio\n",
           RUNS, 100 / sqrt(2 * (RUNS - 1)));
    for (int t = 1; t < SHORT; t++) {
        printf("%4d  %8.2g  %8.2g  %6.1f\n", t, limit[t], network[t], network[t] / limit[t]);
        worst = fmin(worst, network[t] / limit[t]);
    }
    printf("smallest ratio %.1f\n", worst);
    return print_transformer();
}
