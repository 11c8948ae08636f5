/* The functions of one variable that networks are made of: a row for each. The backends compute it,
 * settings, scripts and help know it, by this row alone.
 *
 *     ROW(number, word, formula, loop, rest)
 *
 * formula is text in which FN_X stands for what the function is of. `loop` is an expression that
 * gives FN_VALUE = f(u) and FN_SLOPE = f'(u) for u = FN_U, and becomes one loop of vector code.
 * Compilers make scalar code of sin beside cos: then `rest` is what a second loop does, else
 * FN_DONE. Numbers that are not whole are FN_REAL(...), of the loop's precision. NaN gives NaN. */
#pragma once

#define FN_DONE (void)0

/* 1 or 0, and NaN of NaN. */
#define FN_ABOVE_ZERO (FN_U > 0 ? 1 : FN_U <= 0 ? 0 : FN_U)
/* exp(-|u|), and 1/(1 + exp(-u)) and its derivative from it. */
#define FN_DECAY exp(-fabs(FN_U))
#define FN_SIGMOID_OF(decay) ((FN_U < 0 ? decay : 1) / (1 + decay))
#define FN_SIGMOID_SLOPE(decay) (decay / ((1 + decay) * (1 + decay)))

/* Scripts call FN_WORDS by their word with a factor; of these FN_ACTIVATIONS are choices of the key
 * [network] activation, behind `linear`. */
#define FN_ACTIVATIONS(ROW)                                                                        \
    ROW(FN_TANH, "tanh", "tanh(" FN_X ")",                                                         \
        (FN_VALUE = tanh(FN_U), FN_SLOPE = 1 - FN_VALUE * FN_VALUE), FN_DONE)                      \
    ROW(FN_ERF, "erf", "erf(" FN_X ")",                                                            \
        (FN_VALUE = erf(FN_U), FN_SLOPE = FN_REAL(FN_2_BY_SQRT_PI) * exp(-FN_U * FN_U)), FN_DONE)  \
    ROW(FN_RELU, "relu", "max(0, " FN_X ")",                                                       \
        (FN_VALUE = FN_U < 0 ? 0 : FN_U, FN_SLOPE = FN_ABOVE_ZERO), FN_DONE)                       \
    ROW(FN_GELU, "gelu",                                                                           \
        FN_X " Phi(" FN_X "), Phi the distribution function of a standard normal",                 \
        (FN_VALUE = FN_REAL(0.5) * erfc(-FN_U * FN_REAL(FN_1_BY_SQRT_2)),                          \
         FN_SLOPE =                                                                                \
             FN_VALUE + FN_U * FN_REAL(FN_1_BY_SQRT_2PI) * exp(FN_REAL(-0.5) * FN_U * FN_U),       \
         FN_VALUE *= FN_U),                                                                        \
        FN_DONE)                                                                                   \
    ROW(FN_SOFTPLUS, "softplus", "log(1 + exp(" FN_X "))", FN_SLOPE = FN_DECAY,                    \
        (FN_VALUE = log1p(FN_SLOPE) + (FN_U < 0 ? 0 : FN_U), FN_SLOPE = FN_SIGMOID_OF(FN_SLOPE)))  \
    ROW(FN_SILU, "silu", FN_X "/(1 + exp(-" FN_X "))",                                             \
        (FN_SLOPE = FN_DECAY, FN_VALUE = FN_SIGMOID_OF(FN_SLOPE),                                  \
         FN_SLOPE = FN_VALUE + FN_U * FN_SIGMOID_SLOPE(FN_SLOPE), FN_VALUE *= FN_U),               \
        FN_DONE)
#define FN_WORDS(ROW)                                                                              \
    FN_ACTIVATIONS(ROW)                                                                            \
    ROW(FN_EXP, "exp", "exp(" FN_X ")", FN_SLOPE = FN_VALUE = exp(FN_U), FN_DONE)                  \
    ROW(FN_SIN, "sin", "sin(" FN_X ")", FN_VALUE = sin(FN_U), FN_SLOPE = cos(FN_U))                \
    ROW(FN_COS, "cos", "cos(" FN_X ")", FN_VALUE = cos(FN_U), FN_SLOPE = -sin(FN_U))               \
    ROW(FN_LOG, "log", "log(" FN_X "), for which " FN_X " must be above 0",                        \
        (FN_VALUE = log(FN_U), FN_SLOPE = 1 / FN_U), FN_DONE)
/* All: linear has no word, 1/x is division, and sigmoid is a word with options. */
#define FN_ALL(ROW)                                                                                \
    ROW(FN_LINEAR, "linear", FN_X, (FN_VALUE = FN_U, FN_SLOPE = 1), FN_DONE)                       \
    FN_WORDS(ROW)                                                                                  \
    ROW(FN_SIGMOID, "sigmoid", "1/(1 + exp(-" FN_X "))",                                           \
        (FN_SLOPE = FN_DECAY, FN_VALUE = FN_SIGMOID_OF(FN_SLOPE),                                  \
         FN_SLOPE = FN_SIGMOID_SLOPE(FN_SLOPE)),                                                   \
        FN_DONE)                                                                                   \
    ROW(FN_INVERSE, "inverse", "1/" FN_X, (FN_VALUE = 1 / FN_U, FN_SLOPE = -FN_VALUE * FN_VALUE),  \
        FN_DONE)

#define FN_1_BY_SQRT_2 0.70710678118654752440
#define FN_1_BY_SQRT_2PI 0.39894228040143267794
#define FN_2_BY_SQRT_PI 1.12837916709551257390
