"""Recipes of hundreds of experts and tens of blocks, of which few are described."""
import os
import threading

import dmft

import pytest
from dmft import command, program, recipe_command, run, sizes

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The fewest of which not all are described: twice two blocks, and twice four experts.
MANY = {"network": {"model": "transformer", "depth": 4, "experts": 8, "shared_experts": 1,
                    "gated_experts": "yes"}, "data": {"source": "copy", "tokens": 8,
                                                      "vocabulary": 4},
        "training": {"loss": "cross_entropy"}, "reference": {"widths": 64}}
DEEP = {"network": {"model": "dense", "depth": 5}, "data.inputs": 4, "reference": {"widths": 16}}
ODD = """
local L, M = key("depth", 2), key("experts", 2)
local top = population("top")
local x = tanh(read_in(top, "W1"))
for l = 0, L - 1 do
    for i = 0, M - 1 do
        x = x + map(x, top, {name = "W_" .. l .. "_" .. i,
                           rate = i == M - 1 and LAST or 1 + L * ODD})
    end
end
read_out(x, "w")
"""


def of_all(monkeypatch, config, **more):
    """The recipe from networks with all experts and blocks of the ini."""
    with monkeypatch.context() as patch:
        patch.setattr(sizes, "FEW", {"M": (), "L": ()})
        return dmft.recipe(config, **more)


@pytest.mark.parametrize("config", [MANY, DEEP], ids=["experts", "layers"])
def test_many_members_are_described_by_few(monkeypatch, config):
    """The same recipe, all names among it, as from networks that have them all; layers of a dense
    network are no family and are all there."""
    short, full = dmft.recipe(config), of_all(monkeypatch, config)
    assert short.tensors == full.tensors and short.sizes == full.sizes and str(short) == str(full)
    for one in full.at(N=128).tensors:
        other = short.at(N=128)[one.name]
        for law, number in zip([other.count, other.rows, other.columns, *other.numbers().values()],
                               [one.count, one.rows, one.columns, *one.numbers().values()]):
            assert law == number or float(law) == pytest.approx(float(number), rel=1e-12)
    if config is MANY:
        assert str(short["W1_3_8"].count) == "(M+1) L" and len(short["W1_3_8"].names) == 9 * 4
        with pytest.raises(dmft.InputError, match="there is no tensor W1_3_9"):
            short["W1_3_9"]  # pylint: disable=pointless-statement


@pytest.mark.parametrize("last, odd", [("1", 0), ("1 + L", 1), ("3", 0), ("M", 0)])
def test_what_few_members_do_not_show_is_of_the_ini(monkeypatch, tmp_path, last, odd):
    """Rates that are alike; that are no product of powers; of a last member that is another one."""
    (tmp_path / "x.lua").write_text(ODD.replace("LAST", last).replace("ODD", str(odd)))
    ini = {"network.program": str(tmp_path / "x.lua"), "program": {"depth": 4, "experts": 8},
           "data.inputs": 4, "reference.widths": 16}
    short, full = dmft.recipe(ini), of_all(monkeypatch, ini)
    assert short.tensors == full.tensors and short.sizes == full.sizes
    assert str(short) == str(full)
    if odd:
        assert float(short["W"].sgd) == 5 and not short["W"].exact


def test_hundreds_of_experts_in_tens_of_blocks(monkeypatch):
    """At most a hundredth of the experts are described."""
    seen, ask = [], program.described
    monkeypatch.setattr(run.program, "described", lambda words: seen.append(ask(words)) or seen[-1])
    found = dmft.recipe(MANY, **{"network.experts": 256, "network.depth": 32})
    assert len(found["W2"].names) == 257 * 32
    assert sum(text.count('"name":"W2_') for text in seen) < 257 * 32 * len(seen) / 100
    assert float(found.at(N=128)["W2"].count) == 257 * 32


def test_rows_that_are_alike_are_printed_once():
    """A rate of one expert makes two kinds of them."""
    found = dmft.recipe(MANY, **{"network.depth": 1, "network.experts": 3, "rates.W1_0_1": "2"})
    rows = [line.split("|")[1:3] for line in found.markdown().splitlines()
            if line.startswith("| W1")]
    assert [[word.strip() for word in row] for row in rows] == [["W1_0_0 W1_0_2 W1_0_3", "3"],
                                                                ["W1_0_1", "1"]]


def test_a_command_that_takes_long_says_so(monkeypatch, capsys):
    monkeypatch.setattr(command, "PATIENCE", 0.0)
    assert recipe_command.main([f"{ROOT}/data/regime2.ini"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("dmft-recipe: networks of several sizes are described")
    assert said.out.startswith("tensor") and said.err.count("\n") == 1


def test_a_command_says_what_it_is_at(monkeypatch):
    said, there = [], threading.Event()
    monkeypatch.setattr(command, "PATIENCE", 0.0)
    monkeypatch.setattr(program.Screen, "line", lambda _, text: (said.append(text), there.set()))
    with command.patience("dmft-torch", "the module is built"):
        assert there.wait(60)
    assert said == ["dmft-torch: the module is built"]


def test_numbers_at_two_widths_stand_beside_the_powers():
    """They are those of `at`."""
    found = dmft.recipe(f"{ROOT}/data/regime2.ini")
    line = next(line for line in str(found).split("At N = 64")[1].splitlines()
                if line.startswith("W_out"))
    small, large = (found.at(N=N)["W_out"] for N in (64, 256))
    assert line.split() == ["W_out", f"{float(small.std):g},", f"{float(large.std):g}", "1",
                            f"{float(small.adam):g},", f"{float(large.adam):g}"]
    assert "At N = 64" not in str(found.at(N=128))


def test_vectors_and_numbers():
    """Laws of docs/theory/parameterizations.md: a vector is a read-in of the number 1."""
    recipe = dmft.recipe(os.path.join(ROOT, "examples/gains.ini"))
    assert {str(recipe[name].kind) for name in ("gain_1", "b1")} == {"vector"}
    for name, law in (("gain_1", "gamma0^2 N"), ("branch", "gamma0^2")):
        one = recipe[name]
        assert str(one.sgd) == law and str(one.adam) == "1" and one.std is one.decay is None
    assert str(recipe["b1"].eps) == "N^-1" and str(recipe["branch"].eps) == "1"
    assert (str(recipe["b1"].rows), str(recipe["b1"].columns)) == ("1", "N")
