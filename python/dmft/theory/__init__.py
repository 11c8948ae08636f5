"""The mean-field theory of a network, as data and as equations.

    e = dmft.equations("x.ini")
    e                                   # in a notebook: the equations
    e.write("x.tex")                    # or x.pdf, with pdflatex; x.md
    e.theory.quantities                 # what is typeset: dmft.theory.structure
"""
from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable

from dmft.errors import InputError
from dmft.files import Result
from dmft.study import place
from dmft.theory import many
from dmft.theory.derive import derive
from dmft.theory.page import Page
from dmft.theory.structure import Theory

__all__ = ["Equations", "equations", "derive", "Theory"]


class Equations:
    """The mean-field theory of a network: `theory` (dmft.theory.structure), and as text, which of
    many experts or blocks takes a few of them, while their theory is derived where it is asked
    for."""

    def __init__(self, derived: Callable[[], Theory], page: many.Page | None = None):
        self._derived = derived
        self._page = page or Page(self.theory)

    @functools.cached_property
    def theory(self) -> Theory:
        """All quantities of the network."""
        return self._derived()

    def latex(self) -> str:
        """A LaTeX document."""
        return self._page.document()

    def markdown(self) -> str:
        """Markdown, with formulas between dollars."""
        return self._page.markdown()

    def _repr_markdown_(self) -> str:
        return self._page.markdown()

    def _repr_latex_(self) -> str:
        return self._page.body()

    def write(self, path, force: bool = False) -> None:
        """Writes x.tex, x.md, or x.pdf (by pdflatex), with force over a file that is there."""
        path = os.fspath(path)
        kind = os.path.splitext(path)[1]
        if kind not in (".tex", ".md", ".pdf"):
            raise InputError(f"{path}: equations are written as .tex, .md or .pdf")
        place.check(path, force, "give force=True")
        place.save(path, _pdf(self.latex(), path) if kind == ".pdf" else
                   (self.latex() if kind == ".tex" else self.markdown()).encode())


def _pdf(text: str, path: str) -> bytes:
    program = shutil.which("pdflatex")
    if program is None:
        raise InputError(f"{path}: there is no pdflatex here; write {path[:-4]}.tex or "
                         f"{path[:-4]}.md instead")
    with tempfile.TemporaryDirectory(prefix="dmft-") as folder:
        with open(os.path.join(folder, "equations.tex"), "w", encoding="utf-8") as file:
            file.write(text)
        paranoid = {"openin_any": "p", "openout_any": "p", "shell_escape": "f"}
        ran = subprocess.run([program, "-no-shell-escape", "-interaction=batchmode",
                              "-halt-on-error", "equations.tex"], cwd=folder, check=False,
                             stdout=subprocess.DEVNULL, env=os.environ | paranoid)
        if ran.returncode:
            raise InputError(f"{path}: pdflatex does not take the document; write "
                             f"{path[:-4]}.tex and see what it says")
        with open(os.path.join(folder, "equations.pdf"), "rb") as file:
            return file.read()


# What a symbol of a stranger's program may have: letters, accents, fonts, indices. TeX that reads
# or writes files, or makes commands, is none of it.
SYMBOLS = frozenset(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    "varepsilon vartheta varpi varrho varsigma varphi ell hbar imath jmath aleph Re Im wp nabla "
    "partial infty prime star ast dagger ddagger top bot perp circ bullet cdot cdots ldots dots "
    "times otimes oplus odot pm mp sum prod int langle rangle lVert rVert Vert vert mid parallel "
    "hat tilde bar dot ddot vec check breve acute grave mathring widehat widetilde overline "
    "underline overbrace underbrace mathrm mathbf mathit mathsf mathtt mathcal mathbb mathfrak "
    "mathscr boldsymbol text textrm operatorname frac tfrac sqrt left right big Big to in le ge "
    "leq geq ne neq approx sim simeq propto quad rm bf it cal , ; ! : { } | _".split()) | {" "}


def _refuse_commands(limit) -> None:
    """InputError where a symbol that a program brings along is more than a symbol."""
    for op in limit.operations:
        for command in re.findall(r"\\([A-Za-z@]+|.|$)|(?:\^\^|[%#&$~])", op.tex or "", re.S):
            if command not in SYMBOLS:
                raise InputError(f"the symbol of rows {op.name}, {op.tex!r}, has something that is "
                                 "not of a symbol: Greek letters, accents, fonts and indices are")


def _rename(limit, symbols: dict[str, str]) -> None:
    names = {op.name for op in limit.operations if op.name}
    for name, tex in symbols.items():
        if name not in names:
            raise InputError(f"symbols: this network has no rows {name}; there are "
                             + " ".join(sorted(names)))
        for op in limit.operations:
            if op.name == name:
                op.tex = tex


def equations(config, *, network=None, symbols: dict[str, str] | None = None, **more) -> Equations:
    """The mean-field theory of the network of an ini: fields, responses, learned parts, kernels,
    cotangents. Arguments as those of dmft.describe; nothing is computed.

    symbols: {name of rows: its symbol in TeX}, over those that the network gives by itself.

    >>> dmft.equations("x.ini").write("x.tex")                              # doctest: +SKIP
    >>> dmft.equations("x.ini", symbols={"h_in": r"z"})                     # doctest: +SKIP
    """
    from dmft.run import describe, settings_of      # which import what stands above this package

    whole = None
    if isinstance(config, Result) and network is None and not more:
        whole, config = describe(config), config.parameters["ini"]
        if whole.limit and not any(one.adjoint for one in whole.limit.operations):
            whole = None                # an older file does not say how cotangents are made
    said = settings_of(config, network=network, **more)
    page = _of_few(many.fewer(said), config, network, symbols or {}, more, said)
    return Equations(lambda: _theory(config, network, symbols or {}, more, whole), page)


def _of_few(few: many.Few, config, network, symbols, more, said) -> many.Page | None:
    """The page of many experts or blocks, from those of few; None: these do not show it."""
    from dmft.run import describe
    if not few.sizes:
        return None
    settings = [more | few.settings(sample) for sample in few.samples]
    try:
        theories = [_theory(config, network, symbols, one) for one in settings]
        for theory in theories:
            theory.values |= {r"\rho": float(said["network.rho"])} if few.chosen else {}
        page = many.Page([Page(theory) for theory in theories], few)
    except (InputError, ValueError):    # of all of them the sentence may be another one
        return None
    if any(key.startswith("program.") for key in few.sizes):
        if not many.alike(*(describe(config, network=network, **one | {"reference.widths": ""})
                            for one in (settings[0], more))):
            return None
    return page


def _theory(config, network, symbols: dict[str, str], more: dict, whole=None) -> Theory:
    """The theory of an ini, or of its description."""
    from dmft.run import describe

    def limit_of(keys: dict):
        try:                            # networks may be too narrow for it, and are not read
            return describe(config, network=network, **keys | {"reference.widths": ""})
        except InputError:              # the ini may need a width
            return describe(config, network=network, **keys)
    described = whole or limit_of(more)
    if described.limit is None:
        raise InputError(f"this network has no limit: {described.no_limit}")
    _refuse_commands(described.limit)
    _rename(described.limit, symbols)

    def again(key: str, value: float):
        """The description at another value of one key."""
        text = int(value) if float(value).is_integer() else value
        return limit_of({**more, key: text})
    return derive(described, again)
