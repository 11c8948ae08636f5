"""Operations of PyTorch along the tokens of an input, each a product with a constant matrix: which
tokens are taken, in which order, moved by how many, or summed up to each."""
from __future__ import annotations

import numpy as np

from dmft.torch.importing.axes import Axis, MoreTokens
from dmft.torch.importing.expressions import Gap
from dmft.torch.importing.graph import ordered
from dmft.torch.importing.reading import HANDLERS, pair
from dmft.torch.importing.tensors import Tensor, at_token


def is_of_tokens(x, dim: int) -> bool:
    """Whether a dimension of a tensor is that of the tokens."""
    return isinstance(x, Tensor) and [axis.kind for axis in x.dims[dim]] == ["token"]


def count_of(x: Tensor, dim: int) -> int:
    """How many tokens lie along a dimension."""
    return x.dims[dim][0].size[0]


def along_tokens(builder, one, act):
    """act(rows), which is linear and goes along the tokens, of rows or of numbers; of numbers it is
    that of the rows that they are read from."""
    def again(part):
        return along_tokens(builder, part, act)
    if one.is_rows or "token" not in one.axes:
        return act(one)
    if one.operation in ("times", "add"):
        return _linear(builder, one, again)
    if one.operation == "pick" and one.arguments[0].operation in ("look", "add", "times"):
        return builder.pick(again(one.arguments[0]), one.data[0])
    if one.operation == "look":
        (x,), axes = map(again, one.arguments), one.axes
        return builder.make("look", (x,), one.data, None, axes & x.axes, one.width)
    return act(one)


def mean_of_tokens(builder, one):
    """The mean over the tokens of an input."""
    def pooled(one):
        if "token" not in one.axes:
            return one
        if one.operation == "mean_of_rows":     # over inputs and tokens
            return builder.make("mean_of_rows", one.arguments, population=one.population,
                                axes=frozenset())
        return builder.make("pool", (one,), population=one.population, axes=one.axes - {"token"})
    if one.is_rows and one.operation == "times":
        return builder.times(one.data, mean_of_tokens(builder, one.arguments[0]))
    return along_tokens(builder, one, pooled)


def places_mixed(read, x: Tensor, dim: int, matrix) -> Tensor:
    """sum_t matrix[s][t] x[.., t, ..] along a dimension of tokens."""
    S = tuple(map(tuple, np.asarray(matrix, float).tolist()))
    # more places than tokens, which a program does not have in between
    more = count_of(x, dim) > read.tokens

    def mixed(one):
        if "token" not in one.axes and all(sum(row) == 1 for row in S):
            return one
        known = read.builder.value(one)
        if known:
            data = tuple(tuple(sum(row) * value for value in known) for row in S)
            return one if known == (0.0, 0.0) else read.builder.make(
                "of_token", data=data, axes=frozenset({"token"}))
        if one.operation == "mix_places":
            return _mix_of(read, one.arguments[0], np.array(S) @ np.array(one.data))
        if more and has_mix(one):
            return _linear(read.builder, one, mixed)
        return _mix_of(read, one, S)
    found = read.expressions(x).over(lambda one: along_tokens(read.builder, one, mixed))
    kept = Axis("token", (len(S),) * 2)
    return Tensor([*x.dims[:dim], (kept,), *x.dims[dim + 1:]], found.cells)


def places_of(one, known: dict, tokens: int):
    """How many rows of an input an expression has, of so many tokens: fewer where some were taken,
    one where they were pooled; None of what is the same for all tokens."""
    for part in ordered([one], known):
        there = [known[id(argument)] for argument in part.arguments if known[id(argument)]]
        known[id(part)] = len(part.data) if part.operation == "mix_places" else \
            None if part.operation == "mean_of_rows" else \
            1 if part.operation == "pool" else max(there) if there else \
            tokens if "token" in part.axes else None
    return known[id(one)]


def has_mix(one) -> bool:
    """Whether rows are a sum in which tokens have been mixed already."""
    return one.operation == "mix_places" or one.is_rows and one.operation in ("add", "times") \
        and any(map(has_mix, one.arguments))


