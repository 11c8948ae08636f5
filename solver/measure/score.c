#include "solver/measure/score.h"

/* Outputs before that of the class asked for; -1: none is. */
static int place_of(int C, const double *f, const double *y) {
    int class = -1, before = 0;
    for (int c = 0; c < C; c++)
        if (y[c] > 0 && (class < 0 || y[c] > y[class]))
            class = c;
    for (int c = 0; c < C && class >= 0; c++)
        before += f[c] > f[class] || (f[c] == f[class] && c < class);
    return class < 0 ? -1 : before;
}

void score_add(struct score *score, const struct loss *loss, int C, int K, const double *f,
               const double *y) {
    double Delta[C];
    int place = C > 1 ? place_of(C, f, y) : *y == 0 ? -1 : *f * *y > 0 ? 0 : C;
    score->loss += loss->value(C, f, y, Delta);
    score->rows++;
    score->asked += place >= 0;
    score->right += place == 0;
    score->top += place >= 0 && place < K;
}
