"""The dynamical model of scaling laws: its matrix theory against closed forms, simulations and
networks of the program (docs/theory/scaling_law.md). Run by tests/python.sh."""
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dmft
from dmft import scaling_law

LAMBDA, SHARES = scaling_law.power(1.4, 30), scaling_law.power(1.6, 30)
NETWORK = {"network.model": "dense", "network.depth": 1, "network.activation": "linear",
           "rates.W1": 0, "init.w": 0, "solver.replicates": 0, "training.eta0": 0.5,
           "data.source": "power_law", "data.spectrum_decay": 1.4, "data.target_decay": 1.6}


def test_infinitely_many_features():
    """Gradient descent on the population, each mode by itself; and the single pass, whose errors
    have a recursion of their own."""
    rates = np.array([0.5, 0.2, 0.9, 0.1])
    left = np.cumprod(np.vstack([np.ones(30), 1 - np.outer(rates, LAMBDA)]), axis=0)
    curve = scaling_law.train(LAMBDA, SHARES, rates)
    np.testing.assert_allclose(curve.test, left ** 2 @ SHARES, rtol=1e-12)
    single = scaling_law.train(LAMBDA, SHARES, rates, P=7, noise=0.3, single_pass=True)
    for t in range(5):
        error, _ = scaling_law.final_error(LAMBDA, SHARES, rates[:t], 7, 0.3) if t else \
            (SHARES.sum(), None)
        assert single.test[t] == pytest.approx(error + 0.09, rel=1e-12)
        assert single.training[t] == pytest.approx(error + 0.09, rel=1e-12)


def simulate(size, rates, noise, single_pass, seed):
    """Errors [2][T + 1] of a model that is `size` times as large: every mode is there so often, and
    errors, with their noise, are so many times as large and divided by it."""
    draw = np.random.default_rng(seed)
    K, N, P = 30 * size, 20 * size, 24 * size
    spectrum, shares = np.repeat(LAMBDA, size), np.repeat(SHARES, size)
    A, v = draw.standard_normal((N, K)), np.sqrt(shares / spectrum)
    found = np.empty((2, len(rates) + 1))
    for t, rate in enumerate([*rates, 0]):
        if t == 0 or single_pass:
            Psi = draw.standard_normal((P, K)) * np.sqrt(spectrum)
            label = noise * np.sqrt(size) * draw.standard_normal(P)
        error = Psi @ v + label
        found[:, t] = spectrum @ v ** 2 / size + noise ** 2, np.mean(error ** 2) / size
        v = v - rate * A.T @ (A @ (Psi.T @ error)) / (N * P)
    return found


