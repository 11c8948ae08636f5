"""The package dmft: what it returns against the files, refusals against the program's own words,
Ctrl-C, progress, where programs are found. Run by tests/python.sh."""
import doctest
import gc
import importlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import types

import h5py
import numpy as np
import pytest
from refusing import refuses
import xarray

import dmft
from dmft import data, guard, program, run

HERE = os.path.dirname(os.path.abspath(__file__))
DENSE = os.path.join(HERE, "..", "data", "dense.ini")
SMALL = {"solver.sites": 32, "solver.replicates": 3, "training.steps": 4,
         "reference.widths": [16, 32], "reference.seeds": 2}
LONG = {"solver.sites": 1024, "training.steps": 2000, "reference.widths": []}


def test_what_a_run_returns_is_its_file(tmp_path):
    out = str(tmp_path / "x.h5")
    result = dmft.solve(DENSE, output=out, progress=False, **SMALL, **{"training.eta0": 0.5})
    assert result.complete and result.parameters["training.eta0"] == 0.5
    assert list(result.reference) == [16, 32] and result.provenance["matrices"]
    with h5py.File(out) as file:
        for group, data in ((file["limit"], result.limit),
                            (file["reference/N0032"], result.reference[32])):
            for name, item in group.items():
                assert data[name].dims == tuple(str(item.attrs["dims"]).split()), name
                values = item.asstr()[...] if item.dtype.kind == "O" else item[...]
                np.testing.assert_array_equal(data[name].values, values)
    assert list(result.limit["t"]) == [0, 1, 2, 3] and result.reference[32]["N"] == 32
    assert list(result.limit["tau"]) == [0, 1, 2, 3]
    both = xarray.concat(result.reference.values(), "N")["loss"].transpose("N", "t")
    np.testing.assert_array_equal(both.sel(N=16), result.reference[16]["loss"])
    assert set(os.listdir(tmp_path)) == {"x.h5"}


def test_ini_dict_and_text_are_one():
    """The same keys by three ways, the same bits."""
    nested = {"network": {"model": "dense"}, "solver": {"sites": 32, "replicates": 3}}
    flat = {"network.model": "dense", "solver.sites": 32, **SMALL}
    first = dmft.solve(nested, progress=False, **SMALL)
    for config in (flat, first.parameters["ini"]):
        other = dmft.solve(config, progress=False)
        np.testing.assert_array_equal(first.limit["loss"], other.limit["loss"])
        np.testing.assert_array_equal(first.reference[32]["f"], other.reference[32]["f"])


def test_values():
    assert run.text_of(np.float64(1e-5)) == "1e-05" and run.text_of(np.int64(3)) == "3"
    assert run.text_of([]) == "" and run.text_of(np.array([0.5, 1])) == "0.5 1.0"
    assert run.flatten({"rates": {"Q": 0}, "training.eta0": 1}) == {
        "rates.Q": "0", "training.eta0": "1"}
    for wrong in ({"steps": 3}, {"training": {"steps": None}}, {"network.model": "a\n[b]"}):
        with pytest.raises(dmft.InputError):
            run.flatten(wrong)
    for module in ("run", "errors", "plot.select", "extrapolation", "block_axis", "statistics",
                   "study.text", "study.grid", "study.cells"):
        assert doctest.testmod(importlib.import_module(f"dmft.{module}")).failed == 0


