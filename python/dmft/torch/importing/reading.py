"""One reading of a module: the steps of two records become expressions."""
from __future__ import annotations

import dataclasses
import re

import numpy as np
import torch

from dmft.errors import InputError
from dmft.torch.importing.advice import WITHOUT, advised
from dmft.torch.importing.axes import (Axis, Cut, MoreTokens, Piece, cells_shape, expand,
                                       finite, sites_of, units_of)
from dmft.torch.importing.expressions import Builder, Gap, Leaf, Population
from dmft.torch.importing.flags import of_source
from dmft.torch.importing.layout import layout_of
from dmft.torch.importing.lines import at_line
from dmft.torch.importing.random_numbers import OTHERS
from dmft.torch.importing.record import Record, Step, numbers_of
from dmft.torch.importing.tensors import (Constant, Missing, Meeting, Tensor, array, by_pair,
                                          by_token, spread)
from dmft.torch.table import Table

HANDLERS = Table("operation of PyTorch")
NUMBER = re.compile(r"(?<=[._])\d+(?=[._]|$)")         # of a block or an expert, in a name
# What has something to say of arguments that no program has: a loss; offsets, which are counts.
LOSE = ("loss", "grouped_mm")
SAME = ("clone", "alias", "contiguous", "_to_copy", "lift_fresh", "lift_fresh_copy", "to")


@dataclasses.dataclass(frozen=True)
class Two:
    """A number that differs between both widths."""
    first: float
    second: float


def pair(value) -> tuple[float, float]:
    """A number, or Two, as a pair."""
    return (value.first, value.second) if isinstance(value, Two) else (float(value),) * 2


