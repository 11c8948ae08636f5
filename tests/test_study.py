"""Sweeps from inside: the grid of [sweep], what points are compared by, marks, and files of units
that cannot be read. The command is judged from outside (tests/test_sweep.py)."""
import contextlib
import glob
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import dmft
import h5py
import numpy as np
import pytest
from refusing import refuses
from dmft.study import command, marks, objective, place, tables
from dmft.study.cells import Cell, Measured
from dmft.study.grid import POWER, Grid
from dmft.study.output import Reader
from dmft.study.objective import Series
from dmft.study.worker import Worker

BASE = {"network.model": "dense", "training.steps": 3, "solver.sites": 64, "solver.replicates": 2,
        "solver.threads": 1, "data.inputs": 3, "data.dimension": 4, "reference.widths": 8,
        "reference.seeds": 2}


def test_two_threads_do_not_write_one_sweep(tmp_path):
    """The second is refused, as a second process is."""
    with open(tmp_path / "lock", "a+b") as first, open(tmp_path / "lock", "a+b") as second:
        place.lock(first)
        with pytest.raises(BlockingIOError):
            place.lock(second)
    folder = tmp_path / "s.d"
    folder.mkdir()
    with open(folder / "lock", "a+b") as file:
        place.lock(file)
        refuses("another dmft-sweep is at work", dmft.sweep,
                BASE | {"sweep.training.eta0": "0.1 0.2"}, output=tmp_path / "s.h5", progress=False)


def test_a_worker_that_was_killed_is_told():
    worker = Worker()
    try:
        worker.ask({"keys": []})
        os.kill(worker.child.pid, signal.SIGKILL)
        with pytest.raises(dmft.SystemFailure, match="ended by signal 9; what is done is kept, and "
                                                     "the same command goes on from here"):
            worker.ask({"keys": []})
    finally:
        worker.close()


# ---- the grid ----

def grid_of(lines, words=()):
    return Grid("case.ini", words, "[network]\nmodel = dense\n[sweep]\n" + lines)


@pytest.mark.parametrize("lines, points", [
    ("a.x, b.y = 1 u | 0 v\nc.z = 5 6\n",
     ["a.x=1 b.y=u c.z=5", "a.x=1 b.y=u c.z=6", "a.x=0 b.y=v c.z=5", "a.x=0 b.y=v c.z=6"]),
    ("c.z = 5 6\na.x , b.y=1 u|0\tv\n",
     ["c.z=5 a.x=1 b.y=u", "c.z=5 a.x=0 b.y=v", "c.z=6 a.x=1 b.y=u", "c.z=6 a.x=0 b.y=v"]),
    ("a.x,b.y = 1,2 3|4 ,5\nc.z, d.w, e.v = 1 2 3\n",
     ["a.x=1 b.y=2 3 c.z=1 d.w=2 e.v=3", "a.x=4 b.y=5 c.z=1 d.w=2 e.v=3"]),
    ("a.x, b.y = 1 N^0.5, 2 | N, 3\n", ["a.x=1 N^0.5 b.y=2", "a.x=N b.y=3"]),
    ("a.x = 3 2 0.5\n", ["a.x=3", "a.x=2", "a.x=0.5"]),
    ("objective = loss\na.x = 1\nalong = a.x\n", ["a.x=1"]),
    ("a.x = 0.5 | 1 N^0.5 | N\n", ["a.x=0.5", "a.x=1 N^0.5", "a.x=N"]),
    ("a.x = linspace(-1, 2, 4)\n", ["a.x=-1", "a.x=0", "a.x=1", "a.x=2"]),
    ("a.x = logspace(0.5, 8, 3) # doubled\n", ["a.x=0.5", "a.x=2", "a.x=8"]),
    ("a.x = logspace(49, 1000001, 3)\n", ["a.x=49", "a.x=7000", "a.x=1000001"]),
    ("a.x = linspace(1000000, 3000000, 3)\n", ["a.x=1000000", "a.x=2000000", "a.x=3000000"]),
    ("a.x = logspace(1, 1e6, 3)\n", ["a.x=1", "a.x=1000", "a.x=1000000"]),
    ("a.x = 18446744073709551614 18446744073709551615\n",
     ["a.x=18446744073709551614", "a.x=18446744073709551615"]),
    ("a.x = one linspace.csv\n", ["a.x=one", "a.x=linspace.csv"]),
    ("a.x = N^-0.5 N^0.5 2N\n", ["a.x=N^-0.5", "a.x=N^0.5", "a.x=2N"]),
    ("a.x = 1, 2 3\n", ["a.x=1,", "a.x=2", "a.x=3"]),
    ("a.x = \"1 # 2\" \n", ["a.x=1", "a.x=#", "a.x=2"]),
    ("a.a = 1 2\nb.b = u v\ne.e = 7\nf.f = 8 9\n",
     ["a.a=1 b.b=u e.e=7 f.f=8", "a.a=1 b.b=u e.e=7 f.f=9", "a.a=1 b.b=v e.e=7 f.f=8",
      "a.a=1 b.b=v e.e=7 f.f=9", "a.a=2 b.b=u e.e=7 f.f=8", "a.a=2 b.b=u e.e=7 f.f=9",
      "a.a=2 b.b=v e.e=7 f.f=8", "a.a=2 b.b=v e.e=7 f.f=9"])])
