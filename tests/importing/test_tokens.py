"""Tokens that are mixed by trained numbers, one after the other, or have biases of their distance;
rows of padding; and outputs that several heads make."""
import dmft
import dmft.torch
import modules
import pytest
import torch
from attentions import Attention, build_of, later
from test_import import ROUND_OFF, refusal
from test_training import OPTIMIZERS, OTHER, WIDTH, compared
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
LETTERS, NUMBERS, T = modules.LETTERS, modules.NUMBERS, modules.PLACES
DISTANCE = torch.arange(T) - torch.arange(T)[:, None]


class Stream(nn.Module):
    """A language model; a subclass says what is done to its tokens."""

    def __init__(self, N):
        super().__init__()
        self.wte, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS)
        self.one, self.two = nn.Linear(N, N), nn.Linear(N, N, bias=False)
        self.setup(N)

    def setup(self, N):
        """What a subclass has beside them."""

    def forward(self, t):
        return self.head(self.middle(self.wte(t)))


class Spatial(Stream):
    """A gate that mixes tokens (gMLP)."""

    def setup(self, N):
        self.mix, self.norm = nn.Linear(T, T), nn.LayerNorm(N)

    def middle(self, x):
        return x + self.two(torch.tanh(self.one(x)) * self.mix(self.norm(x).mT).mT)


class Triangle(Stream):
    """Trained weights of tokens before, and their softmax."""

    def setup(self, N):
        self.w, self.a = (nn.Parameter(torch.randn(T, T) * 0.3) for _ in range(2))

    def middle(self, x):
        x = x + torch.einsum("ts,bsn->btn", self.w.tril(), torch.tanh(self.one(x)))
        return x + self.a.masked_fill(later(T), -torch.inf).softmax(-1) @ self.two(x)


class Recurrent(Stream):
    """A gated recurrent network, written as a loop."""

    def middle(self, x):
        h, found = torch.zeros_like(x[:, 0]), []
        for t in range(T):
            f = torch.sigmoid(self.one(x[:, t]))
            h = f * h + (1 - f) * torch.tanh(x[:, t] + self.two(h))
            found.append(h)
        return torch.stack(found, 1)


class Decaying(Stream):
    """A running mean with a trained decay of each unit."""

    def setup(self, N):
        self.a = nn.Parameter(torch.zeros(N))

    def middle(self, x):
        a, h, found = torch.sigmoid(self.a), torch.zeros_like(x[:, 0]), []
        for t in range(T):
            h = a * h + (1 - a) * x[:, t]
            found.append(h)
        return x + torch.tanh(self.one(torch.stack(found, 1)))


class Memory(Stream):
    """As PyTorch has it."""

    def setup(self, N):
        self.lstm = nn.LSTM(N, N, batch_first=True)

    def middle(self, x):
        return self.lstm(x)[0]


class Padded(Stream):
    """Rows of padding have no gradient, and it is left out of the mean of all tokens."""

    def setup(self, N):
        self.wte = nn.Embedding(LETTERS, N, padding_idx=2)

    def forward(self, t):
        x, seen = torch.tanh(self.one(self.wte(t))), (t != 2).unsqueeze(-1).double()
        pooled = (x * seen).sum(1) / seen.sum(1).clamp(min=1)
        return self.head(x + self.two(pooled)[:, None])


class Shifted(Stream):
    """A share of the token before, which is zeros for the first (RWKV)."""

    def setup(self, N):
        self.share = nn.Parameter(torch.rand(N))

    def middle(self, x):
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        return x + self.two(torch.relu(self.one(x * self.share + before * (1 - self.share))))


class Joined(Stream):
    """Numbers of each token beside those of all of them, in one softmax."""

    def setup(self, N):
        self.own, self.all, self.up = nn.Linear(N, 2), nn.Linear(N, 2), nn.Linear(4, N)

    def middle(self, x):
        pooled = self.all(x.mean(1))[:, None].expand(-1, T, -1)
        return x + self.up(torch.cat([self.own(x), pooled], -1).softmax(-1))


class Mixer(nn.Module):
    """Of numbers: MLPs over tokens and over channels in turn (MLP-Mixer), and a table of places."""

    def __init__(self, N):
        super().__init__()
        self.first, self.head = nn.Linear(NUMBERS, N), nn.Linear(N, 1)
        self.place = nn.Parameter(0.1 * torch.randn(T, N))
        self.tokens = nn.Sequential(nn.Linear(T, 7), nn.GELU(), nn.Linear(7, T))
        self.channels = nn.Sequential(nn.LayerNorm(N), nn.Linear(N, 2 * N), nn.GELU(),
                                      nn.Linear(2 * N, N))

    def forward(self, x):
        x = self.first(x) + self.place
        x = x + self.tokens(x.mT).mT
        return self.head((x + self.channels(x)).mean(1))[:, 0]


