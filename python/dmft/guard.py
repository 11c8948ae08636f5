"""What a file of results may hold. One may come from a stranger: nothing of other files is read
through it, it cannot ask for more memory than there is, and what is no result is refused in one
sentence."""
from __future__ import annotations

import contextlib
import re

import h5py
import numpy as np

from dmft.errors import DmftError, InputError

LEVELS = 32         # of groups
OBJECTS = 1 << 17   # groups and datasets
SMALL = 1 << 20     # arrays of more values are read when they are used,
TEXTS = 1 << 20     # in one array
VALUES = 1 << 26    # and so are all others behind so many values
UNIT = re.compile(r"[0-9a-f]{16}\.h5")
TEXT = h5py.h5t.py_create(h5py.string_dtype())
ODD = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
       ValueError)  # what h5py, numpy and xarray raise


@contextlib.contextmanager
def one_sentence(path: str):
    """What others say of a file that is none of ours becomes an InputError."""
    try:
        yield
    except DmftError:
        raise
    except ODD as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: is damaged, or not as the programs write it: {said}") from None


def refuse(path: str, what: str) -> None:
    """An InputError about this file."""
    raise InputError(f"{path}: {what}")


def own(path: str, group: h5py.Group, name: str):
    """An object of a group, which must lie in it: a link may lead to another file."""
    if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        refuse(path, f"{group.name.rstrip('/')}/{name} is a link to another place or file; results "
               "have none, and it is not followed")
    identity = h5py.h5o.open(group.id, name.encode())  # without the questions of group[name]
    item = {h5py.h5d.DatasetID: h5py.Dataset, h5py.h5g.GroupID: h5py.Group}.get(
        type(identity), lambda _: group[name])(identity)
    if isinstance(item, h5py.Dataset):
        _check_values(path, item)
    return item


def _check_values(path: str, item: h5py.Dataset) -> None:
    plist = item.id.get_create_plist()
    if plist.get_layout() == h5py.h5d.VIRTUAL or plist.get_external_count():
        refuse(path, f"{item.name} has its values in other files, which are not read")
    if item.dtype.kind not in "biuf" and not h5py.check_string_dtype(item.dtype):
        refuse(path, f"{item.name} holds neither numbers nor texts")


class Room:
    """Values of a file that may still be read at once."""

    def __init__(self):
        self.left = VALUES

    def takes(self, item: h5py.Dataset, path: str) -> bool:
        """Whether a dataset is read now; texts, which cannot wait, are refused beyond it."""
        text, size = h5py.check_string_dtype(item.dtype), item.size
        fits = size <= (TEXTS if text else SMALL) and size <= self.left
        if not fits and text:
            refuse(path, f"{item.name} holds more texts than a result has")
        self.left -= size if fits else 0
        return fits


def _names(item) -> list[str]:
    """Of the attributes of an object, by the alphabet, as the programs let HDF5 keep them."""
    names: list[bytes] = []
    h5py.h5a.iterate(item.id, names.append)
    return [name.decode() for name in names]


def _value(item, name: str):
    """An attribute. Texts, which most are, are read without the questions that h5py asks of others:
    its own way would take a third of the time of loading a file."""
    attribute = h5py.h5a.open(item.id, name.encode())
    kind = attribute.get_type()
    if not isinstance(kind, h5py.h5t.TypeStringID) or not kind.is_variable_str() or \
            attribute.get_space().get_simple_extent_type() != h5py.h5s.SCALAR:
        return item.attrs[name]
    text = np.empty((), object)
    attribute.read(text, mtype=TEXT)
    return text[()].decode("utf-8", "surrogateescape")


def attributes(path: str, item, hidden: tuple[str, ...]) -> dict:
    """Numbers as Python has them, one-element arrays and text as they are."""
    found = {}
    for name in _names(item):
        if name in hidden:
            continue
        value = _value(item, name)
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, (str, bool, int, float)) and \
                getattr(getattr(value, "dtype", None), "kind", "") not in tuple("biufO"):
            refuse(path, f"attribute {name} of {item.name} is neither a number nor a text")
        found[name] = value
    for name, kind, what in (("dims", str, "a text"), ("N", (int, float), "a number"),
                             ("coordinates", str, "a text")):
        if name in found and not isinstance(found[name], kind):
            refuse(path, f"attribute {name} of {item.name} is not {what}")
    return found


def groups(path: str, file: h5py.Group):
    """(path, group, {name: dataset}) of a group and all below it, in the file's order. Each object
    is opened once, which is most of the time that loading a file takes."""
    met, count, waiting = set(), 0, [("", file["/"])]
    while waiting:
        name, group = waiting.pop()
        address = h5py.h5o.get_info(group.id).addr
        count += len(group)
        if address in met:
            refuse(path, f"group {name} is inside of itself, or stands in two places")
        if name.count("/") > LEVELS or count > OBJECTS:
            refuse(path, "has more groups inside each other, or more arrays, than any result")
        met.add(address)
        items = {key: own(path, group, key) for key in group}
        yield name or "/", group, {key: item for key, item in items.items()
                                   if isinstance(item, h5py.Dataset)}
        waiting += reversed([(f"{name}/{key}" if name else key, item)
                             for key, item in items.items() if isinstance(item, h5py.Group)])


def check(result) -> None:
    """That what a result is asked for first can be answered: widths, notes, files of a sweep."""
    for name, data in result.items():
        for series in ("t", "loss", "loss_se", "test_loss", "f"):
            if series in data.variables and data[series].dtype.kind not in "biuf":
                refuse(result.path, f"{name}/{series} holds no numbers")
        if not isinstance(data.attrs.get("ini", ""), str):
            refuse(result.path, f"the ini of {name} is no text")
    if "sweep" in result and "loss" not in result["sweep"]:
        return  # the grid of a sweep in progress
    if "sweep" in result:
        result.units()
    for side in result.sides.values() or (result,):
        if any(width < 1 for width in side.reference):
            refuse(result.path, "has networks of a width below 1")
    repr(result), result.notes, result.complete  # pylint: disable=expression-not-assigned
