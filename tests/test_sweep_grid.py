"""dmft-sweep: its grids, tables and objectives, and what is refused that is no line of
tests/refusals.txt."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import dmft
import h5py
import numpy as np
import pytest
from refusing import refuses
from sweeping import (DENSE, SHORT, axes, call, in_a_folder, of, refused, sweep, units, written)

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


# ---- grids ----

def test_a_list_of_points_is_the_grid_it_spells():
    """The same runs, found again by their names, in the same order."""
    sweep(SHORT + "training.eta0 = 0.2 0.4\nnetwork.parameterization = mup mssp\n")
    names, loss, old = of("sweep/file"), of("sweep/loss"), written(units())
    table, _ = sweep(SHORT + "training.eta0, network.parameterization = 0.2 mup | 0.2 mssp | "
                     "0.4 mup | 0.4 mssp\n", "--force")
    key = "training.eta0,network.parameterization"
    assert written(units()) == old and of("sweep/file").tolist() == names.tolist()
    assert axes("sweep/loss") == (key + " N", (4, 2))
    assert of("sweep@coordinates") == "training.eta0 network.parameterization"
    assert of("sweep/network.parameterization").tolist() == ["mup", "mssp"] * 2
    assert of("sweep/" + key).tolist() == ["0.2 mup", "0.2 mssp", "0.4 mup", "0.4 mssp"]
    assert axes("sweep/training.eta0") == (key, (4,))
    assert of("sweep/training.eta0").tolist() == [0.2, 0.2, 0.4, 0.4]
    with h5py.File("out.h5") as file:
        assert "optimum" not in file  # a list has no order
    assert of("sweep/loss").tobytes() == loss.tobytes()
    assert "over the runs (+-: standard errors of sampling)\n" \
        "training.eta0  network.parameterization       N  " in table
    assert "\n          0.4                       mup   limit  " in table


def test_the_optimum_beside_a_list():
    """Along eta0, before the list of points or behind it: that of each point alone."""
    eta0 = "training.eta0 = 0.5 2 8\n"
    points = "training.gamma0, network.activation = 0.5 tanh | 1 linear\n"
    sweep(SHORT + eta0, "--network.activation=linear", into="one")
    optima = []
    for lines, dims, shape in (
            (points + eta0, "training.gamma0,network.activation training.eta0 N", (2, 3, 2)),
            (eta0 + points, "training.eta0 training.gamma0,network.activation N", (3, 2, 2))):
        table, _ = sweep(SHORT + lines, "--force")
        assert of("optimum@key") == "training.eta0"
        assert of("optimum@coordinates") == "training.gamma0 network.activation"
        assert axes("optimum/at") == ("training.gamma0,network.activation N", (2, 2))
        assert axes("sweep/loss") == (dims, shape)
        assert of("optimum/network.activation").tolist() == ["tanh", "linear"]
        for name in ("optimum/least_at", "optimum/least"):
            assert of(name)[1].tobytes() == of(name, "one.h5").tobytes()
        optima.append(table[table.index("\noptimum"):])
    assert optima[0] == optima[1]
    assert "\ntraining.gamma0  network.activation       N  " in optima[0]
    assert "\n              1              linear   limit  " in optima[0]


@pytest.mark.parametrize("lines, dims, shape, optimum", [
    ("training.eta0 = 0.2 0.4\ntraining.gamma0 = 0.5 1\nnetwork.activation = tanh linear\n"
     "solver.seed = 1 2\n",
     "training.eta0 training.gamma0 network.activation solver.seed", (2, 2, 2, 2), None),
    ("network.activation = tanh linear\ntraining.gamma0, network.parameterization = 0.5 mup | "
     "1 mssp\ndata.seed = 1 2\ntraining.eta0 = 0.2 0.4 0.8\nnetwork.kappa, solver.seed = 0.5, 3\n",
     "network.activation training.gamma0,network.parameterization data.seed training.eta0 "
     "network.kappa,solver.seed", (2, 2, 2, 3, 1),
     "network.activation training.gamma0,network.parameterization data.seed "
     "network.kappa,solver.seed N")], ids=["four", "five"])
def test_axes(lines, dims, shape, optimum):
    """The final losses of the first point, of those that differ from it by one axis, and of the
    last one are those of dmft-solve at the values that --points says; errors may have another
    order of sums."""
    table, _ = sweep(SHORT + lines)
    assert axes("sweep/loss") == (dims + " N", (*shape, 2))
    assert re.search("\n" + re.escape(dims.split()[0]) + "  ", table)
    keys = [key for axis in dims.split() if "," in axis for key in axis.split(",")]
    assert (of("sweep@coordinates") or "").split() == keys
    if optimum:
        assert axes("optimum/reason") == (optimum, (2, 2, 2, 1, 2))
        assert of("optimum@coordinates").split() == keys
        assert "optimum of training.eta0" in table
    grid = json.loads(call("--points", "sweep.ini")[0])
    one = np.eye(len(shape), dtype=int) * (np.array(shape) - 1)
    places = {tuple(place) for place in [*one, 0 * one[0], one.sum(0)]}
    losses = set()
    for place in places:
        words = {key: text for axis, at in zip(grid["axes"], place)
                 for key, text in zip(axis["keys"], axis["values"][at])}
        found = dmft.solve(grid["ini"], progress=False, output="one.h5", force=True, **words).path
        want, errors = ([of(f"{group}/{name}", found)[-1] for group in ("reference/N0008", "limit")]
                        for name in ("loss", "loss_se"))
        assert of("sweep/loss")[place].tolist() == want
        assert np.abs(of("sweep/loss_se")[place] - errors).max() <= 4e-16
        losses.add(want[0])
    assert len(losses) == len(places) > len([n for n in shape if n > 1])


def test_names_of_any_length():
    """Lists and axes beyond any buffer: names of 600 bytes in all, 22 axes."""
    values = dict(pair.split("=") for pair in
                  "training.eta0=0.2 training.gamma0=1 network.activation=tanh network.kappa=0.5 "
                  "solver.seed=1 solver.sites=64 solver.tolerance=1e-3 solver.max_memory=8 "
                  "data.seed=1 data.inputs=3 data.dimension=4 training.steps=4 solver.threads=1 "
                  "network.expert_width=2 solver.expert_sites=64 reference.seeds=2 "
                  "reference.draws=iid reference.centre=yes output.kernels=diagonal "
                  "output.test_every=1 network.gate=sigmoid network.parameterization=mup".split())
    sweep(SHORT + "".join(f"{key} = {value}\n" for key, value in values.items()), into="one")
    sweep(SHORT + f"{','.join(values)} = {' '.join(values.values())}\n")
    assert of("sweep/loss").tobytes() == of("sweep/loss", "one.h5").tobytes()
    assert axes("sweep/loss") == (",".join(values) + " N", (1, 2))
    assert of("sweep/loss@dims", "one.h5") == " ".join([*values, "N"])


# ---- what points are compared by ----

def test_objectives():
    """Batches: the last one is no objective. With test inputs it is test_loss, else the loss over
    the last times; another choice gives from the file what the sweep would have given."""
    text = "[network]\nmodel = dense\n[data]\ninputs = 8\ndimension = 4\n[training]\nsteps = 20\n" \
        "batch = 2\n[solver]\nreplicates = 0\nthreads = 1\n[reference]\nwidths = 8 16\n" \
        "seeds = 4\n[sweep]\ntraining.eta0 = 4 2 1 0.5 0.25 0.125\n"
    for more, word in (("--data.test_inputs=4", "test_loss: "), ("", "smooth_loss: ")):
        shutil.rmtree("out.d", ignore_errors=True)
        table, _ = sweep(text, "--force", more)
        assert table.startswith(word)
        call("--quiet", "--force", "--optimum", "out.h5", "--objective", "time_to=0.3", "-o",
             "again.h5")
        old = written(units())
        sweep(text + "objective = time_to=0.3\n", "--force", more)
        assert written(units()) == old
        for name in ("optimum/at_samples", "sweep/objective"):
            assert of(name).tobytes() == of(name, "again.h5").tobytes()
        time_to = of("sweep/objective")
        assert time_to.size == 12 and ((0 <= time_to) & (time_to <= 19) | np.isnan(time_to)).all()
        with h5py.File("out.h5") as file:
            assert ("test_loss" in file["sweep"]) == bool(more)
    for words, sentence in (
            (["--along", "network.kappa"],
             r"along = network.kappa: must be a key of \[sweep\].*training.eta0"),
            (["--objective", "best"], "has no series best"),
            (["--objective", "time_to=0"],
             'objective "time_to=0": must be test_loss, loss, smooth_loss')):
        refused(sentence, "--optimum", "out.h5", *words)
    refused("none.h5: cannot be opened", "--optimum", "none.h5")
    with h5py.File("out.h5", "r+") as file:  # as another version may have written it
        file["parameters"].attrs["ini"] += "columns = parameters width\n"
    refused(r"\[sweep\] columns: there is no width", "--optimum", "out.h5")


def test_an_objective_that_no_run_has_is_told_by_the_first_one():
    """What is done stays, so that the sweep goes on with another one."""
    pathlib.Path("sweep.ini").write_text(SHORT + "training.eta0 = linspace(0.1, 1, 10)\n")
    words = ["--jobs", "1", "-o", "out.h5", "sweep.ini"]
    for objective, sentence in (("best", "has no series best"),
                                ("loss[last][0]", "has 0 axes behind t")):
        refused(sentence, *words, "--objective", objective)
    done = len(units())
    assert 2 <= done <= 4  # of 20: the next one may have begun
    assert call(*words)[1].startswith(f"20 runs, {done} of them done")


def test_the_edge_is_told_by_all_widths():
    """No run knows of other widths: all of a point are at the edge of stability or none."""
    table, _ = sweep(
        "[network]\nmodel = dense\ndepth = 3\nactivation = linear\n[data]\ninputs = 4\n"
        "dimension = 10\n[training]\nsteps = 41\n[solver]\nsites = 64\nreplicates = 2\n"
        "[reference]\nwidths = 16 32 64\nseeds = 16\n[sweep]\ntraining.eta0 = 0.2 0.8\n")
    assert table.count("[e]") + table.count("[eD]") == 4 and "e: at the edge of stability" in table
    assert of("sweep/edge_of_stability").tolist() == [[0] * 4, [1] * 4]
    assert ((of("sweep/failed_diverged") > 0) == (of("sweep/failed") > 0)).all()
    assert of("sweep/valid_until")[:, 3].tolist() == [41, 20]  # the limits


def test_too_few_sites_are_no_divergence():
    table, _ = sweep("[network]\nmodel = dense\nactivation = relu\n[data]\ninputs = 64\n"
                     "dimension = 40\n[training]\nsteps = 9\neta0 = 0.1\n[solver]\n"
                     "replicates = 1\n[sweep]\nsolver.sites = 300 2048\n")
    assert table.count("failed  [uS]") == 1
    assert "S: the limit needs more sites than it has" in table
    assert of("sweep/failed_sites").ravel().tolist() == [1, 0]
    assert of("sweep/failed_diverged").ravel().tolist() == [0, 0]
    few, many = of("sweep/unmatched").ravel()
    assert 0 < few <= 1 and many == 0


# ---- refusals ----

def unescaped(found):
    return chr(int(found[1], 16)) if found[1] else "\n" if found[2] == "n" else found[2]


def lines_of_sweeps():
    """(text, arguments, parts of the sentence) of each line of tests/refusals.txt that is of
    dmft-sweep."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "refusals.txt"),
              encoding="utf-8") as file:
        sections = re.split("(?m)^== ", file.read().replace("\n  ", " "))
    for line in "".join(one for one in sections if one.startswith("sweep: ")).split("\n"):
        before, arrow, sentence = (" " + line).partition(" => ")
        if arrow:
            text, *words = (re.sub(r"\\(?:x(..)|(.))", unescaped, part)
                            for part in before.split(" @ "))
            yield text.removeprefix(" "), words, sentence.split(" ~ ")


