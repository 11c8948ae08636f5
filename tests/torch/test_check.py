"""dmft.torch.check on what training code does: several optimizers and all classes of them, packed
tensors, vectors, decay, and a forward pass that is another one than the network's.
Run by make torch-test."""
import pytest
import torch

import dmft
import dmft.torch
from dmft.torch.optimizer_laws import optimizer_laws


class Dense(torch.nn.Module):
    """f = w tanh(W2 tanh(W1 x)) at muP's scales, times `factor(N)`."""

    def __init__(self, N, factor=1.0):
        super().__init__()
        self.W1, self.W2 = (torch.nn.Linear(m, N, bias=False) for m in (10, N))
        self.w = torch.nn.Linear(N, 1, bias=False)
        for layer, std in ((self.W1, 1.0), (self.W2, N ** -0.5), (self.w, 1 / N)):
            torch.nn.init.normal_(layer.weight, std=std)
        self.factor = factor

    def forward(self, X):
        return self.factor * self.w(torch.tanh(self.W2(torch.tanh(self.W1(X)))))[:, 0]


NAMES = {"W1.weight": "W1", "W2.weight": "W2", "w.weight": "w"}
DENSE = {"network.model": "dense", "network.depth": 2}


def width(model):
    return model.w.in_features


def check(optimizer, names=None, build=Dense, ini=None, **more):
    return dmft.torch.check(build, names or NAMES, ini or DENSE, (64, 256), optimizer=optimizer,
                            **more)


def adamw(model, power=1.0, kind=torch.optim.AdamW, **more):
    """Rates of muP; decay times N^power where the rate falls as 1/N."""
    N = width(model)
    decay = {"weight_decay": 0.01 * N ** power}
    return kind([{"params": [model.W1.weight], "lr": 0.01, "eps": 1e-8 / N, "weight_decay": 0.01},
                 {"params": [model.W2.weight], "lr": 1 / N, "eps": 1e-8 / N} | decay,
                 {"params": [model.w.weight], "lr": 1 / N} | decay], **more)


def test_agreement_is_of_all_that_was_looked_at():
    """True: all tensors, same outputs. None: one is not named, or another forward pass."""
    assert check(adamw).agrees is True
    found = check(adamw, {"W1.weight": "W1", "W2.weight": "W2"})
    assert found.agrees is None and "not compared" in str(found.outputs)
    found = check(adamw, build=lambda N: Dense(N, 1e9))
    assert found.agrees is None and all(tensor.agrees for tensor in found.tensors)
    assert "they differ" in str(found) and "no tensor carries" in str(found)
    assert check(lambda model: torch.optim.AdamW(model.parameters(), 0.01)).agrees is False

    class Unused(Dense):
        def forward(self, X):
            return self.w(torch.tanh(self.W1(X)))[:, 0]
    assert check(adamw, build=Unused).agrees is None

    class NotFinite(Dense):  # at the larger width alone
        def forward(self, X):
            return super().forward(X) * (float("nan") if width(self) == 256 else 1)
    found = check(adamw, build=NotFinite)
    assert found.agrees is None and "they differ" in str(found.outputs)

    class Other(Dense):
        def forward(self, X):
            return super().forward(X[:, :3])
    found = check(adamw, build=Other)
    assert found.agrees is None and "the module ends with RuntimeError" in str(found.outputs)


def test_a_factor_that_is_declared_is_part_of_a_tensor():
    found = check(lambda model: torch.optim.Adam([
        {"params": [model.W1.weight], "lr": 0.01}, {"params": [model.W2.weight], "lr": 1 / width(
            model)}, {"params": [model.w.weight], "lr": 1}], eps=1e-15), NAMES | {
                "w.weight": ("w", lambda N: 1 / N)}, build=lambda N: _large_head(Dense(N, 1 / N)))
    assert found.agrees is True, found


def _large_head(model):
    torch.nn.init.normal_(model.w.weight)
    return model


@pytest.mark.parametrize("power, said", [(0, "falls as N^-1.00"), (1, None),
                                         (2, "grows as N^1.00")])
def test_decay_is_judged(power, said):
    remarks = check(lambda model: adamw(model, power))["W2.weight"].remarks
    assert remarks == ([] if said is None else [f"decay takes a share of it that {said}"])


def test_decay_that_adam_normalises_is_not_judged():
    found = check(lambda model: adamw(model, kind=torch.optim.Adam))
    assert any("no fixed share" in one for one in found["W2.weight"].unknown)
    assert found.agrees is None


