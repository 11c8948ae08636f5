"""Which parts of the signals Muon leaves in muP with a zero read-out, and what it does to a router.

    python/with studies/findings/muon_parts.py PARTS_compare.h5 REST_compare.h5 [OUT.csv]

Reads what dmft-compare wrote of muon_parts.ini, and with --training.rest=Q, and prints losses and
exponents in the width with their standard errors; whether an exponent is near 0 or -1/2, and
whether the widest networks have the loss of the narrowest, is judged by studies/verdict.py.
"""
import os
import sys

import h5py
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from tables import write_table  # noqa: E402
from verdict import (EXPONENT, HALF, WORDS, judge, near, of_interval,  # noqa: E402
                     within_factor)

PARTS = {"mup": {"A1": -0.5, "A21": -0.5, "A3": 0, "Q_eff": 0},
         "mssp": {"A1": 0, "A21": 0, "A3": 0, "Q_eff": 0}}
TIMES, FACTOR = (2, 8, 14, 20), 1.5


def apart(losses):
    """The ratio of two losses (mean, standard error), its error, and whether it is near 1."""
    (wide, wide_se), (narrow, narrow_se) = losses
    ratio, error = wide / narrow, np.hypot(wide_se / wide, narrow_se / narrow)
    word = WORDS[judge(of_interval(np.log(ratio), HALF * error), within_factor(FACTOR))]
    return f"{ratio:.3f}", f"{ratio * error:.3f}", f"within a factor of {FACTOR}: {word}"


def main(path, rest, out=None):
    rows = []
    for router, name in (("Muon", path), ("Adam", rest)):
        with h5py.File(name) as file:
            for side, parts in PARTS.items():
                for N, data in file[side]["reference"].items():
                    rows += [(router, side, "loss", N, t, f"{data['loss'][t]:.5f}",
                              f"{data['loss_se'][t]:.5f}", "") for t in TIMES]
                ends = [list(file[side]["reference"].values())[k] for k in (-1, 0)]
                rows += [(router, side, "loss", "largest N over smallest", t, *apart(
                    [(data["loss"][t], data["loss_se"][t]) for data in ends])) for t in TIMES]
                fits = file[side]["compare"]
                for part, claim in parts.items():
                    for t in TIMES:
                        value, se = (fits[f"rms_{part}_exponent{end}"][t] for end in ("", "_se"))
                        word = WORDS[judge(of_interval(value, HALF * se), near(claim, EXPONENT))]
                        rows.append((router, side, part, "exponent", t, f"{value:.3f}",
                                     f"{se:.3f}", f"{claim:g}: {word}"))
    for row in rows:
        print(*row)
    if out:
        write_table(out, ("router by", "parameterization", "what", "N", "t", "value",
                          "standard error", "claim"), rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
