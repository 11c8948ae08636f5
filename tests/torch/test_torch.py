"""dmft.torch: every network trained by dmft-solve and by PyTorch from the same weights, and faults
that the comparison must find. Run by make torch-test."""
import copy
import glob
import os
import re

import pytest
import torch
from common import OPTIMIZERS, ROOT, ROUND_OFF, SPARSE

import dmft
import dmft.torch
from dmft.torch import network, operations, rules, training

# data/text.ini reads a file that `make text` makes; its network is that of transformer.ini, and
# language_model.ini has a larger one, which takes half a minute. The normals of noisy_top.ini are
# dmft-solve's own (test_torch_modules.py: refused with a sentence).
INIS = [os.path.relpath(ini, ROOT) for folder in ("data", "examples")
        for ini in sorted(glob.glob(f"{ROOT}/{folder}/*.ini"))
        if not ini.endswith(("_compare.ini", "/text.ini", "/noisy_top.ini",
                             "/language_model.ini"))]
# Balanced draws over all directions of the inputs need networks that are wider.
WIDTH = {"data/fashion10.ini": 52, "data/residual_multi_index.ini": 24}


def compared(ini: str, N: int, **keys):
    return dmft.torch.verify(os.path.join(ROOT, ini) if ini.endswith(".ini") else ini, N,
                             **{"training.steps": 5} | keys)


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("ini", INIS)
def test_networks_of_all_inis(ini, optimizer):
    if ini == "data/regime1_adam.ini" and optimizer in ("gd", "momentum"):
        pytest.skip("has keys of Adam")
    if ini == "data/muon.ini" and optimizer != "muon":
        pytest.skip("has keys of Muon")
    decay = {} if optimizer == "adam" else {"training.weight_decay": 0.01}
    found = compared(ini, WIDTH.get(ini, 16), **{"training.optimizer": optimizer} | decay)
    assert found.largest < ROUND_OFF, found
    assert set(found.differences) > {"f", "loss"}


MIXTURE = {"network.gate": "softmax", "network.rho": 0.5}
EXPERTS = {"network.model": "transformer", "data.source": "markov", "data.inputs": 4,
           "data.tokens": 5, "data.vocabulary": 4, "training.loss": "cross_entropy",
           "training.eta0": 0.3, "network.kappa": 0.5}
