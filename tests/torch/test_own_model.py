"""Somebody's own module beside a network: check, coordinate_check, and the code of docs/pytorch.md.
Run by make torch-test."""
import contextlib
import io
import math
import os
import re

import numpy as np
import pytest
import torch
from common import ROOT

import dmft
import dmft.torch

REGIME2 = os.path.join(ROOT, "data", "regime2.ini")


def words(text: str) -> str:
    """Without what depends on the generator."""
    return " ".join(re.sub(r"[-+]?[0-9]+(\.[0-9]+)?(e-?[0-9]+)?", "", text).split())


def test_the_page():
    """Its code runs, prints what the page shows but for digits, and shows what the page says."""
    with open(os.path.join(ROOT, "docs", "pytorch.md"), encoding="utf-8") as file:
        page = file.read()
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    space, printed = {}, []
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, space)
        printed += [out.getvalue()] if out.getvalue() else []
    assert len(printed) == len(shown) + 1  # and the last loss
    for text, given in zip(printed, shown):
        assert words(text) == words(given)
    assert not space["wrong"].agrees and space["mended"].agrees
    best = space["best"]
    assert best["Mixture", 32] >= 8 * best["Mixture", 512]
    mended = [best["Mended", N] for N in (32, 128, 512)]
    assert max(mended) <= 2 * min(mended)
    assert 0 < space["loss"].item() < 0.5


def test_networks_agree_with_themselves():
    """Scales and rates of a Network, drawn and from its groups, by both kinds of optimizers."""
    for ini, kind in ((REGIME2, "gd"), (REGIME2, "adam"), ("data/stack.ini", "adam"),
                      ("data/regime1.ini", "gd")):
        ini = os.path.join(ROOT, ini)
        make = {"gd": lambda groups: torch.optim.SGD(groups, 0.1), "adam": torch.optim.Adam}[kind]
        key = {"training.optimizer": kind}
        net = dmft.torch.Network(ini, 32, **key)
        found = dmft.torch.check(
            lambda N, ini=ini, key=key: dmft.torch.Network(ini, N, **key),
            {f"weights.{name}": name for name in net.weights}, ini, (32, 128), **key,
            optimizer=lambda net, make=make: make(net.parameter_groups()))
        assert found.agrees and not found.unnamed and not found.missing, f"{ini} {kind}\n{found}"
        assert not any(tensor.remarks for tensor in found.tensors)


class Dense(torch.nn.Module):
    """f = c(N) w tanh(W2 tanh(W1 x)), its read-out at N^-power."""

    def __init__(self, N, power=0.5, multiplier=0.0):
        super().__init__()
        self.W1, self.W2 = (torch.nn.Linear(m, N, bias=False) for m in (10, N))
        self.w = torch.nn.Linear(N, 1, bias=False)
        torch.nn.init.normal_(self.w.weight, std=N ** -power)
        self.c = N ** -multiplier

    def forward(self, X):
        return self.c * self.w(torch.tanh(self.W2(torch.tanh(self.W1(X)))))[:, 0]


NAMES = {"W1.weight": "W1", "W2.weight": "W2", "w.weight": "w"}
DENSE = {"network.model": "dense", "network.depth": 2}


def checked(build, rate, names=None, **more):
    """By SGD at a rate that is a function of the width."""
    return dmft.torch.check(build, names or NAMES, DENSE, **more, optimizer=lambda model: (
        torch.optim.SGD(model.parameters(), rate(model.w.in_features))))


def test_lazy_networks():
    """Standard scales at the rate 1/N: hidden updates vanish as N^-1/2, as they must."""
    found = checked(Dense, lambda N: 1 / N)
    assert found["W2.weight"].learned == pytest.approx(-0.5, abs=0.1)
    assert "lazy: its updates vanish" in found["W2.weight"].verdicts[0]
    assert found["w.weight"].verdicts[0].startswith("gives at the start")
    found = checked(Dense, lambda N: 1)
    assert found["W2.weight"].learned == pytest.approx(0.5, abs=0.1)
    assert "explode" in found["W2.weight"].verdicts[0] and not found.agrees


def test_a_multiplier_is_part_of_the_scale():
    """Entries of order one under 1/N are entries of order 1/N: rates N^2 times as large."""
    def optimizer(model):
        N = model.w.in_features
        return torch.optim.SGD([{"params": model.W1.parameters(), "lr": N},
                                {"params": model.W2.parameters(), "lr": 1},
                                {"params": model.w.parameters(), "lr": N}])
    names = NAMES | {"w.weight": ("w", lambda N: 1 / N)}
    found = dmft.torch.check(lambda N: Dense(N, 0, 1), names, DENSE, optimizer=optimizer)
    assert found.agrees, found
    found = dmft.torch.check(lambda N: Dense(N, 0, 1), NAMES, DENSE, optimizer=optimizer)
    assert "explodes" in found["w.weight"].verdicts[0]


