"""dmft-diff OLD.h5 NEW.h5 [--exact | --rtol R | --sigma K] [--only NAMES] [--ignore NAMES]

or python -m dmft diff. Which settings of two results differ, and which arrays by how much
(dmft.diff). Exit codes: 0 equal, 1 different, 2 bad input.
"""
from __future__ import annotations

import sys

from dmft.command import Parser, finish
from dmft.diff import diff
from dmft.errors import InputError


def _sigma(text: str):
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"--sigma {text}: must be a number above 0, or auto") from None


def main(arguments=None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "dmft-diff", description="Which settings and which arrays of two "
        "results of one kind (runs, comparisons, sweeps) differ, and by how much. Without an "
        "option it is --rtol 1e-8 where both have the same seeds, and --sigma auto where seeds "
        "differ. Settings that differ are listed and decide nothing.",
        epilog="Exit codes: 0 equal, 1 different, 2 bad input.")
    parser.add_argument("old", metavar="OLD.h5", help="the stored result")
    parser.add_argument("new", metavar="NEW.h5", help="the new one; what it alone has is listed, "
                        "and is a difference with --exact only")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--exact", action="store_true", help="the same numbers")
    how.add_argument("--rtol", type=float, metavar="R", help="within R of the largest entry of the "
                     "same time; in a sweep, of each entry")
    how.add_argument("--sigma", metavar="K", help="within K standard errors; auto: as many as the "
                     "largest z of one in a hundred comparisons of equal results exceeds")
    parser.add_argument("--only", default="", metavar="NAMES", help="compare these: names of "
                        "arrays (loss), groups (limit) or paths (limit/loss), with commas between "
                        "them; * stands for any letters")
    parser.add_argument("--ignore", default="", metavar="NAMES", help="leave these out")
    options = parser.parse_args(arguments)

    def work() -> int:
        found = diff(options.old, options.new, exact=options.exact, rtol=options.rtol,
                     sigma=None if options.sigma is None else _sigma(options.sigma),
                     only=options.only, ignore=options.ignore)
        try:
            print(found, flush=True)
        except BrokenPipeError:  # who reads it may have read enough, and the code is asked for
            sys.stdout = None
        return 0 if found.equal else 1
    return finish("dmft-diff", work, failed=2)
