"""The [sweep] section of an ini: the keys that a sweep varies, and their values.

Each line is one axis of the grid; its points are the Cartesian product, the last line varies
fastest. A line is

    section.key = VALUES               one key
    section.key, section.key = POINTS  a list of points: keys that vary together

VALUES is logspace(first, last, n) or linspace(first, last, n), both ends included and numbers
rounded to six digits (whole numbers are left as they are), or a list separated by blanks, or by |
where values have blanks themselves. POINTS are separated by |; each has one value for every key,
separated by blanks or, with a comma anywhere in POINTS, by commas:

    training.eta0, network.q0 = 0.1 1 | 0.2 2 | 0.4 4
    output.fields_at, training.eta0 = 0 1, 0.1 | 2 4, 0.2

A word --sweep.section.key=VALUES of the command line takes the place of the line of the same keys,
or is one more line behind all of them. Numbers of a single key increase or decrease; points come in
any order, each once. Three lines more say what is done with the runs: objective (objective.py),
along (optima.py) and columns (marks.py).
"""
from __future__ import annotations

import dataclasses
import functools
import math
import os
import re
import stat

from dmft.errors import InputError, SystemFailure
from dmft.study import text
from dmft.study.text import clip

LINES, VALUES, POINTS = 30, 10000, 100000  # an array of HDF5 has at most 32 axes
# What a factor of a matrix may be a power of (solver/settings/factor.c).
POWER = re.compile(r"(N|rho|kappa|iota|L|N_e|P|D)(?![^\^ \t])")
SETTINGS = ("objective", "along", "columns")


@dataclasses.dataclass
class Key:
    """A key, its values as they stand in an ini, and as numbers where all are."""
    name: str
    text: list[str] = dataclasses.field(default_factory=list)
    value: list[float] | None = None

    @functools.cached_property
    def width(self) -> int:
        """Letters of the longest of its name and its values, once it has all of them."""
        return max(map(len, [self.name, *self.text]))


@dataclasses.dataclass
class Axis:
    """One line: keys that vary together, at `count` points; line 0 is of the command line."""
    name: str
    line: int
    keys: list[Key] = dataclasses.field(default_factory=list)
    count: int = 0

    def has_blanks(self, i: int | None = None) -> bool:
        """Whether a value, of point i or of any, has blanks: commas separate it from others."""
        return any(" " in one or "\t" in one for key in self.keys
                   for one in (key.text if i is None else key.text[i:i + 1]))

    def point(self, i: int) -> str:
        """The values of point i: "0.1 1", or "0 1, 0.1" where a value has blanks."""
        return (", " if self.has_blanks(i) else " ").join(key.text[i] for key in self.keys)


