"""Constants of a limit as powers of keys of the ini: 1/(kappa N_e) instead of 1.

A key makes a constant where the constant changes as a power of it: the limit is described again at
twice and four times the key.
"""
from __future__ import annotations

import math
import re

from dmft.description import Program
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
    if settings.get("data", {}).get("source") == "gaussian":
        found["data.dimension"] = settings["data"]["dimension"]
    return found


class Scales:
    """Reads constants off a limit, and off the limits at changed keys."""

    def __init__(self, limit: Program, settings: dict, again):
        """again(key, value): the limit with this key, or None."""
        self.limit, self.values = limit, {}
        self.changed: dict[str, tuple[Program, Program]] = {}
        for key, value in _numbers(settings).items():
            made = []
            for factor in (2, 4):
                try:
                    made.append(again(key, value * factor))
                except DmftError:
                    break
            if len(made) == 2 and all(made):
                tex = names.key(key.split(".")[1])
                self.values[tex] = float(value)
                self.changed[tex] = tuple(made)

    def __call__(self, read) -> Scale:
        """The constant that read(program) gives; 0 where it vanishes with the width."""
        value = read(self.limit)
        if abs(value) < VANISHES:
            return number(0.0)
        powers, left = [], value
        for tex, (twice, four) in self.changed.items():
            power = self._power(read, value, twice, four)
            if power:
                powers.append((tex, power))
                left /= self.values[tex] ** power
        return Scale(value, float(f"{left:.12g}"), tuple(powers))

    @staticmethod
    def _power(read, value: float, twice: Program, four: Program) -> float:
        try:
            steps = [math.log2(read(twice) / value), math.log2(read(four) / value)]
        except (LookupError, ArithmeticError, ValueError, TypeError, DmftError):
            return 0.0
        power = round(steps[0] * 12) / 12
        return power if abs(steps[0] - power) < 1e-9 and abs(steps[1] - 2 * power) < 1e-9 else 0.0
