/* The optimizers of networks on a tape, written from section 1 of docs/theory/parameterizations.md
 * and from docs/theory/muon.md alone. */
#include "tests/oracles/oracle.h"
#include "tests/oracles/oracle_muon.h"
#include "tests/oracles/plain.h"

/* As one vector, by the norm in which gradient descent is steepest. */
static void clip(struct oracle *o) {
    double square = 0;
    for (int i = 0; i < o->blocks; i++)
        for (int k = 0; k < o->block[i].count; k++)
            square += o->block[i].sgd * o->block[i].G[k] * o->block[i].G[k];
    o->rule.norm = sqrt(square);
    for (int i = 0; i < o->blocks && o->rule.clip > 0 && o->rule.norm > o->rule.clip; i++)
        for (int k = 0; k < o->block[i].count; k++)
            o->block[i].G[k] *= o->rule.clip / o->rule.norm;
}

/* Biases of the selection even out the load of the experts: (10) of docs/theory/residual.md. */
static void balance(struct oracle *o) {
    int rows = o->P * o->n;
    for (int k = 0; k < o->L * o->M && o->eta_b != 0; k++) {
        double load = 0;
        for (int row = 0; row < rows; row++)
            load += o->mask[(k / o->M * rows + row) * o->M + k % o->M] / rows;
        o->bias[k] -= o->eta_b * (load - o->rho);
    }
}

static double *entry(const struct oracle_matrices *of, double *w, int k, int i, int j) {
    return w + k * of->matrix + i * of->row + j * of->column;
}

/* w -= rate (n m)^1/2 p(M/|M|) for a matrix [n][m] of which each expert has some rows, or columns.
 */
static void muon_matrix(const struct oracle_rule *a, const struct oracle_matrices *of, double rate,
                        const double *M, double *w, int first, int experts) {
    int n = of->out ? of->rows : of->rows * experts,
        m = of->out ? of->columns * experts : of->columns;
    double *X = array(n * m);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                int k = first + (of->out ? j / of->columns : i / of->rows);
                long at = entry(of, w, k, i % of->rows, j % of->columns) - w;
                if (pass == 0)
                    X[i * m + j] = M[at];
                else
                    w[at] -= rate * of->rate * sqrt((double)n * m) * X[i * m + j];
            }
        if (pass == 0)
            oracle_muon(n, m, X, a->exact);
    }
    free(X);
}

/* V <- momentum V + G; w moves along V or G + momentum V. */
static void muon_step(const struct oracle_rule *a, struct oracle_block *b, double rate) {
    const struct oracle_matrices *of = &b->matrices;
    bool as_one = (of->units && a->together) || (b->heads && a->heads_together);
    int together = as_one ? of->count : 1;
    for (int k = 0; k < b->count; k++) {
        b->first[k] = a->momentum * b->first[k] + b->G[k];
        b->second[k] = a->nesterov ? b->G[k] + a->momentum * b->first[k] : b->first[k];
    }
    for (int c = 0; c < of->copies; c++)
        for (int k = 0; k < of->count; k += together)
            muon_matrix(a, of, rate, b->second + c * of->copy, b->w + c * of->copy, k, together);
}

static void adam_step(const struct oracle_rule *a, struct oracle_block *b, double rate) {
    for (int k = 0; k < b->count; k++) {
        b->first[k] = a->beta1 * b->first[k] + (1 - a->beta1) * b->G[k];
        b->second[k] = a->beta2 * b->second[k] + (1 - a->beta2) * b->G[k] * b->G[k];
        double mhat = b->first[k] / (1 - pow(a->beta1, a->t));
        double vhat = b->second[k] / (1 - pow(a->beta2, a->t));
        double eps = a->eps * b->nu;
        double step = a->inside ? mhat / sqrt(vhat + eps * eps) : mhat / (sqrt(vhat) + eps);
        b->w[k] -= rate * b->adam_rate * step;
    }
}

static void lion_step(const struct oracle_rule *a, struct oracle_block *b, double rate) {
    for (int k = 0; k < b->count; k++) {
        double u = a->beta1 * b->first[k] + (1 - a->beta1) * b->G[k];
        b->first[k] = a->beta2 * b->first[k] + (1 - a->beta2) * b->G[k];
        b->w[k] -= rate * b->adam_rate * u / (fabs(u) + a->eps * b->nu);
    }
}

static void plain_step(double momentum, struct oracle_block *b, double rate) {
    for (int k = 0; k < b->count; k++) {
        b->first[k] = momentum * b->first[k] + b->G[k];
        b->w[k] -= rate * b->sgd * b->first[k];
    }
}

double oracle_step(struct oracle *o) {
    double loss = oracle_forward(o);
    for (int i = 0; i < o->blocks; i++)
        for (int k = 0; k < o->block[i].count; k++)
            o->block[i].w[k] -= o->eta0 * o->block[i].sgd * o->block[i].G[k];
    balance(o);
    return loss;
}

double oracle_optimizer_step(struct oracle *o) {
    struct oracle_rule *a = &o->rule;
    double loss = oracle_forward(o), factor = a->factor ? a->factor[a->t] : 1,
           rate = a->rate * factor;
    clip(o);
    a->t++;
    for (int i = 0; i < o->blocks; i++) {
        struct oracle_block *b = &o->block[i];
        for (int k = 0; k < b->count && !b->bias; k++)
            b->w[k] *= 1 - a->decay * factor;
        if (a->muon && b->matrices.copies)
            muon_step(a, b, rate);
        else if (a->muon)
            (a->rest_adam ? adam_step(a, b, a->rest_rate * factor)
                          : plain_step(0, b, a->rest_rate * factor));
        else if (a->lion)
            lion_step(a, b, rate);
        else if (a->adam)
            adam_step(a, b, rate);
        else
            plain_step(a->momentum, b, rate);
    }
    balance(o);
    return loss;
}
