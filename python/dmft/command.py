"""What the commands of the package share; and dmft-plot as it is installed: one sentence where
matplotlib is missing."""
from __future__ import annotations

import contextlib
import sys
import threading
import time

from dmft import program
from dmft.errors import InputError

PATIENCE = 2.0  # seconds after which a command says what it is at


@contextlib.contextmanager
def patience(name: str, what: str = "networks of several sizes are described, which takes the "
             "longer the more experts and blocks they have"):
    """A command that describes networks says so where that takes long: in a terminal with their
    number, elsewhere once. what: the sentence that it says."""
    screen, done, begin = program.Screen(name), threading.Event(), time.monotonic()

    def wait() -> None:
        end = done.wait(PATIENCE)
        if not end and not screen.changes:
            screen.line(f"{name}: {what}")
        while not end:
            end = done.wait(0.5)
            screen.status("" if end else f"{name}: {program.described.count} networks described, "
                          f"{time.monotonic() - begin:.0f} s")
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


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
