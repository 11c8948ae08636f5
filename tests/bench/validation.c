/* make validation: docs/validation.md, own finite networks against own limit for each network and
 * parameterization: limit, three widths, the extrapolation a + b/N and its z. An argument takes the
 * cases alone that contain it. */
#include "solver/run/run.h"
#include "solver/measure/stats.h"

#define WIDTHS 3

/* Mean and standard error of one entry; NaN if there is no such series. */
static int entry_of(const struct record *record, const char *name, int t, double *mean, double *se,
                    struct err *err) {
    const struct series *series = record_find(record, name);
    double *all;
    *mean = *se = NAN;
    if (!series)
        return CODE_OK;
    size_t entry = (size_t)t * (series->size / (size_t)record->T);
    TRY(base_alloc(&all, 2 * series->size, sizeof *all, err));
    record_statistics(record, series, all, all + series->size);
    *mean = all[entry];
    *se = all[series->size + entry];
    free(all);
    return CODE_OK;
}

static void print_value(double mean, double se) {
    printf(" %.5g (%.1g) |", mean, se);
}

static int print_row(const struct run *run, const char *name, int t, double *worst, int *beyond,
                     struct err *err) {
    struct stats_mean of[WIDTHS];
    double limit, limit_se;
    TRY(entry_of(&run->results.limit, name, t, &limit, &limit_se, err));
    if (isnan(limit) || limit == 0)
        return CODE_OK;
    printf("| %s | %d |", name, t);
    print_value(limit, limit_se);
    for (int i = 0; i < WIDTHS; i++) {
        TRY(entry_of(&run->results.reference[i], name, t, &of[i].value, &of[i].se, err));
        of[i].runs = record_reached(&run->results.reference[i], t);
        print_value(of[i].value, of[i].se);
    }
    struct stats_fit line = stats_extrapolate(run->config.reference.widths.value, of, WIDTHS);
    double z = (line.a - limit) / hypot(line.se, limit_se);
    print_value(line.a, line.se);
    printf(" %.1f |\n", z);
    *worst = fmax(*worst, fabs(z));
    *beyond += fabs(z) > 3;
    return CODE_OK;
}

/* ini and overrides, blank-separated. */
static int one_case(const char *what, double *worst, int *beyond, struct err *err) {
    static const char *const names[] = {"loss",        "f",         "Phi1_diag",
                                        "G1_diag",     "Phi3_diag", "PhiL_diag",
                                        "Phibar_diag", "Ch_1_diag", "Cg_0_diag"};
    char text[512], *word[24];
    struct run run = {0};
    int words = 0, code;
    snprintf(text, sizeof text, "%s", what);
    for (char *w = strtok(text, " "); w && words < 24; w = strtok(NULL, " "))
        word[words++] = w;
    DO(run_configure(&run, word[0], words - 1, word + 1, err));
    DO(run_march(&run, err));
    const int *N = run.config.reference.widths.value;
    printf("\n## `%s`\n\n| quantity | t | limit | N = %d | N = %d | N = %d | N -> inf | z |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
           what, N[0], N[1], N[2]);
    int T = run.config.training.steps;
    for (size_t q = 0; q < sizeof names / sizeof *names; q++)
        for (int k = 1; k <= 3; k++)
            DO(print_row(&run, names[q], k * (T - 1) / 3, worst, beyond, err));
done:
    run_free(&run);
    return code;
}

int main(int argc, char **argv) {
    static const struct {
        const char *what, *remark; /* on entries beyond 3 */
    } cases[] = {
        {"data/dense.ini reference.seeds=96 solver.replicates=16", NULL},
        {"data/regime1.ini network.parameterization=mssp reference.seeds=64 solver.replicates=16",
         NULL},
        {"data/regime1.ini network.parameterization=mup reference.seeds=64 solver.replicates=16",
         NULL},
        {"data/regime2.ini network.parameterization=mssp reference.seeds=96 solver.replicates=16",
         NULL},
        {"data/regime2.ini network.parameterization=mup reference.seeds=96 solver.replicates=16",
         NULL},
        {"data/regime2_softmax.ini reference.seeds=96 solver.replicates=16", NULL},
        {"data/regime3.ini reference.seeds=64 solver.replicates=16", NULL},
        {"data/regime3_mup.ini reference.seeds=64 solver.replicates=16", NULL},
        {"data/resnet.ini reference.seeds=96 solver.replicates=16", NULL},
        {"data/regime1.ini network.iota=0.5 reference.seeds=64 solver.replicates=16", NULL},
        {"data/stack.ini reference.seeds=96 solver.replicates=16", NULL},
        {"data/transformer.ini reference.seeds=64 solver.replicates=16", NULL},
        {"data/fashion10.ini reference.seeds=32 solver.replicates=16", NULL},
        {"data/residual_multi_index.ini reference.seeds=32", NULL},
        {"data/residual.ini solver.halves=no reference.widths=32\t64\t128 reference.seeds=8",
         "Beyond 3: with top-K and experts of infinite width the gates of a network fluctuate by "
         "N_e^{-1/2},\nN_e = N^2/32 here, and loads approach the limit as slowly as that "
         "(docs/theory/residual.md); a + b/N is\nthen not the law of the approach, which is "
         "monotone towards the limit at every entry."},
    };
    double worst = 0;
    int beyond = 0;
    printf(
        "# Own networks against own limit\n\nMade by `make validation`. In brackets: standard "
        "error. "
        "N -> inf: weighted least squares of a + b/N\nthrough the three widths; z: its distance "
        "from "
        "the limit in combined standard errors. Entries of one case\nshare their networks: their z "
        "move together.\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        if (argc > 1 && !strstr(cases[i].what, argv[1]))
            continue;
        if (one_case(cases[i].what, &worst, &beyond, &err)) {
            fprintf(stderr, "validation: %s: %s\n", cases[i].what, err.text);
            return err.code;
        }
        if (cases[i].remark)
            printf("\n%s\n", cases[i].remark);
    }
    printf("\nLargest |z| %.1f; entries beyond 3: %d.\n", worst, beyond);
    return 0;
}
