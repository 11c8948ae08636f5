"""Experts in a list of growing length train as in their own loop, also by Muon, which takes the
matrix of each by itself, and have the limit of one tensor."""
import itertools
import warnings

import dmft
import dmft.torch
import numpy as np
import pytest
import torch
from dmft.run import describe
from dmft.scaling import scaling
from dmft.torch.importing.record import InDouble
from dmft.torch.inputs import ALONE
from dmft.torch.plans import MUON_RULES
from test_limit import approach
from test_listed_experts import ROWS, WIDTHS, Listed
from test_training import needs_muon, trained_alike
from torch import nn

WIDTH = 24                              # which was not traced: 12 experts
pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


class Parameters(Listed):
    """Matrices of experts in a ParameterList each."""

    def __init__(self, N, E):
        super().__init__(N, E, "mixed")
        del self.experts
        self.up, self.down = (nn.ParameterList(torch.randn(*shape) * N ** -0.5 for _ in range(E))
                              for shape in ((3, N), (N, 3)))

    def mixed(self, x, logits):
        values, index = logits.topk(2)
        weights, mixed = values.softmax(-1), torch.zeros_like(x)
        for e, (up, down) in enumerate(zip(self.up, self.down)):
            rows, slot = torch.where(index == e)
            mixed.index_add_(0, rows, (x[rows] @ up.T).relu() @ down.T * weights[rows, slot, None])
        return mixed


class Lists(Parameters):
    """The same as two lists of modules."""

    def __init__(self, N, E):
        super().__init__(N, E)
        self.up, self.down = (nn.ModuleList(nn.Linear(*pair) for _ in range(E))
                              for pair in ((N, 3), (3, N)))

    def mixed(self, x, logits):
        values, index = logits.topk(1)
        mixed, index = torch.zeros_like(x), index.squeeze(-1)
        for e, (up, down) in enumerate(zip(self.up, self.down)):
            rows = index == e
            if rows.any():
                mixed[rows] = down(up(x[rows]).relu()) * values[rows].sigmoid()
        return mixed


BUILDS = {"few": lambda N, E: Listed(N, E, "index_add", bias=True),
          "wide": lambda N, E: Listed(N, E, "where", units=2 * N, bias=True),
          "parameters": Parameters, "lists": Lists}


@pytest.fixture(scope="module")
def imported():
    made = {}

    def of(name):
        if name not in made:
            made[name] = dmft.torch.import_module(BUILDS[name], ROWS, WIDTHS)
        return made[name]
    return of


def by_dimension(module):
    """Decay of matrices alone: those of an expert have two dimensions, its biases one."""
    matrices = [one for one in module.parameters() if one.dim() > 1]
    others = [one for one in module.parameters() if one.dim() < 2]
    return torch.optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0.0}],
                             1e-2, eps=1e-6, weight_decay=0.1)


def by_muon(module, lr=0.05, **more):
    """Matrices of experts by Muon, the rest by AdamW."""
    hidden = [one for name, one in module.named_parameters()
              if "experts" in name and one.dim() == 2]
    rest = [one for one in module.parameters() if not any(one is other for other in hidden)]
    return [torch.optim.Muon(hidden, lr, **{"weight_decay": 0.1} | more),
            torch.optim.AdamW(rest, 1e-2, eps=1e-6, weight_decay=0)]


OPTIMIZERS = {"sgd": lambda m: torch.optim.SGD(m.parameters(), 0.05),
              "adam": lambda m: torch.optim.Adam(m.parameters(), 1e-2, eps=1e-6),
              "adamw": by_dimension}


@pytest.mark.parametrize("name, kind", [(name, kind) for name in ("few", "wide") for kind in
                         OPTIMIZERS] + [("parameters", "adamw"), ("lists", "adamw")])
def test_his_loop_and_ours_are_one(imported, name, kind):
    trained_alike(imported(name), BUILDS[name], OPTIMIZERS[kind], WIDTH)


@needs_muon
@pytest.mark.parametrize("more", [{"adjust_lr_fn": rule} for rule in MUON_RULES] + [
    {"nesterov": False, "momentum": 0.8, "weight_decay": 0}], ids=str)
