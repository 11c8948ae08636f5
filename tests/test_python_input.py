"""What calls of the package dmft take and refuse: arrays beside inis of any form, lists of words,
settings that contradict each other, odd paths; and how they read what a program says."""
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from refusing import refuses

import dmft
from dmft import data, program, run

HERE = os.path.dirname(os.path.abspath(__file__))
DENSE = os.path.join(HERE, "..", "data", "dense.ini")
SMALL = {"solver.sites": 32, "solver.replicates": 2, "training.steps": 3, "reference.widths": []}
DATA = {"X": np.eye(4), "y": [1, -1, 1, -1]}
LUA = """local bottom = population("bottom")
read_out(tanh(read_in(bottom, "W")), "w")
"""


def test_arrays_beside_an_ini_that_refers_to_other_files(tmp_path, monkeypatch):
    """Paths and includes count from the ini's folder, and [data] may be written in any way."""
    (tmp_path / "py" / "more").mkdir(parents=True)
    (tmp_path / "py" / "net.lua").write_text(LUA)
    (tmp_path / "py" / "more" / "base.ini").write_text("[data]\nsource = markov\nvocabulary = 3\n"
                                                       "positions = no\n[training]\nsteps = 3\n")
    monkeypatch.chdir(tmp_path)
    for data in ("[data]\ninputs = 6", "[data] # as drawn\ninputs = 6",
                 "[ data ]\ninputs = 6\nseed = 2", "[data]\nsource = multi_index\ndimension = 14"):
        (tmp_path / "py" / "x.ini").write_text(f"include = more/base.ini\n{data}\n[network]\n"
                                               "program = net.lua\n")
        result = dmft.solve("py/x.ini", progress=False, **DATA,
                            **{"solver.sites": 32, "solver.replicates": 2})
        np.testing.assert_array_equal(result.data["X"], DATA["X"])
        assert result.limit["loss"].sizes["t"] == 3
        assert result.parameters["data.vocabulary"] == 0
    text = "[network]\nmodel = dense\n[data] ; drawn\ninputs = 6\n"
    result = dmft.solve(text, progress=False, **DATA, **SMALL)
    np.testing.assert_array_equal(result.data["X"], DATA["X"])


def test_lists_of_words_with_blanks():
    assert run.text_of(["0 1", "2"]) == "0 1 | 2"
    assert run.text_of(["a b.h5", "c.h5"]) == "a b.h5 | c.h5"
    assert run.text_of(["mup", "mssp"]) == "mup mssp" and run.text_of([[0, 1], [2]]) == "0 1 | 2"
    for wrong in (["0 1"], [[0, 1]]):
        refuses("a single value with blanks", run.flatten, {"sweep": {"output.fields_at": wrong}})


def test_words_with_blanks_are_points_of_a_sweep():
    rates = dmft.sweep({"network": {"model": "dense"}, **SMALL, "output": {"fields": "h1"},
                        "sweep": {"output.fields_at": ["0 1", "2"]}}, progress=False)
    assert rates.sweep["loss"].sizes["output.fields_at"] == 2


def test_arrays_that_are_refused():
    masked = np.ma.array(np.eye(4), mask=np.eye(4) > 0)
    refuses("X: has masked values", dmft.solve, DENSE, X=masked, y=DATA["y"])
    whole = dmft.solve(DENSE, progress=False, X=np.ma.array(np.eye(4)), y=DATA["y"], **SMALL)
    np.testing.assert_array_equal(whole.data["X"], np.eye(4))
    refuses("Y_test: did you mean y_test?", dmft.solve, DENSE, **DATA, Y_test=[1.0])
    refuses("weights: did you mean weight?", dmft.solve, DENSE, **DATA, weights=np.ones(4))
    refuses("priors: data has no array of this name", dmft.solve, DENSE, **DATA, priors=np.ones(4))


