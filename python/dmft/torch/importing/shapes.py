"""Operations of PyTorch that arrange what is there already."""
from __future__ import annotations

import numpy as np

from dmft.torch.importing.axes import Axis, cells_shape, ends_of, finite, fractions_of, length
from dmft.torch.importing.choices import first_of, one_slot, some_slots
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.places import count_of, is_of_tokens, joined, moved, places_mixed, put, \
    taken
from dmft.torch.importing.reading import HANDLERS, Two, pair
from dmft.torch.importing.tensors import SINKS, Constant, Meeting, Tensor, array


@HANDLERS("view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten", "squeeze",
          "unsqueeze")
def view(read, x, *_):
    return x.view(read.shapes())


@HANDLERS("t", "numpy_T")
def turned(read, x):
    return x.permute(list(range(len(x.dims)))[::-1])


@HANDLERS
def transpose(read, x, one, two):
    order = list(range(len(x.dims)))
    order[one], order[two] = order[two], order[one]
    return x.permute(order)


@HANDLERS
def permute(read, x, order):
    return x.permute([read.dimension(x, d) for d in order])


@HANDLERS
def detach(read, x):
    """Parameters of more than one axis are matrices, which cannot be held back."""
    return x if x.is_parameter and len(x.dims) > 1 else read.each(read.builder.stop, x)


@HANDLERS
def expand(read, x, *_, **__):
    sizes = read.shapes()
    dims = [()] * (len(sizes) - len(x.dims)) + list(x.dims)
    for k, size in enumerate(sizes):
        if length(dims[k]) != size:
            dims[k] = (Axis("copy", size),)
    return Tensor(dims, x.cells)


@HANDLERS
def repeat(read, x, times):
    """Each dimension so many times over, one behind the other."""
    dims = [()] * (len(times) - len(x.dims)) + list(x.dims)
    copies = [(Axis("copy", tuple(map(int, pair(k)))),) if k != 1 else () for k in times]
    return Tensor([(*copy, *axes) for copy, axes in zip(copies, dims)], x.cells)


@HANDLERS
def select(read, x, dim, index):
    dim = read.dimension(x, dim)
    axes = x.dims[dim]
    if not axes or axes[0].kind == "copy" and len(axes) == 1:
        return Tensor([*x.dims[:dim], *x.dims[dim + 1:]], x.cells)
    if len(axes) == 1 and axes[0].kind == "slot" and isinstance(index, int):
        found = one_slot(read, x, dim, index % axes[0].size[0])
        return Tensor([*found.dims[:dim], *found.dims[dim + 1:]], found.cells)
    if is_of_tokens(x, dim) and isinstance(index, int):
        from dmft.torch.importing.reductions import sum_of_dimensions
        return sum_of_dimensions(read, taken(read, x, dim, [index]), [dim], False)
    if isinstance(index, Two) or any(axis.kind != "finite" for axis in axes):
        kinds = " and ".join(axis.kind for axis in axes)
        raise Gap(f"one entry is taken along an axis of {kinds}")
    place = x.place_of(dim)
    count = len(axes)
    shape = x.cells.shape
    merged = x.cells.reshape(*shape[:place], -1, *shape[place + count:])
    return Tensor([*x.dims[:dim], *x.dims[dim + 1:]], array_of(merged.take(int(index), place)))


def array_of(cells) -> np.ndarray:
    """What numpy gives, as an array."""
    if isinstance(cells, np.ndarray):
        return cells
    return array([cells], ())


WHOLE = 2 ** 62         # where a slice without an end ends, or beyond


