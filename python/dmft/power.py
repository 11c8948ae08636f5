"""Products of powers of sizes, found from numbers at several places.

>>> law = fit([{"N": 64, "M": 8}, {"N": 128, "M": 8}, {"N": 64, "M": 16}], [4, 4 * 2 ** -0.5, 8])
>>> str(law), law.powers["M"], law.at({"N": 16, "M": 1})
('4 N^-1/2 M', Fraction(1, 1), 1.0)
>>> fit([{"N": 64}, {"N": 128}, {"N": 256}], [1, 2, 5]).exact
False
"""
from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np

# Numbers of a built network have a relative round-off of some 1e-15; a power of a size that is
# doubled, wrong by 1/LARGEST, is off by 7e-4.
TOLERANCE, LARGEST = 1e-9, 1000


def slope(values, sizes) -> float | None:
    """By which power values go with sizes, a line through their logarithms; None of one size, and
    where a value is not positive and finite.

    >>> slope((8.0, 16.0), (64, 256))
    0.5
    """
    if len(sizes) < 2 or not all(0 < value < math.inf for value in values):
        return None
    x, y = (np.log(np.asarray(numbers, float)) for numbers in (sizes, values))
    x, y = x - x[0], y - y[0]
    return float(np.dot(x - x.mean(), y) / np.dot(x - x.mean(), x))


@dataclasses.dataclass(frozen=True)
class Law:
    """coefficient times powers of sizes. A law that is not exact holds at one place alone."""
    coefficient: float
    powers: dict[str, Fraction] = dataclasses.field(default_factory=dict)
    exact: bool = True

    def at(self, sizes) -> float:
        """The number at these sizes. A size "(M+1)" is M and one more."""
        def value(name: str) -> float:
            size, _, more = name.strip("()").partition("+")
            return sizes[name] if name in sizes else sizes[size] + float(more)
        return self.coefficient * math.prod(value(name) ** float(power)
                                            for name, power in self.powers.items())

    def __float__(self) -> float:
        if self.powers and self.coefficient:
            raise TypeError(f"{self} is a number at given sizes only: .at({{...}})")
        return float(self.coefficient)

    def __mul__(self, other: Law) -> Law:
        if not self.coefficient or not other.coefficient:
            return Law(0.0)
        powers = {name: self.powers.get(name, 0) + other.powers.get(name, 0)
                  for name in [*self.powers, *other.powers]}
        return Law(self.coefficient * other.coefficient,
                   {name: power for name, power in powers.items() if power},
                   self.exact and other.exact)

    def __pow__(self, power) -> Law:
        power = Fraction(power)
        return Law(self.coefficient ** float(power),
                   {name: one * power for name, one in self.powers.items()}, self.exact)

    def words(self, name=str, power="{}^{}".format) -> list[str]:
        """The coefficient, unless it is 1, and each power, in the order of the sizes."""
        if not self.coefficient:
            return ["0"]
        coefficient = f"{self.coefficient:.6g}"
        found = [coefficient] if coefficient != "1" or not self.powers else []
        return found + [name(one) if up == 1 else power(name(one), up)
                        for one, up in self.powers.items()]

    def __str__(self) -> str:
        return " ".join(self.words())


def _rational(x: float) -> Fraction | None:
    near = Fraction(x).limit_denominator(LARGEST)
    return near if abs(float(near) - x) < TOLERANCE else None


def fit(places, numbers) -> Law:
    """The law of numbers at places, which are dicts of the same sizes. It is not exact where there
    is none, or the places do not tell the sizes apart: then it is the number at the first."""
    first = float(numbers[0])
    if all(number == 0 for number in numbers):
        return Law(0.0)
    inexact = Law(first, {}, False)
    if any(number / numbers[0] <= 0 for number in numbers) if first else True:
        return inexact
    logarithms = np.log([list(place.values()) for place in places])
    logarithms -= logarithms[0]
    if np.linalg.matrix_rank(logarithms, tol=1e-6) < len(places[0]):
        return inexact
    ratios = np.log(np.asarray(numbers, float) / first)
    powers = [_rational(power) for power in
              np.linalg.lstsq(logarithms, ratios, rcond=None)[0]]
    if None in powers:
        return inexact
    powers = {name: power for name, power in zip(places[0], powers) if power}
    coefficient = first / Law(1.0, powers).at(places[0])
    law = Law(float(f"{coefficient:.12g}"), powers)  # 1 and not 1 - 1e-16
    good = all(abs(law.at(place) / number - 1) < TOLERANCE
               for place, number in zip(places, numbers))
    return law if good else inexact
