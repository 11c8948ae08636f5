/* Regime II: width N and number of experts M grow together, kappa = M/N and the expert width N_e
 * stay fixed (muP and MSSP; docs/theory/regime2.md).
 *
 *     h1 = W1 x/sqrt D                  bottom, N sites                x1 = sigma(h1)
 *     psi = Q x1                        experts, M = kappa N           phi = gate(psi)
 *     h_in = W_in x1                    units, M N_e                   x2_ij = phi_i sigma(h_in_ij)
 *     h3 = W_out x2                     top, N                         f = <w, h3>/gamma0
 *
 *     b = W_out^T w      a_i = sum_j b_ij sigma(h_in_ij)      g_psi: gate.h
 *     g_in_ij = phi_i b_ij sigma'(h_in_ij)
 *     z1 = Q^T g_psi + W_in^T g_in      g1 = sigma'(h1) z1
 *
 * Rates: Q kappa, W_in lambda_in (1 or kappa), W_out, W1, w 1. muP is MSSP with W_out(0) smaller by
 * M^{-1/2}: then nothing of its random part is left in the limit. */
#include "models/regime2.h"
#include "models/gate.h"
#include "models/plain.h"

#include <math.h>

struct regime2 {
    struct map *W_in, *W_out;
    struct thin *W1, *w;
    struct gate gate;
    struct rows h1, x1, slope1, h_in, x_in, slope_in, x2, h3;
    struct rows b, g_in, z1, z_in, g1;
};

static const char *regime2_check(const struct network *network, int N, int expert_sites,
                                 const char **key) {
    double M = N ? network->kappa * N : expert_sites;
    *key = "parameterization";
    if (network->parameterization == PARAMETERIZATION_SP)
        return "must be mup or mssp here";
    *key = "expert_width";
    if (!network->expert_width)
        return "experts need at least one hidden unit";
    *key = "kappa";
    if (fabs(M - round(M)) > 1e-9 * M || M < 0.5)
        return "kappa times the width must be a whole number of experts, at least 1";
    return network->gate == GATE_CONSTANT ? NULL : gate_check(network, round(M), key);
}

static int regime2_init(struct net *net, struct err *err) {
    struct regime2 *s = net->state;
    const struct net_setup *setup = &net->setup;
    const struct network *network = setup->network;
    struct population *bottom, *experts, *units, *top;
    int P = setup->P, N_e = network->expert_width;
    size_t S = (size_t)setup->sites, M = (size_t)setup->expert_sites;
    double kappa = network->kappa;
    TRY(net_population(net, "bottom", 1, S, 1, &bottom, err));
    TRY(net_population(net, "experts", kappa, M, 1, &experts, err));
    TRY(net_population(net, "units", kappa * N_e, M * (size_t)N_e, N_e, &units, err));
    TRY(net_population(net, "top", 1, S, 1, &top, err));

    double a0 = network->parameterization == PARAMETERIZATION_MUP ? 1 / sqrt(experts->size) : 1;
    TRY(gate_init(&s->gate, net, bottom, experts, err));
    struct map_declaration in = {"W_in", bottom, units, 1, 1, 1, false};
    struct map_declaration out = {"W_out", units, top, a0, 1, 1, true};
    TRY(net_map(net, in, &s->W_in, err));
    TRY(net_map(net, out, &s->W_out, err));
    TRY(net_read_in(net, bottom, &s->W1, err));
    TRY(net_thin(net, top, 1, net_read_out_amplitude(net), &s->w, err));

    struct rows *on_bottom[] = {&s->h1, &s->x1, &s->slope1, &s->z1, &s->z_in, &s->g1};
    struct rows *on_units[] = {&s->h_in, &s->x_in, &s->slope_in, &s->x2, &s->g_in};
    TRY(net_all_rows(net, bottom, P, on_bottom, sizeof on_bottom / sizeof *on_bottom, err));
    TRY(net_all_rows(net, units, P, on_units, sizeof on_units / sizeof *on_units, err));
    TRY(net_rows(net, units, 1, &s->b, err));
    TRY(net_rows(net, top, P, &s->h3, err));

    struct rows w = array_all(&s->w->W);
    double lambda_in = network->lambda_in == LAMBDA_IN_KAPPA ? kappa : 1;
    double gamma0 = setup->gamma0;
    net_parameter(
        net, (struct parameter){
                 .map = s->W_in, .rate = lambda_in, .adam = {1, gamma0 / kappa}, .y = s->g_in});
    net_parameter(net, (struct parameter){.map = s->W_out, .rate = 1, .adam = {1, gamma0}, .y = w});
    net_ends(net, s->W1, s->g1, s->w, s->h3);

    double kk = kappa * kappa;
    const struct kernel kernels[] = {
        {"Phi1", "feature kernel of the bottom layer", "<x1 x1>, x1 = sigma(h1)", s->x1, 1, false},
        {"Phi3", "feature kernel of the top layer", "<h3 h3>", s->h3, 1, false},
        {"G1", "gradient kernel of the bottom layer", "<g1 g1>, g1 = sigma'(h1) z1", s->g1, 1,
         false},
        {"G3", "gradient kernel of the top layer; w depends on no input", "<w w>", w, 1, true},
        {"Phib", "feature kernel of the expert units",
         "<phi_i sigma(h_in_ij) phi_i sigma(h_in_ij)>", s->x2, 1, false},
        {"Gb", "gradient kernel of the expert units",
         "kappa^2 <g_in g_in>, g_in_ij = phi_i b_ij sigma'(h_in_ij)", s->g_in, kk, false},
        {"Gphi", "gradient kernel of the router logits", "kappa^2 <g_psi g_psi>", s->gate.g_psi, kk,
         false},
    };
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        if (kernels[k].rows.array) /* no Gphi without a router */
            net_kernel(net, kernels[k]);
    return CODE_OK;
}

