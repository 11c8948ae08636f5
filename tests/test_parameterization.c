/* Every parameterization of regimes 1 to 3 against a plain network in the papers' form, with the
 * papers' standard deviations, rates and eps, under gradient descent and Adam: the same outputs.
 *
 * The draws are those of muP, whose standard deviations are divided out: other parameterizations of
 * a seed must have the same ones at their own scale. */
#include "tests/support/support.h"
#include "tests/oracles/oracle.h"
#include "models/networks/settings.h"

enum { N = 12, P = 3, D = 5, STEPS = 5 };
static const double gamma0 = 1.3, eta0 = 0.05, eps0 = 0.05;

struct scales {
    double std, rate, adam_rate, nu;
};

/* Section 1.2 of the notes on the papers; W1 has variance 1 (h1 = W1 x/sqrt D). */
static struct scales mup(int regime, int matrix, double M, double Ne) {
    double g2 = gamma0 * gamma0, kappa = M / N;
    switch (matrix) {
    case PAPERS_W1:
        return (struct scales){1, g2 * N, 1, 1.0 / N};
    case PAPERS_W4:
        return (struct scales){1 / (gamma0 * N), 1.0 / N, 1 / (gamma0 * N), 1};
    case PAPERS_B:
        return (struct scales){1, g2, 1, 1};
    case PAPERS_Q:
        return regime == 1 ? (struct scales){1.0 / N, g2 / N, 1.0 / N, 1}
                           : (struct scales){1 / sqrt(N), g2 * kappa, 1.0 / N, 1 / M};
    case PAPERS_W2:
        return regime == 1   ? (struct scales){1 / sqrt(N), g2, 1.0 / N, 1.0 / N}
               : regime == 2 ? (struct scales){1 / sqrt(N), g2 * kappa, 1.0 / N, 1 / M}
                             : (struct scales){1 / sqrt(N), g2 * N, 1.0 / N, 1 / (M * N)};
    default:
        return regime == 1   ? (struct scales){1 / sqrt(Ne), g2 * N / Ne, 1 / Ne, 1.0 / N}
               : regime == 2 ? (struct scales){1 / sqrt(Ne), g2 * N * M / Ne, 1 / Ne, 1 / (M * N)}
                             : (struct scales){1 / sqrt(N), g2 * N, 1 / Ne, 1 / (M * N)};
    }
}

/* The others: one rate and one eps of W, standard deviation fan_in^-1/2 (sp); the same of w, W =
 * fan_in^-1/2 w (ntp); muP but for its router (simp: that of a hidden layer) or one more. */
static struct scales scales_of(const char *name, int regime, int matrix, double M, double Ne) {
    struct scales s = mup(regime, matrix, M, Ne);
    double in = matrix == PAPERS_W1 || matrix == PAPERS_B ? 1 : matrix == PAPERS_W3 ? Ne : N;
    if (!strcmp(name, "sp"))
        return (struct scales){1 / sqrt(in), 1, 1, 1};
    if (!strcmp(name, "ntp"))
        return (struct scales){1 / sqrt(in), 1 / in, 1 / sqrt(in), sqrt(in)};
    if (!strcmp(name, "simp") && matrix == PAPERS_Q)
        return (struct scales){1 / sqrt(N), gamma0 * gamma0, 1.0 / N, 1};
    if (!strcmp(name, "mssp") && regime == 1 && matrix == PAPERS_Q)
        s.std = 0;
    if (!strcmp(name, "mssp") && regime == 2 && matrix == PAPERS_W3)
        s.std *= sqrt(M);
    return s;
}

/* W1 [N][D]; of gradient descent in coordinates of the span of the inputs. */
static void copy_read_in(double *W1, const struct net *net, const struct run *run) {
    FREED(base_free)
    double *A, *B, *column = support_get(array_all(&support_weight(net, "W1")->matrix.thin->W));
    int K;
    bool entries = optimizer_by_entry(net->setup.training.optimizer);
    ASK(thin_coordinates(run->data.X, P, D, &A, &B, &K, err));
    for (int n = 0; n < N; n++)
        for (int d = 0; d < D; d++) {
            W1[n * D + d] = entries ? column[d * N + n] : 0;
            for (int k = 0; k < K && !entries; k++)
                W1[n * D + d] += column[k * N + n] * B[k * D + d];
        }
}

