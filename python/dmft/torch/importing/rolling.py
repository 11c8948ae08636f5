"""The program of an import of few experts and blocks with loops over them, so that it is a text for
any number of them.

    lines = rolled({(0, 0): lua, (1, 0): lua, (0, 1): lua, (1, 1): lua},
                   {"E": (4, 5), "L": (4, 5)}, {"E": 256, "L": 60})

The lines of a program that are the same but for whole numbers in arithmetic progression, and but
for the values that they read from their own repetition or from the one before, are a loop; so are
loops. At all counts this gives one text, whose numbers (of repetitions, places, names) are fitted
as polynomials in the counts, of the first degree in each. What does not fit is a Gap.
"""
from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

from dmft.torch.importing.expressions import Gap

PIECE = re.compile(r'"(?:\\.|[^"\\])*"|\{(-?[\d.e+-]+)(?:, \1)+\}|\bv\d+\b|'
                   r"\b\d[\w.]*(?:(?<=e)[+-]\d+)?")
ALL = "local function all(n, x) local t = {} for k = 1, n do t[k] = x end return t end"


class Ref:
    """A value that a line reads."""

    def __init__(self, name: str):
        self.name = name


class Number:
    """A number of a line, in the first repetition of its loops, and by how much it grows in each
    of them, the outermost first."""

    def __init__(self, text: str, inside: bool = False):
        self.text, self.strides, self.inside = text, [], inside     # inside: of a text in quotes

    def parts(self) -> list:
        return [int(self.text) if self.text.isdigit() else self.text, *self.strides]


class Line:
    """A line of the program: `pieces`, texts, numbers and values that it reads."""

    def __init__(self, text: str):
        named = re.match(r"(v\d+) = ", text)
        self.defines = [named[1]] if named else []
        self.pieces: list = []
        at = named.end() if named else 0
        for found in PIECE.finditer(text, at):
            self.pieces += [text[at:found.start()], *self._pieces(found)]
            at = found.end()
        self.pieces.append(text[at:])
        self.shape = self.key = tuple(
            type(one).__name__ if not isinstance(one, str) else one for one in self.pieces)
        self.lines, self.reads = [self], [one for one in self.pieces if isinstance(one, Ref)]
        self.inner = set(self.defines)

    @staticmethod
    def _pieces(found) -> list:
        text = found[0]
        if text[0] == "{":
            count = Number(str(text.count(",") + 1))
            return ["all(", count, f", {found[1]})"]
        if text[0] == "v":
            return [Ref(text)]
        if text[0] != '"' or "\\" in text:
            return [Number(text)] if text[0] != '"' else [text]
        return [Number(one, True) if one.isdigit() else one
                for one in re.split(r"(\d+)", text) if one]

    @property
    def numbers(self) -> list[Number]:
        return [one for one in self.pieces if isinstance(one, Number)]

    def fitted(self) -> list:
        """All that may go with the counts."""
        return [part for one in self.numbers for part in one.parts()]

    def write(self, numbers, depth: int) -> list[str]:
        """The line in Lua, with what the numbers are fitted by."""
        text = "".join(self.defines + [" = "] * bool(self.defines))
        for one in self.pieces:
            if isinstance(one, Number):
                value = _sum(numbers, len(one.strides))
                text += f'" .. ({value}) .. "' if one.inside and not value.isdigit() else value
            else:
                text += one.name if isinstance(one, Ref) else one
        return ["    " * depth + text.replace(' .. ""', "")]


def _sum(numbers, depth: int) -> str:
    """The next number, with what it grows by in each loop around it."""
    found = next(numbers)
    for level in range(depth):
        stride = next(numbers)
        if stride != "0":
            product = f"i{level}" if stride == "1" else f"{stride} * i{level}"
            found = product if found == "0" else f"{found} + {product}"
    return found


