"""Products of matrices, and embeddings."""
from __future__ import annotations

import dataclasses

import numpy as np

from dmft.torch.importing.axes import Axis, cells_shape, finite
from dmft.torch.importing.expressions import Gap, Leaf, Pairs
from dmft.torch.importing.places import is_of_tokens, mean_of_tokens, places_mixed
from dmft.torch.importing.reading import HANDLERS, STATE, no_outer_product
from dmft.torch.importing.tensors import MOST, Constant, Meeting, Tensor, array
from dmft.torch.importing.pointwise import add, mul
from dmft.torch.importing.unsummed import product


@HANDLERS("mm", "bmm")
def multiplied(read, a, b):
    return contract(read, a, b, len(read.shapes()) - 2)


@HANDLERS
def mv(read, a, b):
    wide = Tensor([*b.dims, ()], b.cells) if isinstance(b, Tensor) else b
    found = contract(read, a, wide, 0)
    return Tensor(found.dims[:-1], found.cells)


@HANDLERS
def dot(read, a, b):
    found = contract(read, Tensor([(), *a.dims], a.cells), Tensor([*b.dims, ()], b.cells), 0)
    return Tensor([], found.cells)


@HANDLERS("addmm", "baddbmm")
def addmm(read, bias, a, b, beta=1, alpha=1):
    found = multiplied(read, a, b)
    found = found if alpha == 1 else mul(read, found, alpha)
    if isinstance(bias, Constant) and all((one == 0).all() for one in bias.values):
        return found
    return add(read, found, bias if beta == 1 else mul(read, bias, beta))


@HANDLERS
def linear(read, x, weight, bias=None):
    flat = Tensor([tuple(axis for axes in x.dims[:-1] for axis in axes), x.dims[-1]], x.cells)
    found = contract(read, flat, weight.permute([1, 0]), 0)
    found = Tensor([*x.dims[:-1], found.dims[-1]], found.cells)
    return found if bias is None else add(read, found, bias)


