"""Experts that are chosen.

An axis of the K largest is read as one over all experts, what a slot holds if its expert is that
one; sums over it take the mask of the choice. One slot by itself has the sum over all experts, and
the expert in it is "which", with a mask for each.
"""
from __future__ import annotations

import dataclasses
import functools

import numpy as np

from dmft.torch.importing.axes import Axis, finite
from dmft.torch.importing.cut_off import larger
from dmft.torch.importing.expressions import Expression, Gap
from dmft.torch.importing.grouped import is_order, sorted_slots
from dmft.torch.importing.reading import HANDLERS
from dmft.torch.importing.reductions import sum_of_dimensions
from dmft.torch.importing.tensors import Constant, Missing, Tensor, array

NO_LARGEST = "the largest along {}, where a program has that of the numbers of a row, and of all " \
    "tokens that of rows"
OF_LARGEST = "use the largest itself"


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


@HANDLERS
def topk(read, x, k, dim=-1, largest=True, *_):
    dim = read.dimension(x, dim)
    if not largest:
        raise Gap("the smallest numbers are chosen")
    size = read.shapes()[dim]
    if [axis.kind for axis in x.dims[dim]] == ["token"]:
        order = read.builder.make("order", data=((), False))
        slot = Axis("token slot", size, about=Ranked(x))
        return [read.missing("numbers of the tokens chosen are used; a mask of these tokens, a "
                             "scatter of 1, is known"), Tensor(
            [*x.dims[:dim], (slot,), *x.dims[dim + 1:]], np.full(x.cells.shape, order, object))]
    return chosen(read, x, dim, size)


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
        found = [read.missing("sorted numbers are used"), Tensor(
            [*x.dims[:dim], (ranked,), *x.dims[dim + 1:]], np.full(x.cells.shape, order, object))]
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
    x, builder = read.expressions(x).merged(dim), read.builder
    axes = x.dims[dim]
    if [axis.kind for axis in axes] == ["input"]:
        raise Gap("the largest of all inputs, whose number may be any in a program; let each input "
                  "choose its experts, topk(.., -1)")
    if not axes and size == (1, 1):     # one of one, as of groups
        first = builder.make("expert", data=(0,))
        return [x, Tensor(x.dims, np.full(x.cells.shape, first, object))]
    if len(axes) != 1 or axes[0].kind not in ("finite", "sites"):
        raise Gap(NO_LARGEST.format(" and ".join(axis.kind for axis in axes)))
    if axes[0].kind == "sites":
        return _top_of_sites(read, x, dim, size)
    if any(one.is_rows for one in x.cells.flat):
        return _largest_of_rows(read, x, dim, size)
    if x.cells.ndim != 1:
        return _of_lists(read, x, dim, size)
    scores = unstopped(builder.list_of([_seen(builder, one) for one in x.cells]))
    slot = Axis("slot", size, about=_choice(read, scores, size[0]))
    dims = [*x.dims[:dim], (slot,), *x.dims[dim + 1:]]
    experts = [builder.make("expert", data=(k,)) for k in range(scores.width)]
    found = [Tensor(dims, x.cells), Tensor(dims, array(experts, x.cells.shape))]
    return [one_slot(read, one, dim, 0) for one in found] if size == (1, 1) else found


def _seen(builder, one: Expression) -> Expression:
    """A score, far below all others where it is hidden."""
    mask, score = builder.parts_of_chosen(one)
    return one if mask is None else builder.far_below(mask, score)


def _largest_of_rows(read, x: Tensor, dim: int, size):
    """The largest of a few rows at each site, as the units of a maxout network take it."""
    if size != (1, 1):
        raise Gap("the largest of several rows at each site, of which more than one is taken")
    cells = np.moveaxis(x.cells, x.place_of(dim), 0)
    found = [functools.reduce(lambda a, b: larger(read.builder, a, b), column)
             for column in cells.reshape(len(cells), -1).T]
    dims = [*x.dims[:dim], (), *x.dims[dim + 1:]]
    return [Tensor(dims, array(found, cells.shape[1:])),
            read.missing(f"which of several rows is the largest is used; {OF_LARGEST}")]


