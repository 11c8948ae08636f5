"""Constant rows over sites, as a function of the place of a site: those of rotary positions."""
from __future__ import annotations

import numpy as np

from dmft.torch.importing.expressions import Gap

CLOSE = 1e-12                           # round-off of a sine of a power


def formula(table, sites: str) -> str:
    """The text of c cos(t base^-(i/n)), or of its sine, at token t and site i of n, in u, s, and
    the text `sites` of n; what is neither of both is refused."""
    if table.kinds != ("token", "sites") or len(table.values[0]) < 2:
        raise Gap("constants that differ from site to site, of which only rotary positions are "
                  "known")
    for name, function, inverse in (("cos", np.cos, np.arccos), ("sin", np.sin, np.arcsin)):
        c = table.values[0][0, 0] if name == "cos" else 1.0
        base = _base(table.values[0] / (c or 1.0), inverse)
        if base and all(_fits(one, c, base, function) for one in table.values):
            angle = f"(s - 1) * {base!r} ^ -(u - 0.5 / {sites})"
            return f"{float(c)!r} * math.{name}({angle})" if c != 1 else f"math.{name}({angle})"
    raise Gap("constants that differ from site to site and are no rotary positions")


def _base(values, inverse) -> float | None:
    """From the angle of the second site at the second token."""
    n = values.shape[1]
    if n < 2 or not 0 < values[1, 1] < 1:
        return None
    base = inverse(values[1, 1]) ** -n
    for digits in range(1, 9):          # as it was written
        near = float(f"{base:.{digits - 1}e}")
        if abs(near / base - 1) < 1e-9 * n:
            return near
    return float(base)


def _fits(values, c, base, function) -> bool:
    T, n = values.shape
    angles = np.arange(T)[:, None] * base ** -(np.arange(n) / n)
    return np.abs(c * function(angles) - values).max() < CLOSE * max(1.0, abs(c))
