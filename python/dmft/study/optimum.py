"""Where an objective is smallest along a key, of one column of a sweep (one width, or the limit, at
one value of every other key): a smooth curve through the logarithms of the objective, and its
lowest place, with samples that say how well both are known.

The curve is the cubic smoothing spline of the estimates over x, which is the logarithm of the key:
the mean of a process f with f'' = white noise, a straight line of unknown height and slope added,
given estimates with the errors that the runs show (Wahba, Spline Models for Observational Data,
1990, chapter 1). The amplitude of that noise is the one that makes the estimates most likely
(restricted maximum likelihood; scipy's smoothing splines have cross-validation instead), so that a
curve which is only noise becomes a straight line, and has no optimum. The spline sees
asinh(ln objective - its least), which has the same lowest place and does not let a run that nearly
diverges bend the curve where it is low.

Each sample repeats the fit to estimates that are moved as other runs might have moved them: by
sum_r g_r (x_r - mean)/sqrt(n (n - 1)) over the n runs (or pseudo-values of the jackknife) with the
same normal g_r at all values of the key, since these share their initial weights, times Student's
factor for n - 1; medians by medians of runs drawn with replacement. Between the values of the key a
sample goes as far from the spline as the process does. Where the objective rises on one side as no
curve continued from the other side would (divergence), the optimum may lie anywhere up to that
rise, and samples do. All random numbers are functions of a seed, the width, the number of the
sample and of the run, and, for errors that the runs do not show and up to a rise, of the estimates
to six digits: calls agree to round-off, and sample b of two columns of the same width has the same
runs, so that ratios of samples are paired.
"""
from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from scipy.special import gammaincinv, ndtri

from dmft.judgement import COUNT as SAMPLES
from dmft.judgement import interval

MOST, FINE, USABLE = 64, 16, 4  # values of the key; places between two of them; values at least
ERRORS = 2  # an estimate below so many of its errors does not decide
CLIFF = 3  # how many times steeper a rise is than a curve continued
SMALLEST = 1e-6  # variance of an estimate at least, for the fit alone

# Why no optimum is known; the places in this list are the numbers of `reason` in the file.
REASONS = ["", "not known: it may lie below the lowest value",
           "not known: it may lie above the highest value",
           "not known: runs failed, or have no value, beside it", "not known: noise",
           "not known: fewer than 4 values can be used", "not known: one run has no error",
           "none: runs failed, or have no value, everywhere",
           "none: the limit rests"]
KNOWN, LOWEST, HIGHEST, BESIDE, NOISE, FEW, SINGLE, NONE, RESTS = range(len(REASONS))


@dataclasses.dataclass
class Point:
    """The estimate at one value of the key. x: ln key, or the key where some value is not positive;
    value: the mean or median, with its standard error, NaN for one run; run: of each run, or None,
    where only value and error are known; failed: no estimate, or some of its runs failed: it bounds
    what is known."""
    x: float
    value: float
    error: float
    runs: int
    run: np.ndarray | None
    failed: bool

    @property
    def usable(self) -> bool:
        """Whether it did not fail and exceeds two of its errors."""
        known = math.isnan(self.error) or self.value > ERRORS * self.error
        return not self.failed and math.isfinite(self.value) and self.value > 0 and known


@dataclasses.dataclass
class Optimum:
    """What is found. reason: a number of REASONS; best: the value of the key with the smallest
    estimate, None where there is none. An interval, low to high, holds 95 % of the samples; at is
    NaN unless it is known, and so are the objective there, `value`, and its interval. A sample
    whose objective is lowest beyond the values that can be used is -inf or inf; NaN: there are
    none."""
    reason: int
    best: int | None
    at: float = math.nan
    low: float = math.nan
    high: float = math.nan
    value: float = math.nan
    value_low: float = math.nan
    value_high: float = math.nan
    sample: np.ndarray = dataclasses.field(default_factory=lambda: np.full(SAMPLES, math.nan))
    sample_value: np.ndarray = dataclasses.field(default_factory=lambda: np.full(SAMPLES, math.nan))


# ---- random numbers: functions of what they are for ----

RUN, SPREAD, REST, HEIGHT, SLOPE, RISE = range(1, 7)


