"""Pictures on logarithmic axes: how networks come to the limit, and bands that reach down to 0."""
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from dmft.plot import axes, layout
from dmft.plot.style import BANDS

from test_plot import STUDENT_7, WIDTHS, law


@pytest.fixture(name="ax")
def one_axis():
    yield plt.figure().add_subplot()
    plt.close("all")


def test_convergence(ax):
    """Differences where they are known, upper ends of their intervals where not."""
    axes.convergence(ax, law(), [1, 2])
    points = [one for one in ax.collections if hasattr(one, "get_sizes")]
    known, rest, none, limits = (one.get_offsets()[:, 1] for one in points)
    assert np.allclose(known, 2 / np.array(WIDTHS), atol=1e-15)  # of numbers of order one
    assert not len(rest) and not len(none)
    half = STUDENT_7 * 0.2 * math.hypot(0.01, 1e-4)  # and hardly more freedom than 7
    assert np.allclose(limits, half + 1e-6 / np.array(WIDTHS), rtol=1e-3)
    assert (points[3].get_facecolors()[:, :3] == 1).all()
    labels = [line.get_label() for line in ax.lines]
    assert "$t = 1$" in labels and "$t = 2$: no difference seen" in labels


def test_interval_of_the_difference(ax):
    """Welch: at equal errors and numbers of runs 14 degrees of freedom."""
    run = law()
    for data in run.values():
        data["loss_se"][:] = 0.001
    axes.convergence(ax, run, [1])
    segment = ax.containers[0].lines[2][0].get_segments()[0]
    assert np.isclose(segment[1, 1] - 2 / 32, 2.144786688 * 0.001 * np.sqrt(2), rtol=1e-9)


def test_the_line_of_convergence_goes_through_what_is_seen(ax):
    """Not through a gap of noise, which may be larger; and where nothing is seen there is none."""
    run = law()
    run["reference/N0032"]["loss"][2] = 0.29  # .09(6) above the limit at t = 2, and 2/32 at t = 1
    run["reference/N0032"]["loss_se"][2] = 0.06
    axes.convergence(ax, run, [2, 1])
    line = next(line for line in ax.lines if line.get_label() == "$1/N$")
    assert np.allclose(line.get_ydata(), 2 / np.array(WIDTHS), rtol=1e-12)
    ax.clear()
    axes.convergence(ax, run, [2])
    assert "$1/N$" not in [line.get_label() for line in ax.lines]


def test_bands_that_reach_0_are_hatched_on_logarithmic_axes(ax):
    """So that they do not fill the frame down to its bottom; the legend says so."""
    mean, half = np.array([1.0, 0.1, 0.01, 1e-3]), np.array([0.5, 0.05, 0.02, 5e-4])
    axes.band(ax, mean, half, "black")
    assert [part.get_hatch() for part in ax.collections] == [None]
    figure, ax = plt.subplots(layout="constrained")
    ax.set_yscale("log")
    axes.band(ax, mean, half, "black", label="limit")
    solid, hatched = ax.collections
    spans = [[part.vertices[:, 0].min(), part.vertices[:, 0].max()] for part in hatched.get_paths()]
    assert solid.get_hatch() is None and hatched.get_hatch() and spans == [[1, 3]]
    assert (hatched.get_facecolors() == 0).all() or not len(hatched.get_facecolors())
    assert 2 not in [x for part in solid.get_paths() for x in part.vertices[:, 0]]
    layout.legend(figure, ax, BANDS)
    titles = [one.get_title().get_text() for one in [*figure.legends, ax.get_legend()] if one]
    assert titles == [BANDS + "\nhatched: down to 0"]


def test_losses_that_fall_are_on_a_logarithmic_axis_when_their_bands_are_drawn(ax):
    run = law()
    run["limit"]["loss"][:] = [1, 0.1, 0.01]
    run["limit"]["loss_se"][2] = 0.01
    axes.loss(ax, run)
    assert ax.get_yscale() == "log" and ax.get_ylabel() == "loss"
    assert any(part.get_hatch() for part in ax.collections)
