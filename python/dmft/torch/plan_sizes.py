"""Which entry of a plan each parameter of a model has, and which sizes the model has.

What every part of a plan is of (dmft.torch.plans): names of parameters without what wrappers put
into them, and the sizes that the shapes and the number of parameters tell. It needs PyTorch alone.
"""
from __future__ import annotations

import collections
import math
import re
import warnings

import torch

try:                                    # beside the program bad input has its own class
    from dmft.errors import InputError, NoteWarning
except ImportError:
    class InputError(ValueError):
        """Bad input, in one sentence."""

    NoteWarning = UserWarning

NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")            # of a block or an expert, in a name
WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
ROUND_OFF = 1e-6


def plain_names(names) -> dict[str, str]:
    """{name of a parameter: the same without what wrappers put into it}. `module` is one of their
    words, and may be one of a model's own, which then is not before all names.

    >>> plain_names(["module._orig_mod.up.0.weight", "module.module.down"])
    {'module._orig_mod.up.0.weight': 'up.0.weight', 'module.module.down': 'module.down'}
    """
    words = {name: [word for word in name.split(".") if word not in WRAPPERS] for name in names}
    while words and all(len(one) > 1 and one[0] == "module" for one in words.values()):
        words = {name: one[1:] for name, one in words.items()}
    return {name: ".".join(one) for name, one in words.items()}


def pattern_of(name: str) -> str:
    """A name with * for the number of a block or an expert."""
    return NUMBER.sub("*", name)


def power(law: dict, ratios: dict) -> float:
    """Ratios of sizes to the powers of a law.

    >>> power({"N": -0.5}, {"N": 4, "M": 2})
    0.5
    """
    return math.prod(ratios[size] ** float(up) for size, up in law.items())


