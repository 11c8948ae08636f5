/* What a run measures: storage by run and time, averages over runs.
 *
 * Over the n runs r that reached an entry, in the order of runs,
 *   mean = sum_r x_r / n,    se = sqrt(sum_r (x_r - mean)^2 / (n (n - 1))).
 * A run reached time t when steps[run] > t; an entry with two times (axes t and s) is reached with
 * the later of both. NaN among the values of a run that reached the entry is passed on. For a
 * function of a mean x_r are pseudo-values. Of what is counted, such as the load of an expert, runs
 * that all agree do not tell how often others would not: se is then NaN. */
#include "solver/measure/record.h"
#include "kernels/base/text.h"

/* The axis of this name, or -1. */
static int axis_of(const char *dims, const char *name) {
    struct text_word word;
    for (int axis = 0; text_next_word(&dims, " ", &word); axis++)
        if (text_is(word, name))
            return axis;
    return -1;
}

/* How many axes dims names, `first` first and none twice. */
static int axes_of(const char *dims, const char *first) {
    struct text_word word[SERIES_AXES + 1];
    int count = 0;
    for (; count <= SERIES_AXES && text_next_word(&dims, " ", &word[count]); count++)
        for (int k = 0; k < count; k++)
            assert(!text_same(word[k], word[count]));
    assert(count > 0 && count <= SERIES_AXES && text_is(word[0], first));
    return count;
}

int record_init(struct record *record, int runs, int T, struct err *err) {
    assert(runs >= 0 && T > 0);
    *record = (struct record){.named = "basis", .runs = runs, .T = T};
    record->times[TIMES_ALL].axis = "t";
    record->times[TIMES_FIELDS].axis = "at";
    record->times[TIMES_WEIGHTS].axis = "kept";
    TRY(base_alloc(&record->steps, (size_t)runs, sizeof *record->steps, err));
    TRY(base_alloc(&record->cause, (size_t)runs, sizeof *record->cause, err));
    return base_alloc(&record->failed, (size_t)runs, sizeof *record->failed, err);
}

int record_fill_by(struct record *record, record_fill *fill, int item, int slots, struct err *err) {
    int first = record->count;
    struct filler *added;
    TRY(base_grow(&added, &record->filler, &record->fillers, sizeof *added, err));
    *added = (struct filler){.fill = fill, .item = item, .first = first};
    record->slots = slots > record->slots ? slots : record->slots;
    return CODE_OK;
}

void record_ask_by(struct record *record, record_ask *ask, size_t room, bool forward) {
    struct filler *last = &record->filler[record->fillers - 1];
    last->ask = ask;
    last->room = room;
    last->forward = forward;
}

/* Sets size and allocates values, NaN. */
static int make_values(const struct record *record, struct series *series, struct err *err) {
    size_t runs = (size_t)(series->first_run ? record->runs > 0 : record->runs),
           most = SIZE_MAX / sizeof(double) / (runs ? runs : 1);
    series->size = 1;
    for (int k = 0; k < series->axes; k++) {
        assert(series->shape[k] > 0);
        if (series->size > most / series->shape[k])
            return err_set(err, CODE_SYSTEM, "out of memory: the record of %s [%s] is too large",
                           series->name, series->dims);
        series->size *= series->shape[k];
    }
    TRY(base_alloc(&series->values, runs * series->size, sizeof(double), err));
    for (size_t k = 0; k < runs * series->size; k++)
        series->values[k] = NAN;
    return CODE_OK;
}

int record_add(struct record *record, struct series series, struct err *err) {
    const struct record_times *times = &record->times[series.times];
    struct series *added;
    series.values = NULL;
    bool of_inputs = text_lists(series.dims, "mu") || text_lists(series.dims, "nu");
    if (record->no_inputs && !series.inner && of_inputs)
        return CODE_OK;
    assert(series.name[0] && series.dims);
    assert(!record->fillers || series.slot < record->slots);
    series.axes = axes_of(series.dims, times->axis);
    series.shape[0] = (size_t)(series.times ? times->list.count : record->T);
    if (record_find(record, series.name))
        return err_set(err, CODE_INPUT, "two results of this network are called %s", series.name);
    TRY(make_values(record, &series, err));
    int code = base_grow(&added, &record->series, &record->count, sizeof *added, err);
    if (code) {
        free(series.values);
        return code;
    }
    *added = series;
    if (record->fillers)
        record->filler[record->fillers - 1].count++;
    return CODE_OK;
}

