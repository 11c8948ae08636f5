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

from dmft import files


class Reading(contextlib.AbstractContextManager):
    """Within it files are loaded without their arrays, and each array that is read is noted.
    there, read: {path of a file: names of its datasets, of those that somebody has read}."""

    def __enter__(self) -> Reading:
        self.there: dict[str, set[str]] = {}
        self.read: dict[str, set[str]] = {}
        reading, disk = self, files.OnDisk

        class Noted(disk):
            def __init__(self, path, name, *more):
                super().__init__(path, name, *more)
                reading.there.setdefault(self.path, set()).add(name)

            def _read(self, key):
                reading.read.setdefault(self.path, set()).add(self.name)
                return super()._read(key)

        self._before = files.SMALL, disk
        files.SMALL, files.OnDisk = 0, Noted
        return self

    def __exit__(self, *error) -> None:
        files.SMALL, files.OnDisk = self._before


def _attributes(source, to, path: str) -> None:
    """path: of a data file, of which the name stays."""
    for key, value in source.attrs.items():
        if isinstance(value, str) and path:
            value = value.replace(path, os.path.basename(path))
        if key not in files.HIDDEN:
            to.attrs[key] = value


def _copy(source: h5py.Group, to: h5py.Group, left: set[str], path: str) -> None:
    """Datasets that are left out keep their names and shapes, which drawings ask for, and are NaN.
    The description of the network goes, and links between datasets and their axes."""
    _attributes(source, to, path)
    for key, item in source.items():
        if isinstance(item, h5py.Group):
            _copy(item, to.create_group(key), left, path)
            continue
        if item.name == "/description":
            continue
        if item.name in left:
            empty = {"fillvalue": float("nan")} if item.dtype.kind == "f" else {}
            made = to.create_dataset(key, item.shape, item.dtype, chunks=True, **empty)
        else:
            made = to.create_dataset(key, data=item[...], dtype=item.dtype)
        _attributes(item, made, path)


def _small(name: str, left: set[str]) -> bytes:
    memory = io.BytesIO()
    with h5py.File(name, "r") as source, h5py.File(memory, "w", libver="latest") as small:
        path = re.search(r"(?m)^file = (.+)$", source["parameters"].attrs["ini"])
        _copy(source, small, left, path[1] if path else "")
    return memory.getvalue()


def keep(reading: Reading, folder: str, path: str) -> None:
    """Writes what was read from files of this folder."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, there in sorted(reading.there.items()):
            member = tarfile.TarInfo(os.path.relpath(name, os.path.abspath(folder)))
            data = _small(name, there - reading.read.get(name, set()))
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


@contextlib.contextmanager
def unpacked(path: str) -> Iterator[str]:
    """A folder with the files of an archive, until the end of the block."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
        archive.extractall(folder)
        yield folder