class Loop:
    """Repetitions of items. `carried`: {value of the repetition before: what it is in the first}"""

    def __init__(self, repetitions, carried: dict):
        first, second = repetitions[:2]
        self.body, self.count = first, len(repetitions)
        self.lines = [line for item in first for line in item.lines]
        for line, other in zip(self.lines, (line for item in second for line in item.lines)):
            for one, two in zip(line.numbers, other.numbers):
                a, b = one.parts()[0], two.parts()[0]
                one.strides.insert(0, 0 if a == b else b - a)
        self.carried = {name: Ref(start) for name, start in carried.items()}
        self.defines = [name for item in first for name in item.defines]
        self.inner = {name for one in repetitions for item in one for name in item.inner}
        self.reads = [one for item in first for one in item.reads
                      if one.name not in self.defines] + list(self.carried.values())
        self.key = ("loop", self.count, tuple((item.key, *_strides(item)) for item in first))
        self.shape = ("loop", tuple(item.shape for item in first))

    def fitted(self) -> list:
        return [self.count, *(part for item in self.body for part in item.fitted())]

    def write(self, numbers, depth: int) -> list[str]:
        count, pad = next(numbers), "    " * depth
        found = [f"{pad}{name} = {start.name}" for name, start in self.carried.items()]
        found.append(f"{pad}for i{depth} = 0, {count} - 1 do")
        for item in self.body:
            found += item.write(numbers, depth + 1)
        return [*found, f"{pad}end"]


def _strides(item) -> list:
    return [tuple(one.strides) for line in item.lines for one in line.numbers]


def _progression(columns) -> bool:
    """Whether numbers of the repetitions are equal, or whole and in arithmetic progression."""
    for values in columns:
        if len(set(values)) > 1 and (not all(isinstance(one, int) for one in values) or len(
                {b - a for a, b in zip(values, values[1:])}) > 1):
            return False
    return True


def _carried(repetitions) -> dict | None:
    """What a loop of these repetitions hands from one to the next; None where they are none."""
    places = [{name: (k, m) for k, item in enumerate(one) for m, name in enumerate(item.defines)}
              for one in repetitions]
    carried: dict[str, str] = {}
    for k, items in enumerate(zip(*repetitions)):
        if not _progression(zip(*([part.parts()[0] for line in item.lines for part in line.numbers]
                                  for item in items))):
            return None
        for refs in zip(*(item.reads for item in items)):
            kinds = [("own", mine[ref.name]) if ref.name in mine else
                     ("before", last[ref.name]) if ref.name in last else ("outside", ref.name)
                     for ref, mine, last in zip(refs, places, [{}, *places])]
            if len(set(kinds[1:])) > 1:
                return None
            kind, place = kinds[1]
            if kind == "before":
                name = repetitions[0][place[0]].defines[place[1]]
                if kinds[0][0] != "outside" or place[0] < k or \
                        carried.setdefault(name, refs[0].name) != refs[0].name:
                    return None
            elif kinds[0] != kinds[1]:
                return None
    return carried


