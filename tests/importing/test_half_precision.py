"""dmft.torch.import_module of modules in half precision, which are read as all others are."""
import warnings

import dmft
import dmft.torch
import modules
import pytest
import torch
from torch import nn


class Scaled(nn.Module):
    """A factor that no half precision has."""

    def __init__(self, N):
        super().__init__()
        self.read, self.head = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.register_buffer("factor", torch.tensor([0.3]))

    def forward(self, x):
        return self.head(torch.tanh(self.factor * self.read(x)))[:, 0]


class Mixed(Scaled):
    """Half precision in what it computes alone."""

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = self.read(x)
        return self.head(torch.tanh(self.factor * h.half()).float())[:, 0]


BUILT = {"half": lambda N: Scaled(N).half(), "bfloat16": lambda N: Scaled(N).bfloat16(),
         "made": lambda N: Scaled(N).to(dtype=torch.bfloat16), "mixed": Mixed}


@pytest.mark.parametrize("name", BUILT)
def test_half_precision_is_read_as_double_and_said_once(name):
    with pytest.warns(dmft.NoteWarning) as said:
        mine = dmft.torch.import_module(BUILT[name], modules.numbers(), (16, 32))
    (sentence,) = [str(one.message) for one in said]
    assert sentence.startswith("half precision is read as double precision")
    kinds = {"half": "float16 at", "mixed": "float16 at"}
    assert f"torch.{kinds.get(name, 'bfloat16 at')}" in sentence
    assert "test_half_precision.py:" in sentence
    assert mine.difference < 1e-12, mine.differences


@pytest.mark.parametrize("name", BUILT)
def test_buffers_are_those_of_build_but_for_their_rounding(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmft.NoteWarning)
        mine = dmft.torch.import_module(BUILT[name], modules.numbers(), (16, 32))
    module, x = BUILT[name](16), modules.numbers()
    f = mine.load(module)(x.double())
    round_off = 4 * torch.finfo(torch.bfloat16).eps     # of the factor, and in tanh and two sums
    with torch.no_grad():
        wanted = module(x.to(module.read.weight.dtype)).double()
    assert (f - wanted).abs().max() < round_off * wanted.abs().max()
    module.factor.mul_(1.1)
    with pytest.raises(dmft.InputError, match="buffer factor of this module is not what build"):
        mine.load(module)


def test_single_precision_is_not_mentioned():
    with warnings.catch_warnings():
        warnings.simplefilter("error", dmft.NoteWarning)
        dmft.torch.import_module(lambda N: Scaled(N).float(), modules.numbers(), (16, 32))


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_each_parameter_is_stored_in_its_own_type():
    """So that those in single precision are not rounded as the first one, which has half of it."""
    mine = dmft.torch.import_module(Scaled, modules.numbers(), (16, 32))
    first, second = Scaled(16), Scaled(16)
    second.read.bfloat16()
    mine.store(mine.load(first), second)
    assert second.read.weight.dtype == torch.bfloat16
    torch.testing.assert_close(second.head.weight, first.head.weight)
