"""Where the objective of a sweep is smallest along one of its keys, for every width and every
combination of the other keys (optimum.py): the group /optimum."""
from __future__ import annotations

import math

import numpy as np

from dmft.errors import InputError
from dmft.study import optimum
from dmft.study.cells import Cells
from dmft.study.sweep import Sweep
from dmft.study.text import clip

# Of the group, and where the optimum is that of medians "median_" before each name.
NUMBERS = {
    "at": "where the objective is smallest along the key; NaN where that is not known",
    "low": "lower end of the interval of 95 % of at; below any value: not known",
    "high": "upper end of the interval of 95 % of at",
    "objective": "the objective there",
    "objective_low": "lower end of the interval of 95 % of objective",
    "objective_high": "upper end of the interval of 95 % of objective",
    "reason": "why no optimum is known, a number; words: attribute reasons of the group",
    "least_at": "value of the grid with the smallest objective that can be used",
    "least": "the objective there",
}


def axis_of(sweep: Sweep, along: str | None) -> int | None:
    """The axis of the key `along`, which must have a line of its own and numbers; without one that
    of training.eta0 where it is such a key, else the first. Only keys with three values or more are
    chosen, and no words, paths and seeds."""
    kinds = dict(zip((key.name for key, _ in sweep.grid.keys), sweep.types))
    found = {axis.name: a for a, axis in enumerate(sweep.grid.axes)
             if len(axis.keys) == 1 and axis.keys[0].value and axis.count >= 3 and
             kinds[axis.keys[0].name] == "number"}
    along = along or sweep.grid.settings.get("along")
    if along is None:
        return found.get("training.eta0", next(iter(found.values()), None))
    if along not in found:
        raise InputError(f"along = {clip(along)}: must be a key of [sweep] with a line of its own "
                         "and three numbers or more; " +
                         ("such are: " + " ".join(reversed(found)) if found else "there is none"))
    return found[along]


def _point(cell, x: float, means: bool, rests: bool) -> optimum.Point:
    found = cell.objective
    return optimum.Point(x, found.mean if means else found.median,
                         found.error if means else found.median_error, found.runs, found.run,
                         rests or not cell.ended or bool(cell.failed) or
                         not math.isfinite(found.mean))


def _find(cells: Cells, axis: int, unit: int, means: bool) -> optimum.Optimum:
    """Of the column whose first unit this is, in the units of the key; best: a value of the key in
    the order of the grid."""
    sweep = cells.sweep
    value, stride = sweep.grid.axes[axis].keys[0].value, sweep.stride(axis)
    units = [unit + i * stride for i in range(len(value))]
    rests = all(cells.rests(one) for one in units)
    logarithmic = min(value[0], value[-1]) > 0
    points = [_point(cells.cell[one], math.log(x) if logarithmic else x, means, rests)
              for one, x in zip(units, value)]
    falls = value[0] > value[-1]
    found = optimum.find(points[::-1] if falls else points, means, sweep.width(unit))
    if logarithmic:
        with np.errstate(over="ignore"):
            found.sample = np.exp(found.sample)
            found.at, found.low, found.high = (float(np.exp(one)) for one in
                                               (found.at, found.low, found.high))
    if rests:
        found.reason = optimum.RESTS
    if falls and found.best is not None:
        found.best = len(value) - 1 - found.best
    return found


class Optima:
    """along an axis: `rows`, (first unit of a column, optimum of means, optimum of medians)."""

    def __init__(self, cells: Cells, axis: int):
        self.cells, self.axis = cells, axis
        sweep = cells.sweep
        self.rows = [(unit, _find(cells, axis, unit, True), _find(cells, axis, unit, False))
                     for unit in range(sweep.count)
                     if not sweep.grid.index(unit // sweep.columns, axis)]

    def _numbers(self, row, means: bool) -> list[float]:
        unit, found = row[0], row[1 if means else 2]
        least = math.nan, math.nan
        if found.best is not None:
            sweep = self.cells.sweep
            there = self.cells.cell[unit + found.best * sweep.stride(self.axis)].objective
            least = (sweep.grid.axes[self.axis].keys[0].value[found.best],
                     there.mean if means else there.median)
        return [found.at, found.low, found.high, found.value, found.value_low, found.value_high,
                found.reason, *least]

    def write(self, output, dims: str, shape: tuple[int, ...]) -> None:
        """Behind the scales of the group, whose other axes are these."""
        output.text("optimum", "key", self.cells.sweep.grid.axes[self.axis].name)
        output.text("optimum", "objective", self.cells.objective.text)
        output.text("optimum", "objective_about", self.cells.objective.about)
        output.text("optimum", "reasons", "; ".join(
            f"{k}: {words or 'known'}" for k, words in enumerate(optimum.REASONS)))
        for means in (True, False):
            before = "" if means else "median_"
            table = np.array([self._numbers(row, means) for row in self.rows], float).T
            for (name, about), values in zip(NUMBERS.items(), table):
                output.series("optimum", before + name, dims, about, values.reshape(shape))
            found = [row[1 if means else 2] for row in self.rows]
            for name, samples, about in (
                    ("at_samples", [one.sample for one in found], "at, had the runs been others; "
                     "sample b of all columns of one width has the same runs; 0 or infinity: below "
                     "or above all values that can be used"),
                    ("objective_samples", [one.sample_value for one in found],
                     "objective, in the same samples")):
                output.series("optimum", before + name, dims + " sample", about,
                              np.array(samples).reshape(*shape, optimum.SAMPLES))
