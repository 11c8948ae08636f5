"""The structure that dmft.equations typesets is enough to solve the limit: tests/theory_march.py
reads nothing else, and its outputs are those of dmft-solve. Without a term they are not."""
import copy
import functools
import os

import dmft
import numpy as np
import pytest
import theory_draws
from dmft.theory import expression as ex
from dmft.theory import structure as st
from theory_march import March
from theory_words import Words

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS, DRAWS = 6, 16
FEW = {"solver.expert_sites": 128, "solver.unit_sites": 128, "solver.halves": "yes"}
TOKENS = {"data.inputs": 2, "data.tokens": 3, "data.test_inputs": 0}
# {name: (ini, keys)}. Rates are such that 6 steps are far from linear.
CASES = {
    "dense": ("data/dense.ini", {"training.eta0": 1}),
    "outputs": ("data/dense.ini", {"training.eta0": 1, "network.outputs": 3}),
    "huber": ("data/dense.ini", {"training.eta0": 1, "training.loss": "huber",
                                 "data.source": "power_law"}),
    "decays": ("data/dense.ini", {"training.eta0": 1, "training.weight_decay": 0.2,
                                  "decays.W1": 0.3, "decays.w": 0}),
    "adamw": ("data/dense.ini", {"training.optimizer": "adamw", "training.eta0": 0.3,
                                 "training.eps": 0.05, "training.weight_decay": 0.2,
                                 "decays.W2": 0.3, "network.depth": 2}),
    "momentum": ("data/dense.ini", {
        "training.optimizer": "momentum", "training.momentum": 0.8, "training.weight_decay": 0.1,
        "training.schedule": "cosine"}),
    "clip": ("data/dense.ini", {"training.eta0": 1, "training.clip": 0.1,
                                "training.loss": "logistic"}),
    "muon": ("data/muon.ini", {"training.eta0": 0.4, "training.weight_decay": 0.1,
                               "training.nesterov": "yes", "training.schedule": "cosine",
                               "training.clip": 0.2}),
    "muon_exact": ("data/muon.ini", {"training.momentum": 0, "training.muon": "exact",
                                     "training.eta0": 0.4, "training.rest_optimizer": "adam",
                                     "training.rest_eta0": 0.2, "training.eps": 0.1}),
    "muon_experts": ("data/regime2.ini", {
        "training.weight_decay": 0.01,
        "training.optimizer": "muon", "training.eta0": 0.3, "training.rest_eta0": 0.2,
        "training.eps": 0.1, "training.gamma0": 1, "network.expert_width": 3}),
    "muon_together": ("data/regime2.ini", {
        "training.weight_decay": 0.01,
        "training.optimizer": "muon", "training.muon_experts": "together", "training.eta0": 0.4,
        "training.rest_optimizer": "gd", "training.rest_eta0": 1, "training.rest": "Q",
        "training.gamma0": 1, "network.expert_width": 3}),
    "muon_heads": ("examples/heads.ini", {
        **TOKENS, "training.eta0": 0.3, "training.rest_optimizer": "gd",
        "training.rest_eta0": 1, "solver.tolerance": 1e-6}),
    "muon_tied": ("examples/tied.ini", {
        "training.weight_decay": 0.01,
        "training.optimizer": "muon", "training.eta0": 0.3, "training.rest_optimizer": "gd",
        "training.rest_eta0": 0.5, "program.depth": 2}),
    "lion": ("data/regime1_adam.ini", {
        "training.optimizer": "lion", "training.eta0": 0.3, "training.eps": 0.1,
        "training.weight_decay": 0.2, "rates.Q": 10, "rates.b": 10,
        "network.bias": "trained", "network.biases": [0.5, -0.5]}),
    "regime1": ("data/regime1.ini", {
        "training.eta0": 1, "network.eta_bias": 0.5, "network.z_loss": 0.2,
        "network.balance_loss": 0.2, "network.expert_layers": 1}),
    "regime2": ("data/regime2.ini", {"training.eta0": 1, "training.gamma0": 2, "network.kappa": 2,
                                     "network.expert_width": 3}),
    "softmax": ("data/regime2_softmax.ini", {
        "training.eta0": 1, "training.gamma0": 1, "network.rho": 0.5, "network.z_loss": 20,
        "network.balance_loss": 2}),
    "regime3": ("data/regime3.ini", {"training.eta0": 1, **FEW}),
    "residual": ("data/residual.ini", {
        "data.inputs": 4, "training.eta0": 0.6, "network.experts": 16, "network.rho": 0.5,
        "network.bias_std": 0.1, "network.eta_bias": 0.2, "network.depth": 1,
        "rates.R_0": 20,
        "solver.expert_sites": 16, "solver.unit_sites": 1024}),
    "transformer": ("data/transformer.ini", {**TOKENS, "network.zero_queries": "no"}),
    "kinds": ("data/transformer.ini", {**TOKENS, "network.bias_per": "token", "rates.b_0": 1500,
                                       "network.biases": [0.5, -0.5, 1, 0, -1, 0.5, 0, 0.2],
                                       "training.optimizer": "momentum"}),
    "choice": ("examples/expert_choice.ini", {**TOKENS, "training.eta0": 1}),
    "capacity": ("examples/expert_choice.ini", {**TOKENS, "training.eta0": 1,
                                                "program.capacity": 1}),
    "few": ("examples/few_experts.ini", {**TOKENS, "program.capacity": 1, "training.eta0": 1,
                                         "program.experts": 2, "program.top": 1}),
    "convolution": ("examples/convolution.ini", {**TOKENS, "data.dimension": 4}),
    "activation": ("examples/activation.ini", {"training.eta0": 0.3, "data.test_inputs": 0}),
    "logcosh": ("examples/activation.ini", {"training.eta0": 0.3, "program.activation": "logcosh"}),
    "rotary": ("examples/rotary.ini", {**TOKENS, "training.eta0": 1}),
    "balanced": ("examples/balanced.ini", {
        "training.eta0": 1, "program.z_loss": 0.5, "program.balance_loss": 0.5}),
    "signed": ("examples/balanced.ini", {"training.eta0": 1, "program.eta_bias": 0.3,
                                         "program.sign": 1}),
    "capped": ("examples/capped.ini", {**TOKENS, "training.eta0": 1.5, "program.cap": 1,
                                       "program.z_loss": 0.5, "network.activation": "tanh"}),
    "tied_embedding": ("examples/tied_embedding.ini", {"training.eta0": 1, "data.inputs": 3,
                                                       "network.activation": "tanh"}),
    "tied_embedding_adam": ("examples/tied_embedding.ini", {
        "data.inputs": 3, "data.tokens": 3, "network.activation": "tanh", "training.eps": 0.05,
        "training.optimizer": "adamw", "training.eta0": 0.2, "training.weight_decay": 0.1}),
    "grouped": ("examples/grouped.ini", {**TOKENS, "training.eta0": 1, "program.alpha": 1}),
    "gains": ("examples/gains.ini", {**TOKENS, "training.eta0": 1,
                                     "network.activation": "tanh"}),
    "gains_adam": ("examples/gains.ini", {
        **TOKENS, "network.activation": "tanh", "training.optimizer": "adamw",
        "training.eta0": 0.1, "training.weight_decay": 0.1}),
    "tied": ("examples/tied.ini", {"training.eta0": 1, "program.depth": 2})}
