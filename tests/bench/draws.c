/* make draws [RUNS]: what [solver] draws = sobol does to the spread of replicates, of RUNS
 * replicates of each network at 512 and 2048 sites of each kind (regime3: an eighth of it experts).
 *
 * sd/sd: standard deviation over replicates with Sobol points over that with independent normals,
 * mean squares over the entries of a series at the middle and at the end. z: rms over these entries
 * of the difference of the means, over its error. Seconds of processor a replicate, of both. */
#include "solver/run/run.h"

#include <time.h>

enum { WORDS = 24 };

static int march(const char *what, const char *sites, const char *draws, int runs, struct run *run,
                 double *seconds, struct err *err) {
    char text[512], *word[WORDS];
    int words = 0;
    snprintf(text, sizeof text, "%s %s solver.draws=%s reference.widths=", what, sites, draws);
    for (char *w = strtok(text, " "); w && words < WORDS; w = strtok(NULL, " "))
        word[words++] = w;
    TRY(run_configure(run, word[0], words - 1, word + 1, err));
    clock_t start = clock();
    TRY(run_ensemble(run, 0, runs, &run->results.limit, err));
    *seconds = (double)(clock() - start) / CLOCKS_PER_SEC / runs;
    return CODE_OK;
}

/* Mean and variance over runs of entry k at t. */
static void moments(const struct record *record, const char *name, int t, size_t k, double *mean,
                    double *variance) {
    const struct series *series = record_find(record, name);
    double n = record->runs, sum = 0, squares = 0;
    for (int r = 0; r < record->runs; r++)
        sum += record_at(record, series, r, t)[k] / n;
    for (int r = 0; r < record->runs; r++)
        squares += pow(record_at(record, series, r, t)[k] - sum, 2);
    *mean = sum;
    *variance = squares / (n - 1);
}

static void print_ratio(const struct record *plain, const struct record *even, const char *name,
                        double *z, int *entries) {
    const struct series *series = record_find(plain, name);
    printf(" | ");
    for (int h = 1; h <= 2 && series; h++) {
        int t = h * (plain->T - 1) / 2;
        double sum[2] = {0};
        for (size_t k = 0; k < series->size / series->shape[0]; k++) {
            double mean[2], variance[2];
            moments(plain, name, t, k, &mean[0], &variance[0]);
            moments(even, name, t, k, &mean[1], &variance[1]);
            sum[0] += variance[0];
            sum[1] += variance[1];
            *z += pow(mean[0] - mean[1], 2) * plain->runs / (variance[0] + variance[1]);
            ++*entries;
        }
        printf("%s%.2f", h == 2 ? ", " : "", sqrt(sum[1] / sum[0]));
    }
}

static int one_row(const char *const what[2], const char *sites, int runs, struct err *err) {
    static const char *const names[] = {"loss",        "f",         "Phi1_diag", "G1_diag",
                                        "Phi3_diag",   "Gphi_diag", "Gbar_diag", "G1phi_diag",
                                        "Mphi_0_diag", "Ch_1_diag", "Cg_0_diag"};
    struct run run[2] = {0};
    double seconds[2], z = 0;
    int code, entries = 0;
    DO(march(what[0], sites, "normal", runs, &run[0], &seconds[0], err));
    DO(march(what[0], sites, "sobol", runs, &run[1], &seconds[1], err));
    printf("| %s %d", what[1], run[0].config.solver.sites);
    for (size_t q = 0; q < sizeof names / sizeof *names; q++)
        print_ratio(&run[0].results.limit, &run[1].results.limit, names[q], &z, &entries);
    printf(" | %.2f | %.3f, %.3f |\n", sqrt(z / entries), seconds[0], seconds[1]);
    fflush(stdout);
done:
    run_free(&run[0]);
    run_free(&run[1]);
    return code;
}

int main(int argc, char **argv) {
    static const struct {
        const char *what[2], *sites[2];
    } cases[] = {
        {{"data/dense.ini training.steps=16", "dense"}, {"solver.sites=512", "solver.sites=2048"}},
        {{"data/regime1.ini training.steps=16", "regime1"},
         {"solver.sites=512", "solver.sites=2048"}},
        {{"data/regime2.ini training.steps=16 output.kernels=diagonal output.responses=no",
          "regime2"},
         {"solver.sites=512 solver.expert_sites=512",
          "solver.sites=2048 solver.expert_sites=2048"}},
        {{"data/regime2_mup.ini training.steps=16", "regime2_mup"},
         {"solver.sites=512 solver.expert_sites=512",
          "solver.sites=2048 solver.expert_sites=2048"}},
        {{"data/ref/residual/soft_alpha0_L1.ini training.steps=16 output.kernels=diagonal",
          "residual"},
         {"solver.sites=512 solver.unit_sites=512", "solver.sites=2048 solver.unit_sites=2048"}},
        {{"data/resnet.ini training.steps=16", "resnet"},
         {"solver.sites=512", "solver.sites=2048"}},
        {{"data/regime3.ini training.steps=9", "regime3"},
         {"solver.sites=512 solver.expert_sites=64 solver.unit_sites=512",
          "solver.sites=1024 solver.expert_sites=128 solver.unit_sites=1024"}},
        {{"data/regime3_mup.ini training.steps=9", "regime3_mup"},
         {"solver.sites=512 solver.expert_sites=64 solver.unit_sites=512",
          "solver.sites=1024 solver.expert_sites=128 solver.unit_sites=1024"}},
    };
    int runs = argc > 1 ? atoi(argv[1]) : 48;
    printf(
        "# Sobol points: sd of %d replicates over that with independent normals\n\n"
        "| network, sites | loss | f | Phi1 | G1 | Phi3 | Gphi | Gbar | G1phi | Mphi_0 | Ch_1 | "
        "Cg_0 | z | seconds |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | "
        "--- | --- | --- |\n",
        runs);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        if (one_row(cases[i / 2].what, cases[i / 2].sites[i % 2], runs, &err)) {
            fprintf(stderr, "draws: %s: %s\n", cases[i / 2].what[0], err.text);
            return err.code;
        }
    }
    return 0;
}
