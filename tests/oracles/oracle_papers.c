#include "tests/oracles/oracle_papers.h"
#include "tests/oracles/plain.h"

#include <math.h>
#include <stdlib.h>

struct oracle_papers *oracle_papers_new(int P, int D, int N, int M, int Ne) {
    const int counts[] = {N * D, M * N, M, M * Ne * N, M * N * Ne, N};
    struct oracle_papers *o = calloc(1, sizeof *o);
    *o = (struct oracle_papers){.P = P, .D = D, .N = N, .M = M, .Ne = Ne};
    o->f = calloc((size_t)P, sizeof *o->f);
    for (int k = 0; k < PAPERS_MATRICES; k++) {
        double *all = calloc(4 * (size_t)counts[k], sizeof *all);
        o->matrix[k].count = counts[k];
        o->matrix[k].W = all;
        o->matrix[k].G = all + counts[k];
        o->matrix[k].first = all + 2 * counts[k];
        o->matrix[k].second = all + 3 * counts[k];
    }
    return o;
}

void oracle_papers_free(struct oracle_papers *o) {
    for (int k = 0; k < PAPERS_MATRICES; k++)
        free(o->matrix[k].W);
    free(o->f);
    free(o);
}

/* What one input makes: x1 = s(h1), phi, x2 = s(h2), h3. */
struct pass {
    double *x1, *phi, *x2, *h3;
};

static struct pass pass_new(const struct oracle_papers *o) {
    return (struct pass){calloc((size_t)o->N, sizeof(double)), calloc((size_t)o->M, sizeof(double)),
                         calloc((size_t)(o->M * o->Ne), sizeof(double)),
                         calloc((size_t)o->N, sizeof(double))};
}

static void pass_free(struct pass *p) {
    free(p->x1);
    free(p->phi);
    free(p->x2);
    free(p->h3);
}

static double forward(const struct oracle_papers *o, int mu, struct pass *p) {
    int N = o->N, Ne = o->Ne;
    double total = 0;
    for (int n = 0; n < N; n++) {
        p->x1[n] =
            tanh(dot(o->matrix[PAPERS_W1].W + n * o->D, o->X + mu * o->D, o->D) / sqrt(o->D));
        p->h3[n] = 0;
    }
    for (int i = 0; i < o->M; i++) {
        double psi = dot(o->matrix[PAPERS_Q].W + i * N, p->x1, N) + o->matrix[PAPERS_B].W[i];
        p->phi[i] = o->softmax ? exp(psi) : 1 / (1 + exp(-psi));
        total += p->phi[i];
    }
    for (int i = 0; i < o->M; i++) {
        p->phi[i] /= o->softmax ? total : 1;
        for (int j = 0; j < Ne; j++)
            p->x2[i * Ne + j] = tanh(dot(o->matrix[PAPERS_W2].W + (i * Ne + j) * N, p->x1, N));
        for (int n = 0; n < N; n++)
            p->h3[n] += o->agg * p->phi[i] *
                        dot(o->matrix[PAPERS_W3].W + (i * N + n) * Ne, p->x2 + i * Ne, Ne);
    }
    return dot(o->matrix[PAPERS_W4].W, p->h3, N);
}

/* Adds d = dL/df times df/dW of one input to all G. */
static void backward(struct oracle_papers *o, int mu, const struct pass *p, double d) {
    int N = o->N, Ne = o->Ne, M = o->M;
    struct oracle_papers_matrix *m = o->matrix;
    double *gx1 = calloc((size_t)N, sizeof *gx1), *gphi = calloc((size_t)M, sizeof *gphi);
    double mean = 0;
    for (int n = 0; n < N; n++)
        m[PAPERS_W4].G[n] += d * p->h3[n];
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < Ne; j++) {
            double x2 = p->x2[i * Ne + j], g = 0;
            for (int n = 0; n < N; n++) {
                double w = d * o->agg * m[PAPERS_W4].W[n];
                g += w * m[PAPERS_W3].W[(i * N + n) * Ne + j];
                m[PAPERS_W3].G[(i * N + n) * Ne + j] += w * p->phi[i] * x2;
            }
            gphi[i] += g * x2;
            g *= p->phi[i] * (1 - x2 * x2);
            for (int n = 0; n < N; n++) {
                gx1[n] += g * m[PAPERS_W2].W[(i * Ne + j) * N + n];
                m[PAPERS_W2].G[(i * Ne + j) * N + n] += g * p->x1[n];
            }
        }
        mean += p->phi[i] * gphi[i];
    }
    for (int i = 0; i < M; i++) {
        double g = p->phi[i] * (o->softmax ? gphi[i] - mean : gphi[i] * (1 - p->phi[i]));
        m[PAPERS_B].G[i] += g;
        for (int n = 0; n < N; n++) {
            gx1[n] += g * m[PAPERS_Q].W[i * N + n];
            m[PAPERS_Q].G[i * N + n] += g * p->x1[n];
        }
    }
    for (int n = 0; n < N; n++)
        for (int k = 0; k < o->D; k++)
            m[PAPERS_W1].G[n * o->D + k] +=
                gx1[n] * (1 - p->x1[n] * p->x1[n]) * o->X[mu * o->D + k] / sqrt(o->D);
    free(gx1);
    free(gphi);
}

void oracle_papers_forward(struct oracle_papers *o) {
    struct pass p = pass_new(o);
    for (int mu = 0; mu < o->P; mu++)
        o->f[mu] = forward(o, mu, &p);
    pass_free(&p);
}

static void move(const struct oracle_papers *o, struct oracle_papers_matrix *m) {
    for (int k = 0; k < m->count; k++) {
        double G = m->G[k];
        if (o->adam) {
            m->first[k] = o->beta1 * m->first[k] + (1 - o->beta1) * G;
            m->second[k] = o->beta2 * m->second[k] + (1 - o->beta2) * G * G;
            G = m->first[k] / (1 - pow(o->beta1, o->t)) /
                (sqrt(m->second[k] / (1 - pow(o->beta2, o->t))) + m->eps);
        }
        m->W[k] -= m->rate * G;
        m->G[k] = 0;
    }
}

void oracle_papers_step(struct oracle_papers *o) {
    struct pass p = pass_new(o);
    for (int mu = 0; mu < o->P; mu++) {
        o->f[mu] = forward(o, mu, &p);
        backward(o, mu, &p, (o->f[mu] - o->y[mu]) / o->P);
    }
    o->t++;
    for (int k = 0; k < PAPERS_MATRICES; k++)
        move(o, &o->matrix[k]);
    pass_free(&p);
}
