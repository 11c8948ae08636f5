"""Experts that are chosen, and rows that are sent to them.

An axis of the K largest is read as one over all experts, what a slot holds if its expert is that
one; sums over it take the mask of the choice. Rows that a mask selects are read as all rows, and
multiplied by the mask where they are put back.
"""
from __future__ import annotations

import dataclasses

import numpy as np

from dmft.torch.importing.axes import Axis, finite
from dmft.torch.importing.expressions import Expression, Gap
from dmft.torch.importing.grouped import by_expert, in_order, is_order, sorted_slots
from dmft.torch.importing.products import embedding
from dmft.torch.importing.reading import HANDLERS
from dmft.torch.importing.reductions import sum_of_dimensions
from dmft.torch.importing.tensors import Constant, Missing, Tensor, array


@dataclasses.dataclass(eq=False)
class Choice:
    """The `top` largest of `scores`; `masks`: 1 for the experts chosen, else 0. Of experts that
    grow with the width `mask` are rows, and `count` is None."""
    scores: Expression
    top: object
    masks: list | None = None
    mask: Expression | None = None
    count: int | None = None


@dataclasses.dataclass(eq=False)
class Ranked:
    """What has been sorted."""
    scores: Tensor


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


@HANDLERS
def topk(read, x, k, dim=-1, largest=True, *_):
    dim = read.dimension(x, dim)
    if not largest:
        raise Gap("the smallest numbers are chosen")
    return chosen(read, x, dim, read.shapes()[dim])


@HANDLERS("sort", "argsort")
def sort(read, x, *given, dim=-1, descending=False, stable=None, **_):
    """Of all, of which the first are the largest; of experts that have been chosen, see grouped."""
    words = [one for one in given if not isinstance(one, bool) and one is not None]
    dim = read.dimension(x, words[0] if words else dim)
    descending = descending or True in [one for one in given if isinstance(one, bool)]
    if is_expert(x):
        found = sorted_slots(read, x)
    elif not descending or [axis.kind for axis in x.dims[dim]] not in (
            ["finite"], ["sites"], ["token"]):
        raise Gap("numbers are sorted, and not to find the largest")
    else:
        (axis,) = x.dims[dim]
        ranked = Axis("ranked", axis.size, about=Ranked(x))
        order = read.builder.make("order", data=((ranked,), False))
        found = [Missing("sorted numbers are used"), Tensor(
            [*x.dims[:dim], (ranked,), *x.dims[dim + 1:]], array([order], ()))]
    return found[1] if read.step[0].operation == "argsort" else found


def first_of(read, ranks: Tensor, dim: int, count) -> Tensor:
    """The first of what has been sorted, as what is chosen."""
    ranked = ranks.dims[dim][0].about
    if [axis.kind for axis in ranked.scores.dims[dim]] == ["token"]:
        slot = Axis("token slot", count, about=ranked)
        return Tensor([*ranks.dims[:dim], (slot,), *ranks.dims[dim + 1:]], ranks.cells)
    return chosen(read, ranked.scores, dim, count)[1]


def chosen(read, x: Tensor, dim: int, size) -> list[Tensor]:
    """The values and the experts of the largest along a dimension."""
    x, builder = read.expressions(x), read.builder
    axes = x.dims[dim]
    if len(axes) != 1 or axes[0].kind not in ("finite", "sites"):
        raise Gap(f"the largest along {' and '.join(axis.kind for axis in axes)}")
    if axes[0].kind == "sites":
        return _top_of_sites(read, x, dim, size)
    if x.cells.ndim != 1:
        raise Gap("the largest of each of several lists of numbers")
    scores = builder.join(list(x.cells))
    if scores is None or scores.width != len(x.cells):
        raise Gap("the largest of numbers that are computed one by one")
    scores = unstopped(scores)
    top = builder.make("top", (scores,), (size[0],))
    masks = [builder.pick(top, k) for k in range(scores.width)]
    slot = Axis("slot", size, about=_choice(read, scores, size[0], masks))
    dims = [*x.dims[:dim], (slot,), *x.dims[dim + 1:]]
    experts = [builder.make("expert", data=(k,)) for k in range(scores.width)]
    return [Tensor(dims, x.cells), Tensor(dims, array(experts, x.cells.shape))]