def test_data_as_arrays(tmp_path):
    rng = np.random.default_rng(1)
    data = {"X": rng.normal(size=(6, 5)).astype(np.float32), "y": [True, False] * 3,
            "X_test": rng.normal(size=(2, 5)), "y_test": [1, -1]}
    out = str(tmp_path / "x.h5")
    result = dmft.solve(DENSE, output=out, progress=False, **SMALL, **data)
    for name, values in data.items():
        np.testing.assert_array_equal(result.data[name], np.asarray(values, dtype=float))
    assert np.isfinite(result.limit["test_loss"]).all()
    (kept,) = set(os.listdir(tmp_path)) - {"x.h5"}  # so that the ini in the file repeats the run
    assert re.fullmatch("x_data_[0-9a-f]{12}.h5", kept)
    again = dmft.solve(result.parameters["ini"], progress=False)
    np.testing.assert_array_equal(again.limit["f"], result.limit["f"])
    with h5py.File(tmp_path / kept) as file:
        assert set(file) == set(data)
    refuses("did you mean X_test?", dmft.solve, DENSE, X_tset=data["X"])
    refuses("neither an array", dmft.solve, DENSE, steps=3)
    with pytest.raises(dmft.InputError, match="has no dataset y"):
        dmft.solve(DENSE, output=str(tmp_path / "z.h5"), progress=False, X=data["X"])
    os.mkdir(tmp_path / "x.d")  # of a sweep of that name
    (tmp_path / "x.d" / "0.h5").touch()
    with pytest.raises(dmft.InputError, match="exists already.* add force=True") as caught:
        dmft.solve(DENSE, output=out, progress=False, **SMALL, **data)
    assert caught.value.partial is None and set(os.listdir(tmp_path)) == {"x.h5", "x.d", kept}


def test_large_arrays_are_read_from_the_file_that_was_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("dmft.guard.SMALL", 8)
    out = str(tmp_path / "x.h5")
    first = dmft.solve(DENSE, output=out, progress=False, **SMALL)
    again = dmft.load(os.path.relpath(out))
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(again.limit["f"], first.limit["f"])
    assert dmft.load(out).limit["f"].isel(t=[], mu=[0]).values.shape[:2] == (0, 1)
    late = dmft.load(out)
    dmft.solve(DENSE, output=out, force=True, progress=False, **SMALL)
    refuses("has been replaced", late.limit["f"].load)


@pytest.mark.parametrize("kind, code, arguments", [
    (dmft.InputError, 2, ["--training.eta=3"]),
    (dmft.InputError, 2, ["--network.model=dnse"]),
    (dmft.NumericalFailure, 3, ["--network.activation=linear", "--training.eta0=1000000",
                                "--training.steps=200", "--solver.sites=32"])])
def test_failures_say_what_the_program_says(tmp_path, kind, code, arguments):
    out = str(tmp_path / "x.h5")
    said = subprocess.run([program.find("dmft-solve"), "--quiet", "-o", out, DENSE, *arguments],
                          capture_output=True, text=True)
    keys = dict(word[2:].split("=") for word in arguments)
    for name in os.listdir(tmp_path):
        os.remove(tmp_path / name)
    with pytest.raises(kind) as caught:
        dmft.solve(DENSE, output=out, progress=False, **keys)
    assert caught.value.code == said.returncode == code
    assert "dmft-solve: " + caught.value.sentence + "\n" == said.stderr
    if code == 3:
        partial = dmft.load(caught.value.partial)
        assert not partial.complete and partial.limit["n"][0] > 0
        with pytest.raises(dmft.NumericalFailure) as caught:  # its temporary folder stays
            dmft.solve(DENSE, progress=False, **keys)
        assert not dmft.load(caught.value.partial).complete
        subprocess.run(["rm", "-r", os.path.dirname(caught.value.partial)], check=True)


def test_a_result_is_not_overwritten(tmp_path):
    out = str(tmp_path / "x.h5")
    dmft.solve(DENSE, output=out, progress=False, **SMALL)
    for call, keys in ((dmft.solve, {}), (dmft.sweep, {"sweep.training.eta0": "1 2"})):
        with pytest.raises(dmft.InputError, match="exists already; .* or add force=True$"):
            call(DENSE, output=out, progress=False, **SMALL, **keys)
    refuses("exists already; .* force$", data.write, out, data.mixture(2, 4, 3))
    again = dmft.solve(DENSE, output=out, force=True, progress=False, **SMALL | {
        "training.steps": 5})
    assert again.limit.sizes["t"] == 5 and os.listdir(tmp_path) == ["x.h5"]


