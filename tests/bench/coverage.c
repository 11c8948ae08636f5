/* make coverage, or coverage GROUPS [SECTION.KEY=VALUE]: bias and coverage of what the limit
 * prints, at 512 sites of each kind and 8 replicates, as it is and with halves = yes. GROUPS such
 * runs of each network, as one ensemble of 8 GROUPS replicates, against an ensemble in halves with
 * eight times the sites (expert and unit sites of regime3: twice) and an eighth of the replicates.
 *
 * Bias: mean of (value - truth) over the root mean square of the printed standard errors; in
 * brackets its own standard error, from the groups and from the truth. "From halves": of mean of
 * halves - value, whose fluctuations cancel: the same bias to lowest order, without the truth.
 * Coverage: share of 95 % intervals (Student's t) that hold the truth, whose own error is added in
 * quadrature. Of input 0, at the middle and the end. At the end: over all entries. */
#include "solver/measure/stats.h"
#include "solver/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICATES = 8, WORDS = 24 };

/* Mean and standard error of one entry over the replicates from first on, count of them. */
static int entry_of(struct record *record, const char *name, size_t entry, int first, int count,
                    double *mean, double *se, struct err *err) {
    const struct series *series = record_find(record, name);
    double *all;
    TRY(base_alloc(&all, 2 * series->size, sizeof *all, err));
    for (int r = 0; r < record->runs; r++)
        record->steps[r] = r >= first && r < first + count ? record->T : 0;
    record_statistics(record, series, all, all + series->size);
    *mean = all[entry];
    *se = all[series->size + entry];
    free(all);
    return CODE_OK;
}

struct judged {
    double bias, bias_se, coverage, scale;
};
/* Over all entries, without and with halves. */
struct total {
    double coverage, squares, largest;
    int entries;
};

static int judge(struct record *small, const char *name, size_t entry, double truth,
                 double truth_se, struct judged *judged, struct err *err) {
    int groups = small->runs / REPLICATES, covered = 0;
    double mean, se, sum = 0, squares = 0, errors = 0;
    for (int g = 0; g < groups; g++) {
        TRY(entry_of(small, name, entry, g * REPLICATES, REPLICATES, &mean, &se, err));
        sum += (mean - truth) / groups;
        squares += (mean - truth) * (mean - truth) / groups;
        errors += se * se / groups;
        covered += fabs(mean - truth) <= stats_interval(hypot(se, truth_se), REPLICATES, 0.95);
    }
    double spread = sqrt((squares - sum * sum) / groups);
    judged->scale = sqrt(errors);
    judged->bias = sum / judged->scale;
    judged->bias_se = hypot(spread, truth_se) / judged->scale;
    judged->coverage = (double)covered / groups;
    return CODE_OK;
}

/* Mean of halves - whole over all replicates, and its error; of f and of what is linear in runs. */
static void from_halves(const struct record *small, const char *name, size_t entry, double *mean,
                        double *se) {
    const struct series *whole = record_find(small, name);
    const double *half[] = {record_find(&small->half[0], name)->values,
                            record_find(&small->half[1], name)->values};
    double n = small->runs, squares = 0;
    *mean = 0;
    for (int r = 0; r < small->runs; r++) {
        size_t k = (size_t)r * whole->size + entry;
        double d = (half[0][k] + half[1][k]) / 2 - whole->values[k];
        *mean += d / n;
        squares += d * d / n;
    }
    *se = sqrt((squares - *mean * *mean) / (n - 1));
}

static int print_row(struct record *small, struct record *large, const char *name, int t,
                     struct total total[2], struct err *err) {
    const struct series *series = record_find(small, name);
    const struct record *half = small->half;
    struct judged plain, halves;
    double truth, truth_se, bias, bias_se;
    if (!series)
        return CODE_OK;
    size_t entry = (size_t)t * (series->size / (size_t)small->T);
    TRY(entry_of(large, name, entry, 0, large->runs, &truth, &truth_se, err));
    TRY(judge(small, name, entry, truth, truth_se, &halves, err));
    small->half = NULL;
    TRY(judge(small, name, entry, truth, truth_se, &plain, err));
    small->half = half;
    printf("| %s | %d | %.5g | %.2f (%.2f) | ", name, t, truth, plain.bias, plain.bias_se);
    from_halves(small, name, entry, &bias, &bias_se);
    if (series->of_mean)
        printf("- | ");
    else
        printf("%.2f (%.2f) | ", bias / plain.scale, bias_se / plain.scale);
    printf("%.3f | %.2f (%.2f) | %.3f | %.2f |\n", plain.coverage, halves.bias, halves.bias_se,
           halves.coverage, halves.scale / plain.scale);
    const struct judged *const judged[] = {&plain, &halves};
    for (int k = 0; k < 2; k++) {
        total[k].coverage += judged[k]->coverage;
        total[k].squares += pow(judged[k]->bias / judged[k]->bias_se, 2);
        total[k].largest = fmax(total[k].largest, fabs(judged[k]->bias));
        total[k].entries++;
    }
    return CODE_OK;
}

