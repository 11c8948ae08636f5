"""The dynamical model of scaling laws: N random features of K modes, trained on P samples or in a
single pass, in the limit in which N, P and K grow together (docs/theory/scaling_law.md).

    from dmft import scaling_law
    b, a, K = 1.4, 1.6, 400
    spectrum, shares = scaling_law.power(b, K), scaling_law.power(a, K)
    curve = scaling_law.train(spectrum, shares, N=120, P=160, rates=[0.5] * 40)
    curve.test, curve.training                 # errors before each step, and after the last

A mode k has variance spectrum[k] and shares[k] of the variance of the target. The networks are
those of `[network] model = dense`, depth = 1, activation = linear, whose read-in never learns
([rates] W1 = 0) and whose read-out begins at 0 ([init] w = 0), on `source = power_law` or data of
one's own; errors are mean squares, twice the loss of `[training] loss = mse`. Their theory is
closed in matrices over times, without sites, so it stands here and is no method of dmft-solve.
"""
from __future__ import annotations

import contextlib
import dataclasses

import numpy as np

from dmft.errors import InputError

CHUNK = 1 << 22  # entries of the matrices of modes that are inverted at a time
ROUND_OFF = 1e-12


@dataclasses.dataclass(frozen=True)
class Curve:
    """Mean squares of the error, [T + 1]: of fresh inputs, and of those that are trained on (in a
    single pass of the batch of this step), with the noise of targets in both."""
    test: np.ndarray
    training: np.ndarray


def power(exponent: float, K: int) -> np.ndarray:
    """k^-exponent, k = 1 ... K, with the sum 1.

    >>> power(1, 2)
    array([0.66666667, 0.33333333])
    """
    values = np.arange(1.0, K + 1) ** -exponent
    return values / values.sum()


def of_data(run) -> tuple[np.ndarray, np.ndarray]:
    """(spectrum, shares) of the data of a run with `source = power_law`; inputs enter a network as
    X/sqrt D."""
    if "target_shares" not in run.data:
        raise InputError(f"{run.path}: its data are not those of [data] source = power_law")
    spectrum = run.data["spectrum"].values
    return spectrum / len(spectrum), run.data["target_shares"].values


def _modes(spectrum, shares) -> tuple[np.ndarray, np.ndarray]:
    spectrum, shares = (np.asarray(one, dtype=float) for one in (spectrum, shares))
    if spectrum.ndim != 1 or spectrum.shape != shares.shape or not len(spectrum):
        raise InputError("spectrum and shares must be two lists of one length, a number for each "
                         f"mode; they have the shapes {spectrum.shape} and {shares.shape}")
    if not (np.isfinite(spectrum) & (spectrum > 0) & np.isfinite(shares) & (shares >= 0)).all():
        raise InputError("spectrum must be above 0 and shares 0 or above, in every mode")
    return spectrum, shares


def _number(name: str, value, least: float) -> float:
    if not float(value) >= least:
        raise InputError(f"{name} = {value}: it must be a number of at least {least:g}")
    return float(value)


def _rates(rates) -> np.ndarray:
    rates = np.asarray(rates, dtype=float)
    if rates.ndim != 1 or not len(rates) or not (np.isfinite(rates) & (rates >= 0)).all():
        raise InputError("rates must be a list with the learning rate of each step, 0 or above")
    return rates


@contextlib.contextmanager
def _errors_are_finite():
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except np.linalg.LinAlgError:
        raise InputError("the errors grow beyond all numbers: the rates are too large") from None


