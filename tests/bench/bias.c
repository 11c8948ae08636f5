/* make bias: how the bias of order 1/sites goes with the sites, and what halves leave of it.
 *
 * b(S) = mean over replicates of (mean of two halves - whole), which is the bias of S sites plus
 * 3 b_2/S^2, b_2/S^2 the next order; at S = 256, 512, 1024, 2048, over the standard error of 8
 * replicates at S sites. rms over the entries (that of the noise taken off) and the largest; left
 * at 512: -2 b_2/512^2 from the first two, again over that standard error, with its own error. Of f
 * and, for input 0, of kernels, at the middle and the end.
 *
 * bias NAME TIMES: only runs whose name has NAME, at 256 and 512 sites, with TIMES as many
 * replicates from another seed; what is left of every entry, and the rms of it over its error. */
#include "solver/run/run.h"

enum { WORDS = 24, SIZES = 4, ENTRIES = 64 };

/* b, its error, and the standard error of 8 replicates. */
struct entry {
    char name[SERIES_NAME + 24];
    double b[SIZES], error[SIZES], se[SIZES];
};

static void measure(const struct run *run, const struct series *whole, size_t k, int size,
                    struct entry *entry) {
    const double *half[] = {record_find(&run->results.half[0], whole->name)->values,
                            record_find(&run->results.half[1], whole->name)->values};
    double n = run->results.limit.runs, mean = 0, squares = 0, b = 0, b_squares = 0;
    for (int r = 0; r < run->results.limit.runs; r++) {
        size_t at = (size_t)r * whole->size + k;
        double x = whole->values[at], d = (half[0][at] + half[1][at]) / 2 - x;
        mean += x / n;
        squares += x * x / n;
        b += d / n;
        b_squares += d * d / n;
    }
    entry->b[size] = b;
    entry->error[size] = sqrt((b_squares - b * b) / n);
    entry->se[size] = sqrt((squares - mean * mean) / 8);
}

static int march(const char *const what[2], int times, int size, struct entry *entry, int *entries,
                 struct err *err) {
    static const char *const names[] = {
        "f",          "Phi1_diag", "G1_diag",           "Phi3_diag", "Gb_diag",
        "Gphi_diag",  "Gbar_diag", "G1phi_diag",        "Ch_1_diag", "Mphi_0_diag",
        "MAA_0_diag", "Cg_0_diag", "gate_participation"};
    static const int runs[SIZES] = {1280, 640, 320, 240};
    int S = 256 << size, words = 0, code;
    bool pairs = strstr(what[1], "expert") && strstr(what[1], "unit");
    char text[512], *word[WORDS];
    struct run run = {0};
    snprintf(text, sizeof text,
             "%s reference.widths= solver.draws=normal solver.halves=yes solver.replicates=%d "
             "solver.sites=%d "
             "solver.seed=%d",
             what[0], runs[size] / (pairs ? 4 : 1) * times, S, times);
    if (strstr(what[1], "expert"))
        snprintf(text + strlen(text), 40, " solver.expert_sites=%d", pairs ? S / 8 : S);
    if (strstr(what[1], "unit"))
        snprintf(text + strlen(text), 40, " solver.unit_sites=%d", S);
    for (char *w = strtok(text, " "); w && words < WORDS; w = strtok(NULL, " "))
        word[words++] = w;
    DO(run_configure(&run, word[0], words - 1, word + 1, err));
    DO(run_march(&run, err));
    *entries = 0;
    for (size_t q = 0; q < sizeof names / sizeof *names; q++) {
        const struct series *series = record_find(&run.results.limit, names[q]);
        size_t row = series ? series->size / series->shape[0] : 0, most = q ? 1 : row;
        for (int k = 1; k <= 2 && series; k++)
            for (size_t e = 0; e < most && *entries < ENTRIES; e++) {
                int t = k * (run.results.limit.T - 1) / 2;
                struct entry *at = &entry[(*entries)++];
                snprintf(at->name, sizeof at->name, "%s(%d)", series->name, t);
                measure(&run, series, (size_t)t * row + e, size, at);
            }
    }
done:
    run_free(&run);
    return code;
}

