"""Pictures of what the programs computed.

    dmft-plot FILE.h5 ... [-o OUT.png] [--what loss|kernels|exponents|gates|fields|convergence|
              experts|attention|tangent|singular|coordinate|sweep|all] [--times T ...]
              [--kernels NAME ...] [--x active_parameters]
    dmft-plot --html OUT.html FILE.h5 ...

or python -m dmft.plot. With --what all (the default) every picture that the file has data for is
written: OUT.png is a stem, and they are OUT_loss.png, OUT_kernels.png and so on. Of a file of dmft-
compare there is one of each for every parameterization, OUT_mup_loss.png, those of all on one axis,
OUT_loss.png, and the coordinate check; of a sweep (or the folder OUT.d of one that is not complete)
its losses and optima. Of several files: loss and kernels, or losses of sweeps, on one axis. --html
writes one page with sliders instead (dmft.plot.page), of runs, comparisons or sweeps. The exit code
is 2 where something asked for by name is not there, or a file is damaged, and 1 where the disk
takes no picture, which one sentence says.
"""
from __future__ import annotations

import contextlib
import errno
import os
import sys

import matplotlib.pyplot as plt

from dmft.command import Parser, finish
from dmft.errors import DmftError, InputError, SystemFailure
from dmft.files import load
from dmft.plot import figures, page, sweeps, together
from dmft.plot.select import ensembles
from dmft.plot.style import STYLE, Missing, NotThere

CHOICES = [*figures.FIGURES, "coordinate", "sweep", "all"]


def of_one(run) -> list[tuple]:
    """[(prefix, what, what is drawn, function)] of a file."""
    if "sweep" in run:
        return [("", "sweep", run, sweeps.figure)]
    sides = run.sides
    found = [(side, what, part, function) for side, part in (sides or {"": run}).items()
             for what, function in figures.FIGURES.items()]
    if len(sides) > 1:
        found += [("", what, list(sides.values()), function)
                  for what, function in together.FIGURES.items()]
    if sides:
        found.append(("", "coordinate", sides, figures.figure_coordinate))
    for part in (sides or {"": run}).values():
        ensembles(part)
    return found


def of_several(runs) -> list[tuple]:
    """The same, of several files."""
    grids = ["sweep" in run for run in runs]
    if any(grids) and not all(grids):
        raise Missing("sweeps and single runs have no axis in common")
    if all(grids):
        return [("", "sweep", runs, sweeps.figure_together)]
    parts = [part for run in runs for part in (run.sides.values() or [run])]
    for part in parts:
        ensembles(part)
    return [("", what, parts, function) for what, function in together.FIGURES.items()]


@contextlib.contextmanager
def _written(out: str):
    """What the system says against a file becomes a sentence with its name."""
    try:
        yield
    except OSError as error:
        named = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
        raise (InputError if named else SystemFailure)(
            f"cannot write {out}: {error.strerror or error}") from None


def draw(pictures, options, stem: str, suffix: str, complain) -> bool:
    """Writes them; whether some were drawn and nothing asked for by name is missing. What is not
    asked for by name, and has no data, is left out; why, is said where nothing is drawn."""
    drawn, good, why = 0, True, []
    for side, what, part, function in pictures:
        words = [stem] + [side] * (side != "") + [what] * (options.what == "all")
        out = "_".join(words) + (suffix or ".png")
        try:
            with plt.rc_context(STYLE):
                figure = function(part, options)
                with _written(out):
                    figure.savefig(out)
            print(out)
            drawn += 1
        except Missing as missing:
            why.append(f"no {what}{' of ' + side if side else ''}: {missing}")
            if options.what != "all" or isinstance(missing, NotThere):
                complain(why.pop())
                good = False
        finally:
            plt.close("all")
    if good and not drawn:
        complain("; ".join(why))
    return good and drawn > 0


def main(arguments=None) -> int:
    """The command; returns its exit code."""
    parser = Parser("dmft-plot", description="Pictures of runs, comparisons and sweeps; of several "
                    "files, on one axis.")
    parser.add_argument("file", nargs="+",
                        help="OUT.h5, also .partial; the folder OUT.d of a sweep")
    parser.add_argument("-o", metavar="OUT.png", help="a stem, to which the names of pictures are "
                        "added, as in OUT_loss.png; OUT.png itself where --what names a single one "
                        "(default: FILE.png in the current folder)")
    parser.add_argument("--what", choices=CHOICES, default="all",
                        help="all: OUT_loss.png, OUT_kernels.png, ... as far as there are data")
    parser.add_argument("--times", type=int, nargs="+", metavar="T", help="of heat maps "
                        "(two; attention, tangent: any) and of convergence")
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--x", metavar="SIZE", help="of a sweep: the objective against parameters, "
                        "active_parameters, flops_per_token or flops_per_step of its networks")
    parser.add_argument("--html", metavar="OUT.html", help="one page instead, which needs no "
                        "network, with sliders over time, width and what a sweep varies")
    options = parser.parse_args(arguments)
    return finish("dmft-plot", lambda: _work(options))


def _work(options) -> int:
    """What the options ask for; returns the exit code."""
    names = [os.path.basename(os.path.normpath(file)).split(".h5")[0].removesuffix(".d")
             for file in options.file]
    stem, suffix = os.path.splitext(options.o) if options.o else ("_".join(names), "")
    plt.switch_backend("Agg")

    def complain(sentence):
        sentence = str(sentence)
        first = "" if any(sentence.startswith(file + ":") for file in options.file) else \
            ", ".join(options.file) + ": "
        print(f"dmft-plot: {first}{sentence}", file=sys.stderr)

    try:
        runs = [load(file) for file in options.file]
        if options.html:
            if options.o or options.what != "all" or options.x or options.times or options.kernels:
                raise Missing("--html takes files alone, and no -o, --what, --times, --kernels or "
                              "--x")
            if not options.html.endswith((".html", ".htm")):
                raise Missing(f"--html {options.html}: a page is written into a file that ends in "
                              ".html; first the page, then the files")
            words = page.text(runs, ", ".join(names))
            with _written(options.html), open(options.html, "w", encoding="utf-8") as out:
                out.write(words)
            print(options.html)
            return 0
        if options.x and (len(runs) > 1 or "sweep" not in runs[0]):
            raise Missing("--x is of a single sweep; a run has one network of each width")
        pictures = of_one(runs[0]) if len(runs) == 1 else of_several(runs)
        if options.what != "all":
            there = list(dict.fromkeys(what for _, what, _, _ in pictures))
            pictures = [picture for picture in pictures if picture[1] == options.what]
            if options.what == "coordinate" and not pictures:
                figures.figure_coordinate({}, options)  # says why
            if not pictures:
                raise Missing(f"no {options.what}; there is {' '.join(there)}")
        return 0 if draw(pictures, options, stem, suffix, complain) else 2
    except (Missing, DmftError, OSError, ValueError) as error:
        complain(error)
        return getattr(error, "code", 2)
    except (LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError) as error:
        what = " ".join(str(error.args[0] if error.args else "").split())
        complain(f"is damaged, or not as this version writes it ({type(error).__name__}: {what})")
    return 2
