"""The file that a sweep leaves, and what is said of it."""
from __future__ import annotations

import math
import time

import numpy as np

from dmft.study import objective, tables
from dmft.study.cells import Cells
from dmft.study.marks import EDGE, MARKS, columns_of
from dmft.study.optima import Optima, axis_of
from dmft.study.output import Output
from dmft.study.sweep import Note, Sweep

NAMED = 4  # a list of units ends after so many

# The numbers of a unit; the last three where some unit has a test loss.
WRITTEN = {
    "objective": "what points are compared by (attribute objective of the group), mean over runs",
    "objective_se": "standard error of objective, of the runs and of the tolerance",
    "objective_median": "median over runs of the objective",
    "objective_median_se": "standard error of the median",
    "loss": "mean final loss of the runs that ended (with batches, of the last batch)",
    "loss_se": "standard error of loss, of the runs and of the tolerance",
    "loss_median": "median of the final losses of the runs",
    "loss_median_se": "standard error of the median",
    "loss_min": "smallest mean loss of all times",
    "n": "runs that came to their end, over which the means are; 0: there is none",
    "failed": "runs that ended in a numerical failure; where it is above 0, means are of the "
              "others",
    "rests": "1: the limit rests: training moves finite networks, and not the limit",
    "test_loss": "mean over runs of the last test loss",
    "test_loss_se": "standard error of the mean of test_loss",
    "test_loss_median": "median over runs of the last test loss",
}


def check(sweep: Sweep, choice: str | None, along: str | None) -> None:
    """Whether what is asked for instead of what [sweep] says (None: nothing) can be met, before
    anything is run: how points are compared, and the key along which the optimum is sought."""
    wanted = choice or sweep.grid.settings.get("objective")
    if wanted:
        objective.read(wanted)
    columns_of(sweep.grid.settings.get("columns"))
    axis_of(sweep, along)


def _numbers(cells: Cells, unit: int) -> list[float]:
    cell = cells.cell[unit]
    return [number for found in (cell.objective, cell.loss)
            for number in (found.mean, found.error, found.median, found.median_error)] + [
        cell.least, cell.ended, cell.failed, cells.rests(unit),
        cell.test_loss.mean, cell.test_loss.error, cell.test_loss.median]


def _axes(sweep: Sweep, without: int | None = None) -> tuple[str, tuple[int, ...]]:
    """The names and lengths of every axis but one, and N."""
    axes = [axis for a, axis in enumerate(sweep.grid.axes) if a != without]
    return (" ".join([*(axis.name for axis in axes), "N"]),
            (*(axis.count for axis in axes), sweep.columns))


def _scales(output: Output, group: str, sweep: Sweep, without: int | None = None) -> None:
    """Of every axis but one, and N (infinite: the limit). The scale of several keys is the text of
    the points, and the values of each key stand beside it; the attribute `coordinates` names these,
    as netCDF's conventions have it."""
    for a, axis in enumerate(sweep.grid.axes):
        if a == without:
            continue
        if len(axis.keys) > 1:
            output.scale(group, axis.name, axis.name, [axis.point(i) for i in range(axis.count)])
        for key in axis.keys:
            output.scale(group, key.name, axis.name,
                         np.array(key.value) if key.value else key.text)
    output.scale(group, "N", "N", np.array([*map(float, sweep.widths)]
                                           + [math.inf] * sweep.limit))
    together = [key.name for axis in sweep.grid.axes if len(axis.keys) > 1 for key in axis.keys]
    if together:
        output.text(group, "coordinates", " ".join(together))


def _names(output: Output, sweep: Sweep) -> None:
    """The files of the units, in OUT.d, in the order of the arrays."""
    output.scale("sweep", "file", "file", [one + ".h5" for one in sweep.hash])


