"""dmft.torch.plan of many experts and blocks, from modules with few of them."""
import copy
import warnings

import dmft
import dmft.torch
import modules
import pytest
import torch
from dmft.torch.importing import places, writing
from dmft.torch.importing.builds import Builds
from dmft.torch.importing.graph import ordered
from torch import nn
from torch.nn import functional as F

WIDTHS, FEW = {"N": (16, 32)}, 8


class Listed(nn.Module):
    """Experts in a list, of which each row chooses some, and perhaps one for all rows."""

    def __init__(self, N, E, top=2, common=False):
        super().__init__()
        self.router, self.top = nn.Linear(N, E, bias=False), top
        self.experts = nn.ModuleList(modules.Gated(N, 2 * N) for _ in range(E))
        self.common = modules.Gated(N, N) if common else None

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(self.top, -1)
        hot, total = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0), torch.zeros_like(x)
        for expert, mask in zip(self.experts, hot):
            slot, row = torch.where(mask)
            total = total.index_add(0, row, expert(x[row]) * weights[row, slot, None])
        return total if self.common is None else total + self.common(x)


class Grouped(Listed):
    """Groups of experts, of which each row first chooses half, as in DeepSeek-V3."""

    def __init__(self, N, E, many=2):
        super().__init__(N, E, common=True)
        self.register_buffer("bias", torch.zeros(E))
        self.many = many

    def forward(self, x):
        scores, each = self.router(x).sigmoid(), len(self.experts) // self.many
        of_group = (scores + self.bias).view(-1, self.many, each).topk(2, -1)[0].sum(-1)
        chosen = of_group.topk(self.many // 2, -1)[1]
        seen = torch.zeros_like(of_group).scatter(1, chosen, 1)
        seen = seen[..., None].expand(-1, self.many, each).reshape(-1, len(self.experts))
        chosen = (scores + self.bias).masked_fill(seen == 0, 0.0).topk(self.top, -1)[1]
        weights, total = scores.gather(1, chosen), self.common(x)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == e)
            total = total.index_add(0, row, expert(x[row]) * weights[row, slot, None])
        return total


class Stacked(nn.Module):
    """Experts in one tensor, the halves of a gate and of units in one, too."""

    def __init__(self, N, E):
        super().__init__()
        self.router = nn.Linear(N, E)
        self.gate_up = nn.Parameter(torch.randn(E, 2 * N, N) * N ** -0.5)
        self.down = nn.Parameter(torch.randn(E, N, N) * N ** -0.5)

    def forward(self, x):
        gate, up = torch.einsum("pn,emn->pem", x, self.gate_up).chunk(2, -1)
        made = torch.einsum("pem,enm->pen", F.silu(gate) * up, self.down)
        return (made * self.router(x).softmax(-1)[..., None]).sum(1)


class Chain(nn.Module):
    """Blocks on a stream. layer(k): that of the k-th block."""

    def __init__(self, N, L, layer):
        super().__init__()
        self.read, self.head = nn.Linear(modules.NUMBERS, N), nn.Linear(N, 1, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(N) for _ in range(L + 1))
        self.layers = nn.ModuleList(layer(k) for k in range(L))

    def forward(self, x):
        x = self.read(x)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(self.norms[-1](x))[:, 0]


def dense(N):
    """A layer without experts."""
    return modules.Gated(N, 3 * N)


def in_a_row(N, E, L):
    """Everything in one list, so that the numbers of names move."""
    return nn.Sequential(nn.Linear(modules.NUMBERS, N), *(
        Added(nn.Sequential(nn.RMSNorm(N), Listed(N, E))) for _ in range(L)),
        nn.RMSNorm(N), nn.Linear(N, 1, bias=False), nn.Flatten(0))