def test_a_temporary_result_lives_as_long_as_it_is_used(monkeypatch):
    monkeypatch.setattr(guard, "SMALL", 4)  # larger arrays stay on disk
    result = dmft.solve(DENSE, progress=False, **SMALL)
    path, limit = result.path, result.limit
    with h5py.File(path) as file:
        f, runs = file["limit/f"][:], file["limit/f_runs"][1:, 2]
    del result
    gc.collect()
    np.testing.assert_array_equal(limit["f_runs"][1:, 2], runs)
    np.testing.assert_array_equal(limit["f"], f)
    assert os.path.exists(path)
    del limit
    gc.collect()
    assert not os.path.exists(os.path.dirname(path))


def test_sweeps_whole_and_in_progress(tmp_path):
    """The folder alone gives what the summary says; a second call repeats nothing; a unit that is
    missing is NaN."""
    out, axis = str(tmp_path / "s.h5"), "training.eta0"
    data = {"X": np.eye(4, 6), "y": [1, -1, 1, -1]}
    config = {"network.model": "dense", axis: 7, "sweep": {axis: [0.1, 0.2, 0.4]}, **SMALL,
              "reference.seeds": 3}  # not as many as there are replicates
    whole = dmft.sweep(config, output=out, progress=False, jobs=2, **data)
    assert whole.sweep["loss"].dims == (axis, "N") and whole.optimum.attrs["key"] == axis
    assert list(whole.sweep["N"]) == [16, 32, np.inf] and "optimum of" in whole.report
    folder = tmp_path / "s.d"
    stamps = {name: os.stat(folder / name).st_mtime_ns for name in os.listdir(folder)}
    dmft.sweep(config, output=out, force=True, progress=False, **data)
    assert all(stamps[name] == os.stat(folder / name).st_mtime_ns for name in stamps
               if name != "grid")
    part = dmft.load(folder)
    assert not part.complete
    for name in ("loss", "loss_se", "loss_median", "loss_min", "n", "failed"):
        np.testing.assert_array_equal(part.sweep[name], whole.sweep[name].values)
    np.testing.assert_array_equal(part.points[0.2,].limit["loss"], whole.points[0.2,].limit["loss"])
    mine = whole.points[0.2,].limit  # a copy: what is done to it stays here
    mine["loss"] = 0 * mine["loss"]
    assert whole.points[0.2,].limit["loss"].all()
    series = part.series("loss")
    assert series["loss"].dims == (axis, "N", "t") and "loss_se" in series
    np.testing.assert_array_equal(series["loss"].isel(t=-1), whole.sweep["loss"])
    assert series["loss_runs"].sizes["run"] == 3
    best = whole.find_optimum(objective="loss[0]")
    assert best.attrs["objective"] == "loss[0]" and best.attrs["key"] == axis
    kernel = whole.series("Phi1_diag")["Phi1_diag"].sel(N=16).isel(t=3)
    for entry, want in (("3][0]", kernel.isel(mu=0)), ("last]", kernel.mean("mu"))):
        best = whole.find_optimum(objective=f"Phi1_diag[{entry}").sel(N=16)
        assert float(best["least"]) == pytest.approx(float(want.min()), rel=1e-13)
    refuses("along = network.kappa", whole.find_optimum, along="network.kappa")
    alone = dmft.load(shutil.copy(out, tmp_path / "moved.h5"))
    for ask in (lambda: alone.points, lambda: alone.series("loss")):
        refuses("runs of a sweep lie in .*moved.d beside its", ask)
    os.remove(folder / str(whole.sweep["file"].values[1]))  # 0.1, N = 32
    part = dmft.load(folder)
    assert np.isnan(part.sweep["loss"].sel({axis: 0.1, "N": 32}))
    assert np.isfinite(part.sweep["loss"]).sum() == 8 and list(part.points[0.1,].reference) == [16]
    os.remove(out)
    with pytest.raises(FileNotFoundError, match="s.d is there, of a sweep that is not complete"):
        dmft.load(out)


