/* What [output] measures between experts, and of the gates that route to them. */
#include "tests/support/support.h"
#include "solver/measure/fields.h"

/* Pairs of experts one by one. */
TEST(experts_are_compared) {
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_RECORD;
        FREED(net_free) struct net net;
        assert_true(support_small(&run, support_model("regime2"),
                                  ARGS("output.cross=h_in g_h_in", "network.expert_width=3")));
        support_ensemble(&run, N, &record);
        support_begin(&net, &run, N, 0);
        assert_int_equal(net.cross_rows.count, 2);
        for (int i = 0; i < 2; i++) {
            const struct named_rows *named = &net.cross_rows.item[i];
            size_t sites = named->on->sites, M = sites / 3, row = 2;
            double *x = support_get(named->rows), sum = 0, pairs = (double)(M * (M - 1) * 3);
            TEXT(cross, 32, "cross_%s", named->name);
            for (size_t a = 0; a < M; a++)
                for (size_t b = 0; b < M; b++)
                    for (size_t j = 0; j < 3 && a != b; j++)
                        sum += x[row * sites + a * 3 + j] * x[row * sites + b * 3 + j];
            CHECK_ABS(support_value(&record, cross, 0, 0, row),
                      named->scale * named->scale * sum / pairs, 1e-13, "N = %d: %s", N, cross);
            free(x);
        }
        record_free(&record);
        run_free(&run);
        assert_true(support_small(&run, support_model("regime1"), ARGS("output.cross=h3")));
        support_ensemble(&run, N, &record);
        size_t M = (size_t)run.config.network.experts.count;
        for (size_t i = 0; i < M; i++) {
            CHECK_ABS(support_value(&record, "cross_h3", 1, 5, (2 * M + i) * M + (M - 1 - i)),
                      support_value(&record, "cross_h3", 1, 5, (2 * M + M - 1 - i) * M + i), 1e-13,
                      "symmetric");
            assert_true(support_value(&record, "cross_h3", 1, 5, (2 * M + i) * M + i) >= 0);
        }
    }
}

/* Experts of MSSP are one and the same at the start; those of muP are independent: of M pairs of
 * sums over units the mean product is zero, to five standard errors of the networks. */
TEST(experts_differ) {
    static const char *const mssp[] = {"output.cross=h_in", NULL};
    static const char *const mup[] = {"output.cross=h_in", "network.parameterization=mup",
                                      "reference.seeds=32", NULL};
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_RECORD;
        assert_true(support_small(&run, support_model("regime3"), mssp));
        support_ensemble(&run, N, &record);
        double own = support_value(&record, "own_h_in", 0, 0, 1);
        assert_true(own > 0.01);
        CHECK_ABS(support_value(&record, "cross_h_in", 0, 0, 1), own, 1e-12 * own, "N = %d: mssp",
                  N);
        assert_true(support_value(&record, "cross_h_in", 0, 5, 1) <
                    support_value(&record, "own_h_in", 0, 5, 1));
        record_free(&record);
        run_free(&run);
        assert_true(support_small(&run, support_model("regime3"), mup));
        support_ensemble(&run, N, &record);
        if (N) {
            double mean, se, alone, alone_se;
            support_entry(&record, "cross_h_in", 1, &mean, &se);
            support_entry(&record, "own_h_in", 1, &alone, &alone_se);
            CHECK_ABS(mean, 0, 5 * se, "mup");
            assert_true(5 * se < 0.5 * alone); /* so that it would show if they were one */
        } else
            assert_null(record_find(&record, "cross_h_in")); /* sites share their normals */
    }
}

/* phi = m exp(beta psi)/S: where phi is not zero, psi is at least tau and ln S = beta psi - ln phi,
 * to the round-off of sums over sites; there are rho M of these, and loads count them. */
