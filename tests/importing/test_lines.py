"""Refusals of what is found after a module has been read name the line that it is about."""
import inspect

import dmft
import dmft.torch
import modules
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


class Two(nn.Module):
    """Two layers, with `middle` between them."""

    def __init__(self, N, middle=lambda module, h: h):
        super().__init__()
        self.read, self.second = nn.Linear(modules.NUMBERS, N), nn.Linear(N, N)
        self.head, self.middle = nn.Linear(N, 1, bias=False), middle
        self.register_buffer("count", torch.ones(()))

    def forward(self, x):
        h = self.read(x)
        return self.head(torch.tanh(self.second(self.middle(self, h))))[:, 0]


def doubled(module, h):
    h.data.mul_(2)
    return h


def hooked(module, h):
    if h.requires_grad:
        h.register_hook(lambda g: 2 * g)
    return h


def written(module, h):
    h = h * module.count
    with torch.no_grad():
        module.count.add_(1)
    return h


def counted(module, h):
    h = h * module.count.clone()
    with torch.no_grad():
        module.count.add_(1)
    return h


def number(module, h):
    size = h.square().mean().item()
    h = h + 1
    return h * size


def drawn(module, h):
    return h * torch.bernoulli(torch.sigmoid(h), p=0.5)


def line_of(function, words: str) -> str:
    lines, first = inspect.getsourcelines(function)
    (k,) = [k for k, line in enumerate(lines) if words in line]
    return f"test_lines.py:{first + k}"


@pytest.mark.parametrize("middle, words, said", [
    (doubled, "mul_", "holds gradients back"), (written, "add_", "modified by an in"),
    (hooked, "register_hook", "holds gradients back"), (counted, "add_", "earlier calls"),
    (number, "item", "no power of the width"), (drawn, "bernoulli", "no gradient")])
def test_the_line_is_that_of_the_cause(middle, words, said):
    with pytest.raises(dmft.InputError, match=said) as error:
        dmft.torch.import_module(lambda N: Two(N, middle), modules.numbers(), (16, 32))
    assert line_of(middle, words) in str(error.value), error.value


class Shared(nn.Module):
    """One tensor that reads inputs and is read out."""

    def __init__(self, N):
        super().__init__()
        self.read = nn.Linear(modules.NUMBERS, N, bias=False)

    def forward(self, x):
        h = torch.tanh(self.read(x))
        return h @ self.read.weight


def test_a_parameter_of_several_matrices_has_its_lines():
    with pytest.raises(dmft.InputError, match="read.weight is used as several matrices") as error:
        dmft.torch.import_module(Shared, modules.numbers(), (16, 32))
    for words in ("self.read(x)", "h @ self"):
        assert line_of(Shared, words) in str(error.value), error.value


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_muon_of_what_reads_inputs_has_a_line():
    mine = dmft.torch.import_module(Two, modules.numbers(), (16, 32))
    with pytest.raises(dmft.InputError, match="has a side that does not grow") as error:
        mine.as_trained(lambda module: [
            torch.optim.Muon([module.read.weight], 0.1),
            torch.optim.AdamW([one for name, one in module.named_parameters()
                               if name != "read.weight"], 0.1)])
    assert line_of(Two, "self.read(x)") in str(error.value), error.value
