"""Normals that a module draws, as the noise of a program."""
from __future__ import annotations

import math

from dmft.torch.importing.axes import Axis, finite
from dmft.torch.importing.expressions import Gap, Population
from dmft.torch.importing.pointwise import add, mul
from dmft.torch.importing.random_numbers import NORMAL, moments
from dmft.torch.importing.reading import HANDLERS
from dmft.torch.importing.tensors import Tensor, array


@HANDLERS(*NORMAL)
def noise(read, *given, **options):
    """Normals of each input (and token)."""
    name = read.step[0].operation
    like = given[0] if given and isinstance(given[0], Tensor) and name != "normal" else None
    found = _noise(read, like)
    if name in ("randn", "randn_like"):
        return found
    mean, std = moments(given if name == "normal" else given[1:], options)
    return add(read, mul(read, found, _held(read, std)), _held(read, mean))


def _held(read, one):
    """No gradient goes to the moments of normals."""
    return one.over(read.builder.stop) if isinstance(one, Tensor) and not one.is_parameter else one


def _noise(read, like) -> Tensor:
    axes = _axes(read, like)
    kinds = [axis.kind for axes_of_one in axes for axis in axes_of_one]
    builder = read.builder
    if kinds.count("input") != 1 or kinds.count("sites") > 1 or \
            set(kinds) - {"input", "token", "sites", "finite"}:
        raise Gap("it draws normals that are no numbers of each input, or of each input and site")
    if "sites" in kinds and "token" not in kinds and read.tokens > 1 and len(axes) > 2:
        raise Gap("it draws normals of each input and site that all tokens share; a program draws "
                  "rows for each token, or single numbers for each input: draw torch.randn_like(h) "
                  "of all tokens h, or [P, 1, 1]")
    population = next((Population(axis.size) for one in axes for axis in one
                       if axis.kind == "sites"), None)
    on = frozenset({"token"} & set(kinds))
    flat = [axis for one in axes for axis in one]
    read.drawn.append([(axis.kind, axis.size[0]) for axis in flat])
    sizes = [axis.size[0] for axis in flat if axis.kind == "finite"]
    cells = []
    for k in range(math.prod(sizes[:-1] if population is None else sizes)):
        data = (len(read.drawn) - 1, k)
        if population is not None:
            cells.append(builder.make("noise", data=data, population=population, axes=on))
            continue
        whole = builder.make("noise", data=data, axes=on, width=sizes[-1] if sizes else 1)
        cells += [builder.pick(whole, j) for j in range(whole.width)]
    return Tensor(axes, array(cells, sizes))


def _axes(read, like) -> list[tuple]:
    """The axes of what is drawn: those of the tensor that it is drawn like, if there is one, else
    those of its size."""
    P, n = len(read.records[0].input), read.tokens
    rows, token = Axis("input", (P, P)), Axis("token", (n, n))
    found: list[tuple] = []
    for d, size in enumerate(read.shapes()):
        there = like.dims[d] if like is not None else ()
        if there and all(axis.kind in ("input", "token", "sites", "finite") for axis in there):
            found.append(there)
        elif d == 0 and size[0] == P * n != P and not found:
            found.append((rows, token))
        elif d == 0 and size[0] == P:
            found.append((rows,))
        elif size == (n, n) and n > 1 and found == [(rows,)] and d < len(read.shapes()) - 1:
            found.append((token,))
        elif size[0] != size[1]:
            found.append((Axis("sites", size),))
        else:
            found.append((finite(size[0]),) if size[0] > 1 else ())
    return found
