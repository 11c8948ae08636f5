"""HDF5 files as solver/files/io.h writes them, by h5py: every dataset has attributes dims, about
and equation and a scale at each of its axes; the file is made in memory and saved whole."""
from __future__ import annotations

import os

import h5py
import numpy as np

from dmft.errors import InputError, SystemFailure
from dmft.study import place

COMPACT, CHUNK = 4096, 1 << 17  # values; larger datasets are compressed, in chunks


class Output:
    """A file in memory. Groups are made when they are named."""

    def __init__(self, name: str):
        creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
        _track(creation)
        access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        access.set_fapl_core(1 << 22, False)
        self.file = h5py.File(h5py.h5f.create(os.fsencode(name), h5py.h5f.ACC_TRUNC, creation,
                                              access))
        self.file.attrs.create("complete", 1, dtype="i4")

    def group(self, name: str) -> h5py.Group:
        """Of this name; "" is the file."""
        if not name:
            return self.file
        if name not in self.file:
            creation = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
            _track(creation)
            h5py.h5g.create(self.file.id, name.encode(), gcpl=creation)
        return self.file[name]

    def text(self, group: str, name: str, value: str) -> None:
        """An attribute."""
        _text(self.group(group), name, value)

    def _create(self, group: h5py.Group, name: str, dims: str, about: str, values):
        values = np.asarray(values)
        words = values.dtype.kind in "UO"
        options = {}
        if values.size > COMPACT:
            options = {"chunks": _chunks(values.shape), "shuffle": True, "compression": "gzip",
                       "compression_opts": 4}
        data = group.create_dataset(name, data=values.astype(object) if words else values,
                                    dtype=h5py.string_dtype() if words else values.dtype,
                                    track_times=False, **options)
        for key, text in (("dims", dims), ("about", about), ("equation", "")):
            _text(data, key, text)
        return data

    def _scale_of(self, group: h5py.Group, axis: str, length: int):
        """The scale of an axis; 0, 1, ..., length - 1 if it is new in the group."""
        if axis not in group:
            self._create(group, axis, axis, "index along this axis, from 0",
                         np.arange(length, dtype="i4")).make_scale(axis)
        return group[axis]

    def series(self, group: str, name: str, dims: str, about: str, values) -> None:
        """An array of numbers or words, whose axes are named."""
        home = self.group(group)
        values = np.asarray(values)
        scales = [self._scale_of(home, axis, length)
                  for axis, length in zip(dims.split(" "), values.shape)]
        data = self._create(home, name, dims, about, values)
        for k, scale in enumerate(scales):
            data.dims[k].attach_scale(scale)

    def scale(self, group: str, name: str, axis: str, values) -> None:
        """Coordinates along an axis: those of the axis itself, name = axis, before any array that
        has this axis, or others beside them."""
        if name != axis:
            self.series(group, name, axis, "coordinates", values)
        elif name not in self.group(group):
            self._create(self.group(group), name, axis, "coordinates", values).make_scale(name)

    def save(self, path: str) -> None:
        """Writes it all, complete."""
        self.file.flush()
        place.save(path, self.file.id.get_file_image())

    def close(self) -> None:
        self.file.close()


def _track(creation) -> None:
    """The order of links is kept, and no time, so that the same file has the same bytes."""
    creation.set_link_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    creation.set_obj_track_times(False)


def _text(item, name: str, value: str) -> None:
    item.attrs.create(name, value, dtype=h5py.string_dtype())


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Cut along the first axes."""
    chunks, count = list(shape), int(np.prod(shape))
    for k in range(len(chunks)):
        if count <= CHUNK:
            break
        rest = count // chunks[k]
        chunks[k] = CHUNK // rest if rest < CHUNK else 1
        count = rest * chunks[k]
    return tuple(chunks)


# ---- reading ----

def open_file(path: str) -> h5py.File:
    """To be read."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise SystemFailure(f"{path}: cannot be opened as an HDF5 file: {_cause(error)}") from None


def _cause(error: Exception) -> str:
    return str(error).split("(", 1)[-1].rstrip(")") or type(error).__name__


class Reader:
    """A group of a file. What is not there is told from what cannot be read, which is SystemFailure
    with the name of the file."""

    def __init__(self, file: h5py.File, group: str):
        self.path, self.name = file.filename, group
        try:
            self.group = file.get(group)
        except (OSError, KeyError, RuntimeError) as error:
            raise SystemFailure(f"{self.path}: {group} cannot be read: {_cause(error)}") from None

    def has(self, name: str) -> bool:
        """Whether there is such a dataset (or group)."""
        return self.group is not None and self._read(name, lambda: name in self.group)

    def _read(self, what: str, read):
        try:
            return read()
        except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
            raise SystemFailure(f"{self.path}: {self.name}/{what} cannot be read: {_cause(error)}"
                                ) from None

    def values(self, name: str) -> np.ndarray:
        """All numbers of a dataset."""
        return self._read(name, lambda: self.group[name][...].astype(float))

    def words(self, name: str) -> list[str]:
        """All texts of a dataset."""
        return self._read(name, lambda: [str(word) for word in self.group[name].asstr()[...]])

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a dataset."""
        return self._read(name, lambda: self.group[name].shape)

    def number(self, name: str) -> float | None:
        """An attribute; None: there is none."""
        found = self.attribute(name)
        return None if found is None else self._read("@" + name, lambda: float(found))

    def attribute(self, name: str, of: str = ""):
        """A number or a text; None: there is none."""
        def read():
            item = self.group[of] if of else self.group
            return item.attrs[name] if name in item.attrs else None
        return None if self.group is None else self._read(f"{of}@{name}", read)


def refuse_partial(path: str, force: bool) -> None:
    """InputError where a run of another program left PATH.partial, unless force."""
    try:
        with h5py.File(path + ".partial", "r") as file:
            program = str(file.attrs["program"])
    except (OSError, KeyError):  # there is none, or one of a summary that was cut
        return
    if program != "dmft-sweep" and not force:
        raise InputError(f"output {path}: {path}.partial is there, of a run of {program} that did "
                         "not end; choose another name, or add --force to replace it")


def read_names(path: str) -> tuple[str, list[str]]:
    """(the program that wrote a file, sweep/file); an exception of Python where it has none."""
    with h5py.File(path, "r") as file:
        return str(file.attrs["program"]), list(file["sweep/file"].asstr()[...])


def read_summary(path: str) -> tuple[str, list[str], list[float]]:
    """(ini, sweep/file, sweep/N) of a sweep that is done."""
    if not place.exists(path):
        raise InputError(f"{path}: cannot be opened: No such file or directory")
    if os.access(path, os.R_OK) and not h5py.is_hdf5(path):
        raise InputError(f"{path}: cannot be opened as an HDF5 file")
    with open_file(path) as file:
        ini = Reader(file, "parameters").attribute("ini")
        if not isinstance(ini, str):
            raise InputError(f"{path}: has no /parameters with an ini")
        sweep = Reader(file, "sweep")
        for name in ("file", "N"):
            if not sweep.has(name):
                raise InputError(f"{path}: has no list sweep/{name}")
        return ini, sweep.words("file"), [float(N) for N in sweep.values("N")]
