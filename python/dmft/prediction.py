"""Result.predict: outputs of a run that is done at inputs that come later."""
from __future__ import annotations

import glob
import os

import h5py
import numpy as np

from dmft import program
from dmft.errors import InputError
from dmft.files import Result, load
from dmft.run import Folder, split


def _has_states(path: str) -> bool:
    return bool(glob.glob(glob.escape(path) + ".state/*.state"))


def _without_time(result: Result) -> Result:
    """The only time of such a file is that of the states."""
    groups = {name: data.isel(t=0, drop=True) if "t" in data.dims else data
              for name, data in result.items()}
    return Result(result.path, groups, result._owner)


def predict(run: Result, X, tokens) -> Result:
    """For Result.predict."""
    if (X is None) == (tokens is None):
        raise InputError("predict: give X or, where inputs are tokens, tokens")
    given = {"X": X} if tokens is None else {"tokens": tokens}
    arrays = split(given)[1]
    if not _has_states(run.path):
        raise InputError(f"{run.path}: has kept no states, which the outputs at other inputs are "
                         "computed from; run it with **{\"output.checkpoint\": minutes}")
    folder = Folder()
    data, out = (os.path.join(folder.path, name) for name in ("inputs.h5", "predicted.h5"))
    inputs = next(iter(arrays.values()))
    with h5py.File(data, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        file["y"] = np.zeros(len(inputs), dtype=np.int8)  # not looked at
    program.call("dmft-solve", ["--quiet", "--predict", data, "-o", out, run.path], False)
    return _without_time(load(out, folder))