# Settings that reach what no ini does: (ini or model, width, keys).
MORE = [
    ("data/dense.ini", 12, {"network.activation": "erf"}),
    ("data/dense.ini", 12, {"network.activation": "relu", "network.read_out": "zero"}),
    ("data/dense.ini", 12, {"network.activation": "gelu", "training.gamma0": 2.5}),
    ("data/dense.ini", 12, {"network.activation": "softplus", "reference.draws": "iid"}),
    ("data/dense.ini", 12, {"network.activation": "silu", "reference.centre": "no"}),
    ("data/dense.ini", 12, {"training.schedule": "cosine", "training.warmup": 2,
                            "training.clip": 0.2}),
    ("data/dense.ini", 12, {"training.schedule": "linear", "training.schedule_steps": 3,
                            "training.schedule_end": 0.1, "training.clip": 100,
                            "training.optimizer": "adamw", "training.weight_decay": 0.01}),
    ("data/dense.ini", 12, {"training.schedule": "power", "training.schedule_t0": 2,
                            "training.clip": 0.1, "rates.W2": 2}),
    *[(f"data/{model}.ini", 12, {"network.parameterization": side, "training.eta0": 0.02})
      for model in ("regime1", "regime2", "regime3") for side in ("mup", "mssp", "sp", "ntp")],
    ("data/regime1.ini", 12, {"network.parameterization": "simp"}),
    ("data/regime1.ini", 12, {"network.gate": "sigmoid", "network.rho": 1, "network.iota": 0.5,
                              "network.expert_output": "activated", "network.expert_layers": 3}),
    ("data/regime1.ini", 12, {"network.eta_bias": 0.5, "network.balance_loss": 0.2,
                              "network.z_loss": 0.05, "network.shared_experts": 1}),
    ("data/regime1.ini", 12, {"network.softmax_over": "all", "network.q0": 1,
                              "network.bias": "fixed"}),
    ("data/regime1.ini", 12, {"init.b": 2, "rates.b": 0.5, "training.gamma0": 1.5,
                              "training.schedule": "linear",
                              "training.optimizer": "momentum"}),
    ("data/regime1.ini", 12, {"data.inputs": 10, "training.batch": 4}),
    ("data/regime2.ini", 16, MIXTURE | {"network.balance_loss": 0.3, "network.z_loss": 0.1}),
    ("data/regime2.ini", 16, MIXTURE | {"network.softmax_over": "all", "network.eta_bias": 0.02}),
    ("data/regime2.ini", 16, {"network.rho": 0.5, "network.aggregation": "K",
                              "network.eta_bias": 0.02, "network.beta": 2}),
    ("data/regime2.ini", 12, {"network.gate": "constant", "training.loss": "logistic"}),
    ("data/dense.ini", 12, {"training.loss": "huber", "network.outputs": 3,
                            "reference.centre": "no", "training.gamma0": 0.5}),
    ("data/regime2.ini", 12, {"training.loss": "hinge", "data.inputs": 12, "training.batch": 4,
                              "training.order": "shuffled", "data.test_inputs": 3}),
    ("data/regime2.ini", 12, {"init.W_out": "2 N^-0.5", "rates.Q": 0.3, "rates.W_in": 0}),
    ("data/regime3.ini", 12, {"network.outputs": 2, "training.loss": "mse",
                              "training.gamma0": 0.7}),
    ("data/residual.ini", 16, {"network.alpha": 0.5, "network.expert_width": 4, "network.q0": 1}),
    ("data/stack.ini", 12, {"network.mixture": "regime3", "network.block_norm": "both"}),
    ("data/stack.ini", 12, MIXTURE | {"network.depth": 3, "network.z_loss": 0.1,
                                      "network.outputs": 3, "training.loss": "cross_entropy"}),
    ("data/transformer.ini", 12, {"network.depth": 2, "network.heads": 4, "network.gate": "softmax",
                                  "network.gated_experts": "yes"}),
    ("data/transformer.ini", 12, {"network.bias_per": "token", "network.biases": ""}),
    ("data/transformer.ini", 12, {"data.source": "copy", "data.tokens": 8,
                                  "data.positions": "no"}),
    ("data/transformer.ini", 12, {"data.source": "gaussian", "data.tokens": 3,
                                  "data.dimension": 7, "training.loss": "mse"}),
    ("", 16, EXPERTS | MIXTURE | {"network.many_experts": "regime2", "network.eta_bias": 0.02,
                                  "network.head_limit": "many", "network.head_width": 4,
                                  "network.causal": "yes", "network.balance_loss": 0.1}),
    ("", 12, EXPERTS | {"network.many_experts": "regime3", "network.causal": "no",
                        "network.iota": 0.5}),
    ("data/regime1.ini", 12, {"network.gate": "sigmoid", "network.balance_loss": 0.2,
                              "network.z_loss": 0.05, "network.beta": 1.5}),
]


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("case", range(len(MORE)))
def test_what_no_ini_has(case):
    """By gradient descent, and by one of the others in turn, or by the one of the case."""
    ini, N, keys = MORE[case]
    own = keys.get("training.optimizer", OPTIMIZERS[1 + case % 5])
    for optimizer in ("gd", own):
        found = compared(ini or "\n", N, **keys | {"training.optimizer": optimizer})
        assert found.largest < ROUND_OFF, f"{keys} {optimizer}\n{found}"


