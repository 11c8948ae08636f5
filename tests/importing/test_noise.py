"""Random numbers inside of modules: normals are the noise of the network, which is compared for the
normals that the module draws; all others become their means, with a note of their lines."""
import dmft
import dmft.torch
import modules
import numpy as np
import pytest
import torch
from idioms import OfLetters, Routed
from test_import import ROUND_OFF, refusal
from test_limit import approach
from test_training import OPTIMIZERS, STEPS, WIDTH, his_outputs
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


class Gate(Routed):
    """Gates as a function of the router's logits and of what the noise is scaled by."""

    def __init__(self, N, gates):
        self.gates = gates
        super().__init__(N)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value) if name == "gates" else \
            super().__setattr__(name, value)

    def setup(self, N):
        """A scale of the noise for each input and expert, and one for each expert."""
        self.scale = nn.Linear(N, self.count, bias=False)
        self.std = nn.Parameter(torch.full((self.count,), 0.3))

    def mix(self, x):
        used = (0.01 * self.scale(x) * self.std).sum(-1, keepdim=True)
        return self.weighted(x, self.gates(self, x, self.router(x)) + used)


def top_two(logits):
    """A softmax of the two largest."""
    best, chosen = logits.topk(2, -1)
    return torch.zeros_like(logits).scatter(1, chosen, best.softmax(-1))


def shazeer(m, x, s):
    """Noisy top-K gating, as Shazeer et al. have it."""
    return top_two(s + torch.randn_like(s) * (F.softplus(m.scale(x)) + 0.01))


NORMALS = {
    "shazeer": shazeer,
    "of_shape": lambda m, x, s: top_two(s + torch.randn(s.shape) / m.count),
    "in_place": lambda m, x, s: (s + torch.empty_like(s).normal_(0.1, 0.2)).softmax(-1),
    "normal": lambda m, x, s: (s + torch.normal(torch.zeros_like(s), 0.3)).softmax(-1),
    "sample": lambda m, x, s: (s + torch.distributions.Normal(0.0, 0.2).sample(
        s.shape)).softmax(-1),
    "moments": lambda m, x, s: (s + torch.normal(s, torch.sigmoid(m.scale(x)))).softmax(-1),
    "rsample": lambda m, x, s: torch.distributions.Normal(s, F.softplus(m.scale(x))).rsample(
        ).softmax(-1),
    "trained": lambda m, x, s: (s + m.std * torch.randn_like(s)).softmax(-1),
    "rows": lambda m, x, s: m.router(x + 0.1 * torch.randn_like(x)).softmax(-1),
}
MEANS = {
    "jitter": lambda m, x, s: m.router(
        x * torch.empty_like(x).uniform_(0.99, 1.01)).softmax(-1),
    "lowest": lambda m, x, s: m.router(x * torch.empty_like(x).uniform_(0.5) / 0.75).softmax(-1),
    "rand": lambda m, x, s: m.router(x * (1 + 0.1 * (torch.rand_like(x) * 2 - 1))).softmax(-1),
    "uniform": lambda m, x, s: m.router(x * torch.distributions.Uniform(
        torch.tensor(0.9), torch.tensor(1.1)).rsample(x.shape)).softmax(-1),
    "gumbel": lambda m, x, s: F.gumbel_softmax(s, tau=0.5),
    "gumbel_by_hand": lambda m, x, s: (s - torch.log(-torch.log(torch.rand_like(s)))).softmax(-1),
    "dropout": lambda m, x, s: m.router(F.dropout(x, 0.1)).softmax(-1),
    "bernoulli": lambda m, x, s: s.softmax(-1) * torch.bernoulli(torch.full_like(s, 0.9)) / 0.9,
    "probability": lambda m, x, s: s.softmax(-1) * torch.bernoulli(torch.sigmoid(m.scale(x))),
    "path": lambda m, x, s: s.softmax(-1) * (0.9 + torch.rand(len(x), 1)).floor(),
}


def quiet(m, x, s):
    """What the means leave of all of them, but for the temperature of one and what multiplies
    another."""
    return s.softmax(-1)


def built(gates):
    """build of gates."""
    return lambda N: Gate(N, gates)