/* to[...] = factor times the map as it is used, [n][m]; transposed blocks: rows n of the experts
 * one after the other, of units k. */
static void copy_map(double *to, const struct net *net, const char *name, double factor, int Ne) {
    const struct node *v = support_weight(net, name);
    FREED(base_free) double *W = support_matrix(v->matrix.map);
    int n = (int)v->matrix.map->declared.target->sites,
        m = (int)v->matrix.map->declared.source->sites;
    factor *= v->matrix.map->declared.s_f;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++)
            to[Ne ? (k / Ne * n + i) * Ne + k % Ne : i * m + k] = factor * W[i * m + k];
}

/* The initial weights of a net of muP, in units of their standard deviation. */
static void copy_draws(struct oracle *o, const struct net *net, const struct run *run, int regime) {
    FREED(base_free)
    double *Q = NULL, *w = support_get(array_all(&support_weight(net, "w")->matrix.thin->W));
    char name[32];
    copy_read_in(o->block[PAPERS_W1].w, net, run);
    for (int n = 0; n < N; n++)
        o->block[PAPERS_W4].w[n] = w[n] / (gamma0 * N);
    if (regime == 1) {
        Q = support_get(array_all(&support_weight(net, "Q")->matrix.thin->W));
        for (int k = 0; k < o->M * N; k++)
            o->block[PAPERS_Q].w[k] = Q[k] / N;
        for (int i = 0; i < o->M; i++) {
            o->block[PAPERS_B].w[i] = run->config.network.routing.biases.value[i];
            snprintf(name, sizeof name, "W2_%d", i);
            copy_map(o->block[PAPERS_W2].w + i * N * o->N_e, net, name, 1, 0);
            snprintf(name, sizeof name, "W3_%d", i);
            copy_map(o->block[PAPERS_W3].w + i * N * o->N_e, net, name, 1, 0);
        }
    } else {
        copy_map(o->block[PAPERS_Q].w, net, "Q", 1, 0);
        copy_map(o->block[PAPERS_W2].w, net, "W_in", 1, 0);
        copy_map(o->block[PAPERS_W3].w, net, "W_out", o->M, o->N_e);
    }
    for (int b = 0; b < PAPERS_MATRICES; b++)
        for (int k = 0; k < o->block[b].count && b != PAPERS_B; k++)
            o->block[b].w[k] /= mup(regime, b, o->M, o->N_e).std;
}

struct example {
    int regime, M, Ne;
    const char *network, *gate, *optimizer, *name;
};

static void run_of(struct run *run, const struct example *e, const char *name) {
    support_run_text(
        run, NULL,
        "[network]\nmodel = regime%d\n%s\ngate = %s\nparameterization = %s\n[data]\ninputs = "
        "%d\ndimension = %d\n[training]\noptimizer = %s\ngamma0 = %g\neta0 = %g\n%s[solver]\n"
        "replicates = 0\n[reference]\nwidths = %d\ncentre = no\n",
        e->regime, e->network, e->gate, name, P, D, e->optimizer, gamma0, eta0,
        strcmp(e->optimizer, "adam") ? "" : "adam_read_in = 1\neps = 0.05\n", N);
}

static struct oracle *oracle_of(const struct example *e, const struct run *run) {
    const struct training *training = &run->config.training;
    bool softmax = !strcmp(e->gate, "softmax"), adam = !strcmp(e->optimizer, "adam");
    struct oracle *o = oracle_new(
        (struct oracle)LIST(.network = &oracle_papers, .P = P, .D = D, .N = N, .M = e->M,
                            .N_e = e->Ne, .gate = softmax ? ORACLE_SOFTMAX : ORACLE_SIGMOID_M,
                            .branch = e->regime == 1 || softmax ? 1 : 1.0 / e->M));
    struct run reference;
    struct net net;
    memcpy(o->X, run->data.X, (size_t)(P * D) * sizeof *o->X);
    memcpy(o->y, run->data.y, P * sizeof *o->y);
    o->rule =
        (struct oracle_rule)LIST(.adam = adam, .rate = 1, .eps = 1, .beta1 = training->adam.beta1,
                                 .beta2 = training->adam.beta2);
    run_of(&reference, e, "mup");
    support_net(&net, &reference, N, 0);
    copy_draws(o, &net, &reference, e->regime);
    net_free(&net);
    run_free(&reference);
    for (int b = 0; b < PAPERS_MATRICES; b++) {
        struct scales s = scales_of(e->name, e->regime, b, e->M, e->Ne);
        bool learns = b != PAPERS_B || e->regime == 1;
        o->block[b].sgd = learns ? eta0 * s.rate : 0;
        o->block[b].adam_rate = learns ? eta0 * s.adam_rate : 0;
        o->block[b].nu = eps0 * s.nu;
        for (int k = 0; k < o->block[b].count; k++)
            o->block[b].w[k] *= s.std;
    }
    return o;
}

