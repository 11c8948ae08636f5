"""Recipes: networks in plain numpy that train by them as the program trains, and laws that the
theory pages have."""
import glob
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import dmft
import numpy as np
import pytest
import recipe_tables
from dmft import recipe_command
from dmft.power import Law, fit

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# data/text.ini reads a file that `make text` makes; its network is that of transformer.ini, and
# language_model.ini has a larger one, which takes half a minute.
INIS = sorted(ini for folder in ("data", "examples") for ini in glob.glob(f"{ROOT}/{folder}/*.ini")
              if not ini.endswith(("/text.ini", "/language_model.ini")))
# All kinds of tensors, every size another number.
MIXTURE = {"network": {"model": "regime1", "parameterization": "mup", "activation": "tanh",
                       "gate": "sigmoid", "experts": 2, "expert_layers": 2, "iota": 0.5,
                       "bias": "trained", "biases": [0.5, -0.5]},
           "data": {"inputs": 32, "dimension": 12},
           "training": {"steps": 4, "eta0": 0.3, "gamma0": 1.5},
           "solver.replicates": 0, "rates": {"Q": 3}, "init": {"W2": 1.5, "w": 0.7},
           "reference": {"widths": 8, "seeds": 1, "centre": "no"},
           "output": {"fields": "h1 h2 h3 w", "field_sites": 1000, "fields_at": 0}}


def mixture(**more):
    """The network of MIXTURE as the program trains it, with its weights at the start: the rows of
    more inputs than sites tell them."""
    run = dmft.solve(MIXTURE, progress=False, **more)
    seen = run.reference[next(iter(run.reference))]

    def rows(name):
        found = seen[f"{name}_site"].isel(at=0)
        found = found.transpose("mu", "site") if "mu" in found.dims else found.expand_dims("mu")
        return found.values[:, np.isfinite(found.values[0])]

    def matrix(y, x):
        W, _, full, _ = np.linalg.lstsq(x, y, rcond=None)
        assert full == x.shape[1] and np.allclose(x @ W, y, rtol=0, atol=1e-10)
        return W.T
    A = run.data["X"].values / np.sqrt(run.data["X"].shape[1])
    x1 = np.tanh(rows("h1"))
    b = np.array([0.5, -0.5])
    V = {"W1": matrix(rows("h1"), A), "b": b[None],
         "Q": matrix(seen["psi"].isel(t=0).transpose("mu", "i").values - b, x1),
         "w": rows("w") / run.parameters["training.gamma0"] / x1.shape[1]}
    for i in range(2):
        V[f"W2_{i}"] = matrix(rows(f"h2_{i}"), x1)
        V[f"W3_{i}"] = matrix(rows(f"h3_{i}"), np.tanh(rows(f"h2_{i}")))
    return V, A, run.data["y"].values, seen["f"].values


def forward(V, A):
    """The outputs, and what the backward pass needs."""
    x1 = np.tanh(A @ V["W1"].T)
    p = 1 / (1 + np.exp(-(x1 @ V["Q"].T + V["b"])))
    x2 = [np.tanh(x1 @ V[f"W2_{i}"].T) for i in range(2)]
    o = [x2[i] @ V[f"W3_{i}"].T for i in range(2)]
    h = sum(p[:, [i]] * o[i] for i in range(2))
    return (h @ V["w"].T)[:, 0], (x1, p, x2, o, h)


def gradient(V, A, y):
    """Of the mean of (f - y)^2/2."""
    f, (x1, p, x2, o, h) = forward(V, A)
    df = ((f - y) / len(y))[:, None]
    dh = df @ V["w"]
    dpsi = np.stack([(dh * o[i]).sum(1) for i in range(2)], 1) * p * (1 - p)
    found = {"w": df.T @ h, "Q": dpsi.T @ x1, "b": dpsi.sum(0, keepdims=True)}
    dx1 = dpsi @ V["Q"]
    for i in range(2):
        do = p[:, [i]] * dh
        d2 = do @ V[f"W3_{i}"] * (1 - x2[i] ** 2)
        found |= {f"W3_{i}": do.T @ x2[i], f"W2_{i}": d2.T @ x1}
        dx1 += d2 @ V[f"W2_{i}"]
    return found | {"W1": (dx1 * (1 - x1 ** 2)).T @ A}


