"""The programs as a user calls them, in a folder of its own: what they print and write."""
import os
import pathlib
import subprocess

import h5py
import numpy as np
import pytest

SMALL = "[network]\nmodel = regime2\n[data]\ninputs = 3\ndimension = 4\n[training]\nsteps = 4\n" \
    "[solver]\nsites = 64\nexpert_sites = 64\nreplicates = 2\nthreads = 1\n"
LOG = ("memory: ", "warning: ", "batches: ", "what was computed is in ", "it goes on with: ",
       "limit  replicate ")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(**files):
    """Texts of files: a__b_ini is a/b.ini."""
    for name, text in files.items():
        path = pathlib.Path(".".join(name.replace("__", "/").rsplit("_", 1)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def call(*words, name="dmft-solve"):
    return subprocess.run([os.path.join(os.environ["DMFT_HOME"], name), *words],
                          capture_output=True, text=True, timeout=300)


def done(*words, name="dmft-solve"):
    """A call that succeeds: what it printed."""
    result = call(*words, name=name)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(parts, *words, code=2, name="dmft-solve"):
    """One line "dmft-solve: ..." with all parts, none but log before it and usage behind it, and
    nothing on standard output. Returns what it said."""
    result = call(*words, name=name)
    lines = result.stderr.splitlines()
    at = [k for k, line in enumerate(lines) if line.startswith(name + ": ")]
    assert (result.returncode, result.stdout, len(at)) == (code, "", 1), result.stderr
    assert all(line.startswith(LOG) for line in lines[:at[0]]), result.stderr
    assert all(line.startswith(("usage: ", "       ")) or not line for line in lines[at[0] + 1:])
    for part in parts:
        assert part in lines[at[0]]
    return result.stderr


def read(path, name):
    """A dataset, or the attribute behind @."""
    name, _, attribute = name.partition("@")
    with h5py.File(path) as file:
        return file[name].attrs[attribute] if attribute else file[name][...]


def same(first, second, *names):
    """These datasets have the same bits."""
    return all(read(first, name).tobytes() == read(second, name).tobytes() for name in names)


def data_file(path, rows=3, **more):
    """X [rows][4] and y; `more` changes single numbers of them, as X2 = 3."""
    X = np.array([1, 2, 3, -1, 0.5, 3, 2, -2, 1, 1, 0, 1.0])[:4 * rows].reshape(rows, 4)
    y = np.array([1, -1, -1.0])[:rows]
    for name, value in more.items():
        {"X": X, "y": y}[name[0]].flat[int(name[1:])] = value
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, y