class Contraction:
    """a [batch .., i, k] times b [batch .., k, j], cell by cell. The parameter, if there is one, is
    b."""

    def __init__(self, read, a: Tensor, b: Tensor, batch: int):
        self.builder, self.all_tokens = read.builder, read.tokens
        meeting = Meeting(read.builder, a, b)
        meeting.align((batch + 1, batch), sources=True)
        for d in range(batch):
            if meeting.axes(0, d) and meeting.axes(1, d):
                meeting.align((d, d))
        self.a, self.b = meeting.tensors
        self.batch = [self.a.dims[d] or self.b.dims[d] for d in range(batch)]
        self.rows, self.columns = self.a.dims[batch], self.b.dims[batch + 1]
        self.over = self.a.dims[batch + 1]
        self.tokens = self._tokens()
        self.to, self.source = (tuple(axis.about for axis in axes if axis.kind == "sites")
                                for axes in (self.columns, self.b.dims[batch]))
        self.experts = tuple(axis.about for axes in self.b.dims[:batch] for axis in axes
                             if axis.kind == "sites") if self.b.is_parameter else ()

    def _tokens(self) -> str | None:
        """What a sum over other than sites and written-out axes is."""
        mine = [axis.kind for axis in self.over]
        theirs = [axis.kind for axis in self.b.dims[len(self.batch)]]
        if "source" in mine:
            return "mix"
        if mine == theirs == ["token"]:
            return "pool"
        if "token" in mine or "source" in theirs or "input" in mine:
            raise Gap("a sum over tokens or inputs of what two tensors have there")
        counts = [axis.size[0] for axes in (self.rows, self.columns) for axis in axes
                  if axis.kind == "token"]
        if len(counts) < 2:
            return None
        if counts != [self.all_tokens] * 2:
            raise Gap(f"{counts[0]} tokens attend to {counts[1]}, and a program's to each other, "
                      f"all {self.all_tokens} of an input: let all of them attend, with a constant "
                      "mask of those that are not seen, and take the outputs of some")
        return "attend"

    def result(self) -> Tensor:
        """The product."""
        if not self.b.is_parameter:
            apart = all(any(axis.kind == "sites" for axis in axes)
                        for axes in (self.rows, self.columns))
            no_outer_product(apart, self.a.cells.flat[0], self.b.cells.flat[0])
        columns = tuple(axis if axis.kind != "token" or self.tokens != "attend" else
                        type(axis)("source", axis.size) for axis in self.columns)
        dims = [*self.batch, self.rows, columns]
        shapes = [cells_shape(axes) for axes in (self.batch, [self.rows], [self.over],
                                                 [self.columns])]
        counts = [int(np.prod(shape)) for shape in shapes]
        a = self._stretched(self.a, shapes[0], counts[1:3])
        b = self._stretched(self.b, shapes[0], counts[2:])
        cells = [cell for n in range(counts[0]) for i in range(counts[1])
                 for cell in self._line(a[n, i], b[n])]
        return Tensor(dims, array(cells, cells_shape(dims)))

    def _stretched(self, tensor, batch_shape, rest):
        """Cells [batch, first, second]."""
        shape = []
        for d, axes in enumerate(self.batch):
            mine = tensor.dims[d]
            shape += cells_shape([axes]) if mine else [1] * len(cells_shape([axes]))
        cells = tensor.cells.reshape(*shape, *rest)
        return np.broadcast_to(cells, (*batch_shape, *rest)).reshape(-1, *rest)

    def _line(self, row, matrix):
        """sum_k row[k] matrix[k, j] for all j."""
        builder = self.builder
        if not isinstance(matrix[0, 0], Leaf):
            return [self._sum(self._plain(x, y) for x, y in zip(row, column))
                    for column in matrix.T]
        if is_of_input(row[0]) and all(leaf.populations for leaf in matrix[0]):
            return [self._read_in(row, column) for column in matrix.T]
        sums = None
        for x, leaves in zip(row, matrix):
            parts = self._with_leaves(x, list(leaves))
            sums = parts if sums is None else [builder.add(p, q) for p, q in zip(sums, parts)]
        return sums

    def _sum(self, parts):
        total = None
        for part in parts:
            total = part if total is None else self.builder.add(total, part)
        return total

    def _with_leaves(self, x, leaves):
        """x times each of the leaves."""
        contracted = any(axis.kind == "sites" for axis in self.over)
        if self.experts:
            return [self._of_expert(x, leaf, contracted) for leaf in leaves]
        if contracted and len(leaves[0].populations) == 1:
            return self.builder.look(x, leaves)
        if contracted:
            if len(leaves[0].populations) != len(self.to) + len(self.source) or not self.to:
                raise Gap("a matrix of its own for each of a growing number of experts, applied to "
                          "rows of these experts")
            return [self.builder.map(x, leaf, self.to, self.source) for leaf in leaves]
        if any(len(leaf.populations) > 1 for leaf in leaves):
            raise Gap("a matrix of parameters with one of its sites for each entry")
        made = [self.builder.vector(leaf) if leaf.populations else self.builder.number(leaf)
                for leaf in leaves]
        return [self.builder.multiply(x, one) for one in made]

    def _of_expert(self, x, leaf: Leaf, contracted: bool):
        """x times the matrix of each of a growing number of experts: of what is the same for all,
        a map to their units; of what each has, see unsummed."""
        of_all = contracted and x.is_rows and not isinstance(x.population, Pairs)
        if len(self.experts) != 1 or not (of_all or self.to):
            raise Gap("numbers of each of a growing number of experts, of matrices of theirs")
        if of_all:
            return self.builder.map(x, leaf, (*self.experts, *self.to), self.source)
        return product(self.builder, x, leaf, self.experts[0], self.to)

    def _plain(self, x, y):
        """x times y, both computed."""
        contracted = any(axis.kind == "sites" for axis in self.over)
        builder = self.builder
        if self.tokens == "pool":
            if x.is_rows and y.is_rows:
                raise Gap("a sum over tokens of a product of two rows, a matrix for each input, as "
                          "linear attention has it; scores of each two tokens, without a softmax, "
                          "are read")
            size = tuple(map(float, self.over[0].size))
            return builder.times(size, mean_of_tokens(builder, builder.multiply(x, y)))
        if self.tokens == "mix":
            if not y.is_rows:
                raise Gap("numbers of other tokens, which a program mixes of rows alone")
            if x.is_rows:
                x.population.meet(y.population)
            return builder.make("mix", (x, y), (), y.population, axes=frozenset({"token"}))
        if self.tokens == "attend":
            if not contracted and not (x.is_rows and y.is_rows):
                raise Gap("attention logits of finitely many numbers of each head")
            if isinstance(x.population, Pairs):
                raise Gap("heads that grow in number and in size, where a program has many heads "
                          "of a fixed size, or a fixed number of them")
            for one, other in ((x, y), (y, x)):
                if one.operation == "times":
                    rest = one.arguments[0]
                    return builder.times(one.data, self._plain(rest, other) if one is x else
                                         self._plain(other, rest))
            x.population.meet(y.population)
            on = frozenset({"token", "source"})
            if not contracted:          # one of the numbers of each of a growing number of heads
                return builder.make("attend", (x, y), (), x.population, on)
            k = tuple(map(float, x.population.find().sizes))
            return builder.times(k, builder.make("attend", (x, y), axes=on, width=1))
        found = builder.multiply(x, y)
        return builder.sum_of_sites(found) if contracted else found

    def _read_in(self, features, leaves):
        if any(len(leaf.populations) != 1 for leaf in leaves):
            raise Gap("an input is read by other than a matrix to sites that grow")
        builder, first = self.builder, plain(features[0])
        places = [one for one in features if one.operation == "of_token"]
        if places and first.operation == "letter":
            count = len(features) - len(places)
            letters = self._read_in(features[:count], leaves[:count])
            return builder.add(letters, read_places(builder, places, leaves[count:]))
        whole = first.operation in ("feature", "letter") and all(
            plain(one).operation in (first.operation, "of_token") for one in features)
        if not whole or first.operation == "feature" and sorted(
                plain(one).data[0] for one in features) != list(range(builder.features)):
            return read_numbers(builder, features, list(leaves))
        factors = {one.data if one.operation == "times" else (1.0, 1.0) for one in features}
        if len(factors) > 1:
            return read_numbers(builder, features, list(leaves))
        source = {"letter": "token"}.get(first.operation, first.operation)
        found = read_in(builder, source, [plain(one).data[0] for one in features], list(leaves),
                        first.axes)
        return builder.times(factors.pop(), found)


