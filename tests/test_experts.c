/* What experts do: [output] experts, of every network that has gates, against plain loops over the
 * gates and logits themselves. How experts move is in test_expert_norms, whole runs are in
 * test_experts_runs. */
#include "tests/support/expert_cases.h"
#include "solver/measure/instrument.h"

/* The values at this place of all series of an instrument. */
static void measure(instrument *declare, const struct run *run, const struct net *net,
                    struct record *record) {
    const struct declaring declaring = {record, &run->config, net, run->data.y};
    ASK(record_init(record, 1, 1, err));
    ASK(declare(&declaring, err));
    struct measuring m = {.config = &run->config, .net = net, .y = run->data.y, .record = record};
    for (int f = 0; f < record->fillers; f++) {
        const struct filler *filler = &record->filler[f];
        double *out[32] = {0};
        assert_true(record->slots <= 32);
        for (int s = filler->first; s < filler->first + filler->count; s++)
            out[record->series[s].slot] = record_at(record, &record->series[s], 0, 0);
        m.item = filler->item;
        ASK(filler->fill(&m, out, err));
    }
}

static const double *values(const struct record *record, const char *name, const char *suffix) {
    TEXT(whole, 64, "%s%s", name, suffix);
    const struct series *series = record_find(record, whole);
    return series ? record_at(record, series, 0, 0) : NULL;
}

/* Gates or logits of a router as [rows][M]; how many. */
static double *numbers_of(const struct net *net, const struct net_router *router, int node,
                          int *rows, int *M) {
    const struct node *v = &net->program->node[node];
    double *x;
    *rows = v->count;
    *M = v->on ? (int)v->on->sites : router->M;
    ASK(base_alloc(&x, (size_t)(*rows * *M), sizeof *x, err));
    if (v->on)
        support_copy(x, v->value, 1);
    else
        memcpy(x, v->s, (size_t)(*rows * *M) * sizeof *x);
    return x;
}

/* The information by entropies: H(mean over all) - sum_l w_l H(mean over label l). */
static double entropy(const double *q, int rows, int M, const int *label, int of, double *weight) {
    double h = 0;
    int count = 0, all = 0;
    for (int r = 0; r < rows; r++) {
        all += label[r] >= 0;
        count += label[r] >= 0 && (of < 0 || label[r] == of);
    }
    for (int i = 0; i < M; i++) {
        double mean = 0;
        for (int r = 0; r < rows; r++)
            if (label[r] >= 0 && (of < 0 || label[r] == of))
                mean += q[r * M + i] / count;
        h -= mean > 0 ? mean * log(mean) : 0;
    }
    *weight = (double)count / all;
    return count ? h : 0;
}

static double information(const double *q, int rows, int M, const int *label, int labels) {
    double weight, value = entropy(q, rows, M, label, -1, &weight);
    for (int l = 0; l < labels; l++) {
        double h = entropy(q, rows, M, label, l, &weight);
        value -= weight * h;
    }
    return value;
}

/* Sums of at most 64 numbers of order ln M, whose differences are taken: 1e-12. */
static void judge_information(const struct run *run, const struct net *net,
                              const struct net_router *router, const struct record *record,
                              const double *q, int rows, int M) {
    int label[rows], per = rows / net->setup.data.P;
    const double *class = values(record, "expert_information_class", router->suffix),
                 *token = values(record, "expert_information_token", router->suffix);
    for (int r = 0; r < rows; r++)
        label[r] = r;
    CHECK_ABS(*values(record, "expert_information", router->suffix),
              information(q, rows, M, label, rows), 1e-12, "information of inputs");
    assert_int_equal(class != NULL, net->setup.data.classes);
    for (int r = 0; r < rows && class; r++) {
        bool own = net->setup.data.per_token && per > 1;
        int C = net->setup.data.C, row = own ? r : r / per;
        double y[C];
        data_ask(&run->data, (size_t)row, 1, y);
        label[r] = C == 1 ? y[0] > 0 : -1;
        for (int c = 0; c < C && C > 1; c++)
            label[r] = y[c] == 1 ? c : label[r];
    }
    if (class)
        CHECK_ABS(*class, information(q, rows, M, label, net->setup.data.C + 1), 1e-12,
                  "of classes");
    assert_int_equal(token != NULL, net->batch.token != NULL);
    for (int r = 0; r < rows && token; r++)
        label[r] = net->batch.token[r];
    if (token)
        CHECK_ABS(*token, information(q, rows, M, label, net->setup.data.V), 1e-12, "of tokens");
}

static void judge_pairs(const struct net_router *router, const struct record *record,
                        const double *phi, int rows, int M) {
    const double *overlap = values(record, "expert_overlap", router->suffix),
                 *both = values(record, "expert_coselection", router->suffix);
    assert_int_equal(both != NULL, router->selects);
    for (int a = 0; a < rows; a++)
        for (int b = 0; b < rows; b++) {
            double x = 0, aa = 0, bb = 0, common = 0, of_a = 0, of_b = 0;
            for (int i = 0; i < M; i++) {
                double u = phi[a * M + i], v = phi[b * M + i];
                x += u * v, aa += u * u, bb += v * v;
                common += u != 0 && v != 0, of_a += u != 0, of_b += v != 0;
            }
            CHECK_ABS(overlap[a * rows + b], x / sqrt(aa * bb), 1e-13, "overlap of %d and %d", a,
                      b);
            if (both)
                CHECK_ABS(both[a * rows + b], common / sqrt(of_a * of_b), 1e-14, "of both");
        }
}

