"""Networks written in Python: their text, their bits against built-in networks, refusals. Run by
tests/python.sh."""
import doctest
import glob
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from refusing import refuses
import word_tables

import dmft
from texts import text_of

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = {"training.steps": 3, "solver.sites": 32, "solver.expert_sites": 32,
         "solver.replicates": 2, "reference.widths": [16], "reference.seeds": 2}


def regime2(N_e=2):
    """As examples/regime2.lua, with the gates of data/regime2.ini."""
    net = dmft.Network()
    kappa = net.key("kappa", 1.0)
    h1 = net.read_in(net.population("bottom"), "W1")
    x1 = net.sigma(h1)
    experts = net.population("experts", size=kappa, sites="expert_sites", page=kappa)
    units = net.population("units", of=experts, group=N_e, page=kappa * N_e)
    psi = net.map(x1, experts, "Q")
    phi = net.sigmoid(psi, 1.0)
    net.gates(phi)
    h_in = net.map(x1, units, "W_in", rate=1 / (kappa * N_e), adam_eps=N_e)
    x2 = phi * net.sigma_of_experts(h_in)
    h3 = net.map(x2, net.population("top"), {"name": "W_out"}, a0=1)
    net.kernel(x1, "Phi1")
    net.kernel(h3, "Phi3")
    net.gradient(h1, "G1")
    net.read_out_kernel("G3")
    net.kernel(x2, "Phib")
    net.gradient(h_in, "Gb", scale=kappa ** 2)
    net.gradient(psi, "Gphi", scale=kappa ** 2)
    net.read_out(h3, "w")
    return net


def branches(depth=2):
    net = dmft.Network()
    stream = net.population("stream")
    h = net.read_in(stream, "W0")
    for l in range(depth):
        h = h + net.key("b", 0.5) * net.map(net.tanh(h), stream, f"W{l + 1}")
    net.read_out(h, "w")
    return net


def test_the_bits_of_the_built_in_network():
    ini = os.path.join(HERE, "..", "data", "regime2.ini")
    built_in = dmft.solve(ini, progress=False, **SMALL, **{"output.kernels": "diagonal",
                                                           "output.responses": "no"})
    written = dmft.solve({"data": {"inputs": 4, "dimension": 10}, "program.kappa": 0.5,
                          "training.eta0": 0.3, "reference.draws": "balanced"},
                         network=regime2(), progress=False, **SMALL)
    assert built_in.limit["loss"][2] != built_in.limit["loss"][0]
    found = dmft.diff(built_in, written, exact=True)
    assert found.equal, found
    again = dmft.solve(written.parameters["ini"], progress=False)  # the text is recorded
    np.testing.assert_array_equal(again.limit["loss"], written.limit["loss"])


def test_text():
    assert doctest.testmod(sys.modules["dmft.network"]).failed == 0
    net = dmft.Network()
    x = net.read_in(net.population("bottom"), "W")
    s = net.look(x, 2, "R")
    assert net.lua.splitlines()[1:] == [
        'v1 = population("bottom")', 'v2 = read_in(v1, "W")', 'v3 = look(v2, 2, "R")']
    for value, text in ((x + x, "v2 + v2"), (1 - s, "1 - v3"), (-x, "-v2"), (s[0], "v3[1]"),
                        (np.float64(0.5) * x, "0.5 * v2"), (x / 3, "v2 / 3"), (1 / s, "1 / v3"),
                        (s ** -0.5, "v3 ^ (-0.5)"), (2 ** s, "2 ^ v3"), (x - x, "v2 - v2"),
                        (x * net.N, "v2 * N"), (x.__radd__(1), "1 + v2")):
        assert f"\n{value._text} = {text}\n" in net.lua, text
    net.softmax(s, beta=2, top=1)
    net.bias(s, [0.5, np.float32(-1)], "b", rate=0)
    net.kernel(x, 'a"#\n', about="\u03a6")
    assert net.lua.splitlines()[-3].endswith("= softmax(v3, {beta = 2, top = 1})")
    assert net.lua.splitlines()[-2].endswith('= bias(v3, {0.5, (-1.0)}, {name = "b", rate = 0})')
    assert net.lua.splitlines()[-1] == 'kernel(v2, "a\\034\\035\\010", {about = "\u03a6"})'


def test_operators_are_those_of_numbers():
    """A chain of every operator on numbers of the program, against the same in Python: what each
    network measures is the constant."""
    def chain(a, b):
        return 3 - (-a + 2 * b) / 4 + (a - b) * 1.5 ** (1 / a) - a / b + (b + 1) ** 2 * a

    net = dmft.Network()
    h = net.read_in(net.population("bottom"), "W")
    net.kernel(h, "one")
    net.kernel(h, "K", scale=chain(net.key("a"), net.key("b", 5)))
    net.read_out(h, "w")
    run = dmft.solve({"program.a": 1.25, **SMALL}, network=net, progress=False)
    ratio = run.limit["K_diag"] / run.limit["one_diag"]
    np.testing.assert_allclose(ratio, chain(1.25, 5), rtol=1e-14)  # some ten roundings


def test_options_beside_a_table_join_it():
    """They were written behind it, where Lua dropped them."""
    net = dmft.Network()
    x = net.read_in(net.population("p", {"size": 2}, page=3), {"name": "W"}, s_f=2)
    net.read_out(x, "w")
    assert 'population("p", {size = 2, page = 3})' in net.lua
    assert 'read_in(v1, {name = "W", s_f = 2})' in net.lua


