"""Activations that are written in Lua as functions of rows: what a step of training moves is the
derivative of the loss, by central differences of the same functions in numpy."""
import math
import os

import numpy as np
import pytest

import dmft
from dmft.scaling import scaling

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUNCTIONS = {"mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
             "snake": lambda x: x + np.sin(x) ** 2,
             "leaky": lambda x: np.where(x > 0, x, 0.1 * x),
             "squared": lambda x: np.where(x > 0, x, 0) ** 2,
             "logcosh": lambda x: np.log(2 * np.cosh(x)), "root": lambda x: np.sqrt(2 * np.cosh(x))}
N = 6


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_differences(name):
    """h = 1e-5: h^2 times third derivatives, and round-off 1e-16/h, of numbers of order one; no
    preactivation of this seed is so near to a kink."""
    run = dmft.solve(os.path.join(ROOT, "examples", "activation.ini"), progress=False, **{
        "program.activation": name, "training.steps": 2, "reference.widths": N,
        "reference.seeds": 1, "reference.centre": "no", "solver.replicates": 0,
        "output.weights": "all"})
    act, network = FUNCTIONS[name], dmft.describe(run).networks[0]
    A, y = run.data["coordinates"].values, run.data["y"].values
    scale = {W.name: scaling(network, W) for W in network.matrices}
    start, after = ({W: run.weights(W, N, t=t).values.astype(float) / scale[W].unit
                     for W in scale} for t in (0, 1))

    def loss(V):
        f = act(act(A @ V["W1"].T) @ V["W2"].T) @ V["w"].T
        return 0.5 * ((f.ravel() - y) ** 2).mean()
    assert math.isclose(loss(start), run.reference[N]["loss"].values[0], rel_tol=1e-12)
    h, eta = 1e-5, run.parameters["training.eta0"]
    for W, V in start.items():
        slope = np.zeros(V.shape)
        for at in np.ndindex(V.shape):
            moved = [start | {W: V + sign * h * (np.indices(V.shape).T == at).all(-1).T}
                     for sign in (1, -1)]
            slope[at] = (loss(moved[0]) - loss(moved[1])) / (2 * h)
        np.testing.assert_allclose(after[W], V - eta * scale[W].sgd * slope, rtol=0,
                                   atol=1e-8 * eta * scale[W].sgd)
        assert np.abs(slope).max() > 1e-3