def test_order_of_points(lines, points):
    """The last line varies fastest, keys of one line go together, whatever its place."""
    grid = grid_of(lines)
    assert [" ".join(f"{name}={text}" for name, text in grid.values(point))
            for point in range(grid.points)] == points


def test_names_and_numbers_of_points():
    grid = grid_of("a.x, b.y , c.z = 1, 2 3, w | 4, 5, w\nd.d = 1 2\n")
    first, second = grid.axes
    assert (first.name, second.name) == ("a.x,b.y,c.z", "d.d")
    assert first.point(0) == "1, 2 3, w" and first.point(1) == "4 5 w"
    assert [key.value for key in first.keys] == [[1, 4], None, None]


def test_lines_of_the_command_line():
    """One takes the place of the line of the same keys, or comes last."""
    grid = grid_of("along = a.w\nb.y = 1 2 3\na.x, a.z = 5 6\na.w = 0 1\n",
                   ["--sweep.b.y=7 8", "a.x=1", "sweep . a.x,a.z = 1 2 | 3 4",
                    "--sweep. along = b.y", "--sweep.c.u=linspace(0, 1, 3)"])
    assert [axis.name for axis in grid.axes] == ["b.y", "a.x,a.z", "a.w", "c.u"]
    assert grid.points == 2 * 2 * 2 * 3 and grid.settings == {"along": "b.y"}
    assert grid.axes[0].keys[0].text == ["7", "8"] and grid.axes[1].keys[1].text == ["2", "4"]


def test_lines_outside_stay_where_they_are():
    """A mark of the order of bytes, blanks in the head of the section, other sections behind."""
    grid = Grid("case.ini", (), "\ufeff [ sweep ] # of one\na.x = 1 2\n\n[data]\nseed = 1")
    assert grid.rest == "\n\n\n[data]\nseed = 1" and grid.points == 2
    with pytest.raises(dmft.InputError, match=r"case.ini:2: not a text file \(byte 0x00\)"):
        Grid("case.ini", (), "[sweep]\na.x = 0.1 0.2\0 0.4\n")


# ---- objectives ----

def test_objectives_of_runs():
    """Two runs of six times, the third failed; time_to is interpolated, and NaN of a run that does
    not get there. Sums of five numbers of order one: 1e-15."""
    runs = np.array([[3, 2, 1, 0.5, 0.25, 0.5], [4, 3, 2, 1, 1, 1], [1, 1] + 4 * [math.nan]])
    series = Series(runs[0], runs=runs)
    for words, want in {"loss": [0.5, 1], "smooth_loss": [1.25 / 3, 1], "test_loss": [0.5, 1],
                        "time_to=0.75": [2.5, math.nan], "time_to=1.5": [1.5, 2.5],
                        "loss[1]": [2, 3], "loss[6]": [math.nan, math.nan]}.items():
        found = objective.of_runs(objective.read(words), series, np.array([1, 1, 0], bool), 3)
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-15, err_msg=words)
    runs[1, 5] = math.nan  # of a run that has come to its end: no earlier time takes its place
    found = objective.of_runs(objective.read("Phi"), series, np.array([1, 1, 0], bool), 1)
    np.testing.assert_array_equal(found, [0.5, math.nan])
    assert objective.window(81, 1296, 16) == 17  # a fifth of the times
    assert objective.window(41, 64, 16) == 4  # one pass
    assert objective.window(41, 64, 0) == 1  # every loss is of all inputs