@HANDLERS("slice")
def part(read, x, dim=0, start=None, stop=None, step=1):
    dim = read.dimension(x, dim)
    total = length(x.dims[dim])
    whole = start in (None, 0) and (stop is None or isinstance(stop, int) and stop >= total[0])
    if is_of_tokens(x, dim) and not (whole and step == 1):
        return taken(read, x, dim, range(*slice(start, stop, step).indices(total[0])))
    if step != 1:
        return _every(x, dim, start or 0, stop, step)
    low, high = _bounds(start, stop, total)
    if [axis.kind for axis in x.dims[dim]] == ["selected"] and (
            start not in (None, 0) or stop is not None and min(pair(stop)) < WHOLE):
        raise Gap("some of the rows that an expert has are taken, as up to a capacity; a program "
                  "has no order of its inputs: let each expert have all rows that choose it")
    if [axis.kind for axis in x.dims[dim]] == ["ranked"] and low == (0, 0) and high != total:
        return first_of(read, x, dim, high)
    if low == high:                     # the rest behind rotary positions that turn whole heads
        return Constant(tuple(np.zeros(tuple(step.results[0].shape)) for step in read.step))
    if [axis.kind for axis in x.dims[dim]] == ["slot"] and (low, high) != ((0, 0), total):
        return some_slots(read, x, dim, low[0], high[0])
    return range_of(x, dim, low, high)


def _bounds(start, stop, total):
    """Where a slice begins and ends, both at both widths."""
    return (tuple(min(max(int(v) + (size if v < 0 else 0), 0), size)
                  for v, size in zip(pair(default if given is None else given), total))
            for given, default in ((start, 0), (stop, WHOLE)))


def _every(x: Tensor, dim: int, start, stop, step) -> Tensor:
    """Every so many-th entry of a whole dimension."""
    axes, total = x.dims[dim], length(x.dims[dim])
    kinds = [axis.kind for axis in axes]
    if not isinstance(start, int) or not 0 <= start < step or stop is not None and min(
            pair(stop)) < max(total):
        raise Gap(f"every {step}-th entry of a part is taken")
    if kinds == ["sites"]:
        x.cut(axes[0], ("strided", step))
    if kinds == ["sites", "finite"] and axes[1].size == (step, step):
        place = x.place_of(dim) + len(cells_shape([axes[:1]]))
        return Tensor([*x.dims[:dim], axes[:1], *x.dims[dim + 1:]],
                      array_of(x.cells.take(start, place)))
    if kinds == ["finite"]:
        taken = range(start, axes[0].size[0], step)
        return Tensor([*x.dims[:dim], (finite(len(taken)),), *x.dims[dim + 1:]],
                      array_of(x.cells.take(taken, x.place_of(dim))))
    raise Gap(f"every {step}-th entry is taken along an axis of {' and '.join(kinds)}")


def range_of(x: Tensor, dim: int, low, high) -> Tensor:
    """The entries of a dimension from low to high, both at both widths."""
    if low == (0, 0) and high == length(x.dims[dim]):
        return x
    x = x.merged(dim)
    axes = x.dims[dim]
    if axes and axes[0].kind == "finite" and low[0] == low[1] and high[0] == high[1] \
            and len(axes) == 1:
        taken, axes = range(low[0], high[0]), (finite(high[0] - low[0]),)
        if len(taken) == 1:             # a dimension of one goes with any other
            taken, axes = taken[0], ()
        return Tensor([*x.dims[:dim], axes, *x.dims[dim + 1:]],
                      array_of(x.cells.take(taken, x.place_of(dim))))
    kinds = [axis.kind for axis in axes]
    if "slot" in kinds:
        raise Gap("rows that are sorted by their experts are taken apart by how many each expert "
                  "has; a loop over the experts with a mask of its rows is known")
    if kinds == ["sites"]:
        inside = [end for end in (low, high) if end != (0, 0) and end != length(axes)]
        x.cut(axes[0], ("at", fractions_of(inside, length(axes))))
    if kinds[:2] != ["finite", "sites"] or set(kinds[2:]) > {"finite"}:
        raise Gap(f"a part of an axis of {' and '.join(kinds)}")
    return _some_parts(x, dim, low, high)


