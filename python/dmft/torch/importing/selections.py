"""Rows that are sent to experts: those that a mask selects are read as all rows, and multiplied by
the mask where they are put back (choices has the masks)."""
from __future__ import annotations

import dataclasses

import numpy as np

from dmft.torch.importing.axes import Axis, finite, length
from dmft.torch.importing.choices import is_expert, is_which, masks_of
from dmft.torch.importing.expressions import Expression, Gap
from dmft.torch.importing.grouped import by_expert, in_order, is_order
from dmft.torch.importing.places import is_of_tokens, taken
from dmft.torch.importing.products import embedding
from dmft.torch.importing.reading import HANDLERS
from dmft.torch.importing.reductions import sum_of_dimensions
from dmft.torch.importing.tensors import Constant, Tensor, array


@dataclasses.dataclass(frozen=True)
class Selection:
    """Rows for which a mask is 1: the expression of the mask, which expert it is of where slots
    were searched, the axes of the rows, and the choice."""
    mask: Expression
    expert: int | None
    axes: tuple

    def __eq__(self, other):
        return isinstance(other, Selection) and self.mask is other.mask \
            and self.expert == other.expert and self.axes == other.axes

    def __hash__(self):
        return hash((id(self.mask), self.expert, self.axes))


def _selection(mask: Tensor) -> Selection:
    rows = tuple(axis for axis in mask.axes if axis.kind in ("input", "token"))
    slots = [axis for axis in mask.axes if axis.kind == "slot"]
    if len(slots) + len(rows) != len(mask.axes) or len(slots) > 1:
        raise Gap("rows are selected by a mask of other than rows and slots")
    if not slots:
        return Selection(mask.cells.flat[0], None, rows)
    one = [k for k, cell in enumerate(mask.cells.flat) if getattr(cell, "data", ()) == (1.0, 1.0)]
    zero = [k for k, cell in enumerate(mask.cells.flat) if getattr(cell, "data", ()) == (0.0, 0.0)]
    if len(one) != 1 or len(zero) != mask.cells.size - 1:
        raise Gap("rows are selected by a mask of several experts")
    return Selection(slots[0].about.masks[one[0]], one[0], rows)


@HANDLERS
def nonzero(read, mask):
    selection, builder = _selection(mask), read.builder
    columns = []
    for axes in mask.dims:
        slot = [axis.kind for axis in axes] == ["slot"]
        columns.append(builder.make("expert", data=(selection.expert,)) if slot else
                       builder.make("row", data=(selection, axes)))
    dims = [(Axis("selected", read.shapes()[0], about=selection),), (finite(len(columns)),)]
    return Tensor(dims, array(columns, (len(columns),)))


@HANDLERS
def index(read, x, indices):
    if isinstance(x, Constant) and len(indices) == 1 and isinstance(indices[0], Tensor) \
            and indices[0].cells.flat[0].operation == "token":
        return _constants_of_letters(read, x, indices[0])
    if isinstance(x, Constant):
        return _of_constant(read, x)
    if all(one is None or isinstance(one, Constant) for one in indices):
        return _by_constants(read, x, indices)
    first = next(k for k, one in enumerate(indices) if one is not None)
    if len(indices) == 1 and isinstance(indices[0], Tensor) \
            and indices[0].cells.flat[0].operation == "token":
        return _of_letters(read, x, indices[0])
    if len(indices) == 1 and is_order(indices[0]):
        return in_order(read, x, indices[0])
    if len(indices) == 1 and is_expert(indices[0]) and indices[0].cells.ndim == 1:
        return by_expert(x, indices[0])
    if isinstance(indices[first], Tensor) and _is_mask(read, indices[first]):
        return _by_mask(read, x, first, indices[first])
    return _by_rows(read, x, first, indices)


def _of_letters(read, x: Tensor, token: Tensor) -> Tensor:
    """Numbers of a parameter for each kind of token."""
    if not x.is_parameter or len(x.dims) != 2 or x.cells.flat[0].populations:
        return embedding(read, x, token)
    cells = [read.builder.make("parameter", data=(tuple(column),), axes=frozenset({"token"}),
                               width=1) for column in x.cells.T]
    return Tensor([*token.dims, x.dims[1]], array(cells, (len(cells),)))


