"""The mean margin of a network is that of its outputs, f of the class minus the largest f of
another; of one output y f."""
import os

import dmft
import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = {"signs": ("data/regime2.ini", {}),
         "classes": ("data/dense.ini", {"training.loss": "cross_entropy", "network.outputs": 3}),
         "tokens": ("data/transformer.ini", {})}


@pytest.mark.parametrize("name", CASES)
def test_margins_are_those_of_the_outputs(name):
    ini, keys = CASES[name]
    run = dmft.solve(os.path.join(ROOT, ini), progress=False, **{
        "solver.replicates": 0, "reference.widths": [16], "reference.seeds": 1,
        "training.steps": 6, "data.test_inputs": 0, "output.kernels": "none", **keys})
    one, y = run.reference[16], run.data["y"].values
    f = one["f"].values
    if f.ndim == 2:
        assert y.ndim == 1
        margin = (y * f).mean(1)
    else:
        f, y = f.reshape(len(f), -1, f.shape[-1]), y.reshape(-1, f.shape[-1])
        asked = y.max(1) > 0
        f, y = f[:, asked], y[asked] == 1
        margin = (f[:, y] - np.where(y, -np.inf, f).max(2)).mean(1)
    np.testing.assert_allclose(one["margin"], margin, 1e-12, 1e-14)
    assert (one["margin"].values[1:] > 0).all()     # it learns