static void judge_shares(const struct net_router *router, const struct record *record,
                         const double *q, int rows, int M) {
    double load[M], most = 0;
    int dead = 0, largest = 0;
    for (int i = 0; i < M; i++) {
        load[i] = 0;
        for (int r = 0; r < rows; r++)
            load[i] += q[r * M + i] / rows;
        dead += load[i] < 0.01 / M;
        if (load[i] > most)
            most = load[i], largest = i;
    }
    CHECK_ABS(*values(record, "expert_dead", router->suffix), (double)dead / M, 1e-15, "dead");
    CHECK_ABS(*values(record, "expert_share", router->suffix), most, 1e-14, "largest share");
    int told = (int)*values(record, "expert_largest", router->suffix);
    CHECK_ABS(load[told], load[largest], 1e-14, "expert %d has the largest share", told);
    for (int r = 0; r < rows; r++) {
        int i = (int)values(record, "expert_of_input", router->suffix)[r];
        double share = values(record, "expert_share_of_input", router->suffix)[r];
        CHECK_ABS(q[r * M + i], share, 1e-15, "share of expert %d", i);
        for (int j = 0; j < M; j++)
            assert_true(q[r * M + j] <= share + 1e-15);
    }
}

/* The k-th largest has k - 1 above it. */
static void judge_logits(const struct net *net, const struct net_router *router,
                         const struct record *record) {
    int rows, M;
    FREED(base_free) double *psi = numbers_of(net, router, router->psi, &rows, &M);
    const double *sorted = values(record, "expert_logits", router->suffix);
    int places = router->M ? M : 12;
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < places; k++) {
            int place = router->M ? k + 1 : 1 << k, above = 0, equal = 0;
            for (int i = 0; i < M; i++) {
                above += psi[r * M + i] > sorted[r * places + k];
                equal += psi[r * M + i] == sorted[r * places + k];
            }
            if (place > M)
                assert_true(isnan(sorted[r * places + k]));
            else
                assert_true(equal && above < place && place <= above + equal);
        }
}

static void judge_router(const struct run *run, const struct net *net,
                         const struct net_router *router, const struct record *record) {
    int rows, M;
    FREED(base_free) double *phi = numbers_of(net, router, router->phi, &rows, &M);
    judge_pairs(router, record, phi, rows, M);
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < M; i++)
            sum += phi[r * M + i];
        for (int i = 0; i < M; i++)
            phi[r * M + i] /= sum;
    }
    judge_shares(router, record, phi, rows, M);
    judge_information(run, net, router, record, phi, rows, M);
    judge_logits(net, router, record);
}

TEST(shares_are_those_of_the_gates) {
    for (int c = 0; c < CASES; c++)
        for (int N = 0; N <= 16; N += 16) {
            RUN_AND_NET;
            FREED(record_free) struct record record;
            make(&run, &net, c, N, 3);
            measure(specialisation_declare, &run, &net, &record);
            for (int r = 0; r < net.routers.count; r++)
                judge_router(&run, &net, &net.routers.item[r], &record);
        }
}

/* Outputs of two experts are compared where they are rows of one population. */
TEST(outputs_of_different_populations) {
    for (int same = 0; same < 2; same++) {
        RUN_AND_NET;
        FREED(record_free) struct record record;
        support_run_text(
            &run, NULL,
            "[network]\nmodel = program\nprogram_text = local a, b, c = population('a'), "
            "population('b'), population('c'); local h = sigma(read_in(a, 'W1')); local psi = "
            "bias(look(h, 2, 'Q'), {0.3, 0}, 'bias'); local p = softmax(psi); gates(p, psi); "
            "local x, y = p[1] * map(h, b, 'V1'), p[2] * map(h, %s, 'V2'); "
            "read_out(h * (average(x, x) + average(y, y)), 'w')\n[data]\ninputs = 4\n"
            "dimension = 5\n[training]\nsteps = 2\n[solver]\nreplicates = 0\n[reference]\n"
            "widths = 16\nseeds = 1\n[output]\nexperts = yes\n",
            same ? "b" : "c");
        support_begin(&net, &run, 16, 0);
        measure(specialisation_declare, &run, &net, &record);
        assert_non_null(record_find(&record, "expert_share"));
        assert_int_equal(record_find(&record, "expert_correlation") != NULL, same);
    }
}

/* By hand: four rows of two experts; of no label the third has no part. */
TEST(information_by_hand) {
    static const double q[] = {1, 0, 1, 0, .5, .5, 0, 1};
    static const int same[] = {0, 0, 0, 0}, two[] = {0, 0, -1, 1}, none[] = {-1, -1, -1, -1};
    double scratch[8];
    CHECK_ABS(specialisation_information(q, 4, 2, same, 1, scratch), 0, 1e-15, "one label");
    CHECK_ABS(specialisation_information(q, 4, 2, two, 2, scratch),
              -(2 * log(2. / 3) + log(1. / 3)) / 3, 1e-15, "two labels, two experts");
    CHECK_ABS(specialisation_information(q, 4, 2, none, 2, scratch), 0, 1e-15, "no row is left");
}