static int regime2_forward(struct net *net, double *f, struct err *err) {
    struct regime2 *s = net->state;
    enum fn sigma = net_activation(net);
    net_read(net, s->W1, s->h1);
    rows_fn(sigma, s->h1, s->x1, s->slope1);
    TRY(gate_forward(&s->gate, s->x1, err));
    TRY(map_forward(s->W_in, s->x1, s->h_in, err));
    rows_fn(sigma, s->h_in, s->x_in, s->slope_in);
    rows_multiply(s->gate.phi, s->x_in, s->x2);
    TRY(map_forward(s->W_out, s->x2, s->h3, err));
    net_read_out(net, s->w, s->h3, f);
    return CODE_OK;
}

static int regime2_backward(struct net *net, struct err *err) {
    struct regime2 *s = net->state;
    TRY(map_backward(s->W_out, array_all(&s->w->W), s->b, err));
    rows_multiply(s->slope_in, s->b, s->g_in);
    rows_multiply(s->gate.phi, s->g_in, s->g_in);
    TRY(map_backward(s->W_in, s->g_in, s->z1, err));
    /* h_in is free now */
    TRY(gate_backward(&s->gate, 1, s->x_in, s->b, s->h_in, s->z_in, s->z1, err));
    rows_multiply(s->slope1, s->z1, s->g1);
    return CODE_OK;
}

/* W3 = M W_out, agg = 1/M. */
static int regime2_plain(const struct net *net, struct plain *plain, struct err *err) {
    const struct regime2 *s = net->state;
    int M = (int)s->gate.phi.array->sites;
    TRY(plain_init(plain, net, s->w, M, net->setup.network->expert_width, err));
    plain->b_scale = 1;
    TRY(gate_plain(&s->gate, plain, err));
    plain_rows(s->h1, plain->h1);
    plain_rows(s->x1, plain->s1);
    plain_rows(s->h3, plain->h3);
    plain_rows(s->x_in, plain->s2);
    plain_rows(s->slope_in, plain->slope2);
    TRY(plain_map(s->W_in, 1, plain->W2, err));
    TRY(plain_parts(s->W_in, plain->P, plain->W2_init, plain->W2_eff, err));
    return plain_map(s->W_out, M, plain->W3, err);
}

const struct model model_regime2 = {
    .name = "regime2",
    .doc = "width and number of experts to infinity together, expert width fixed",
    .source = "How to Scale Mixture-of-Experts: From muP to the Maximally Scale-Stable "
              "Parameterization, appendices L (MSSP) and M (muP), corrected as in "
              "docs/theory/regime2.md",
    .keys = "parameterization read_out activation gate beta kappa expert_width rho aggregation "
            "lambda_in",
    .solver_keys = "expert_sites",
    .state_size = sizeof(struct regime2),
    .check = regime2_check,
    .init = regime2_init,
    .forward = regime2_forward,
    .backward = regime2_backward,
    .plain = regime2_plain,
};
