"""Pictures of sweeps on axes of one's own: of a result, and of its datasets, they are the same."""
import matplotlib.pyplot as plt
import numpy as np
import pytest

import dmft
import dmft.plot

BASE = {"network.model": "dense", "training.steps": 4, "solver.sites": 64, "solver.replicates": 3,
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