def test_keys_that_vary_together_have_one_form(tmp_path):
    """In the file, in the folder, and in points."""
    out = str(tmp_path / "s.h5")
    pair = "training.eta0,training.gamma0"
    config = {"network.model": "dense", "sweep": {pair: [(0.2, 1), (0.1, 2)]}, **SMALL}
    whole = dmft.sweep(config, output=out, progress=False, X=np.eye(4, 6), y=[1, -1, 1, -1])
    part = dmft.load(tmp_path / "s.d")
    assert part.sweep["loss"].dims == whole.sweep["loss"].dims == (pair, "N")
    assert list(part.points) == list(whole.points) == [(0.2, 1.0), (0.1, 2.0)]
    np.testing.assert_array_equal(part.sweep["training.gamma0"], [1, 2])
    for (eta0, gamma0), point in whole.points.items():
        keys, loss = point.parameters, whole.sweep["loss"]
        assert (keys["training.eta0"], keys["training.gamma0"]) == (eta0, gamma0)
        own = loss.where(loss["training.eta0"] == eta0, drop=True).sel(N=np.inf)
        assert own.item() == point.limit["loss"][-1]
    refuses(f"^{re.escape(out)}: has no optimum", whole.find_optimum)
    with pytest.raises(KeyError, match=r"no point \(\(0.2, 1.0\),\): .* a value of each of "
                       r"training.eta0, training.gamma0; there are \(0.2, 1.0\), \(0.1, 2.0\)"):
        whole.points[(0.2, 1.0),]


@pytest.mark.filterwarnings("error", "ignore::dmft.NoteWarning")
def test_comparisons():
    result = dmft.compare({"network.model": "regime2", "network.parameterization": ["mup", "mssp"],
                           "solver.expert_sites": 32, **SMALL}, progress=False)
    assert set(result.sides) == {"mup", "mssp"} == set(result.compare["parameterization"].values)
    for name, side in result.sides.items():
        np.testing.assert_array_equal(result.compare["loss_inf"].sel(parameterization=name),
                                      result[name + "/compare"]["loss_inf"])
        assert side.parameters["network.parameterization"] == name and 16 in side.reference
    with pytest.raises(dmft.InputError, match="several parameterizations"):
        result.limit
    one = dmft.compare(DENSE, progress=False, **SMALL)
    assert one.compare.sizes["parameterization"] == 1 and one.limit.sizes["t"] == 4
    with pytest.raises(dmft.InputError, match="has no sweep"):
        one.sweep


def script(*lines, **options):
    """A Python of its own that runs these lines."""
    return subprocess.Popen([sys.executable, "-c", "\n".join(["import dmft, os", *lines])],
                            text=True, **options)


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["solve", "compare", "sweep"])
def test_interrupt(tmp_path, kind):
    """The signal goes to Python alone; the program ends in order, then KeyboardInterrupt is there,
    and what was computed is on disk."""
    out = str(tmp_path / "x.h5")
    keys = dict(LONG, **({"sweep.training.eta0": [0.01, 0.02, 0.03]} if kind == "sweep" else {}))
    if kind != "solve":
        keys.update({"reference.widths": [16], "reference.seeds": 1})
    child = script("try:", f"    dmft.{kind}({dict(keys, **{'network.model': 'dense'})!r}, "
                   f"output={out!r}, progress=False)", "except KeyboardInterrupt as stop:",
                   "    print(type(stop).__name__, stop.code, stop.partial)",
                   stdout=subprocess.PIPE, start_new_session=True)
    folder = tmp_path / "x.d"
    done = (lambda: os.path.exists(out + ".partial")) if kind != "sweep" else \
        (lambda: folder.exists() and any(name.endswith(".h5") for name in os.listdir(folder)))
    wait_for(done)
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=300)
    partial = str(folder) if kind == "sweep" else out + ".partial"
    assert said == f"Interrupted 130 {partial}\n"
    assert not dmft.load(partial).complete and not os.path.exists(out)
    if kind != "sweep":
        assert dmft.load(partial).parameters["training.steps"] == LONG["training.steps"]
    with pytest.raises(ProcessLookupError):  # of the session nobody is left
        os.killpg(child.pid, 0)


