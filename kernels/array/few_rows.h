/* Products of rows over the sites of one block, where one factor has few rows: the shape of every
 * step, for which a general dgemm copies the other factor first. All rows begin at multiples of 64
 * bytes and are `width` apart; n <= width sites are in use. Vector code for the machine at hand is
 * chosen at run time. */
#pragma once

#include "kernels/array/real.h"

#include <stdbool.h>
#include <stddef.h>

/* Sites whose products are added up before they are added to a sum. */
#define FEW_ROWS_SITES 512
/* Numbers of a factor that few_rows_matrix reads where they lie: they stay in the first cache. */
#define FEW_ROWS_NEAR 4096

/* C[k * stride + l] += sum_i a_k,i b_l,i,   k < na, l < nb; a, the longer factor, is read once */
void few_rows_dots(const real *a, int na, const real *b, int nb, int n, size_t width, double *C,
                   size_t stride);
/* A few rows through a small matrix: y_k,i = outer (inner sum_j x_k,j W_i,j), the sums being those
 * of few_rows_dots, bit by bit; at most FEW_ROWS_TIMES rows k and FEW_ROWS_SITES sites j, `width`
 * the same for x and W. Rows of y are `apart` from one another. */
#define FEW_ROWS_TIMES 4
void few_rows_times(const real *W, int rows, const real *x, int count, int n, size_t width,
                    double inner, double outer, real *y, size_t apart);
/* Number (k, l) of a matrix is at[k * row + l * column]. */
struct few_rows_matrix {
    const real *at;
    size_t row, column;
};
/* Combines rows: y_k,i = beta y_k,i + sum_l C_k,l a_l,i, C [ny][na]; if beta = 0, y is not read. */
void few_rows_combine(real *y, int ny, real beta, struct few_rows_matrix C, const real *a, int na,
                      int n, size_t width);
/* Adds rows: y_k,i += c[k] x_k,i; if c is NULL, it is 1. */
void few_rows_add(real *y, const double *c, const real *x, int rows, int n, size_t width);
/* 1 on the K largest of the n <= FEW_ROWS_TOP numbers of a row, of equal ones on the first; else 0.
 * NaN counts as larger than all numbers. */
#define FEW_ROWS_TOP 64
void few_rows_top(const real *x, int n, int K, real *mask);
/* y_k,i = beta y_k,i + scale sum_l a_k,l b_l,i;  beta = 0: y is not read. Many rows k times many
 * columns i; an element has the same bits whichever others are found with it. Of either matrix
 * row or column is 1. Rows of y begin at multiples of 64 bytes, and so do the columns of b where
 * b.column = 1, or else its rows; both are padded to as much. */
void few_rows_matrix(struct few_rows_matrix a, struct few_rows_matrix b, int rows, int terms,
                     int columns, real scale, real beta, real *y, size_t width);
/* Transposes, out_l,k = x_k,l; rows of x and of out are `row` and `width` apart, begin at multiples
 * of 64 bytes and are padded to as much. */
void few_rows_turned(const real *x, size_t row, int rows, int columns, real *out, size_t width);
/* At least so many multiply-adds of doubles in registers and nothing else, for the rate that
 * products can reach; *x depends on all of them. */
void few_rows_peak(double *x, long multiply_adds);
enum few_rows_level { FEW_ROWS_PLAIN, FEW_ROWS_AVX2, FEW_ROWS_AVX512, FEW_ROWS_BEST };
/* The vector code at work: of the machine, or of few_rows_use. */
enum few_rows_level few_rows_level(void);
/* Rows of the shorter factor up to which these are faster than a general dgemm. */
int few_rows_most(void);
/* Which vector code this is: "avx512", "avx2" or "plain". */
const char *few_rows_name(void);
/* For tests, while no other thread works: that of this name, or the machine's best (NULL). false:
 * the machine has no such code, and its best is used. */
bool few_rows_use(const char *name);
