"""Constant rows over sites, as a function of the place of a site: those of rotary positions."""
from __future__ import annotations

import numpy as np

from dmft.torch.importing.expressions import Gap

CLOSE = 1e-12                           # round-off of a sine of a power


def formula(table, sites: str) -> str:
    """The text of c cos(t base^-(i + d)/n), or of its sine, at token t, from 0 or 1 on, and site i
    of n, d = 0 or 1/2, in u, s, and the text `sites` of n; what is none of them is refused."""
    if table.kinds != ("token", "sites") or len(table.values[0]) < 3:
        raise Gap("constants that differ from site to site, of which only rotary positions are "
                  "known")
    for name, function, inverse in (("cos", np.cos, np.arccos), ("sin", np.sin, np.arcsin)):
        for first in (0, 1):
            for shift in (0.0, 0.5):
                angle = _angle(table.values, first, shift, function, inverse)
                if angle is not None:
                    c, base = angle
                    place = "u" if shift else f"(u - 0.5 / {sites})"
                    token = "s" if first else "(s - 1)"
                    text = f"math.{name}({token} * {base!r} ^ -{place})"
                    return text if c == 1 else f"{float(c)!r} * {text}"
    raise Gap("constants that differ from site to site and are no rotary positions")


def _angle(tables, first, shift, function, inverse):
    """(c, base) if all tables are of this form."""
    values = tables[0]
    c = values[0, 0] if function is np.cos and not first else 1.0
    n, at = values.shape[1], 1 - first
    if n < 2 or not c or not 0 < values[at, 1] / c < 1:
        return None
    base = _near(inverse(values[at, 1] / c) ** (-n / (1 + shift)), n)
    for one in tables:
        T, n = one.shape
        angles = (np.arange(T)[:, None] + first) * base ** -((np.arange(n) + shift) / n)
        if np.abs(c * function(angles) - one).max() > CLOSE * max(1.0, abs(c)):
            return None
    return c, base


def _near(base: float, n: int) -> float:
    """Writes it as its author did, in few digits."""
    for digits in range(1, 9):
        near = float(f"{base:.{digits - 1}e}")
        if abs(near / base - 1) < 1e-9 * n:
            return near
    return float(base)