class Reading:
    """`cuts`: how parameters are cut; `ignored`: parameters that are held at zero. After `read()`,
    `output` is a Tensor and `penalties` are expressions. more: tokens of zeros before those that an
    input has."""

    def __init__(self, records: tuple[Record, Record], cuts: dict, ignored=(), more: int = 0):
        self.records, self.cuts, self.builder = records, cuts, Builder()
        self.values: dict[int, object] = {}
        self.step: tuple[Step, Step] | None = None
        self.reader = ""                # the file that reads it
        self.ignored = set(ignored)
        self.penalties: list = []
        x, self.layout = records[0].input, layout_of(records[0])
        self.tokens = self.layout.tokens if self.layout else \
            x.shape[1] if x.dim() > 2 or not x.is_floating_point() else 1
        if more:                        # tokens of zeros before those of the module
            self.builder.seen = tuple(map(tuple, np.eye(
                self.tokens, self.tokens + more, more).tolist()))
        self.more, self.tokens = more, self.tokens + more
        self.drawn: list = []           # of each draw of normals (kind, size) of its axes

    # --- what a reading begins with --------------------------------------------------------------

    def read(self) -> None:
        """Reads all steps."""
        one, two = self.records
        self._same_steps(one, two)
        for name, parameter in one.parameters.items():
            try:
                self.values[id(parameter)] = self._parameter(name, parameter, two.parameters[name])
            except Gap as gap:
                raise InputError(f"{name}: {advised(str(gap))}") from None
        self.values[id(one.input)] = self._input(one.input, two.input)
        for self.step in zip(one.steps, two.steps):
            self.builder.place = self.step[0].place
            self._read_step()
        self.output = self._found(one.output, two.output)
        if not one.input.is_floating_point() and isinstance(self.output, Tensor):
            self.output = self.with_tokens(self.output)
        self.penalties = [self._found(*terms) for terms in zip(one.penalties, two.penalties)]

    @staticmethod
    def _same_steps(one: Record, two: Record) -> None:
        for a, b in zip(one.steps, two.steps):
            if a.operation != b.operation:
                raise InputError("the module computes different things at the two widths: "
                                 f"{a.operation} ({a.place}) at the smaller one, {b.operation} "
                                 f"({b.place}) at the larger one; a loop over what data choose "
                                 "needs an example in which every expert is chosen, 24 or more "
                                 "rows for each, and one whose length goes with the width is read "
                                 "of what members of an nn.ModuleList make: let others be sums and "
                                 "means along an axis")
        if len(one.steps) != len(two.steps):
            both = len(one.steps), len(two.steps)
            more = max(one.steps, two.steps, key=len)[min(both)]
            raise InputError("the module has {} operations at the smaller width and {} at the "
                             "larger one; what grows must be the width of its layers, not how many "
                             "there are, and every expert must be chosen by the example "
                             "({})".format(*both, more.place))
        if set(one.parameters) != set(two.parameters):
            other = sorted(set(one.parameters) ^ set(two.parameters))
            raise InputError(f"{other[0]} is a parameter at one of the two widths alone; let build "
                             "make the same layers at every width, or give how many there are by "
                             "counts=")

    def _parameter(self, name: str, one, two):
        if name in self.ignored:
            return Constant((np.zeros(tuple(one.shape)), np.zeros(tuple(two.shape))))
        if one.dim() != two.dim():
            raise InputError(f"{name} has {one.dim()} dimensions at the smaller width and "
                             f"{two.dim()} at the larger one; let it have the same at every width")
        dims, ats = [], []
        for k, totals in enumerate(zip(one.shape, two.shape)):
            if totals[0] == totals[1]:
                dims.append((finite(totals[0]),) if totals[0] > 1 else ())
                ats.append(list(range(totals[0])))
                continue
            before, after, pieces = expand(self.cuts, name, k, Piece(), totals)
            sizes = tuple(sites_of(pieces[0], total) for total in totals)
            about = units_of(k) if pieces[0].groups else k
            dims.append((*before, Axis("sites", sizes, about=about), *after))
            ats.append(pieces)
        shape = cells_shape(dims)
        totals = [tuple(one.shape), tuple(two.shape)]
        cells = [self._leaf(name, at, totals) for at in _all_of(ats)]
        return Tensor(dims, array(cells, shape))

    @staticmethod
    def _leaf(name, at, totals) -> Leaf:
        populations = {}
        for k, one in enumerate(at):
            if isinstance(one, Piece):
                sizes = [sites_of(one, total[k]) for total in totals]
                last = units_of(k) if one.groups else k
                if one.groups:
                    populations[k] = Population([one.pair(total[k])[0] for total in totals])
                populations[last] = Population(sizes, (name, k, one))
        return Leaf(name, tuple(at), populations)

    def _input(self, one, two):
        axes = [Axis("input", (one.shape[0], two.shape[0]))]
        make = self.builder.make
        if one.is_floating_point():
            tokens = one.dim() == 3
            self.builder.features = one.shape[-1]
            if self.layout:
                self.builder.features = self.layout.of(one).shape[-1]
                on = frozenset({"token"} if self.layout.patch else ())
                return self.layout.tensor(lambda k: make("feature", data=(k,), axes=on),
                                          axes[0].size)
            if one.dim() not in (2, 3):
                raise InputError(f"the example has {one.dim()} dimensions; inputs are [P, D] or "
                                 "[P, n, D] numbers, images [P, C, H, W], or tokens [P, n]")
            on = frozenset({"token"} if tokens else ())
            cells = [make("feature", data=(d,), axes=on) for d in range(one.shape[-1])]
            dims = [tuple(axes), (finite(one.shape[-1]),) if one.shape[-1] > 1 else ()]
            if tokens:
                dims.insert(1, (Axis("token", (one.shape[1],) * 2),))
            return Tensor(dims, array(cells, cells_shape(dims)))
        if one.dim() != 2:
            raise InputError(f"the example has {one.dim()} dimensions; tokens are [P, n]")
        token = make("token", axes=frozenset({"token"}))
        return Tensor([tuple(axes), (Axis("token", (one.shape[1],) * 2),)], array([token], ()))

    # --- steps -----------------------------------------------------------------------------------

    def _found(self, one, two=None):
        value = self.values.get(id(one))
        if value is None:
            return Constant((numbers_of(one), numbers_of(two)))
        return value

    def _argument(self, one, two):
        if isinstance(one, torch.Tensor):
            return self._found(one, two)
        if isinstance(one, (list, tuple)):
            return [self._argument(a, b) for a, b in zip(one, two)]
        if isinstance(one, bool) or one is None or not isinstance(one, (int, float)):
            return one
        return one if one == two else Two(one, two)

    def _read_step(self) -> None:
        one, two = self.step
        if one.known is not None and two.known is not None:
            for result, *values in zip(one.results, one.known, two.known):
                self.values[id(result)] = Constant(tuple(values))
            return
        found = self._handled([self._argument(a, b) for a, b in zip(one.arguments, two.arguments)],
                              {key: self._argument(value, two.options.get(key))
                               for key, value in one.options.items()})
        found = found if isinstance(found, (list, tuple)) else [found] * len(one.results)
        for result, value in zip(one.results, found):
            if isinstance(result, torch.Tensor):
                self.values[id(result)] = value

    def _handled(self, arguments, options):
        step = self.step[0]
        if step.operation == "index":
            arguments[1] = [self._chosen(*one) for one in zip(
                arguments[1], *(each.arguments[1] for each in self.step))]
        lost = next((one for one in _flat(arguments) if isinstance(one, Missing)), None)
        if lost and not any(word in step.operation for word in LOSE):
            return lost
        name = step.operation.rstrip("_") if not step.operation.startswith("_") else step.operation
        name = name if name in (*SAME, "index_copy") else name.removesuffix("_copy")
        self.reader = HANDLERS[name].__module__ if name in HANDLERS else ""
        try:
            if name in OTHERS:
                raise Gap("it draws random numbers, of which a program has normals; draw them by "
                          "torch.randn or torch.randn_like")
            if name in SAME:
                return self._stopped(arguments[0]) if step.stopped else arguments[0]
            if name not in HANDLERS:
                raise Gap(next((why for word, why in WITHOUT.items() if word in name),
                               "it has no counterpart in a program"))
            found = HANDLERS[name](self, *arguments, **options)
            if not step.stopped:
                return found
            in_place = step.operation.endswith("_") and isinstance(found, Tensor)
            return self._moved(arguments[0], found) if in_place else self._stopped(found)
        except (Gap, AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
            gap = error if isinstance(error, Gap) else \
                "it is used in a way that an import does not know; write it otherwise"
            return self.missing(str(gap))

    def _chosen(self, value, one, two):
        """The one expert that a loop over those chosen has come to, which is read as it was: the
        loop is the same on other data if every expert is chosen there."""
        if not isinstance(value, Missing) or one.numel() != 1 or one.is_floating_point():
            return value
        if one.item() != two.item():
            raise InputError("a loop over the experts that were chosen comes to other ones at the "
                             "two widths; give an example in which every expert is chosen, 24 or "
                             f"more rows for each ({self.builder.place})")
        return Constant((one.double().numpy(), two.double().numpy()))

    def _moved(self, before, found):
        """What is changed in place where gradients are switched off has the gradient from before,
        as a norm that cosine_similarity cuts off below."""
        builder = self.builder
        return self.pointwise(lambda a, b: builder.add(a, builder.stop(
            builder.add(b, builder.negative(a)))), before, found)

    def _stopped(self, found):
        if isinstance(found, (list, tuple)):
            return [self._stopped(one) for one in found]
        if not isinstance(found, Tensor) or found.is_parameter:
            return found
        return found.over(self.builder.stop)

    # --- for handlers ----------------------------------------------------------------------------

    def missing(self, why: str) -> Missing:
        """What no program has of the operation that is being read."""
        step = self.step[0]
        shapes = " and ".join(str(list(one.shape)) for one in _flat(step.arguments)
                              if isinstance(one, torch.Tensor))
        why = f"{step.operation} of {shapes or 'numbers'}: {advised(why, self.reader)}"
        return Missing(f"{why} ({step.place})")

    def shapes(self, which: int = 0) -> list[tuple[int, int]]:
        """The shape of a result at both widths."""
        return list(zip(*(step.results[which].shape for step in self.step)))

    def expressions(self, tensor: Tensor) -> Tensor:
        """A parameter as the rows or numbers that it is."""
        if not tensor.is_parameter:
            return tensor

        return self.tidied(tensor.over(lambda leaf: self.builder.vector(leaf)
                                       if leaf.populations else self.builder.number(leaf)))

    def tidied(self, tensor: Tensor) -> Tensor:
        """Takes the numbers along the last axis that is written out from one expression."""
        cells = tensor.cells
        if cells.ndim == 0 or cells.flat[0].is_rows:
            return tensor
        made = [self.builder.picks(list(cells[index])) for index in np.ndindex(cells.shape[:-1])]
        return Tensor(tensor.dims, array([one for row in made for one in row], cells.shape))

    def with_tokens(self, x: Tensor, dim: int = 1) -> Tensor:
        """As many numbers or rows beside the inputs as these have tokens are those of tokens."""
        kinds = [[axis.kind for axis in axes] for axes in x.dims]
        if self.tokens < 2 or x.is_parameter or dim > 1 or sorted(kinds[:2]) != [
                ["finite"], ["input"]] or kinds[dim] != ["finite"] \
                or ["token"] in kinds or x.dims[dim][0].size[0] != self.tokens:
            return x
        return by_token(self.builder, x, dim, 0, Axis("token", (self.tokens,) * 2))

    def operand(self, one, like: Tensor | None = None):
        """A Tensor of an argument: a number, a constant (beside another tensor) or a tensor."""
        if isinstance(one, Constant):
            return spread(self.builder, one, like or Tensor([()] * one.values[0].ndim,
                                                            array([None], ())))
        if isinstance(one, Tensor):
            return self.expressions(one)
        return Tensor([], array([self.builder.constant(pair(one))], ()))

    def pointwise(self, function, first, second):
        """function(a, b) of all cells, with PyTorch's rules of broadcasting."""
        first, second = _of_pairs(self.builder, first, second)
        one = self.operand(first) if isinstance(first, Tensor) else None
        two = self.operand(second, one) if one or isinstance(second, Tensor) else None
        if one is None and two is None:
            raise Gap("a combination of constants that the module did not compute")
        one = self.operand(first, two) if one is None else one
        one, two = _padded(one, two), _padded(two, one)
        meeting, dims = Meeting(self.builder, one, two), []
        for d in range(len(one.dims)):
            if meeting.axes(0, d) and meeting.axes(1, d):
                meeting.align((d, d))
            dims.append(meeting.axes(0, d) or meeting.axes(1, d))
        a, b = (_stretched(tensor, dims) for tensor in meeting.tensors)
        shape = cells_shape(dims)
        a, b = np.broadcast_to(a, shape), np.broadcast_to(b, shape)
        sites = [{d for d, axes in enumerate(one.dims)
                  if any(axis.kind == "sites" for axis in axes)} for one in meeting.tensors]
        no_outer_product(sites[0] and sites[1] and not sites[0] & sites[1], a.flat[0], b.flat[0])
        return self.tidied(Tensor(dims, array([function(x, y) for x, y in zip(a.flat, b.flat)],
                                              shape)))

    def each(self, function, tensor):
        """function of all cells."""
        return self.tidied(self.expressions(tensor).over(function))

    def dimension(self, tensor: Tensor, dim: int) -> int:
        """Counted from 0."""
        return dim % max(len(tensor.dims), 1)


STATE = "a matrix for each input, as linear attention and state spaces have it; write it as " \
    "scores of each two tokens, without a softmax, times constants that fall with distance, if " \
    "any: (q @ k.mT) @ v for q @ (k.mT @ v)"


def no_outer_product(apart, a, b) -> None:
    """Refuses rows of one number of sites along two axes."""
    rows = apart and a.is_rows and b.is_rows
    if rows and a.population.find().sizes == b.population.find().sizes:
        raise Gap(f"an outer product of rows, {STATE}")


def _of_pairs(builder, first, second):
    """A constant for each token and each that it attends to, beside numbers of the latter, both as
    tensors; all else as it is."""
    for k, (known, of) in enumerate(((first, second), (second, first))):
        if isinstance(known, Tensor) and isinstance(of, Tensor) and len(of.dims) > 1 \
                and [[axis.kind for axis in axes] for axes in of.dims[-2:]] == [
                    ["token"], ["source"]] and len(known.dims) > 1 and all(
                        [axis.kind for axis in axes] == ["finite"] and axes[0].size == at[0].size
                        for axes, at in zip(known.dims[-2:], of.dims[-2:])):
            cells = (known.over(builder.number) if known.is_parameter else known).cells
            made = [by_pair(builder, cells[index], of.dims[-1][0])
                    for index in np.ndindex(cells.shape[:-2])]
            both = Tensor([*known.dims[:-2], *of.dims[-2:]], array(made, cells.shape[:-2])), of
            return both[::-1] if k else both
        if not isinstance(known, Constant) or not isinstance(of, Tensor) or len(of.dims) < 2 \
                or known.values[0].ndim < 2 or of.dims[-2] \
                or [axis.kind for axis in of.dims[-1]] != ["token"]:
            continue
        (token,) = of.dims[-1]
        if known.values[0].shape[-2:] == token.size:
            source = dataclasses.replace(token, kind="source")
            of = of.over(lambda one: of_source(builder, one)).with_axis(len(of.dims) - 1, 0, source)
            like = Tensor([*of.dims[:-2], (token,), (source,)], of.cells)
            both = spread(builder, known, like), of
            return both[::-1] if k else both
    return first, second


def _padded(tensor: Tensor, other: Tensor) -> Tensor:
    return Tensor([()] * (len(other.dims) - len(tensor.dims)) + list(tensor.dims), tensor.cells)


def _stretched(tensor: Tensor, dims) -> np.ndarray:
    """Its cells with an axis of one for each axis that it lacks."""
    shape = []
    for mine, all_of_them in zip(tensor.dims, dims):
        shape += cells_shape([mine]) if mine else [1] * len(cells_shape([all_of_them]))
    return tensor.cells.reshape(shape)


def _flat(values):
    for one in values:
        if isinstance(one, (list, tuple)):
            yield from _flat(one)
        else:
            yield one


def _all_of(lists):
    if not lists:
        yield ()
        return
    for one in lists[0]:
        for rest in _all_of(lists[1:]):
            yield (one, *rest)


def alike(name: str, parameters) -> list[str]:
    """The parameters that differ from this one in numbers of their names alone, as those of blocks
    and experts do: what is taken apart in one block is so in all."""
    shape, pattern = parameters[name].shape, NUMBER.sub("#", name)
    return [other for other, one in parameters.items()
            if one.shape == shape and NUMBER.sub("#", other) == pattern]


def read(records, ignored=(), most: int = 200) -> Reading:
    """Reads a module, again and again until its parameters are cut as it uses them."""
    cuts, more = {}, 0
    for _ in range(most):
        reading = Reading(records, cuts, ignored, more)
        try:
            reading.read()
            return reading
        except Gap as gap:              # of what lies between operations
            raise InputError(at_line(f"the module: {advised(str(gap))}",
                                     reading.builder.place)) from None
        except MoreTokens as wanted:
            (more,) = wanted.args
            if more > 8 or not records[0].input.is_floating_point():
                raise InputError("the module puts tokens of its own before those of its inputs, "
                                 "which a network has of numbers alone, at most 8; let it add "
                                 f"rows to tokens instead ({reading.builder.place})") from None
        except Cut as cut:
            for origin, how in cut.requests:
                if origin in cuts and cuts[origin] != how:
                    raise InputError(f"{origin[0]} is taken apart in two ways that do not go "
                                     "together; build the module with separate parameters "
                                     f"({reading.builder.place})") from None
                for name in alike(origin[0], records[0].parameters):
                    cuts.setdefault((name, *origin[1:]), how)
    raise InputError(f"the parameters of the module are still taken apart after {most} readings; "
                     f"build it with separate parameters ({reading.builder.place})")
