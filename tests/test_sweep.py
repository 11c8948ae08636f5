"""dmft-sweep: sweeps that are cut and go on, runs that diverge, limits that rest; what its file
replaces, and that its errors are those of its runs."""
import functools
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import dmft
import h5py
import numpy as np
import pytest
from sweeping import (DATA, DENSE, HEAD, RATES, SHORT, call, check_same_summary, in_a_folder, of,
                      refused, sweep, units, written)

pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


# ---- runs ----

@pytest.fixture(name="whole", scope="module")
def sweeps_that_nobody_cut(tmp_path_factory):
    """The file of HEAD + RATES with one more word, made once."""
    folder = tmp_path_factory.mktemp("whole")

    @functools.cache
    def of_word(word=""):
        sweep(HEAD + RATES, word, into=folder / f"whole{word}")
        return folder / f"whole{word}.h5"
    return of_word


@pytest.mark.parametrize("number, code, word", [
    (signal.SIGKILL, -9, ""), (signal.SIGTERM, 130, "interrupted"), (signal.SIGHUP, 130, ""),
    (signal.SIGINT, 130, "interrupted; the same command goes on from here")])
def test_a_sweep_that_is_cut_goes_on(number, code, word, whole):
    """Files that were complete then are not touched by the second call, and the end is that of a
    sweep that nobody cut. A sweep of which all nine are complete before is made again, longer."""
    steps, before = 50, [None] * 9
    while len(before) == 9:
        steps *= 2
        assert steps <= 6400
        shutil.rmtree("out.d", ignore_errors=True)
        pathlib.Path("sweep.ini").write_text(HEAD + RATES)
        more = f"--training.steps={steps}"
        with subprocess.Popen([sys.executable, "-m", "dmft.study", "--quiet", "--jobs", "1", "-o",
                               "out.h5", "sweep.ini", more], stderr=subprocess.PIPE, text=True,
                              env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[1:])}) as it:
            while not units() and it.poll() is None:
                time.sleep(1e-3)
            it.send_signal(number)  # children of a killed parent are killed, too
            said = it.communicate()[1]
        before = units()
    assert it.returncode == code and word in said and not os.path.exists("out.h5")
    old = written(before)
    sweep(HEAD + RATES, more)
    assert written(before) == old and len(units()) == 9 and not units("partial")
    check_same_summary("out.h5", whole(more))


def test_a_changed_sweep_runs_what_is_new():
    """What is the same in the new one is not run again, whatever its place in the grid."""
    sweep(HEAD + RATES)
    old = written(units())
    sweep(HEAD + RATES.replace("=", "= 0.1"))
    assert len(old) == 9 and len(units()) == 12
    sweep(HEAD + RATES.replace("=", "= 0.1"), "--solver.seed=2")
    assert len(units()) == 24 and written(path for path, *_ in old) == old


