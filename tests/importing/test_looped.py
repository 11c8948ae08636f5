"""Programs of many experts and blocks: the text of few with loops, which is that of any number."""
import functools
import itertools
import types

import dmft
import dmft.torch
import modules
import pytest
import torch
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.few import same_network
from dmft.torch.importing.rolling import rolled
from test_plan_counts import CASES, WIDTHS, few_of

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
COUNTS = {"E": 256, "L": 60}
SETTINGS = {"data.source": "gaussian", "data.inputs": 4, "data.dimension": 3,
            "reference.widths": 8}


def imported(name, **more):
    return dmft.torch.import_module(few_of(CASES[name]), modules.numbers(200), WIDTHS,
                                    counts=COUNTS, **more)


@pytest.mark.parametrize("name, third", [
    ("listed", {"E": 7, "L": 6}), ("shared", {"E": 6, "L": 7}), ("top 4", {"E": 9, "L": 4}),
    ("every other one", {"E": 6, "L": 10}), ("dense first", {"E": 6, "L": 6}),
    ("one list", {"E": 6, "L": 6})])
def test_is_the_module_with_numbers_that_were_not_traced(name, third):
    """looped compares with the import of few itself."""
    mine = imported(name)
    text = mine.looped.lua
    assert len(text) < 1.2 * len(mine.network.lua) + 300
    assert 'local E, L = key("E", 256), key("L", 60)' in text and text.count("\nfor ") >= 1
    other = dmft.torch.import_module(lambda N: CASES[name](N, *third.values()),
                                     modules.numbers(400), WIDTHS["N"], check=False)
    same_network(types.SimpleNamespace(settings=mine.settings, network=other.network,
                                   _builds=mine._builds), mine.looped, third)
    with pytest.raises(Gap, match="another network"):
        same_network(types.SimpleNamespace(settings=mine.settings, network=other.network,
                                       _builds=mine._builds), mine.looped, third | {"L": 2})


def test_every_function_takes_it_with_any_numbers():
    mine = imported("listed")
    keys = mine.settings | {"solver.sites": 32, "solver.replicates": 1, "training.steps": 2,
                            "data.inputs": 3, "reference.widths": 8, "reference.seeds": 1,
                            "program.E": 5, "program.L": 2}
    run = dmft.solve(keys, network=mine.looped, progress=False)
    assert len(run["reference/N0008"]["loss"]) == 2
    labels = {one.label for one in dmft.describe(keys, network=mine.looped).limit.matrices}
    assert "layers.1.experts.4.down.weight" in labels and "norms.2.weight" in labels
    for number in (3.5, 0):
        with pytest.raises(dmft.InputError, match="program.E must be a whole number from 1 on"):
            dmft.describe(keys | {"program.E": number}, network=mine.looped)
    with pytest.raises(dmft.InputError, match="more than 20000 operations"):
        dmft.describe(keys | {"program.E": 256, "program.L": 60}, network=mine.looped)


def test_mixtral_of_transformers_has_loops():
    transformers = pytest.importorskip("transformers")

    def build(N, E, L):
        return transformers.MixtralForCausalLM(transformers.MixtralConfig(
            vocab_size=16, hidden_size=N, intermediate_size=2 * N, num_attention_heads=2,
            num_key_value_heads=2, num_hidden_layers=L, num_local_experts=E, num_experts_per_tok=2,
            max_position_embeddings=8))
    mine = dmft.torch.import_module(build, modules.letters(), (16, 32),
                                    counts={"E": 8, "L": 32}, output=lambda m, x: m(x).logits)
    found = dmft.describe(mine.settings | {"reference.widths": 16}, network=mine.looped)
    labels = [one.label for one in found.networks[0].matrices]
    for block in range(32):
        assert labels.count(f"model.layers.{block}.mlp.experts.down_proj") == 8


def test_what_has_no_loops_is_refused_in_a_sentence():
    with pytest.raises(dmft.InputError, match="no loops over E and L: .* starts are drawn"):
        imported("stacked").looped
    mine = dmft.torch.import_module(lambda N: CASES["listed"](N, 3, 2), modules.numbers(200),
                                    (16, 32))
    with pytest.raises(dmft.InputError, match="looped: import_module has no counts"):
        mine.looped
    mine = dmft.torch.import_module(few_of(CASES["listed"]), modules.numbers(200), WIDTHS,
                                    counts={"top": 256, "L": 60})
    with pytest.raises(dmft.InputError, match="has the name top, which"):
        mine.looped


def written(E, L, factor=lambda E, L: 1 / E, start=lambda E, L: [0.0] * E):
    """A program with all that may go with the counts; names of 10 and more are no longer than
    others by more than a digit, and one is that of a value."""
    net = dmft.Network()
    stream = net.population("v1", label="v2 and 3")
    h = net.read_in(stream, "W")
    for block in range(L):
        s = net.bias(net.look(h, E, f"Q_{block}"), start(E, L), f"b_{block}")
        p = net.softmax(s, top=2)
        total = None
        for e in range(E):
            units = net.population(f"u_{block}_{e}", size=2)
            y = net.map(net.silu(net.map(h, units, f"in_{block}_{e}")), stream,
                        f"out_{block}_{e}", label=f"b.{block}.e.{e}", s_f=L ** -0.5)
            total = p[e] * y if total is None else total + p[e] * y
        net.kernel(h, f"K_{block}")
        h = h + factor(E, L) * total
    net.read_out(h, "w")
    return net


