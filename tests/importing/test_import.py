"""Modules of PyTorch are read as networks: outputs and gradients at a width that was not traced are
those of the module, and what has no counterpart is refused in a sentence with its line."""
import os
import re
import warnings

import dmft
import dmft.torch
import modules
import pytest
import torch
from dmft.description import kind_of
from torch import nn
from torch.nn import functional as F
import torch.utils.checkpoint

# Of outputs and gradients of some hundred operations in double precision; 7e-15 has been seen.
ROUND_OFF = 1e-12
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def imported():
    """Each module of modules.MODULES, read once."""
    kept = {}

    def get(name):
        if name not in kept:
            build, example, more = modules.MODULES[name]
            kept[name] = dmft.torch.import_module(build, example(), widths=(16, 32), **more)
        return kept[name]
    return get


@pytest.mark.parametrize("name", modules.MODULES)
def test_outputs_and_gradients_are_those_of_the_module(imported, name):
    mine = imported(name)
    assert set(mine.differences) >= {"output", *(
        key for key, _ in modules.MODULES[name][0](16).named_parameters())}
    assert mine.difference < ROUND_OFF, mine.differences


@pytest.mark.parametrize("name", modules.MODULES)
def test_matrices_have_the_names_of_their_parameters_as_labels(imported, name):
    mine = imported(name)
    network = dmft.describe(mine.settings, network=mine.network, **{
        "solver.replicates": 0, "reference.widths": 32}).networks[0]
    labels = {one.name: one.label for one in network.matrices if one.label}
    assert labels.keys() == {part.name for part in mine.parts}
    told = {word for label in labels.values() for word in label.split(", ")}
    names = set(dict(modules.MODULES[name][0](16).named_parameters()))
    assert told <= names | set(map(kind_of, names))
    assert all(one in told or kind_of(one) in told for one in mine.names)


@pytest.mark.parametrize("name", ["perceptron", "transformer", "soft", "dispatched"])
def test_weights_go_there_and_back(imported, name):
    mine, (build, example, _) = imported(name), modules.MODULES[name]
    first, second = build(32).double(), build(32).double()
    mine.store(mine.load(first), second)
    for (key, one), other in zip(first.named_parameters(), second.parameters()):
        assert torch.allclose(one, other, rtol=1e-14, atol=1e-15), key


@pytest.mark.parametrize("act", [
    F.relu, F.silu, F.gelu, F.leaky_relu, F.elu, F.selu, F.softplus, F.mish, F.hardswish, F.relu6,
    F.logsigmoid, torch.sigmoid, torch.abs, lambda x: F.gelu(x, approximate="tanh"),
    lambda x: x.relu() ** 2, lambda x: x.clamp(-0.5, 0.7), lambda x: x / (1 + x * x),
    lambda x: x * torch.sigmoid(1.702 * x), lambda x: torch.tanh(x + 1)], ids=range(19))
def test_activations_are_put_together(act):
    mine = dmft.torch.import_module(lambda N: modules.Perceptron(N, act=act), modules.numbers(),
                                    (16, 32))
    assert mine.difference < ROUND_OFF


def test_many_blocks_are_cut_at_once_and_have_a_recipe():
    mine = dmft.torch.import_module(lambda N: modules.Transformer(N, blocks=44),
                                    modules.letters(), (16, 32))
    assert mine.difference < 10 * ROUND_OFF and len(mine.network.lua) > 100000
    for base in (64, None):  # a row for all blocks, under the module's own name
        rows = [line.split() for line in str(mine.recipe(base=base)).splitlines()
                if line.startswith("attention.*.qkv.weight ")]
        assert rows and all(row[1] == rows[0][1] and int(row[1]) % (3 * 44) == 0 for row in rows)


def test_several_sizes_grow_in_proportion():
    mine = dmft.torch.import_module(modules.Wide, modules.numbers(),
                                    widths={"N": (16, 32), "M": (8, 16)})
    assert mine.difference < ROUND_OFF
    module = modules.Wide(64, 32).double()
    assert mine.load(module).program.width == 64


class Scaled(modules.WideOutputs):
    """What experts make has a gain before their sum."""

    def __init__(self, N, M):
        super().__init__(N, M)
        self.gain = nn.Parameter(torch.ones(N))

    def mixed(self, hidden, gates):
        return (torch.einsum("pmu,mnu->pmn", hidden, self.down) * self.gain * gates).sum(1)


@pytest.mark.parametrize("build, words", [
    (modules.Bent, "a function of what each makes"),
    (lambda N, M: modules.Bent(N, M, lambda made: F.rms_norm(made, made.shape[-1:])),
     "the units of each of a growing number"),
    (lambda N, M: modules.WideOutputs(N, N), "as many experts as units"),
    (Scaled, "differs over the width")], ids=["relu", "norm", "as_many", "gain"])
