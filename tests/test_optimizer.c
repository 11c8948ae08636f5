/* Optimizers of finite networks: against plain-loop networks with plain-loop optimizers
 * (oracle_optimizer.h), and against stored trajectories of tiny networks (data/ref/
 * parameterizations), in all three regimes; with schedules and clipping. The weights are the
 * oracle's, put into the net. */
#include "models/residual.h"
#include "tests/support/oracles.h"

#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct couple {
    struct run run;
    struct net net;
    int model; /* 0: dense; 1, 2, 3 the regimes; 4: residual; 5: resnet */
    struct oracle_dense *dense;
    struct oracle1 *one;
    struct oracle *two;
    struct oracle3 *three;
    struct oracle_residual *residual;
    struct oracle_resnet *resnet;
    struct oracle_optimizer *optimizer;
};

/* entries = factor w; of a map, its matrix [n][m] */
static void put(const struct array *array, const double *w, double factor) {
    size_t count = (size_t)array->rows * array->sites;
    double *values;
    ASK(base_alloc(&values, count, sizeof *values, err));
    for (size_t k = 0; k < count; k++)
        values[k] = factor * w[k];
    array->backend->put(array_all(array), values);
    free(values);
}

static struct map *find_map(const struct net *net, const char *name) {
    for (int i = 0; i < net->maps; i++)
        if (!strcmp(net->map[i]->declared.name, name))
            return net->map[i];
    return NULL;
}

/* W1 [N][D] over the coordinates of the inputs: h1 = sum_k A_k (sum_d B_kd W1_d). */
static void put_read_in(const struct couple *p, const double *W1) {
    const struct data *data = &p->run.data;
    int N = p->net.setup.N, D = data->D, K = p->net.setup.K, rank;
    bool adam = optimizer_by_entry(p->run.config.training.optimizer);
    double *A, *B, *columns;
    ASK(thin_coordinates(data->X, data->P, D, &A, &B, &rank, err));
    ASK(base_alloc(&columns, (size_t)(K * N), sizeof *columns, err));
    for (int k = 0; k < K; k++)
        for (int n = 0; n < N; n++)
            for (int d = 0; d < D; d++)
                columns[k * N + n] += (adam ? k == d : B[k * D + d]) * W1[n * D + d];
    put(&p->net.thin[0]->W, columns, 1);
    free(A);
    free(B);
    free(columns);
}

/* Wout [i][n][j] of one expert or all to [n][i j]. */
static void put_out(const struct map *map, const double *Wout, int M, int N, int Ne,
                    double factor) {
    double *W;
    ASK(base_alloc(&W, (size_t)(M * N * Ne), sizeof *W, err));
    for (int i = 0; i < M; i++)
        for (int n = 0; n < N; n++)
            for (int j = 0; j < Ne; j++)
                W[(n * M + i) * Ne + j] = Wout[(i * N + n) * Ne + j];
    put(support_entries(map), W, factor / map->declared.s_f);
    free(W);
}

static void put_3(const struct couple *p) {
    const struct oracle3 *o = p->three;
    const struct map *A_in = find_map(&p->net, "A_in"), *A_out = find_map(&p->net, "A_out");
    double root = sqrt(o->N);
    if (find_map(&p->net, "Q"))
        put(support_entries(find_map(&p->net, "Q")), o->block[ORACLE3_Q], 1 / root);
    if (A_in) { /* all experts start with the weights of the first */
        put(support_entries(A_in), o->block[ORACLE3_WIN], 1 / root);
        put_out(A_out, o->block[ORACLE3_WOUT], 1, o->N, o->Ne, 1 / root);
        return;
    }
    put(support_entries(find_map(&p->net, "W_in")), o->block[ORACLE3_WIN], 1 / root);
    put_out(find_map(&p->net, "W_out"), o->block[ORACLE3_WOUT], o->M, o->N, o->Ne, 1 / root / o->M);
}

/* The routers start at zero. */
static void put_residual(const struct couple *p) {
    struct oracle_residual *o = p->residual;
    int N = o->N, units = o->E * o->Ne;
    for (int l = 0; l < o->L; l++) {
        put(support_entries(support_map(&p->net, "W1_%d", l)), o->W1 + l * units * N, 1 / sqrt(N));
        put(support_entries(support_map(&p->net, "W2_%d", l)), o->W2 + l * units * N,
            1 / sqrt(units));
    }
    memset(o->r, 0, (size_t)(o->L * o->E * N) * sizeof *o->r);
}

