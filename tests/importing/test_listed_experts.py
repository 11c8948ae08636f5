"""Experts in a list, of which there are more at a larger size: they are what they are as one
tensor."""
import dmft
import dmft.torch
import modules
import pytest
import torch
from torch import nn
from torch.nn import functional as F

WIDTHS = {"N": (8, 16), "E": (4, 8)}
ROWS = modules.numbers(200)


class Expert(nn.Module):
    """Two layers; `units`: how many are hidden."""

    def __init__(self, N, units, bias):
        super().__init__()
        self.up, self.down = (nn.Linear(*pair, bias=bias) for pair in ((N, units), (units, N)))

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Listed(nn.Module):
    """A mixture of experts in a list beside a shared one, computed in one of several forms."""

    def __init__(self, N, E, form, units=3, bias=False):
        super().__init__()
        self.inlet, self.router = nn.Linear(7, N, bias=False), nn.Linear(N, E, bias=False)
        self.experts = nn.ModuleList(Expert(N, units, bias) for _ in range(E))
        self.shared, self.outlet = Expert(N, units, bias), nn.Linear(N, 1, bias=False)
        self.form = form

    def forward(self, x):
        x = torch.tanh(self.inlet(x))
        mixed = getattr(self, self.form)(x, self.router(x))
        return self.outlet(x + self.shared(x) + mixed)[:, 0]

    def soft(self, x, logits):
        gates = logits.softmax(-1)
        return sum(gates[:, e:e + 1] * expert(x) for e, expert in enumerate(self.experts))

    def stack(self, x, logits):
        made = torch.stack([expert(x) for expert in self.experts], 1)
        return (logits.softmax(-1)[..., None] * made).sum(1)

    def chosen(self, x, logits):
        values, index = logits.topk(2)
        gates = torch.zeros_like(logits).scatter(1, index, values.softmax(-1))
        mixed = torch.zeros_like(x)
        for e, gate in enumerate(gates.unbind(1)):
            mixed += gate[:, None] * self.experts[e](x)
        return mixed

    def where(self, x, logits):
        values, index = logits.topk(2)
        weights, mixed = values.softmax(-1), torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slot = torch.where(index == e)
            mixed[rows] += weights[rows, slot, None] * expert(x[rows])
        return mixed

    def index_add(self, x, logits):
        """As Mixtral was written before its experts were one tensor."""
        values, index = logits.topk(2)
        weights, mixed = values.softmax(-1), torch.zeros_like(x)
        mask = F.one_hot(index, len(self.experts)).permute(2, 1, 0)
        for e in range(len(self.experts)):
            slot, rows = torch.where(mask[e])
            made = self.experts[e](x[None, rows].reshape(-1, x.shape[-1]))
            mixed.index_add_(0, rows, made * weights[rows, slot, None])
        return mixed

    def counted(self, x, logits):
        """As DeepSeek's."""
        values, index = logits.topk(2)
        weights, mixed = values.softmax(-1), torch.zeros_like(x)
        counts = torch.bincount(index.flatten(), minlength=len(self.experts)).tolist()
        for e, expert in enumerate(self.experts):
            if counts[e]:
                rows, slot = torch.where(index == e)
                mixed[rows] += expert(x[rows]) * weights[rows, slot, None]
        return mixed

    def walked(self, x, logits):
        gates = logits.softmax(-1)
        return sum(gates[:, int(e), None] * one(x) for e, one in self.experts.named_children())

    def found(self, x, logits):
        experts = [one for one in self.experts.modules() if isinstance(one, Expert)]
        gates = logits.softmax(-1)
        return sum(gates[:, e, None] * one(x) for e, one in enumerate(experts))

    def masked(self, x, logits):
        values, index = logits.topk(2)
        weights, mixed = values.softmax(-1), torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            mine = index == e
            rows = mine.any(-1)
            mixed[rows] += (weights * mine).sum(-1)[rows, None] * expert(x[rows])
        return mixed