def test_muon_takes_the_matrix_of_each_expert(imported, more):
    trained_alike(imported("wide"), BUILDS["wide"], lambda m: by_muon(m, **more), WIDTH)


@pytest.mark.parametrize("units, said", [(lambda N: 3, True), (lambda N: 2 * N, False)],
                         ids=["few", "wide"])
def test_experts_that_are_copies_are_said_where_a_network_draws_them(units, said):
    """Wide ones have a matrix for what they share."""
    def build(N, E):
        made = Listed(N, E, "soft", units=units(N))
        for one in made.experts:
            one.load_state_dict(made.experts[0].state_dict())
        return made
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        dmft.torch.import_module(build, ROWS, WIDTHS).as_trained(OPTIMIZERS["sgd"])
    notes = [str(one.message) for one in found]
    assert any("experts.*.up.weight" in one and "copied experts" in one
               for one in notes) == said, notes


@needs_muon
def test_muon_of_experts_of_few_units_is_refused(imported):
    with pytest.raises(dmft.InputError, match=r"experts.\*.up.weight: Muon takes .*of the rest"):
        imported("few").as_trained(by_muon)


def test_experts_that_are_moved_differently_are_refused(imported):
    def one_faster(module):
        return torch.optim.Adam([{"params": [one], "lr": 0.1 if "experts.2.up" in name else 0.01}
                                 for name, one in module.named_parameters()])
    for judged in (imported("few").as_trained, imported("few").check):
        with pytest.raises(dmft.InputError, match=r"experts.\*.up.* rate"):
            judged(one_faster)


def test_a_list_of_experts_approaches_the_limit(imported):
    mine = dmft.torch.import_module(lambda N, E: Listed(N, E, "soft"), ROWS,
                                    {"N": (16, 32), "E": (8, 16)})
    approach(mine, "sgd", rate=0.1)     # at .3 the fourth step has larger errors than a loss


# --- Muon's law in a plan ------------------------------------------------------------------------

@needs_muon
def test_a_plan_has_the_law_of_muon_that_the_language_has():
    """Along two directions, at three sizes each; wide experts, whose units grow too."""
    def build(N, E):
        return Listed(N, E, "soft", units=2 * N)
    plan = dmft.torch.plan(build, ROWS, {"N": 8, "E": 4}, widths=WIDTHS)
    for widths in (WIDTHS, {"N": (8, 16), "E": (2, 8)}):
        mine, ratios = dmft.torch.import_module(build, ROWS, widths), {}
        for N in (8, 16, 32):
            model = build(*mine._builds.others(N))
            network = describe(mine.settings | ALONE | {
                "reference.widths": N, "training.optimizer": "muon"}, network=mine.network)[N]
            for layer, rule in itertools.product(("up", "down"), MUON_RULES):
                (part,) = (one for one in mine.parts
                           if one.parameters == (f"experts.*.{layer}.weight",))
                weight = getattr(model.experts[1], layer).weight
                ours = scaling(network, network.matrix(part.name)).muon / abs(part.at(N))
                ratios.setdefault((layer, rule), []).append(
                    rates_of(plan, model, rule)[weight] * MUON_RULES[rule](*weight.shape) / ours)
        for name, found in ratios.items():
            assert found == pytest.approx([found[0]] * 3, rel=1e-9), name


def rates_of(plan, model, rule):
    groups, _ = plan.muon_groups(model, 0.1, adjust_lr_fn=rule)
    return {one: group["lr"] for group in groups for one in group["params"]}


