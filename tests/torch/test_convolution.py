"""Convolutional networks of examples/ beside conv1d, conv2d and avg_pool2d of PyTorch, which know
nothing of matrices between places: the same outputs and training steps from the same weights."""
import os

import numpy as np
import pytest
import torch
from common import ROOT
from torch.nn import functional

import dmft

N, STEPS, ETA0, GAMMA0 = 16, 6, 0.4, 1.3
TOLERANCE = STEPS * 1e3 * np.finfo(float).eps   # as in test_forward.py


def kernel(W, name, count):
    """[out][in][count] of W_1, W_2, ..., one for each place of a window."""
    return torch.stack([W[f"{name}_{k}"] for k in range(1, count + 1)], -1)


def sequence(W, x, stride=2):
    h = functional.conv1d(x.transpose(1, 2), kernel(W, "W1", 3), padding=1) / 3 ** 0.5
    g = functional.conv1d(torch.tanh(h), kernel(W, "W2", 3), padding=1, stride=stride)
    return torch.tanh(g).mean(2) @ W["w"].T / (GAMMA0 * N)


def image(W, x):
    pixels = x.transpose(1, 2).unflatten(2, (7, 7))
    h = functional.conv2d(pixels, kernel(W, "W1", 9).unflatten(2, (3, 3)), padding=1, stride=2) / 3
    y = functional.avg_pool2d(torch.tanh(h), 2)
    g = functional.conv2d(y, kernel(W, "W2", 9).unflatten(2, (3, 3)), padding=1)
    return torch.tanh(g).mean((2, 3)) @ W["w"].T / (GAMMA0 * N)


def rates(count):
    """Learning rates of the matrices as they are used, over eta0 gamma0^2: those of a read-in, and
    of maps whose sum is over sqrt(count)."""
    places = range(1, count + 1)
    return {f"W1_{k}": N for k in places} | {f"W2_{k}": 1 / count for k in places} | {"w": N}


CASES = {"sequence": (sequence, "convolution", {}, 3),
         "every token": (lambda W, x: sequence(W, x, 1), "convolution", {"program.stride": 1}, 3),
         "image": (image, "image", {"training.loss": "mse"}, 9)}


def train(name, wrong=1.0):
    """Compares all steps; `wrong`: a factor of the rate of one matrix."""
    forward, ini, keys, count = CASES[name]
    ours = dmft.solve(os.path.join(ROOT, "examples", f"{ini}.ini"), progress=False, **{
        "solver.replicates": 0, "reference.widths": [N], "reference.seeds": 1,
        "training.steps": STEPS, "training.eta0": ETA0, "training.gamma0": GAMMA0,
        "output.weights": "initial", **keys})
    network, every = ours.reference[N], rates(count)
    W = {key: torch.tensor(ours.weights(key, N).values, requires_grad=True) for key in every}
    data = ours.data
    x, y = torch.tensor(data["coordinates"].values), torch.tensor(data["y"].values)
    x = x.reshape(len(y), -1, x.shape[-1])
    start, moved = forward(W, x).detach(), []
    for t in range(STEPS):
        f = (forward(W, x) - start)[:, 0]
        loss = ((y - f) ** 2 / 2).mean()
        np.testing.assert_allclose(f.detach(), network["f"].values[t].ravel(), 0, TOLERANCE)
        moved.append(loss.item())
        for key, g in zip(W, torch.autograd.grad(loss, W.values())):
            with torch.no_grad():
                W[key] -= ETA0 * GAMMA0 ** 2 * every[key] * (wrong if key == "W2_2" else 1) * g
    assert moved[-1] < 0.9 * moved[0]  # or nothing would have been compared


@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_those_of_torch(name):
    train(name)


def test_a_rate_of_one_place_is_seen():
    with pytest.raises(AssertionError):
        train("sequence", 1.001)
