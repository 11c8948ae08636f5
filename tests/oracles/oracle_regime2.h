/* The finite mixture-of-experts network of regime II, written from the theory page alone: plain
 * loops over explicit row-major arrays, in the normalisation of section 1 of that page. It judges
 * the network code of the program and therefore shares nothing with it.
 *
 * Indices: mu, nu < P inputs, d < D, n < N residual sites, i < M experts, j < Ne hidden units of an
 * expert. The MSSP and the muP network differ in the initial W2out only (variance 1 or 1/M). */
#ifndef TESTS_ORACLE_REGIME2_H
#define TESTS_ORACLE_REGIME2_H

#include <stdbool.h>

enum oracle_gate {
    ORACLE_SOFTMAX,
    ORACLE_SIGMOID_M, /* phi = m sig(beta psi) */
    ORACLE_SIGMOID_K, /* phi = m sig(beta psi) / rho */
    ORACLE_CONSTANT   /* phi = 1 for every expert whatever rho; Q never moves */
};
enum oracle_activation {
    ORACLE_TANH,
    ORACLE_ERF, /* erf(h) */
    ORACLE_RELU,
    ORACLE_GELU, /* h times the normal distribution function */
    ORACLE_SOFTPLUS,
    ORACLE_LINEAR
};
enum oracle_loss {
    ORACLE_MSE,          /* l = (y - f)^2 / 2, summed over outputs */
    ORACLE_LOGISTIC,     /* l = log(1 + exp(-y f)), y = +-1 */
    ORACLE_CROSS_ENTROPY /* l = -sum_c y_c log softmax_c(f), y one-hot, or 0: l = 0 */
};

enum { ORACLE_W1, ORACLE_Q, ORACLE_W2IN, ORACLE_W2OUT, ORACLE_W4, ORACLE_BLOCKS };

struct oracle {
    int P, D, N, M, Ne;
    enum oracle_gate gate;
    enum oracle_activation activation;
    enum oracle_loss loss;
    double gamma0, beta, lambda_in, rho, eta0;
    bool centre;    /* f = raw f - f0 */
    bool hold_mask; /* oracle_forward takes mask as it stands instead of finding it */

    double *X, *y; /* [P][D], [P] */
    double *W1;    /* [N][D] */
    double *Q;     /* [M][N] */
    double *W2in;  /* [M*Ne][N], row i*Ne + j */
    double *W2out; /* [N][M*Ne], column i*Ne + j */
    double *w4;    /* [N] */
    double *f0;    /* [P], used with centre */

    /* written by oracle_forward */
    double *h1;    /* [P][N] */
    double *psi;   /* [P][M] */
    double *mask;  /* [P][M], 0 or 1 */
    double *phi;   /* [P][M], normalised to O(1) */
    double *h2;    /* [P][M*Ne] */
    double *h3;    /* [P][N] */
    double *f;     /* [P] */
    double *Delta; /* [P], -dl/df */

    /* written by oracle_backward */
    double *b;    /* [M*Ne] */
    double *gam;  /* [P][M], gamma of the page */
    double *gbar; /* [P], 0 unless softmax */
    double *gphi; /* [P][M] */
    double *g2;   /* [P][M*Ne] */
    double *z1;   /* [P][N] */
    double *g1;   /* [P][N] */
};

/* All arrays zero; softmax, tanh, mse, not centred, all scalars 1. Ends the program if memory runs
 * out. Every array belongs to the oracle and is to be filled in place. */
struct oracle *oracle_new(int P, int D, int N, int M, int Ne);
void oracle_free(struct oracle *o);

double oracle_sigma(enum oracle_activation activation, double h);
double oracle_sigma_prime(enum oracle_activation activation, double h);

/* The forward pass; returns the mean of l over the inputs. rho M must be an integer, else the
 * program ends. Of equal logits the lower index is selected. */
double oracle_forward(struct oracle *o);
/* b ... g1 from the state that oracle_forward has left. */
void oracle_backward(struct oracle *o);
/* Forward, backward and one step of all blocks, all from the values before the step; returns the
 * loss before the step. Forward and backward quantities stay those before the step. */
double oracle_step(struct oracle *o);
/* Stores the raw outputs of now as f0 and switches centre on: f = 0 until the next step. */
void oracle_centre_here(struct oracle *o);

/* Parameter block as a flat array of *count numbers, and its learning rate eta0 gamma^2 lam_B. */
double *oracle_block(struct oracle *o, int block, int *count);
double oracle_rate(const struct oracle *o, int block);

/* Compares the step of every parameter with rate times minus the fourth-order central difference
 * of the loss at distance h, mask held at the present point. error[B] is the largest difference in
 * the block, scale[B] the largest size of rate times difference quotient. Leaves the parameters as
 * they were. */
void oracle_gradient_check(struct oracle *o, double h, double error[ORACLE_BLOCKS],
                           double scale[ORACLE_BLOCKS]);

/* Equal-time kernels of the state that forward and (for those with a G) backward have left. */
double oracle_phi0(const struct oracle *o, int mu, int nu); /* x x / D */
double oracle_phi1(const struct oracle *o, int mu, int nu); /* <sigma(h1) sigma(h1)>_N */
double oracle_phi3(const struct oracle *o, int mu, int nu); /* <h3 h3>_N */
double oracle_phib(const struct oracle *o, int mu, int nu); /* <phi phi sigma sigma>, mean over j */
double oracle_g1(const struct oracle *o, int mu, int nu);   /* <g1 g1>_N */
double oracle_g3(const struct oracle *o);                   /* <w4 w4>_N */
double oracle_gb(const struct oracle *o, int mu, int nu);   /* <g2 g2>, mean over j */
double oracle_gphi(const struct oracle *o, int mu, int nu); /* <gphi gphi>_M */
/* The sum of kernel products in df_mu/dt = (eta0/P) sum_nu ntk(mu, nu) Delta_nu. */
double oracle_ntk(const struct oracle *o, int mu, int nu);

#endif