def quadrature(nodes):
    """Inputs of two standard normals as nodes of a rule, with y = x_0 + x_0 x_1 and weights."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    X = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
    return {"X": X, "y": X[:, 0] + X[:, 0] * X[:, 1], "weight": np.outer(w, w).ravel()}


@pytest.mark.filterwarnings("ignore::dmft.NoteWarning")
def test_a_quadrature_gives_the_loss_of_the_population():
    """At first exactly, E y^2/2 = 1; later the rules converge, which their plain sums do not."""
    settings = SMALL | {"solver.replicates": 0, "reference.widths": 16, "reference.seeds": 1,
                        "reference.draws": "iid", "training.eta0": 1.0, "network.depth": 1}
    last = []
    for nodes in (4, 6, 8):
        data = quadrature(nodes)
        again = {name + "_test": data[name] for name in data}
        loss = dmft.solve(DENSE, progress=False, **data, **again, **settings).reference[16]
        np.testing.assert_allclose(loss["loss"][0], 1, rtol=1e-13)
        np.testing.assert_allclose(loss["test_loss"], loss["loss"], rtol=1e-13)
        last.append(float(loss["loss"][-1]))
    assert last[0] < 0.95
    assert abs(last[2] - last[1]) < 0.5 * abs(last[1] - last[0]) < 0.02


def test_settings_that_conflict():
    with pytest.raises(dmft.InputError, match="training.eta0: is given twice, as 1 and as 2"):
        dmft.solve({"training": {"eta0": 1}, "training.eta0": 2})
    assert run.flatten({"training": {"eta0": 1}, "training.eta0": 1}) == {"training.eta0": "1"}
    with pytest.raises(dmft.InputError, match="data.file: the data are the arrays X, y"):
        dmft.solve(DENSE, **DATA, **{"data.file": "d.h5"})
    net = dmft.Network()
    net.read_out(net.read_in(net.population("bottom"), "W"), "w")
    with pytest.raises(dmft.InputError, match="network.model: the network is the one given"):
        dmft.solve(DENSE, network=net, **{"network.model": "dense"})


def test_paths_that_begin_with_a_dash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-x.ini").write_text("[network]\nmodel = dense\n[output]\ncheckpoint = 99\n")
    first = dmft.solve("-x.ini", output="-x.h5", progress=False, **SMALL)
    assert first.complete
    longer = dmft.resume("-x.h5", progress=False, **{"training.steps": 4})
    assert longer.limit["loss"].sizes["t"] == 4


def test_two_calls_write_the_same_arrays(tmp_path, monkeypatch):
    """Each under a name of its own, until it is whole."""
    names, first = [], run.h5py.File
    monkeypatch.setattr(run.h5py, "File",
                        lambda path, mode: names.append(path) or first(path, mode))
    stem = str(tmp_path / "x")
    path, new = run.write_data(stem, {"X": np.eye(2)})
    assert new
    os.remove(path)
    other = threading.Thread(target=run.write_data, args=(stem, {"X": np.eye(2)}))
    other.start()
    other.join()
    assert names[0] != names[1] and str(os.getpid()) in names[0]
    assert os.listdir(tmp_path) == [os.path.basename(path)]


def test_letters_of_several_bytes_between_two_pieces():
    source, sink = os.pipe()
    line = "x" * 4095 + "\u03b1\u03b2"  # 4096 bytes are read at a time
    os.write(sink, (line + "\n").encode())
    os.close(sink)
    assert list(program._pieces(source)) == [(line, True)]
    os.close(source)


def test_handlers_of_signals_come_back():
    code = ("import signal, dmft.program as p\n"
            "for before in (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler):\n"
            "    signal.signal(signal.SIGINT, before)\n"
            "    p.call('dmft-solve', ['--version'], False)\n"
            "    assert signal.getsignal(signal.SIGINT) is before, before\n")
    assert signal.SIG_DFL == 0  # false, and yet a handler
    subprocess.run([sys.executable, "-c", code], check=True,
                   env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))


def test_keys_go_over_a_dict_as_over_an_ini():
    """What they make idle there is left out; among themselves they must agree."""
    base = {"network": {"model": "dense"}, "training": {"optimizer": "adam", "beta2": 0.9}}
    assert "beta2" not in dmft.describe(base, **{"training.optimizer": "gd"}).settings["training"]
    refuses("^--training.beta2=0.9: the key is used only when", dmft.describe,
            {"network.model": "dense"}, **{"training.optimizer": "gd", "training.beta2": 0.9})
    refuses("^--training.eta0=fast: not a number", dmft.describe, base | {"training.eta0": "fast"})


def test_mistakes_of_newcomers(tmp_path):
    """A width that is not there, an ini for its result, the parameters of a run for settings."""
    ini = tmp_path / "mine.ini"
    ini.write_text("[network]\nmodel = dense\n")
    refuses("is an ini, .* dmft-solve .*mine.ini writes mine.h5", dmft.load, ini)
    settings = {"network.model": "dense", "training.steps": 2, "solver.sites": 64,
                "solver.replicates": 2, "reference.widths": [8, 16], "reference.seeds": 2}
    run = dmft.solve(settings, progress=False)
    with pytest.raises(dmft.InputError, match=r"reference\[100\]: .* widths are 8 16"):
        run.reference[100]  # pylint: disable=expression-not-assigned
    assert run.reference.get(100) is None and set(run.reference) == {8, 16}
    refuses('give parameters."ini".', dmft.solve, run.parameters)
    refuses("a result is no ini: give parameters", dmft.solve, run)
    refuses(r"reference\['8'\]: .* widths are 8 16", run.weights, "W1", "8")
    again = dmft.solve(run.parameters["ini"], progress=False)
    assert again.limit["loss"].equals(run.limit["loss"])


def test_what_else_newcomers_give(tmp_path):
    """A folder that is not there for data and result, rows of different lengths, a path of pathlib
    for a file."""
    settings = {"network.model": "dense", "training.steps": 2}
    with pytest.raises(dmft.InputError, match="output .*x.h5: folder .*no: No such file"):
        dmft.solve(settings, X=np.eye(2), y=[1, -1], output=tmp_path / "no" / "x.h5")
    assert not list(tmp_path.iterdir())
    with pytest.raises(dmft.InputError, match="^X: is no array, as its rows have different length"):
        dmft.solve(settings, X=[[1, 2], [3]], y=[1, -1])
    data.write(tmp_path / "data.h5", data.Data({"X": np.eye(2, 3), "y": np.array([1.0, -1])}))
    given = {"data.source": "file", "data.file": tmp_path / "data.h5"}
    assert dmft.describe(settings, **given).dimension == 3
    with pytest.raises(dmft.InputError, match="x.h5: X is no array of numbers"):
        data.write(tmp_path / "x.h5", data.Data({"X": np.array(["a"])}))


def test_data_that_may_mean_something_else_are_noted():
    """Classes that are read as numbers, and images that are read as sequences."""
    X = np.random.default_rng(1).normal(size=(8, 4, 4))
    settings = {"network.model": "dense", "training.steps": 2, "solver.sites": 64,
                "solver.replicates": 2, "reference.widths": [8], "reference.seeds": 2}

    def codes(X, y, **more):
        run = dmft.solve(settings, X=X, y=y, progress=False, **more)
        return {note.code: note.text for note in run.notes}
    flat = X.reshape(8, 16)
    said = codes(flat, [0, 1, 2, 0, 1, 2, 0, 1])
    assert "whole numbers up to 2" in said["targets_count"] and "inputs_of_tokens" not in said
    for y in ([0, 1, 2, 0, 1, 2, 0, 1.5], [0, 1, 3, 0, 1, 3, 0, 1], [-1, 1, 2, 0, 1, 2, 0, 1]):
        assert "targets_count" not in codes(flat, y)
    classes = {"training.loss": "cross_entropy", "network.outputs": 3}
    assert "targets_count" not in codes(flat, [0, 1, 2, 0, 1, 2, 0, 1], **classes)
    said = codes(X, [1, -1] * 4)
    assert "4 tokens of 4 numbers" in said["inputs_of_tokens"] and "row of 16" in \
        said["inputs_of_tokens"]