def _uniform(purpose: int, sample, item, column: int) -> np.ndarray:
    """Uniform between 0 and 1, both excluded, of a sample and an item that are broadcast: the first
    word of Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011), whose
    counter these are."""
    word = [np.asarray(one, np.uint64) for one in (item, sample, column, purpose)]
    key, low, half = [0x6f707469, 0x6d756d31], np.uint64(0xffffffff), np.uint64(32)
    for _ in range(10):
        one, two = word[0] * np.uint64(0xD2511F53), word[2] * np.uint64(0xCD9E8D57)
        word = [(two >> half) ^ word[1] ^ np.uint64(key[0]), two & low,
                (one >> half) ^ word[3] ^ np.uint64(key[1]), one & low]
        key = [(key[0] + 0x9E3779B9) & 0xffffffff, (key[1] + 0xBB67AE85) & 0xffffffff]
    return (word[0].astype(float) + 0.5) / 4294967296.0


def _normal(purpose: int, sample, item, column: int) -> np.ndarray:
    return ndtri(_uniform(purpose, sample, item, column))


@functools.lru_cache(maxsize=8)
def _normals_between(count: int) -> tuple[np.ndarray, np.ndarray]:
    """What moves the curves of all samples between places, [sample][place]: the same for every
    curve that is looked at in as many, and most of the time that finding an optimum takes."""
    sample, item = np.arange(SAMPLES)[:, None], np.arange(1, count)
    return _normal(SLOPE, sample, item, 0), _normal(HEIGHT, sample, item, 0)


