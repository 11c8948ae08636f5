/* make bench, second part: the march beside the fixed point and averaged networks. CPU seconds and
 * peak memory of one run in a process of its own on one thread, and the error of what it says: the
 * root mean square over runs of f - f_ref, averaged over inputs, at the time where the loss has
 * fallen to about a third. The seconds for one per cent are those of as many runs as bring the
 * standard error there. With "figure": error against cost for several sizes, as CSV on standard
 * output (plot/methods.py). */
#define _DEFAULT_SOURCE
#include "solver/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
    const char *overrides[12];
    int N, steps, runs;
};

struct outcome {
    double seconds, megabytes; /* of one run */
    double f[64], error;       /* mean over runs [P]; rms over runs and inputs about a reference */
};

static int configure(struct run *run, const struct job *job, struct err *err) {
    char *override[20], T[64];
    int n = 0;
    snprintf(T, sizeof T, "training.steps=%d", job->steps);
    override[n++] = T;
    override[n++] = (char[]){"solver.threads=1"};
    override[n++] = (char[]){"output.kernels=none"};
    for (int i = 0; job->overrides[i]; i++)
        override[n++] = (char *)(uintptr_t)job->overrides[i];
    return run_configure(run, "data/dense.ini", n, override, err);
}

/* All runs of the job in a child; f of every run at time t comes back through a pipe. */
static int measure(const struct job *job, int t, const double *reference, struct outcome *out) {
    int ends[2], status, P = 0;
    struct rusage usage;
    fflush(stdout);
    if (pipe(ends))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        struct run run = {0};
        struct record record = {0};
        struct err err;
        int code = configure(&run, job, &err);
        code = code ? code : run_ensemble(&run, job->N, job->runs, &record, &err);
        if (code)
            fprintf(stderr, "bench: %s\n", err.text);
        const struct series *f = code ? NULL : record_find(&record, "f");
        for (int r = 0; r < job->runs && !code; r++)
            code = write(ends[1], record_at(&record, f, r, t),
                         (size_t)run.data.P * sizeof(double)) <= 0;
        _exit(code);
    }
    close(ends[1]);
    static double all[1 << 14];
    size_t got = 0;
    for (ssize_t n; (n = read(ends[0], (char *)all + got, sizeof all - got)) > 0;)
        got += (size_t)n;
    close(ends[0]);
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status)
        return 1;
    P = (int)(got / sizeof *all) / job->runs;
    out->seconds =
        ((double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec) / job->runs;
    out->megabytes = (double)usage.ru_maxrss / 1024;
    out->error = 0;
    for (int mu = 0; mu < P; mu++) {
        out->f[mu] = 0;
        for (int r = 0; r < job->runs; r++)
            out->f[mu] += all[r * P + mu] / job->runs;
        for (int r = 0; r < job->runs; r++) {
            double difference = all[r * P + mu] - (reference ? reference[mu] : out->f[mu]);
            out->error += difference * difference / (P * (reference ? job->runs : job->runs - 1));
        }
    }
    out->error = sqrt(out->error);
    return 0;
}

#define FIXED_POINT "solver.method=fixed_point"

/* At equal statistical error, of f at half of the window; eta0 falls as 1/T. */
static int at_equal_error(void) {
    static const char *const eta0[] = {"training.eta0=0.5", "training.eta0=0.25",
                                       "training.eta0=0.125"};
    printf("\ndense, depth 3, P = 4, S = 2048: CPU seconds of a replicate, sd of f at T/4, seconds "
           "for a standard error of 0.001\n   T  %10s %10s %10s %10s %10s %10s %8s\n",
           "march s", "sd", "total s", "fixed s", "sd", "total s", "ratio");
    for (int i = 0; i < 3; i++) {
        struct outcome out[2];
        double total[2];
        for (int k = 0; k < 2; k++) {
            struct job job = {{eta0[i], k ? FIXED_POINT : NULL}, 0, 20 << i, 8};
            if (measure(&job, job.steps / 4, NULL, &out[k]))
                return 1;
            total[k] = out[k].seconds * pow(out[k].error / 1e-3, 2);
        }
        printf("%4d  %10.3f %10.2g %10.1f %10.2f %10.2g %10.1f %8.0f\n", 20 << i, out[0].seconds,
               out[0].error, total[0], out[1].seconds, out[1].error, total[1], total[1] / total[0]);
    }
    return 0;
}

/* The workload of the nearest public solver. */
static int public_workload(void) {
    printf(
        "\ndense, depth 3, tanh, P = 10, D = 25, T = 100, eta0 = 0.1, gamma0 = 1: one replicate\n"
        "%-28s %10s %10s %12s\n",
        "", "CPU s", "peak MB", "mean f at 99");
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"march, S = 1024", "march, S = 2048",
                                            "fixed point, S = 1024"};
        const struct job job = {{"data.inputs=10", "data.dimension=25", "training.eta0=0.1",
                                 i == 1 ? "solver.sites=2048" : "solver.sites=1024",
                                 i == 2 ? FIXED_POINT : NULL},
                                0,
                                100,
                                1};
        struct outcome out;
        double mean = 0;
        if (measure(&job, 99, NULL, &out))
            return 1;
        for (int mu = 0; mu < 10; mu++)
            mean += fabs(out.f[mu]) / 10;
        printf("%-28s %10.2f %10.0f %12.3f\n", names[i], out.seconds, out.megabytes, mean);
    }
    return 0;
}

/* Error of one run against its cost, about a march of many sites. */
static int figure(void) {
    const struct job best = {{"solver.sites=16384"}, 0, 20, 8};
    struct outcome reference, out;
    if (measure(&best, 5, NULL, &reference))
        return 1;
    printf("method,size,seconds,error\n");
    for (int method = 0; method < 3; method++)
        for (int size = 128; size <= 4096; size *= 2) {
            static const char *const names[] = {"march", "fixed point", "network"};
            char sites[64];
            snprintf(sites, sizeof sites, "solver.sites=%d", size);
            const struct job job = {{sites, method == 1 ? FIXED_POINT : NULL},
                                    method == 2 ? size : 0,
                                    20,
                                    size > 1024 ? 8 : 32};
            if (method == 2 && size > 2048)
                continue;
            if (measure(&job, 5, reference.f, &out))
                return 1;
            printf("%s,%d,%.5g,%.5g\n", names[method], size, out.seconds, out.error);
        }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "figure"))
        return figure();
    return at_equal_error() || public_workload();
}
