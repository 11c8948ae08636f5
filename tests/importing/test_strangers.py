"""Modules as strangers write them: parts of an input, pooling by attention, encoders with decoders,
and rows that are copied back; and what is refused of them, in a sentence with its line."""
import copy
import re
import threading

import dmft
import dmft.torch
import modules
import numpy as np
import pytest
import torch
from attentions import tables
from dmft.torch.importing.record import doubles
from test_import import ROUND_OFF, refusal
from test_training import OPTIMIZERS, compared
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
LETTERS, NUMBERS, T = modules.LETTERS, modules.NUMBERS, modules.PLACES
ROWS = torch.randn(24, T, NUMBERS, generator=torch.Generator().manual_seed(4))


class Modulated(nn.Module):
    """A part of the input scales and shifts what is made of the rest (FiLM), which is standardised
    by constants; a router reads the input itself."""

    def __init__(self, N):
        super().__init__()
        self.read, self.by = nn.Linear(NUMBERS - 2, N), nn.Linear(2, 2 * N)
        self.router, self.two = nn.Linear(NUMBERS, 2), nn.ModuleList(
            nn.Linear(N, N, bias=False) for _ in range(2))
        self.head = nn.Linear(N, 1)
        self.register_buffer("mean", 0.1 * torch.arange(NUMBERS - 2).double())
        self.register_buffer("deviation", 1 + torch.arange(NUMBERS - 2).double())

    def forward(self, x):
        scale, shift = self.by(x[:, :2]).chunk(2, -1)
        h = torch.tanh(self.read((x[:, 2:] - self.mean) / self.deviation) * (1 + scale) + shift)
        gates = self.router(x).softmax(-1)
        return self.head(sum(gates[:, k:k + 1] * one(h) for k, one in enumerate(self.two)))[:, 0]


class Pooled(nn.Module):
    """Attention of one trained query to all tokens, by hand and as PyTorch has it."""

    def __init__(self, N):
        super().__init__()
        self.read, self.head = nn.Linear(NUMBERS, N), nn.Linear(N, 1)
        self.query = nn.Parameter(torch.randn(N) / N ** 0.5)
        self.seed, self.attention = nn.Parameter(torch.randn(1, 1, N)), nn.MultiheadAttention(
            N, 2, batch_first=True)

    def forward(self, x):
        h = torch.tanh(self.read(x))
        weights = (h @ self.query).softmax(1)
        pooled = torch.einsum("bt,btn->bn", weights, h)
        return self.head(pooled + self.attention(self.seed.expand(len(x), -1, -1), h, h)[0][:, 0]
                         )[:, 0]


class Slots(nn.Module):
    """Experts for means of tokens with trained weights (soft mixtures)."""

    def __init__(self, N):
        super().__init__()
        self.read, self.head = nn.Linear(NUMBERS, N), nn.Linear(N, 1)
        self.phi = nn.Parameter(torch.randn(N, 2) / N ** 0.5)
        self.experts = nn.ModuleList(modules.Gated(N, N) for _ in range(2))

    def forward(self, x):
        h = torch.tanh(self.read(x))
        logits = h @ self.phi
        slots = torch.einsum("bte,btn->ben", logits.softmax(1), h)
        y = torch.stack([one(slots[:, e]) for e, one in enumerate(self.experts)], 1)
        return self.head(h + torch.einsum("bte,ben->btn", logits.softmax(-1), y)).mean(1)[:, 0]


class Translator(nn.Module):
    """An encoder and a decoder of PyTorch."""

    def __init__(self, N):
        super().__init__()
        more = {"dropout": 0.1, "batch_first": True, "norm_first": True}
        self.wte, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS)
        self.encoder = nn.TransformerEncoderLayer(N, 2, 2 * N, **more)
        self.decoder = nn.TransformerDecoderLayer(N, 2, 2 * N, **more)

    def forward(self, t):
        x = self.wte(t)
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        return self.head(self.decoder(x, self.encoder(x), tgt_mask=mask))


