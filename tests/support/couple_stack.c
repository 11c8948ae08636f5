#include "tests/support/couple.h"
#include "tests/oracles/oracle_stack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

COUPLE_FUNCTIONS(oracle_stack)

static void make(struct couple *p) {
    const struct config *c = &p->run.config;
    const struct network *network = &c->network;
    const struct data *data = &p->run.data;
    int regime = network->block.mixture + 1, N = p->net.setup.N;
    int M = regime == 1 ? network->experts.count : (int)lround(network->routing.kappa * N);
    int N_e = regime == 2 ? network->experts.width : (int)lround(network->experts.iota * N);
    struct oracle_stack *o = p->oracle =
        oracle_stack_new(regime, data->P, data->D, N, network->block.depth, M, N_e,
                         regime == 1 ? network->experts.layers : 2);
    bool ours = network->experts.activation > 0; /* 0: that of the network */
    o->activation = oracles_activation(network->activation);
    o->expert_activation =
        ours ? oracles_activation(network->experts.activation - 1) : o->activation;
    o->gate = couple_gate(p);
    o->loss = couple_loss(p);
    o->stream = network->block.stream;
    o->before = network->block.block_norm & 1;
    o->after = network->block.block_norm & 2;
    o->biased = regime == 1 && network->routing.bias == BIAS_TRAINED;
    o->activated = regime == 1 && network->experts.output == EXPERT_OUTPUT_ACTIVATED;
    o->gamma0 = c->training.gamma0;
    o->beta = network->routing.beta;
    o->rho = network->routing.rho;
    o->router_rate = network->routing.router_rate;
    o->lambda_in = network->routing.lambda_in == LAMBDA_IN_KAPPA ? network->routing.kappa : 1;
    o->branch_power = network->block.branch_power;
    p->X = o->X, p->y = o->y, p->f0 = o->f0;
    p->optimizer = oracle_optimizer_stack(o);
}

/* Matrix k of the experts of block l, which acts as s_f W: what the page multiplies is taken off.
 */
static int expert_parts(const struct oracle_stack *o, int l, int k, struct couple_part *part) {
    static const char *const names[2][3] = {{"A_in", "P_in", "W_in"}, {"A_out", "P_out", "W_out"}};
    int m = oracle_stack_source(o, k), n = oracle_stack_target(o, k);
    double out = o->regime == 2 ? sqrt(o->M * o->N_e) : o->M * sqrt(o->N);
    for (int i = 0; i < o->M && o->regime == 1; i++) {
        part[i] = couple_part(sqrt(m), "W%d_%d_%d", k + 2, l, i);
        part[i].first = i * n * m;
        part[i].axis[0] = part[i].axis[1] = (struct couple_axis){1, 0, 0};
        part[i].axis[2] = (struct couple_axis){n * m, 1, 1};
    }
    for (int i = 0; i < 3 && o->regime > 1; i++) {
        part[i] = couple_part(k && i ? out : sqrt(o->N), "%s_%d", names[k][i], l);
        couple_experts(&part[i], o->M, n, m, k, i == 0);
    }
    return o->regime == 1 ? o->M : 3;
}

static int parts(const struct couple *p, const double *w, struct couple_part *part) {
    const struct oracle_stack *o = p->oracle;
    for (int l = 0; l < o->L; l++) {
        const struct oracle_stack_block *block = &o->block[l];
        if (w == block->Q)
            part[0] = couple_part(o->regime == 1 ? 1 : sqrt(o->N), "Q_%d", l);
        if (w == block->bias)
            part[0] = couple_part(1, "b_%d", l);
        if (w == block->Q || w == block->bias)
            return 1;
        for (int k = 0; k < o->E; k++)
            if (w == block->W[k])
                return expert_parts(o, l, k, part);
    }
    return 0;
}

/* --- kernels --------------------------------------------------------------------------------- */

/* rows [P][sites] of the page, of what a kernel is of; returns sites. */
struct wanted {
    double *rows, scale;
    int sites;
};

static struct wanted plain(const double *rows, int P, int sites, double scale) {
    struct wanted w = {calloc((size_t)(P * sites), sizeof(double)), scale, sites};
    memcpy(w.rows, rows, (size_t)(P * sites) * sizeof *rows);
    return w;
}

