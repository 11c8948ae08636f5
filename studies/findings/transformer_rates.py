"""Do the rates of a transformer with many experts transfer over the width in one pass?

    python/with studies/findings/transformer_rates.py transformer_rates.h5 [OUT.csv [OUT.png]]

Reads the sweep of transformer_rates.ini, prints what is seen, and writes the numbers behind it.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import draw_sides, write_table  # noqa: E402
from verdict import WORDS, judge, within_factor  # noqa: E402

SIDE, RATE, FACTOR = "network.parameterization", "training.eta0", 1.5


def main(path, out=None, picture=None):
    run = dmft.load(path)
    rows = []
    for side in run.optimum[SIDE].values:
        best = run.optimum.sel({SIDE: side})
        widths = [N for N in best["N"].values if np.isfinite(N)]
        for N in widths:
            one = best.sel(N=N)
            numbers = [float(one[name]) for name in ("at", "low", "high", "objective",
                                                     "objective_low", "objective_high")]
            rows.append((side, f"{N:g}", *(f"{number:.5g}" for number in numbers)))
            print(f"{side}, N = {N:g}: best rate {numbers[0]:.3f} [{numbers[1]:.3f}, "
                  f"{numbers[2]:.3f}], test loss {numbers[3]:.4f} [{numbers[4]:.4f}, "
                  f"{numbers[5]:.4f}]")
        samples = np.log(best["at_samples"].sel(N=widths[-1]).values
                         / best["at_samples"].sel(N=widths[0]).values)
        print(f"{side}: best rate at N = {widths[-1]:g} within a factor of {FACTOR} of that at "
              f"{widths[0]:g}: {WORDS[judge(samples, within_factor(FACTOR))]}")
    if out:
        write_table(out, ("parameterization", "N", "best rate", "low", "high", "test loss", "low",
                          "high"), rows)
    if picture:
        draw_sides(run, SIDE, RATE, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