class Copied(nn.Module):
    """Rows of the expert that is chosen are copied back by their places, and queries and keys are
    turned as complex numbers."""

    def __init__(self, N):
        super().__init__()
        self.wte, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS)
        self.qkv, self.router = nn.Linear(N, 3 * N, bias=False), nn.Linear(N, 2)
        self.experts = nn.ModuleList(modules.Gated(N, N) for _ in range(2))

    def turned(self, x):
        angles = torch.polar(*(one[:, :x.shape[-1] // 2] for one in self.angles(x.shape[-1])))
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * angles).flatten(-2).type_as(x)

    def angles(self, d):
        cos, sin = tables(d)
        return torch.ones_like(cos), torch.atan2(sin, cos)

    def forward(self, t):
        x = self.wte(t)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        h = x.flatten(0, 1)
        g, i = self.router(h).softmax(-1).max(-1)
        out = torch.zeros_like(h)
        for e, expert in enumerate(self.experts):
            at = torch.nonzero(i == e).squeeze(-1)
            out = out.index_copy(0, at, expert(h[at]) * g[at, None])
        return self.head(x + out.view_as(x))


class Constants(nn.Module):
    """What is no parameter and goes into a product: attributes, buffers, literals, numpy, masks;
    and what `data` holds back."""
    kept = [torch.tensor(2.0)]

    def __init__(self, N):
        super().__init__()
        self.wte, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS)
        self.q, self.by = nn.Linear(N, N), torch.linspace(0.5, 1, T)
        self.register_buffer("mask", torch.tril(torch.ones(T, T)), persistent=False)
        self.cache = {}

    def forward(self, t):
        x = torch.tanh(self.wte(t))
        if "places" not in self.cache:
            steps = torch.ones(T)
            steps[1:] *= self.by[1:]
            self.cache["places"] = torch.from_numpy(np.arange(T) / steps.numpy())
        moved = torch.zeros_like(x)
        moved[:, 1:] += self.q(x)[:, :-1] * torch.tensor([0.5, 1, 2, 3])[:T - 1, None]
        mask = torch.zeros(T)
        mask[1:].fill_(3.0)
        x = x + moved * (self.kept[0] + self.cache["places"][:, None]) + mask[:, None] * x.data
        return self.head(x + self.mask / T @ x * self.q.bias.data * torch.arange(T)[:, None])


MODULES = {one.__name__: one for one in (Modulated, Pooled, Slots, Translator, Copied, Constants)}
EXAMPLES = {"Modulated": modules.numbers(), "Pooled": ROWS, "Slots": ROWS}


@pytest.mark.parametrize("name", MODULES)
def test_outputs_and_gradients_are_those_of_the_module(name):
    mine = dmft.torch.import_module(MODULES[name], EXAMPLES.get(name, modules.letters(40)),
                                    (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("name", ["Modulated", "Pooled", "Slots"])
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_his_loop_and_ours_are_one(name, kind):
    compared((MODULES[name], lambda: EXAMPLES[name], {}), OPTIMIZERS[kind])


class Stream(nn.Module):
    """A language model whose middle is a function of it and of its rows."""

    def __init__(self, N, middle):
        super().__init__()
        self.wte, self.head, self.middle = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS), middle
        self.q, self.k = nn.Linear(N, N), nn.Linear(N, N)
        self.lstm, self.two = nn.LSTM(N, N, batch_first=True), nn.Bilinear(N, N, N)
        self.by = nn.Parameter(torch.zeros(1))
        self.normed = nn.utils.parametrizations.spectral_norm(nn.Linear(N, N))

    def forward(self, t):
        x = self.wte(t)
        return self.head(x + self.middle(self, torch.tanh(x)))


def outer(m, x):
    """A running sum of outer products."""
    y = torch.einsum("btn,btm->btnm", m.k(x), x).cumsum(1)
    return torch.einsum("btn,btnm->btm", m.q(x), y)


def logits(m, x):
    """Of each two tokens."""
    return m.q(x) @ m.k(x).mT / x.shape[-1]


def capped(m, x):
    """An expert that has the first 20 rows that choose it."""
    x = x.flatten(0, 1)
    rows = (m.head(x).argmax(-1) == 1).nonzero()[:, 0][:20]
    return x.index_add(0, rows, m.k(x[rows])).view(-1, T, x.shape[-1])


REFUSED = {
    "outer": (outer, "an outer product of rows.* write it as scores"),
    "keys_and_values": (lambda m, x: m.q(x) @ (m.k(x).mT @ x), "as linear attention has it"),
    "spectral_norm": (lambda m, x: m.normed(x), "as a spectral norm has it"),
    "cumprod": (lambda m, x: torch.sigmoid(m.q(x)).cumprod(1) * x, "running sums"),
    "transform": (lambda m, x: torch.fft.rfft(m.q(x), dim=1).real.mean(1, True) * x,
                  "no transforms"),
    "same_for_all_tokens": (lambda m, x: x + torch.randn(len(x), 1, x.shape[-1]),
                            "that all tokens share.*torch.randn_like"),
    "packed": (lambda m, x: m.lstm(nn.utils.rnn.pack_padded_sequence(
        x, torch.full((len(x),), T), batch_first=True))[0].data.view_as(x),
               "the padded sequence itself"),
    "circular": (lambda m, x: F.pad(x.mT, (1, 1), mode="circular").mT[:, 1:-1],
                 'padding_mode="zeros"'),
    "reflected": (lambda m, x: F.pad(x.mT, (1, 1), mode="reflect").mT[:, 1:-1],
                  'padding_mode="zeros"'),
    "padded": (lambda m, x: F.pad(x, (0, 0, 1, 0), value=1.0)[:, 1:], "give value=0"),
    "bilinear": (lambda m, x: m.two(x, x), r"self.one\(x\) \* self.two\(x\)"),
    "largest": (lambda m, x: F.max_pool1d(x.mT, 2, 2, ceil_mode=True).mT.mean(1, True),
                "ceil_mode; leave it out"),
    "constants": (lambda m, x: x * (x @ torch.ones(x.shape[-1], 3)).sum(-1, True),
                  "requires_grad=False"),
    "smallest": (lambda m, x: x * m.head(x).topk(2, -1, largest=False).values.sum(-1, True),
                 "smallest numbers are chosen; let each row choose by topk"),
    "of_inputs": (lambda m, x: x + x.amax((0, 1), True), "the largest along input and token"),
    "turned": (lambda m, x: F.avg_pool2d(x[:, None], 1)[:, 0], "turn none of them"),
    "numpy": (lambda m, x: x * torch.from_numpy(np.tanh(x.detach().numpy())),
              r"numpy: numbers of a tensor .* leave PyTorch"),
    "apply_": (lambda m, x: x * x.detach().clone().apply_(abs), "apply_: .* operations of torch"),
    "pickled": (lambda m, x: x * copy.deepcopy(x.detach()), "__deepcopy__: "),
    "number": (lambda m, x: m.q(x) / float(x.square().mean()),
               "a tensor where it is computed from data"),
    "capacity": (capped, "up to a capacity"),
    "hard": (lambda m, x: x * (m.q(x) > 0),
             "choose by topk"),
    "table": (lambda m, x: x + (torch.arange(T)[:, None] * 1e-10 ** torch.arange(
        x.shape[-1])).sin(), "let a table that is added be trained"),
    "breaks": (lambda m, x: m.q(x.mT), "run on the example, ends with RuntimeError"),
    "sink": (lambda m, x: torch.cat([logits(m, x), m.by.expand(len(x), T, 1)], -1).softmax(
        -1)[..., :-1] @ x, "gpt-oss.* leave the sink out"),
    "softmax1": (lambda m, x: logits(m, x).exp() / (1 + logits(m, x).exp().sum(-1, True)) @ x,
                 "softmax1.* take softmax"),
    "sum_of_matrices": (lambda m, x: x @ (m.q.weight + 0.5 * m.k.weight),
                        "computed from parameters")}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_named_with_its_line(name):
    middle, words = REFUSED[name]
    sentence = refusal(lambda N: Stream(N, middle), modules.letters())
    assert re.search(words, sentence) and "test_strangers.py:" in sentence, sentence


class Moving(Stream):
    """Every call moves a bias that chooses, by the sign of the loads."""

    def __init__(self, N):
        super().__init__(N, self.chosen)
        self.router = nn.Linear(N, modules.LETTERS, bias=False)
        self.register_buffer("offset", torch.linspace(-1e-3, 1e-3, modules.LETTERS))

    @staticmethod
    def chosen(m, x):
        scores = m.router(x).sigmoid()
        which = (scores + m.offset).topk(2, -1).indices
        with torch.no_grad():
            load = F.one_hot(which, modules.LETTERS).sum((0, 1, 2)).double()
            m.offset.add_(0.1 * torch.sign(load.mean() - load))
        return x * scores.gather(-1, which).sum(-1, True)


def test_a_buffer_is_what_it_was_before_a_call_moves_it():
    sentence = refusal(Moving, modules.letters())
    assert "in a second call" in sentence and "behind a step" in sentence, sentence


def test_an_example_of_one_row_is_named():
    assert "has one row" in refusal(modules.Transformer, modules.letters(1))


def test_a_module_of_torch_jit_is_refused():
    assert "gives a module of torch.jit" in refusal(
        lambda N: torch.jit.script(nn.Linear(NUMBERS, N)))


@pytest.mark.parametrize("lr, eps, said", [
    (float("nan"), 1e-8, "lr is nan"), ("1", 1e-8, "lr is '1'"), (0.1, -1.0, "eps is -1.0")])
def test_rates_that_are_no_numbers_are_refused(lr, eps, said):
    build, example, more = modules.MODULES["without_biases"]
    mine = dmft.torch.import_module(build, example(), (16, 32), **more)
    with pytest.raises(dmft.InputError, match=said + ", and a number of at least 0 is wanted"):
        mine.groups("adam", lr, build(32), eps)


def test_imports_of_two_threads_leave_the_default_type():
    """The other one would begin within this one, and end behind it, if it did not wait."""
    outside, begun, over = torch.get_default_dtype(), threading.Event(), threading.Event()

    def other():
        with doubles():
            begun.set()
            over.wait()

    thread = threading.Thread(target=other)
    with doubles():
        thread.start()
        begun.wait(0.5)
    over.set()
    thread.join()
    assert torch.get_default_dtype() == outside
