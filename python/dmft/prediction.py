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


def _is_of_solve(path: str) -> bool:
    """Whether dmft-solve wrote the result. Of the other programs it reads no states."""
    if os.path.isdir(path):
        return False
    with h5py.File(path) as file:
        return np.bytes_(file.attrs["program"]) == b"dmft-solve"


def _without_time(result: Result) -> Result:
    """The only time of such a file is that of the states."""
    groups = {name: data.isel(t=0, drop=True) if "t" in data.dims else data
              for name, data in result.items()}
    return Result(result.path, groups, result._owner)


def _widths_with_weights(run: Result) -> list[int]:
    return [N for N, data in run.reference.items()
            if any(str(name).startswith("weights_") for name in data)]


def _from_weights(run: Result, widths: list[int], X, tokens) -> Result:
    """Of networks alone, by dmft.torch."""
    from dmft.torch import Network as Module  # says how to install PyTorch where it is not there
    import torch
    import xarray
    X, tokens = (None if one is None else torch.as_tensor(np.asarray(one)) for one in (X, tokens))
    X = X if X is None else X.double()
    last, groups = run.parameters["training.steps"] - 1, {"/": run["/"]}
    for N in widths:
        found = []
        for seed in range(run.reference[N].sizes["run"]):
            net = Module(run, N, weights=run, seed=seed)
            if net.has_selection_biases or run.parameters["training.weight_decay"]:
                what = "selection biases" if net.has_selection_biases else "weight decay"
                raise InputError(f"{run.path}: networks with {what} are predicted from states alone"
                                 ", **{\"output.checkpoint\": minutes}")
            net.load(run, seed, last)
            with torch.no_grad():
                found.append(net(X, tokens).numpy())
        f, dims = np.array(found), run.reference[N]["f"].dims[1:]
        kept = f[np.isfinite(f.reshape(len(f), -1)).all(1)]  # others failed, and have no weights
        nothing = np.full(f.shape[1:], np.nan)
        error = kept.std(0, ddof=1) / np.sqrt(len(kept)) if len(kept) > 1 else nothing
        groups[f"reference/N{N:04d}"] = xarray.Dataset(
            {"f": (dims, kept.mean(0) if len(kept) else nothing), "f_se": (dims, error),
             "f_runs": (("run", *dims), f)},
            attrs={"N": N})
    found = Result(run.path, groups, run._owner)
    found.without_limit = ("; it is predicted from states alone, **{\"output.checkpoint\": minutes}"
                           ", and networks from their weights, too")
    return found


def predict(run: Result, X, tokens) -> Result:
    """For Result.predict."""
    if (X is None) == (tokens is None):
        raise InputError("predict: give X or, where inputs are tokens, tokens")
    given = {"X": X} if tokens is None else {"tokens": tokens}
    arrays = split(given)[1]
    widths, of_solve = _widths_with_weights(run), _is_of_solve(run.path)
    if widths and not (of_solve and _has_states(run.path)):
        return _from_weights(run, widths, X, tokens)
    if not of_solve:
        raise InputError(f"{run.path}: is of a comparison or a sweep, whose states are for going "
                         "on alone: predict from networks' weights, **{\"output.weights\": "
                         "\"both\"} (of a sweep, those of a point), or make this run by dmft.solve")
    if not _has_states(run.path):
        raise InputError(f"{run.path}: has kept neither states, **{{\"output.checkpoint\": "
                         "minutes}, nor weights, from which networks alone are computed, "
                         "**{\"output.weights\": \"both\"}")
    folder = Folder()
    data, out = (os.path.join(folder.path, name) for name in ("inputs.h5", "predicted.h5"))
    inputs = next(iter(arrays.values()))
    with h5py.File(data, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        file["y"] = np.zeros(len(inputs), dtype=np.int8)  # not looked at
    program.call("dmft-solve", ["--quiet", "--predict", data, "-o", out, run.path], False)
    return _without_time(load(out, folder))
