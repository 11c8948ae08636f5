"""Search over exponents: powers of which the answer is known."""
import numpy as np
import pytest

import dmft
from dmft.judgement import interval, line
from dmft.transfer import root

BASE = {"network": {"model": "dense", "depth": 1}, "data": {"inputs": 6, "dimension": 8},
        "training": {"steps": 3, "gamma0": 0.3}, "solver.replicates": 0, "reference.seeds": 10}


def test_rates_of_all_matrices_are_the_rate():
    """Where all matrices have rates times N^p, the best eta0 goes as N^-p, as it does not drift by
    itself in muP: intervals hold that, and the power that transfers is 0."""
    found = dmft.transfer(BASE, ["rates.W1", "rates.w"], "N", sizes=[16, 64], powers=[-0.5, 0.5],
                          values="logspace(0.4, 60, 11)", factor=1.1, progress=False)
    for one in found.drifts:
        assert one.low < -one.power < one.high
        assert one.transfers is False  # by a factor of two over these widths
        assert all(low <= at <= high for at, low, high in one.optima.values())
    assert found.power[0] < 0 < found.power[1] and found.power[1] - found.power[0] < 1
    text = str(found).splitlines()
    assert text[1].split()[0] == "-0.5" and "contradicted" in text[1]
    assert text[-1].startswith("it transfers for powers in [")


def test_other_sizes_and_sections_with_what_is_not_known():
    """One rate that is far too small: no optimum lies on the grid, and the numbers cannot tell."""
    found = dmft.transfer(BASE, "init.w", "D", sizes=[8, 16], powers=[0, 0.5],
                          values=[0.001, 0.002, 0.004, 0.008], progress=False,
                          **{"reference.widths": 16, "reference.seeds": 3})
    assert [one.transfers for one in found.drifts] == [None, None]
    assert found.power == (-np.inf, np.inf)
    assert str(found).endswith("the numbers cannot tell")
    assert set(found.rates.sweep.dims) >= {"init.w", "data.dimension", "training.eta0", "N"}


def test_intervals_of_the_power_hold_it():
    """Of made-up optima with normal errors, in 95 % of the cases within four standard errors; at
    three powers, too, where exponents bend less than their errors."""
    random, held, count = np.random.default_rng(5), 0, 400
    errors = np.array([0.1, 0.05, 0.1])
    ranks = random.normal(size=(3, 1000))
    for _ in range(count):
        seen = 0.3 - np.array([0.0, 0.5, 1.0]) + errors * random.normal(size=3)
        low, high = root([0, 0.5, 1], seen[:, None] + errors[:, None] * ranks)
        held += low < 0.3 < high
    assert abs(held / count - 0.95) < 4 * np.sqrt(0.95 * 0.05 / count)
    assert root([0, 1], np.zeros((2, 1000)) + ranks[:2]) == (-np.inf, np.inf)


def test_a_line_through_samples():
    scatter = np.random.default_rng(6).normal(size=(3, 1000))
    x0, height, slope = line([0, 1, 2], np.array([[1.0], [3], [5]]) + 0.01 * scatter)
    low, high = interval(height - slope * x0)
    assert low < 1 < high and high - low < 0.1 and abs(np.mean(slope) - 2) < 0.01
    assert np.isnan(line([0, 1], scatter[:2] * np.nan)[2]).all()


def test_a_width_that_there_is_not_is_refused_before_the_sweep(tmp_path):
    out = tmp_path / "rates.h5"
    with pytest.raises(dmft.InputError, match="width = 64: the optima will be of N = 16, N = 32;"):
        dmft.transfer(BASE, "init.w", "D", sizes=[8, 16], powers=[0, 0.5], values=[1, 2, 4, 8],
                      width=64, output=str(out), **{"reference.widths": "16 32"})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change, sentence", (
    ({"matrices": "W1"}, "W1: a matrix is named with its section"),
    ({"size": "M"}, "M: a size is one of N rho kappa"),
    ({"powers": [1]}, "powers: this takes two different numbers"),
    ({"sizes": [0, 1]}, "sizes: 0 is not above 0"),
    ({"matrices": "rates.W9"}, "unknown name"),))
def test_what_cannot_be_is_a_sentence(change, sentence):
    call = {"matrices": "rates.W1", "size": "N", "sizes": [16, 64], "powers": [0, 1],
            "values": "1 2 4 8"} | change
    with pytest.raises(dmft.InputError, match=sentence):
        dmft.transfer(BASE, progress=False, **call)
