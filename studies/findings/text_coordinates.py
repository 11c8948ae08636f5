"""How what each layer of a transformer has learned goes with the width, in SP and muP, on text.

    python/with studies/findings/text_coordinates.py SWEEP.h5 [TABLE.csv]

Reads a sweep of text_coordinates.ini. It keeps the loss and, of every matrix of the blocks, the
root mean square of what it has learned, (W - W(0)) x, at each width, and judges whether it grows
from the narrowest networks to the widest by an exponent that is 0 within 1/4 (muP) or above 1/4
(SP), all claims of a side and a time together. In SP it is no power of the width, which is why both
ends are compared.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from common import at_widths  # noqa: E402
from tables import write_table  # noqa: E402
from verdict import EXPONENT, HALF, WORDS, above, all_of, judge, near, of_interval  # noqa: E402

HEAD = ("parameterization", "loss or matrix", "step", "N", "value", "low", "high")
MATRICES = ("W_V", "W_O", "W_Q", "W_K", "R", "W1", "W2")
BLOCKS, TIMES = 2, (5, 20)
CLAIMS = {"mup": ("is 0 within 1/4", near(0, EXPONENT)), "sp": ("is above 1/4", above(EXPONENT))}


def between_ends(N, mean, half):
    """The exponent that the narrowest and the widest networks have, and half of its interval."""
    apart = np.log(N[-1] / N[0])
    return np.log(mean[-1] / mean[0]) / apart, np.hypot(*(half / mean)[[0, -1]]) / apart


def values(side, what, t, widths):
    for N, mean, half in zip(*widths):
        yield side, what, t, f"{N:g}", *(f"{one:.4g}" for one in (mean, mean - half, mean + half))


def rows_of(run):
    """The rows of the table, and a sentence for every side, matrix and time."""
    for point, part in run.points.items():
        side = "mup" if str(point[0]) == "1" else "sp"
        words, claim = CLAIMS[side]
        for t in TIMES:
            good, told = [], []
            yield from values(side, "loss", t, at_widths(part, "loss", t))
            for matrix in (f"{one}_{block}" for one in MATRICES for block in range(BLOCKS)):
                widths = at_widths(part, f"rms_{matrix}_eff", t)
                yield from values(side, matrix, t, widths)
                power, half = between_ends(*widths)
                verdict = judge(of_interval(power, half), claim, BLOCKS * len(MATRICES))
                good.append(verdict)
                told.append(f"{matrix} {power:.2f}({half / HALF:.2f}) {WORDS[verdict]}")
                yield (side, matrix, t, f"exponent: {WORDS[verdict]}",
                       *(f"{one:.3f}" for one in (power, power - half, power + half)))
            print(f"{side}, t = {t}: every exponent {words}: {WORDS[all_of(good)]}: "
                  f"{', '.join(told)}")


def main(path, out=None):
    rows = list(rows_of(dmft.load(path)))
    if out:
        write_table(out, HEAD, rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
