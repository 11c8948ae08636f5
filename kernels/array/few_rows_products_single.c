#define SINGLE /* kernels/array/real.h */
#include "kernels/array/few_rows_products.c"
