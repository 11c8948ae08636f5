"""A plan of a module with many experts and blocks, from what it has with few of them.

    content = counted_content(build, example, {"N": 256}, {"E": 256, "L": 60}, "mssp", None, {})

`build` is called with few of each alone. Which parameters there are with more of them is seen from
their names and shapes with few, with some more, and with still more. Their laws are those of the
parameters of the same kind, and are checked where there are some more.
"""
from __future__ import annotations

import contextlib
import itertools
import math
import operator
import warnings

import torch

from dmft.errors import InputError, NoteWarning
from dmft.torch.importing.builds import Builds
from dmft.torch.importing.facts import facts, other_fact
from dmft.torch.importing.result import example_of
from dmft.torch.importing.record import run
from dmft.torch.plan_counts import Uneven, numbers
from dmft.torch.plan_laws import Planner, small_sizes
from dmft.torch.plan_sizes import ROUND_OFF, listed
from dmft.torch.plans import Plan, index_in
from dmft.torch.strangers import said_of

# The numbers of experts and blocks that are tried, until those chosen are fewer than all, and by
# how much they may differ: groups of experts, and blocks of which every other one is of a kind.
STARTS, STEPS = (3, 4, 6, 8, 12, 16, 24, 32), (1, 2, 3, 4, 6, 8)
ENOUGH = 12                             # numbers of each of SEEDS modules
RATES = ("sgd", "adam", "eps", "muon")


class NoFamily(InputError):
    """Experts or blocks that are not alike."""