OPTIM = torch.optim
CLASSES = {  # a rate of 0.1: how far an entry moves of gradients of rank one, as N^power; by entry
    "SGD": (lambda m: OPTIM.SGD(m.parameters(), 0.1, momentum=0.9, weight_decay=0.1), 0, False),
    "Adam": (lambda m: OPTIM.Adam(m.parameters(), 0.1), 0, True),
    "AdamW": (lambda m: OPTIM.AdamW(m.parameters(), 0.1), 0, True),
    "RMSprop": (lambda m: OPTIM.RMSprop(m.parameters(), 0.1), 0, True),
    "NAdam": (lambda m: OPTIM.NAdam(m.parameters(), 0.1), 0, True),
    "RAdam": (lambda m: OPTIM.RAdam(m.parameters(), 0.1), 0, True),
    "Adamax": (lambda m: OPTIM.Adamax(m.parameters(), 0.1), 0, True),
    "ASGD": (lambda m: OPTIM.ASGD(m.parameters(), 0.1), 0, False),
    "Adafactor": (lambda m: OPTIM.Adafactor(m.parameters(), 0.1), -0.5, True),
    "Muon": (lambda m: OPTIM.Muon([m.W2.weight], 0.1), -1, True),
    "Muon like AdamW": (lambda m: OPTIM.Muon([m.W2.weight], 0.1, adjust_lr_fn="match_rms_adamw"),
                        -0.5, True),
    "Lion": (lambda m: dmft.torch.Lion(m.parameters(), 0.1), 0, True),
    "Momentum": (lambda m: dmft.torch.Momentum(m.parameters(), 0.1), 0, False),
}


@pytest.mark.parametrize("name", CLASSES)
def test_laws_of_optimizers(name):
    """Each moves a matrix of std N^-1/2 by its rate, with the power of the width that its rule
    has."""
    made, power, by_entry = CLASSES[name]
    if not hasattr(OPTIM, name.split()[0]) and name not in ("Lion", "Momentum"):
        pytest.skip(f"this PyTorch has no {name}")
    torch.manual_seed(0)
    small, large = (optimizer_laws(Dense(N), made)["W2.weight"] for N in (64, 256))
    assert small.by_entry is by_entry and large.by_entry is by_entry
    assert large.rate / small.rate == pytest.approx(4.0 ** power, rel=0.02)  # of a sample's rms
    if name == "SGD":
        assert small.decay == pytest.approx(0.01) and small.rate == pytest.approx(0.1)


def test_a_schedule_does_not_matter():
    """A warmup has changed the rate that a group has now."""
    def made(model):
        optimizer = adamw(model)
        OPTIM.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
        return optimizer
    assert check(made).agrees is True


def test_several_optimizers():
    def two(model):
        N = width(model)
        return [OPTIM.SGD([model.W1.weight], N), OPTIM.Adam([model.W2.weight, model.w.weight],
                                                            1 / N, eps=1e-15)]
    assert check(two).agrees is True
    words = "params", "lr", "eps"  # decay in them is that of Adam, or by newer PyTorch of AdamW
    groups = check(lambda model: [{word: group[word] for word in words}
                                  for group in adamw(model).param_groups])
    assert groups.agrees is True


def test_an_optimizer_that_cannot_step_is_refused():
    with pytest.raises(dmft.InputError, match="how far LBFGS moves .*closure"):
        check(lambda model: OPTIM.LBFGS(model.parameters()))
    with pytest.raises(dmft.InputError, match="it must give an optimizer"):
        check(lambda model: model)


STACKED = """
local s = population("stream")
local x = tanh(read_in(s, "W1"))
local p = softmax(look(x, 3, "Q"))
local h = x
for i = 1, 3 do
    h = h + p[i] * map(silu(map(x, s, "w1_" .. i)) * map(x, s, "w3_" .. i), s, "w2_" .. i)
end
read_out(h, "w")
"""


class Stacked(torch.nn.Module):
    """Experts as tensors [E, n, m], gate and up in one. The last w2 may start too small."""

    def __init__(self, N, small=False, E=3):
        super().__init__()
        self.W1, self.gate, self.w = (torch.nn.Linear(m, n, bias=False)
                                      for n, m in ((N, 10), (E, N), (1, N)))
        self.w13 = torch.nn.Parameter(torch.randn(E, 2 * N, N) * N ** -0.5)
        self.w2 = torch.nn.Parameter(torch.randn(E, N, N) * N ** -0.5)
        for layer, std in ((self.W1, 1.0), (self.gate, 1 / N), (self.w, 1 / N)):
            torch.nn.init.normal_(layer.weight, std=std)
        if small:
            self.w2.data[-1] *= N ** -0.5

    def forward(self, X):
        x = torch.tanh(self.W1(X))
        p = self.gate(x).softmax(-1)
        a, b = torch.einsum("enm,bm->ben", self.w13, x).chunk(2, -1)
        units = torch.nn.functional.silu(a) * b
        return self.w(x + torch.einsum("be,enm,bem->bn", p, self.w2, units))[:, 0]


