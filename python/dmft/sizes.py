"""The sizes of a network (width, experts, depth, ...): which keys of an ini say them, and the same
network built at others. For dmft.recipe.

Nothing here knows a network: a key says a size where another value of it is accepted and makes
another network.
"""
from __future__ import annotations

import functools
import itertools
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dmft import power, run
from dmft.description import Description, Matrix, Program, stem
from dmft.errors import InputError
from dmft.points import of_network

MEANING = {"gamma0": "feature learning strength", "N": "width", "M": "experts",
           "N_e": "units of an expert", "H": "attention heads", "N_k": "units of a head",
           "L": "depth", "D": "dimension of an input"}


@dataclass(frozen=True)
class Way:
    """How a key says a size: the size from the value of the key, and back, given other sizes."""
    size: str
    key: str
    read: Callable = lambda value, sizes: value
    write: Callable | None = None       # None: the value is the size, a whole number
    needs: str = "N"

    def text(self, sizes: Mapping) -> str:
        """The value of the key."""
        return repr(float(self.write(sizes))) if self.write else str(round(sizes[self.size]))


# The first that has an effect says the size.
WAYS = (
    Way("L", "depth"),
    Way("M", "kappa", lambda v, s: v * s["N"], lambda s: s["M"] / s["N"]),
    Way("M", "experts"),
    Way("N_e", "expert_width"),
    Way("N_e", "iota", lambda v, s: v * s["N"], lambda s: s["N_e"] / s["N"]),
    Way("N_e", "alpha", lambda v, s: s["N"] / v / s["M"], lambda s: s["N"] / s["N_e"] / s["M"],
        "M"),
    Way("M", "alpha", lambda v, s: s["N"] / v / s["N_e"], lambda s: s["N"] / s["N_e"] / s["M"],
        "N_e"),
    Way("H", "heads"),
    Way("N_k", "head_width"),
    Way("N_k", "attention_width", lambda v, s: v * s["N"] / s["H"],
        lambda s: s["H"] * s["N_k"] / s["N"], "H"),
    Way("H", "attention_width", lambda v, s: v * s["N"] / s["N_k"],
        lambda s: s["H"] * s["N_k"] / s["N"], "N_k"),
)
FACTORS = (2, 3, 0.5, 4)
# Members of a family (experts, blocks) are alike, or the table says that they are not: of more than
# the first number of them, one of the others is described, the smallest that the ini can have.
FEW = {"M": (4, 8, 16, 32), "L": (2, 4)}
SHARED = 8  # experts that stand beside those of the key
# Where the program says this of a key, no other value of it is worth a try.
IDLE = re.compile("no effect|does not use|never reads|is used only")
# Where an ini of the limit alone says no width.
WIDTHS = ("64", "128", "256", "512", "1024", "32", "48", "100", "1000", "2048")
# What is relative to the folder of an ini, as a description has it.
PATHS = (("network", "program_text"), ("data", "file"), ("data", "folder"))
# They change no number of a network, and another choice stands in the way of some optimizers.
PLAIN = {"solver.replicates": "0", "reference.draws": "iid"}


@dataclass
class Place:
    """A network of certain sizes, as gradient descent, Adam and, where the ini asks for it, Muon
    trains it."""
    settings: dict[str, str]            # on top of the ini's
    descent: Program
    adam: Program
    outputs: bool = True                # whether it has as many as the network of the ini
    muon: Program | None = None
    sizes: dict[str, float] = field(default_factory=dict)

    @functools.cached_property
    def named(self) -> dict[str, tuple[Matrix, Matrix, Matrix | None]]:
        """The matrices of one name, as gradient descent, Adam and Muon train them."""
        descent, muon = ({W.name: W for W in one.matrices} if one else {}
                         for one in (self.descent, self.muon))
        return {W.name: (descent[W.name], W, muon.get(W.name))
                for W in self.adam.matrices if W.name in descent}

    @functools.cached_property
    def by_stem(self) -> dict[str, list[Matrix]]:
        """The matrices that are called the same but for numbers behind the name."""
        found: dict[str, list[Matrix]] = {}
        for W in self.adam.matrices:
            found.setdefault(stem(W.name), []).append(W)
        return found

    def same(self, other: Place) -> bool:
        """Whether all sizes and numbers are those of another network."""
        return (self.adam.populations, self.adam.matrices) == \
            (other.adam.populations, other.adam.matrices)


