"""Recipes: what to type into training code of one's own, so that it trains as the program does.

    r = dmft.recipe("data/regime2.ini")         # printed: a table of laws in N, M, ...
    r["W_out"].std, r["W_out"].adam             # N^0 ... as dmft.power.Law
    float(r.at(N=4096, M=64)["W_out"].adam)     # a number
    r.multipliers({"N": 256}, {"N": 4096})      # what to change in a model tuned at width 256

Tensors are those of PyTorch: V of shape [n, m] is applied to rows as x @ V.T, and the gradient is
that of the mean loss of a step. What a number of the description is in these units dmft.scaling
says, for each kind of matrix; the laws are found from these numbers at several sizes.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

from dmft import points, recipe_table, run
from dmft.description import kind_of, stem
from dmft.errors import InputError
from dmft.power import Law
from dmft.scaling import scaling
from dmft.sizes import Family, Place

NUMBERS = ("std", "sgd", "adam", "eps", "decay", "muon")
LAWS = ("count", "rows", "columns", *NUMBERS)
MOST = 24  # points of a sweep that are set side by side, each of which takes a second


@dataclasses.dataclass
class Tensor:
    """A tensor, or several that are alike in all numbers. A law is None where there is no such
    number: of a start that is given, of the rates of what never learns."""
    point: str | None               # of several that stand side by side, such as "mup"
    name: str                       # which addresses all of them in [init], [rates] and [eps]
    names: list[str]
    kind: str                       # read_in, map, look, bias, vector or read_out
    count: Law                      # how many are alike
    rows: Law
    columns: Law
    std: Law | None                 # at the start
    sgd: Law | None                 # the learning rate of SGD, over eta0
    adam: Law | None                # that of Adam, over eta0
    eps: Law | None                 # of Adam, over [training] eps
    decay: Law | None               # torch's weight_decay with Adam, over omega/eta0
    muon: Law | None                # the learning rate of Muon, over eta0, where the ini has it and
                                    # it moves this
    decays: float                   # the part of omega, also of what never learns and has no rates
    # What the network calls it, with * for numbers of blocks and experts.
    labels: list[str] = dataclasses.field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Whether each number is a product of powers."""
        return all(law is None or law.exact for law in (getattr(self, name) for name in LAWS))

    def numbers(self) -> dict[str, Law | None]:
        """std, sgd, adam, eps, decay and muon by their names."""
        return {name: getattr(self, name) for name in NUMBERS}


def numbers_of(place: Place, name: str) -> dict[str, float | None] | None:
    """Shape and numbers of a tensor of a built network; None where it has none of the name."""
    if name not in place.named:
        return None
    rates, W, by_muon = place.named[name]
    # Factors of [rates] are in `rate` of what gradient descent trains alone.
    own = scaling(place.adam, dataclasses.replace(W, rate=rates.rate))
    rows, columns = own.shape if len(own.shape) == 2 else (1, *own.shape)
    muon = scaling(place.muon, by_muon).muon if by_muon and by_muon.optimizer == "muon" else None
    decay = W.decays / own.adam if W.learns and W.decays else None
    learns = (own.sgd, own.adam, own.eps, decay, muon) if W.learns else (None,) * 5
    std = None if W.start is not None else own.std
    return dict(zip(("rows", "columns", *NUMBERS), (float(rows), float(columns), std, *learns)))


def _alike(places: list[Place]) -> dict[str, list[str]]:
    """{name: names} of the tensors of the first place, those of blocks and experts together where
    they agree in all places."""
    alike = {common: common not in places[0].named and all(
        len({(one.kind, one.decays, *numbers_of(place, one.name).values())
             for one in place.by_stem.get(common, ())}) == 1 for place in places)
        for common in places[0].by_stem}
    found = {}
    for W in places[0].adam.matrices:
        common = stem(W.name)
        if not alike[common]:
            found[W.name] = [W.name]
        elif common not in found:
            found[common] = [one.name for one in places[0].by_stem[common]]
    return found


def _there(place: Place, name: str) -> dict[str, float | None] | None:
    """Numbers of a tensor, or of one of its like: with one head W_Q_0 is what W_Q_0_0 is of two."""
    return numbers_of(place, name) or next(
        (numbers_of(place, W.name) for W in place.by_stem.get(stem(name), ())), None)


