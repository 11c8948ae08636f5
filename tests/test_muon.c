/* Muon in networks and in the limit, where it says something exactly (docs/theory/muon.md): of one
 * input, of one expert, of a smaller tolerance; and what is refused. Against plain loops:
 * test_polar.c and test_optimizer.c; limits against networks: test_networks.c. */
#include "integrators/integrator.h"
#include "kernels/maps/polar.h"
#include "tests/support/script.h"

enum { STEPS = 16, MOST = 8 };

/* f of all inputs at STEPS times, [STEPS][MOST]; width 0: the limit. */
static void train(int N, const char *network, const char *more, double f[STEPS][MOST]) {
    RUN_AND_NET;
    support_run_text(&run, NULL, "[network]\n%s\n%s\n[reference]\nwidths = 16\ncentre = no\n",
                     network, more);
    const struct training *training = &run.config.training;
    support_begin(&net, &run, N, 0);
    assert_true(run.data.P <= MOST);
    for (int t = 0; t < STEPS; t++) {
        for (int mu = 0; mu < MOST; mu++)
            f[t][mu] = mu < run.data.P ? net.output.f[mu] : 0;
        ASK(integrator_of(training)->advance(&net, training, run.data.y, err));
    }
}

/* The largest difference, after something has been learned. */
static double apart(double a[STEPS][MOST], double b[STEPS][MOST]) {
    double most = 0;
    assert_true(fabs(a[STEPS - 1][0] - a[0][0]) > 1e-2);
    for (int t = 0; t < STEPS; t++)
        for (int mu = 0; mu < MOST; mu++)
            most = fmax(most, fabs(a[t][mu] - b[t][mu]));
    return most;
}

static double newton_schulz(double s) {
    for (int k = 0; k < 5; k++)
        s = 3.4445 * s - 4.7750 * pow(s, 3) + 2.0315 * pow(s, 5);
    return s;
}

#define PLAIN_LIMIT "[solver]\nsites = 200\ntolerance = 1e-6\ndraws = normal\nseed = 1\n"
#define LIMIT PLAIN_LIMIT "expert_sites = 16\n"
/* Experts of infinite width give their router no gradient at first, and then a small one, whose
 * relative round-off is large: other matrices of theirs, too, are known to 1e-15 to 5e-9, by seed,
 * draws and how the compiler orders additions (1.2e-10 with sanitizers and this seed). */
#define NO_ROUTER "rest = Q\n" LIMIT "unit_sites = 16\n"
#define REST                                                                                       \
    "optimizer = muon\nrest_optimizer = gd\nrest_eta0 = 0.1\nmomentum = 0\nweight_decay = 0.03\n"

/* The gradient has one singular value, 1 of its norm: five steps make p(1) of it, so that the exact
 * factor with eta0 p(1) is the same; in each expert as well. Round-off of six steps in sums of some
 * hundred terms. */
TEST(one_input) {
    static const STRUCT(const char *network, *solver) cases[] = {
        {"model = dense\ndepth = 3", PLAIN_LIMIT},
        {"model = resnet\ndepth = 2", PLAIN_LIMIT},
        {"model = regime2\nparameterization = mssp\nexpert_width = 2\nread_out = normal", LIMIT},
        {"model = regime3\nparameterization = mssp\nread_out = normal", NO_ROUTER},
        {"model = regime3\nparameterization = mup\nread_out = normal", NO_ROUTER},
    };
    for (size_t k = 0; k < COUNT(cases); k++)
        for (int N = 0; N <= 16; N += 16) {
            double five[STEPS][MOST], exact[STEPS][MOST];
            char more[512];
            for (int is_exact = 0; is_exact < 2; is_exact++) {
                snprintf(more, sizeof more,
                         "[data]\ninputs = 1\ndimension = 3\n[training]\neta0 = %.17g\n%s" REST
                         "%s",
                         0.2 * (is_exact ? newton_schulz(1) : 1), is_exact ? "muon = exact\n" : "",
                         cases[k].solver);
                train(N, cases[k].network, more, is_exact ? exact : five);
            }
            double round_off = strstr(cases[k].solver, "rest = Q") ? 5e-9 : 1e-11;
            CHECK_ABS(apart(five, exact), 0, round_off, "%s, N = %d", cases[k].network, N);
        }
}

/* The part of the only expert is the whole matrix. Of a limit, what W_out learns is kept on one
 * side and on the other: to the tolerance of the bases, in each of six steps, and to five of them
 * for what follows from earlier ones. */
TEST(one_expert) {
    for (int N = 0; N <= 16; N += 16) {
        double each[STEPS][MOST], together[STEPS][MOST];
        char more[512];
        const char *network = N ? "model = regime2\nkappa = 0.0625\nexpert_width = 8"
                                : "model = regime2\nexpert_width = 200";
        const char *ini = "[data]\ninputs = 3\ndimension = 4\n[training]\neta0 = 0.2\noptimizer = "
                          "muon\nmomentum = 0.8\nmuon_experts = %s\n[solver]\nsites = 200\n"
                          "expert_sites = 1\ntolerance = 1e-6\n";
        snprintf(more, sizeof more, ini, "each");
        train(N, network, more, each);
        snprintf(more, sizeof more, ini, "together");
        train(N, network, more, together);
        CHECK_ABS(apart(each, together), 0, N ? 1e-11 : 3e-5, "N = %d", N);
    }
}