def train(V, A, y, step, steps=4):
    """Outputs at every time; step(name, tensor, gradient, time) gives the tensor after a step."""
    outputs = []
    for t in range(steps):
        outputs.append(forward(V, A)[0])
        G = gradient(V, A, y)
        V = {name: step(name, V[name], G[name], t) for name in V}
    return np.array(outputs)


def sgd(recipe, factors=()):
    """Steps of torch.optim.SGD."""
    factors = dict(factors)
    return lambda name, v, g, t: \
        v - 0.3 * float(recipe[name].sgd) * factors.get((name, "sgd"), 1) * g


def adamw(recipe, factors=(), eta0=0.05, eps0=0.05, omega=0.01):
    """Steps of torch.optim.AdamW."""
    factors, mean, square = dict(factors), {}, {}

    def step(name, v, g, t):
        one = {key: law and float(law) * factors.get((name, key), 1)
               for key, law in recipe[name].numbers().items()}
        lr = eta0 * one["adam"]
        if one["decay"]:
            v = v * (1 - lr * omega / eta0 * one["decay"])
        mean[name] = 0.9 * mean.get(name, 0) + 0.1 * g
        square[name] = 0.999 * square.get(name, 0) + 0.001 * g ** 2
        m, s = mean[name] / (1 - 0.9 ** (t + 1)), square[name] / (1 - 0.999 ** (t + 1))
        return v - lr * m / (np.sqrt(s) + eps0 * one["eps"])
    return step


ADAM = {"training.optimizer": "adamw", "training.eta0": 0.05, "training.eps": 0.05,
        "training.weight_decay": 0.01}


def test_sgd_in_numpy_is_the_program():
    """Outputs of four steps to the round-off of weights that were solved for; and a rate that is
    wrong by a per cent is seen in each tensor."""
    V, A, y, f = mixture()
    recipe = dmft.recipe(MIXTURE, at={"N": 8})
    assert {one.kind for one in recipe.tensors} == {"read_in", "map", "look", "bias", "read_out"}
    assert recipe["W3_0"].rows.at({}) == 8 and recipe["W3_0"].columns.at({}) == 4
    assert np.abs(train(V, A, y, sgd(recipe)) - f).max() < 1e-11
    for name in V:
        wrong = train(V, A, y, sgd(recipe, {(name, "sgd"): 1.01}))
        assert np.abs(wrong - f).max() > 1e-7, name


def test_adamw_in_numpy_is_the_program():
    V, A, y, f = mixture(**ADAM)
    recipe = dmft.recipe(MIXTURE, at={"N": 8}, **ADAM)
    assert recipe["b"].decay is None
    assert np.abs(train(V, A, y, adamw(recipe)) - f).max() < 1e-9
    for name in V:
        for key in ("adam", "eps", "decay"):
            if recipe[name].numbers()[key] is not None:
                wrong = train(V, A, y, adamw(recipe, {(name, key): 1.01}))
                assert np.abs(wrong - f).max() > 1e-8, (name, key)


def test_scales_at_the_start_are_those_of_the_program():
    """The mean square of k entries within five of its standard errors (2/k)^1/2."""
    more = {"reference.widths": 64, "data.inputs": 80, "data.dimension": 24}
    V, *_ = mixture(**more)
    recipe = dmft.recipe(MIXTURE, at={"N": 64}, **more)
    for name in set(V) - {"b"}:
        ratio = (V[name] ** 2).mean() / float(recipe[name].std) ** 2
        assert V[name].shape == (float(recipe[name].rows), float(recipe[name].columns))
        assert abs(ratio - 1) < 5 * (2 / V[name].size) ** 0.5, name


def test_raw_inputs():
    """Of W with h = W x the trajectory is that of V with h = V x/sqrt(D)."""
    V, A, y, f = mixture(**ADAM)
    D = A.shape[1]
    raw = dmft.recipe(MIXTURE, at={"N": 8}, raw_inputs=True, **ADAM)
    outputs = train(V | {"W1": V["W1"] / D ** 0.5}, A * D ** 0.5, y, adamw(raw))
    assert np.abs(outputs - f).max() < 1e-9
    laws = dmft.recipe(f"{ROOT}/data/dense.ini", raw_inputs=True)["W1"]
    assert list(map(str, laws.numbers().values())) == \
        ["D^-1/2", "gamma0^2 N D^-1", "D^-1", "N^-1", "D", "None"]


