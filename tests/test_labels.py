"""Labels: what the author of a network calls its things, of any length, beside their short names.
From Lua and Python into descriptions, messages and files. Run by tests/python.sh."""

import h5py
import numpy as np
import pytest
from running import call, done, in_a_folder, write

import dmft
from dmft.plot import page as page_of
from dmft.plot import select

# The longest of one, two, three and four bytes a letter, quotes and a backslash among them.
LONG = "model.layers." + "3." * 140 + "größe \"w1\" \\ 重み 𝛽"
LABELS = {"bottom": "hidden_states", "W1": "model.embed.weight", "W2": LONG, "Q": "router.gate",
          "w": "lm_head.weight", "Phi": "layer 1", "G": "its gradient", "Cw": "read-out",
          "psi": "logits", "gpsi": "their gradient"}
SETTINGS = {"data.source": "gaussian", "data.inputs": 3, "data.dimension": 4, "training.steps": 4,
            "solver.sites": 64, "solver.replicates": 2, "reference.widths": [16],
            "reference.seeds": 2, "output.weights": "final", "output.singular": "W2",
            "output.responses": "yes"}


def network(labels=LABELS):
    """Everything that may have a label, and W3 and top without one."""
    net = dmft.Network()

    def of(name):
        return {"label": labels[name]} if name in labels else {}
    x = net.tanh(net.read_in(net.population("bottom", **of("bottom")), "W1", **of("W1")))
    top = net.population("top")
    y = net.map(x, top, "W2", **of("W2")) + net.map(x, top, "W3")
    psi = net.bias(net.look(x, 2, "Q", **of("Q")), [0.1, 0.2], "b")
    net.kernel(x, "Phi", **of("Phi"))
    net.gradient(y, "G", **of("G"))
    net.read_out_kernel("Cw", **of("Cw"))
    net.show(psi, "psi", **of("psi"))
    net.show_gradient(psi, "gpsi", **of("gpsi"))
    net.read_out(net.softmax(psi)[0] * y, "w", **of("w"))
    return net


def labels_of(program):
    return {one.name: one.label for one in [*program.populations, *program.matrices,
                                            *program.kernels, *program.results]}


def test_descriptions_have_them():
    assert len(LONG.encode()) > 300
    said = dmft.describe(SETTINGS, network=network())
    nothing = dict.fromkeys(["top", "W3", "b"])
    for program in (said.limit, said.networks[0]):
        assert labels_of(program) == LABELS | nothing
    assert set(labels_of(dmft.describe(SETTINGS, network=network({})).limit).values()) == {None}


def file_labels(path):
    """{array of the limit or of networks: its label}."""
    found = {}
    with h5py.File(path) as file:
        for group in (file["limit"], file["reference/N0016"]):
            for name, array in group.items():
                if "label" in array.attrs:
                    assert found.setdefault(name, array.attrs["label"]) == array.attrs["label"]
    return found


def numbers(path):
    with h5py.File(path) as file:
        return {f"{group}/{name}": array[()] for group in ("limit", "reference/N0016")
                for name, array in file[group].items() if name != "seconds"}


def test_files_have_them_and_nothing_else_changes(tmp_path):
    one, other = str(tmp_path / "one.h5"), str(tmp_path / "other.h5")
    dmft.solve(SETTINGS, network=network(), output=one, progress=False)
    dmft.solve(SETTINGS, network=network({}), output=other, progress=False)
    found = file_labels(one)
    for name, array in {"Phi": "Phi_diag", "G": "G_diag", "Cw": "Cw_diag", "psi": "psi",
                        "gpsi": "gpsi", "W1": "weights_W1", "Q": "weights_Q", "w": "weights_w"
                        }.items():
        assert found.pop(array) == LABELS[name], name
    assert set(found.values()) == {LONG}
    assert {"weights_W2", "singular_W2", "A_W2", "B_W2"} <= set(found)
    assert not file_labels(other)
    a, b = numbers(one), numbers(other)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_runs_go_on_with_them(tmp_path):
    out, whole = str(tmp_path / "out.h5"), str(tmp_path / "whole.h5")
    more = {"output.checkpoint": 60}
    dmft.solve(SETTINGS, network=network(), output=out, progress=False, **more)
    dmft.resume(out, progress=False, **{"training.steps": 7})
    dmft.solve(SETTINGS | {"training.steps": 7}, network=network(), output=whole, progress=False)
    assert file_labels(out) == file_labels(whole)
    a, b = numbers(out), numbers(whole)
    for name in b:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_coordinate_checks_have_them(tmp_path):
    path = str(tmp_path / "check.h5")
    keys = {"reference.coordinate_check": "yes", "output.responses": "no"}
    dmft.solve(SETTINGS | keys, network=network(), output=path, progress=False)
    found = file_labels(path)
    assert {name for name in found if name.startswith("rms_W2")} and \
        all(label == LONG for name, label in found.items() if name.startswith("rms_W2"))
    assert found["rms_Q"] == LABELS["Q"]
    assert not [name for name in found if name.startswith("rms_W3")]


