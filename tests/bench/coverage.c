/* make coverage, or coverage NAME [RUNS [SECTION.KEY=VALUE]]: bias and coverage of the error bars
 * of a limit at the sites of its ini, of a network of the table below, with even draws (sobol).
 *
 * RUNS replicates at twice the sites and in halves: each half is a replicate at the sites of the
 * ini, with the draws that such a run would have, and (3.2) gives it a truth whose bias is of the
 * next order. 8 halves are a run as a user would have it, RUNS/4 of them in all; its truth is the
 * mean over all other replicates, whose error is added in quadrature.
 *
 * bias/se: mean over such runs of (value - truth of its own replicates, whose fluctuations mostly
 * cancel) over the rms printed error; in brackets its own error. Coverage: share of the runs whose
 * 95 % interval (Student's t) holds the truth; at the end over all entries, with its error from run
 * to run. Of input 0, at the middle and the end; what is exact is left out. */
#include "solver/measure/stats.h"
#include "solver/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICATES = 8, WORDS = 24, GROUPS = 512 };
static const double exact = 1e-7; /* below this share of the value errors are round-off */

struct entry {
    const char *name;
    size_t at;
};

/* Mean and standard error of one entry over the replicates of group g, or over all others. */
static int entry_of(struct record *record, struct entry entry, int g, bool others, double *mean,
                    double *se, struct err *err) {
    const struct series *series = record_find(record, entry.name);
    double *all;
    TRY(base_alloc(&all, 2 * series->size, sizeof *all, err));
    for (int r = 0; r < record->runs; r++)
        record->steps[r] = (r / REPLICATES == g) != others ? record->T : 0;
    record_statistics(record, series, all, all + series->size);
    *mean = all[entry.at];
    *se = all[series->size + entry.at];
    free(all);
    return CODE_OK;
}

struct judged {
    double truth, bias, bias_se, scale, coverage;
};

/* Group g of both halves: what is added to `held` for each of them. */
static int judge_group(struct run *run, struct entry entry, int g, struct judged *judged,
                       double *difference, double *held, struct err *err) {
    double truth, truth_se, own, mean, se;
    TRY(entry_of(&run->results.limit, entry, g, true, &truth, &truth_se, err));
    TRY(entry_of(&run->results.limit, entry, g, false, &own, &se, err));
    *difference = -own;
    for (int k = 0; k < 2; k++) {
        TRY(entry_of(&run->results.half[k], entry, g, false, &mean, &se, err));
        double most = stats_interval(hypot(se, truth_se), REPLICATES, 0.95);
        bool in = fabs(mean - truth) <= most;
        *difference += mean / 2;
        judged->scale += se * se / 2;
        judged->coverage += in / 2.;
        held[k] += in;
    }
    judged->truth = truth;
    return CODE_OK;
}

static int judge(struct run *run, struct entry entry, struct judged *judged, double held[GROUPS][2],
                 struct err *err) {
    int groups = run->results.limit.runs / REPLICATES;
    double difference, sum = 0, squares = 0;
    *judged = (struct judged){0};
    for (int g = 0; g < groups; g++) {
        TRY(judge_group(run, entry, g, judged, &difference, held[g], err));
        sum += difference / groups;
        squares += difference * difference / groups;
    }
    judged->coverage /= groups;
    judged->scale = sqrt(judged->scale / groups);
    judged->bias = sum / judged->scale;
    judged->bias_se = sqrt((squares - sum * sum) / (groups - 1)) / judged->scale;
    return CODE_OK;
}

static bool asked(const char *name) {
    size_t length = strlen(name);
    return !strcmp(name, "loss") || !strcmp(name, "f") || !strcmp(name, "gate_participation") ||
           (length > 5 && !strcmp(name + length - 5, "_diag"));
}

struct total {
    double squares, largest;
    int entries;
};

