"""dmft.torch.coordinate_check on what modules do in practice: experts that are called on the tokens
that chose them, dropout, outputs that are tuples, attention, several optimizers.
Run by make torch-test."""
import copy
import dataclasses
import random
from collections import namedtuple

import numpy as np
import pytest
import torch

import dmft
import dmft.torch
from dmft.torch.token_rows import TokenRows

X = torch.randn(48, 10, generator=torch.Generator().manual_seed(0))
y = torch.tanh(X[:, 0] * X[:, 1]) + X[:, 2]


def linear(n, m, std):
    layer = torch.nn.Linear(m, n, bias=False)
    torch.nn.init.normal_(layer.weight, std=std)
    return layer


class Mixture(torch.nn.Module):
    """Two of four experts of each token; `dispatch` hands them over as implementations do."""

    def __init__(self, N, dispatch="where", E=4, K=2):
        super().__init__()
        self.dispatch, self.K = dispatch, K
        self.read, self.gate = linear(N, 10, 0.3), linear(E, N, 1 / N)
        self.head = linear(1, N, 1 / N)
        self.experts = torch.nn.ModuleList(linear(N, N, N ** -0.5) for _ in range(E))
        self.again = linear(N, N, N ** -0.5)

    def forward(self, given):
        x = torch.tanh(self.read(given))
        shares, chosen = self.gate(x).softmax(-1).topk(self.K, -1)
        x = x + getattr(self, self.dispatch)(x, shares, chosen)
        return self.head(torch.tanh(self.again(x)))[:, 0]

    def where(self, x, shares, chosen):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, place = torch.where(chosen == e)
            if len(token):
                out.index_add_(0, token, shares[token, place, None] * expert(x[token]))
        return out

    def masks(self, x, shares, chosen):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            mask = (chosen == e).any(-1)
            share = (shares * (chosen == e)).sum(-1)
            out[mask] += share[mask, None] * expert(x[mask])
        return out

    def sorted(self, x, shares, chosen):
        order = chosen.flatten().argsort(stable=True)
        taken = x.repeat_interleave(self.K, 0)[order]
        counts = torch.bincount(chosen.flatten(), minlength=len(self.experts)).tolist()
        given = torch.cat([expert(part) for expert, part in
                           zip(self.experts, taken.split(counts))])
        back = given[order.argsort()].view(len(x), self.K, -1)
        return (back * shares[..., None]).sum(1)

    def slots(self, x, shares, chosen):
        """A mask [token, expert, slot], as with a capacity; here there is one for every token."""
        hot = torch.nn.functional.one_hot(chosen, len(self.experts)).sum(1)
        place = torch.nn.functional.one_hot((hot.cumsum(0) - 1) * hot, len(x))
        mask = (place * hot[..., None]).to(x.dtype)
        taken = torch.einsum("tes,tn->esn", mask, x)
        given = torch.stack([expert(part) for expert, part in zip(self.experts, taken)])
        share = (shares[..., None] * torch.nn.functional.one_hot(chosen, len(self.experts))).sum(1)
        return torch.einsum("tes,esn->tn", mask * share[..., None], given)

    def buffer(self, x, shares, chosen):
        """Tokens are written at once into places of their experts, many of which stay empty."""
        E, P = len(self.experts), len(x)
        hot = torch.nn.functional.one_hot(chosen, E).sum(1)
        place = chosen * P + (hot.cumsum(0) - 1).gather(-1, chosen)
        buffer = x.new_zeros(E * P, x.shape[-1])
        buffer[place.flatten()] = x.repeat_interleave(self.K, 0)
        given = torch.cat([expert(one) for expert, one in zip(self.experts, buffer.view(E, P, -1))])
        return (given[place] * shares[..., None]).sum(1)

    def parts(self, x, shares, chosen):
        """The same, expert by expert."""
        buffer, out = x.new_zeros(len(self.experts), *x.shape), torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, place = torch.where(chosen == e)
            buffer[e, :len(token)] = x[token]
        for e, expert in enumerate(self.experts):
            token, place = torch.where(chosen == e)
            out[token] += shares[token, place, None] * expert(buffer[e])[:len(token)]
        return out


def sgd(model, rate=0.05):
    return torch.optim.SGD(model.parameters(), rate * model.head.in_features)


