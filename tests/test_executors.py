"""Sweeps whose units an executor runs: the same numbers, whatever it is; a node that dies costs the
units that it had under way; and signals."""
import concurrent.futures
import os
import pickle
import runpy
import signal
import subprocess
import sys
import threading
import time
import types

import dmft
import numpy as np
import pytest
from dmft.study import worker
from texts import text_of

PACKAGE = os.path.dirname(os.path.dirname(dmft.__file__))
BASE = {"network.model": "dense", "training.steps": 3, "solver.sites": 64, "solver.replicates": 2,
        "solver.threads": 1, "data.inputs": 3, "data.dimension": 4, "reference.widths": 8,
        "reference.seeds": 2, "sweep": {"training.eta0": [0.1, 0.2, 0.4, 1e5]}}  # one diverges
pytestmark = pytest.mark.filterwarnings("ignore::dmft.NoteWarning")


@pytest.fixture(name="plain", scope="module")
def sweep_by_processes_of_its_own():
    return dmft.sweep(BASE, progress=False)


def check_same(one, other):
    names = [name for name in one.sweep.data_vars if name != "file"]
    for name in names:
        np.testing.assert_array_equal(one.sweep[name], other.sweep[name], err_msg=name)
    assert len(names) > 12 and other.report == one.report


def by(executor, tmp_path, **more):
    return dmft.sweep(BASE, output=tmp_path / "s.h5", progress=False, executor=executor, **more)


def test_processes_of_python(plain, tmp_path):
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        check_same(plain, by(pool, tmp_path, chunk=3))


def test_dask(plain, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        check_same(plain, by(client.get_executor(), tmp_path))


def test_submitit(plain, tmp_path):
    submitit = pytest.importorskip("submitit")
    executor = submitit.AutoExecutor(folder=tmp_path / "log", cluster="local")
    executor.update_parameters(timeout_min=5)
    check_same(plain, by(executor, tmp_path, chunk=4))


def mpirun(*words, folder):
    pytest.importorskip("mpi4py")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([PACKAGE, *sys.path[1:]])}
    return subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3",
                           sys.executable, *words], cwd=folder, env=env, capture_output=True,
                          text=True, check=False, timeout=300)


def test_ranks(plain, tmp_path):
    """dmft-sweep under mpirun: rank 0 has the sweep, the others run it."""
    (tmp_path / "s.ini").write_text(plain.parameters["ini"])
    done = mpirun("-m", "dmft.study", "s.ini", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = dmft.load(tmp_path / "s.h5")
    found.report = done.stdout
    check_same(plain, found)
    refused = mpirun("-m", "dmft.study", "s.ini", "--jobs", "2", folder=tmp_path)
    assert refused.returncode == 2 and "--jobs is not for several ranks" in refused.stderr


class Nodes(concurrent.futures.Executor):
    """A process for each task, of which some die before they have done anything."""

    def __init__(self, dead=()):
        self.dead, self.count, self.pool = dead, 0, concurrent.futures.ThreadPoolExecutor(2)

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        return self.pool.submit(self._run, fn, args, self.count - 1 in self.dead)

    @staticmethod
    def _run(fn, args, dies):
        code = "import os, pickle, sys; fn, args = pickle.load(sys.stdin.buffer); " + \
            ("os.kill(os.getpid(), 9)" if dies else "pickle.dump(fn(*args), sys.stdout.buffer)")
        done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps((fn, args)),
                              stdout=subprocess.PIPE, check=True,
                              env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[1:])})
        return pickle.loads(done.stdout)


def test_a_node_that_dies_costs_what_it_had_under_way(plain, tmp_path):
    with pytest.raises(dmft.SystemFailure, match="1 of 8 runs did not come to their end, .*first "
                       "at training.eta0 = 0.2, N = 8: CalledProcessError.*the same call goes "
                       "on from here") as error:
        by(Nodes(dead=[2]), tmp_path)
    folder = error.value.partial
    ended = [name for name in os.listdir(folder) if name.endswith((".h5", ".failed"))]
    assert len(ended) == 7  # two of them failed, of the rate that diverges
    nodes = Nodes()
    check_same(plain, by(nodes, tmp_path))
    assert nodes.count == 1


def test_another_version_is_refused(tmp_path, monkeypatch):
    """Of dmft-solve on another machine: its numbers may differ."""
    def older(tasks):
        for task in tasks:
            task["question"]["version"] = "0.0.9"
        return [worker.run_unit(task) for task in tasks]
    monkeypatch.setattr("dmft.study.work.run_units", older)
    with concurrent.futures.ThreadPoolExecutor(1) as pool, \
            pytest.raises(dmft.SystemFailure, match="the dmft-solve here is .*, and the sweep is "
                          "of 0.0.9: their numbers may differ"):
        by(pool, tmp_path)


