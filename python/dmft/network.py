"""A network written in Python: a program of docs/programs.md, handed over as Lua text.

    net = dmft.Network()
    bottom, top = net.population("bottom"), net.population("top")
    x = net.tanh(net.read_in(bottom, "W1"))
    h = net.map(x, top, "W2", rate=0.5) + 0.1 * net.map(x, top, "W3")
    net.kernel(h, "Phi2")
    net.read_out(h, "w")
    run = dmft.solve("x.ini", network=net)

Operations go by their names in docs/programs.md, with the same arguments; options are keyword
arguments, those of a matrix too: net.map(x, p, "W", s_f=2). What they return stands for a value of
the program, which is computed when it runs: arithmetic on it is written down, a comparison or a
loop over it is not possible. Loops of Python are written out. s[0] is the first of some numbers.
"""
from __future__ import annotations

import atexit
import difflib
import math
import os
import re
import shutil
import sys
import tempfile
from functools import partialmethod

import numpy as np

from dmft.errors import InputError
from dmft.rows import WORDS as OPERATIONS

CONSTANTS = "N limit tokens vocabulary outputs gamma0".split()
FILE = "network.lua"  # by which the programs call it
MOST = 100000  # of what goes on a command line


class Value:
    """A value of the program, known when it runs."""
    __array_ufunc__ = None  # numpy leaves arithmetic to this class
    __hash__ = None

    def __init__(self, network: Network, text: str):
        self._network, self._text = network, text

    def _unknown(self, *_):
        raise TypeError(f"{self._text} is a value of the program, known when it runs: it cannot be "
                        "compared, counted or looped over here; take a Python number")

    __bool__ = __index__ = __int__ = __float__ = __len__ = __iter__ = _unknown
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown

    def __getitem__(self, place) -> Value:
        if isinstance(place, bool) or not isinstance(place, (int, np.integer)) or place < 0:
            raise TypeError(f"{self._text}[{place!r}]: a place is a number, 0 the first")
        return self._network._value(f"{self._text}[{place + 1}]")

    def _with(self, sign: str, other, swapped: bool = False) -> Value:
        if not isinstance(other, (Value, int, float, np.integer, np.floating)):
            return NotImplemented
        words = [self._text, self._network._lua(other)]
        return self._network._value(f" {sign} ".join(words[::-1] if swapped else words))

    __add__, __radd__ = partialmethod(_with, "+"), partialmethod(_with, "+", swapped=True)
    __sub__, __rsub__ = partialmethod(_with, "-"), partialmethod(_with, "-", swapped=True)
    __mul__, __rmul__ = partialmethod(_with, "*"), partialmethod(_with, "*", swapped=True)
    __truediv__, __rtruediv__ = partialmethod(_with, "/"), partialmethod(_with, "/", swapped=True)
    __pow__, __rpow__ = partialmethod(_with, "^"), partialmethod(_with, "^", swapped=True)

    def __neg__(self):
        return self._network._value(f"-{self._text}")

    def __repr__(self):
        return f"<{self._text} of a Network>"


class Population(Value):
    """Sites; `size`, `sites` and `group` are numbers of the program."""
    size = property(lambda self: Value(self._network, self._text + ".size"))
    sites = property(lambda self: Value(self._network, self._text + ".sites"))
    group = property(lambda self: Value(self._network, self._text + ".group"))


