"""What the units of a sweep have come to: their runs, those that failed, and the numbers by which
points are compared."""
from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import betainc

from dmft.errors import InputError, SystemFailure
from dmft.study import marks, objective
from dmft.study.output import Reader, open_file
from dmft.study.sweep import FAILED, Sweep

NAN = math.nan


@dataclasses.dataclass
class Measured:
    """One number of each run that ended, in their order (None: mean and error alone), and what they
    have in common; all NaN where there is none."""
    runs: int = 0
    run: np.ndarray | None = None
    mean: float = NAN
    error: float = NAN
    median: float = NAN
    median_error: float = NAN


@dataclasses.dataclass
class Cell:
    """ended, failed: runs that reached the last time, and that ended in a numerical failure; least:
    the smallest mean loss of all times, of the runs that ended; still: a limit that rests, or
    networks whose loss is at all times what it was at first."""
    ended: int = 0
    failed: int = 0
    loss: Measured = dataclasses.field(default_factory=Measured)
    test_loss: Measured = dataclasses.field(default_factory=Measured)
    objective: Measured = dataclasses.field(default_factory=Measured)
    least: float = NAN
    still: bool = False


@dataclasses.dataclass
class _Found:
    """The series of a unit whose runs `ended`; times: over how many smooth_loss is."""
    path: str
    ended: np.ndarray
    times: int
    loss: objective.Series
    test_loss: objective.Series | None
    other: objective.Series | None


