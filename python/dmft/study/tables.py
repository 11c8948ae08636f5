"""The tables of a sweep, as lines of text."""
from __future__ import annotations

import math

from dmft.study import optimum
from dmft.study.cells import Cell, Cells
from dmft.study.marks import columns_of
from dmft.study.optima import Optima


def _keys(cells: Cells, unit: int | None, without: int | None = None) -> str:
    """The names of the keys of all axes but one, or of a unit their values."""
    sweep, text = cells.sweep, ""
    for key, a in sweep.grid.keys:
        if a != without:
            width = key.width
            word = key.name if unit is None else \
                key.text[sweep.grid.index(unit // sweep.columns, a)]
            text += f"{word:>{width}}  "
    return text


def _width(cells: Cells, unit: int) -> str:
    return f"{cells.sweep.width(unit) or 'limit':>6}"


def _number(there: bool, value: float, error: float) -> str:
    """0.0123 +- 0.0004, with no error where it is no more than the round-off of its number."""
    if not there:
        return f"  {'-':>20}"
    shown = 0.0 if error <= 1e-12 * abs(value) else error
    return f"  {f'{value:.5g}' + ('' if math.isnan(error) else f' +- {shown:.1g}'):>20}"


def _carried(cell: Cell) -> bool:
    """Whether one run makes more than half of the mean."""
    found = cell.objective
    return found.run is not None and found.runs >= 3 and \
        max(abs(found.run), default=0) > 0.5 * found.runs * abs(found.mean)


def _columns(cells: Cells, unit: int | None) -> str:
    text = ""
    for name in columns_of(cells.sweep.grid.settings.get("columns")):
        value = math.nan if unit is None else cells.marks.value[name][unit]
        word = name if unit is None else "-" if math.isnan(value) else f"{value:.6g}"
        text += f"  {word:>{max(len(name), 10)}}"
    return text


def losses(cells: Cells) -> list[str]:
    """The objective of every unit; a star marks means that one run carries."""
    lines = [f"{cells.objective.text}: {cells.objective.about}"]
    if cells.objective.kind == "smooth_loss":
        lines.append(f"(over the last {cells.window} times)")
    lines += ["over the runs (+-: standard errors of sampling)",
              f"{_keys(cells, None)}{'N':>6}  {'mean':>20}    {'median':>20}"
              + _columns(cells, None)]
    for unit, cell in enumerate(cells.cell):
        found = cell.objective
        failed = f"  ({cell.failed} of {cell.failed + cell.ended} failed)" \
            if cell.failed and cell.ended else "  failed" if cell.failed else ""
        lines.append(
            _keys(cells, unit) + _width(cells, unit)
            + _number(math.isfinite(found.mean), found.mean, found.error)
            + (" *" if _carried(cell) else "  ")
            + _number(math.isfinite(found.median), found.median, found.median_error)
            + _columns(cells, unit) + failed + ("  (it rests)" if cells.rests(unit) else "")
            + cells.marks.letters(unit))
    if any(map(_carried, cells.cell)):
        lines.append("*: one run is more than half of this mean")
    return lines + cells.marks.explanations()


def _interval(at: float, low: float, high: float) -> str:
    return f"{at:.4g} [{low:.4g}, {high:.4g}]"


def _optimum(found: optimum.Optimum) -> str:
    """0.0123 [0.0121, 0.0127], or the reason why there is none."""
    known = found.reason == optimum.KNOWN
    at = _interval(found.at, found.low, found.high) if known else optimum.REASONS[found.reason]
    value = _interval(found.value, found.value_low, found.value_high) if known else ""
    return f"  {at:>26}  {value:>30}"


def optima(found: Optima) -> list[str]:
    """Along an axis, of every combination of the other keys and every width."""
    cells, axis = found.cells, found.axis
    words = cells.objective.text
    lines = [f"\noptimum of {cells.sweep.grid.axes[axis].name} by {words}, and {words} there, of "
             "means and of medians over the runs\n([]: intervals of 95 %)",
             f"{_keys(cells, None, axis)}{'N':>6}  {'optimum of means':>26}  {'mean':>30}  "
             f"{'optimum of medians':>26}  {'median':>30}"]
    lines += [_keys(cells, unit, axis) + _width(cells, unit) + _optimum(means)
              + _optimum(medians) for unit, means, medians in found.rows]
    return lines + ([advice] if (advice := found.advice()) else []) + _curves(found)


def _curves(found: Optima) -> list[str]:
    """Whole curves of each width beside that of the smallest."""
    if not found.curves:
        return []
    cells, axis = found.cells, found.axis
    smallest = cells.sweep.width(found.rows[0][0])
    lines = [f"\nwhole curves over {cells.sweep.grid.axes[axis].name}, beside that of N = "
             f"{smallest}: the factor in the key that lays one on\nthe "
             "other, and the factor between them at the same values ([]: intervals of 95 %)",
             f"{_keys(cells, None, axis)}{'N':>6}  {'shift':>26}  {'factor between':>26}"]
    for (unit, *_), numbers in zip(found.rows, found.curves):
        if unit % cells.sweep.columns:
            told = [_interval(*part) if all(map(math.isfinite, part)) else "not known"
                    for part in (numbers[:3], numbers[3:])]
            lines.append(_keys(cells, unit, axis) + _width(cells, unit)
                         + "".join(f"  {one:>26}" for one in told))
    return lines