/* With several it is not. */
TEST(several_experts) {
    for (int N = 0; N <= 16; N += 16) {
        double f[2][STEPS][MOST];
        for (int k = 0; k < 2; k++) {
            TEXT(more, 512,
                 "[data]\ninputs = 3\ndimension = 4\n[training]\neta0 = 0.2\n"
                 "optimizer = muon\nweight_decay = 0.01\nmuon_experts = %s\n" LIMIT,
                 k ? "together" : "each");
            train(N, "model = regime2\nkappa = 0.25\nexpert_width = 2", more, f[k]);
        }
        assert_true(apart(f[0], f[1]) > 1e-3);
    }
}

/* Two heads, of attention to all tokens and (causal) to those before, or alike; what they are parts
 * of, and the rate of the second part. */
#define HEADS                                                                                      \
    "local s = population('s')\nlocal y = read_in(s, 'W0')\nlocal sum = y\n"                       \
    "for i, causal in ipairs({false, %s}) do\n"                                                    \
    "  local p = population('p' .. i, {size = 1 / 2, page = 1 / 2})\n"                             \
    "  local function W(n, r)\n"                                                                   \
    "    return {name = n .. i, heads_of = n, rate = r, adam_rate = r < 1 and r or 1}\n  end\n"    \
    "  local a = softmax(attend(map(y, p, {name = 'Q' .. i, fixed = true}),\n"                     \
    "                           map(y, p, {name = 'K' .. i, fixed = true})), {causal = causal})\n" \
    "  local o = mix(a, map(y, p, W('V', 2)))\n"                                                   \
    "  sum = sum + map(o, s, W('O', 1 / 2))\nend\nread_out(sum, 'w')\n"

static void train_heads(int N, const char *causal, const char *heads, double f[STEPS][MOST]) {
    char text[2048], path[64], network[96], more[512];
    FILE *file;
    snprintf(path, sizeof path, "/tmp/heads_%d.lua", (int)getpid());
    snprintf(text, sizeof text, HEADS, causal);
    assert_non_null(file = fopen(path, "w"));
    fputs(text, file);
    fclose(file);
    snprintf(network, sizeof network, "program = %s", path);
    snprintf(more, sizeof more,
             "[data]\nsource = markov\ninputs = 2\ntokens = 3\nvocabulary = 3\n[training]\n"
             "loss = cross_entropy\neta0 = 0.2\noptimizer = muon\nmuon_heads = %s\n"
             "weight_decay = 0.01\nrest_optimizer = gd\n[solver]\nsites = 400\ntolerance = 1e-6\n",
             heads);
    train(N, network, more, f);
    remove(path);
}

/* In the limit the parts of heads that are alike have the same singular values, and so has the
 * matrix of both, which moves each as it would move alone; of networks, and of heads that differ,
 * that is not so. The limit is linear in its normals, which are orthogonal: it has no sampling
 * error, but for what a step loses, and 16 of them. */
TEST(heads) {
    double each[STEPS][MOST], together[STEPS][MOST];
    for (int k = 0; k < 4; k++) {
        int N = k % 2 ? 16 : 0;
        const char *causal = k / 2 ? "true" : "false";
        train_heads(N, causal, "each", each);
        train_heads(N, causal, "together", together);
        if (k)
            assert_true(apart(each, together) > 1e-3);
        else
            CHECK_ABS(apart(each, together), 0, 1e-5, "alike heads%s", "");
    }
}

/* Bases drop what is below r = tolerance/POLAR_GAIN: with it a step misses the part of x that is
 * dropped, of size r, times what the matrix moves by, eta0. Without POLAR_GAIN small singular
 * values make it a hundred times as much. */
TEST(tolerance_holds) {
    static const double tolerance[] = {0.1, 0.01};
    double fine[STEPS][MOST], coarse[STEPS][MOST];
    const char *network = "model = dense\ndepth = 3";
    const char *ini = "[data]\ninputs = 2\ndimension = 8\n[training]\noptimizer = muon\n"
                      "eta0 = 0.05\nrest_optimizer = gd\nrest_eta0 = 0.4\nweight_decay = 0\n"
                      "[solver]\nsites = 400\ntolerance = %g\n";
    TEXT(more, 512, ini, 1e-8);
    train(0, network, more, fine);
    for (int k = 0; k < 2; k++) {
        snprintf(more, sizeof more, ini, tolerance[k]);
        train(0, network, more, coarse);
        double most = apart(coarse, fine);
        assert_true(most > 0); /* something was dropped */
        CHECK_ABS(most, 0, 0.05 * STEPS * tolerance[k] / POLAR_GAIN, "tolerance %g", tolerance[k]);
    }
}

/* Without any matrix of a network of blocks its limit is another one, also of those that read the
 * outputs of experts and do not stand in front of the read-out. */
TEST(every_matrix_learns) {
    static const char network[] = "model = residual\ndepth = 2\nexpert_width = 2\n[data]\n"
                                  "inputs = 4\n[training]\noptimizer = muon\n"
                                  "eta0 = 0.1\n",
                      sites[] = "[solver]\nsites = 64\nexpert_sites = 16\n";
    double whole[STEPS][MOST], without[STEPS][MOST];
    RUN_AND_NET;
    support_run_text(&run, NULL, "[network]\n%s%s[reference]\nwidths = 16\n", network, sites);
    support_net(&net, &run, 0, 0);
    train(0, network, sites, whole);
    assert_true(net.maps.count >= 6);
    for (int i = 0; i < net.maps.count; i++) {
        char more[256];
        const char *name = net.maps.item[i]->declared.name;
        snprintf(more, sizeof more, "%s[rates]\n%s = 0\n", sites, name);
        train(0, network, more, without);
        FAIL_IF(!(apart(whole, without) > 1e-6), "%s does not learn", name);
    }
}