NUMBERED = torch.randn(24, T, NUMBERS, generator=torch.Generator().manual_seed(1))
MODULES = {one.__name__: one for one in (Spatial, Triangle, Recurrent, Decaying, Memory, Padded,
                                         Shifted, Joined, Mixer)}


def example_of(build):
    """Letters, or rows of numbers."""
    return NUMBERED if build is Mixer else modules.letters()


@pytest.mark.parametrize("name", MODULES)
def test_outputs_and_gradients_are_those_of_the_module(name):
    mine = dmft.torch.import_module(MODULES[name], example_of(MODULES[name]), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("name", ["Spatial", "Recurrent", "Padded", "Shifted", "Joined",
                                  "Mixer"])
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_his_loop_and_ours_are_one(name, kind):
    compared((MODULES[name], lambda: example_of(MODULES[name]), {}), OPTIMIZERS[kind],
             OTHER if kind == "adamw" and name != "Mixer" else WIDTH)


def test_many_trained_numbers_are_refused():
    class Long(Stream):
        def setup(self, N):
            self.mix = nn.Linear(40, 40)

        def middle(self, x):
            return self.mix(x.mT).mT
    x = torch.randint(LETTERS, (8, 40))
    assert "1600 trained numbers" in refusal(Long, x)


# --- biases of the distance -------------------------------------------------------------------

class Buckets(Attention):
    """T5: a number for each head and for a range of distances."""

    def setup(self, N):
        self.table = nn.Embedding(8, self.H)

    def logits(self, a):
        bucket = (-DISTANCE).clamp(0, 7)
        bucket = torch.where(bucket < 3, bucket, 3 + bucket // 4)
        return a + self.table(bucket).permute(2, 0, 1)[None]


class Window(Attention):
    """Swin: a table of all distances, by a buffer of places."""

    def setup(self, N):
        self.table = nn.Parameter(0.02 * torch.randn(2 * T - 1, self.H))
        self.register_buffer("place", DISTANCE + T - 1)

    def logits(self, a):
        return a + self.table[self.place.view(-1)].view(T, T, -1).permute(2, 0, 1).contiguous()


class Dense(Attention):
    """A number for each two tokens, and slopes of the distance."""

    def setup(self, N):
        self.bias = nn.Parameter(0.1 * torch.randn(self.H, T, T))
        self.slope = nn.Parameter(torch.tensor([0.5, 0.25]))

    def logits(self, a):
        return a + self.bias + self.slope[:, None, None] * DISTANCE


@pytest.mark.parametrize("attention", [Buckets, Window, Dense], ids=lambda one: one.__name__)
def test_trained_biases_of_the_distance(attention):
    mine = dmft.torch.import_module(build_of(attention), modules.letters(), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_trained_biases_train_as_their_owner_does(kind):
    compared((build_of(Buckets), modules.letters, {}), OPTIMIZERS[kind])


# --- several heads ----------------------------------------------------------------------------

class Heads(nn.Module):
    """Outputs of two heads, one of which has a layer of its own."""

    def __init__(self, N, join):
        super().__init__()
        self.first, self.second = nn.Linear(NUMBERS, N), nn.Linear(N, N)
        self.policy, self.value = nn.Linear(N, 3), nn.Linear(N, 1)
        self.join = join

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.join(self.policy(F.relu(self.second(h))), self.value(h))


JOINS = {"cat": lambda p, v: torch.cat([p, v], -1), "turned": lambda p, v: torch.cat([v, p], -1),
         "duel": lambda p, v: v + p - p.mean(-1, keepdim=True)}


@pytest.mark.parametrize("name", JOINS)
def test_several_heads(name):
    def build(N):
        return Heads(N, JOINS[name])
    assert dmft.torch.import_module(build, modules.numbers(), (16, 32)).difference < ROUND_OFF


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_several_heads_train_as_their_owner_does(kind):
    compared((lambda N: Heads(N, JOINS["turned"]), modules.numbers, {}), OPTIMIZERS[kind])


@pytest.mark.parametrize("read, said", [(LETTERS + 3, LETTERS), (LETTERS, LETTERS + 3)])
def test_a_head_of_other_tokens_than_are_read_is_refused(read, said):
    def build(N):
        return nn.Sequential(nn.Embedding(read, N), nn.Linear(N, said))
    with pytest.raises(dmft.InputError, match=f"has {said} numbers .* {read} kinds of tokens"):
        dmft.torch.import_module(build, modules.letters(), (16, 32))
