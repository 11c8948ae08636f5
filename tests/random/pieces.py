"""Random networks and limits (programs.py) in pieces: cut after a random step and gone on with from
the state that was kept, with another number of threads, a run has the bits of the whole run.

    tests/random.sh pieces [--count N] [--time SECONDS] [--seed SEED] [--keep FOLDER]

Programs of even seeds are networks of two seeds, those of odd ones limits of two replicates with
few sites. Some of the keys under which more is kept are drawn too; what a network refuses of
them is left out. Every dataset of networks, limits and data is compared. What differs is printed
with its seed and kept in the folder.
"""
from __future__ import annotations

import os
import random
import re
import shutil
import sys
import tempfile
import time
import warnings

import dmft

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import options  # noqa: E402
import programs  # noqa: E402

SITES = {"solver.sites": 96, "solver.replicates": 2, "reference.widths": []}
MORE = ({"output.experts": "yes"}, {"output.gradients": "yes"}, {"output.runs": "yes"},
        {"output.sharpness": "sum"}, {"output.tangent": "sum"}, {"output.test_every": 2},
        {"output.responses": "yes"},
        {"output.inputs": "none"}, {"reference.precision": "single"}, {"reference.centre": "no"},
        {"solver.halves": "yes"}, {"solver.draws": "normal"}, {"training.nesterov": "yes"},
        {"reference.coordinate_check": "yes", "output.kernels": "none"})


class NotRun(Exception):
    """The whole run has no limit, or too few sites, or its training diverges."""


class Piece:
    """A program, and the keys of its whole run."""
    more = MORE

    def __init__(self, seed: int, folder: str):
        self.seed, self.folder, self.random = seed, folder, random.Random(seed)
        self.program = programs.draw(seed, limit=seed % 2 == 1)
        self.steps = int(self.program.keys["training"]["steps"])
        self.ini = self.program.write(folder)
        self.keys = {"solver.threads": 1, "output.checkpoint": 99, **(SITES if seed % 2 else {
            "reference.widths": self.program.width, "reference.seeds": 2, "solver.replicates": 0})}
        if seed % 2:
            self.keys |= {f"solver.{word}": 24 for word in ("expert_sites", "unit_sites")
                          if re.search(rf'"{word}"|of = ', self.program.lua)}
        # rates after the cut are those of the whole run
        if self.program.keys["training"]["schedule"] in ("linear", "cosine", "polynomial"):
            self.keys.setdefault("training.schedule_steps", self.program.keys["training"].get(
                "schedule_steps", self.steps - 1))

    def solve(self, output: str, **keys):
        return dmft.solve(self.ini, output=os.path.join(self.folder, output), progress=False,
                          **{**self.keys, **keys})

    def more_keys(self) -> None:
        """Two of those that are more, if the network takes them."""
        for keys in self.random.sample(self.more, 2):
            try:
                dmft.describe(self.ini, **{**self.keys, **keys})
            except dmft.InputError:
                continue
            self.keys |= keys

    def difference(self) -> str | None:
        """What of the run in pieces is not that of the whole one."""
        self.more_keys()
        try:
            whole = self.solve("whole.h5", **{"training.steps": self.steps})
        except (dmft.InputError, dmft.NumericalFailure) as error:
            raise NotRun(error) from None
        cut = self.random.randint(1, self.steps - 1)
        part = self.solve("part.h5", **{"training.steps": cut})
        dmft.resume(part.path, progress=False, **{"training.steps": self.steps,
                                                  "solver.threads": self.random.choice((1, 2))})
        found = dmft.diff(whole.path, part.path, exact=True)
        return None if found.equal else f"{found}, cut after {cut} of {self.steps}, {self.keys}"


def look_at(doc: str, kind: type[Piece], agree: str, differ: str) -> int:
    """0: all programs of a command agree; agree and differ: what is said of how many do or not."""
    said = options.parser_of(doc, 100, keep=True).parse_args()
    warnings.simplefilter("ignore")
    bad, same, failed, end = 0, 0, 0, time.monotonic() + said.time
    for seed in options.until(end, range(said.seed, said.seed + said.count)):
        with tempfile.TemporaryDirectory() as folder:
            piece = kind(seed, folder)
            try:
                found = piece.difference()
            except NotRun as error:
                failed += 1
                print(f"seed {seed}: not run: {error}"[:160])
                continue
            except dmft.DmftError as error:
                found = str(error)
            if found:
                bad += 1
                kept = os.path.join(said.keep, str(seed))
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                print(f"seed {seed}: {found}\nkept as {kept}", flush=True)
            else:
                same += 1
    print(f"{same} random programs {agree}, {bad} {differ}; {failed} were not run")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(look_at(__doc__, Piece, "in pieces have the bits of whole runs", "have not"))
