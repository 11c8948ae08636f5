"""What dmft.diff finds, and its table."""
from __future__ import annotations

import math
from dataclasses import dataclass, field

PARTS = ("_se", "_runs", "_pseudo", "_tolerance", "_samples")  # of the NAME before them


def base_of(path: str, arrays: dict) -> str:
    """The array whose error or single runs this one has; itself if it is none of them."""
    for end in PARTS:
        if path.endswith(end) and path.removesuffix(end) in arrays:
            return path.removesuffix(end)
    return path


@dataclass(frozen=True)
class Row:
    """One array: its name is GROUP/NAME. absolute and relative are the largest differences, the
    latter over what rtol is relative to; z is the largest, NaN where there is none; beyond counts
    the entries that differ, place is where the difference is largest among them (or among all)."""
    name: str
    entries: int
    beyond: int
    absolute: float
    relative: float
    z: float
    place: str
    verdict: str        # "equal", "different", "cannot tell"


@dataclass
class Diff:
    """What dmft.diff found. `equal`: nothing is different. As a text it is a table of all arrays
    that have other numbers, those that differ first; errors and single runs stand there where they
    have another verdict than what they belong to."""
    old: str
    new: str
    question: str = ""                                  # what "equal" means here
    settings: list[tuple[str, str, str]] = field(default_factory=list)  # key, old value, new value
    shapes: list[str] = field(default_factory=list)     # arrays of other shapes, and lost ones
    added: list[str] = field(default_factory=list)      # arrays that the new file alone has
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    same: int = 0                                       # arrays with the same bits

    @property
    def equal(self) -> bool:
        return not self.shapes and all(row.verdict != "different" for row in self.rows)

    def __bool__(self) -> bool:
        raise TypeError("a difference is neither true nor false; ask for its .equal")

    def __str__(self) -> str:
        text = [f"old: {self.old}", f"new: {self.new}"]
        text += [f"setting {key}: {_short(old)} -> {_short(new)}"
                 for key, old, new in self.settings] or ["settings: the same"]
        text += self.shapes
        if self.added:
            text.append("the new file alone has " + " ".join(self.added))
        text.append(self.question)
        of = {row.name: row.verdict for row in self.rows}  # parts are told where they say more
        shown = [row for row in self.rows if row.name == (base := base_of(row.name, of))
                 or row.verdict != of[base]]
        if shown:
            text += _table(sorted(shown, key=lambda row: row.verdict != "different"))
        text += self.notes
        number = {verdict: sum(row.verdict == verdict for row in self.rows)
                  for verdict in ("equal", "different", "cannot tell")}
        text.append(f"{self.same} arrays have the same numbers, {number['equal']} more are equal, "
                    f"{number['different']} differ" + f", of {number['cannot tell']} one cannot "
                    "tell" * (number["cannot tell"] > 0))
        text.append("equal" if self.equal else "DIFFERENT")
        return "\n".join(text)


def _short(value: str) -> str:
    value = " ".join(str(value).split())
    return (value if len(value) <= 40 else value[:37] + "...") or '""'


def _number(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:.2g}"


def _table(rows: list[Row]) -> list[str]:
    head = ("array", "largest difference", "relative", "z", "beyond", "where", "")
    cells = [head] + [(row.name, _number(row.absolute), _number(row.relative), _number(row.z),
                       f"{row.beyond}/{row.entries}", row.place,
                       row.verdict.upper() if row.verdict == "different" else row.verdict)
                      for row in rows]
    width = [max(map(len, column)) for column in zip(*cells)]
    return ["  ".join(cell.ljust(w) if k in (0, 5, 6) else cell.rjust(w)
                      for k, (cell, w) in enumerate(zip(row, width))).rstrip() for row in cells]
