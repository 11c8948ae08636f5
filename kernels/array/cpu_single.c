#define SINGLE /* kernels/array/real.h */
#include "kernels/array/cpu.c"
