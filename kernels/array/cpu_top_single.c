#define SINGLE /* kernels/array/real.h */
#include "kernels/array/cpu_top.c"
