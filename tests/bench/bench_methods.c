/* make bench, second part: the march beside the fixed point and averaged networks. CPU seconds and
 * peak memory of one run in a process of its own on one thread, and the error of what it says: the
 * root mean square over runs of f - f_ref, averaged over inputs, at a quarter of the window. The
 * total seconds are those of as many runs as bring the standard error to 0.001. With "figure":
 * error of the loss and of a kernel against cost, for networks of every kind and several sizes, as
 * CSV on standard output (python/dmft/plot/performance.py). */
#define _DEFAULT_SOURCE
#include "solver/run/run.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SERIES = 2, MOST = 64 };

struct job {
    const char *ini, *series[SERIES]; /* whose values at a time are compared; NULL: fewer */
    const char *overrides[12];
    int N, steps, runs;
    int together; /* runs that are averaged before they are judged; 0: 1 */
};

struct outcome {
    double seconds, megabytes;                /* of one run, of the process */
    double value[SERIES][MOST], size[SERIES]; /* mean over runs; its rms over entries */
    double error[SERIES];                     /* rms over runs and entries about a reference */
};

static int configure(struct run *run, const struct job *job, struct err *err) {
    char *override[20], T[64], kernels[] = "output.kernels=none";
    int n = 0;
    snprintf(T, sizeof T, "training.steps=%d", job->steps);
    override[n++] = T;
    override[n++] = (char[]){"solver.threads=1"};
    if (!job->series[1])
        override[n++] = kernels;
    for (int i = 0; job->overrides[i]; i++)
        override[n++] = (char *)(uintptr_t)job->overrides[i];
    return run_configure(run, job->ini, n, override, err);
}

/* In the child: all runs, and the values of each series at time t, run by run, into the pipe. */
static int work(const struct job *job, int t, int pipe) {
    struct run run = {0};
    struct record record = {0};
    struct err err;
    int code = configure(&run, job, &err);
    code = code ? code : run_ensemble(&run, job->N, job->runs, &record, &err);
    if (code)
        fprintf(stderr, "bench: %s\n", err.text);
    for (int k = 0; k < SERIES && job->series[k] && !code; k++) {
        const struct series *series = record_find(&record, job->series[k]);
        size_t bytes = series->size / (size_t)record.T * sizeof(double);
        for (int r = 0; r < job->runs && !code; r++)
            code = write(pipe, record_at(&record, series, r, t), bytes) != (ssize_t)bytes;
    }
    return code;
}

/* all [runs][P] -> mean, its rms, and the rms error of an average of `together` runs: its bias, of
 * which the share of chance is taken off, and its standard deviation. Without a reference, the
 * latter alone. */
static void judge(const double *all, int runs, int together, int P, const double *reference,
                  double *mean, double *size, double *error) {
    double variance = 0, bias = 0, square = 0;
    for (int mu = 0; mu < P; mu++) {
        mean[mu] = 0;
        for (int r = 0; r < runs; r++)
            mean[mu] += all[r * P + mu] / runs;
        for (int r = 0; r < runs && runs > 1; r++)
            variance += pow(all[r * P + mu] - mean[mu], 2) / ((runs - 1) * P);
        square += mean[mu] * mean[mu] / P;
        if (reference)
            bias += pow(mean[mu] - reference[mu], 2) / P;
    }
    *size = sqrt(square);
    *error = sqrt(fmax(bias - variance / runs, 0) + variance / together);
}

static int measure(const struct job *job, int t, const struct outcome *reference,
                   struct outcome *out) {
    static double all[1 << 14];
    int ends[2], status, count = 0, together = job->together ? job->together : 1;
    struct rusage usage;
    size_t got = 0;
    fflush(stdout);
    if (pipe(ends))
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(work(job, t, ends[1]));
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], (char *)all + got, sizeof all - got)) > 0;)
        got += (size_t)n;
    close(ends[0]);
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status)
        return 1;
    out->seconds =
        ((double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec) / job->runs;
    out->megabytes = (double)usage.ru_maxrss / 1024;
    while (count < SERIES && job->series[count])
        count++;
    /* the loss has one entry, whatever is beside it has the rest */
    int entries = (int)(got / sizeof *all) / job->runs, first = count == 2 ? 1 : entries;
    for (int k = 0; k < count; k++)
        judge(k ? all + first * job->runs : all, job->runs, together, k ? entries - first : first,
              reference ? reference->value[k] : NULL, out->value[k], &out->size[k], &out->error[k]);
    return 0;
}

#define FIXED_POINT "solver.method=fixed_point"