static int print_rows(struct run *run, const struct series *series, double held[GROUPS][2],
                      struct total *total, struct err *err) {
    struct judged judged;
    double mine[GROUPS][2] = {{0}};
    size_t row = series->size / series->shape[0];
    for (int k = 1; k <= 2; k++) {
        int t = k * (run->results.limit.T - 1) / 2;
        memset(mine, 0, sizeof mine);
        TRY(judge(run, (struct entry){series->name, (size_t)t * row}, &judged, mine, err));
        if (!(judged.scale > exact * fabs(judged.truth)))
            continue;
        printf("| %s | %d | %.5g | %.2f (%.2f) | %.3f |\n", series->name, t, judged.truth,
               judged.bias, judged.bias_se, judged.coverage);
        for (int g = 0; g < run->results.limit.runs / REPLICATES; g++)
            for (int half = 0; half < 2; half++)
                held[g][half] += mine[g][half];
        total->squares += pow(judged.bias, 2) - pow(judged.bias_se, 2);
        total->largest = fmax(total->largest, fabs(judged.bias));
        total->entries++;
    }
    return CODE_OK;
}

/* The last line, of all entries of a network. */
static void print_total(const char *name, const struct run *run, double held[GROUPS][2],
                        const struct total *total) {
    double groups = 2. * (run->results.limit.runs / REPLICATES), sum = 0, squares = 0;
    for (int g = 0; g < groups; g++) {
        double share = held[g / 2][g % 2] / total->entries;
        sum += share / groups;
        squares += share * share / groups;
    }
    printf("\nall of %s: coverage %.3f (%.3f), rms of bias %.2f se, largest %.2f (%d entries, %.0f "
           "runs)\n",
           name, sum, sqrt((squares - sum * sum) / (groups - 1)),
           sqrt(fmax(total->squares / total->entries, 0)), total->largest, total->entries, groups);
}

static int march(const char *const what[4], int runs, const char *key, struct run *run,
                 struct err *err) {
    char text[512], *word[WORDS];
    int words = 0;
    snprintf(text, sizeof text,
             "%s %s solver.halves=yes solver.replicates=%d solver.seed=11 %s reference.widths=",
             what[1], what[2], runs, key);
    for (char *w = strtok(text, " "); w && words < WORDS; w = strtok(NULL, " "))
        word[words++] = w;
    TRY(run_configure(run, word[0], words - 1, word + 1, err));
    return run_march(run, err);
}

static int one_case(const char *const what[4], int runs, const char *key, struct err *err) {
    static double held[GROUPS][2];
    struct total total = {0};
    struct run run = {0};
    int code;
    DO(march(what, runs, key, &run, err));
    printf("### %s: `%s %s`\n\n| quantity | t | truth | bias/se | coverage |\n| --- | --- | --- | "
           "--- | --- |\n",
           what[0], what[1], key);
    for (int k = 0; k < run.results.limit.count; k++)
        if (asked(run.results.limit.series[k].name))
            DO(print_rows(&run, &run.results.limit.series[k], held, &total, err));
    print_total(what[0], &run, held, &total);
done:
    run_free(&run);
    return code;
}

int main(int argc, char **argv) {
    /* Name, ini, twice its sites, replicates. */
    static const char *const cases[][4] = {
        {"dense", "data/dense.ini", "solver.sites=4096", "160"},
        {"regime1", "data/regime1.ini", "solver.sites=4096", "48"},
        {"regime2", "data/regime2.ini", "solver.sites=4096 solver.expert_sites=4096", "64"},
        {"regime3", "data/regime3.ini training.steps=9",
         "solver.sites=4096 solver.expert_sites=1024 solver.unit_sites=1024", "16"},
        {"residual", "data/residual.ini training.steps=9",
         "solver.sites=1024 solver.unit_sites=1024", "32"},
        {"stack", "data/stack.ini", "solver.sites=2048 solver.expert_sites=2048", "64"},
        {"transformer", "data/transformer.ini training.steps=9 data.test_inputs=0",
         "solver.sites=2048", "24"},
        {"swiglu", "examples/swiglu.ini", "solver.sites=4096 solver.expert_sites=4096", "64"},
    };
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        int runs = atoi(argc > 2 ? argv[2] : cases[i][3]) / REPLICATES * REPLICATES;
        struct err err = {0};
        if (strcmp(argv[1], cases[i][0]))
            continue;
        if (runs < 2 * REPLICATES || runs > GROUPS * REPLICATES)
            return fprintf(stderr, "coverage: RUNS from 16 to 4096\n"), CODE_INPUT;
        if (one_case(cases[i], runs, argc > 3 ? argv[3] : "solver.draws=sobol", &err))
            fprintf(stderr, "coverage: %s: %s\n", cases[i][1], err.text);
        return err.code;
    }
    fprintf(stderr, "usage: coverage NAME [RUNS [SECTION.KEY=VALUE]]\n");
    return CODE_INPUT;
}