# With LONG=1: words and terms of these are in others, too, elsewhere or with another optimizer.
LONG = {"muon_together", "kinds", "choice", "signed", "tied_embedding", "grouped", "gains_adam"}
ALL = bool(os.environ.get("LONG"))
WIDE = {"muon", "muon_heads", "muon_together", "rotary"}  # of which terms are near their errors
EXACT = {"muon_heads"}  # linear in the normals: what a march drops is all that it misses


def sites_of(name):
    return 512 if name in WIDE else 384


def solved(name):
    """(theory, data, outputs of dmft-solve, their errors), after the first step."""
    ini, more = CASES[name]
    ini, more = os.path.join(ROOT, ini), {**more, "training.steps": STEPS}
    solver = {"solver.replicates": DRAWS, "solver.sites": 2 * sites_of(name),
              "reference.widths": "", "output.kernels": "none"}
    if name in ("adamw", "lion", "gains_adam", "muon_exact", "muon_experts"):  # many rows
        solver |= {"solver.replicates": DRAWS // 2, "solver.sites": 32 * DRAWS}
    if name in ("regime2", "softmax"):
        solver["solver.expert_sites"] = 64 * DRAWS
    run = dmft.solve(ini, progress=False, **solver | more)
    f, error = (run.limit[key].values[1:] for key in ("f", "f_se"))
    return dmft.equations(ini, **more).theory, run.data, f.ravel(), error.ravel()


@pytest.fixture(scope="module")
def solutions():
    """The case of a name, solved once."""
    return functools.cache(lambda name: (name, *solved(name)))


def march(case, theory, kind=March):
    """Outputs [draw][...] of draws of the sites, of fewer where there are tokens."""
    draws = DRAWS if theory.tokens == 1 else DRAWS // 2
    few = {"regime3": (96, 96), "residual": (16, 128)}.get(case[0], (0, 0))
    monkeypatch = pytest.MonkeyPatch()
    if case[0] in EXACT:
        draws = 2
        monkeypatch.setattr(theory_draws, "TOLERANCE", 1e-6)
    sites = sites_of(case[0]) // (2 if case[0] in ("muon_experts", "gains_adam") else 1)
    found = np.array([np.ravel(kind(theory, case[2], sites, few, STEPS, seed).f[1:])
                      for seed in range(draws)])
    monkeypatch.undo()
    return found


def limit_of(numbers, freedom):
    """What the largest of so many Student variables exceeds once in 1000 times."""
    x = np.linspace(0, 400, 400001)
    density = (1 + x ** 2 / freedom) ** (-(freedom + 1) / 2)
    tail = 1 - np.cumsum(density) / density.sum()
    return np.interp(-1e-3 / numbers, -tail, x)


def largest_z(case, found):
    """The largest difference from dmft-solve, in standard errors of both, over what chance alone
    would reach once in 1000 times. Linear networks differ by round-off and the tolerance."""
    both = np.sqrt(case[4] ** 2 + found.var(0, ddof=1) / len(found) + (1e-8 * case[3]) ** 2)
    z = np.abs(found.mean(0) - case[3]) / both
    return z.max() / limit_of(z.size, len(found) - 1)


@pytest.mark.parametrize("name", [name for name in CASES if ALL or name not in LONG])
def test_the_march_of_the_structure_is_the_limit(name, solutions):
    case = solutions(name)
    assert largest_z(case, march(case, case[1])) < 1


# --- what is left out is seen ---------------------------------------------------------------

def named(theory, base, *words, index=None):
    """The quantity of a symbol."""
    for one in theory.quantities.values():
        numbers = [number for _, number in one.symbol.indices]
        if (one.symbol.base, one.symbol.words) == (base, words) and index in (None, *numbers):
            return one
    raise KeyError(base, words)


def without(kind, base, *words, index=None, keep=lambda term: False):
    """Leaves the terms of a kind out of a process."""
    def change(theory):
        value = named(theory, base, *words, index=index).value
        left = [term for term in value.terms if not isinstance(term, kind) or keep(term)]
        assert len(left) < len(value.terms)
        value.terms = left
    return change


def without_summand(base, *words, of):
    """Leaves the summands that name something out of an expression."""
    def change(theory):
        one = named(theory, base, *words)
        left = [term for term in one.value.terms if not of(theory, term)]
        assert len(left) < len(one.value.terms)
        one.value = ex.total(left)
    return change


def weighed_by(symbol):
    """Whether a product has this coefficient."""
    return lambda theory, term: isinstance(term, ex.Product) and any(
        symbol in dict(one.powers) for one in term.factors if isinstance(one, ex.Scale))


def refers(base, *words):
    return lambda theory, term: named(theory, base, *words).key in list(ex.references(term))


def setting(key, value):
    def change(theory):
        assert theory.training[key] != value
        theory.training[key] = value
    return change


def attribute(table, **more):
    def change(theory):
        for one in getattr(theory, table):
            for key, value in more.items():
                setattr(one, key, value)
    return change


def replaced(base, *words, by):
    """A quantity is something else."""
    def change(theory):
        one = named(theory, base, *words)
        one.value = by(one.value)
    return change


def own(kind):
    """What a tied matrix has from one place acts in that place alone."""
    def change(theory):
        for one in theory.quantities.values():
            if isinstance(one.value, st.Process) and one.value.use is not None:
                one.value.terms = [term for term in one.value.terms
                                   if not isinstance(term, kind) or term.use == one.value.use]
    return change


def independent_uses(theory):
    for key, one in theory.fields.items():
        one.draw = key


class WithoutNormaliser(March):
    """Adam's step without its denominator."""

    def normaliser(self, v, eps):
        return eps


MUTANTS = {
    ("outputs", "w learns"): without(st.Learned, "w"),
    ("decays", "of the start"): lambda theory: setattr(
        named(theory, "h", index=1).value, "decays", False),
    ("decays", "all of it"): lambda theory: setattr(
        named(theory, "h", index=1).value, "decays", 1.0),
    ("adamw", "all of it"): attribute("learners", decays=1.0),
    ("momentum", "no decay"): setting("weight_decay", 0),
    ("momentum", "forgets"): setting("optimizer", "gd"),
    ("momentum", "schedule"): setting("schedule", "constant"),
    ("clip", "none"): setting("clip", 0),
    ("adamw", "decay of what is learned"): attribute("learners", decays=False),
    ("adamw", "decay of the start"): lambda theory: setattr(
        named(theory, "h", index=1).value, "decays", False),
    ("adamw", "entries"): without(st.Entries, "h", index=2),
    ("adamw", "entries backward"): without(st.Entries, r"\xi", index=2),
    ("adamw", "eps"): attribute("learners", eps=ex.number(1.0)),
    ("adamw", "normaliser"): WithoutNormaliser,
    ("muon", "steps forget"): setting("momentum", 0.0),
    ("muon", "step of the past"): setting("nesterov", "no"),
    ("muon", "decay"): attribute("learners", decays=False),
    ("muon_exact", "values"): setting("muon", "newton_schulz"),
    ("muon_experts", "each its own"): attribute("learners", experts=""),
    ("muon_experts", "units learn"): without(st.Entries, "h", "in"),
    ("muon_experts", "output learns, back"): without(st.Entries, r"\xi", "out"),
    ("muon_heads", "not one matrix"): attribute("learners", heads=""),
    ("muon_heads", "rate of a part"): attribute("learners", rate=ex.number(1.0)),
    ("muon_together", "rest"): without(st.Learned, r"\psi"),
    ("lion", "biases learn"): without(st.Entries, "b"),
    ("lion", "decay"): attribute("learners", decays=False),
    ("regime1", "z loss"): without_summand("g", r"\psi", of=weighed_by(r"\lambda_z")),
    ("regime1", "balance"): without_summand("g", r"\psi", of=refers("g", "p", r"\prime")),
    ("regime1", "selection biases"): attribute("selections", eta=0.0),
    ("regime2", "response of experts"): without(st.Memory, "h", "in"),
    ("regime2", "response of the top"): without(st.Memory, "h", index=3),
    ("regime2", "units learn"): without(st.Learned, "h", "in"),
    ("softmax", "z loss"): without_summand("g", r"\psi", of=refers("s")),
    ("softmax", "balance"): without_summand("g", r"\psi", of=refers("g", "x")),
    ("regime3", "field of units"): without(st.FieldTerm, "h", "A", "in"),
    ("regime3", "field back"): without(st.FieldTerm, r"\xi", "A", "out"),
    ("regime3", "response of units"): without(st.Memory, "h", "A", "in"),
    ("regime3", "pairs learn"): without(st.Learned, "h", "P", "in"),
    ("regime3", "mean over experts"): replaced("x", "A", "out", by=lambda value: ex.product(
        ex.number(0.5), value)),
    ("residual", "selection biases"): attribute("selections", eta=0.0),
    ("residual", "response"): without(st.Memory, "h", index=2),
    ("residual", "router learns"): without(st.Learned, "p"),
    ("transformer", "queries"): replaced("g", "q", by=lambda value: ex.product(
        ex.number(0.0), value)),
    ("transformer", "keys"): replaced("g", "k", by=lambda value: ex.product(
        ex.number(0.0), value)),
    ("transformer", "values back"): without(st.FieldTerm, r"\xi", "V"),
    ("transformer", "values learn"): without(st.Learned, "v"),
    ("transformer", "response"): without(st.Memory, "h", "O"),
    ("transformer", "cause"): replaced("a", by=lambda value: ex.Call(
        "softmax", value.arguments, (("causal", False),))),
    ("transformer", "norm back"): replaced("g", "mid", by=lambda value: value.terms[0]),
    ("kinds", "biases learn"): without(st.Learned, "b"),
    ("tied", "learned"): own(st.Learned),
    ("tied", "memory"): own(st.Memory),
    ("tied", "fields"): independent_uses}


# All of them with LONG=1, since they judge the march, not the program; else some of the fast ones.
QUICK = [("outputs", "w learns"), ("momentum", "forgets"), ("muon", "steps forget"),
         ("regime2", "response of experts"), ("tied", "learned")]


@pytest.mark.parametrize("name", [" ".join(key) for key in (MUTANTS if ALL else QUICK)])
def test_without_a_term_it_is_not(name, solutions):
    which = next(key for key in MUTANTS if " ".join(key) == name)
    case, change = solutions(which[0]), MUTANTS[which]
    theory, kind = copy.deepcopy(case[1]), March
    if isinstance(change, type):
        kind = change
    else:
        change(theory)
    assert largest_z(case, march(case, theory, kind=kind)) > 1


@pytest.mark.skipif(not ALL, reason="make check-long")
def test_no_term_can_be_left_out(solutions):
    """Draws of the two are the same, so that the smallest terms are seen too; of all others
    dmft-solve itself says that they are there."""
    case = solutions("dense")
    whole, far, terms = march(case, case[1]), 0, 0
    for key, quantity in case[1].quantities.items():
        count = len(quantity.value.terms) if isinstance(quantity.value, st.Process) else 0
        for place in range(count):
            less = copy.deepcopy(case[1])
            left_out = less.quantities[key].value.terms.pop(place)
            found = march(case, less)
            change = found - whole
            error = change.std(0, ddof=1) / len(found) ** 0.5 + 1e-12
            z = np.abs(change.mean(0) / error).max()
            assert z > limit_of(change.shape[1], len(found) - 1), (quantity.symbol, left_out)
            terms, far = terms + 1, far + (largest_z(case, found) > 1)
    assert terms >= 15 and far >= terms - 2


def test_transposes_are_found_from_words():
    """Of a word that combines rows: that of a lag is the lag the other way."""
    words, draw = Words(), np.random.default_rng(5)
    words.inputs = 2
    g, x = draw.standard_normal((2, 6, 4))
    for k in (1, 2, -1, 0):
        back = ex.Call("transpose", (), (("place", 0), ("word", "lag"), ("tokens", k)))
        np.testing.assert_array_equal(words.transpose(back, g, x), words.lag(
            ex.Call("lag", (), (("tokens", -k),)), g))