class Family:
    """The networks of an ini in one parameterization, at several sizes. `origin` has the sizes of
    that of the ini and its first width, which is `places[0]` unless it has so many experts or
    blocks that smaller ones are described in its place (`few`: the keys that make them smaller);
    `free` are the sizes that the places tell apart. Where it stands beside others `point` says
    which it is, of what the `heading` says; `idle` are keys of a sweep that change nothing in it.
    """

    def __init__(self, config, said: Mapping[str, str], network, more: Mapping):
        """said: run.settings_of the ini, with one parameterization."""
        self.parameterization = said.get("network.parameterization")
        self.program = said["network.model"] == "program"
        self.point, self.heading, self.idle = self.parameterization, "parameterization", []
        self.settings = {key: text for key, text in said.items() if of_network(key)} | PLAIN
        whole = self._describe(config, said, network, dict(more))
        self.optimizer = whole.settings["training"].get("optimizer", "gd")
        self.muon = {f"training.{key}": text for key, text in whole.settings["training"].items()
                     if key in ("optimizer", "muon_experts", "muon_heads", "rest")} \
            if self.optimizer == "muon" else {}
        self.width, self.outputs = whole.networks[0].width, whole.networks[0].outputs
        self._settle(whole)
        _, arrays = run.split(more)
        if arrays:  # what the description was made of is gone
            self.folder = run.Folder()
            self.settings["data.file"], _ = run.write_data(
                os.path.join(self.folder.path, "data"), arrays)
        # Factors of [rates] are in `rate` of what gradient descent trains, and of that alone.
        self.rates = any(key.startswith("rates.") for key in self.settings)
        self._explore()

    def _explore(self) -> None:
        """The network at several sizes; which of them the places tell apart."""
        self.ways = {}
        self.places = self.build([self.width, 2 * self.width])
        self._plain_data()
        self._vary()
        for place in self.places:
            place.sizes = self.sizes(place)
        self.origin = Place({}, self.places[0].descent, self.places[0].adam)
        self.origin.sizes = self.sizes(self.origin)
        self.free = [size for size, value in self.places[0].sizes.items()
                     if any(place.sizes[size] != value for place in self.places)]

    # --- the ini -----------------------------------------------------------------------------

    def _describe(self, config, said: Mapping, network, keys: dict) -> Description:
        """The description of the ini at its first width, or at one that it can have."""
        keys |= PLAIN
        if self.parameterization is not None:
            keys["network.parameterization"] = self.parameterization
        refused = None
        widths = said.get("reference.widths", "").split()[:1] or WIDTHS
        for self.few in self._fewer():
            for width in widths[:1 if self.few else None]:
                try:
                    return run.describe(config, network=network, **keys | self._with_biases(
                        self.few) | {"reference.widths": width})
                except InputError as error:
                    if not self.few:
                        refused = refused or error
        raise refused

    def _fewer(self) -> list[dict[str, str]]:
        """Keys that make families small; in the end none."""
        small = [{}]
        for size, numbers in FEW.items():
            way = next(one for one in WAYS if one.size == size and one.write is None)
            value = self._value(way.key, {})
            fewer = [{self._key(way.key): str(number)} for number in numbers if 2 * number <= value]
            small = [one | more for one in small for more in fewer or [{}]]
        return [one for one in small if one] + [{}]

    def _with_biases(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings, with plain biases where the ini has one for each of another number."""
        other = self._key("experts") in settings and self.settings.get("network.biases")
        return dict(settings) | ({"network.biases": ""} if other else {})

    def _settle(self, whole: Description) -> None:
        """The settings of the ini without those of optimizers, of which some exclude others."""
        for section, key in PATHS:
            if whole.settings[section].get(key):
                self.settings[f"{section}.{key}"] = whole.settings[section][key]
        if self.settings.get("network.program_text"):
            del self.settings["network.program"]

    def _plain_data(self) -> None:
        """Gaussian inputs of the same dimension in the place of files, where that makes the same
        network: nothing is read then, and the dimension can be varied."""
        network = self.places[0].adam
        if self.settings["data.source"] != "file" or network.vocabulary:
            return
        before, places = self.settings, self.places
        self.settings = {key: text for key, text in before.items() if not key.startswith("data.")}
        self.settings |= {"data.source": "gaussian", "data.dimension": str(network.directions),
                          "data.tokens": str(network.tokens),
                          "data.inputs": str(2 * max(2, self.outputs)),
                          "network.outputs": str(self.outputs if self.outputs > 1 else 0)}
        try:
            self.places = self.build([self.width, 2 * self.width])
        except InputError:
            self.settings = before
        if not self.places[0].same(places[0]):
            self.settings, self.places = before, places

    # --- networks ----------------------------------------------------------------------------

    def in_full(self) -> None:
        """The networks again, with all experts and blocks of the ini."""
        self.few = {}
        self._explore()

    def with_origin(self) -> None:
        """The network of the ini and its first width becomes the first place."""
        self.few = {}
        self.origin.__dict__.update(self.build([self.width], {})[0].__dict__,
                                    sizes=self.origin.sizes)
        self.places.insert(0, self.origin)

    def build(self, widths: list[int], settings: Mapping | None = None,
              outputs: bool = True) -> list[Place]:
        """The networks of these widths, with settings on top of the ini's."""
        settings = dict(self.few if settings is None else settings)
        both = self.settings | self._with_biases(settings)
        both |= {"reference.widths": " ".join(map(str, widths))}

        adam = run.describe({**both, "training.optimizer": "adam"}).networks
        descent = adam
        if self.rates:
            plain = {key: text for key, text in both.items()
                     if not key.startswith("eps.") and key != "training.adam_read_in"}
            descent = run.describe({**plain, "training.optimizer": "gd"}).networks
        muon = run.describe(both | self.muon).networks if self.muon else [None] * len(adam)
        return [Place(settings, *each[:2], outputs, each[2]) for each in zip(descent, adam, muon)]

    def _key(self, key: str) -> str:
        """The key with its section."""
        return f"{'program' if self.program else 'network'}.{key}"

    def _value(self, key: str, settings: Mapping) -> float:
        """The value of a key of the network; 0: it has none that could be multiplied."""
        text = (self.settings | settings).get(self._key(key))
        if text is None and self.program:
            default = re.search(rf'key\("{key}", *([0-9.]+)\)',
                                self.settings.get("network.program_text", ""))
            text = default[1] if default else None
        try:
            return float(text or 0)
        except ValueError:
            return 0.0

    def sizes(self, place: Place) -> dict[str, float]:
        """The sizes of a network, in the order of MEANING."""
        found = {"N": place.adam.width, "gamma0": place.adam.gamma0, "D": place.adam.directions}
        for size, way in self.ways.items():
            found[size] = way.read(self._value(way.key, place.settings), found)
        return {size: float(found[size]) for size in MEANING if size in found}

    # --- other sizes -------------------------------------------------------------------------

    def _changed(self, key: str, value: float, whole: bool, outputs: bool = True) -> float | None:
        """Adds networks in which a key has another value; returns the factor. None: no other value
        is accepted, or it makes no other network."""
        for factor in FACTORS:
            if whole and value * factor % 1:
                continue
            text = str(round(value * factor)) if whole else repr(value * factor)
            try:
                places = self.build([self.width], self.few | {key: text}, outputs)
            except InputError as error:
                if IDLE.search(error.sentence):
                    return None
                continue
            if places[0].same(self.places[0]) and key != "training.gamma0":
                return None
            self.places += places
            return factor
        return None

    def _vary(self) -> None:
        """Networks that differ in one key each, and those that differ in all at once, where a
        number that is no product of powers is found out."""
        together = {}

        def change(key: str, value: float, whole: bool, outputs: bool = True) -> bool:
            factor = self._changed(key, value, whole, outputs) if value > 0 else None
            if factor:
                again = value * factor * (factor if outputs and not value * factor ** 2 % 1 else 1)
                together[key] = str(round(again)) if whole else repr(again)
            return factor is not None

        for way in WAYS:
            if way.size not in self.ways and self._key(way.key) not in together and \
                    way.needs in ("N", *self.ways) and \
                    change(self._key(way.key), self._value(way.key, self.few), way.write is None):
                self.ways[way.size] = way
        change("training.gamma0", self.places[0].adam.gamma0, False)
        for key, outputs in (("data.dimension", True), ("data.vocabulary", False)):
            if key in self.settings and change(key, float(self.settings[key]), True, outputs):
                break
        together.pop("data.vocabulary", None)
        for keys in (together, {key: text for key, text in together.items()
                                if key.startswith("training.") or key == self._key("depth")}):
            try:
                self.places += self.build([self.width, 2 * self.width], self.few | keys)
                break
            except InputError:
                continue

    def elsewhere(self, wanted: Mapping[str, float]) -> Place:
        """The network of these sizes; other keys stay as the ini has them. Of many experts or
        blocks few are described, as of the ini: the laws then have their numbers."""
        fixed = [size for size in self.origin.sizes if size in self.free]
        for size, value in wanted.items():
            if size not in fixed:
                what = f"is {self.origin.sizes[size]:g} here and cannot be changed" \
                    if size in self.origin.sizes else "is no size of this network" \
                    if size in MEANING else "is not known"
                raise InputError(f"{size} = {value}: {size} {what}; its sizes are "
                                 + ", ".join(f"{one} ({MEANING[one]})" for one in fixed))
            try:
                good = float(value) > 0 and (size == "gamma0" or not float(value) % 1)
            except (TypeError, ValueError):
                good = False
            if not good:
                raise InputError(f"{size} = {value}: must be a "
                                 f"{'number above 0' if size == 'gamma0' else 'whole number'}")
        settings = {"training.gamma0": repr(float(wanted["gamma0"]))} if "gamma0" in wanted else {}
        if "D" in wanted:
            if "data.dimension" not in self.settings:
                raise InputError(f"D = {wanted['D']:g}: the dimension of these inputs follows from "
                                 "their tokens; set data.vocabulary or data.tokens")
            settings["data.dimension"] = str(round(wanted["D"]))
        width = round(wanted.get("N", self.width))
        sizes = {"N": float(width)}
        for size, way in self.ways.items():
            sizes[size] = float(wanted.get(size, way.read(self._value(way.key, {}), sizes)))
        for size, way in self.ways.items():
            if size in wanted:
                settings[self._key(way.key)] = way.text(sizes)
        small = {key: text for key, text in self.few.items()
                 if float(text) < self._value(key.partition(".")[2], settings)}
        try:
            place = self.build([width], settings | small)[0]
        except InputError as error:
            words = ", ".join(f"{size} = {value:g}" for size, value in wanted.items())
            raise InputError(f"at {words}: {error.sentence}") from None
        place.settings = settings
        place.sizes = self.sizes(place)
        return place

    # --- numbers -----------------------------------------------------------------------------

    def law(self, numbers: list[float | None], outputs: bool = True) -> power.Law:
        """The law of a number, which is None where its tensor is not there. outputs: whether
        places with other outputs than the ini's count."""
        there = [(place, number) for place, number in zip(self.places, numbers)
                 if number is not None and (outputs or place.outputs)]
        free = [size for size in self.free
                if outputs or len({place.sizes[size] for place, _ in there}) > 1]
        return power.fit([{size: place.sizes[size] for size in free} for place, _ in there],
                         [number for _, number in there])

    def count(self, numbers: list[float | None]) -> power.Law:
        """The law of how many there are: shared experts stand beside those of the key."""
        there = [(place.sizes, number) for place, number in zip(self.places, numbers)
                 if number is not None]
        law, k = self.law(numbers, False), 1
        while not law.exact and "M" in self.free and k <= SHARED:
            law = power.fit([{f"(M+{k})" if size == "M" else size: sizes[size] + k * (size == "M")
                              for size in self.free} for sizes, _ in there],
                            [number for _, number in there])
            k += 1
        return law if law.exact else self.law(numbers, False)

    def names(self, common: str) -> list[str] | None:
        """The names of the members of a family in the network of the ini, "W1_0_0" and so on, where
        those of all places are all that there can be."""
        members = [[[int(k) for k in W.name[len(common) + 1:].split("_")]
                    for W in place.by_stem.get(common, ()) if W.name != common]
                   for place in self.places]
        depth = len(members[0][0]) if members[0] else 0
        ends = [[max(column) + 1 for column in zip(*one)] if one and len(one[0]) == depth else None
                for one in members]
        if not depth or any(end and len(one) != math.prod(end) for one, end in zip(members, ends)):
            return None
        laws = [self.count([end and float(end[k]) for end in ends]) for k in range(depth)]
        if not all(law.exact for law in laws):
            return None
        return ["_".join([common, *map(str, one)]) for one in itertools.product(
            *(range(round(law.at(self.origin.sizes))) for law in laws))]
