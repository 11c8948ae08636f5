"""The points of a sweep whose networks may differ, for what sets networks side by side.

    grid = points.read("studies/rates_adam.ini", None, {})
    grid.axes[0].keys, grid.axes[0].values      # ['network.parameterization'], [['mup'], ['mssp']]
"""
from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
from collections.abc import Mapping

from dmft import run
from dmft.errors import InputError
from dmft.files import Result
from dmft.study import command as study

# Keys beside those of these sections that say what a network is and how its matrices learn.
SECTIONS = ("network", "program", "data", "init", "rates", "eps", "decays")
KEYS = ("training.gamma0", "training.loss", "training.adam_read_in")
PARAMETERIZATION = "network.parameterization"


def of_network(key: str) -> bool:
    """Whether another value of a key may make another network."""
    return key.split(".")[0] in SECTIONS or key in KEYS


@dataclasses.dataclass
class Axis:
    """Keys that vary together, and for each point the text of each."""
    keys: list[str]
    values: list[list[str]]

    def chosen(self, key: str, text: str) -> Axis:
        """The points where a key is as the call says."""
        at = self.keys.index(key)
        kept = [value for value in self.values if _same(value[at], text)]
        if not kept:
            there = " ".join(dict.fromkeys(value[at] for value in self.values))
            raise InputError(f"{key} = {text}: [sweep] has no such point; it varies this key over "
                             f"{there}")
        return Axis(self.keys, kept)


@dataclasses.dataclass
class Grid:
    """An ini without [sweep] and the keys on top of it, and the axes."""
    config: object
    more: dict
    axes: list[Axis]

    def points(self) -> list[dict[str, str]]:
        """The settings of each point; the last axis varies fastest."""
        return [{key: text for axis, value in zip(self.axes, values)
                 for key, text in zip(axis.keys, value)}
                for values in itertools.product(*(axis.values for axis in self.axes))]


def _same(a: str, b: str) -> bool:
    try:
        return float(a) == float(b)
    except ValueError:
        return a.split() == b.split()


def _has_sweep(config) -> bool:
    if isinstance(config, Mapping):
        return any(name == "sweep" or name.startswith("sweep.") for name in config)
    if isinstance(config, str) and "\n" in config:
        text = config
    elif os.path.isfile(os.fspath(config)):
        with open(config, encoding="utf-8", errors="replace") as file:
            text = file.read()
    else:
        return False
    return re.search(r"^[ \t\ufeff]*\[[ \t]*sweep[ \t]*\]", text, re.M) is not None


def read(config, network, more: Mapping) -> Grid:
    """The grid of an ini; no axes where it has no [sweep]. A key that the sweep varies and the call
    gives picks its points."""
    if isinstance(config, Result):
        config = config.parameters["ini"]
    more = dict(more)
    if not _has_sweep(config):
        return Grid(config, more, [])
    folder = run.Folder()
    words = run.words_of(config, folder, network, {name: value for name, value in more.items()
                                                   if "." not in name})
    found = json.loads(study.call(["--points", *words], False))
    axes = [Axis(**axis) for axis in found["axes"]]
    for a, axis in enumerate(axes):
        for key in axis.keys:
            if key in more:
                axes[a] = axes[a].chosen(key, run.text_of(more.pop(key)))
    return Grid(found["ini"], more, axes)


def settle(axes: list[Axis]) -> list[Axis]:
    """Those whose points may be networks that differ; of the others the first point alone."""
    return [axis if any(map(of_network, axis.keys)) else Axis(axis.keys, axis.values[:1])
            for axis in axes]


def idle(axes: list[Axis], made: list) -> list[bool]:
    """Of each axis whether what was made, of each point in turn, is the same along it.

    >>> idle([Axis(["a.x"], [["1"], ["2"]]), Axis(["a.y"], [["3"], ["4"]])], [5, 6, 5, 6])
    [True, False]
    """
    counts = [len(axis.values) for axis in axes]
    by_place = dict(zip(itertools.product(*map(range, counts)), made))
    return [all(by_place[place] == by_place[(*place[:a], 0, *place[a + 1:])] for place in by_place)
            for a in range(len(axes))]