def test_times_of_pseudo_values():
    """Their mean is the time of the mean curve but for the jackknife's correction:
    2 T(0.2) - T(0.3), 2 T(0.2) - T(0.1), with T(l) = 0.5/(1 - l)."""
    runs = np.array([[1, 0.1], [1, 0.3]])
    series = Series(runs[0], runs=runs, pseudo=True)
    found = objective.of_runs(objective.read("time_to=0.5"), series, np.array([True, True]), 1)
    np.testing.assert_allclose(found, [1 / 0.8 - 0.5 / 0.7, 1 / 0.8 - 0.5 / 0.9], atol=1e-15)


@pytest.fixture(name="group")
def series_of_three_axes(tmp_path):
    """y [2][2][3] of the time, its errors, and its runs [2][2][2][3]."""
    with h5py.File(tmp_path / "series.h5", "w") as file:
        runs = (np.arange(24.0) ** 2).reshape(2, 2, 2, 3)
        mean = np.arange(12.0).reshape(2, 2, 3)
        for name, dims, values in (("y", "t mu k", mean), ("y_se", "t mu k", mean + 1),
                                   ("y_runs", "run t mu k", runs), ("late", "s mu k", mean)):
            file[f"limit/{name}"] = values
            file[f"limit/{name}"].attrs["dims"] = dims
    with h5py.File(tmp_path / "series.h5") as file:
        yield Reader(file, "limit")


@pytest.mark.parametrize("words, mean, error, runs", [
    ("y[1][0][2]", 8, 9, [64, 400]), ("y[1][1]", 10, 11, [302 / 3, 1454 / 3]),
    ("y[last][mean][1]", 8.5, 9.5, [74.5, 422.5]),
    ("y[1][mean][mean]", 8.5, 9.5, [451 / 6, 2539 / 6]), ("y", 8.5, 9.5, [451 / 6, 2539 / 6])])
def test_entries_of_series(group, words, mean, error, runs):
    """Entries that have an index, else means; sums of small whole numbers, divided twice."""
    what = objective.read(words)
    series = objective.read_series(group, what.series, what.entry)
    np.testing.assert_allclose(objective.of_runs(what, series, np.array([True, True]), 1), runs,
                               rtol=1e-13)
    np.testing.assert_allclose(objective.of_mean(what, series), [mean, error], rtol=1e-13)


@pytest.mark.parametrize("words, sentence", [
    ("y[1][2]", "axis 1 of limit/y behind t has 2 entries, counted from 0: there is no entry 2"),
    ("y[1][0][2][0]", "limit/y has 2 axes behind t, and 3 indices"),
    ("late", "the first axis of limit/late is not t")])
def test_entries_that_are_not_there(group, words, sentence):
    what = objective.read(words)
    refuses(sentence, objective.read_series, group, what.series, what.entry)


@pytest.mark.parametrize("words", [
    "y[", "y[x]", "y[-1]", "y[1", "y[1]x", "y[1][]", "y[mean]", "y[1][last]",
    "y[1][0][0][0][0][0][0][0][0][0]", "[1]", "time_to=0", "time_to", "time_to=inf", "y" * 64])
def test_objectives_that_are_none(words):
    refuses(r"NAME\[t\]\[i\]\.\.\.", objective.read, words)


def test_a_time_behind_the_last_and_a_loss_that_is_never_reached(done):
    """Nothing failed: the first is refused, and of the second nothing else is said."""
    refuses(r"loss\[1000\]: no run has a time t = 1000; the " "last one is 2", done.find_optimum,
            objective="loss[1000]")
    assert (done.find_optimum(objective="loss[2]").reason == done.optimum.reason).all()
    never = done.find_optimum(objective="time_to=1e-30")
    reasons = dict(one.split(": ", 1) for one in never.attrs["reasons"].split("; "))
    assert {reasons[str(one)] for one in never.reason.values.astype(int).flat} == \
        {"none: runs failed, or have no value, everywhere"}


def test_a_star_is_more_than_half():
    """The man page: a star where one run is more than half of a mean."""
    for largest, star in ((0.4975, False), (0.5025, True)):
        runs = np.array([largest, *[(1 - largest) / 3] * 3])
        assert tables._carried(Cell(objective=Measured(4, runs, runs.mean()))) == star


# ---- files ----

@pytest.fixture(name="kept", scope="module")
def sweep_that_is_kept(tmp_path_factory):
    """A folder with s.h5 and s.d."""
    folder = tmp_path_factory.mktemp("kept")
    dmft.sweep(BASE | {"sweep": {"training.eta0": [0.1, 0.2, 0.4]}}, progress=False, jobs=2,
               output=folder / "s.h5")
    return folder


