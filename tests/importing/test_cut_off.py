"""The larger of two, products of a few numbers, deviations, and what is changed in place where
gradients are off: each is the module, with all of its gradients."""
import modules
import pytest
import torch
from test_import import ROUND_OFF, refusal
from torch import nn
from torch.nn import functional as F

import dmft
import dmft.torch

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


class Gated(nn.Module):
    """A hidden layer, two others made of it, and a router of three numbers; `middle` makes rows of
    them all."""

    def __init__(self, N, middle):
        super().__init__()
        self.first = nn.Linear(modules.NUMBERS, N)
        self.one, self.two = nn.Linear(N, N), nn.Linear(N, N)
        self.router, self.last = nn.Linear(N, 3), nn.Linear(N, 1)
        self.gain, self.middle = nn.Parameter(torch.ones(N)), middle

    def forward(self, x):
        h = torch.tanh(self.first(x))
        y = self.middle(self, h, self.one(h), self.two(h), self.router(h))
        return self.last(y * self.gain).squeeze(-1)


def stacked(a, b):
    """[rows, 2, N]."""
    return torch.stack([a, b], 1)


# {name: function of the module, its hidden layer h, two layers made of it, and the router's logits}
MIDDLES = {
    # exp of these logits overflows
    "log_softmax": lambda m, h, a, b, r: a * (3e3 * r).log_softmax(-1)[:, :1] + b,
    "logsumexp": lambda m, h, a, b, r: a * (3e3 * r).logsumexp(-1)[:, None] + b,
    "maximum": lambda m, h, a, b, r: torch.maximum(a, b),
    "max_of_two": lambda m, h, a, b, r: torch.max(a, 0.2 * a),
    "minimum": lambda m, h, a, b, r: torch.minimum(a, torch.tensor(0.3)) + b,
    "maxout": lambda m, h, a, b, r: stacked(a, b).max(1).values,
    "smallest_of_rows": lambda m, h, a, b, r: stacked(a, b).amin(1),
    "smallest_number": lambda m, h, a, b, r: a * r.min(-1, keepdim=True).values + b,
    "larger_number": lambda m, h, a, b, r: a * torch.maximum(r[:, :1], r[:, 1:2]) + b,
    "product": lambda m, h, a, b, r: a * torch.sigmoid(r).prod(-1, keepdim=True) + b,
    "deviation": lambda m, h, a, b, r: a * torch.sigmoid(
        r / (r.std(-1, keepdim=True) + 0.1))[:, :1] + b,
    "variance_of_units": lambda m, h, a, b, r: a / (a.var(-1, keepdim=True, correction=0) + 1) + b,
    "celu": lambda m, h, a, b, r: F.celu(a, 0.5) + b,
    "cosine": lambda m, h, a, b, r: h * F.cosine_similarity(a, b, dim=-1)[:, None],
    "cut_off_norm": lambda m, h, a, b, r: F.normalize(a, dim=-1) + b,
    "held_gain": lambda m, h, a, b, r: a * m.gain.detach() + b,
}


@pytest.mark.parametrize("name", MIDDLES)
def test_is_the_module(name):
    mine = dmft.torch.import_module(lambda N: Gated(N, MIDDLES[name]), modules.numbers())
    assert mine.difference < ROUND_OFF


REFUSED = {
    "cut off below at 1 and above at -2, which is less": lambda m, h, a, b, r: a.clamp(1, -2) + b,
    "divides by n - 1": lambda m, h, a, b, r: a / a.std(-1, keepdim=True) + b,
    "of which more than one is taken": lambda m, h, a, b, r: torch.stack(
        [h, a, b], 1).topk(2, 1).values.sum(1),
    "which of several rows is the largest": lambda m, h, a, b, r: h * stacked(a, b).argmax(1),
    "1/6 in single precision": lambda m, h, a, b, r: F.hardsigmoid(a) + b,
    "a finite number of factors": lambda m, h, a, b, r: a.prod(-1, keepdim=True) + b,
}


@pytest.mark.parametrize("words", REFUSED)
def test_is_refused(words):
    assert words in refusal(lambda N: Gated(N, REFUSED[words]), modules.numbers())
