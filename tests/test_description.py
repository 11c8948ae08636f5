"""Networks as data: docs/program_format.md says all that is written, and files hold it."""
import glob
import json
import os
import re
import subprocess

import dmft
import pytest
from refusing import refuses
import xarray
from dmft import description
from dmft.scaling import scaling
from texts import text_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# data/text.ini reads a file that `make text` makes; its network is that of transformer.ini, and
# language_model.ini has a larger one, which takes half a minute.
INIS = [ini for folder in ("data", "examples")
        for ini in sorted(glob.glob(f"{ROOT}/{folder}/*.ini"))
        if not ini.endswith(("_compare.ini", "/text.ini", "/language_model.ini"))]
# Settings that reach what no ini does.
MORE = [("data/regime1.ini", {"network.rho": 0.5, "network.eta_bias": 0.1, "network.z_loss": 0.1,
                              "network.balance_loss": 0.1, "network.bias": "trained"}),
        ("data/regime2_softmax.ini", {"network.rho": 0.5, "network.z_loss": 0.1,
                                      "network.balance_loss": 0.1}),
        ("data/residual.ini", {"network.rho": 0.5}),
        ("data/transformer.ini", {"training.optimizer": "adam"}),
        ("examples/expert_choice.ini", {"program.capacity": 1})]


def page() -> str:
    """The page that has the format."""
    return text_of("docs", "program_format.md")


