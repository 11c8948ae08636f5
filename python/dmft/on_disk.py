"""Groups of a file as datasets, whose large arrays are read from it when they are used."""
from __future__ import annotations

import os
from collections.abc import Mapping

import h5py
import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from dmft import guard
from dmft.errors import InputError
from dmft.guard import Room

HIDDEN = ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST")  # of HDF5's dimension scales


def seen(path: str) -> tuple[int, int]:
    """What tells a file from another one in its place."""
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns


class OnDisk(BackendArray):
    """A dataset that is read when it is used; the file is open only then, and must be what it was.
    `owner` is kept alive: of a file in a temporary folder, that folder."""

    def __init__(self, path: str, name: str, shape, dtype, owner):
        self.path, self.name, self.owner = os.path.abspath(path), name, owner
        self.shape, self.dtype, self.seen = shape, dtype, seen(path)

    def __getitem__(self, key):
        if any(isinstance(one, np.ndarray) and not one.size for one in key.tuple):
            nothing = np.broadcast_to(np.zeros((), self.dtype), self.shape)
            return indexing.NumpyIndexingAdapter(nothing)[key]  # xarray looks for its least index
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC,
                                                  self._read)

    def _read(self, key):
        if seen(self.path) != self.seen:
            raise InputError(f"{self.path}: has been replaced since it was loaded; load it again")
        with h5py.File(self.path, "r") as file:
            return file[self.name][key]


def _variable(path: str, item: h5py.Dataset, owner, room: Room) -> xarray.Variable:
    attributes = guard.attributes(path, item, HIDDEN)
    dims = attributes.pop("dims", "").split()
    if len(dims) != item.ndim:
        dims = [f"axis_{k}" for k in range(item.ndim)]
    if not room.takes(item, path):
        array = OnDisk(path, item.name, item.shape, item.dtype, owner)
        values = indexing.MemoryCachedArray(indexing.LazilyIndexedArray(array))
    else:
        values = (item.asstr() if h5py.check_string_dtype(item.dtype) else item)[...]
    return xarray.Variable(dims, values, attributes)


def read_series(path: str, group: h5py.Group, names: list[str]) -> xarray.Dataset:
    """The datasets of a group that have these names, with their axes."""
    found = {name: guard.own(path, group, name) for name in names}
    dims = " ".join(str(item.attrs.get("dims", "")) for item in found.values()).split()
    axes = [axis + end for axis in dict.fromkeys(dims) for end in ("", "_name")]
    return read_group(path, group, {axis: guard.own(path, group, axis)
                                    for axis in axes if axis in group} | found)


def read_group(path: str, group: h5py.Group, items: Mapping[str, h5py.Dataset],
               owner=None, room: Room | None = None) -> xarray.Dataset:
    """These datasets of a group. Coordinates: indices of its axes and the values of swept keys,
    names along an axis (basis_name), the times tau = t dt, and the width N of networks."""
    room = room or Room()
    variables = {name: _variable(path, item, owner, room) for name, item in items.items()}
    attributes = guard.attributes(path, group, HIDDEN)
    names = str(attributes.get("coordinates", "")).split()
    coords = {name: variable for name, variable in variables.items() if name in names
              or variable.dims == (name,) or variable.dims == (name.removesuffix("_name"),)}
    if "dt" in attributes and "t" in coords:
        coords["tau"] = xarray.Variable("t", coords["t"].values * attributes["dt"], {
            "about": "time of entry t, tau = t dt"})
    if "N" in attributes and "N" not in variables:
        coords["N"] = xarray.Variable((), int(attributes["N"]))
    return xarray.Dataset({name: variable for name, variable in variables.items()
                           if name not in coords}, coords, attributes)
