"""Pictures on logarithmic axes: how networks come to the limit, and bands that reach down to 0."""
import math
import types

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray

import dmft
from dmft.plot import axes, figures, layout, select, sweeps, together
from dmft.plot.style import BANDS, Missing, NotThere

from test_plot import STUDENT_7, WIDTHS, law

FIRST = {"/": xarray.Dataset(attrs={"complete": 1}), "parameters": xarray.Dataset(attrs={
    "network.model": "dense", "training.eta0": 1.0, "training.gamma0": 1.0})}


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


@pytest.mark.parametrize("count", (1, 2))
def test_a_band_of_few_times_is_hatched_too(ax, count):
    ax.set_yscale("log")
    axes.band(ax, np.array([1.0, 0.1])[:count], np.array([2.0, 0.2])[:count], "black")
    assert ax.collections[-1].get_hatch()


def test_of_one_step_there_is_no_convergence(ax):
    """At t = 0 all networks have the same loss; other times are not there."""
    run = {name: data.isel(t=[0]) for name, data in law(0).items()}
    run["limit"]["loss_se"][:] = 0
    with pytest.raises(Missing, match="no difference at these times"):
        figures.figure_convergence(run | FIRST, types.SimpleNamespace(times=None))
    for times, sentence in (([1, 5], "no step 5; there are 3"), ([-1, 2], "no step -1; there")):
        with pytest.raises(NotThere, match=sentence):
            axes.convergence(ax, law(), times)


def test_pictures_of_what_has_no_error_or_not_the_axes(ax):
    """Counts are lines without a band; what a picture needs and a series lacks is a sentence."""
    run = law()
    axes.curves(ax, run, "n")
    assert [line.get_ydata().tolist() for line in ax.lines] == [[8, 8, 8]] * 4
    for draw, name, lacks in ((axes.time_heat, "K_diag", "t s"), (axes.experts, "loss", "i")):
        with pytest.raises(NotThere, match=f"{name} has the axes t.*, .* needs {lacks}"):
            draw(ax, run, name)
    run["limit"]["x_quantile"] = ("at", "probability"), np.zeros((2, 3))
    with pytest.raises(NotThere, match="no time number 2 of fields_at, which has 2"):
        axes.distribution(ax, run, "x", 2)
    with pytest.raises(NotThere, match="no series nothing"):
        select.quantity(run["limit"], "nothing")
    with pytest.raises(NotThere, match="no series nothing in any of them"):
        together.overlay(ax, [run], "nothing")
    with pytest.raises(dmft.InputError, match="is of a sweep"):
        together.overlay(ax, dmft.Result("x.h5", {"sweep": xarray.Dataset()}), "loss")


def test_runs_are_told_apart_by_starts_and_by_keys_that_one_alone_has():
    """The start of a matrix is named with its section, since a rate has the same last word."""
    def run(**keys):
        return {"parameters": xarray.Dataset(attrs={"ini": "text", "training.eta0": 1.0, **keys})}
    assert together.names([run(**{"init.W1": "0.5"}), run(**{"init.W1": "2"})]) == [
        "init.W1 = 0.5", "init.W1 = 2"]
    assert together.names([run(**{"training.eta0": 2.0, "rates.W1": "3"}),
                           run(**{"rates.W1": "4"})]) == ["eta0 = 2.0, rates.W1 = 3",
                                                         "eta0 = 1.0, rates.W1 = 4"]
    assert sweeps.name_of_axis("rates.W1") == "rates.W1"
    assert sweeps.words_of({"init.W1": 0.5}) == "init.W1 = 0.5"


def test_losses_that_fall_are_on_a_logarithmic_axis_when_their_bands_are_drawn(ax):
    run = law()
    run["limit"]["loss"][:] = [1, 0.1, 0.01]
    run["limit"]["loss_se"][2] = 0.01
    axes.loss(ax, run)
    assert ax.get_yscale() == "log" and ax.get_ylabel() == "loss"
    assert any(part.get_hatch() for part in ax.collections)
