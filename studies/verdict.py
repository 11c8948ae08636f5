"""Whether what a paper says is seen: one rule for all studies, judge().

A claim says that a quantity lies between two numbers: an exponent within 1/4 of -1/2, a loss that
falls with the width (the slope of its logarithm is below zero), one loss below another (so is the
logarithm of their ratio). The quantity is known by samples, of which each is what it would have
been, had the runs been others. It is

    shown (True)          where the interval of 95 % of the samples lies inside of what is claimed,
    not shown (False)     where it lies outside,
    cannot tell (None)    otherwise, and where samples are missing: an optimum at an end of the
                          grid, beside runs that failed or that noise decides, runs that failed.

So a claim that does not hold is shown, and one that holds is not shown, in 2.5 % of the cases at
most where samples are good: tests/test_verdict.py counts. Functions that draw make the samples with
the others of this file; several claims in a sentence are put together by all_of().
"""
from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from dmft.plot.select import student

COUNT = 1000  # of samples, as in /optimum
WORDS = {True: "shown", False: "not shown", None: "cannot tell"}
EXPONENT = 0.25  # an exponent is one within this, unless a claim is narrower
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
    samples = np.asarray(samples, dtype=float)
    tail = max(1, int(0.025 * len(samples) / among))
    unknown = np.isnan(samples)
    low = np.sort(np.where(unknown, -np.inf, samples))[tail - 1]
    high = np.sort(np.where(unknown, np.inf, samples))[len(samples) - tail]
    return float(low), float(high)


def judge(samples, claim: Claim, among: int = 1) -> bool | None:
    """True: shown, False: not shown, None: cannot tell. among: how many claims all_of() puts
    together. All of them are shown no more easily than one, but one of them fails by chance the
    more easily the more there are, so that for this the intervals are wider.

    >>> z = np.linspace(-1, 1, 1000)
    >>> judge(z, below(2)), judge(z, above(2)), judge(z, above(0)), judge(z * np.nan, below(2))
    (True, False, None, None)
    """
    low, high = interval(samples)
    if claim.low < low and high < claim.high:
        return True
    low, high = interval(samples, among)
    return False if high < claim.low or claim.high < low else None


def all_of(verdicts) -> bool | None:
    """Of a sentence with several claims: shown where all are, not shown where one is not."""
    verdicts = list(verdicts)
    return False if False in verdicts else None if None in verdicts else True


def opposite(verdict: bool | None) -> bool | None:
    """Of the claim that something is not so."""
    return None if verdict is None else not verdict


def of_interval(value: float, half: float):
    """Samples of a quantity with a normal error, of which half of the 95 % interval is known."""
    ranks = (np.arange(COUNT) + 0.5) / COUNT
    return value + half / HALF * np.array([NormalDist().inv_cdf(rank) for rank in ranks])


def of_scatter(x, y) -> tuple[float, float]:
    """Slope of y over x and half of its 95 % interval by how much y lies beside the line, where
    errors of y are not known."""
    x, y = x - np.mean(x), y - np.mean(y)
    slope = x @ y / (x @ x)
    rest = y - slope * x
    freedom = len(x) - 2
    if freedom < 1:
        return slope, np.inf
    return slope, float(student(freedom)) * np.sqrt(rest @ rest / freedom / (x @ x))


def of_runs(runs, N: float):
    """Samples [sample, ...] of the logarithm of the mean of positive numbers [run, ...], as of
    losses. Those of one width have the same runs in each sample: differences of two are paired. The
    mean of n runs has the tails of Student's t, and its logarithm is moved instead of itself, since
    losses have a longer tail above. NaN: a run failed, or one alone makes more than half of the
    mean, as a star in the table of dmft-sweep says."""
    runs = np.asarray(runs, dtype=float)
    n, mean = len(runs), runs.mean(0)
    if n < 2:
        return np.full((COUNT, *mean.shape), np.nan)
    random = np.random.default_rng([COUNT, int(N)])
    spread = np.sqrt((n - 1) / random.chisquare(n - 1, COUNT))
    weights = spread[:, None] * random.standard_normal((COUNT, n)) / np.sqrt(n * (n - 1.0))
    carried = (n >= 3) & (runs.max(0) > 0.5 * n * mean)
    known = np.isfinite(mean) & (mean > 0) & ~carried
    safe = np.where(known, mean, 1)
    moved = np.tensordot(weights, np.where(known, (runs - mean) / safe, 0), 1)
    return np.where(known, np.log(safe) + moved, np.nan)


def of_optimum(best, name: str = "at", kind: str = ""):
    """Samples [width, sample] of the logarithm of the best value of the key, or of the objective
    there, of one combination of the other keys of /optimum; NaN where no optimum is known. kind:
    "median_" of medians."""
    samples = best[f"{kind}{name}_samples"].transpose(..., "sample").values
    known = best[kind + "reason"].values == 0
    with np.errstate(divide="ignore"):
        return np.where(known[..., None], np.log(samples), np.nan)


def drift(N, samples):
    """Samples of how much a logarithm rises from the smallest width to the largest, by a line
    through all of them against ln N, weighted by their intervals; over ln(largest / smallest) it is
    an exponent. samples [width, sample]; a width that is not known leaves nothing known. Where the
    logarithms lie beside the line by more than their errors, the errors of the line are so much
    larger (the root of chi squared per degree of freedom); where that is no accident (chi squared
    beyond 95 % of its law), what lies beside the line is all that tells the errors, and the line
    has the tails of Student's t of as many degrees of freedom."""
    if not np.isfinite(samples).any(1).all() or len(N) < 2:
        return np.full(samples.shape[-1], np.nan)
    ends = np.array([interval(one) for one in samples])
    middle = np.median(samples, 1)
    error = np.maximum((ends[:, 1] - ends[:, 0]) / (2 * HALF), 1e-6)
    if not np.isfinite(error).all():
        return np.full(samples.shape[-1], np.nan)
    x, weight = np.log(N), error ** -2
    x = (x - np.average(x, weights=weight)) / np.ptp(x)
    part = weight * x / np.sum(weight * x ** 2)
    with np.errstate(invalid="ignore"):
        rises = part @ samples
    rest = middle - np.average(middle, weights=weight) - x * (part @ middle)
    freedom = max(1, len(N) - 2)
    chi = np.sum(weight * rest ** 2) / freedom
    wide = student(freedom) / HALF if chi > beyond_chance(freedom) else 1
    return part @ middle + wide * np.sqrt(max(1, chi)) * (rises - part @ middle)


def beyond_chance(freedom: int) -> float:
    """95 % of chi squared per degree of freedom, within 3 % (the cube root is nearly normal)."""
    spread = 2 / (9 * freedom)
    return (1 - spread + NormalDist().inv_cdf(0.95) * np.sqrt(spread)) ** 3
