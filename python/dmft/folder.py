"""The runs of a sweep that is not complete, put together as dmft-sweep would."""
from __future__ import annotations

import glob
import os

import h5py
import numpy as np
import xarray

from dmft.errors import InputError

# What differs between the runs of one point, and what no result depends on.
OWN = ("ini", "reference.widths", "solver.replicates", "solver.threads")


def _unit(path: str, failed: bool) -> dict:
    """Its keys, width and final loss."""
    with h5py.File(path, "r") as file:
        keys = {name: value for name, value in file["parameters"].attrs.items() if name not in OWN}
        groups = [file["limit"]] if "limit" in file else list(file.get("reference", {}).values())
        unit = {"file": os.path.basename(path), "failed": float(failed), "N": np.inf,
                "keys": {name: value.item() if isinstance(value, np.generic) else str(value)
                         for name, value in keys.items()}}
        widths = file["parameters"].attrs["reference.widths"]
        if len(widths) and not file["parameters"].attrs["solver.replicates"]:
            unit["N"] = float(widths[0])
        if groups and not failed:
            loss = groups[0]["loss"][...]
            # of a limit, what its mean and error are made from (docs/output.md)
            each = groups[0]["loss_pseudo" if "loss_pseudo" in groups[0] else "loss_runs"]
            unit |= {"loss": loss[-1], "loss_se": groups[0]["loss_se"][-1],
                     "loss_median": np.median(each[:, -1]),
                     "loss_min": loss.min(), "n": float(groups[0]["n"][-1])}
    return unit


def unfinished(folder: str) -> dict[str, xarray.Dataset]:
    """{"/": attributes, "sweep": Dataset} like those of a summary: axes are the keys in which the
    runs differ (keys that vary together are axes of their own), NaN where none is done."""
    done = sorted(glob.glob(os.path.join(glob.escape(folder), "*.h5")))
    diverged = [path.removesuffix(".failed") + ".h5.partial"
                for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.failed")))]
    units = [_unit(path, path.endswith(".partial")) for path in done + diverged
             if os.path.exists(path)]
    if not units:
        raise InputError(f"{folder}: holds no run of a sweep that is done")
    values = {key: sorted({unit["keys"].get(key) for unit in units}, key=lambda value: (
        isinstance(value, str), value)) for key in units[0]["keys"]}
    axes = {key: some for key, some in values.items() if len(some) > 1}
    axes["N"] = sorted({unit["N"] for unit in units})
    shape = tuple(len(some) for some in axes.values())
    arrays = {name: np.full(shape, np.nan) for name in ("loss", "loss_se", "loss_median",
                                                         "loss_min", "n", "failed")}
    files = np.full(shape, "", dtype=object)
    for unit in units:
        place = tuple(some.index(unit["N"] if key == "N" else unit["keys"].get(key))
                      for key, some in axes.items())
        files[place] = unit["file"]
        for name, array in arrays.items():
            array[place] = unit.get(name, np.nan)
    variables = {name: (tuple(axes), array) for name, array in arrays.items()}
    variables["file"] = ("file", files.ravel())
    sweep = xarray.Dataset(variables, {key: (key, some) for key, some in axes.items()})
    return {"/": xarray.Dataset(attrs={"program": "dmft-sweep", "complete": 0}), "sweep": sweep}