@HANDLERS
def index_select(read, x, dim, rows):
    return index(read, x, [*[None] * read.dimension(x, dim), rows])


def _constants_of_letters(read, x: Constant, token: Tensor) -> Tensor:
    """A constant for each kind of token."""
    one, two = x.values
    if one.ndim != 1 or one.shape != two.shape or (one != two).any():
        raise Gap("constants of each kind of token that go with the width, or are several")
    cell = read.builder.make("of_letter", data=tuple(map(float, one)), axes=frozenset({"token"}))
    return Tensor(token.dims, array([cell], ()))


def _of_constant(read, x: Constant) -> Constant:
    """Entries of a constant that are all alike."""
    if any((one != one.flat[0]).any() for one in x.values):
        raise Gap("entries of a constant are chosen by data")
    return Constant(tuple(np.full(tuple(step.results[0].shape), one.flat[0])
                          for step, one in zip(read.step, x.values)))


def _is_mask(read, one: Tensor) -> bool:
    indices = read.step[0].arguments[1]
    return isinstance(indices, (list, tuple)) and any(
        getattr(given, "dtype", None) is not None and str(given.dtype) == "torch.bool"
        for given in indices if given is not None)


def _by_constants(read, x, indices):
    from dmft.torch.importing.products import chosen_rows
    known = [k for k, one in enumerate(indices) if one is not None]
    if len(known) != 1:
        return _spread_out(x, indices)
    (k,) = known
    if is_of_tokens(x, k) and indices[k].values[0].ndim == 1:
        return taken(read, x, k, indices[k].values[0].astype(int))
    order = [k, *(d for d in range(len(x.dims)) if d != k)]
    found = chosen_rows(x.permute(order), indices[k])
    added = len(found.dims) - len(x.dims) + 1
    back = [d + added for d in range(k)]
    return found.permute([*back, *range(added), *range(added + k, len(found.dims))][:len(
        found.dims)]) if k else found


def _spread_out(x: Tensor, indices) -> Tensor:
    """All entries, with each dimension at the place where its numbers 0, 1, ... lie."""
    count = max(one.values[0].ndim if one else 0 for one in indices)
    shapes = [(1,) * (count - one.values[0].ndim) + one.values[0].shape if one else ()
              for one in indices]
    places = [[k for k, size in enumerate(shape) if size > 1] for shape in shapes]
    whole = all(len(at) == 1 and all((one.ravel() == np.arange(n)).all() for one, n in zip(
        known.values, length(axes))) for at, known, axes in zip(places, indices, x.dims) if known)
    if len(indices) != len(x.dims) or not whole or None in indices or places != sorted(places) \
            or len({at[0] for at in places}) < len(places):
        raise Gap("entries are chosen by several constants")
    dims = [()] * count
    for (at,), axes in zip(places, x.dims):
        dims[at] = axes
    return Tensor(dims, x.cells)


def _by_mask(read, x: Tensor, first: int, mask: Tensor):
    selection = _selection(mask)
    count = len(mask.dims)
    rows = tuple(axis for axes in x.dims[first:first + count] for axis in axes)
    if rows != selection.axes or selection.expert is not None and count > 1:
        raise Gap("a mask of other rows than those of what it selects from")
    axis = Axis("selected", read.shapes()[first], about=selection)
    return Tensor([*x.dims[:first], (axis,), *x.dims[first + count:]], x.cells)


