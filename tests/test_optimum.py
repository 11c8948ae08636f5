"""Where an objective is smallest along a key: places, intervals and reasons on curves whose optimum
is known; the smoothing spline beside the same estimate by inverses."""
import itertools
import math

import numpy as np
import pytest
from dmft.study import optimum
from dmft.study.cells import median

BEND = -math.log(3) / 4


def parabola(x):
    return (x - 0.13) ** 2


def lopsided(x):
    """Falls with slope 1, rises with slope 3; its lowest place solves e^(-x) = 3 e^(3 x)."""
    return math.log(math.exp(-x) + math.exp(3 * x))


def edge(x):
    """Divergence: falls slowly to 0.13, then rises steeply."""
    return -0.8 * (x - 0.13) if x < 0.13 else 6 * (x - 0.13)


def flat(x):
    return 0 * x


def slope(x):
    return -0.5 * x


def points_of(xs, runs, medians=False):
    """Of runs [x][run]."""
    found = []
    for x, run in zip(xs, runs):
        value, error = median(run) if medians else (
            run.mean(), run.std(ddof=1) / math.sqrt(len(run)) if len(run) > 1 else math.nan)
        found.append(optimum.Point(x, value, error, len(run), run, False))
    return found


def make(rng, height, first, step, noise, common, count, runs, heavy=False, medians=False):
    """objective = exp(height(x)) (1 + noise), noise of runs with a share that is common to all
    values of the key; heavy: Student's t of 2.5 degrees, whose fourth moment is infinite."""
    xs = first + step * np.arange(count)
    own = rng.standard_t(2.5, (count, runs)) / math.sqrt(5) if heavy else \
        rng.standard_normal((count, runs))
    each = common * rng.standard_normal(runs) + math.sqrt(1 - common ** 2) * own
    scale = np.array([math.exp(height(x)) for x in xs])
    return points_of(xs, scale[:, None] * (1 + noise * each), medians)


@pytest.mark.parametrize("height, first, step, noise, common, count, runs, heavy, means, at, "
                         "known, wide", [
    (parabola, -2, 0.5, 0.1, 0, 9, 4, False, True, 0.13, 1, 1.1),
    (parabola, -2, 0.5, 0.5, 0, 9, 12, False, True, 0.13, 0.95, 2),
    (parabola, -2, 0.5, 0.3, 0.95, 9, 6, False, True, 0.13, 1, 1.2),
    (parabola, -2, 0.5, 0.2, 0, 9, 6, True, True, 0.13, 0.95, 1.5),
    (parabola, -2, 0.5, 0.2, 0, 9, 8, True, False, 0.13, 0.95, 1.5),
    (lopsided, BEND - 2, 0.4, 0.05, 0, 10, 6, False, True, BEND, 1, 1.5),
    (edge, -2, 0.4, 0.05, 0, 8, 6, False, True, 0.13, 0.95, 1.6)],
    ids=["parabola", "much noise", "common noise", "heavy tails", "heavy tails, medians",
         "lopsided", "edge of divergence"])
def test_intervals_hold_the_optimum(height, first, step, noise, common, count, runs, heavy, means,
                                    at, known, wide):
    """Over 25 sets of runs, on grids at random places: an interval of 95 % that is true holds the
    optimum in 0.95 of them but for three standard errors of such a count. It may hold it more
    often: shapes between values of the key are allowed that these curves do not have. known: in how
    many an optimum must be found at least; wide: mean width of the intervals at most, in steps of
    the grid."""
    rng, repeats, there = np.random.default_rng(1), 25, []
    for _ in range(repeats):
        points = make(rng, height, first + step * rng.uniform(), step, noise, common, count, runs,
                      heavy, not means)
        found = optimum.find(points, means, 64)
        if found.reason == optimum.KNOWN:
            assert found.low <= found.at <= found.high
            there.append(found)
    inside = np.mean([found.low <= at <= found.high for found in there])
    assert len(there) >= known * repeats
    assert inside >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(there))
    assert np.mean([found.high - found.low for found in there]) / step <= wide


