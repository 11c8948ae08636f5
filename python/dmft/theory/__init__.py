"""The mean-field theory of a network, as data and as equations.

    e = dmft.equations("x.ini")
    e                                   # in a notebook: the equations
    e.write("x.tex")                    # or x.pdf, with pdflatex; x.md
    e.theory.quantities                 # what is typeset: dmft.theory.structure
"""
from __future__ import annotations

import os
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
        ran = subprocess.run([program, "-interaction=batchmode", "-halt-on-error",
                              "equations.tex"], cwd=folder, stdout=subprocess.DEVNULL, check=False)
        if ran.returncode:
            raise InputError(f"{path}: pdflatex does not take the document; write "
                             f"{path[:-4]}.tex and see what it says")
        try:
            shutil.copyfile(os.path.join(folder, "equations.pdf"), path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None


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