def _mode_sums(spectrum, shares, E, R1, R3, C1, C3, N, P):
    """Of all modes: sum lambda H, C0, C2. H = (1 + lambda E R3 R1)^-1 of each."""
    T = len(E)
    eye, M = np.eye(T), E @ R3 @ R1
    sums = [np.zeros((T, T)) for _ in range(3)]
    noise = E @ R3 @ C1 @ R3.T @ E.T / P
    start = E @ C3 @ E.T / N
    some = max(1, CHUNK // (T * T))
    for first in range(0, len(spectrum), some):
        part = slice(first, first + some)
        l = spectrum[part, None, None]
        w2 = (shares[part] / spectrum[part])[:, None, None]
        H = np.linalg.inv(eye + l * M)
        S = w2 + start
        sums[0] += (l * H).sum(0)
        sums[1] += (l * (H @ (S + l * noise) @ H.transpose(0, 2, 1))).sum(0)
        RH = R1 @ H
        J = eye - l * (RH @ (E @ R3))
        sums[2] += (l / P * (J @ C1 @ J.transpose(0, 2, 1))
                    + l * l * (RH @ S @ RH.transpose(0, 2, 1))).sum(0)
    return sums


def train(spectrum, shares, rates, N=np.inf, P=np.inf, noise: float = 0,
          single_pass: bool = False) -> Curve:
    """The errors of N features on P samples, which are all seen at every step, or, in a single
    pass, P new ones at every step. noise: the standard deviation of targets about their mean.

    >>> curve = train([1.0], [1.0], rates=[0.5, 0.5])      # one mode, without noise: (1 - rate)^2t
    >>> curve.test
    array([1.    , 0.25  , 0.0625])
    """
    spectrum, shares = _modes(spectrum, shares)
    rates = _rates(rates)
    N, P, noise = _number("N", N, 1), _number("P", P, 1), _number("noise", noise, 0)
    T = len(rates) + 1
    E = np.tril(np.ones((T, T)), -1) * np.append(rates, 0)  # error = start - E (gradients)
    eye = np.eye(T)
    Rt, R24, C1, C3 = (np.zeros((T, T)) for _ in range(4))
    with _errors_are_finite():
        for _ in range(2 * T + 2):  # exact after T rounds, since causes come before effects
            before = [one.copy() for one in (Rt, R24, C1, C3)]
            R1, R3 = np.linalg.inv(eye - Rt), np.linalg.inv(eye - R24)
            seen = np.diag(np.diag(C1)) if single_pass else C1  # inputs are new at each step
            sum_H, C0, C2 = _mode_sums(spectrum, shares, E, R1, R3, seen, C3, N, P)
            if not single_pass:  # else nothing comes back from inputs, and R1 stays 1
                Rt = -sum_H @ E @ R3 / P
            C1 = R1 @ (C0 + noise ** 2) @ R1.T
            R24 = -R1 @ sum_H @ E / N
            C3 = R3 @ C2 @ R3.T
            if not np.isfinite(C3).all():
                raise np.linalg.LinAlgError
            if all(np.abs(new - old).max() <= ROUND_OFF * np.abs(new).max()
                   for new, old in zip((Rt, R24, C1, C3), before)):
                break
    return Curve(np.diag(C0) + noise ** 2, np.diag(C1).copy())


def _resolution(spectrum, size: float) -> float:
    """kappa such that sum lambda/(lambda + kappa) = size, by halving its logarithm: modes with
    lambda above it are learnt. 0 where the size is that of all modes, or more."""
    if size >= len(spectrum):
        return 0.0
    low, high = np.log(spectrum.min() * 1e-20), np.log(spectrum.sum() / size)
    while high - low > ROUND_OFF:
        middle = (low + high) / 2
        few = (spectrum / (spectrum + np.exp(middle))).sum() < size
        low, high = (low, middle) if few else (middle, high)
    return float(np.exp(low))


def plateau(spectrum, shares, N=np.inf, P=np.inf, noise: float = 0) -> float:
    """The test error, with the noise of targets in it, that N features on P samples keep after
    infinitely many steps, all samples in each: the limit of train(...).test. inf where N = P.

    >>> plateau([1.0, 0.1], [0.5, 0.5])                     # all modes are learnt
    0.0
    """
    spectrum, shares = _modes(spectrum, shares)
    N, P, noise = _number("N", N, 1), _number("P", P, 1), _number("noise", noise, 0)
    kappa = _resolution(spectrum, min(N, P))
    left, learnt = kappa / (spectrum + kappa), spectrum / (spectrum + kappa)
    both, squares = left @ learnt, learnt @ learnt
    other = both / (N - squares) if kappa else 0.0
    error = shares @ left ** 2 + other * (shares @ (left * learnt)) + noise ** 2
    if error == 0:
        return 0.0
    rest = 1 - squares / P - both * other / P
    return float(error / rest) if rest > ROUND_OFF else np.inf


def _sgd(spectrum, shares, rates, batch, noise):
    """Mean squares [T + 1][K] of the errors of modes, infinitely many features, a single pass."""
    errors = np.empty((len(rates) + 1, len(spectrum)))
    errors[0] = shares / spectrum
    for t, rate in enumerate(rates):
        loss = spectrum @ errors[t] + noise ** 2
        errors[t + 1] = (1 - rate * spectrum) ** 2 * errors[t] \
            + rate ** 2 * spectrum * loss / batch
    return errors


def final_error(spectrum, shares, rates, batch: float, noise: float = 0):
    """(the test error behind the last step, without the noise of targets; its derivative by each
    rate), of infinitely many features in a single pass."""
    spectrum, shares = _modes(spectrum, shares)
    rates = _rates(rates)
    errors = _sgd(spectrum, shares, rates, batch, noise)
    back = spectrum.copy()  # of the final error by the errors of modes at t + 1
    slope = np.empty(len(rates))
    for t in range(len(rates) - 1, -1, -1):
        rate, now = rates[t], errors[t]
        loss = spectrum @ now + noise ** 2
        keep = 1 - rate * spectrum
        slope[t] = back @ (-2 * spectrum * keep * now + 2 * rate * spectrum * loss / batch)
        back = keep ** 2 * back + rate ** 2 / batch * (back @ spectrum) * spectrum
    return float(spectrum @ errors[-1]), slope


def optimal_rates(spectrum, shares, steps: int, batch: float, noise: float = 0,
                  most: float = 1.0, rounds: int = 3000) -> np.ndarray:
    """The rates of a single pass of so many steps, none above `most`, at the end of which the test
    error is least: descent along the exact gradient in ln rate, with steps that are taken only
    where they lower the error.

    >>> optimal_rates([1.0], [1.0], steps=1, batch=1e9).round(6)   # one mode: all at once
    array([1.])
    """
    if steps < 1 or not most > 0:
        raise InputError(f"steps = {steps}, most = {most}: both must be above 0")
    _number("batch", batch, 1)
    spectrum, shares = _modes(spectrum, shares)
    # where no mode oversteps, and the noise of few samples does not grow
    first = min(most, 1 / (spectrum.max() + spectrum.sum() / batch))
    log = np.full(int(steps), np.log(first / 2))
    value, slope = final_error(spectrum, shares, np.exp(log), batch, noise)
    gradient, length = slope * np.exp(log), 1.0
    for _ in range(rounds):
        direction = gradient / (np.abs(gradient).max() or 1)
        new = np.minimum(log - length * direction, np.log(most))
        new_value, new_slope = final_error(spectrum, shares, np.exp(new), batch, noise)
        if new_value < value:
            done = value - new_value <= 1e-13 * value
            log, value, gradient = new, new_value, new_slope * np.exp(new)
            length *= 1.3
            if done:
                break
        else:
            length /= 2
            if length < 1e-12:
                break
    return np.exp(log)


def _dotted(ax, x, y, exponent: float, words: str) -> None:
    """A power through the last point (x, y), an octave to the left of it and more."""
    x = np.asarray(x, dtype=float)
    ax.plot(x, y[-1] * (x / x[-1]) ** exponent, ":", color="0.5", label=words)


def draw(axes, a: float, b: float, K: int, rates, sizes) -> None:
    """On three axes of matplotlib, of shares k^-a on a spectrum k^-b of K modes: test errors over
    steps of `sizes` features on infinitely many samples; those of infinitely many features on
    `sizes` samples, each beside gradient descent on the population; and what is left after
    infinitely many steps against N and P, of 1000 K modes. Dotted: the laws t^-(a - 1)/b and
    P^-(a - 1).

    >>> figure, axes = plt.subplots(1, 3, sharey=True)                          # doctest: +SKIP
    >>> scaling_law.draw(axes, 2, 1.5, 300, [1.0] * 60, [4, 16])                # doctest: +SKIP
    """
    spectrum, shares = power(b, K), power(a, K)
    t = np.arange(len(rates) + 1)[1:]
    whole = train(spectrum, shares, rates).test[1:]
    for ax, name in zip(axes, ("N", "P")):
        for k, size in enumerate(sizes):
            curve = train(spectrum, shares, rates, **{name: size})
            ax.plot(t, curve.test[1:], color=f"C{k}", label=f"${name} = {size:g}$")
        ax.plot(t, whole, color="black", label=rf"${name} \to \infty$")
        _dotted(ax, t, whole, -(a - 1) / b, "$t^{-(a-1)/b}$")
        ax.set(xlabel="step $t$")
    many = 2.0 ** np.arange(1, int(np.log2(K)) + 1)
    spectrum, shares = power(b, 1000 * K), power(a, 1000 * K)
    for k, name in enumerate(("N", "P")):
        left = [plateau(spectrum, shares, **{name: size}) for size in many]
        axes[2].plot(many, left, ".-", color=f"C{k}", label=f"${name}$, $t \\to \\infty$")
    _dotted(axes[2], many, left, -(a - 1), "$P^{-(a-1)}$")
    axes[2].set(xlabel="$N$ or $P$")
    for ax in axes:
        ax.set(xscale="log", yscale="log")
        ax.legend()
    axes[0].set_ylabel("test error")
