"""The mean-field theory of a network, as data and as equations.

    e = dmft.equations("x.ini")
    e                                   # in a notebook: the equations
    e.write("x.tex")                    # or x.pdf, with pdflatex; x.md
    e.theory.quantities                 # what is typeset: dmft.theory.structure
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile

from dmft.errors import InputError
from dmft.files import Result
from dmft.theory.derive import derive
from dmft.theory.page import Page
from dmft.theory.structure import Theory

__all__ = ["Equations", "equations", "derive", "Theory"]


class Equations:
    """The mean-field theory of a network: `theory` (dmft.theory.structure), and as text."""

    def __init__(self, theory: Theory):
        self.theory, self._page = theory, Page(theory)

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

    def write(self, path) -> None:
        """Writes x.tex, x.md, or x.pdf, which needs pdflatex."""
        path = os.fspath(path)
        kind = os.path.splitext(path)[1]
        if kind not in (".tex", ".md", ".pdf"):
            raise InputError(f"{path}: equations are written as .tex, .md or .pdf")
        if kind == ".pdf":
            _pdf(self.latex(), path)
            return
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.latex() if kind == ".tex" else self.markdown())
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None


def _pdf(text: str, path: str) -> None:
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
        try:
            shutil.copyfile(os.path.join(folder, "equations.pdf"), path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None


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
    from dmft.run import describe       # which imports what stands above this package

    if isinstance(config, Result) and network is None and not more:
        described = describe(config)
        config = config.parameters["ini"]
    else:
        described = describe(config, network=network, **more)
    if described.limit is None:
        raise InputError(f"this network has no limit: {described.no_limit}")
    _refuse_commands(described.limit)
    _rename(described.limit, symbols or {})

    def again(key: str, value: float):
        """The description at another value of one key."""
        text = int(value) if float(value).is_integer() else value
        keys = {**more, key: text}
        try:                            # networks may be too narrow for it, and are not read
            return describe(config, network=network, **keys | {"reference.widths": ""})
        except InputError:              # the ini may need a width
            return describe(config, network=network, **keys)
    return Equations(derive(described, again))