TEST(routing) {
    for (int N = 0; N <= 16; N += 16) {
        RUN_AND_NET;
        FREED(record_free) struct record record;
        assert_true(support_small(&run, support_model("regime3"),
                                  ARGS("output.router=yes", "network.gate=softmax",
                                       "network.rho=0.25", "network.beta=2")));
        support_ensemble(&run, N, &record);
        support_begin(&net, &run, N, 0);
        size_t M = net.gates.rows.array->sites, taken = 0;
        FREED(base_free)
        double *psi = support_get(net.gates.logits), *phi = support_get(net.gates.rows);
        for (int mu = 0; mu < net.gates.rows.count; mu++)
            for (size_t i = 0; i < M; i++) {
                double x = psi[(size_t)mu * M + i], y = phi[(size_t)mu * M + i];
                double tau = support_value(&record, "gate_threshold", 0, 0, (size_t)mu);
                assert_int_equal(y > 0, x >= tau);
                taken += y > 0;
                if (y > 0)
                    CHECK_ABS(support_value(&record, "gate_log_sum", 0, 0, (size_t)mu),
                              2 * x - log(y), 1e-13, "N = %d: ln S", N);
            }
        assert_int_equal(taken, (size_t)net.gates.rows.count * M / 4);
        double *load, want[FIELDS_PROBABILITIES];
        ASK(base_alloc(&load, M, sizeof *load, err));
        for (size_t k = 0; k < (size_t)net.gates.rows.count * M; k++)
            load[k % M] += (phi[k] > 0) / (0.25 * net.gates.rows.count);
        fields_quantiles(load, M, want);
        for (size_t k = 0; k < FIELDS_PROBABILITIES; k++)
            CHECK_ABS(support_value(&record, "gate_load", 0, 0, k), want[k], 1e-15, "N = %d: load",
                      N);
        free(load);
    }
}

/* One expert that stands for all of a limit has a kernel, but no pairs; in networks the mean over
 * pairs is there, and a network of one expert is refused. */
TEST(one_expert_has_no_pairs) {
    FREED(run_free) struct run run;
    FREED(record_free) struct record none = {0};
    assert_true(support_small(&run, support_model("residual"),
                              ARGS("output.cross=psi_1", "network.rho=1",
                                   "network.bias_draws=normal", "network.bias_std=0")));
    for (int N = 0; N <= 16; N += 16) {
        FREED(record_free) struct record record;
        support_ensemble(&run, N, &record);
        assert_true(support_value(&record, "own_psi_1", 0, 0, 0) > 0.01);
        assert_int_equal(record_find(&record, "cross_psi_1") != NULL, N > 0);
    }
    run_free(&run);
    assert_true(support_small(&run, support_model("regime2"),
                              ARGS("output.cross=h_in", "network.kappa=0.0625")));
    assert_int_equal(run_ensemble(&run, 16, 1, &none, &failure), CODE_INPUT);
    assert_non_null(strstr(failure.text, "h_in of width N = 16 are those of one expert"));
}

/* A network has no more experts than are written one by one. Then their mean is the kernel, the
 * mean of their squares is the square, and at t = 0 they are made of the sites that `fields` has.
 */
TEST(single_experts_make_up_the_kernel) {
    static const char *const cases[][2] = {
        {"data/regime2.ini", "network.expert_width=3"},
        {"data/regime3.ini", "network.rho=0.5"},
    };
    for (size_t c = 0; c < 2; c++) {
        const char *overrides[16] =
            LIST("output.kernels_of=psi phi h_in g_h_in", "output.kernels=full", "training.steps=3",
                 "output.fields=h_in", "output.fields_at=2", "output.field_sites=64",
                 "reference.seeds=1", "solver.replicates=0");
        int N = 32, M = 16;
        FREED(record_free) struct record record = {0};
        overrides[8] = cases[c][1];
        support_one(cases[c][0], overrides, N, &record);
        const struct series *K = record_find(&record, "K_h_in"),
                            *square = record_find(&record, "K_h_in_square"),
                            *single = record_find(&record, "K_h_in_expert"),
                            *site = record_find(&record, "h_in_site");
        assert_true(K && square && single && site);
        double largest = 0, apart = 0;
        for (size_t k = 0; k < K->size; k++) {
            double mean = 0, squares = 0;
            for (int e = 0; e < M; e++) {
                double one = single->values[k * 64 + (size_t)e];
                mean += one / M;
                squares += one * one / M;
            }
            largest = fmax(largest, squares);
            apart = fmax(apart, squares - mean * mean);
            CHECK_ABS(mean, K->values[k], 1e-13, "%s, K entry %zu", cases[c][0], k);
            CHECK_ABS(squares, square->values[k], 1e-13, "%s, square entry %zu", cases[c][0], k);
        }
        assert_true(apart > 0.01 * largest); /* experts differ */
        size_t P = K->shape[1], units = c ? 8 : 3, T = 3;
        for (size_t mu = 0; mu < P; mu++)
            for (size_t nu = 0; nu < P; nu++)
                for (size_t e = 0; e < 64 / units && e < (size_t)M; e++) {
                    double sum = 0;
                    for (size_t j = e * units; j < (e + 1) * units; j++)
                        sum +=
                            site->values[mu * 64 + j] * site->values[nu * 64 + j] / (double)units;
                    CHECK_ABS(single->values[(((2 * P + mu) * T + 2) * P + nu) * 64 + e], sum,
                              1e-13, "%s, expert %zu", cases[c][0], e);
                }
    }
}