def _linear(builder, one, act):
    if one.operation == "times":
        return builder.times(one.data, act(one.arguments[0]))
    return builder.add(*map(act, one.arguments))


def _mix_of(read, one, matrix):
    S = tuple(map(tuple, np.asarray(matrix).tolist()))
    if np.array_equal(S, np.eye(len(S))):
        return one
    if not np.any(S):
        return read.builder.constant((0.0, 0.0))
    return read.builder.make("mix_places", (one,), S, one.population)


def taken(read, x: Tensor, dim: int, which) -> Tensor:
    """The tokens of these numbers, in this order."""
    return places_mixed(read, x, dim, np.eye(count_of(x, dim))[list(which)])


def moved(read, x: Tensor, dim: int, before: int, behind: int) -> Tensor:
    """Adds so many tokens of zeros before and behind; where the number is below 0, tokens go."""
    count = count_of(x, dim)
    matrix = np.zeros((count + before + behind, count))
    for s in range(len(matrix)):
        if 0 <= s - before < count:
            matrix[s, s - before] = 1
    return places_mixed(read, x, dim, matrix)


def windows(count: int, size: int, stride: int, padding: int, dilation: int) -> list[np.ndarray]:
    """[place of the result, token] for each place of a window that goes along the tokens."""
    places = (count + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    found = []
    for k in range(size):
        matrix = np.zeros((places, count))
        for s in range(places):
            t = s * stride + k * dilation - padding
            if 0 <= t < count:
                matrix[s, t] = 1
        found.append(matrix)
    return found


@HANDLERS
def convolution(read, x, weight, bias, stride, padding, dilation, transposed, _, groups):
    """[P, C, n] along the tokens: a matrix for each place of the window, or a vector where each
    channel has its own."""
    from dmft.torch.importing.images import convolved
    from dmft.torch.importing.pointwise import add, mul
    from dmft.torch.importing.products import linear
    from dmft.torch.importing.shapes import select
    if transposed or len(x.dims) not in (3, 4) or len(x.dims) == 3 and not is_of_tokens(x, 2):
        raise Gap("a convolution is read along the tokens, as Conv1d of x.mT, and over the places "
                  "of an image")
    apart = tuple(map(int, pair(groups))) == read.shapes()[1] and not weight.dims[1]
    if groups != 1 and not apart:
        raise Gap("channels act on each other in groups; they may do so all together, or each on "
                  "itself alone")
    if len(x.dims) == 4:
        return convolved(read, x, weight, bias, stride, padding, dilation, apart)
    rows, size, found = x.permute([0, 2, 1]), read.step[0].arguments[1].shape[2], None
    # zeros before the tokens, of which the matrix of a window keeps as many as there are tokens
    padded = count_of(x, 2) > read.tokens
    for k, matrix in enumerate(windows(count_of(x, 2), size, stride[0], padding[0], dilation[0])):
        one = select(read, weight, 2, k)
        y = places_mixed(read, rows, 1, matrix) if padded else rows
        y = mul(read, y, Tensor([one.dims[0]], one.cells)) if apart else linear(read, y, one)
        y = y if padded else places_mixed(read, y, 1, matrix)
        found = y if found is None else add(read, found, y)
    found = found if bias is None else add(read, found, bias)
    return found.permute([0, 2, 1])


def joined(read, tensors, dim: int) -> Tensor:
    """One behind the other, along a dimension of tokens; what has none is one more."""
    from dmft.torch.importing.pointwise import add
    counts = [count_of(one, dim) if one.dims[dim] else 1 for one in tensors]
    total, found = sum(counts), None
    if total > read.tokens and all(is_of_tokens(one, dim) for one in tensors):
        raise Gap("more tokens than an input has")
    if total > read.tokens:
        raise MoreTokens(total - read.tokens)
    for k, one in enumerate(tensors):
        if not one.dims[dim]:
            made = read.expressions(one).over(
                lambda cell, k=k: at_token(read.builder, cell, sum(counts[:k]), total))
            part = Tensor([*one.dims[:dim], (Axis("token", (total,) * 2),), *one.dims[dim + 1:]],
                          made.cells)
        else:
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