def _fold_once(items: list) -> list | None:
    """The items with their first and smallest loop; None where there is none."""
    readers: dict[str, set] = {}
    for k, item in enumerate(items):
        for ref in item.reads:
            readers.setdefault(ref.name, set()).add(k)
    for period in range(1, len(items) // 2 + 1):
        for a in range(len(items) - 2 * period + 1):
            b = a + period
            while b + period <= len(items) and all(
                    items[b + k].key == items[a + k].key for k in range(period)):
                b += period
            while b > a + period:
                repetitions = [items[k:k + period] for k in range(a, b, period)]
                inside = set(range(a, b))
                alone = all(readers.get(name, inside) <= inside for one in repetitions[:-1]
                            for item in one for name in item.inner)
                carried = _carried(repetitions) if alone else None
                if carried is not None:
                    return _replaced(items, a, b, repetitions, carried)
                b -= period
    return None


def _replaced(items, a, b, repetitions, carried) -> list:
    """Items a to b as a loop, whose values have the names of the first repetition."""
    own = {name for item in repetitions[0] for name in item.defines}
    for mine, other in zip(repetitions[0], repetitions[1]):
        for one, two in zip(mine.reads, other.reads):
            if two.name in own:         # of the repetition before
                one.name = two.name
    names = {last: first for one, other in zip(repetitions[0], repetitions[-1])
             for first, last in zip(one.defines, other.defines)}
    for item in items[b:]:
        for ref in item.reads:
            ref.name = names.get(ref.name, ref.name)
    return [*items[:a], Loop(repetitions, carried), *items[b:]]


def _without_picks(lines) -> list[str]:
    """The lines with v[1] where a number is used, and not where it was first: another loop may use
    the same one, at its own repetition."""
    picks: dict[str, str] = {}
    found = []
    for line in lines:
        for name in set(re.findall(r"\bv\d+\b", line)) & picks.keys():
            line = re.sub(rf'\b{name}\b(?=[^"]*(?:"[^"]*"[^"]*)*$)', picks[name], line)
        pick = re.fullmatch(r"(v\d+) = (v\d+\[\d+\])", line)
        if pick:
            picks[pick[1]] = pick[2]
        else:
            found.append(line)
    return found


def _folded(text: str) -> list:
    items = [Line(line) for line in _without_picks(text.splitlines()[1:])]
    while (found := _fold_once(items)) is not None:
        items = found
    return items


# --- numbers that go with the counts --------------------------------------------------------------

def _polynomial(values, names, grid) -> str:
    """Whole numbers at the corners of a grid, of the first degree in each count."""
    terms = {(): Fraction(0)}           # {counts that are multiplied: by what}
    for chosen in itertools.product((0, 1), repeat=len(names)):
        # by Moebius' formula, what all of the chosen counts together add
        part = Fraction(sum((-1) ** (sum(chosen) - sum(some)) * values[some]
                            for some in itertools.product(*((0, 1)[:one + 1] for one in chosen))))
        product = {(): part}
        for name, one, (low, high) in zip(names, chosen, grid):
            if one:                     # times (count - low)/(high - low)
                product = {key: value for old, k in product.items() for key, value in (
                    ((*old, name), k / (high - low)), (old, -k * low / (high - low)))}
        for key, value in product.items():
            terms[key] = terms.get(key, Fraction(0)) + value
    below = math.lcm(*(value.denominator for value in terms.values()))
    words = []
    for key, value in terms.items():
        times = abs(value * below)
        if value:
            words.append("-" if value < 0 else "+")
            words.append(" * ".join([str(times)] * (times != 1 or not key) + list(key)))
    text = " ".join(words).removeprefix("+ ")
    return text if below == 1 else f"({text}) // {below}"


def _power(values, names, grid) -> str:
    """Real numbers at the corners of a grid, as a product of powers of the counts."""
    first = values[(0,) * len(names)]
    powers = {}
    for k, (name, (low, high)) in enumerate(zip(names, grid)):
        ratio = values[tuple(int(j == k) for j in range(len(names)))] / first if first else -1
        if ratio <= 0:
            raise Gap("numbers that are no powers of the counts")
        powers[name] = round(4 * math.log(ratio) / math.log(high / low)) / 4
    law = {corner: math.prod(pair[one] ** power for pair, one, power in zip(
        grid, corner, powers.values())) for corner in values}
    c = first / law[(0,) * len(names)]
    if any(abs(c * law[corner] - value) > 1e-12 * abs(value) for corner, value in values.items()):
        raise Gap("numbers that are no powers of the counts, such as starts that are drawn")
    return " * ".join([repr(c), *(f"{name} ^ {power}" for name, power in powers.items() if power)])


def _fit(values, names, grid) -> str:
    found = list(values.values())
    if all(one == found[0] for one in found):
        return str(found[0])
    whole = all(isinstance(one, int) for one in found)
    text = _polynomial(values, names, grid) if whole else _power(
        {corner: float(one) for corner, one in values.items()}, names, grid)
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def rolled(texts: dict, grid: dict, counts: dict) -> list[str]:
    """The lines of the text for all counts, with these as their defaults. grid: {count: two numbers
    of it}; texts: {(0 or 1 for each count, the first or the second number): program}."""
    folded = {corner: _folded(text) for corner, text in texts.items()}
    first, *others = folded.values()
    for other in others:
        if [item.shape for item in other] != [item.shape for item in first]:
            raise Gap("the lines for more of them are not those for few with more repetitions, as "
                      "where what all of them make is joined to a list, or starts are drawn")
    columns = {corner: [part for item in items for part in item.fitted()]
               for corner, items in folded.items()}
    names, pairs = list(grid), list(grid.values())
    numbers = iter([_fit(dict(zip(columns, row)), names, pairs) for row in zip(*columns.values())])
    keys = [f'key("{name}", {counts[name]})' for name in names]
    head = ["-- written by dmft.Network", f"local {', '.join(names)} = {', '.join(keys)}", ALL]
    whole = [f'if {name} < 1 or {name} % 1 ~= 0 then error("program.{name} must be a whole number '
             'from 1 on", 0) end' for name in names]
    lines = [line for item in first for line in item.write(numbers, 0)]
    return head[:2] + whole + head[2:] * any("all(" in line for line in lines) + lines
