"""Does balancing the loads of experts move the best rate, or the test loss there?

    python/with studies/findings/balance_rates.py balance_rates.h5 [OUT.csv [OUT.png]]
    python/with studies/findings/balance_rates.py --picture balance_rates.csv OUT.png

Reads the sweep of balance_rates.ini, prints what is seen, and writes the numbers behind it; or
makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import read_table, write_table  # noqa: E402
from verdict import WORDS, interval, judge, near, of_optimum, within_factor  # noqa: E402

AXIS, FACTOR = "network.eta_bias,network.balance_loss", 1.5


def interval_bar(ax, height, at, low, high, end, colour):
    """An interval of 95 % and its best value; an arrow where it has no upper end below `end`."""
    if not np.isfinite(low):
        return
    if np.isfinite(high):
        ax.plot([low, high], [height] * 2, "|-", color=colour, lw=1.5)
    else:
        ax.annotate("", (end, height), (low, height), arrowprops={"arrowstyle": "->",
                                                                  "color": colour, "lw": 1.5})
        ax.plot([low], [height], "|", color=colour)
    ax.plot([at], [height], "o", ms=5, color=colour)


def draw(rows, path):
    """The best rate and the test loss there of each way of balancing, at each width."""
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 2, sharey=True, figsize=(8, 2.8), layout="constrained")
    cases = list(dict.fromkeys(row[0] for row in rows))
    widths = list(dict.fromkeys(row[1] for row in rows))
    for words, N, *numbers in rows:
        numbers, k = [float(number) for number in numbers], widths.index(N)
        height = cases.index(words) + 0.15 * (2 * k - 1)
        for ax, (at, low, high) in zip(axes, (numbers[:3], numbers[3:])):
            interval_bar(ax, height, at, low, high, 3, f"C{k}")
    for k, N in enumerate(widths):
        axes[0].plot([], [], "o-", color=f"C{k}", label=f"N = {N}")
    axes[0].set(xscale="log", xlim=(0.18, 3.2), xlabel="best rate eta0",
                ylabel="eta_bias, balance_loss")
    axes[0].set_xticks((0.2, 0.5, 1, 2), ("0.2", "0.5", "1", "2"))
    axes[0].set_yticks(range(len(cases)), [words.replace(" ", ", ") for words in cases])
    axes[0].invert_yaxis()
    axes[1].set_xlabel("test loss there, where it is known")
    axes[1].legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def draw_table(table, path):
    draw(read_table(table), path)


def main(path, out=None, picture=None):
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
    if picture:
        draw([tuple(map(str, row)) for row in rows], picture)


if __name__ == "__main__":
    if sys.argv[1] == "--picture":
        draw_table(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