def texts(grid, **more):
    return {corner: written(*(pair[one] for pair, one in zip(grid.values(), corner)), **more).lua
            for corner in itertools.product((0, 1), repeat=2)}


@pytest.mark.parametrize("E, L", [(2, 1), (3, 5), (4, 4), (6, 12), (13, 3)])
@pytest.mark.parametrize("factor", [lambda E, L: 1 / E, lambda E, L: 0.3 * E ** 0.5 / L,
                                    lambda E, L: 7.0, lambda E, L: 2 * E - 3 * L + E * L])
def test_numbers_are_those_of_a_program_that_is_written_out(E, L, factor):
    grid = {"E": (4, 6), "L": (4, 5)}
    net = dmft.Network()
    net.take(rolled(texts(grid, factor=factor), grid, COUNTS))
    builds = types.SimpleNamespace(widths=(8, 16))
    same_network(types.SimpleNamespace(settings=SETTINGS, network=written(E, L, factor=factor),
                                   _builds=builds), net, {"E": E, "L": L})


@pytest.mark.parametrize("more", [{"factor": lambda E, L: 1.5 + L * L},
                                  {"start": lambda E, L: [0.1 * k for k in range(E)]}])
def test_numbers_that_follow_no_law_are_refused(more):
    grid = {"E": (4, 6), "L": (4, 5)}
    with pytest.raises(Gap):
        rolled(texts(grid, **more), grid, COUNTS)


class Kept(torch.nn.Module):
    """Blocks of experts, of which `top` are chosen; some blocks have a layer more."""

    def __init__(self, N, E, L, top=2, more=()):
        super().__init__()
        layer = functools.partial(torch.nn.Linear, bias=False)
        self.read, self.head, self.top = layer(modules.NUMBERS, N), layer(N, 1), top
        self.routers = torch.nn.ModuleList(layer(N, E) for _ in range(L))
        self.experts = torch.nn.ModuleList(
            torch.nn.ModuleList(layer(N, N) for _ in range(E)) for _ in range(L))
        self.extra = torch.nn.ModuleDict({str(k): layer(N, N) for k in more})

    def forward(self, x):
        x = self.read(x)
        for k, (router, experts) in enumerate(zip(self.routers, self.experts)):
            gates, chosen = router(x).softmax(-1).topk(self.top, -1)
            y = torch.zeros_like(x)
            for e, expert in enumerate(experts):
                row, slot = torch.where(chosen == e)
                y.index_add_(0, row, expert(x[row]) * gates[row, slot, None])
            x = torch.tanh(x + y)
            if str(k) in self.extra:
                x = x + self.extra[str(k)](x)
        return self.head(x)[:, 0]


WHOLE = {"min(8, E)": (lambda N, E, L: Kept(N, E, L, min(8, E)), {"E": 9, "L": 3}),
         "one of six": (lambda N, E, L: Kept(N, E, L, more=range(5, L, 6)), {"E": 3, "L": 6}),
         "two first": (lambda N, E, L: Kept(N, E, L, more=range(2)), {"E": 3, "L": 3})}


@pytest.mark.parametrize("name", WHOLE)
def test_there_are_as_many_as_the_whole_module_needs(name):
    build, traced = WHOLE[name]
    mine = dmft.torch.import_module(build, modules.numbers(400), WIDTHS,
                                    counts={"E": 129, "L": 60})
    assert mine.traced == traced


def test_a_module_that_is_another_with_all_is_refused():
    with pytest.raises(dmft.InputError, match="leave out of counts .* E = 129, .* the module has "
                       "top = 11, and modules of few of them say"):
        dmft.torch.import_module(lambda N, E, L: Kept(N, E, L, int(E ** 0.5)), modules.numbers(400),
                                 WIDTHS, counts={"E": 129, "L": 60})


def test_a_module_that_is_made_with_numbers_alone_is_not_compared_and_said():
    def build(N, E, L):
        module = Kept(N, E, L)
        module.largest = float(module.head.weight.abs().max())      # the device meta has none
        return module
    with pytest.warns(dmft.NoteWarning, match="with L = 8 the module is not compared with those"):
        dmft.torch.import_module(build, modules.numbers(200), WIDTHS, counts={"E": 16, "L": 8})


@pytest.mark.parametrize("name", ["end", "v1", "i0", "all"])
def test_names_of_a_text_with_loops_are_no_names_of_counts(name):
    mine = dmft.torch.import_module(Kept, modules.numbers(200), WIDTHS, counts={name: 16, "L": 8})
    with pytest.raises(dmft.InputError, match=f"looped: counts has the name {name}, which"):
        mine.looped


def test_a_build_of_one_width_is_refused_by_name():
    with pytest.raises(dmft.InputError, match="modules of the same sizes at widths 16 and 32"):
        dmft.torch.import_module(lambda N: Kept(16, 3, 2), modules.numbers(200), (16, 32))
