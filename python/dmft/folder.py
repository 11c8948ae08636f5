"""The runs of a sweep, put together: of one that is not complete, as dmft-sweep would."""
from __future__ import annotations

import os

import h5py
import numpy as np
import xarray

from dmft import guard
from dmft.errors import InputError
from dmft.files import Result, load, unit_path
from dmft.on_disk import read_series


COUNTS = ("parameters", "active_parameters", "flops_per_token", "flops_per_step")


def _group(file: h5py.File):
    """The limit or the networks of a unit, or None where nothing was written."""
    if "limit" in file:
        return guard.own(file.filename, file, "limit")
    networks = guard.own(file.filename, file, "reference") if "reference" in file else {}
    return next((guard.own(file.filename, networks, name) for name in networks), None)


def _numbers(path: str, failed: bool) -> dict:
    """What /sweep has of a unit; of networks some of which failed, of the others."""
    with guard.one_sentence(path), h5py.File(path, "r") as file:
        group = _group(file)
        for name in group or ():
            guard.own(path, group, name)
        if group is None or "loss" not in group or (failed and "limit" in file):
            return {"failed": 1.0, "n": 0.0}
        # of a limit, what its mean and error are made from (docs/output.md)
        kind = "pseudo" if "loss_pseudo" in group else "runs"
        ended = np.isfinite(group["loss_" + kind][:, -1])
        numbers = {"n": float(ended.sum()), "failed": float((~ended).sum())}
        numbers |= {name: float(group.attrs[name]) for name in COUNTS if name in group.attrs}
        for name in ("loss", "test_loss"):
            if name not in group or not ended.any():
                continue
            known = np.flatnonzero(np.isfinite(group[name][...]))
            if f"{name}_{kind}" not in group or not len(known):
                continue
            each = group[f"{name}_{kind}"][...][ended]
            numbers |= {name: each[:, known[-1]].mean() if failed else group[name][known[-1]],
                        name + "_se": group[name + "_se"][known[-1]],
                        name + "_median": np.median(each[:, known[-1]])}
            if name == "loss":
                numbers["loss_min"] = each.mean(axis=0).min() if failed else group[name][...].min()
        return numbers


def unfinished(folder: str) -> dict[str, xarray.Dataset]:
    """{"/": attributes, "sweep": Dataset} like those of a summary, of what is done; n and failed
    are NaN where nothing is."""
    if not os.path.exists(os.path.join(folder, "grid")):
        found = sorted(one for one in os.listdir(folder) if one.endswith(".h5"))
        raise InputError(f"{folder}: is a folder, and holds no sweep, which has a file grid; " + (
            f"load a result in it, as {found[0]}" if found else "it has no result (OUT.h5)"))
    sweep = load(os.path.join(folder, "grid")).sweep.load()
    dims = [dim for dim in sweep.attrs["dims"].split()]
    shape = tuple(sweep.sizes[dim] for dim in dims)
    units = []
    for name in sweep["file"].values:
        path, failed = unit_path(folder, str(name)), False
        if path.endswith(".partial"):
            failed = os.path.exists(os.path.join(folder, str(name).removesuffix(".h5") + ".failed"))
            units.append(({"failed": 1.0, "n": 0.0} | (
                _numbers(path, True) if os.path.exists(path) else {})) if failed else {})
        else:
            units.append(_numbers(path, False))
    if not any(units):
        raise InputError(f"{folder}: holds no run of a sweep that is done")
    names = ["loss", "loss_se", "loss_median", "loss_min", "n", "failed"]
    names += [name for name in ("test_loss", "test_loss_se", *COUNTS)
              if any(name in unit for unit in units)]
    arrays = {name: (tuple(dims), np.array([unit.get(name, np.nan) for unit in units],
                                           dtype=float).reshape(shape)) for name in names}
    return {"/": xarray.Dataset(attrs={"program": "dmft-sweep", "complete": 0}),
            "sweep": sweep.assign(arrays)}


def _scale(parts: list[xarray.Dataset], dim: str) -> np.ndarray:
    """What all of these have along an axis with a coordinate, each place once."""
    first, *others = [data[dim].values for data in parts]
    if all(np.array_equal(first, other) for other in others):
        return first
    if first.dtype.kind in "fiu":
        return np.unique(np.concatenate([first, *others]))
    return np.array(list(dict.fromkeys(np.concatenate([first, *others]).tolist())), dtype=object)


def _places(own: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Where the entries of a run stand along an axis of all."""
    at = {value: k for k, value in enumerate(scale.tolist())}
    return np.array([at[value] for value in own.tolist()], dtype=int)


def _together(name: str, parts: dict, shape: tuple) -> tuple[tuple, np.ndarray, dict]:
    """(axes, values, {axis: its coordinate}) of a series of all runs of a sweep, each at its place
    along its own axes: runs may have other times, say, or fewer. Where some have no coordinate,
    places are counted."""
    mine = {index: data for index, data in parts.items() if name in data}
    dims, *others = dict.fromkeys(data[name].dims for data in mine.values())
    if others:
        raise InputError(f"{name} has the axes {' '.join(dims)} in some runs of the sweep and "
                         f"{' '.join(others[0])} in others; `points` has each by itself")
    along = {dim: [data for data in parts.values() if dim in data.dims] for dim in dims}
    scales = {dim: _scale(some, dim) for dim, some in along.items()
              if all(dim in data.coords for data in some)}
    sizes = [len(scales[dim]) if dim in scales else max(data.sizes[dim] for data in some)
             for dim, some in along.items()]
    array = np.full((*shape, *sizes), np.nan)
    for index, data in mine.items():
        places = [_places(data[dim].values, scales[dim]) if dim in scales else
                  np.arange(data.sizes[dim]) for dim in dims]
        array[index][np.ix_(*places)] = data[name].values
    return dims, array, {dim: (dim, scale, along[dim][0][dim].attrs)
                         for dim, scale in scales.items()}


def series_of(run: Result, name: str) -> xarray.Dataset:
    """For Result.series."""
    sweep = run.sweep
    grid = sweep["loss"]
    parts, until = {}, np.full(grid.shape, np.nan)
    for index, path in np.ndenumerate(run.units().values):
        if not sweep["n"].values[index] > 0:
            continue
        run.check_run(path)
        with guard.one_sentence(path), h5py.File(path, "r") as file:
            group = _group(file)
            until[index] = group.attrs.get("valid_until", np.inf)
            wanted = [one for one in (name, name + "_se", name + "_runs", name + "_pseudo",
                                       name + "_tolerance") if one in group]
            if name in wanted:
                parts[index] = read_series(path, group, wanted).load()
    if not parts:
        raise InputError(f"{run.path}: no run of the sweep has a series {name}")
    found = {}
    coords = {key: value for key, value in sweep.coords.items()
              if set(value.dims) <= set(grid.dims)}
    for one in dict.fromkeys(key for data in parts.values() for key in data.data_vars):
        dims, array, scales = _together(one, parts, grid.shape)
        found[one] = (grid.dims + dims, array)
        coords |= scales
    coords |= {name: sweep[name] for name in COUNTS if name in sweep}
    return xarray.Dataset(found, coords | {"valid_until": (grid.dims, until)})