def test_every_operation_of_the_programs_is_known():
    """The rows of models/lua/, as dmft-solve prints them, are those of the package and of the
    tables of docs/programs.md; and no operation is a global of Lua without a row."""
    root = os.path.join(HERE, "..")
    program = os.path.join(os.environ["DMFT_HOME"], "dmft-solve")
    rows = subprocess.run([program, "--operations"], capture_output=True, text=True,
                          check=True).stdout
    assert text_of("python", "dmft", "operations.tsv") == rows, "make words"
    text = text_of("docs", "programs.md")
    assert rows.count("\n") > 30
    for line in rows.splitlines():
        chapter, name, arguments, _, about, _ = line.split("\t")
        if chapter in ("Optimizers", "Losses"):
            continue
        row = f"| `{name}({arguments})` | {about} |\n"
        assert row in text, f"make words: docs/programs.md, {chapter}"
    source = "".join(open(path, encoding="utf-8").read()
                     for path in glob.glob(os.path.join(root, "models", "lua", "*.c")))
    assert set(re.findall(r'lua_setglobal\(L, "(\w+)"\)', source)) - {"math", "string"} == \
        set(sys.modules["dmft.network"].CONSTANTS)
    assert dmft.Network().look.__doc__.startswith("look(x, K, W) -> numbers: ")


def test_a_new_word_stands_behind_the_one_before_it():
    """make words, of a page."""
    page = "| `a(x)` | old |\n| `c(x)` | c |\n"
    assert word_tables.with_rows(page, [
        ("| `a(", "| `a(x, k)` | new |"), ("| `b(", "| `b(x)` | b |"),
        ("| `c(", "| `c(x)` | c |")]) == "| `a(x, k)` | new |\n| `b(x)` | b |\n| `c(x)` | c |\n"


def test_sweeps_go_on(tmp_path):
    """The same network written again has the same text, and no run is repeated."""
    config = {"sweep": {"program.b": [0.25, 0.5]}, **SMALL, "reference.widths": []}
    out, folder = str(tmp_path / "s.h5"), tmp_path / "s.d"
    first = dmft.sweep(config, network=branches(), output=out, progress=False)
    stamps = {name: os.stat(folder / name).st_mtime_ns for name in os.listdir(folder)
              if name.endswith(".h5")}
    again = dmft.sweep(config, network=branches(), output=out, force=True, progress=False)
    assert len(stamps) == 2 and first.sweep["loss"][0, 0] != first.sweep["loss"][1, 0]
    np.testing.assert_array_equal(again.sweep["loss"], first.sweep["loss"].values)
    assert stamps == {name: os.stat(folder / name).st_mtime_ns for name in stamps}


def test_many_values():
    """More than Lua has locals."""
    net = dmft.Network()
    h = net.read_in(net.population("bottom"), "W")
    scale = net.key("a", 1)
    for _ in range(300):
        scale = scale + 1
    net.kernel(h, "K", scale=scale)
    net.kernel(h, "one")
    net.read_out(h, "w")
    run = dmft.solve({**SMALL, "reference.widths": []}, network=net, progress=False)
    np.testing.assert_allclose(run.limit["K_diag"] / run.limit["one_diag"], 301, rtol=1e-14)


def test_an_error_of_the_builder():
    net = branches()
    h = net.read_in(net.population("side"), "V")
    h + net.population("other")
    with pytest.raises(dmft.InputError) as caught:
        dmft.solve(SMALL, network=net, progress=False)
    error, line, last = caught.value, net.lua.count("\n"), net.lua.splitlines()[-1]
    assert f"network.lua:{line}: " in error.sentence and error.code == 2 and error.lua == net.lua
    assert str(error).startswith(error.sentence)
    assert re.search(rf"line {line} of the generated text is {re.escape(last)}, written at "
                     r"test_network.py:\d+$", str(error))
    with pytest.raises(dmft.InputError, match="the program never reads this key"):
        dmft.solve({"program.depth": 4, **SMALL}, network=branches(), progress=False)


def test_refusals():
    net = dmft.Network()
    x = net.read_in(net.population("bottom"), "W")
    for name, hint in (("tahn", "did you mean tanh?"), ("readin", "did you mean read_in?"),
                       ("qqq", "docs/programs.md lists them")):
        with pytest.raises(AttributeError, match=re.escape(f"no operation {name}; {hint}")):
            getattr(net, name)
    refuses("another Network", dmft.Network().tanh, x)
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(dmft.InputError, match="no number"):
            wrong * x
    key = net.key("depth", 2)
    for use in (lambda: range(key), lambda: 1 if key else 0, lambda: key == 2, lambda: key < 2,
                lambda: list(x), lambda: len(x), lambda: 2 in [key], lambda: x["a"],
                lambda: x[-1], lambda: net.tanh(object()), lambda: x + "W", lambda: float(key)):
        with pytest.raises(TypeError):
            use()
    refuses("must be a dmft.Network, not str", dmft.solve, SMALL, network="dense")


def test_a_text_that_is_too_long_for_a_command_line_goes_into_a_file():
    net = dmft.Network()
    x = net.read_in(net.population("p"), "W")
    for _ in range(3500):
        x = 0.5 * (x + x)
    net.read_out(x, "w")
    assert len(net.lua) > 100000 and os.path.exists(net.settings()["network.program"])
    found = dmft.describe(SMALL, network=net)
    assert sum(v.operation == "add" for v in found.networks[0].operations) == 3500
    net.tanh("x")
    refuses(r"network.lua:7\d+: .*written at test_network.py", dmft.describe, SMALL, network=net)
