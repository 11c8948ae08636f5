"""What a run may end in: one class for each exit code of the programs.

    try:
        run = dmft.solve("x.ini", **{"training.eta0": 50})
    except dmft.NumericalFailure as failure:
        print(failure.sentence)                 # the program's own
        if failure.partial:
            run = dmft.load(failure.partial)    # what was computed before
"""
from __future__ import annotations


class DmftError(Exception):
    """A program failed: `sentence` is what it said, `code` its exit code, `partial` the file (of a
    sweep the folder) with what was computed before, or None; `lua` is the text of a network
    that was written in Python."""
    code, lua = 1, None

    def __init__(self, sentence: str, partial: str | None = None):
        super().__init__(sentence)
        self.sentence, self.partial = sentence, partial


class SystemFailure(DmftError):
    """Exit code 1: memory, disk, or no program found."""


class InputError(DmftError, ValueError):
    """Exit code 2: a key, a value or data that cannot be."""
    code = 2


class NumericalFailure(DmftError, ArithmeticError):
    """Exit code 3: divergence, too few sites."""
    code = 3


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, exit code 130; raised when the program has ended and `partial` is on disk. As every
    KeyboardInterrupt it passes `except Exception`."""
    code, lua = 130, None

    def __init__(self, sentence: str, partial: str | None = None):
        super().__init__(sentence)
        self.sentence, self.partial = sentence, partial


def failure(code: int, sentence: str, partial: str | None) -> BaseException:
    """The exception of an exit code.

    >>> failure(3, "diverged", None).code
    3
    """
    kinds = {kind.code: kind for kind in (InputError, NumericalFailure, Interrupted)}
    return kinds.get(code, SystemFailure)(sentence, partial)


class NoteWarning(UserWarning):
    """What a run says of its own numbers, a note of Result.notes, given to warnings.warn. To be
    quiet: warnings.filterwarnings("ignore", category=dmft.NoteWarning)."""