# docs/theory: (tensor, std, SGD, Adam, eps), in the papers' units, but for gamma0 and W1.
THEORY = {
    ("regime1", "mup"): ["Q N^-1 | N^-1 | N^-1 | 1", "W2 N^-1/2 | 1 | N^-1 | N^-1",
                         "W3 N_e^-1/2 | N N_e^-1 | N_e^-1 | N^-1", "w N^-1 | N^-1 | N^-1 | 1"],
    ("regime1", "mssp"): ["Q 0 | N^-1 | N^-1 | 1", "W2 N^-1/2 | 1 | N^-1 | N^-1"],
    ("regime2", "mup"): ["Q N^-1/2 | N^-1 M | N^-1 | M^-1", "W_in N^-1/2 | 1 | N^-1 | M^-1",
                         "W_out N_e^-1/2 | N M N_e^-1 | N_e^-1 | N^-1 M^-1"],
    ("regime2", "mssp"): ["W_out M^1/2 N_e^-1/2 | N M N_e^-1 | N_e^-1 | N^-1 M^-1"],
    ("regime2", "sp"): ["W_out N_e^-1/2 | 1 | 1 | 1", "Q N^-1/2 | 1 | 1 | 1"],
    ("regime3", "mup"): ["Q N^-1/2 | N^-1 M | N^-1 | M^-1", "W_in N^-1/2 | N | N^-1 | N^-1 M^-1",
                         "W_out N^-1/2 | N | N_e^-1 | N^-1 M^-1"],
    ("regime3", "mssp"): ["P_in 0 | N | N^-1 | N^-1 M^-1", "P_out 0 | N | N_e^-1 | N^-1 M^-1"],
}


@pytest.fixture(scope="module", name="recipes")
def _recipes():
    return recipe_tables.recipes()


@pytest.mark.parametrize("network, word", THEORY)
def test_laws_are_those_of_the_theory_pages(recipes, network, word):
    made = recipe_tables.of_papers(network, recipes[network])
    for line in THEORY[network, word]:
        name, _, laws = line.partition(" ")
        one = made[word, name]
        for law, text in zip(one.numbers().values(), laws.split(" | ")):
            law = Law(law.coefficient, {size: power for size, power in law.powers.items()
                                        if size != "gamma0"})
            assert str(law) == text, (name, law)


def test_the_tables_of_the_theory_page(recipes):
    text = recipe_tables.PAGE.read_text(encoding="utf-8")
    assert recipe_tables.regenerated(text, recipe_tables.tables(recipes)) == text, \
        "python/with tests/recipe_tables.py --update"


def test_differences_from_print_are_constants(recipes):
    """Where sizes that grow together do so, no ratio to a printed entry has a power of them; of
    Adam there is none."""
    for network, tensor, word, column, here, printed, by in recipe_tables.compared(recipes):
        if column in ("adam", "eps"):
            assert by == Law(1.0), (network, tensor, word, column, here, printed)
        if by is not None and by.coefficient:
            total = sum(power for size, power in by.powers.items()
                        if size in recipe_tables.GROW[network])
            assert by.coefficient == 1 and total == 0, (network, tensor, word, column)
        elif by is not None:
            assert (network, tensor, column) == ("residual", "R", "std")


@pytest.fixture(scope="module", name="made")
def _made():
    with ThreadPoolExecutor(2) as threads:
        return {ini: threads.submit(dmft.recipe, ini) for ini in INIS}


