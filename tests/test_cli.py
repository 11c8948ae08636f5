"""The program from outside: what can be asked on its command line, and what it answers."""
import math
import os
import re
import subprocess

import numpy as np
import pytest
from dmft.statistics import student
from running import SMALL, call, data_file, done, in_a_folder, read, refused, same, write


@pytest.fixture(autouse=True)
def small(in_a_folder):
    write(small_ini=SMALL)


def printed(*words):
    """What a call prints that says nothing else."""
    result = call(*words)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def test_help():
    text = printed("--help")
    for word in ("usage: dmft-solve", "Exit codes: 0 done", "network.model ", "data.file ",
                 "training.eta0 ", "solver.sites ", "reference.widths ", "output.kernels "):
        assert word in text
    assert printed("-h", "none.ini") == text
    assert re.fullmatch(r"dmft-solve \d[^\n]*\n", printed("--version"))


def test_second_start(monkeypatch):
    """A program starts a second time where variables of libraries are not set, as they are in
    tests: the run that it then makes has the words, the output and the bits of one that need
    not."""
    for name, value in (("GOMP_SPINCOUNT", "10000"), ("OPENBLAS_NUM_THREADS", "1")):
        monkeypatch.setenv(name, value)
    printed("--quiet", "-o", "once.h5", "small.ini", "--training.steps=5")
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    printed("--quiet", "-o", "twice.h5", "small.ini", "--training.steps=5")
    assert len(read("twice.h5", "limit/loss")) == 5 and same("once.h5", "twice.h5", "limit/loss")


@pytest.mark.parametrize("method", [("--solver.method=march",), (
    "--solver.method=fixed_point", "--solver.fp_tolerance=0.1")])
def test_memory_is_filled(monkeypatch, method):
    """Numbers do not depend on what the memory holds that a run is given, or has given back: the
    library of C fills both with bytes that are no pointers."""
    words = ("small.ini", "--reference.widths=16", "--reference.seeds=2",
             "--reference.coordinate_check=yes", "--output.experts=yes", "--output.tangent=blocks",
             "--data.test_inputs=2", *method)
    done(*words, "-o", "once.h5")
    monkeypatch.setenv("MALLOC_PERTURB_", "165")
    done(*words, "-o", "filled.h5")
    assert same("once.h5", "filled.h5", "limit/loss", "limit/rms_f", "limit/tangent",
                "reference/N0016/rms_f", "reference/N0016/test_loss")


