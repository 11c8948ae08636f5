"""Tensors of a module as arrays of expressions, and how they are combined."""
from __future__ import annotations

import dataclasses

import numpy as np

from dmft.torch.importing.axes import (Axis, Cut, TakeApart, as_tokens, cells_shape, divided,
                                       ends_of, finite, fractions_of, how_divided, length,
                                       regroup)
from dmft.torch.importing.expressions import (Builder, Expression, Gap, Leaf, Population,
                                              constant_pair)
from dmft.torch.importing.flags import of_source
from dmft.torch.importing.graph import ordered


MOST = 1024                             # of numbers that are written one by one


@dataclasses.dataclass
class Constant:
    """A tensor that depends on neither parameters nor inputs: its values at both widths."""
    values: tuple[np.ndarray, np.ndarray]


class Missing:
    """A tensor that no program has, and why; an error only where the output depends on it."""

    def __init__(self, sentence: str):
        self.sentence = sentence


def array(cells, shape) -> np.ndarray:
    """An array of objects."""
    made = np.empty(len(cells), object)
    made[:] = cells
    return made.reshape(shape)


@dataclasses.dataclass
class Tensor:
    """`dims`: the axes of each dimension; `cells`: an expression, or a Leaf, for each place along
    the axes that are written out, in their order."""
    dims: list[tuple]
    cells: np.ndarray

    @property
    def axes(self) -> list[Axis]:
        """The axes of all dimensions, in their order."""
        return [axis for axes in self.dims for axis in axes]

    @property
    def is_parameter(self) -> bool:
        """Whether it is a parameter, or a part of one, as it is."""
        return self.cells.size > 0 and isinstance(self.cells.flat[0], Leaf)

    def over(self, function) -> "Tensor":
        """The same with a function of each cell."""
        return Tensor(self.dims, array([function(one) for one in self.cells.flat],
                                       self.cells.shape))

    def populations(self, axis: Axis):
        """Finds the populations of the sites along an axis."""
        for one in self.cells.flat:
            if isinstance(one, Leaf):
                yield one.populations[axis.about]
            elif one.is_rows:
                yield one.population.along(axis.size)

    def cut(self, axis: Axis, how) -> None:
        """Reads the module again with these sites taken apart."""
        if how[1] in (1, ()):
            raise Gap("an axis of one number meets one of sites")
        raise Cut(self.populations(axis), how)

    def place_of(self, dim: int) -> int:
        """How many axes of cells lie before a dimension."""
        return len(cells_shape(self.dims[:dim]))

    # --- the same cells in other dimensions ------------------------------------------------------

    def view(self, lengths) -> "Tensor":
        """Returns it in dimensions of these lengths."""
        try:
            dims = regroup(self.axes, lengths)
        except TakeApart as request:
            self.cut(request.axis, request.how)
        except Gap:
            self._even_out()
            raise
        dims = as_tokens(dims)
        return Tensor(dims, self.cells.reshape(cells_shape(dims)))

    def _even_out(self) -> None:
        """Parts of different sizes, of which some have been taken apart and others not yet, are
        all cut to the size of the smallest."""
        for dim, axes in enumerate(self.dims):
            for at, axis in enumerate(axes):
                if not axis.segments:
                    continue
                where = self.place_of(dim) + len(cells_shape([axes[:at]]))
                small = min(axis.segments)
                for part, size in enumerate(axis.segments):
                    k = size[0] // small[0]
                    if k > 1 and size == (k * small[0], k * small[1]):
                        Tensor([], self.cells.take([part], where)).cut(axes[at + 1], ("equal", k))

    def permute(self, order) -> "Tensor":
        """Returns it with its dimensions in another order."""
        places = [list(range(self.place_of(d), self.place_of(d + 1))) for d in order]
        return Tensor([self.dims[d] for d in order],
                      self.cells.transpose([one for group in places for one in group]))

    def merged(self, dim: int) -> "Tensor":
        """Returns it with the finite axes that a dimension begins with as one."""
        axes = self.dims[dim]
        count = next((k for k, axis in enumerate(axes) if axis.kind != "finite" or axis.segments),
                     len(axes))
        if count < 2:
            return self
        whole = finite(length(axes[:count])[0])
        dims = [*self.dims[:dim], (whole, *axes[count:]), *self.dims[dim + 1:]]
        return Tensor(dims, self.cells.reshape(cells_shape(dims)))

    def refined(self, dim: int, at: int, sizes) -> "Tensor":
        """Returns it with the finite axis `at` of a dimension as two."""
        axes = list(self.dims[dim])
        axes[at:at + 1] = divided(axes[at], sizes)
        dims = [*self.dims[:dim], tuple(axes), *self.dims[dim + 1:]]
        return Tensor(dims, self.cells.reshape(cells_shape(dims)))

    def with_axis(self, dim: int, at: int, axis: Axis) -> "Tensor":
        """Returns it with another axis here, along which cells are repeated if it has some."""
        axes = list(self.dims[dim])
        old, axes[at] = axes[at], axis
        dims = [*self.dims[:dim], tuple(axes), *self.dims[dim + 1:]]
        cells = self.cells
        if axis.cells is not None and old.cells is None:
            where = self.place_of(dim) + len(cells_shape([self.dims[dim][:at]]))
            cells = np.repeat(np.expand_dims(cells, where), axis.cells, where)
        return Tensor(dims, cells)


