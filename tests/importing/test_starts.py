"""What a module starts with is what its network starts with, or a sentence says what is not."""
import dmft
import dmft.torch
import modules
import pytest
import torch
from test_import import ROUND_OFF, refusal
from test_training import OPTIMIZERS, compared
from torch import nn

WIDTH = 48                              # not traced


def descent(module):
    """An optimizer."""
    return torch.optim.SGD(module.parameters(), 0.1)


class Scaled(nn.Module):
    """A residual layer, times what `start` gives for the width."""

    def __init__(self, N, start, change=lambda W: None):
        super().__init__()
        self.first = nn.Linear(modules.NUMBERS, N, bias=False)
        self.second, self.third = nn.Linear(N, N, bias=False), nn.Linear(N, N, bias=False)
        self.last, self.scale = nn.Linear(N, 1, bias=False), nn.Parameter(start(N))
        with torch.no_grad():
            change(self)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        h = h + self.scale * torch.tanh(self.second(h))
        return self.last(torch.tanh(self.third(h)))[:, 0]


def stored(build, as_trained=True):
    """(a module, the same with weights of the network at its start)."""
    mine = dmft.torch.import_module(build, modules.numbers(), (16, 32))
    network = mine.as_trained(descent) if as_trained else mine.network
    made, module = build(WIDTH).double(), build(WIDTH).double()
    mine.store(dmft.torch.Network(mine.settings, N=WIDTH, network=network), made)
    return module, made


@pytest.mark.parametrize("as_trained", [True, False])
@pytest.mark.parametrize("start", [
    lambda N: N ** -0.5 * torch.ones(N).double(), lambda N: -3 / N * torch.ones(N).double(),
    lambda N: torch.tensor(N ** -0.5, dtype=torch.float64), lambda N: 0.25 * torch.ones(N)])
def test_one_number_that_goes_with_the_width_starts_so(start, as_trained):
    module, made = stored(lambda N: Scaled(N, start), as_trained)
    assert torch.allclose(made.scale, module.scale, rtol=1e-12, atol=0)


def test_numbers_that_are_drawn_are_named():
    with pytest.warns(dmft.NoteWarning, match="scale: build draws single numbers.*N = 16"):
        dmft.torch.import_module(lambda N: Scaled(N, lambda N: torch.randn(())),
                                 modules.numbers(), (16, 32))


@pytest.mark.parametrize("change, words", [
    (lambda s: nn.init.eye_(s.second.weight), "second.weight are 0 in part"),
    (lambda s: s.second.weight.fill_(0.1), "second.weight have a mean that is not 0"),
    (lambda s: s.scale.add_(0.1 * torch.randn(s.scale.shape)), "scale have a mean that is not 0"),
    (lambda s: nn.init.orthogonal_(s.second.weight),
     "second.weight depend on one another, since its rows or columns are orthogonal, at the start"),
    (lambda s: nn.init.orthogonal_(s.first.weight, gain=2), "first.weight depend on one another"),
    (lambda s: s.second.weight[0].mul_(6), "second.weight have other standard deviations from exp"),
    (lambda s: s.third.weight.copy_(s.second.weight), "third.weight are those of second.weight")])
def test_a_start_that_is_not_drawn_is_said(change, words):
    mine = dmft.torch.import_module(lambda N: Scaled(N, lambda N: torch.ones(N), change),
                                    modules.numbers(), (16, 32))
    with pytest.warns(dmft.NoteWarning, match=words):
        mine.as_trained(descent)


@pytest.mark.filterwarnings("error")
def test_an_ordinary_start_has_no_note():
    stored(lambda N: Scaled(N, lambda N: torch.ones(N), lambda s: s.third.weight.zero_()))


def test_what_is_frozen_stays():
    def build(N):
        module = Scaled(N, lambda N: torch.ones(N))
        module.second.requires_grad_(False)
        return module
    mine = dmft.torch.import_module(build, modules.numbers(), (16, 32))
    run = dmft.solve(mine.settings, network=mine.network, progress=False, **{
        "training.steps": 3, "training.weight_decay": 0.1, "reference.widths": 16,
        "reference.seeds": 1, "solver.replicates": 0, "output.weights": "both"})
    moved = {name: (run.weights(name, 16, t=2) != run.weights(name, 16)).values.any()
             for name in ("second", "third")}
    assert moved == {"second": False, "third": True}


def test_a_parameter_of_two_optimizers_is_refused():
    mine = dmft.torch.import_module(lambda N: Scaled(N, lambda N: torch.ones(N)),
                                    modules.numbers(), (16, 32))
    with pytest.raises(dmft.InputError, match="second.weight is in 2 of the optimizers"):
        mine.as_trained(lambda m: [descent(m), torch.optim.SGD([m.second.weight], 0.1)])


class Twice(nn.Module):
    """One layer under two names, and a parameter that is one of the module, too."""

    def __init__(self, N):
        super().__init__()
        self.first, self.one = nn.Linear(modules.NUMBERS, N), nn.Linear(N, N)
        self.other, self.alias, self.last = self.one, self.first.weight, nn.Linear(N, 1)

    def forward(self, x):
        h = torch.tanh(x @ self.alias.T)
        h = h + torch.tanh(self.one(h))
        return self.last(h + torch.tanh(self.other(h)))[:, 0]


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_a_module_keeps_its_parameters_when_it_is_read():
    kept, made = [], []

    def build(N):
        made.append(Twice(N))
        kept.append([made[-1].one.weight, made[-1].first.weight])
        return made[-1]
    dmft.torch.import_module(build, modules.numbers(), (16, 32))
    assert all(module.one.weight is one and module.alias is other
               for module, (one, other) in zip(made, kept))


