"""dmft.examples: the files that the documents start from, where there is no checkout.

    dmft-examples [FOLDER]

or python -m dmft examples puts the folders data, examples and studies into FOLDER (without one into
the current folder), so that the commands of the documents can be typed as they stand.
"""
from __future__ import annotations

import filecmp
import glob
import os
import shutil
import sys

from dmft.command import Parser, finish
from dmft.errors import SystemFailure
from dmft.pages import folder_with

# Patterns of the files of each folder.
KEPT = {"data": ("*.ini", "*.h5"), "examples": ("*.ini", "*.lua", "*.c", "*.h5"),
        "studies": ("*.ini",)}


def _put(source: str, target: str) -> bool:
    """Copies a file; whether another one of this name, which stays as it is, is there."""
    if os.path.exists(target):
        return not filecmp.cmp(source, target, shallow=False)
    shutil.copyfile(source, target)
    return False


def examples(folder=".") -> str:
    """Puts the inis, programs and data that the documents use into FOLDER/data, FOLDER/examples and
    FOLDER/studies, and gives the path of FOLDER. A file that is there already and has been changed
    stays as it is.

    >>> dmft.solve(dmft.examples("dmft") + "/data/regime2.ini")         # doctest: +SKIP
    """
    folder, changed = os.fspath(folder), []
    home = folder_with("data", "regime2.ini")
    try:
        for name, patterns in KEPT.items():
            os.makedirs(os.path.join(folder, name), exist_ok=True)
            for pattern in patterns:
                for source in sorted(glob.glob(os.path.join(glob.escape(home), name, pattern))):
                    target = os.path.join(folder, name, os.path.basename(source))
                    changed += [target] if _put(source, target) else []
    except OSError as error:
        raise SystemFailure(f"cannot write {error.filename}: {error.strerror}") from None
    if changed:
        print(f"left as they are, since they differ: {' '.join(changed)}", file=sys.stderr)
    return folder


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = Parser(
        "dmft-examples", description="Puts the folders data, examples and studies, from which "
        "the documents start, into a folder.")
    parser.add_argument("folder", nargs="?", default=".", help="default: the current folder")
    given = parser.parse_args(words)

    def work() -> None:
        folder = examples(given.folder)
        print("wrote " + " ".join(os.path.join(folder, name) for name in KEPT))
    return finish("dmft-examples", work)