class Fitted:
    """The parameters of a plan, to which those of a model are fitted."""

    def __init__(self, content: dict):
        self._content = content
        self.base, self.counts, self.notes = (content[key] for key in ("base", "counts", "notes"))
        self.parameterization = content["parameterization"]
        self._entries = content["parameters"]
        self._plain = plain_names(name for entry in self._entries for name in entry["names"])
        plain = {pattern_of(name): pattern_of(one) for name, one in self._plain.items()}
        # {names of one kind: of how many there are: sums of a number times sizes}
        self._numbers = {plain[one]: terms for one, terms in content["numbers"].items()}

    # --- sizes -----------------------------------------------------------------------------------

    def sizes(self, model: torch.nn.Module) -> dict:
        """The sizes of a model, from the shapes and the number of its parameters."""
        return self._sizes_of(self._shapes(model))

    def _shapes(self, model) -> list:
        return [(entry, one.shape, name) for name, entry, one in self._matched(model)]

    def _sizes_of(self, pairs) -> dict:
        found = self._solved(pairs, [name for _, _, name in pairs])
        missing = [size for size in self.base if size not in found]
        if missing:
            raise InputError(f"no parameter of the model tells its {missing[0]}; give sizes=")
        found = {size: self._whole(size, found[size]) for size in (*self.base, *self.counts)
                 if size in found}
        self._check_shapes(pairs, found)
        other = {size: found[size] for size, value in self.counts.items()
                 if found.get(size, value) != value}
        if other:
            warnings.warn(f"the model has {listed(other)}, and the plan was made for "
                          f"{listed(self.counts)}: its numbers stay what they are there",
                          NoteWarning, stacklevel=4)
        return found

    def _solved(self, pairs, names) -> dict:
        """The sizes that names and shapes tell; names: of all parameters."""
        found = self._counted(names)
        for _ in (*self.base, *self.counts):    # each dimension with one unknown size gives it
            for entry, shape, _ in pairs:
                for (c, law), have in zip(entry["shape"], shape):
                    unknown = [size for size in law if size not in found]
                    if len(unknown) == 1:
                        (size,) = unknown
                        rest = c * power({one: up for one, up in law.items() if one != size}, found)
                        found[size] = (have / rest) ** (1 / law[size])
        return found

    def _counted(self, names) -> dict:
        """The sizes that are numbers of parameters, of each kind of which there must be as many."""
        here, found = collections.Counter(map(pattern_of, names)), {}
        for _ in (*self.base, *self.counts):
            for pattern, terms in self._numbers.items():
                unknown = {size for _, sizes in terms for size in sizes} - set(found)
                if len(unknown) == 1:
                    (size,) = unknown
                    slope, rest = (sum(c * math.prod(found[one] for one in sizes if one != size)
                                       for c, sizes in terms if (size in sizes) == has)
                                   for has in (True, False))
                    found |= {size: (here[pattern] - rest) / slope} if slope else {}
        traced = collections.Counter(map(pattern_of, self._plain.values()))
        for pattern, many in traced.items() if self._numbers else ():
            terms = self._numbers.get(pattern, [[many, []]])
            if all(size in found for _, sizes in terms for size in sizes):
                wanted = sum(c * math.prod(found[one] for one in sizes) for c, sizes in terms)
                if abs(here[pattern] - wanted) > ROUND_OFF * many:
                    raise InputError(f"the model has {here[pattern]} parameters {pattern}, and "
                                     f"by the plan there are {wanted:g}; the plan is of another "
                                     "module")
        return found

    @staticmethod
    def _check_shapes(pairs, found: dict) -> None:
        for entry, shape, name in pairs:
            wanted = [None if c is None or set(law) - set(found) else c * power(law, found)
                      for c, law in entry["shape"]]
            if any(one and abs(one - have) > ROUND_OFF * one for one, have in zip(wanted, shape)):
                    raise InputError(f"{name} has the shape {list(shape)}, and in this plan it is "
                                 f"{[one and round(one, 3) for one in wanted]} at "
                                 f"{listed(found)}; the plan is of another module")

    @staticmethod
    def _whole(size: str, value: float) -> int:
        if abs(value - round(value)) > ROUND_OFF * value:
            raise InputError(f"{size} of the model would be {value:.6g}, which is no whole number; "
                             "the plan is of another module")
        return round(value)

    def _known_sizes(self, model, sizes: dict | None, part: bool = False) -> dict:
        if part and sizes is None:
            raise InputError("a part of a model does not tell the sizes of the whole; give "
                             f"sizes={{{', '.join(f'{size!r}: ...' for size in self.base)}}}")
        if sizes is not None:
            if not isinstance(sizes, dict):
                raise InputError(f"sizes is {sizes!r}, and {{size: its value}} of "
                                 f"{' and '.join(self.base)} is wanted")
            if set(sizes) != set(self.base):
                raise InputError(f"sizes: {sorted(sizes)} are given, and the plan has "
                                 f"{sorted(self.base)}")
            for size, value in sizes.items():
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise InputError(f"sizes: {size} is {value!r}, and a whole number of at least "
                                     "1 is wanted")
        if part:
            return dict(sizes)
        pairs = self._shapes(model)
        if not any(is_flat(entry, shape) for entry, shape, _ in pairs):
            if sizes is None:
                return self._sizes_of(pairs)
            told = self._solved(pairs, [name for _, _, name in pairs])
            self._check_shapes(pairs, sizes | told)
            for size, value in sizes.items():
                if abs(told.get(size, value) - value) > ROUND_OFF * value:
                    raise InputError(f"sizes: {size} is {value}, and by the shapes of the model it "
                                     f"is {told[size]:g}; give this, or no sizes")
            return dict(sizes)
        # FSDP has flattened the parameters
        kept = [one._plan_sizes for one in model.modules() if hasattr(one, "_plan_sizes")]
        if sizes is None and not kept:
            raise InputError("the parameters have lost their shapes (FSDP): call initialize before "
                             "FSDP, or give sizes=")
        return dict(kept[0] if sizes is None else sizes)

    # --- parameters ------------------------------------------------------------------------------

    def _matched(self, model, sizes: dict | None = None):
        """[(name, its entry, the parameter)] of all parameters of a model; of a part of a model
        with the sizes of the whole."""
        if not isinstance(model, torch.nn.Module):
            raise InputError(f"the model is a {type(model).__name__}, and a torch.nn.Module is "
                             "wanted")
        exact = {self._plain[name]: entry for entry in self._entries for name in entry["names"]}
        alike: dict = {}
        for entry in self._entries:
            alike.setdefault(pattern_of(self._plain[entry["names"][0]]), []).append(entry)
        found, unclear = [], {}
        plain = plain_names(name for name, _ in model.named_parameters())
        if not all(name in exact for name in plain.values()):   # wrappers are within, too
            inner = {name: _without_modules(one) for name, one in plain.items()}
            if len(set(inner.values())) == len(inner) and set(inner.values()) <= set(exact):
                plain = inner
        for wrapped, parameter in model.named_parameters():
            name = plain[wrapped]
            pattern = pattern_of(name)
            several = alike.get(pattern, []) if pattern in self._numbers else \
                [exact[name]] if name in exact else []
            entry = several[0] if several else None
            if len(several) > 1:
                unclear[name] = several
            if entry is None and name.split(".")[-1] == "_flat_param":
                raise InputError("FSDP has put several parameters into one: wrap with "
                                 "use_orig_params=True, or call groups before the model is wrapped")
            if entry is None:
                raise InputError(self._unknown(name, alike, plain.values()))
            found.append((name, entry, parameter))
            if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
                raise InputError(f"{name} has no shape yet: call the model once on an input")
        names = {name for name, _, _ in found}
        have = {pattern_of(name) for name in names}
        lost = [name for name in exact if (pattern_of(name) not in have if pattern_of(name)
                                           in self._numbers else name not in names)]
        if lost and not sizes:
            raise InputError(f"the model has no parameter {lost[0]}, which the plan has; the plan "
                             "is of another module" + (
                                 ", or was made with more of these: give their number by counts="
                                 if pattern_of(lost[0]) in have else
                                 ", or this is a part of the model, which part=True says"))
        if unclear:                     # names that move with the number of blocks: the shape tells
            known = {**self.counts, **sizes} if sizes else self._solved(
                [(entry, one.shape, name) for name, entry, one in found if name not in unclear],
                names)
            found = [(name, self._of_shape(unclear[name], name, one.shape, known)
                      if name in unclear else entry, one) for name, entry, one in found]
        return found

    def _unknown(self, name: str, alike: dict, names) -> str:
        """Why a parameter of a model is none of the plan's."""
        text = f"the plan has no parameter {name}"
        if pattern_of(name) in alike:
            return text + ", but others of this kind; if their number is another one, make the " \
                "plan with counts=, or with a base that has it"
        known = set(self._plain.values())
        for k, word in enumerate(name.split("."), 1):
            rest = [".".join(one.split(".")[k:]) for one in names
                    if one.split(".")[k - 1:k] == [word]]
            if set(rest) >= known:
                part = ".".join(name.split(".")[:k])
                return text + f"; it is of {part}, a part of this model, so give that part"
        return text + "; it was made of a module with " + listed_names(known)

    def _of_shape(self, entries, name: str, shape, known: dict) -> dict:
        """Finds the entry of this parameter among those of its kind of names."""
        fit = [entry for entry in entries if len(entry["shape"]) == len(shape) and all(
            c is None or set(law) - set(known) or abs(c * power(law, known) - have)
            <= ROUND_OFF * have for (c, law), have in zip(entry["shape"], shape))] or entries
        same = {repr([entry[key] for key in ("sgd", "adam", "eps", "muon")] + [
            [part[key] for key in ("at", "equal", "std", "own")] for part in entry["parts"]])
            for entry in fit}
        mine = [entry for entry in fit if name in map(self._plain.get, entry["names"])]
        if len(same) > 1 and not mine:
            raise InputError(f"which of {' and '.join(entry['names'][0] for entry in fit)} in the "
                             f"plan {name} is cannot be told by its shape {list(shape)}; call "
                             "the plan before FSDP, or name these parameters apart")
        return (mine or fit)[0]


def _without_modules(name: str) -> str:
    return ".".join(word for word in name.split(".") if word != "module")


def is_cut(entry: dict, shape, sizes: dict) -> bool:
    """Whether a parameter of a part of a model has other sides than in the whole of these sizes."""
    wanted = [c and c * power(law, sizes) for c, law in entry["shape"]]
    return len(wanted) != len(shape) or any(
        one and abs(one - have) > ROUND_OFF * one for one, have in zip(wanted, shape))


def is_flat(entry: dict, shape) -> bool:
    """Whether FSDP has flattened a parameter."""
    return len(shape) == 1 and len(entry["shape"]) > 1


def listed_names(names, most: int = 12) -> str:
    """Some of them, in words."""
    kinds = list(dict.fromkeys(map(pattern_of, names)))
    return ", ".join(kinds[:most]) + (f" and {len(kinds) - most} more" if kinds[most:] else "")


def listed(sizes: dict) -> str:
    return ", ".join(f"{size} = {value}" for size, value in sizes.items())
