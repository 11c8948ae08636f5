"""How a number goes with the width, found from its values at two widths: c N^p."""
from __future__ import annotations

import math

from dmft.power import slope

# Powers are multiples of 1/12; two values are equal, and a power is one of these, to round-off.
PARTS, ROUND_OFF = 12, 1e-9
SIGMAS = 5                              # by which a measured power may be off


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


def measured_power(values, widths, error: float) -> tuple[float, float]:
    """(c, p) of positive numbers of which the logarithm of the ratio is known with this standard
    error: p is the multiple of 1/2 that the error allows, else of 1/4, else the nearest of 1/12.

    >>> measured_power((0.354, 0.297), (64, 128), 0.01)[1]
    -0.25
    """
    if 0 in values:
        return 0.0, 0.0
    seen = slope(values, widths)
    p = round(PARTS * seen) / PARTS
    allowed = SIGMAS * error / math.log(widths[1] / widths[0]) + ROUND_OFF
    for parts in (4, 2):
        nearest = round(parts * seen) / parts
        if abs(seen - nearest) <= allowed:
            p = nearest
    return math.sqrt(values[0] * values[1] / (widths[0] * widths[1]) ** p), p


def is_simple(p: float) -> bool:
    """Whether a measured power is one that modules are written with."""
    return 4 * p == round(4 * p)