def _of_lists(read, x: Tensor, dim: int, size):
    """The sum over the largest of each of several lists of numbers is all that can be had."""
    place, made = x.place_of(dim), []
    cells = np.moveaxis(x.cells, place, -1)
    for index in np.ndindex(cells.shape[:-1]):
        scores = unstopped(read.builder.list_of([_seen(read.builder, one) for one in cells[index]]))
        choice = _choice(read, scores, size[0])
        made += [read.builder.multiply(mask, one) for mask, one in zip(choice.masks, cells[index])]
    slots = Axis("slots of lists", size, about=Choice(None, size[0], count=cells.shape[-1]))
    dims = [*x.dims[:dim], (slots,), *x.dims[dim + 1:]]
    found = Tensor(dims, np.moveaxis(array(made, cells.shape), -1, place))
    if size == (1, 1):
        found = read.tidied(sum_of_dimensions(read, found, [dim], True))
    return [found, read.missing("which are the largest of each of several lists of numbers is "
                                f"used; {OF_LARGEST}")]


def one_slot(read, x: Tensor, dim: int, k: int) -> Tensor:
    """What the slot of the (k + 1)-th largest has, along a dimension of one."""
    choice, builder = x.dims[dim][0].about, read.builder
    if k:
        tops = [_choice(read, choice.scores, count).masks for count in (k + 1, k)]
        masks = [builder.add(more, builder.negative(less)) for more, less in zip(*tops)]
    else:
        masks = _choice(read, choice.scores, 1).masks
    dims = [*x.dims[:dim], (), *x.dims[dim + 1:]]
    if is_expert(x):
        which = builder.make("which", data=(tuple(masks),))
        return Tensor(dims, array([which], ()))
    place = x.place_of(dim)
    cells = np.moveaxis(x.cells, place, -1)
    made = [_of_chosen(builder, masks, cells[at]) for at in np.ndindex(cells.shape[:-1])]
    if cells.ndim == 1 and builder.join(list(cells)) is choice.scores:
        read.__dict__.setdefault("kth", {})[id(made[0])] = choice.scores, k + 1
    return Tensor(dims, array(made, cells.shape[:-1]))


def some_slots(read, x: Tensor, dim: int, low: int, high: int) -> Tensor:
    """The slots of the largest alone, or one slot."""
    if high - low == 1:
        return one_slot(read, x, dim, low)
    if low:
        raise Gap(f"the slots {low + 1} to {high} of those chosen are taken")
    slot = Axis("slot", (high, high), about=_choice(read, x.dims[dim][0].about.scores, high))
    return Tensor([*x.dims[:dim], (slot,), *x.dims[dim + 1:]], x.cells)


def _of_chosen(builder, masks, cells) -> Expression:
    """The sum of masks times numbers or rows."""
    total = builder.multiply(masks[0], cells[0])
    for mask, one in zip(masks[1:], cells[1:]):
        total = builder.add(total, builder.multiply(mask, one))
    return total


def is_which(one) -> bool:
    """Whether an index is the one expert that was chosen."""
    return isinstance(one, Tensor) and not one.is_parameter and one.cells.size == 1 \
        and one.cells.flat[0].operation == "which"


def masks_of(index: Tensor) -> list:
    """Of the one expert that was chosen: 1 for it, else 0."""
    return list(index.cells.flat[0].data[0])


@HANDLERS("min", "amin", "argmin")
def smallest(read, x, dim=None, keepdim=False):
    values, which = largest(read, read.each(read.builder.negative, x), dim, keepdim)
    values = read.each(read.builder.negative, values)
    return {"amin": values, "argmin": which}.get(read.step[0].operation, [values, which])