class Few:
    """The module with few experts and blocks. `places`: {their name: three numbers of them}."""

    def __init__(self, build, example, base, asked, widths, more):
        self.small, self._build, self.base = small_sizes(base, widths), build, base
        ignore = more.get("ignore", ())
        self._builds = Builds(build, {size: (value, 2 * value) for size, value in
                                      (self.small | asked).items()},
                              [ignore] if isinstance(ignore, str) else ignore)
        self._example, self._output = example_of(example), more.get("output")
        self.asked, self.places = asked, {}
        self._why, self._note, self._ran, self._facts = None, None, {}, {}
        self._others: set[tuple] = set()    # places of a size that say another module than all

    def module(self, counts: dict, seed: int = 0, **sizes):
        """Builds it with so many experts and blocks, at small sizes but for these."""
        return self._builds.of_sizes([*(self.small | sizes).values(), *counts.values()], seed)

    def at(self, k: int) -> dict:
        """Their numbers: few of each (0), some more (1), or still more (2)."""
        return {size: values[k] for size, values in self.places.items()}

    def build_at(self, k: int):
        """`build` as a function of the sizes that grow."""
        return lambda *sizes: self._build(*sizes, *self.at(k).values())

    def _rows(self, size: str, start: int) -> list[tuple]:
        """Three numbers of a size each, of at least `start`. Those whose step divides all that are
        asked for come first, as the experts of groups are multiples of their number."""
        asked, found = self.asked[size], []
        for step in sorted(STEPS, key=lambda step: (asked % step > 0, step)):
            first = start + (asked - start) % step
            found.append((first, first + step, first + 2 * step))
        return found

    def from_starts(self, starts) -> bool:
        """Chooses places of at least these numbers, one for each size, at which the module is built
        and runs."""
        uneven, rows = None, [self._rows(*one) for one in zip(self.asked, starts)]
        for which in sorted(itertools.product(range(len(STEPS)), repeat=len(rows)), key=sum):
            self.places = {size: row[k] for size, row, k in zip(self.asked, rows, which)}
            try:                        # first what is seen without running a module
                if self._is_whole() and self.kinds() is not None and self._runs():
                    return True
            except Uneven as error:
                uneven = uneven or (error if self._runs() else None)
                self._others.update(self._uneven())
            except InputError as error:
                self._why = error.sentence
        if uneven:
            self._why = uneven.sentence
            raise self.refused()
        return False

    def _facts_of(self, counts: dict):
        """Those of the module with so many experts and blocks, which is made without its numbers;
        None where it cannot be."""
        if repr(counts) not in self._facts:
            module = self._builds.without_numbers([*self.small.values(), *counts.values()])
            self._facts[repr(counts)] = module and facts(module)
        return self._facts[repr(counts)]

    def _is_whole(self) -> bool:
        """Whether the modules with as many of each as are asked for are what these few say, as far
        as it is seen without their numbers."""
        if not self._others.isdisjoint(self.places.items()):
            return False
        grid = {name: places[:2] for name, places in self.places.items()}
        corners = {which: self._facts_of({name: pair[k] for (name, pair), k in zip(
            grid.items(), which)}) for which in itertools.product((0, 1), repeat=len(grid))}
        for size, many in self.asked.items():
            counts = self.at(0) | {size: many}
            there = self._facts_of(counts)
            if there is None or None in corners.values():
                self._note = f"with {size} = {many} the module is not compared with those of few " \
                    "of them: its constructor cannot run without the memory of its numbers"
                continue
            why = other_fact(corners, there, grid, counts)
            if why:
                self._why = why
                self._others.add((size, self.places[size]))
                return False
        return True

    def _uneven(self):
        """The sizes, with their places, whose numbers of parameters are uneven beside fewest of the
        others."""
        for size, values in self.places.items():
            def names(sizes):
                counts = self.at(0) | sizes
                return self._builds.names([*self.small.values(), *counts.values()])
            try:
                numbers(names, {size: values})
            except Uneven:
                yield size, values

    def _refuse_ignored(self) -> None:
        """Refuses a number that build takes and of which its module is independent."""
        for size, (low, high, _) in self.places.items():
            both = [self.module(self.at(0) | {size: k}) for k in (low, high)]
            shapes = [[(name, one.shape) for name, one in module.named_parameters()]
                      for module in both]
            if shapes[0] == shapes[1] and operator.eq(*(
                    [_written(step) for step in run(module, self._example, self._output).steps]
                    for module in both)):
                raise NoFamily(f"counts: build gives the same module with {size} = {low} and with "
                               f"{size} = {high}; leave {size} out of counts, or let build use it")

    def _runs(self) -> bool:
        """Whether the module runs with few and with some more experts and blocks."""
        return all(self._runs_with(k) for k in (0, 1))

    def _runs_with(self, k: int) -> bool:
        counts = self.at(k)
        if repr(counts) not in self._ran:
            self._ran[repr(counts)] = False
            try:
                module = self.module(counts)
                run(module, self._example, self._output)
                self._ran[repr(counts)] = True
            except InputError as error:
                self._why = error.sentence
            except Exception as error:  # of a stranger's code
                self._why = f"the module cannot be run: {said_of(error)}"
        return self._ran[repr(counts)]

    def kinds(self, **more) -> dict:
        """How many parameters of each kind there are (plan_counts.numbers); more: {size: places}
        of a size that is a number of blocks, too."""
        def names(sizes):
            counts = {size: sizes[size] for size in self.places}
            there = self.small | {size: sizes[size] for size in more}
            return self._builds.names([*there.values(), *counts.values()])
        return numbers(names, more | self.places)

    def first(self, made):
        """made() with the smallest numbers of experts and blocks at which it can be. Where it fails
        more of each by itself are tried once: with the fewest, all experts (of a group) may have
        been chosen."""
        sizes = range(len(self.asked))
        ups = {tuple(up if k in (one, None) else 0 for one in sizes) for k in (None, *sizes)
               for up in range(len(STARTS))}        # of all, or of one alone
        fewest = self._found(sorted(ups, key=lambda one: (sum(one), one)))
        if fewest is None:
            raise self.refused()
        if self._note:
            warnings.warn(self._note, NoteWarning, stacklevel=4)
        self._refuse_ignored()
        tried = [self.places]
        try:
            return made()
        except InputError as error:
            why = error
        for k in sizes:
            more = [tuple(up if one == k else fewest[one] for one in sizes)
                    for up in range(fewest[k] + 1, len(STARTS))]
            if self._found(more, tried) is not None:
                tried.append(self.places)
                with contextlib.suppress(InputError):
                    return made()
        raise why

    def _found(self, starts, tried=()):
        """The first of these numbers of starts whose places are others than those tried."""
        for one in starts:
            if self.from_starts([STARTS[k] for k in one]) and self.places not in tried:
                return one
        return None

    def refused(self) -> InputError:
        """Why there are no places."""
        return NoFamily(f"no small {' and '.join(self.asked)} are found at which the module runs "
                        "and has as many parameters of each kind as these say; leave out of counts "
                        f"what is no number of equal parts ({self._why})")