@pytest.mark.parametrize("single_pass", [False, True])
def test_simulations_come_to_the_theory(single_pass):
    """a + b/size through three sizes; z of one kind of error move together."""
    rates, sizes, noise = [0.6, 0.6, 0.4, 0.4, 0.2], np.array([1, 2, 4]), 0.4
    curve = scaling_law.train(LAMBDA, SHARES, rates, N=20, P=24, noise=noise,
                              single_pass=single_pass)
    finite = [np.array([simulate(size, rates, noise, single_pass, [size, k])
                        for k in range(400 // size)]) for size in sizes]
    # one theory for all sizes: sums over modes, N and P have a factor in common
    mean = np.array([one.mean(0) for one in finite])
    se = np.array([one.std(0, ddof=1) / np.sqrt(len(one)) for one in finite])
    weight, x = 1 / se ** 2, (1 / sizes)[:, None, None]
    x0, y0 = ((weight * v).sum(0) / weight.sum(0) for v in (x, mean))
    sxx = (weight * (x - x0) ** 2).sum(0)
    slope = (weight * (x - x0) * (mean - y0)).sum(0) / sxx
    at_infinity, error = y0 - slope * x0, np.sqrt(1 / weight.sum(0) + x0 ** 2 / sxx)
    z = ((at_infinity - np.array([curve.test, curve.training])) / error)[:, 1:]
    print(f"largest |z| {np.abs(z).max():.2f}, rms {np.sqrt(np.mean(z ** 2)):.2f}")
    assert np.abs(z).max() <= 4 and np.sqrt(np.mean(z ** 2)) <= 2


def test_networks_are_the_model():
    """A network of the program, step by step, from its own matrix."""
    run = dmft.solve({**NETWORK, "data.inputs": 8, "data.dimension": 12, "training.steps": 5,
                      "training.schedule": "polynomial", "training.schedule_power": 2,
                      "training.schedule_steps": 6, "reference.widths": 9, "reference.seeds": 1,
                      "output.weights": "initial"}, progress=False)
    A = run.weights("W1", 9).values
    X, y = run.data["coordinates"].values, run.data["y"].values
    h, w = X @ A.T, np.zeros(9)
    for t in range(5):
        error = y - h @ w / 9
        assert run.reference[9]["loss"].values[t] == pytest.approx(np.mean(error ** 2) / 2,
                                                                   rel=1e-12)
        w = w + 0.5 * (1 - t / 6) ** 2 / 8 * error @ h
    spectrum, shares = scaling_law.of_data(run)
    np.testing.assert_allclose(spectrum, scaling_law.power(1.4, 12), rtol=1e-14)
    np.testing.assert_allclose(shares, scaling_law.power(1.6, 12), rtol=1e-14)


def test_networks_of_many_data_sets_lie_about_the_theory(tmp_path):
    """Losses of training and of test inputs, means over data sets, each with one network. What is
    left is of order 1/N, below the errors."""
    sets, N, P, K = 24, 48, 64, 96
    run = dmft.sweep({**NETWORK, "data.inputs": P, "data.test_inputs": 200, "data.dimension": K,
                      "training.steps": 7, "reference.widths": N, "reference.seeds": 1,
                      "sweep.data.seed": " ".join(map(str, range(1, sets + 1)))},
                     progress=False, output=str(tmp_path / "sets.h5"))
    nets = [part.reference[N] for part in run.points.values()]
    curve = scaling_law.train(scaling_law.power(1.4, K), scaling_law.power(1.6, K), [0.5] * 6,
                              N=N, P=P)
    for name, theory in (("loss", curve.training), ("test_loss", curve.test)):
        losses = 2 * np.array([net[name].values for net in nets])
        z = (losses.mean(0) - theory) / (losses.std(0, ddof=1) / np.sqrt(sets))
        print(name, z)
        assert np.abs(z).max() <= 4


def test_few_features_or_samples_hold_the_error_up():
    """Late, the test error is that of the few."""
    spectrum, shares = scaling_law.power(1.5, 100), scaling_law.power(2.0, 100)
    rates = np.ones(30)
    late = [scaling_law.train(spectrum, shares, rates, **{name: size}).test[-1]
            for name in ("N", "P") for size in (2, 1e9)]
    assert late[0] > 3 * late[1] and late[2] > 3 * late[3]


def test_what_is_drawn():
    figure, axes = plt.subplots(1, 3)
    scaling_law.draw(axes, 1.6, 1.4, 30, [0.5, 0.5], [4])
    for ax, name in zip(axes, ("N", "P")):
        curve = scaling_law.train(LAMBDA, SHARES, [0.5, 0.5], **{name: 4})
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve.test[1:])
    left = scaling_law.plateau(scaling_law.power(1.4, 30000), scaling_law.power(1.6, 30000), N=2)
    assert axes[2].lines[0].get_ydata()[0] == left
    plt.close(figure)


@pytest.mark.parametrize("sizes, noise, rate", [
    ({"N": 4}, 0, 2), ({"P": 4}, 0.3, 2), ({"N": 3, "P": 12}, 0.2, 2),
    ({"N": 12, "P": 3}, 0.2, 2), ({"N": 60, "P": 3}, 0.3, 2), ({"N": 120, "P": 90}, 0.3, 7),
    ({}, 0.3, 8)])
def test_what_is_left_in_the_end(sizes, noise, rate):
    """After so many steps that the slowest of what is learnt is there to 1e-4; the modes differ by
    little, so that this is soon."""
    spectrum, shares = scaling_law.power(0.2, 16), scaling_law.power(1, 16)
    late = scaling_law.train(spectrum, shares, [rate] * 50, noise=noise, **sizes).test
    left = scaling_law.plateau(spectrum, shares, noise=noise, **sizes)
    assert late[-1] == pytest.approx(left, rel=2e-4)


def test_no_end_where_there_are_as_many_features_as_samples():
    assert scaling_law.plateau(LAMBDA, SHARES, N=5, P=5) == np.inf
    assert scaling_law.plateau(LAMBDA, SHARES, N=60, P=90) == 0


def test_laws_of_features_and_samples():
    """With a - 1 below b, of two doublings near the largest that 10^5 modes allow."""
    for a, b in ((1.5, 1.2), (2.0, 1.5)):
        spectrum, shares = scaling_law.power(b, 100000), scaling_law.power(a, 100000)
        for name in ("N", "P"):
            left = [scaling_law.plateau(spectrum, shares, **{name: size}) for size in (256, 512)]
            assert np.log2(left[1] / left[0]) == pytest.approx(1 - a, abs=0.05)


def test_law_of_time():
    """With nothing that holds it up the error falls as t^-(a - 1)/b; sums over modes and the last
    of them bend it by a few per cent at these sizes."""
    errors = scaling_law.train(scaling_law.power(1.5, 500), scaling_law.power(2.0, 500),
                               np.ones(60)).test
    assert np.log2(errors[60] / errors[30]) == pytest.approx(-1 / 1.5, abs=0.05)


def test_derivatives_and_optimal_rates():
    rates = np.array([0.5, 0.3, 0.8, 0.2])
    value, slope = scaling_law.final_error(LAMBDA, SHARES, rates, 3, 0.5)
    for t in range(4):
        h = 1e-5 * np.eye(4)[t]
        ends = [scaling_law.final_error(LAMBDA, SHARES, rates + s * h, 3, 0.5)[0] for s in (1, -1)]
        assert slope[t] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-7)
    best = scaling_law.optimal_rates(LAMBDA, SHARES, 12, 3, 0.5, most=1.0)
    least, gradient = scaling_law.final_error(LAMBDA, SHARES, best, 3, 0.5)
    for factor in (0.9, 1.1):
        for t in range(12):
            other = np.minimum(np.where(np.arange(12) == t, factor, 1) * best, 1.0)
            assert scaling_law.final_error(LAMBDA, SHARES, other, 3, 0.5)[0] >= least * (1 - 1e-9)
    free = [scaling_law.optimal_rates(LAMBDA, SHARES, 12, 3, 0.5, most=most)
            for most in (1e3, 1e10)]  # which no rate comes near to
    np.testing.assert_array_equal(*free)
    assert scaling_law.final_error(LAMBDA, SHARES, free[0], 3, 0.5)[0] < least
    constant = min(scaling_law.final_error(LAMBDA, SHARES, np.full(12, rate), 3, 0.5)[0]
                   for rate in np.linspace(0.02, 1, 50))
    assert least < 0.99 * constant


def test_two_phases_of_optimal_rates():
    """Where the target decays faster than the spectrum (a > b) the first rate falls with the number
    of steps; where it decays more slowly it is the largest that is allowed, whatever that is."""
    first = {}
    for a, b in ((2.5, 1.5), (1.5, 2.5)):
        for steps in (20, 60):
            rates = scaling_law.optimal_rates(scaling_law.power(b, 60), scaling_law.power(a, 60),
                                              steps, 1, 1.0, most=0.4)
            assert rates[-1] < 0.5 * rates[0]
            first[a, steps] = rates[0]
    assert first[2.5, 60] < 0.8 * first[2.5, 20]
    assert first[1.5, 60] == first[1.5, 20] == pytest.approx(0.4)


def test_the_first_rate_falls_with_the_number_of_steps():
    """Of rates that fall as the slides say, the best first one goes as T^-(a - b)/a."""
    a, b, best = 2.5, 1.5, []
    spectrum, shares = scaling_law.power(b, 100), scaling_law.power(a, 100)
    for steps in (640, 1280):
        fall = (1 - np.arange(steps) / steps) ** (2 * b - 1)
        low, high = np.log(0.1), np.log(0.3)
        while high - low > 1e-3:  # where the derivative by ln of the first rate changes its sign
            middle = (low + high) / 2
            slope = scaling_law.final_error(spectrum, shares, np.exp(middle) * fall, 1, 1)[1]
            low, high = (middle, high) if slope @ fall < 0 else (low, middle)
        best.append(low)
    assert (best[1] - best[0]) / np.log(2) == pytest.approx(-(a - b) / a, abs=0.02)


@pytest.mark.parametrize("call, said", [
    (lambda: scaling_law.train([1, 2], [1], [0.1]), "one length"),
    (lambda: scaling_law.train([1, 0], [1, 1], [0.1]), "above 0"),
    (lambda: scaling_law.train([1], [1], [-0.1]), "learning rate of each step"),
    (lambda: scaling_law.train([1], [1], [0.1], N=0.5), "N = 0.5"),
    (lambda: scaling_law.train([1], [1], [0.1], noise=np.nan), "noise = nan"),
    (lambda: scaling_law.train([1], [1], [1e30] * 60, N=4, P=4), "rates are too large"),
    (lambda: scaling_law.optimal_rates([1], [1], 0, 1), "steps = 0"),
])
def test_what_is_refused(call, said):
    with pytest.raises(dmft.InputError, match=said):
        call()
