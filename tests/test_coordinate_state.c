/* What a state keeps of the coordinate check is read back, and refused where an array that the
 * check counts on has another number of rows, or numbers are missing, although the sum of the file
 * is right. Its terms of matrices that start at zero, and its parts where nothing of single inputs
 * is written. */
#include "kernels/archive.h"
#include "solver/measure/observe.h"
#include "tests/support/support.h"

/* A network that has been measured at t = 0. */
struct measured {
    struct run run;
    struct net net;
    struct record record;
    struct observer observer;
};

static void open(struct measured *m, const char *ini) {
    support_run(&m->run, ini,
                ARGS("reference.coordinate_check=alignment", "reference.widths=16", "data.inputs=3",
                     "data.test_inputs=0", "training.steps=2"));
    support_net(&m->net, &m->run, 16, 0);
    ASK(record_init(&m->record, 1, 2, err));
    ASK(observe_declare(&m->record, &m->run.config, &m->net.setup, NULL, err));
    ASK(observer_init(&m->observer, &m->run.config, m->run.data.y, &m->record, 0, &m->net, err));
    support_evaluate(&m->net, &m->run);
    ASK(observer_measure(&m->observer, &m->net, 0, err));
}

static void measured_close(struct measured *m) {
    observer_free(&m->observer);
    record_free(&m->record);
    net_free(&m->net);
    run_free(&m->run);
}

static const char name[] = "build/test_coordinate_state.state";

static void put(struct measured *m) {
    struct archive archive;
    ASK(archive_create(&archive, name, false, err));
    int code =
        coordinate_archive(&m->observer.coordinate, &m->net, true, &archive, &(struct err){0});
    ASK(archive_close(&archive, code, err));
}

/* The caller frees *check. */
static int get(const struct measured *m, struct coordinate *check, struct err *told) {
    struct archive archive;
    *check = (struct coordinate){.backend = m->observer.coordinate.backend};
    ASK(archive_open(&archive, name, false, err));
    int code = coordinate_archive(check, &m->net, true, &archive, told);
    return archive_close(&archive, code, told);
}

/* The rows of one array that was written and read; returns whether it has any. */
static bool same_bits(const struct array *was, const struct array *is) {
    assert_int_equal(was->memory != NULL, is->memory != NULL);
    if (!was->memory)
        return false;
    assert_int_equal(was->rows, is->rows);
    FREED(base_free)
    double *before = support_get(array_all(was)), *now = support_get(array_all(is));
    assert_memory_equal(before, now, (size_t)was->rows * was->sites * sizeof *now);
    return was->rows > 0;
}

/* What is kept of matrices, and of the experts: `count` numbers each of x1 and of I6. */
static void same(const struct coordinate *was, const struct coordinate *is, size_t count) {
    const struct aggregation_check *before = &was->aggregation, *now = &is->aggregation;
    assert_int_equal(was->nodes, is->nodes);
    for (int i = 0; i < was->nodes; i++) {
        same_bits(&was->matrix[i].out, &is->matrix[i].out);
        same_bits(&was->matrix[i].back, &is->matrix[i].back);
        same_bits(&was->matrix[i].W, &is->matrix[i].W);
    }
    assert_true(same_bits(&before->h3, &now->h3));
    assert_memory_equal(before->x1, now->x1, count * sizeof *now->x1);
    assert_memory_equal(before->back, now->back, count * sizeof *now->back);
}

/* Without the numbers of the experts nothing is read. */
static void check_numbers(struct measured *m) {
    double **const numbers[] = {&m->observer.coordinate.aggregation.x1,
                                &m->observer.coordinate.aggregation.back};
    for (int k = 0; k < 2; k++) {
        FREED(coordinate_free) struct coordinate read;
        struct err told = {0};
        double *kept = *numbers[k];
        *numbers[k] = NULL;
        put(m);
        *numbers[k] = kept;
        assert_int_equal(get(m, &read, &told), CODE_INPUT);
    }
}