/* At equal statistical error, of f at a quarter of the window; eta0 falls as 1/T. */
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
            struct job job = {.ini = "data/dense.ini",
                              .series = {"f"},
                              .overrides = {eta0[i], k ? FIXED_POINT : NULL},
                              .steps = 20 << i,
                              .runs = 8};
            if (measure(&job, job.steps / 4, NULL, &out[k]))
                return 1;
            total[k] = out[k].seconds * pow(out[k].error[0] / 1e-3, 2);
        }
        printf("%4d  %10.3f %10.2g %10.1f %10.2f %10.2g %10.1f %8.0f\n", 20 << i, out[0].seconds,
               out[0].error[0], total[0], out[1].seconds, out[1].error[0], total[1],
               total[1] / total[0]);
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
        const struct job job = {.ini = "data/dense.ini",
                                .series = {"f"},
                                .overrides = {"data.inputs=10", "data.dimension=25",
                                              "training.eta0=0.1",
                                              i == 1 ? "solver.sites=2048" : "solver.sites=1024",
                                              i == 2 ? FIXED_POINT : NULL},
                                .steps = 100,
                                .runs = 1};
        struct outcome out;
        double mean = 0;
        if (measure(&job, 99, NULL, &out))
            return 1;
        for (int mu = 0; mu < 10; mu++)
            mean += fabs(out.value[0][mu]) / 10;
        printf("%-28s %10.2f %10.0f %12.3f\n", names[i], out.seconds, out.megabytes, mean);
    }
    return 0;
}

/* A network of the figure: `size` sites in every population, or size/8 experts and units of an
 * infinitely wide expert. */
struct subject {
    const char *name, *ini, *kernel, *overrides[8];
    bool experts, units;
    int t, steps;
};

static int sized(const struct subject *subject, int size, bool sweeps, char text[3][64],
                 struct job *job) {
    int n = 0, part = subject->units ? size / 8 : size;
    *job = (struct job){.ini = subject->ini,
                        .series = {"loss", subject->kernel},
                        .steps = subject->steps,
                        .runs = size > 1024 ? 8 : 32};
    for (; subject->overrides[n]; n++)
        job->overrides[n] = subject->overrides[n];
    snprintf(text[0], sizeof text[0], "solver.sites=%d", size);
    job->overrides[n++] = text[0];
    snprintf(text[1], sizeof text[1], "solver.expert_sites=%d", part);
    if (subject->experts)
        job->overrides[n++] = text[1];
    snprintf(text[2], sizeof text[2], "solver.unit_sites=%d", part);
    if (subject->units)
        job->overrides[n++] = text[2];
    if (sweeps)
        job->overrides[n++] = FIXED_POINT;
    return n;
}

static int one_subject(const struct subject *subject) {
    static const char *const methods[] = {"march", "fixed point", "network", "16 networks"};
    struct outcome reference, out;
    struct job job;
    char text[3][64];
    sized(subject, 8192, false, text, &job);
    job.runs = 16;
    if (measure(&job, subject->t, NULL, &reference))
        return 1;
    for (int method = 0; method < 4; method++)
        for (int size = 128; size <= (method == 0 ? 4096 : method == 1 ? 2048 : 1024); size *= 2) {
            /* networks with as many experts and units a neuron as there are: narrower */
            int N = subject->units ? size / 8 : subject->experts ? size / 2 : size;
            sized(subject, size, method == 1, text, &job);
            if (method > 1) {
                job.N = N;
                job.runs = 32;
                job.together = method == 3 ? 16 : 1;
            }
            if (measure(&job, subject->t, &reference, &out))
                return 1;
            for (int k = 0; k < SERIES; k++)
                printf("%s,%s,%s,%d,%.5g,%.5g\n", subject->name, job.series[k], methods[method],
                       method > 1 ? N : size, out.seconds * (method == 3 ? 16 : 1),
                       out.error[k] / reference.size[k]);
        }
    return 0;
}

static int figure(void) {
    static const struct subject subjects[] = {
        {"dense", "data/dense.ini", "Phi2_diag", {0}, false, false, 5, 11},
        {"regime1", "data/regime1.ini", "Phi1_diag", {"network.rho=1"}, false, false, 10, 16},
        {"regime2", "data/regime2.ini", "Phib_diag", {"output.responses=no"}, true, false, 10, 16},
        {"regime3", "data/regime3.ini", "Phibar_diag", {0}, true, true, 5, 11},
        {"residual",
         "data/residual.ini",
         "Ch_1_diag",
         {"network.alpha=1", "network.expert_width=2", "network.rho=1", "network.depth=1",
          "solver.halves=no"},
         true,
         false,
         10,
         16},
    };
    printf("network,quantity,method,size,seconds,error\n");
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        if (one_subject(&subjects[i]))
            return 1;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "figure"))
        return figure();
    return at_equal_error() || public_workload();
}