static int march(const char *what, const char *sites, const char *key, int runs, struct run *run,
                 struct err *err) {
    char text[512], *word[WORDS];
    int words = 0;
    snprintf(text, sizeof text,
             "%s %s %s solver.halves=yes solver.replicates=%d reference.widths=", what, sites, key,
             runs);
    for (char *w = strtok(text, " "); w && words < WORDS; w = strtok(NULL, " "))
        word[words++] = w;
    TRY(run_configure(run, word[0], words - 1, word + 1, err));
    return run_march(run, err);
}

static int one_case(const char *const what[3], int groups, const char *key, struct total total[2],
                    struct err *err) {
    static const char *const names[] = {
        "loss",       "f",         "Phi1_diag", "G1_diag",           "Phi3_diag",
        "Gb_diag",    "Gphi_diag", "Gbar_diag", "G1phi_diag",        "Mphi_0_diag",
        "MAA_0_diag", "Ch_1_diag", "Cg_0_diag", "gate_participation"};
    struct run run[2] = {0};
    int code, some = REPLICATES * groups;
    DO(march(what[0], what[1], key, some, &run[0], err));
    DO(march(what[0], what[2], key, some / 8 > 16 ? some / 8 : 16, &run[1], err));
    printf("\n## `%s %s`\n\n| quantity | t | truth | bias/se | from halves | coverage | bias/se in "
           "halves | coverage | se/se |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
           what[0], what[1]);
    for (size_t q = 0; q < sizeof names / sizeof *names; q++)
        for (int k = 1; k <= 2; k++)
            DO(print_row(&run[0].results.limit, &run[1].results.limit, names[q],
                         k * (run[0].results.limit.T - 1) / 2, total, err));
    fflush(stdout);
done:
    run_free(&run[0]);
    run_free(&run[1]);
    return code;
}

#define S "solver.sites=512"
#define L "solver.sites=4096"
int main(int argc, char **argv) {
    static const char *const cases[][3] = {
        {"data/dense.ini training.steps=13", S, L},
        {"data/regime1.ini training.steps=13", S, L},
        {"data/regime2.ini training.steps=13", S " solver.expert_sites=512",
         L " solver.expert_sites=4096"},
        {"data/regime2_mup.ini training.steps=13", S " solver.expert_sites=512",
         L " solver.expert_sites=4096"},
        {"data/ref/residual/soft_alpha0_L1.ini training.steps=9 output.kernels=diagonal",
         S " solver.unit_sites=512", S " solver.unit_sites=4096"},
        {"data/resnet.ini training.steps=13", S, L},
        {"data/regime3.ini training.steps=9", S " solver.expert_sites=64 solver.unit_sites=512",
         S " solver.expert_sites=128 solver.unit_sites=1024"},
        {"data/regime3_mup.ini training.steps=9", S " solver.expert_sites=64 solver.unit_sites=512",
         S " solver.expert_sites=128 solver.unit_sites=1024"},
    };
    int groups = argc > 1 ? atoi(argv[1]) : 40;
    struct total total[2] = {{0}};
    printf("# Bias and coverage of the limit's error bars, %d runs of %d replicates\n", groups,
           REPLICATES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        if (one_case(cases[i], groups, argc > 2 ? argv[2] : "", total, &err)) {
            fprintf(stderr, "coverage: %s: %s\n", cases[i][0], err.text);
            return err.code;
        }
    }
    for (int k = 0; k < 2; k++)
        printf("\n%s: coverage %.3f, rms of bias over its error %.2f, largest bias %.2f se (%d "
               "entries)\n",
               k ? "halves" : "as it is", total[k].coverage / total[k].entries,
               sqrt(total[k].squares / total[k].entries), total[k].largest, total[k].entries);
    return 0;
}
