"""What the commands of the package share; and dmft-plot as it is installed: one sentence where
matplotlib is missing."""
from __future__ import annotations

import sys

from dmft.errors import InputError


def keys_of(words: list[str]) -> dict[str, str]:
    """The settings among the words of a command line, of which nothing else is left.

    >>> keys_of(["--network.model=dense", "--training.eta0=1"])
    {'network.model': 'dense', 'training.eta0': '1'}
    """
    keys = {}
    for word in words:
        key, sign, value = word.removeprefix("--").partition("=")
        if not (word.startswith("--") and sign and "." in key):
            raise InputError(f"{word}: is neither an option nor --section.key=value")
        keys[key] = value
    return keys


def main() -> int:
    """The command; returns its exit code."""
    try:
        from dmft.plot.command import main as draw
    except ImportError as error:
        print(f"dmft-plot: {error}", file=sys.stderr)
        return 1
    return draw()
