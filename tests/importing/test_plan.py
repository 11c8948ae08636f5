"""dmft.torch.plan: laws beside those of the papers and of dmft.recipe, and what a training script
does with a plan."""
import json
import os
import subprocess
import sys
import warnings

import dmft
import dmft.torch
import modules
import pytest
import torch
from dmft.power import Law
from torch import nn

WIDTHS = {"N": (16, 32), "M": (4, 8), "E": (8, 16)}
KEYS = ("std", "sgd", "adam", "eps")


class Papers(nn.Module):
    """One layer of experts as How to Scale Mixture-of-Experts writes it: sigmoid gates, a sum over
    M experts of E units that is divided by M, and no factor elsewhere."""

    def __init__(self, N, M=4, E=3):
        super().__init__()
        self.read, self.Q = nn.Linear(modules.NUMBERS, N, bias=False), nn.Linear(N, M, bias=False)
        self.W_in = nn.Parameter(torch.randn(M, E, N) * N ** -0.5)
        self.W_out = nn.Parameter(torch.randn(M, N, E) * E ** -0.5)
        self.w = nn.Linear(N, 1, bias=False)

    def bottom(self, x):
        """The stream, which only the experts and the router read."""
        return torch.tanh(self.read(x))

    def forward(self, x):
        x = self.bottom(x)
        units = torch.einsum("pn,mun->pmu", x, self.W_in).tanh()
        gated = units * self.Q(x).sigmoid()[..., None]
        return self.w(torch.einsum("pmu,mnu->pn", gated, self.W_out) / len(self.W_in))[:, 0]


class Deep(Papers):
    """The same above a hidden matrix, whose rows a router's are not to be taken for."""

    def __init__(self, N, M=4, E=3):
        super().__init__(N, M, E)
        self.hidden = nn.Linear(N, N, bias=False)

    def bottom(self, x):
        return self.hidden(super().bottom(x))


REGIMES = {"regime1": (lambda N, E: Papers(N, 4, E), ("N", "E")),
           "regime2": (lambda N, M: Papers(N, M, 3), ("N", "M")),
           "regime3": (Papers, ("N", "M", "E"))}
# Table B.1: powers of n, of which all sizes that grow are multiples. Where it has two entries these
# are muP's and MSSP's; None is a router that starts at 0. Rows: std, lr of SGD and of Adam, eps.
TABLE = {"regime1": {"Q.weight": [(-1, None), -1, -1, 0], "W_in": [-.5, 0, -1, -1],
                     "W_out": [-.5, 0, -1, -1]},
         "regime2": {"Q.weight": [-.5, 0, -1, -1], "W_in": [-.5, 0, -1, -1],
                     "W_out": [(0, .5), 2, 0, -2]},
         "regime3": {"Q.weight": [-.5, 0, -1, -1], "W_in": [-.5, 1, -1, -2],
                     "W_out": [-.5, 1, -1, -2]}}
# The network of dmft-recipe, with the 1/M that the papers put in front of the sum.
NETWORKS = {"regime1": {"network.experts": 4, "network.expert_layers": 2}, "regime2": {},
            "regime3": {}}


@pytest.fixture(scope="module", name="plans")
def made_plans():
    """{(regime, word): plan}."""
    return {(regime, word): plan_of(build, sizes, word) for regime, (build, sizes) in
            REGIMES.items() for word in ("mup", "mssp", "sp")}


def plan_of(build, sizes, word="mssp", example=None, **more):
    """A plan with the base at the smaller widths."""
    widths = {size: WIDTHS[size] for size in sizes}
    return dmft.torch.plan(build, modules.numbers() if example is None else example,
                           {size: pair[0] for size, pair in widths.items()}, word, widths=widths,
                           **more)


def laws(plan, name):
    """{number: law} of a parameter of a plan."""
    (entry,) = [one for one in plan._content["parameters"] if name in one["names"]]
    (part,) = entry["parts"]
    return {"std": part["std"], **{key: entry[key] for key in KEYS[1:]}}