@pytest.mark.parametrize("chunk", [0, -1])
def test_chunks_are_at_least_one(chunk):
    with pytest.raises(dmft.InputError, match="chunk = .*must be at least 1"):
        dmft.sweep(BASE, progress=False, chunk=chunk)


LONG = BASE | {"training.steps": 100000, "sweep": {"training.eta0": [0.01, 0.02]}}


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def children(pid):
    own = [int(word) for word in text_of(f"/proc/{pid}/task/{pid}/children").split()]
    for task in os.listdir(f"/proc/{pid}/task"):  # threads have children of their own
        own += [int(word) for word in text_of(f"/proc/{pid}/task/{task}/children").split()]
    return set(own)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 130),
                                          (signal.SIGKILL, -9)])
def test_no_process_is_left_behind(tmp_path, number, code):
    """By a sweep that is interrupted, or killed, as soon as it has begun: those that run its units
    end with it."""
    (tmp_path / "s.ini").write_text(
        "[network]\nmodel = dense\n[training]\nsteps = 100000\n[solver]\nsites = 64\n"
        "replicates = 2\nthreads = 1\n[sweep]\ntraining.eta0 = 0.01 0.02 0.03 0.04\n")
    program = subprocess.Popen([sys.executable, "-m", "dmft.study", "--jobs", "2", "s.ini"],
                               cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[1:])})
    wait_for(tmp_path / "s.d" / "grid")
    while len(children(program.pid)) < 2:
        time.sleep(0.01)
    mine = children(program.pid)
    program.send_signal(number)
    said = program.communicate(timeout=300)[1]
    assert program.returncode == code
    if number != signal.SIGKILL:  # of which a process that is just being made does not hear
        assert "interrupted; the same command goes on from here" in said
        assert not list((tmp_path / "s.d").glob("*.h5"))  # no run went to its end all the same
    for pid in mine:
        for _ in range(30000):
            if not os.path.exists(f"/proc/{pid}") or "Z" in open(
                    f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2][:3]:
                break
            time.sleep(0.01)
        else:
            pytest.fail(f"process {pid} is left")


def test_ctrl_c_in_python(tmp_path):
    """dmft.sweep in the main thread hears it; what is done is kept."""
    def interrupt():
        wait_for(tmp_path / "s.d" / "grid")
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    threading.Thread(target=interrupt).start()
    with pytest.raises(dmft.Interrupted, match="the same call goes on from here"):
        dmft.sweep(LONG, output=tmp_path / "s.h5", progress=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("call", [
    lambda: dmft.solve(BASE | {"sweep": {}}), lambda: dmft.sweep(BASE),
    lambda: dmft.recipe({"network.model": "dense"})], ids=["solve", "sweep", "recipe"])
def test_a_rank_starts_programs_that_are_none(tmp_path, monkeypatch, call):
    """What mpirun and srun tell their processes is not told to a dmft-solve that one of them
    starts: built for MPI it would look for the others, and end."""
    (tmp_path / "dmft-solve").write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\nexit 1\n")
    (tmp_path / "dmft-solve").chmod(0o755)
    monkeypatch.setenv("DMFT_HOME", str(tmp_path))
    told = ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "SLURM_PROCID", "SLURM_STEP_ID",
            "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"]
    for name in told:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")  # which is not of ranks
    with pytest.raises((dmft.DmftError, OSError)):
        call()
    seen = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert not seen & set(told) and "SLURM_CPUS_PER_TASK" in seen


def test_scripts_of_clusters(tmp_path, monkeypatch):
    """The job script of a sweep, with an executor of processes in the place of Slurm; Slurm's
    lines stand above everything else, or it would not read them."""
    submitit, docs = types.ModuleType("submitit"), os.path.join(os.path.dirname(PACKAGE), "docs")

    class Processes(concurrent.futures.ProcessPoolExecutor):
        def __init__(self, folder):
            super().__init__(2)
            self.folder, self.keys = folder, {}

        def update_parameters(self, **keys):
            self.keys |= keys

    submitit.AutoExecutor = Processes
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates.ini").write_text(dmft.sweep(BASE, progress=False).parameters["ini"])
    monkeypatch.setattr(sys, "argv", ["slurm_sweep.py", "rates.ini", "rates.h5"])
    runpy.run_path(os.path.join(docs, "slurm_sweep.py"))
    assert dmft.load("rates.h5").sweep.sizes["training.eta0"] == 4
    for name in ("slurm.sh", "slurm_sweep.py"):
        lines = [line for line in text_of(os.path.join(docs, name)).splitlines() if line]
        asked = [k for k, line in enumerate(lines) if line.startswith("#SBATCH ")]
        assert len(asked) > 5 and all(line.startswith("#") for line in lines[:asked[-1]])
        assert "#SBATCH --requeue" in lines
