#define SINGLE /* kernels/array/real.h */
#include "kernels/array/shadow.c"