def by_definition(N, steps=3, seed=0):
    """{(module, part): rms}: prop of every expert on the tokens that it has at both times, of the
    layer behind, of the head; init and eff of experts on all that they have at the start and at the
    end."""
    torch.manual_seed(seed)
    model = Mixture(N)
    start, made, times = copy.deepcopy(model), sgd(model), []
    for _ in range(steps):
        made.zero_grad()
        (0.5 * (model(X) - y).square().mean()).backward()
        made.step()
    with torch.no_grad():
        for one in (start, model):
            x = torch.tanh(one.read(X))
            shares, chosen = one.gate(x).softmax(-1).topk(2, -1)
            whole = x + one.where(x, shares, chosen)
            times.append((x, chosen, whole, torch.tanh(one.again(whole))))
        (x0, chosen0, whole0, top0), (x, chosen, whole, top) = times
        found = {("again", "prop"): start.again(whole - whole0),
                 ("head", "prop"): start.head(top - top0)}
        for e, expert in enumerate(start.experts):
            before, after = (chosen0 == e).any(-1), (chosen == e).any(-1)
            found |= {(f"experts.{e}", "prop"): expert(x - x0)[before & after],
                      (f"experts.{e}", "init"): expert(x0)[before],
                      (f"experts.{e}", "eff"): model.experts[e](x)[after] - expert(x)[after]}
    moved = sum((a != b).any().item() for a, b in zip(chosen0.sort(-1)[0], chosen.sort(-1)[0]))
    return {name: a.double().square().mean().sqrt().item() for name, a in found.items()}, moved


def test_tokens_that_experts_choose_are_followed():
    """Along the axis of tokens topk and sort choose rows, along the last one they do not."""
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    for made, rows in ((lambda: x.topk(2, dim=0), x.topk(2, dim=0)[1]),
                       (lambda: torch.topk(x, 2, 0), x.topk(2, dim=0)[1]),
                       (lambda: x.sort(0), x.sort(0)[1]), (lambda: x.topk(2), None),
                       (lambda: x.sort(dim=-1, stable=True), None)):
        followed = TokenRows()
        followed.begin(x)
        with torch.no_grad(), followed:
            found = followed.of(made()[0])
        assert found is None if rows is None else torch.equal(found, rows)


@pytest.mark.parametrize("dispatch", ["where", "masks", "sorted", "slots", "buffer", "parts"])
def test_experts_are_compared_on_the_same_tokens(dispatch):
    """Whatever the order is in which they get them. Some tokens choose other experts at the end."""
    for N in (16, 64):
        truth, moved = by_definition(N)
        assert moved > 0
        found = dmft.torch.coordinate_check(lambda N: Mixture(N, dispatch), [N], (X, y), seeds=1,
                                            optimizers={"sgd": sgd})
        assert not found.left_out
        for (name, part), value in truth.items():
            # sums of other order, in single precision, after three steps
            assert found.rms["sgd"][name][part][0] == pytest.approx(value, rel=2e-4), (name, part)


def test_an_expert_without_tokens_is_named():
    class Few(Mixture):
        def __init__(self, N):
            super().__init__(N)
            self.gate = torch.nn.Linear(N, 4)
            torch.nn.init.zeros_(self.gate.weight)
            self.gate.bias.data[:] = torch.tensor([3.0, 2, 1, -9])
            self.gate.requires_grad_(False)
    found = dmft.torch.coordinate_check(Few, [8, 16], (X, y), optimizers={"sgd": sgd})
    assert set(found.left_out["sgd"]) == {"experts.2", "experts.3"}
    assert "experts.2, eff: it is never called, or with no tokens, at width 8 16" in str(found)
    assert "experts.2" not in found.rms["sgd"] and "experts.3" not in found.rms["sgd"]