@pytest.mark.parametrize("word", ["mup", "mssp"])
@pytest.mark.parametrize("regime", TABLE)
def test_modules_in_the_papers_form_have_both_columns_of_their_table(plans, regime, word):
    plan = plans[regime, word]
    for name, row in TABLE[regime].items():
        for (key, law), printed in zip(laws(plan, name).items(), row):
            if isinstance(printed, tuple):
                printed = printed[word == "mssp"]
            if printed is not None:
                assert sum(law.values()) == printed, (name, key, law)
    starts = {name: [part["equal"] for one in plan._content["parameters"] if name in one["names"]
                     for part in one["parts"]] for name in ("W_in", "W_out", "Q.weight")}
    tied = regime == "regime3" and word == "mssp"
    assert starts == {"W_in": [0 if tied else None], "W_out": [0 if tied else None],
                      "Q.weight": [None]}
    assert not plan.notes


@pytest.mark.parametrize("word", ["mup", "mssp"])
@pytest.mark.parametrize("regime", TABLE)
def test_the_recipe_of_an_import_has_a_law_for_each_size(plans, regime, word):
    build, sizes = REGIMES[regime]
    widths = {size: WIDTHS[size] for size in sizes}
    mine = dmft.torch.import_module(build, modules.numbers(), widths)
    found = mine.recipe({size: pair[0] for size, pair in widths.items()}, word)
    assert found._content == plans[regime, word]._content


@pytest.mark.parametrize("word", ["mup", "mssp"])
@pytest.mark.parametrize("regime", TABLE)
def test_laws_are_those_of_the_recipe_of_our_network(plans, regime, word):
    recipe = dmft.recipe({"network.model": regime, "network.gate": "sigmoid", **NETWORKS[regime]},
                         parameterizations=[word])
    experts = {"regime1": {}, "regime2": {"W_out": Law(1.0, {"M": -1})},
               "regime3": {"W_out": Law(1.0, {"M": -1}), "P_out": Law(1.0, {"M": -1})}}
    recipe = recipe.used_times(experts[regime])
    names = {"W1": "read.weight", "w": "w.weight", "Q": "Q.weight", "W_in": "W_in",
             "W_out": "W_out", "W2": "W_in", "W3": "W_out", "P_in": "W_in", "P_out": "W_out"}
    size = {"N": "N", "M": "M", "N_e": "E"}
    seen = 0
    for one in recipe.tensors:
        if one.name not in names:       # A_in and A_out of regime III, which do not learn
            continue
        mine = laws(plans[regime, word], names[one.name])
        for key in KEYS:
            law = getattr(one, key)
            if key == "std" and not law.coefficient:
                continue                # P_in, P_out; a router that starts at 0
            grown = sum(up for one_size, up in law.powers.items()
                        if size.get(one_size) in plans[regime, word].base)
            assert sum(mine[key].values()) == grown, (one.name, key)
            seen += 1
    assert seen >= 16


@pytest.mark.parametrize("word", ["mup", "mssp"])
@pytest.mark.parametrize("regime", ["regime2", "regime3"])
def test_a_hidden_matrix_beneath_is_no_router(plans, regime, word):
    deep = {"regime2": lambda N, M: Deep(N, M, 3), "regime3": Deep}
    plan = plan_of(deep[regime], REGIMES[regime][1], word)
    for name in TABLE[regime]:
        assert laws(plan, name) == laws(plans[regime, word], name)


def test_sp_changes_nothing(plans):
    build, sizes = REGIMES["regime3"]
    model = build(64, 8, 8)
    before = {name: one.clone() for name, one in model.named_parameters()}
    plans["regime3", "sp"].initialize(model)
    assert all(torch.equal(one, before[name]) for name, one in model.named_parameters())
    (group,) = plans["regime3", "sp"].groups(model, lr=0.1, weight_decay=0.2)
    assert (group["lr"], group["weight_decay"], group["eps"]) == (0.1, 0.2, 1e-8)


def test_your_numbers_hold_at_the_base(plans):
    build, sizes = REGIMES["regime2"]
    plan, model = plans["regime2", "mssp"], build(16, 4)
    before = {name: one.clone() for name, one in model.named_parameters()}
    assert plan.sizes(model) == {"N": 16, "M": 4} == plan.base
    plan.initialize(model)
    assert all(torch.equal(one, before[name]) for name, one in model.named_parameters())
    assert len(plan.groups(model, lr=0.1)) == 1


