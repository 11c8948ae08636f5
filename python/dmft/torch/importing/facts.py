"""Whether the module with as many experts and blocks as are asked for is what few of them say.

It is made without the memory of its numbers and never run, so that what its forward alone makes of
the place of a block is not seen.
"""
from __future__ import annotations

import math
import types
from fractions import Fraction

from dmft.torch.plan_sizes import listed, pattern_of

PLAIN = (bool, int, float, str)


def facts(module) -> dict[str, set]:
    """{what: its values}, of the numbers and words that its parts keep, and of the numbers and
    the sizes of its parameters; * stands for the number of a block or an expert."""
    found: dict[str, list] = {}
    for path, part in module.named_modules():
        path = pattern_of(path) + "." * bool(path)
        for name, value in vars(part).items():
            if name == "training" or name.startswith("_"):
                continue
            own = {name: value}
            if isinstance(value, types.SimpleNamespace) or hasattr(value, "__dataclass_fields__") \
                    or name == "config":
                own = {f"{name}.{word}": one for word, one in vars(value).items()
                       if not word.startswith("_")}
            for word, one in own.items():
                if isinstance(one, PLAIN):
                    found.setdefault(path + word, []).append(one)
    named: dict[str, list] = {}
    for name, parameter in module.named_parameters():
        named.setdefault(pattern_of(name), []).append(parameter)
    for name, alike in named.items():
        found[f"the number of parameters {name}"] = [len(alike)]
        for k in range(alike[0].dim()):
            found[f"size {k} of {name}"] = [one.shape[k] for one in alike if one.dim() > k]
    return {what: set(values) for what, values in found.items()}


def _expected(values: dict, grid: dict, counts: dict):
    """What numbers at the corners of a grid are at these counts, of the first degree in each."""
    return sum(value * math.prod(
        Fraction(counts[name] - low if one else high - counts[name], high - low)
        for one, (name, (low, high)) in zip(corner, grid.items()))
        for corner, value in values.items())


def other_fact(corners: dict, there: dict, grid: dict, counts: dict) -> str:
    """What of a module with these counts, whose facts are `there`, is another than those at the
    corners of a grid say, {(0 or 1 for each count): facts}; "" where nothing is. Real numbers that
    go with a count may have any law."""
    first = next(iter(corners.values()))
    for what in sorted(there.keys() | first.keys()):
        values, found = [one.get(what, set()) for one in corners.values()], there.get(what, set())
        if all(one == values[0] for one in values):
            agree, said = found == values[0], values[0]
        elif all(isinstance(one, int) for some in values for one in some) and all(values):
            said = {_expected({corner: end(one[what]) for corner, one in corners.items()}, grid,
                              counts) for end in (min, max)}
            agree = bool(found) and said == {min(found), max(found)}
        else:
            continue
        if not agree:
            return f"with {listed(counts)} the module has {what} = {_words(found)}, and modules " \
                f"of few of them say {_words(said)}"
    return ""


def _words(values) -> str:
    return ", ".join(sorted(map(str, values))[:4]) or "none"