@pytest.mark.parametrize("height, runs, repeats", [(flat, 4, 50), (flat, 12, 50), (slope, 6, 25)])
def test_noise_has_no_optimum(height, runs, repeats):
    """Where there is none one is found in at most 5 % but for three standard errors: the interval
    of 95 % must lie inside by chance."""
    rng = np.random.default_rng(2)
    there = sum(optimum.find(make(rng, height, -2, 0.5, 0.2, 0, 9, runs), True, 64).reason ==
                optimum.KNOWN for _ in range(repeats))
    assert there <= repeats * (0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats))


def test_reasons():
    rng = np.random.default_rng(3)

    def of(first=-2.0, runs=4, failed=(), count=9):
        points = make(rng, parabola, first, 0.5, 0.01, 0, count, runs)
        for i in failed:
            points[i].failed = True
        return optimum.find(points, True, 64)

    assert of().reason == optimum.KNOWN and of().best == 4
    beside = of(failed=[5])  # beside the smallest
    assert beside.reason == optimum.BESIDE and beside.best == 4
    assert math.isnan(beside.at) and math.isnan(beside.value)
    assert of(failed=[6, 7]).reason == optimum.KNOWN  # beyond that: one more value is enough
    assert of(failed=[2, 6, 7]).reason == optimum.FEW  # leaves three
    none = of(failed=range(9))
    assert none.reason == optimum.NONE and none.best is None
    # Where no other value can be used, what lies above the best one is told.
    points = make(rng, parabola, -2, 0.5, 0.01, 0, 9, 4)
    for i in (3, 5):
        points[i].error = points[i].value
    points[5].failed = True
    assert optimum.find(points, True, 64).reason == optimum.BESIDE
    assert of(0.2).reason == optimum.LOWEST and of(-4).reason == optimum.HIGHEST
    assert of(runs=1).reason == optimum.SINGLE


def test_estimates_around_zero_do_not_decide():
    """A limit whose losses at the high rates are jackknife estimates around zero: their least was
    its optimum, 1.7 where networks have 0.58."""
    runs = np.array([[0.043, 0.041, 0.044, 0.042], [0.0125, 0.0131, 0.0119, 0.0124],
                     [0.0024, 0.0031, 0.0019, 0.0026], [-0.003, 0.002, 0.004, -0.006],
                     [-0.0027, 0.0150, -0.0190, -0.0041], [0.9, 0.7, 1.1, 0.8]])
    xs = math.log(0.18) + 0.56 * np.arange(6)
    points = points_of(xs, runs)
    assert points[4].value < points[2].value
    found = optimum.find(points, True, 64)
    assert found.reason == optimum.NOISE and found.best == 2
    assert optimum.find(points[:5], True, 64).reason == optimum.NOISE  # nothing is higher there
    runs[4] = 1e-4 * (np.arange(4) - 1.6)  # below all others, and not told from zero
    found = optimum.find(points_of(xs, runs), True, 64)
    assert found.reason == optimum.NOISE and np.isnan(found.sample).all()


def test_samples():
    """The same again; samples of another width are others, and the interval is that of its samples.
    Without noise the place of a parabola."""
    points = make(np.random.default_rng(4), parabola, -2, 0.5, 0.1, 0, 9, 6)
    found, again = optimum.find(points, True, 64), optimum.find(points, True, 64)
    assert np.array_equal(found.sample, again.sample) and found.at == again.at
    assert not np.array_equal(found.sample, optimum.find(points, True, 128).sample)
    for sample, low, high in ((found.sample, found.low, found.high),
                              (found.sample_value, found.value_low, found.value_high)):
        assert (sample < low).sum() < 25 <= (sample <= low).sum()  # 2.5 % of 1000
        assert (sample > high).sum() < 25 <= (sample >= high).sum()
    bare = optimum.find(make(np.random.default_rng(5), parabola, -2, 0.5, 0, 0, 9, 6), True, 64)
    # the spline of asinh of a parabola, of values half apart: a twentieth of a step
    assert bare.reason == optimum.KNOWN and abs(bare.at - 0.13) < 0.025
    assert bare.low <= 0.13 <= bare.high and bare.high - bare.low < 0.5
    assert bare.value_low <= 1.001 and bare.value_high >= 0.999


