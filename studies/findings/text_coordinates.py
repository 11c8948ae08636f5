"""How what each layer of a transformer has learned goes with the width, in SP and muP, on text.

    python/with studies/findings/text_coordinates.py SWEEP.h5 [TABLE.csv]

Reads a sweep of text_coordinates.ini. Of every matrix of the blocks it keeps the root mean square
of what it has learned, (W - W(0)) x, at each width, and the exponent in the width, and judges
whether that is 0 within 1/4 (muP) or above 1/4 (SP), all claims of a side and a time together.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from common import at_widths, exponent  # noqa: E402
from tables import write_table  # noqa: E402
from verdict import EXPONENT, HALF, WORDS, above, all_of, judge, near, of_interval  # noqa: E402

HEAD = ("parameterization", "matrix", "step", "N", "value", "low", "high")
MATRICES = ("W_V", "W_O", "W_Q", "W_K", "R", "W1", "W2")
BLOCKS, TIMES = 2, (5, 20)
CLAIMS = {"mup": ("is 0 within 1/4", near(0, EXPONENT)), "sp": ("is above 1/4", above(EXPONENT))}


def rows_of(run):
    """The rows of the table, and a sentence for every side, matrix and time."""
    for point, part in run.points.items():
        side = "mup" if str(point[0]) == "1" else "sp"
        words, claim = CLAIMS[side]
        for t in TIMES:
            good, told = [], []
            for matrix in (f"{one}_{block}" for one in MATRICES for block in range(BLOCKS)):
                for N, mean, half in zip(*at_widths(part, f"rms_{matrix}_eff", t)):
                    yield (side, matrix, t, f"{N:g}",
                           *(f"{one:.4g}" for one in (mean, mean - half, mean + half)))
                power, half = exponent(part, f"rms_{matrix}_eff", t)
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
