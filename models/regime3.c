/* Regime III: width N, number of experts M = kappa N and expert width N_e = iota N grow together
 * (muP and MSSP; docs/theory/regime3.md).
 *
 *     h1 = W1 x/sqrt D                    bottom, N sites              x1 = sigma(h1)
 *     psi = Q x1                          experts, M = kappa N         phi = gate(psi)
 *     h_ij                                pairs, M N_e                 x2_ij = phi_i sigma(h_ij)
 *     h3                                  top, N                       f = <w, h3>/gamma0
 *
 * muP, independent experts:    h = W_in x1                 h3 = W_out x2
 * MSSP, equal at the start:    h_ij = (A_in x1)_j + (P_in x1)_ij
 *                              h3 = A_out E_i[x2_ij] + P_out x2
 * with A_in, A_out over the hidden index j alone (units, N_e), never learning, and P_in, P_out the
 * learned parts, zero at the start.
 *
 *     b = W_out^T w   or   b_ij = (A_out^T w)_j + (P_out^T w)_ij
 *     a_i = (iota/kappa) <b_ij sigma(h_ij)>_j                          g_psi: gate.h
 *     g_ij = phi_i b_ij sigma'(h_ij)
 *     z1 = W_in^T g (or A_in^T E_i[g_ij] + P_in^T g) + Q^T g_psi       g1 = sigma'(h1) z1
 *
 * Rates: Q kappa; into pairs 1/kappa; out of pairs iota/kappa; W1, w 1. The gradient with respect
 * to h_ij is g_ij/M: so s_b/s_f of the maps of pairs is 1/M and M. In the limit pairs have
 * expert_sites x unit_sites sites and, in muP, the normals of the units, the same for all experts.
 */
#include "models/regime3.h"
#include "models/gate.h"
#include "models/plain.h"

#include <math.h>

struct regime3 {
    struct map *A_in, *A_out, *in, *out; /* in, out: W or P */
    struct thin *W1, *w;
    struct gate gate;
    double to_a; /* a = to_a times the sum over the units of an expert */
    struct rows h1, x1, slope1, z1, z_in, g1;
    struct rows h_units, x_units, g_units, b_units;
    struct rows h, x, slope, x2, g, b;
    struct rows h3, h3_in;
};

static const char *regime3_check(const struct network *network, int N, int expert_sites,
                                 const char **key) {
    double M = N ? network->kappa * N : expert_sites, N_e = N ? network->iota * N : 1;
    *key = "parameterization";
    if (network->parameterization == PARAMETERIZATION_SP)
        return "must be mup or mssp here";
    *key = "kappa";
    if (fabs(M - round(M)) > 1e-9 * M || M < 0.5)
        return "kappa times the width must be a whole number of experts, at least 1";
    *key = "iota";
    if (fabs(N_e - round(N_e)) > 1e-9 * N_e || N_e < 0.5)
        return "iota times the width must be a whole number of hidden units, at least 1";
    return network->gate == GATE_CONSTANT ? NULL : gate_check(network, round(M), key);
}

struct regime3_populations {
    struct population *bottom, *experts, *units, *pairs, *top;
};

static int regime3_maps(struct net *net, const struct regime3_populations *on, struct err *err) {
    struct regime3 *s = net->state;
    const struct network *network = net->setup.network;
    bool mssp = network->parameterization == PARAMETERIZATION_MSSP;
    double M = on->experts->size, iota = network->iota, a0 = mssp ? 0 : 1;
    struct map_declaration A_in = {"A_in", on->bottom, on->units, 1, 1, 1, false};
    struct map_declaration A_out = {"A_out", on->units, on->top, 1, sqrt(iota), sqrt(iota), true};
    struct map_declaration in = {"W_in", on->bottom, on->pairs, a0, 1, 1 / M, false};
    struct map_declaration out = {"W_out",        on->pairs,      on->top, a0,
                                  sqrt(iota / M), sqrt(iota * M), true};
    TRY(gate_init(&s->gate, net, on->bottom, on->experts, err));
    if (mssp) {
        in.name[0] = out.name[0] = 'P';
        TRY(net_map(net, A_in, &s->A_in, err));
        TRY(net_map(net, A_out, &s->A_out, err));
    }
    TRY(net_map(net, in, &s->in, err));
    TRY(net_map(net, out, &s->out, err));
    TRY(net_read_in(net, on->bottom, &s->W1, err));
    return net_thin(net, on->top, 1, net_read_out_amplitude(net), &s->w, err);
}

