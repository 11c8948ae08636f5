/* Any network with explicit matrices judged by finite differences of its loss. */
#ifndef TESTS_GRADIENT_H
#define TESTS_GRADIENT_H

#include "tests/support.h"

/* Every stride-th entry of every parameter of the run's network of width N, after two steps. */
void gradient_check(const struct run *run, int N, int stride);
/* The matrix of a finite map or a history, [target sites][source sites], to be freed. */
double *gradient_matrix(const struct map *map);

#endif
