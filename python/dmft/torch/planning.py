"""dmft.torch.plan: a plan of a module, in the parameterization that is asked for (docs/plan.md)."""
from __future__ import annotations

import fnmatch
import warnings

from dmft.errors import InputError, NoteWarning
from dmft.torch.importing.axes import Piece
from dmft.torch.plan_families import counted_content
from dmft.torch.plan_laws import WORDS, Planner, added, in_words
from dmft.torch.plan_sizes import pattern_of
from dmft.torch.plans import FORMAT, Plan


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
        self._lists = planner.lists
        words = _words_of(parameterization, names)
        self._parts = {name: [found for found in planner.found.values()
                              if name in found.part.parameters] for name in names}
        laws = {name: self._laws(name, words[name]) for name in names}
        text = parameterization if isinstance(parameterization, str) else "powers of your own"
        self.content = {
            "format": FORMAT, "base": planner.base, "parameterization": text,
            "notes": self._notes(words), "counts": {}, "numbers": planner.numbers(),
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
        if not parts and word in ("mssp", "mup"):       # as a teacher that follows the student
            used = [other for other, of in self._parts.items() if of]
            copied = self.planner.copied_from(name, used)
            if copied:
                return self._laws(copied, word)
        if isinstance(word, dict) or word == "sp" or not parts:
            own = dict.fromkeys(("sgd", "adam", "eps"), {}) | {"std": None}
            if isinstance(word, dict):
                own |= self._own(name, word)
            listed, shape = name in self._lists, self.planner.shape_laws[name]
            hidden = len(shape) == 2 + listed and (listed or all(law for _, law in shape))
            return own | {"muon": {} if hidden else None, "std": [(None, own["std"], None)]}
        found = [self.planner.of_part(one, word) for one in parts]
        if word == "mssp":
            found = [(self._deep(name, one), alike) for one, alike in found]
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
                "muon": self.planner.of_muon(name, parts, first["adam"]), "std": starts}

    def _deep(self, name: str, laws: dict) -> dict:
        """With the powers of the numbers of blocks."""
        for size, of in self.planner.deep.items():
            laws = {key: added(law, {size: of.get(name, {}).get(key, 0)})
                    for key, law in laws.items()}
        return laws

    def _own(self, name: str, given: dict) -> dict:
        """Powers of one's own: {"std": -0.5, "lr": {"N": -1}, "eps": ...}."""
        found = {}
        for key, law in given.items():
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
        if any(name in self._lists for name in names):
            return self._listed(names, shape, parts, laws)
        return {"names": names, "shape": shape, **{key: laws[key] for key in
                ("sgd", "adam", "eps", "muon")}, "parts": parts}

    def _listed(self, names, shape, parts, laws) -> dict:
        """The entry of experts in lists, each of whose parameters is one of a stack's."""
        for one in parts:
            if one["at"] and one["at"][0] != [0.0, 1.0, 0, 1]:
                raise InputError(f"experts of {names[0]} have different laws by their number; give "
                                 "their number by counts=")
            one["at"] = one["at"] and one["at"][1:]
            if one["equal"] is not None:
                word = names[0].split(".").index("*")
                one |= {"equal": None, "first": word} if not one["equal"] else \
                    {"equal": one["equal"] - 1}
        return {"names": [one for name in names for one in self._lists[name]], "shape": shape[1:],
                **{key: laws[key] for key in ("sgd", "adam", "eps", "muon")}, "parts": parts}

    # --- what the module has to change -----------------------------------------------------------

    def _notes(self, words) -> list[str]:
        if "mssp" not in words.values() and "mup" not in words.values():
            return []
        found = []
        for (place, _), values in self.planner.left.items():
            law = self.planner.law(values, f"what is computed in {place}")
            times = " ".join(f"({size}/{self.planner.base[size]})^{-up:g}"
                             for size, up in law.items())
            if times:
                found.append(f"{place}: what is computed here goes as {in_words(law)}, which no "
                             f"scale of a matrix mends: multiply it by {times}")
        for size, places in self.planner.branches.items() if "mssp" in words.values() else ():
            found += [f"{place}: what is added to the stream here must go as 1/{size}, which no "
                      f"scale of a matrix does: multiply it by {self.planner.base[size]}/{size}"
                      for place in places]
        return found


def _written(one):
    """Which entries along an axis, as a plan has them."""
    return [float(one.start), float(one.stop), one.phase, one.step] \
        if isinstance(one, Piece) else one


def _spread(build, *tables):
    """(build, tables) with a size of its own, E_1, E_2, .. for each number of a list E, which build
    still is given as a list."""
    lists = {size: len(value) for table in tables if isinstance(table, dict)
             for size, value in table.items() if isinstance(value, (list, tuple)) and value}
    if not lists or not callable(build):
        return build, *tables
    asked = {**tables[0], **(tables[-1] or {})}

    def built(*values):
        values = iter(values)
        return build(*([next(values) for _ in range(lists[size])] if size in lists
                       else next(values) for size in asked))
    found = []
    for table in tables:
        wide = {}
        for size, value in (table or {}).items():
            names = [f"{size}_{k + 1}" for k in range(lists[size])] if size in lists else [size]
            both = set(names) & ({*asked, *wide} - {size})
            if both:
                raise InputError(f"{min(both)} is the name of a number of the list {size} and of "
                                 "another size; call one of them otherwise")
            wide |= zip(names, value if size in lists else [value])
        found.append(table and wide)
    return built, *found


def plan(build, example, base, parameterization="mssp", *, widths=None, counts=None,
         **more) -> Plan:
    """A plan of a module: your own scales and rates hold at the sizes `base`, and go with the sizes
    beyond as the parameterization says.

    build: a function of the sizes of base, in their order, that gives the module. example, and
    output, ignore: as of import_module. parameterization: mssp, mup, sp, or {pattern of names: one
    of these, or powers {"std": .., "lr": .., "eps": ..} of the first size or {size: power}}, of
    which the first that fits holds (sp where none does). widths: {size: two values} at which the
    module is traced. counts: {name: how many} of experts and blocks, arguments of build behind
    those of base: the module is built with few of them, and the plan holds with any number. A size
    may be a list, as {"E": [8, 64]} of layers with other numbers of experts; build is given such a
    list, and the plan calls its numbers E_1, E_2. What a plan cannot do for the module is in its
    `notes`, and is warned of.

    >>> plan = dmft.torch.plan(build, torch.randn(48, 10), base={"N": 256})    # doctest: +SKIP
    >>> plan.save("plan.json")                                              # doctest: +SKIP
    """
    build, base, counts = _spread(build, base, counts)
    if counts is None:
        planner = Planner(build, example, base, widths, more)
        with planner.lines.named():
            planner.measure()
            found = Plan(Assembly(planner, parameterization).content)
    else:
        found = Plan(counted_content(build, example, base, counts, parameterization, widths, more))
    for note in found.notes:
        warnings.warn(note, NoteWarning, stacklevel=2)
    return found