def test_numbers_beyond_the_base_follow_the_laws(plans):
    plan, model = plans["regime2", "mssp"], Papers(64, 8, 3)        # N x 4, M x 2
    torch.manual_seed(0)
    before = {name: one.clone() for name, one in model.named_parameters()}
    plan.initialize(model)
    # The module draws N^-1/2 for Q, W_in and w, and a constant for read and W_out.
    factor = {"read.weight": 1, "Q.weight": 1, "W_in": 1, "W_out": 2 ** 0.5, "w.weight": 0.5}
    for name, one in model.named_parameters():
        torch.testing.assert_close(one, factor[name] * before[name])
    rates = {id(p): group for group in plan.groups(model, lr=0.1, weight_decay=0.3)
             for p in group["params"]}
    lr = {"read.weight": 1, "Q.weight": 1 / 4, "W_in": 1 / 4, "W_out": 1, "w.weight": 1 / 4}
    eps = {"read.weight": 1 / 4, "Q.weight": 1 / 2, "W_in": 1 / 2, "W_out": 1 / 8, "w.weight": 1}
    for name, one in model.named_parameters():
        group = rates[id(one)]
        assert group["lr"] == pytest.approx(0.1 * lr[name], rel=1e-12)
        assert group["eps"] == pytest.approx(1e-8 * eps[name], rel=1e-12)
        assert group["lr"] * group["weight_decay"] == pytest.approx(0.03, rel=1e-12)
    sgd = {id(p): group["lr"] for group in plan.groups(model, 0.1, optimizer="sgd")
           for p in group["params"]}
    assert sgd[id(model.W_out)] == pytest.approx(0.1 * 8, rel=1e-12)        # N M


def test_equal_starts_are_those_of_the_first_expert(plans):
    plan, model = plans["regime3", "mssp"], Papers(32, 8, 16)
    first = model.W_in[0].clone()
    plan.initialize(model)
    for one in model.W_in:
        torch.testing.assert_close(one, first)
    assert model.Q.weight.std(0).min() > 0


HIDDEN = """
import sys
for name in ("numpy", "h5py", "xarray", "scipy", "dmft"):
    sys.modules[name] = None            # importing it fails
sys.path.insert(0, sys.argv[1])
import torch
from plans import Plan
plan = Plan.load(sys.argv[2])
nn = torch.nn
model = nn.Sequential(nn.Linear(7, 64), nn.Tanh(), nn.Linear(64, 1, bias=False))
plan.initialize(model)
optimizer = torch.optim.AdamW(plan.groups(model, lr=1e-2, weight_decay=0.1))
model(torch.randn(3, 7)).sum().backward()
optimizer.step()
print(plan.sizes(model), len(optimizer.param_groups))
try:
    Plan.load("nowhere.json")
except ValueError as error:
    print(error)
"""


def small_net(N):
    """The module of the script above."""
    return nn.Sequential(nn.Linear(7, N), nn.Tanh(), nn.Linear(N, 1, bias=False))


@pytest.mark.filterwarnings("ignore:.*NumPy:UserWarning")
def test_a_plan_needs_pytorch_alone(tmp_path):
    file = tmp_path / "plan.json"
    plan_of(small_net, ("N",), example=modules.numbers(),
            output=lambda m, x: m(x)[:, 0]).save(str(file))
    folder = os.path.dirname(dmft.torch.plans.__file__)
    script = tmp_path / "script.py"
    script.write_text(HIDDEN)
    run = subprocess.run([sys.executable, "-P", str(script), folder, str(file)],
                         capture_output=True, text=True, cwd=tmp_path,
                         env={**os.environ, "PYTHONPATH": ""})
    assert run.stdout.splitlines() == ["{'N': 64} 2", "nowhere.json: No such file or directory"], \
        run.stderr


def test_a_saved_plan_is_the_same(plans, tmp_path):
    plan = plans["regime2", "mup"]
    plan.save(str(tmp_path / "plan.json"))
    again = dmft.torch.Plan.load(str(tmp_path / "plan.json"))
    assert again._content == json.loads(json.dumps(plan._content)) and str(again) == str(plan)


