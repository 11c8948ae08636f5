"""Whether a quantity that is known by samples lies where it is claimed to, and how a logarithm
drifts with a size: the rule of the studies and of dmft.transfer.

Each sample is what the quantity would have been, had the runs been others. A claim is shown where
the interval of 95 % of the samples lies inside of what is claimed, contradicted where it lies
outside, and else the numbers cannot tell.
"""
from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dmft.statistics import student

COUNT = 1000  # of samples, as in /optimum
WORDS = {True: "shown", False: "contradicted", None: "cannot tell"}
HALF = NormalDist().inv_cdf(0.975)  # of the 95 % interval of a normal number, in standard errors


class Claim(NamedTuple):
    """That a quantity lies between low and high."""
    low: float
    high: float


def above(low: float) -> Claim:
    return Claim(low, np.inf)


def below(high: float) -> Claim:
    return Claim(-np.inf, high)


def near(value: float, by: float) -> Claim:
    return Claim(value - by, value + by)


def within_factor(factor: float) -> Claim:
    """Of a logarithm: neither smaller nor larger by this factor."""
    return near(0, np.log(factor))


def interval(samples, among: int = 1) -> tuple[float, float]:
    """What holds 95 % of the samples; the intervals of several quantities (among) hold all of them
    together so often. A sample that is NaN may lie anywhere: it is beyond both ends."""
    samples = np.sort(np.asarray(samples, dtype=float))     # NaN stand last
    known, tail = np.count_nonzero(~np.isnan(samples)), max(1, int(0.025 * len(samples) / among))
    beyond = tail - (len(samples) - known)                  # so many known ones lie beyond an end
    return (float(samples[beyond - 1]), float(samples[known - beyond])) if beyond > 0 else \
        (-np.inf, np.inf)


def judge(samples, claim: Claim, among: int = 1) -> bool | None:
    """True: shown, False: contradicted, None: cannot tell. among: how many claims are put
    together. All of them are shown no more easily than one, but one of them fails by chance the
    more easily the more there are, so that for this the intervals are wider.

    >>> z = np.linspace(-1, 1, 1000)
    >>> judge(z, below(2)), judge(z, above(2)), judge(z, above(0)), judge(z * np.nan, below(2))
    (True, False, None, None)
    """
    low, high = interval(samples)
    if claim.low < low and high < claim.high:
        return True
    if among > 1:
        low, high = interval(samples, among)
    return False if high < claim.low or claim.high < low else None


def line(x, samples):
    """(x0, samples of the height at x0, samples of the slope) of a line through numbers that are
    known by samples [place, sample], weighted by their intervals; x0 is where the two errors are
    independent. A number that is not known leaves nothing known. Where the numbers lie beside the
    line by more than their errors, the errors of the line are so much larger (the root of chi
    squared per degree of freedom); where that is no accident (chi squared beyond 95 % of its law),
    what lies beside the line is all that tells the errors, and the line has the tails of Student's
    t of as many degrees of freedom."""
    x, nothing = np.asarray(x, dtype=float), np.full(samples.shape[-1], np.nan)
    if not np.isfinite(samples).any(1).all() or len(x) < 2:
        return np.nan, nothing, nothing
    ends = np.array([interval(one) for one in samples])
    middle = np.median(samples, 1)
    error = np.maximum((ends[:, 1] - ends[:, 0]) / (2 * HALF), 1e-6)
    if not np.isfinite(error).all():
        return np.nan, nothing, nothing
    weight = error ** -2
    centre = np.average(x, weights=weight)
    share, part = weight / weight.sum(), weight * (x - centre)
    part = part / (part @ (x - centre))
    rest = middle - share @ middle - (x - centre) * (part @ middle)
    freedom = max(1, len(x) - 2)
    chi = np.sum(weight * rest ** 2) / freedom
    wide = (student(freedom) / HALF if chi > beyond_chance(freedom) else 1) * np.sqrt(max(1, chi))
    with np.errstate(invalid="ignore"):
        height, slope = (row @ middle + wide * (row @ samples - row @ middle)
                         for row in (share, part))
    return centre, height, slope


def drift(N, samples):
    """Samples of how much a logarithm rises from the smallest width to the largest, by a line
    through all of them against ln N (see above); over ln(largest / smallest) it is an exponent.
    samples [width, sample]."""
    x = np.log(N)
    return line(x / np.ptp(x) if len(x) > 1 else x, samples)[2]


def beyond_chance(freedom: int) -> float:
    """95 % of chi squared per degree of freedom, within 3 % (the cube root is nearly normal)."""
    spread = 2 / (9 * freedom)
    return (1 - spread + NormalDist().inv_cdf(0.95) * np.sqrt(spread)) ** 3