SINKS = ("attention weights that do not add up to 1, with a sink (one more logit, as in gpt-oss) "
         "or by exp over a sum (softmax1); a program has the softmax over the tokens: leave the "
         "sink out, and take softmax(-1) of the logits")


class Meeting:
    """Brings dimensions of two tensors to the same axes; `tensors` are the results."""

    def __init__(self, builder: Builder, first: Tensor, second: Tensor):
        self.builder, self.tensors = builder, [first, second]

    def axes(self, which: int, dim: int) -> tuple:
        """Of a dimension of one of them."""
        return self.tensors[which].dims[dim]

    def align(self, dims: tuple[int, int], sources: bool = False) -> None:
        """Gives these two dimensions the same axes; sources: tokens of one may meet tokens attended
        to of the other."""
        at = 0
        while at < max(len(self.axes(0, dims[0])), len(self.axes(1, dims[1]))):
            one, two = ([*self.axes(k, dims[k])[at:at + 1], None][0] for k in (0, 1))
            if one is None or two is None:
                raise Gap("dimensions that do not fit")
            if not self._meets(dims, at, one, two, sources):
                continue
            at += 1

    def _meets(self, dims, at, one: Axis, two: Axis, sources: bool) -> bool:
        """Whether two axes are the same; if not one of them has been divided."""
        if one.size == two.size and one.segments == two.segments and self._same(one, two, sources):
            return True
        for k, (mine, other) in enumerate(((one, two), (two, one))):
            if mine.kind == "copy" and not other.segments and mine.size == other.size:
                self.tensors[k] = self.tensors[k].with_axis(dims[k], at, other)
                return False
            if mine.kind == "copy" and all(a % b == 0 for a, b in zip(mine.size, other.size)) \
                    and not other.segments:
                inner = tuple(a // b for a, b in zip(mine.size, other.size))
                self.tensors[k] = self.tensors[k].refined(dims[k], at, inner)
                return False
            if mine.kind == "token" and other.kind == "source" and mine.size == other.size:
                found = self.tensors[k].over(lambda one: of_source(self.builder, one))
                self.tensors[k] = found.with_axis(dims[k], at, other)
                return False
            if mine.kind == "finite" and other.kind == "token" and mine.size == other.size \
                    and not mine.segments:
                self.tensors[k] = by_token(self.builder, self.tensors[k], dims[k], at, other)
                return False
        return self._divide(dims, at, one, two)

    @staticmethod
    def _same(one: Axis, two: Axis, sources: bool) -> bool:
        if {one.kind, two.kind} == {"token", "source"}:
            return sources
        if one.kind != two.kind:
            return False
        return one.kind not in ("selected", "slot") or one.about == two.about

    def _divide(self, dims, at, one: Axis, two: Axis) -> bool:
        for k, (mine, other) in enumerate(((one, two), (two, one))):
            tensor = self.tensors[k]
            if mine.kind == "finite" and other.kind in ("finite", "copy") and not mine.segments \
                    and not other.segments and mine.size[0] > other.size[0] \
                    and mine.size[0] % other.size[0] == 0:
                inner = (mine.size[0] // other.size[0],) * 2
                self.tensors[k] = tensor.refined(dims[k], at, inner)
                return False
            if mine.kind == "sites" and other.kind == "finite":
                tensor.cut(mine, self._structure(1 - k, dims[1 - k], at))
            if mine.kind == "sites" and other.kind in ("sites", "copy") and mine.size != other.size:
                inner = [a // b for a, b in zip(mine.size, other.size) if a % b == 0]
                behind = self.axes(1 - k, dims[1 - k])[at + 1:]
                if len(inner) == 2 and behind and not behind[0].segments:
                    tensor.cut(mine, how_divided(other.size, inner))
        if one.kind == two.kind == "finite":
            self._cut_both(dims, at)
        raise Gap(f"an axis of {_several(one)} meets one of {_several(two)}")

    def _structure(self, k: int, dim: int, at: int):
        """How the sites of the other tensor lie behind its finite axis."""
        axis = self.axes(k, dim)[at]
        if axis.segments:
            total = tuple(sum(part[k] for part in axis.segments) for k in (0, 1))
            return "at", fractions_of(ends_of(axis.segments), total)
        return "equal", axis.size[0]

    def _cut_both(self, dims, at):
        """Parts that end in different places: each is cut where the other ends."""
        ends = []
        for k in (0, 1):
            finite_axis, sites = self.axes(k, dims[k])[at:at + 2]
            sizes = finite_axis.segments or (sites.size,) * finite_axis.size[0]
            ends.append([(0, 0), *ends_of(sizes), tuple(map(sum, zip(*sizes)))])
        for k in (0, 1):
            where = self.tensors[k].place_of(dims[k]) + len(
                cells_shape([self.axes(k, dims[k])[:at]]))
            sites = self.axes(k, dims[k])[at + 1]
            for part, (low, high) in enumerate(zip(ends[k], ends[k][1:])):
                inside = [end for end in ends[1 - k] if low[0] < end[0] < high[0]]
                if inside:
                    size = tuple(b - a for a, b in zip(low, high))
                    inside = [tuple(b - a for a, b in zip(low, end)) for end in inside]
                    cells = self.tensors[k].cells.take([part], where)
                    Tensor([], cells).cut(sites, ("at", fractions_of(inside, size)))


def _several(axis: Axis) -> str:
    """An axis in words."""
    word = {"sites": "sites", "finite": "numbers", "copy": "copies"}.get(axis.kind, axis.kind + "s")
    return f"{axis.size[0]} {word}"


def by_token(builder: Builder, tensor: Tensor, dim: int, at: int, token: Axis) -> Tensor:
    """With an entry for each place in the sequence along an axis, the tokens'."""
    where = tensor.place_of(dim) + len(cells_shape([tensor.dims[dim][:at]]))
    cells = np.moveaxis(tensor.cells, where, -1)
    merged = [builder_by_token(builder, list(cells[index]), token)
              for index in np.ndindex(cells.shape[:-1])]
    axes = list(tensor.dims[dim])
    axes[at] = token
    dims = [*tensor.dims[:dim], tuple(axes), *tensor.dims[dim + 1:]]
    return Tensor(dims, array(merged, cells.shape[:-1]))


def builder_by_token(builder: Builder, entries, token: Axis) -> Expression:
    """One expression for what differs from token to token."""
    if all(one is entries[0] for one in entries):
        return entries[0]
    if all(isinstance(one, Leaf) and len(one.populations) == 1 for one in entries):
        entries = [builder.vector(one) for one in entries]
    if all(one.operation == "vector" for one in entries):
        leaves = tuple(one.data[0] for one in entries)
        population = entries[0].population
        for one in entries[1:]:
            population.meet(one.population)
        return builder.make("read_in", data=("place", leaves), population=population,
                            axes=frozenset({"token"}))
    if all(builder.value(one) for one in entries):
        return builder.make("of_token", data=tuple(one.data for one in entries),
                            axes=frozenset({"token"}))
    if len(entries) > MOST:
        raise Gap(f"{len(entries)} tokens of which each is computed for itself")
    total = builder.constant((0.0, 0.0))
    for k, one in enumerate(entries):
        one = one if isinstance(one, Expression) else builder.number(one)
        if one.axes:
            raise Gap("numbers that differ from token to token, each computed for itself")
        total = builder.add(total, at_token(builder, one, k, len(entries)))
    return total


def at_token(builder: Builder, one: Expression, k: int, count: int) -> Expression:
    """What is the same for all tokens, at one of them alone."""
    on = frozenset({"token"})
    if one.is_rows and any(part.operation in ("read_in", "map") for part in ordered([one])):
        column = tuple((float(s == k),) for s in range(count))
        return builder.make("mix_places", (one,), column, one.population, on)
    return builder.multiply(builder.make("of_token", data=tuple(
        constant_pair(s == k) for s in range(count)), axes=on), one)


def by_pair(builder: Builder, cells, token: Axis) -> Expression:
    """One expression of numbers [token, token attended to], each times a list of 0 and 1."""
    on, values = frozenset({"token", "source"}), {}
    count, size = len(cells), token.size[0]
    for s, t in np.ndindex(count, size):
        one, c = cells[s, t], 1.0
        if one.operation == "times" and one.data[0] == one.data[1]:
            one, c = one.arguments[0], one.data[0]
        elif builder.value(one) and one.data[0] == one.data[1]:
            one, c = builder.constant((1.0, 1.0)), one.data[0]
        if c == 0:
            continue
        if one.is_rows or one.axes:
            raise Gap("numbers of each two tokens, each computed for itself")
        values.setdefault(id(one), (one, np.zeros((count, size))))[1][s, t] += c
    if len(values) > MOST:
        raise Gap(f"{len(values)} numbers of each two tokens, each computed for itself")
    known = [one for one, _ in values.values()]
    total = builder.constant((0.0, 0.0))
    for one, (_, matrix) in zip(builder.picks(known), values.values()):
        total = builder.add(total, builder.multiply(one, builder.make(
            "of_pair", data=tuple(map(tuple, matrix.tolist())), axes=on)))
    return total


def spread(builder: Builder, known: Constant, like: Tensor) -> Tensor:
    """A constant as a tensor whose dimensions go with those of another one."""
    one, two = known.values
    like = Tensor([()] * (one.ndim - len(like.dims)) + list(like.dims), like.cells)
    missing = len(like.dims) - one.ndim
    alike = all(values.size and (values == values.flat[0]).all() for values in known.values)
    dims: list[tuple] = []
    for k in range(one.ndim):
        axes = like.dims[k + missing]
        size = one.shape[k], two.shape[k]
        if size == (1, 1):
            dims.append(())
        elif size == length(axes):
            dims.append(axes)
        elif size[0] == size[1] and not axes and not alike:
            dims.append((finite(size[0]),))
        elif not axes:
            dims.append((Axis("copy", size),))
        else:
            raise Gap("a constant of another shape than what it is combined with")
    return _filled(builder, known.values, dims)


def _filled(builder: Builder, values, dims) -> Tensor:
    """The cells of a constant along these dimensions."""
    if all((one == one.flat[0]).all() if one.size else True for one in values):
        pair = [float(one.flat[0]) if one.size else 0.0 for one in values]
        return Tensor(dims, array([builder.constant(pair)] * int(np.prod(cells_shape(dims))),
                                  cells_shape(dims)))
    spreads = []
    for k in (0, 1):
        shape = [_axis_length(axis, axes, k) for axes in dims for axis in axes]
        spreads.append(values[k].reshape([size for size in shape if size is not None]))
    axes = [axis for group in dims for axis in group]
    return Tensor(dims, _cells_of_constant(builder, spreads, axes, cells_shape(dims)))


def _axis_length(axis: Axis, axes, k: int):
    if any(one.segments for one in axes):
        raise Gap("a constant over parts of different sizes")
    return axis.size[k]


def _cells_of_constant(builder, values, axes, shape):
    """Moves what is written out to the front, and makes an expression of the rest."""
    written = [k for k, axis in enumerate(axes) if axis.cells is not None]
    rest = [axis for axis in axes if axis.cells is None]
    if any(axis.kind == "slot" for axis in axes):
        raise Gap("a constant that differs from slot to slot")
    values = [np.moveaxis(one, written, range(len(written))) for one in values]
    cells = [_one_constant(builder, [one[index] for one in values], rest)
             for index in np.ndindex(*shape)]
    return array(cells, shape)


def _one_constant(builder: Builder, values, axes) -> Expression:
    for k in reversed(range(len(axes))):
        if axes[k].kind in ("input", "copy", "selected") or axes[k].size == (1, 1):
            if any((one != one.take([0], k)).any() for one in values):
                raise Gap("a constant that differs from input to input")
            values = [one.take(0, k) for one in values]
            axes = [*axes[:k], *axes[k + 1:]]
    kinds = [axis.kind for axis in axes]
    if all((one == one.flat[0]).all() for one in values):
        return builder.constant([one.flat[0] for one in values])
    if "sites" in kinds:
        sizes = axes[kinds.index("sites")].size
        return builder.make("table", data=(Table(values, tuple(kinds)),), axes=frozenset(
            {"token"} & set(kinds)), population=Population(sizes))
    if any((a != b).any() for a, b in [values]):
        raise Gap("a constant of each token that goes with the width")
    if kinds == ["token"]:
        return builder.make("of_token", data=tuple(constant_pair(one) for one in values[0]),
                            axes=frozenset({"token"}))
    if kinds == ["source"]:             # the same for all tokens that attend
        values, kinds = [np.broadcast_to(one, (len(one), len(one))) for one in values], [
            "token", "source"]
    if kinds == ["token", "source"]:
        return builder.make("of_pair", data=tuple(map(tuple, values[0].tolist())),
                            axes=frozenset({"token", "source"}))
    raise Gap(f"a constant that differs along {' and '.join(kinds)}")


@dataclasses.dataclass(eq=False)
class Table:
    """Constant values over sites, or over tokens and sites, at both widths."""
    values: list
    kinds: tuple