/* The oracle's weights into the net. */
static void put_weights(struct couple *p) {
    struct net *net = &p->net;
    double root = sqrt(net->setup.N);
    put_read_in(p, p->optimizer->block[0].w);
    put(&support_thin(net, "w")->W, p->optimizer->block[1].w, 1);
    for (int i = 0; i < net->maps && p->model == 0; i++)
        put(support_entries(support_map(net, "W%d", i + 2)),
            p->dense->W + i * net->setup.N * net->setup.N, 1 / root);
    for (int i = 0; i < net->maps && p->model == 5; i++)
        put(support_entries(support_map(net, "W_%d", i)),
            p->resnet->W + i * net->setup.N * net->setup.N, 1 / root);
    if (p->model == 1) {
        for (int i = 0; i < net->maps; i++)
            put(support_entries(support_map(net, "W%d_%d", i / p->one->M + 2, i % p->one->M)),
                oracle1_W(p->one, i / p->one->M, i % p->one->M), 1 / root);
        put(&support_thin(net, "Q")->W, p->one->Q, 1);
    }
    if (p->model == 2) {
        put(support_entries(find_map(net, "Q")), p->two->Q, 1 / root);
        put(support_entries(find_map(net, "W_in")), p->two->W2in, 1 / root);
        put(support_entries(find_map(net, "W_out")), p->two->W2out,
            1 / sqrt(p->two->M * p->two->Ne));
    }
    if (p->model == 3)
        put_3(p);
    if (p->model == 4)
        put_residual(p);
}

#define HALF_ROOT 0.70710678118654752
/* By hand: the factors of five steps of a run of six measured times. */
static const struct schedule_case {
    const char *keys;
    double factor[5];
} schedules[] = {
    {"schedule = linear\nwarmup = 2\nschedule_end = 0.1", {0, 0.5, 1, 0.7, 0.4}},
    {"schedule = cosine\nschedule_steps = 4\nschedule_end = 0.2",
     {1, 0.6 + 0.4 * HALF_ROOT, 0.6, 0.6 - 0.4 * HALF_ROOT, 0.2}},
    {"schedule = power\nwarmup = 2\nschedule_t0 = 2", {0, 0.5, 1, 0.81649658092772603, HALF_ROOT}},
    {"warmup = 3", {0, 1 / 3., 2 / 3., 1, 1}},
};

/* Oracle and optimizer with the settings of the run; all weights zero. */
static void make_oracle(struct couple *p, int N) {
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    const struct training *training = &c->training;
    int P = p->run.data.P, D = p->run.data.D, M = (int)lround(network->kappa * N);
    double *X, *y;
    if (p->model == 0) {
        struct oracle_dense *o = p->dense = oracle_dense_new(P, D, N, network->depth);
        o->gamma0 = training->gamma0;
        X = o->X, y = o->y;
        p->optimizer = oracle_optimizer_dense(o);
    } else if (p->model == 1) {
        struct oracle1 *o = p->one = oracle1_new(P, D, N, network->experts, network->expert_layers);
        o->gate = network->gate == GATE_SOFTMAX ? ORACLE1_SOFTMAX : ORACLE1_SIGMOID;
        o->gamma0 = training->gamma0;
        o->kappa_b = network->bias == BIAS_TRAINED;
        X = o->X, y = o->y;
        p->optimizer = oracle_optimizer_1(o);
        if (network->parameterization == PARAMETERIZATION_SP)
            oracle_optimizer_sp(p->optimizer, o);
    } else if (p->model == 2) {
        struct oracle *o = p->two = oracle_new(P, D, N, M, network->expert_width);
        o->gate = network->gate == GATE_SOFTMAX ? ORACLE_SOFTMAX : ORACLE_SIGMOID_M;
        o->gamma0 = training->gamma0;
        o->lambda_in = network->lambda_in == LAMBDA_IN_KAPPA ? network->kappa : 1;
        X = o->X, y = o->y;
        p->optimizer = oracle_optimizer_2(o);
    } else if (p->model == 4) {
        double E, N_e;
        residual_shape(network, N, &E, &N_e);
        struct oracle_residual *o = p->residual =
            oracle_residual_new(P, D, N, (int)lround(E), (int)lround(N_e), network->depth);
        o->gamma0 = training->gamma0;
        X = o->X, y = o->y;
        p->optimizer = oracle_optimizer_residual(o);
    } else if (p->model == 5) {
        struct oracle_resnet *o = p->resnet = oracle_resnet_new(P, D, N, network->depth);
        o->gamma0 = training->gamma0;
        o->branch = network->branch;
        X = o->X, y = o->y;
        p->optimizer = oracle_optimizer_resnet(o);
    } else {
        struct oracle3 *o = p->three = oracle3_new(P, D, N, M, (int)lround(network->iota * N));
        o->gate = network->gate == GATE_SOFTMAX ? ORACLE_SOFTMAX : ORACLE_SIGMOID_M;
        o->gamma0 = training->gamma0;
        X = o->X, y = o->y;
        p->optimizer = oracle_optimizer_3(o);
    }
    memcpy(X, p->run.data.X, (size_t)(P * D) * sizeof *X);
    memcpy(y, p->run.data.y, (size_t)P * sizeof *y);
    oracles_set_optimizer(p->optimizer, training);
}