def test_round_off_moves_no_sample():
    """Another machine adds in another order: a sample is where it was, also before a cliff, up to
    which an optimum may lie."""
    points = make(np.random.default_rng(6), edge, -1.2, 0.3, 0.02, 0.5, 9, 8)
    before = optimum.find(points, True, 64)
    moved = points_of([point.x for point in points],
                      [point.run * (1 + (i % 3 - 1) * 1e-13) for i, point in enumerate(points)])
    after = optimum.find(moved, True, 64)
    assert before.reason == after.reason == optimum.KNOWN
    finite = np.isfinite(before.sample)
    assert np.abs(after.sample[finite] - before.sample[finite]).max() < 1e-9


def test_errors_beside_runs():
    """Errors without runs (any series), and beside runs (that of the tolerance), widen the
    interval."""
    points = make(np.random.default_rng(7), parabola, -2, 0.5, 0.02, 0, 9, 6)
    bare = optimum.find(points, True, 64)
    for point in points:
        point.error = math.hypot(point.error, 0.1 * point.value)
    beside = optimum.find(points, True, 64)
    assert beside.reason == optimum.KNOWN
    assert beside.high - beside.low > 1.3 * (bare.high - bare.low)
    for point in points:
        point.run = None
    alone = optimum.find(points, True, 64)
    assert alone.reason == optimum.KNOWN
    assert alone.high - alone.low > 0.7 * (beside.high - beside.low)


def test_equal_errors_are_not_drawn():
    """The fit weighs estimates by variances that are drawn towards their mean, the more the fewer
    runs there are. Where all are equal nothing is drawn, and the lowest place is that of any number
    of runs, but for round-off."""
    moved = [0.1, -0.1, 0.05, 0.1, 0, -0.1, 0.1, -0.05, 0.1]
    found = {}
    for runs in (2, 3, 6, 1000, 1002, 1000000):
        points = []
        for i in range(9):
            x = 0.5 * (i - 4)
            height = parabola(x) + moved[i]
            above = height - parabola(0)  # the least is that of x = 0
            points.append(optimum.Point(x, math.exp(height), 0.1 * math.exp(height) *
                                        math.hypot(1, above), runs, None, False))
        found[runs] = optimum.find(points, True, 64)
        assert found[runs].reason == optimum.KNOWN and not np.isnan(found[runs].sample).any()
        assert abs(found[runs].at - found[2].at) < 1e-9
    assert np.abs(found[1000].sample - found[1002].sample).max() < 1e-4


def test_medians_ignore_one_run():
    """One run of eight far away at the optimum: the medians do not see it."""
    points = make(np.random.default_rng(8), parabola, -2, 0.5, 0.02, 0, 9, 8)
    points[4].run[5] = 3
    xs, runs = [point.x for point in points], [point.run for point in points]
    assert optimum.find(points_of(xs, runs), True, 64).best != 4
    found = optimum.find(points_of(xs, runs, True), False, 64)
    assert found.reason == optimum.KNOWN and found.best == 4 and found.low <= 0.13 <= found.high


def test_far_values_do_not_count():
    """Of a long grid the 31 values on either side of the best one are used, and no others."""
    points = make(np.random.default_rng(9), lambda x: x * x, 0.05 * -150, 0.05, 1e-3, 0.7, 200, 4)
    whole = optimum.find(points, True, 64)
    assert whole.reason == optimum.KNOWN
    for less in (0, 1):  # without the outermost two it is another curve
        first = whole.best - 31 + less
        found = optimum.find(points[first:whole.best + 32 - less], True, 64)
        assert found.best + first == whole.best
        assert np.array_equal(found.sample, whole.sample) == (not less)