def write_grid(sweep: Sweep) -> None:
    """OUT.d/grid, before anything is run: the axes and the names of the files, from which the
    folder of a sweep in progress is read (python/dmft/folder.py)."""
    path = f"{sweep.folder}/grid"
    output = Output(path)
    output.text("", "program", "dmft-sweep")
    _scales(output, "sweep", sweep)
    _names(output, sweep)
    output.text("sweep", "dims", _axes(sweep)[0])
    output.save(path)
    output.close()


def _write(output: Output, cells: Cells) -> None:
    sweep = cells.sweep
    output.text("", "program", "dmft-sweep")
    output.text("parameters", "ini", sweep.ini())
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for name, value in (sweep.base["provenance"] | {"created": made}).items():
        output.text("provenance", name, value)
    dims, shape = _axes(sweep)
    _scales(output, "sweep", sweep)
    _names(output, sweep)
    output.text("sweep", "objective", cells.objective.text)
    output.text("sweep", "objective_about", cells.objective.about)
    table = np.array([_numbers(cells, unit) for unit in range(sweep.count)], float).T
    for (name, about), values in zip(WRITTEN.items(), table):
        if cells.has_tests or not name.startswith("test_loss"):
            output.series("sweep", name, dims, about, values.reshape(shape))
    for mark in MARKS:
        output.series("sweep", mark.name, dims, mark.about,
                      cells.marks.value[mark.name].reshape(shape))


# ---- notes ----

def add_notes(cells: Cells) -> None:
    """Those of all units, each once with the units that have it."""
    sweep, found = cells.sweep, {}
    rests = any(map(cells.rests, range(sweep.count)))
    for unit in range(sweep.count):
        edge = [(EDGE.name, EDGE.means, True)] if cells.marks.has(EDGE, unit) else []
        for code, text, warning in cells.notes[unit] + edge:
            if not (rests and code == "rests"):  # the sweep has one for them all
                found.setdefault(code, (text, warning, []))[2].append(unit)
    for code, (text, warning, units) in found.items():
        places = "; ".join(map(sweep.describe, units[:NAMED]))
        more = f"; and {len(units) - NAMED} more" if len(units) > NAMED else ""
        sweep.notes.append(Note(code, f"{text} (at {places}{more})", "sweep", warning))
    if rests:
        sweep.notes.append(Note(
            "rests", "a limit rests where it does not train at all, although networks do, and "
            "wider networks later: it has\n  no optimum; dmft-solve on one point gives the times "
            "at which networks learn, and their slope in ln N", "sweep", False, told=False))


def _write_notes(output: Output, notes: list[Note]) -> None:
    if notes:
        for name, words in (("code", [note.code for note in notes]),
                            ("kind", ["warning" if note.warning else "note" for note in notes]),
                            ("group", [note.group for note in notes]),
                            ("text", [note.text.replace("\n  ", " ") for note in notes])):
            output.scale("notes", name, "note", words)
        output.scale("notes", "t", "note", np.full(len(notes), math.nan))


def write(sweep: Sweep, choice: str | None, along: str | None, path: str | None, tell) -> None:
    """Reads the files of a sweep that is done, writes `path` (None: nothing), and tells its tables,
    line for line: the objective of all units, then the optima. What a reader must know of some of
    the numbers is added to its notes, which are in the file, too."""
    axis = axis_of(sweep, along)
    cells = Cells(sweep, choice)
    optima = Optima(cells, axis) if axis is not None else None
    add_notes(cells)
    for line in tables.losses(cells) + (tables.optima(optima) if optima else []):
        tell(line)
    for note in sweep.notes:
        if not note.told:
            tell(f"{'warning' if note.warning else 'note'}: {note.text}")
    if path is None:
        return
    output = Output(path)
    _write(output, cells)
    if optima:
        dims, shape = _axes(sweep, axis)
        _scales(output, "optimum", sweep, axis)
        optima.write(output, dims, shape)
    _write_notes(output, sweep.notes)
    output.save(path)
    output.close()
