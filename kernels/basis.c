/* Rank-revealing orthonormal bases: block Gram-Schmidt against the base by two products, then among
 * the new rows in order through their small Gram matrix, the whole twice. */
#include "kernels/basis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* y -= <y, base> base, with C a scratch matrix of y.count x base.count. */
static void project(struct rows base, struct rows y, double *C) {
    if (!base.count)
        return;
    y.array->backend->dots(y, base, C);
    for (int i = 0; i < y.count * base.count; i++)
        C[i] = -C[i];
    y.array->backend->combine(y, 1, C, base);
}

/* In-order Gram-Schmidt in coefficients over n rows of Gram matrix G: rows of Q (kept x n) with
 * Q G Q^T = 1; row mu is kept if its remaining norm exceeds threshold. QG holds Q G. Two passes,
 * because one leaves overlaps of eps / (remaining norm). */
static int orthonormal_rows(const double *G, int n, double threshold, double *Q, double *QG) {
    int kept = 0;
    for (int mu = 0; mu < n; mu++) {
        double *q = Q + kept * n, *qG = QG + kept * n, norm2 = 0;
        memset(q, 0, (size_t)n * sizeof *q);
        q[mu] = 1;
        for (int j = 0; j < 2 * kept; j++) {
            double overlap = 0;
            for (int a = 0; a < n; a++)
                overlap += QG[j % kept * n + a] * q[a];
            for (int a = 0; a < n; a++)
                q[a] -= overlap * Q[j % kept * n + a];
        }
        for (int a = 0; a < n; a++) {
            qG[a] = 0;
            for (int b = 0; b < n; b++)
                qG[a] += G[a * n + b] * q[b];
            norm2 += q[a] * qG[a];
        }
        if (!(norm2 > threshold * threshold))
            continue;
        for (int a = 0; a < n; a++) {
            q[a] /= sqrt(norm2);
            qG[a] /= sqrt(norm2);
        }
        kept++;
    }
    return kept;
}

int basis_residual(struct rows base, struct rows x, double threshold, struct array *out,
                   struct array *scratch, int *kept, struct err *err) {
    int n = x.count;
    const struct backend *backend = x.array->backend;
    double *C = NULL, *G = NULL, *QG = NULL;
    int code = CODE_OK;
    *kept = 0;
    DO(base_alloc(&C, (size_t)n * (size_t)(base.count > n ? base.count : n), sizeof *C, err));
    DO(base_alloc(&G, (size_t)n * (size_t)n, sizeof *G, err));
    DO(base_alloc(&QG, (size_t)n * (size_t)n, sizeof *QG, err));
    DO(array_reserve(out, n, err));
    DO(array_reserve(scratch, n, err));
    struct rows rest = array_rows(scratch, 0, n);
    rows_copy(x, rest);
    project(base, rest, C);
    project(base, rest, C);
    backend->dots(rest, rest, G);
    *kept = orthonormal_rows(G, n, threshold, C, QG);
    if (!*kept)
        goto done;
    struct rows first = array_rows(out, 0, *kept);
    backend->combine(first, 0, C, rest);
    project(base, first, C);
    backend->dots(first, first, G);
    /* Norms are one up to the rounding of small residuals; 0.1 only meets noise, dropped as such.
     */
    rest = array_rows(scratch, 0, *kept);
    rows_copy(first, rest);
    n = *kept;
    *kept = orthonormal_rows(G, n, 0.1, C, QG);
    if (*kept)
        backend->combine(array_rows(out, 0, *kept), 0, C, rest);
done:
    free(C);
    free(G);
    free(QG);
    return code;
}

int basis_defect(struct rows base, double *defect, struct err *err) {
    double *G;
    *defect = 0;
    TRY(base_alloc(&G, (size_t)base.count * (size_t)base.count, sizeof *G, err));
    if (base.count)
        base.array->backend->dots(base, base, G);
    for (int k = 0; k < base.count; k++)
        for (int l = 0; l < base.count; l++)
            *defect = fmax(*defect, fabs(G[k * base.count + l] - (k == l)));
    free(G);
    return CODE_OK;
}