def table(title: str, level: str = "##") -> dict[str, set]:
    """{word of the first column: words of the second} of the tables below a title."""
    found = {}
    for line in page().split(f"\n{level} {title}\n")[1].split("\n##")[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        for word in re.findall(r"`(\w+)`", cells[0]) if len(cells) == 3 else ():
            found[word] = set(re.findall(r"`(\w+)`", cells[1]))
    return found


def keys(title: str) -> set:
    return set(re.findall(r"`(\w+)`", page().split(f"\n## {title}\n")[1].split("\n## ")[0]))


LUA = """
local lower, upper = population("lower", {size = 1}), population("upper", {size = 1})
local heads = population("heads", {size = 0.25})
local units = population("units", {size = 1, of = heads, group = 4})
local x = tanh(read_in(lower, "W1"))
local y = norm(map(x, upper, "W2")) + lag(map(x, upper, "W3"), 1)
local a = attend(map(x, upper, "W_q"), map(x, upper, "W_k"), 2)
y = mix(softmax(a, {causal = true}), y)
local v = map(y, units, "V")
local s = softmax(attend(v, map(y, units, "K"), 1, heads), {causal = false})
y = y + map(mix(s, v) + expand(group_mean(v, heads), units), upper, "O")
local z = bias(look(y, 3, "Q"), {0, 0.1, 0.2}, "b")
local b = top(z, 2)
local t = exp(stop(z)) * 2 + log(1 + sum(b) ^ 2) + 1 / (2 + tanh(z[1])) + softmax(z)[2]
t = t + log_sum_exp(gelu(z))
t = t * sum(balance_select(z, 1, {eta_bias = 0.1, name = "c"}))
y = mean(y) + t[1] * y + embed(softmax(z), upper, "E")
y = y * top(y, 8)
penalty(sum(mean_of_rows(z * z)), "size")
penalty(mean(mean_of_rows(y)), "mean")
y = erf(relu(y)) + gelu(softplus(y))
name_rows(y, "top")
show_gradient(mean(y), "above")
read_out(pool(y), "w")
"""


def described(folder):
    """All networks and examples, and what no one of them has."""
    for ini in INIS:
        yield dmft.describe(ini)
    for ini, more in MORE:
        yield dmft.describe(os.path.join(ROOT, ini), **more)
    (folder / "all.lua").write_text(LUA)
    yield dmft.describe({"network": {"program": str(folder / "all.lua")},
                         "data": {"inputs": 4, "dimension": 8, "tokens": 3},
                         "reference": {"widths": 32}})


def test_every_operation_and_rule_stands_on_the_page_with_its_constants(tmp_path):
    known = {"": table("Operations"), "numbers": table("Rules of numbers", "###"),
             "rows": table("Rules of rows", "###"), "penalty": table("Penalties", "###")}
    met = {kind: set() for kind in known}
    for whole in described(tmp_path):
        for program in filter(None, [whole.limit, *whole.networks]):
            for W in program.matrices:  # a map has as many columns as sites, and alone a scale s_f
                assert W.width == 0 if W.kind == "map" else W.width > 0 and W.s_f == 1, W
            for op in program.operations:
                assert op.operation != "ones" or op.row == "all", op
                constants = set(op.constants)
                if "rule" in constants:
                    start = {"start"} & known[op.operation][op["rule"]]  # left out where it is 0
                    assert known[op.operation][op["rule"]] == constants - {"rule"} | start, op
                    met[op.operation].add(op["rule"])
                else:
                    assert known[""][op.operation] == constants, op
                met[""].add(op.operation)
    for kind, words in known.items():
        assert set(words) == met[kind], kind


def test_adjoints_are_made_of_words_of_the_page(tmp_path):
    own = table("Adjoints", "###")
    known, rules = table("Operations") | own, table("Rules of numbers", "###")
    met = set()

    def judge(tree, at):
        if isinstance(tree, dict):
            word = tree["operation"]
            met.add(word)
            constants = known[word] | (rules[tree["rule"]] if word == "numbers" else set())
            assert tree.keys() - {"operation", "arguments"} <= constants, tree
            for one in tree["arguments"]:
                judge(one, at)
        else:
            assert tree == "g" or 0 <= tree <= at, tree
    for whole in described(tmp_path):
        assert not any(op.adjoint for program in whole.networks for op in program.operations)
        for at, op in enumerate(whole.limit.operations if whole.limit else ()):
            for tree in filter(None, op.adjoint or ()):
                judge(tree, at)
    assert own.keys() <= met, own.keys() - met


def test_every_word_of_programs_is_in_a_program():
    """Those of dmft-solve --operations, as python/dmft/operations.tsv keeps them: in a program of
    examples/, or else in that of this file. What a word adds to a description then is described."""
    scripts = [LUA]
    for path in glob.glob(f"{ROOT}/examples/*.lua"):
        scripts.append(text_of(path))
    used = set(re.findall(r"(\w+) ?\(", "\n".join(scripts)))
    with open(f"{ROOT}/python/dmft/operations.tsv", encoding="utf-8") as file:
        words = {row[1] for row in (line.split("\t") for line in file)
                 if row[0] not in ("Optimizers", "Losses")}
    assert len(words) > 40 and words <= used, words - used


def test_every_key_stands_on_the_page():
    titles = {description.Description: "The whole", description.Program: "A network",
              description.Population: "Populations", description.Matrix: "Matrices",
              description.Operation: "Operations", description.Kernel: "Kernels and results",
              description.Numbers: "Kernels and results"}
    for kind, title in titles.items():
        names = {field for field in kind.__dataclass_fields__ if field not in ("constants", "text")}
        assert names <= keys(title), title


def test_unknown_keys_and_formats_are_refused():
    given = json.loads(dmft.describe(INIS[0]).text)
    given["limit"]["populations"][0]["colour"] = "red"
    with pytest.raises(dmft.InputError, match="populations with colour"):
        description.read(json.dumps(given)).limit.populations  # pylint: disable=W0106
    refuses("format 2", description.read, '{"format": 2}')
    for text in ("[]", "none", '{"format": 1}'):    # of a file that a stranger has made
        file = dmft.Result("x.h5", {"/": xarray.Dataset({"description": text})})
        refuses("^x.h5: is damaged, or not as the programs", dmft.describe, file)


def test_a_file_says_which_network_it_is_of():
    run = dmft.solve(f"{ROOT}/data/regime2.ini", progress=False,
                     **{"training.steps": 2, "solver.replicates": 1, "solver.sites": 64,
                        "solver.expert_sites": 64, "reference.seeds": 1,
                        "reference.widths": [32, 64], "rates.Q": "3"})
    described = dmft.describe(run)
    assert [network.width for network in described.networks] == [32, 64]
    plain = dmft.describe(f"{ROOT}/data/regime2.ini").networks[0]
    assert described[64].matrix("Q").rate == 3 * plain.matrix("Q").rate
    refuses("no network and no keys", dmft.describe, run, **{"training.eta0": 1})


def test_powers_of_settings_and_data_are_numbers():
    def of(name, **more):
        d = dmft.describe(f"{ROOT}/data/regime2.ini", **{"network.rho": 0.25} | more)
        return [program.matrix(name) for program in (d.limit, d.networks[0])]

    width = dmft.describe(f"{ROOT}/data/regime2.ini").networks[0].width
    plain = of("W_out")
    limit, network = of("W_out", **{"init.W_out": "2 rho^0.5 kappa^-1 N_e^0.5 P D^0.5",
                                    "rates.W_out": "N^-1 rho^-1"})
    # rho = 1/4, kappa = 1/2, N_e = 2, P = 4, D = 10; factors are products of five numbers
    times = 2 * 0.5 * 2 * 2 ** 0.5 * 4 * 10 ** 0.5
    assert limit.a0 == pytest.approx(plain[0].a0 * times, rel=1e-14)
    assert network.a0 == pytest.approx(plain[1].a0 * times, rel=1e-14)
    assert network.rate == pytest.approx(plain[1].rate * 4 / width, rel=1e-14)
    assert limit.rate == 0
    for text, sentence in (("L^2", "this network has no L, the number of blocks"),
                           ("kappa^1e5", "beyond the range of numbers"),
                           ("iota", r"no iota, the units of an expert over the width")):
        refuses(sentence, of, "W_out", **{"init.W_out": text})


def test_a_limit_that_does_not_exist_is_none_and_says_why():
    d = dmft.describe(f"{ROOT}/data/regime2.ini", **{"init.Q": "N^0.5", "solver.replicates": 0})
    assert d.limit is None and "Q grows as N^0.5" in d.no_limit


@pytest.mark.parametrize("ask", ["python", "program"])
def test_a_limit_that_is_not_asked_for(ask):
    """Nor is it in what dmft.torch asks for, which would take twice as long."""
    whole = dmft.describe(f"{ROOT}/data/regime2.ini")
    if ask == "python":
        d = dmft.describe(f"{ROOT}/data/regime2.ini", limit=False)
    else:
        d = description.read(dmft.program.call("dmft-solve", [
            "--program", f"{ROOT}/data/regime2.ini", "--no-limit"], False))
    assert whole.limit and d.limit is None and d.no_limit is None
    assert d.networks == whole.networks and json.loads(d.text)["limit"] is None
    with pytest.raises(dmft.InputError, match="--no-limit goes with --program; of a run: "):
        dmft.program.call("dmft-solve", ["--no-limit", f"{ROOT}/data/regime2.ini"], False)


def test_dimension_and_decay():
    """D where inputs span fewer directions; biases do not decay."""
    d = dmft.describe(f"{ROOT}/data/regime1.ini")
    assert d.dimension == 10 and d.limit.directions == 4
    assert {W.kind for W in d.limit.matrices if not W.decays} == {"bias"}


def test_sides_of_a_comparison_have_their_own():
    run = dmft.compare(f"{ROOT}/data/regime2_compare.ini", progress=False,
                       **{"training.steps": 2, "solver.replicates": 2, "solver.sites": 64,
                          "solver.expert_sites": 64, "reference.seeds": 2,
                          "reference.widths": [32, 64]})
    refuses("no networks of its own", dmft.describe, run)
    texts = {name: json.loads(run[name]["description"].item()) for name in ("mup", "mssp")}
    assert {name: text["settings"]["network"]["parameterization"]
            for name, text in texts.items()} == {"mup": "mup", "mssp": "mssp"}


def test_a_reason_may_be_any_bytes(tmp_path):
    """Of a limit that a script refuses; the networks stay."""
    (tmp_path / "x.lua").write_bytes(b'if limit then error("no \\xff") end\n'
                                     b'read_out(read_in(population("a"), "W"), "w")\n')
    d = dmft.describe({"network": {"program": str(tmp_path / "x.lua")}, "reference.widths": 8,
                       "solver.replicates": 0})
    assert d.limit is None and d.no_limit.endswith("no ?") and len(d.networks) == 1


@pytest.mark.parametrize("words", [["--continue", "x.h5"], ["x.ini", "-o", "x.h5"]])
def test_options_that_describe_nothing_are_refused(words):
    with pytest.raises(dmft.InputError, match="it takes no " + words[-2]):
        dmft.program.call("dmft-solve", ["--program", *words], False)


def test_answers_are_what_the_program_prints(tmp_path, monkeypatch):
    """`dmft-solve --programs`, which python asks: one for all questions, another one in another
    folder or after it has died; a refusal leaves it alive."""
    ask, words = dmft.program.described, [f"{ROOT}/data/dense.ini", "--network.depth=4"]
    assert ask(words) == dmft.program.call("dmft-solve", ["--program", *words], False)
    child = ask.child
    with pytest.raises(dmft.InputError) as refusal:
        ask([words[0], "--network.depth=0"])
    with pytest.raises(dmft.InputError) as printed:
        dmft.program.call("dmft-solve", ["--program", words[0], "--network.depth=0"], False)
    assert refusal.value.sentence == printed.value.sentence
    refuses("unknown option --force", ask, [words[0], "--force"])
    assert ask(words) and ask.child is child
    (tmp_path / "here.ini").write_text("[network]\nmodel = dense\n[data]\ninputs = 4\n")
    monkeypatch.chdir(tmp_path)
    assert '"depth":3' in ask(["here.ini"]) and ask.child is not child
    assert child.returncode is not None
    ask.child.kill()
    ask.child.wait()
    assert '"depth":3' in ask(["here.ini"])


@pytest.mark.parametrize("line", ["{}", "[3]", '["x.ini"', "[]", ""])
def test_questions_are_lists_of_texts(line):
    answer = subprocess.run([dmft.program.find("dmft-solve"), "--programs"], input=line + "\n",
                            capture_output=True, text=True, check=True).stdout
    assert answer.startswith('{"code":2,"error":') and answer.count("\n") == 1


def test_a_path_of_any_bytes_is_asked_for(tmp_path):
    path = os.fsencode(tmp_path) + b"/x\xff.ini"
    with open(path, "w", encoding="utf-8") as file:
        file.write("[network]\nmodel = dense\n")
    assert '"depth":3' in dmft.program.described([os.fsdecode(path)])


def test_sizes_of_broken_powers(tmp_path):
    """Of a limit, whose populations may go with N^1.5 or N^(4/3)."""
    (tmp_path / "x.lua").write_text("""
local bottom = population("bottom")
local x = read_in(bottom, "W")
for k, power in ipairs({0, 1/4, 1/3, 0.5, 1}) do
  x = map(x, population("p" .. k, {size = 3 * N^power}), "W" .. k)
end
read_out(x, "w")
""")
    d = dmft.describe({"network": {"program": str(tmp_path / "x.lua")}, "reference.widths": "",
                       "solver.replicates": 1})
    sizes = [(round(on.factor, 9), round(on.power, 9)) for on in d.limit.populations]
    assert sizes == [(1, 1), (3, 1), (3, 1.25), (3, round(4 / 3, 9)), (3, 1.5), (3, 2)]


def test_a_limit_need_not_exist():
    """Nothing is computed, so that the default replicates ask for none."""
    d = dmft.describe(f"{ROOT}/data/regime1.ini", **{"network.parameterization": "sp"})
    assert d.limit is None and "Q grows as N^1" in d.no_limit and d.networks[0].width == 64
    with pytest.raises(dmft.InputError, match=r"Q grows as N\^1"):
        dmft.solve(f"{ROOT}/data/regime1.ini", progress=False, **{"network.parameterization": "sp"})
    with pytest.raises(dmft.InputError, match=r"Q grows as N\^0.5"):  # nothing is left to describe
        dmft.describe(f"{ROOT}/data/regime2.ini", **{"init.Q": "N^0.5", "reference.widths": ""})


def test_starts_of_selections():
    """Written one by one only where one is not zero."""
    keys = {"network.rho": 0.5, "network.eta_bias": 0.1, "reference.widths": 16}
    rules = [[v for v in dmft.describe(f"{ROOT}/data/{ini}.ini", **keys).networks[0].operations
              if v.constants.get("rule") == "select"] for ini in ("regime2", "residual")]
    assert rules[0] and all("start" not in v.constants for v in rules[0])
    assert rules[1] and all(any(v["start"]) for v in rules[1])


@pytest.mark.parametrize("key, sentence", [
    ("init.W2", "initial scale of matrix W2 is 1e[+]36: it must be below 1e24"),
    ("rates.W2", "rate or eps of matrix W2 is too large for a number"),
    ("eps.w", "rate or eps of matrix w is too large for a number")])
def test_numbers_of_networks_have_an_end(key, sentence):
    """[init] W2 = N^20 of networks alone; it was an assertion, and a run without memory."""
    with pytest.raises(dmft.InputError, match=sentence):
        dmft.describe(f"{ROOT}/data/dense.ini", **{
            key: "N^18" if key == "init.W2" else "1e300 N^100", "reference.widths": 100,
            "solver.replicates": 0, "training.optimizer": "adam"})


def test_the_largest_seed_is_told():
    for seed in (2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1):
        told = dmft.describe(f"{ROOT}/data/dense.ini", **{"data.seed": seed}).settings["data"]
        assert int(told["seed"]) == seed


@pytest.mark.parametrize("head_limit", [{"heads": 2}, {"head_limit": "many", "head_width": 32}],
                         ids=["fixed", "many"])
def test_the_rate_of_all_heads_is_that_of_a_part_and_of_their_number(head_limit):
    """(n/m)^1/2 of a part, with 1/H where heads are added up, and of the whole."""
    more = {"network." + key: value for key, value in head_limit.items()}
    for way, rates, rest in (("each", (0.5 ** 0.5, 0.5 ** 0.5), ""), ("together", (1, 1), ""),
                             ("together", None, "W_Q_0")):
        network = dmft.describe(f"{ROOT}/data/transformer.ini", **more, **{
            "training.optimizer": "muon", "training.muon_heads": way, "network.experts": 0,
            "training.rest": rest, "reference.widths": 64}).networks[0]
        if rates:
            found = [scaling(network, W).muon for W in network.matrices
                     if W.name[:3] in ("W_Q", "W_O")]
            assert found == pytest.approx(rates * (len(found) // 2))
        assert {W.muon_whole for W in network.matrices if W.name[:5] == "W_Q_0"} == {
            "W_Q_0" if way == "together" and not rest else None}
