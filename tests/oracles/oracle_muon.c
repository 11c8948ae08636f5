#include "tests/oracles/oracle_muon.h"
#include "tests/oracles/plain.h"

#include <string.h>

/* C [n][m] = A [n][k] B [k][m] */
static void multiply(int n, int k, int m, const double *A, const double *B, double *C) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += A[i * k + l] * B[l * m + j];
            C[i * m + j] = sum;
        }
}

static void newton_schulz(int n, int m, double *X) {
    double *square = array(n * n), *cubed = array(n * m), *fifth = array(n * m);
    for (int step = 0; step < 5; step++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) {
                square[i * n + j] = 0;
                for (int l = 0; l < m; l++)
                    square[i * n + j] += X[i * m + l] * X[j * m + l];
            }
        multiply(n, n, m, square, X, cubed);
        multiply(n, n, m, square, cubed, fifth);
        for (int i = 0; i < n * m; i++)
            X[i] = 3.4445 * X[i] - 4.7750 * cubed[i] + 2.0315 * fifth[i];
    }
    free(square);
    free(cubed);
    free(fifth);
}

/* Turns columns i and j of X [n][m], and of V [m][m] with them, until these of X are orthogonal. */
static bool turn(int n, int m, double *X, double *V, int i, int j) {
    double a = 0, b = 0, c = 0;
    for (int k = 0; k < n; k++) {
        a += X[k * m + i] * X[k * m + i];
        b += X[k * m + j] * X[k * m + j];
        c += X[k * m + i] * X[k * m + j];
    }
    if (c == 0 || c * c <= 1e-32 * a * b)
        return false;
    double zeta = (b - a) / (2 * c), t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + hypot(1, zeta)),
           cosine = 1 / hypot(1, t), sine = t * cosine;
    for (int k = 0; k < n + m; k++) {
        double *row = k < n ? X + k * m : V + (k - n) * m, x = row[i], y = row[j];
        row[i] = cosine * x - sine * y;
        row[j] = sine * x + cosine * y;
    }
    return true;
}

/* X = (columns of length s) V^T: s becomes 1. */
static void polar(int n, int m, double *X) {
    double *V = array(m * m), *turned = array(n * m), *s = array(m), largest = 0;
    bool moved = true;
    for (int i = 0; i < m; i++)
        V[i * m + i] = 1;
    memcpy(turned, X, (size_t)(n * m) * sizeof *X);
    for (int sweep = 0; sweep < 60 && moved; sweep++) {
        moved = false;
        for (int i = 0; i < m; i++)
            for (int j = i + 1; j < m; j++)
                moved |= turn(n, m, turned, V, i, j);
    }
    for (int i = 0; i < m; i++) {
        for (int k = 0; k < n; k++)
            s[i] += turned[k * m + i] * turned[k * m + i];
        s[i] = sqrt(s[i]);
        largest = fmax(largest, s[i]);
    }
    memset(X, 0, (size_t)(n * m) * sizeof *X);
    for (int i = 0; i < m; i++)
        for (int k = 0; k < n * m && s[i] > 1e-10 * largest; k++)
            X[k] += turned[k / m * m + i] / s[i] * V[k % m * m + i];
    free(V);
    free(turned);
    free(s);
}

void oracle_muon(int n, int m, double *X, bool exact) {
    double square = 0;
    for (int i = 0; i < n * m; i++)
        square += X[i] * X[i];
    if (square == 0)
        return;
    for (int i = 0; i < n * m; i++)
        X[i] /= sqrt(square);
    if (exact)
        polar(n, m, X);
    else
        newton_schulz(n, m, X);
}