def is_of_input(one) -> bool:
    """Whether a number is one of an input, or is made of these and of constants."""
    return plain(one).operation in ("feature", "letter") or not one.is_rows \
        and one.operation in ("add", "multiply", "noise") and any(map(is_of_input, one.arguments))


def read_numbers(builder, numbers, leaves):
    """Rows of computed numbers, which a matrix reads, such as a part of the input."""
    populations = [population for leaf in leaves for population in leaf.populations.values()]
    for one in populations[1:]:
        populations[0].meet(one)
    whole = builder.list_of(list(numbers))
    return builder.make("read_in", (whole,), ("numbers", tuple(leaves)), populations[0],
                        whole.axes)


def plain(one):
    """Returns it without the constant that it is multiplied by."""
    return one.arguments[0] if one.operation == "times" else one


def read_places(builder, places, leaves):
    """A read-in of the place in the sequence, which lists of 0 and c say."""
    c = places[0].data[0]
    for t, place in enumerate(places):
        if place.data != tuple(c if s == t else (0.0, 0.0) for s in range(len(place.data))):
            raise Gap("constants of each token that are not its place alone")
    return builder.times(c, read_in(builder, "place", range(len(leaves)), list(leaves),
                                    frozenset({"token"})))


@dataclasses.dataclass(frozen=True)
class Letters:
    """Some of so many kinds of tokens; fixed: their rows have no gradient."""
    which: tuple
    count: int
    fixed: bool


def read_in(builder, source: str, order, leaves, axes, some=()):
    """A read-in of all numbers of an input, or of its letters, or some (a Letters) of these."""
    leaves = [leaf for _, leaf in sorted(zip(order, leaves), key=lambda pair: pair[0])]
    if sorted(order) != list(range(len(leaves))):
        raise Gap("a part of the input is read, or some of it twice")
    populations = [population for leaf in leaves for population in leaf.populations.values()]
    for one in populations[1:]:
        populations[0].meet(one)
    found = builder.make("read_in", data=(source, tuple(leaves), *some), population=populations[0],
                         axes=axes)
    return builder.make("mix_places", (found,), builder.seen, found.population) \
        if source == "feature" and builder.seen else found


