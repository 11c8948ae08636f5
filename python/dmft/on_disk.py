"""Arrays that are read from their file when they are used."""
from __future__ import annotations

import os

import h5py
import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from dmft.errors import InputError


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