def _laws(family: Family) -> list[Tensor]:
    """Each tensor of the network of the ini, with laws in its sizes."""
    families = _alike(family.places)
    if family.few and (any(place.by_stem.keys() != set(families) for place in family.places) or
                       any(family.names(name) is None for name in families
                           if name not in family.places[0].named)):
        family.in_full()  # what would be left out is not alike
        families = _alike(family.places)
    tensors = [_law(family, name, names) for name, names in families.items()]
    if family.few and not all(one.exact for one in tensors):
        family.with_origin()  # numbers that are no laws are those of the ini
        return _laws(family)
    return tensors


def _labels(place: Place, names: list[str]) -> list[str]:
    """What the network calls these matrices, beside their names."""
    labels = [place.named[name][1].label for name in names]
    return list(dict.fromkeys(kind_of(label) for label in labels if label))


def _law(family: Family, name: str, names: list[str]) -> Tensor:
    """A tensor, or those of these names, with laws in the sizes."""
    at = [_there(place, names[0]) for place in family.places]
    _, first, _ = family.places[0].named[names[0]]

    def law(key: str) -> Law | None:
        numbers = [one and one[key] for one in at]
        if numbers[0] is None:
            return None
        if key == "columns" and first.kind == "read_in" and "D" in family.free:
            return family.law(numbers)
        return family.law(numbers, key not in ("rows", "columns"))
    labels = _labels(family.places[0], names)
    if name == names[0]:
        count = Law(1.0)
    else:
        count = family.count([float(len(place.by_stem.get(name, ()))) for place in family.places])
        names = (family.few and family.names(name)) or names
    return Tensor(family.point, name, names, first.kind, count, law("rows"), law("columns"),
                  *map(law, NUMBERS), decays=first.decays, labels=labels)


def _numbers(family: Family, place: Place) -> list[Tensor]:
    """Each tensor of one network, with its numbers."""
    if family.few:  # every number is a law
        def at(law: Law | None) -> Law | None:
            return law and Law(law.at(place.sizes))
        return [dataclasses.replace(one, **{name: at(getattr(one, name)) for name in LAWS})
                for one in _laws(family)]
    tensors = []
    for name, names in _alike([place]).items():
        laws = {key: None if number is None else Law(number)
                for key, number in numbers_of(place, names[0]).items()}
        _, W, _ = place.named[names[0]]
        tensors.append(Tensor(family.point, name, names, W.kind, Law(float(len(names))), **laws,
                              decays=W.decays, labels=_labels(place, names)))
    return tensors