def test_packed_tensors_are_judged_part_by_part(tmp_path):
    path = tmp_path / "stacked.lua"
    path.write_text(STACKED)
    names = {"W1.weight": "W1", "gate.weight": "Q", "w.weight": "w",
             "w13": [f"w{k}_{i}" for i in (1, 2, 3) for k in (1, 3)],
             "w2": ["w2_1", "w2_2", "w2_3"]}

    def adam(model):
        return OPTIM.Adam([{"params": [model.W1.weight], "lr": 0.01}, {
            "params": [V for name, V in model.named_parameters() if name != "W1.weight"],
            "lr": 1 / width(model)}], eps=1e-15)
    ini = {"network.program": str(path)}
    found = check(adam, names, Stacked, ini)
    assert found.agrees is True, found
    found = check(adam, names, lambda N: Stacked(N, True), ini)
    assert found.agrees is False
    assert [t.name for t in found.tensors if t.verdicts] == ["w2[2]"]
    assert "vanishes beside ours as N^-0.5" in found["w2[2]"].verdicts[0]
    for wrong, text in (({"w13": "w1_1"}, "holds several matrices give their list"),
                        ({"w2": ["w2_1", "w2_2"]}, "give all matrices that it holds")):
        with pytest.raises(dmft.InputError, match=text):
            check(adam, names | wrong, Stacked, ini)


# Of vectors, and of matrices that read ones: both stand for what a module has.
VECTORS = ["""
local s = population("s")
local x = read_in(s, "W1")
x = tanh(x + vector(x, {name = "b1", start = 0}))
x = map(x, s, "W2")
x = norm(x + vector(x, {name = "b2", start = 0}))
read_out(tanh(vector(x, {name = "gain", start = 1}) * x), "w")
""", """
local s = population("s")
local h = read_in(s, "W1")
local one = exp(h, 0)
local function reads_ones(p, name) return map(one, p, {name = name, zero = true}) end
local x = tanh(h + reads_ones(s, "b1"))
local n = norm(map(x, s, "W2") + reads_ones(s, "b2"))
read_out(tanh(n + reads_ones(s, "gain") * n), "w")
"""]


class Vectors(torch.nn.Module):
    """Hidden biases and a gain."""

    def __init__(self, N):
        super().__init__()
        self.W1, self.W2 = torch.nn.Linear(10, N), torch.nn.Linear(N, N)
        self.w = torch.nn.Linear(N, 1, bias=False)
        self.gain = torch.nn.Parameter(torch.ones(N))
        for layer, std in ((self.W1, 1.0), (self.W2, N ** -0.5), (self.w, 1 / N)):
            torch.nn.init.normal_(layer.weight, std=std)
        for layer in (self.W1, self.W2):
            torch.nn.init.zeros_(layer.bias)

    def forward(self, X):
        h = self.W2(torch.tanh(self.W1(X)))
        h = h / h.square().mean(-1, keepdim=True).sqrt()
        return self.w(torch.tanh(self.gain * h))[:, 0]


@pytest.mark.parametrize("text", VECTORS, ids=["vectors", "matrices"])
@pytest.mark.parametrize("power", [0, 1])
def test_vectors_are_judged_as_vectors(tmp_path, power, text):
    """A rate that does not go with the width for Adam, as N for SGD; N^1 more explodes."""
    path = tmp_path / "vectors.lua"
    path.write_text(text)
    names = {"W1.weight": "W1", "W2.weight": "W2", "w.weight": "w", "W1.bias": "b1",
             "W2.bias": "b2", "gain": "gain"}

    def groups(model, of_vectors, of_read_in, of_hidden, of_w):
        return [{"params": [model.W1.bias, model.W2.bias, model.gain], "lr": of_vectors},
                {"params": [model.W1.weight], "lr": of_read_in},
                {"params": [model.W2.weight], "lr": of_hidden},
                {"params": [model.w.weight], "lr": of_w}]

    def adam(model):
        N = width(model)
        return OPTIM.Adam(groups(model, 0.01 * N ** power, 0.01, 1 / N, 1 / N), eps=1e-15)

    def sgd(model):
        N = width(model)
        return OPTIM.SGD(groups(model, 0.01 * N ** (1 + power), 0.01 * N, 0.1, 1 / N), 0.1)
    for optimizer in (adam, sgd):
        found = check(optimizer, names, Vectors, {"network.program": str(path)})
        assert found.agrees is (power == 0), found
        assert {t.ours for t in found.tensors if t.verdicts} == (
            {"b1", "b2", "gain"} if power else set())


def test_patterns_and_many_experts_of_one_kind():
    """A star stands for a number or a word of a name; rows that say the same are one."""
    with pytest.raises(dmft.InputError, match="no parameter like X.*.weight; there are W1.weight"):
        check(adamw, {"X.*.weight": "W2"})
    found = check(adamw, {"W*.weight": "W*", "w.weight": "w"})
    assert found.agrees is True and [t.ours for t in found.tensors] == ["W1", "W2", "w"]
