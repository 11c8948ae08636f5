r"""Equations of many experts or blocks, of which few are derived.

A page folds experts and blocks of one kind into an index, so that pages of different numbers of
them differ in whole numbers alone: in the ends of ranges, (i=0,\dots,7), and in the number of the
last block. Pages of a few numbers give these as a + b M + c L, and one more must be as they say;
else everything is derived.
"""
from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Mapping

from dmft.description import Description, Program, stem

KEYS = {"M": ("experts", 6), "L": ("depth", 5)}    # key, and how many of them are derived
WHOLE = re.compile(r"(?<![\d.])(\d+)(?![\d.])")


@dataclasses.dataclass(frozen=True)
class Few:
    """What the ini says of experts and blocks that are many: {key: (how many are derived, how many
    there are)}; and of how many experts a token has some."""
    sizes: dict[str, tuple[int, int]]
    chosen: int = 0

    @property
    def samples(self) -> list[dict[str, int]]:
        """Numbers whose pages are derived: the last one is for the check."""
        base = {key: few for key, (few, _) in self.sizes.items()}
        return [base, *({**base, key: base[key] + 1} for key in base),
                {key: few + 2 for key, few in base.items()}]

    @property
    def all(self) -> dict[str, int]:
        """The numbers of the ini."""
        return {key: number for key, (_, number) in self.sizes.items()}

    def settings(self, sample: Mapping[str, int]) -> dict[str, float]:
        """The keys of a sample, in which tokens have as many experts as in the ini."""
        of = sample.get("network.experts")
        return dict(sample) | ({"network.rho": self.chosen / of} if of and self.chosen else {})


def fewer(settings: Mapping[str, str]) -> Few:
    """The experts and blocks that are many.

    >>> fewer({"network.model": "stack", "network.depth": "60", "network.experts": "4"}).sizes
    {'network.depth': (5, 60)}
    """
    section = "program" if settings["network.model"] == "program" else "network"
    found, chosen = {}, 0
    for word, few in KEYS.values():
        text = settings.get(f"{section}.{word}", "")
        if not text.isdigit():
            continue
        share = float(settings.get("network.rho", 1)) if f"{section}.{word}" == "network.experts" \
            else 1
        own = round(share * int(text)) if share < 1 else 0
        if int(text) >= 2 * max(few, 2 * own):
            found[f"{section}.{word}"] = max(few, 2 * own), int(text)
            chosen = chosen or own
    return Few(found, chosen)


def _shape(program: Program) -> collections.Counter:
    """In how many ways operations and matrices of one name differ, but for their numbers."""
    seen = {(op.operation, stem(op.matrix or op.name or ""), op.row,
             json.dumps(op.constants | {"column": 0})) for op in program.operations}
    places = ("name", "operation", "source", "target", "start", "muon_whole")
    seen |= {(W.kind, stem(W.name), *(value for key, value in vars(W).items() if key not in places))
             for W in program.matrices}
    return collections.Counter(one[:2] for one in seen)


def alike(few: Description, many: Description) -> bool:
    """Whether the many of a stranger's program show no member of another kind than the few."""
    return few.limit is not None and many.limit is not None and \
        _shape(few.limit) == _shape(many.limit)


class Template:
    """A text in which whole numbers follow those of experts and blocks."""

    def __init__(self, texts: list[str], few: Few):
        """texts: of the samples. ValueError: they do not differ in such numbers alone."""
        self._few = few
        pieces = [WHOLE.split(text) for text in texts]
        if len({tuple(one[::2]) for one in pieces}) > 1:
            raise ValueError("the texts differ")
        self._words = pieces[0][::2]
        numbers = [[int(one) for one in piece[1::2]] for piece in pieces]
        self._laws = [(base, *(one - base for one in more))
                      for base, *more in zip(*numbers[:-1])]
        if self(few.samples[-1]) != texts[-1]:
            raise ValueError("the numbers are no sums")

    def __call__(self, sizes: Mapping[str, int]) -> str:
        more = [sizes[key] - few for key, (few, _) in self._few.sizes.items()]
        numbers = [str(base + sum(a * b for a, b in zip(slopes, more)))
                   for base, *slopes in self._laws]
        return "".join(word + number for word, number in zip(self._words, [*numbers, ""]))


class Page:
    """The texts of a page (page.Page), of as many experts and blocks as the ini has."""

    def __init__(self, pages: list, few: Few):
        """ValueError: they do not show what a page of many is."""
        self._texts = {kind: Template([getattr(page, kind)() for page in pages], few)(few.all)
                       for kind in ("document", "markdown", "body")}

    def document(self) -> str:
        """A LaTeX document."""
        return self._texts["document"]

    def markdown(self) -> str:
        """Markdown with formulas between dollars."""
        return self._texts["markdown"]

    def body(self) -> str:
        """LaTeX without a preamble."""
        return self._texts["body"]
