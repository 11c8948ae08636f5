"""Whole curves of an objective over a key, laid on each other: on made-up curves whose shift and
factor are known, their intervals hold them as often as they say."""
import math
import warnings

import numpy as np

from dmft.study import curves, optimum

X = np.log(np.geomspace(0.15, 2.4, 9))


def column(generator, runs, shift=0.0, times=1.0, spread=0.15):
    """Points of a valley whose lowest place is at 0 + shift; runs have a factor of their own that
    is the same at all places, and one at each place."""
    own = generator.normal(size=runs) * 0.2
    points = []
    for x in X:
        z = x - shift
        value = times * (np.exp(1.2 * z * z / (1 + abs(z))) + 0.5 * math.exp(2 * (z - 0.6)))
        value = value * np.exp(own + generator.normal(size=runs) * spread)
        points.append(optimum.Point(x, value.mean(), value.std(ddof=1) / math.sqrt(runs), runs,
                                    value, False))
    return points


def compare(points, others, among=1):
    return curves.compare(curves.Samples(points, 16), curves.Samples(others, 64), among)


def test_intervals_hold_the_shift_and_the_factor():
    """Of 25 pairs one is to be missed; six or more are by a chance of .001."""
    generator = np.random.default_rng(3)
    for runs, shift, times in ((6, 0.0, 1.0), (12, math.log(1.3), 1.0)):
        missed = np.zeros(2, int)
        for _ in range(25):
            one, low, high, factor, factor_low, factor_high = compare(
                column(generator, runs), column(generator, runs, shift, times))
            assert low <= one <= high and factor_low <= factor_high
            missed += [not low <= math.exp(shift) <= high,
                       shift == 0 and factor_low > math.exp(1e-9)]
        assert (missed < 6).all(), (runs, missed)


def test_a_curve_that_is_better_everywhere_is_not_shifted():
    generator = np.random.default_rng(4)
    one, low, high, factor, *ends = compare(
        column(generator, 32, spread=0.01), column(generator, 32, times=0.5, spread=0.01))
    assert low < 1 < high and high / low < 1.1
    assert ends[0] < 2 < ends[1] and ends[1] / ends[0] < 1.3 and abs(math.log(factor / 2)) < 0.2


def test_curves_of_few_values_or_single_runs_are_not_known():
    generator = np.random.default_rng(5)
    whole = column(generator, 6)
    few = [point if i < 3 else optimum.Point(point.x, math.nan, math.nan, 0, None, True)
           for i, point in enumerate(column(generator, 6))]
    single = [optimum.Point(x, math.exp(x * x), math.nan, 1, np.array([math.exp(x * x)]), False)
              for x in X]
    for other in (few, single):
        assert all(map(math.isnan, compare(whole, other)))
        assert all(map(math.isnan, compare(other, whole)))
    far = column(generator, 6, shift=3.0)
    assert math.isnan(compare(whole, far)[0])


def test_samples_of_two_runs_may_be_infinite():
    """Student's t of one degree of freedom: the factor is then not known, without a warning."""
    generator = np.random.default_rng(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare(column(generator, 2, spread=0.5), column(generator, 2, spread=0.5))
    assert math.isnan(found[3])


def test_runs_that_failed_leave_the_other_values():
    generator = np.random.default_rng(6)
    whole, part = column(generator, 16), column(generator, 16, math.log(1.3))
    part[-1] = optimum.Point(part[-1].x, math.nan, math.nan, 0, None, True)
    one, low, high, *_ = compare(whole, part)
    assert low < 1.3 < high and high / low < 1.6


def test_intervals_of_several_comparisons_are_wider():
    generator = np.random.default_rng(6)
    pair = column(generator, 8), column(generator, 8, math.log(1.2))
    one, several = compare(*pair), compare(*pair, 6)
    assert one[0] == several[0] and one[3] == several[3]
    assert several[1] < one[1] and one[2] < several[2]
    assert several[4] <= one[4] and one[5] < several[5]