/* phi_i sigma(h_ij), or without phi; their means over i where `mean`. */
static struct wanted units(const struct oracle_stack *o, const struct oracle_stack_block *b,
                           bool gated, bool mean) {
    int all = o->M * o->N_e, sites = mean ? o->N_e : all;
    struct wanted w = {calloc((size_t)(o->P * sites), sizeof(double)), 1, sites};
    for (int mu = 0; mu < o->P; mu++)
        for (int u = 0; u < all; u++)
            w.rows[mu * sites + (mean ? u % o->N_e : u)] +=
                oracle_sigma(o->expert_activation, b->h[0][mu * all + u]) *
                (gated ? b->phi[mu * o->M + u / o->N_e] : 1) / (mean ? o->M : 1);
    return w;
}

/* E_i[g_ij] */
static struct wanted mean_gradient(const struct oracle_stack *o,
                                   const struct oracle_stack_block *b) {
    int all = o->M * o->N_e;
    struct wanted w = {calloc((size_t)(o->P * o->N_e), sizeof(double)), 1, o->N_e};
    for (int k = 0; k < o->P * all; k++)
        w.rows[k / all * o->N_e + k % o->N_e] += b->g_h[0][k];
    return w;
}

/* Of expert i of regime 1, at matrix k: o(h) or the cotangent. */
static struct wanted expert(const struct oracle_stack *o, const struct oracle_stack_block *b,
                            bool gradient, int k, int i) {
    int n = oracle_stack_target(o, k);
    struct wanted w = {calloc((size_t)(o->P * n), sizeof(double)), 1, n};
    for (int mu = 0; mu < o->P; mu++)
        for (int a = 0; a < n; a++) {
            int at = (mu * o->M + i) * n + a;
            w.rows[mu * n + a] =
                gradient ? b->g_h[k][at] : oracle_sigma(o->expert_activation, b->h[k][at]);
        }
    return w;
}

static struct wanted find_wanted(const struct oracle_stack *o, const char *name) {
    int P = o->P, all = o->M * o->N_e, i = 0, k = 0, l = 0;
    double branch = oracle_stack_branch(o), kappa = (double)o->M / o->N,
           own = 1 / (branch * branch);
    const char *end = strchr(name, '_');
    size_t length = end ? (size_t)(end - name) : strlen(name);
    char base[24];
    snprintf(base, sizeof base, "%.*s", (int)length, name);
    if (end)
        sscanf(end, "_%d_%d", &l, &i);
    const struct oracle_stack_block *b = &o->block[l];
    struct wanted w;
    if (!strcmp(base, "Cw"))
        return plain(o->w, 1, o->N, 1);
    if (!strcmp(base, "Ch") || !strcmp(base, "Cg"))
        return plain((base[1] == 'h' ? o->x : o->g) + l * P * o->N, P, o->N, 1);
    if (!strcmp(base, "Phib") || !strcmp(base, "Phibar") || !strcmp(base, "PhiE"))
        return units(o, b, base[3] == 'b', false);
    if (!strcmp(base, "Phitil"))
        return units(o, b, true, true);
    if (!strcmp(base, "phit2"))
        return plain(b->phi, P, o->M, 1);
    if (!strcmp(base, "Gphi") || !strcmp(base, "G1phi"))
        return plain(b->g_psi, P, o->M, own * kappa * kappa);
    if (!strcmp(base, "Gb") || !strcmp(base, "Gbar"))
        return plain(b->g_h[0], P, all, own * (base[2] ? o->M * o->M : kappa * kappa));
    if (!strcmp(base, "Gtil"))
        w = mean_gradient(o, b);
    else if (sscanf(base, "Phi%d", &k) == 1 || sscanf(base, "G%d", &k) == 1)
        w = expert(o, b, base[0] == 'G', k - 2, i);
    else
        fail_msg("what is %s?", name);
    w.scale = base[0] == 'G' ? own : 1;
    return w;
}

static double kernel(const struct couple *p, const char *name, int mu, int nu) {
    struct wanted w = find_wanted(p->oracle, name);
    double sum = 0;
    for (int n = 0; n < w.sites; n++)
        sum += w.rows[mu * w.sites + n] * w.rows[nu * w.sites + n] * w.scale / w.sites;
    free(w.rows);
    return sum;
}

static const char *const settings[] = {
    "mixture = regime2\nkappa = 0.5\nexpert_width = 2\ngate = softmax",
    "mixture = regime3\nkappa = 0.5\niota = 0.25\nbranch_power = 0.5",
    "mixture = regime1\nexperts = 2\nbias = trained\nbiases = .6 -.6\nstream = no", NULL};

COUPLE_ORACLE(stack, .kernels = NULL);
