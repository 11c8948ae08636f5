"""Where the objective of a sweep is smallest along one of its keys, for every width and every
combination of the other keys (optimum.py): the group /optimum."""
from __future__ import annotations

import dataclasses
import math

import numpy as np

from dmft.errors import InputError
from dmft.study import curves, optimum
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


# Beyond an end of the grid where an optimum may lie the next grid goes on by this factor.
FURTHER = 4


def _beside(found: optimum.Optimum, value: list[float], whole: bool) -> tuple[float, float] | None:
    """Where an optimum that is not known may lie, from and to, among increasing values of the key
    or beyond them; None: that cannot be told, or nothing lies there."""
    if found.best is None or found.reason in (optimum.KNOWN, optimum.NONE, optimum.RESTS):
        return None
    last, log = len(value) - 1, value[0] > 0
    reach = 2 if found.reason in (optimum.LOWEST, optimum.HIGHEST, optimum.NOISE) else 1
    low, high = value[max(found.best - reach, 0)], value[min(found.best + reach, last)]
    room = (value[-1] - value[0]) * (FURTHER - 1) / FURTHER
    if found.reason == optimum.LOWEST or found.best == 0:
        low = value[0] / FURTHER if log else value[0] - room
    if found.reason == optimum.HIGHEST or found.best == last:
        high = value[-1] * FURTHER if log else value[-1] + room
    if whole:
        low = max(math.floor(low), min(1, value[0]))
    return None if found.reason == optimum.LOWEST and low == value[0] else (low, high)


def axis_of(sweep: Sweep, along: str | None) -> int | None:
    """The axis of the key `along`, which must have a line of its own and numbers; without one that
    of training.eta0 where it is such a key, else the first. Only keys with three values or more are
    chosen, and no words, paths and seeds."""
    kinds = dict(zip((key.name for key, _ in sweep.grid.keys), sweep.types))
    found = {axis.name: a for a, axis in enumerate(sweep.grid.axes)
             if len(axis.keys) == 1 and axis.keys[0].value and axis.count >= 3 and
             kinds[axis.keys[0].name] in ("number", "integer")}
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


def _points(cells: Cells, axis: int, unit: int, means: bool) -> tuple[list, bool]:
    """The points of the column whose first unit this is, at increasing values of the key, and
    whether all of it rests."""
    value, stride = cells.sweep.grid.axes[axis].keys[0].value, cells.sweep.stride(axis)
    units = [unit + i * stride for i in range(len(value))]
    rests = all(cells.rests(one) for one in units)
    logarithmic = min(value[0], value[-1]) > 0
    points = [_point(cells.cell[one], math.log(x) if logarithmic else x, means, rests)
              for one, x in zip(units, value)]
    return points[::-1] if value[0] > value[-1] else points, rests


def _find(cells: Cells, axis: int, unit: int, means: bool) -> optimum.Optimum:
    """Of the column whose first unit this is, in the units of the key; best: a value of the key in
    the order of the grid."""
    sweep = cells.sweep
    value = sweep.grid.axes[axis].keys[0].value
    logarithmic, falls = min(value[0], value[-1]) > 0, value[0] > value[-1]
    points, rests = _points(cells, axis, unit, means)
    found = optimum.find(points, means, sweep.width(unit))
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
        self.curves = self._compare()

    def _compare(self) -> list[tuple] | None:
        """Of each row its whole curve beside that of the smallest width (curves.NUMBERS); None:
        there is one width, or the key is no positive number."""
        sweep = self.cells.sweep
        if sweep.columns < 2 or min(sweep.grid.axes[self.axis].keys[0].value) <= 0:
            return None
        found = []
        for unit, *_ in self.rows:
            curve = curves.Samples(_points(self.cells, self.axis, unit, True)[0],
                                   sweep.width(unit))
            if unit % sweep.columns == 0:
                smallest = curve
            found.append((1.0,) * len(curves.NUMBERS) if curve is smallest else
                         curves.compare(smallest, curve))
        return found

    def advice(self) -> str | None:
        """Where no optimum is known, a sentence with the values of the key to try next: steps are
        those of this grid, halved where the optimum lies inside of it."""
        sweep, key = self.cells.sweep, self.cells.sweep.grid.axes[self.axis].keys[0]
        value, log = sorted(key.value), min(key.value) > 0
        whole = dict(zip((one.name for one, _ in sweep.grid.keys), sweep.types))[key.name] == \
            "integer"
        unknown = [(found.reason, there) for row in self.rows for found in row[1:]
                   if (there := _beside(self._rising(found), value, whole))]
        if not unknown:
            return None
        low, high = (pick(there[k] for _, there in unknown) for k, pick in enumerate((min, max)))
        reasons = {reason for reason, _ in unknown}
        span = [math.log(one) if log else one for one in (low, high, value[0], value[-1])]
        count = (len(value) - 1) * (span[1] - span[0]) / (span[3] - span[2])
        count = round(count * (1 if reasons <= {optimum.LOWEST, optimum.HIGHEST} else 2)) + 1
        count = min(max(count, optimum.USABLE), optimum.MOST)
        values = f"from {low:g} to {high:g}" if whole else \
            f"= {'logspace' if log else 'linspace'}({low:.3g}, {high:.3g}, {count})"
        more = ", with twice the seeds and replicates" \
            if reasons & {optimum.NOISE, optimum.SINGLE} else ""
        return f"where no optimum is known, try {key.name} {values} next{more}"

    def _rising(self, found: optimum.Optimum) -> optimum.Optimum:
        """With the place of the best value among increasing ones."""
        value = self.cells.sweep.grid.axes[self.axis].keys[0].value
        falls = value[0] > value[-1] and found.best is not None
        return dataclasses.replace(found, best=len(value) - 1 - found.best) if falls else found

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
            if means and self.curves:
                for (name, about), values in zip(curves.NUMBERS.items(), np.array(self.curves).T):
                    output.series("optimum", name, dims, about, values.reshape(shape))
            found = [row[1 if means else 2] for row in self.rows]
            for name, samples, about in (
                    ("at_samples", [one.sample for one in found], "at, had the runs been others; "
                     "sample b of all columns of one width has the same runs; 0 or infinity: below "
                     "or above all values that can be used"),
                    ("objective_samples", [one.sample_value for one in found],
                     "objective, in the same samples")):
                output.series("optimum", before + name, dims + " sample", about,
                              np.array(samples).reshape(*shape, optimum.SAMPLES))
