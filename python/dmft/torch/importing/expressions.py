"""What a module computes, as expressions of a program: rows over the sites of a population, or
numbers. They are made by a Builder, which keeps each expression once and simplifies.

A constant is a pair of numbers, one for each of the two widths at which the module was run; how it
goes with the width is found out when the program is written.
"""
from __future__ import annotations

import dataclasses

import torch

from dmft.torch.operations import FUNCTIONS


# Expressions that pass no gradient on.
NO_GRADIENT = "constant top top_rows stop token expert which row order of_token of_pair".split()
FAR = 1e9                               # above all scores; where a score is seen, times exactly 0


class Gap(Exception):
    """What has no counterpart: a sentence without its place."""


class Population:
    """Sites that are one axis of a tensor; those of two axes that meet become one."""

    def __init__(self, sizes, origin=None):
        self._parent, self.sizes = None, tuple(sizes)
        self.origins = {origin} if origin else set()

    def find(self) -> "Population":
        """The one that stands for all that have met."""
        one = self
        while one._parent:
            one = one._parent
        return one

    def meet(self, other: "Population") -> None:
        """Both axes are the same sites."""
        one, two = self.find(), other.find()
        if one is two:
            return
        if one.sizes != two.sizes:
            raise Gap(f"axes of {one.sizes[0]} and {two.sizes[0]} sites meet, as in an outer "
                      "product of two layers; write it with rows of one size")
        two._parent = one
        one.origins |= two.origins

    def along(self, sizes) -> "Population":
        """Returns the population that an axis of so many sites is of."""
        return self


ALIKE = "a matrix between layers is computed from parameters, where those of a program are " \
    "trained themselves: let build make it one parameter; or there are as many experts as units " \
    "at the widths that were traced, so that they cannot be told apart (give other widths=)"


class Pairs(Population):
    """Pairs of a site of one population (experts) and one of another (their units)."""

    def __init__(self, outer: Population, inner: Population):
        super().__init__([a * b for a, b in zip(outer.sizes, inner.sizes)])
        self.outer, self.inner = outer, inner

    def meet(self, other: Population) -> None:
        """Says that these pairs and others are the same sites."""
        if not isinstance(other, Pairs):
            raise Gap("rows over experts and their units meet rows over one of both")
        self.outer.meet(other.outer)
        self.inner.meet(other.inner)

    def along(self, sizes) -> Population:
        """The experts or the units, of which there are so many."""
        outer, inner = self.outer.find(), self.inner.find()
        if outer.sizes == inner.sizes:
            raise Gap(ALIKE)
        if tuple(sizes) not in (outer.sizes, inner.sizes):
            raise Gap(f"rows over {outer.sizes[0]} experts and {inner.sizes[0]} units meet an axis "
                      f"of {sizes[0]} sites")
        return outer if tuple(sizes) == outer.sizes else inner


@dataclasses.dataclass(eq=False)
class Expression:
    """`operation` with `arguments`, other expressions, and `data`, its constants. `population`:
    where its rows live, None of numbers; `axes`: which of token and source it depends on; `width`:
    how many numbers it gives; `place`: the line of the module."""
    operation: str
    arguments: tuple = ()
    data: tuple = ()
    population: Population | None = None
    axes: frozenset = frozenset()
    width: int = 1
    place: str = ""

    @property
    def is_rows(self) -> bool:
        """Whether it has a number for each site."""
        return self.population is not None


@dataclasses.dataclass(eq=False)
class Leaf:
    """A part of a parameter: `at` says for each of its axes which entry, or (a Piece) which sites.
    `populations`: {axis: population} of the axes with sites; `factor`: by which it is multiplied,
    at both widths."""
    parameter: str
    at: tuple
    populations: dict
    factor: tuple = (1.0, 1.0)

    def times(self, k) -> "Leaf":
        """Multiplied by a constant."""
        return dataclasses.replace(self, factor=(self.factor[0] * k[0], self.factor[1] * k[1]))

    def key(self) -> tuple:
        """What tells it from others, but for its factor."""
        return self.parameter, self.at


def constant_pair(value) -> tuple[float, float]:
    """A number that is the same at both widths."""
    return float(value), float(value)


