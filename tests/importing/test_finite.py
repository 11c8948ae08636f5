"""The check of an import says what it could not compare: modules whose outputs are not finite at
other weights, and powers of numbers that change sign."""
import math
import warnings

import dmft
import dmft.torch
import modules
import pytest
import torch
from torch import nn
from test_import import ROUND_OFF, refusal


class Positive(nn.Module):
    """Its output goes with a function of a gain, which is positive at the start."""

    def __init__(self, N, function):
        super().__init__()
        self.first, self.last = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.gain, self.function = nn.Parameter(torch.tensor(1.5)), function

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) * self.function(self.gain))[:, 0]


@pytest.mark.parametrize("function", [
    torch.log, torch.sqrt, torch.reciprocal, lambda g: (g ** 4) ** 0.25, lambda g: (g ** -2) ** 0.5,
    lambda g: torch.sqrt(g) ** 5, lambda g: 1 / torch.sqrt(g), lambda g: (g ** 4) ** -1,
    lambda g: torch.sqrt(torch.sqrt(g))], ids=range(9))
def test_powers_of_numbers_hold_for_both_signs(function):
    mine = dmft.torch.import_module(lambda N: Positive(N, function), modules.numbers(), (16, 32))
    assert mine.difference < ROUND_OFF
    module, x = Positive(16, function).double(), modules.numbers().double()
    with torch.no_grad():
        module.gain.neg_()
        wanted = module(x)
        assert torch.allclose(mine.load(module)(x), wanted, rtol=ROUND_OFF, atol=ROUND_OFF,
                              equal_nan=True)


def test_what_is_not_finite_is_not_called_the_same():
    """A module of which nothing is finite where it is compared may be any other."""
    def build(N):
        module = Positive(N, torch.log)
        if torch.initial_seed() > 48:   # that of all modules but the traced and the third
            module.gain.data.fill_(torch.nan)
        return module
    assert "cannot be told: the output at other weights" in refusal(build)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmft.NoteWarning)
        mine = dmft.torch.import_module(build, modules.numbers(), (16, 32), check=False)
    assert math.isnan(mine.difference)
    assert "cannot be told: output is not finite" in refusal(
        lambda N: Positive(N, lambda g: torch.log(g - 3)))


def test_entries_that_are_not_finite_hide_no_others():
    class Branch(nn.Module):
        """Where its gain is not the one at the start some outputs are nan, others are doubled."""

        def __init__(self, N):
            super().__init__()
            self.first, self.router = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1)
            self.last = nn.Linear(N, 1, bias=False)
            with torch.no_grad():
                self.router.bias.fill_(1.3)

        def forward(self, x):
            h = self.first(x)
            number = torch.log(self.router(h))
            return self.last(h * number * (2 if number.isnan().any() else 1))[:, 0]
    assert "other weights and inputs differs by 5.0e-01" in refusal(Branch)
