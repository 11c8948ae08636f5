#include "tests/support/couple.h"
#include "tests/oracles/oracle_transformer.h"

#include <math.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle_transformer)

static struct oracle_transformer *make_of_shape(const struct couple *p) {
    const struct network *network = &p->run.config.network;
    const struct data *data = &p->run.data;
    int N = p->net.setup.N, units = (int)lround(network->attention.width * N);
    bool many = network->attention.head_limit == HEADS_MANY;
    struct oracle_sizes sizes = {.P = data->P,
                                 .n = data->n,
                                 .C = data->C,
                                 .K = p->run.inputs.K,
                                 .N = N,
                                 .L = network->block.depth};
    sizes.V = network->routing.bias_per == BIAS_PER_TOKEN ? data->V : 1;
    sizes.H = many ? units / network->attention.head_width : network->attention.heads;
    sizes.N_k = units / sizes.H;
    sizes.E = network->experts.count;
    sizes.N_e = (int)lround(network->experts.iota * N);
    return oracle_transformer_new(&sizes);
}

static void make(struct couple *p) {
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    struct oracle_transformer *o = p->oracle = make_of_shape(p);
    int R = o->P * o->n;
    o->activation = oracles_activation(network->activation);
    o->loss = couple_loss(p);
    o->gate = couple_gate(p);
    o->top = (int)lround(network->routing.rho * o->E);
    o->causal = network->attention.causal;
    o->norm = network->block.norm;
    o->final_norm = network->block.final_norm;
    o->per_token = p->run.data.per_token;
    o->gated = network->experts.gated;
    o->gamma0 = c->training.gamma0;
    o->b = pow(o->L, -network->block.branch_power);
    o->beta_A = network->attention.beta;
    o->beta = network->routing.beta;
    o->kappa_r = network->routing.router_rate;
    o->kappa_b = network->routing.bias == BIAS_TRAINED;
    for (int k = 0; k < o->L * o->V * o->E && network->routing.bias; k++)
        o->bias[k] = network->routing.biases.value[k % (o->V * o->E)];
    for (int r = 0; r < R && network->routing.bias_per == BIAS_PER_TOKEN; r++)
        o->token[r] = p->run.data.token[r];
    coordinates_take(&p->run.inputs, &p->run.data, 0, (size_t)R, o->A);
    p->y = o->y, p->f0 = o->f0;
    p->optimizer = oracle_optimizer_transformer(o);
}

/* The matrices [each][N] of heads or experts, which the oracle has side by side in one [units][N],
 * or on the way back those [N][each] in one [N][units]; the only one has no number of its own. */
static int unit_parts(const char *name, int l, int N, int units, int count, bool back,
                      struct couple_part *part) {
    int each = units / count;
    for (int i = 0; i < count; i++) {
        part[i] =
            count > 1 ? couple_part(1, "%s_%d_%d", name, l, i) : couple_part(1, "%s_%d", name, l);
        part[i].first = back ? i * each : i * each * N;
        part[i].axis[0] = (struct couple_axis){1, 0, 0};
        part[i].axis[1] = (struct couple_axis){N, back ? units : 1, back ? each : 1};
        part[i].axis[2] = (struct couple_axis){each, back ? 1 : N, back ? 1 : N};
    }
    return count;
}

static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    static const char *const names[] = {"W_Q", "W_K", "W_V", "W_O", "R", "b", "W1", "W3", "W2"};
    struct oracle_transformer *o = p->oracle;
    int block = 0, count;
    while (oracle_transformer_block(o, block, &count) != w || !count)
        block++;
    if (block == 0) {
        part[0] = couple_part(1, "W0");
        return 1;
    }
    int l = (block - 2) / ORACLE_PER_BLOCK, kind = (block - 2) % ORACLE_PER_BLOCK;
    bool fixed = p->run.config.network.attention.head_limit == HEADS_FIXED;
    if (kind <= ORACLE_W_O)
        return unit_parts(names[kind], l, o->N, o->H * o->N_k, fixed ? o->H : 1, kind == ORACLE_W_O,
                          part);
    if (kind >= ORACLE_W_1)
        return unit_parts(names[kind], l, o->N, o->E * o->N_e, o->E, kind == ORACLE_W_2, part);
    part[0] = couple_part(1, "%s_%d", names[kind], l);
    return 1;
}

/* What the page has in cotangents and the net, with one output of an input, has not. */
static double carried(const struct couple *p, int row) {
    const struct oracle_transformer *o = p->oracle;
    return p->net.output.loss_in_cotangent ? 1 : o->Delta[row];
}

static int kernels(const struct couple *p) {
    const struct oracle_transformer *o = p->oracle;
    return 2 * (o->L + 1 + (o->E ? o->L : 0));
}

static double kernel(const struct couple *p, const char *name, int a, int b) {
    int l = strrchr(name, '_')[1] - '0', place = 2 * l + (strstr(name, "_mid_") ? 1 : 0);
    return name[1] == 'h'
               ? oracle_transformer_hh(p->oracle, place, a, b)
               : oracle_transformer_gg(p->oracle, place, a, b) / (carried(p, a) * carried(p, b));
}

/* Number i of a series that is shown of a head, or of all H of them, their mean; head h has its
 * numbers `size` behind those of the one before. */
static double of_heads(const double *all, int i, size_t size, int head, int H) {
    double sum = 0;
    if (head >= 0)
        return all[(size_t)head * size + (size_t)i];
    for (int h = 0; h < H; h++)
        sum += all[(size_t)h * size + (size_t)i];
    return sum / H;
}

/* Logits, attention weights and gates. */
static void more(const struct couple *p, int t, double tolerance) {
    const struct oracle_transformer *o = p->oracle;
    int R = o->P * o->n, found = 0;
    for (int k = 0; k < p->net.numbers.count; k++) {
        const struct numbers *x = &p->net.numbers.item[k];
        char name[32] = "";
        int l = 0, head = -1;
        sscanf(x->name, "%31[a-z]_%d_%d", name, &l, &head);
        bool pair = !strcmp(name, "logits") || !strcmp(name, "attention"),
             gradient = !strcmp(name, "gphi");
        int width = pair ? o->n : o->E;
        const double *all = !strcmp(name, "logits")      ? o->logit
                            : !strcmp(name, "attention") ? o->a
                            : !strcmp(name, "psi")       ? o->psi
                            : !strcmp(name, "p")         ? o->p
                            : gradient                   ? o->gphi
                                                         : NULL;
        if (!all)
            continue; /* router_entropy */
        found++;
        all += (pair ? l * o->H : l) * R * width;
        for (int i = 0; i < R * width; i++) {
            double want = pair       ? of_heads(all, i, (size_t)R * (size_t)width, head, o->H)
                          : gradient ? o->b * all[i] / carried(p, i / width)
                                     : all[i];
            CHECK_ABS(x->values[i], want, tolerance * fmax(1, fabs(want)), "%s: %s[%d] at %d",
                      p->what, x->name, i, t);
        }
    }
    bool fixed = p->run.config.network.attention.head_limit == HEADS_FIXED,
         routed = o->E && o->gate != ORACLE_CONSTANT;
    int shown = !fixed ? 0 : o->H > 1 ? o->H + 1 : 1; /* of each head, and of all */
    assert_int_equal(found, o->L * (2 * shown + (routed ? 3 : 0)));
}

static const char *const settings[] = {"experts = 2\ngate = softmax\nq0 = 1\ndepth = 2", NULL};

COUPLE_ORACLE(transformer, .coordinates = true, .kernels = kernels, .more = more);
