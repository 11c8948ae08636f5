/* Numbers that remember how they were made, so that their derivatives follow: a reverse sweep goes
 * through what was computed from the last to the first. The oracles write their forward passes on
 * it; nothing of the program is used.
 *
 * A number is known by its index. Every function computes several numbers at once, which lie one
 * after the other, and returns the index of the first; arguments are the first of such numbers too,
 * and a step of 0 takes one number again and again. Number 0 is the constant 1. */
#pragma once

#include <stdbool.h>

enum oracle_activation {
    ORACLE_TANH,
    ORACLE_ERF, /* erf(h) */
    ORACLE_RELU,
    ORACLE_GELU, /* h times the normal distribution function */
    ORACLE_SOFTPLUS,
    ORACLE_LINEAR,
    ORACLE_SIGMOID,
    ORACLE_EXP,
    ORACLE_SQRT,
    ORACLE_FUNCTIONS
};
double oracle_sigma(enum oracle_activation function, double h);
double oracle_sigma_prime(enum oracle_activation function, double h);

struct tape {
    double *value, *gradient;
    struct tape_row *row; /* what was computed, in order */
    int numbers, rows, room, row_room;
};

void tape_rewind(struct tape *t); /* forgets all numbers but the constant; a zeroed tape is empty */
void tape_release(struct tape *t);
/* n numbers that depend on none; x NULL: zeros. */
int tape_put(struct tape *t, const double *x, int n);
/* i < n: c sum_k<m W[i row + k column] x[k step] */
int tape_linear(struct tape *t, double c, int n, int m, int W, int row, int column, int x,
                int step);
/* The same of a matrix [n][m] and m numbers. */
int tape_times_matrix(struct tape *t, double c, int n, int m, int W, int x);
int tape_total(struct tape *t, double c, int n, int a);                /* c sum of n numbers */
int tape_sum(struct tape *t, int n, double c, int a, double d, int b); /* c a[i] + d b[i] */
int tape_product(struct tape *t, int n, int a, int step_a, int b, int step_b);
int tape_quotient(struct tape *t, int n, int a, int step_a, int b, int step_b);
int tape_map(struct tape *t, enum oracle_activation function, int n, int a);
/* M numbers s, 0 where s + b is not among the K largest, as mask [M] says then. */
int tape_select(struct tape *t, int M, int K, int s, const double *b, double *mask);

/* Sets all gradients to 0; the caller then writes those from which the sweep starts. */
void tape_clear(struct tape *t);
/* Adds to every gradient what follows from those behind it. */
void tape_sweep(struct tape *t);
