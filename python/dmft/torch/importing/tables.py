"""Constant rows over sites, as a function of the place of a site: those of rotary positions."""
from __future__ import annotations

import dataclasses
import math

import numpy as np

from dmft.torch.importing.expressions import Gap

CLOSE = 1e-12                           # round-off of a sine of a power


@dataclasses.dataclass(frozen=True)
class Angles:
    """scale t base^-((i + shift)/n) stretch^-(i/(n - 1)) at site i of n and token t: `scale` where
    positions are interpolated, `stretch` where the base is that for longer texts (NTK)."""
    base: float
    shift: float = 0.0
    scale: float = 1.0
    stretch: float = 1.0

    def of_token(self, n: int) -> np.ndarray:
        """Of t = 1, at all sites."""
        i = np.arange(n)
        return self.scale * self.base ** -((i + self.shift) / n) \
            * self.stretch ** -(i / max(n - 1, 1))

    def text(self, sites: str) -> str:
        """In Lua, at the place u in (0, 1) of a site, of so many."""
        site = f"(u * {sites} - 0.5)"
        place = "u" if self.shift else f"(u - 0.5 / {sites})"
        more = "" if self.scale == 1 else f"{self.scale!r} * "
        last = "" if self.stretch == 1 else f" * {self.stretch!r} ^ -({site} / ({sites} - 1))"
        return f"{more}{self.base!r} ^ -{place}{last}"


def formula(table, sites: str) -> str:
    """The text of c cos(angle), or of its sine or minus it, at token t, from 0 or 1 on, in u, s,
    and the text `sites` of how many there are; what is none of them is refused."""
    if table.kinds != ("token", "sites") or len(table.values[0]) < 3:
        raise Gap("constants that differ from site to site, of which a program has rotary "
                  "positions alone; let them be trained, nn.Parameter, or be drawn in the forward "
                  "pass, torch.randn_like")
    for name, function, inverse in (("cos", np.cos, np.arccos), ("sin", np.sin, np.arcsin)):
        for first in (0, 1):
            c = table.values[1][0, 0] if name == "cos" and not first else 1.0
            if name == "sin" and table.values[1][1 - first, 0] < 0:     # turned the other way
                c = -1.0
            with np.errstate(invalid="ignore", divide="ignore"):
                seen = [inverse(one[1 - first] / c) for one in table.values]
                found = next((one for one in _fitted(seen) if _is(
                    table.values, lambda t, a: c * function((t + first) * a), one)), None)
            if found is not None:
                token = "s" if first else "(s - 1)"
                text = f"math.{name}({token} * {found.text(sites)})"
                return text if c == 1 else f"{float(c)!r} * {text}"
    raise Gap("constants that differ from site to site and are no rotary positions with one base, "
              "as those of yarn and longrope, whose frequencies are cut at whole numbers of sites; "
              "take rope_type default, linear or dynamic, and let a table that is added be "
              "trained, nn.Parameter")


def _is(tables, function, angles: Angles) -> bool:
    """Whether all tables [token, site] are a function of the token and of the angle at token 1."""
    made = [function(np.arange(len(one))[:, None], angles.of_token(one.shape[1]))
            for one in tables]
    return all(np.abs(a - b).max() <= CLOSE * max(1.0, np.abs(b).max())
               for a, b in zip(made, tables))


def _fitted(seen):
    """Angles that go through those of the first two sites, where there are two."""
    one, two = seen
    n = len(two)
    if n < 2 or not (two[:2] > 0).all():
        return
    falls = [math.log(a[0] / a[1]) if len(a) > 1 and (a[:2] > 0).all() else None for a in seen]
    with np.errstate(over="ignore", under="ignore"):    # of tables that are no such angles
        whole = float(np.exp(n * falls[1]))
        base, stretch = (0, 0) if falls[0] is None else np.exp(np.linalg.solve(
            [[1 / len(a), 1 / (len(a) - 1)] for a in seen], falls))
    for shift in (0.0, 0.5) if 0 < whole < math.inf else ():
        yield Angles(_near(whole, n), shift)
        yield Angles(_near(whole, n), shift, _near(two[0] * whole ** (shift / n), 1))
    if 0 < base < math.inf and 0 < stretch < math.inf:
        yield Angles(_near(base, n), 0.0, 1.0, _near(stretch, n))


def _near(number: float, n: int) -> float:
    """Writes it as its author did, in few digits."""
    for digits in range(1, 9):
        near = float(f"{number:.{digits - 1}e}")
        if abs(near / number - 1) < 1e-9 * n:
            return near
    return float(number)
