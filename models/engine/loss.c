#include "models/engine/loss.h"
#include "kernels/array/functions.h"
#include "kernels/base/text.h"

static double mse(int C, const double *f, const double *y, double *Delta) {
    double l = 0;
    for (int c = 0; c < C; c++) {
        Delta[c] = y[c] - f[c];
        l += 0.5 * Delta[c] * Delta[c];
    }
    return l;
}

static void mse_curvature(int C, const double *f UNUSED, const double *y UNUSED, double *H) {
    for (int k = 0; k < C * C; k++)
        H[k] = k % (C + 1) == 0;
}

CHOICE(loss, mse, "l = (y - f)^2/2, summed over outputs", NULL, .equation = "sum_c (y - f)^2 / 2",
       .tex = "\\frac{1}{2} \\sum_c (y_c - f_c)^2", .targets = LOSS_TARGETS_NUMBERS, .value = mse,
       .curvature = mse_curvature);

/* The slope is that of mse, but not beyond 1. */
static double huber(int C, const double *f, const double *y, double *Delta) {
    double l = 0;
    for (int c = 0; c < C; c++) {
        double rest = y[c] - f[c];
        Delta[c] = fmax(-1, fmin(1, rest));
        l += Delta[c] * (rest - 0.5 * Delta[c]);
    }
    return l;
}

static void huber_curvature(int C, const double *f, const double *y, double *H) {
    for (int k = 0; k < C * C; k++)
        H[k] = k % (C + 1) == 0 && fabs(y[k % C] - f[k % C]) <= 1;
}

static CHOICE(loss, huber,
              "l = (y - f)^2/2 where |y - f| <= 1, else |y - f| - 1/2, summed over outputs", NULL,
              .equation = "sum_c d (|y - f| - d/2), d = min(|y - f|, 1)",
              .tex = "\\sum_c d_c (|y_c - f_c| - d_c/2),\\; d_c = \\min(|y_c - f_c|, 1)",
              .targets = LOSS_TARGETS_NUMBERS, .value = huber, .curvature = huber_curvature);

/* The exponential is of a number that is not positive, so it never overflows. */
static double logistic(int C UNUSED, const double *f, const double *y, double *Delta) {
    double margin = *y * *f;
    *Delta = *y / (1 + exp(margin));
    return margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin;
}

static void logistic_curvature(int C, const double *f, const double *y, double *H) {
    double Delta;
    logistic(C, f, y, &Delta);
    *H = fabs(Delta) * (1 - fabs(Delta));
}

CHOICE(loss, logistic, "l = log(1 + exp(-y f)), for one output and labels +1 or -1", NULL,
       .equation = "log(1 + exp(-y f))", .tex = "\\log(1 + e^{-y f})",
       .targets = LOSS_TARGETS_SIGNS, .value = logistic, .curvature = logistic_curvature);

/* At y f = 1, where there is no derivative, the gradient is that of the flat side. */
static double hinge(int C UNUSED, const double *f, const double *y, double *Delta) {
    double margin = *y * *f;
    bool right = margin >= 1; /* fmax(0, 1 - margin) would be 0 of NaN */
    *Delta = right ? 0 : *y;
    return right ? 0 : 1 - margin;
}

static void hinge_curvature(int C UNUSED, const double *f UNUSED, const double *y UNUSED,
                            double *H) {
    *H = 0;
}

static CHOICE(loss, hinge, "l = max(0, 1 - y f), for one output and labels +1 or -1", NULL,
              .equation = "max(0, 1 - y f)", .tex = "\\max(0, 1 - y f)",
              .targets = LOSS_TARGETS_SIGNS, .value = hinge, .curvature = hinge_curvature);

/* The largest output of a row is taken out of all of them before they are exponentiated. */
static void exponentials(int rows, int C, const double *f, double *Delta) {
    for (ptrdiff_t first = 0, i; first < rows * (ptrdiff_t)C; first += C) {
        double largest = f[first];
        for (i = first; i < first + C; i++)
            largest = f[i] > largest ? f[i] : largest;
        for (i = first; i < first + C; i++)
            Delta[i] = f[i] - largest;
    }
    functions_apply(FN_EXP, 1, 0, Delta, rows * C, Delta, NULL);
}

/* A row of zeros asks for nothing: its loss and Delta are 0. */
static double cross_entropy(int C, const double *f, const double *y, double *Delta) {
    double largest = f[0], sum = 0, asked = 0, l = 0;
    for (int c = 0; c < C; c++) {
        largest = f[c] > largest ? f[c] : largest;
        sum += Delta[c];
        asked += y[c];
    }
    double share = asked / sum, log_sum = log(sum);
    for (int c = 0; c < C; c++) {
        Delta[c] = y[c] - share * Delta[c];
        l -= y[c] == 0 ? 0 : y[c] * (f[c] - largest - log_sum);
    }
    return l;
}

/* asked (diag p - p p^T), p the softmax: (y - Delta)/asked. */
static void cross_entropy_curvature(int C, const double *f, const double *y, double *H) {
    double asked = 0, Delta[C];
    loss_weighted(&loss_cross_entropy, 1, C, f, y, Delta);
    for (int c = 0; c < C; c++)
        asked += y[c];
    for (int c = 0; c < C; c++)
        for (int d = 0; d < C; d++) {
            double a = y[c] - Delta[c], b = y[d] - Delta[d];
            H[c * C + d] = asked == 0 ? 0 : (c == d ? a : 0) - a * b / asked;
        }
}

CHOICE(loss, cross_entropy,
       "l = -log softmax(f) at the class that is the target, for several outputs", NULL,
       .equation = "-sum_c y_c log softmax_c(f)",
       .tex = "-\\sum_c y_c \\log \\mathrm{softmax}_c(f)", .targets = LOSS_TARGETS_CLASSES,
       .begin = exponentials, .value = cross_entropy, .curvature = cross_entropy_curvature);

const struct choice *const loss_list[] = {&loss_mse.choice,           &loss_huber.choice,
                                          &loss_logistic.choice,      &loss_hinge.choice,
                                          &loss_cross_entropy.choice, NULL};

const char *loss_targets(const struct loss *loss) {
    static const char *const words[] = {[LOSS_TARGETS_NUMBERS] = "numbers",
                                        [LOSS_TARGETS_SIGNS] = "signs",
                                        [LOSS_TARGETS_CLASSES] = "classes"};
    return words[loss->targets];
}

double loss_weighted(const struct loss *loss, double weight, int C, const double *f,
                     const double *y, double *Delta) {
    if (loss->begin)
        loss->begin(1, C, f, Delta);
    return loss_begun(loss, weight, C, f, y, Delta);
}

double loss_begun(const struct loss *loss, double weight, int C, const double *f, const double *y,
                  double *Delta) {
    double l = loss->value(C, f, y, Delta);
    for (int c = 0; c < C; c++)
        Delta[c] *= weight;
    return weight * l;
}

const struct loss *loss_row(size_t k) {
    return (const struct loss *)loss_list[k];
}

void loss_name(enum loss_targets targets, char *note) {
    const char *joint = "";
    for (size_t k = 0; loss_list[k]; k++)
        if (loss_row(k)->targets == targets) {
            text_append(note, "%s%s", joint, loss_list[k]->name);
            joint = " or ";
        }
}