@pytest.mark.parametrize("optimizer", ["gd", "momentum"])
@pytest.mark.parametrize("ini, parts", [
    ("data/regime1.ini", {}), ("data/regime3.ini", {}),
    ("data/regime1.ini", {"decays.W1": 0.3, "decays.W2": 0, "decays.w": "N^-0.5"}),
    ("data/regime3.ini", {"decays.W1": 3, "decays.A_in": 0.4, "decays.A_out": 0})])
def test_decay_of_gradient_descent(ini, parts, optimizer):
    """Of regime1 the router starts at zero, of regime3 matrices never learn and decay."""
    found = compared(ini, 12, **parts, **{
        "training.optimizer": optimizer, "training.weight_decay": 0.05,
        "training.schedule": "linear", "training.warmup": 2})
    assert found.largest < ROUND_OFF, found


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("ini", ["data/regime2.ini", "data/regime3.ini", "data/stack.ini"])
@pytest.mark.parametrize("keys", [
    {"nesterov": "yes", "muon_experts": "together", "momentum": 0.95},
    {"muon": "exact", "momentum": 0, "rest_optimizer": "gd", "rest_eta0": 0.1},
    {"rest": "Q", "clip": 0.1, "schedule": "linear", "warmup": 2}], ids=["whole", "exact", "rest"])
def test_settings_of_muon(ini, keys):
    keys = {"training." + key: value for key, value in keys.items()}
    found = compared(ini, 16, **keys, **{"training.optimizer": "muon",
                                         "training.weight_decay": 0.01})
    assert found.largest < ROUND_OFF, found


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
@pytest.mark.parametrize("keys", [
    {"muon_heads": "together", "nesterov": "yes"}, {"muon_heads": "each"},
    {"muon_heads": "together", "muon": "exact", "momentum": 0}], ids=["whole", "each", "exact"])
@pytest.mark.parametrize("ini, more", [
    ("data/transformer.ini", {"network.heads": 2}), ("examples/heads.ini", {}),
    ("data/transformer.ini", {"network.head_limit": "many", "network.head_width": 4})],
    ids=["fixed", "script", "many"])
def test_heads_of_muon(ini, more, keys):
    keys = {"training." + key: value for key, value in keys.items()}
    found = compared(ini, 16, **more, **keys, **{"training.optimizer": "muon",
                                                 "training.weight_decay": 0.01})
    assert found.largest < ROUND_OFF, found


def test_rates_of_entries():
    """Factors of rates and eps of matrices."""
    decaying = {"training.optimizer": "adamw", "training.weight_decay": 0.01}
    keys = {"init.W_out": "2 N^-0.5", "rates.W_in": "3 N^-0.5", "eps.W_in": "0.1 N^0.5",
            "training.adam_read_in": 1}
    parts = decaying | {"decays.W_in": 0.3, "decays.w": "4 N^-0.5"}
    for optimizer in ({"training.optimizer": "adam"}, decaying, parts,
                      parts | {"training.optimizer": "lion"}):
        assert compared("data/regime2.ini", 16, **keys, **optimizer).largest < ROUND_OFF
    del keys["eps.W_in"]
    assert compared("data/regime2.ini", 16, **keys,
                    **{"training.optimizer": "muon", "eps.w": 0.5}).largest < ROUND_OFF


def words():
    """What scripts alone have: tokens shifted, numbers of all kinds, masks of numbers."""
    net = dmft.Network()
    lower, upper = net.population("lower"), net.population("upper", size=0.5)
    x = net.tanh(net.read_in(lower, "W1"))
    y = net.map(x, upper, "W2") + net.lag(net.map(x, upper, "W3"), 1)
    z = net.bias(net.look(y, 3, "Q"), [0, 0.1, 0.2], "b")
    t = net.exp(net.stop(z)) * 2 + net.log(1 + net.sum(net.top(z, 2)) ** 2) + net.softmax(z)[1]
    t = t + 1 / (2 + net.tanh(z[0])) + net.balance_select(z, 1, eta_bias=0.1, name="c")
    t = t + net.silu(z[2])
    y = net.lag(net.mean(y) + t[0] * y, -1) + y * net.top(y, 4) * net.first_rows(y, 2)
    experts = net.population("experts", size=0.25)
    units = net.population("units", size=0.5, of=experts, group=2)
    e = net.group_mean(net.tanh(net.map(y, units, "V")), experts)
    y = y + net.map(net.expand(net.cos(e) / net.exp(e), units), upper, "O")
    net.penalty(net.average(y, y), "size")
    net.kernel(y, "Phi")
    net.gradient(y, "G")
    net.read_out(y, "w")
    return net