class Added(nn.Module):
    """A block on a stream."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return x + self.layer(x)


CASES = {
    "listed": lambda N, E, L: Chain(N, L, lambda k: Listed(N, E)),
    "stacked": lambda N, E, L: Chain(N, L, lambda k: Stacked(N, E)),
    "shared": lambda N, E, L: Chain(N, L, lambda k: Listed(N, E, common=True)),
    "every other one": lambda N, E, L: Chain(N, L, lambda k: Listed(N, E) if k % 2 else dense(N)),
    "dense first": lambda N, E, L: Chain(N, L, lambda k: Listed(N, E) if k else dense(N)),
    "groups": lambda N, E, L: Chain(N, L, lambda k: Grouped(N, E)),
    "top 4": lambda N, E, L: Chain(N, L, lambda k: Listed(N, E, 4)),
    "one list": in_a_row,
}


def few_of(build, most=FEW):
    """The same, which cannot be built with the numbers of more than a few, nor of many of both."""
    def made(N, E, L):
        module = build(N, E, L)
        few = max(E, L) <= most or next(module.parameters()).is_meta and min(E, L) <= most
        assert few, "built with many experts or blocks"
        return module
    return made


def counted_plan(build, counts, word="mssp", **more):
    """From few experts and blocks."""
    return dmft.torch.plan(few_of(build), modules.numbers(200), {"N": 16}, word, widths=WIDTHS,
                           counts=counts, **more)


def told(plan, model):
    """(initialized weights, numbers of groups by parameter) of a model."""
    model = copy.deepcopy(model)
    plan.initialize(model)
    found = {}
    for kind in ("adamw", "sgd"):
        names = {id(one): name for name, one in model.named_parameters()}
        for group in plan.groups(model, 1e-2, 0.1, optimizer=kind):
            for one in group["params"]:
                found[kind, names[id(one)]] = {key: value for key, value in group.items()
                                               if key != "params"}
    return dict(model.named_parameters()), found


@pytest.mark.parametrize("name, word", [*((name, "mssp") for name in CASES), ("listed", "mup")])
def test_a_plan_of_few_is_that_of_many(name, word):
    build, E = CASES[name], 12 if name == "groups" else 9
    plan = counted_plan(build, {"E": E, "L": 5}, word)
    direct = dmft.torch.plan(lambda N: build(N, E, 5), modules.numbers(400), {"N": 16}, word,
                             widths=WIDTHS)
    torch.manual_seed(0)
    model = build(64, E, 5)
    assert plan.sizes(model) == {"N": 64, "E": E, "L": 5}
    (weights, rates), (right, right_rates) = told(plan, model), told(direct, model)
    assert rates == right_rates
    assert all(torch.equal(one, right[name]) for name, one in weights.items())
    assert len({str(one) for one in rates.values()}) > 4


def test_eight_groups_are_read_with_two_or_three_experts_in_each_and_few_blocks():
    built = []

    def build(N, E, L):
        module = Chain(N, L, lambda k: Grouped(N, E, 8))
        if not module.read.weight.is_meta:
            built.append((E, L))
        return module
    example = modules.numbers(400)
    plan = dmft.torch.plan(build, example, {"N": 16}, widths=WIDTHS, counts={"E": 64, "L": 12})
    assert max(E for E, _ in built) <= 32 and max(L for E, L in built if E >= 16) <= 5
    with torch.device("meta"):
        model = build(64, 64, 12)
    direct = dmft.torch.plan(lambda N: build(N, 16, 3), example, {"N": 16}, widths=WIDTHS)
    (weights, rates), (_, right) = told(plan, build(64, 16, 3)), told(direct, build(64, 16, 3))
    assert rates == right and len(rates) == 2 * len(weights)
    assert len(plan.groups(model, 1e-2)) == len(plan.groups(build(64, 16, 3), 1e-2))


def test_the_work_of_an_import_goes_with_the_number_of_operations(monkeypatch):
    gone = []

    def counted(*given):
        gone.extend(ordered(*given))
        return ordered(*given)
    monkeypatch.setattr(places, "ordered", counted)
    monkeypatch.setattr(writing, "ordered", counted)
    each = []
    for L in (2, 4, 6):
        gone.clear()
        dmft.torch.import_module(lambda N: CASES["stacked"](N, 3, L), modules.numbers(), (16, 32))
        each.append(len(gone))
    assert each[2] - each[1] == each[1] - each[0] > 0


def test_a_plan_of_many_experts_and_blocks_is_made_of_few(tmp_path):
    plan = counted_plan(CASES["listed"], {"E": 256, "L": 60})
    plan.save(str(tmp_path / "plan.json"))
    plan = dmft.torch.Plan.load(str(tmp_path / "plan.json"))
    assert plan.counts == {"E": 256, "L": 60} and "E = 256, L = 60" in str(plan)
    with torch.device("meta"):
        model = CASES["listed"](64, 256, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        groups = plan.groups(model, 1e-2)
    assert sum(len(group["params"]) for group in groups) == 3 + 61 + 60 * (1 + 3 * 256)
    (down,) = [group for group in groups if any(
        one is model.layers[59].experts[255].down.weight for one in group["params"])]
    assert down["lr"] == pytest.approx(1e-2 / 4)


def test_other_numbers_than_the_plans_are_said():
    plan = counted_plan(CASES["listed"], {"E": 5, "L": 3})
    with pytest.warns(dmft.NoteWarning, match="the model has E = 6, and the plan was made for"):
        plan.groups(CASES["listed"](16, 6, 3), 1e-2)
    model = CASES["listed"](16, 5, 3)
    model.layers[1].experts.pop(-1)
    with pytest.raises(dmft.InputError, match="the plan is of another module"):
        plan.groups(model, 1e-2)


@pytest.mark.parametrize("power", [0.5, 0.25])
def test_starts_that_go_with_the_number_of_blocks_are_known_at_the_base(power):
    def build(N, E, L):
        model = CASES["stacked"](N, E, L)
        for layer in model.layers:
            nn.init.normal_(layer.down, std=0.1 * L ** -power)
        return model
    found = counted_plan(build, {"E": 4, "L": 48})._content["parameters"]
    (down,) = [one for one in found if one["names"][0] == "layers.0.down"]
    (part,) = down["parts"]
    assert part["at_base"] == pytest.approx(0.1 * 48 ** -power, rel=0.05)


def growing(N, E, L):
    """Blocks of which each is wider than the one before."""
    return Chain(N, L, lambda k: Stacked(N, E) if k == 1 else modules.Gated(N, (k + 1) * N))


def unequal(N, E, L):
    """As many layers as the square of L."""
    return Chain(N, L * L, lambda k: Listed(N, E))


REFUSED = {
    "both": (CASES["listed"], {"N": 3}, "N is in base, too"),
    "none": (CASES["listed"], {}, "must be the numbers of experts and blocks"),
    "text": (CASES["listed"], {"E": "3"}, "must be the numbers of experts and blocks"),
    "squares": (unequal, {"E": 5, "L": 5}, "has as many parameters of each kind"),
    "ignored": (lambda N, E, L: Chain(N, L, lambda k: Listed(N, 4)), {"E": 9, "L": 5},
                "same module with E = 3 and with E = 4; leave E out of counts"),
    "wider": (growing, {"E": 9, "L": 9}, "leave out of counts what is no number of equal parts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_number_of_equal_parts_is_refused(name):
    build, counts, sentence = REFUSED[name]
    with pytest.raises(dmft.InputError, match=sentence):
        counted_plan(build, counts)


def test_an_import_of_many_is_that_of_few_with_laws_for_all():
    build, counts = few_of(CASES["listed"]), {"E": 256, "L": 60}
    mine = dmft.torch.import_module(build, modules.numbers(200), WIDTHS, counts=counts)
    assert mine.difference < 1e-12 and mine.counts == counts
    assert set(mine.traced) == {"E", "L"} and max(mine.traced.values()) < FEW
    found = mine.recipe(16)
    assert str(found) == str(counted_plan(CASES["listed"], counts))
    assert "layers.*.experts.*.down.weight (15360 alike)" in str(found)
    # the network's own laws, a row for what is alike
    assert "layers.*.experts.*.down.weight" in str(mine.recipe())
    with torch.device("meta"):
        model = CASES["listed"](64, 256, 60)
    assert sum(len(group["params"]) for group in found.groups(model, 1e-2)) == len(
        list(model.parameters()))
    with pytest.raises(dmft.InputError, match="it is that of E = .*recipe.base. is a plan"):
        mine.load(CASES["listed"](16, 9, 3))


class Gates(nn.Module):
    """Rows of experts with sigmoid gates."""

    def __init__(self, N, M):
        super().__init__()
        self.Q = nn.Linear(N, M, bias=False)
        self.up = nn.Parameter(torch.randn(M, 3, N) * N ** -0.5)
        self.down = nn.Parameter(torch.randn(M, N, 3) * 3 ** -0.5)

    def forward(self, x):
        units = torch.einsum("pn,mun->pmu", x, self.up).tanh() * self.Q(x).sigmoid()[..., None]
        return torch.einsum("pmu,mnu->pn", units, self.down) / len(self.up)


class Several(nn.Module):
    """Layers of experts on a stream, each with a number of them of its own."""

    def __init__(self, N, *numbers):
        super().__init__()
        self.read, self.w = nn.Linear(modules.NUMBERS, N, bias=False), nn.Linear(N, 1, bias=False)
        self.layers = nn.ModuleList(Gates(N, M) for M in numbers)

    def forward(self, x):
        x = self.read(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.w(x)[:, 0]


def test_a_list_of_numbers_is_a_size_for_each():
    def build(N, E):
        return Several(N, *E)
    plan = dmft.torch.plan(build, modules.numbers(), {"N": 16, "E": [4, 12]})
    single = dmft.torch.plan(lambda N, A, B: Several(N, A, B), modules.numbers(),
                             {"N": 16, "A": 4, "B": 12})
    assert plan.base == {"N": 16, "E_1": 4, "E_2": 12}
    assert str(plan).replace("E_1", "A").replace("E_2", "B").split() == str(single).split()
    assert plan.sizes(build(32, [8, 9])) == {"N": 32, "E_1": 8, "E_2": 9}
    with pytest.raises(dmft.InputError, match="E_1 is the name of a number of the list E"):
        dmft.torch.plan(build, modules.numbers(), {"N": 16, "E": [4, 12], "E_1": 4})


def test_what_is_too_large_is_refused_as_often_as_it_is_asked_for():
    made = []

    def build(N):
        made.append(nn.Linear(N, 2 ** 24))
        assert made[-1].weight.is_meta
        return made[-1]
    builds = Builds(build, (64, 128), ())
    for _ in range(2):
        with pytest.raises(dmft.InputError, match="parameters, for which an import takes .* GB"):
            builds.at(64)
    assert len(made) == 2