def test_what_experts_make_before_their_sum_is_refused_where_it_is_no_sum(build, words):
    sentence = refusal(build, widths={"N": (16, 32), "M": (8, 16)})
    assert words in sentence, sentence


def test_every_function_of_a_network_takes_it(imported):
    mine = imported("soft")
    run = dmft.solve(mine.settings | {"training.steps": 3, "training.eta0": 0.1,
                                      "solver.sites": 64, "solver.replicates": 2,
                                      "reference.widths": 16, "reference.seeds": 2},
                     network=mine.network, progress=False)
    assert run.limit["loss"].shape == run.reference[16]["loss"].shape == (3,)
    assert "read" in str(dmft.recipe(mine.settings, network=mine.network))


def test_the_page_prints_what_it_says(capsys):
    with open(os.path.join(ROOT, "docs", "import.md"), encoding="utf-8") as file:
        text = file.read()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    printed, = re.findall(r"```text\n(.*?)```", text, re.S)
    exec(compile(code, "import.md", "exec"), {})
    number = re.compile(r"\d\.\de-1[56]")
    found = capsys.readouterr().out
    first = len(printed.splitlines())
    assert number.sub("", "".join(found.splitlines(True)[:first])) == number.sub("", printed)
    assert number.search(found) and "router.weight" in found


# --- what is refused -------------------------------------------------------------------------

class Changed(nn.Module):
    """A perceptron whose middle is a given function."""

    def __init__(self, N, middle):
        super().__init__()
        self.read, self.head = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.one, self.two = nn.Linear(N, N), nn.Linear(N, N)
        self.middle = middle

    def forward(self, x):
        return self.head(self.middle(self, self.read(x)))[:, 0]


def refusal(build, example=None, widths=(16, 32), **more):
    """The sentence of an import that cannot be."""
    with pytest.raises(dmft.InputError) as failed, warnings.catch_warnings():
        warnings.simplefilter("ignore", dmft.NoteWarning)
        dmft.torch.import_module(build, modules.numbers() if example is None else example,
                                 widths, **more)
    sentence = str(failed.value)
    assert "\n" not in sentence.strip()
    return sentence


@pytest.mark.parametrize("middle, words", [
    (lambda s, h: s.one(h).median(1, keepdim=True).values + h, ["median of [48, 16]"]),
    (lambda s, h: s.one(h) * torch.poisson(torch.ones_like(h)), ["random numbers"]),
    (lambda s, h: F.linear(h, s.one.weight / s.one.weight.norm()), ["matrix of parameters"]),
    (lambda s, h: s.one(h) * (h.shape[1] + 3), ["no power of the width"]),
], ids=["median", "poisson", "weight_norm", "constant"])
def test_what_has_no_counterpart_is_named_with_its_line(middle, words):
    sentence = refusal(lambda N: Changed(N, middle))
    assert "test_import.py:" in sentence
    assert all(word in sentence for word in words), sentence


def test_rows_without_their_gradient():
    """And a parameter that has none is named, and fixed."""
    def middle(module, h):
        y = module.two(h)
        return module.one(h) * y.detach() + y
    mine = dmft.torch.import_module(lambda N: Changed(N, middle), modules.numbers(), (16, 32))
    assert mine.difference < ROUND_OFF and "stop(" in mine.network.lua
    with pytest.warns(dmft.NoteWarning, match="two.weight, two.bias: the module lets no"):
        dmft.torch.import_module(lambda N: Changed(N, lambda s, h: s.one(h) + s.two(h).detach()),
                                 modules.numbers(), (16, 32))


class Inner(modules.Perceptron):
    """A perceptron with something in its middle."""

    def __init__(self, N):
        super().__init__(N)
        self.register_buffer("scale", torch.tensor(float(N)) ** -0.5)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("steps", torch.linspace(0, 1, N))

    def forward(self, x):
        h = self.middle(torch.tanh(self.first(x)))
        return self.last(torch.tanh(self.second(h)))[:, 0]