def _some_parts(x: Tensor, dim: int, low, high) -> Tensor:
    first, sites, *turns = x.dims[dim]
    sizes = first.segments or (sites.size,) * first.size[0]
    ends = [tuple(k * end for end, k in zip(one, length(turns)))
            for one in ((0, 0), *ends_of(sizes), tuple(map(sum, zip(*sizes))))]
    place = x.place_of(dim)
    for end in (low, high):
        if end not in ends and turns:
            raise Gap("a part of sites that are taken in turn, of which a program has all")
        if end not in ends:
            k = next(k for k in range(len(sizes)) if ends[k][0] < end[0] < ends[k + 1][0])
            inside = tuple(b - a for a, b in zip(ends[k], end))
            Tensor([], x.cells.take([k], place)).cut(
                sites, ("at", fractions_of([inside], sizes[k])))
    taken = range(ends.index(low), ends.index(high))
    cells, sizes = x.cells.take(taken, place), tuple(sizes[k] for k in taken)
    axes = (*parts_axes(sizes, sites.about), *turns)
    return Tensor([*x.dims[:dim], axes, *x.dims[dim + 1:]],
                  cells if len(sizes) > 1 else cells.take(0, place)
                  if cells.ndim > 1 else array_of(cells[0]))


def parts_axes(sizes, about=None) -> tuple[Axis, ...]:
    """Axes of parts of these sizes, one behind the other; about: which axis of a parameter."""
    if len(sizes) == 1:
        return (Axis("sites", sizes[0], about=about),)
    segments = tuple(sizes) if len(set(sizes)) > 1 else None
    return Axis("finite", (len(sizes),) * 2, segments), Axis("sites", sizes[0], about=about)


@HANDLERS("split", "unsafe_split", "split_with_sizes", "chunk", "tensor_split")
def split(read, x, sizes, dim=0):
    dim = read.dimension(x, dim)
    low, parts = (0, 0), []
    for k in range(len(read.step[0].results)):
        size = read.shapes(k)[dim]
        high = tuple(a + b for a, b in zip(low, size))
        parts.append(range_of(x, dim, low, high))
        low = high
    return parts


