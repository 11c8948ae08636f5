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
from verdict import (above, all_of, below, drift, interval, judge, near, of_interval,  # noqa: E402
                     of_optimum, of_runs, opposite)

TRIES = 400
MOST = 0.05 * TRIES + 3 * np.sqrt(TRIES * 0.05 * 0.95)
N = np.array([64.0, 128.0, 256.0, 512.0])


def wrong(verdict_of, truth: bool, seed: int = 1) -> tuple[int, int]:
    """(how many verdicts of many tries are the opposite of the truth, how many are the truth)."""
    random = np.random.default_rng(seed)
    verdicts = [verdict_of(random) for _ in range(TRIES)]
    return verdicts.count(not truth), verdicts.count(truth)


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
    for claim, truth in ((above(moved), False), (below(moved), False), (near(moved, 0.1), True)):
        bad, _ = wrong(lambda random: judge(drift(N, optima(random, rate, error)), claim), truth)
        assert bad <= MOST, claim
    if error == 0.02:
        _, found = wrong(lambda random: judge(drift(N, optima(random, rate, error)),
                                              near(moved, 0.2)), True)
        assert found > 0.9 * TRIES


@pytest.mark.parametrize("noise", [0.05, 0.1, 1.0])
def test_noise_alone_shows_nothing(noise):
    """Rates that differ at random from width to width, by as much as their errors or by more."""
    def verdict(random, claim):
        rate = np.exp(noise * random.standard_normal(len(N)))
        return judge(drift(N, optima(random, rate, 0.05)), claim)
    for claim in (above(0), below(0)):
        assert wrong(lambda random: verdict(random, claim), False)[0] <= MOST


@pytest.mark.parametrize("draw", [
    lambda random, n: random.gamma(4, size=n),
    lambda random, n: np.exp(1.5 * random.standard_normal(n)),
    lambda random, n: 1 + random.pareto(2.5, n)], ids=["gamma", "lognormal", "pareto"])
@pytest.mark.parametrize("n", [4, 8, 24])
def test_losses_of_equal_law(draw, n):
    """Neither of two is lower, however heavy the tails are."""
    def verdict(random, claim):
        return judge(of_runs(draw(random, n), 64) - of_runs(draw(random, n), 128), claim)
    for claim in (below(0), above(0)):
        assert wrong(lambda random: verdict(random, claim), False)[0] <= MOST


@pytest.mark.parametrize("n", [4, 8, 24])
def test_losses_that_differ(n):
    """Paired runs of one width, with a ratio of 1.3; a claim at the edge, and that it is larger."""
    def verdict(random, claim):
        common = random.gamma(4, size=n)
        ratio = 1.3 * np.exp(0.05 * random.standard_normal(n) - 0.05 ** 2 / 2)
        return judge(of_runs(common * ratio, 64) - of_runs(common, 64), claim)
    for claim in (below(np.log(1.3)), above(np.log(1.3))):
        assert wrong(lambda random: verdict(random, claim), False)[0] <= MOST
    assert wrong(lambda random: verdict(random, above(0)), True)[1] > 0.9 * TRIES


def test_several_claims_at_once():
    """Nine exponents that are zero are not found to be something else the more often."""
    def verdict(random):
        found = 0.2 * random.standard_normal(9)
        return all_of(judge(of_interval(one, 1.96 * 0.2), near(0, 1e-9), 9) for one in found)
    assert wrong(verdict, True)[0] <= MOST
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