def test_a_tied_tensor_has_two_names():
    """A hidden matrix that acts twice, as in a network with a tied one."""
    net = dmft.Network()
    on = net.population("on")
    x = net.tanh(net.read_in(on, "W1"))
    for _ in range(2):
        x = net.tanh(net.map(x, on, "W2", tied=True))
    net.read_out(x, "w")

    class Tied(Dense):
        def __init__(self, N):
            super().__init__(N, 1)
            self.again = torch.nn.Linear(N, N, bias=False)
            self.again.weight = self.W2.weight

        def forward(self, X):
            x = torch.tanh(self.W2(torch.tanh(self.W1(X))))
            return self.w(torch.tanh(self.again(x)))[:, 0]

    def optimizer(model):
        N = model.w.in_features
        return torch.optim.SGD([{"params": model.W1.parameters(), "lr": N},
                                {"params": model.W2.parameters(), "lr": 1},
                                {"params": model.w.parameters(), "lr": 1 / N}])
    both = NAMES | {"again.weight": "W2"}
    one = {name: W for name, W in both.items() if name != "W2.weight"}
    for names in (both, one):
        found = dmft.torch.check(Tied, names, "\n", network=net, optimizer=optimizer)
        assert found.agrees and not found.unnamed and not found.missing, found
    assert found["again.weight"].lr == pytest.approx(0, abs=1e-6)
    assert found["again.weight"].ours == "W2"


def test_what_is_zero_frozen_or_not_named():
    def build(N):
        model = Dense(N, 1)
        torch.nn.init.zeros_(model.w.weight)
        model.W2.weight.requires_grad_(False)
        return model
    def optimizer(model):
        return torch.optim.Adam([{"params": model.W1.parameters()}, {
            "params": model.w.parameters(), "lr": 1 / model.w.in_features}])
    found = dmft.torch.check(build, NAMES, DENSE, optimizer=optimizer)
    assert found["W2.weight"].verdicts == ["is frozen"]
    assert found["w.weight"].verdicts == ["starts at zero"] and found["w.weight"].std is None
    assert found["W1.weight"].agrees and "zero" in str(found)
    found = checked(build, lambda N: 1, {"w.weight": "w"}, **{"network.read_out": "zero"})
    assert found["w.weight"].std_ours is None
    assert found.unnamed == ["W1.weight", "W2.weight"] and found.missing == ["W1", "W2"]
    assert "nothing stands for: W1 W2" in str(found)
    with pytest.raises(dmft.InputError, match="no parameter head; there are W1.weight"):
        checked(build, lambda N: 1, {"head": "w"})
    with pytest.raises(dmft.InputError, match="no matrix W9"):
        checked(build, lambda N: 1, {"w.weight": "W9"})
    with pytest.raises(dmft.InputError, match="two modules"):
        checked([Dense(4)], lambda N: 1)


def test_what_is_frozen_by_itself():
    """An optimizer may have it all the same."""
    def build(N):
        model = Dense(N, 1)
        model.W2.weight.requires_grad_(False)
        return model
    found = checked(build, lambda N: 1)
    assert found["W2.weight"].verdicts == ["is frozen"] and found["W2.weight"].lr is None


def test_what_check_cannot_compare():
    for widths in ((64,), (64, 64), (128, 64), (64, 128, 256)):
        with pytest.raises(dmft.InputError, match="must be two, the larger one last"):
            checked(Dense, lambda N: 1, widths=widths)
    with pytest.raises(dmft.InputError, match="multiplied by 0"):
        checked(Dense, lambda N: 1, {"w.weight": ("w", 0)})
    with pytest.raises(dmft.InputError, match="under the name W3; there are W1.weight"):
        checked(Dense, lambda N: 1)["W3"]