int record_set_of_mean(const struct record *record, const char *name, struct of_mean of_mean,
                       struct err *err) {
    struct series *series = record_find(record, name);
    const struct series *of = record_find(record, of_mean.of);
    assert(series->axes == 1 && !series->of_mean && of && !of->of_mean);
    int code = base_alloc(&series->of_mean, 1, sizeof *series->of_mean, err);
    if (code) {
        free(of_mean.context);
        return code;
    }
    *series->of_mean = of_mean;
    TRY(base_alloc(&series->of_mean->sum, of->size / of->shape[0], sizeof(double), err));
    return base_alloc(&series->of_mean->pseudo, (size_t)record->runs * series->size, sizeof(double),
                      err);
}

int record_name_axis(struct record *record, size_t count, struct err *err) {
    TRY(base_alloc(&record->labels, count, sizeof *record->labels + SERIES_NAME, err));
    for (size_t k = 0; k < count; k++)
        record->labels[k] = (char *)(record->labels + count) + k * SERIES_NAME;
    return CODE_OK;
}

static void free_of_mean(struct of_mean *of_mean) {
    if (!of_mean)
        return;
    free(of_mean->context);
    free(of_mean->sum);
    free(of_mean->pseudo);
    free(of_mean);
}

void record_free(struct record *record) {
    for (int k = 0; k < record->count; k++) {
        free(record->series[k].values);
        free_of_mean(record->series[k].of_mean);
    }
    free(record->series);
    free(record->filler);
    free(record->steps);
    free(record->failed);
    free(record->cause);
    free(record->labels);
    free(record->whole);
    *record = (struct record){0};
}

/* Entries with an axis s come with all later s left out. */
static int archive_series(struct record *record, const struct series *series, int run, int steps,
                          struct archive *archive, struct err *err) {
    size_t T = (size_t)record->T, reached = (size_t)steps, size = series->size / T, inner = size;
    int other = axis_of(series->dims, "s");
    for (int axis = 1; axis <= other; axis++)
        inner /= series->shape[axis];
    size_t extent = other > 0 ? T : 1, taken = other > 0 ? reached : 1;
    double *at = series->values + (size_t)run * series->size;
    for (size_t block = 0; block < reached * size / (inner * extent); block++)
        TRY(archive_bytes(archive, at + block * inner * extent, taken * inner * sizeof *at, err));
    return CODE_OK;
}

/* The times reached, each with its number: a longer run may have others. */
static int archive_list_of_times(struct record *record, const struct series *series, int run,
                                 int steps, struct archive *archive, struct err *err) {
    const struct int_list *list = &record->times[series->times].list;
    size_t size = series->size / series->shape[0] * sizeof(double);
    FREED(base_free) double *unused = NULL;
    int count = 0;
    while (count < list->count && list->value[count] < steps)
        count++;
    TRY(archive_bytes(archive, &count, sizeof count, err));
    TRY(base_alloc(&unused, 1, size, err));
    for (int row = 0; row < count; row++) {
        int t = archive_reads(archive) ? 0 : list->value[row];
        TRY(archive_bytes(archive, &t, sizeof t, err));
        if (t < 0 || t >= steps)
            return archive_misfit(archive, "it has a step that it has not reached", err);
        double *place = record_at(record, series, run, t);
        TRY(archive_bytes(archive, place ? place : unused, size, err));
    }
    return CODE_OK;
}

int record_archive(struct record *record, int run, int steps, struct archive *archive,
                   struct err *err) {
    FOR_EACH_OF (const struct series, series, record->series, record->count) {
        if (series->first_run && run)
            continue;
        TRY((series->times ? archive_list_of_times : archive_series)(record, series, run, steps,
                                                                     archive, err));
    }
    return CODE_OK;
}

