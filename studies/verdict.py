"""Whether what a paper says is seen: one rule for all studies, judge().

A claim says that a quantity lies between two numbers: an exponent within 1/4 of -1/2, a loss that
falls with the width (the slope of its logarithm is below zero), one loss below another (so is the
logarithm of their ratio). The quantity is known by samples, of which each is what it would have
been, had the runs been others. It is

    shown (True)          where the interval of 95 % of the samples lies inside of what is claimed,
    contradicted (False)  where it lies outside,
    cannot tell (None)    otherwise, and where samples are missing: an optimum at an end of the
                          grid, beside runs that failed or that noise decides, runs that failed.

So a claim that does not hold is shown, and one that holds is contradicted, in 2.5 % of the cases
at most where samples are good: tests/test_verdict.py counts. The rule itself is dmft/judgement.py.
Functions that draw make the samples with those of this file; several claims in a sentence are put
together by all_of().
"""
from __future__ import annotations

import functools
from statistics import NormalDist

import numpy as np

from dmft.judgement import (COUNT, HALF, WORDS, Claim, above, below, beyond_chance,  # noqa: F401
                            drift, interval, judge, near, within_factor)
from dmft.statistics import student

NORMAL = np.array([NormalDist().inv_cdf((k + 0.5) / COUNT) for k in range(COUNT)])  # its samples
SEEN = "seen"  # in place of a verdict, of numbers of which nothing is claimed
EXPONENT = 0.25  # an exponent is one within this, unless a claim is narrower


def all_of(verdicts) -> bool | None:
    """Of a sentence with several claims: shown where all are, contradicted where one is not."""
    verdicts = list(verdicts)
    return False if False in verdicts else None if None in verdicts else True


def jointly(samples, claim: Claim) -> bool | None:
    """Of a claim about several quantities at once: intervals that hold for all of them together
    decide, for shown as for contradicted. samples [quantity][sample]; none: cannot tell."""
    return by_intervals([interval(one, len(samples)) for one in samples], claim)


def by_intervals(ends, claim: Claim) -> bool | None:
    """The same, where the intervals (low, high) are known; one that is NaN cannot tell."""
    if any(high < claim.low or claim.high < low for low, high in ends):
        return False
    inside = [claim.low < low and high < claim.high for low, high in ends]
    return True if inside and all(inside) else None


def opposite(verdict: bool | None) -> bool | None:
    """Of the claim that something is not so."""
    return None if verdict is None else not verdict


def of_interval(value: float, half: float):
    """Samples of a quantity with a normal error, of which half of the 95 % interval is known."""
    return value + half / HALF * NORMAL


def of_ratio(mean, half):
    """Samples of the logarithm of the first of two means over the second, which are independent,
    of which half of the 95 % intervals are known."""
    return of_interval(np.log(mean[0] / mean[1]), np.hypot(*np.divide(half, mean)))


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


@functools.cache
def weights_of(n: int, N: int):
    """Weights [sample, run] of n runs of a width: normal, with the spread of Student's t."""
    random = np.random.default_rng([COUNT, N])
    spread = np.sqrt((n - 1) / random.chisquare(n - 1, COUNT))
    return spread[:, None] * random.standard_normal((COUNT, n)) / np.sqrt(n * (n - 1.0))


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
    weights = weights_of(n, int(N))
    carried = (n >= 3) & (runs.max(0) > 0.5 * n * mean)
    known = np.isfinite(mean) & (mean > 0) & ~carried
    safe = np.where(known, mean, 1)
    moved = np.tensordot(weights, np.where(known, (runs - mean) / safe, 0), 1)
    return np.where(known, np.log(safe) + moved, np.nan)


def of_taking(own, other):
    """Samples [sample] of the logarithm of what it costs to take from elsewhere the value of a key
    that is best there: own, other [sample, value], of_runs() of all values here and there. Which
    are best, is drawn anew in each sample; one whose runs failed is best nowhere."""
    best = np.where(np.isfinite(other), other, np.inf).argmin(1)
    return own[np.arange(len(own)), best] - np.fmin.reduce(own, axis=1)


def of_optimum(best, name: str = "at", kind: str = ""):
    """Samples [width, sample] of the logarithm of the best value of the key, or of the objective
    there, of one combination of the other keys of /optimum; NaN where no optimum is known. kind:
    "median_" of medians."""
    samples = best[f"{kind}{name}_samples"].transpose(..., "sample").values
    known = best[kind + "reason"].values == 0
    with np.errstate(divide="ignore"):
        return np.where(known[..., None], np.log(samples), np.nan)