@pytest.mark.parametrize("kind", ["solve", "compare"])
def test_resume(tmp_path, kind):
    """Further, with the bits of a run in one piece; of a file, and of a result without one."""
    out, keys = str(tmp_path / "x.h5"), dict(SMALL, **{"output.checkpoint": 60})
    call = getattr(dmft, kind)
    first = call(DENSE, output=out, progress=False, **keys)
    kept = call(DENSE, progress=False, **keys)
    whole = call(DENSE, progress=False, **dict(SMALL, **{"training.steps": 9}))
    for run in (out, first, kept):
        longer = dmft.resume(run, progress=False, **{"training.steps": 9})
        assert longer.complete and longer.report
        for group in ("limit", "reference/N0032"):
            name = next(name for name in whole if name.endswith(group))
            xarray.testing.assert_equal(longer[name].drop_vars("seconds", errors="ignore"),
                                        whole[name].drop_vars("seconds", errors="ignore"))
    assert dmft.load(out).parameters["training.steps"] == 9
    with pytest.raises(dmft.InputError, match="training.eta0"):
        dmft.resume(out, progress=False, **{"training.steps": 12, "training.eta0": 0.7})
    refuses("with the data that it has", dmft.resume, out, X=np.eye(3))


def test_resume_that_fails():
    """What it has computed stays, though the result that it was of had no file of its own."""
    first = dmft.solve(DENSE, progress=False, **SMALL | {
        "network.activation": "linear", "training.eta0": 8, "training.steps": 2,
        "reference.widths": [], "output.checkpoint": 60})
    with pytest.raises(dmft.NumericalFailure) as caught:
        dmft.resume(first, progress=False, **{"training.steps": 200})
    del first
    assert not dmft.load(caught.value.partial).complete
    subprocess.run(["rm", "-r", os.path.dirname(caught.value.partial)], check=True)


def test_resume_after_an_interrupt(tmp_path):
    """Of what error.partial names, though the file itself was never written; what has no state is
    told so; a sweep goes on by its own call."""
    out = str(tmp_path / "x.h5")
    keys = dict(LONG, **{"training.steps": 200, "network.model": "dense",
                         "output.checkpoint": 1e-3})
    child = script("try:", f"    dmft.solve({keys!r}, output={out!r}, progress=False)",
                   "except KeyboardInterrupt as stop:", "    print(stop.partial)",
                   stdout=subprocess.PIPE, start_new_session=True)
    wait_for(lambda: os.path.exists(out + ".partial") and os.path.isdir(out + ".state") and
             any(name.endswith(".state") for name in os.listdir(out + ".state")))
    child.send_signal(signal.SIGINT)
    partial = child.communicate(timeout=300)[0].strip()
    assert partial == out + ".partial" and not os.path.exists(out)
    result = dmft.resume(partial, progress=False, **{"output.checkpoint": 60})
    assert result.complete and result.path == out and not os.path.exists(partial)
    bare = dmft.solve(DENSE, output=str(tmp_path / "bare.h5"), progress=False, **SMALL)
    refuses("checkpoint", dmft.resume, bare, **{"training.steps": 9})
    rates = dmft.sweep({"sweep": {"training.eta0": [0.1, 0.2]}, "network.model": "dense"},
                       progress=False, **dict(SMALL, **{"reference.widths": []}))
    refuses("is a sweep", dmft.resume, rates)