def _open(path: str) -> bytes:
    """The bytes of a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        kind = InputError if isinstance(error, (FileNotFoundError, PermissionError,
                                                NotADirectoryError)) else SystemFailure
        raise kind(f"{path}: cannot be opened: {error.strerror}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise InputError(f"{path}: is " + (
            "a folder, not a file" if stat.S_ISDIR(mode) else
            "not a regular file; what comes from a pipe is written to a file first"))
    with open(descriptor, "rb") as file:
        try:
            return file.read()
        except OSError as error:
            raise SystemFailure(f"{path}: cannot be read: {error.strerror}") from None


def is_of_sweep(word: str) -> str | None:
    """What follows the section of a word [--]sweep.key=value; None: it is of another section.

    >>> is_of_sweep("--sweep . a.x = 1"), is_of_sweep("--training.eta0=1")
    ('a.x = 1', None)
    """
    found = re.match(r"(?:--)?[ \t]*sweep[ \t]*\.[ \t]*", word)
    return word[found.end():] if found else None


class Grid:
    """The axes of an ini, and `rest`, what it says without [sweep], other lines where they were.
    InputError: what is wrong in [sweep]; the rest is not looked at."""

    def __init__(self, file: str, words=(), content: str | None = None):
        self.file, self.axes, self.points, self.rest = file, [], 1, ""
        self.settings: dict[str, str] = {}
        given = self._given(words)
        self._split(_open(file).decode("utf-8", "surrogateescape")
                    if content is None else content, given)

    # ---- what others ask ----

    @property
    def keys(self) -> list[tuple[Key, int]]:
        """The keys of all axes, first to last, and which axis has them."""
        return [(key, a) for a, axis in enumerate(self.axes) for key in axis.keys]

    def index(self, point: int, axis: int) -> int:
        """Which value of an axis a point has."""
        for other in self.axes[:axis:-1]:
            point //= other.count
        return point % self.axes[axis].count

    def values(self, point: int) -> list[tuple[str, str]]:
        """Each key and its text at a point."""
        return [(key.name, key.text[self.index(point, a)]) for key, a in self.keys]

    # ---- lines ----

    @staticmethod
    def _given(words) -> dict[str, list]:
        """{keys: [name, values, whether it has replaced a line]} of the command line; the last
        word of the same keys counts."""
        given: dict[str, list] = {}
        for word in words:
            line = is_of_sweep(word)
            if line is None:
                continue
            if text.find_bad(line):
                raise InputError("--sweep: a control character or not UTF-8")
            name, _, values = line.partition("=")
            given[text.key_in(name)] = [name.strip(text.BLANKS), values.strip(text.BLANKS), False]
        return given

    def _split(self, content: str, given) -> None:
        """Takes the lines of [sweep] out; a section line ends it."""
        if content.startswith("\udc89HDF\r\n\x1a\n"):
            raise InputError(f"{self.file}: is an HDF5 file, not an ini; the same command as "
                             "before goes on with a sweep, and the ini that made it is the "
                             "attribute `ini` of its group /parameters")
        inside = found = False
        rest = []
        for number, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", content), 1):
            if "\0" in line:
                raise InputError(f"{self.file}:{number}: not a text file (byte 0x00)")
            start = line.removeprefix("\ufeff") if number == 1 else line
            if start.lstrip(" \t").startswith("["):
                head = re.match(r"[ \t]*\[[ \t]*sweep[ \t]*\]", start)
                inside = bool(head) and text.ends(start[head.end():])
                found = found or inside
                rest.append("\n" if inside else line)
            elif inside:
                rest.append("\n")
                self._take_line(line, number, given)
            else:
                rest.append(line)
        self.rest = "".join(rest)
        for name, values, taken in given.values():
            if not taken:
                self._take_values(name, values, 0)
        if not self.axes:
            raise InputError(f"{self.file}: "
                             + ("[sweep] has no keys" if found else "there is no section [sweep]") +
                             ", and there is no --sweep.section.key=VALUES; a single run is made "
                             "by dmft-solve")

    def _take_line(self, line: str, number: int, given) -> None:
        line = line.strip(text.BLANKS)
        if not line or line[0] in "#;":
            return
        if text.find_bad(line):
            raise InputError(f"{self.file}:{number}: a control character or not UTF-8")
        name, sign, behind = line.partition("=")
        if not sign:
            raise InputError(f"{self.file}:{number}: [sweep] \"{clip(line)}\" has no \"=\"")
        values = text.value_of(behind)
        if values is None:
            raise InputError(f"{self.file}:{number}: [sweep] a quote without its end")
        over = given.get(text.key_in(name))
        if over and not over[2]:
            over[2] = True
            self._take_values(over[0], over[1], 0)
        else:
            self._take_values(name.strip(text.BLANKS), values, number)

    def _take_values(self, name: str, values: str, line: int) -> None:
        if name not in SETTINGS:
            self._add_axis(name, values, line)
        elif name in self.settings or not values:
            raise self._wrong(Axis(name, line), "is given twice" if values else "has no value")
        else:
            self.settings[name] = values

    def _wrong(self, axis: Axis, sentence: str) -> InputError:
        if not axis.line:
            return InputError(f"--sweep.{clip(axis.name)}: {sentence}")
        return InputError(f"{self.file}:{axis.line}: [sweep] {clip(axis.name)}: {sentence}")

    def _add_axis(self, keys: str, values: str, line: int) -> None:
        axis = Axis(re.sub("[ \t]", "", keys), line)
        self.axes.append(axis)
        if len(self.axes) > LINES:
            raise self._wrong(axis, f"a sweep has at most {LINES} lines; keys that vary together "
                              "can share one, and a key with one value belongs to its own section")
        for name in keys.split(","):
            self._add_key(axis, name.strip(text.BLANKS))
        self._read_values(axis, values)
        if self.points > POINTS // axis.count:
            raise self._wrong(axis, f"more than {POINTS} points in all; try fewer values")
        self.points *= axis.count

    def _add_key(self, axis: Axis, name: str) -> None:
        written = "keys that vary together are written section.key, section.key"
        if not name:
            raise self._wrong(axis, f"a key is missing; {written}")
        if " " in name or "\t" in name:
            raise self._wrong(axis, f"a key has no blanks, as \"{clip(name)}\" has; {written}")
        if "." not in name:
            raise self._wrong(axis, f"\"{clip(name)}\" is not a key to vary, which is written "
                              "section.key")
        if name in ("reference.widths", "solver.replicates"):
            raise self._wrong(axis, "every sweep runs the limit and each of the [reference] "
                              f"widths, it cannot vary {name}")
        if name == "output.checkpoint":
            raise self._wrong(axis, f"{name} says how often states are kept and changes no number, "
                              "so that all its values are one run; it belongs to [output]")
        for key, a in self.keys:
            if key.name == name:
                other = self.axes[a]
                place = f"in this line, {other.line}" if other is axis and axis.line else \
                    "in this word" if other is axis else \
                    f"in line {other.line}" if other.line else "on the command line"
                raise self._wrong(axis, f"duplicate key {clip(name)}, given before {place}; each "
                                  "is given once")
        axis.keys.append(Key(name))

    # ---- values ----

    def _read_values(self, axis: Axis, values: str) -> None:
        if len(axis.keys) == 1 and re.match("logspace|linspace", values):
            self._add_space(axis, values)
        else:
            self._add_list(axis, values)
        for key in axis.keys:
            numbers = [text.number_of(one) for one in key.text]
            key.value = numbers if None not in numbers else None
        self._check_points(axis)

    def _add_point(self, axis: Axis, values: list[str]) -> None:
        if axis.count == VALUES:
            raise self._wrong(axis, f"more than {VALUES} values; try fewer")
        axis.count += 1
        for key, one in zip(axis.keys, values):
            if len(axis.keys) > 1 and not one:
                raise self._wrong(axis, f"point {axis.count} has no value for {key.name}; each has "
                                  f"one value for each of the {len(axis.keys)} keys")
            if len(axis.keys) > 1 and re.match("logspace|linspace", one):
                raise self._wrong(axis, f"{one[:8]}(first, last, n) makes values of one key; "
                                  "several keys in one line need their points, each with "
                                  f"{len(axis.keys)} values, separated by |")
            key.text.append(one)

    def _add_space(self, axis: Axis, values: str) -> None:
        kind = values[:8]
        found = re.fullmatch(r"\s*\(\s*([^\s,()]+)\s*,\s*([^\s,()]+)\s*,\s*([^\s,()]+)\s*\)\s*",
                             values[8:])
        try:
            first, last, count = map(float, found.groups())
        except (AttributeError, ValueError):
            raise self._wrong(axis, f"must be {kind}(first, last, n)") from None
        if not (math.isfinite(first) and first < last < math.inf and
                2 <= count <= VALUES and count == math.floor(count)):
            raise self._wrong(axis, f"{kind}(first, last, n) needs first < last and 2 to {VALUES} "
                              "values")
        if kind == "logspace" and first <= 0:
            raise self._wrong(axis, "logspace(first, last, n) goes from the value first to the "
                              "value last, which must be positive")
        n = int(count)
        for i in range(n):
            share = i / (n - 1)
            value = last if i == n - 1 else \
                first * math.pow(last / first, share) if kind == "logspace" else \
                first + (last - first) * share
            self._add_point(axis, [_short(value)])

    def _add_list(self, axis: Axis, values: str) -> None:
        several = len(axis.keys) > 1
        bars, commas = several or "|" in values, several and "," in values
        if not values:
            raise self._wrong(axis, "no points; they are separated by |, each with one value for "
                              "each key" if several else "no values; they are a list, "
                              "logspace(first, last, n) or linspace(first, last, n)")
        if not commas and (not bars or several) and self._cuts_power(values):
            raise self._wrong(axis, "blanks separate values here, and would cut a factor from its "
                              "power; write it without blanks, as 3N^-0.5, or " +
                              ("commas between the values of a point" if bars else
                               "| between values"))
        points = [point.strip(text.BLANKS) for point in values.split("|")] if bars else \
            re.split("[ \t]+", values.strip(" \t"))
        for number, point in enumerate(points, 1):
            if not several:
                if not point:
                    raise self._wrong(axis, f"value {number} is empty; | stands between values, "
                                      "and the word none is an empty list")
                self._add_point(axis, [point])
                continue
            if not point:
                raise self._wrong(axis, f"point {number} is empty; | stands between points, and "
                                  f"each has one value for each of the {len(axis.keys)} keys")
            cut = [part.strip(text.BLANKS) for part in point.split(",")] if commas else \
                re.split("[ \t]+", point.strip(" \t"))
            self._add_point(axis, cut)
            if len(cut) != len(axis.keys):
                raise self._wrong(
                    axis, f"point {number}, \"{clip(point)}\", has {len(cut)} value"
                    f"{'' if len(cut) == 1 else 's'}, and it must have one for each of the "
                    f"{len(axis.keys)} keys; " +
                    ("commas" if commas else "blanks (or, for values with blanks, commas)") +
                    " separate values, | points")

    def _cuts_power(self, values: str) -> bool:
        """Whether blanks, which separate values here, would cut a factor with a power, as in
        3 N^-0.5 or N ^ 2, in two."""
        words = list(re.finditer("[^ \t]+", values))
        if any(word[0][0] == "^" or word[0][-1] == "^" for word in words):
            return True
        behind = [values[word.start():] for before, word in zip(words, words[1:])
                  if text.number_of(before[0]) is not None and text.number_of(word[0]) is None]
        return any(POWER.match(one) for one in behind)

    def _check_points(self, axis: Axis) -> None:
        """Numbers of a single key must increase, or decrease; all else must differ."""
        key = axis.keys[0]
        if len(axis.keys) == 1 and key.value:
            places = [_place(key, i) for i in range(axis.count)]
            for i in range(1, axis.count):
                if places[i] == places[i - 1] or \
                        (places[i] > places[i - 1]) != (places[1] > places[0]):
                    raise self._wrong(axis, "values must increase or decrease, each once, but "
                                      f"{key.text[i]} follows {key.text[i - 1]}")
            return
        seen = set()
        for i in range(axis.count):
            point = tuple(_place(one, i) if one.value else one.text[i] for one in axis.keys)
            if point in seen:
                raise self._wrong(axis, f"{'point' if len(axis.keys) > 1 else 'value'} "
                                  f"\"{clip(axis.point(i))}\" comes twice; each is given once")
            seen.add(point)


def _place(key: Key, i: int):
    """What value i of a key of numbers is compared by; whole numbers beyond those of a double, as
    seeds may be, are compared as such."""
    one = key.text[i]
    return int(one) if re.fullmatch("[0-9]+", one) else key.value[i]


def _short(value: float) -> str:
    """Six digits, and whole numbers without an exponent, which keys of integers would not take.

    >>> _short(1 / 3), _short(1e6), _short(1234567.0), _short(2.5e-7)
    ('0.333333', '1000000', '1234567', '2.5e-07')
    """
    short = f"{value:.6g}"
    rounded = value if value == math.floor(value) else float(short)
    return f"{rounded:.0f}" if rounded == math.floor(rounded) and abs(rounded) < 1e15 else short