def contract(read, a, b, batch: int) -> Tensor:
    """a [batch .., i, k] times b [batch .., k, j]."""
    if isinstance(a, Constant) and not any(values.any() for values in a.values):
        return Constant(tuple(np.zeros(shape) for shape in zip(*read.shapes())))
    if isinstance(a, Constant) and isinstance(b, Tensor):
        return mixed(read, a, b, batch)
    if isinstance(b, Constant) and batch and not any(values.any() for values in b.values):
        raise Gap(f"a product with a state that begins at 0, {STATE}")
    if isinstance(a, Constant) or isinstance(b, Constant):
        if any(isinstance(one, Tensor) and one.is_parameter for one in (a, b)):
            raise Gap("a product of parameters and constants, as a spectral norm has it; a matrix "
                      "of a program is trained itself")
        raise Gap("a product with a matrix of constants; let it be of a layer that the module has "
                  "(of a list, nn.ModuleList), or a parameter that nothing trains, "
                  "nn.Parameter(matrix, requires_grad=False)")
    if a.is_parameter and b.is_parameter:
        few = next((one for one in (a, b) if all(
            len(leaf.populations) < 2 for leaf in one.cells.flat)), None)
        if few is a:
            a = read.expressions(a)
        elif few is b:
            b = read.expressions(b)
    if a.is_parameter and b.is_parameter:
        raise Gap("a product of two parameters")
    order = [*range(batch), batch + 1, batch]
    if a.is_parameter:
        found = contract(read, b.permute(order), a.permute(order), batch)
        return found.permute(order)
    _only_known_sources(a)
    if is_of_tokens(a, batch + 1) and _is_written(b, batch):
        return across_tokens(read, a, b, batch)
    if is_of_tokens(b, batch) and _is_written(a.permute(order), batch):
        return across_tokens(read, b.permute(order), a.permute(order), batch).permute(order)
    for axis in a.dims[batch + 1]:
        if axis.kind == "slot":
            a = chosen_alone(read, a, batch + 1)
    if len(a.dims[batch + 1]) > 1 and "token" in [axis.kind for axis in a.dims[batch + 1]]:
        a = tokens_written_out(read, a, batch + 1)
    return read.tidied(Contraction(read, a, b, batch).result())


def _is_written(b: Tensor, batch: int) -> bool:
    """Whether a matrix is written out, numbers that are the same for all inputs."""
    return all(axis.kind == "finite" for axes in b.dims[batch:] for axis in axes) and not any(
        axis.kind != "copy" for axes in b.dims[:batch] for axis in axes) and all(
        not one.populations if isinstance(one, Leaf) else not (one.is_rows or one.axes)
        for one in b.cells.flat)


def across_tokens(read, a: Tensor, b: Tensor, batch: int) -> Tensor:
    """a [batch .., i, token] times trained numbers b [token, j]: the sum of all tokens, each times
    its number, for each j."""
    from dmft.torch.importing.shapes import select
    builder, count = read.builder, a.dims[batch + 1][0].size[0]
    cells = (b.over(builder.number) if b.is_parameter else b).cells.reshape(count, -1)
    if cells.size > MOST:
        raise Gap(f"tokens are mixed by {cells.size} trained numbers, which are written one by "
                  f"one, at most {MOST} of them; give an example of fewer tokens")
    numbers = array(builder.picks(list(cells.flat)), cells.shape)
    parts = [select(read, a, batch + 1, t) for t in range(count)]
    made = []
    for index in np.ndindex(parts[0].cells.shape):
        for j in range(cells.shape[1]):
            total = builder.constant((0.0, 0.0))
            for t in range(count):
                total = builder.add(total, builder.multiply(numbers[t, j], parts[t].cells[index]))
            made.append(total)
    dims = [*parts[0].dims, b.dims[batch + 1]]
    return Tensor(dims, array(made, cells_shape(dims)))


def tokens_written_out(read, x: Tensor, dim: int) -> Tensor:
    """With the tokens of a dimension, beside which there are units, as a finite axis."""
    from dmft.torch.importing.shapes import select
    axes = x.dims[dim]
    at = [axis.kind for axis in axes].index("token")
    apart = Tensor([*x.dims[:dim], axes[:at], axes[at:at + 1], axes[at + 1:], *x.dims[dim + 1:]],
                   x.cells)
    count = axes[at].size[0]
    if count > MOST:
        raise Gap(f"units of {count} tokens side by side, at most {MOST}")
    parts = [select(read, apart, dim + 1, t).cells for t in range(count)]
    place = len(cells_shape([*x.dims[:dim], axes[:at]]))
    dims = [*x.dims[:dim], (*axes[:at], finite(count), *axes[at + 1:]), *x.dims[dim + 1:]]
    return Tensor(dims, np.stack(parts, place))