def test_modules_that_are_not_there_at_every_width_are_one_with_their_like():
    found = dmft.torch.coordinate_check(lambda N: Mixture(N, E=N // 4, K=1), [8, 16], (X, y),
                                        optimizers={"sgd": sgd})
    each = [dmft.torch.coordinate_check(lambda N: Mixture(N, E=N // 4, K=1), [N], (X, y),
                                        optimizers={"sgd": sgd}).rms["sgd"] for N in (8, 16)]
    assert not any("experts.0" in rows for rows in (found.rms["sgd"], found.left_out))
    for part in ("init", "prop", "eff"):
        for k, alone in enumerate(each):
            squares = [alone[name][part][0] ** 2 for name in alone if name.startswith("experts")]
            assert len(squares) == 2 * (k + 1)
            assert found.rms["sgd"]["experts.*"][part][k] == pytest.approx(
                np.mean(squares) ** 0.5, rel=1e-6), part


def test_what_is_there_at_one_width_alone_is_named():
    def build(N):
        model = Mixture(N)
        if N == 16:
            model.register_parameter("more", torch.nn.Parameter(torch.ones(3)))
            model.other = torch.nn.Linear(3, 3)
        return model
    found = dmft.torch.coordinate_check(build, [8, 16], (X, y), optimizers={"sgd": sgd})
    assert found.left_out["sgd"]["other"] == "it is not there at width 8"


class Stream(torch.nn.Module):
    """L blocks on a stream, each times a factor."""

    def __init__(self, L, factor):
        super().__init__()
        self.read, self.head = linear(64, 10, 0.3), linear(1, 64, 1 / 64)
        self.blocks = torch.nn.ModuleList(linear(64, 64, 64 ** -0.5) for _ in range(L))
        self.factor = factor

    def forward(self, given):
        x = self.read(given)
        for block in self.blocks:
            x = x + self.factor * torch.tanh(block(x))
        return self.head(x)[:, 0]


def test_the_number_of_blocks_may_grow():
    """With 1/L in front of each block the output changes as much at every depth, without it more
    in deeper ones; the words have the name of what grows."""
    power = {}
    for name, factor in (("plain", lambda L: 1.0), ("scaled", lambda L: 1 / L)):
        found = dmft.torch.coordinate_check(
            lambda L: Stream(L, factor(L)), [2, 4, 8, 16], (X, y), seeds=4, size="L",
            optimizers={"adam": lambda model: torch.optim.Adam(model.parameters(), 1e-3)})
        assert set(found.rms["adam"]) == {"read", "head", "blocks.*", "output"}
        assert not found.left_out and "over L = 2 4 8 16" in str(found) and "L^" in str(found)
        power[name] = found.exponent("adam", "output", "eff")
    assert abs(power["scaled"]) < 0.15 and power["plain"] > 0.4, power


def test_the_number_of_experts_may_grow():
    """A sum of gates that are no shares grows as their number, and one of shares does not."""
    class Gated(Mixture):
        def __init__(self, E, times):
            super().__init__(32, E=E, K=E)
            self.times = times

        def forward(self, given):
            x = torch.tanh(self.read(given))
            outs = sum(expert(x) * gate for expert, gate in zip(
                self.experts, self.gate(x).sigmoid().T[..., None]))
            return self.head(outs * self.times)[:, 0]
    power = {}
    for name, times in (("sum", lambda E: 1.0), ("mean", lambda E: 1 / E)):
        found = dmft.torch.coordinate_check(
            lambda E: Gated(E, times(E)), [4, 8, 16, 32], (X, y), seeds=4, size="E",
            optimizers={"adam": lambda model: torch.optim.Adam(model.parameters(), 1e-3)})
        power[name] = found.exponent("adam", "output", "eff")
    assert power["sum"] > 0.6 and power["mean"] < 0.1, power


def test_an_expert_that_has_other_tokens_in_the_end_is_left_out():
    """The gate is moved by hand, so that expert 0 hands all its tokens to expert 3."""
    class Moved(Mixture):
        def __init__(self, N):
            super().__init__(N, K=1)
            self.count = 0

        def forward(self, given):
            x = torch.tanh(self.read(given))
            half = torch.arange(len(x)) < len(x) // 2
            chosen = (half == (self.count < 1)).long()[:, None] * 3
            self.count += 1
            return self.head(x + self.where(x, torch.ones(len(x), 1), chosen + 0 * (
                x[:, :1] > 9)))[:, 0]
    found = dmft.torch.coordinate_check(Moved, [8], (X, y), steps=1, seeds=1,
                                        optimizers={"sgd": sgd})
    assert {name for name, why in found.left_out["sgd"].items() if why.startswith("prop")} == \
        {"experts.0", "experts.3"}
    assert "are others, or cannot be told, at width 8" in str(found)
    assert "prop" not in found.rms["sgd"]["experts.0"] and "eff" in found.rms["sgd"]["experts.0"]


def test_randomness_is_no_learning():
    """Dropout of torch.nn and in attention, jitter, layers that are left out by numbers of numpy or
    of Python, a generator of the module's own: nothing moves at a rate of 0."""
    class Noisy(Mixture):
        def __init__(self, N):
            super().__init__(N)
            self.own = torch.Generator().manual_seed(3)

        def forward(self, given):
            x = torch.tanh(self.read(given)) * torch.empty(len(given), 1).uniform_(0.9, 1.1)
            x = x * random.random() * np.random.rand()
            x = x + self.again(x) * torch.rand(x.shape, generator=self.own)
            x = torch.nn.functional.dropout(self.again(x), 0.2)
            if hasattr(torch.nn.functional, "scaled_dot_product_attention"):  # since 2.0
                x = x + torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.2)
            return self.head(x)[:, 0]
    found = dmft.torch.coordinate_check(Noisy, [8, 32], (X, y), optimizers={
        "still": lambda model: torch.optim.SGD(model.parameters(), 0.0)})
    for name, parts in found.rms["still"].items():
        assert all(np.all(parts[part] == 0) for part in ("prop", "eff") if part in parts), name
        assert np.all(parts["init"] > 0)


def test_buffers_are_as_they_were():
    """A pass that only looks does not move statistics of batches."""
    class Normed(Mixture):
        def __init__(self, N):
            super().__init__(N)
            self.norm = torch.nn.BatchNorm1d(N)

        def forward(self, given):
            return self.head(self.norm(self.read(given)))[:, 0]
    seen = []

    def build(N):
        seen.append(Normed(N))
        return seen[-1]
    dmft.torch.coordinate_check(build, [8], (X, y), steps=1, seeds=1, optimizers={"sgd": sgd})
    assert seen[0].norm.num_batches_tracked == 1  # that of the step


class Attention(torch.nn.Module):
    """Logits are q k N^-power. `written`: by hand, or torch's own."""

    def __init__(self, N, power, written=True):
        super().__init__()
        self.power, self.written = power, written
        self.read, self.head = linear(N, 8, 8 ** -0.5), linear(1, N, 1 / N)
        self.q, self.k, self.v = (linear(N, N, N ** -0.5) for _ in range(3))

    def forward(self, X):
        h = self.read(X)
        q, k, v, scale = self.q(h), self.k(h), self.v(h), h.shape[-1] ** -self.power
        if self.written:
            ahead = torch.ones(X.shape[1], X.shape[1]).triu(1) > 0
            shares = (q @ k.mT * scale).masked_fill(ahead, -torch.inf).softmax(-1)
            mixed = shares @ v
        else:
            mixed = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=scale)
        return self.head((h + mixed).mean(1))[:, 0]


