"""Constants of a limit as powers of keys of the ini: 1/(kappa N_e) instead of 1.

A key makes a constant where the constant changes as a power of it: the limit is described again at
twice and four times the key. Where the dimension of an input is no key it goes with another one.
"""
from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable

from dmft.description import Description, Program
from dmft.errors import DmftError
from dmft.theory import names
from dmft.theory.expression import Scale, number

VANISHES = 2.0 ** -100                  # what N = 2^400 makes of any negative power of N
# Keys of [network] that are no sizes, scales or rates.
OTHER = ("outputs", "expert_layers", "seed", "shared_experts", "heads", "experts_per_token")


def _numbers(settings: dict) -> dict[str, float]:
    """Keys of the network and program with a positive number."""
    found = {}
    for section in ("network", "program"):
        for key, value in settings.get(section, {}).items():
            if isinstance(value, str) and re.fullmatch(r"[0-9.]+", value):
                value = float(value) if "." in value else int(value)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 and \
                    key not in OTHER:
                found[f"{section}.{key}"] = value
    data = settings.get("data", {})     # the dimension of an input goes with one of these
    found |= {f"data.{key}": data[key] for key in ("dimension", "vocabulary", "side")
              if isinstance(data.get(key), int)}
    return found


class Scales:
    """Reads constants off a limit, and off the limits at changed keys."""

    def __init__(self, limit: Program, described: Description, again):
        """again(key, value): the description with this key."""
        self.limit, self.values = limit, {}
        self.changed: dict[str, list[Callable]] = {}
        for key, value in _numbers(described.settings).items():
            def at(factor, key=key, value=value):
                """(log2 of the factor, limit) at a changed key, or None without a limit."""
                try:
                    one = again(key, value * factor)
                except DmftError:
                    return None
                if one.limit is None or described.same_limit(one):  # nothing depends on the key
                    return None
                if key.startswith("data."):
                    factor = one.dimension / described.dimension
                return math.log2(factor), one.limit
            at = functools.cache(at)
            if not at(2):
                continue
            tex = names.key(key.split(".")[1])
            if key.startswith("data."):
                tex, value = "D", described.dimension
            self.values[tex] = float(value)
            self.changed[tex] = [functools.partial(at, factor) for factor in
                                 ((2, 3) if key == "data.dimension" else (2, 4))]

    def __call__(self, read) -> Scale:
        """The constant that read(program) gives; 0 where it vanishes with the width."""
        value = read(self.limit)
        if abs(value) < VANISHES:
            return number(0.0)
        powers, left = [], value
        for tex, changed in self.changed.items():
            power = self._power(read, value, changed)
            if power:
                powers.append((tex, power))
                left /= self.values[tex] ** power
        return Scale(value, float(f"{left:.12g}"), tuple(powers))

    @staticmethod
    def _power(read, value: float, changed: list[Callable]) -> float:
        """Most keys change nothing, or nothing by a power, and their second limit is not asked
        for."""
        power = None
        for at in changed:
            if not at():
                return 0.0
            ratio, program = at()
            try:
                found = read(program)
                step = 0.0 if found == value else math.log2(found / value) / ratio
                power = round(step * 12) / 12 if power is None else power
            except (LookupError, ArithmeticError, ValueError, TypeError, DmftError):
                return 0.0
            if not step or not abs(step - power) < 1e-9:
                return 0.0
        return power
