"""The numbers of a module's parameters at several sizes, and the laws that they follow.

The module is imported at small sizes (dmft.torch.import_module), once along each direction in which
its sizes can grow: all sizes doubled, and each but the first to the fourth. The numbers of the
network at all these places are products of powers of the sizes, which dmft.power finds. In the
language of the program they are MSSP's; muP takes the standard deviation, and what follows from it,
of a sum over experts from the inputs of one expert (docs/plan.md).
"""
from __future__ import annotations

import dataclasses
import math

import torch

from dmft.errors import InputError
from dmft.power import Law, fit
from dmft.torch.importing import rates
from dmft.torch.importing.factors import growing_places
from dmft.torch.importing.experts import of_lists
from dmft.torch.importing.judging import Judge
from dmft.torch.importing.merging import merged
from dmft.torch.importing.parts import Part, index_at
from dmft.torch.importing.record import run
from dmft.torch.importing.builds import Builds
from dmft.torch.importing.result import Imported, example_of, import_module
from dmft.torch.importing.graph import ordered
from dmft.torch.plan_sizes import pattern_of
from dmft.torch.plan_counts import numbers
from dmft.torch.plan_depth import powers

WORDS = ("mssp", "mup", "sp")
SMALL = 64                              # a base above it is halved for the trace
# So many modules are drawn to measure the power of a start, FEW of those with more numbers than
# LARGE.
SEEDS, FEW, LARGE = 16, 4, 200000
NUMBERS = ("std", "sgd", "adam", "eps")


@dataclasses.dataclass
class Found:
    """What was found of a part of a parameter: its numbers at all places, and how a sum over
    experts enters it. `experts`: the axis along which the parameter has one matrix for each, None
    if there is none such; `summed`: whether the product sums over it; `wide`: whether the units of
    an expert grow, too."""
    part: Part
    values: dict
    experts: int | None = None
    summed: bool = False
    wide: bool = False


@dataclasses.dataclass
class Traced:
    """An imported module with its expressions and the widths it was traced at."""
    imported: object
    roots: list
    widths: tuple


