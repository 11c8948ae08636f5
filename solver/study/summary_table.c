/* The table of a sweep. */
#include "solver/study/summary_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int summary_stride(const struct summary *summary, int axis) {
    const struct sweep *sweep = summary->sweep;
    int stride = sweep->columns;
    for (int a = axis + 1; a < sweep->grid.axes; a++)
        stride *= sweep->grid.axis[a].count;
    return stride;
}

bool summary_rests(const struct summary *summary, int unit) {
    const struct sweep *sweep = summary->sweep;
    int first = unit - unit % sweep->columns;
    bool moving = false;
    for (int c = 0; c < sweep->widths.count; c++)
        moving = moving || !summary->cell[first + c].still;
    return !sweep_width(sweep, unit - first) && summary->cell[unit].still && moving;
}

/* ---- columns ---- */

/* Goes through the columns of a table, the keys of all axes but `without`: *k is the first to look
 * at. Their width, or -1 behind the last. */
static int next_column(const struct summary *summary, int without, int *k,
                       const struct grid_key **key, int *axis) {
    const struct grid *grid = &summary->sweep->grid;
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
static void print_keys(const struct summary *summary, int unit, int without) {
    const struct sweep *sweep = summary->sweep;
    const struct grid_key *key;
    for (int k = 0, a, width; (width = next_column(summary, without, &k, &key, &a)) >= 0; k++)
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
        snprintf(text, sizeof text, isnan(se) ? digits : both, x, se);
    else
        snprintf(text, sizeof text, "-");
    printf("  %*s", width, text);
}

/* Whether one run makes more than half of the mean. */
static bool is_carried(const struct cell *cell) {
    double largest = 0;
    for (int r = 0; r < cell->runs && cell->last; r++)
        largest = fmax(largest, fabs(cell->last[r]));
    return cell->runs >= 3 && largest > 0.5 * cell->runs * fabs(cell->loss);
}

/* Behind a mean. */
static void print_star(bool there) {
    printf("%s", there ? " *" : "  ");
}

static void explain_stars(const struct summary *summary) {
    bool any = false;
    for (int u = 0; u < summary->sweep->count; u++)
        any = any || is_carried(&summary->cell[u]);
    if (any)
        printf("*: one run is more than half of this mean\n");
}

/* ---- tables ---- */

void summary_losses_print(const struct summary *summary) {
    const struct sweep *sweep = summary->sweep;
    printf("final loss (+-: standard errors of sampling)\n");
    print_keys(summary, -1, -1);
    printf("%6s  %20s    %20s\n", "N", "mean", "median");
    for (int u = 0; u < sweep->count; u++) {
        const struct cell *cell = &summary->cell[u];
        print_keys(summary, u, -1);
        print_width(sweep, u);
        print_number(20, cell->last, "%.5g", cell->loss, cell->se);
        print_star(is_carried(cell));
        print_number(20, cell->last, "%.5g", cell->median, cell->median_se);
        printf("%s", !cell->last ? "  failed" : summary_rests(summary, u) ? "  (it rests)" : "");
        marks_print(&summary->marks, u);
        printf("\n");
    }
    explain_stars(summary);
    marks_explain(&summary->marks);
}

void summary_head_print(const struct summary *summary) {
    printf("\noptimum of %s, and the final loss there, of means and of medians over the runs\n"
           "(+-: standard errors of sampling; a parabola between the values of the grid may be off "
           "by half a step)\n",
           summary->sweep->grid.axis[summary->axis].name);
    print_keys(summary, -1, summary->axis);
    printf("%6s  %15s  %18s    %15s  %18s\n", "N", "optimum", "mean loss", "optimum",
           "median loss");
}

void summary_optimum_print(const struct summary *summary, int unit,
                           const struct optimum optimum[OPTIMUM_KINDS]) {
    static const char *const why[] = {"",
                                      "  (the lowest value)",
                                      "  (the highest value)",
                                      "  (a neighbour failed)",
                                      "  (all failed)",
                                      "  (a loss is not above zero)",
                                      "  (it rests)"};
    int stride = summary_stride(summary, summary->axis);
    print_keys(summary, unit, summary->axis);
    print_width(summary->sweep, unit);
    for (int k = 0; k < OPTIMUM_KINDS; k++) {
        int best = optimum[k].best;
        print_number(15, best >= 0, "%.4g", optimum[k].at, optimum[k].at_se);
        print_number(18, best >= 0, "%.5g", optimum[k].loss, optimum[k].loss_se);
        if (k == OPTIMUM_MEANS)
            print_star(best >= 0 && is_carried(&summary->cell[unit + best * stride]));
    }
    bool same = optimum[OPTIMUM_MEANS].edge == optimum[OPTIMUM_MEDIANS].edge;
    printf("%s%s\n", why[optimum[OPTIMUM_MEANS].edge],
           same ? "" : why[optimum[OPTIMUM_MEDIANS].edge]);
}

void summary_rests_print(const struct summary *summary) {
    bool some = false;
    for (int u = 0; u < summary->sweep->count; u++)
        some = some || summary_rests(summary, u);
    if (some)
        printf("note: a limit rests where training changes nothing of it, and networks leave that "
               "point the later the\n  wider: it has no optimum; dmft-solve on one point gives the "
               "times and their slope in ln N\n");
}
