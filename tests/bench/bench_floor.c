/* make bench, third part: how far from the floor. Products of a basis of rank K with P rows, as
 * fractions of the rates of multiply-adds and triad (a device: of a copy) in this run; then whole
 * runs, in wall time on all threads, each the best of five. The argument is a backend; else cpu. */
#include "solver/run/parts.h"

#include <omp.h>

static const struct backend *backend;

static void stop(const struct err *err) {
    fprintf(stderr, "bench: %s\n", err->text);
    exit(1);
}

/* Seconds of one call, the best of some rounds. */
static double seconds_of(void (*call)(struct rows basis, struct rows x, double *C),
                         struct rows basis, struct rows x, double *C) {
    double best = INFINITY;
    struct err err;
    int calls = 1 + (int)(2e8 / ((double)basis.count * x.count * (double)x.array->sites));
    for (int round = 0; round < 5; round++) {
        double start = base_seconds();
        for (int i = 0; i < calls; i++)
            call(basis, x, C);
        if (backend->sync(&err))
            stop(&err);
        best = fmin(best, (base_seconds() - start) / calls);
    }
    return best;
}

static void call_dots(struct rows basis, struct rows x, double *C) {
    backend->dots(x, basis, C);
}

static void call_combine(struct rows basis, struct rows x, double *C) {
    backend->combine(x, 0, C, basis);
}

static void call_learn(struct rows basis, struct rows x, double *C) {
    backend->combine(basis, 1, C, x);
}

static void products(const struct machine *machine) {
    static const struct {
        const char *name;
        void (*call)(struct rows basis, struct rows x, double *C);
        int touched; /* how often the basis is */
    } ops[] = {{"dots", call_dots, 1}, {"combine", call_combine, 1}, {"learn", call_learn, 2}};
    static const int host[] = {2048, 65536}, device[] = {1 << 14, 1 << 17, 1 << 20};
    static const int P[] = {1, 4, 10, 128}, K = 160;
    bool on_host = backend == &backend_cpu;
    const int *sites = on_host ? host : device;
    printf("\nproducts of a basis, rank %d: GF/s (%% of %s), GB/s (%% of %s)\n%8s %4s", K,
           machine->product, machine->stream, "sites", "P");
    for (int op = 0; op < 3; op++)
        printf("  %32s", ops[op].name);
    for (int i = 0; i < (on_host ? 8 : 12); i++) {
        size_t S = (size_t)sites[i / 4];
        int p = P[i % 4];
        FREED(array_free) struct array basis = {0}, x = {0};
        double *C;
        struct err err;
        if (base_alloc(&C, (size_t)(p * K), sizeof *C, &err) ||
            array_init(&basis, backend, S, 1, K, &err) || array_init(&x, backend, S, 1, p, &err))
            stop(&err);
        /* Numbers, for products leave out zeros. Those of C are small: `learn` adds to the basis.
         */
        backend->normals(array_all(&basis), (struct rng_stream){.seed = 1});
        backend->normals(array_all(&x), (struct rng_stream){.seed = 2});
        for (int c = 0; c < p * K; c++)
            C[c] = 1e-3 * (1 + c % 7);
        printf("\n%8zu %4d", S, p);
        for (int op = 0; op < 3; op++) {
            double time = seconds_of(ops[op].call, array_all(&basis), array_all(&x), C);
            double flops = 2.0 * K * p * (double)S / time;
            double bytes = sizeof(double) * (double)S * (K * ops[op].touched + p) / time;
            printf("  %8.1f (%4.0f %%) %8.1f (%4.0f %%)", 1e-9 * flops,
                   100 * flops / machine->flops, 1e-9 * bytes, 100 * bytes / machine->bandwidth);
        }
        free(C);
    }
    printf("\n");
}

/* Wall seconds of one replicate of the limit. */
static double limit_seconds(const char *ini, const char *const *overrides) {
    double best = INFINITY;
    char name[64];
    snprintf(name, sizeof name, "solver.backend=%s", backend->name);
    for (int round = 0; round < 5; round++) {
        FREED(run_free) struct run run = {0};
        FREED(record_free) struct record record = {0};
        struct err err;
        char *override[16];
        int n = 0;
        override[n++] = (char[]){"output.kernels=none"};
        override[n++] = name;
        for (int i = 0; overrides[i]; i++)
            override[n++] = (char *)(uintptr_t)overrides[i];
        if (run_configure(&run, ini, n, override, &err))
            stop(&err);
        double start = base_seconds();
        if (run_ensemble(&run, 0, 1, &record, &err))
            stop(&err);
        best = fmin(best, base_seconds() - start);
    }
    return best;
}

static double flow_seconds(const char *steps) {
    const char *const overrides[] = {"training.integrator=euler",
                                     "training.dt=0.02",
                                     "solver.sites=1024",
                                     "solver.threads=1",
                                     steps,
                                     NULL};
    return limit_seconds("data/dense.ini", overrides);
}

static void runs(void) {
    const char *const public[] = {"data.inputs=10",     "data.dimension=25", "training.eta0=0.1",
                                  "training.steps=101", "solver.sites=2048", NULL};
    const char *const pairs[] = {"solver.sites=1024", "solver.expert_sites=256",
                                 "solver.unit_sites=256", "training.steps=21", NULL};
    const char *const many[] = {
        "data.inputs=128",          "data.dimension=64",   "solver.sites=4096",
        "solver.expert_sites=4096", "training.steps=6",    "reference.widths=",
        "solver.threads=1",         "output.responses=no", NULL};
    printf("\none replicate, wall seconds\n");
    printf("dense, depth 3, P = 10, D = 25, T = 100, S = 2048, tolerance 1e-3:  %.2f\n",
           limit_seconds("data/dense.ini", public));
    printf("regime3, 256 x 256 pairs, P = 4, T = 20:                            %.2f\n",
           limit_seconds("data/regime3.ini", pairs));
    printf("regime2, P = 128, D = 64, T = 6, S = 4096, one thread:              %.2f\n",
           limit_seconds("data/regime2.ini", many));
    double t500 = flow_seconds("training.steps=501"), t1000 = flow_seconds("training.steps=1001");
    double t1500 = flow_seconds("training.steps=1501"), t2000 = flow_seconds("training.steps=2001");
    printf("dense, gradient flow, S = 1024, one thread: steps 1500-2000 / 500-1000:  %.2f\n",
           (t2000 - t1500) / (t1000 - t500));
}

int main(int argc, char **argv) {
    struct machine machine;
    struct err err;
    int threads = omp_get_max_threads();
    for (int i = 0; backend_list[i]; i++)
        if (!strcmp(backend_list[i]->name, argc > 1 ? argv[1] : "cpu"))
            backend = backend_list[i];
    if (!backend) {
        fprintf(stderr, "bench: no backend %s here\n", argv[1]);
        return 1;
    }
    backend_start(threads);
    if (speeds_machine(backend, threads, &machine, &err))
        stop(&err);
    printf("\n%s, %d threads together: %s %.1f GF/s, %s %.1f GB/s\n", backend->name, threads,
           machine.product, 1e-9 * machine.flops, machine.stream, 1e-9 * machine.bandwidth);
    products(&machine);
    runs();
    return 0;
}