def unstopped(one: Expression) -> Expression:
    """Scores of a choice, which passes no gradient on in any case."""
    return one.arguments[0] if one.operation == "stop" else one


def _choice(read, scores, top, masks) -> Choice:
    """One for each choice, however often the module makes it."""
    kept = read.__dict__.setdefault("choices", {})
    return kept.setdefault((id(scores), top), Choice(scores, top, masks, None, len(masks)))


def _top_of_sites(read, x: Tensor, dim: int, size):
    if x.cells.size != 1:
        raise Gap("the largest of several populations")
    rows = unstopped(x.cells.flat[0])
    if rows.operation == "times" and min(rows.data) > 0:
        rows = rows.arguments[0]        # whose largest are the same
    top = read.builder.make("top", (rows,), (size,), rows.population)
    slot = Axis("site slot", size, about=Choice(rows, size, mask=top))
    dims = [*x.dims[:dim], (slot,), *x.dims[dim + 1:]]
    marker = read.builder.make("expert", data=("site",))
    return [Tensor(dims, x.cells), Tensor(dims, array([marker], x.cells.shape))]


@HANDLERS
def gather(read, x, dim, index, **_):
    if isinstance(index, Constant):
        raise Gap("entries are gathered by constants")
    dim = read.dimension(index, dim)
    x = read.expressions(x)
    slot = index.dims[dim]
    if [axis.kind for axis in slot] == ["site slot"] and is_expert(index):
        return Tensor([*x.dims[:dim], slot, *x.dims[dim + 1:]], x.cells)
    if [axis.kind for axis in slot] != ["slot"] or not is_expert(index) \
            or [axis.cells for axis in x.dims[dim]] != [slot[0].cells]:
        raise Gap("entries are gathered by other than the experts chosen")
    return Tensor([*x.dims[:dim], slot, *x.dims[dim + 1:]], x.cells)


def is_expert(index) -> bool:
    """Whether an index says which experts have been chosen."""
    return isinstance(index, Tensor) and not index.is_parameter \
        and index.cells.flat[0].operation == "expert"


@HANDLERS("scatter", "scatter_add")
def scatter(read, base, dim, index, source, **_):
    dim = read.dimension(index, dim) if isinstance(index, Tensor) else dim
    if isinstance(index, Tensor) and index.cells.flat[0].operation == "token":
        return _letters(read, base, dim, index)
    if not is_order(index) and not is_expert(index):
        raise Gap("entries are scattered by other than the experts chosen")
    if [axis.kind for axis in index.dims[dim]] == ["ranked"]:
        index = first_of(read, index, dim, index.dims[dim][0].size)
    kinds = [axis.kind for axis in index.dims[dim]]
    if kinds == ["token slot"]:
        return _first_tokens(read, base, dim, index, source)
    if not kinds:
        return _one_hot(read, base, dim, index, source)
    if kinds not in (["slot"], ["site slot"]):
        raise Gap(f"entries are scattered along {' and '.join(kinds)}")
    choice, builder = index.dims[dim][0].about, read.builder
    source = read.operand(source, index) if not isinstance(source, Tensor) else \
        read.expressions(source)
    source = source if len(source.dims) else Tensor(index.dims, np.full(
        index.cells.shape, source.cells.flat[0], object))
    _only_zero(base)
    if kinds == ["site slot"]:
        found = source.over(lambda one: builder.multiply(choice.mask, one))
        axis = Axis("sites", choice.mask.population.find().sizes)
    else:
        masks = np.array(choice.masks, object)
        place = source.place_of(dim)
        shape = [1] * source.cells.ndim
        shape[place] = len(masks)
        cells = [builder.multiply(m, one) for m, one in zip(np.broadcast_to(
            masks.reshape(shape), source.cells.shape).flat, source.cells.flat)]
        found, axis = Tensor(source.dims, array(cells, source.cells.shape)), finite(choice.count)
    dims = [*index.dims[:dim], (axis,), *index.dims[dim + 1:]]
    return read.tidied(Tensor(dims, found.cells))