def test_the_vertex_of_a_parabola():
    at = np.array([1, 2, 4.5])
    y = 3 * (at - 2.2) ** 2 - 1
    assert optimum._vertex(at, y) == pytest.approx(2.2, abs=1e-14)  # some ten roundings
    assert 1.5 < optimum._vertex(at, np.array([-1, -3, -2])) < 3.25
    assert optimum._vertex(at, -y) == 2  # no minimum: the middle


def test_the_error_of_a_median():
    """Of three values: that of all 27 draws with replacement. Sums of 27 numbers of order ten."""
    value = np.array([2.0, -1, 7])
    draws = [median(np.array(draw))[0] for draw in itertools.product(value, repeat=3)]
    assert median(value)[0] == 2
    assert median(value)[1] == pytest.approx(np.std(draws), abs=1e-14)
    assert median(value[:2])[0] == 0.5
    assert median(value[1:2])[0] == -1 and math.isnan(median(value[1:2])[1])


def test_random_numbers_are_those_of_random123():
    """Of the library Random123, which the program in C used, so that the intervals of what it has
    left are found again."""
    stored = {(1, 0, 0, 64): 0.94873298157472163, (2, 7, 3, 0): 0.061183811747469008,
              (6, 999, 1, 0xffffffff): 0.071043757372535765}
    for counter, value in stored.items():
        assert optimum._uniform(*counter) == value


# ---- the spline ----

def integral(a, b):
    """Over u from 0 to min(a, b) of (a - u)(b - u), by its definition."""
    m = np.minimum(a, b)
    return a * b * m - (a + b) * m * m / 2 + m ** 3 / 3


def dense(x, y, variance, rough, places):
    """(restricted log-likelihood, the estimate at places) by generalized least squares for the
    line, and the mean of a Gaussian process given what is left."""
    at = x - x[0]
    inverse = np.linalg.inv(rough * integral(at[:, None], at) + np.diag(variance))
    lines = np.stack([np.ones(len(x)), at], 1)
    normal = lines.T @ inverse @ lines
    line = np.linalg.inv(normal) @ lines.T @ inverse @ y
    rest = y - lines @ line
    likelihood = (np.linalg.slogdet(inverse)[1] - np.linalg.slogdet(normal)[1]
                  - rest @ inverse @ rest) / 2
    there = places - x[0]
    return likelihood, line[0] + line[1] * there + \
        rough * integral(there[:, None], at) @ inverse @ rest


def test_the_spline_is_as_dense_algebra_has_it():
    """Curves from a straight line to one that is much rougher than its errors. The largest
    likelihood of the roughnesses tried, 1e-6 to 1e4 for neighbours that are one apart, decides.
    1e-7: the condition of the covariances, 1e8 at most, times round-off, with a margin."""
    rng, kinds = np.random.default_rng(10), set()
    for number in range(24):
        scale = 10.0 ** (number % 4 - 3) if number % 4 else 0
        x = np.cumsum(rng.uniform(0.5, 1.5, 7) * rng.uniform(0.2, 1.2))
        variance = 1e-3 * rng.uniform(0.5, 1.5, 7)
        y = 0.7 - 0.4 * x + scale * rng.uniform(-1, 1, 7)
        unit = (x[-1] - x[0]) / 6
        trials = 10 ** (-6 + np.arange(61) / 6) / unit ** 3
        best = max(trials, key=lambda rough: dense(x, y, variance, rough, x)[0])
        spline = optimum.Spline(x, y, variance)
        assert spline.rough == pytest.approx(best, rel=1e-10)
        places = np.linspace(x[0], x[-1], 9)
        np.testing.assert_allclose(spline.at(y[None], places)[0],
                                   dense(x, y, variance, best, places)[1], atol=1e-7, rtol=0)
        times = best * unit ** 3
        kinds.add("lowest" if times < 1.1e-6 else "highest" if times > 1 else "between")
    assert kinds == {"lowest", "highest", "between"}
