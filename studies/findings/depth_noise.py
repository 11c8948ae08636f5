"""At one depth, is a larger N/(N_e E L) better, because of the number of units or of their noise?

    python/with studies/findings/depth_noise.py depth_noise.h5 OUT.csv OUT.png \\
        [depth_noise_wide.h5 depth_noise_none.h5]
    python/with studies/findings/depth_noise.py --picture depth_noise.csv OUT.png

Reads the sweeps of the inis of these names, says what is seen, and writes the numbers behind it; or
makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, numbers, samples_of, told  # noqa: E402
from verdict import (WORDS, below, by_intervals, interval, jointly, judge,  # noqa: E402
                     of_runs, within_factor)

from dmft.study.curves import compare  # noqa: E402

HEAD = ("second matrix", "alpha", "N", "of", "value", "low", "high")
FACTOR, RATE = 1.25, 0.707107


def losses_of(paths):
    """{(start of the second matrix, alpha, N): {rate: losses of networks, NaN: some failed}}"""
    found = {}
    for one in paths:
        for path in sorted(set(dmft.load(one).units().values.ravel())):
            unit = dmft.load(path)
            start = "zero" if "W2 = 0" in unit.parameters["ini"] else "normal"
            for N, data in unit.reference.items():
                key = (start, float(unit.parameters["network.alpha"]), int(N))
                found.setdefault(key, {})[float(unit.parameters["training.eta0"])] = \
                    np.nan if path.endswith(".partial") else \
                    data["test_loss_runs"].isel(t=-1).values
    return found


def say(words, some, claim):
    ends = [np.exp(interval(one, len(some))) for one in some]
    print(f"{words}: {WORDS[jointly(some, claim)]}: " + ", ".join(
        f"{np.exp(np.median(one)):.3g} [{low:.3g}, {high:.3g}]"
        for one, (low, high) in zip(some, ends)))


def gains(found, start, N, few, many):
    """{rate: samples of ln of the loss at alpha = many over that at few}"""
    one, other = found.get((start, few, N), {}), found.get((start, many, N), {})
    return {rate: of_runs(other[rate], N) - of_runs(one[rate], N) for rate in sorted(one)
            if rate in other and np.isfinite(one[rate]).all() and np.isfinite(other[rate]).all()}


def tell(found):
    """Returns the rows of shifts."""
    widths = sorted({key[2] for key in found})
    for start in ("normal", "zero"):
        least = min((key[1] for key in found if key[0] == start), default=0)
        of = gains(found, start, 64, least, 4.0)
        if of:
            say(f"second matrix {start}, N = 64: the loss at alpha 4 is below that at {least:g}, "
                f"rates {' '.join(f'{rate:.3g}' for rate in of)}", list(of.values()), below(0))
    by = {N: gains(found, "normal", N, 0.5, 4.0).get(RATE) for N in widths}
    by = {N: one for N, one in by.items() if one is not None}
    if len(by) > 1:
        say(f"at eta0 = .707 and N = {' '.join(map(str, by))} the loss at alpha 4 is below that at "
            ".5", list(by.values()), below(0))
        change = by[max(by)] - by[min(by)]
        print(f"and by more in wider networks: {WORDS[judge(change, below(0))]}: {told(change)}")
    base = min(key[1] for key in found if key[0] == "normal" and key[2] == 64)
    others = [key for key in sorted(found) if key[0] == "normal" and key[2] == 64
              and key[1] > base]
    rows = []
    for key in others:
        both = compare(samples_of(found["normal", base, 64], 64), samples_of(found[key], 64),
                       len(others))
        rows += [(*key, of, *(f"{one:.4g}" for one in three))
                 for of, three in (("shift", both[:3]), ("factor", both[3:]))]
        inside = by_intervals([np.log(both[1:3])], within_factor(FACTOR))
        print(f"alpha {key[1]:g}: the curve is moved by {both[0]:.3g} [{both[1]:.3g}, "
              f"{both[2]:.3g}] in the rate, {len(others)} together, within {FACTOR}: "
              f"{WORDS[inside]}; apart by {both[3]:.3g} [{both[4]:.3g}, {both[5]:.3g}]")
    return rows


def draw(rows, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.2), layout="constrained")
    alphas = sorted({float(row[1]) for row in rows})

    def curve(ax, some, x, label, **style):
        if len(some) > 1:
            x, value, low, high = np.array(
                [(at, *map(float, row[4:])) for at, row in sorted(zip(x, some))]).T
            ax.errorbar(x, value, (value - low, high - value), ms=3, lw=1, capsize=2, label=label,
                        **style)

    losses = [row for row in rows if row[3] not in ("shift", "factor")]
    for k, alpha in enumerate(alphas):
        some = [row for row in losses if row[0] == "normal" and float(row[1]) == alpha
                and row[2] == "64"]
        curve(axes[0], some, [float(row[3]) for row in some], rf"$\alpha_* = {alpha / 8:g}$",
              color=plt.get_cmap("viridis")(k / len(alphas)), marker="osD^v<"[k % 6])
    for start in ("normal", "zero"):
        for k, N in enumerate(("32", "64", "128")):
            some = [row for row in losses if row[0] == start and row[2] == N
                    and row[3] == "0.707"]
            curve(axes[1], some, [float(row[1]) / 8 for row in some],
                  f"$N = {N}$" + ", from zero" * (start == "zero"), color=f"C{k}",
                  marker="osD"[k], ls=":" if start == "zero" else "-")
    for ax, words in zip(axes, (r"learning rate $\eta_0$", r"$\alpha_* = N / (N_e E L)$")):
        ax.set(xscale="log", yscale="log", xlabel=words, ylabel="test loss")
        ax.set_yticks([0.07, 0.1, 0.15], ["0.07", "0.1", "0.15"])
        ax.yaxis.set_minor_locator(plt.NullLocator())
        ax.xaxis.set_minor_locator(plt.NullLocator())
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=6)
    axes[0].set_xticks([0.25, 0.5, 1], ["0.25", "0.5", "1"])
    axes[1].set_xticks([1 / 32, 1 / 8, 1 / 2], ["1/32", "1/8", "1/2"])
    figure.savefig(path, dpi=100)


def main(path, out=None, picture=None, *more):
    found = losses_of([path, *more])
    rows = [(*key, f"{rate:.3g}", *numbers(of_runs(runs, key[2])))
            for key, curve in sorted(found.items()) for rate, runs in sorted(curve.items())
            if np.isfinite(runs).all()]
    keep(rows + tell(found), HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
