"""Tokens that are taken, moved, joined and summed up to; layers of which several are read out; and
functions of rows that are made of others. Each is the module, with all of its gradients."""
import dmft
import dmft.torch
import modules
import pytest
import torch
from test_import import ROUND_OFF, refusal
from test_limit import approach
from test_training import OPTIMIZERS, compared
from torch import nn
from torch.nn import functional as F

PLACES = modules.PLACES
pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


class Stream(nn.Module):
    """A hidden layer of tokens, and what `middle` makes of it in a second one."""

    def __init__(self, N, middle, letters=False, pooled=True):
        super().__init__()
        self.first = nn.Embedding(modules.LETTERS, N) if letters else nn.Linear(modules.NUMBERS, N)
        self.second = nn.Linear(N, N)
        self.slope, self.share = nn.Parameter(torch.tensor(0.2)), nn.Parameter(torch.tensor(0.7))
        self.last = nn.Linear(N, modules.LETTERS if letters else 1)
        self.middle, self.pooled = middle, pooled

    def forward(self, x):
        h = torch.tanh(self.first(x))
        h = self.middle(self, h, torch.tanh(self.second(h)))
        return self.last(h.mean(1) if self.pooled else h).squeeze(-1)


def shifted(y):
    """Each token sees the one before, by writing in place."""
    before = torch.zeros_like(y)
    before[:, 1:] = y[:, :-1]
    return before


# {name: (function of the model, its hidden layer and the second one, whether tokens are pooled)}
MIDDLES = {
    "last": (lambda m, h, y: (h + y)[:, -1:], True),
    "first_two": (lambda m, h, y: h[:, :2] * y[:, :2], True),
    "every_other": (lambda m, h, y: h[:, ::2] + y[:, ::2], True),
    "padded": (lambda m, h, y: h + F.pad(y, (0, 0, 1, -1)), False),
    "written": (lambda m, h, y: h + shifted(y), False),
    "rolled": (lambda m, h, y: h + torch.roll(y, 2, 1), False),
    "turned": (lambda m, h, y: h + y.flip(1), False),
    "in_order": (lambda m, h, y: h + y[:, [3, 1, 4, 0, 2]], False),
    "joined": (lambda m, h, y: torch.cat([y[:, 2:], h[:, :2]], 1), False),
    "so_far": (lambda m, h, y: h + y.cumsum(1) / torch.arange(1, PLACES + 1)[:, None], False),
    "pooled": (lambda m, h, y: h + F.avg_pool1d(y.mT, 3, 1, 1).mT, False),
    "pooled_within": (lambda m, h, y: h + F.avg_pool1d(y.mT, 3, 1, 1, count_include_pad=False).mT,
                      False),
    "windows": (lambda m, h, y: F.avg_pool1d((h + y).mT, 2, 2).mT, True),
    "prelu": (lambda m, h, y: F.prelu(y, m.slope), False),
    "lerp": (lambda m, h, y: torch.lerp(h, y, m.share), False),
    "addcmul": (lambda m, h, y: torch.addcmul(h, h, y, value=0.5), False),
}
EXAMPLE = torch.randn(16, PLACES, modules.NUMBERS, generator=torch.Generator().manual_seed(3))


def builds(name, letters):
    """build of a middle; what is not pooled by itself is pooled of inputs that are numbers."""
    middle, pooled = MIDDLES[name]
    return lambda N: Stream(N, middle, letters, pooled or not letters)


