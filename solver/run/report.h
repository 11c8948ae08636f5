/* The table of limit against networks, what the gates do, and all notes, on standard output. */
#pragma once

#include "solver/run/run.h"

int report_print(const struct run *run, struct err *err);

/* What the tolerance does, if that was asked for. */
int report_tolerance(const struct run *run, struct err *err);

/* For the tables of dmft-solve and dmft-compare: a number right-adjusted in its column, after a
 * blank at least, "-" where it is not finite. */
void report_number(int width, int digits, double x);
/* How chi^2 of a + b/N, with so many degrees of freedom, and rows are to be judged. */
void report_fit(int degrees);

#define REPORT_TIMES 6
/* A few times, ending with the last one; returns how many. */
int report_times(int T, int time[REPORT_TIMES]);