@needs_muon
@pytest.mark.parametrize("word", ["mssp", "mup"])
def test_a_step_of_muon_moves_entries_as_far_as_one_of_adam(word):
    """Measured at three sizes, of gradients that one input makes, with each rule of the rate."""
    plan = dmft.torch.plan(BUILDS["few"], ROWS, {"N": 8, "E": 4}, word, widths=WIDTHS)
    found = {}
    for (N, E), rule in itertools.product(((8, 4), (32, 8), (64, 64)), MUON_RULES):
        model = BUILDS["few"](N, E).double()
        one, moved = model.experts[E - 1], []
        for made in (torch.optim.Muon(plan.muon_groups(model, 0.1, adjust_lr_fn=rule)[0],
                                      adjust_lr_fn=rule),
                     torch.optim.AdamW(plan.groups(model, 0.1))):
            weights = {layer: getattr(one, layer).weight for layer in ("up", "down")}
            before = {layer: V.detach().clone() for layer, V in weights.items()}
            for V in weights.values():
                V.grad = torch.ones_like(V)
            with InDouble():
                made.step()
            moved.append({layer: (V - before[layer]).abs().max().item()
                          for layer, V in weights.items()})
        for layer in ("up", "down"):
            found.setdefault((layer, rule), []).append(moved[0][layer] / moved[1][layer])
    for name, ratios in found.items():
        assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-6), name


def test_matrices_in_a_parameter_list_have_the_laws_of_modules():
    found = []
    for build, name in ((Parameters, "{}.0"), (lambda N, E: Listed(N, E, "index_add"),
                                               "experts.0.{}.weight")):
        plan = dmft.torch.plan(build, ROWS, {"N": 8, "E": 4}, widths=WIDTHS)
        model = build(32, 16)
        assert plan.sizes(model) == {"N": 32, "E": 16}
        assert sum(len(group["params"]) for group in plan.groups(model, 0.1)) == \
            len(list(model.parameters()))
        entries = {one["names"][0]: one for one in plan._entries}
        found.append([[entries[name.format(layer)][key] for key in ("sgd", "adam", "eps", "muon")]
                      for layer in ("up", "down")])
    assert found[0] == found[1]


# --- a matrix whose parts are of several sizes ----------------------------------------------------

class Packed(nn.Module):
    """Two branches, one twice as wide as the other, that are read in by one matrix."""

    def __init__(self, N):
        super().__init__()
        self.inlet, self.both = nn.Linear(7, N, bias=False), nn.Linear(N, 3 * N, bias=False)
        self.wide, self.narrow = (nn.Linear(m, 1, bias=False) for m in (2 * N, N))

    def forward(self, x):
        u, v = self.branches(torch.tanh(self.inlet(x)))
        return (self.wide(u.tanh()) + self.narrow(v.relu()))[:, 0]

    def branches(self, x):
        N = x.shape[-1]
        return self.both(x).split([2 * N, N], -1)


@needs_muon
def test_parts_of_several_sizes_are_refused_with_their_line():
    mine = dmft.torch.import_module(Packed, ROWS, (16, 32))
    with pytest.raises(dmft.InputError, match=r"both.weight: .*several sizes.*separate "
                                              r"parameters.*.both\(x\)"):
        mine.as_trained(lambda m: [torch.optim.Muon([m.both.weight]), torch.optim.AdamW(
            [m.inlet.weight, m.wide.weight, m.narrow.weight])])


@needs_muon
def test_every_part_moves_as_far_at_every_width():
    """Two widths and a third, gradients of the module itself, 12 modules each: the law of the
    packed matrix is that of both parts; one that is off is so by a power of 1/2 at least."""
    plan = dmft.torch.plan(Packed, ROWS, {"N": 16}, widths={"N": (16, 32)})
    widths, found, rows = (64, 128, 256), [], ROWS[:8].double()
    for N in widths:
        moved = []
        for seed in range(12):
            torch.manual_seed(seed)
            model = plan.initialize(Packed(N).double())
            x = torch.tanh(model.inlet(rows)).detach()
            before = model.branches(x)
            model(rows).square().mean().backward()
            with InDouble():
                torch.optim.Muon(plan.muon_groups(model, 0.05)[0], weight_decay=0).step()
            moved.append([(one - two).square().mean().sqrt().item()
                          for one, two in zip(before, model.branches(x))])
        moved = np.log(moved)
        found.append((moved.mean(0), moved.std(0, ddof=1) / len(moved) ** 0.5))
    (_, _), (middle, error), (large, last) = found
    assert (np.abs(large - found[0][0]) / np.log(4) < 0.1).all()
    assert (np.hypot(error, last) / np.log(2) < 0.1).all() and \
        (np.abs(large - middle) / np.log(2) < 0.1).all()