@pytest.fixture(name="done")
def sweep_that_is_done(kept, tmp_path):
    """A copy that a test may spoil."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    return dmft.load(tmp_path / "s.h5")


def only_group(file):
    return file["limit"] if "limit" in file else file["reference/N0008"]


def units(run):
    return sorted(glob.glob(run.path.removesuffix(".h5") + ".d/*.h5"))


@pytest.mark.parametrize("spoil, sentence", [
    (lambda path: os.truncate(path, 1000), "cannot be opened as an HDF5 file"),
    (lambda path: os.chmod(path, 0o000), None),
    ("attribute", "@training.batch cannot be read|has no training.batch"),
    ("loss", "limit/loss|reference/N0008/loss")])
def test_what_cannot_be_read_is_told(done, spoil, sentence):
    """Of a unit that is done, never a NaN in silence; what is not there is another thing."""
    path = units(done)[0]
    if spoil == "attribute":
        with h5py.File(path, "r+") as file:
            del file["parameters"].attrs["training.batch"]
    elif spoil == "loss":  # its values, which are compressed or not, are no longer those of a file
        with h5py.File(path, "r+") as file:
            del only_group(file)["loss"]
    elif sentence is None and os.geteuid() == 0:
        pytest.skip("root reads every file")
    else:
        spoil(path)
    with pytest.raises(dmft.SystemFailure if sentence else dmft.InputError, match=sentence):
        done.find_optimum()


def test_every_read_that_fails_is_told(done, monkeypatch):
    """One call of h5py fails, some of them in turn: the table is that of before, or one sentence
    says what could not be read."""
    calls = [0, 0]  # so many, and the one that fails

    def failing(home, name):
        whole = getattr(home, name)

        def call(*words, **more):
            calls[0] += 1
            if calls[0] == calls[1]:
                raise OSError(5, "Input/output error")
            return whole(*words, **more)
        monkeypatch.setattr(home, name, call)

    for home, name in ((h5py.File, "__init__"), (h5py.Group, "__contains__"),
                       (h5py.Group, "__getitem__"), (h5py.Dataset, "__getitem__"),
                       (h5py.AttributeManager, "__getitem__"),
                       (h5py.AttributeManager, "__contains__")):
        failing(home, name)
    words = ["--optimum", done.path]
    whole = command.call(words, False)
    number = calls[0]
    assert number > 100 and "optimum of training.eta0" in whole
    told = 0
    for fails in range(1, number + 1, number // 40):
        calls[:] = [0, fails]
        try:
            assert command.call(words, False) == whole
        except dmft.SystemFailure as failure:
            assert "Input/output error" in failure.sentence and "s." in failure.sentence
            told += 1
    assert told > 30


def test_a_mark_that_is_missing_is_none_and_one_that_is_no_number_is_told(done):
    path = units(done)[0]
    with h5py.File(path, "r+") as file:
        del only_group(file).attrs["valid_until"]
    done.find_optimum()
    with h5py.File(path, "r+") as file:
        only_group(file).attrs["valid_until"] = "soon"
    with pytest.raises(dmft.SystemFailure, match="valid_until cannot be read"):
        done.find_optimum()


def test_a_file_that_cannot_be_written_is_told(done, monkeypatch):
    """And the one that is there stays as it is."""
    before = pathlib.Path(done.path).read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(place.os, "fsync", full)
    with pytest.raises(dmft.SystemFailure, match="cannot write .*: No space left on device"):
        place.save(done.path, b"other")
    assert pathlib.Path(done.path).read_bytes() == before
    assert not os.path.exists(done.path + ".partial")


def test_what_another_run_left_is_not_replaced(done):
    """OUT.h5.partial of dmft-solve, by a sweep or by --optimum; what a cut summary left, it is."""
    out = done.path.replace("s.h5", "again.h5")
    with h5py.File(out + ".partial", "w") as file:
        file.attrs["program"] = "dmft-solve"
    for words in (["--optimum", done.path, "-o", out], [units_ini(done), "-o", out]):
        refuses("again.h5.partial is there, of a run of dmft-s", command.call, words, False)
        assert h5py.File(out + ".partial").attrs["program"] == "dmft-solve"
    command.call([*words, "--force"], False)
    os.unlink(out)
    with open(out + ".partial", "wb") as file:
        file.write(b"cut")
    command.call(words, False)
    assert dmft.load(out).complete and not os.path.exists(out + ".partial")


def test_a_link_in_the_place_of_a_partial_file_is_not_followed(tmp_path):
    (tmp_path / "other").write_bytes(b"precious")
    os.symlink("other", tmp_path / "s.h5.partial")
    with pytest.raises(dmft.SystemFailure, match="cannot write .*symbolic links"):
        place.save(str(tmp_path / "s.h5"), b"new")
    assert (tmp_path / "other").read_bytes() == b"precious"
    assert not os.path.lexists(tmp_path / "s.h5")


def ended(*words, **streams):
    """dmft-sweep in a process of its own."""
    return subprocess.run([sys.executable, "-m", "dmft.study", *words], text=True, check=False,
                          **streams, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[1:])})


def test_a_table_that_cannot_be_printed_is_told(done):
    """Its file is written all the same."""
    out = done.path.replace("s.h5", "again.h5")
    with open("/dev/full", "w", encoding="ascii") as full:
        told = ended("--optimum", done.path, "-o", out, stdout=full, stderr=subprocess.PIPE)
    assert told.returncode == 1
    assert told.stderr == "dmft-sweep: cannot write to standard output\n"
    assert dmft.load(out).complete


def test_a_reader_who_leaves(done):
    """As `head` does: of the table, and of what is said, which ends no sweep."""
    out = done.path.replace("s.h5", "again.h5")
    for closed in ("stdout", "stderr"):
        source, sink = os.pipe()
        os.close(source)
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | {closed: sink}
        told = ended(units_ini(done), "-o", out, **streams)
        os.close(sink)
        assert told.returncode == 0 and dmft.load(out).complete, told.stderr
        os.unlink(out)


def units_ini(run):
    path = run.path.replace("s.h5", "s.ini")
    with open(path, "w", encoding="utf-8") as file:
        file.write(run.parameters["ini"])
    return path


def test_a_process_that_ends_before_it_is_asked_is_told(tmp_path):
    """A write to it raises SIGPIPE, which does not end dmft-sweep without a word."""
    program = tmp_path / "dmft-solve"
    program.write_text("#!/bin/sh\nexec <&-\necho > gone\nsleep 1\nexit 127\n")
    program.chmod(0o755)
    (tmp_path / "s.ini").write_text("[network]\nmodel = dense\n[sweep]\nnetwork.kappa = N^1 2\n")
    code = "import os, sys, time\nfrom dmft.study import command, worker\n" \
        "start = worker.Worker._start\n" \
        "def wait(self):\n    start(self)\n" \
        "    while not os.path.exists('gone'):\n        time.sleep(0.01)\n" \
        "worker.Worker._start = wait\n" \
        "sys.exit(command.main(['s.ini'], './dmft-solve'))\n"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True,
                           text=True, check=False,
                           env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[1:])})
    assert ended.returncode == 1 and "ended with exit code 127, without an answer" in ended.stderr


def test_outputs_of_one_point_are_kept_at_a_time(done, monkeypatch):
    """Outputs of all points together may be more than the memory."""
    kept = []
    read = marks.Marks.read

    def counted(self, unit, file):
        read(self, unit, file)
        kept.append(len(self._outputs))
    monkeypatch.setattr(marks.Marks, "read", counted)
    path = done.path.replace("s.h5", "w.h5")
    dmft.sweep(BASE | {"reference.widths": "8 16", "sweep": {"training.eta0": [0.1, 0.2, 0.4]}},
               progress=False, jobs=2, output=path)
    assert max(kept) == 2


def test_a_sum_is_of_the_bytes_and_the_whole_name(tmp_path):
    """Whatever the folder; a file that was being made gets it, one that nobody made is refused."""
    where = str(tmp_path / "out.sum")
    (tmp_path / "sub").mkdir()
    (tmp_path / "data.h5").write_text("bytes")
    refuses("its sum in .* is missing", place.check_sum, str(tmp_path / "data.h5"), where)
    place.keep_sum(None, where)
    for name, word, known in [("data.h5", "bytes", True), ("sub/data.h5", "bytes", True),
                              ("sub/eata.h5", "bytes", False), ("sub/data.h6", "bytes", False),
                              ("data.h5", "bites", False)]:
        path = tmp_path / name
        path.write_text(word)
        with contextlib.nullcontext() if known else \
                pytest.raises(dmft.InputError, match="not the file that was written under this"):
            place.check_sum(str(path), where)


def test_powers_of_a_factor_are_those_of_the_program():
    """The width, and the rows of its table."""
    source = pathlib.Path(__file__).parent.parent / "solver/settings/factor.c"
    names = re.findall(r'^    \{"(\w+)", "\w*", "', source.read_text("utf-8"), re.MULTILINE)
    assert len(names) > 5
    assert sorted(POWER.pattern.split(")")[0].strip("(").split("|")) == sorted(["N", *names])
