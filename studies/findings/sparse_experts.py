"""Does a network learn better with more experts of which fewer are selected, at a fixed number of
selected ones, and is it more than the larger sum of its experts?

    python/with studies/findings/sparse_experts.py sparse_experts.h5 [OUT.csv [OUT.png]]
    python/with studies/findings/sparse_experts.py --picture sparse_experts.csv OUT.png

Reads the sweep of sparse_experts.ini, prints what is seen, and writes the numbers behind it; or
makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.select import student  # noqa: E402
from tables import command, keep  # noqa: E402
from verdict import WORDS, below, judge, of_interval  # noqa: E402

EXPERTS, INIT, RATE, ETA0 = "network.kappa,network.rho", "init.W_out", "training.eta0", 0.25


def points(run, init, N, name):
    """(rho, mean, half of the 95 % interval) at the rate ETA0."""
    one = run.sweep.sel({INIT: init, RATE: ETA0, "N": N})
    half = student(one["n"].values - 1) * one[name + "_se"].values
    return one["network.rho"].values, one[name].values, half


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for ax, name in zip(axes, ("loss", "test_loss")):
        for init, colour in (("1", "C0"), ("rho^0.5", "C3")):
            for N, style in (("256.0", "--"), ("inf", "-")):
                rho, value, half = np.array([(row[2], *row[4:]) for row in rows if
                                             (*row[:2], row[3]) == (init, N, name)], float).T
                down = np.minimum(half, 0.9 * value)  # on a logarithmic axis to a tenth at most
                power = "1" if init == "1" else r"\rho^{1/2}"
                ax.errorbar(1 / rho, value, [down, half], color=colour, ls=style, marker=".",
                            capsize=2, label=f"$W_{{out}}$ times ${power}$, $N "
                            + (r"\to \infty$" if N == "inf" else "= 256$"))
        ax.set(xscale="log", xlabel=r"experts over selected ones, $1/\rho$",
               ylabel=name.replace("_", " "))
        ax.set_xticks((1, 2, 4, 8, 16), ("1", "2", "4", "8", "16"))
        ax.minorticks_off()
    axes[0].set(yscale="log")
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None):
    run = dmft.load(path)
    rows = []
    for init in run.sweep[INIT].values:
        for N in run.sweep["N"].values:
            for name in ("loss", "test_loss"):
                rho, value, half = points(run, init, N, name)
                rows += [(init, N, r, name, f"{v:.6g}", f"{h:.3g}")
                         for r, v, h in zip(rho, value, half)]
            change, error = value[-1] - value[0], np.hypot(half[0], half[-1])
            print(f"init.W_out = {init}, N = {N:g}, eta0 = {ETA0}: test loss at rho = 1/16 less "
                  f"that at 1: {change:.4f} +- {error:.4f}, < 0: "
                  f"{WORDS[judge(of_interval(change, error), below(0))]}")
            best = run.optimum.sel({INIT: init, "N": N})
            known = np.isfinite(best["at"].values)
            print("    best rates known at " + (" ".join(f"rho = {r:g} ({at:.2f})" for r, at in zip(
                rho[known], best["at"].values[known])) or "no rho"))
    for N in run.sweep["N"].values:  # of the gain, what is left without the larger sum
        gains = [points(run, init, N, "test_loss") for init in ("1", "rho^0.5")]
        left = (gains[1][1][0] - gains[1][1][-1]) / (gains[0][1][0] - gains[0][1][-1])
        print(f"N = {N:g}: with init.W_out = rho^0.5 {left:.2f} of the gain is left")
    keep(rows, ("init.W_out", "N", "rho", "series", "mean", "half of the 95 % interval"),
         draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