TOKENS = {"data.source": "markov", "data.inputs": 3, "data.tokens": 4, "data.vocabulary": 3,
          "training.loss": "cross_entropy"}


def test_words_of_scripts():
    keys = TOKENS | {"training.steps": 6, "training.eta0": 0.01}
    for optimizer in OPTIMIZERS:
        found = dmft.torch.verify("\n", 16, network=words(), **keys,
                                  **{"training.optimizer": optimizer})
        assert found.largest < ROUND_OFF, found


def test_of_equal_numbers_the_first_is_selected():
    """Also in the first step, where a zero matrix leaves them equal."""
    net = dmft.Network()
    on = net.population("x")
    x = net.tanh(net.read_in(on, "W1"))
    z = net.bias(net.look(x, 3, "Q", zero=True), [0.2, 0.1, 0.1], "b")
    first, second = net.top(z, 2), net.balance_select(z, 2, eta_bias=0.05)
    experts = [net.tanh(net.map(x, on, f"V_{i}")) for i in range(3)]
    h = [(first[i] + 2 * second[i]) * z[i] * experts[i] for i in range(3)]
    net.read_out(h[0] + h[1] + h[2], "w")
    found = dmft.torch.verify("\n", 12, network=net, **{"training.steps": 4})
    assert found.largest < ROUND_OFF, found


@pytest.mark.parametrize("K", (1, 2))
def test_selection_biases_move_by_the_sign_of_their_load(K):
    """Of few and of many experts; with two of four selected, some loads are exactly their share."""
    net = dmft.Network()
    on = net.population("x")
    x = net.tanh(net.read_in(on, "W1"))
    z = net.bias(net.look(x, 4, "Q"), [0.2, 0.1, 0.1, 0], "b")
    s = net.map(x, on, "R")
    few = net.balance_select(z, K, eta_bias=0.3, sign=True)
    many = net.balance_select(s, 4, eta_bias=0.2, sign=True, name="many")
    h = [few[i] * z[i] * net.tanh(net.map(x, on, f"V_{i}")) for i in range(4)]
    net.read_out(h[0] + h[1] + h[2] + h[3] + many * s, "w")
    found = dmft.torch.verify("\n", 12, network=net, **{"training.steps": 8})
    assert found.largest < ROUND_OFF, found


def test_names_that_modules_have():
    """Matrices called as what a ParameterDict has itself."""
    net = dmft.Network()
    on = net.population("x")
    x = net.tanh(net.read_in(on, "values"))
    for name in ("keys", "training", "half"):
        x = x + net.tanh(net.map(x, on, name))
    net.read_out(x, "to")
    found = dmft.torch.verify("\n", 12, network=net, **{"training.steps": 3})
    assert found.largest < ROUND_OFF and len(found.network.weights) == 5
    again = dmft.torch.Network("\n", 12, 3, network=net)
    again.load_state_dict(found.network.state_dict())
    assert all(torch.equal(V, found.network.weights[name]) for name, V in again.weights.items())
    assert copy.deepcopy(again).weights["keys"].shape == (12, 12)


