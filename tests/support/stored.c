/* Limits beside those that other programs computed. */
#include "tests/support/stored.h"

void course_free(struct course *c) {
    free(c->mean);
    free(c->se);
    *c = (struct course){0};
}

hid_t stored_open(const char *name) {
    TEXT(path, 96, "data/ref/%s.h5", name);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static double *read_values(hid_t file, const char *name, const char *suffix, int *T, int *columns) {
    char path[96];
    hsize_t shape[4];
    double *values;
    snprintf(path, sizeof path, "/limit/%s%s", name, suffix);
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT), space = H5Dget_space(set);
    size_t size = (size_t)H5Sget_simple_extent_npoints(space);
    assert_true(H5Sget_simple_extent_dims(space, shape, NULL) > 0);
    ASK(base_alloc(&values, size, sizeof *values, err));
    assert_true(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    *T = (int)shape[0];
    *columns = (int)(size / shape[0]);
    return values;
}

void stored_course(struct course *c, hid_t file, const char *name) {
    c->mean = read_values(file, name, "", &c->T, &c->columns);
    c->se = read_values(file, name, "_se", &c->T, &c->columns);
    hid_t runs = H5Aopen_by_name(file, "/limit", "n", H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Aread(runs, H5T_NATIVE_INT, &c->runs) >= 0);
    H5Aclose(runs);
}

void own_course(struct course *c, const struct record *record, const char *name) {
    static const char *const ends[] = {"", "_equal", "_diag"};
    const struct series *series = NULL;
    for (size_t k = 0; k < COUNT(ends) && !series; k++) {
        TEXT(kernel, SERIES_NAME, "%s%s", name, ends[k]);
        series = record_find(record, kernel);
    }
    FAIL_IF(!series, "there is no %s", name);
    *c = (struct course){
        .T = record->T, .columns = (int)series->size / record->T, .runs = record->runs};
    ASK(base_alloc(&c->mean, series->size, sizeof *c->mean, err));
    ASK(base_alloc(&c->se, series->size, sizeof *c->se, err));
    record_statistics(record, series, c->mean, c->se);
    for (size_t i = 0; i < series->size; i++) /* runs that agree by chance tell no error; that of */
        c->se[i] = isnan(c->se[i]) ? 0 : c->se[i]; /* the stored value judges alone */
}

void course_pick(struct course *c, int first, int count, int step) {
    for (int t = 0; t < c->T; t++)
        for (int k = 0; k < count; k++) {
            c->mean[t * count + k] = c->mean[t * c->columns + first + k * step];
            c->se[t * count + k] = c->se[t * c->columns + first + k * step];
        }
    c->columns = count;
}

void course_subtract_variance(struct course *loss, const struct course *f, int P) {
    for (int i = 0; i < f->T * f->columns; i++)
        loss->mean[i / f->columns] -= 0.5 / P * f->runs * f->se[i] * f->se[i];
}

double course_error(const struct course *c, const struct course_rule *rule, int t, int k) {
    double sum = 0;
    int n = 0;
    for (int s = t > 0 ? t - 1 : 0; s <= t + 1 && s < c->T; s++)
        for (int l = rule->each ? k : 0; l < (rule->each ? k + 1 : c->columns); l++) {
            double se = c->se[s * c->columns + l], mean = c->mean[s * c->columns + l];
            if (se < rule->exact || (rule->relative && mean == 0))
                continue;
            sum += pow(se / (rule->relative ? mean : 1), 2);
            n++;
        }
    return n ? (rule->relative ? fabs(c->mean[t * c->columns + k]) : 1) * sqrt(sum / n) : 0;
}

void score_add(struct score *score, const char *what, int k, int t, double got, double want,
               double z) {
    score->largest = isnan(z) ? INFINITY : fmax(score->largest, fabs(z));
    score->squares += z * z;
    score->count++;
    if (!(fabs(z) <= 4))
        print_error("%s[%d] at %d: %.8g, stored %.8g, z = %.2f\n", what, k, t, got, want, z);
}

void course_judge(struct score *score, const char *what, const struct course *ours,
                  const struct course *stored, const struct course_rule *rule, int last) {
    assert_int_equal(ours->columns, stored->columns);
    assert_true(last < ours->T && last < stored->T);
    for (int t = 1; t <= last; t++)
        for (int k = 0; k < ours->columns; k++) {
            int i = t * ours->columns + k;
            bool exact = ours->se[i] < rule->exact && stored->se[i] < rule->exact;
            double error = hypot(course_error(ours, rule, t, k), course_error(stored, rule, t, k));
            double se = exact ? rule->rounding : error;
            double difference = ours->mean[i] - stored->mean[i];
            double left = fabs(difference) - (exact ? 0 : rule->rounding) -
                          rule->share * fabs(stored->mean[i]);
            score_add(score, what, k, t, ours->mean[i], stored->mean[i],
                      left <= 0 ? 0 : copysign(left / se, difference));
        }
}

void course_judge_loss(struct score *score, hid_t file, const struct record *record,
                       const struct course_rule *rule, int P, struct course *f,
                       struct course *stored_f) {
    FREED(course_free) struct course loss, stored_loss;
    own_course(f, record, "f");
    own_course(&loss, record, "loss");
    stored_course(stored_f, file, "f");
    stored_course(&stored_loss, file, "loss");
    course_subtract_variance(&stored_loss, stored_f, P);
    course_judge(score, "loss", &loss, &stored_loss, rule, loss.T - 1);
}

void score_end(const struct score *score, const char *name, double most) {
    double rms = sqrt(score->squares / score->count);
    print_message("%s: largest |z| %.2f, rms %.2f of %d\n", name, score->largest, rms,
                  score->count);
    assert_true(score->count > 0 && score->largest <= 4 && rms <= most);
}

static double tanh_squared(double h) {
    return tanh(h) * tanh(h);
}

double stored_start(const struct data *data, int mu) {
    double variance = 0;
    for (int i = 0; i < data->D; i++)
        variance += pow(data->X[mu * data->D + i], 2) / data->D;
    return support_normal_mean(variance, tanh_squared);
}
