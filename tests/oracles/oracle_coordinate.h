/* The terms of the refined coordinate check by plain loops over explicit matrices, one entry at a
 * time, from their definitions alone. It judges solver/measure/coordinate.c and shares nothing with
 * it.
 *
 *     s1 = tanh(h1), psi = Q s1, phi = gate(psi), h2 = W2 s1, s2 = tanh(h2),
 *     h3 = agg sum_i phi_i W3_i s2_i, f = W4 h3 */
#pragma once

#include <stdbool.h>

/* A network at one time. */
struct oracle_state {
    double *h1;               /* [P][N] */
    double *Q, *W2, *W3, *W4; /* [M][N], [M][Ne][N], [N][M][Ne], [N] */
};

struct oracle_coordinate {
    int P, N, M, Ne;
    bool softmax; /* phi = many softmax(psi), else sig(psi) */
    double many, agg, b_scale;
    struct oracle_state start, now;
};

/* The rms of the term of this name, without "rms_". Ends the program if there is none. */
double oracle_coordinate_rms(const struct oracle_coordinate *o, const char *term);
/* N df_mu/ds1_n now: the sum of all terms of the two paths, and by a central difference. */
double oracle_coordinate_sum(const struct oracle_coordinate *o, int mu, int n);
double oracle_coordinate_difference(const struct oracle_coordinate *o, int mu, int n);