def test_gradients_of_what_nothing_learns_below():
    """What is read in, or looked at from a mask, by matrices that are fixed has a cotangent all the
    same."""
    net = dmft.Network()
    a = net.population("a")
    h = net.read_in(a, "W1", rate=0)
    x = net.tanh(h)
    s = net.look(net.top(h, 5), 2, name="Q", rate=0)
    net.gradient(h, "G")
    net.gradient(x, "Gx")
    net.show_gradient(s, "gs", axis="i")
    net.read_out(net.map(s[0] * x, a, "W2", s_f=-1.2), "w")
    for optimizer in OPTIMIZERS:
        found = dmft.torch.verify("\n", 12, network=net, **{"training.optimizer": optimizer})
        assert found.largest < ROUND_OFF, found
        assert {"G", "Gx", "gs"} <= set(found.differences)


def test_every_word_is_reached():
    """Operations, functions and rules, by the networks of these tests."""
    described = [dmft.describe(os.path.join(ROOT, ini)) for ini in INIS] + \
        [dmft.describe(os.path.join(ROOT, ini) if ini else "\n", **keys | {
            "reference.widths": N, "solver.replicates": 0}) for ini, N, keys in MORE] + \
        [dmft.describe("\n", network=words(), **TOKENS | {"reference.widths": 16})]
    found = {}
    for v in (v for d in described for v in d.networks[0].operations):
        found.setdefault("operation", set()).add(v.operation)
        for what in ("function", "rule"):
            found.setdefault((v.operation, what), set()).add(v.constants.get(what))
    for tables, key in ((operations.OPERATIONS, "operation"),
                        (operations.FUNCTIONS, ("fn", "function")),
                        (rules.NUMBERS, ("numbers", "rule")), (rules.ROWS, ("rows", "rule")),
                        (rules.PENALTIES, ("penalty", "rule"))):
        # linear is no operation, x is x; noise of rows cannot be compared
        assert set(tables) - {"linear"} == found[key] | {"noise"} & set(tables), key


def test_no_operation_optimizer_or_loss_is_missing(choices):
    """All that dmft-solve has: operations by the page of descriptions, which test_description
    compares with the program."""
    with open(os.path.join(ROOT, "docs", "program_format.md"), encoding="utf-8") as file:
        section = file.read().split("\n## Operations\n")[1].split("\n##")[0]
    rows = [cells for line in section.splitlines() if len(cells := line.split("|")) == 5]
    names = set(re.findall(r"`(\w+)`", " ".join(cells[1] for cells in rows)))
    assert names >= {"map", "lag", "read_out"}
    for given, known in ((names, operations.OPERATIONS), (choices("loss"), training.LOSSES),
                         (choices("optimizer"), training.OPTIMIZERS)):
        missing = given - set(known)
        assert not missing, missing


def test_one_seed_is_compared_whatever_is_asked_for():
    """Kernels of a file are means over its seeds, and PyTorch trains the first of them."""
    found = compared("data/dense.ini", 12, **{"reference.seeds": 3})
    assert found.largest < ROUND_OFF, found


# --- faults ----------------------------------------------------------------------------------


def slower(net):
    """Rates of one matrix wrong by a millionth."""
    right = net._group
    def group(W, *more):
        made = right(W, *more)
        return made | {"lr": made["lr"] * (1 + 1e-6)} if W.name in ("W1", "W0", "W_in") else made
    net._group = group


def eps_of_all(net):
    """One eps for all matrices, wrong by a millionth of one of them."""
    right = net._group
    def group(W, *more):
        made = right(W, *more)
        return made | {"eps": made["eps"] * (1 + 1e-6)} if W.name == "w" else made
    net._group = group


@pytest.mark.parametrize("ini, keys, wrong", [
    ("data/regime2.ini", {}, slower),
    ("data/regime2.ini", {"training.optimizer": "momentum"}, slower),
    ("data/regime2.ini", {"training.optimizer": "adam"}, slower),
    ("data/regime2.ini", {"training.optimizer": "adam"}, eps_of_all)])
