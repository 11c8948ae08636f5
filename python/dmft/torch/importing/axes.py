"""Axes of tensors: of what kind each is, and how two tensors are brought to the same ones.

A dimension of a tensor is a list of axes, the last one fastest. What grows with the width are
sites; inputs, tokens and tokens attended to (source) have one expression for all of them; all else
is finite, and written out. Where a module takes sites apart (heads, halves, the parts of a packed
matrix), a Cut is raised, and the module is read again with its parameters cut so.
"""
from __future__ import annotations

import dataclasses
from fractions import Fraction

from dmft.torch.importing.expressions import Gap


class Cut(Exception):
    """Populations that are to be cut: `how` is ("equal", k), ("strided", k), or ("at", fractions),
    where the parts end."""

    def __init__(self, populations, how):
        super().__init__(how)
        self.requests = [(origin, how) for one in populations for origin in one.find().origins]
        if not self.requests:
            raise Gap("sites that no parameter makes are taken apart")


@dataclasses.dataclass(frozen=True)
class Axis:
    """`size` at both widths. Kinds: input, token, source; finite (`segments`: the sizes of the
    sites behind it where these differ); sites (`about`: which axis of a parameter); copy, along
    which nothing differs; selected rows (`about`: a Selection) and slot, of the K largest (`about`:
    a Choice)."""
    kind: str
    size: tuple[int, int]
    segments: tuple | None = None
    about: object = None

    @property
    def cells(self) -> int | None:
        """How many expressions are written out along it; None: one for all."""
        if self.kind in ("slot", "slots of lists"):
            return self.about.count
        return self.size[0] if self.kind == "finite" else None


@dataclasses.dataclass(frozen=True)
class Piece:
    """Sites of an axis of a parameter: every `step`-th from phase on, between two fractions."""
    start: Fraction = Fraction(0)
    stop: Fraction = Fraction(1)
    phase: int = 0
    step: int = 1

    def slice(self, total: int) -> slice:
        """Which they are of so many."""
        start, stop = self.start * total, self.stop * total
        if start.denominator != 1 or stop.denominator != 1:
            raise Gap(f"an axis of {total} cannot be cut at {self.start} and {self.stop}")
        return slice(int(start) + self.phase, int(stop), self.step)

    def size(self, total: int) -> int:
        """How many they are."""
        return len(range(total)[self.slice(total)])

    def children(self, how) -> list["Piece"]:
        """What it is cut into."""
        kind, given = how
        if kind == "strided":
            return [dataclasses.replace(self, phase=self.phase + self.step * k,
                                        step=self.step * given) for k in range(given)]
        ends = [Fraction(k, given) for k in range(given + 1)] if kind == "equal" else \
            [Fraction(0), *given, Fraction(1)]
        length = self.stop - self.start
        return [dataclasses.replace(self, start=self.start + a * length,
                                    stop=self.start + b * length)
                for a, b in zip(ends, ends[1:])]


def expand(cuts: dict, parameter: str, axis: int, piece: Piece, totals):
    """(axes before the sites, axes behind them, pieces in their order) of an axis with sites."""
    how = cuts.get((parameter, axis, piece))
    if how is None:
        return [], [], [piece]
    parts = [expand(cuts, parameter, axis, child, totals) for child in piece.children(how)]
    k, alike = len(parts), all(one[:2] == parts[0][:2] for one in parts)
    if how[0] == "strided":
        if not alike:
            raise Gap("parts that are taken in turn are cut in different ways")
        rows = [pieces for *_, pieces in parts]
        return parts[0][0], [*parts[0][1], Axis("finite", (k, k))], \
            [one for column in zip(*rows) for one in column]
    pieces = [one for *_, part in parts for one in part]
    sizes = [tuple(piece.size(total) for total in totals) for piece in pieces]
    if alike and len(set(sizes)) == 1:
        return [Axis("finite", (k, k)), *parts[0][0]], parts[0][1], pieces
    if any(after for _, after, _ in parts):
        raise Gap("parts of different sizes are cut in turn")
    return [Axis("finite", (len(pieces),) * 2, tuple(sizes))], [], pieces


def length(axes) -> tuple[int, int]:
    """Of a dimension, at both widths."""
    total, skip = (1, 1), False
    for axis in axes:
        size = axis.size
        if axis.segments:
            size = tuple(sum(part[k] for part in axis.segments) for k in (0, 1))
        if not skip:
            total = total[0] * size[0], total[1] * size[1]
        skip = bool(axis.segments)  # the sites behind it are counted
    return total


def divided(axis: Axis, inner) -> tuple[Axis, Axis]:
    """An axis as two, the second one of this length."""
    outer = tuple(size // part for size, part in zip(axis.size, inner))
    if any(size % part for size, part in zip(axis.size, inner)):
        raise Gap(f"an axis of {axis.size[0]} is divided by {inner[0]}")
    if axis.kind == "sites":
        raise TakeApart(("equal", outer[0]) if outer[0] == outer[1] else
                        ("strided", inner[0]) if inner[0] == inner[1] else None)
    if axis.kind not in ("finite", "copy") or axis.segments:
        raise Gap(f"the axis of {axis.kind}s is divided")
    return dataclasses.replace(axis, size=outer), dataclasses.replace(axis, size=tuple(inner))


class TakeApart(Exception):
    """The sites of a dimension are to be cut; the tensor knows its populations."""

    def __init__(self, how):
        super().__init__(how)
        self.how = how


def regroup(axes, lengths) -> list[tuple]:
    """The same axes, in the same order, in dimensions of these lengths at both widths."""
    left, dims = list(axes), []
    for wanted in lengths:
        group: list[Axis] = []
        while length(group) != tuple(wanted):
            if not left:
                raise Gap("a view that rearranges sites")
            axis = left.pop(0)
            if axis.segments:
                group += [axis, left.pop(0)]
                continue
            if all(a <= b for a, b in zip(length([*group, axis]), wanted)):
                group.append(axis)
                continue
            have = length(group)
            outer = [b // a for a, b in zip(have, wanted)]
            inner = tuple(size // part for size, part in zip(axis.size, outer))
            first, second = divided(axis, inner)
            group.append(first)
            left.insert(0, second)
        dims.append(tuple(group))
    rest = [axis for axis in left if axis.size != (1, 1)]
    if rest:
        raise Gap("a view that rearranges sites")
    return dims


def fractions_of(ends, totals) -> tuple:
    """Where parts end, as fractions, which must be the same at both widths."""
    found = [tuple(Fraction(int(end[k]), int(totals[k])) for end in ends) for k in (0, 1)]
    if found[0] != found[1]:
        raise Gap("parts whose shares of the sites go with the width")
    return found[0]


def ends_of(sizes) -> list[tuple[int, int]]:
    """Where parts of these sizes end, all but the last."""
    ends, total = [], (0, 0)
    for size in sizes[:-1]:
        total = total[0] + size[0], total[1] + size[1]
        ends.append(total)
    return ends


def cells_shape(dims) -> tuple[int, ...]:
    """Shape of the array of expressions of a tensor."""
    return tuple(axis.cells for axes in dims for axis in axes if axis.cells is not None)


def finite(k: int) -> Axis:
    """An axis of k."""
    return Axis("finite", (k, k))
