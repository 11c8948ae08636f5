"""Pictures of sweeps on axes of one's own: of a result, and of its datasets, they are the same."""
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from matplotlib.collections import LineCollection

import dmft
import dmft.plot

BASE = {"network.model": "dense", "training.steps": 4, "solver.sites": 256, "solver.replicates": 3,
        "reference.widths": [8, 16], "reference.seeds": 3, "output.kernels": "none"}


@pytest.fixture(scope="module")
def rates():
    return dmft.sweep(BASE | {"sweep": {"training.eta0": [0.1, 0.3, 0.6, 1.2]}}, progress=False)


def drawn(function, *arguments):
    """The lines and the words of a picture."""
    figure, ax = plt.subplots()
    function(ax, *arguments)
    lines = [line.get_xydata() for line in ax.get_lines()]
    plt.close(figure)
    return lines, ax.get_xlabel(), ax.get_ylabel()


@pytest.mark.parametrize("function, of_result, of_datasets", [
    (dmft.plot.losses, lambda r: (r,), lambda r: (r.sweep, "training.eta0")),
    (dmft.plot.optima, lambda r: (r,), lambda r: (r.sweep, r.optimum)),
    (dmft.plot.against, lambda r: (r, "parameters"),
     lambda r: (r.sweep, "parameters", r.optimum))], ids=["losses", "optima", "against"])
def test_results_are_taken_as_their_datasets_are(rates, function, of_result, of_datasets):
    mine, wanted = drawn(function, *of_result(rates)), drawn(function, *of_datasets(rates))
    assert mine[1:] == wanted[1:] and len(mine[0]) == len(wanted[0]) > 0
    for a, b in zip(mine[0], wanted[0]):
        np.testing.assert_array_equal(a, b)


def test_other_keys_are_asked_for():
    both = dmft.sweep(BASE | {"reference.widths": [8], "sweep": {
        "training.eta0": [0.1, 0.3, 0.6], "training.gamma0": [0.5, 1]}}, progress=False)
    with pytest.raises(dmft.plot.NotThere, match="of one value of training.gamma0: take"):
        drawn(dmft.plot.losses, both)
    drawn(dmft.plot.losses, both.sweep.sel({"training.gamma0": 1}))
    with pytest.raises(dmft.plot.NotThere, match="against a key of numbers"):
        drawn(dmft.plot.losses, both.sweep.isel({"training.eta0": 0, "training.gamma0": 0}))
    words = dmft.sweep(BASE | {"reference.widths": [8], "sweep": {
        "training.eta0": [0.1, 0.3], "network.activation": ["tanh", "relu"]}}, progress=False)
    for key in ("network.activation", "no.key"):
        with pytest.raises(dmft.plot.NotThere, match=f"{key} is none; .* has training.eta0"):
            drawn(dmft.plot.losses, words, key)


def test_bars_are_whole_and_ends_have_ticks(rates):
    figure = rates.plot()
    losses, optima = figure.axes[:2]
    low, high = losses.get_ylim()
    ends = [y for bars in losses.collections if isinstance(bars, LineCollection)
            for segment in bars.get_segments() if len(segment) for y in segment[:, 1]]
    assert low < min(ends) < max(ends) < high
    figure.canvas.draw()
    for axis in (losses.xaxis, optima.yaxis):
        assert [label.get_text() for label in axis.get_ticklabels()] == ["0.1", "0.3", "0.6", "1.2"]
    plt.close(figure)


@pytest.mark.parametrize("mark, value", [("unmatched", 1.5), ("edge_of_stability", 1),
                                         ("self_averaging", 0), ("objective_se", 0.21)])