/* Tolerance: a number is a sum of fewer than 200 terms with a round-off of DBL_EPSILON each, five
 * times a step (three layers, back, learning). What such an error becomes is seen in a third
 * network, whose weights are off by 1e-8 of themselves: it is larger by the same factor. */
static void check_example(const struct example *e) {
    RUN_AND_NET;
    run_of(&run, e, e->name);
    struct oracle *o = oracle_of(e, &run), *off = oracle_of(e, &run);
    for (int b = 0; b < PAPERS_MATRICES; b++)
        for (int k = 0; k < off->block[b].count; k++)
            off->block[b].w[k] *= 1 + 1e-8 * (k % 2 ? 1 : -1);
    support_begin(&net, &run, N, 0);
    for (int t = 0; t <= STEPS; t++) {
        double most = 0;
        oracle_optimizer_step(o);
        oracle_optimizer_step(off);
        for (int mu = 0; mu < P; mu++)
            most = fmax(most, fabs(o->f[mu] - off->f[mu]) / 1e-8);
        for (int mu = 0; mu < P; mu++)
            CHECK_ABS(net.output.f[mu], o->f[mu],
                      5 * (t + 1) * 200 * DBL_EPSILON * fmax(most, fabs(o->f[mu])),
                      "regime%d, %s, %s, %s: f[%d] at %d", e->regime, e->name, e->gate,
                      e->optimizer, mu, t);
        ASK(integrator_of(&run.config.training)
                ->advance(&net, &run.config.training, run.data.y, err));
    }
    oracle_free(o);
    oracle_free(off);
}

TEST(presets_are_those_of_the_papers) {
    static const char *const gates[] = {"sigmoid", "softmax"}, *const optimizers[] = {"gd", "adam"};
    static const char *const names[] = {"mup", "mssp", "sp", "ntp", "simp"};
    static const struct example networks[] = {
        {1, 3, N, .network = "experts = 3\nexpert_layers = 2\nbias = trained\nbiases = 0.5 -1 0.2"},
        {1, 2, 3,
         .network = "experts = 2\niota = 0.25\nbias = trained\nbiases = 0.5 -1\n"
                    "expert_layers = 2"},
        {2, 6, 2, .network = "kappa = 0.5\nexpert_width = 2"},
        {3, 6, 3, .network = "kappa = 0.5\niota = 0.25"},
    };
    for (int r = 0; r < 4; r++)
        for (int n = 0; n < 5; n++)
            for (int k = 0; k < 4; k++) {
                struct example e = networks[r];
                e.name = names[n];
                e.gate = gates[k / 2];
                e.optimizer = optimizers[k % 2];
                if (e.regime == 2 && n < 2) /* as the papers' table of muP and MSSP */
                    e.network = "kappa = 0.5\nexpert_width = 2\nlambda_in = kappa";
                bool tied = e.regime == 3 && n == 1, undefined = e.regime > 1 && n == 4;
                if (!tied && !undefined)
                    check_example(&e);
            }
}

/* Numbers of experts and units that follow from a product, with its round-off: nine digits. */
TEST(whole_numbers) {
    static const STRUCT(double count; bool whole) cases[] = {
        {1, true},           {1 - 5e-10, true},    {1 - 2e-9, false},  {1 + 2e-9, false},
        {0, false},          {-1, false},          {0.5, false},       {2.5, false},
        {1000 + 5e-7, true}, {1000 + 2e-6, false}, {1e6 - 5e-4, true}, {1e6 - 2e-3, false},
        {1e9 - 1, true},     {1e9, false},         {NAN, false},       {INFINITY, false}};
    for (size_t k = 0; k < COUNT(cases); k++)
        FAIL_IF(network_whole(cases[k].count) != cases[k].whole, "%.12g", cases[k].count);
}