static int regime3_rows(struct net *net, const struct regime3_populations *on, struct err *err) {
    struct regime3 *s = net->state;
    int P = net->setup.P;
    struct rows *const bottom[] = {&s->h1, &s->x1, &s->slope1, &s->z1, &s->z_in, &s->g1};
    struct rows *const units[] = {&s->h_units, &s->x_units, &s->g_units};
    struct rows *const pairs[] = {&s->h, &s->x, &s->slope, &s->x2, &s->g};
    struct rows *const top[] = {&s->h3, &s->h3_in};
    TRY(net_all_rows(net, on->bottom, P, bottom, sizeof bottom / sizeof *bottom, err));
    TRY(net_all_rows(net, on->pairs, P, pairs, sizeof pairs / sizeof *pairs, err));
    TRY(net_all_rows(net, on->top, P, top, s->A_out ? 2 : 1, err));
    TRY(net_rows(net, on->pairs, 1, &s->b, err));
    if (!s->A_in)
        return CODE_OK;
    TRY(net_all_rows(net, on->units, P, units, sizeof units / sizeof *units, err));
    return net_rows(net, on->units, 1, &s->b_units, err);
}

static void regime3_kernels(struct net *net) {
    struct regime3 *s = net->state;
    double kk = pow(net->setup.network->kappa, 2);
    const struct kernel common[] = {
        {"Phi1", "feature kernel of the bottom layer", "<x1 x1>, x1 = sigma(h1)", s->x1, 1, false},
        {"Phi3", "feature kernel of the top layer", "<h3 h3>", s->h3, 1, false},
        {"G1", "gradient kernel of the bottom layer", "<g1 g1>, g1 = sigma'(h1) z1", s->g1, 1,
         false},
        {"G3", "gradient kernel of the top layer; w depends on no input", "<w w>",
         array_all(&s->w->W), 1, true},
        {"Phibar", "feature kernel of the expert units", "<phi_i sigma(h_ij) phi_i sigma(h_ij)>",
         s->x2, 1, false},
        {"Gbar", "gradient kernel of the expert units", "<g_ij g_ij>, g_ij = phi_i b_ij sigma'",
         s->g, 1, false},
        {"PhiE", "feature kernel of the expert units without gates", "<sigma(h_ij) sigma(h_ij)>",
         s->x, 1, false},
    };
    const struct kernel shared[] = {
        {"Phitil", "feature kernel of the expert means", "<E_i[phi_i sigma(h_ij)]^2> over j",
         s->x_units, 1, false},
        {"Gtil", "gradient kernel of the expert means", "<E_i[g_ij]^2> over j", s->g_units, 1,
         false},
    };
    const struct kernel router[] = {
        {"G1phi", "gradient kernel of the router logits", "kappa^2 <g_psi g_psi>", s->gate.g_psi,
         kk, false},
        {"phit2", "second moments of the gates", "<phi phi>", s->gate.phi, 1, false},
    };
    for (size_t k = 0; k < sizeof common / sizeof *common; k++)
        net_kernel(net, common[k]);
    for (size_t k = 0; k < 2 && s->A_in; k++)
        net_kernel(net, shared[k]);
    for (size_t k = 0; k < 2 && s->gate.Q; k++)
        net_kernel(net, router[k]);
}

static int regime3_init(struct net *net, struct err *err) {
    struct regime3 *s = net->state;
    const struct net_setup *setup = &net->setup;
    struct regime3_populations on;
    size_t S = (size_t)setup->sites, S_i = (size_t)setup->expert_sites;
    size_t S_j = (size_t)setup->unit_sites;
    double kappa = setup->network->kappa, iota = setup->network->iota;
    TRY(net_population(net, "bottom", 1, S, 1, &on.bottom, err));
    TRY(net_population(net, "experts", kappa, S_i, 1, &on.experts, err));
    TRY(net_population(net, "units", iota, S_j, 1, &on.units, err));
    int group = (int)on.units->sites;
    TRY(net_population(net, "pairs", iota * on.experts->size, S_i * S_j, group, &on.pairs, err));
    TRY(net_population(net, "top", 1, S, 1, &on.top, err));
    on.pairs->units = on.units;
    TRY(regime3_maps(net, &on, err));
    TRY(regime3_rows(net, &on, err));
    s->to_a = iota / kappa / group;

    struct rows w = array_all(&s->w->W);
    struct adam_scale adam = {1, setup->gamma0};
    net_parameter(net,
                  (struct parameter){.map = s->in, .rate = 1 / kappa, .adam = adam, .y = s->g});
    net_parameter(net,
                  (struct parameter){.map = s->out, .rate = iota / kappa, .adam = adam, .y = w});
    net_ends(net, s->W1, s->g1, s->w, s->h3);
    regime3_kernels(net);
    return CODE_OK;
}

static int regime3_forward(struct net *net, double *f, struct err *err) {
    struct regime3 *s = net->state;
    const struct backend *backend = net->setup.backend;
    enum fn sigma = net_activation(net);
    net_read(net, s->W1, s->h1);
    rows_fn(sigma, s->h1, s->x1, s->slope1);
    TRY(gate_forward(&s->gate, s->x1, err));
    TRY(map_forward(s->in, s->x1, s->h, err));
    if (s->A_in) {
        TRY(map_forward(s->A_in, s->x1, s->h_units, err));
        backend->tile(s->h_units, s->x); /* x is free yet */
        rows_add(NULL, s->x, s->h);
    }
    rows_fn(sigma, s->h, s->x, s->slope);
    rows_multiply(s->gate.phi, s->x, s->x2);
    TRY(map_forward(s->out, s->x2, s->h3, err));
    if (s->A_out) {
        backend->tile_mean(s->x2, s->x_units);
        TRY(map_forward(s->A_out, s->x_units, s->h3_in, err));
        rows_add(NULL, s->h3_in, s->h3);
    }
    net_read_out(net, s->w, s->h3, f);
    return CODE_OK;
}