def adam(model):
    """muP's rates."""
    N = model.head.in_features
    return torch.optim.Adam([
        {"params": model.read.parameters(), "lr": 0.02},
        {"params": [V for layer in (model.q, model.k, model.v, model.head)
                    for V in layer.parameters()], "lr": 0.32 / N}], eps=1e-12)


def test_attention_has_rows():
    """The scale N^-1/2 makes the change of the logits grow with the width, and N^-1 does not; no
    module gives them."""
    X = torch.randn(16, 5, 8, generator=torch.Generator().manual_seed(0))
    y = X[:, 0, 0] * X[:, -1, 1] + X[:, 2, 3]
    powers = {}
    for power in (0.5, 1):
        by_way = [dmft.torch.coordinate_check(
            lambda N, w=written: Attention(N, power, w), [32, 128, 512], (X, y), steps=1,
            optimizers={"adam": adam}) for written in ((True, False) if hasattr(
                torch.Tensor, "mT") and torch.__version__ >= "2.1" else (True,))]
        for found in by_way:
            rms = found.rms["adam"]
            for name in ("(itself): logits", "(itself): attention"):
                for part in ("init", "eff"):
                    np.testing.assert_allclose(rms[name][part],
                                               by_way[0].rms["adam"][name][part], rtol=1e-2)
        powers[power] = by_way[0].exponent("adam", "(itself): logits", "eff")
    assert powers[0.5] > 0.25 > abs(powers[1]), powers