class Cells:
    """All units of a sweep, in its order. choice: what they are compared by, as objective.read
    takes it; None: as the file of the sweep has it, or else chosen. Of a point of which some
    networks failed the others count (its file is HASH.h5.partial); of a limit that failed there is
    nothing. notes: of each unit (code, text, whether it is a warning)."""

    def __init__(self, sweep: Sweep, choice: str | None = None):
        self.sweep, self.window, self.marks = sweep, 0, marks.Marks(sweep)
        choice = choice or sweep.grid.settings.get("objective")
        given = objective.read(choice) if choice else None
        self.cell = [Cell(failed=int(status == FAILED)) for status in sweep.status]
        self.notes = [[] for _ in self.cell]
        known, every, found = 0, True, {}
        for unit, cell in enumerate(self.cell):
            if unit and not unit % sweep.columns:
                self.marks.find_edge(unit // sweep.columns - 1)
            path = sweep.file(unit)
            if path is None:
                continue
            with open_file(path) as file:
                group = Reader(file, sweep.group(unit))
                self.marks.read(unit, file)
                self.notes[unit] = _notes(file)
                if group.has("loss"):  # a limit that failed at once has none
                    known, every = known + 1, every and group.has("test_loss")
                if not cell.failed or sweep.width(unit):
                    found[unit] = self._read(cell, file, group, unit, given)
        self.marks.find_edge(sweep.grid.points - 1)
        if given and given.t is not None:
            last = max((len(series.other.mean) for series in found.values() if series),
                       default=math.inf) - 1
            if given.t > last:
                raise InputError(f"objective {given.text}: no run has a time t = {given.t}; the "
                                 f"last one is {last}")
        self.objective = given or objective.read("test_loss" if known and every else "smooth_loss")
        self.has_tests = False
        for unit, series in found.items():
            if series is not None:
                self._measure(self.cell[unit], series)
        if self.objective.kind == "smooth_loss" and self.window <= 1:  # without batches
            self.objective = objective.read("loss")

    def rests(self, unit: int) -> bool:
        """A limit that training does not move, where it moves networks (solver/run/at_rest.c)."""
        first = unit - unit % self.sweep.columns
        networks = self.cell[first:first + len(self.sweep.widths)]
        return not self.sweep.width(unit) and self.cell[unit].still and \
            any(cell.ended and not cell.still for cell in networks)

    def _read(self, cell: Cell, file, group: Reader, unit: int, given) -> _Found | None:
        """None: no run has ended."""
        loss = objective.read_series(group, "loss")
        if loss is None or loss.runs is None:
            if not cell.failed:
                raise SystemFailure(f"{group.path}: is not a complete file with {group.name}/loss")
            return None
        ended = np.isfinite(loss.runs[:, -1]) if loss.runs.shape[1] else \
            np.zeros(len(loss.runs), bool)
        cell.ended, cell.failed = int(ended.sum()), int((~ended).sum())
        if not cell.ended:
            return None
        kept = loss.runs[ended]
        cell.least = float(np.nanmin(objective.total(kept) / cell.ended, initial=np.inf))
        start = kept[:, :1]
        cell.still = kept.shape[1] > 1 and \
            bool((np.abs(kept - start) <= 1e-12 * np.abs(start)).all())  # round-off
        rests = None if self.sweep.width(unit) else group.number("rests")
        if rests is not None and not math.isnan(rests):
            # its loss alone does not tell: with batches that of other inputs follows
            cell.still = rests > 0
        times = objective.window(kept.shape[1], *_batch(file))
        return _Found(group.path, ended, times, loss, objective.read_series(group, "test_loss"),
                      _compared(group, given))

    def _measure(self, cell: Cell, found: _Found) -> None:
        if self.objective.kind == "smooth_loss":
            self.window = max(self.window, found.times)
        cell.loss = _measured(objective.read("loss"), found.loss, found.ended, 1)
        if found.test_loss is not None:
            self.has_tests = True
            cell.test_loss = _measured(objective.read("test_loss"), found.test_loss, found.ended, 1)
        wanted = found.other or (found.test_loss if self.objective.series == "test_loss" else
                                 found.loss)
        cell.objective = _measured(self.objective, wanted, found.ended, found.times)


def _compared(group: Reader, given) -> objective.Series | None:
    """The series that points are compared by; None where no objective was given."""
    if given is None:
        return None
    series = objective.read_series(group, given.series, given.entry)
    if series is None:
        raise InputError(f"objective {given.text}: {group.path} has no series {given.series}")
    return series


def check(sweep: Sweep, unit: int, choice: str | None) -> None:
    """InputError where a unit that is done has nothing that the points of its sweep could be
    compared by: the first of them tells it, before all others are run."""
    choice = choice or sweep.grid.settings.get("objective")
    with open_file(sweep.path(unit, ".h5")) as file:
        _compared(Reader(file, sweep.group(unit)), objective.read(choice) if choice else None)


def _notes(file) -> list[tuple[str, str, bool]]:
    """A file without has none."""
    notes = Reader(file, "notes")
    columns = [notes.words(name) if notes.has(name) else [] for name in ("code", "text", "kind")]
    return [(code, text, kind == "warning") for code, text, kind in zip(*columns)]


def _batch(file) -> tuple[int, int]:
    """The inputs of a run, and how many of them are in a batch: 0 where all are."""
    data, batch = Reader(file, "data"), Reader(file, "parameters").number("training.batch")
    rows = "y" if data.has("y") else "tokens"  # [output] inputs = none
    if batch is None or not data.has(rows):
        raise SystemFailure(f"{data.path}: has no training.batch or inputs")
    return data.shape(rows)[0], int(batch)


def _measured(what, series, ended: np.ndarray, times: int) -> Measured:
    found = Measured(int(ended.sum()))
    if series.runs is None:
        found.mean, found.error = objective.of_mean(what, series)
        return found
    found.run = objective.of_runs(what, series, ended, times)
    n = found.runs
    found.mean = float(objective.total(found.run)) / n
    squares = float(objective.total((found.run - found.mean) ** 2))
    found.error = math.sqrt(squares / n / (n - 1)) if n > 1 else NAN
    if math.isfinite(found.mean):  # else a run has none: nor has the point
        found.median, found.median_error = median(found.run)
    shared = objective.tolerance(what, series)
    found.error = math.hypot(found.error, shared)
    found.median_error = math.hypot(found.median_error, shared)
    return found


def median(values: np.ndarray) -> tuple[float, float]:
    """The median and its standard error (NaN for n = 1): that of the median of n draws with
    replacement, in closed form (Maritz and Jarrett), exact for odd n.

    >>> median(np.array([3.0, 1.0, 2.0]))[0]
    2.0
    """
    ordered, n = np.sort(values), len(values)
    middle = 0.5 * float(ordered[(n - 1) // 2] + ordered[n // 2])
    if n < 2:
        return middle, NAN
    a = (n + 1) / 2  # the median of n draws is at most the i-th value with probability `to`
    to = betainc(a, a, np.arange(1, n + 1) / n)
    share, shift = np.diff(to, prepend=0.0), ordered - middle
    first, second = float(objective.total(share * shift)), float(
        objective.total(share * shift * shift))
    return middle, math.sqrt(max(second - first * first, 0.0))
