"""The mean-field theory of a network, typeset.

    dmft-equations FILE.ini [-o OUT.tex | OUT.pdf | OUT.md] [--force] [--section.key=value ...]

or python -m dmft equations. Without -o the LaTeX goes to the screen. OUT.pdf needs pdflatex. Exit
code 2 and one sentence where the ini is wrong or the network has no limit, 1 where a program is
missing.
"""
from __future__ import annotations

from dmft.command import Parser, finish, keys_of, patience
from dmft.study import place
from dmft.theory import equations


def main(arguments=None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "dmft-equations", description="The mean-field theory of a network, typeset.",
        usage="dmft-equations FILE.ini [-o OUT.tex | OUT.pdf | OUT.md] [--force] "
        "[--section.key=value ...]")
    parser.add_argument("file", metavar="FILE.ini")
    parser.add_argument("-o", metavar="OUT", help="OUT.tex, OUT.pdf (needs pdflatex) or OUT.md; "
                        "default: LaTeX on the screen")
    parser.add_argument("--force", action="store_true", help="overwrite OUT")
    options, rest = parser.parse_known_args(arguments)

    def work() -> None:
        keys = keys_of(rest)
        if options.o is not None:
            place.check(options.o, options.force)   # before the theory is derived
        with patience("dmft-equations"):
            made = equations(options.file, **keys)
        if options.o is not None:
            made.write(options.o, options.force)
        else:
            print(made.latex(), end="")
    return finish("dmft-equations", work)