static int regime3_backward(struct net *net, struct err *err) {
    struct regime3 *s = net->state;
    const struct backend *backend = net->setup.backend;
    struct rows w = array_all(&s->w->W), tiled = rows_part(s->h, 0, 1); /* h is free now */
    TRY(map_backward(s->out, w, s->b, err));
    if (s->A_out) {
        TRY(map_backward(s->A_out, w, s->b_units, err));
        backend->tile(s->b_units, tiled);
        rows_add(NULL, tiled, s->b);
    }
    rows_multiply(s->slope, s->b, s->g);
    rows_multiply(s->gate.phi, s->g, s->g);
    TRY(map_backward(s->in, s->g, s->z1, err));
    if (s->A_in) {
        backend->tile_mean(s->g, s->g_units);
        TRY(map_backward(s->A_in, s->g_units, s->z_in, err));
        rows_add(NULL, s->z_in, s->z1);
    }
    TRY(gate_backward(&s->gate, s->to_a, s->x, s->b, s->h, s->z_in, s->z1, err));
    rows_multiply(s->slope1, s->z1, s->g1);
    return CODE_OK;
}

/* W[i][j][:] += A[j][:] for all experts i; A [N_e][N]. */
static int add_shared_in(const struct map *A, const struct plain *p, struct err *err) {
    size_t row = (size_t)p->N_e * (size_t)p->N;
    double *values;
    TRY(base_alloc(&values, row, sizeof *values, err));
    int code = plain_map(A, 1, values, err);
    for (size_t k = 0; k < row * (size_t)p->M; k++)
        p->W2[k] += values[k % row];
    free(values);
    return code;
}

/* W[n][i][:] += A[n][:] for all experts i; A [N][N_e]. */
static int add_shared_out(const struct map *A, const struct plain *p, struct err *err) {
    size_t N_e = (size_t)p->N_e, row = (size_t)p->M * N_e;
    double *values;
    TRY(base_alloc(&values, (size_t)p->N * N_e, sizeof *values, err));
    int code = plain_map(A, 1, values, err);
    for (size_t k = 0; k < row * (size_t)p->N; k++)
        p->W3[k] += values[k / row * N_e + k % N_e];
    free(values);
    return code;
}

/* The same for A s1 in the limit; A never learns. */
static int add_shared_parts(const struct map *A, const struct plain *p, struct err *err) {
    size_t N_e = (size_t)p->N_e, row = (size_t)p->M * N_e, count = (size_t)p->P * N_e;
    double *values;
    TRY(base_alloc(&values, 2 * count, sizeof *values, err));
    int code = plain_parts(A, p->P, values, values + count, err);
    for (size_t k = 0; k < row * (size_t)p->P; k++)
        p->W2_init[k] += values[k / row * N_e + k % N_e];
    free(values);
    return code;
}

/* W2 = W_in, or A_in + P_in; W3 = M W_out, or A_out + M P_out; agg = 1/M. */
static int regime3_plain(const struct net *net, struct plain *plain, struct err *err) {
    const struct regime3 *s = net->state;
    int M = (int)s->gate.phi.array->sites;
    TRY(plain_init(plain, net, s->w, M, s->x.array->group, err));
    TRY(gate_plain(&s->gate, plain, err));
    plain_rows(s->h1, plain->h1);
    plain_rows(s->x1, plain->s1);
    plain_rows(s->h3, plain->h3);
    plain_rows(s->x, plain->s2);
    plain_rows(s->slope, plain->slope2);
    TRY(plain_map(s->in, 1, plain->W2, err));
    TRY(plain_map(s->out, M, plain->W3, err));
    TRY(plain_parts(s->in, plain->P, plain->W2_init, plain->W2_eff, err));
    if (!s->A_in)
        return CODE_OK;
    if (plain->W2_init)
        return add_shared_parts(s->A_in, plain, err);
    if (!plain->W2)
        return CODE_OK;
    TRY(add_shared_in(s->A_in, plain, err));
    return add_shared_out(s->A_out, plain, err);
}

const struct model model_regime3 = {
    .name = "regime3",
    .doc = "width, number of experts and expert width to infinity together",
    .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
              "Parameterization, appendices N (MSSP) and O (muP), corrected as in "
              "docs/theory/regime3.md",
    .keys = "parameterization read_out activation gate beta kappa iota rho aggregation",
    .solver_keys = "expert_sites unit_sites",
    .state_size = sizeof(struct regime3),
    .check = regime3_check,
    .init = regime3_init,
    .forward = regime3_forward,
    .backward = regime3_backward,
    .plain = regime3_plain,
};