struct series *record_find(const struct record *record, const char *name) {
    for (int k = 0; k < record->count; k++)
        if (!strcmp(record->series[k].name, name))
            return &record->series[k];
    return NULL;
}

double *record_at(const struct record *record, const struct series *series, int run, int t) {
    assert(run >= 0 && run < record->runs && t >= 0 && t < record->T);
    size_t row = series->size / series->shape[0], place = (size_t)t;
    if (series->times) {
        const struct int_list *list = &record->times[series->times].list;
        for (place = 0; place < series->shape[0] && list->value[place] != t;)
            place++;
        if (place == series->shape[0])
            return NULL;
    }
    if (series->first_run && run)
        return NULL;
    return series->values + (size_t)run * series->size + place * row;
}

int record_time(const struct record *record, const struct series *series, size_t row) {
    return series->times ? record->times[series->times].list.value[row] : (int)row;
}

bool record_averages(const struct series *series) {
    return !series->first_run && !series->runs_alone;
}

/* Mean and standard error of values[0], values[stride], ... of the runs that reached t. */
static void average_runs(const struct record *record, const double *values, size_t stride, int t,
                         double *mean, double *se) {
    int count = 0;
    double sum = 0, squares = 0;
    for (int run = 0; run < record->runs; run++)
        if (record->steps[run] > t) {
            sum += values[(size_t)run * stride];
            count++;
        }
    *mean = count ? sum / count : NAN;
    for (int run = 0; run < record->runs; run++)
        if (record->steps[run] > t) {
            double difference = values[(size_t)run * stride] - *mean;
            squares += difference * difference;
        }
    *se = count > 1 ? sqrt(squares / ((double)count * (count - 1))) : NAN;
}

int record_set_half(struct record *record, const struct record *half, struct err *err) {
    size_t most = 0;
    for (int k = 0; k < record->count; k++)
        if (record_averages(&record->series[k]) && record->series[k].size > most)
            most = record->series[k].size;
    assert(half[0].runs == record->runs && half[1].runs == record->runs);
    TRY(base_alloc(&record->whole, (size_t)record->runs * most, sizeof *record->whole, err));
    record->half = half;
    return CODE_OK;
}

/* x - (mean of halves - x); of what is positive its logarithm is corrected so, which is the same to
 * first order and stays positive where the bias is large. */
static double corrected_value(const struct series *series, double whole, double first,
                              double second) {
    if (series->positive && first > 0 && second > 0)
        return whole * (whole / sqrt(first * second));
    return 2 * whole - (first + second) / 2;
}

/* Values without the bias of order 1/sites, where there are halves and the series has one. */
static const double *unbiased_values(const struct record *record, const struct series *series) {
    if (!record->half || series->no_error_law || series->computation || !record_averages(series))
        return series->values;
    const double *first = record_find(&record->half[0], series->name)->values;
    const double *second = record_find(&record->half[1], series->name)->values;
    for (size_t k = 0; k < (size_t)record->runs * series->size; k++)
        record->whole[k] = corrected_value(series, series->values[k], first[k], second[k]);
    return record->whole;
}

/* The pseudo-values at t of all runs that reached it, two or more; values [runs][T][row] of the
 * series that the function is of. */
static void make_pseudo_values(const struct record *record, const struct of_mean *m,
                               const double *values, size_t row, int t, int n) {
    size_t T = (size_t)record->T;
    const double *at = values + (size_t)t * row; /* of run 0 */
    for (size_t k = 0; k < row; k++) {
        m->sum[k] = 0;
        for (int run = 0; run < record->runs; run++)
            if (record->steps[run] > t)
                m->sum[k] += at[(size_t)run * T * row + k];
    }
    double all = m->value(m->context, t, m->sum, NULL, n);
    for (ptrdiff_t run = 0; run < record->runs; run++)
        if (record->steps[run] > t) {
            double less = m->value(m->context, t, m->sum, at + (size_t)run * T * row, n - 1);
            m->pseudo[run * record->T + t] = all + (n - 1) * (all - less);
        }
}

