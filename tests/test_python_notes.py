"""Notes of runs, comparisons and sweeps: in the file, in Python and as warnings."""
import re

import numpy as np
import pytest

import dmft

EDGE = {"network": {"model": "dense", "depth": 3, "activation": "linear"},
        "data": {"inputs": 4, "dimension": 10}, "training": {"steps": 41, "eta0": 0.8},
        "solver": {"sites": 64, "replicates": 2}, "reference": {"widths": [16, 64], "seeds": 16}}


def test_notes_are_data_and_warnings():
    """What the screen says stands in the file, and is warned of with progress and without."""
    for progress in (True, False):
        with pytest.warns(dmft.NoteWarning, match="limit: at the edge of stability") as caught:
            result = dmft.solve(EDGE, progress=progress)
        assert [str(one.message) for one in caught] == [str(note) for note in result.notes]
    (edge,) = [note for note in result.notes if note.code == "edge_of_stability"]
    assert (edge.kind, edge.group, edge.t) == ("warning", "limit", 20)
    assert edge.text.split(",")[0] in result.report
    limit = result.limit["loss"].where(dmft.valid(result.limit))
    assert np.isfinite(limit[:20]).all() and np.isnan(limit[20:]).all()
    with pytest.warns(dmft.NoteWarning):
        both = dmft.compare(EDGE, progress=False)
    assert "dense/limit" in {note.group for note in both.notes}


@pytest.mark.filterwarnings("ignore")
def test_memory_is_that_of_the_program(capfd):
    """Not of the process that starts it, whose peak Linux hands on with getrusage."""
    large = bytearray(300_000_000)
    dmft.solve(EDGE, progress=True)
    said = "".join(capfd.readouterr())
    beside = float(re.search(r"beside ([\d.]+) GB of the program", said)[1])
    assert 0 < 1e9 * beside < 0.5 * len(large)


def test_notes_of_a_sweep():
    """One for each kind, of all runs; a point has those of each of its runs."""
    rates = {"sweep": {"training.eta0": [0.1, 0.8]}, **EDGE}
    rates["training"] = {"steps": 41}
    with pytest.warns(dmft.NoteWarning) as caught:
        result = dmft.sweep(rates, progress=False)
    assert [str(one.message) for one in caught] == [str(note) for note in result.notes]
    found = {note.code: note for note in result.notes}
    assert set(found) == {"edge_of_stability", "networks_failed", "no_sampling_error"}
    assert found["edge_of_stability"].text.endswith(
        "(at training.eta0 = 0.8, N = 16; training.eta0 = 0.8, N = 64; training.eta0 = 0.8, limit)")
    assert found["no_sampling_error"].text.endswith(
        "(at training.eta0 = 0.1, limit; training.eta0 = 0.8, limit)")
    assert {note.group for note in result.notes} == {"sweep"}
    assert {note.group for note in result.points[(0.8,)].notes} == {
        "reference/N0016", "reference/N0064", "limit"}


def test_sites_are_raised_to_the_end():
    """With sites = auto: the limit has too few experts, begins again with twice the sites, and is
    that of a run with these; the screen, the file and Python say so."""
    few = {"network": {"model": "regime2", "activation": "relu", "kappa": 0.5, "expert_width": 2},
           "data": {"inputs": 80, "dimension": 10}, "training": {"steps": 4, "eta0": 10},
           "solver": {"sites": "auto", "expert_sites": 257, "replicates": 1, "tolerance": 0.01},
           "reference": {"widths": ""}}
    sentence = ("sites = auto has raised the numbers of sites of the limit to sites = 4096, "
                "expert_sites = 514, because sites = 2048, expert_sites = 257 were too few")
    with pytest.warns(dmft.NoteWarning, match=sentence):
        raised = dmft.solve(few, progress=False)
    (note,) = [note for note in raised.notes if note.code == "sites_raised"]
    assert (note.kind, note.group, note.text) == ("note", "limit", sentence) and raised.complete
    assert raised.parameters["solver.sites"] == 4096
    with pytest.warns(dmft.NoteWarning):
        given = dmft.solve(raised.parameters["ini"], progress=False)
    assert given.parameters["solver.expert_sites"] == 514
    assert "sites_raised" not in {note.code for note in given.notes}
    np.testing.assert_array_equal(raised.limit["loss"], given.limit["loss"])
