"""Axes of tensors: of what kind each is, and how two tensors are brought to the same ones.

A dimension of a tensor is a list of axes, the last one fastest. What grows with the width are
sites; inputs, tokens and tokens attended to (source) have one expression for all of them; all else
is finite, and written out. Where a module takes sites apart (heads, halves, the parts of a packed
matrix), a Cut is raised, and the module is read again with its parameters cut so.
"""
from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.laws import power_of


class Cut(Exception):
    """Populations that are to be cut: `how` is ("equal", k), ("strided", k), ("at", fractions),
    where the parts end, or ("pairs", sizes), in groups of these sizes at both widths."""

    def __init__(self, populations, how):
        super().__init__(how)
        self.requests = [(origin, how) for one in populations for origin in one.find().origins]
        if not self.requests:
            raise Gap("sites that no parameter makes are taken apart")


class MoreTokens(Exception):
    """So many more tokens are wanted than an input has, as a class token is."""


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
    """Sites of an axis of a parameter: every `step`-th from phase on, between two fractions. They
    are pairs where there are `groups` of them, (c, p), c n^p of n sites: experts, each of which
    has these units. `units`: which of the units of each group."""
    start: Fraction = Fraction(0)
    stop: Fraction = Fraction(1)
    phase: int = 0
    step: int = 1
    groups: tuple | None = None
    units: "Piece | None" = None

    def slice(self, total: int) -> slice:
        """Which they are of so many."""
        start, stop = self.start * total, self.stop * total
        if start.denominator != 1 or stop.denominator != 1:
            raise Gap(f"an axis of {total} cannot be cut at {self.start} and {self.stop}")
        return slice(int(start) + self.phase, int(stop), self.step)

    def size(self, total: int) -> int:
        """How many they are."""
        return len(range(total)[self.slice(total)])

    def pair(self, total: int) -> tuple[int, int]:
        """(how many groups there are, of how many sites each)."""
        n, (c, p) = self.size(total), self.groups
        groups = round(c * n ** p)
        if not groups or n % groups:
            raise Gap(f"an axis of {n} is no {c:g} n^{p:g} groups of equal size")
        return groups, n // groups

    def children(self, how, totals) -> list["Piece"]:
        """What it is cut into."""
        kind, given = how
        if self.groups:
            units = [self.pair(total)[1] for total in totals]
            return [dataclasses.replace(self, units=one)
                    for one in self.units.children(how, units)]
        if kind == "pairs":
            sizes = [self.size(total) for total in totals]
            law = power_of([n // units for n, units in zip(sizes, given)], sizes)
            if law is None:
                raise Gap("pairs whose groups do not go as a power of how many they are")
            return [dataclasses.replace(self, groups=law, units=Piece())]
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
    children = piece.children(how, totals)
    asked = [cuts.get((parameter, axis, child)) or ("",) for child in children]
    turns = next((one for one in asked if one[0] == "strided"), None)
    for child in children if turns and how[0] != "strided" else ():     # so are all, in the end
        take_in_turn(cuts, parameter, axis, child, totals, turns)
    parts = [expand(cuts, parameter, axis, child, totals) for child in children]
    if how[0] == "pairs" and not piece.groups:
        (before, after, pieces), = parts
        groups = tuple(pieces[0].pair(total)[0] for total in totals)
        return [Axis("sites", groups, about=axis), *before], after, pieces
    k, alike = len(parts), all(one[:2] == parts[0][:2] for one in parts)
    if how[0] == "strided":
        if not alike:
            raise Gap("parts that are taken in turn are cut in different ways")
        rows = [pieces for *_, pieces in parts]
        return parts[0][0], [*parts[0][1], Axis("finite", (k, k))], \
            [one for column in zip(*rows) for one in column]
    pieces = [one for *_, part in parts for one in part]
    sizes = [tuple(sites_of(piece, total) for total in totals) for piece in pieces]
    if alike and len(set(sizes)) == 1:
        return [Axis("finite", (k, k)), *parts[0][0]], parts[0][1], pieces
    if any(one.kind == "sites" for before, *_ in parts for one in before):
        raise Gap("a packed tensor, of which a part has pairs of two growing sizes on its axis; "
                  "build the module with separate parameters")
    after = parts[0][1]
    if any(one != after for _, one, _ in parts):
        raise Gap("parts of different sizes are cut in turn; build the module with separate "
                  "parameters")
    sizes = sizes[::math.prod(one.size[0] for one in after)]
    segments = tuple(sizes) if len(set(sizes)) > 1 else None
    return [Axis("finite", (len(sizes),) * 2, segments)], after, pieces


def take_in_turn(cuts: dict, parameter: str, axis: int, piece: Piece, totals, turns) -> None:
    """Enters a cut in turn for all parts of a piece that are not cut yet."""
    how = cuts.setdefault((parameter, axis, piece), turns)
    for child in piece.children(how, totals) if how[0] in ("equal", "at") else ():
        take_in_turn(cuts, parameter, axis, child, totals, turns)


def sites_of(piece: Piece, total: int) -> int:
    """How many sites lie along the last axis of a piece: its units, where it is pairs."""
    return piece.units.size(piece.pair(total)[1]) if piece.groups else piece.size(total)


def units_of(axis: int) -> float:
    """Which axis of a leaf its units are, where those of a parameter's axis are pairs."""
    return axis + 0.5


def length(axes) -> tuple[int, int]:
    """The length of a dimension at both widths."""
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
        raise TakeApart(how_divided(outer, inner), axis)
    if axis.kind == "token":            # of an image, whose rows and columns have been one axis
        return Axis("row", outer), Axis("column", tuple(inner))
    if axis.kind not in ("finite", "copy") or axis.segments:
        raise Gap(f"the axis of {axis.kind}s is divided")
    return dataclasses.replace(axis, size=outer), dataclasses.replace(axis, size=tuple(inner))


def how_divided(outer, inner):
    """How an axis of sites is cut that is two axes, of these lengths."""
    if outer[0] == outer[1]:
        return "equal", outer[0]
    return ("strided", inner[0]) if inner[0] == inner[1] else ("pairs", tuple(inner))


class TakeApart(Exception):
    """The sites of an axis are to be cut; the tensor knows its populations."""

    def __init__(self, how, axis):
        super().__init__(how)
        self.how, self.axis = how, axis


def regroup(axes, lengths) -> list[tuple]:
    """The same axes, in the same order, in dimensions of these lengths at both widths."""
    left, dims = list(axes), []
    for wanted in lengths:
        one = tuple(wanted) == (1, 1) and left and left[0].size == (1, 1) \
            and left[0].kind == "site slot"
        group: list[Axis] = [left.pop(0)] if one else []
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
            if not all(outer):
                raise Gap("a view that rearranges sites")
            inner = tuple(size // part for size, part in zip(axis.size, outer))
            first, second = divided(axis, inner)
            group.append(first)
            left.insert(0, second)
        dims.append(tuple(group))
    rest = [axis for axis in left if axis.size != (1, 1)]
    if rest:
        raise Gap("a view that rearranges sites")
    return dims


def as_tokens(dims) -> list[tuple]:
    """Rows and columns of an image that lie in one dimension, one behind the other, are tokens."""
    found = []
    for axes in dims:
        kinds = [axis.kind for axis in axes]
        at = next((k for k in range(len(kinds) - 1) if kinds[k:k + 2] == ["row", "column"]), None)
        if at is not None:
            size = (axes[at].size[0] * axes[at + 1].size[0],) * 2
            axes = (*axes[:at], Axis("token", size), *axes[at + 2:])
        found.append(axes)
    return found


def fractions_of(ends, totals) -> tuple:
    """Where parts end, as fractions, which must be the same at both widths."""
    found = [tuple(Fraction(int(end[k]), int(totals[k])) for end in ends) for k in (0, 1)]
    if found[0] != found[1]:
        raise Gap("parts whose shares of the sites go with the width; let all parts grow with it, "
                  "or give one of fixed size a layer of its own")
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
