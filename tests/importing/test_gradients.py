"""What changes gradients and no outputs: hooks, functions with a backward of their own, gradients
of rows alone; and optimizers with hooks. Each is read as it trains, or refused in a sentence."""
import dmft
import dmft.torch
import modules
import pytest
import torch
from test_import import ROUND_OFF, refusal
from test_training import OTHER, compared
from torch import nn
from torch.nn import functional as F

LETTERS = modules.LETTERS


class Gelu(torch.autograd.Function):
    """As Bloom has it, with the context as the first argument; factor: of the gradient."""
    factor = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable()
        return x * torch.sigmoid(1.7 * x)

    @classmethod
    def backward(cls, ctx, g):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(1.7 * x)
        return cls.factor * g * (s + 1.7 * x * s * (1 - s))


class Later(Gelu):
    """The newer form, in which forward has no context."""

    @staticmethod
    def forward(x):
        return x * torch.sigmoid(1.7 * x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)


class Halved(Gelu):
    """Its backward is another than that of its forward."""
    factor = 0.5


class Three(nn.Module):
    """Three layers with a function between the last two."""

    def __init__(self, N, function=torch.tanh):
        super().__init__()
        self.first, self.second = nn.Linear(modules.NUMBERS, N), nn.Linear(N, N)
        self.last, self.function = nn.Linear(N, 1, bias=False), function

    def forward(self, x):
        return self.last(self.function(self.second(torch.tanh(self.first(x)))))[:, 0]


@pytest.mark.parametrize("function", [Gelu, Later])
def test_a_function_with_its_own_backward_is_read(function):
    compared((lambda N: Three(N, lambda h: function.apply(h)), modules.numbers, {}),
             lambda m: torch.optim.AdamW(m.parameters(), 1e-2, eps=1e-6), OTHER)


def test_a_function_whose_backward_is_another_is_refused():
    sentence = refusal(lambda N: Three(N, lambda h: Halved.apply(h)))
    assert "a torch.autograd.Function (" in sentence and "test_gradients.py:" in sentence, sentence


@pytest.mark.parametrize("function", [Gelu, Later])
def test_a_function_that_is_kept_by_its_apply_is_named(function):
    assert "call Gelu.apply(x) where it is used" in refusal(lambda N: Three(N, function.apply))


def with_hook(kind, act):
    """Three layers, of the second one with a hook."""
    def build(N):
        module = Three(N)
        if kind == "module":
            module.second.register_full_backward_hook(act)
        else:
            getattr(module.second.weight, f"register_{kind}")(act)
        return module
    return build


def test_a_hook_that_looks_changes_nothing():
    mine = dmft.torch.import_module(with_hook("module", lambda *_: None), modules.numbers(),
                                    (16, 32))
    assert mine.difference < ROUND_OFF


@pytest.mark.parametrize("kind, act, words", [
    ("module", lambda module, mine, _: tuple(0.5 * one for one in mine), "the gradient of first"),
    ("hook", lambda one: 3 * one, "second.weight has a hook of its gradient"),
    ("post_accumulate_grad_hook", lambda one: one.grad.mul_(3), "second.weight has a hook")])
def test_a_hook_that_changes_gradients_is_refused(kind, act, words):
    assert words in refusal(with_hook(kind, act))


class Looked(nn.Module):
    """A table with gradients of the rows that were looked up."""

    def __init__(self, N):
        super().__init__()
        self.wte, self.head = nn.Embedding(LETTERS, N, sparse=True), nn.Linear(N, LETTERS)

    def forward(self, t):
        return self.head(torch.tanh(self.wte(t)))


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_gradients_of_rows_alone_are_gradients():
    compared((Looked, modules.letters, {}), lambda m: torch.optim.SGD(m.parameters(), 0.05))


class Lazy(nn.Module):
    """Its layers have no shape before it is called."""

    def __init__(self, N, example=None):
        super().__init__()
        self.first, self.last = nn.LazyLinear(N), nn.LazyLinear(1, bias=False)
        if example is not None:
            self(example)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))[:, 0]


def test_a_lazy_module_is_called_in_build():
    assert "first.weight has no shape yet" in refusal(Lazy)
    mine = dmft.torch.import_module(lambda N: Lazy(N, modules.numbers()), modules.numbers(),
                                    (16, 32))
    assert mine.difference < ROUND_OFF


def test_adam_that_decays_as_adamw():
    compared((Three, modules.numbers, {}), lambda m: torch.optim.Adam(
        m.parameters(), 1e-2, eps=1e-6, weight_decay=0.1, decoupled_weight_decay=True), OTHER)


@pytest.mark.parametrize("word", ["pre", "post"])
def test_an_optimizer_with_a_hook_is_refused(word):
    mine = dmft.torch.import_module(Three, modules.numbers(), (16, 32))

    def clipped(module):
        made = torch.optim.AdamW(module.parameters(), 1e-2)
        getattr(made, f"register_step_{word}_hook")(
            lambda *_: nn.utils.clip_grad_norm_(module.parameters(), 0.1))
        return made
    with pytest.raises(dmft.InputError, match="AdamW has a hook around its step"):
        mine.as_trained(clipped)


class BySequence(nn.Module):
    """A balancing loss of each sequence, and a z-loss of each token, in one number."""

    def __init__(self, N):
        super().__init__()
        self.wte, self.head = nn.Embedding(LETTERS, N), nn.Linear(N, LETTERS, bias=False)
        self.router, self.two = nn.Linear(N, 3, bias=False), nn.ModuleList(
            nn.Linear(N, N, bias=False) for _ in range(3))

    def forward(self, t):
        x = self.wte(t)
        logits = self.router(x)
        p = logits.softmax(-1)
        chosen = F.one_hot(p.topk(2, -1).indices, 3).double().sum(2)
        loss = (chosen.mean(1) * p.mean(1)).sum(-1).mean() + logits.logsumexp(-1).square().mean()
        return self.head(x + sum(p[..., k:k + 1] * torch.tanh(one(x))
                                 for k, one in enumerate(self.two))), 0.1 * loss


def test_terms_of_sequences_and_of_tokens_may_be_one_number():
    mine = dmft.torch.import_module(BySequence, modules.letters(40), (16, 32))
    assert mine.difference < ROUND_OFF and mine.differences["terms of the loss"] < ROUND_OFF
