"""Does balancing the loads of experts move the best rate, or the test loss?

    python/with studies/findings/balance_rates.py balance_rates.h5 [OUT.csv [OUT.png [LIMIT.h5]]]
    python/with studies/findings/balance_rates.py --picture balance_rates.csv OUT.png

Reads the sweep of balance_rates.ini, and LIMIT.h5, that of the limit if it was run apart; prints
what is seen, and writes the numbers behind it; or makes the picture of these.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from tables import command, keep, mean_and_half  # noqa: E402
from verdict import WORDS, all_of, judge, near, of_interval  # noqa: E402

AXIS, RATE, SHARE = "network.eta_bias,network.balance_loss", "training.eta0", 0.05
HEAD = ("eta_bias balance_loss", "N", "eta0", "test loss", "half of the 95 % interval",
        "logarithm less that without balancing", "half of the 95 % interval", "runs that ended")


def mean_of(runs):
    """Mean of those of [run] that ended, half of its 95 % interval, and their number."""
    runs = runs[np.isfinite(runs)]
    if len(runs) < 2:
        return np.nan, np.nan, len(runs)
    return *mean_and_half(runs), len(runs)


def rows_of(run):
    """The table: test losses at the last time, and, seed by seed, how they differ from those
    without balancing. Losses of the limit are those of the mean output, so it has pseudo-values."""
    series = run.series("test_loss").isel(t=-1)
    data = series["test_loss_runs"]
    if "test_loss_pseudo" in series:
        data = data.where(np.isfinite(data["N"]), series["test_loss_pseudo"])
    without = np.log(data.isel({AXIS: 0}))
    for k, words in enumerate(data[AXIS].values):
        for N in data["N"].values:
            for rate in data[RATE].values:
                one = data.isel({AXIS: k}).sel({"N": N, RATE: rate})
                less = np.log(one) - without.sel({"N": N, RATE: rate})
                loss, half, n = mean_of(one.values)
                change, error, _ = mean_of(less.values)
                yield (words, "limit" if np.isinf(N) else f"{N:g}", f"{rate:g}", f"{loss:.5g}",
                       f"{half:.2g}", f"{change:.4f}", f"{error:.2g}", n)


def tell_changes(rows):
    """At the rates at which every run ended: test losses beside those without balancing."""
    most = {N: max(row[7] for row in rows if row[1] == N) for _, N, *_ in rows}
    lost = {row[1:3] for row in rows if row[7] < most[row[1]]}
    for N in most:
        mine = [row for row in rows if row[1] == N and row[1:3] not in lost]
        for words in dict.fromkeys(row[0] for row in mine[1:]):
            some = [row for row in mine if row[0] == words]
            if words == mine[0][0]:
                losses = [float(row[3]) for row in some]
                print(f"N = {N}, without balancing: test loss {max(losses):.4f} to "
                      f"{min(losses):.4f} at eta0 = {some[0][2]} to {some[-1][2]}")
                continue
            verdicts = [judge(of_interval(float(row[5]), float(row[6])), near(0, SHARE),
                              among=len(some)) for row in some]
            print(f"N = {N}, eta_bias and balance_loss {words}: test loss within {SHARE:.0%} of "
                  f"that without at {len(some)} rates: {WORDS[all_of(verdicts)]} ("
                  + "; ".join(f"{row[2]}: {row[5]} +- {row[6]} {WORDS[seen]}"
                              for row, seen in zip(some, verdicts)) + ")")


def tell_best(run):
    for N in run.optimum["N"].values:
        for k, words in enumerate(run.optimum[AXIS].values):
            best = run.optimum.sel(N=N).isel({AXIS: k})
            at, low, high = (float(best[name]) for name in ("at", "low", "high"))
            print(f"N = {N:g}, eta_bias and balance_loss {words}: best rate "
                  + (f"{at:.2f}" if np.isfinite(at) else "not known,")
                  + f" [{low:.2f}, {high:.2f}]")


def balancing(words):
    """Of eta_bias and balance_loss."""
    eta_bias, balance_loss = words.split()
    return f"biases, $\\eta_b = {eta_bias}$" if float(eta_bias) else \
        f"auxiliary loss, {balance_loss}" if float(balance_loss) else "no balancing"


def draw(rows, path):
    """Test losses of the widest networks, and what balancing changes in them and in the limit."""
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
    cases = list(dict.fromkeys(row[0] for row in rows))
    widths = [N for N in dict.fromkeys(row[1] for row in rows) if N != "limit"]
    most = max(float(row[7]) for row in rows if row[1] == widths[-1])
    for k, words in enumerate(cases):
        apart = 1.03 ** (k - 2)
        for N, style in ((widths[-1], {"ls": "-", "marker": "o", "ms": 3}),
                         ("limit", {"ls": "none", "marker": "D", "ms": 6, "mfc": "white"})):
            some = np.array([row[2:8] for row in rows if row[:2] == (words, N)], float)
            if not len(some):
                continue
            some = some[some[:, 5] == (most if N != "limit" else some[:, 5].max())]
            axes[0].errorbar(apart * some[:, 0], some[:, 1], some[:, 2], color=f"C{k}", capsize=2,
                             lw=1, label=balancing(words) if N != "limit" else None, **style)
            if k:
                axes[1].errorbar(apart * some[:, 0], 100 * some[:, 3], 100 * some[:, 4], lw=1,
                                 color=f"C{k}", capsize=2, **style)
    axes[1].axhspan(-100 * SHARE, 100 * SHARE, color="0.93", zorder=0)
    axes[1].axhline(0, color="C0", lw=1)
    for ax, words in zip(axes, (f"test loss, $N = {widths[-1]}$",
                                "change by balancing (per cent)")):
        ax.set(xscale="log", xlabel=r"learning rate $\eta_0$", ylabel=words)
        ax.set_xticks((0.2, 0.5, 1, 2), ("0.2", "0.5", "1", "2"))
        ax.minorticks_off()
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main(path, out=None, picture=None, limit=None):
    run = dmft.load(path)
    rows = list(rows_of(run)) + (list(rows_of(dmft.load(limit))) if limit else [])
    tell_changes(rows)
    tell_best(run)
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