@dataclasses.dataclass
class Found:
    """What a model gives, as an object."""
    loss: torch.Tensor
    logits: torch.Tensor


Named = namedtuple("Named", "loss logits")
WAYS = {"tuple": lambda loss, f: (f, None), "list": lambda loss, f: [None, f],
        "dict": lambda loss, f: {"loss": loss, "logits": f}, "object": Found, "named": Named,
        "loss_first": lambda loss, f: (loss, (f, None)),
        "other_name": lambda loss, f: {"loss": loss, "pred": f}}


@pytest.mark.parametrize("way", WAYS)
def test_the_output_is_found_in_what_a_module_gives(way):
    """A loss in front of it, a single number, is not the output."""
    class Given(Mixture):
        def forward(self, given):
            f = super().forward(given)
            return WAYS[way](f.square().mean(), f)
    found, plain = (dmft.torch.coordinate_check(build, [8], data, steps=1, seeds=1)
                    for build, data in ((Given, (X.numpy(), y.numpy())), (Mixture, (X, y))))
    assert found.rms["adam"]["output"] == plain.rms["adam"]["output"]


@pytest.mark.parametrize("given", [tuple, dict, list])
def test_what_modules_give(given):
    """The loss gets what the module gives."""
    class Gpt(torch.nn.Module):
        def __init__(self, N):
            super().__init__()
            self.emb, self.head = torch.nn.Embedding(16, N), linear(16, N, 1 / N)

        def forward(self, tokens, scale=None):
            logits = self.head(self.emb(tokens))
            return {tuple: (logits, None), list: [None, logits],
                    dict: {"loss": logits.sum(), "logits": logits}}[given]
    tokens = torch.randint(0, 16, (4, 8), generator=torch.Generator().manual_seed(0))
    pick = {tuple: lambda out: out[0], list: lambda out: out[1], dict: lambda out: out["logits"]}

    def loss(out, y):
        return torch.nn.functional.cross_entropy(pick[given](out).flatten(0, 1), y.flatten())
    for X in (tokens, (tokens,), {"tokens": tokens}):
        found = dmft.torch.coordinate_check(Gpt, [16, 32], (X, tokens), loss=loss)
        assert set(found.rms["adam"]) == {"emb", "head", "output"}
        rms = found.rms["adam"]
        assert rms["output"]["init"] == pytest.approx(rms["head"]["init"])


def test_several_optimizers():
    """Two that share the parameters move as one of all of them."""
    def two(model):
        return [torch.optim.SGD(model.read.parameters(), 0.1),
                torch.optim.SGD([V for name, V in model.named_parameters()
                                 if name != "read.weight"], 0.1)]
    one, both = (dmft.torch.coordinate_check(Mixture, [16], (X, y), optimizers={"sgd": made})
                 for made in (lambda model: torch.optim.SGD(model.parameters(), 0.1), two))
    for name, parts in one.rms["sgd"].items():
        for part, value in parts.items():
            assert np.array_equal(value, both.rms["sgd"][name][part])


def test_refusals():
    with pytest.raises(dmft.InputError, match=r"gives \[48\] and y is \[48, 10\]; give loss="):
        dmft.torch.coordinate_check(Mixture, [8], (X, X))
    with pytest.raises(dmft.InputError, match="must be a pair .* is a DataLoader; of a loader"):
        dmft.torch.coordinate_check(Mixture, [8], torch.utils.data.DataLoader([1]))
    with pytest.raises(dmft.InputError, match="gives a int; it must give an optimizer"):
        dmft.torch.coordinate_check(Mixture, [8], (X, y), optimizers={"a": lambda model: 3})
    with pytest.raises(dmft.InputError, match="function of the module .* ends with TypeError"):
        dmft.torch.coordinate_check(Mixture, [8], (X, y), optimizers={"a": torch.optim.Adam})

    class Nothing(torch.nn.Module):
        def __init__(self, N):
            super().__init__()
            self.read = linear(N, 10, 1)

        def forward(self, X):
            return {"loss": None}
    with pytest.raises(dmft.InputError, match="without a tensor of floats"):
        dmft.torch.coordinate_check(Nothing, [8], (X, y))