def test_points_that_are_noise_are_hollow(rates, mark, value):
    """Above the networks, with the curve of the limit broken there. .21 is the error over the mean
    of three runs of which one is more than half of it, (3/2 - 1)/(3 2)^1/2, and more."""
    place = {"training.eta0": 1, "N": -1}
    sweep = rates.sweep.copy(deep=True)
    sweep["objective_se"][:] = 0.05 * sweep["objective"]
    for name, good in ("unmatched", 0), ("edge_of_stability", 0), ("self_averaging", 1):
        sweep[name][:] = good
    clean = sweep.copy(deep=True)
    assert not dmft.plot.sweeps.doubtful(sweep).any()
    sweep[mark][place] = value * (float(sweep["objective"][place]) if "_se" in mark else 1)
    figure, ax = plt.subplots()
    dmft.plot.losses(ax, sweep, "training.eta0")
    limit = [line for line in ax.get_lines() if isinstance(line.get_color(), str)
             and line.get_color() == "black"]
    hollow = [line for line in limit if line.get_markerfacecolor() == "white"]
    y = float(sweep["objective"][place])
    assert [list(line.get_ydata()) for line in hollow] == [[y]]
    assert hollow[0].get_zorder() > max(line.get_zorder() for line in ax.get_lines()
                                        if line not in hollow)
    curve = max(limit, key=lambda line: len(line.get_xdata())).get_ydata()
    assert list(np.isnan(curve)) == [False, True, False, False]
    plt.close(figure)
    sweep["objective"][place] = np.nan      # a limit that failed is no point
    assert not dmft.plot.sweeps.doubtful(sweep).any()
    # marks of networks are of the networks as they are, and their means are what they are
    if mark == "edge_of_stability":
        clean[mark][{"training.eta0": 1, "N": 0}] = value
        assert not dmft.plot.sweeps.doubtful(clean).any()


@pytest.mark.filterwarnings("error")
def test_a_limit_without_a_point_stands_in_the_legend(rates):
    sweep = rates.sweep.copy(deep=True)
    sweep["objective"][{"N": -1}] = np.nan
    figure, ax = plt.subplots()
    dmft.plot.losses(ax, sweep, "training.eta0")
    assert r"$N \to \infty$" in ax.get_legend_handles_labels()[1]
    plt.close(figure)


def test_what_pictures_take(rates, tmp_path):
    """A path is as good as the result; what has no such picture is told in a sentence."""
    path = str(tmp_path / "run.h5")
    run = dmft.solve(BASE, output=path, progress=False)
    for function, more in ((dmft.plot.loss, ()), (dmft.plot.curves, ("f",)),
                           (dmft.plot.convergence, ([1, 3],)),
                           (dmft.plot.extrapolation, ("loss", "N"))):
        mine, wanted = drawn(function, path, *more), drawn(function, run, *more)
        assert len(mine[0]) == len(wanted[0]) > 0
        for a, b in zip(mine[0], wanted[0]):
            np.testing.assert_array_equal(a, b)
    drawn(dmft.plot.overlay, [path, run], "loss")
    fit = dmft.extrapolate(run, "loss", "N").isel(t=-1)
    parts = xarray.concat([run.reference[N].isel(t=-1).assign_coords(N=float(N)) for N in (8, 16)],
                          "N", data_vars="all", coords="minimal", compat="override", join="outer")
    assert float(fit["loss_inf"]) == float(dmft.extrapolate(parts, "loss", "N")["loss_inf"])
    for function, what, sentence in (
            (dmft.plot.loss, run.limit, "takes the whole result or the path of its file, and no D"),
            (dmft.plot.loss, rates, "is of a sweep, whose pictures are losses"),
            (dmft.plot.losses, run, "has no sweep; it is not of dmft-sweep"),
            (dmft.plot.losses, run.limit, "takes its result, the path of its file, or its D")):
        with pytest.raises(dmft.InputError, match=sentence):
            drawn(function, what)
    for function, more, sentence in (
            (dmft.plot.curves, "losss", "no series losss; there is loss"),
            (dmft.plot.distribution, "h", "no field h; there is none .* fields"),
            (dmft.plot.norms, "change", "the run had no .output. experts = yes")):
        with pytest.raises(dmft.plot.Missing, match=sentence):
            drawn(function, run, more)
    with pytest.raises(dmft.InputError, match="a result or the path of its file, and no int"):
        dmft.exponent(3, "loss", "N")