@HANDLERS("max", "amax", "argmax")
def largest(read, x, dim=None, keepdim=False):
    every = range(len(x.dims)) if dim is None or dim == [] else dim
    dims = [read.dimension(x, d) for d in ([every] if isinstance(every, int) else every)]
    kinds = [axis.kind for d in dims for axis in x.dims[d]]
    if kinds == ["slot"]:               # of masks
        return sum_of_dimensions(read, x, dims, keepdim)
    if kinds == ["token"] and len(dims) == 1 and x.cells.flat[0].is_rows:
        return _largest_of_tokens(read, x, dims[0], keepdim)
    if kinds == ["source"]:             # which a softmax may have less of
        found = x.over(lambda one: read.builder.make("largest_of_sources", (one,), axes=one.axes))
        found = [Tensor([*x.dims[:dims[0]], *[()] * keepdim, *x.dims[dims[0] + 1:]], found.cells),
                 read.missing(f"which token attended to is the largest is used; {OF_LARGEST}")]
    elif len(dims) != 1 or set(kinds) != {"finite"}:
        raise Gap(NO_LARGEST.format(" and ".join(kinds)))
    else:
        found = chosen(read, x, dims[0], (1, 1))
    if not keepdim and kinds != ["source"]:
        found = [one if isinstance(one, Missing) else Tensor(
            [axes for d, axes in enumerate(one.dims) if d != dims[0]], one.cells) for one in found]
    return {"amax": found[0], "argmax": found[1]}.get(read.step[0].operation, found)


def _largest_of_tokens(read, x: Tensor, dim: int, keepdim: bool):
    """The largest of all tokens at each site, each the larger of two after the other."""
    from dmft.torch.importing.shapes import select
    found = functools.reduce(lambda one, two: read.pointwise(
        lambda a, b: larger(read.builder, a, b), one, two), (
            select(read, x, dim, t) for t in range(x.dims[dim][0].size[0])))
    dims = [*found.dims[:dim], (), *found.dims[dim:]] if keepdim else found.dims
    values = Tensor(dims, found.cells)
    which = read.missing(f"which of several tokens is the largest is used; {OF_LARGEST}")
    return {"amax": values, "argmax": which}.get(read.step[0].operation, [values, which])


def unstopped(one: Expression) -> Expression:
    """Scores of a choice, which passes no gradient on in any case."""
    return one.arguments[0] if one.operation == "stop" else one


def _choice(read, scores, top) -> Choice:
    """One for each choice, however often the module makes it."""
    kept, builder = read.__dict__.setdefault("choices", {}), read.builder
    if (id(scores), top) not in kept:
        mask = builder.make("top", (scores,), (top,))
        masks = [builder.pick(mask, k) for k in range(scores.width)]
        kept[id(scores), top] = Choice(scores, top, masks, None, len(masks))
    return kept[id(scores), top]


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
    x = read.expressions(x).merged(dim)
    slot = index.dims[dim]
    if not slot and not x.dims[dim] and is_expert(index):
        return x
    if is_which(index):
        masks, place = masks_of(index), x.place_of(dim)
        if [axis.cells for axis in x.dims[dim]] != [len(masks)]:
            raise Gap("entries are gathered by other than the experts chosen")
        cells = np.moveaxis(x.cells, place, -1)
        made = [_of_chosen(read.builder, masks, cells[at]) for at in np.ndindex(cells.shape[:-1])]
        return Tensor([*x.dims[:dim], (), *x.dims[dim + 1:]], array(made, cells.shape[:-1]))
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
def scatter(read, base, dim, index, source, **more):
    from dmft.torch.importing.pointwise import opposite, uniform
    if source == 0 and isinstance(base, Constant) and uniform(base) == (1, 1):
        zeros = Constant(tuple(0 * one for one in base.values))
        return opposite(read, scatter(read, zeros, dim, index, 1.0, **more))
    dim = read.dimension(index, dim) if isinstance(index, Tensor) else dim
    if isinstance(index, Tensor) and index.cells.flat[0].operation == "token":
        return _letters(read, base, dim, index)
    if is_which(index):
        return _one_of(read, base, dim, index, source)
    if not is_order(index) and not is_expert(index):
        raise Gap("entries are scattered by other than the experts chosen")
    if [axis.kind for axis in index.dims[dim]] == ["ranked"]:
        index = first_of(read, index, dim, index.dims[dim][0].size)
    kinds = [axis.kind for axis in index.dims[dim]]
    if kinds == ["token slot"]:
        return _first_tokens(read, base, dim, index, source)
    if not kinds and is_order(index):
        raise Gap("the tokens chosen are used one by one; a mask of them, a scatter of 1 along the "
                  "tokens, is known")
    if not kinds:
        return _one_hot(read, base, dim, index, source)
    if kinds[-1] == "slot" and set(kinds[:-1]) <= {"input", "token"} and len(kinds) > 1 \
            and read.step[0].operation.startswith("scatter_add"):
        return _added_up(read, base, dim, index, source, more)
    if kinds not in (["slot"], ["site slot"]):
        raise Gap(f"entries are scattered along {' and '.join(kinds)}")
    choice, builder = index.dims[dim][0].about, read.builder
    source = read.operand(source, index) if not isinstance(source, Tensor) else \
        read.expressions(source)
    source = source if len(source.dims) else Tensor(index.dims, np.full(
        index.cells.shape, source.cells.flat[0], object))
    hidden = _nothing(base)
    if kinds == ["site slot"]:
        if hidden:
            raise Gap("entries are scattered over other than zeros")
        found = source.over(lambda one: builder.multiply(choice.mask, one))
        axis = Axis("sites", choice.mask.population.find().sizes)
    else:
        masks = np.array(choice.masks, object)
        place = source.place_of(dim)
        shape = [1] * source.cells.ndim
        shape[place] = len(masks)
        cells = [_put(builder, m, one, hidden) for m, one in zip(np.broadcast_to(
            masks.reshape(shape), source.cells.shape).flat, source.cells.flat)]
        found, axis = Tensor(source.dims, array(cells, source.cells.shape)), finite(choice.count)
    dims = [*index.dims[:dim], (axis,), *index.dims[dim + 1:]]
    return read.tidied(Tensor(dims, found.cells))