def separate(N, power=0.5, d=None):
    """Attention whose matrices are separate tensors, one head."""
    class Separate(nn.Module):
        def __init__(self):
            super().__init__()
            self.letter = nn.Embedding(modules.LETTERS, N)
            for name in ("q", "k", "v", "out"):
                setattr(self, name, nn.Linear(N, N, bias=False))
            self.head = nn.Linear(N, modules.LETTERS, bias=False)

        def forward(self, tokens):
            h = self.letter(tokens)
            logits = self.q(h) @ self.k(h).mT * (d or N) ** -power
            return self.head(h + self.out(logits.softmax(-1) @ self.v(h)))
    return Separate()


def test_a_factor_moves_into_the_matrices_beneath_it():
    plan = plan_of(separate, ("N",), example=modules.letters())
    assert not plan.notes
    over_d = plan_of(lambda N: separate(N, 1.0), ("N",), example=modules.letters())
    moved = {"std": -0.25, "sgd": -0.5, "adam": -0.25, "eps": 0.25}
    for name in ("q.weight", "k.weight"):
        mine, right = laws(plan, name), laws(over_d, name)
        for key in KEYS:
            assert mine[key].get("N", 0) == right[key].get("N", 0) + moved[key], (name, key)
    assert laws(plan, "v.weight") == laws(over_d, "v.weight")


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_moved_factor_trains_as_the_factor_itself(optimizer):
    """The module with d^-1/2 and its plan is the module with base^1/2/d and that one's plan, step
    by step; eps is small, since both gradients differ."""
    N, base = 64, 16
    plain = plan_of(separate, ("N",), example=modules.letters())
    mended = plan_of(lambda n: separate(n, 1.0, n / base ** 0.5), ("N",), example=modules.letters())
    losses, kind = [], "sgd" if optimizer is torch.optim.SGD else "adamw"
    for plan, build in ((plain, separate), (mended, lambda n: separate(n, 1.0, n / base ** 0.5))):
        torch.manual_seed(0)
        model = build(N).double()
        plan.initialize(model)
        made = optimizer(plan.groups(model, lr=0.5 if kind == "sgd" else 0.01, eps=1e-20,
                                     optimizer=kind))
        tokens = modules.letters()
        for _ in range(6):
            loss = nn.functional.cross_entropy(model(tokens)[:, :-1].transpose(1, 2), tokens[:, 1:])
            losses.append(loss.item())
            made.zero_grad()
            loss.backward()
            made.step()
    assert losses[5] < 0.99 * losses[0]
    torch.testing.assert_close(losses[:6], losses[6:], rtol=1e-6, atol=0)


def test_what_cannot_be_moved_is_said_with_its_line():
    with pytest.warns(dmft.NoteWarning, match=r"modules.py:\d+: y = F.scaled_dot"):
        plan = plan_of(modules.Transformer, ("N",), example=modules.letters())
    (note,) = plan.notes
    assert note.endswith("goes as N^0.5, which no scale of a matrix mends: multiply it by "
                         "(N/16)^-0.5")
    assert not plan_of(modules.MODULES["over_d"][0], ("N",), example=modules.letters()).notes


def test_powers_of_ones_own():
    own = {"second.*": {"std": -1, "lr": {"N": -2}}, "last.*": "mup"}
    plan = plan_of(modules.Perceptron, ("N",), own)
    assert laws(plan, "second.weight") == {"std": {"N": -1.0}, "sgd": {"N": -2.0},
                                           "adam": {"N": -2.0}, "eps": {}}
    assert laws(plan, "last.weight")["std"] == {"N": -1.0}
    assert laws(plan, "first.weight")["adam"] == {}


def test_a_start_that_is_no_power_is_measured():
    def build(N):
        model = small_net(N)
        nn.init.normal_(model[0].weight, std=(1 + N / 16) ** 0.5)
        return model
    plan = plan_of(build, ("N",), output=lambda m, x: m(x)[:, 0])
    torch.manual_seed(0)
    model = build(256)
    plan.initialize(model)
    assert model[0].weight.std().item() == pytest.approx(2 ** 0.5, rel=0.1)


def test_muon_takes_the_hidden_matrices():
    plan = plan_of(lambda N: modules.Perceptron(N, False), ("N",))
    model = modules.Perceptron(64, False)
    hidden, rest = plan.muon_groups(model, lr=0.02)
    (group,) = hidden
    assert [tuple(p.shape) for p in group["params"]] == [(128, 64)]
    assert group["lr"] == pytest.approx(0.02)           # n and m grow together
    others = plan.groups(model, lr=1e-3, only=rest)
    assert {id(p) for one in others for p in one["params"]} == \
        {id(model.first.weight), id(model.last.weight)}


