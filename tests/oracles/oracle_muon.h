/* The matrix that Muon makes of a matrix, from docs/theory/muon.md alone, in plain loops on the
 * entries. */
#pragma once

#include <stdbool.h>

/* X [n][m] <- p(X/|X|): five Newton-Schulz steps X <- a X + b X X^T X + c X X^T X X^T X; or, exact,
 * singular values of 1, those below 1e-10 of the largest becoming 0 (one-sided Jacobi rotations).
 * A matrix of zeros stays. */
void oracle_muon(int n, int m, double *X, bool exact);