def _added_up(read, base, dim, index, source, more):
    """What all tokens of a sequence send to their experts: the sum over the tokens."""
    def apart(one):
        axes = one.dims[dim]
        return Tensor([*one.dims[:dim], axes[:-1], axes[-1:], *one.dims[dim + 1:]], one.cells)
    if isinstance(source, Constant):
        source = read.operand(source, index)
    source = apart(source) if isinstance(source, Tensor) else source
    base = Constant(tuple(np.expand_dims(one, dim) for one in base.values)) if isinstance(
        base, Constant) else base
    return sum_of_dimensions(read, scatter(read, base, dim + 1, apart(index), source, **more),
                             [dim], False)


def _nothing(base) -> bool:
    """Whether entries are put over minus infinity; what is no zero otherwise is refused."""
    if isinstance(base, Constant) and all((one < -1e30).all() for one in base.values):
        return True
    _only_zero(base)
    return False


def _put(builder, mask, one, hidden: bool):
    """Where a mask is 1, over zeros or, hidden, over minus infinity."""
    return builder.make("chosen", (mask, one)) if hidden else builder.multiply(mask, one)


def _one_of(read, base, dim, index, source):
    """An entry of the one expert that was chosen, as a list of all."""
    hidden, masks, builder = _nothing(base), masks_of(index), read.builder
    if not isinstance(source, Tensor) or isinstance(source, Constant):
        source = read.operand(source, Tensor(index.dims, array([builder.constant((1, 1))], ())))
    source = read.expressions(source)
    if source.cells.size != 1:
        raise Gap("several entries are scattered for one expert")
    made = [_put(builder, mask, source.cells.flat[0], hidden) for mask in masks]
    dims = [*index.dims[:dim], (finite(len(masks)),), *index.dims[dim + 1:]]
    return read.tidied(Tensor(dims, array(made, (len(masks),))))


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
    if base.values[1].shape[dim] != count:
        raise Gap("a one_hot of a growing number of experts; a mask of those chosen is "
                  "torch.zeros_like(scores).scatter(-1, index, 1.0)")
    builder = read.builder
    cells = [builder.constant((float(one.data[0] == e),) * 2) for one in index.cells.flat
             for e in range(count)]
    dims = [*index.dims[:dim], (finite(count),), *index.dims[dim + 1:]]
    place = index.place_of(dim)
    grid = array(cells, (*index.cells.shape, count))
    return Tensor(dims, np.moveaxis(grid, -1, place))
