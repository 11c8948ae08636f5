/* Noise of rows and of numbers: standard normals that are the same whenever a step is evaluated,
 * others at every row, site, step and seed, and none for inputs that are only predicted; what
 * learns beside them moves by the derivative of the loss. */
#include "tests/support/support.h"

enum { INPUTS = 4, SITES = 512 };

static double *noise_of(const struct net *net, size_t *count) {
    for (int i = 0; i < net->program->nodes; i++) {
        const struct node *v = &net->program->node[i];
        if (strcmp(v->op->name, "noise") != 0)
            continue;
        *count = (size_t)v->count * (v->on ? v->on->sites : (size_t)v->K);
        return support_get(v->value);
    }
    fail_msg("no noise");
    return NULL;
}

static double correlation(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += a[k] * b[k] / (double)count;
    return sum;
}

TEST(normals) {
    FREED(run_free) struct run run;
    const char *const key[] = {"solver.sites=512", "solver.expert_sites=512", "output.fields=zeta",
                               NULL};
    support_run(&run, "examples/noisy_top.ini", key);
    for (int N = 0; N <= 256; N += 256) {
        FREED(net_free) struct net net, other;
        size_t count;
        support_net(&net, &run, N, 1);
        support_net(&other, &run, N, 2);
        support_evaluate(&net, &run);
        support_evaluate(&other, &run);
        double *first = noise_of(&net, &count), *seed = noise_of(&other, &count);
        double error = 5 / sqrt((double)count);
        assert_int_equal(count, INPUTS * (N ? N / 2 : SITES));
        CHECK_ABS(correlation(first, first, count), 1, sqrt(2) * error, "variance");
        CHECK_ABS(correlation(first, seed, count), 0, error, "seeds");
        size_t row = count / INPUTS;
        CHECK_ABS(correlation(first, first + row, row), 0, 2 * error, "inputs");
        support_evaluate(&net, &run);
        double *again = noise_of(&net, &count);
        assert_memory_equal(first, again, count * sizeof *first);
        support_step(&net, &run);
        double *later = noise_of(&net, &count);
        CHECK_ABS(correlation(first, later, count), 0, error, "steps");
        CHECK_ABS(correlation(later, later, count), 1, sqrt(2) * error, "variance later");
        free(first), free(seed), free(again), free(later);
    }
    support_gradient(&run, 16, 23);
}

/* Numbers average over nothing, so that a limit stands beside networks that have its noise: the
 * same at every width and replicate, another for each token, step and seed. */
TEST(noise_of_numbers_is_shared) {
    FREED(run_free) struct run run, other;
    const char *const key[] = {"program.jitter=0.3", "solver.sites=128", NULL},
                      *const seed[] = {"program.jitter=0.3", "solver.sites=128", "solver.seed=2",
                                       NULL};
    size_t count;
    double *first = NULL;
    FREED(net_free) struct net net;
    support_run(&run, "examples/grouped.ini", key);
    support_run(&other, "examples/grouped.ini", seed);
    for (int k = 0; k < 4; k++) {
        support_begin(&net, &run, k < 2 ? 0 : 32, k % 2 + 1);
        double *here = noise_of(&net, &count);
        size_t token = count / (4 * 4);
        assert_int_equal(count, 4 * 4 * 8);
        if (first)
            assert_memory_equal(first, here, count * sizeof *here);
        assert_true(here[0] != here[1] && here[0] != here[token]);
        support_step(&net, &run);
        FREED(base_free) double *later = noise_of(&net, &count);
        CHECK_ABS(correlation(here, later, count), 0, 5 / sqrt((double)count), "steps");
        CHECK_ABS(correlation(later, later, count), 1, 5 * sqrt(2.0 / (double)count), "variance");
        if (!first)
            first = here;
        else
            free(here);
        net_free(&net);
    }
    support_net(&net, &other, 0, 1);
    support_evaluate(&net, &other);
    double *seeded = noise_of(&net, &count);
    CHECK_ABS(correlation(first, seeded, count), 0, 5 / sqrt((double)count), "seeds");
    free(first), free(seeded);
}

/* Outputs depend on how strong the noise is, predictions do not. */
TEST(predictions) {
    static const char *const noise[] = {"program.noise=1", "program.noise=3"};
    double f[2][2], trained[2];
    for (int k = 0; k < 2; k++) {
        RUN_AND_NET;
        const char *const key[] = {noise[k], "data.test_inputs=2", "reference.centre=no", NULL};
        support_run(&run, "examples/noisy_top.ini", key);
        support_begin(&net, &run, 32, 1);
        trained[k] = net.output.f[0];
        ASK(net_predict(&net, run.data.P, 2, f[k], err));
        assert_true(f[k][0] != 0);
    }
    assert_memory_equal(f[0], f[1], sizeof f[0]);
    assert_true(trained[0] != trained[1]);
}
