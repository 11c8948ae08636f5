/* coverage NAME DRAWS [SECTION.KEY=VALUE ...]: bias and coverage of the error bars of a limit, of a
 * network of the table below, with [solver] draws = DRAWS. `make coverage` keeps what this prints
 * in tests/bench/coverage/, and tests/bench/coverage.py makes the table of docs/testing_log.md from
 * that.
 *
 * Two runs in halves, of many replicates, 8 of which are a run as a user would have it. The first
 * has twice the sites of the ini (or four times), and gives the truth by (3.2) of docs/method.md;
 * the second has those of the ini. A half of a replicate is a replicate with half of the sites,
 * with the draws that it would have by itself; so three settings are judged: halves = no at half
 * the sites of each run, halves = yes at the sites of the second.
 *
 * bias: mean over such runs of (value - truth) over the rms printed error, and its own error. With
 * halves = no the truth is that of the same replicates, whose fluctuations mostly cancel; with
 * halves = yes it is that of the first run, whose error is in quadrature. Coverage: share of the
 * runs whose 95 % interval (Student's t) holds the truth of all other replicates, whose error is
 * added in quadrature; of all entries with its error from run to run. Entries: loss, f, gate
 * participation and diagonals of kernels of input 0, at the middle and the end; what is exact is
 * left out. */
#include "solver/measure/stats.h"
#include "solver/run/run.h"

enum { REPLICATES = 8, WORDS = 24, GROUPS = 512, ENTRIES = 64 };
static const double exact = 1e-7; /* below this share of the value errors are round-off */

struct estimate {
    double mean, se;
};

/* A network, its keys, those of its sites in both runs, and their replicates; no sites and no runs:
 * without the second run, which judges halves = yes. */
struct bench_case {
    const char *name, *ini, *truth_sites, *sites;
    int truth_runs, runs;
};

struct entry {
    const char *name;
    int t;
    struct estimate truth; /* of the first run */
};

/* What is judged: which of the records of a run, against which truth. */
struct setting {
    struct run *run;
    const char *draws;
    bool halves;
    double held[GROUPS][2]; /* entries whose interval held the truth, in each run as of a user */
    double squares, largest, largest_error;
    int entries;
};

/* Of an entry over the replicates of group g, over all others, or (g = -1) over all. */
static int estimate(struct record *record, const struct entry *entry, int g, bool others,
                    struct estimate *out, struct err *err) {
    const struct series *series = record_find(record, entry->name);
    size_t at = (size_t)entry->t * (series->size / series->shape[0]);
    FREED(base_free) double *all;
    TRY(base_alloc(&all, 2 * series->size, sizeof *all, err));
    for (int r = 0; r < record->runs; r++)
        record->steps[r] = g < 0 || (r / REPLICATES == g) != others ? record->T : 0;
    record_statistics(record, series, all, all + series->size);
    *out = (struct estimate){all[at], all[series->size + at]};
    return CODE_OK;
}

static bool holds(struct estimate value, struct estimate truth) {
    double most = stats_interval(hypot(value.se, truth.se), REPLICATES - 1, 0.95);
    return fabs(value.mean - truth.mean) <= most;
}

struct judged {
    double sum, squares, scale;
    int held[GROUPS][2], runs;
};

static void add(struct judged *judged, double difference, double se2) {
    judged->sum += difference;
    judged->squares += difference * difference;
    judged->scale += se2;
}

/* Runs of 8 replicates with halves = no: both halves of a group, beside the group itself. */
static int judge_plain(struct run *run, const struct entry *entry, int g, struct judged *judged,
                       struct err *err) {
    struct estimate truth, own, value[2];
    TRY(estimate(&run->results.limit, entry, g, true, &truth, err));
    TRY(estimate(&run->results.limit, entry, g, false, &own, err));
    for (int k = 0; k < 2; k++) {
        TRY(estimate(&run->results.half[k], entry, g, false, &value[k], err));
        judged->held[g][k] = holds(value[k], truth);
    }
    add(judged, (value[0].mean + value[1].mean) / 2 - own.mean,
        (pow(value[0].se, 2) + pow(value[1].se, 2)) / 2);
    return CODE_OK;
}

static int judge_halved(struct run *run, const struct entry *entry, int g, struct judged *judged,
                        struct err *err) {
    struct estimate value;
    TRY(estimate(&run->results.limit, entry, g, false, &value, err));
    judged->held[g][0] = judged->held[g][1] = holds(value, entry->truth);
    add(judged, value.mean - entry->truth.mean, pow(value.se, 2));
    return CODE_OK;
}

static int groups_of(const struct setting *setting) {
    return setting->run->results.limit.runs / REPLICATES;
}

static void print_start(const struct bench_case *what, const struct setting *setting) {
    int sites = setting->run->config.solver.sites;
    printf("%s\t%s\t%s\t%d\t", what->name, setting->draws, setting->halves ? "yes" : "no",
           setting->halves ? sites : sites / 2);
}

