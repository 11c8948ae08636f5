"""Equations of a page, and alike ones as one with an index."""
from __future__ import annotations

from dataclasses import dataclass, field, replace

from dmft.theory.symbols import LETTERS, Context


@dataclass
class Line:
    """One equation: write(context) gives it; indices of its left side; the population it is of."""
    write: object
    indices: tuple
    population: int | None
    letters: tuple = ()
    ranges: tuple = ()
    populations: tuple = field(default=())

    def text(self, letters: tuple = ()) -> str:
        return self.write(Context(letters=self.letters + letters))


def fold(lines: list[Line]) -> list[Line]:
    """Lines that differ by one index alone become one, the first with a letter for its index."""
    for kind in ("expert", "layer", "block", "use"):
        found: dict[tuple, list] = {}
        order: list = []
        for line in lines:
            values = [value for name, value in line.indices if name == kind]
            key = None
            if values:
                text = line.text(((kind, values[-1], LETTERS[kind][0]),))
                key = (text, line.ranges)
            near = [value for value, _ in found[key]] if key in found else []
            if near and values[-1] in (min(near) - 1, max(near) + 1):
                found[key].append((values[-1], line))
            else:
                if key is not None:
                    found[key] = [(values[-1], line)]
                    order.append(found[key])
                else:
                    order.append([(None, line)])
        lines = []
        for group in order:
            first = group[0][1]
            if len(group) > 1:
                letter = LETTERS[kind][0]
                numbers = [number for number, _ in group]
                value, first = min(group, key=lambda one: one[0])
                first = replace(first, letters=first.letters + ((kind, value, letter),),
                                ranges=first.ranges + ((letter, min(numbers), max(numbers)),),
                                populations=tuple(dict.fromkeys(
                                    at for _, line in group
                                    for at in line.populations or (line.population,))))
            lines.append(first)
    return lines
