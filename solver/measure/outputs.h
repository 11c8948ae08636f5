/* The loss, the outputs f and how well they answer, at the training and the test inputs. */
#pragma once

#include "solver/measure/instrument.h"

/* The series f, of P inputs, with an axis of tokens and one of outputs if there are several. */
struct series outputs_f(const struct data_setup *data, int P);
/* The class that a row of targets asks for, of one output 0 or 1 by the sign; -1: none. */
int outputs_class(int C, const double *y);
/* Evaluates the test inputs where time t asks for it, and fills their series. The net stays. */
int outputs_predict(const struct measuring *m, struct net *net, struct err *err);
