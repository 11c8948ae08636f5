#define SINGLE /* kernels/array/real.h */
#include "tests/test_few_rows.c"