static int judge(const struct bench_case *what, struct setting *setting, const struct entry *entry,
                 struct err *err) {
    static struct judged judged;
    int groups = groups_of(setting), runs = (setting->halves ? 1 : 2) * groups, held = 0;
    judged = (struct judged){0};
    for (int g = 0; g < groups; g++)
        TRY((setting->halves ? judge_halved : judge_plain)(setting->run, entry, g, &judged, err));
    double scale = sqrt(judged.scale / groups), bias = judged.sum / groups;
    double error = sqrt((judged.squares / groups - bias * bias) / (groups - 1));
    if (setting->halves)
        error = hypot(error, entry->truth.se);
    if (!(scale > exact * fabs(entry->truth.mean)))
        return CODE_OK;
    for (int g = 0; g < groups; g++)
        for (int k = 0; k < 2; k++) {
            setting->held[g][k] += judged.held[g][k];
            held += judged.held[g][k];
        }
    print_start(what, setting);
    printf("%s\t%d\t%.6g\t%.2g\t%.3f\t%.3f\t%.3f\t\t%d\n", entry->name, entry->t, entry->truth.mean,
           scale, bias / scale, error / scale, held / 2. / groups, runs);
    setting->squares += (bias * bias - error * error) / (scale * scale);
    if (fabs(bias / scale) > setting->largest) {
        setting->largest = fabs(bias / scale);
        setting->largest_error = error / scale;
    }
    setting->entries++;
    return CODE_OK;
}

/* At the last time, the largest of all replicates. */
static double last_of(const struct record *record, const char *name) {
    const struct series *series = record_find(record, name);
    double most = 0;
    for (int r = 0; series && r < record->runs; r++)
        most = fmax(most, *record_at(record, series, r, record->T - 1));
    return most;
}

/* All entries: in place of a time their number, of truth and error the rms of biases without their
 * noise and the normals for each site that were not matched. */
static void print_total(const struct bench_case *what, const struct setting *setting) {
    int groups = groups_of(setting), parts = setting->halves ? 1 : 2;
    double sum = 0, squares = 0, runs = parts * groups;
    for (int g = 0; g < groups; g++)
        for (int k = 0; k < parts; k++) {
            double share = setting->held[g][k] / setting->entries;
            sum += share / runs;
            squares += share * share / runs;
        }
    const struct run_results *results = &setting->run->results;
    print_start(what, setting);
    printf("all\t%d\t%.3f\t%.2f\t%.3f\t%.3f\t%.3f\t%.3f\t%.0f\n", setting->entries,
           sqrt(fmax(setting->squares / setting->entries, 0)),
           last_of(setting->halves ? &results->limit : &results->half[0], "unmatched"),
           setting->largest, setting->largest_error, sum, sqrt((squares - sum * sum) / (runs - 1)),
           runs);
}

static int march(const struct bench_case *what, bool truth, const char *draws, char *const *keys,
                 struct run *run, struct err *err) {
    char text[1024], *word[WORDS];
    int words = 0;
    snprintf(text, sizeof text,
             "%s %s solver.draws=%s solver.halves=yes solver.replicates=%d solver.seed=%d "
             "reference.widths= output.kernels=diagonal output.responses=no",
             what->ini, truth ? what->truth_sites : what->sites, draws,
             truth ? what->truth_runs : what->runs, truth ? 11 : 12);
    for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
        word[words++] = w;
    while (*keys && words < WORDS)
        word[words++] = *keys++;
    TRY(run_configure(run, word[0], words - 1, word + 1, err));
    return run_march(run, err);
}

static bool asked(const char *name) {
    size_t length = strlen(name);
    return !strcmp(name, "loss") || !strcmp(name, "f") || !strcmp(name, "gate_participation") ||
           (length > 5 && !strcmp(name + length - 5, "_diag"));
}

static int find_entries(struct run *run, struct entry entry[ENTRIES], int *count, struct err *err) {
    struct record *record = &run->results.limit;
    for (int k = 0; k < record->count; k++)
        for (int half = 1; half <= 2 && asked(record->series[k].name) && *count < ENTRIES; half++) {
            struct entry *e = &entry[(*count)++];
            *e = (struct entry){.name = record->series[k].name, .t = half * (record->T - 1) / 2};
            TRY(estimate(record, e, -1, false, &e->truth, err));
        }
    return CODE_OK;
}

static int judge_all(const struct bench_case *what, struct run *run, const char *draws, bool halves,
                     const struct entry *entry, int count, struct err *err) {
    static struct setting setting;
    setting = (struct setting){.run = run, .draws = draws, .halves = halves};
    for (int k = 0; k < count; k++)
        TRY(judge(what, &setting, &entry[k], err));
    print_total(what, &setting);
    return CODE_OK;
}