@pytest.mark.parametrize("text, words, parts", lines_of_sweeps())
def test_what_the_table_says_is_refused(text, words, parts):
    """In one line, and nothing is left."""
    pathlib.Path("case.ini").write_text(SHORT + text)
    with pytest.raises(dmft.InputError) as error:
        call("-o", "out.h5", "case.ini", *words)
    assert all(part in error.value.sentence for part in parts) and "\n" not in error.value.sentence
    assert os.listdir() == ["case.ini"]


def test_a_refusal_of_the_command():
    pathlib.Path("case.ini").write_text(SHORT)
    done = subprocess.run([sys.executable, "-m", "dmft.study", "case.ini"], capture_output=True,
                          text=True, check=False,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[1:])})
    assert done.returncode == 2 and not done.stdout
    assert re.fullmatch(r"dmft-sweep: case.ini: \[sweep\] has no keys.*\n", done.stderr)

@pytest.mark.parametrize("lines, sentence", [
    ("".join(f"a.k{k} = 1\n" for k in range(31)),
     r"sweep.ini:48: \[sweep\] a.k30: a sweep has at most 30 lines.*keys that vary together can "
     "share one"),
    ("a.x = linspace(0, 1, 10000)\na.y = linspace(1, 2, 11)\n",
     r":19: \[sweep\] a.y: more than 100000 points in all; try fewer values"),
    ("a.x = linspace(0, 1, 10001)\n", "2 to 10000 values"),
    ("a.x = linspace(0, 1, 4294967299)\n", "2 to 10000 values"),  # 2^32 + 3
    ("a.x = linspace(0, 1, 2.5)\n", "2 to 10000 values"),
    ("a.x = 1 18446744073709551615 18446744073709551614\n",
     "values must increase or decrease, each once, but 18446744073709551614 follows")])