def test_a_recipe_of_muon_has_its_rates_in_a_column():
    """The spectral condition: (n/m)^1/2 of the matrix, or of each expert's part over M of what is
    divided by M. What Muon leaves has no rate there."""
    recipe = dmft.recipe(f"{ROOT}/data/regime2.ini", **{"training.optimizer": "muon",
                                                        "training.rest": "Q"})
    assert {one.name: one.muon and str(one.muon) for one in recipe.tensors} == {
        "W1": None, "Q": None, "W_in": "N^-1/2 N_e^1/2", "W_out": "N^1/2 M^-1 N_e^-1/2", "w": None}
    text = str(recipe)
    assert text.splitlines()[0].split("  ")[-1].strip() == "lr, Muon" and "rest_eta0" in text
    together = dmft.recipe(f"{ROOT}/data/regime2.ini", **{"training.optimizer": "muon",
                                                          "training.muon_experts": "together"})
    assert {one.name: one.muon and str(one.muon) for one in together.tensors} == {
        "W1": None, "Q": "N^-1/2 M^1/2", "W_in": "N^-1/2 M^1/2 N_e^1/2",
        "W_out": "N^1/2 M^-1/2 N_e^-1/2", "w": None}
    assert float(together.at(N=256, M=64)["Q"].muon) == 0.5
    plain = dmft.recipe(f"{ROOT}/data/dense.ini")
    assert "Muon" not in str(plain) and all(one.muon is None for one in plain.tensors)


@pytest.mark.parametrize("ini", INIS, ids=os.path.basename)
def test_every_ini_has_a_recipe(made, ini):
    recipe = made[ini].result()
    assert all(one.exact and float(one.std.coefficient if one.std else 1) >= 0
               for one in recipe.tensors), ini
    for text in (str(recipe), recipe.markdown(), recipe.latex(), recipe._repr_html_()):
        assert all(one.name.replace("_", "") in text.replace("\\", "").replace("_", "")
                   for one in recipe.tensors)
    assert len(recipe.table) == len(recipe.tensors)


def test_laws_are_what_is_built_elsewhere():
    """Of the network with most sizes, at a place that no law was found at."""
    sizes = {"N": 96, "M": 3, "N_e": 24, "H": 3, "N_k": 32, "L": 3, "gamma0": 0.7}
    laws = dmft.recipe(f"{ROOT}/data/transformer.ini", parameterizations="mup")
    built = laws.at(sizes)
    assert built.sizes == pytest.approx(sizes | {"D": 10})
    for one in laws.tensors:
        other = built[one.names[0] + ("_0" if one.name in ("W_Q", "W_K", "W_V", "W_O") else "")]
        for law, number in zip([one.count, one.rows, one.columns, *one.numbers().values()],
                               [other.count, other.rows, other.columns, *other.numbers().values()]):
            assert (law is None) == (number is None)
            if law is not None:
                assert law.at(built.sizes) == pytest.approx(float(number), rel=1e-12), one.name


def test_multipliers():
    """A small model made wider: of regime II with M in proportion."""
    found = dmft.recipe(f"{ROOT}/data/regime2.ini", base={"N": 64}, target={"N": 256})
    assert {one["tensor"]: (one["std"], one["sgd"], one["adam"], one["eps"], one["decay"])
            for one in found.table} == {
        "W1": (1, 4, 1, 0.25, 1), "Q": (0.5, 1, 0.25, 0.25, 4), "W_in": (0.5, 1, 0.25, 0.25, 4),
        "W_out": (0.5, 1, 0.25, 0.25, 4), "w": (0.25, 0.25, 0.25, 1, 4)}
    text = str(found)
    assert "Multipliers from gamma0 = 1, N = 64, M = 32" in text and "256 x 10" in text


def test_powers_of_settings_and_no_powers(tmp_path):
    found = dmft.recipe(f"{ROOT}/data/regime2.ini",
                        **{"rates.Q": "2 N^0.37", "init.W_in": "3", "eps.w": "N^-1",
                           "training.optimizer": "adam"})
    assert str(found["Q"].sgd) == "2 gamma0^2 N^-63/100 M" and str(found["Q"].adam) == "2 N^-63/100"
    assert str(found["W_in"].std) == "3 N^-1/2" and str(found["w"].eps) == "N^-1"
    (tmp_path / "sum.lua").write_text("""
local L = key("depth", 2)
local top = population("top")
local x = tanh(read_in(top, "W1"))
for l = 1, L do x = x + map(x, top, {name = "W_" .. l, rate = 1 + L}) end
read_out(x, "w")
""")
    ini = {"network.program": str(tmp_path / "sum.lua"), "data.inputs": 4, "reference.widths": 16}
    odd = dmft.recipe(ini)
    assert not odd["W"].exact and float(odd["W"].sgd) == 3 and odd["W"].adam.exact
    assert "* is no product of powers" in str(odd) and "3 *" in odd.markdown()
    assert float(odd.at(L=5)["W"].sgd) == 6