/* As it is; and with one row less in each array that is kept, one array at a time. */
static void check(const char *ini, int *thin, int *all) {
    FREED(measured_close) struct measured m;
    struct err told = {0};
    open(&m, ini);
    struct coordinate read;
    put(&m);
    support_learn(&m.net, &m.run); /* what is kept is of the start, not of the net as it is */
    support_evaluate(&m.net, &m.run);
    assert_int_equal(get(&m, &read, &told), CODE_OK);
    same(&m.observer.coordinate, &read, (size_t)m.net.batch.rows * (size_t)m.net.setup.N);
    coordinate_free(&read);
    check_numbers(&m);
    for (int i = 0; i < m.observer.coordinate.nodes; i++) {
        struct coordinate_matrix *kept = &m.observer.coordinate.matrix[i];
        struct array *const arrays[] = {&kept->out, &kept->back, &kept->W};
        for (int k = 0; k < 3; k++) {
            if (!arrays[k]->memory || !arrays[k]->rows)
                continue;
            arrays[k]->rows--;
            put(&m);
            arrays[k]->rows++;
            int code = get(&m, &read, &told);
            coordinate_free(&read);
            FAIL_IF(code != CODE_INPUT, "%s: array %d of node %d (%s) with a row less was read",
                    ini, k, i, m.net.program->node[i].op->name);
            *thin += k == 2;
            ++*all;
        }
    }
    remove(name);
}

TEST(what_is_kept_is_read_back) {
    int thin = 0, all = 0;
    check("data/regime1.ini", &thin, &all); /* a router over few experts: a thin matrix */
    check("data/regime2.ini", &thin, &all);
    print_message("%d arrays, %d of them columns of thin matrices\n", all, thin);
    assert_true(thin >= 5 && all > 2 * thin);
}

/* With several outputs a matrix adds to a cotangent by itself, and W(0) = 0 does not. Before
 * training all optimizers have the same terms. */
TEST(of_matrices_that_start_at_zero) {
    static const char *const optimizer[] = {"training.optimizer=gd", "training.optimizer=muon"};
    FREED(two_records_free) struct record record[2];
    for (int k = 0; k < 2; k++) {
        const char *const set[] = LIST("network.kappa=0.5", "network.iota=0.5", "network.outputs=3",
                                       "training.loss=cross_entropy", "training.steps=2",
                                       "reference.coordinate_check=yes", optimizer[k],
                                       k ? "training.rest_optimizer=gd" : NULL, NULL);
        support_one("data/regime3.ini", set, 8, &record[k]);
    }
    int found = 0;
    for (int i = 0; i < record[0].count; i++) {
        const char *series = record[0].series[i].name;
        double want = support_value(&record[0], series, 0, 0, 0);
        if (strncmp(series, "rms_", 4) != 0)
            continue;
        CHECK_ABS(support_value(&record[1], series, 0, 0, 0), want, 1e-13 * (1 + want), "%s",
                  series);
        found += want > 0;
    }
    assert_in_range(found, 20, 100);
}

/* A file without anything of single inputs has the same parts at all times, bit for bit: what they
 * need of t = 0 is kept there, too. */
TEST(without_inputs) {
    static const char *const inputs[] = {"output.inputs=all", "output.inputs=none"};
    FREED(two_records_free) struct record record[2];
    for (int k = 0; k < 2; k++)
        support_one("data/regime2.ini",
                    ARGS("reference.coordinate_check=yes", "output.kernels=none",
                         "training.steps=3", inputs[k]),
                    8, &record[k]);
    support_same(&record[1], &record[0]);
    int found = 0;
    for (int i = 0; i < record[0].count; i++)
        if (!strncmp(record[0].series[i].name, "rms_", 4)) {
            assert_non_null(record_find(&record[1], record[0].series[i].name));
            found++;
        }
    assert_in_range(found, 20, 100);
}