AWKWARD = r'blocks.3.w_1 {50%} $x$ \a^b~c #& | "q"'


def test_recipes_speak_with_them():
    net = network(LABELS | {"W2": "blocks.0.w_1", "Q": AWKWARD})
    found = dmft.recipe(SETTINGS, network=net)
    assert found["W2"].labels == ["blocks.*.w_1"] and not found["W3"].labels
    assert found["blocks.0.w_1"] is found["blocks.5.w_1"] is found["blocks.*.w_1"] is found["W2"]
    assert found[AWKWARD] is found["Q"]
    both = dmft.recipe(SETTINGS, network=network(LABELS | {"Q": LABELS["W2"]}))
    with pytest.raises(dmft.InputError, match="is several tensors, .* ask for one of"):
        both[LABELS["W2"]]
    first = [line.split("  ")[0] for line in str(found).splitlines()]
    kind = AWKWARD.replace("3", "*")
    assert first[2:8] == ["model.embed.weight", "blocks.*.w_1", "W3", kind, "b", "lm_head.weight"]
    rows = found.markdown().splitlines()
    assert rows[5].startswith("| " + kind.replace("*", r"\*").replace("|", r"\|") + " | 2 x N |")
    assert r"w\_1 \{50\%\} \$x\$ \textbackslash a\textasciicircum b\textasciitilde c \#\& |" in \
        found.latex()
    assert "blocks.*.w_1 {50%} $x$ \\a^b~c #&amp; | &quot;q&quot;" in found._repr_html_()


def test_matrices_of_one_kind_are_one_row():
    """Names that do not differ by a number at their end alone, as those of an import."""
    net = dmft.Network()
    stream = net.population("stream")
    h = net.read_in(stream, "W0")
    for block in range(3):
        for part in "qk":
            h = h + net.map(net.tanh(h), stream, f"h_{block}_{part}",
                            label=f"h.{block}.{part}.weight")
    net.read_out(h, "w")
    lines = str(dmft.recipe(SETTINGS | {"output.singular": ""}, network=net)).splitlines()
    found = [line.split()[:2] for line in lines[2:6]]
    assert found == [["W0", "1"], ["h.*.q.weight", "3"], ["h.*.k.weight", "3"], ["w", "1"]]


def test_equations_and_pictures_tell_them():
    net = network(LABELS | {"W2": "blocks.0.w1", "W1": AWKWARD, "Phi": "layer $1"})
    page = dmft.equations(SETTINGS, network=net)
    said = f"`bottom` is `hidden_states`; `W1` is `{AWKWARD.replace('3', '*')}`; `W2` is `blocks."
    assert said in page.markdown()
    assert r"\texttt{W1} is \texttt{blocks.*.w\_1 \{50\%\} \$x\$ \textbackslash a" in page.latex()
    dot = dmft.draw(SETTINGS, network=net).source
    assert 'label="hidden_states  (N)' in dot and 'label=" blocks.*.w1"' in dot
    assert r'label=" blocks.*.w_1 {50%} $x$ \\a^b~c #& | \"q\""' in dot
    assert 'label=" W2"' in dmft.draw(SETTINGS, network=network()).source    # no room
    run = dmft.solve(SETTINGS | {"output.kernels_of": "W2"}, network=net, progress=False)
    assert run.limit["K_W2_diag"].attrs["label"] == "blocks.0.w1"
    assert "y_c - f_c" in run.limit["loss"].attrs["tex"]
    heading = select.heading(run, "Phi", "Phi_diag")
    assert heading.splitlines()[0].endswith(r": feature kernel (layer \$1)")
    assert page_of._about([("", run)])["Phi_diag"] == \
        "feature kernel, averaged over inputs (layer $1)"


INI = "[network]\nprogram = x.lua\n[data]\nsource = gaussian\ninputs = 3\ndimension = 4\n" \
    "[training]\nsteps = 4\n[solver]\nsites = 32\nreplicates = 1\n"


def program(matrix='{name = "W2", label = "blocks.0.mlp.weight"}', rest=""):
    return 'local p = population("p", {label = "the stream"})\n' \
        'local x = tanh(read_in(p, "W1"))\n' \
        f'local y = map(x, p, {matrix})\n{rest}read_out(y, "w")\n'


def refused(text):
    write(x_ini=INI, x_lua=text)
    result = call("--program", "x.ini")
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    return result.stderr


