/* A mixture of experts as the papers write it, with their matrices W:
 *
 *     h1 = W1 x/sqrt D     psi = Q s(h1) + b     h2_i = W2_i s(h1)     s = tanh
 *     h3 = branch sum_i phi_i W3_i s(h2_i)       f = W4 h3
 *
 * phi: sigmoid of psi, or softmax over the experts. All rates and eps are the caller's. */
#include "tests/oracles/oracle.h"
#include "tests/oracles/plain.h"

static void declare(struct oracle *o) {
    int N = o->N, M = o->M, counts[] = {N * o->D, M * N, M, M * o->N_e * N, M * N * o->N_e, N};
    for (int k = 0; k < PAPERS_MATRICES; k++)
        oracle_declare(o, counts[k], 0, 0, 0);
}

static void pass(struct oracle *o) {
    struct tape *t = &o->tape;
    int N = o->N, M = o->M, N_e = o->N_e, node[PAPERS_MATRICES];
    for (int k = 0; k < PAPERS_MATRICES; k++)
        node[k] = o->block[k].node;
    for (int mu = 0; mu < o->P; mu++) {
        int x1 = tape_map(t, ORACLE_TANH, N, oracle_read_in(o, mu)), h3 = 0;
        int psi = tape_times_matrix(t, 1, M, N, node[PAPERS_Q], x1);
        int phi = oracle_gate(o, 0, mu, tape_sum(t, M, 1, psi, 1, node[PAPERS_B]), 1);
        int h2 = tape_times_matrix(t, 1, M * N_e, N, node[PAPERS_W2], x1);
        int x2 = oracle_gated(o, phi, tape_map(t, ORACLE_TANH, M * N_e, h2), N_e);
        for (int i = 0; i < M; i++) {
            int W3 = node[PAPERS_W3] + i * N * N_e;
            int one = tape_times_matrix(t, o->branch, N, N_e, W3, x2 + i * N_e);
            h3 = i ? tape_sum(t, N, 1, h3, 1, one) : one;
        }
        o->out[mu] = tape_times_matrix(t, 1, 1, N, node[PAPERS_W4], h3);
    }
}

const struct oracle_network oracle_papers = {declare, pass};
