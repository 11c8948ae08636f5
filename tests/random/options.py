"""What the commands of this folder share: their options, and an end in time."""
from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator


def parser_of(doc: str, count: int, keep: bool = False) -> argparse.ArgumentParser:
    """Those of a command: doc is its text, count how many programs it looks at; keep: it keeps
    programs in which it has found something."""
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=count, help="programs to run now")
    parser.add_argument("--time", type=float, default=1e9, help="seconds, after which it ends")
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    if keep:
        parser.add_argument("--keep", default="build/random", help="folder of what differs")
    return parser


def until(end: float, seeds: Iterable[int]) -> Iterator[int]:
    """The seeds that come up before this time of time.monotonic()."""
    for seed in seeds:
        if time.monotonic() > end:
            return
        yield seed