class Recipe:
    """The tensors of a network with their shapes, initial scales and learning rates, in one
    parameterization or several, or at the points of a sweep. str(), markdown(), latex() and a
    notebook show the table."""

    def __init__(self, families: list[Family], tensors: list[Tensor], raw: bool,
                 places: list[Place], title: str = ""):
        self.families, self.tensors, self.raw, self.title = families, tensors, raw, title
        self._places = places           # of each point, the network that `sizes` are of

    @property
    def points(self) -> list[str]:
        """What stands side by side: parameterizations, or values of the keys of a sweep joined by
        commas; of a network that has no parameterization, an empty list."""
        return [family.point for family in self.families if family.point is not None]

    @property
    def heading(self) -> str:
        """What the points are values of: "parameterization", or keys of a sweep."""
        return self.families[0].heading

    @property
    def sizes(self) -> dict[str, float]:
        """The sizes of the network that the ini describes, or of that asked for by at."""
        return self._places[0].sizes

    @property
    def table(self) -> list[dict]:
        """A row for each tensor; laws as text, what is a number as a number."""
        def value(law):
            return None if law is None else float(law) if not law.powers else str(law)
        return [{"point": one.point, "tensor": one.name, "kind": one.kind,
                 "count": value(one.count), "rows": value(one.rows),
                 "columns": value(one.columns), "exact": one.exact,
                 **{name: value(law) for name, law in one.numbers().items()}}
                for one in self.tensors]

    def __getitem__(self, name) -> Tensor:
        """The tensor of a name ("W1", or one of several that are alike, "W2_0") or of a label
        ("layers.3.up.weight"); with several parameterizations or points ("mup", "W1")."""
        point, tensor = name if isinstance(name, tuple) else (None, name)
        if point is None and len(self.families) > 1:
            raise InputError(f"{tensor}: there are several values of {self.heading}; ask for "
                             f"(\"{self.points[0]}\", \"{tensor}\")")
        mine = [one for one in self.tensors if point in (None, one.point)]
        named = {tensor, *(short for place in self._places for short, (_, W, _) in
                           place.named.items() if W.label == tensor)}
        found = [one for one in mine if tensor == one.name or named & {*one.names}] \
            or [one for one in mine if kind_of(tensor) in one.labels]
        if found and all(one.numbers() == found[0].numbers() for one in found):
            return found[0]
        if found:
            raise InputError(f"{tensor} is several tensors, of which not all go alike; ask for one "
                             "of " + " ".join(one.name for one in found))
        known = " ".join(dict.fromkeys(one.name for one in mine or self.tensors))
        raise InputError(f"there is no tensor {' '.join(filter(None, [point, tensor]))}; there are "
                         f"{known}" + (f" in {' | '.join(self.points)}" if point else ""))

    def at(self, sizes: Mapping | None = None, **more) -> Recipe:
        """The numbers of the network of these sizes, which is built. Sizes that are not given
        follow from the ini: a ratio such as kappa = M/N stays."""
        wanted = dict(sizes or {}) | more
        places = [family.elsewhere(wanted) for family in self.families]
        tensors = [one for family, place in zip(self.families, places)
                   for one in _numbers(family, place)]
        found = Recipe(self.families, tensors, self.raw, places,
                       "Numbers at " + recipe_table.sizes(places[0].sizes))
        return found._of_inputs(Law(places[0].sizes["D"])) if self.raw else found

    def multipliers(self, base: Mapping, target: Mapping) -> Recipe:
        """By what a model of the sizes `base` is to be multiplied where it is used at `target`; the
        shapes are those of the target."""
        old, new = self.at(base), self.at(target)
        before = {(one.point, one.name): one for one in old.tensors}
        before |= {(one.point, name): one for one in old.tensors for name in one.names}
        tensors = []
        for one in new.tensors:
            own = before.get((one.point, one.name)) or before.get((one.point, one.names[0]))
            if own is None:
                raise InputError(f"{one.name}: the network of the base has no such tensor")
            ratios = {name: law if law is None or not law.coefficient else
                      law * own.numbers()[name] ** -1 for name, law in one.numbers().items()}
            tensors.append(dataclasses.replace(one, **ratios))
        return Recipe(self.families, tensors, self.raw, new._places,
                      f"Multipliers from {recipe_table.sizes(old.sizes)} to "
                      + recipe_table.sizes(new.sizes))

    def used_times(self, factors: Mapping[str, Law]) -> Recipe:
        """The same training where code multiplies a tensor by a factor as it uses it: U = factor W
        of each name, and the numbers of W."""
        def own(one: Tensor) -> Tensor:
            u = factors.get(one.name)
            if u is None:
                return one
            powers = {"std": -1, "sgd": -2, "adam": -1, "eps": 1, "decay": 1, "muon": -1}
            return dataclasses.replace(one, **{
                name: law and law * u ** powers[name] for name, law in one.numbers().items()})
        return Recipe(self.families, [own(one) for one in self.tensors], self.raw, self._places,
                      self.title)

    def _of_inputs(self, D: Law) -> Recipe:
        """Read-ins that act on x itself: U x/sqrt(D) = W x."""
        return self.used_times({one.name: D ** 0.5 for one in self.tensors
                                if one.kind == "read_in"})

    @property
    def notes(self) -> list[str]:
        """What the numbers of the table mean, in whole sentences."""
        return recipe_table.notes(self)

    def __str__(self) -> str:
        return recipe_table.text(self)

    def markdown(self) -> str:
        """The table alone, in Markdown."""
        return recipe_table.markdown(self)

    def latex(self) -> str:
        """The table alone, a tabular of LaTeX."""
        return recipe_table.latex(self)

    def _repr_html_(self) -> str:
        return recipe_table.html(self)


def _with_words(axes: list[points.Axis], words: list[str]) -> list[points.Axis]:
    """The axes with one more of these parameterizations, or with theirs in the place of its own."""
    mine = points.Axis([points.PARAMETERIZATION], [[word] for word in words])
    found = [axis for axis in axes if points.PARAMETERIZATION in axis.keys]
    if found and len(found[0].keys) > 1:
        raise InputError("parameterizations: [sweep] varies network.parameterization together with "
                         "other keys; network.parameterization = WORD picks those of its points")
    return [mine if axis in found else axis for axis in axes] if found else [*axes, mine]


