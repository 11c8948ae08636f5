"""dmft.torch.plan: the laws of a module's scales and rates, in all sizes that grow.

The module is imported at small sizes (dmft.torch.import_module), once along each direction in which
its sizes can grow: all sizes doubled, and each but the first to the fourth. The numbers of the
network at all these places are products of powers of the sizes, which dmft.power finds. In the
language of the program they are MSSP's; muP takes the standard deviation, and what follows from it,
of a sum over experts from the inputs of one expert (docs/plan.md).
"""
from __future__ import annotations

import dataclasses
import fnmatch
import math
import warnings

import torch

from dmft.errors import InputError, NoteWarning
from dmft.power import Law, fit
from dmft.torch.importing import rates
from dmft.torch.importing.axes import Piece
from dmft.torch.importing.expressions import Pairs
from dmft.torch.importing.judging import Judge
from dmft.torch.importing.parts import Part, index_at
from dmft.torch.importing.result import Builds, import_module
from dmft.torch.importing.writing import ordered
from dmft.torch.plans import FORMAT, Plan, pattern_of
from dmft.torch.plan_factors import Factors, growing_places

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


class Planner:
    """Collects the numbers of all parameters. `base`: {size: its value where your numbers hold}."""

    def __init__(self, build, example, base, widths, more):
        if not isinstance(base, dict) or not base or not all(
                isinstance(one, int) and one > 1 for one in base.values()):
            raise InputError(f"base: {base!r}; must be the sizes where your numbers hold, as "
                             "{\"N\": 256}, in the order of build's arguments")
        self.base, self.sizes = base, list(base)
        self.small = {size: pair[0] for size, pair in (widths or {}).items()} or halved(base)
        if set(self.small) != set(base):
            raise InputError(f"widths: {sorted(self.small)} are given, and base has "
                             f"{sorted(base)}")
        ignore = more.get("ignore", ())
        self.ignored = [ignore] if isinstance(ignore, str) else list(ignore)
        self._builds = Builds(build, {size: (value, 2 * value)
                                      for size, value in self.small.items()}, self.ignored)
        self.places: list[dict] = []
        self.found: dict[str, Found] = {}
        self.left: dict[str, list] = {}
        self._import(build, example, more)

    # --- imports ---------------------------------------------------------------------------------

    def _import(self, build, example, more) -> None:
        imports = []
        for direction in [None, *self.sizes[1:]]:
            pairs = {size: (value, 4 * value if size == direction else 2 * value)
                     for size, value in self.small.items()}
            imports.append((pairs, import_module(build, example, pairs, **more)))
        places = set().union(*(growing_places(self._roots(one), one._builds.widths)
                               for _, one in imports))
        for pairs, one in imports:
            self.places += [{size: pair[k] for size, pair in pairs.items()} for k in (0, 1)]
            self._collect(one, Factors(self._roots(one), one._builds.widths, places))

    @staticmethod
    def _roots(imported) -> list:
        output, terms = imported._expressions
        return [output, *terms]

    def _collect(self, imported, factors) -> None:
        judge = Judge(imported)
        networks = {kind: judge.networks(kind) for kind in ("sgd", "adam")}
        for part in imported.parts:
            F = factors.of.get(part.leaves[0].key(), (1.0, 1.0))
            found = self.found.setdefault(part.name, Found(part, {key: [] for key in NUMBERS}))
            for k, (sgd, adam) in enumerate(zip(networks["sgd"], networks["adam"])):
                one, other = (rates.of_network(net, part, kind)
                              for net, kind in ((sgd, "sgd"), (adam, "adam")))
                for key, value in (("std", one.std / F[k]), ("sgd", one.lr / F[k] ** 2),
                                   ("adam", other.lr / F[k]), ("eps", other.eps * F[k])):
                    found.values[key].append(value)
            self._of_experts(found, imported)
        for left in factors.left:
            self._left(left.place, left.values)

    def _left(self, place: str, values) -> None:
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
        read = {id(one.arguments[0]) for one in ordered(self._roots(imported))
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
            raise InputError(f"{what} is no product of powers of {', '.join(self.sizes)}")
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
            n = _sum(*(self._length(found, axis) for axis in found.part.to[0]))
            if word == "mup":
                laws |= {"std": _times(inputs, -0.5), "adam": _times(inputs, -1.0),
                         "sgd": _sum(n, inputs, F, signs=(1, -1, -1))}
            elif found.wide:            # the same matrix acts on the mean over experts
                count = self._length(found, found.experts)
                laws["std"] = _sum(_times(inputs, -0.5), F, count, signs=(1, -1, -1))
        return laws, alike

    def _length(self, found: Found, axis: int) -> dict:
        """The law of an axis of a parameter."""
        return self.shape_laws[found.part.parameters[0]][axis][1]

    def _inputs(self, found: Found) -> dict:
        """Of how many inputs one expert has."""
        return _sum(*(self._length(found, axis) for axis in found.part.to[1]
                      if axis != found.experts))

    def of_muon(self, parts) -> dict | None:
        """Of a matrix with two growing sides the law of 1/F, else None."""
        first = parts[0]
        if any(one.part.kind != "map" for one in parts) or len(first.part.leaves[0].at) != 2:
            return None
        return _times(self._factor(first), -1.0)

    def _factor(self, found: Found) -> dict:
        """F of U = F W: eps of the network is F/n."""
        n = _sum(*(self._length(found, axis) for axis in found.part.to[0]))
        return _sum(self.law(found.values["eps"], "eps"), n)

    # --- starts and shapes -----------------------------------------------------------------------

    def measure(self) -> None:
        """Shapes of all parameters, and how their starts go with each size by itself."""
        points = [self.small] + [self.small | {size: 2 * self.small[size]} for size in self.sizes]
        self._points = points
        first = self._builds.of_sizes(list(self.small.values()), 0)
        seeds = SEEDS if sum(one.numel() for one in first.parameters()) < LARGE else FEW
        self._modules = [[dict(self._builds.of_sizes(list(point.values()), seed).named_parameters())
                          for seed in range(seeds)] for point in points]
        self.shape_laws = {}
        for name, one in self._modules[0][0].items():
            shapes = [modules[0][name].shape for modules in self._modules]
            self.shape_laws[name] = [self._dimension(points, lengths)
                                     for lengths in zip(*shapes)]
            if any(len(shape) != one.dim() for shape in shapes):
                raise InputError(f"{name} has another number of dimensions at another size")

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


def halved(base: dict) -> dict:
    """Small sizes in the same proportions."""
    times = 1
    while all(value % (2 * times) == 0 for value in base.values()) \
            and next(iter(base.values())) // times > SMALL:
        times *= 2
    return {size: value // times for size, value in base.items()}


def _powers(law: Law) -> dict:
    return {size: float(up) for size, up in law.powers.items() if up}


def _said(law: dict) -> str:
    return " ".join(f"{size}^{up:g}" for size, up in law.items()) or "1"


def _times(law: dict, k: float) -> dict:
    return {size: k * up for size, up in law.items() if up}


def _sum(*laws: dict, signs=()) -> dict:
    """The law of a product (sign -1: of what divides)."""
    found: dict = {}
    for law, sign in zip(laws, signs or (1,) * len(laws)):
        for size, up in law.items():
            found[size] = found.get(size, 0) + sign * up
    return {size: up for size, up in found.items() if up}


# --- the plan --------------------------------------------------------------------------------

def _words_of(parameterization, names) -> dict:
    """{parameter: what is said of it}: a word, or powers of one's own."""
    if isinstance(parameterization, str):
        parameterization = {"*": parameterization}
    if not isinstance(parameterization, dict):
        raise InputError(f"parameterization {parameterization!r}: must be one of "
                         f"{' '.join(WORDS)}, or {{pattern of names: one of them, or powers}}")
    for pattern, word in parameterization.items():
        if isinstance(word, str) and word not in WORDS:
            raise InputError(f"parameterization {word!r}: must be one of {' '.join(WORDS)}")
        if not fnmatch.filter(names, pattern):
            raise InputError(f"parameterization: {pattern!r} fits no parameter; there are "
                             + " ".join(names))
    return {name: next((word for pattern, word in parameterization.items()
                        if fnmatch.fnmatchcase(name, pattern)), "sp") for name in names}


class Assembly:
    """The content of a plan from what a Planner has found."""

    def __init__(self, planner: Planner, parameterization):
        self.planner, self.sizes = planner, planner.sizes
        names = list(planner.shape_laws)
        words = _words_of(parameterization, names)
        self._parts = {name: [found for found in planner.found.values()
                              if name in found.part.parameters] for name in names}
        laws = {name: self._laws(name, words[name]) for name in names}
        text = parameterization if isinstance(parameterization, str) else "powers of your own"
        self.content = {
            "format": FORMAT, "base": planner.base, "parameterization": text,
            "notes": self._notes(words), "counts": {},
            "parameters": [self._entry(alike, laws[alike[0]]) for alike in self._families(laws)]}

    def _families(self, laws) -> list[list[str]]:
        """Parameters that differ in numbers of their names alone, and in no law."""
        found: dict = {}
        for name, said in laws.items():
            key = pattern_of(name), repr((said, self.planner.shape_laws[name]))
            found.setdefault(key, []).append(name)
        return list(found.values())

    # --- laws ------------------------------------------------------------------------------------

    def _laws(self, name: str, word) -> dict:
        """{sgd, adam, eps, muon: a law; std: [(which entries, a law, the axis that starts
        alike)]}."""
        parts = self._parts[name]
        if isinstance(word, dict) or word == "sp" or not parts:
            own = dict.fromkeys(("sgd", "adam", "eps"), {}) | {"std": None}
            if isinstance(word, dict):
                own |= self._own(name, word)
            hidden = len(self.planner.shape_laws[name]) == 2 and all(
                law for _, law in self.planner.shape_laws[name])
            return own | {"muon": {} if hidden else None, "std": [(None, own["std"], None)]}
        found = [self.planner.of_part(one, word) for one in parts]
        for key in ("sgd", "adam", "eps"):
            if any(one[key] != found[0][0][key] for one, _ in found):
                raise InputError(f"parts of {name} have rates that go with different powers, and "
                                 "an optimizer has one rate for all of it; build the module with "
                                 "separate parameters")
        first, alike = found[0]
        stds = [one["std"] for one, _ in found]
        starts = [(None, stds[0], alike)]
        if any(one != stds[0] for one in stds):
            starts = [(leaf.at, law, None) for part, law in zip(parts, stds)
                      for leaf in part.part.leaves if leaf.parameter == name]
        return {"sgd": first["sgd"], "adam": first["adam"], "eps": first["eps"],
                "muon": self.planner.of_muon(parts), "std": starts}

    def _own(self, name: str, powers: dict) -> dict:
        """Powers of one's own: {"std": -0.5, "lr": {"N": -1}, "eps": ...}."""
        found = {}
        for key, law in powers.items():
            if key not in ("std", "lr", "eps"):
                raise InputError(f"parameterization of {name}: {key!r} is none of std lr eps")
            law = law if isinstance(law, dict) else {self.sizes[0]: law}
            for size, up in law.items():
                if size not in self.sizes or isinstance(up, bool) \
                        or not isinstance(up, (int, float)):
                    raise InputError(f"parameterization of {name}: {key} goes as {{{size!r}: "
                                     f"{up!r}}}; a power of {' or '.join(self.sizes)} is wanted")
            law = {size: float(up) for size, up in law.items() if up}
            found |= {"sgd": law, "adam": law} if key == "lr" else {key: law}
        return found

    # --- entries ---------------------------------------------------------------------------------

    def _entry(self, names: list[str], laws: dict) -> dict:
        offset = next((one.part.start for one in self._parts[names[0]]), None) or 0.0
        shape = self.planner.shape_laws[names[0]]
        parts = []
        for at, law, alike in laws["std"]:
            own, at_base = self.planner.start(names, at, offset)
            parts.append({"at": at and [_written(one) for one in at], "equal": alike, "own": own,
                          "std": law if law is not None else own, "at_base": at_base})
        return {"names": names, "shape": shape, **{key: laws[key] for key in
                ("sgd", "adam", "eps", "muon")}, "parts": parts}

    # --- what the module has to change -----------------------------------------------------------

    def _notes(self, words) -> list[str]:
        if "mssp" not in words.values() and "mup" not in words.values():
            return []
        found = []
        for place, values in self.planner.left.items():
            law = self.planner.law(values, f"what is computed in {place}")
            times = " ".join(f"({size}/{self.planner.base[size]})^{-up:g}"
                             for size, up in law.items())
            if times:
                found.append(f"{place}: what is computed here goes as {_said(law)}, which no scale "
                             f"of a matrix mends: multiply it by {times}")
        return found


def _written(one):
    """Which entries along an axis, as a plan has them."""
    return [float(one.start), float(one.stop), one.phase, one.step] \
        if isinstance(one, Piece) else one


def plan(build, example, base, parameterization="mssp", *, widths=None, **more) -> Plan:
    """A plan of a module: your own scales and rates hold at the sizes `base`, and go with the sizes
    beyond as the parameterization says.

    build: a function of the sizes of base, in their order, that gives the module. example, and
    output, ignore: as of import_module. parameterization: mssp, mup, sp, or {pattern of names: one
    of these, or powers {"std": .., "lr": .., "eps": ..} of the first size or {size: power}}, of
    which the first that fits holds (sp where none does). widths: {size: two values} at which the
    module is traced. What a plan cannot do for the module is in its `notes`, and is warned of.

    >>> plan = dmft.torch.plan(build, torch.randn(48, 10), base={"N": 256})    # doctest: +SKIP
    >>> plan.save("plan.json")                                              # doctest: +SKIP
    """
    planner = Planner(build, example, base, widths, more)
    planner.measure()
    found = Plan(Assembly(planner, parameterization).content)
    for note in found.notes:
        warnings.warn(note, NoteWarning, stacklevel=2)
    return found