class Network:
    """A network written in Python; see the module's text. `lua` is the program so far.

    >>> net = Network()
    >>> x = net.read_in(net.population("bottom"), "W", rate=2)
    >>> f = net.read_out(x - 0.5 * net.tanh(x), "w")
    >>> print(net.lua, end="")
    -- written by dmft.Network
    v1 = population("bottom")
    v2 = read_in(v1, {name = "W", rate = 2})
    v3 = tanh(v2)
    v4 = 0.5 * v3
    v5 = v2 - v4
    v6 = read_out(v5, "w")
    """

    def __init__(self):
        self._lines, self._origins, self._count = ["-- written by dmft.Network"], [""], 0
        self._origin: str | None = None     # of what is written next, if no line of Python wrote it

    @property
    def lua(self) -> str:
        """The text of the program."""
        return "\n".join(self._lines) + "\n"

    def take(self, lines: list[str]) -> None:
        """Lines of Lua that were written elsewhere, in the place of those so far."""
        self._lines, self._origins = list(lines), [""] * len(lines)

    def __dir__(self):
        return [*super().__dir__(), *OPERATIONS, *CONSTANTS]

    def __getattr__(self, name: str):
        if name in CONSTANTS:
            return Value(self, name)
        if name in OPERATIONS:
            def operation(*given, **options):
                return self._call(name, given, options)
            arguments, gives, about = OPERATIONS[name]
            operation.__name__ = name
            operation.__doc__ = f"{name}({arguments}){f' -> {gives}' if gives else ''}: {about}"
            return operation
        near = difflib.get_close_matches(name, [*OPERATIONS, *CONSTANTS], 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else "docs/programs.md lists them"
        raise AttributeError(f"a network has no operation {name}; {hint}")

    def _call(self, name: str, given, options):
        arguments, gives, _ = OPERATIONS[name]
        given = list(given)
        last = given[-1] if given else None
        if options and arguments.endswith("W") and isinstance(last, str):
            given[-1] = {"name": last, **options}
        elif options and isinstance(last, dict):
            given[-1] = {**last, **options}
        elif options:
            given.append(options)
        text = f"{name}({', '.join(self._lua(one) for one in given)})"
        if not gives:
            return self._write(text)
        return self._value(text, Population if gives == "population" else Value)

    def _value(self, text: str, kind=Value) -> Value:
        # globals: Lua has at most 200 locals
        self._count += 1
        name = f"v{self._count}"
        self._write(f"{name} = {text}")
        return kind(self, name)

    def _write(self, line: str) -> None:
        frame = sys._getframe()
        while frame.f_back and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        self._lines.append(line)
        self._origins.append(self._origin if self._origin is not None else
                             f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")

    def _lua(self, value) -> str:
        """A value of Python as Lua has it."""
        if isinstance(value, Value):
            if value._network is not self:
                raise InputError(f"{value._text} belongs to another Network")
            return value._text
        if isinstance(value, (bool, np.bool_)):
            return "true" if value else "false"
        if isinstance(value, str):
            return '"%s"' % re.sub(r'[\x00-\x1f\x7f"\\#]', lambda c: f"\\{ord(c[0]):03d}", value)
        if isinstance(value, (int, np.integer, float, np.floating)):
            number = value.item() if isinstance(value, np.generic) else value
            if not math.isfinite(number):
                raise InputError(f"{number} is no number that a network can have")
            return f"({number!r})" if number < 0 else repr(number)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {self._lua(one)}" for key, one in value.items()) + "}"
        if isinstance(value, (list, tuple, np.ndarray)):
            return "{" + ", ".join(self._lua(one) for one in value) + "}"
        raise TypeError(f"{value!r} is nothing that a network can have: its values, numbers, text, "
                        "lists of them; a function is written function(\"u, s\", \"...\")")

    def function(self, arguments: str, value: str) -> Value:
        """A function in Lua, for operations that take one.

        >>> net.constant(p, net.function("u, s", "math.cos(s * 100 ^ -u)"))     # doctest: +SKIP
        """
        return Value(self, f"function({arguments}) return {value} end")

    def settings(self) -> dict[str, str]:
        """The keys that put this network in the place of the one of the settings. The text goes
        along on one line: a run depends on no file, and a sweep that is repeated goes on. One that
        is too long for a command line goes into a file that lasts as long as this process."""
        folded = self.lua.replace("\\", "\\\\").replace("\n", "\\n")
        if len(folded.encode()) > MOST:
            return {"network.model": "program", "network.program": self._file()}
        return {"network.model": "program", "network.program": FILE, "network.program_text": folded}

    def _file(self) -> str:
        """The path of a file with the text."""
        folder = tempfile.mkdtemp(prefix="dmft-network-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.lua)
        return path

    def place(self, sentence: str) -> str:
        """What the line that a sentence names says, and where in Python it was written; or "" """
        found = re.search(re.escape(FILE) + r":(\d+):", sentence)
        line = int(found[1]) - 1 if found else -1
        if not 0 <= line < len(self._lines):
            return ""
        origin = f", written at {self._origins[line]}" if self._origins[line] else ""
        return f"line {line + 1} of the generated text is {self._lines[line]}{origin}"