class Planner:
    """Collects the numbers of all parameters. `base`: {size: its value where your numbers hold};
    compare: whether outputs and gradients are compared with those of the module, too."""

    def __init__(self, build, example, base, widths, more, compare=True):
        self._compare = compare
        self.small = small_sizes(base, widths)
        self.base, self.sizes = base, list(base)
        ignore = more.get("ignore", ())
        self.ignored = [ignore] if isinstance(ignore, str) else list(ignore)
        self._builds = Builds(build, {size: (value, 2 * value)
                                      for size, value in self.small.items()}, self.ignored)
        self._build, self._example, self._more = build, example, more
        self._why: dict[str, str] = {}  # why lists that grow are none of experts
        self.counted = self._counted()  # sizes that are a number of modules
        self.counts = {size: patterns for size, patterns in self.counted.items()
                       if not self._of_experts_in_lists(size)}      # of blocks
        self.growing = [size for size in self.sizes if size not in self.counts]
        if not self.growing:
            raise InputError(f"base has {', '.join(self.counts)} alone, and no size of a tensor "
                             "grows; give the width, too")
        if self.counts and widths is None:
            self.small = halved({size: base[size] for size in self.growing}) \
                | dict.fromkeys(self.counts, 2)
            self.small = {size: self.small[size] for size in self.sizes}
        self.places: list[dict] = []
        self.found: dict[str, Found] = {}
        self.left: dict[tuple, list] = {}
        self.deep: dict[str, dict] = {}         # {size: {parameter: {number: power}}}
        self.branches: dict[str, list] = {}     # {size: lines to be multiplied}
        self._import()

    # --- imports ---------------------------------------------------------------------------------

    def _of_experts_in_lists(self, size: str) -> bool:
        """Whether what there is more of are experts in lists that can be one tensor; `_builds` then
        has them as such."""
        places = [list((self.small | {size: k * self.small[size]}).values()) for k in (1, 2)]
        before = self._builds.lists
        found = self._builds.growing_lists(*places)
        self._why |= {size: f"{name}, which has more members where it is larger, {why}"
                      for name, why in found.items() if why}
        self._builds.lists = before | {name for name, why in found.items() if not why}
        if self._builds.lists == before or any(found.values()):
            self._builds.lists = before
            return False
        try:
            module = self._builds.of_sizes(places[0], 0)
            merged(run(module, example_of(self._example), self._more.get("output")))
        except InputError as error:
            self._why[size], self._builds.lists = error.sentence, before
            return False
        except Exception:               # of a stranger's code, of which the import says more
            self._builds.lists = before
            return False
        return True

    def _names(self, sizes: dict) -> list[str]:
        return self._builds.names(list(sizes.values()))

    def _counted(self) -> dict:
        """{size: names of the parameters of which there are more where it is larger}."""
        names, found = self._names(self.small), {}
        for size, value in self.small.items():
            more = self._names(self.small | {size: 2 * value})
            if set(more) != set(names):
                patterns = {pattern_of(one) for one in set(more) ^ set(names)}
                found[size] = patterns
        return found

    def _imported(self, pairs: dict, counts: dict):
        """The module at two sizes of what grows, and with these numbers of blocks."""
        def build(*values):
            sizes = dict(zip(pairs, values)) | counts
            return self._build(*(sizes[size] for size in self.sizes))
        made = import_module(build, self._example, pairs, **self._more) if self._compare else \
            Imported(Builds(build, pairs, self.ignored), example_of(self._example),
                     self._more.get("output"))
        return Traced(made, made.roots, made._builds.widths)

    def _import(self) -> None:
        imports, counts = [], {size: self.small[size] for size in self.counts}
        for direction in [None, *self.growing[1:]]:
            pairs = {size: (self.small[size], (4 if size == direction else 2) * self.small[size])
                     for size in self.growing}
            imports.append((pairs, self._imported(pairs, counts)))
        places = set().union(*(growing_places(one.roots, one.widths) for _, one in imports))
        for pairs, one in imports:
            self.places += [{size: pair[k] for size, pair in pairs.items()} for k in (0, 1)]
            one.imported.move(places)
            self._collect(one.imported)
        pairs, shallow = imports[0]
        self.lines = shallow.imported.lines
        for size, patterns in self.counts.items():
            names = [name for name in self._names(self.small) if pattern_of(name) in patterns]
            deep = self._imported(pairs, counts | {size: 2 * self.small[size]})
            with self.lines.named():
                self.deep[size], self.branches[size] = powers(shallow, deep, names, size,
                                                              self._why.get(size))

    def numbers(self) -> dict:
        """How many parameters of each kind there are (plan_counts.numbers)."""
        builds = Builds(self._build, self._builds.sizes, ())
        return numbers(lambda sizes: builds.names([*(self.small | sizes).values()]),
                       self.places_of_counted())

    def places_of_counted(self) -> dict:
        """Three values of each size that is a number of modules."""
        return {size: tuple(k * self.small[size] for k in (1, 2, 3)) for size in self.counted}

    def _collect(self, imported) -> None:
        judge = Judge(imported)
        networks = {kind: judge.networks(kind) for kind in ("sgd", "adam")}
        for part in imported.parts:
            found = self.found.setdefault(part.name, Found(part, {key: [] for key in NUMBERS}))
            for sgd, adam in zip(networks["sgd"], networks["adam"]):
                one, other = (rates.of_network(net, part, kind)
                              for net, kind in ((sgd, "sgd"), (adam, "adam")))
                for key, value in (("std", one.std), ("sgd", one.lr), ("adam", other.lr),
                                   ("eps", other.eps)):
                    found.values[key].append(value)
            self._of_experts(found, imported)
        places = [left.place for left in imported.left]
        for k, left in enumerate(imported.left):    # a line may have several
            self._left((left.place, places[:k].count(left.place)), left.values)

    def _left(self, place: tuple, values) -> None:
        """A factor that stays is kept with its values at all places so far."""
        known = self.left.setdefault(place, [])
        if len(known) < len(self.places):
            known += [1.0] * (len(self.places) - 2 - len(known)) + list(values)

    def _of_experts(self, found: Found, imported) -> None:
        """Which axis of a tensor with three is that of the experts. Of two growing ones on a side
        it is the first. Where the units of an expert are few, it is on their side of the product,
        and its sites are those of a matrix of two axes, too, the router."""
        leaf, to, source = found.part.leaves[0], *(found.part.to or ((), ()))
        if found.part.kind != "map" or len(leaf.at) < 3:
            return
        found.wide = len(to) + len(source) > 2
        read = {id(one.arguments[0]) for one in ordered(imported.roots)
                if one.operation == "map" and one.data[0].parameter == leaf.parameter}
        axes, summed = (source, True) if len(source) == 2 or not found.wide and len(read) > 1 \
            else (to, False)
        if found.wide or self._routed(leaf.populations[axes[0]].find(), imported):
            found.experts, found.summed = axes[0], summed

    @staticmethod
    def _routed(population, imported) -> bool:
        return any(part.kind == "map" and len(part.leaves[0].at) == 2 and len(part.to[0]) == 1
                   and part.leaves[0].populations[part.to[0][0]].find() is population
                   for part in imported.parts)

    # --- laws ------------------------------------------------------------------------------------

    def law(self, values, what: str) -> dict:
        """{size: power} of numbers at all places."""
        law = fit(self.places, values)
        if not law.exact:
            raise InputError(f"{what} is no product of powers of {', '.join(self.sizes)}; let "
                             "build make layers whose sizes and factors are such products")
        return _powers(law)

    def of_part(self, found: Found, word: str) -> tuple[dict, int | None]:
        """({number: law} of a part, the axis along which it starts alike)."""
        name = found.part.parameters[0]
        if word == "sp":
            return dict.fromkeys(NUMBERS, {}) | {"std": None}, None
        laws = {key: self.law(values, f"{key} of {name}") if any(values) else {}
                for key, values in found.values.items()}
        if found.experts is None:
            return laws, None
        alike = found.experts if found.wide and word == "mssp" else None
        if found.summed:
            inputs, F = self._inputs(found), self._factor(found)
            n = added(*(self._length(found, axis) for axis in found.part.to[0]))
            if word == "mup":
                laws |= {"std": _times(inputs, -0.5), "adam": _times(inputs, -1.0),
                         "sgd": added(n, inputs, F, signs=(1, -1, -1))}
            elif found.wide:            # the same matrix acts on the mean over experts
                count = self._length(found, found.experts)
                laws["std"] = added(_times(inputs, -0.5), F, count, signs=(1, -1, -1))
        return laws, alike

    def _length(self, found: Found, axis: int) -> dict:
        """The law of an axis of a parameter."""
        return self.shape_laws[found.part.parameters[0]][axis][1]

    def _inputs(self, found: Found) -> dict:
        """The law of how many inputs one expert has."""
        return added(*(self._length(found, axis) for axis in found.part.to[1]
                      if axis != found.experts))

    def of_muon(self, name: str, parts, adam: dict) -> dict | None:
        """The law of Muon's rate beside (n/m)^1/2 over what its rule multiplies, of a parameter
        that it moves as an n x m matrix, or expert by expert; None of another. In a step that few
        inputs ask for its entries move by (n m)^-1/2, and they must move as by Adam, so that this
        is the law of Adam's rate times m. The parts must have as many rows each: a gradient is as
        1/n, and of two that go apart one would take the whole step."""
        shape = self.shape_laws[name]
        if len(shape) - (name in self.lists) != 2 or any(
                one.part.kind != "map" or any(isinstance(axis, float) for axes in one.part.to
                                              for axis in axes) for one in parts):
            return None                 # of pairs of an expert and a unit, of which Muon has none
        rows = [added(*(self._length(one, axis) for axis in one.part.to[0])) for one in parts]
        return None if any(one != rows[0] for one in rows) else added(adam, shape[-1][1])

    def _factor(self, found: Found) -> dict:
        """F of U = F W: eps of the network is F/n."""
        n = added(*(self._length(found, axis) for axis in found.part.to[0]))
        return added(self.law(found.values["eps"], "eps"), n)

    # --- starts and shapes -----------------------------------------------------------------------

    def measure(self) -> None:
        """Shapes of all parameters, and how their starts go with each size by itself."""
        points = [self.small] + [self.small | {size: 2 * self.small[size]} for size in self.sizes]
        self._points = points
        first = self._builds.of_sizes(list(self.small.values()), 0)
        self.lists = of_lists(first)    # names of what is stacked
        seeds = SEEDS if sum(one.numel() for one in first.parameters()) < LARGE else FEW
        self._modules = [[dict(self._builds.of_sizes(list(point.values()), seed).named_parameters())
                          for seed in range(seeds)] for point in points]
        self.shape_laws = {}
        for name, one in self._modules[0][0].items():
            shapes = [modules[0][name].shape for modules in self._modules]
            self.shape_laws[name] = [self._dimension(points, lengths)
                                     for lengths in zip(*shapes)]
            if any(len(shape) != one.dim() for shape in shapes):
                raise InputError(f"{name} has another number of dimensions at another size; let "
                                 "build give it as many at every size")
        grown = {size for shape in self.shape_laws.values() for _, law in shape for size in law}
        for size in self.growing:
            if size not in grown:
                raise InputError(f"{size}: no parameter of the module grows with it; leave it out "
                                 "of base, or let build use it")

    def copied_from(self, name: str, names) -> str | None:
        """The one of these parameters whose entries this one has at the start, in every module."""
        return next((other for other in names if all(
            torch.equal(one[name], one[other]) and (one[name] != one[name].flatten()[0]).any()
            for modules in self._modules for one in modules)), None)

    @staticmethod
    def _dimension(points, lengths):
        law = fit(points, lengths)
        return [law.coefficient, _powers(law)] if law.exact else [None, {}]

    def start(self, names, at, offset: float) -> tuple[dict | None, float]:
        """(the law of the standard deviation of parameters that are alike, as the module draws
        them, None if it is no power of the sizes; its value at the base). at: which entries;
        offset: from where they are counted."""
        stds, error = [], 0.0
        for modules in self._modules:
            values = torch.cat([
                (one[name] if at is None else one[name][index_at(at, one[name].shape)])
                .detach().double().reshape(-1) - offset for one in modules for name in names])
            stds.append(values.square().mean().sqrt().item())
            error = max(error, 1 / math.sqrt(2 * len(values)))
        if not all(stds):
            return {}, stds[0]
        law = {}
        for size, std in zip(self.sizes, stds[1:]):
            up = math.log2(std / stds[0])
            law[size] = round(2 * up) / 2
            if abs(up - law[size]) > 0.02 + 6 * error:
                return None, self._at_base(names, at, offset)
        law = {size: up for size, up in law.items() if up}
        ratios = {size: self.base[size] / self.small[size] for size in self.sizes}
        return law, stds[0] * math.prod(ratios[size] ** up for size, up in law.items())

    def _at_base(self, names, at, offset: float) -> float:
        """A standard deviation that is no power of the sizes, in the module of the base."""
        module = self._builds.of_sizes(list(self.base.values()), 0)
        values = torch.cat([(one if at is None else one[index_at(at, one.shape)]).reshape(-1)
                            for name, one in module.named_parameters() if name in names])
        return (values.detach().double() - offset).square().mean().sqrt().item()