static void open_couple(struct couple *p, const char *ini, const char *const *overrides, int N) {
    static const char *const names[] = {"dense",   "regime1",  "regime2",
                                        "regime3", "residual", "resnet"};
    *p = (struct couple){0};
    support_run(&p->run, ini, overrides);
    support_net(&p->net, &p->run, N, 0);
    while (strcmp(p->net.model->name, names[p->model]))
        p->model++;
    make_oracle(p, N);
}

static void close_couple(struct couple *p) {
    oracle_optimizer_free(p->optimizer);
    if (p->dense)
        oracle_dense_free(p->dense);
    if (p->one)
        oracle1_free(p->one);
    if (p->two)
        oracle_free(p->two);
    if (p->three)
        oracle3_free(p->three);
    if (p->residual)
        oracle_residual_free(p->residual);
    oracle_resnet_free(p->resnet);
    net_free(&p->net);
    run_free(&p->run);
}

static void advance(struct couple *p) {
    const struct training *training = &p->run.config.training;
    ASK(integrator_of(training)->advance(&p->net, training, p->run.data.y, err));
}

/* One step of the oracle and one of the net, the former a step behind. */
static void compare(struct couple *p, int t, double tolerance, const char *what) {
    double loss = oracle_optimizer_step(p->optimizer);
    CHECK_ABS(p->net.loss, loss, tolerance, "%s: loss at %d", what, t);
    for (int mu = 0; mu < p->run.data.P; mu++)
        CHECK_ABS(p->net.f[mu], p->optimizer->f[mu], tolerance * fmax(1, fabs(p->optimizer->f[mu])),
                  "%s: f[%d] at %d", what, mu, t);
    advance(p);
}

/* w_k = sqrt 2 cos(1 + 2.3 k + 0.7 j) */
static double tiny_weight(int k, int j) {
    return sqrt(2) * cos(1 + 2.3 * k + 0.7 * j);
}

static void tiny_fill(double *w, int count, int j, double factor) {
    for (int k = 0; k < count; k++)
        w[k] = factor * tiny_weight(k, j);
}

/* W3 of each expert is numbered as its transpose, [unit][n]. */
static void tiny_weights(const struct couple *p, bool mup) {
    enum { N = 6, M = 3, D = 3 };
    if (p->model == 1) {
        tiny_fill(p->one->W1, N * D, 0, 1);
        tiny_fill(p->one->Q, M * N, 1, mup);
        tiny_fill(p->one->w, N, 4, 1);
        for (int i = 0; i < M; i++)
            for (int n = 0; n < N; n++)
                for (int k = 0; k < N; k++) {
                    oracle1_W(p->one, 0, i)[n * N + k] = tiny_weight((i * N + n) * N + k, 2);
                    oracle1_W(p->one, 1, i)[n * N + k] = tiny_weight((i * N + k) * N + n, 3);
                }
    } else if (p->model == 2) {
        int units = M * p->two->Ne;
        tiny_fill(p->two->W1, N * D, 0, 1);
        tiny_fill(p->two->Q, M * N, 1, 1);
        tiny_fill(p->two->W2in, units * N, 2, 1);
        tiny_fill(p->two->w4, N, 4, 1);
        for (int ij = 0; ij < units; ij++)
            for (int n = 0; n < N; n++)
                p->two->W2out[n * units + ij] = tiny_weight(ij * N + n, 3) / (mup ? sqrt(M) : 1);
    } else {
        int Ne = p->three->Ne;
        tiny_fill(p->three->block[ORACLE3_W1], N * D, 0, 1);
        tiny_fill(p->three->block[ORACLE3_Q], M * N, 1, 1);
        tiny_fill(p->three->block[ORACLE3_W4], N, 4, 1);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < Ne; j++)
                for (int n = 0; n < N; n++) {
                    int k = ((mup ? i : 0) * Ne + j) * N + n;
                    p->three->block[ORACLE3_WIN][(i * Ne + j) * N + n] = tiny_weight(k, 2);
                    p->three->block[ORACLE3_WOUT][(i * N + n) * Ne + j] = tiny_weight(k, 3);
                }
    }
}

