"""Attention that sees some tokens: those of a sequence that are no padding, by the ways in which it
is written."""
import math

import dmft
import dmft.torch
import numpy as np
import pytest
import torch
from test_limit import approach
from test_training import OPTIMIZERS, STEPS, WIDTH, his_outputs
from torch import nn
from torch.nn import functional as F

LETTERS, PLACES, ROUND_OFF = 6, 5, 1e-12
LEAST = torch.finfo(torch.float32).min


def example(rows=24):
    """Letters of which 0 is padding; the first of a sequence never is."""
    x = torch.randint(0, LETTERS, (rows, PLACES), generator=torch.Generator().manual_seed(2))
    x[:, 0] = x[:, 0].clamp(min=1)
    return x


def fill(logits, x):
    return logits.masked_fill((x == 0)[:, None], -math.inf)


def least(logits, x):
    return logits + (1.0 - (x != 0).to(logits.dtype))[:, None, :] * LEAST


def bert(logits, x):
    return logits + (1.0 - (x != 0).to(logits.dtype))[:, None, :] * -10000.0


def where(logits, x):
    return torch.where((x != 0).unsqueeze(1), logits, LEAST)


def causal(logits, x):
    seen = torch.ones(PLACES, PLACES).tril().bool()
    return logits.masked_fill((x == 0)[:, None], LEAST).masked_fill(~seen, -math.inf)


class Attention(nn.Module):
    """Of one head, behind the letters and places of a sequence."""

    def __init__(self, N, hide=None):
        super().__init__()
        self.letter, self.place = nn.Embedding(LETTERS, N), nn.Embedding(PLACES, N)
        self.q, self.k, self.v = (nn.Linear(N, N, bias=False) for _ in range(3))
        self.head, self.hide = nn.Linear(N, LETTERS, bias=False), hide

    def attended(self, h, x):
        """Values of the tokens that are seen."""
        logits = self.hide(self.q(h) @ self.k(h).mT / h.shape[-1], x)
        return logits.softmax(-1) @ self.v(h)

    def forward(self, x):
        h = self.letter(x) + self.place(torch.arange(x.shape[1]))
        return self.head(torch.tanh(h + self.attended(h, x)))


class Fused(Attention):
    """By the operation of PyTorch."""

    def attended(self, h, x):
        h = h[:, None]
        seen = (x != 0)[:, None, None, :]
        y = F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h), attn_mask=seen)
        return y[:, 0]


class Layer(nn.Module):
    """PyTorch's own layer."""

    def __init__(self, N):
        super().__init__()
        self.letter, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS, bias=False)
        self.layer = nn.TransformerEncoderLayer(N, 2, 2 * N, 0.0, batch_first=True)

    def forward(self, x):
        return self.head(self.layer(self.letter(x), src_key_padding_mask=x == 0))


BUILDS = {one.__name__: lambda N, one=one: Attention(N, one)
          for one in (fill, least, bert, where, causal)} | {"fused": Fused, "layer": Layer}


@pytest.mark.filterwarnings("ignore:no output depends")
@pytest.mark.parametrize("name", BUILDS)
def test_padding_is_not_seen(name):
    mine = dmft.torch.import_module(BUILDS[name], example(), (16, 32))
    assert mine.difference < ROUND_OFF


@pytest.mark.parametrize("name, kind", [("least", "sgd"), ("causal", "adam")])
def test_it_trains_as_its_owner_does(name, kind):
    mine = dmft.torch.import_module(BUILDS[name], example(), (16, 32))
    run = dmft.solve(mine.settings, network=mine.as_trained(OPTIMIZERS[kind]), progress=False, **{
        "training.steps": STEPS, "reference.widths": WIDTH, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial"})
    his = his_outputs(mine, BUILDS[name], run, OPTIMIZERS[kind])
    ours = run.reference[WIDTH]["f"].values
    assert np.abs(his - ours).max() < ROUND_OFF * np.abs(ours).max()


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_it_approaches_the_limit():
    approach(dmft.torch.import_module(BUILDS["least"], example(), (16, 32)), "sgd")