def _first_tokens(read, base, dim, index, source):
    """1 at the tokens with the largest numbers, else 0."""
    _only_zero(base)
    if source != 1:
        raise Gap("other than 1 is scattered to the tokens chosen")
    slot = index.dims[dim][0]
    x, builder = read.expressions(slot.about.scores), read.builder
    return read.tidied(x.over(lambda one: builder.make(
        "top_rows", (unstopped(one),), (slot.size[0],), one.population)))


def _only_zero(base) -> None:
    if not isinstance(base, Constant) or any((one != 0).any() for one in base.values):
        raise Gap("entries are scattered over other than zeros")


def _letters(read, base, dim, index):
    """Tokens as lists of 0 and 1."""
    _only_zero(base)
    count = base.values[0].shape[dim]
    cells = [read.builder.make("letter", data=(v,), axes=frozenset({"token"}))
             for v in range(count)]
    dims = [*index.dims[:dim], (finite(count),), *index.dims[dim + 1:]]
    return Tensor(dims, array(cells, (count,)))


def _one_hot(read, base, dim, index, source):
    """The choice of each slot as a list of 0 and 1."""
    _only_zero(base)
    if source != 1:
        raise Gap("entries are scattered along an axis of one")
    count = base.values[0].shape[dim]
    builder = read.builder
    cells = [builder.constant((float(one.data[0] == e),) * 2) for one in index.cells.flat
             for e in range(count)]
    dims = [*index.dims[:dim], (finite(count),), *index.dims[dim + 1:]]
    place = index.place_of(dim)
    grid = array(cells, (*index.cells.shape, count))
    return Tensor(dims, np.moveaxis(grid, -1, place))


# --- rows that a mask selects ----------------------------------------------------------------

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
        slot = any(axis.kind == "slot" for axis in axes)
        columns.append(builder.make("expert", data=(selection.expert,)) if slot else
                       builder.make("row", data=(selection, axes)))
    dims = [(Axis("selected", read.shapes()[0], about=selection),), (finite(len(columns)),)]
    return Tensor(dims, array(columns, (len(columns),)))


@HANDLERS
def index(read, x, indices):
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


def _of_constant(read, x: Constant) -> Constant:
    """Entries of a constant that are all alike."""
    if any((one != one.flat[0]).any() for one in x.values):
        raise Gap("entries of a constant are chosen by data")
    return Constant(tuple(np.full(tuple(step.results[0].shape), one.flat[0])
                          for step, one in zip(read.step, x.values)))


def _is_mask(read, one: Tensor) -> bool:
    return read.step[0].arguments[1] is not None and any(
        getattr(given, "dtype", None) is not None and str(given.dtype) == "torch.bool"
        for given in read.step[0].arguments[1] if given is not None)


def _by_constants(read, x, indices):
    from dmft.torch.importing.products import chosen_rows
    known = [k for k, one in enumerate(indices) if one is not None]
    if len(known) != 1:
        raise Gap("entries are chosen by several constants")
    (k,) = known
    order = [k, *(d for d in range(len(x.dims)) if d != k)]
    found = chosen_rows(x.permute(order), indices[k])
    added = len(found.dims) - len(x.dims) + 1
    back = [d + added for d in range(k)]
    return found.permute([*back, *range(added), *range(added + k, len(found.dims))][:len(
        found.dims)]) if k else found


def _by_mask(read, x: Tensor, first: int, mask: Tensor):
    selection = _selection(mask)
    count = len(mask.dims)
    rows = tuple(axis for axes in x.dims[first:first + count] for axis in axes)
    if rows != selection.axes or selection.expert is not None:
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
    selection = _rows_of(rows)
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


def _rows_of(rows) -> Selection:
    if not isinstance(rows, Tensor):
        raise Gap("rows are put where constants say")
    one = rows.cells.flat[0]
    if one.operation == "row":
        return one.data[0]
    return _selection(rows)


@HANDLERS("histc", "bincount")
def loads(read, x, *_, **__):
    """How many slots have chosen each expert."""
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
    return Missing(f"{read.step[0].operation} counts what was chosen ({read.step[0].place})")