def test_blas_has_vectors(monkeypatch):
    """An OpenBLAS that is older than the processor takes code without AVX; it says which at its
    start, where it is asked."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = file.read().split()
    if "avx2" not in flags or "fma" not in flags:
        pytest.skip("a processor without AVX2")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    monkeypatch.setenv("OPENBLAS_VERBOSE", "2")
    cores = re.findall(r"Core: (\w+)", call("small.ini", "-o", "out.h5").stderr)
    assert cores and cores[-1] not in ("Prescott", "Barcelona")


def rounding(x):
    """Half a unit of the last of three digits."""
    return 0.5 * 10 ** (math.floor(math.log10(x)) - 2) if x > 0 else 0


@pytest.mark.parametrize("large", [("--solver.sites=20000", "--solver.expert_sites=20000"),
                                   ("--reference.widths=1000",), ("--training.steps=20000",)])
def test_memory(large):
    """What is told of memory fits together, whatever is the largest part: a run needs its results,
    and its limit or its networks; states are of both. Two threads, and two runs of each."""
    result = call("small.ini", "-o", "out.h5", "--reference.widths=64", "--reference.seeds=2",
                  "--solver.threads=2", "--output.checkpoint=1", "--solver.max_memory=0.001",
                  *large)
    assert result.returncode == 2
    disk, limit, networks, results, need = map(float, re.search(
        r"states: at most about (\S+) GB on disk(?s:.*)memory: about (\S+) GB for the limit, "
        r"(\S+) GB for networks, (\S+) GB of results, beside \S+ GB of the program and its data\n"
        r".*: the run would need about (\S+) GB", result.stderr).groups())
    room = rounding(limit) + rounding(networks) + rounding(results)
    assert abs(max(limit, networks) + results - need) <= 1.001 * (room + rounding(need))
    assert abs(limit + networks + results - disk) <= 1.001 * (room + rounding(disk))


@pytest.mark.parametrize("words, kernels", [
    (("--solver.replicates=1",), 2 * (1 + 4) + 2),
    (("--solver.replicates=3",), 2 * (3 + 4) + 2),
    (("--solver.replicates=3", "--output.runs=yes"), 2 * (3 + 4 + 2 * 3) + 2),
    (("--solver.replicates=3", "--solver.halves=yes"), 3 * (2 * (3 + 4) + 2))])
def test_memory_of_results(words, kernels):
    """Results of two tangent kernels [T][P][P], beside which all others are small (two per cent):
    every run of both, their means and errors twice in the file that is written, and once those of
    one kernel, as they are computed. Kept run by run, runs are twice in the file, too; in halves
    all is there three times. kernels: as many numbers as that many kernels have."""
    T, P = 1000, 100
    result = call("small.ini", "-o", "out.h5", "--network.model=dense", f"--data.inputs={P}",
                  f"--training.steps={T}", "--reference.widths=", "--output.kernels=none",
                  "--output.tangent=sum", "--solver.max_memory=0.1", *words)
    want = 8e-9 * T * P * P * kernels
    assert result.returncode == 2
    results = float(re.search(r"networks, (\S+) GB of results", result.stderr)[1])
    assert want - rounding(want) < results < 1.02 * want


@pytest.mark.parametrize("word", ["--help", "--version", "--defaults"])
def test_full_disk(word):
    """What cannot be printed is a failure."""
    with open("/dev/full", "w") as full:
        result = subprocess.run([os.path.join(os.environ["DMFT_HOME"], "dmft-solve"), word],
                                stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
    assert result.returncode == 1
    assert result.stderr.startswith("dmft-solve: cannot write to standard output")
    assert result.stderr.count("\n") == 1


def test_defaults():
    """They are an ini that runs once it has a network; its result lies here, without -o."""
    text = printed("--defaults")
    assert "# model =\n" in text
    write(defaults_ini=text.replace("# model =\n", "model = regime2\n"))
    done("defaults.ini", "--solver.sites=64", "--solver.expert_sites=64", "--solver.replicates=2",
         "--training.steps=3")
    assert read("defaults.h5", "/@complete") == 1


TWICE = "given more than once on the command line, where the last value counts: "


def test_overrides():
    words = ("--force", "-o", "out.h5", "small.ini", "--training.steps=9")
    done(*words, "--training.steps=5")
    assert len(read("out.h5", "limit/loss")) == read("out.h5", "parameters@training.steps") == 5
    result = call(*words, "training . steps=5")
    assert f"note: {TWICE}training . steps=5\n" in result.stderr
    assert any(f"{TWICE}training . steps=5" in note.decode()
               for note in read("out.h5", "notes/text"))
    assert "given more than once" not in call(*words, "--training.eta0=1").stderr


def test_file_or_override():
    """A file whose name has an equals sign is a file, and an override where there is none of that
    name."""
    os.rename("small.ini", "data.inputs=3.ini")
    done("--program", "data.inputs=3.ini")
    os.rename("data.inputs=3.ini", "small.ini")
    refused(["3.ini"], "--program", "small.ini", "data.inputs=3.ini")


@pytest.mark.parametrize("more", [(), ("--data.file=good.h5",)])
def test_data_paths(more):
    """A path in the ini counts from the ini's folder, on the command line from here."""
    data_file("good.h5", y1=-1)
    write(folder__run_ini="[network]\nmodel = regime2\n[data]\nsource = file\n"
                          "file = ../good.h5\n[training]\nsteps = 2\n[solver]\nsites = 64\n"
                          "expert_sites = 64\nreplicates = 2\n")
    done("folder/run.ini", "-o", "out.h5", *more)
    assert read("out.h5", "data/X").tobytes() == read("good.h5", "X").tobytes()


def test_table():
    """The table that is printed against the file: means, and t_2(.975) standard errors of three
    runs; their line a + b/N, widths weighted by N, with t of Welch's degrees of freedom; chi^2 and
    z as dmft-compare has them."""
    words = ("small.ini", "--solver.replicates=3", "--reference.widths=8 16 32",
             "--reference.seeds=3", "--training.steps=3")
    result = call("-o", "out.h5", *words)
    assert result.returncode == 0
    assert "3 replicates (bottom 64, experts 64, units 128): with 192 " in result.stderr
    assert "give three widths" not in result.stdout
    assert "with 1 degree of freedom: it is above 3.8 for\none good fit" in result.stdout
    done("-o", "fit.h5", *words, name="dmft-compare")
    chi2, z = (read("fit.h5", f"mssp/compare/loss_{name}") for name in ("chi2", "z"))
    groups = ["limit", "reference/N0008", "reference/N0016", "reference/N0032"]
    mean, se = (np.array([read("out.h5", f"{group}/loss{end}") for group in groups])
                for end in ("", "_se"))
    N = np.array([8, 16, 32])
    columns = np.stack([np.ones(3), 1 / N])
    share = np.linalg.solve(columns * N @ columns.T, columns * N)[0]  # of each mean in a
    lines = result.stdout.split("      z\n")[1].splitlines()
    for t in range(3):
        cells = [(one[t], student(2) * error[t]) for one, error in zip(mean, se)]
        if t:
            parts = (share * se[1:, t]) ** 2
            freedom = parts.sum() ** 2 / (parts ** 2 / 2).sum()
            cells.append((share @ mean[1:, t], student(freedom) * parts.sum() ** 0.5))
        want = f"{t:4}" + "".join(f"  {f'{one:.5g} +- {half:.1g}':>18}" for one, half in cells)
        assert lines[t] == want + f" {chi2[t]:6.1f} {z[t]:6.1f}" if t else lines[t].startswith(want)