const double *record_values(const struct record *record, const struct series *series) {
    const struct of_mean *m = series->of_mean;
    if (!m)
        return unbiased_values(record, series);
    const struct series *of = record_find(record, m->of);
    const double *values = unbiased_values(record, of);
    memcpy(m->pseudo, series->values, (size_t)record->runs * series->size * sizeof(double));
    for (int t = 0; t < record->T; t++) {
        int n = record_reached(record, t);
        if (n > 1)
            make_pseudo_values(record, m, values, of->size / of->shape[0], t, n);
    }
    return m->pseudo;
}

/* How entries lie: of one t, of one s; values of s (1: no such axis). */
struct layout {
    size_t row, inner, extent;
};

static struct layout layout_of(const struct series *series) {
    struct layout layout = {series->size / series->shape[0], 1, 1};
    int other = axis_of(series->dims, "s");
    if (other > 0) {
        layout.extent = series->shape[other];
        for (int k = other + 1; k < series->axes; k++)
            layout.inner *= series->shape[k];
    }
    return layout;
}

/* The time at which entry k is known: of two times the later. */
static int time_of(const struct record *record, const struct series *series,
                   const struct layout *layout, size_t k) {
    int t = record_time(record, series, k / layout->row);
    int s = (int)(k / layout->inner % layout->extent);
    return s > t ? s : t;
}

bool record_tolerance(const struct record *record, const struct series *series,
                      double *difference) {
    const struct record *finer = record->finer;
    const struct series *other = finer ? record_find(finer, series->name) : NULL;
    const struct layout layout = layout_of(series);
    if (!other || series->computation || !record_averages(series))
        return false;
    for (size_t k = 0; k < series->size; k++) {
        int t = time_of(record, series, &layout, k);
        bool known = record->steps[0] > t && finer->steps[0] > t;
        difference[k] = known ? series->values[k] - other->values[k] : NAN;
    }
    return true;
}

/* Whether all runs have one value, up to the round-off of sums that count, and a mean without an
 * error may be theirs by chance. */
static bool agree_by_chance(const struct series *series, double mean, double se) {
    return (series->counted && se <= 1e-12 * fabs(mean)) ||
           (series->left_out && mean == 0 && se == 0);
}

void record_statistics(const struct record *record, const struct series *series, double *mean,
                       double *se) {
    const double *values = record_values(record, series);
    const struct layout layout = layout_of(series);
    assert(!series->runs_alone);
    for (size_t k = 0; k < series->size && series->first_run; k++) {
        bool reached = record->runs && record->steps[0] > time_of(record, series, &layout, k);
        mean[k] = reached ? series->values[k] : NAN;
        se[k] = NAN;
    }
    if (series->first_run)
        return;
    bool checked = record_tolerance(record, series, mean);
    for (size_t k = 0; k < series->size; k++) {
        double difference = checked && isfinite(mean[k]) ? mean[k] : 0;
        average_runs(record, values + k, series->size, time_of(record, series, &layout, k),
                     &mean[k], &se[k]);
        se[k] = agree_by_chance(series, mean[k], se[k]) ? NAN : hypot(se[k], difference);
    }
}

int record_average(const struct record *record, const char *name, double **mean, double **se,
                   struct err *err) {
    const struct series *series = record_find(record, name);
    if (!series || series->runs_alone)
        return CODE_OK;
    TRY(base_alloc(mean, 2 * series->size, sizeof **mean, err));
    *se = *mean + series->size;
    record_statistics(record, series, *mean, *se);
    return CODE_OK;
}

int record_reached(const struct record *record, int t) {
    int count = 0;
    for (int run = 0; run < record->runs; run++)
        count += record->steps[run] > t;
    return count;
}

int record_failures(const struct record *record, int *first) {
    int count = 0;
    *first = record->runs;
    for (int run = record->runs - 1; run >= 0; run--)
        if (record->failed[run]) {
            *first = run;
            count++;
        }
    return count;
}

const char *record_overflow(const struct record *record, int run, int t) {
    FOR_EACH_OF (const struct series, series, record->series, record->count) {
        const double *value = record_at(record, series, run, t);
        for (size_t i = 0; value && i < series->size / series->shape[0]; i++)
            if (fabs(value[i]) > RECORD_MOST)
                return series->name;
    }
    return NULL;
}
