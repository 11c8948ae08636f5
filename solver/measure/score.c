#include "solver/measure/score.h"

/* The class that is asked for; -1: none is. */
static int class_of(int C, const double *y) {
    int class = -1;
    for (int c = 0; c < C; c++)
        if (y[c] > 0 && (class < 0 || y[c] > y[class]))
            class = c;
    return class;
}

/* Outputs before that of a class; and by how much it is above the largest of the others. */
static int place_of(int C, const double *f, int class, double *margin) {
    int before = 0, other = class == 0;
    for (int c = 0; c < C; c++) {
        before += f[c] > f[class] || (f[c] == f[class] && c < class);
        other = c != class && f[c] > f[other] ? c : other;
    }
    *margin = f[class] - f[other];
    return before;
}

void score_add(struct score *score, const struct loss *loss, int C, int K, const double *f,
               const double *y, double weight) {
    double Delta[C], margin = 0;
    int class = C > 1 ? class_of(C, y) : *y == 0 ? -1 : 0, place = -1;
    if (class >= 0 && C > 1) {
        place = place_of(C, f, class, &margin);
    } else if (class >= 0) {
        margin = *f * *y;
        place = margin > 0 ? 0 : C;
    }
    if (loss)
        score->loss += loss_weighted(loss, weight, C, f, y, Delta);
    score->margin += weight * margin;
    score->rows += weight;
    score->asked += place >= 0 ? weight : 0;
    score->right += place == 0 ? weight : 0;
    score->top += place >= 0 && place < K ? weight : 0;
}
