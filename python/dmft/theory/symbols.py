r"""LaTeX of names and constants, and the letters that stand for an index in one equation."""
from __future__ import annotations

from dataclasses import dataclass

from dmft.theory.expression import Scale
from dmft.theory.names import GREEK
from dmft.theory.structure import Symbol

# Letters of an index that stands for several numbers; the second where the first is taken.
LETTERS = {"layer": ("l", "m"), "block": (r"\ell", r"\ell'"), "expert": ("i", "j"),
           "use": ("k", "k'")}
LEARNED = r"\mathcal{W}"


def word(text: str) -> str:
    """A word of a symbol."""
    if text.startswith("\\") or len(text) == 1:
        return text
    return "\\" + text if text in GREEK else rf"\mathrm{{{text}}}"


# Letters that LaTeX would not print, without braces, which end a text.
PRINTED = {"\\": r"\textbackslash ", "^": r"\textasciicircum ", "~": r"\textasciitilde ",
           **{letter: "\\" + letter for letter in "_%$#&{}"}}


def printed(text: str) -> str:
    """Any text, as LaTeX has it outside of formulas."""
    return "".join(PRINTED.get(letter, letter) for letter in text)


def label(text: str) -> str:
    r"""A name of the description or of a file, or what an author calls it.

    >>> label("a_1 {50%}")
    '\\texttt{a\\_1 \\{50\\%\\}}'
    """
    return rf"\texttt{{{printed(text)}}}"


def scale(one: Scale) -> str:
    """A constant: 2, 1/(kappa N_e), -1.

    >>> scale(Scale(4.0, 1.0, (("\\\\kappa", -1.0), ("N_e", 0.5))))
    '\\\\tfrac{\\\\sqrt{N_e}}{\\\\kappa}'
    """
    over, under = [], []
    for name, power in one.powers:
        size = abs(power)
        text = name if size == 1 else rf"\sqrt{{{name}}}" if size == 0.5 else \
            rf"{name}^{{{size:.4g}}}"
        (over if power > 0 else under).append(text)
    factor, sign = abs(one.factor), "-" if one.factor < 0 else ""
    whole = next((k for k in range(2, 65) if abs(factor * k - 1) < 1e-9), None)
    if whole:
        under.insert(0, str(whole))
    elif factor != 1:
        digits = f"{factor:.5g}"
        over.insert(0, digits if "e" not in digits else
                    digits.replace("e", r"\cdot10^{") + "}")
    top = r"\,".join(over) or "1"
    return sign + (rf"\tfrac{{{top}}}{{{' '.join(under)}}}" if under else top)


@dataclass(frozen=True)
class Context:
    """How names are written in one equation: indices that a letter stands for, and the index of
    the column of numbers, where an equation is of one."""
    letters: tuple = ()                 # ((kind, number, letter), ...)
    column: str = ""
    time: str = ""
    tokens: str = ""

    def index(self, kind: str, value) -> str:
        for known, number, letter in self.letters:
            if known == kind and isinstance(value, int):
                if value == number:
                    return letter
                if abs(value - number) == 1:
                    return f"{letter}{value - number:+d}"
        return str(value)


def learned_symbol(matrix: Symbol) -> Symbol:
    """The symbol of what a matrix has learned entry by entry."""
    words = matrix.words if matrix.base == "W" else (matrix.base, *matrix.words)
    return Symbol(LEARNED, words, matrix.indices)