/* What halves leave at 512 sites, over the standard error, with its own error. */
static double left(const struct entry *at, double *error) {
    /* 256 b(256) - 512 b(512) = 3 b_2/512 */
    *error = 2 / 3. * hypot(at->error[0] / 2, at->error[1]) / at->se[1];
    return -2 / 3. * (at->b[0] / 2 - at->b[1]) / at->se[1];
}

static void one_row(const char *run, const struct entry *entry, int entries) {
    int worst = 0, most = 0;
    double error;
    printf("| %s |", run);
    for (int size = 0; size < SIZES; size++) {
        double rms = 0;
        for (int k = 0; k < entries; k++) {
            const struct entry *at = &entry[k];
            rms += (pow(at->b[size], 2) - pow(at->error[size], 2)) / pow(at->se[size], 2) / entries;
            if (fabs(at->b[1] / at->se[1]) > fabs(entry[worst].b[1] / entry[worst].se[1]))
                worst = k;
        }
        printf(" %.2f |", sqrt(fmax(rms, 0)));
    }
    printf(" %s", entry[worst].name);
    for (int size = 0; size < SIZES; size++)
        printf(" %.2f", entry[worst].b[size] / entry[worst].se[size]);
    for (int k = 0; k < entries; k++)
        if (fabs(left(&entry[k], &error)) > fabs(left(&entry[most], &error)))
            most = k;
    double largest = left(&entry[most], &error);
    printf(" | %s %.2f (%.2f) |\n", entry[most].name, largest, error);
}

static void every_entry(const char *run, const struct entry *entry, int entries) {
    double squares = 0;
    printf("| %s | 256 | 512 | left at 512 |\n| --- | --- | --- | --- |\n", run);
    for (int k = 0; k < entries; k++) {
        const struct entry *at = &entry[k];
        double error, x = left(at, &error);
        printf("| %s | %.3f | %.3f | %.3f (%.3f) |\n", at->name, at->b[0] / at->se[0],
               at->b[1] / at->se[1], x, error);
        squares += x * x / (error * error);
    }
    printf("| rms over its error | | | %.2f |\n\n", sqrt(squares / entries));
}

static int judge(const char *const what[2], int times, struct err *err) {
    struct entry entry[ENTRIES];
    int entries = 0;
    for (int size = 0; size < (times > 1 ? 2 : SIZES); size++)
        TRY(march(what, times, size, entry, &entries, err));
    (times > 1 ? every_entry : one_row)(what[0], entry, entries);
    fflush(stdout);
    return CODE_OK;
}

int main(int argc, char **argv) {
    int times = argc > 2 ? atoi(argv[2]) : 1;
    static const char *const cases[][2] = {
        {"data/dense.ini training.steps=13", ""},
        {"data/regime1.ini training.steps=13", ""},
        {"data/regime2.ini training.steps=13 output.kernels=diagonal output.responses=no",
         "expert"},
        {"data/regime2_mup.ini training.steps=13", "expert"},
        {"data/ref/residual/soft_alpha0_L1.ini training.steps=9 output.kernels=diagonal", "unit"},
        {"data/resnet.ini training.steps=13", ""},
        {"data/regime3.ini training.steps=9", "expert unit"},
        {"data/regime3_mup.ini training.steps=9", "expert unit"},
    };
    if (times == 1)
        printf(
            "| run | rms at 256 | 512 | 1024 | 2048 | largest at 512, at 256 to 2048 | most that "
            "halves leave at 512 |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        if (strstr(cases[i][0], argc > 1 ? argv[1] : "") && judge(cases[i], times, &err)) {
            fprintf(stderr, "bias: %s: %s\n", cases[i][0], err.text);
            return err.code;
        }
    }
    return 0;
}