class Silent(nn.Module):
    """A head, or the end of a branch, starts at 0, so that nothing beneath it shows at first."""

    def __init__(self, N, middle, head):
        super().__init__()
        self.first, self.inner = nn.Linear(modules.NUMBERS, N), nn.Linear(N, N)
        self.other, self.end = nn.Linear(N, N), nn.Linear(N, N)
        self.head, self.middle = nn.Linear(N, 1, bias=False), middle
        nn.init.zeros_((self.head if head else self.end).weight)
        nn.init.zeros_(self.end.bias)

    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.head(h + self.end(torch.tanh(self.middle(self, x, h))))[:, 0]


def tripled(s, x, h):
    """Of which the gradient is three times that of the layer."""
    y = s.inner(h)
    if y.requires_grad:
        y.register_hook(lambda g: 3 * g)
    return y


@pytest.mark.parametrize("head", [True, False])
@pytest.mark.parametrize("middle, words", [
    (tripled, "the gradient of"),
    (lambda s, x, h: s.inner(h) if x.mean() > 0 else s.other(h), "output")])
def test_what_starts_at_zero_hides_nothing(middle, words, head):
    x = modules.numbers().abs()
    assert words in refusal(lambda N: Silent(N, middle, head), x)


@pytest.mark.filterwarnings("ignore:no output depends")
def test_a_head_that_starts_at_zero_is_imported():
    mine = dmft.torch.import_module(
        lambda N: Silent(N, lambda s, x, h: s.inner(h) + h.detach(), True), modules.numbers(),
        (16, 32))
    assert mine.difference < ROUND_OFF


class Buffered(nn.Module):
    """A layer with a constant in a buffer, as the bias that balances experts is."""

    def __init__(self, N):
        super().__init__()
        self.first, self.last = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.register_buffer("shift", torch.tensor(0.3))

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)) + self.shift)[:, 0]


def test_a_module_with_another_buffer_is_not_loaded():
    mine = dmft.torch.import_module(Buffered, modules.numbers(), (16, 32))
    module, x = Buffered(WIDTH), modules.numbers().double()
    net = mine.load(module)             # 0.3 in single precision
    assert (net(x) - module.double()(x)).abs().max() < 1e-6
    module.shift += 0.1
    with pytest.raises(dmft.InputError, match="the buffer shift of this module is not what build"):
        mine.load(module)


class Standardized(nn.Module):
    """Inputs less their means, over their deviations, which are drawn."""

    def __init__(self, N, seed=None):
        super().__init__()
        draws = seed if seed is None else torch.Generator().manual_seed(seed)
        self.register_buffer("mu", torch.randn(modules.NUMBERS, generator=draws))
        self.register_buffer("sd", torch.rand(modules.NUMBERS, generator=draws) + 0.5)
        self.up, self.down = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)

    def forward(self, x):
        return self.down(torch.tanh(self.up((x - self.mu) / self.sd)))[:, 0]


def test_buffers_must_be_the_same_at_all_widths():
    assert "what build draws, such as a buffer of random numbers, must be the same at all widths" \
        in refusal(Standardized)
    mine = dmft.torch.import_module(lambda N: Standardized(N, 1), modules.numbers(), (16, 32))
    assert mine.difference < ROUND_OFF


class Held(nn.Module):
    """A router whose gates are detached, or which is frozen; `packed`: gates of a half of a
    matrix."""

    def __init__(self, N, frozen=False, packed=False):
        super().__init__()
        self.first, self.router, self.second, self.last = (nn.Linear(m, n, bias=False) for m, n in (
            (modules.NUMBERS, N), (N, 2), (N, N), (N, 1)))
        self.router.requires_grad_(not frozen)
        self.packed = nn.Linear(N, 2 * N) if packed else None

    def forward(self, x):
        h = torch.tanh(self.first(x))
        gates = self.router(h).softmax(-1).detach()
        if self.packed:
            one, other = self.packed(h).chunk(2, -1)
            h = one * torch.sigmoid(other.detach())
        return self.last(h + gates[:, :1] * torch.tanh(self.second(h)))[:, 0]


def test_what_no_gradient_reaches_is_fixed():
    """AdamW leaves it as it is, too, and its rate is no matter."""
    with pytest.warns(dmft.NoteWarning, match=r"router.weight: .* it never moves, and is fixed"):
        compared((Held, modules.numbers, {}), OPTIMIZERS["adamw"], WIDTH)
    with pytest.warns(dmft.NoteWarning, match="a part of packed.weight, a part of packed.bias"):
        compared((lambda N: Held(N, packed=True), modules.numbers, {}), OPTIMIZERS["adamw"], WIDTH)
    for frozen in (False, True):
        found = dmft.torch.check(lambda N, f=frozen: Held(N, f), modules.numbers(), widths=(16, 64),
                                 optimizer=lambda m: torch.optim.Adam(m.parameters(), 0.1))
        (verdict,) = found["router.weight"].verdicts
        assert verdict.startswith("gives at the start"), str(found)     # of N^-1/2 in PyTorch
        assert "explode" in found["second.weight"].text