def _written(step) -> tuple:
    """What a step is, but for the numbers in its tensors."""
    def of(value):
        if isinstance(value, (list, tuple)):
            return [of(one) for one in value]
        return list(value.shape) if isinstance(value, torch.Tensor) else value
    return step.operation, of(step.arguments), {key: of(one) for key, one in step.options.items()}


def counted_content(build, example, base, counts, word, widths, more) -> dict:
    """The content of a plan of a module with these numbers of experts and blocks."""
    from dmft.torch.planning import Assembly
    few = Few(build, example, base, checked(counts, base), widths, more)

    def made():
        planners = [Planner(few.build_at(k), example, base, widths, more, compare=not k)
                    for k in (0, 1)]
        with planners[0].lines.named():
            for planner in planners:
                planner.measure()
            content, other = (Assembly(planner, word).content for planner in planners)
            return _Family(few, planners[0], content, other).content
    return few.first(made)


def checked(counts, base) -> dict:
    """The numbers of experts and blocks that are asked for; refuses what is none."""
    if not isinstance(counts, dict) or not counts or len(counts) > 3 \
            or any(isinstance(one, bool) or not isinstance(one, int) or one < 1
                   for one in counts.values()):
        raise InputError(f"counts: {counts!r}; must be the numbers of experts and blocks of your "
                         "model, as {\"E\": 256, \"L\": 60}, in the order of build's arguments "
                         "behind those of base; three at most")
    both = sorted(set(counts) & set(base if isinstance(base, dict) else ()))
    if both:
        raise InputError(f"counts: {both[0]} is in base, too; numbers go with what is in base, and "
                         "stay what they are where there are more of what is in counts")
    return counts