def test_side_by_side():
    both = dmft.recipe(f"{ROOT}/data/regime2_compare.ini")
    assert both.points == ["mup", "mssp"]
    assert str(both["mup", "W_out"].std) == "M^-1 N_e^-1/2"
    assert str(both["mssp", "W_out"].std) == "M^-1/2 N_e^-1/2"
    rows = [line for line in both.markdown().splitlines() if line.startswith(("| W", "| Q"))]
    assert len(rows) == 5 and "| W1 | mup mssp |" in rows[0]
    with pytest.raises(dmft.InputError, match="several values of parameterization"):
        both["W_out"]  # pylint: disable=pointless-statement
    with pytest.raises(dmft.InputError, match="there is no tensor mup W9; there are W1 Q"):
        both["mup", "W9"]  # pylint: disable=pointless-statement


RATES = {"network": {"model": "regime2", "kappa": 0.5, "expert_width": 2},
         "data": {"inputs": 4}, "reference": {"widths": 16}}


def test_points_of_a_sweep(tmp_path):
    """Those whose recipes differ stand side by side; a rate, a depth and a share of the experts
    change nothing, and keys of a line are one point."""
    sweep = {"sweep": {"network.parameterization": ["mup", "mssp"],
                       "training.eta0, solver.seed": [[1, 1], [2, 3]],
                       "network.rho": [0.5, 1], "network.read_out": ["zero", "normal"]}}
    found = dmft.recipe(RATES | sweep)
    assert found.heading == "parameterization, read_out"
    assert found.points == ["mup, zero", "mup, normal", "mssp, zero", "mssp, normal"]
    alone = dmft.recipe(RATES, **{"network.parameterization": "mssp", "network.read_out": "zero"})
    for one in alone.tensors:
        assert found["mssp, zero", one.name].numbers() == one.numbers()
    lines = found.markdown().splitlines()
    assert lines[2].startswith("| W1 | all | N x D |")
    assert "| w | mup, zero; mssp, zero | 1 x N | 0 |" in found.markdown()
    assert "Of the sweep training.eta0, solver.seed, network.rho change nothing" in str(found)
    at = found.at(N=32)
    assert float(at["mup, normal", "W_out"].std) == pytest.approx(1 / 16 / 2 ** 0.5)

    ini = tmp_path / "x.ini"
    ini.write_text("[network]\nmodel = program\nprogram = net.lua\n[reference]\nwidths = 16\n"
                   "[data]\ninputs = 4\n [ sweep ]\nprogram.depth = 1 2\ninit.w = 1 2\n")
    (tmp_path / "net.lua").write_text("""
local top = population("top")
local x = tanh(read_in(top, "W1"))
for l = 1, key("depth", 2) do x = x + map(x, top, "W_" .. l) end
read_out(x, "w")
""")
    found = dmft.recipe(ini)
    assert (found.heading, found.points) == ("init.w", ["1", "2"])
    assert str(found["2", "w"].std) == "2 gamma0^-1 N^-1" and str(found["1", "W"].count) == "L"


def test_a_key_of_the_call_picks_points():
    sweep = {"sweep": {"network.kappa, network.expert_width": [[0.25, 4], [0.5, 2]],
                       "init.W_out": [1, "0.5 N^0.5"]}}
    found = dmft.recipe(RATES | sweep, **{"init.W_out": "0.5  N^0.5"})
    assert found.points == ["mssp"] and str(found["W_out"].std) == "0.5 N^1/2 M^-1/2 N_e^-1/2"
    assert found.sizes["M"] == 4
    assert dmft.recipe(RATES | sweep, **{"network.expert_width": 2, "init.W_out": 1.0}).sizes == {
        "gamma0": 1, "N": 16, "M": 8, "N_e": 2, "D": 10}
    with pytest.raises(dmft.InputError, match="network.kappa = 0.3: .* over 0.25 0.5$"):
        dmft.recipe(RATES | sweep, **{"network.kappa": 0.3})


@pytest.mark.parametrize("sweep, sentence", [
    ({"init.W_in": [1, 2, 3, 4, 5], "init.W_out": [1, 2, 3, 4, 5]},
     "25 points .* at most 24 .* by a value of init.W_in or init.W_out$"),
    ({"network.parameterization": ["mup", "simp"]},
     "at network.parameterization = simp.*router over a fixed number"),
    ({"network.kapa": [1, 2]}, "did you mean .kappa"),
    ({"network.kappa": ["1 2"]}, "single value with blanks")])
