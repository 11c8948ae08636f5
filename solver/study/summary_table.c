/* The table of a sweep. */
#include "solver/study/summary_table.h"
#include "solver/study/optima.h"
#include "solver/measure/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- columns ---- */

/* Goes through the columns of a table, the keys of all axes but `without`: *k is the first to look
 * at. Their width, or -1 behind the last. */
static int next_column(const struct cells *cells, int without, int *k, const struct grid_key **key,
                       int *axis) {
    const struct grid *grid = &cells->sweep->grid;
    for (; *k < grid->keys; ++*k) {
        *key = grid_key(grid, *k, axis);
        if (*axis == without)
            continue;
        size_t width = strlen((*key)->name);
        for (int i = 0; i < grid->axis[*axis].count; i++)
            width = strlen((*key)->text[i]) > width ? strlen((*key)->text[i]) : width;
        return (int)width;
    }
    return -1;
}

/* The names of these columns, or (unit >= 0) their values; without: an axis to leave out. */
static void print_keys(const struct cells *cells, int unit, int without) {
    const struct sweep *sweep = cells->sweep;
    const struct grid_key *key;
    for (int k = 0, a, width; (width = next_column(cells, without, &k, &key, &a)) >= 0; k++)
        printf("%*s  ", width,
               unit < 0 ? key->name
                        : key->text[grid_index(&sweep->grid, unit / sweep->columns, a)]);
}

static void print_width(const struct sweep *sweep, int unit) {
    char number[16];
    int N = sweep_width(sweep, unit % sweep->columns);
    snprintf(number, sizeof number, "%d", N);
    printf("%6s", N ? number : "limit");
}

static void print_number(int width, bool there, const char *digits, double x, double se) {
    char text[64], both[32];
    snprintf(both, sizeof both, "%s +- %%.1g", digits);
    if (there)
        snprintf(text, sizeof text, isnan(se) ? digits : both, x, stats_shown(x, se));
    else
        snprintf(text, sizeof text, "-");
    printf("  %*s", width, text);
}

/* 0.0123 [0.0121, 0.0127], or the reason why there is none. */
static void print_interval(const struct optimum *optimum) {
    char text[128];
    if (optimum->reason == OPTIMUM_KNOWN)
        snprintf(text, sizeof text, "%.4g [%.4g, %.4g]", optimum->at, optimum->low, optimum->high);
    else
        snprintf(text, sizeof text, "%s", optima_reason(optimum->reason));
    printf("  %26s", text);
    if (optimum->reason == OPTIMUM_KNOWN)
        snprintf(text, sizeof text, "%.4g [%.4g, %.4g]", optimum->value, optimum->value_low,
                 optimum->value_high);
    printf("  %30s", optimum->reason == OPTIMUM_KNOWN ? text : "");
}

/* Whether one run makes more than half of the mean. */
static bool is_carried(const struct cell *cell) {
    const struct measured *objective = &cell->objective;
    double largest = 0;
    for (int r = 0; r < objective->runs && objective->run; r++)
        largest = fmax(largest, fabs(objective->run[r]));
    return objective->runs >= 3 && largest > 0.5 * objective->runs * fabs(objective->mean);
}

static void explain_stars(const struct cells *cells) {
    bool any = false;
    for (int u = 0; u < cells->sweep->count; u++)
        any = any || is_carried(&cells->cell[u]);
    if (any)
        printf("*: one run is more than half of this mean\n");
}

/* ---- tables ---- */

static void print_failures(const struct cell *cell) {
    if (cell->failed && cell->ended)
        printf("  (%d of %d failed)", cell->failed, cell->failed + cell->ended);
    else if (cell->failed)
        printf("  failed");
}

void summary_losses_print(const struct cells *cells) {
    const struct sweep *sweep = cells->sweep;
    printf("%s: %s\n", cells->objective.text, cells->objective.about);
    if (cells->objective.kind == OBJECTIVE_SMOOTH)
        printf("(over the last %d times)\n", cells->window);
    printf("over the runs (+-: standard errors of sampling)\n");
    print_keys(cells, -1, -1);
    printf("%6s  %20s    %20s", "N", "mean", "median");
    marks_print_columns(&cells->marks, sweep->grid.columns, -1);
    printf("\n");
    for (int u = 0; u < sweep->count; u++) {
        const struct cell *cell = &cells->cell[u];
        const struct measured *objective = &cell->objective;
        print_keys(cells, u, -1);
        print_width(sweep, u);
        print_number(20, isfinite(objective->mean), "%.5g", objective->mean, objective->error);
        printf("%s", is_carried(cell) ? " *" : "  ");
        print_number(20, isfinite(objective->median), "%.5g", objective->median,
                     objective->median_error);
        marks_print_columns(&cells->marks, sweep->grid.columns, u);
        print_failures(cell);
        printf("%s", cells_rest(cells, u) ? "  (it rests)" : "");
        marks_print(&cells->marks, u);
        printf("\n");
    }
    explain_stars(cells);
    marks_explain(&cells->marks);
}

void summary_head_print(const struct cells *cells, int axis) {
    printf("\noptimum of %s by %s, and %s there, of means and of medians over the runs\n"
           "([]: intervals of 95 %%)\n",
           cells->sweep->grid.axis[axis].name, cells->objective.text, cells->objective.text);
    print_keys(cells, -1, axis);
    printf("%6s  %26s  %30s  %26s  %30s\n", "N", "optimum of means", "mean", "optimum of medians",
           "median");
}

void summary_optimum_print(const struct cells *cells, int axis, int unit,
                           const struct optimum optimum[OPTIMUM_KINDS]) {
    print_keys(cells, unit, axis);
    print_width(cells->sweep, unit);
    for (int k = 0; k < OPTIMUM_KINDS; k++)
        print_interval(&optimum[k]);
    printf("\n");
}