def test_too_much_is_refused(lines, sentence):
    refuses(sentence, sweep, SHORT + lines)
    assert not os.path.exists("out.d")


def test_each_program_names_the_other():
    pathlib.Path("sweep.ini").write_text(SHORT + "training.eta0 = 1 2\n")
    pathlib.Path("small.ini").write_text(DENSE)
    refused(r"small.ini: there is no section \[sweep\].*dmft-solve", "small.ini")
    refused("none.ini: cannot be opened", "none.ini")
    refused(r"which ini file\?")
    refused(r"^\.: is a folder, not a file", ".")
    refused("/proc/self/mem: cannot be read: Input/output error", "-o", "out.h5", "/proc/self/mem",
            kind=dmft.SystemFailure)
    refused("--optimum takes a sweep that is done, and no ini or keys", "--optimum", "out.h5",
            "sweep.ini")
    refused("and no ini or keys", "--optimum", "out.h5", "--training.eta0=1")
    refused("it takes no -o", "--points", "sweep.ini", "-o", "out.h5")
    refuses(r"sweep.ini:17: \[sweep\]: a sweep over values of " "keys is run by dmft-sweep",
            dmft.solve, "sweep.ini", output="out.h5", progress=False)


def test_directions_are_checked():
    """What depends on the directions of the inputs is checked before anything runs, of each unit:
    Adam takes all coordinates for directions."""
    more = ["--data.dimension=10", "--reference.draws=balanced"]
    refuses("balanced draws over 8 input directions need N >= 9" ".*N = 4", sweep,
            SHORT + "training.eta0 = 0.1 0.2\n", *more, "--data.inputs=8",
            "--reference.widths=4 16")
    with pytest.raises(dmft.InputError, match="balanced draws over 10 input directions need "
                                              "N >= 11.*") as error:
        sweep(SHORT + "training.optimizer = gd adam\n", *more)
    assert "adam" in error.value.sentence and "N = 8" in error.value.sentence
    assert not os.path.exists("out.d")


def test_defaults_go_with_every_network():
    """A value that is the default goes with every network, whatever keys this has; a key that is
    given twice is told in the file."""
    text, dense = SHORT + "network.bias = none\n", "--network.model=dense"
    with pytest.raises(dmft.InputError, match=r"--network.bias=fixed: \[sweep\] varies this key"):
        sweep(text, dense, "--network.bias=fixed")
    sweep(text, dense, "--data.inputs=4", "--data.inputs=2")
    notes = list(of("notes/text"))
    assert any(note.endswith("the last value counts: data.inputs=2") for note in notes)
    assert not any("leave out" in note for note in notes)
    with pytest.raises(dmft.InputError, match="network.bias=fixed: model = dense does not use it"):
        sweep(text, dense, "--sweep.network.bias=none fixed", into="other")