@pytest.mark.parametrize("label", [
    '""', "3", "{}", "true", '"a\\nb"', '"a\\tb"', '"a\\000b"', '"a\\127b"', '"\\xff"', '"\\xc3"',
    '"\\xed\\xa0\\x80"', '"\\xc2\\x80"', 'key("long")'])
def test_what_is_no_label_is_refused(label):
    write(x_ini=INI + f"[program]\nlong = {'x' * 16385}\n" if "key" in label else INI)
    text = program(f'{{name = "W2", label = {label}}}')
    write(x_lua=text)
    result = call("--program", "x.ini")
    assert result.returncode == 2
    assert "x.lua:3: option label must be a text of 1 to 16384 bytes in UTF-8, without tabs and " \
        "other control characters" in result.stderr


def test_the_longest():
    longest = "ä" * 8192
    said = dmft.describe(SETTINGS, network=network(LABELS | {"W2": longest}))
    assert said.limit.matrix("W2").label == longest


def test_messages_have_them():
    grows = '{name = "W2", a0 = N, label = "blocks.0.mlp.weight"}'
    assert "matrix W2 (blocks.0.mlp.weight) grows as N^1" in refused(program(grows))
    other = 'local q = population("q", {label = "another"})\n' \
        'y = y + map(x, q, {name = "W3"})\n'
    assert "different populations, p (the stream) and q (another)" in refused(program(rest=other))
    unread = 'local z = map(x, p, {name = "W3", label = "blocks.1.mlp.weight"})\n'
    assert "does not depend on matrix W3 (blocks.1.mlp.weight)" in refused(program(rest=unread))
    tied = '{name = "W2", tied = true, label = "blocks.0"}'
    again = 'y = y + map(x, p, {name = "W2", tied = true, label = "blocks.1"})\n'
    assert "the tied matrix W2 (blocks.0) has another label where it is used again" in refused(
        program(tied, again))
    same = again.replace("blocks.1", "blocks.0")
    write(x_ini=INI, x_lua=program(tied, same))
    done("--program", "x.ini")


def test_long_labels_in_messages_are_cut_between_letters():
    label = "ä" * 300
    said = refused(program(f'{{name = "W2", a0 = N, label = "{label}"}}'))
    assert f"matrix W2 ({'ä' * 40}...{'ä' * 40}) grows" in said


def test_help_has_them():
    write(x_ini=INI, x_lua=program())
    said = done("--help", "program", "--network.program=x.lua")
    assert "\n    W2 is blocks.0.mlp.weight\n" in said


def test_what_never_moves_is_told_with_its_label():
    rest = 'y = 0 * map(x, p, {name = "W3", label = "blocks.1, mlp"}) + y\n'
    write(x_ini=INI.replace("steps = 4", "steps = 6"), x_lua=program(rest=rest))
    result = call("x.ini")
    assert result.returncode == 0 and "W3 (blocks.1, mlp) never moves:" in result.stdout, result


def test_of_many_long_labels_those_that_fit_are_told():
    label = "ä" * 300
    rest = "".join(f'y = 0 * map(x, p, {{name = "D{k}", label = "{k}{label}"}}) + y\n'
                   for k in range(9))
    write(x_ini=INI.replace("steps = 4", "steps = 6"), x_lua=program(rest=rest))
    said = call("x.ini").stdout
    told = said[said.index("D0 (0ä"):said.index(" never move:")]
    named = told.count("...")
    assert 3 < named < 9 and told.endswith(f"äää) and {9 - named} others"), told


def test_of_many_matrices_without_responses_some_are_told():
    """The sentence was cut before its cause."""
    name = '{name = "a_long_name_of_W" .. k, tied = true}'
    rest = f"for k = 1, 60 do y = y + map(tanh(map(y, p, {name})), p, {name}) end\n"
    ini = INI.replace("sites = 32", "sites = 512").replace("steps = 4", "steps = 1")
    write(x_ini=f"{ini}[output]\nresponses = yes\n", x_lua=program(rest=rest))
    result = call("x.ini")
    assert result.returncode == 0, result
    assert "a_long_name_of_W16 and 44 others: rows that" in result.stdout, result.stdout
    assert "nothing goes backward\n" in result.stdout


def test_long_names_of_rows_stay_whole():
    net = dmft.Network()
    stream = net.population("stream")
    x = net.tanh(net.read_in(stream, "W1"))
    y = net.tanh(net.map(x, stream, "W2"))
    names = [f"neurons_of_the_block_{one:02d}" for one in (1, 2)]
    for name, rows in zip(names, (x, y)):
        net.name_rows(rows, name)
    net.read_out(y, "w")
    run = dmft.solve(SETTINGS | {"output.kernels_of": " ".join(names)}, network=net, progress=False)
    assert all(len(name) == 23 and f"K_{name}_diag" in run.limit for name in names)
