"""Whether the whole curve of an objective over a key, as a learning rate, is the same at every
width: by which factor the key of one curve has to be multiplied to lay it on the other, and how far
apart the two are.

A best rate is one place of a curve, and where the curve is flat, or has several minima, it says
little: its interval is wide, or jumps. A shift uses the objective at all values of the key where
both widths train. Curves are laid on each other as the optimum sees them, asinh(ln(objective/its
least)), up to a height, so that a wider network may be better at all rates; between the values of
the key the curve of the smallest width is the spline of optimum.py, and samples go as far from it
as its process does. The distance is the root mean
square of the logarithm of the quotient of the two objectives, at the same values of the key, less
what their errors make of it. Intervals are those of samples, which move both curves as other runs
would move them.
"""
from __future__ import annotations

import functools
import math

import numpy as np

from dmft.judgement import interval
from dmft.study import optimum

SHIFTS = 81  # that are tried

# Of the group /optimum, of means alone.
NUMBERS = {
    "shift": "factor in the key that lays the whole curve of the objective on that of the smallest "
             "width; NaN where that is not known",
    "shift_low": "lower end of the interval of 95 % of shift",
    "shift_high": "upper end of the interval of 95 % of shift",
    "factor": "by which factor the curves of the objective are apart, at the same values of the "
              "key: exp of the root mean square of the logarithm of their quotient, less the part "
              "of its errors",
    "factor_low": "lower end of the interval of 95 % of factor",
    "factor_high": "upper end of the interval of 95 % of factor",
}
UNKNOWN = (math.nan,) * len(NUMBERS)


class Samples:
    """A curve whose points are those that train, with samples of it. points: at increasing x, the
    logarithms of the key; N: the width, 0 for the limit."""

    def __init__(self, points: list[optimum.Point], N: int):
        best = min((i for i, point in enumerate(points) if point.usable),
                   key=lambda i: points[i].value, default=None)
        self.curve = optimum.Curve(points, best, True, N) if best is not None else None
        self.count = len(self.curve.x) if self.curve else 0
        if self.count < optimum.USABLE or self.curve.runs < 2:
            self.count = 0
            return
        self.curve.find_errors()
        self.x, least = self.curve.x, math.log(self.curve.points[self.curve.best].value)
        self.y = np.vstack([self.curve.y, self.curve.moved()])  # first the estimates, then samples
        with np.errstate(over="ignore"):  # samples of few runs may go anywhere
            self.height = least + np.sinh(self.y)

    @functools.cached_property
    def between(self) -> tuple[np.ndarray, np.ndarray]:
        """(places, [estimates and samples][place] of the curve), also between the values of the
        key."""
        spline = optimum.Spline(self.x, self.curve.y, self.curve.variance)
        places, drawn = self.curve.drawn(spline)
        return places, np.vstack([spline.at(self.curve.y[None], places), drawn])


def _lowest(shifts: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Of each sample the shift of least cost, between the tried ones by a parabola; infinite at an
    end."""
    best = cost.argmin(axis=1)
    inner = np.clip(best, 1, len(shifts) - 2)
    rows = np.arange(len(cost))
    before, there, after = (cost[rows, inner + k] for k in (-1, 0, 1))
    bend = np.maximum(before - 2 * there + after, 1e-300)
    at = shifts[inner] + (shifts[1] - shifts[0]) * np.clip((before - after) / (2 * bend), -.5, .5)
    return np.where(best == 0, -np.inf, np.where(best == len(shifts) - 1, np.inf, at))


def _between(places: np.ndarray, height: np.ndarray, at: np.ndarray) -> np.ndarray:
    """[sample][at] of curves that are known at places close to each other."""
    right = np.clip(np.searchsorted(places, at), 1, len(places) - 1)
    share = (at - places[right - 1]) / (places[right] - places[right - 1])
    return height[:, right - 1] * (1 - share) + height[:, right] * share


def _shift(first: Samples, other: Samples) -> np.ndarray:
    """[estimates and samples] what is to be added to the first one's x."""
    places, height = first.between
    reach = min(np.ptp(first.x), np.ptp(other.x)) / 2
    shifts = np.linspace(-reach, reach, SHIFTS)
    cost = np.empty((len(height), SHIFTS))
    for k, shift in enumerate(shifts):
        place = other.x - shift
        both = (place >= first.x[0] - 1e-9) & (place <= first.x[-1] + 1e-9)
        apart = other.y[:, both] - _between(places, height, place[both])
        weight = 1 / (other.curve.variance[both] + float(np.mean(first.curve.variance)))
        apart = apart - (apart @ weight / weight.sum())[:, None]
        cost[:, k] = apart ** 2 @ weight / weight.sum()
    return _lowest(shifts, cost)


def _distance(first: Samples, other: Samples) -> np.ndarray | None:
    """[estimates and samples] the mean square of ln of the quotient, less that of its errors, which
    samples have twice; None: fewer than the values of the key that an optimum takes."""
    same, mine, yours = np.intersect1d(np.round(first.x, 9), np.round(other.x, 9),
                                       return_indices=True)
    if len(same) < optimum.USABLE:
        return None
    apart = other.height[:, yours] - first.height[:, mine]
    times = np.ones((len(apart), 1))
    times[1:] = 2
    with np.errstate(over="ignore", invalid="ignore"):  # of infinite samples it is not known
        return (apart ** 2 - times * apart[1:].var(axis=0)).mean(axis=1)


def compare(first: Samples, other: Samples, among: int = 1) -> tuple:
    """The NUMBERS of the curve `other` beside `first`, which may serve several. among: of how many
    comparisons the intervals hold for all together."""
    if not first.count or not other.count:
        return UNKNOWN
    shift, square = _shift(first, other), _distance(first, other)
    low, high = interval(shift[1:], among)
    known = math.isfinite(shift[0]) and math.isfinite(low + high)
    found = [math.exp(one) if known else math.nan for one in (shift[0], low, high)]
    if square is None:
        return (*found, *UNKNOWN[3:])
    ends = (square[0], *interval(square[1:], among))
    return (*found, *(math.exp(math.sqrt(max(one, 0.0))) for one in ends))