static void read_stored(const char *name, double want[6][2]) {
    hid_t file = H5Fopen("data/ref/parameterizations/tiny.h5", H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(H5Dread(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, want) >= 0);
    H5Dclose(data);
    H5Fclose(file);
}

static void tiny_case(int regime, const char *par, const char *optimizer) {
    static const char *const adam[] = {"training.optimizer=adam", "training.eta0=0.1",
                                       "training.eps=0.01", "training.beta1=0.9",
                                       "training.beta2=0.999"};
    const char *overrides[16] = {"training.eta0=0.3"};
    char ini[64], name[64], parameterization[64];
    bool sgd = !strcmp(optimizer, "sgd"), mup = !strcmp(par, "mup");
    double want[6][2];
    struct couple p;
    snprintf(ini, sizeof ini, "data/ref/parameterizations/regime%d.ini", regime);
    snprintf(parameterization, sizeof parameterization, "network.parameterization=%s", par);
    if (!sgd) {
        memcpy(overrides, adam, sizeof adam);
        overrides[5] = !strcmp(optimizer, "adam_inside") ? "training.adam_eps=inside"
                                                         : "training.adam_eps=outside";
    }
    overrides[sgd ? 1 : 6] = parameterization;
    snprintf(name, sizeof name, "/regime%d/%s_%s", regime, par, optimizer);
    read_stored(name, want);
    open_couple(&p, ini, overrides, 6);
    tiny_weights(&p, mup);
    put_weights(&p);
    support_evaluate(&p.net, &p.run);
    for (int t = 0; t < 6; t++) {
        for (int mu = 0; mu < 2; mu++)
            CHECK_ABS(p.net.f[mu], want[t][mu], 1e-9, "%s: f[%d] at %d", name, mu, t);
        compare(&p, t, 1e-12, name);
    }
    close_couple(&p);
}

/* Stored to 12 digits. */
static void tiny_trajectories(void **state) {
    (void)state;
    static const char *const optimizers[] = {"sgd", "adam_inside", "adam_outside"};
    for (int regime = 1; regime <= 3; regime++)
        for (int k = 0; k < 6; k++)
            tiny_case(regime, k < 3 ? "mup" : "mssp", optimizers[k % 3]);
}

/* Runs of an ini text: overrides can replace keys of a file, not take them away. Returns how many
 * of the five steps were clipped. */
static int equals_oracle_of(const char *network, const char *training, const double *factor,
                            int N) {
    static const char name[] = "build/test_optimizer.ini";
    char what[256];
    int clipped = 0;
    struct couple p;
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fprintf(file,
            "[network]\n%s\n[data]\ninputs = 4\ndimension = 5\n[training]\ngamma0 = 1.3\n%s\n"
            "[solver]\nreplicates = 0\n[reference]\nwidths = %d\ncentre = no\n",
            network, training, N);
    fclose(file);
    open_couple(&p, name, NULL, N);
    remove(name);
    snprintf(what, sizeof what, "%.100s, %.100s", network, training);
    struct rng_stream stream = {.seed = 31, .purpose = PURPOSE_DATA};
    for (int b = 0; b < p.optimizer->blocks; b++)
        for (int k = 0; k < p.optimizer->block[b].count; k++) {
            double pair[2];
            rng_normal_pair(stream, (uint32_t)b, (uint32_t)k, pair);
            p.optimizer->block[b].w[k] = pair[0];
        }
    if (p.model == 3 && p.run.config.network.parameterization == PARAMETERIZATION_MSSP)
        for (int b = ORACLE3_WIN; b <= ORACLE3_WOUT; b++) {
            int count = oracle3_count(p.three, b), own = count / p.three->M;
            for (int k = own; k < count; k++)
                p.three->block[b][k] = p.three->block[b][k % own];
        }
    put_weights(&p);
    if (p.one && p.one->kappa_b > 0)
        memcpy(support_numbers(&p.net, "b"), p.one->b, (size_t)p.one->M * sizeof(double));
    support_evaluate(&p.net, &p.run);
    p.optimizer->factor = factor;
    for (int t = 0; t < 5; t++) {
        double norm;
        ASK(net_gradient_norm(&p.net, &norm, err));
        compare(&p, t, 1e-12, what);
        CHECK_ABS(norm, p.optimizer->norm, 1e-12, "%s: norm of the gradient at %d", what, t);
        clipped += p.optimizer->clip > 0 && norm > p.optimizer->clip;
    }
    close_couple(&p);
    return clipped;
}

static const char *const networks[] = {
    "model = dense\ndepth = 3",
    "model = regime1\nexperts = 2\nexpert_layers = 2\ngate = softmax\nbias=trained\nbiases=.6 -.6",
    "model = regime1\nexperts = 3\ngate = sigmoid\nq0 = 1",
    "model = regime1\nexperts = 2\nparameterization = sp\nrouter_rate = 1",
    "model = regime2\nkappa = 0.5\nexpert_width = 2\nparameterization = mssp\ngate = softmax",
    "model = regime2\nkappa = 0.5\nexpert_width = 3\nparameterization = mup",
    "model = regime3\nkappa = 0.5\niota = 0.25\nparameterization = mssp",
    "model = regime3\nkappa = 0.25\niota = 0.5\nparameterization = mup\ngate = softmax",
    "model = residual\nalpha = 0.5\nexpert_width = 4\ndepth = 2",
    "model = resnet\ndepth = 3\nbranch = 1.6",
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* Sums have fewer than 200 terms of order one: 4e-14. A step of Adam passes a relative error of a
 * gradient on as an error of the weights eta0 = 0.05 times as large, or eta0/eps = 1 times for
 * gradients below eps: four steps, 1e-12 in all. */
static void equals_oracle(void **state) {
    (void)state;
    static const char *const optimizers[] = {
        "optimizer = momentum\nmomentum = 0.8\neta0 = 0.2",
        "optimizer = adam\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.95\nadam_eps = outside",
        "optimizer = adam\neta0 = 0.05\nbeta2 = 0.99\neps = 0.1\nadam_eps = inside",
        "optimizer = adamw\neta0 = 0.05\nweight_decay = 0.02",
        "optimizer = lion\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.9\neps = 0.1\nweight_decay = 0.02",
    };
    for (size_t i = 0; i < NETWORKS; i++)
        for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++)
            equals_oracle_of(networks[i], optimizers[k], NULL, 16);
}

/* Every schedule with every optimizer, clipped at a norm that some of the gradients reach; the
 * tolerance is that above. */
static void schedules_and_clipping(void **state) {
    (void)state;
    static const char *const optimizers[] = {
        "eta0 = 0.5",
        "optimizer = momentum\nmomentum = 0.8\neta0 = 0.2",
        "optimizer = adam\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.95\nadam_eps = outside",
        "optimizer = adamw\neta0 = 0.05\nweight_decay = 0.02",
    };
    enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers, STEPS = 5 };
    enum { SCHEDULES = sizeof schedules / sizeof *schedules };
    for (int k = 0; k < OPTIMIZERS; k++)
        for (int s = 0; s < SCHEDULES; s++) {
            int clipped = 0;
            for (int i = 0; i < NETWORKS; i++) {
                char training[256];
                snprintf(training, sizeof training, "steps = 6\nclip = 0.6\n%s\n%s",
                         schedules[s].keys, optimizers[k]);
                clipped += equals_oracle_of(networks[i], training, schedules[s].factor, 16);
            }
            assert_true(clipped > 0 && clipped < NETWORKS * STEPS);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_trajectories),
        cmocka_unit_test(equals_oracle),
        cmocka_unit_test(schedules_and_clipping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