def _families(grid: points.Grid, network) -> list[Family]:
    """Of each point of the grid the networks at several sizes."""
    def family(point: dict[str, str]) -> Family:
        more = {**grid.more, **point}
        try:
            said = run.settings_of(grid.config, network=network, **more)
            return Family(grid.config, said, network, more)
        except InputError as error:
            words = ", ".join(f"{key} = {text}" for key, text in point.items())
            raise InputError(f"at {words}: {error.sentence}" if len(point) > 1
                             else error.sentence) from None
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(family, grid.points()))


def _told_apart(grid: points.Grid, families: list[Family], varied: list[str],
                asked: bool) -> list[Family]:
    """Those of points that differ in a law, with what tells them apart; of keys that change nothing
    the first value stands for all. varied: all keys with several values. asked: whether
    parameterizations were, which then stay."""
    made = [[dataclasses.replace(one, names=[], point=None) for one in _laws(family)]
            for family in families]
    idle = [one and not (asked and axis.keys == [points.PARAMETERIZATION])
            for axis, one in zip(grid.axes, points.idle(grid.axes, made))]
    axes = [axis for axis, one in zip(grid.axes, idle) if not one]
    shown = [key for axis in axes for key in axis.keys]
    found = []
    for point, family in zip(grid.points(), families):
        first = all(point[key] == axis.values[0][k] for axis, one in zip(grid.axes, idle) if one
                    for k, key in enumerate(axis.keys))
        if not first:
            continue
        family.idle = [key for key in varied if key not in shown]
        if shown:
            family.heading = ", ".join(key.removeprefix("network.").removeprefix("program.")
                                       for key in shown)
            family.point = ", ".join(point[key] for key in shown)
        found.append(family)
    return found


def recipe(config, *, parameterizations=None, at: Mapping | None = None,
           base: Mapping | None = None, target: Mapping | None = None, raw_inputs: bool = False,
           network=None, **more) -> Recipe:
    """The recipe of a network: shape, initial scale and learning rates of every tensor, as products
    of powers of the sizes, which are found by building the network at several of them.

    config, network, more: as of dmft.solve; a Result stands for the ini it was made with. Of an ini
    with a [sweep] the points whose recipes differ are set side by side, and a key that it varies
    and the call gives picks points. parameterizations: names that are set side by side, default
    those of the ini. at: the numbers at these sizes, {"N": 4096, "M": 64}. base, target: the
    multipliers from one size to another. raw_inputs: read-ins act on the inputs x and not on
    x/sqrt(D).

    >>> dmft.recipe("x.ini", parameterizations=["mup", "mssp"])             # doctest: +SKIP
    """
    if (base is None) != (target is None) or (base is not None and at is not None):
        raise InputError("base and target go together, and not with at")
    if isinstance(parameterizations, str):
        parameterizations = parameterizations.replace(",", " ").split()
    if parameterizations is not None and not parameterizations:
        raise InputError("parameterizations: name at least one, such as mup or mssp")
    grid = points.read(config, network, more)
    swept, words = bool(grid.axes), parameterizations
    varied = [key for axis in grid.axes for key in axis.keys if len(axis.values) > 1]
    if words is None and points.PARAMETERIZATION not in sum((one.keys for one in grid.axes), []):
        first = run.settings_of(grid.config, network=network, **{**grid.more, **grid.points()[0]})
        words = first.get(points.PARAMETERIZATION, "").split()
        words = words if len(words) > 1 else None
    grid.axes = points.settle(_with_words(grid.axes, words) if words else grid.axes)
    if len(grid.points()) > MOST:
        free = [key for axis in grid.axes for key in axis.keys if len(axis.values) > 1]
        raise InputError(f"[sweep] has {len(grid.points())} points whose recipes may differ, and "
                         f"at most {MOST} are set side by side; choose some by a value of "
                         + " or ".join(dict.fromkeys(free)))
    families = _families(grid, network)
    if swept:
        families = _told_apart(grid, families, varied, words is not None)
    found = Recipe(families, [one for family in families for one in _laws(family)], raw_inputs,
                   [family.origin for family in families])
    if at is not None:
        return found.at(at)
    if base is not None:
        return found.multipliers(base, target)
    first = families[0]
    D = Law(1.0, {"D": Fraction(1)}) if "D" in first.free else Law(first.origin.sizes["D"])
    return found._of_inputs(D) if raw_inputs else found