def _number_of(y: np.ndarray) -> int:
    """A number that other estimates do not have: FNV-1a. Round-off, which differs between machines,
    does not change it: samples are then the same on all of them."""
    number = 0xcbf29ce484222325
    for byte in np.rint(y * 1e6).astype("<i8").tobytes():
        number = (number ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return (number ^ number >> 32) & 0xffffffff


# ---- the spline ----

def _covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of the process without its line, for a roughness of one, at distances from x_0."""
    least = np.minimum(a, b)
    return least ** 3 / 3 + np.abs(a - b) * least ** 2 / 2


class Spline:
    """Through estimates at x, increasing, three or more, with these variances, all positive; its
    roughness is found from y."""
    LEAST, LARGEST, TRIALS = 1e-6, 1e4, 61  # from a straight line to one through every estimate

    def __init__(self, x: np.ndarray, y: np.ndarray, variance: np.ndarray):
        self.x = x
        unit = (x[-1] - x[0]) / (len(x) - 1)  # neighbours are one apart on average
        share = np.arange(self.TRIALS) / (self.TRIALS - 1)
        trials = self.LEAST * (self.LARGEST / self.LEAST) ** share / unit ** 3
        at = x - x[0]
        self.lines = np.stack([np.ones(len(x)), at], 1)
        self.factor = np.linalg.cholesky(  # all [trial] until one of them is chosen
            trials[:, None, None] * _covariance(at[:, None], at) + np.diag(variance))
        self.on_lines = self._solve(self.lines[None])
        self.normal = self.lines.T @ self.on_lines
        weight = self.solve(y[None])[1]  # weights are orthogonal to lines
        best = np.argmax(  # of the restricted log-likelihood of y
            -np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum(axis=1)
            - np.log(np.linalg.det(self.normal)) / 2 - weight[:, 0] @ y / 2)
        self.rough, self.factor = trials[best], self.factor[best]
        self.on_lines, self.normal = self.on_lines[best], self.normal[best]

    def _solve(self, y: np.ndarray) -> np.ndarray:
        """z with (factor factor^T) z = y, of each column."""
        return np.linalg.solve(self.factor.swapaxes(-1, -2), np.linalg.solve(self.factor, y))

    def solve(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(height and slope [sample][2], weights [sample][x]) of estimates [sample][x]."""
        line = np.linalg.solve(self.normal, self.on_lines.swapaxes(-1, -2) @ y.T).swapaxes(-1, -2)
        return line, self._solve((y - line @ self.lines.T).swapaxes(-1, -2)).swapaxes(-1, -2)

    def at(self, y: np.ndarray, places: np.ndarray) -> np.ndarray:
        """[sample][place] of the curve through estimates [sample][x]."""
        line, weight = self.solve(y)
        at = places - self.x[0]
        return line[:, :1] + line[:, 1:] * at + \
            self.rough * (weight @ _covariance(self.lines[:, 1:], at))


def _vertex(x: np.ndarray, y: np.ndarray) -> float:
    """Where the parabola through three points, the middle the lowest, has its vertex; between the
    middles of the two intervals."""
    before, after = (x[0] + x[1]) / 2, (x[1] + x[2]) / 2
    down, up = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    return before + (after - before) * down / (down - up) if up > down else x[1]


# ---- a curve ----

class Curve:
    """The points around the best one, up to the first on either side that cannot be used; means:
    else medians. N: of the width, 0 for the limit."""

    def __init__(self, points: list[Point], best: int, means: bool, N: int):
        first = last = best
        while first > 0 and points[first - 1].usable and best - first < MOST // 2 - 1:
            first -= 1
        while last < len(points) - 1 and points[last + 1].usable and last - best < MOST // 2 - 1:
            last += 1
        self.points, self.first, self.last = points[first:last + 1], first, last
        self.best, self.means, self.N = best - first, means, N
        value = np.array([point.value for point in self.points])
        height = np.log(value / points[best].value)
        self.x = np.array([point.x for point in self.points])
        self.y = np.arcsinh(height)
        self.scale = 1 / value / np.hypot(1, height)  # dy over d(estimate)
        self.runs = min(point.runs for point in self.points)
        self.own = _number_of(self.y)

    # ---- errors ----

    def find_errors(self) -> None:
        """`deviation` [run][x], what the runs that were kept add to y; `rest`, errors that they do
        not show; and the variances of a fit. What the runs do to all places alike moves no optimum,
        and is no error of a fit. Variances of few runs are uncertain: each is drawn towards their
        geometric mean as by four degrees of freedom."""
        n, count = self.runs, len(self.points)
        self.kept = 0 if all(point.run is None for point in self.points) else n
        self.deviation, shown_by = np.zeros((self.kept, count)), np.zeros(count, bool)
        for k, point in enumerate(self.points):
            if point.run is not None:
                shown_by[k] = self.means
                self.deviation[:, k] = (point.run[:n] - point.run.mean()) * self.scale[k] \
                    / math.sqrt(n * (n - 1))
        error = np.array([point.error for point in self.points]) * self.scale
        shown = (self.deviation ** 2).sum(axis=0)
        rest = error * error - shown
        self.rest = np.where(self.means & (rest > np.where(shown_by, 1e-9 * shown, 0)),
                             np.sqrt(np.maximum(rest, 0)), 0)
        apart = self.deviation - self.deviation.sum(axis=1, keepdims=True) / count
        variance = np.where(shown_by, (apart ** 2).sum(axis=0) + self.rest ** 2, error * error)
        pool = np.exp(np.log(variance + SMALLEST).mean())
        self.variance = ((n - 1) * (variance + SMALLEST) + 4 * pool) / (n - 1 + 4)

    def moved(self) -> np.ndarray:
        """[sample][x] of y, as other runs might have had it."""
        n, sample, runs = self.runs, np.arange(SAMPLES), np.arange(self.kept)
        # sqrt(nu/chi^2) of nu = n - 1 degrees of freedom
        spread = np.sqrt((n - 1) / (2 * gammaincinv((n - 1) / 2,
                                                    _uniform(SPREAD, sample, 0, self.N))))
        places = np.arange(len(self.points))
        moved = self.rest * _normal(REST, sample[:, None], places, self.own)
        if self.means:
            moved += _normal(RUN, sample[:, None], runs, self.N) @ self.deviation
        else:
            pick = (n * _uniform(RUN, sample[:, None], runs, self.N)).astype(int)
            for k, point in enumerate(self.points):
                if point.run is not None:
                    moved[:, k] = (np.median(point.run[pick], axis=1) - point.value) * self.scale[k]
        return self.y + spread[:, None] * moved

    # ---- its lowest place ----

    def places(self) -> np.ndarray:
        """Where it is looked at."""
        share = np.arange(FINE) / FINE
        fine = self.x[:-1, None] + share * np.diff(self.x)[:, None]
        return np.append(fine.ravel(), self.x[-1])

    def _paths(self, rough: float, places: np.ndarray) -> np.ndarray:
        """[sample][place] of the process without its line: of integrated white noise."""
        step = np.diff(places)
        root = math.sqrt(rough) * np.sqrt(step)
        a, b = _normals_between(len(places))
        slope = np.cumsum(root * a, axis=1)
        slope = np.concatenate([np.zeros((SAMPLES, 1)), slope[:, :-1]], axis=1)  # before each step
        rise = slope * step + root * step * (a / 2 + b / math.sqrt(12))
        return np.concatenate([np.zeros((SAMPLES, 1)), np.cumsum(rise, axis=1)], axis=1)

    def _rise(self, side: int) -> float:
        """The value of the key up to which the curve may go down although the next is high: on this
        side (-1 or 1) of the best, the estimate rises far more than the parabola through the best
        and two on the other side has it, which is bent little. NaN: no such rise."""
        k, count = self.best, len(self.points)
        at = [k, k - side, k - 2 * side, k + side]
        if min(at) < 0 or max(at) >= count:
            return math.nan
        h, x, v = np.sinh(self.y[at]), self.x[at], self.variance[at]
        w = np.array([np.prod([(x[3] - x[j]) / (x[i] - x[j]) for j in range(3) if j != i])
                      for i in range(3)])
        continued, variance = float(w @ h[:3]), float(v[3] + w * w @ v[:3])
        chord = h[0] + (h[0] - h[1]) * (x[3] - x[0]) / (x[0] - x[1])
        steep = h[3] - continued > CLIFF * (abs(continued - chord) + math.sqrt(variance))
        return float(x[3]) if steep else math.nan

    def drawn(self, spline: Spline) -> tuple[np.ndarray, np.ndarray]:
        """(places, [sample][place] of the curve as other runs, and what lies between the values of
        the key, might have had it)."""
        places = self.places()
        path = self._paths(spline.rough, places)
        return places, spline.at(self.moved() - path[:, ::FINE], places) + path

    def _draw(self, spline: Spline, found: Optimum) -> None:
        places, height = self.drawn(spline)
        best = height.argmin(axis=1)
        at = np.where(best == 0, -np.inf, np.where(best == len(places) - 1, np.inf, places[best]))
        for side in (0, 1):
            rise = self._rise(2 * side - 1)
            beside = np.isfinite(at) & ((rise - at) * (2 * side - 1) > 0)
            share = _uniform(RISE, np.arange(SAMPLES), side, self.own)
            at[beside] += (rise - at[beside]) * share[beside]
        found.sample = at
        lowest = height[np.arange(SAMPLES), best]
        found.sample_value = self.points[self.best].value * np.exp(np.sinh(lowest))

    def conclude(self, found: Optimum, below: int, above: int) -> None:
        """The lowest place of the spline and what holds 95 % of the samples, if that lies
        inside."""
        self.find_errors()
        spline, places = Spline(self.x, self.y, self.variance), self.places()
        self._draw(spline, found)
        found.low, found.high = interval(found.sample)
        height = spline.at(self.y[None], places)[0]
        best = int(height.argmin())
        down = math.isinf(found.low) or best == 0
        up = math.isinf(found.high) or best == len(places) - 1
        found.reason = NOISE if down and up else below if down else above if up else KNOWN
        if down or up:
            return
        at = _vertex(places[best - 1:best + 2], height[best - 1:best + 2])
        found.at = min(max(at, found.low), found.high)
        found.value = self.points[self.best].value * math.exp(math.sinh(height[best]))
        found.value_low, found.value_high = interval(found.sample_value)


def _beyond(points: list[Point], i: int, side: int) -> int:
    """What lies beyond point i, the outermost that can be used on this side (-1 or 1)."""
    if i + side < 0:
        return LOWEST
    if i + side == len(points):
        return HIGHEST
    return BESIDE if points[i + side].failed else NOISE


def find(points: list[Point], means: bool, N: int) -> Optimum:
    """points, with x increasing, of means or of medians; N: of the width, 0 for the limit. Known is
    an optimum whose whole interval lies between values of the key that can be used."""
    usable = [i for i, point in enumerate(points) if point.usable]
    best = min(usable, key=lambda i: points[i].value, default=None)
    found = Optimum(NONE if all(point.failed for point in points) else NOISE, best)
    # An estimate that is not told from zero may be below the best one by its errors.
    if best is None or any(not point.failed and not point.usable and
                           point.value + ERRORS * point.error < points[best].value
                           for point in points):
        return found
    curve = Curve(points, best, means, N)
    below, above = _beyond(points, curve.first, -1), _beyond(points, curve.last, 1)
    last = len(curve.points) - 1
    if curve.best in (0, last):
        found.reason = above if curve.best == last else below
    elif curve.runs < 2:
        found.reason = SINGLE
    elif len(curve.points) < USABLE:
        found.reason = FEW
    else:
        curve.conclude(found, below, above)
    return found
