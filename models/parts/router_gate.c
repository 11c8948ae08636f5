/* Gates: what a router over a fixed number of experts makes of its logits, M of each input. */
#include "models/language/adjoint.h"
#include "models/language/operation.h"
#include "models/parts/block.h"

/* e_i = exp(beta psi_i - max beta psi), whatever the sign of beta. The largest is one of those with
 * m != 0, so that their sum is at least 1; all of them where m is NULL. */
static void shifted_exponentials(double beta, const double *psi, const double *m, int M,
                                 double *e) {
    double origin = NAN;
    for (int i = 0; i < M; i++)
        if (!m || m[i] != 0)
            origin = beta < 0 ? fmin(origin, psi[i]) : fmax(origin, psi[i]);
    for (int i = 0; i < M; i++)
        e[i] = exp(beta * (psi[i] - origin));
}

/* p of one input: 0 for experts that the mask m leaves out (NULL: none). Selection biases may
 * select experts whose exponentials are 0 beside the largest of all. */
static void gate_of(const struct router_gate *gate, const double *psi, const double *m, int M,
                    double *p) {
    bool all = gate->over_all;
    double sum = 0;
    if (gate->softmax)
        shifted_exponentials(gate->beta, psi, all ? NULL : m, M, p);
    else
        for (int i = 0; i < M; i++)
            p[i] = 1 / (1 + exp(-gate->beta * psi[i]));
    for (int i = 0; i < M; i++) {
        sum += !m || m[i] != 0 || all ? p[i] : 0;
        p[i] = !m || m[i] != 0 ? p[i] : 0;
    }
    for (int i = 0; i < M && gate->softmax; i++)
        p[i] /= sum;
}

static void gates_forward(struct net *net, struct node *v) {
    const double *psi = argument(net, v, 0)->s,
                 *m = v->argument[1] < 0 ? NULL : argument(net, v, 1)->s;
    for (ptrdiff_t at = 0; at < v->count * (ptrdiff_t)v->K; at += v->K)
        gate_of(v->constant.context, psi + at, m ? m + at : NULL, v->K, v->s + at);
}

/* (dp/dpsi)^T g, the mask held; of a softmax over all, q are its shares without the mask. */
static void gates_back_forward(struct net *net, struct node *v) {
    const struct node *gates = argument(net, v, 0);
    const struct router_gate *gate = gates->constant.context;
    const double *psi = argument(net, gates, 0)->s, *p = gates->s, *g = argument(net, v, 1)->s;
    double *out = v->s, beta = gate->beta;
    int M = v->K;
    for (ptrdiff_t mu = 0; mu < v->count; mu++, psi += M, p += M, g += M, out += M) {
        double mean = 0, *q = gate->shares;
        if (gate->over_all)
            gate_of(gate, psi, NULL, M, q);
        for (int i = 0; i < M; i++)
            mean += p[i] * g[i];
        for (int i = 0; i < M; i++)
            out[i] += gate->over_all
                          ? beta * (p[i] * g[i] - q[i] * mean)
                          : beta * p[i] * (gate->softmax ? g[i] - mean : (1 - p[i]) * g[i]);
    }
}

static OPERATION(gates_back, .traits = OP_ADDS | OP_AS_ARGUMENT | OP_OF_VALUE,
                 .forward = gates_back_forward);

static bool gates_jump(const struct program *p, int i) {
    return p->node[i].argument[1] >= 0;
}

static const struct constant_field constants[] = {
    CONSTANT_OF(struct router_gate, "softmax", FIELD_BOOL, softmax),
    CONSTANT_OF(struct router_gate, "beta", FIELD_REAL, beta),
    CONSTANT_OF(struct router_gate, "top", FIELD_INT, K),
    CONSTANT_OF(struct router_gate, "over_all", FIELD_BOOL, over_all),
    {0}};

static OPERATION(gates, .rule_of = "numbers", .constants = constants, .zeros = ZEROS_OF_RULE,
                 .forward = gates_forward, .back = &operation_gates_back, .jumps = gates_jump,
                 .traits = OP_IN_CONTEXT | OP_DROPS_ZERO | OP_BY_ROW);

struct value router_gates(struct program *p, struct value psi, struct value mask,
                          struct router_gate gate) {
    struct value out = {-1};
    struct router_gate *kept = program_memory(p, sizeof *kept);
    if (!kept || !node_given_numbers(p, "gates", psi))
        return out;
    int M = node_of(p, psi)->K;
    gate.shares = program_memory(p, (size_t)M * sizeof *gate.shares);
    *kept = gate;
    program_steep_gates(p, psi, gate.beta, gate.softmax, gate.K);
    node_append_numbers(p, &operation_gates, psi, mask, M, &out)->constant.context = kept;
    return out;
}
