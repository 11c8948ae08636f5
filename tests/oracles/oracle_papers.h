/* A mixture of experts as the papers write it, with their matrices W, trained by plain loops:
 *
 *     h1 = W1 x/sqrt D     psi = Q s(h1) + b     h2_i = W2_i s(h1)     s = tanh
 *     h3 = agg sum_i phi_i W3_i s(h2_i)          f = W4 h3
 *     L = (1/P) sum_mu (f - y)^2/2               W -= eta dL/dW, or Adam with eps outside the root
 *
 * phi: sigmoid of psi, or softmax over the experts. Nothing is shared with the program. */
#ifndef TESTS_ORACLE_PAPERS_H
#define TESTS_ORACLE_PAPERS_H

#include <stdbool.h>

enum { PAPERS_W1, PAPERS_Q, PAPERS_B, PAPERS_W2, PAPERS_W3, PAPERS_W4, PAPERS_MATRICES };

struct oracle_papers {
    int P, D, N, M, Ne; /* W1 [N][D], Q [M][N], b [M], W2 [M][Ne][N], W3 [M][N][Ne], W4 [N] */
    const double *X, *y;
    bool softmax, adam;
    double agg, beta1, beta2;
    int t;
    struct oracle_papers_matrix {
        double *W, *G, *first, *second; /* [count] */
        int count;
        double rate, eps;
    } matrix[PAPERS_MATRICES];
    double *f; /* [P] */
};

/* All weights, rates and eps 0. */
struct oracle_papers *oracle_papers_new(int P, int D, int N, int M, int Ne);
void oracle_papers_free(struct oracle_papers *o);
void oracle_papers_forward(struct oracle_papers *o); /* f */
/* Forward, gradients and a step; f is that before it. */
void oracle_papers_step(struct oracle_papers *o);

#endif
