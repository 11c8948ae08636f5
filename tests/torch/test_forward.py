"""Forward passes of the theory pages, written by hand: the judge of a new network.

Each is the first section of its page in PyTorch, with nothing of the program: autograd makes the
backward pass, and the learning rates are those that the page says. It starts from the matrices of
one of our networks and trains beside it; outputs and losses agree to round-off. A new network adds
a function and a row of PAGES. Run by tests/torch.sh."""
import os

import numpy as np
import pytest
import torch
from common import ROOT

import dmft

N, STEPS, ETA0, GAMMA0 = 32, 8, 0.4, 1.3
# Every step amplifies what round-off left of the one before by no more than the change of a weight
# does to the loss; PyTorch sums in another order.
TOLERANCE = STEPS * 1e3 * np.finfo(float).eps


def dense(W, x):  # docs/theory/regime1.md, (1) to (6) with one expert
    h = x @ W["W1"].T
    for name in ("W2", "W3"):
        h = torch.tanh(h) @ W[name].T
    return torch.tanh(h) @ W["w"].T / (GAMMA0 * N)


def resnet(W, x):  # docs/theory/resnet.md, (1) and (2)
    h = x @ W["W0"].T
    for name in ("W_0", "W_1", "W_2", "W_3"):
        h = h + torch.tanh(h) @ W[name].T
    return h @ W["w"].T / (GAMMA0 * N)


def regime2(W, x):  # docs/theory/regime2.md, (1) to (6), sigmoid gates
    x1 = torch.tanh(x @ W["W1"].T)
    phi = torch.sigmoid(x1 @ W["Q"].T)
    units = torch.tanh(x1 @ W["W_in"].T)
    experts = units.reshape(len(x), phi.shape[1], -1)  # the units of an expert are neighbours
    return (phi[:, :, None] * experts).reshape(units.shape) @ W["W_out"].T @ W["w"].T / (GAMMA0 * N)


# Of each page: the learning rate of the matrices as they are used, over eta0 gamma0^2. A matrix of
# the page with entries of variance one is used as s times it, so its rate N is N s^2 here.
KAPPA, N_E, DEPTH = 0.5, 2, 4
PAGES = {
    "dense": (dense, {"W1": N, "W2": 1, "W3": 1, "w": N}),
    "resnet": (resnet, {"W0": N, "W_0": 1 / DEPTH, "W_1": 1 / DEPTH, "W_2": 1 / DEPTH,
                        "W_3": 1 / DEPTH, "w": N}),
    "regime2": (regime2, {"W1": N, "Q": KAPPA, "W_in": 1, "W_out": 1 / (KAPPA * N_E), "w": N})}


@pytest.mark.parametrize("name", PAGES)
def test_the_network_of_the_page(name):
    forward, rates = PAGES[name]
    ours = dmft.solve(os.path.join(ROOT, "data", f"{name}.ini"), progress=False, **{
        "solver.replicates": 0, "reference.widths": [N], "reference.seeds": 1,
        "training.steps": STEPS, "training.eta0": ETA0, "training.gamma0": GAMMA0,
        "output.weights": "initial"})
    network = ours.reference[N]
    W = {key: torch.tensor(ours.weights(key, N).values, requires_grad=True) for key in rates}
    stored = {key.removeprefix("weights_") for key in network if key.startswith("weights_")}
    assert stored == set(rates)
    x, y = (torch.tensor(ours.data[key].values) for key in ("coordinates", "y"))
    start = forward(W, x).detach()
    moved = []
    for t in range(STEPS):
        f = (forward(W, x) - start)[:, 0]
        loss = ((y - f) ** 2 / 2).mean()
        np.testing.assert_allclose(f.detach(), network["f"].values[t].ravel(), 0, TOLERANCE)
        np.testing.assert_allclose(loss.item(), network["loss"].values[t], TOLERANCE)
        moved.append(loss.item())
        for key, g in zip(W, torch.autograd.grad(loss, W.values())):
            with torch.no_grad():
                W[key] -= ETA0 * GAMMA0**2 * rates[key] * g
    assert moved[-1] < 0.8 * moved[0]  # or nothing would have been compared


@pytest.mark.parametrize("name", PAGES)
def test_every_rate_of_a_page_matters(name, monkeypatch):
    """A rate that is wrong by one part in a thousand is seen, matrix by matrix."""
    forward, rates = PAGES[name]
    for key in rates:
        monkeypatch.setitem(PAGES, name, (forward, {**rates, key: 1.001 * rates[key]}))
        with pytest.raises(AssertionError):
            test_the_network_of_the_page(name)
