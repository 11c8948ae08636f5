"""The limit beside modules that mix tokens by trained numbers, loop over them, read images, or have
outputs of several heads."""
import dmft
import dmft.torch
import modules
import pytest
import test_images as images
import test_tokens as tokens
import torch
from attentions import build_of
from test_import import refusal
from test_limit import approach
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
SMALL = {32: 16, 64: 12, 128: 8}        # networks of each width


def from_zero(build):
    """Biases of the output start at 0, as what is subtracted does."""
    def made(N):
        module = build(N)
        for name, one in module.named_parameters():
            if name in ("head.bias", "policy.bias", "value.bias"):
                nn.init.zeros_(one)
        return module
    return made


class Vision(images.Vision):
    """With attention over d."""

    def attended(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=1 / q.shape[-1])


class Strided(images.Small):
    """A convolution of a layer's own places behind one of the image."""

    def __init__(self, N):
        super().__init__(N)
        self.two = nn.Conv2d(N, N, 2, bias=False)


class Translated(nn.Module):
    """The last two tokens are written by a decoder, which looks at what an encoder makes of the
    first three; apart: these are taken before the attention, else after it."""

    def __init__(self, N, apart=False):
        super().__init__()
        self.read, self.head = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.q, self.k, self.v, self.o, self.up, self.down = (
            nn.Linear(N, N, bias=False) for _ in range(6))
        self.apart = apart

    def forward(self, x):
        x = self.read(x)
        source, target = torch.tanh(x + self.up(torch.tanh(x))), torch.tanh(x)
        if self.apart:
            source, target = source[:, :3], target[:, 3:]
        a = self.q(target) @ self.k(source).mT / x.shape[-1]
        if not self.apart:
            a = a.masked_fill(torch.arange(modules.PLACES) > 2, -torch.inf)
        target = target + self.o(a.softmax(-1) @ self.v(source))
        y = self.head(target + self.down(torch.relu(target)))
        return y[:, -2:].mean(1)[:, 0]


NUMBERED, IMAGES = tokens.NUMBERED, images.IMAGES
FAMILIES = {
    "patches": (images.Patches, IMAGES, 0.05), "vision": (Vision, IMAGES, 0.05),
    "whole": (images.Whole, IMAGES),
    "convolution": (images.Small, IMAGES), "two convolutions": (Strided, IMAGES),
    "mixer": (tokens.Mixer, NUMBERED), "gate of tokens": (tokens.Spatial, modules.letters()),
    "triangle": (tokens.Triangle, modules.letters()),
    "loop": (tokens.Recurrent, modules.letters()), "decay": (tokens.Decaying, modules.letters()),
    "lstm": (tokens.Memory, modules.letters()),
    "ranges": (build_of(tokens.Buckets), modules.letters()),
    "distances": (build_of(tokens.Window), modules.letters()),
    "pairs and slopes": (build_of(tokens.Dense), modules.letters()),
    "heads": (lambda N: tokens.Heads(N, tokens.JOINS["cat"]), modules.numbers()),
    "encoder and decoder": (Translated, NUMBERED)}


@pytest.mark.parametrize("name", FAMILIES)
def test_modules_approach_the_limit(name):
    build, example, *rate = FAMILIES[name]
    mine = dmft.torch.import_module(from_zero(build), example, (16, 32))
    approach(mine, "sgd", SMALL, rate=rate[0] if rate else None)


def test_attention_among_some_of_the_tokens_says_how_to_write_it():
    words = refusal(lambda N: Translated(N, True), NUMBERED)
    assert "2 tokens attend to 3" in words and "constant mask" in words and ".py:" in words