class _Family:
    """A plan with few experts and blocks becomes one for many of them."""

    def __init__(self, few: Few, planner: Planner, content: dict, other: dict):
        self._few, self._planner = few, planner
        content["counts"] = dict(few.asked)
        content["numbers"] = few.kinds(**planner.places_of_counted())
        for size in few.asked:
            self._open(content, size)
        self.content = content
        if content["notes"] != other["notes"]:
            raise NoFamily(f"the module has other lines to change at {listed(few.at(1))} than at "
                           f"{listed(few.at(0))}; leave out of counts what is no number of equal "
                           "parts")
        self._compared(other)
        self._starts()

    # --- shapes ----------------------------------------------------------------------------------

    def _open(self, content: dict, size: str) -> None:
        """Axes with an entry for each expert: their length goes with the number of these."""
        values = self._few.places[size]
        shapes = [{name: one.shape for name, one in self._few.module(
            self._few.at(0) | {size: value}).named_parameters()} for value in values]
        for entry in content["parameters"]:
            for name in entry["names"]:
                lengths = [shape.get(name, ()) for shape in shapes]
                if len({len(one) for one in lengths}) == 1:
                    entry["shape"] = [self._axis(size, values, axis, three) for axis, three in
                                      zip(entry["shape"], zip(*lengths))]
            for k, (_, law) in enumerate(entry["shape"]):
                if size in law:
                    entry["parts"] = _of_all(entry["parts"], k)

    @staticmethod
    def _axis(size: str, values, axis, lengths):
        """[c, law] of an axis of these lengths. Another parameter that has got the name of one
        leaves it as it is."""
        c, law = axis
        if size in law or c is None or len(set(lengths)) == 1:
            return axis
        if all(one * values[0] == lengths[0] * value for one, value in zip(lengths, values)):
            return [c / values[0], law | {size: 1.0}]
        return axis if lengths[1] - lengths[0] != lengths[2] - lengths[1] else [None, {}]

    # --- the check -------------------------------------------------------------------------------

    def _compared(self, other: dict) -> None:
        """What is said of some more experts and blocks is what a plan of them says."""
        counts = self._few.at(1)
        there = {name: entry for entry in other["parameters"] for name in entry["names"]}
        plan = Plan(self.content | {"counts": counts})
        try:
            plan.sizes(self._few.module(counts))
            matched = plan._matched(self._few.module(counts))
        except InputError as error:
            raise NoFamily(f"{error.sentence}, as it is with {listed(self._few.at(0))}; leave out "
                           "of counts what is no number of equal parts") from None
        for name, mine, one in matched:
            theirs = there[name]
            shape = [[c, law] if c is None or not set(law) & set(counts) else
                     [c * math.prod(counts.get(size, 1) for size in law),
                      {size: up for size, up in law.items() if size not in counts}]
                     for c, law in mine["shape"]]
            known = [(a, b) for a, b in zip(shape, theirs["shape"]) if a[0] is not None]
            parts = theirs["parts"]
            for k, (_, law) in enumerate(mine["shape"]):
                if set(law) & set(counts):
                    parts = _of_all(parts, k)
            same = all(mine[key] == theirs[key] for key in RATES) and all(
                a[1] == b[1] and b[0] and abs(a[0] - b[0]) <= ROUND_OFF * b[0] for a, b in known) \
                and [_said(part, one) for part in mine["parts"]] == [
                    _said(part, one) for part in parts]
            if not same:
                raise NoFamily(f"{name} has other laws at {listed(counts)} than such parameters "
                               f"have at {listed(self._few.at(0))}; leave out of counts what is no "
                               "number of equal parts")

    # --- starts ----------------------------------------------------------------------------------

    def _starts(self) -> None:
        """Standard deviations at the base go with the numbers of experts and blocks, too."""
        plan = Plan(self.content)
        before = self._measured(plan, self._few.at(0))
        ups: dict = {}
        for size, (low, _, high) in self._few.places.items():
            after = self._measured(plan, self._few.at(0) | {size: high})
            for key, (std, error) in before.items():
                more, its_error = after[key]
                if not std or not more:
                    continue
                noise = 5 * math.hypot(error, its_error)
                up = math.log(more / std) / math.log(high / low)
                near = 0 if abs(math.log(more / std)) <= noise else round(4 * up) / 4
                exact = abs(up - near) * math.log(high / low) <= noise
                sure = not near or noise < math.log(high / low) / 8
                ups.setdefault(key, {})[size] = near if exact and sure else None
        for (k, j), powers in ups.items():
            entry = self.content["parameters"][k]
            name = entry["names"][0]
            part, unknown = entry["parts"][j], [one for one, up in powers.items() if up is None]
            if unknown and part["own"] is None:
                raise NoFamily(f"how {name} starts is no power of {unknown[0]}, nor of "
                               "the sizes; leave it out of counts, or start it otherwise")
            if unknown:
                warnings.warn(f"how {name} starts is no power of {unknown[0]}: the plan takes what "
                              "your constructor draws, and that this goes with the sizes as it "
                              "does with few", NoteWarning, stacklevel=5)
            part["at_base"] = None if unknown else part["at_base"] * math.prod(
                (self._few.asked[size] / self._few.places[size][0]) ** up
                for size, up in powers.items())

    def _measured(self, plan: Plan, counts: dict) -> dict:
        """{(number of an entry, of its part): (its standard deviation, the relative error)}."""
        values: dict = {}
        offsets = [next((found.part.start for found in self._planner.found.values()
                         if entry["names"][0] in found.part.parameters), None) or 0.0
                   for entry in self.content["parameters"]]
        where = {id(entry): k for k, entry in enumerate(plan._entries)}
        for seed in range(4):
            for _, entry, one in plan._matched(self._few.module(counts, seed)):
                k = where[id(entry)]
                for j, part in enumerate(entry["parts"]):
                    block = one if part["at"] is None else one[index_in(part["at"], one.shape)]
                    values.setdefault((k, j), []).append(
                        block.detach().double().reshape(-1) - offsets[k])
        found = {}
        for key, blocks in values.items():
            all_of_them = torch.cat(blocks)
            found[key] = all_of_them.square().mean().sqrt().item(), \
                1 / math.sqrt(2 * len(all_of_them))
        return found


def _of_all(parts: list, axis: int) -> list:
    """Parts of which the same is said of each expert along an axis, as parts of all of them."""
    found: dict = {}
    for part in parts:
        at = part["at"] and [[0.0, 1.0, 0, 1] if k == axis and isinstance(one, int) else one
                             for k, one in enumerate(part["at"])]
        found.setdefault(repr(_said(part | {"at": at})), []).append(part | {"at": at})
    return [alike[0] | {"at_base": math.sqrt(sum(one["at_base"] ** 2 for one in alike)
                                             / len(alike))} for alike in found.values()]


def _said(part: dict, parameter=None) -> list:
    """What a plan says of a part, but for the start of a parameter of too few numbers to tell the
    power of their standard deviation."""
    few = parameter is not None and parameter.numel() < ENOUGH
    return [part[key] for key in (("at", "equal") if few else ("at", "equal", "own", "std"))]