def small_sizes(base, widths) -> dict:
    """The sizes at which a module is read, where your numbers hold at these."""
    if not isinstance(base, dict) or not base or not all(
            isinstance(size, str) and isinstance(one, int) and one > 1
            for size, one in base.items()):
        raise InputError(f"base: {base!r}; must be the sizes where your numbers hold, as "
                         "{\"N\": 256}, in the order of build's arguments")
    if widths is not None and not (isinstance(widths, dict) and all(
            isinstance(pair, (tuple, list)) and pair for pair in widths.values())):
        raise InputError(f"widths: {widths!r}; must be two values of each size of base, as "
                         "{\"N\": (64, 128)}")
    small = {size: pair[0] for size, pair in (widths or {}).items()} or halved(base)
    if set(small) != set(base):
        raise InputError(f"widths: {sorted(small)} are given, and base has {sorted(base)}")
    return small


def halved(base: dict) -> dict:
    """Small sizes in the same proportions."""
    times = 1
    while all(value % (2 * times) == 0 for value in base.values()) \
            and next(iter(base.values())) // times > SMALL:
        times *= 2
    return {size: value // times for size, value in base.items()}


def _powers(law: Law) -> dict:
    return {size: float(up) for size, up in law.powers.items() if up}


def in_words(law: dict) -> str:
    """A law in words."""
    return " ".join(f"{size}^{up:g}" for size, up in law.items()) or "1"


def _times(law: dict, k: float) -> dict:
    return {size: k * up for size, up in law.items() if up}


def added(*laws: dict, signs=()) -> dict:
    """The law of a product (sign -1: of what divides)."""
    found: dict = {}
    for law, sign in zip(laws, signs or (1,) * len(laws)):
        for size, up in law.items():
            found[size] = found.get(size, 0) + sign * up
    return {size: up for size, up in found.items() if up}