static int one_case(const struct bench_case *what, const char *draws, char *const *keys,
                    struct err *err) {
    struct run truth = {0}, run = {0};
    struct entry entry[ENTRIES];
    int count = 0, code;
    DO(march(what, true, draws, keys, &truth, err));
    DO(find_entries(&truth, entry, &count, err));
    DO(judge_all(what, &truth, draws, false, entry, count, err));
    if (!what->sites)
        goto done;
    DO(march(what, false, draws, keys, &run, err));
    DO(judge_all(what, &run, draws, true, entry, count, err));
done:
    run_free(&truth);
    run_free(&run);
    return code;
}

int main(int argc, char **argv) {
    static const struct bench_case cases[] = {
        {"dense", "data/dense.ini", "solver.sites=4096", "solver.sites=2048", 160, 320},
        {"regime1", "data/regime1.ini", "solver.sites=4096", "solver.sites=2048", 80, 160},
        {"regime2", "data/regime2.ini", "solver.sites=4096 solver.expert_sites=4096",
         "solver.sites=2048 solver.expert_sites=2048", 96, 200},
        {"regime3", "data/regime3.ini training.steps=9",
         "solver.sites=4096 solver.expert_sites=1024 solver.unit_sites=1024",
         "solver.sites=2048 solver.expert_sites=512 solver.unit_sites=512", 32, 80},
        /* its 32 experts are those of the networks: no sites, of which there could be more */
        {"residual", "data/residual.ini training.steps=9",
         "solver.sites=1024 solver.unit_sites=1024", "solver.sites=512 solver.unit_sites=512", 120,
         240},
        /* experts at random biases are samples, and have sites that are doubled, too */
        {"residual_normal", "data/residual.ini training.steps=9 network.bias_draws=normal",
         "solver.sites=512 solver.unit_sites=512 solver.expert_sites=128",
         "solver.sites=256 solver.unit_sites=256 solver.expert_sites=64", 80, 160},
        {"stack", "data/stack.ini", "solver.sites=2048 solver.expert_sites=2048",
         "solver.sites=1024 solver.expert_sites=1024", 120, 240},
        {"transformer", "data/transformer.ini training.steps=9 data.test_inputs=0",
         "solver.sites=2048", "solver.sites=1024", 64, 120},
        {"swiglu", "examples/swiglu.ini training.steps=6",
         "solver.sites=4096 solver.expert_sites=4096", "solver.sites=2048 solver.expert_sites=2048",
         160, 320},
        {"fashion", "data/fashion.ini", "solver.sites=2048", "solver.sites=1024", 40, 80},
        {"fashion_2048", "data/fashion.ini", "solver.sites=4096", "solver.sites=2048", 24, 48},
        {"fashion10", "data/fashion10.ini", "solver.sites=2048", NULL, 24, 0},
        {"regime2_fashion", "data/regime2_fashion.ini",
         "solver.sites=4096 solver.expert_sites=4096", NULL, 24, 0},
        {"muon", "data/muon.ini", "solver.sites=8192", NULL, 40, 0},
        {"program", "data/program.ini", "solver.sites=2048", NULL, 80, 0},
        {"regime1_adam", "data/regime1_adam.ini", "solver.sites=2048", NULL, 64, 0},
        {"regime2_mup", "data/regime2_mup.ini", "solver.sites=4096 solver.expert_sites=4096", NULL,
         48, 0},
        {"regime2_softmax", "data/regime2_softmax.ini",
         "solver.sites=4096 solver.expert_sites=4096", NULL, 48, 0},
        {"regime3_mup", "data/regime3_mup.ini training.steps=9",
         "solver.sites=4096 solver.expert_sites=1024 solver.unit_sites=1024", NULL, 24, 0},
        {"residual_multi_index", "data/residual_multi_index.ini training.steps=9",
         "solver.sites=128 solver.unit_sites=3072", NULL, 24, 0},
        {"resnet", "data/resnet.ini", "solver.sites=4096", NULL, 40, 0},
        {"single_pass", "data/single_pass.ini training.steps=11",
         "solver.sites=4096 solver.expert_sites=2048", "solver.sites=2048 solver.expert_sites=1024",
         24, 48},
        {"swiglu_late", "examples/swiglu.ini", "solver.sites=4096 solver.expert_sites=4096",
         "solver.sites=2048 solver.expert_sites=2048", 320, 480},
    };
    for (size_t i = 0; argc > 2 && i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        if (strcmp(argv[1], cases[i].name))
            continue;
        if (one_case(&cases[i], argv[2], argv + 3, &err))
            fprintf(stderr, "coverage: %s: %s\n", cases[i].ini, err.text);
        return err.code;
    }
    fprintf(stderr, "usage: coverage NAME DRAWS [SECTION.KEY=VALUE ...]\n");
    return CODE_INPUT;
}