class Twice(torch.autograd.Function):
    """Its gradient is another one."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, g):
        return g


def counted(module, h):
    module.calls += 1
    return h * module.calls


def changed(module, h):
    with torch.no_grad():
        module.second.weight.mul_(0.9)
    return h


def held(module, h):
    h = 1.0 * h
    h.data.mul_(2)
    return h


@pytest.mark.parametrize("middle, words", [
    (lambda s, h: h * s.scale, None), (lambda s, h: h * h.mean(-1, keepdim=True).detach(), None),
    (lambda s, h: torch.utils.checkpoint.checkpoint(torch.sin, h, use_reentrant=False), None),
    (lambda s, h: h * s.steps, "differ from site to site"), (counted, "remembers earlier calls"),
    (lambda s, h: h if h.mean() > 0 else 2 * h, "a branch on data"), (changed, "writes into its"),
    (held, "holds gradients back"), (lambda s, h: Twice.apply(h), "a torch.autograd.Function ("),
    (lambda s, h: h + (h.sign() - h).detach(), "no counterpart in a program; write it with sums"),
    (lambda s, h: torch.normal(h, 0.3), None), (lambda s, h: h + 0.1 * torch.randn_like(h), None)],
    ids="buffer stop checkpoint steps calls branch in_place data own through normal noise".split())
def test_ways_to_be_silently_wrong(middle, words):
    """Each is read as it is, or refused."""
    build = type("Tried", (Inner,), {"middle": middle})
    if words:
        assert words in refusal(build)
    else:
        assert dmft.torch.import_module(build, modules.numbers(), (16, 32)).difference < ROUND_OFF


def test_a_module_in_half_precision_is_read_in_double():
    mine = dmft.torch.import_module(lambda N: modules.Perceptron(N).half(),
                                    modules.numbers().half(), (16, 32))
    assert mine.difference < ROUND_OFF


def test_memory_is_said_in_advance():
    """Nothing of it is allocated."""
    made = []

    class Large(nn.Module):
        def __init__(self, N):
            super().__init__()
            self.one = nn.Linear(N * 1000, N * 1000)
            made.append(self.one.weight.device.type)
    sentence = refusal(Large, widths=(64, 128))
    assert "4.1e+09 parameters" in sentence and "197 GB" in sentence and set(made) == {"meta"}


def test_experts_that_the_example_never_chose_are_told():
    class Loop(modules.Dispatched):
        def __init__(self, N):
            super().__init__(N)
            self.router = nn.Linear(N, self.count)
            with torch.no_grad():
                self.router.weight.zero_()
                self.router.bias.copy_(torch.arange(4.0))

        def mix(self, x):
            chosen = self.router(x).topk(1, -1).indices[:, 0]
            total = torch.zeros_like(x)
            for e in chosen.unique().tolist():
                row = torch.where(chosen == e)[0]
                total = total.index_add(0, row, self.experts[e](x[row]))
            return total
    assert re.search("chose|choice", refusal(Loop))


def test_a_branch_on_data_is_found():
    def middle(module, h):
        return module.one(h) if h[0, 0] > 0 else module.two(h)
    sentence = refusal(lambda N: Changed(N, middle), torch.ones(24, modules.NUMBERS) * 0.3)
    assert "is not the module" in sentence or "different things" in sentence \
        or "takes" in sentence or "taken" in sentence


def test_a_gradient_that_is_held_back_is_found():
    class Hooked(modules.Perceptron):
        def forward(self, x):
            h = torch.tanh(self.first(x))
            if h.requires_grad:
                h.register_hook(lambda g: 0.5 * g)
            return self.last(torch.tanh(self.second(h)))[:, 0]
    assert "the gradient of first" in refusal(Hooked)


def test_a_shared_parameter_is_found():
    class Shared(nn.Module):
        def __init__(self, N):
            super().__init__()
            self.read = nn.Linear(modules.NUMBERS, N, bias=False)

        def forward(self, x):
            return F.linear(torch.tanh(self.read(x)), self.read.weight.T)
    assert "read.weight is used as several matrices" in refusal(Shared)


class Tied(nn.Module):
    """An embedding that is the head, too; `mean`: over units, in the place of their sum."""

    def __init__(self, N, mean=False):
        super().__init__()
        self.letter, self.up = nn.Embedding(modules.LETTERS, N), nn.Linear(N, N)
        self.over = N if mean else 1

    def forward(self, x):
        h = self.letter(x)
        return F.linear(torch.tanh(h + self.up(h.tanh())), self.letter.weight) / self.over


def test_an_embedding_that_is_the_head_is_one_matrix():
    """Its logits are sums over units, which go as N: the line is named."""
    mine = dmft.torch.import_module(Tied, modules.letters(), (16, 32))
    assert mine.difference < ROUND_OFF and mine.names["letter.weight"] == ("letter",)
    (left,) = mine.left
    assert left.values == (16.0, 32.0) and "self.letter.weight" in left.place
    mean = dmft.torch.import_module(lambda N: Tied(N, True), modules.letters(), (16, 32))
    assert mean.difference < ROUND_OFF and not mean.left
    first, second = Tied(32).double(), Tied(32).double()
    mine.store(mine.load(first), second)
    assert torch.allclose(first.letter.weight, second.letter.weight, rtol=1e-14, atol=1e-15)


class Ended(modules.Perceptron):
    """With a bias of the output, below a cap."""

    def __init__(self, N):
        super().__init__(N)
        self.last = nn.Linear(2 * N, 1)
        self.branch = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return self.branch * 3 * torch.tanh(super().forward(x) / 3)


def test_what_acts_on_the_output():
    mine = dmft.torch.import_module(Ended, modules.numbers(), (16, 32))
    assert mine.difference < ROUND_OFF and {"last.bias", "branch"} <= set(mine.names)
    assert "output(" in mine.network.lua and "scalar(" in mine.network.lua
    module = Ended(16)
    mine.store(mine.load(module), module)
    mine = dmft.torch.import_module(Ended, modules.numbers(), (16, 32), ignore=["last.bias"])
    assert mine.difference < ROUND_OFF and "last.bias" not in mine.names
    with pytest.warns(dmft.NoteWarning, match="^last.bias: not 0 in this module"):
        net = mine.load(module)
    with pytest.raises(dmft.InputError, match="has the width 16, and the module 32"):
        mine.store(net, Ended(32))
    with pytest.raises(dmft.InputError, match=r"\[2, 3\]: the network is that of inputs of the sh"):
        mine.inputs(torch.zeros(2, 3))


def test_the_weight_of_an_expert_is_a_column():
    class Columns(modules.Dispatched):
        def mix(self, x):
            g = self.router(x).softmax(-1)
            return sum(g[:, e:e + 1] * expert(x) for e, expert in enumerate(self.experts))
    mine = dmft.torch.import_module(Columns, modules.numbers(), (16, 32))
    assert mine.difference < ROUND_OFF


def test_dropout_is_set_to_0_with_a_word():
    class Attends(nn.Module):
        def __init__(self, N):
            super().__init__()
            self.read, self.head = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)
            self.attention = nn.MultiheadAttention(N, 2, dropout=0.1, batch_first=True)

        def forward(self, x):
            h = self.read(x)
            return self.head(self.attention(h, h, h, need_weights=False)[0].mean(1))[:, 0]
    with pytest.warns(dmft.NoteWarning, match="as if set to 0: .*test_import.py:.*self.attention"):
        mine = dmft.torch.import_module(Attends, torch.randn(24, 3, modules.NUMBERS), (16, 32))
    assert mine.difference < ROUND_OFF

    def build(N):
        return nn.Sequential(nn.Linear(modules.NUMBERS, N), nn.Dropout(0.3), nn.Linear(
            N, 2, bias=False))
    with pytest.warns(dmft.NoteWarning, match="as if set to 0: the module"):
        assert dmft.torch.import_module(build, modules.numbers(), (16, 32)).difference < ROUND_OFF


class Trains(modules.Residual):
    """Returns its loss, too."""

    def forward(self, x):
        f = super().forward(x)
        return f, F.cross_entropy(f, (x[:, 0] > 0).long(), label_smoothing=0.1)


def test_a_module_that_returns_its_loss_is_read_up_to_it():
    mine = dmft.torch.import_module(Trains, modules.numbers(), (16, 32),
                                    output=lambda module, x: module(x)[0])
    assert mine.difference < ROUND_OFF


@pytest.mark.parametrize("build, more, words", [
    (modules.Perceptron, {"widths": (32, 16)}, "the larger one last"),
    (modules.Perceptron, {"widths": 16}, "widths"),
    (modules.Perceptron, {"widths": (64, 10 ** 7)}, "at most 65536"),
    (modules.Perceptron, {"ignore": ["none.such"]}, "no parameter none.such"),
    (modules.Perceptron, {"example": [1.0]}, "must be a tensor"),
    (modules.Perceptron, {"example": torch.zeros(3)}, "must be a tensor"),
    (modules.Perceptron, {"example": torch.zeros(4, 3)}, "run on the example, ends with"),
    (lambda N: nn.Identity(), {}, "no parameters"),
    (lambda N: 3, {}, "no torch.nn.Module"),
    (nn.Tanh(), {}, "build is a Tanh; it must be a function"),
    (lambda N: 1 / 0, {}, "build(16) ends with ZeroDivisionError"),
    (lambda N: nn.Sequential(*[nn.Linear(modules.NUMBERS, modules.NUMBERS)
                               for _ in range(N // 16)]), {}, "larger one"),
    (lambda N: nn.Linear(modules.NUMBERS, 1, device="meta"), {}, "is on meta"),
    (modules.Perceptron, {"example": torch.randn(24, 3, modules.NUMBERS)}, "a row for each token"),
    (Trains, {}, "give output="),
    (modules.Residual, {"example": torch.randn(24, 3, modules.NUMBERS)},
     "a row for each token"),
], ids=str)
def test_bad_input_gets_one_sentence(build, more, words):
    assert words in refusal(build, **more)