@pytest.mark.parametrize("name", NORMALS)
def test_normals_are_noise(name):
    mine = dmft.torch.import_module(built(NORMALS[name]), modules.numbers(96), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences
    assert "noise(" in mine.network.lua


class Tokens(OfLetters):
    """The same of tokens, which are one axis with the inputs."""

    def mix(self, x, t):
        s = self.router(x)
        return self.weighted(x, top_two(s + 0.3 * torch.randn_like(s)))


class Noised(nn.Module):
    """Normals in the layers themselves, in front and beside them, and in the input."""

    def __init__(self, N):
        super().__init__()
        self.one, self.two = (nn.Linear(n, N, bias=False) for n in (modules.NUMBERS, N))
        self.head = nn.Linear(N, 1, bias=False)

    def forward(self, x):
        h = torch.tanh(self.one(x))
        h = h * (1 + 0.2 * torch.randn_like(h))
        h = torch.tanh(self.two(h) + 0.2 * torch.randn(len(h), h.shape[1]))
        return self.head(h)[:, 0]


class OfInput(Noised):
    """Normals that are added to the input."""

    def forward(self, x):
        return self.head(torch.tanh(self.two(torch.tanh(
            self.one(x + 0.3 * torch.randn_like(x))))))[:, 0]


@pytest.mark.parametrize("build, example", [
    (Tokens, modules.letters(40)), (Noised, modules.numbers()), (OfInput, modules.numbers())],
    ids=["tokens", "rows", "input"])
def test_of_tokens_rows_and_inputs(build, example):
    mine = dmft.torch.import_module(build, example, (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences


def test_noise_in_layers_approaches_its_limit():
    approach(dmft.torch.import_module(Noised, modules.numbers(), (16, 32)), "adam",
             {48: 96, 96: 64, 192: 64})


@pytest.mark.parametrize("name", MEANS)
def test_others_become_their_means_with_a_note(name):
    with pytest.warns(dmft.NoteWarning, match="random numbers.*test_noise.py:"):
        mine = dmft.torch.import_module(built(MEANS[name]), modules.numbers(96), (16, 32))
    assert mine.difference < ROUND_OFF, mine.differences
    if name not in ("gumbel", "probability"):
        x, net = modules.numbers(96).double(), mine.load(built(quiet)(16).double())
        f = built(quiet)(16).double()
        mine.store(net, f)
        assert (net(x) - f(x)).abs().max() < ROUND_OFF * f(x).abs().max()


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_a_loop_without_jitter_is_ours(kind):
    mine = dmft.torch.import_module(built(MEANS["jitter"]), modules.numbers(96), (16, 32))
    run = dmft.solve(mine.settings, network=mine.as_trained(OPTIMIZERS[kind]), progress=False, **{
        "training.steps": STEPS, "reference.widths": WIDTH, "reference.seeds": 1,
        "solver.replicates": 0, "output.weights": "initial", "output.inputs": "all"})
    his = his_outputs(mine, built(quiet), run, OPTIMIZERS[kind])
    ours = run.reference[WIDTH]["f_runs"].values[0].reshape(his.shape)
    assert np.abs(his - ours).max() < 1e-12 * np.abs(his).max()


@pytest.mark.parametrize("gates, words", [
    (lambda m, x, s: (s + torch.randn(m.count)).softmax(-1), "no numbers of each input"),
    (lambda m, x, s: s.softmax(-1) * torch.poisson(torch.ones_like(s)), "random numbers"),
    (lambda m, x, s: F.one_hot(torch.multinomial(s.softmax(-1), 1)[:, 0], 4), "random numbers"),
], ids=["of_all_inputs", "poisson", "multinomial"])
def test_what_is_no_noise_is_named(gates, words):
    sentence = refusal(built(gates), modules.numbers(96))
    assert words in sentence and "test_noise.py:" in sentence, sentence


def test_normals_for_the_example_alone_are_named():
    sentence = refusal(built(lambda m, x, s: (s + torch.randn(96, 4)).softmax(-1)),
                       modules.numbers(96))
    assert "and, on inputs that it is compared on, [97, " in sentence, sentence


def test_what_cannot_be_trained_is_said():
    sentence = refusal(built(lambda m, x, s: s.softmax(-1) * torch.bernoulli(s, p=0.5)),
                       modules.numbers(96))
    assert "gradient of the module" in sentence and "aten::bernoulli" in sentence, sentence


class Dropped(modules.Residual):
    """Leaves out its last layer at times, and else divides it by how often it is there."""

    def forward(self, x):
        kept = torch.rand(1).item() < 0.8 if self.training else True
        return super().forward(x) / (0.8 if kept and self.training else 1)


@pytest.mark.parametrize("build, share", [
    (Dropped, 0.8), (lambda N: nn.Sequential(nn.Linear(modules.NUMBERS, N, bias=False),
                                             nn.AlphaDropout(0.3), nn.Linear(N, 2, bias=False)),
                     (0.7 / (1 + 0.3 * 1.7581 ** 2)) ** -0.5)], ids=["depth", "alpha"])
def test_random_numbers_that_do_not_keep_a_mean_are_not_called_nothing(build, share):
    """share: outputs after eval() over those with means; of alpha dropout that keeps q = 0.7 this
    is 1/(a q) with a^-2 = q (1 + (1 - q) 1.7581^2)."""
    with pytest.warns(dmft.NoteWarning, match=r"not those of the module after eval\(\): these "
                      f"differ by {abs(share - 1):.1e} of the largest"):
        assert dmft.torch.import_module(build, modules.numbers(), (16, 32)).difference < ROUND_OFF