def chosen_alone(read, x: Tensor, dim: int) -> Tensor:
    """What the slots of a dimension hold, and 0 where their expert was not chosen, for a sum."""
    if len(x.dims[dim]) != 1:
        raise Gap("a sum over slots and more")
    masks = x.dims[dim][0].about.masks
    cells = np.moveaxis(read.expressions(x).cells, x.place_of(dim), -1)
    made = [read.builder.multiply(mask, one) for row in cells.reshape(-1, len(masks))
            for mask, one in zip(masks, row)]
    return Tensor(x.dims, np.moveaxis(array(made, cells.shape), -1, x.place_of(dim)))


def mixed(read, matrix: Constant, x: Tensor, batch: int) -> Tensor:
    """Sums over tokens with constant weights, the same for all inputs."""
    axes = x.dims[batch]
    if [axis.kind for axis in axes] != ["token"]:
        raise Gap("a product with a matrix of constants; let it be of a layer that the module has "
                  "(of a list, nn.ModuleList), or a parameter that nothing trains, "
                  "nn.Parameter(matrix, requires_grad=False)")
    one, two = (values.reshape(-1, *values.shape[-2:]) for values in matrix.values)
    if (one != one[0]).any() or (two[0] != one[0]).any():
        raise Gap("a matrix of constants that differs from input to input, or with the width")
    return places_mixed(read, x, batch, one[0])


def _only_known_sources(a: Tensor) -> None:
    first = a.cells.flat[0]
    if first.operation == "visible":
        raise Gap("hidden logits are used without a softmax")


@HANDLERS
def embedding(read, weight, indices, padding=-1, *_):
    if isinstance(indices, Constant):
        return chosen_rows(weight, indices)
    if indices.cells.flat[0].operation != "token":
        raise Gap("it is looked up by computed numbers; look tokens up first, and move or join "
                  "their rows, as emb(t).roll(1, 1)")
    if not weight.is_parameter:
        raise Gap("a table that is computed is looked up")
    cells = weight.cells.reshape(weight.cells.shape[0], -1)
    made = [_letters(read.builder, list(column), padding) for column in cells.T]
    dims = [*indices.dims, *weight.dims[1:]]
    return Tensor(dims, array(made, cells_shape(dims)))


def _letters(builder, leaves, padding: int):
    """Rows of each kind of token; those of padding have no gradient."""
    count, on = len(leaves), frozenset({"token"})
    if padding < 0:
        return read_in(builder, "token", range(count), leaves, on)
    kept = [k for k in range(count) if k != padding]
    parts = [read_in(builder, "token", range(len(which)), [leaves[k] for k in which], on,
                     (Letters(tuple(which), count, fixed),))
             for which, fixed in ((kept, False), ([padding], True))]
    return builder.add(*parts)


def chosen_rows(weight: Tensor, indices: Constant) -> Tensor:
    """Rows of a table by known numbers."""
    at = indices.values[0].astype(int)
    if not np.array_equal(indices.values[0], indices.values[1]):
        raise Gap("rows of a table that go with the width")
    if at.ndim > 1 and len(at) > 1 and (at == at[:1]).all():    # the same of all inputs
        found = chosen_rows(weight, Constant(tuple(one[0] for one in indices.values)))
        return Tensor([(Axis("copy", (len(at),) * 2),), *found.dims], found.cells)
    first = weight.dims[0]
    if at.size and (at == at.flat[0]).all() and [axis.kind for axis in first] in ([], ["finite"]):
        cells = weight.cells.take([at.flat[0]], 0) if first else weight.cells
        return Tensor([*((Axis("copy", (size, size)),) if size > 1 else () for size in at.shape),
                       *weight.dims[1:]], cells.reshape(cells_shape(weight.dims[1:])))
    if len(first) != 1 or first[0].kind != "finite":
        raise Gap("single sites are taken")
    cells = weight.cells.take(at, 0)
    dims = [*((finite(size),) if size > 1 else () for size in at.shape), *weight.dims[1:]]
    return Tensor(dims, cells.reshape(cells_shape(dims)))

