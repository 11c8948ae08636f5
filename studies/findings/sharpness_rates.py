"""Does the sharpness predict the best rate?

    python/with studies/findings/sharpness_rates.py sharpness_rates.h5 [OUT.csv [OUT.png]]

Reads the sweep of sharpness_rates.ini, prints what is shown (studies/verdict.py), and writes the
numbers behind it. The picture is made of these numbers alone, so that a table will do, too:

    python/with studies/findings/sharpness_rates.py --picture OUT.csv OUT.png
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.errors import DmftError  # noqa: E402
from tables import command, keep, mean_and_half  # noqa: E402
from verdict import HALF, WORDS, judge, of_interval, of_optimum, within_factor  # noqa: E402

STEP = 2 ** 0.5  # of the grid


def sides(run, gamma0):
    """{"limit" or N: {rate: its group}}, where nothing failed."""
    found = {}
    for (one, rate), point in run.points.items():
        if one != gamma0:
            continue
        try:
            groups = {"limit": point.limit} | dict(point.reference)
        except DmftError:  # the limit failed
            groups = dict(point.reference)
        for side, group in groups.items():
            if not group.attrs["failed"]:
                found.setdefault(side, {})[rate] = group
    return found


def crossing(groups):
    """ln of the rate at which runs end at the edge, [run]: the first crossing, linear between
    logarithms of neighbouring rates."""
    rates = sorted(groups)
    edge = np.log([groups[rate]["edge_runs"].values[:, -1] for rate in rates])
    found = np.full(edge.shape[1], np.nan)
    for r, one in enumerate(edge.T):
        k = int(np.argmax(one > 0))
        if k:
            part = -one[k - 1] / (one[k] - one[k - 1])
            found[r] = np.log(rates[k - 1]) + part * np.log(rates[k] / rates[k - 1])
    return found


def beyond(groups, rate):
    """ln of how far beyond the edge runs of larger rates end, the mean over these rates, [run]."""
    edges = [np.log(group["edge_runs"].values[:, -1])
             for one, group in groups.items() if one > rate]
    return np.mean(edges, 0) if edges else np.full(2, np.nan)


def with_bars(ax, rates, values, half, **style):
    """A line on logarithmic axes; where a bar reaches zero, a hollow point without one."""
    known = half < values
    bars = ax.errorbar(rates, np.where(values > 0, values, np.nan), np.where(known, half, 0),
                       **style)
    ax.plot(rates[~known], np.where(values > 0, values, np.nan)[~known], ls="", marker="o", ms=4,
            color=bars[0].get_color(), mfc="white", zorder=3)


def draw(rows, path):
    """Loss and distance to the edge at the end against the rate: the widest networks and, dotted,
    the limit, of every gamma0."""
    import matplotlib.pyplot as plt
    from dmft.plot.layout import legend
    from dmft.plot.sweeps import scale
    sides = sorted({row[1] for row in rows} - {"limit"}, key=int)[-1:] + ["limit"]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for k, gamma0 in enumerate(sorted({row[0] for row in rows}, key=float)):
        for side in sides:
            table = np.array([row[2:] for row in rows if row[:2] == (gamma0, side)], float)
            if not table.size:
                continue
            limit = side == "limit"
            style = {"color": f"C{k}", "lw": 1, "capsize": 2, "ls": ":" if limit else "-",
                     "marker": "s" if limit else "o", "ms": 3,
                     "label": rf"$\gamma_0 = {float(gamma0):g}$, "
                              + (r"$N \to \infty$" if limit else f"$N = {side}$")}
            for ax, column in zip(axes, (1, 7)):
                with_bars(ax, table[:, 0], table[:, column], HALF * table[:, column + 1], **style)
    for ax, name in zip(axes, ("loss at the end", r"$\eta_0\times\,$sharpness$\,/\,2$ at the end")):
        ax.set(yscale="log", xlabel=r"learning rate $\eta_0$", ylabel=name)
        scale(ax.xaxis, [float(row[2]) for row in rows])
    axes[1].axhline(1, color="0.6", lw=0.8, zorder=0)
    legend(figure, axes[1], "bars: 95 %\nhollow: the bar,\nnot drawn,\nreaches zero")
    figure.savefig(path, dpi=110, bbox_inches="tight")


def main(path, out=None, picture=None):
    run = dmft.load(path)
    rows = []
    for gamma0 in sorted({gamma0 for gamma0, _ in run.points}):
        for side, groups in sides(run, gamma0).items():
            first = groups[min(groups)]
            start, start_half = mean_and_half(np.log(2 / first["sharpness_runs"].values[:, 0]))
            end, end_half = mean_and_half(crossing(groups))
            N = np.inf if side == "limit" else side
            held = mean_and_half(beyond(groups, np.exp(end)))
            best = run.optimum.sel({"training.gamma0": gamma0, "N": N})
            samples = of_optimum(best)
            at = np.exp(np.median(samples))
            random = np.random.default_rng(7)
            of_start = random.permutation(of_interval(start, start_half))
            of_end = random.permutation(of_interval(end, end_half))
            verdicts = [judge(samples - other, within_factor(STEP)) for other in (of_start, of_end)]
            print(f"gamma0 = {gamma0:g}, {side}: best rate {at:.3g}; 2/sharpness at the start "
                  f"{np.exp(start):.3g}, within a step of the grid: {WORDS[verdicts[0]]}; runs end "
                  f"at the edge at {np.exp(end):.3g} (+- {100 * end_half:.0f} %), within a step: "
                  f"{WORDS[verdicts[1]]}; at larger rates they end at {np.exp(held[0]):.3g} (+- "
                  f"{100 * held[1]:.0f} %) of the edge, within a factor of 1.41: "
                  f"{WORDS[judge(of_interval(*held), within_factor(STEP))]}")
            for rate, group in sorted(groups.items()):
                rows.append((gamma0, side, f"{rate:.4g}") + tuple(
                    f"{value:.4g}"
                    for name, t in (("loss", -1), ("sharpness", 0), ("sharpness", -1), ("edge", -1))
                    for value in (group[name].values[t], group[name + "_se"].values[t])))
    heads = [f"{name}{end}" for name in ("loss at the end", "sharpness at the start",
                                         "sharpness at the end", "edge at the end")
             for end in ("", ", standard error")]
    keep(rows, ("gamma0", "N", "eta0", *heads), draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
