"""studies/verdict.py on made-up runs whose truth is known: how often a verdict is wrong. Every
count is that of a fixed seed and may exceed 5 % by three binomial errors. Run by
tests/python.sh."""
import os
import sys

import numpy as np
import pytest
import xarray

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "studies"))
from verdict import (NORMAL, above, all_of, below, drift, interval, jointly, judge,  # noqa: E402
                     near, of_interval, of_optimum, of_runs, opposite)

TRIES = 200
MOST = 0.05 * TRIES + 3 * np.sqrt(TRIES * 0.05 * 0.95)
N = np.array([64.0, 128.0, 256.0, 512.0])


def tried(samples_of, *claims) -> list[list]:
    """The verdicts of many tries on each claim; all claims are judged by the same samples, of
    samples_of(random)."""
    random = np.random.default_rng(1)
    every = [samples_of(random) for _ in range(TRIES)]
    return [[judge(samples, claim) for samples in every] for claim in claims]


def optima(random, rate, error):
    """Samples [width, sample] of ln of best rates whose estimates are off by these errors."""
    middle = np.log(rate) + error * random.standard_normal(len(N))
    return middle[:, None] + error * random.standard_normal((len(N), 1000))


@pytest.mark.parametrize("error", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("power", [0.0, 0.2, -0.3])
def test_rates_that_drift_or_do_not(power, error):
    """A claim at its own edge, where it is most easily missed, and one that holds by far."""
    rate = N ** power
    moved = power * np.log(N[-1] / N[0])
    over, under, narrow, wide = tried(lambda random: drift(N, optima(random, rate, error)),
                                      above(moved), below(moved), near(moved, 0.1),
                                      near(moved, 0.2))
    assert over.count(True) <= MOST and under.count(True) <= MOST
    assert narrow.count(False) <= MOST
    if error == 0.02:
        assert wide.count(True) > 0.9 * TRIES


@pytest.mark.parametrize("noise", [0.05, 0.1, 1.0])
def test_noise_alone_shows_nothing(noise):
    """Rates that differ at random from width to width, by as much as their errors or by more."""
    def moved(random):
        return drift(N, optima(random, np.exp(noise * random.standard_normal(len(N))), 0.05))
    for verdicts in tried(moved, above(0), below(0)):
        assert verdicts.count(True) <= MOST


@pytest.mark.parametrize("draw", [
    lambda random, n: random.gamma(4, size=n),
    lambda random, n: np.exp(1.5 * random.standard_normal(n)),
    lambda random, n: 1 + random.pareto(2.5, n)], ids=["gamma", "lognormal", "pareto"])
@pytest.mark.parametrize("n", [4, 8, 24])
def test_losses_of_equal_law(draw, n):
    """Neither of two is lower, however heavy the tails are."""
    def difference(random):
        return of_runs(draw(random, n), 64) - of_runs(draw(random, n), 128)
    for verdicts in tried(difference, below(0), above(0)):
        assert verdicts.count(True) <= MOST


@pytest.mark.parametrize("n", [4, 8, 24])
def test_losses_that_differ(n):
    """Paired runs of one width, with a ratio of 1.3; a claim at the edge, and that it is larger."""
    def difference(random):
        common = random.gamma(4, size=n)
        ratio = 1.3 * np.exp(0.05 * random.standard_normal(n) - 0.05 ** 2 / 2)
        return of_runs(common * ratio, 64) - of_runs(common, 64)
    edge = np.log(1.3)
    under, over, larger = tried(difference, below(edge), above(edge), above(0))
    assert under.count(True) <= MOST and over.count(True) <= MOST
    assert larger.count(True) > 0.9 * TRIES


def test_several_claims_at_once():
    """Nine exponents that are zero are not found to be something else the more often."""
    random = np.random.default_rng(1)
    verdicts = [all_of(judge(of_interval(one, 1.96 * 0.2), near(0, 1e-9), 9)
                       for one in 0.2 * random.standard_normal(9)) for _ in range(TRIES)]
    assert verdicts.count(False) <= MOST
    assert all_of([True, None]) is None and all_of([False, None]) is False and all_of([True, True])
    assert [opposite(one) for one in (True, None, False)] == [False, None, True]


def best_of(reason, at):
    """/optimum of one combination of keys at four widths."""
    samples = np.array(at)[:, None] * np.exp(0.01 * np.linspace(-1, 1, 1000))
    return xarray.Dataset({"reason": ("N", np.array(reason, dtype=float)),
                           "at_samples": (("N", "sample"), samples)}, {"N": N})


def test_optima_that_are_not_known_decide_nothing():
    """An end of the grid (1, 2), a failed run beside it (3), noise (4): whatever the others say."""
    rates = [1.0, 2.0, 4.0, 8.0]
    known = drift(N, of_optimum(best_of([0, 0, 0, 0], rates)))
    assert judge(known, above(0)) is True and judge(known, below(0)) is False
    assert judge(known / np.log(8), near(1, 0.05)) is True, "an exponent"
    for reason in (1, 2, 3, 4):
        for place in range(4):
            reasons = [0, 0, 0, 0]
            reasons[place] = reason
            samples = drift(N, of_optimum(best_of(reasons, rates)))
            assert judge(samples, above(0)) is None and judge(samples, below(0)) is None
    beyond = best_of([0, 0, 0, 0], rates)
    beyond["at_samples"][3, :20] = np.inf
    beyond["at_samples"][0, :20] = 0
    assert judge(drift(N, of_optimum(beyond)), above(0)) is True
    beyond["at_samples"][3, :60] = np.inf
    assert judge(drift(N, of_optimum(beyond)), above(0)) is None


def test_failed_and_single_runs_decide_nothing():
    fine = of_runs(np.array([1.0, 1.1, 0.9, 1.0]), 64)
    assert judge(fine, above(np.log(0.5))) is True
    for runs in ([1.0, np.nan, 0.9, 1.0], [1.0, np.inf, 0.9, 1.0], [1.0, 20.0, 0.9, 1.0], [1.0]):
        with np.errstate(invalid="ignore", divide="ignore"):
            assert judge(of_runs(np.array(runs), 64) - fine, above(-9)) is None, runs


def test_intervals_have_the_tails_of_student():
    """95 % of t with three degrees of freedom is 3.18 errors of the mean wide, on either side."""
    runs = 1000 + np.array([-1.0, 1.0, -1.0, 1.0])
    low, high = interval(of_runs(runs, 64) - np.log(1000))
    error = runs.std(ddof=1) / 2 / 1000
    assert abs(high / error - 3.182) < 0.6 and abs(low / error + 3.182) < 0.6
    low, high = interval(of_interval(1.0, 0.5))
    assert abs(low - 0.5) < 0.01 and abs(high - 1.5) < 0.01


def test_several_claims_at_once_are_decided_by_intervals_that_hold_together():
    """Ten quantities, of which one lies so far out that its own interval does not tell, but not so
    far that the intervals of ten at once do."""
    z = NORMAL
    assert jointly([z / 3 - 1] * 10, below(0)) is True
    assert jointly([z - 2.3] * 10, below(0)) is None
    assert judge(z - 2.3, below(0)) is True
    assert jointly([z - 9, z + 2.3], below(0)) is False
    assert jointly([z - 9] * 9 + [z + 2.3], below(0)) is None
    assert jointly([], below(0)) is None