def test_numbers_that_are_wrong(ini, keys, wrong, monkeypatch):
    right = network.Network.__init__
    def made(net, *given, **more):
        right(net, *given, **more)
        wrong(net)
    assert compared(ini, 16, **keys).largest < ROUND_OFF
    monkeypatch.setattr(network.Network, "__init__", made)
    found = compared(ini, 16, **keys)
    assert not found.agrees, found


@pytest.mark.parametrize("what", ["mask", "causal", "selection", "decay of biases", "penalty",
                                  "derivative", "schedule"])
def test_faults_are_found(what, monkeypatch):
    ini, keys = "data/regime1.ini", SPARSE
    if what == "mask":
        monkeypatch.setattr(rules, "largest", lambda x, K: torch.ones_like(x))
    elif what == "causal":
        ini, keys = "data/transformer.ini", {}
        monkeypatch.setattr(rules, "causal_softmax", lambda x: torch.softmax(x, -1))
    elif what == "selection":
        keys = SPARSE | {"network.eta_bias": 1}
        monkeypatch.setattr(network.Network, "after_step", lambda net, optimizer: None)
    elif what == "decay of biases":
        right = network.Network._group
        def group(net, W, scale, kind, eta0, eps, decay):
            made = right(net, W, scale, kind, eta0, eps, decay)
            return made | {"weight_decay": decay / made["lr"]}
        monkeypatch.setattr(network.Network, "_group", group)
    elif what == "penalty":
        monkeypatch.setattr(network.Network, "penalty", torch.zeros(()))
    elif what == "derivative":
        ini, keys = "data/transformer.ini", {}
        monkeypatch.setitem(rules.NUMBERS, "power", lambda run, v, s: s.detach() ** v["c"])
    elif what == "schedule":
        keys = SPARSE | {"training.schedule": "cosine"}
        monkeypatch.setattr(training, "schedule_factor", lambda said, t: 1 - t / 4)
    found = compared(ini, 16, **keys)
    assert found.largest > 1e-6, found
    monkeypatch.undo()
    assert compared(ini, 16, **keys).largest < ROUND_OFF


def test_ties_go_to_the_lower_one():
    mask = rules.largest(torch.tensor([[0.0, 1, 1, 1], [2, 0, 0, 0]]), 2)
    assert mask.tolist() == [[0, 1, 1, 0], [1, 1, 0, 0]]


def test_biases_of_tokens_behind_a_selection(tmp_path):
    """They learn, whether what they are added to moves or not, as a mask does not."""
    path = tmp_path / "kinds.lua"
    path.write_text("""
local a = population("a")
local h = tanh(read_in(a, "W1"))
local scores = look(h, 2, "Q")
local mask = top(scores, 2)
local s = bias(mask, {{0.5, 1}, {-0.2, 0}, {1.3, 0}}, "b")
show(s, "s", {axis = "i"})
read_out(s[1] * h + s[2] * tanh(h) + scores[1] * h, "w")
""")
    found = dmft.torch.verify("\n", 12, **{
        "network.program": str(path), "data.source": "markov", "data.inputs": 3, "data.tokens": 4,
        "data.vocabulary": 3, "training.loss": "cross_entropy", "training.steps": 4})
    moved = found.run.reference[12]["s"].values
    assert abs(moved[-1] - moved[0]).max() > 1e-3
    assert found.largest < ROUND_OFF


def test_gradient_kernels_behind_a_gate(tmp_path):
    """They are of all inputs, also of those that do not select the expert."""
    path = tmp_path / "gated.lua"
    path.write_text("""
local a = population("a")
local h = tanh(read_in(a, "W1"))
local p = sigmoid(look(h, 3, "Q"), {top = 1})
local first, second = p[1] * h, p[2] * tanh(h)
gradient(first, "G1")
local made = map(first, a, "V1")
gradient(made, "G2")
read_out(h + map(made, a, "V2") + map(second, a, "V3"), "w")
""")
    found = dmft.torch.verify("\n", 12, **{"network.program": str(path), "data.inputs": 6})
    assert found.largest < ROUND_OFF, found