class Builder:
    """Makes expressions. `place` is the line of the module that is being read."""

    def __init__(self):
        self._kept: dict = {}
        self.place = ""
        self.features = 0               # numbers of an input, or of a token
        self.seen: tuple = ()           # tokens of the network that are those of the module

    def make(self, operation, arguments=(), data=(), population=None, axes=None, width=None):
        """An expression, or the equal one that there is already."""
        if axes is None:
            axes = frozenset().union(*(one.axes for one in arguments)) if arguments else frozenset()
        if width is None:
            width = max((one.width for one in arguments if not one.is_rows), default=1)
        # of all but constants it follows from the rest, and is another one after a meeting
        where = id(population.find()) if population and operation in ("ones", "table") else None
        key = (operation, tuple(id(one) for one in arguments), data, where, axes, width)
        if key not in self._kept:
            self._kept[key] = Expression(operation, tuple(arguments), data, population, axes,
                                         width, self.place)
        return self._kept[key]

    # --- constants -------------------------------------------------------------------------------

    def constant(self, values) -> Expression:
        """A number that depends on nothing but the width."""
        return self.make("constant", data=(float(values[0]), float(values[1])))

    @staticmethod
    def value(one) -> tuple | None:
        """The two numbers of a constant, else None."""
        return one.data if isinstance(one, Expression) and one.operation == "constant" else None

    def is_value(self, one, number: float) -> bool:
        """Whether it is this constant at both widths."""
        return self.value(one) == (number, number)

    # --- arithmetic ------------------------------------------------------------------------------

    def _together(self, a, b, experts=True):
        """(a, b, the population of what both make): rows over experts (if they are meant), or over
        units, beside rows over pairs of both are copied to them."""
        if not (a.is_rows and b.is_rows):
            return a, b, a.population or b.population
        if isinstance(a.population, Pairs) != isinstance(b.population, Pairs):
            pairs = next(one.population for one in (a, b) if isinstance(one.population, Pairs))
            a, b = (one if one.population is pairs else self.copied(one, pairs, experts)
                    for one in (a, b))
            return a, b, pairs
        a.population.meet(b.population)
        return a, b, a.population

    def copied(self, a, pairs: Pairs, experts=True):
        """Rows over experts (if they are meant), or over units, as rows over pairs of both."""
        there = pairs.along(a.population.find().sizes)
        there.meet(a.population)
        of_units = there.find() is pairs.inner.find()
        if not of_units and not experts:
            return a
        return self.make("tile" if of_units else "expand", (a,), population=pairs)

    def add(self, a, b) -> Expression:
        """a + b."""
        if self.value(a) and self.value(b):
            return self.constant([x + y for x, y in zip(a.data, b.data)])
        if self.value(a):
            a, b = b, a
        if self.is_value(b, 0.0):
            return a
        if self.value(b) and a.operation == "visible" or self.value(b) and min(b.data) < -1e30:
            raise Gap("a constant of minus infinity that no softmax takes away")
        a, b, population = self._together(a, b)
        return self.make("add", (a, b), population=population)

    def times(self, k, a) -> Expression:
        """k a of a constant k, two numbers."""
        if k == (1.0, 1.0):
            return a
        if self.value(a):
            return self.constant([x * y for x, y in zip(k, a.data)])
        if a.operation == "of_token":
            data = tuple(tuple(x * y for x, y in zip(k, pair)) for pair in a.data)
            return self.make("of_token", data=data, axes=a.axes)
        if k == (0.0, 0.0):
            return self.constant(k)
        if a.operation == "times":
            return self.times((k[0] * a.data[0], k[1] * a.data[1]), a.arguments[0])
        if a.operation == "add" and all(self._has_factor(one) for one in a.arguments):
            return self.add(*(self.times(k, one) for one in a.arguments))
        return self.make("times", (a,), k, a.population)

    def _has_factor(self, a) -> bool:
        """Whether a is multiplied by a constant, and so are all terms of a sum."""
        return a.operation == "times" or a.operation == "add" and all(
            self._has_factor(one) for one in a.arguments)

    def multiply(self, a, b) -> Expression:
        """a b."""
        for one, other in ((a, b), (b, a)):
            if self.value(one):
                return self.times(one.data, other)
        if a.operation == "times":
            return self.times(a.data, self.multiply(a.arguments[0], b))
        if b.operation == "times":
            return self.times(b.data, self.multiply(a, b.arguments[0]))
        if not a.is_rows and b.is_rows:
            a, b = b, a
        a, b, population = self._together(a, b, experts=False)     # which a product is over
        return self.make("multiply", (a, b), population=population)

    def divide(self, a, b) -> Expression:
        """a/b."""
        k = self.value(b)
        if k:
            if 0 in k:
                raise Gap("a division by zero")
            return self.times((1 / k[0], 1 / k[1]), a)
        return self.multiply(a, self.power(b, -1.0))

    def negative(self, a):
        """-a."""
        return self.times((-1.0, -1.0), a)

    def power(self, a, c: float) -> Expression:
        """a to a constant power."""
        k = self.value(a)
        if k:
            return self.constant([x ** c for x in k])
        if c == 1:
            return a
        if a.operation == "of_token":
            data = tuple(tuple(x ** c for x in values) for values in a.data)
            return self.make("of_token", data=data, axes=a.axes)
        if c in (2, 3):
            return self.multiply(a, a if c == 2 else self.multiply(a, a))
        if a.operation == "times" and (c == -1 or min(a.data) > 0):
            return self.times((a.data[0] ** c, a.data[1] ** c), self.power(a.arguments[0], c))
        if a.operation == "power" and not a.is_rows and _same_domain(a.data[0], c):
            return self.power(a.arguments[0], a.data[0] * c)
        return self.make("power", (a,), (float(c),), a.population)

    def function(self, name: str, a, k: float = 1.0) -> Expression:
        """A function at each site, or of each number, of k a."""
        value = self.value(a)
        if value:
            known = FUNCTIONS[name](k * torch.tensor(value, dtype=torch.float64))
            return self.constant(known.tolist())
        mask, seen = self.parts_of_chosen(a)
        if mask is not None and name in ("sigmoid", "exp", "relu", "softplus") and k > 0:
            return self.multiply(mask, self.function(name, seen, k))
        return self.make("function", (a,), (name, k), a.population)

    def stop(self, a) -> Expression:
        """a without a gradient."""
        if a.operation in NO_GRADIENT or self.is_mask(a):
            return a
        return self.make("stop", (a,), population=a.population)

    @staticmethod
    def is_mask(a) -> bool:
        """Whether it is 1 where something was chosen, else 0."""
        return a.operation == "pick" and a.arguments[0].operation == "top"

    # --- sites -----------------------------------------------------------------------------------

    def mean_of_sites(self, a) -> Expression:
        """The mean over sites."""
        if a.operation == "times":
            return self.times(a.data, self.mean_of_sites(a.arguments[0]))
        if a.operation == "multiply" and all(one.is_rows for one in a.arguments):
            return self.make("average", a.arguments)
        return self.make("average", (a,))

    def sum_of_sites(self, a, sizes=None) -> Expression:
        """The sum over sites, of pairs over experts or units, of which there are so many."""
        sizes = sizes or a.population.find().sizes
        mean = self._mean_of_pairs(a, sizes) if isinstance(a.population, Pairs) else \
            self.mean_of_sites(a)
        return self.times(tuple(map(float, sizes)), mean)

    def _mean_of_pairs(self, a, sizes) -> Expression:
        if a.operation == "times":
            return self.times(a.data, self._mean_of_pairs(a.arguments[0], sizes))
        over = a.population.along(sizes)
        of_units = over is a.population.inner.find()
        return self.make("group_mean" if of_units else "tile_mean", (a,), population=(
            a.population.outer if of_units else a.population.inner).find())

    def map(self, x, leaf: Leaf, to: tuple, source: tuple) -> Expression:
        """The matrix of a leaf, from the sites of x, its axes `source`, to those of its axes
        `to`."""
        population = self.sites(leaf, source)
        if self.value(x):
            ones = self.make("ones", population=population)
            return self.times(x.data, self.map(ones, leaf, to, source))
        if isinstance(population, Pairs) and not isinstance(x.population, Pairs):
            x = self.copied(x, population)
        x.population.meet(population)
        if x.operation == "times" and x.data[0] == x.data[1]:   # others stay where they stand
            return self.times(x.data, self.map(x.arguments[0], leaf, to, source))
        if leaf.factor != (1.0, 1.0):
            plain = dataclasses.replace(leaf, factor=(1.0, 1.0))
            return self.times(leaf.factor, self.map(x, plain, to, source))
        return self.make("map", (x,), (leaf, to, source), self.sites(leaf, to), x.axes)

    def sites(self, leaf: Leaf, axes: tuple) -> Population:
        """The population of one axis, or the pairs of two."""
        sites = [leaf.populations[axis] for axis in axes]
        if len(sites) > 2:
            raise Gap("a tensor of parameters with more than three growing axes")
        if len(sites) == 1:
            return sites[0]
        key = ("pairs", *(id(one.find()) for one in sites))
        return self._kept.setdefault(key, Pairs(*sites))

    def look(self, x, leaves) -> list[Expression]:
        """A number for each leaf, the sum of its entries times x."""
        for leaf in leaves:
            (population,) = leaf.populations.values()
            x.population.meet(population)
        if x.operation == "times" and x.data[0] == x.data[1]:
            leaves, x = [leaf.times(x.data) for leaf in leaves], x.arguments[0]
        whole = self.make("look", (x,), (tuple(leaves),), None, x.axes, len(leaves))
        return [self.pick(whole, k) for k in range(len(leaves))]

    def vector(self, leaf: Leaf) -> Expression:
        """A trained vector: a number of its own for each site, or each pair of two."""
        if len(leaf.populations) > 2:
            raise Gap("a tensor of parameters with three growing axes is used otherwise than in a "
                      "product with rows")
        population = self.sites(leaf, tuple(sorted(leaf.populations)))
        return self.make("vector", data=(leaf,), population=population)

    # --- numbers ---------------------------------------------------------------------------------

    def pick(self, whole, k: int) -> Expression:
        """One of the numbers."""
        if whole.width == 1 and k == 0:
            return whole
        return self.make("pick", (whole,), (k,), width=1)

    def join(self, cells) -> Expression | None:
        """The numbers of which these are the first, second, ... ; None if there are none such."""
        first = cells[0]
        if len(cells) == 1:
            return first
        if all(one.operation == "pick" and one.arguments[0] is first.arguments[0]
               and one.data[0] == k for k, one in enumerate(cells)) \
                and first.arguments[0].width == len(cells):
            return first.arguments[0]
        if all(one is first for one in cells):
            return first                # one number goes with any K
        if any(one.operation != first.operation or one.data != first.data or one.is_rows
               or len(one.arguments) != len(first.arguments) for one in cells) \
                or first.operation in ("pick", "look", "parameter", "average", "attend"):
            return self._parameters(cells)
        arguments = [self.join(parts) for parts in zip(*(one.arguments for one in cells))]
        if not arguments or any(one is None for one in arguments):
            return None
        if all(one.width == 1 for one in arguments):
            return None
        return self.make(first.operation, arguments, first.data, width=len(cells))

    def _parameters(self, cells):
        """The numbers of a parameter, side by side."""
        if any(one.operation != "parameter" for one in cells):
            return None
        if len(cells[0].data[0]) > 1:   # of each kind of token
            rows = zip(*(one.data[0] for one in cells))
            return self.make("parameter", data=(tuple(leaf for row in rows for leaf in row),),
                             axes=cells[0].axes, width=len(cells))
        return self.make("parameter", data=(tuple(one.data[0][0] for one in cells),),
                         width=len(cells))

    def parts_of_chosen(self, a) -> tuple:
        """(mask, number) of a number that is minus infinity where it was not chosen; else None."""
        whole = a.arguments[0] if a.operation == "pick" else a
        if whole.operation != "chosen":
            return None, None
        if whole is a:
            return a.arguments
        return tuple(one if one.width == 1 else self.pick(one, a.data[0])
                     for one in whole.arguments)

    def far_below(self, mask, score) -> Expression:
        """A number, far below all others where a mask is 0."""
        return self.add(score, self.times((FAR, FAR), self.add(
            mask, self.constant((-1.0, -1.0)))))

    def list_of(self, cells) -> Expression:
        """The numbers side by side, where need be one by one."""
        whole = self.join(cells)
        if whole is None or whole.width != len(cells):
            whole = self.make("list", tuple(cells), width=len(cells))
        return whole

    def picks(self, cells) -> list[Expression]:
        """The same numbers, taken from one expression where that is possible."""
        if len(cells) < 2 or any(one.is_rows for one in cells):
            return list(cells)
        whole = self.join(cells)
        if whole is None or whole.width != len(cells):
            return list(cells)
        return [self.pick(whole, k) for k in range(len(cells))]

    def number(self, leaf: Leaf) -> Expression:
        """A number of a parameter."""
        return self.make("parameter", data=((leaf,),))


def _same_domain(a: float, c: float) -> bool:
    """Whether (x^a)^c is x^(a c) of negative numbers, too: (x^4)^(1/4) is |x|, and (x^0.5)^4 is
    no number."""
    if a % 1 == 0 and c % 1 == 0:
        return True
    return a % 2 != 0 and a * c % 1 != 0
