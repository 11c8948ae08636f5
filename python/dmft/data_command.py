"""dmft-data FILE -o OUT.h5: a data file for [data] source = file (dmft.data), made of an npz, a
csv, Fashion-MNIST, or a law that is known.

    dmft-data x.npz -o x.h5
    dmft-data x.csv --weight w -o x.h5
    dmft-data fashion --classes 2 4 --inputs 32 -o images.h5
    dmft-data mixture --components 3 --inputs 64 --dimension 10 -o parts.h5
    dmft-data chains --components 2 --vocabulary 8 --tokens 16 --inputs 64 -o chains.h5

or python -m dmft data. Exit codes: 0 done, 1 system error, 2 bad input, 130 interrupted."""
from __future__ import annotations

import argparse
import inspect
import sys

from dmft import data
from dmft.command import Parser, finish

LAWS = {"fashion": data.fashion, "mixture": data.mixture, "chains": data.chains}
HELP = {"fashion": "images of Fashion-MNIST", "mixture": "inputs of several components, each with "
        "a mean and a linear teacher of its own", "chains": "letters of several Markov chains, "
        "which take turns"}


def _add(parser, function) -> None:
    """An option for each argument of a function, which is needed where it has no default."""
    for name, one in inspect.signature(function).parameters.items():
        needed, option = one.default is inspect.Parameter.empty, "--" + name.replace("_", "-")
        if one.annotation == "bool":
            parser.add_argument(option, action="store_true")
        else:
            kind = {"float": float, "str": str}.get(one.annotation, int)
            parser.add_argument(option, type=kind, required=needed, metavar="...",
                                nargs="+" if name == "classes" else None,
                                default=None if needed else one.default,
                                help="needed" if needed else f"default: {one.default}")


def _parser() -> argparse.ArgumentParser:
    ends = argparse.ArgumentParser(add_help=False)
    ends.add_argument("-o", dest="out", metavar="OUT.h5", required=True)
    ends.add_argument("--force", action="store_true", help="overwrite OUT.h5")
    parser = Parser(
        "dmft-data", usage="dmft-data FILE [--weight NAME] -o OUT.h5\n"
        "       dmft-data {fashion,mixture,chains} ... -o OUT.h5",
        description="Writes a data file for [data] source = "
        "file: of an npz or a csv (dmft-data FILE -o OUT.h5), of Fashion-MNIST, or of a law.",
        epilog="dmft-data fashion --help says what images can be asked for, and so on. Exit codes: "
        "0 done, 1 system error, 2 bad input, 130 interrupted.")
    kinds = parser.add_subparsers(dest="kind", metavar="FILE, fashion, mixture or chains",
                                  required=True, prog="dmft-data")
    for name, function in LAWS.items():
        one = kinds.add_parser(name, parents=[ends], help=HELP[name],
                               description=inspect.getdoc(function),
                               formatter_class=argparse.RawDescriptionHelpFormatter)
        _add(one, function)
    file = kinds.add_parser("file", parents=[ends], prog="dmft-data",
                            help="an npz, a csv or an HDF5 file of this name")
    file.add_argument("file", metavar="FILE", help="npz, csv, or HDF5")
    file.add_argument("--weight", metavar="NAME", help="the column of a csv that says how often "
                      "an input counts, for [data] weight = NAME")
    return parser


def main(arguments=None) -> int:
    """The command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    at = next((k for k, word in enumerate(words) if word in (*LAWS, "file")
               and words[k - 1:k] not in (["-o"], ["--weight"])), None)
    if at is not None:  # options may stand before it
        words.insert(0, words.pop(at))
    elif words and words[0] not in ("-h", "--help"):
        words.insert(0, "file")
    given = vars(_parser().parse_args(words))
    kind, out, force = given.pop("kind"), given.pop("out"), given.pop("force")

    def work() -> None:
        found = data.read(given["file"], given["weight"]) if kind == "file" else \
            LAWS[kind](**given)
        data.write(out, found, force)
        print(f"wrote {out}: " + ", ".join(f"{name} {'x'.join(map(str, array.shape)) or '1'}"
                                           for name, array in found.items()))
    return finish("dmft-data", work)
