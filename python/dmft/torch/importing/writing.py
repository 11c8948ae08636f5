"""Expressions written down as a program (docs/programs.md), with the matrices that they use."""
from __future__ import annotations

import math
import os
from fractions import Fraction

from dmft.network import Network
from dmft.torch.importing.advice import advised
from dmft.torch.importing.expressions import Expression, Gap, Pairs
from dmft.torch.importing.factors import Left, is_still, moving
from dmft.torch.importing.graph import (learning, is_read_alone, looks_of, name_of, ordered,
                                        reads_and_writes, said)
from dmft.torch.importing.laws import power_of
from dmft.torch.importing.lists import Lists
from dmft.torch.importing.many_sites import ManySites
from dmft.torch.importing.parts import Part
from dmft.torch.importing.places import places_of

# Expressions that are no value by themselves.
LOGITS = {"chosen": "logits hidden by a choice are used", "visible": "a mask of tokens is used",
          "less_largest": "logits less their largest are used",
          "largest_of_sources": "the largest of logits is used"}
INSIDE = ("attend constant token parameter of_token of_pair nothing seen expert "
          "which row order table").split()


class Refusal(Gap):
    """A sentence with its place."""


class Writer(Lists, ManySites):
    """`network` is the program and `parts` its matrices. options(part, writer) gives what is said
    of a matrix beside its name: scales and rates."""

    def __init__(self, widths, sizes, starts, factors, options=None, network=None, alike=None):
        self.tokens, self.outputs = sizes       # of an input, and numbers of the output
        self.network, self.widths, self._starts = network or Network(), widths, starts
        self._factors = factors         # which of the module's go into matrices
        self._more = options or (lambda part, writer: {})
        self._alike, self._equal = alike, False     # whether wide experts start alike
        self.parts: list[Part] = []
        self.letters = 0                # kinds of tokens
        self._values: dict[int, object] = {}
        self._populations: dict[object, object] = {}
        self._heads: dict[int, object] = {}     # populations of heads
        self._names: set[str] = set()
        self._tied: dict = {}
        self._maps: dict[tuple, Part] = {}
        self._lists: dict[tuple, object] = {}
        self._embedded: set[int] = set()        # reads and looks that share a matrix
        self._embeddings: dict[tuple, tuple] = {}
        self.sums: list = []
        self.noises: list = []                  # normals, in the order of the program
        self._flags = None                      # of places, where inputs are numbers
        self._written: list = []                # constants of each kind of token
        self._chosen_by: set[int] = set()       # what only choices are made of
        self._moving: set[tuple] = set()        # leaves that a gradient reaches
        self._places: dict[int, object] = {}
        self._used: dict[int, int] = {}         # how often numbers of a parameter are used

    # --- the whole -------------------------------------------------------------------------------

    def write(self, output: Expression, terms: dict) -> None:
        """The program of an output that is a look, and of terms of the loss, by their names."""
        roots = [output, *terms.values()]
        every, live = ordered(roots), learning(roots)
        self._tied, self._moving = self._uses(every), moving(roots)
        self._embedded = reads_and_writes(roots)
        self._heads = {id(one.population.find()): None for one in every
                       if one.operation == "attend" and one.is_rows}
        self._equal = any(map(self.starts_alike, every))
        for one in every:
            if id(one) not in live:
                self._chosen_by.add(id(one))
            if one.operation == "read_in" and one.data[0] == "token":
                self.letters = one.data[2].count if len(one.data) > 2 else len(one.data[1])
            for argument in one.arguments:
                self._used[id(argument)] = self._used.get(id(argument), 0) + 1
        end, x, leaves = self._read_out(output)
        rows = self._value(x)
        if id(end) in self._embedded:
            self._values[id(end)] = self._look_of_embedding(self.network.read_out, end, rows)
            self.network.output(self._value(output))
            return self._penalties(terms)
        try:
            part = self._part("read_out", leaves, output)
        except Gap as gap:
            raise Refusal(f"the output: {advised(str(gap))} ({output.place})") from None
        read = self.network.read_out(rows, self._weight(part))
        if len(leaves) < self.outputs:  # the rest is read by looks
            part.rows = self.outputs
            read = self.network.join([read[k] for k in range(len(leaves))])
        self._values[id(end)] = read
        if end is not output:
            self.network.output(self._value(output))
        self._penalties(terms)

    def _penalties(self, terms: dict) -> None:
        for name, term in terms.items():
            file, _, rest = term.place.partition(".py:")
            about = f"term of the loss, {os.path.basename(file)}.py:{rest.partition(':')[0]}"
            self.network.penalty(self._value(term), name, {"about": about})

    def _read_out(self, output: Expression):
        """(what is read out, the rows that it reads, the parts of its matrix)."""
        if output.operation == "times" and output.arguments[0].operation == "look" \
                and id(output.arguments[0]) not in self._embedded:
            _, x, leaves = self._read_out(output.arguments[0])
            return output, x, tuple(leaf.times(self._constant(output)) for leaf in leaves)
        looks = [one for one in looks_of(output) if one.width <= output.width
                 and id(one) not in self._embedded and is_read_alone(one, [output])] or [
            one for one in looks_of(output) if one.width == output.width]
        looks.sort(key=lambda one: -one.width)
        if looks:
            return looks[0], looks[0].arguments[0], looks[0].data[0]
        raise Refusal(f"the output is made by {said(output)}, and a program ends with a product "
                      "of rows and a matrix, and what acts on it; let the module return what an "
                      f"nn.Linear of its rows gives, by output= or in build ({output.place})")

    @staticmethod
    def _uses(every) -> dict:
        """How often each leaf is used as a map: {key: set of its targets}, with a count."""
        uses: dict = {}
        for one in every:
            if one.operation == "map":
                leaf, *to = one.data
                uses.setdefault(leaf.key(), []).append(tuple(to))
        return uses

    def _value(self, root: Expression):
        for one in ordered([root], self._values):
            self.network._origin = one.place
            try:
                self._values[id(one)] = getattr(self, "_write_" + one.operation,
                                                self._unwritten)(one)
            except Refusal:
                raise
            except Gap as gap:
                raise Refusal(f"{said(one)}: {advised(str(gap))} ({one.place})") from None
        return self._values[id(root)]

    def _write_top(self, one):
        (value,) = self._arguments(one)
        if not one.is_rows:
            return self.network.top(value, one.data[0])
        if one.data[0][0] == one.data[0][1]:
            return self.network.top(value, one.data[0][0])
        sizes = one.population.find().sizes
        shares = {Fraction(k, n) for k, n in zip(one.data[0], sizes)}
        if len(shares) > 1:
            raise Gap("the number of experts chosen is no share of all of them; let build choose "
                      "a fixed number, or a fixed share")
        return self.network.top(value, share=exact(shares.pop()))

    def _unwritten(self, one: Expression):
        if one.operation in INSIDE:
            return None                 # what uses it writes it, or refuses it
        if one.operation in LOGITS:
            raise Gap(f"{LOGITS[one.operation]} without a softmax, which alone may have them; "
                      "multiply by a mask of ones and zeros instead")
        raise Gap("it is no part of a program")

    def _arguments(self, one: Expression):
        return [self._known(argument) for argument in one.arguments]

    # --- numbers of the width --------------------------------------------------------------------

    def number(self, values):
        """c N^p of a constant."""
        law = power_of(values, self.widths)
        if law is None:
            raise Gap(f"{self._no_power(values)}; what build draws, such as a buffer of random "
                      "numbers, must be the same at all widths")
        c, p = law
        return c if p == 0 else self.network.N ** p * c

    def _no_power(self, values) -> str:
        return f"a constant that is no power of the width: {values[0]:.6g} at " \
            f"N = {self.widths[0]} and {values[1]:.6g} at {self.widths[1]}"

    def _constant(self, one: Expression) -> tuple[float, float]:
        """What an expression is multiplied by; matrices beneath it have all of it but the sign."""
        if id(one) not in self._factors.moved:
            return one.data
        return (1.0, 1.0) if one.data[0] > 0 else (-1.0, -1.0)

    def population(self, one, **more) -> object:
        """The population of rows."""
        one = one.find()
        if isinstance(one, Pairs):
            return self._pairs(one)
        if id(one) not in self._populations:
            law = power_of(one.sizes, self.widths)
            if law is None:
                raise Gap(f"sites that are no power of the width: {one.sizes[0]} and "
                          f"{one.sizes[1]}; let build make layers whose sizes are c N^p")
            c, p = law
            name = f"p{len(self._populations) + 1}"
            if p == 1:
                c = exact(Fraction(one.sizes[0], self.widths[0]))
                made = self.network.population(name, **({} if c == 1 else {"size": c}), **more)
            else:
                made = self.network.population(name, size=self.network.N ** (p - 1) * c, **more)
            if id(one) in self._heads:  # their logits live on them, all else on their units
                self._heads[id(one)] = made
                made = self.network.population(name + "_units", of=made, group=1)
            self._populations[id(one)] = made
        return self._populations[id(one)]

    def _pairs(self, one: Pairs):
        key = id(one.outer.find()), id(one.inner.find())
        if key not in self._populations:
            of = self.population(one.outer)
            units = self.population(one.inner, mirrored=not self._equal)
            self._populations[key] = self.network.population(
                f"p{len(self._populations) + 1}", of=of, units=units)
        return self._populations[key]

    # --- matrices --------------------------------------------------------------------------------

    def _part(self, kind: str, leaves, one: Expression, to=None, more=1.0, start=None) -> Part:
        """The matrix of leaves, whose factors must be the same."""
        factors = {leaf.times(self._factors.of.get(leaf.key(), (1.0, 1.0))).factor
                   for leaf in leaves}
        if len(factors) > 1:
            raise Gap("parts of a matrix have different factors; multiply what it gives as a "
                      "whole, or build the module with separate parameters")
        if kind != "bias" and id(one) in self._chosen_by:
            raise Gap(f"{leaves[0].parameter} decides about a choice alone, through which no "
                      "gradient comes, so that it never moves; and an expert that the example "
                      "never chose is not there: weight what is chosen by its score, and give 24 "
                      "or more rows for each expert")
        values = factors.pop()
        law = power_of(values, self.widths)
        if law is None:
            odd = self._factors.odd(Left(one.place, values))
            raise Refusal(f"{said(one)}: multiplied by {self._no_power(odd.values)}; let it be "
                          "c N^p, or a tensor where it is computed from data, as float(h.mean()) "
                          f"({odd.place})")
        name = self._free(name_of(leaves[0].parameter))
        self.parts.append(Part(name, kind, tuple(leaves), (law[0] * more, law[1]), to, start,
                               still=is_still(leaves, self._moving)))
        return self.parts[-1]

    def _weight(self, part: Part, **more) -> dict:
        said = more | self._more(part, self)
        return {"name": part.name, "label": part.label, **part.at_rest(said)}

    def _write_map(self, one):
        leaf, *to = one.data
        uses = self._tied[leaf.key()]
        if len(set(uses)) > 1:
            raise Gap(f"{leaf.parameter} is used as a matrix and as its transpose; build the "
                      "module with a parameter for each")
        part = self._maps.get(leaf.key()) or self._part("map", (leaf,), one, tuple(to))
        self._maps[leaf.key()] = part
        (x,) = self._arguments(one)
        more = {"tied": True} if len(uses) > 1 else {}
        if self.starts_alike(one):
            return self._map_of_equal_experts(one, x, part)
        if "a0" not in self._more(part, self):
            more |= self._scale_of_sum(one, part)
        return self.network.map(x, self.population(one.population), self._weight(part, **more))

    def _write_look(self, one):
        if id(one) in self._embedded:
            return self._look_of_embedding(self.network.look, one, *self._arguments(one), one.width)
        part = self._part("look", one.data[0], one)
        (x,) = self._arguments(one)
        return self.network.look(x, one.width, self._weight(part))

    def _write_ones(self, one):
        return self._constant_rows(self.population(one.population), 1.0)

    def _write_vector(self, one):
        start, both = self._starts(one.data[0])
        part = self._part("vector", one.data, one, start=start)
        more = {} if start is None else {"start": start}
        if start is None and power_of(both or (0, 1), self.widths):     # one number, as N^p
            factor = [part.at(N) * value for N, value in zip(self.widths, both)]
            sizes = tuple(map(abs, factor))
            more = {"start": math.copysign(1.0, factor[0]), "a0": self.number(sizes)}
        if start and part.factor != (1.0, 0):
            more["a0"] = self.number(tuple(part.at(N) for N in self.widths))
        return self.network.vector(self.population(one.population), self._weight(part, **more))

    def _constant_rows(self, population, value):
        text = repr(value) if isinstance(value, float) else value._text
        return self.network.constant(population, self.network.function("u, s", text))

    def _numbers_at_start(self, part: Part) -> list:
        """What the numbers of a bias start at, each with the factor that it has in the module."""
        found = []
        for leaf in part.leaves:
            one, both = self._starts(leaf)
            both = both if power_of(both, self.widths) else (one, one)      # drawn
            found.append(self.number(tuple(
                value * part.at(N) for N, value in zip(self.widths, both))))
        return found

    def _bias(self, s, one: Expression, added: Expression):
        leaves = added.data[0]
        if added.width != one.width:
            raise Gap("one trained number is added to several; let it have an entry for each")
        part = self._part("bias", leaves, one)
        start = self._numbers_at_start(part)
        if len(leaves) > added.width:   # a list for each kind of token
            start = [start[k:k + added.width] for k in range(0, len(start), added.width)]
            self.letters = len(start)
        more = {"rate": 0} if id(added) in self._chosen_by else {}
        return self.network.bias(s, start, self._weight(part) | more)

    # --- arithmetic ------------------------------------------------------------------------------

    def _write_add(self, one):
        a, b = one.arguments
        for first, second in ((a, b), (b, a)):
            if second.operation == "parameter" and not first.is_rows \
                    and self._used[id(second)] == 1:
                return self._bias(self._known(first), one, second)
            if second.operation == "constant":
                if first.is_rows:
                    ones = self._constant_rows(self.population(one.population),
                                               self.number(second.data))
                    return self._known(first) + self._at_places(
                        ones, places_of(first, self._places, self.tokens))
                return self._known(first) + self.number(second.data)
            if second.operation in ("of_token", "table") and first.is_rows:
                return self._known(first) + self._table(second, one)
        x, y = self._met(one)
        return x + y

    def _met(self, one: Expression):
        """All arguments; what is the same for all tokens has the places of the others."""
        found = [self._list(each.data[:1]) if each.operation == "constant" else self._known(each)
                 for each in one.arguments]
        places = [places_of(each, self._places, self.tokens) for each in one.arguments]
        most = max(filter(None, places), default=None)
        for k, mine in enumerate(places):
            if mine == 1 and most > 1:
                found[k] = self.network.mix(found[k], [[1.0]] * most)
            elif mine is None:
                found[k] = self._at_places(found[k], most)
        return found

    def _at_places(self, value, count):
        """What is the same for all tokens, at so many places; None: for all tokens."""
        if count in (None, self.tokens):
            return value
        return self.network.mix(value, [[1.0, *[0.0] * (self.tokens - 1)]] * count)

    def _known(self, one: Expression):
        """The value of an argument, which may be a number of its own."""
        if one.operation == "parameter" and self._values.get(id(one)) is None:
            part = self._part("bias", one.data[0], one)
            start = self._numbers_at_start(part)
            more = {"rate": 0} if id(one) in self._chosen_by else {}
            self._values[id(one)] = self.network.scalar(
                self._weight(part, start=start) | more)
        if one.operation == "of_token" and self._values[id(one)] is None:
            self._values[id(one)] = self._number_of_token(one)
        value = self._values[id(one)]
        if one.operation == "attend":
            value = self._attended(one)
        if value is None:
            raise Gap(f"{said(one)} is used in a way that a program does not have")
        return value

    def _write_times(self, one):
        (x,), k = one.arguments, self._constant(one)
        if x.operation == "attend":
            return self._attended(x, self.number(k))
        return self._known(x) if k == (1.0, 1.0) else self.number(k) * self._known(x)

    def _write_multiply(self, one):
        a, b = one.arguments
        for first, second in ((a, b), (b, a)):
            if second.operation in ("of_token", "table") and first.is_rows:
                return self._table(second, one) * self._known(first)
        x, y = self._met(one)
        if a.is_rows == b.is_rows:
            return x * y
        if b.width > 1:
            raise Gap("rows are multiplied by several numbers at once; multiply them by one after "
                      "the other, and add")
        return (y if b.operation == "pick" else y[0]) * x

    def _write_pick(self, one):
        (whole,) = one.arguments
        value = self._known(whole) if whole.operation == "parameter" else self._values[id(whole)]
        return None if value is None else value[one.data[0]]

    def _write_power(self, one):
        (x,) = self._arguments(one)
        return 1.0 / x if one.data[0] == -1 else x ** one.data[0]

    def _write_function(self, one):
        (x,) = self._arguments(one)
        name, k = one.data
        call = getattr(self.network, name)
        return call(x) if k == 1 else call(x, k)

    # --- the rest: a word of the language each ---------------------------------------------------

    def _write_average(self, one):
        values = self._arguments(one)
        return self.network.mean(*values) if len(values) == 1 else self.network.average(*values)

    def _write_softmax(self, one):
        return self.network.softmax(*self._arguments(one), causal=one.data[0])

    def _write_mix(self, one):
        return self.network.mix(*self._arguments(one))

    def _write_mix_places(self, one):
        (x,) = self._arguments(one)
        return self.network.mix(x, [list(row) for row in one.data])

    def _write_sum(self, one):
        return self.network.sum(*self._arguments(one))

    def _write_log_sum_exp(self, one):
        return self.network.log_sum_exp(*self._arguments(one))

    def _write_softmax_of_numbers(self, one):
        return self.network.softmax(*self._arguments(one))

    def _write_softmax_of_top(self, one):
        return self.network.softmax(*self._arguments(one), top=one.data[0])

    def _write_top_rows(self, one):
        return self.network.top_rows(*self._arguments(one), one.data[0])

    def _write_stop(self, one):
        return self.network.stop(*self._arguments(one))

    def _write_mean_of_rows(self, one):
        return self.network.mean_of_rows(*self._arguments(one))

    def _write_pool(self, one):
        return self.network.pool(*self._arguments(one))

    def _write_not(self, one):
        return 1.0 - self._known(one.arguments[0])


def exact(value: Fraction) -> float | int:
    """A size as Lua computes it without an error."""
    return int(value) if value.denominator == 1 else float(value)
