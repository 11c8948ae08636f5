"""Pictures of what experts do: what is drawn is what the file has, router by router. Run by
tests/python.sh."""
import os

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dmft
import dmft.plot
from dmft.plot import command, specialisation

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = {"solver.sites": 64, "training.steps": 4, "reference.widths": [16, 32],
         "reference.seeds": 3, "solver.replicates": 2, "output.experts": "yes",
         "output.runs": "yes"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    keys = {"regime2": {"solver.expert_sites": 64, "network.rho": 0.5}, "regime1": {},
            "stack": {"solver.expert_sites": 64},
            "transformer": {"data.inputs": 3, "data.test_inputs": 0}}
    for name, own in keys.items():
        dmft.solve(os.path.join(HERE, "..", "data", name + ".ini"), progress=False,
                   output=str(folder / (name + ".h5")), **SMALL | own)
    return {name: str(folder / (name + ".h5")) for name in keys}


@pytest.fixture
def ax():
    yield plt.figure().add_subplot()
    plt.close("all")


def test_routers(files):
    found = {name: specialisation.blocks(command.load(path)) for name, path in files.items()}
    assert found == {"regime2": [""], "regime1": [""], "stack": ["_0", "_1"], "transformer": ["_0"]}


def test_matrices(files):
    """Each belongs to one router, and none is left out."""
    for name, path in files.items():
        run = command.load(path)
        for what in ("gradient", "change"):
            stored = [key.removeprefix(f"expert_{what}_") for key in run.limit
                      if key.startswith(f"expert_{what}_") and not key.endswith(("_se", "_runs"))]
            of = [specialisation.matrices(run, what, block) for block in specialisation.blocks(run)]
            assert sorted(sum(of, [])) == sorted(stored) and stored
    assert specialisation.matrices(command.load(files["stack"]), "change", "_1") == [
        "Q_1", "W_in_1", "W_out_1"]


def test_curves(files, ax):
    run = command.load(files["stack"])
    dmft.plot.information(ax, run, "_1")
    limit = ax.lines[-1]
    assert np.array_equal(limit.get_ydata(), run.limit["expert_information_1"])
    assert len(ax.lines) == 3 and "input" in ax.get_ylabel()
    dmft.plot.share(ax, run, "_1")
    assert np.array_equal(ax.lines[-1].get_ydata(), run.limit["expert_share_1"])


def test_overlap(files, ax):
    run = command.load(files["regime2"])
    image = dmft.plot.overlap(ax, run, 2, of="coselection")
    assert np.array_equal(image.get_array(), run.limit["expert_coselection"][2])
    assert np.allclose(np.diagonal(image.get_array()), 1) and image.get_clim() == (0, 1)


def test_the_last_overlap_is_that_of_the_last_time_that_was_reached(files, ax):
    """Of a run that was stopped there is none at later ones."""
    run = dict(dmft.load(files["regime2"]))
    cut = run["limit"] = run["limit"].copy(deep=True)
    cut["n"][-2:], cut["expert_overlap"][-2:] = 0, np.nan
    last = dmft.plot.overlap(ax, run).get_array()
    np.testing.assert_array_equal(last, cut["expert_overlap"][-3])
    for t in (-len(cut.t), len(cut.t) - 1):
        with pytest.raises(dmft.plot.NotThere, match=f"no step .*; there are {len(cut.t) - 2}"):
            dmft.plot.overlap(ax, run, t)


def test_norms(files, ax):
    """Of many experts the median of each matrix, of a few a line for each expert."""
    run = command.load(files["regime2"])
    dmft.plot.norms(ax, run)
    median = run.limit["expert_gradient_Q"].sel(probability=0.5)
    assert np.array_equal(ax.lines[0].get_ydata(), median)
    assert len(ax.lines) == 3 * 2 + 2  # matrices of the limit and networks, and the legend's
    ax.clear()
    run = command.load(files["regime1"])
    dmft.plot.norms(ax, run, "change")
    experts = run.limit["expert_change_W2"].sizes["expert"]
    assert len(ax.lines) == 2 * 2 * experts + 2
    colours = {line.get_label(): line.get_color() for line in ax.lines}
    ax.clear()
    dmft.plot.norms(ax, run)  # there is one of Q, too, and a matrix keeps its colour
    assert all(line.get_color() == colours[line.get_label()] for line in ax.lines
               if line.get_label() in ("W2", "W3"))


def test_figures(files, tmp_path, monkeypatch, capsys, sketched):
    monkeypatch.chdir(tmp_path)
    for name, path in files.items():
        assert command.main([path, "--what", "experts", "-o", name + ".png"]) == 0
        assert os.path.getsize(name + ".png") > 4000
    dmft.solve(os.path.join(HERE, "..", "data", "regime2.ini"), progress=False, output="none.h5",
               **SMALL | {"output.experts": "no", "solver.expert_sites": 64})
    assert command.main(["none.h5", "--what", "experts"]) != 0
    assert "experts = yes" in capsys.readouterr().err


def test_gates_without_logits_are_drawn():
    """A program may show its gates alone."""
    ini = os.path.join(HERE, "..", "examples", "attention_mixture.ini")
    run = dmft.solve(ini, progress=False, **{"training.steps": 3, "solver.sites": 64,
                                             "solver.replicates": 2, "reference.widths": ""})
    assert "p" in run.limit and "psi" not in run.limit
    figure = run.plot("gates")
    assert [ax.get_ylabel() for ax in figure.axes] == ["gate  $p_i$"]
    plt.close(figure)
