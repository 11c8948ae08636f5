"""What the commands of the package share."""
from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections.abc import Callable

from dmft import program
from dmft.errors import DmftError, InputError

PATIENCE = 2.0  # seconds after which a command says what it is at


class Parser(argparse.ArgumentParser):
    """Options are written in full, and what is wrong with the words is one sentence."""

    def __init__(self, prog: str, **more):
        super().__init__(prog=prog, allow_abbrev=False, **more)

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help says what it takes\n")


def finish(name: str, work: Callable[[], int | None], failed: int | None = None) -> int:
    """The exit code of a command: that of its work, 0 where that is None. Every failure is one
    sentence; of those but Ctrl-C the code is `failed`, where one is given, else that of the
    error."""
    try:
        code = work() or 0
        if sys.stdout:
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read it, as `head` does, has read enough
        sys.stdout = None
        return 0
    except DmftError as error:
        said, code = error, error.code
    except KeyboardInterrupt as error:
        print(f"{name}: {str(error) or 'interrupted'}", file=sys.stderr)
        return 130
    except MemoryError as error:
        said, code = str(error) or "out of memory", 1
    except OSError as error:
        sys.stdout = None  # what could not be written is not tried again
        said, code = error, 1
    print(f"{name}: {said}", file=sys.stderr)
    return code if failed is None else failed


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
