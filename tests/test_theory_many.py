"""Equations of hundreds of experts and tens of blocks, of which few are derived."""
import os

import dmft
import pytest
from dmft import run
from dmft.theory import many

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The fewest of which not all are derived: twice five blocks, and with CHOICE twice six experts.
MANY = {"network": {"model": "transformer", "depth": 10, "experts": 12, "shared_experts": 1},
        "data": {"source": "copy", "tokens": 8, "vocabulary": 4},
        "training": {"loss": "cross_entropy"}, "reference": {"widths": 64}}
CHOICE = {"network.balance_loss": 0.1, "network.gate": "softmax", "network.z_loss": 0.1,
          "network.rho": "0.25", "network.bias": "trained", "network.eta_bias": 0.1}
STACK = {"network": {"model": "stack", "depth": 10, "mixture": "regime1", "experts": 12,
                     "stream": "yes"}, "data.inputs": 4, "reference": {"widths": 64}}
ODD = """
local L, M = key("depth", 2), key("experts", 2)
local top = population("top")
local x = read_in(top, "W1")
name_rows(x, "h_0")
for l = 0, L - 1 do
    local all, y = 0, tanh(x)
    for i = 0, M - 1 do
        local one = map(y, top, {name = "W2_" .. l .. "_" .. i, rate = RATE, family = "W2"})
        all = i == 0 and one or all + one
    end
    x = x + all
    name_rows(x, "h_" .. l + 1)
end
read_out(x, "w")
"""


def both(monkeypatch, config, **more):
    """Equations from few and from all, and how often each network was described."""
    asked = []
    with monkeypatch.context() as patch:
        ask = run.program.described
        patch.setattr(run.program, "described", lambda words: asked.append(ask(words)) or asked[-1])
        short = dmft.equations(config, **more)
    with monkeypatch.context() as patch:
        patch.setattr(many, "fewer", lambda settings: many.Few({}))
        full = dmft.equations(config, **more)
    return short, full, asked


@pytest.mark.parametrize("config, more", [
    (MANY, {**CHOICE, "network.depth": 2, "training.optimizer": "adam"}),
    (MANY, {"network.experts": 2}), (MANY, {"network.depth": 1, "rates.W2_0_1": 2}),
    (STACK, {"training.optimizer": "adam"}),
    (f"{ROOT}/data/residual.ini", {"network.depth": 10})],
    ids="choice blocks rate stack residual".split())
def test_equations_of_many_are_those_of_few(monkeypatch, config, more):
    """Every letter of all three texts, from networks of at most nine experts in four times seven
    blocks (scales take a key up to four times)."""
    short, full, asked = both(monkeypatch, config, **more)
    assert isinstance(short._page, many.Page) and not isinstance(full._page, many.Page)
    assert short.markdown() == full.markdown() and short.latex() == full.latex()
    assert short._repr_latex_() == full._repr_latex_()
    assert max(text.count('"name":"W2_') for text in asked) <= 4 * 7 * 9
    if config is STACK:                 # whose theory, that of all in any case, is soon derived
        assert short.theory == full.theory


@pytest.mark.parametrize("rate, of_few", [("1", True), ("i == M - 1 and 3 or 1", True),
                                          ("i == 7 and l == 5 and 3 or 1", False),
                                          ("1 + i", False)])
def test_a_member_of_another_kind_is_seen(monkeypatch, tmp_path, rate, of_few):
    """An expert that the few do not have, and rates that differ from expert to expert."""
    (tmp_path / "x.lua").write_text(ODD.replace("RATE", rate))
    ini = {"network.program": str(tmp_path / "x.lua"), "program": {"depth": 10, "experts": 12},
           "data.inputs": 4, "reference.widths": 16}
    short, full, _ = both(monkeypatch, ini)
    assert isinstance(short._page, many.Page) == of_few
    assert short.markdown() == full.markdown()


def test_a_rate_of_an_expert_that_few_do_not_have(monkeypatch):
    """All are derived."""
    short, full, _ = both(monkeypatch, MANY, **{"network.depth": 1, "rates.W2_0_11": 2})
    assert not isinstance(short._page, many.Page)
    assert short.markdown() == full.markdown()


def test_hundreds_of_experts_in_tens_of_blocks(monkeypatch):
    """At most some dozens of the experts are described, and none is derived twice."""
    asked, ask = [], run.program.described
    monkeypatch.setattr(run.program, "described",
                        lambda words: asked.append(ask(words)) or asked[-1])
    text = dmft.equations(MANY, **{"network.experts": 256, "network.depth": 60}).markdown()
    assert r"(i=0,\dots,255)" in text and r"(\ell=0,\dots,59)" in text and "$L=60$" in text
    assert max(found.count('"name":"W2_') for found in asked) <= 4 * 7 * 9


def test_texts_that_are_no_sums_are_no_template():
    """A product, and another word."""
    few = many.Few({"network.experts": (4, 60), "network.depth": (4, 60)})
    sizes = [one.values() for one in few.samples]
    good = many.Template([f"{M} of {2 * L - 1}" for M, L in sizes], few)
    assert good({"network.experts": 60, "network.depth": 50}) == "60 of 99"
    for bad in ("{M} of {ML}", "{M} of {half}", "{M} {word}"):
        with pytest.raises(ValueError):
            many.Template([bad.format(M=M, ML=M * L, half=M / 2, word="x" if M == 4 else "y")
                           for M, L in sizes], few)
