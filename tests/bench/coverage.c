/* make coverage [GROUPS]: bias and coverage of what the limit prints, at 512 sites of each kind and
 * 8 replicates. GROUPS such runs of each network, as one ensemble of 8 GROUPS replicates, against
 * an ensemble of the same cost with eight times the sites (expert and unit sites of regime3:
 * twice).
 *
 * Bias: mean of (value - truth) over the root mean square of the printed standard errors; in
 * brackets its own standard error, from the groups and from the truth. Coverage: share of 95 %
 * intervals (Student's t) that hold the truth, whose own error is added in quadrature. Of input 0,
 * at the middle and the end. */
#include "solver/measure/stats.h"
#include "solver/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICATES = 8, WORDS = 24 };

/* Mean and standard error of one entry over the replicates from first on, count of them. */
static int entry_of(struct record *record, const struct series *series, size_t entry, int first,
                    int count, double *mean, double *se, struct err *err) {
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

static int print_row(struct record *small, struct record *large, const char *name, int t,
                     struct err *err) {
    const struct series *series = record_find(small, name), *other = record_find(large, name);
    if (!series)
        return CODE_OK;
    size_t entry = (size_t)t * (series->size / (size_t)small->T);
    int groups = small->runs / REPLICATES, covered = 0;
    double truth, truth_se, mean, se, sum = 0, squares = 0, errors = 0;
    TRY(entry_of(large, other, entry, 0, large->runs, &truth, &truth_se, err));
    for (int g = 0; g < groups; g++) {
        TRY(entry_of(small, series, entry, g * REPLICATES, REPLICATES, &mean, &se, err));
        sum += (mean - truth) / groups;
        squares += (mean - truth) * (mean - truth) / groups;
        errors += se * se / groups;
        covered += fabs(mean - truth) <= stats_interval(hypot(se, truth_se), REPLICATES, 0.95);
    }
    double scale = sqrt(errors), spread = sqrt((squares - sum * sum) / groups);
    printf("| %s | %d | %.5g | %.2f (%.2f) | %.3f |\n", name, t, truth, sum / scale,
           hypot(spread, truth_se) / scale, (double)covered / groups);
    return CODE_OK;
}

static int march(const char *what, const char *sites, int runs, struct run *run,
                 struct record *record, struct err *err) {
    char text[512], *word[WORDS];
    int words = 0;
    snprintf(text, sizeof text, "%s %s reference.widths=", what, sites);
    for (char *w = strtok(text, " "); w && words < WORDS; w = strtok(NULL, " "))
        word[words++] = w;
    TRY(run_configure(run, word[0], words - 1, word + 1, err));
    return run_ensemble(run, 0, runs, record, err);
}

static int one_case(const char *const what[3], int groups, struct err *err) {
    static const char *const names[] = {"loss",       "f",           "Phi1_diag",  "G1_diag",
                                        "Phi3_diag",  "Gb_diag",     "Gphi_diag",  "Gbar_diag",
                                        "G1phi_diag", "Mphi_0_diag", "MAA_0_diag", "Ch_1_diag",
                                        "Cg_0_diag"};
    struct run run[2] = {0};
    struct record small = {0}, large = {0};
    int code, some = REPLICATES * groups;
    DO(march(what[0], what[1], some, &run[0], &small, err));
    DO(march(what[0], what[2], some / 8 > 16 ? some / 8 : 16, &run[1], &large, err));
    printf("\n## `%s %s`\n\n| quantity | t | truth | bias/se | coverage |\n"
           "| --- | --- | --- | --- | --- |\n",
           what[0], what[1]);
    for (size_t q = 0; q < sizeof names / sizeof *names; q++)
        for (int k = 1; k <= 2; k++)
            DO(print_row(&small, &large, names[q], k * (small.T - 1) / 2, err));
    fflush(stdout);
done:
    record_free(&small);
    record_free(&large);
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
    printf("# Bias and coverage of the limit's error bars, %d runs of %d replicates\n", groups,
           REPLICATES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        if (one_case(cases[i], groups, &err)) {
            fprintf(stderr, "coverage: %s: %s\n", cases[i][0], err.text);
            return err.code;
        }
    }
    return 0;
}