def test_progress_in_a_terminal():
    """One line, rewritten in place and taken away at the end; notes stay."""
    try:
        master, slave = pty.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo-terminal can be opened here: {error}")
    keys = dict(LONG, **{"training.steps": 120, "network.model": "dense"})
    child = script(f"dmft.solve({keys!r})", stderr=slave)
    os.close(slave)
    text = b""
    while True:
        try:
            chunk = os.read(master, 4096)
        except OSError:
            break
        if not chunk:
            break
        text += chunk
    os.close(master)
    assert child.wait() == 0
    lines = text.decode().replace("\r\n", "\n").split("\n")
    assert lines[0].startswith("memory: ")
    shown = [part for part in lines[-1].split("\r") if part.strip()]
    assert len(shown) >= 2 and all("step" in part for part in shown)
    assert lines[-1].endswith("\r") and not lines[-1].split("\r")[-2].strip()


def test_no_pseudo_terminal(monkeypatch):
    """As in a container without /dev/pts."""
    def none():
        raise OSError("out of pty devices")
    monkeypatch.setattr(pty, "openpty", none)
    for end in program._open(types.SimpleNamespace(changes=True)):
        os.close(end)


def test_progress_is_left_out_of_a_log(capfd):
    dmft.solve(DENSE, **SMALL)
    said = capfd.readouterr()
    lines = said.err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["memory", "warning"] and not said.out
    dmft.solve(DENSE, progress=False, **SMALL)
    assert capfd.readouterr() == ("", "")


def test_where_programs_are_found(tmp_path, monkeypatch):
    real = program.find("dmft-solve")
    home = tmp_path / "home" / "bin"
    home.mkdir(parents=True)
    os.symlink(real, home / "dmft-solve")
    monkeypatch.setenv("DMFT_HOME", str(tmp_path / "home"))
    assert program.find("dmft-solve") == str(home / "dmft-solve")
    with pytest.raises(dmft.SystemFailure, match="no dmft-sweep in DMFT_HOME"):
        program.find("dmft-sweep")
    monkeypatch.delenv("DMFT_HOME")
    monkeypatch.setenv("PATH", str(home))
    monkeypatch.setattr(program, "__file__", str(tmp_path / "site-packages" / "program.py"))
    monkeypatch.chdir(tmp_path)
    assert program.find("dmft-solve") == str(home / "dmft-solve")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(dmft.SystemFailure, match="no dmft-solve on PATH or in the checkout"):
        program.find("dmft-solve")
    checkout = tmp_path / "stranger"
    (checkout / "solver").mkdir(parents=True)
    (checkout / "solver" / "main_solve.c").touch()
    os.symlink(real, checkout / "dmft-solve")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(program, "_installed_from", lambda: None)
    with pytest.raises(dmft.SystemFailure, match="no dmft-solve on PATH or in the checkout"):
        program.find("dmft-solve")
    monkeypatch.setattr(program, "_installed_from", lambda: str(checkout / "python"))
    assert program.find("dmft-solve") == str(checkout / "dmft-solve")


def test_share_of_the_top_gates(tmp_path):
    """gate_top against the gates themselves: 1 % of 250 experts are two and half of the third,
    1 % of fewer than a hundred a part of the largest; sums of 250 numbers have a round-off of
    1e-13."""
    run = dmft.solve({"network.model": "regime2", "training.steps": 3, "solver.sites": 64,
                      "solver.expert_sites": 250, "solver.replicates": 1, "reference.widths": 16,
                      "reference.seeds": 1, "output.fields": "phi", "output.field_sites": 250,
                      "output.fields_at": 2}, output=str(tmp_path / "run.h5"), progress=False)
    phi = -np.sort(-run.limit["phi_site"].isel(at=0).transpose("mu", "site").values, axis=1)
    want = (phi[:, :2].sum(1) + 0.5 * phi[:, 2]) / phi.sum(1)
    assert np.allclose(run.limit["gate_top"].values[2], want, rtol=1e-12)
    few = run.reference[16]
    assert np.allclose(few["gate_top"], few["gate_largest"] / 100, rtol=1e-12)
