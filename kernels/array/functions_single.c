#define SINGLE /* kernels/array/real.h */
#include "kernels/array/functions.c"