def test_units_are_what_was_written():
    """Swapped, altered, without its sum: refused; cut before its sum: kept; deleted: run again,
    with the same end."""
    sweep(HEAD + RATES)
    shutil.copy("out.h5", "whole.h5")
    one, other = map(pathlib.Path, units()[:2])
    bytes_of_it = bytearray(one.read_bytes())
    again = ["--quiet", "--jobs", "2", "-o", "out.h5", "sweep.ini"]
    behind = ".*delete it, and it will be run again"
    one.write_bytes(other.read_bytes())
    refused("bytes and" + behind, *again)
    bytes_of_it[len(bytes_of_it) // 2] ^= 1
    one.write_bytes(bytes_of_it)
    refused("is not the file that was written under this name" + behind, *again)
    bytes_of_it[len(bytes_of_it) // 2] ^= 1
    one.write_bytes(bytes_of_it)
    call(*again)
    said = one.with_suffix(".sum").read_text()
    one.with_suffix(".sum").unlink()
    refused("is missing" + behind, *again)
    one.with_suffix(".sum").touch()  # as where the sweep was cut just behind the run
    old = written([one])
    call(*again)
    assert written([one]) == old and one.with_suffix(".sum").read_text() == said
    one.unlink()
    call(*again)
    check_same_summary("out.h5", "whole.h5")


def test_a_folder_is_locked():
    """It is one sweep's at a time, and none's where that cannot be told."""
    pathlib.Path("sweep.ini").write_text(HEAD + RATES)
    os.mkdir("out.d")
    held = "import fcntl, sys; file = open('out.d/lock', 'w'); fcntl.lockf(file, fcntl.LOCK_EX); " \
        "print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", held], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        refused("another dmft-sweep is at work in out.d; choose another name than out.h5",
                "-o", "out.h5", "sweep.ini")
        other.stdin.close()
    os.remove("out.d/lock")
    os.mkdir("out.d/lock")
    refused("cannot open out.d/lock: ", "-o", "out.h5", "sweep.ini", kind=dmft.SystemFailure)


def reasons():
    """Words of the reasons of /optimum, by their numbers."""
    return {int(number): word for number, word in
            re.findall(r"(\d+): ([^;]*)", of("optimum@reasons"))}


def test_divergence_is_a_result():
    """eta0 = 1e4 diverges in the limit and in networks: recorded, done, and run again where
    it is asked for."""
    text = HEAD + RATES.replace("0.8", "1e4")
    table, _ = sweep(text, "--training.steps=20")
    assert "not known: runs failed, or have no value, beside it" in table
    failed = written(units(".failed"))
    assert len(failed) == 3
    assert "exceeds 1e+06 times that of the start" in pathlib.Path(failed[0][0]).read_text()
    sweep(text, "--training.steps=20")
    assert written(units(".failed")) == failed
    assert (np.isnan(of("sweep/loss")) == [[False], [False], [True]]).all()
    assert ((of("sweep/failed") > 0) == [[False], [False], [True]]).all()
    assert (of("optimum/reason") == 3).all() and reasons()[3].startswith("not known: runs failed")
    assert np.isnan(of("optimum/at")).all() and (of("optimum/least_at") == 0.4).all()
    sweep(text, "--quiet", "--retry", "--training.steps=20")
    again = written(units(".failed"))
    assert len(again) == 3 and not set(again) & set(failed)


def test_a_network_that_diverges_fails_its_point():
    """Two networks of six at the larger rate: without them the mean would be too good; an order of
    sums apart it is that of the other four."""
    text = SHORT.replace("kappa = 0.5", "activation = linear\ngate = constant") \
        .replace("widths = 8\nseeds = 2", "widths = 2\nseeds = 6")
    table, _ = sweep(text + "training.eta0 = 0.1 0.3 0.6\n")
    failed, = units(".failed")
    assert "2 of 6 networks failed: N = 2, network 2, step 3: the loss, " in \
        pathlib.Path(failed).read_text()
    assert of("sweep/failed").tolist() == [[0, 0], [0, 0], [2, 0]]
    assert of("sweep/n")[1, 0] == 6 and of("sweep/n")[2, 0] == 4 and "(2 of 6 failed)" in table
    partial, = units(".partial")
    assert of("reference/N0002/n", partial).tolist()[3:] == [4]
    mean = of("reference/N0002/loss", partial)[3]
    assert abs(of("sweep/loss")[2, 0] - mean) <= 1e-15 * mean


def test_a_limit_that_rests_has_no_optimum():
    """muP with a zero read-out rests at every rate; MSSP has an optimum. The loss of the limit
    moves all the same, since targets of one batch are larger than of another."""
    table, _ = sweep(HEAD + "network.parameterization = mup mssp\n" + RATES +
                     "data.source, training.batch = multi_index 2\n", "--network.read_out=zero")
    assert "(it rests)" in table and "note: a limit rests where" in table
    assert list(of("notes/code")).count("rests") == 1
    rests, rest = of("sweep/rests").reshape(2, 3, 3), of("optimum/reason").reshape(2, 3) == 8
    assert "rests" in reasons()[8] and rest.tolist() == [[False, False, True], [False] * 3]
    assert (rests[0, :, 2] == 1).all() and np.nansum(rests == 1) == 3
    assert np.isnan(of("optimum/at")).all()  # of three values none is known


# ---- the file ----

def rates(values):
    return DENSE + f"[sweep]\ntraining.eta0 = {values}\n"


EXISTS = "out.h5: exists already.*--force"


def test_what_a_sweep_replaces():
    """Files of sweeps whose runs stay, and nothing else: neither another's, beside a folder as a
    stopped sweep leaves it, nor a result of dmft-solve."""
    out = pathlib.Path("out.h5")
    for folder in (False, True):
        out.write_text("mine")
        with pytest.raises(dmft.InputError, match=EXISTS):
            sweep(rates("0.2 0.4"))
        assert out.read_text() == "mine" and os.path.isdir("out.d") == folder
        os.makedirs("out.d", exist_ok=True)
    out.unlink()
    dmft.solve(DENSE, output="out.h5", progress=False)
    with pytest.raises(dmft.InputError, match=EXISTS):
        sweep(rates("0.2 0.4"))
    sweep(rates("0.2 0.4"), "--force")
    for values in ("0.2 0.4", "0.4 0.8"):  # another grid in the same folder
        sweep(rates(values))
    shutil.rmtree("out.d")
    sweep(rates("0.4 0.8"))  # runs that were deleted
    shutil.rmtree("out.d")
    with pytest.raises(dmft.InputError, match=EXISTS):
        sweep(rates("0.3 0.8"))  # none of this sweep
    sweep(rates("0.3 0.8"), "--force")


def test_errors_are_those_of_the_runs():
    """The error of the tolerance is part of the error of a run, and so of the same loss in a sweep;
    that of the median has it, too, in quadrature."""
    text = DENSE + "tolerance = 0.05\n[sweep]\ntraining.eta0 = 0.2\n"
    sweep(text, "--solver.check_tolerance=no")
    alone = of("sweep/loss_median_se").item()
    sweep(text, "--solver.check_tolerance=yes")
    run = "out.d/" + of("sweep/file").item()
    want, difference = (of(f"limit/{name}", run)[-1] for name in ("loss_se", "loss_tolerance"))
    assert of("sweep/loss_se").item() == pytest.approx(want, rel=1e-14)
    assert abs(difference) > 1e-6 * want  # it matters
    assert of("sweep/loss_median_se").item() == pytest.approx(math.hypot(alone, difference),
                                                              rel=1e-14)


def test_smallest_loss():
    """It is that of all times, the first among them: at the rate 10 the loss of the networks only
    rises, and that of the limit is smallest at t = 1."""
    sweep(DENSE + "[reference]\nwidths = 4\nseeds = 3\n[sweep]\ntraining.eta0 = 0.01 10\n",
          "--training.steps=3")
    at = []
    for unit, (name, least) in enumerate(zip(of("sweep/file"), of("sweep/loss_min").ravel())):
        loss = of("limit/loss" if unit % 2 else "reference/N0004/loss", f"out.d/{name}")
        assert least == pytest.approx(loss.min(), rel=1e-15)
        at.append(loss.argmin())
    assert at[2:] == [0, 1]


@pytest.mark.parametrize("on_the_line", [False, True])
def test_points_of_several_networks(on_the_line):
    """A point leaves out what only others use, and runs as an ini of its own would; whether the ini
    or the command line has these keys, as it has those of a dictionary of Python."""
    given = {"kappa": "network.kappa=0.5", "eps": "training.eps=0.1",
             "expert_sites": "solver.expert_sites=64"}
    lines = {key: "" if on_the_line else f"{key} = {word.partition('=')[2]}\n"
             for key, word in given.items()}
    alone = dmft.solve(DENSE, output="alone.h5", progress=False, **{"training.steps": 6}).path
    _, said = sweep(
        f"[network]\nmodel = regime2\n{lines['kappa']}{DATA}[training]\nsteps = 6\n{lines['eps']}"
        f"[solver]\nsites = 64\n{lines['expert_sites']}replicates = 2\n[reference]\n"
        "widths = 8 16\nseeds = 3\n[sweep]\nnetwork.model = dense regime2\n"
        "training.optimizer = gd adam\n", *["--" + word for word in given.values() if on_the_line])
    assert "note: some points do not use, and leave out: network.kappa training.eps " \
        "solver.expert_sites" in said
    assert of("sweep/loss").shape == (2, 2, 3)  # model, optimizer, N = 8, 16, infinity
    assert of("sweep/loss")[0, 0, 2] == of("limit/loss", alone)[-1]


def test_names_are_those_of_a_point():
    """Units may name what only other units of their point have: under Adam networks alone have
    singular values, and heads have rows of their own. A name that none has is refused."""
    text = "[network]\nmodel = transformer\ndepth = 1\nheads = 2\n[data]\nsource = markov\n" \
        "vocabulary = 2\ntokens = 2\ninputs = 2\n[training]\nsteps = 2\noptimizer = adam\n" \
        "loss = cross_entropy\n[solver]\nsites = 32\nreplicates = 1\n[reference]\nwidths = 8\n" \
        "seeds = 1\n[sweep]\ntraining.eta0 = 0.1 0.2\n"
    sweep(text, "--output.singular=W_V", "--output.fields=W_Q_0_1")
    refused("no rows are called W_Q_0_2", "-o", "more.h5", "sweep.ini", "--output.fields=W_Q_0_2")


def test_what_is_missing_is_told():
    """The optimum of a sweep is that of all of its runs, nor is a run whose file lacks its loss
    taken for one that has failed."""
    sweep(rates("0.1 0.3"))
    call("--optimum", "out.h5")
    first = units()[0]
    os.rename(first, "kept")
    refused("out.d/.*this run is missing; the same dmft-sweep", "--optimum", "out.h5")
    os.rename("kept", first)
    with h5py.File(first, "r+") as file:
        del file["limit/loss"]
    refused("is not a complete file with limit/loss", "--optimum", "out.h5",
            kind=dmft.SystemFailure)
