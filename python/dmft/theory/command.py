"""The mean-field theory of a network, typeset.

    dmft-equations FILE.ini [-o OUT.tex | OUT.pdf | OUT.md] [--section.key=value ...]

or python -m dmft equations. Without -o the LaTeX goes to the screen. OUT.pdf needs pdflatex. Exit
code 2 and one sentence where the ini is wrong or the network has no limit, 1 where a program is
missing.
"""
from __future__ import annotations

import argparse
import sys

from dmft.command import keys_of, patience
from dmft.errors import DmftError
from dmft.theory import equations


def main(arguments=None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="dmft-equations", description="The mean-field theory of a network, typeset.",
        usage="dmft-equations FILE.ini [-o OUT.tex | OUT.pdf | OUT.md] [--section.key=value ...]")
    parser.add_argument("file", metavar="FILE.ini")
    parser.add_argument("-o", metavar="OUT", help="OUT.tex, OUT.pdf (needs pdflatex) or OUT.md; "
                        "default: LaTeX on the screen")
    options, rest = parser.parse_known_args(arguments)
    try:
        keys = keys_of(rest)
        with patience("dmft-equations"):
            made = equations(options.file, **keys)
        if options.o:
            made.write(options.o)
        else:
            print(made.latex(), end="")
        return 0
    except DmftError as error:
        print(f"dmft-equations: {error}", file=sys.stderr)
        return error.code