class Wrapped(nn.Module):
    """A name as wrappers make it."""

    def __init__(self, model, name):
        super().__init__()
        self.add_module(name, model)


@pytest.mark.parametrize("wrapper", ["module", "_orig_mod", "_fsdp_wrapped_module"])
def test_names_of_wrappers_are_taken_off(plans, wrapper):
    plan, model = plans["regime2", "mssp"], Papers(64, 8, 3)
    whole = [(g["lr"], len(g["params"])) for g in plan.groups(model, lr=0.1)]
    inner = Wrapped(model, wrapper)
    assert [(g["lr"], len(g["params"])) for g in plan.groups(inner, lr=0.1)] == whole


BAD = {"no plan": (lambda p: p.initialize(nn.Linear(3, 4)), "the plan has no parameter weight"),
       "no module": (lambda p: p.groups([], lr=1), "the model is a list"),
       "other units": (lambda p: p.initialize(Papers(64, 8, 5)), "the plan is of another module"),
       "twice": (lambda p: p.initialize(p.initialize(Papers(64, 8, 3))), "was initialized before"),
       "meta": (lambda p: p.initialize(Papers(64, 8, 3).to("meta")), "on the meta device"),
       "optimizer": (lambda p: p.groups(Papers(64, 8, 3), 1, optimizer="rprop"), "must be one of"),
       "rate": (lambda p: p.groups(Papers(64, 8, 3), {"W_*": 1.0}), "no pattern of W_"),
       "no number": (lambda p: p.groups(Papers(64, 8, 3), "0.1"),
                     "a number of at least 0 is wanted"),
       "no folder": (lambda p: p.save("nowhere/plan.json"), "nowhere/plan.json: No such file"),
       "sizes": (lambda p: p.groups(Papers(64, 8, 3), 1, sizes={"N": 3}), "the plan has"),
       "size": (lambda p: p.groups(Papers(64, 8, 3), 1,
                                   sizes=p.sizes(Papers(64, 8, 3)) | {"N": 32}),
                "sizes: N is 32, and by the shapes of the model it is 64; give this, or no sizes"),
       "rule": (lambda p: p.muon_groups(Papers(64, 8, 3), 1, adjust_lr_fn="none"), "adjust_lr_fn")}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(plans, name):
    call, sentence = BAD[name]
    with pytest.raises(dmft.InputError, match=sentence):
        call(plans["regime2", "mssp"])


REFUSED = {"word": (lambda: plan_of(small_net, ("N",), "mupp"), "must be one of mssp mup sp"),
           "pattern": (lambda: plan_of(modules.Perceptron, ("N",), {"thrd": "mup"}),
                       "'thrd' fits no parameter"),
           "power": (lambda: plan_of(modules.Perceptron, ("N",), {"first.*": {"std": "N"}}),
                     "a power of N is wanted"),
           "number": (lambda: plan_of(modules.Perceptron, ("N",), {"first.*": {"beta": 1}}),
                      "none of std lr eps"),
           "base": (lambda: dmft.torch.plan(small_net, modules.numbers(), 256), "base: 256"),
           "size": (lambda: plan_of(lambda N, M: small_net(N), ("N", "M"),
                                    output=lambda m, x: m(x)[:, 0]), "M: no parameter"),
           "widths": (lambda: dmft.torch.plan(small_net, modules.numbers(), {"N": 64},
                                              widths={"M": (4, 8)}), "and base has"),
           "widths of a pair": (lambda: dmft.torch.plan(small_net, modules.numbers(), {"N": 64},
                                                        widths=(16, 32)), "two values of each"),
           "widths of a number": (lambda: dmft.torch.plan(
               small_net, modules.numbers(), {"N": 64}, widths={"N": 16}), "two values of each"),
           "no name": (lambda: dmft.torch.plan(small_net, modules.numbers(), {1: 64}), "base: ")}


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_that_cannot_be_is_refused_in_one_sentence(name):
    call, sentence = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(dmft.InputError, match=sentence):
            call()


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 7}'])
def test_what_is_no_plan_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(dmft.InputError, match="is no plan"):
        dmft.torch.Plan.load(str(tmp_path / "x.json"))