def test_coordinates_are_those_of_the_program():
    """The parts of every signal of a dense network, beside dmft-solve's own coordinate check."""
    N, steps = 24, 3
    keys = DENSE | {"training.steps": steps + 1, "training.eta0": 0.4, "solver.replicates": 0,
                    "reference.widths": N, "reference.seeds": 1, "reference.centre": "no",
                    "output.weights": "initial", "network.activation": "tanh"}
    run = dmft.solve(keys | {"reference.coordinate_check": True}, progress=False)
    net = dmft.torch.Network(run, N, weights=run)
    groups = {group["name"]: group["lr"] for group in net.parameter_groups()}
    D = net.dimension

    class Same(Dense):
        def __init__(self, N):
            super().__init__(N)
            self.double()
            for name in ("W1", "W2", "w"):
                getattr(self, name).weight.data.copy_(net.weights[name])

        def forward(self, X):
            return super().forward(X / math.sqrt(D))

    def optimizer(model):
        return torch.optim.SGD([{"params": getattr(model, name).parameters(), "lr": lr}
                                for name, lr in groups.items()], 0.1)
    found = dmft.torch.coordinate_check(Same, [N], dmft.torch.inputs.data_of(run),
                                        optimizers={"gd": optimizer}, steps=steps, seeds=1)
    theirs = run.reference[N]
    for module, name in (("W1", "W1"), ("W2", "W2"), ("w", "f")):
        for part in ("init", "prop", "eff"):
            if f"rms_{name}_{part}" in theirs:
                ours = found.rms["gd"][module][part][0]
                assert abs(ours - theirs[f"rms_{name}_{part}"].values[steps]) < 1e-12
    delta = theirs["rms_f_delta"].values[steps]
    assert abs(found.rms["gd"]["output"]["eff"][0] - delta) < 1e-12


def test_coordinates_over_widths():
    """Adam of one rate: what it adds to the hidden layer grows as N, and SGD at the rate 1/N adds
    N^-1/2."""
    X, y = torch.randn(4, 10, generator=torch.Generator().manual_seed(2)), torch.ones(4)
    found = dmft.torch.coordinate_check(Dense, [64, 256, 1024], (X, y), steps=1, optimizers={
        "adam": lambda model: torch.optim.Adam(model.parameters(), 1e-5),
        "sgd": lambda model: torch.optim.SGD(model.parameters(), 1e-2 / model.w.in_features)})
    assert found.exponent("adam", "W2", "eff") == pytest.approx(1, abs=0.2)
    assert found.exponent("sgd", "W2", "eff") == pytest.approx(-0.5, abs=0.2)
    assert found.exponent("sgd", "W2", "init") == pytest.approx(0, abs=0.1)
    assert found.exponent("sgd", "W1", "prop") is None  # its inputs do not change
    assert np.all(found.rms["sgd"]["W1"]["prop"] == 0)
    assert set(found.rms["adam"]) == {"W1", "W2", "w", "output"}
    assert "adam:" in str(found) and "N^" in str(found)


class Twice(torch.nn.Module):
    """2 W x, the 2 an argument with a name; what it took is empty afterwards."""

    def __init__(self, N):
        super().__init__()
        self.W = torch.nn.Linear(N, N, bias=False)
        self.b = torch.nn.Parameter(torch.zeros(N))

    def forward(self, x, *, factor=1):
        y = factor * self.W(x) + self.b
        x.data.zero_()
        return y


def test_coordinates_of_modules_with_named_arguments():
    """And of those that write into what they take."""
    class Model(Dense):
        def __init__(self, N):
            super().__init__(N)
            self.W2 = Twice(N)

        def forward(self, X):
            return self.w(self.W2(self.W1(X), factor=2))[:, 0]
    X, y = torch.randn(4, 10, generator=torch.Generator().manual_seed(2)), torch.ones(4)
    found = dmft.torch.coordinate_check(Model, [8, 16], (X, y), steps=1, seeds=1, optimizers={
        "sgd": lambda model: torch.optim.SGD(model.parameters(), 0.01)}).rms["sgd"]
    for part in ("init", "prop"):
        np.testing.assert_allclose(found["W2"][part], 2 * found["W2.W"][part], rtol=1e-6)
    assert np.all(found["W2"]["init"] > 0)


def test_coordinates_of_one_width_and_of_modules_that_are_not_called():
    class Model(Dense):
        def __init__(self, N):
            super().__init__(N)
            self.unused = torch.nn.Linear(N, N)

        def forward(self, X):
            return super().forward(X) + (X @ self.W1.weight.T) @ self.unused.bias
    found = dmft.torch.coordinate_check(Model, [8], (torch.ones(2, 10), torch.ones(2)))
    assert list(found.rms["adam"]) == ["W1", "W2", "w", "output"]
    assert found.exponent("adam", "W2", "eff") is None and "N^" not in str(found)
