"""What tests of dmft-sweep share: its inis, the command as a user calls it, in a folder of its own,
and what its files hold."""
import os
import pathlib

import dmft
import h5py
import pytest
from dmft.study import command

SIZES = "[solver]\nsites = 64\nreplicates = 2\nthreads = 1\n"
DATA = "[data]\ninputs = 3\ndimension = 4\n"
DENSE = f"[network]\nmodel = dense\n{DATA}[training]\nsteps = 2\n{SIZES}"
HEAD = f"[network]\nmodel = regime2\nkappa = 0.5\n{DATA}[training]\nsteps = 6\n{SIZES}" \
    "expert_sites = 64\n[reference]\nwidths = 8 16\nseeds = 3\n[sweep]\n"  # 17 lines
SHORT = HEAD.replace("steps = 6", "steps = 4").replace("8 16\nseeds = 3", "8\nseeds = 2")
RATES = "training.eta0 = 0.2 0.4 0.8\n"
SUMMARY = [f"sweep/{name}" for name in ("loss", "loss_se", "loss_min", "n", "failed", "N",
                                        "objective", "training.eta0")] + \
    [f"optimum/{name}" for name in ("at", "at_samples", "least", "reason")]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*words):
    """What dmft-sweep prints, and what it says."""
    out, said = [], []
    command.run([word for word in words if word], out.append, said.append)
    return "\n".join([*out, ""]), "\n".join([*said, ""])


def sweep(text, *more, into="out"):
    pathlib.Path("sweep.ini").write_text(text)
    return call("--jobs", "2", "-o", f"{into}.h5", "sweep.ini", *more)


def refused(sentence, *words, kind=dmft.InputError):
    with pytest.raises(kind, match=sentence) as error:
        call(*words)
    assert "\n" not in error.value.sentence.partition("\nusage")[0]


def of(name, path="out.h5"):
    """A dataset, or the attribute behind @."""
    name, _, attribute = name.partition("@")
    with h5py.File(path) as file:
        if attribute:
            return file[name].attrs.get(attribute)
        data = file[name]
        return data.asstr()[...] if h5py.check_string_dtype(data.dtype) else data[...]


def axes(name):
    return of(name + "@dims"), of(name).shape


def units(end=".h5"):
    return sorted(f"out.d/{name}" for name in os.listdir("out.d") if name.endswith(end)) \
        if os.path.isdir("out.d") else []


def written(paths):
    """When, and as which file: as long as this is the same nobody wrote it anew."""
    return [(path, os.stat(path).st_ino, os.stat(path).st_mtime_ns) for path in paths]


def check_same_summary(first, second):
    for name in SUMMARY:
        assert of(name, first).tobytes() == of(name, second).tobytes(), name
