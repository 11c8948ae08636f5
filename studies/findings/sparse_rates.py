"""The best rate where fewer of more experts are selected, and whether more experts help there.

    python/with studies/findings/sparse_rates.py sparse_rates.h5 [OUT.csv [OUT.png [MORE.h5]]]
    python/with studies/findings/sparse_rates.py --picture sparse_rates.csv OUT.png

Reads the sweep of sparse_rates.ini, prints what is seen, and writes the numbers behind it, with
those of MORE.h5, the same sweep with higher rates; or makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.statistics import student  # noqa: E402
from tables import command, keep  # noqa: E402
from verdict import WORDS, below, interval, judge, of_optimum, within_factor  # noqa: E402

EXPERTS, INIT, RATE, FACTOR = "network.kappa,network.rho", "init.W_out", "training.eta0", 1.5
MOST = 0.05  # half of the longest bar that is drawn


def tell(run):
    for init in run.optimum[INIT].values:
        for N in run.optimum["N"].values:
            best = run.optimum.sel({INIT: init, "N": [N]})
            rates, losses = ([of_optimum(best.isel({EXPERTS: k}), name)[0]
                              for k in range(best.sizes[EXPERTS])] for name in ("at", "objective"))
            for k, rho in enumerate(best["network.rho"].values):
                at, low, high, loss = (float(best[name].isel({EXPERTS: k, "N": 0})) for name in
                                       ("at", "low", "high", "objective"))
                print(f"init.W_out = {init}, N = {N:g}, rho = {rho:g}: best rate "
                      + (f"{at:.3f} [{low:.3f}, {high:.3f}], test loss there {loss:.4f}"
                         if np.isfinite(at) else f"not known, so {WORDS[None]}"))
                if k and np.isfinite(at):
                    moved, lower = rates[k] - rates[0], losses[k] - losses[0]
                    ends = ["[" + ", ".join(f"{x:.3f}" for x in np.exp(interval(one))) + "]"
                            for one in (moved, lower)]
                    print(f"    over that of rho = 1 {ends[0]}, within a factor of {FACTOR}: "
                          f"{WORDS[judge(moved, within_factor(FACTOR))]}; test loss over that of "
                          f"rho = 1 {ends[1]}, lower: {WORDS[judge(lower, below(0))]}")


def rows_of(sweep):
    """(init.W_out, N, rho, eta0, test loss, half of its interval, networks that failed)."""
    for init in sweep[INIT].values:
        for N in sweep["N"].values:
            for k, rho in enumerate(sweep["network.rho"].values):
                one = sweep.sel({INIT: init, "N": N}).isel({EXPERTS: k})
                half = student(one["n"].values - 1) * one["test_loss_se"].values
                for rate, loss, error, failed in zip(one[RATE].values, one["test_loss"].values,
                                                     half, one["failed"].values):
                    yield (init, f"{N:g}", f"{rho:g}", f"{rate:g}", f"{loss:.5g}", f"{error:.2g}",
                           f"{failed:g}")


def draw(rows, path):
    """Hollow: some of the networks failed. Where half of a bar is above MOST, a cross without it,
    beside the lines; a triangle at the upper end, if it lies above."""
    import matplotlib.pyplot as plt
    from dmft.plot.sweeps import scale
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(9, 3.4), layout="constrained")
    widest = max((row[1] for row in rows), key=float)
    ends = [float(row[4]) + float(row[5]) for row in rows
            if row[1] == widest and float(row[5]) < MOST]
    top = max(ends) + 0.05 * (max(ends) - min(ends))
    for ax, (init, power) in zip(axes, (("1", "1"), ("rho^0.5", r"\rho^{1/2}"))):
        for k, rho in enumerate(dict.fromkeys(row[2] for row in rows)):
            rate, loss, half, failed = np.array([row[3:] for row in rows if
                                                 row[:3] == (init, widest, rho)], float).T
            known = np.isfinite(half) & (half < MOST)
            for some, fill in ((known & (failed == 0), f"C{k}"), (known & (failed > 0), "white")):
                ax.errorbar(rate[some], loss[some], half[some], fmt="o", ms=4, capsize=2,
                            color=f"C{k}", mfc=fill)
            ax.plot(rate[known], loss[known], color=f"C{k}", lw=1, label=rf"$\rho = {rho}$")
            for some, mark in ((loss < top, "x"), (loss >= top, "^")):
                some &= half >= MOST
                ax.plot(rate[some], np.minimum(loss[some], top), mark, color=f"C{k}")
        ax.set(xscale="log", xlabel=r"learning rate $\eta_0$",
               title=f"$W_{{out}}$ times ${power}$, $N = {widest}$")
        scale(ax.xaxis, rate)
    axes[0].set(ylabel="test loss", ylim=(None, 1.01 * top))
    axes[0].legend(fontsize=7, title="bars: 95 %", title_fontsize=7, loc="upper left",
                   ncol=2)
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None, more=None):
    run = dmft.load(path)
    tell(run)
    rows = list(rows_of(dmft.load(more).sweep if more else run.sweep))
    keep(rows, ("init.W_out", "N", "rho", "eta0", "test loss",
                "half of the 95 % interval", "networks that failed"),
         draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