@HANDLERS
def glu(read, x, dim=-1):
    from dmft.torch.importing.pointwise import mul
    dim = read.dimension(x, dim)
    half = tuple(size // 2 for size in length(x.dims[dim]))
    one, gate = range_of(x, dim, (0, 0), half), range_of(x, dim, half, length(x.dims[dim]))
    return mul(read, one, read.each(lambda cell: read.builder.function("sigmoid", cell), gate))


@HANDLERS
def unbind(read, x, dim=0):
    return [select(read, x, dim, k) for k in range(len(read.step[0].results))]


@HANDLERS
def cat(read, tensors, dim=0):
    tensors = [one for one in tensors if not isinstance(one, Constant) or one.values[0].size]
    if len(tensors) == 1:
        return tensors[0]
    like = next(one for one in tensors if isinstance(one, Tensor))
    dim = read.dimension(like, dim)
    made = [read.expressions(one) if isinstance(one, Tensor) else
            read.operand(one, _as_long(like, dim, one)) for one in tensors]
    if any(is_of_tokens(one, dim) for one in made) and all(
            is_of_tokens(one, dim) or not one.dims[dim] and (
                one.cells.flat[0].is_rows or read.builder.value(one.cells.flat[0]))
            for one in made):
        made = _alike_beside(read, made, dim)
        return joined(read, made, dim)
    others = [[axes for d, axes in enumerate(one.dims) if d != dim] for one in made]
    if any([length(a) for a in one] != [length(a) for a in others[0]] for one in others):
        raise Gap("tensors of different shapes are joined")
    made = _alike_beside(read, made, dim)
    place = made[0].place_of(dim)
    made, turns = _turned(made, dim)
    sizes, parts = [], []
    for one in made:
        axes = one.dims[dim][:len(one.dims[dim]) - len(turns)]
        kinds = [axis.kind for axis in axes]
        if kinds == ["sites"]:
            sizes.append(axes[0].size)
            parts.append(np.expand_dims(one.cells, place))
        elif kinds == ["finite", "sites"]:
            sizes += axes[0].segments or [axes[1].size] * axes[0].size[0]
            parts.append(one.cells)
        elif kinds == ["finite"]:
            sizes += [None] * axes[0].size[0]
            parts.append(one.cells)
        elif not kinds:
            sizes.append(None)
            parts.append(np.expand_dims(one.cells, place))
        else:
            raise Gap(SINKS if kinds == ["source"] else f"axes of {' and '.join(kinds)} are joined"
                      + "; tokens of the module's own go before rows of numbers [P, n, D], and not "
                      "before letters" * (kinds == ["token"]))
    if None in sizes and any(size is not None for size in sizes):
        raise Gap("sites and single numbers are joined; read each by a layer of its own, and add "
                  "what these give, as Linear(N, n)(h) + Linear(D, n)(x)")
    axes = (finite(len(sizes)),) if sizes[0] is None else (*parts_axes(sizes), *turns)
    dims = list(made[0].dims)
    dims[dim] = axes
    found = Tensor(dims, np.concatenate(parts, place).reshape(cells_shape(dims)))
    return read.with_tokens(found, dim) if len(dims) == 3 and not found.is_parameter \
        and found.cells.flat[0].is_rows else found


def _turned(tensors, dim: int):
    """(tensors that are to be joined, the written-out axes behind the sites of all of them, which
    are taken in turn). What is constant along as many sites is one of them."""
    def behind(axes):
        kinds = [axis.kind for axis in axes]
        return axes[kinds.index("sites") + 1:] if "sites" in kinds else ()
    turns = max((behind(one.dims[dim]) for one in tensors), key=len)
    found, sites = [], any(axis.kind == "sites" for one in tensors for axis in one.dims[dim])
    for one in tensors:
        axes = one.dims[dim]
        kinds = [axis.kind for axis in axes]
        if kinds == ["copy"] and sites:
            for turn in turns:
                one = one.refined(dim, 0, turn.size).with_axis(dim, 1, turn)
            one = one.with_axis(dim, 0, Axis("sites", one.dims[dim][0].size))
        elif kinds == ["sites"] and len(turns) == 1:
            one.cut(axes[0], ("strided", turns[0].size[0]))
        elif "sites" in kinds and behind(axes) != turns:
            raise Gap("sites of which some are taken in turn and others are not are joined; let "
                      "rotary positions go by halves everywhere (rope_interleave=False in "
                      "transformers), which is the same network but for the order of its rows")
        found.append(one)
    return found, turns


def _alike_beside(read, tensors, dim):
    """Tensors with the same axes in all dimensions but one."""
    tensors = list(tensors)
    for k in [*range(1, len(tensors)), *range(1, len(tensors) - 1)]:
        meeting = Meeting(read.builder, tensors[0], tensors[k])
        for d in range(len(tensors[0].dims)):
            if d != dim and tensors[0].dims[d] != tensors[k].dims[d]:
                meeting.align((d, d))
        tensors[0], tensors[k] = meeting.tensors
    return tensors


def _as_long(like: Tensor, dim: int, known: Constant) -> Tensor:
    """A tensor whose dimensions are those of a constant that is joined to it along one."""
    size = tuple(values.shape[dim] for values in known.values)
    axes = like.dims[dim] if length(like.dims[dim]) == size else \
        (finite(size[0]),) if size[0] == size[1] else (Axis("copy", size),)
    dims = [*like.dims[:dim], axes, *like.dims[dim + 1:]]
    return Tensor(dims, np.broadcast_to(like.cells.flat[0], cells_shape(dims)))


@HANDLERS
def stack(read, tensors, dim=0):
    made = [read.operand(one, next(t for t in tensors if isinstance(t, Tensor)))
            for one in tensors]
    dim = dim % (len(made[0].dims) + 1)
    opened = [Tensor([*one.dims[:dim], (), *one.dims[dim:]], one.cells) for one in made]
    return cat(read, opened, dim)


@HANDLERS
def constant_pad_nd(read, x, sizes, value=0):
    if value != 0:
        raise Gap("tokens that are not 0 are added by padding; give value=0")
    for k in range(len(sizes) // 2):
        before, behind = sizes[2 * k:2 * k + 2]
        dim = len(x.dims) - 1 - k
        if before or behind:
            if [axis.kind for axis in x.dims[dim]] == ["source"]:
                raise Gap(SINKS)
            if not is_of_tokens(x, dim):
                raise Gap("zeros are added along an axis that is not that of the tokens, "
                          "which alone can be moved; pad what the layer before it reads, [P, n, D]")
            x = moved(read, x, dim, before, behind)
    return x


@HANDLERS
def roll(read, x, shifts, dims=()):
    for shift, dim in zip(shifts, [read.dimension(x, d) for d in dims] or [None]):
        if dim is None or not is_of_tokens(x, dim):
            raise Gap("what is moved or turned round is not along the tokens")
        x = taken(read, x, dim, np.roll(range(count_of(x, dim)), shift))
    return x


@HANDLERS("tril", "triu")
def triangle(read, x, diagonal=0):
    """A part of a matrix of numbers, the rest of which is 0."""
    x = read.expressions(x)
    if [[axis.kind for axis in axes] for axes in x.dims[-2:]] != [["finite"], ["finite"]]:
        raise Gap("a triangle of other than written-out numbers")
    keep = getattr(np, read.step[0].operation)(np.ones(x.cells.shape[-2:]), diagonal)
    zero = read.builder.constant((0.0, 0.0))
    cells = [one if kept else zero for one, kept in zip(
        x.cells.flat, np.broadcast_to(keep, x.cells.shape).flat)]
    return Tensor(x.dims, array(cells, x.cells.shape))


@HANDLERS
def flip(read, x, dims):
    for dim in [read.dimension(x, d) for d in dims]:
        if not is_of_tokens(x, dim):
            raise Gap("what is moved or turned round is not along the tokens")
        x = taken(read, x, dim, range(count_of(x, dim))[::-1])
    return x


@HANDLERS
def cumsum(read, x, dim, **_):
    dim = read.dimension(x, dim)
    if not is_of_tokens(x, dim):
        raise Gap("a running sum along an axis that is not that of the tokens, as of places within "
                  "the capacity of an expert; a program drops no token")
    return places_mixed(read, x, dim, np.tri(count_of(x, dim)))


@HANDLERS
def copy(read, x, source, *_):
    return expand(read, read.operand(source, x))


@HANDLERS
def slice_scatter(read, x, source, dim=0, start=None, stop=None, step=1):
    dim = read.dimension(source, dim)
    total = read.shapes()[dim]
    if is_of_tokens(source, dim):
        return put(read, x, source, dim, range(*slice(start, stop, step).indices(total[0])))
    if step != 1:
        raise Gap(f"every {step}-th entry is written in place; join the parts by torch.cat, or "
                  "stack and flatten them")
    low, high = _bounds(start, stop, total)
    around = [part_of(x, dim, (0, 0), low), part_of(x, dim, high, total)]
    return cat(read, [one for one in (around[0], source, around[1]) if one is not None], dim)


def part_of(x, dim: int, low, high):
    """The entries from low to high of a tensor or of a constant; None where there are none."""
    if low == high:
        return None
    if isinstance(x, Constant):
        return Constant(tuple(values.take(range(a, b), dim)
                              for values, a, b in zip(x.values, low, high)))
    return range_of(x, dim, low, high)
