/* Reading what a run has written. */
#pragma once

#include "kernels/base/base.h"

/* Both functions: CODE_INPUT where a file is none of ours or lacks what is asked for, CODE_SYSTEM
 * where it cannot be read.
 *
 * How many runs of a group ("limit", "reference/N0064") have failed, as a complete file says; 0
 * where it says nothing. */
int result_failed(const char *path, const char *group, int *failed, struct err *err);
/* The name of the program that wrote a file, to be freed; CODE_INPUT if the file is not a result of
 * one, complete or partial. */
int result_program(const char *path, char **program, struct err *err);
