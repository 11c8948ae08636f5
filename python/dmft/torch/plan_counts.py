"""Counts the parameters of each kind that a module has where it has more experts or blocks."""
from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

from dmft.errors import InputError
from dmft.torch.plan_sizes import listed, pattern_of


class Uneven(InputError):
    """Numbers of parameters are no sums of products of numbers of experts and blocks."""


def numbers(names_at, places) -> dict:
    """{kind of names: [[a number, sizes that it is multiplied by], ...]} of the kinds of which
    there are more, or others, where a size is larger: sums of products of these sizes, each once.
    names_at: a function of {size: value} of all names there; places: three values of each size, of
    which the last one is a check.

    >>> names_at = lambda sizes: [f"up.{k}" for k in range(2 * sizes["L"] + 1)]
    >>> numbers(names_at, {"L": (2, 4, 6)})
    {'up.*': [[1.0, []], [2.0, ['L']]]}
    """
    seen: dict = {}

    def counted(*values):
        kinds: dict = {}
        for name in names_at(dict(zip(places, values))):
            kinds.setdefault(pattern_of(name), []).append(name)
        for kind, names in kinds.items():
            seen.setdefault(kind, set()).add(tuple(names))
        return Counter({kind: len(names) for kind, names in kinds.items()})
    corners = {which: counted(*(places[size][k] for size, k in zip(places, which)))
               for which in itertools.product((0, 1), repeat=len(places))}
    last = {size: values[2] for size, values in places.items()}
    far, found = counted(*last.values()), {}
    for kind in sorted(far | corners[(0,) * len(places)]):
        terms = _terms({which: Fraction(one[kind]) for which, one in corners.items()}, places)
        at_last = Fraction(0)
        for sizes, c in terms.items():
            for size in sizes:
                c *= last[size]
            at_last += c
        if at_last != far[kind] or not all(one[kind] for one in corners.values()):
            raise Uneven(f"there are {', '.join(str(one[kind]) for one in corners.values())} "
                         f"parameters {kind} at small {' and '.join(places)}, and {far[kind]} at "
                         f"{listed(last)}, which is no sum of multiples of these")
        if len(seen[kind]) > 1:
            found[kind] = [[float(c), list(sizes)] for sizes, c in terms.items()]
    return found


def _terms(values: dict, places: dict) -> dict:
    """{sizes: c} of numbers at all corners: a sum of c times these sizes."""
    if not places:
        return {(): values[()]}
    (size, (a, b, _)), *rest = places.items()
    low, high = (_terms({which[1:]: one for which, one in values.items() if which[0] == k},
                        dict(rest)) for k in (0, 1))
    found = {}
    for sizes in {**low, **high}:
        one, two = (some.get(sizes, Fraction(0)) for some in (low, high))
        slope = (two - one) / (b - a)
        found |= {sizes: one - slope * a, (size, *sizes): slope}
    return {sizes: c for sizes, c in found.items() if c}
