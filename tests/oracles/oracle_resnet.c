/* (1) of docs/theory/resnet.md; rates of (6). */
#include "tests/oracles/oracle.h"
#include "tests/oracles/plain.h"

static void declare(struct oracle *o) {
    double N = o->N, root = sqrt(o->L);
    oracle_declare_ends(o);
    for (int l = 0; l < o->L; l++) {
        oracle_declare(o, o->N * o->N, o->gamma0 * o->gamma0 * N, 1 / (root * sqrt(N)),
                       o->branch / root * pow(N, -1.5));
        oracle_in_turn(o, 1, o->N, o->N);
    }
}

static void pass(struct oracle *o) {
    struct tape *t = &o->tape;
    int N = o->N;
    for (int mu = 0; mu < o->P; mu++) {
        int h = oracle_read_in(o, mu);
        for (int l = 0; l <= o->L; l++) {
            oracle_keep(o, false, mu, 1, h, N, "Ch_%d", l);
            oracle_keep(o, true, mu, 1, h, N, "Cg_%d", l);
            if (l == o->L)
                break;
            int x = tape_map(t, o->activation, N, h);
            oracle_keep(o, false, mu, 1, x, N, "Phi_%d", l);
            h = tape_sum(t, N, 1, h, o->branch / sqrt(o->L),
                         tape_times_matrix(t, 1 / sqrt(N), N, N, o->block[2 + l].node, x));
        }
        oracle_read_out(o, mu, h);
    }
}

const struct oracle_network oracle_resnet = {declare, pass};
