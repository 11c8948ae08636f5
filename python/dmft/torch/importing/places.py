"""Operations of PyTorch along the tokens of an input, each a product with a constant matrix: which
tokens are taken, in which order, moved by how many, or summed up to each."""
from __future__ import annotations

import numpy as np

from dmft.torch.importing.axes import Axis
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.tensors import Tensor


def is_of_tokens(x, dim: int) -> bool:
    """Whether a dimension of a tensor is that of the tokens."""
    return isinstance(x, Tensor) and [axis.kind for axis in x.dims[dim]] == ["token"]


def count_of(x: Tensor, dim: int) -> int:
    """Of its tokens."""
    return x.dims[dim][0].size[0]


def along_tokens(builder, one, act):
    """act(rows), which is linear and goes along the tokens, of rows or of numbers; of numbers it is
    that of the rows that they are read from."""
    def again(part):
        return along_tokens(builder, part, act)
    if one.is_rows or "token" not in one.axes:
        return act(one)
    if one.operation == "times":
        return builder.times(one.data, again(one.arguments[0]))
    if one.operation == "pick" and one.arguments[0].operation in ("look", "add", "times"):
        return builder.pick(again(one.arguments[0]), one.data[0])
    if one.operation == "add":
        return builder.add(*map(again, one.arguments))
    if one.operation == "look":
        (x,), axes = map(again, one.arguments), one.axes
        return builder.make("look", (x,), one.data, None, axes & x.axes, one.width)
    return act(one)


def places_mixed(read, x: Tensor, dim: int, matrix) -> Tensor:
    """sum_t matrix[s][t] x[.., t, ..] along a dimension of tokens."""
    S = tuple(map(tuple, np.asarray(matrix, float).tolist()))

    def mixed(one):
        if "token" not in one.axes and all(sum(row) == 1 for row in S):
            return one
        known = read.builder.value(one)
        if known:
            data = tuple(tuple(sum(row) * value for value in known) for row in S)
            return one if known == (0.0, 0.0) else read.builder.make(
                "of_token", data=data, axes=frozenset({"token"}))
        if not one.is_rows:
            raise Gap("numbers of other tokens, which a program mixes of rows alone")
        return read.builder.make("mix_places", (one,), S, one.population)
    found = read.expressions(x).over(lambda one: along_tokens(read.builder, one, mixed))
    kept = Axis("token", (len(S),) * 2)
    return Tensor([*x.dims[:dim], (kept,), *x.dims[dim + 1:]], found.cells)


def taken(read, x: Tensor, dim: int, which) -> Tensor:
    """The tokens of these numbers, in this order."""
    return places_mixed(read, x, dim, np.eye(count_of(x, dim))[list(which)])


def moved(read, x: Tensor, dim: int, before: int, behind: int) -> Tensor:
    """With so many tokens of zeros before and behind; fewer than none are left out."""
    count = count_of(x, dim)
    matrix = np.zeros((count + before + behind, count))
    for s in range(len(matrix)):
        if 0 <= s - before < count:
            matrix[s, s - before] = 1
    return places_mixed(read, x, dim, matrix)


def joined(read, tensors, dim: int) -> Tensor:
    """One behind the other, along a dimension of tokens."""
    from dmft.torch.importing.pointwise import add
    counts = [count_of(one, dim) for one in tensors]
    found = None
    for k, one in enumerate(tensors):
        part = moved(read, one, dim, sum(counts[:k]), sum(counts[k + 1:]))
        found = part if found is None else add(read, found, part)
    return found


def put(read, base, x, dim: int, which) -> Tensor:
    """`base` with the tokens of these numbers replaced by those of x."""
    from dmft.torch.importing.pointwise import add
    count, which = read.shapes()[dim][0], list(which)
    whole = (Axis("token", (count,) * 2),)
    base = read.operand(base, Tensor([*x.dims[:dim], whole, *x.dims[dim + 1:]], x.cells))
    kept = np.eye(count)
    kept[which] = 0
    sent = np.zeros((count, len(which)))
    sent[which, range(len(which))] = 1
    return add(read, places_mixed(read, base, dim, kept), places_mixed(read, x, dim, sent))