@pytest.mark.parametrize("name", MIDDLES)
def test_of_numbers(name):
    mine = dmft.torch.import_module(builds(name, False), EXAMPLE, (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("name", [name for name, (_, pooled) in MIDDLES.items() if not pooled])
def test_of_letters(name):
    mine = dmft.torch.import_module(builds(name, True), modules.letters(), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("name, kind", [("written", "adam"), ("so_far", "sgd"), ("prelu", "adamw")])
def test_his_loop_and_ours_are_one(name, kind):
    compared((builds(name, True), modules.letters, {}), OPTIMIZERS[kind])


class Both(nn.Module):
    """A read-out of two layers at once."""

    def __init__(self, N):
        super().__init__()
        self.first, self.second = (nn.Linear(n, N, bias=False) for n in (modules.NUMBERS, N))
        self.last = nn.Linear(2 * N, 1, bias=False)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(torch.cat([h, torch.tanh(self.second(h))], -1)).squeeze(-1)


class Groups(nn.Module):
    """Norms of groups of units."""

    def __init__(self, N):
        super().__init__()
        self.first, self.last = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 3)
        self.norm = nn.GroupNorm(4, N)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


class Logits(nn.Module):
    """Of each token, of which the mean is the output: of two layers."""

    def __init__(self, N):
        super().__init__()
        self.first, self.second = nn.Linear(modules.NUMBERS, N), nn.Linear(N, N)
        self.last, self.skip = nn.Linear(N, 3), nn.Linear(N, 3)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return (self.last(torch.tanh(self.second(h))) + 0.5 * self.skip(h)).mean(1)


class Gated(nn.Module):
    """A gated linear unit as PyTorch has it."""

    def __init__(self, N):
        super().__init__()
        self.first, self.last = nn.Linear(modules.NUMBERS, 2 * N), nn.Linear(N, 1)

    def forward(self, x):
        return self.last(F.glu(self.first(x), -1)).squeeze(-1)


class Convolution(nn.Module):
    """Two along the tokens: one of all channels, and a causal one of each channel by itself."""

    def __init__(self, N):
        super().__init__()
        self.first = nn.Conv1d(modules.NUMBERS, N, 3, padding=1, bias=False)
        self.second = nn.Conv1d(N, N, 3, padding=2, groups=N)
        self.third, self.last = nn.Conv1d(N, N, 2, stride=2, dilation=2), nn.Linear(N, 1)

    def forward(self, x):
        h = torch.tanh(self.first(x.mT))
        h = h + torch.tanh(self.second(h)[..., :PLACES])
        return self.last(torch.tanh(self.third(h)).mT.mean(1)).squeeze(-1)


@pytest.mark.parametrize("build", [Both, Groups, Logits, Gated, Convolution],
                         ids=lambda one: one.__name__)
def test_of_several_layers_and_parts(build):
    example = EXAMPLE if build in (Logits, Convolution) else modules.numbers()
    mine = dmft.torch.import_module(build, example, (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


def test_a_read_out_of_two_layers_trains_as_its_owner_does():
    compared((Both, modules.numbers, {}), OPTIMIZERS["adam"])


def test_a_read_out_of_two_layers_approaches_its_limit():
    approach(dmft.torch.import_module(Both, modules.numbers(), (16, 32)), "sgd")


def from_zero(N):
    """The last token, with a bias of the output that starts at 0, as what is subtracted does."""
    module = builds("last", False)(N)
    nn.init.zeros_(module.last.bias)
    return module


def test_a_token_that_is_taken_approaches_its_limit():
    approach(dmft.torch.import_module(from_zero, EXAMPLE, (16, 32)), "sgd")


class Grouped(nn.Module):
    """A convolution in which channels act on each other in groups."""

    def __init__(self, N):
        super().__init__()
        self.first, self.second = nn.Linear(modules.NUMBERS, N), nn.Conv1d(N, N, 3, groups=4)
        self.last = nn.Linear(N, 1)

    def forward(self, x):
        return self.last(self.second(self.first(x).mT).mean(-1))


class Normed(nn.Module):
    """Norms that are no function of one input, or of rows."""

    def __init__(self, N, norm):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(modules.NUMBERS, N), norm(N), nn.Linear(N, 1)

    def forward(self, x):
        return self.last(torch.relu(self.second(self.first(x))))


def of_batch(N):
    return Normed(N, nn.BatchNorm1d)


def of_weights(N):
    return Normed(N, lambda n: nn.utils.parametrizations.weight_norm(nn.Linear(n, n)))


def part_of_tokens(N):
    """Logits of every other token."""
    return Stream(N, lambda m, h, y: (h + y)[:, ::2], True, False)


def one_of_tokens(N):
    """Logits of the last token alone."""
    return Stream(N, lambda m, h, y: (h + y)[:, -1:], True, True)


@pytest.mark.parametrize("build, example, words", [
    (Grouped, EXAMPLE, "channels act on each other in groups"),
    (of_batch, modules.numbers(), "inputs of a batch act on one another"),
    (of_weights, modules.numbers(), "a matrix is computed from parameters"),
    (part_of_tokens, modules.letters(), "rows of 3 of the 5 tokens"),
    (one_of_tokens, modules.letters(), "such data have a target for each token")],
    ids=lambda one: getattr(one, "__name__", ""))
def test_what_is_not_read_is_said(build, example, words):
    assert words in refusal(build, example)


class Causal(nn.Module):
    """A convolution along tokens with zeros in front of them, of a layer or of each channel."""

    def __init__(self, N, apart):
        super().__init__()
        self.first = nn.Linear(modules.NUMBERS, N)
        self.conv = nn.Conv1d(N, N, 3, groups=N if apart else 1, dilation=2)
        self.last = nn.Linear(N, 1, bias=False)

    def forward(self, x):
        h = torch.tanh(self.first(x)).mT
        h = h + torch.tanh(self.conv(F.pad(h, (4, 0))))
        return self.last(h[:, :, -1])[:, 0]


@pytest.mark.parametrize("apart", [False, True])
def test_zeros_may_stand_before_a_convolution(apart):
    compared((lambda N: Causal(N, apart), lambda: torch.randn(
        24, 5, modules.NUMBERS, generator=torch.Generator().manual_seed(3)), {}),
        OPTIMIZERS["adam"])


def test_places_of_numbers_are_read():
    """Also with as many places as numbers."""
    class Placed(nn.Module):
        def __init__(self, N):
            super().__init__()
            self.first, self.last = nn.Linear(4, N), nn.Linear(N, 1)
            self.place = nn.Parameter(torch.randn(4, N))

        def forward(self, x):
            return self.last(torch.tanh(self.first(x) + self.place).mean(1))[:, 0]
    mine = dmft.torch.import_module(Placed, torch.randn(24, 4, 4), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences
