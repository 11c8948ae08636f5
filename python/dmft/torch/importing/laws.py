"""How a number goes with the width, found from its values at two widths: c N^p."""
from __future__ import annotations

import math

from dmft.power import slope

# Powers are multiples of 1/12; two values are equal, and a power is one of these, to round-off.
PARTS, ROUND_OFF = 12, 1e-9


def power_of(values, widths) -> tuple[float, float] | None:
    """(c, p) of numbers that are c N^p at both widths; None if there is no such power.

    >>> power_of((8.0, 16.0), (64, 256))
    (1.0, 0.5)
    """
    first, second = values
    if first == second:
        return float(first), 0.0
    if not (first * second > 0 and math.isfinite(first) and math.isfinite(second)):
        return None
    p = slope((abs(first), abs(second)), widths)
    nearest = round(PARTS * p) / PARTS
    if abs(p - nearest) > ROUND_OFF:
        return None
    return first / widths[0] ** nearest, nearest


def measured_power(values, widths) -> tuple[float, float]:
    """(c, p) of positive numbers that are known to a few percent: p is a multiple of 1/2."""
    if 0 in values:
        return 0.0, 0.0
    p = round(2 * slope(values, widths)) / 2
    return math.sqrt(values[0] * values[1] / (widths[0] * widths[1]) ** p), p
