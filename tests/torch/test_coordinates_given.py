"""What dmft.torch.coordinate_check is given: modules and data of any precision, and what cannot be.
Run by make torch-test."""
import re

import numpy as np
import pytest
import torch

import dmft
import dmft.torch
from test_coordinates import X, linear, y

SGD = {"sgd": lambda model: torch.optim.SGD(model.parameters(), 0.1)}


class Plain(torch.nn.Module):
    """Two matrices; `middle` between them."""

    def __init__(self, N, middle=torch.tanh):
        super().__init__()
        self.read, self.head, self.middle = linear(N, 10, 0.3), linear(1, N, N ** -0.5), middle

    def forward(self, x):
        return self.head(self.middle(self.read(x)))[:, 0]


def found(build, data=(X, y)):
    return dmft.torch.coordinate_check(build, [8, 16], data, optimizers=SGD).rms["sgd"]


def assert_equal(one, two):
    assert one.keys() == two.keys()
    for name, parts in one.items():
        for part, values in parts.items():
            np.testing.assert_array_equal(values, two[name][part])


@pytest.mark.parametrize("kind", ["half", "bfloat16"])
def test_half_precision_is_computed_in_single_precision_and_said(kind):
    def build(N):
        return getattr(Plain(N), kind)()
    with pytest.warns(dmft.NoteWarning, match="16, and is computed in single precision"):
        halves = found(build)
    assert_equal(halves, found(lambda N: build(N).float()))


def test_data_have_the_precision_of_the_module():
    wanted = found(lambda N: Plain(N).double(), (X.double(), y.double()))
    assert_equal(found(lambda N: Plain(N).double(), (X.float(), y.float())),
                 found(lambda N: Plain(N).double(), (X.float().double(), y.float().double())))
    assert all(np.isfinite(values).all() for parts in wanted.values() for values in parts.values())


def broken(h):
    return h @ torch.ones(3, 3)


# {what is said, with any line: what is given}
REFUSED = {
    "must be a list of whole numbers": {"widths": 16},
    "widths: [16, 0]; must be": {"widths": [16, 0]},
    "build is a Plain; it must be a function of the width": {"build": Plain(8)},
    "build(8) gives a int, which is no torch.nn.Module; let it": {"build": lambda N: 3},
    "must be {a name: a function of the module": {"optimizers": [torch.optim.Adam]},
    "optimizer: 3; must be a function of the module": {"optimizers": {"a": 3}},
    "test_coordinates_given.py:0: return self.head(": {"data": (X[:, :3], y)},
    "test_coordinates_given.py:0: return h @ ": {"build": lambda N: Plain(N, broken)},
    "; build the module, and give its inputs, on the processor": {
        "build": lambda N: Plain(N).to("meta")}}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_one_sentence(words):
    given = {"build": Plain, "widths": [8, 16], "data": (X, y), "optimizers": SGD} | REFUSED[words]
    words = re.sub(r":\d+:", r":\\d+:", re.escape(words))
    with pytest.raises(dmft.InputError, match=words) as error:
        dmft.torch.coordinate_check(**given)
    assert "\n" not in str(error.value)


def test_widths_are_any_whole_numbers():
    for widths in (range(8, 17, 8), np.array([8, 16])):
        found = dmft.torch.coordinate_check(Plain, widths, (X, y), optimizers=SGD, steps=1)
        assert list(found.widths) == [8, 16]


class Autocast(torch.nn.Module):
    """Layers that run in bfloat16, between float32 inputs and outputs."""

    def __init__(self, N, on=True):
        super().__init__()
        self.read, self.middle, self.head = (torch.nn.Linear(m, n) for m, n in (
            (10, N), (N, N), (N, 1)))
        self.on = on

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.on):
            h = torch.tanh(self.middle(torch.tanh(self.read(x))))
            return self.head(h)[:, 0].float()


def test_layers_are_called_again_in_the_precision_they_were_called_in():
    for rate in (0.0, 0.05):
        low, high = (dmft.torch.coordinate_check(
            lambda N: Autocast(N, on), [16, 32], (X, y), steps=2,
            optimizers={"sgd": lambda m: torch.optim.SGD(m.parameters(), rate)}).rms["sgd"]
            for on in (True, False))
        for name in ("read", "middle", "head"):
            if not rate:
                assert not low[name]["prop"].any() and not low[name]["eff"].any()
            assert low[name]["init"] == pytest.approx(high[name]["init"], rel=2 ** -7)
        # what one layer has learned, within the round-off of bfloat16 of what it gives
        assert low["head"]["eff"] == pytest.approx(high["head"]["eff"], rel=0.02, abs=2 ** -8)


@pytest.mark.parametrize("made, said", [
    (lambda m: torch.optim.LBFGS(m.parameters()), "closure.*; take an optimizer whose step"),
    (lambda m: torch.optim.SGD(m.requires_grad_(False).parameters(), 0.1), "let some of its")])
def test_what_makes_no_step_is_named(made, said):
    with pytest.raises(dmft.InputError, match=said):
        dmft.torch.coordinate_check(lambda N: Autocast(N, False), [16, 32], (X, y),
                                    optimizers={"one": made})
