"""Small files of what the pictures of the studies are drawn from, so that pictures and sentences
are made again in seconds: studies/kept/NAME.tar.xz has the sweeps of one picture, NAME.h5 and
NAME.d, with the numbers alone that its drawing reads.

    with Reading() as reading:
        ...                                 # draw, from files of a folder
    keep(reading, folder, path)
    with unpacked(path) as folder:
        ...                                 # draw it again
"""
from __future__ import annotations

import contextlib
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator

import h5py
import numpy as np

from dmft import guard, on_disk


class Reading(contextlib.AbstractContextManager):
    """Within it files are loaded without their arrays, and what is read of each is noted.
    there, read: {path of a file: names of its datasets, {name: the parts that somebody has
    read}}."""

    def __enter__(self) -> Reading:
        self.there: dict[str, set[str]] = {}
        self.read: dict[str, dict[str, list[tuple]]] = {}
        reading, disk = self, on_disk.OnDisk

        class Noted(disk):
            def __init__(self, path, name, *more):
                super().__init__(path, name, *more)
                reading.there.setdefault(self.path, set()).add(name)

            def _read(self, key):
                reading.read.setdefault(self.path, {}).setdefault(self.name, []).append(key)
                return super()._read(key)

        self._before = guard.SMALL, disk
        guard.SMALL, on_disk.OnDisk = 0, Noted
        return self

    def __exit__(self, *error) -> None:
        guard.SMALL, on_disk.OnDisk = self._before


def _attributes(source, to, path: str) -> None:
    """path: of a data file, of which the name stays."""
    for key, value in source.attrs.items():
        if isinstance(value, str) and path:
            value = value.replace(path, os.path.basename(path))
        if key not in on_disk.HIDDEN:
            to.attrs[key] = value


def _copy(source: h5py.Group, to: h5py.Group, read: dict[str, list[tuple]],
          path: str) -> None:
    """What is left out of a dataset keeps its place, since drawings ask for names and shapes, and
    is NaN. read: {name: the parts to copy}; what has no entry is copied whole. The description of
    the network goes, and links between datasets and their axes."""
    _attributes(source, to, path)
    for key, item in source.items():
        if isinstance(item, h5py.Group):
            _copy(item, to.create_group(key), read, path)
            continue
        if item.name == "/description":
            continue
        real = item.dtype.kind == "f"
        parts = read.get(item.name)
        if parts is None or parts and not real:
            made = to.create_dataset(key, data=item[...], dtype=item.dtype)
        elif parts:
            data = np.full(item.shape, np.nan, item.dtype)
            for part in parts:
                data[part] = item[part]
            made = to.create_dataset(key, data=data)
        else:
            empty = {"fillvalue": float("nan")} if real else {}
            made = to.create_dataset(key, item.shape, item.dtype, chunks=True, **empty)
        _attributes(item, made, path)


def _small(name: str, read: dict[str, list[tuple]]) -> bytes:
    memory = io.BytesIO()
    with h5py.File(name, "r") as source, h5py.File(memory, "w", libver="latest") as small:
        path = re.search(r"(?m)^file = (.+)$", source["parameters"].attrs["ini"])
        _copy(source, small, read, path[1] if path else "")
    return memory.getvalue()


def keep(reading: Reading, folder: str, path: str) -> None:
    """Writes what was read from files of this folder."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, there in sorted(reading.there.items()):
            member = tarfile.TarInfo(os.path.relpath(name, os.path.abspath(folder)))
            read = reading.read.get(name, {})
            data = _small(name, {one: read.get(one, []) for one in there})
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


@contextlib.contextmanager
def unpacked(path: str) -> Iterator[str]:
    """A folder with the files of an archive, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
        archive.extractall(folder)
        yield folder
