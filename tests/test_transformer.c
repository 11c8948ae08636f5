/* The network of models/transformer.c: explicit matrices against finite differences of the loss,
 * with the rates of docs/theory/transformer.md, and against the plain-loop oracle written from that
 * page (tests/oracles/oracle_transformer.c, itself judged by differences), by gradient descent,
 * momentum and Adam. Its limit: tests/test_transformer_limit.c. */
#include "tests/support/oracles.h"
#include "tests/support/sequences.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int kinds[] = {0, 2, 1, 1, 0, 2, 2, 0, 1, 0, 1, 2};

struct task {
    struct sequences sequences;
    int N;
    const char *network, *training;
    bool centre;
};

/* Whatever the page has, at least once. Masks must not flip within a difference: biases of selected
 * experts are apart. */
static const struct task tasks[] = {
    {{3, 4, 1, false, 0, NULL, false}, 12, "experts = 0\nattention_beta = 2", "", false},
    {{3, 3, 2, false, 0, NULL, false},
     12,
     "experts = 0\nheads = 3\ncausal = yes\nnorm = no\nfinal_norm = no\ndepth = 2\n"
     "branch_power = 0.5\nattention_width = 0.5",
     "",
     false},
    {{2, 3, 3, true, 0, NULL, false},
     12,
     "head_limit = many\nhead_width = 2\nattention_width = 0.5\nattention_beta = 1.5\nexperts = 2\n"
     "gate = softmax\nbias = fixed\nbiases = 0.3 -0.3\niota = 0.5\nq0 = 1",
     "loss = cross_entropy",
     false},
    {{3, 3, 2, false, 3, kinds, false},
     12,
     "head_limit = many\nhead_width = 4\nzero_queries = yes\ncausal = yes\nexperts = 3\n"
     "rho = 0.333333333333333\ngate = sigmoid\nbias = fixed\nbias_per = token\n"
     "biases = 0.6 0 -0.6 -0.6 0.6 0 0 -0.6 0.6\nq0 = 0\nrouter_rate = 4\ndepth = 2",
     "loss = cross_entropy",
     false},
    {{3, 4, 1, false, 3, kinds, false},
     10,
     "heads = 2\nattention_width = 0.6\nexperts = 4\nrho = 0.5\ngate = softmax\nbias = trained\n"
     "bias_per = token\nbiases = 0.9 0.3 -0.3 -0.9 -0.9 0.9 0.3 -0.3 -0.3 -0.9 0.9 0.3\nq0 = 0.1\n"
     "router_rate = 3\ndepth = 2\niota = 0.5\nactivation = erf",
     "",
     false},
    {{2, 3, 4, true, 0, NULL, false},
     9,
     "experts = 1\ngate = constant\niota = 2\nattention_width = 0.3333333333333333\ndepth = 3\n"
     "branch_power = 0.5\nactivation = softplus",
     "",
     false},
    {{3, 2, 2, false, 0, NULL, false},
     12,
     "experts = 2\ngated_experts = yes\nactivation = gelu\ngate = sigmoid\nbeta = 1.7\n"
     "bias = trained\nbiases = 0.5 -0.5\nbias_per = expert\nq0 = 0.7\nheads = 2\nfinal_norm = no",
     "loss = cross_entropy",
     false},
    {{5, 1, 3, false, 0, NULL, false},
     12,
     "experts = 3\ngate = constant\ngated_experts = yes\niota = 0.5\nbranch_power = 0",
     "loss = cross_entropy",
     false},
    {{2, 4, 1, true, 0, NULL, false},
     12,
     "experts = 2\ngate = softmax\nbeta = 0.6\nactivation = linear\nnorm = no\nheads = 4\n"
     "head_limit = fixed\nbranch_power = 1.5\ndepth = 2\nread_out = zero",
     "",
     false},
    {{4, 1, 1, false, 0, NULL, false},
     12,
     "experts = 2\ngate = sigmoid\nq0 = 1\nrouter_rate = 2\ncausal = yes\ndepth = 2",
     "",
     false},
    {{3, 3, 2, true, 0, NULL, false},
     12,
     "experts = 2\ngate = softmax\nq0 = 1\ncausal = yes\nhead_limit = many\nhead_width = 12",
     "",
     true},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

/* optimizer: further lines of [training]. */
static void configure(struct run *run, const struct task *task, const char *optimizer) {
    char network[512], training[512];
    snprintf(network, sizeof network, "model = transformer\n%s%s", task->network,
             strstr(task->network, "depth") ? "" : "\ndepth = 1");
    snprintf(training, sizeof training, "%s\n%s\n[reference]\nwidths = %d\ncentre = %s",
             task->training, optimizer, task->N, task->centre ? "yes" : "no");
    sequences_run(run, &task->sequences, network, training);
}

/* In units of eta0 gamma0^2 N/m, m the sites of the source: the table below (19). */
static double page_rate(const struct net *net, int parameter) {
    const struct network *network = net->setup.network;
    const char *name = net->parameter[parameter].name;
    double L = network->depth, b = pow(L, -network->branch_power), rate = 1 / (L * b * b);
    if (!strcmp(name, "W0") || !strcmp(name, "w"))
        return 1;
    if (!strncmp(name, "R_", 2))
        return rate * network->router_rate;
    if (!strncmp(name, "W_O", 3) && network->head_limit == HEADS_FIXED)
        return rate / network->heads;
    return rate;
}

static void gradient_by_differences(void **state) {
    (void)state;
    for (int i = 0; i < TASKS; i++) {
        struct run run;
        struct net net;
        configure(&run, &tasks[i], "eta0 = 0.1");
        support_net(&net, &run, tasks[i].N, 0);
        support_gradient_of(&net, &run, 11, page_rate);
        net_free(&net);
        run_free(&run);
    }
}

/* --- beside the oracle ----------------------------------------------------------------------- */

struct couple {
    struct run run;
    struct net net;
    struct oracle_transformer *oracle;
};

/* The matrix of one head or expert of several: _l_i, or _l if it is the only one. */
static const struct parameter *find(const struct net *net, const char *name, int l, int i) {
    char one[32], several[48];
    snprintf(one, sizeof one, "%s_%d", name, l);
    snprintf(several, sizeof several, "%s_%d", one, i);
    for (int k = 0; k < net->parameters; k++)
        if (!strcmp(net->parameter[k].name, one) || !strcmp(net->parameter[k].name, several))
            return &net->parameter[k];
    return NULL;
}

/* out [to][from] of matrices [to][from] side by side along `to` (units); or along `from`. */
static bool copy_maps(const struct net *net, const char *name, int l, int N, int units, int parts,
                      bool back, double *out) {
    int each = parts ? units / parts : 0;
    for (int i = 0; i < parts; i++) {
        const struct parameter *p = find(net, name, l, i);
        if (!p)
            return false;
        double *W = support_matrix(p->map);
        for (int n = 0; n < N; n++)
            for (int j = 0; j < each; j++)
                if (back)
                    out[n * units + i * each + j] = W[n * each + j];
                else
                    out[(i * each + j) * N + n] = W[j * N + n];
        free(W);
    }
    return parts > 0;
}

/* A block of the net as the oracle has it; false: the net has none, or it never learns. */
static bool copy_block(const struct couple *p, int block, double *out) {
    static const char *const names[] = {"W_Q", "W_K", "W_V", "W_O", "R", "b", "W1", "W3", "W2"};
    const struct oracle_transformer *o = p->oracle;
    int l = (block - 2) / ORACLE_PER_BLOCK, kind = (block - 2) % ORACLE_PER_BLOCK;
    bool fixed = p->run.config.network.head_limit == HEADS_FIXED;
    if (block < 2) {
        support_copy(out, array_all(&support_thin(&p->net, block ? "w" : "W0")->W), 1);
        return true;
    }
    if (kind <= ORACLE_W_O)
        return copy_maps(&p->net, names[kind], l, o->N, o->H * o->N_k, fixed ? o->H : 1,
                         kind == ORACLE_W_O, out);
    if (kind >= ORACLE_W_1)
        return copy_maps(&p->net, names[kind], l, o->N, o->E * o->N_e, o->E, kind == ORACLE_W_2,
                         out);
    const struct parameter *found = find(&p->net, names[kind], l, 0);
    if (found && found->thin)
        support_copy(out, array_all(&found->thin->W), 1);
    else if (found)
        memcpy(out, found->host, (size_t)found->K * sizeof *out);
    return found;
}

static void copy_settings(struct couple *p, const struct task *task) {
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    struct oracle_transformer *o = p->oracle;
    o->activation = oracles_activation(network->activation);
    o->loss = c->training.loss == &loss_mse ? ORACLE_MSE : ORACLE_CROSS_ENTROPY;
    o->gate = network->gate == GATE_SOFTMAX    ? ORACLE_SOFTMAX
              : network->gate == GATE_CONSTANT ? ORACLE_CONSTANT
                                               : ORACLE_SIGMOID_M;
    o->top = (int)lround(network->rho * o->E);
    o->causal = network->causal;
    o->norm = network->norm;
    o->final_norm = network->final_norm;
    o->per_token = task->sequences.per_token;
    o->gated = network->gated_experts;
    o->gamma0 = c->training.gamma0;
    o->eta0 = c->training.eta0;
    o->b = pow(o->L, -network->branch_power);
    o->beta_A = network->attention_beta;
    o->beta = network->beta;
    o->kappa_r = network->router_rate;
    o->kappa_b = network->bias == BIAS_TRAINED;
    for (int k = 0; k < o->L * o->V * o->E && network->bias; k++)
        o->bias[k] = network->biases.value[k % (o->V * o->E)];
}

static void make_couple(struct couple *p, const struct task *task, const char *optimizer) {
    int N = task->N;
    configure(&p->run, task, optimizer);
    support_net(&p->net, &p->run, N, 3);
    const struct sequences *s = &task->sequences;
    const struct network *network = &p->run.config.network;
    int units = (int)lround(network->attention_width * N), R = s->P * s->n;
    bool many = network->head_limit == HEADS_MANY, tokens = network->bias_per == BIAS_PER_TOKEN;
    int H = many ? units / network->head_width : network->heads;
    struct oracle_sizes sizes = {.P = s->P, .n = s->n, .C = s->C, .K = p->run.K, .N = N};
    sizes.V = tokens ? s->V : 1;
    sizes.L = network->depth;
    sizes.H = H;
    sizes.N_k = units / H;
    sizes.E = network->experts;
    sizes.N_e = (int)lround(network->iota * N);
    struct oracle_transformer *o = p->oracle = oracle_transformer_new(&sizes);
    copy_settings(p, task);
    memcpy(o->A, p->run.A, (size_t)(R * o->K) * sizeof *o->A);
    memcpy(o->y, p->run.data.y, (size_t)(sequences_outs(s) * o->C) * sizeof *o->y);
    for (int r = 0; r < R && tokens; r++)
        o->token[r] = s->token[r];
    for (int block = 0, count; block < oracle_transformer_blocks(o); block++)
        copy_block(p, block, oracle_transformer_block(o, block, &count));
    oracle_transformer_forward(o);
    for (int k = 0; k < sequences_outs(s) * o->C && p->run.config.reference.centre; k++)
        o->f0[k] = o->f[k];
}

static void free_couple(struct couple *p) {
    oracle_transformer_free(p->oracle);
    net_free(&p->net);
    run_free(&p->run);
}

/* Sums have fewer than 200 terms of order one: round-off is below 200 eps = 4e-14, amplified in
 * four steps by no more than the loss falls, 10: 1e-12. */
static const double tolerance = 1e-12;

static void check(double got, double want, const char *task, const char *what, int k) {
    CHECK_ABS(got, want, tolerance * fmax(1, fabs(want)), "%s: %s[%d]", task, what, k);
}

/* What the page has in cotangents and the net, with one output of an input, has not. */
static double carried(const struct couple *p, int row) {
    return p->net.weighted ? 1 : p->oracle->Delta[row];
}

static void check_kernels(const struct couple *p, const char *task) {
    const struct net *net = &p->net;
    const struct oracle_transformer *o = p->oracle;
    int R = o->P * o->n;
    double *K = calloc((size_t)(R * R), sizeof *K);
    assert_int_equal(net->kernels, 2 * (o->L + 1 + (o->E ? o->L : 0)));
    for (int k = 0; k < net->kernels; k++) {
        struct rows rows = net->kernel[k].rows;
        const char *name = net->kernel[k].name;
        int l = strrchr(name, '_')[1] - '0', place = 2 * l + (strstr(name, "_mid_") ? 1 : 0);
        rows.array->backend->dots(rows, rows, K);
        assert_int_equal(rows.count, R);
        for (int i = 0; i < R * R; i++) {
            double hh = oracle_transformer_hh(o, place, i / R, i % R),
                   gg = oracle_transformer_gg(o, place, i / R, i % R) /
                        (carried(p, i / R) * carried(p, i % R));
            check(net->kernel[k].scale * K[i], name[1] == 'h' ? hh : gg, task, name, i);
        }
    }
    free(K);
}

/* Logits, attention weights and gates. */
static void check_numbers(const struct couple *p, const char *task) {
    const struct net *net = &p->net;
    const struct oracle_transformer *o = p->oracle;
    int R = o->P * o->n, found = 0;
    for (int k = 0; k < net->numbers; k++) {
        const struct numbers *x = &net->number[k];
        char name[32] = "";
        int l = 0, head = 0;
        sscanf(x->name, "%31[a-z]_%d_%d", name, &l, &head);
        bool pair = !strcmp(name, "logits") || !strcmp(name, "attention");
        int width = pair ? o->n : o->E;
        const double *want = !strcmp(name, "logits")      ? o->logit
                             : !strcmp(name, "attention") ? o->a
                             : !strcmp(name, "psi")       ? o->psi
                             : !strcmp(name, "p")         ? o->p
                             : !strcmp(name, "gphi")      ? o->gphi
                                                          : NULL;
        if (!want)
            continue; /* router_entropy */
        found++;
        want += (pair ? l * o->H + head : l) * R * width;
        for (int i = 0; i < R * width; i++)
            check(x->values[i],
                  strcmp(name, "gphi") ? want[i] : o->b * want[i] / carried(p, i / width), task,
                  x->name, i);
    }
    bool fixed = p->run.config.network.head_limit == HEADS_FIXED,
         routed = o->E && o->gate != ORACLE_CONSTANT;
    assert_int_equal(found, o->L * ((fixed ? 2 * o->H : 0) + (routed ? 3 : 0)));
}

static void check_blocks(const struct couple *p, const char *task) {
    const struct oracle_transformer *o = p->oracle;
    for (int block = 0, count; block < oracle_transformer_blocks(o); block++) {
        const double *want = oracle_transformer_block(o, block, &count);
        double *got = calloc((size_t)count + 1, sizeof *got);
        if (copy_block(p, block, got))
            for (int k = 0; k < count; k++)
                CHECK_ABS(got[k], want[k], tolerance * fmax(1, fabs(want[k])),
                          "%s: block %d entry %d", task, block, k);
        free(got);
    }
}

static void check_outputs(const struct couple *p, const struct task *task, double loss) {
    check(p->net.loss, loss, task->network, "loss", 0);
    for (int k = 0; k < sequences_outs(&task->sequences) * task->sequences.C; k++)
        check(p->net.f[k], p->oracle->f[k], task->network, "f", k);
}

static void equals_oracle(void **state) {
    (void)state;
    for (int i = 0; i < TASKS; i++) {
        struct couple p;
        make_couple(&p, &tasks[i], "eta0 = 0.1");
        for (int t = 0; t < 4; t++) {
            support_evaluate(&p.net, &p.run);
            double loss = oracle_transformer_forward(p.oracle);
            oracle_transformer_backward(p.oracle);
            check_outputs(&p, &tasks[i], loss);
            check_kernels(&p, tasks[i].network);
            check_numbers(&p, tasks[i].network);
            support_learn(&p.net, &p.run);
            oracle_transformer_step(p.oracle);
            check_blocks(&p, tasks[i].network);
        }
        free_couple(&p);
    }
}

/* A step of Adam passes a relative error of a gradient on as an error of the weights eta0 = 0.05
 * times as large, or eta0/eps = 1 times for gradients below eps. */
static void optimizers(void **state) {
    (void)state;
    static const char *const lines[] = {
        "optimizer = momentum\nmomentum = 0.8\neta0 = 0.2",
        "optimizer = adam\neta0 = 0.05\nbeta1 = 0.8\nbeta2 = 0.95\nadam_eps = outside\neps = 0.1",
        "optimizer = adam\neta0 = 0.05\nbeta2 = 0.99\neps = 0.1\nadam_eps = inside",
        "optimizer = adamw\neta0 = 0.05\nweight_decay = 0.02\neps = 0.1",
    };
    for (int i = 0; i < TASKS; i++)
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            struct couple p;
            make_couple(&p, &tasks[i], lines[k]);
            const struct training *training = &p.run.config.training;
            struct oracle_optimizer *a = oracle_optimizer_transformer(p.oracle);
            oracles_set_optimizer(a, training);
            support_evaluate(&p.net, &p.run);
            for (int t = 0; t < 4; t++) {
                check_outputs(&p, &tasks[i], oracle_optimizer_step(a));
                ASK(integrator_of(training)->advance(&p.net, training, p.run.data.y, err));
                check_blocks(&p, tasks[i].network);
            }
            oracle_optimizer_free(a);
            free_couple(&p);
        }
}

static double loss_of(void *oracle) {
    return oracle_transformer_forward(oracle);
}

static double step_of(void *oracle) {
    return oracle_transformer_step(oracle);
}

static void oracle_by_differences(void **state) {
    (void)state;
    for (int i = 0; i < TASKS; i++) {
        struct couple p;
        struct oracles_parameter all[ORACLES_PARAMETERS];
        make_couple(&p, &tasks[i], "eta0 = 0.1");
        int blocks = oracle_transformer_blocks(p.oracle);
        assert_true(blocks <= ORACLES_PARAMETERS);
        for (int k = 0; k < blocks; k++) {
            all[k].w = oracle_transformer_block(p.oracle, k, &all[k].count);
            all[k].rate = p.oracle->eta0 * oracle_transformer_rate(p.oracle, k);
        }
        oracles_judge(p.oracle, loss_of, step_of, all, blocks, 7, tasks[i].network);
        free_couple(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_by_differences),
        cmocka_unit_test(gradient_by_differences),
        cmocka_unit_test(equals_oracle),
        cmocka_unit_test(optimizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