class Stacked(Listed):
    """The same, with a tensor for all experts and gates that are 0 for those that are not
    chosen."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        experts, self.experts = self.experts, nn.Module()
        for name in ("up", "down"):
            tensor = torch.stack([getattr(one, name).weight.detach() for one in experts])
            setattr(self.experts, name, nn.Parameter(tensor))

    def forward(self, x):
        x = torch.tanh(self.inlet(x))
        gates = self.router(x)
        if self.form in ("soft", "stack"):
            gates = gates.softmax(-1)
        else:
            values, index = gates.topk(2)
            gates = torch.zeros_like(gates).scatter(1, index, values.softmax(-1))
        made = torch.einsum("pn,emn->pem", x, self.experts.up).relu() * gates[..., None]
        mixed = torch.einsum("pem,enm->pn", made, self.experts.down)
        return self.outlet(x + self.shared(x) + mixed)[:, 0]


FORMS = ("soft", "stack", "chosen", "where", "index_add", "counted", "walked", "found", "masked")


def plan_of(kind, form="index_add", word="mssp"):
    return dmft.torch.plan(lambda N, E: kind(N, E, form), ROWS, {"N": 8, "E": 4}, word,
                           widths=WIDTHS)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_outputs_and_gradients_are_those_of_the_module_at_a_third_size(form, bias):
    mine = dmft.torch.import_module(lambda N, E: Listed(N, E, form, bias=bias), ROWS, WIDTHS)
    assert mine._builds.others(mine._builds.third()) == [24, 12]
    assert mine.difference < 1e-10
    assert {"experts.*.up.weight", "router.weight"} <= set(mine.differences)
    assert mine.unused == []


def numbers_of(plan):
    """All laws of a plan but Muon's, which takes the matrices of a list alone, by the names that a
    stack has."""
    return {entry["names"][0].replace("s.0", "s").removesuffix(".weight"):
            {**{key: entry[key] for key in ("sgd", "adam", "eps")}, "parts": [
                [one["own"], one["std"], one["equal"] is not None or "first" in one]
                for one in entry["parts"]]} for entry in plan._entries}


@pytest.mark.parametrize("form, word", [("soft", "mssp"), ("soft", "mup"), ("index_add", "mssp"),
                                        ("index_add", "mup"), ("index_add", "sp")])
def test_a_plan_is_that_of_the_same_experts_as_one_tensor(form, word):
    listed, stacked = (plan_of(kind, form, word) for kind in (Listed, Stacked))
    assert numbers_of(listed) == numbers_of(stacked) and listed.notes == stacked.notes
    for plan, has in ((listed, True), (stacked, False)):
        assert all((entry["muon"] is not None) == has for entry in plan._entries
                   if entry["names"][0].startswith("experts"))
    sizes = {"N": 32, "E": 16}
    assert listed.sizes(Listed(32, 16, form)) == stacked.sizes(Stacked(32, 16, form)) == sizes


def test_wide_experts_start_alike_and_scale_as_one_tensor():
    """Regime III: in MSSP all start as the first one, in a list of any length."""
    plans = [dmft.torch.plan(lambda N, E, kind=kind: kind(N, E, "soft", units=2 * N), ROWS,
                             {"N": 8, "E": 4}, widths=WIDTHS) for kind in (Listed, Stacked)]
    assert numbers_of(plans[0]) == numbers_of(plans[1])
    found = []
    for kind, plan in zip((Listed, Stacked), plans):
        torch.manual_seed(0)
        model = plan.initialize(kind(16, 12, "soft", units=32))
        found.append([model, torch.optim.SGD(plan.groups(model, 0.1, optimizer="sgd"))])
    listed, stacked = (model for model, _ in found)
    assert torch.equal(listed.experts[0].up.weight, listed.experts[11].up.weight)
    for step in range(3):
        torch.testing.assert_close(listed(ROWS), stacked(ROWS), rtol=1e-4, atol=1e-5)
        for model, optimizer in found:
            optimizer.zero_grad()
            model(ROWS).square().mean().backward()
            optimizer.step()
    assert not torch.equal(listed.experts[0].up.weight, listed.experts[11].up.weight)


def test_blocks_and_experts_may_both_be_lists_that_grow(tmp_path):
    class Deep(nn.Module):
        def __init__(self, N, E, L):
            super().__init__()
            self.inlet, self.outlet = nn.Linear(7, N), nn.Linear(N, 1, bias=False)
            self.blocks = nn.ModuleList(Listed(N, E, "where") for _ in range(L))
            for block in self.blocks:
                del block.inlet, block.outlet, block.shared

        def forward(self, x):
            h = self.inlet(x)
            for block in self.blocks:
                h = h + block.where(torch.tanh(h), block.router(h))
            return self.outlet(h)[:, 0]

    plan = dmft.torch.plan(Deep, ROWS, {"N": 8, "E": 4, "L": 2}, widths={**WIDTHS, "L": (2, 4)})
    plan.save(tmp_path / "plan.json")
    plan = dmft.torch.Plan.load(tmp_path / "plan.json")
    model = Deep(16, 6, 5)
    assert plan.sizes(model) == {"N": 16, "E": 6, "L": 5}
    groups = plan.groups(plan.initialize(model), 0.1)
    rates = {id(one): group["lr"] for group in groups for one in group["params"]}
    assert len(rates) == len(list(model.parameters()))
    down = [rates[id(e.down.weight)] for block in model.blocks for e in block.experts]
    assert down == pytest.approx([0.1 * (4 / 6) * (2 / 5)] * 30)


def test_weights_go_into_the_network_and_back():
    mine = dmft.torch.import_module(lambda N, E: Listed(N, E, "where"), ROWS, WIDTHS)
    model, other = (Listed(16, 8, "where").double() for _ in range(2))
    mine.store(mine.load(model), other)
    for (name, one), two in zip(model.named_parameters(), other.parameters()):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-14)
    assert {"experts.3.up.weight", "router.weight"} <= set(mine.names)
    groups = mine.groups("adam", 0.1, model)
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    check = mine.check(mine.groups("adam", 0.1))
    assert max(check.outputs.differences) < 1e-10
    assert "e_down" in mine.as_trained(lambda m: torch.optim.AdamW(m.parameters(), 1e-3)).lua


@pytest.mark.parametrize("growing", [False, True])
def test_a_list_of_parameters_may_have_none(growing):
    class Biased(nn.Module):
        def __init__(self, N):
            super().__init__()
            self.inlet, self.outlet = nn.Linear(7, N, bias=False), nn.Linear(N, 1, bias=False)
            self.biases = nn.ParameterList([nn.Parameter(torch.randn(N)), *[None] * (N if growing
                                                                                     else 1)])

        def forward(self, x):
            return self.outlet(torch.tanh(self.inlet(x) + self.biases[0]))[:, 0]

    if not growing:
        assert dmft.torch.import_module(Biased, ROWS, WIDTHS["N"]).difference < 1e-10
        return
    with pytest.raises(dmft.InputError, match="biases, which has more .*several classes or shapes"):
        dmft.torch.import_module(Biased, ROWS, WIDTHS["N"])


class Unlike(Listed):
    """Lists that are no experts of one kind."""

    def __init__(self, N, E, form):
        super().__init__(N, E, form)
        if form == "kinds":
            self.experts[0] = nn.Linear(N, N)
        if form == "dictionary":
            self.experts = nn.ModuleDict({f"e{e}": one for e, one in enumerate(self.experts)})
        for one in self.experts if form == "tied" else ():
            one.down.weight = self.shared.down.weight

    def kinds(self, x, logits):
        return self.soft(x, logits)

    tied = kinds

    def dictionary(self, x, logits):
        return sum(gate[:, None] * expert(x) for gate, expert in zip(logits.softmax(-1).unbind(1),
                                                                      self.experts.values()))

    def twice(self, x, logits):
        return self.soft(x, logits) + self.experts[0](x.tanh())

    def one_hot(self, x, logits):
        loads = F.one_hot(logits.topk(2).indices, len(self.experts)).double().sum(1).mean(0)
        return self.soft(x, logits) * (loads * logits.softmax(-1)).sum(-1, keepdim=True)

    def by_loop(self, x, logits):
        return self.soft(x, logits) * sum(one.square() for one in logits.unbind(1))[:, None]

    def by_data(self, x, logits):
        return self.experts[int(logits.mean(0).argmax())](x)

    def by_number(self, x, logits):
        return sum(expert(x) / (1 + e) for e, expert in enumerate(self.experts))

    def of_rows(self, x, logits):
        index, mixed = logits.topk(2).indices, torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, _ = torch.where(index == e)
            made = expert(x[rows])
            mixed[rows] += made - made.mean(0)
        return mixed


@pytest.mark.parametrize("form, sentence", [
    ("kinds", "has members of several classes or shapes; make it .* by counts="),
    ("dictionary", "experts, which has more members at the larger size, is a ModuleDict"),
    ("tied", "experts.0.down.weight is a parameter of something else, too"),
    ("twice", r"an expert is used by itself \(.*test_listed_experts.py:\d+: .*by counts="),
    ("by_data", "an expert is used by itself"), ("by_number", "go with the number of an expert"),
    ("of_rows", "another value than one by one"), ("by_loop", "at the larger one; .*along an axis"),
    ("one_hot", r"a one_hot of a growing number of experts; .*scatter\(-1, index, 1.0\)")])
def test_experts_that_are_not_alike_are_refused(form, sentence):
    with pytest.raises(dmft.InputError, match=sentence):
        dmft.torch.import_module(lambda N, E: Unlike(N, E, form), ROWS, WIDTHS)


@pytest.mark.parametrize("form", ["kinds", "dictionary", "tied", "twice", "by_data",
                                  "by_number"])
def test_no_plan_is_made_of_experts_that_are_not_alike(form):
    with pytest.raises(dmft.InputError):
        plan_of(Unlike, form)
