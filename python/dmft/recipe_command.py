"""The recipe of a network, printed.

    dmft-recipe FILE.ini [--section.key=value ...] [--parameterizations mup,mssp,...]
                [--at N=4096,M=64 | --base N=256 --target N=4096] [--raw-inputs]
                [--format text|markdown|latex]

or python -m dmft recipe. For every tensor its shape, the standard deviation at the start,
the learning rates of SGD and Adam, Adam's eps and the weight decay, as products of powers of the
sizes; with --at as numbers at a size, with --base and --target as the multipliers from one size to
another. The points of a [sweep] whose recipes differ stand side by side. The exit code is 2 where
the input is wrong, which one sentence says.
"""
from __future__ import annotations

from dmft.command import Parser, finish, keys_of, patience
from dmft.errors import InputError
from dmft.recipe import recipe


def sizes(text: str) -> dict[str, float]:
    """Sizes and their values.

    >>> sizes("N=4096,M=64")
    {'N': 4096.0, 'M': 64.0}
    """
    found = {}
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name in found:
            raise InputError(f"{text}: {name} is given twice")
        try:
            found[name] = float(value)
        except ValueError:
            raise InputError(f"{word}: sizes are written NAME=NUMBER,NAME=NUMBER, for instance "
                             "N=4096,M=64") from None
    if not found:
        raise InputError("no size is given; they are written NAME=NUMBER, for instance N=4096")
    return found


def main(arguments=None) -> int:
    """The command; returns its exit code."""
    parser = Parser(
        "dmft-recipe", usage="dmft-recipe FILE.ini [--section.key=value "
        "...] [options]", description="Shape, initial scale and learning rates of every tensor of "
        "a network, in the units of PyTorch, as products of powers of its sizes.")
    parser.add_argument("file", metavar="FILE.ini", help="an ini of any of the programs; "
                        "--section.key=value sets a key on top of it")
    parser.add_argument("--parameterizations", metavar="NAME,NAME", help="side by side, such as "
                        "mup,mssp,sp; default: those of the ini")
    parser.add_argument("--at", metavar="N=4096,M=64", help="the numbers at these sizes")
    parser.add_argument("--base", metavar="N=256", help="with --target: by what a model tuned at "
                        "the base is to be multiplied at the target")
    parser.add_argument("--target", metavar="N=4096")
    parser.add_argument("--raw-inputs", action="store_true",
                        help="read-ins act on x and not on x/sqrt(D)")
    parser.add_argument("--format", choices=("text", "markdown", "latex"), default="text")
    options, rest = parser.parse_known_args(arguments)

    def work() -> None:
        keys = keys_of(rest)
        places = {name: sizes(getattr(options, name)) for name in ("at", "base", "target")
                  if getattr(options, name) is not None}
        with patience("dmft-recipe"):
            found = recipe(options.file, parameterizations=options.parameterizations,
                           raw_inputs=options.raw_inputs, **places, **keys)
        print({"text": str, "markdown": lambda one: one.markdown(),
               "latex": lambda one: one.latex()}[options.format](found))
    return finish("dmft-recipe", work)
