"""python -m dmft.torch FILE.ini [--section.key=value ...] [--width N]: one network from the same
weights in dmft-solve and in PyTorch. Exit code 0: they agree to 1e-9; 1: they do not; 2: there is
no such network, or PyTorch has no such optimizer."""
import sys
import warnings

import dmft
from dmft.command import Parser, finish, keys_of
from dmft.torch.comparison import verify


def main(words: list[str]) -> int:
    """The command; returns its exit code."""
    parser = Parser("python -m dmft.torch", description=__doc__.partition(": ")[2])
    parser.add_argument("ini", metavar="FILE.ini")
    parser.add_argument("--width", type=int, help="of the network; default: smallest of the ini")
    given, rest = parser.parse_known_args(words)

    def work() -> int:
        keys = keys_of(rest)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dmft.NoteWarning)
            found = verify(given.ini, given.width, **keys)
        print(found)
        return 0 if found.agrees else 1
    return finish("dmft.torch", work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
