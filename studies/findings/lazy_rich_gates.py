"""How much feature learning is best, where many experts stand behind sigmoid gates?

    python/with studies/findings/lazy_rich_gates.py lazy_rich_gates.h5 [OUT.csv [OUT.png]]

Reads the sweep of lazy_rich_gates.ini, prints what is seen, and writes the numbers behind it. The
picture is made of these numbers alone, so that a table will do, too:

    python/with studies/findings/lazy_rich_gates.py --picture OUT.csv OUT.png
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.select import student  # noqa: E402
from tables import command, keep  # noqa: E402
from verdict import WORDS, judge, near, of_interval  # noqa: E402

KEY = "training.gamma0"
SERIES = ("test_loss", "loss", "gate_participation", "expert_information")
DRAWN = {"test_loss": "test loss", "gate_participation": "participation ratio of the gates",
         "expert_information": "information of expert and input"}
NETWORKS, REPLICATES = student(15), student(3)  # halves of 95 % intervals in standard errors


def last(run, name):
    """Mean and standard error of a series at the last time, mean over inputs, [gamma0][N]."""
    data = run.series(name)
    inputs = [dim for dim in data[name].dims if dim not in (KEY, "N", "t")]
    mean = data[[name, name + "_se"]].isel(t=-1)
    return mean.mean(inputs) if inputs else mean


def draw(rows, path):
    """Three series at the end against gamma0; rows as in the table."""
    import matplotlib.pyplot as plt
    from dmft.plot.select import shades
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.9), layout="constrained")
    for ax, (name, words) in zip(axes, DRAWN.items()):
        for N, colour in zip((64.0, 256.0, np.inf), (*shades(2), "k")):
            points = np.array([row[2:] for row in rows if row[0] == name and float(row[1]) == N],
                              float)
            gamma0, mean, error = points[points[:, 0].argsort()].T
            half = (REPLICATES if np.isinf(N) else NETWORKS) * error
            ax.errorbar(gamma0, mean, half, color=colour, marker=".", capsize=2,
                        label=r"$N \to \infty$" if np.isinf(N) else f"$N = {N:g}$")
        ax.set(xscale="log", xlabel=r"$\gamma_0$", ylabel=words)
    axes[0].legend(fontsize=8, title="bars: 95 %", title_fontsize=8)
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None):
    run = dmft.load(path)
    found = {name: last(run, name) for name in SERIES}
    for name, data in found.items():
        limit, networks = (data.sel(N=N) for N in (np.inf, 256.0))
        gap = (networks[name] - limit[name]).values
        error = np.hypot(NETWORKS * networks[name + "_se"], REPLICATES * limit[name + "_se"]).values
        print(f"{name} of the limit at gamma0 = {' '.join(f'{g:g}' for g in data[KEY].values)}: "
              + " ".join(f"{v:.4g}" for v in limit[name].values) + "; N = 256 less limit: "
              + " ".join(f"{g:.2g} +- {e:.2g}" for g, e in zip(gap, error)))
    best = run.optimum
    for N in best["N"].values:
        at, low, high = (float(best[name].sel(N=N)) for name in ("at", "low", "high"))
        ends = np.log([low, high])
        verdict = judge(of_interval(ends.mean() - np.log(3), np.ptp(ends) / 2), near(0, np.log(2)))
        print(f"N = {N:g}: best gamma0 {at:.2f} [{low:.2f}, {high:.2f}], within a factor of 2 of "
              f"3: {WORDS[verdict]}")
    rows = [(name, N, g, f"{float(one[name]):.6g}", f"{float(one[name + '_se']):.3g}")
            for name, data in found.items() for N in data["N"].values
            for g in data[KEY].values for one in (data.sel({KEY: g, "N": N}),)]
    keep(rows, ("series", "N", "gamma0", "mean", "standard error"), draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