def test_wrong_sweeps_are_one_sentence(sweep, sentence):
    with pytest.raises(dmft.InputError, match=sentence):
        dmft.recipe(RATES | {"sweep": sweep | {"training.eta0": [1, 2]}})


def test_other_forms_of_settings():
    """A network of Python, arrays, a limit without widths."""
    net = dmft.Network()
    stream = net.population("stream")
    h = net.read_in(stream, "W0")
    net.read_out(net.tanh(net.map(net.tanh(h), stream, "W1", rate=net.key("b", 2))), "w")
    found = dmft.recipe({"training.gamma0": 2, "program.b": 5}, network=net, X=np.eye(6),
                        y=[1, -1] * 3)
    assert str(found["W1"].sgd) == "5 gamma0^2" and str(found["W0"].adam) == "D^-1/2"
    assert found.sizes == {"gamma0": 2, "N": 64, "D": 6}


WRONG = [(["--at", "N=65"], "at N = 65: .*whole number of experts"),
         (["--at", "Q=3"], r"Q = 3.0: Q is not known; its sizes are gamma0 .*, N \(width\), M"),
         (["--at", "H=2"], "H is no size of this network"),
         (["--at", "N=1.5"], "N = 1.5: must be a whole number"),
         (["--at", "gamma0=-1"], "gamma0 = -1.0: must be a number above 0"),
         (["--at", "N"], "N: sizes are written"), (["--at", "N=64,N=8"], "N is given twice"),
         (["--at", "M=1000000000"], "out of range"),
         (["--base", "N=64"], "base and target go together"),
         (["--foo=3"], "--foo=3: is neither an option"),
         (["--parameterizations", "mup,simp"], "simp is a router over a fixed number"),
         (["--network.kappa=-1"], "out of range")]


@pytest.mark.parametrize("words, sentence", WRONG, ids=lambda word: str(word)[:20])
def test_wrong_input_is_one_sentence(words, sentence, capsys):
    assert recipe_command.main([f"{ROOT}/data/regime2.ini", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.startswith("dmft-recipe: ")
    assert re.search(sentence, said.err), said.err


def test_a_network_without_parameterizations_says_so(capsys):
    ini = f"{ROOT}/data/dense.ini"
    assert recipe_command.main([ini, "--parameterizations=mup"]) == 2
    assert "model = dense does not use it" in capsys.readouterr().err
    assert recipe_command.main([ini, "--at", "N=32,L=2", "--format=latex"]) == 0
    assert r"W2 & $32$ $\times$ $32$ & $0.176777$" in capsys.readouterr().out


def test_a_law_is_found_or_none_is():
    places = [{"N": 2.0 ** i, "M": 3.0 ** j} for i, j in ((1, 1), (2, 1), (1, 2), (4, 3))]
    law = fit(places, [7 * place["N"] ** (1 / 3) / place["M"] for place in places])
    assert law.exact and law.powers == {"N": Fraction(1, 3), "M": -1} and law.coefficient == 7
    assert not fit(places, [place["N"] + place["M"] for place in places]).exact
    assert not fit(places[:2], [1, 2]).exact  # M does not vary
    assert fit(places, [0] * 4) == Law(0.0) and not fit(places, [0, 1, 1, 1]).exact
    with pytest.raises(TypeError, match="at given sizes only"):
        float(law)


def test_the_table_of_the_page_is_what_is_printed():
    with open(os.path.join(ROOT, "docs", "networks.md"), encoding="utf-8") as file:
        shown = re.search(r"```text\n(.*?)```", file.read(), re.DOTALL)[1]
    printed = str(dmft.recipe(f"{ROOT}/data/regime2.ini")).splitlines()[:7]
    assert [line.rstrip() for line in shown.splitlines()[:7]] == [line.rstrip() for line in printed]


def test_a_reader_that_has_read_enough_is_no_error():
    """As in `dmft-recipe FILE.ini | head`: the pipe is closed before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "dmft", "recipe", f"{ROOT}/data/dense.ini"],
                          stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