def _by_rows(read, x: Tensor, first: int, indices):
    """x[.., rows, slots, ..] of the rows of a selection."""
    given = [one for one in indices[first:] if one is not None]
    if any(one is None for one in indices[first:first + len(given)]):
        raise Gap("rows are chosen along dimensions apart")
    row = next((one for one in given if isinstance(one, Tensor)
                and one.cells.flat[0].operation == "row"), None)
    if row is None:
        raise Gap("entries are chosen by computed numbers")
    selection, _ = row.cells.flat[0].data
    cells, dims = x.cells, list(x.dims)
    for k in reversed(range(len(given))):
        dim, one = first + k, given[k]
        marker = one.cells.flat[0] if isinstance(one, Tensor) else None
        if marker is not None and marker.operation == "row":
            if tuple(dims[dim]) != tuple(marker.data[1]):
                raise Gap("rows are chosen that are not those of the mask")
        elif marker is not None and marker.operation == "expert":
            kinds = [axis.kind for axis in dims[dim]]
            if kinds != ["slot"] and [axis.cells for axis in dims[dim]] == [None]:
                raise Gap("the slot of an expert is asked for along another axis")
            place = Tensor(dims, cells).place_of(dim)
            cells = cells.take([marker.data[0]], place).squeeze(place)
            cells = cells if isinstance(cells, np.ndarray) else array([cells], ())
            dims[dim] = ()
        else:
            raise Gap("entries are chosen by constants and data at once")
    axis = Axis("selected", row.dims[0][0].size, about=selection)
    return Tensor([*dims[:first], (axis,), *dims[first + len(given):]], cells)


@HANDLERS
def index_add(read, base, dim, rows, source, alpha=1):
    if alpha != 1:
        raise Gap("rows are added with a factor")
    return _put_back(read, base, read.dimension(source, dim), rows, source, True)


@HANDLERS
def index_copy(read, base, dim, rows, source):
    return _put_back(read, base, read.dimension(source, dim), rows, source, False)


@HANDLERS("index_put", "_unsafe_index_put")
def index_put(read, base, indices, source, accumulate=False):
    if len(indices) == 1 and is_order(indices[0]):
        return indices[0]               # the order back
    if len(indices) != 1:
        raise Gap("entries along several dimensions are put")
    return _put_back(read, base, 0, indices[0], source, accumulate)


def _put_back(read, base, dim, rows, source, accumulate: bool):
    if not isinstance(source, Tensor):
        raise Gap("constants are put into chosen rows")
    if not isinstance(rows, Tensor):
        raise Gap("rows are put where constants say")
    one = rows.cells.flat[0]
    selection = one.data[0] if one.operation == "row" else _selection(rows)
    kinds = [axis.kind for axis in source.dims[dim]]
    if kinds != ["selected"] or source.dims[dim][0].about != selection:
        raise Gap("other rows are put back than were taken")
    dims = [*source.dims[:dim], selection.axes, *source.dims[dim + 1:]]
    source = Tensor(dims, source.cells)
    base = read.operand(base, source)
    builder, mask = read.builder, selection.mask

    def put(old, new):
        if accumulate:
            return builder.add(old, builder.multiply(mask, new))
        if new.operation == "add" and old in new.arguments:
            (more,) = [one for one in new.arguments if one is not old] or [old]
            return builder.add(old, builder.multiply(mask, more))
        more = builder.add(new, builder.negative(old))
        return builder.add(old, builder.multiply(mask, more))
    return read.pointwise(put, base, source)


@HANDLERS("histc", "bincount")
def loads(read, x, *_, **__):
    """How many slots have chosen each expert."""
    if is_which(x):
        masks = masks_of(x)
        chosen_ones = Tensor([tuple(x.axes), (finite(len(masks)),)], array(masks, (len(masks),)))
        return sum_of_dimensions(read, chosen_ones, [0], False)
    if not is_expert(x) or any(axis.kind == "site slot" for axis in x.axes):
        return counted(read)
    (slot,) = [axis for axis in x.axes if axis.kind == "slot"]
    count = read.shapes()[0]
    if count != (slot.cells, slot.cells):
        return counted(read)
    rows = tuple(axis for axis in x.axes if axis is not slot)
    chosen_ones = Tensor([rows, (finite(slot.cells),)], array(slot.about.masks, (slot.cells,)))
    return sum_of_dimensions(read, chosen_ones, [0], False)


@HANDLERS("aminmax", "_local_scalar_dense", "item")
def counted(read, *_, **__):
    return read.missing("what was chosen is counted; leave it out of what the output is made of")

