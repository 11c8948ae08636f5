"""Does balancing the loads of experts move the best rate, or the test loss there?

    python/with studies/findings/balance_rates.py balance_rates.h5 [OUT.csv]

Reads the sweep of balance_rates.ini, prints what is seen, and writes the numbers behind it.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import write_table  # noqa: E402
from verdict import WORDS, interval, judge, near, of_optimum, within_factor  # noqa: E402

AXIS, FACTOR = "network.eta_bias,network.balance_loss", 1.5


def main(path, out=None):
    run = dmft.load(path)
    rows = []
    for N in run.optimum["N"].values:
        one = run.optimum.sel(N=[N])
        rates, losses = ([of_optimum(one.isel({AXIS: k}), name)[0] for k in range(one.sizes[AXIS])]
                         for name in ("at", "objective"))
        for k, words in enumerate(one[AXIS].values):
            best = one.isel({AXIS: k, "N": 0})
            numbers = [float(best[name]) for name in ("at", "low", "high", "objective",
                                                     "objective_low", "objective_high")]
            rows.append((words, f"{N:g}", *(f"{number:.5g}" for number in numbers)))
            moved, lower = rates[k] - rates[0], losses[k] - losses[0]
            print(f"N = {N:g}, eta_bias and balance_loss {words}: best rate {numbers[0]:.3f} "
                  f"[{numbers[1]:.3f}, {numbers[2]:.3f}], test loss {numbers[3]:.4f}", end="")
            print("" if not k else "; over that without balancing: "
                  f"rate within a factor of {FACTOR} "
                  f"{WORDS[judge(moved, within_factor(FACTOR))]} "
                  f"[{', '.join(f'{np.exp(x):.2f}' for x in interval(moved))}], test loss within "
                  f"5 % {WORDS[judge(lower, near(0, np.log(1.05)))]}")
    if out:
        write_table(out, ("eta_bias balance_loss", "N", "best rate", "low", "high", "test loss",
                          "low", "high"), rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
