"""Do the best rates of Regimes I to III transfer on images, and does the test loss there fall?

    python/with studies/findings/image_rates.py SWEEP.h5 [OUT.csv [OUT.png [SWEEP.h5 ...]]]
    python/with studies/findings/image_rates.py --picture image_rates.csv OUT.png

Reads sweeps over parameterizations and rates: of image_rates.ini, image_rates_regime2.ini and
image_rates_regime3.ini, or of sp_rates.ini. Says what is seen of each, and writes the numbers
behind it; or makes the picture of these. text_rates.py says the same of a text.
"""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.style import NAMES  # noqa: E402
from tables import command, keep  # noqa: E402
from transfer import HEAD, SIDE, rows_of  # noqa: E402

MODELS = {"regime1": "Regime I", "regime2": "Regime II", "regime3": "Regime III"}
RUNS = {"1": "", "2": ", again", "3": ", third run"}
OPTIMIZERS = {"gd": "gradient descent", "adam": "Adam"}
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def name_of(run):
    """As "Regime I, Adam"; "again" and "third run" with other networks, of other seeds."""
    keys = dict(re.findall(r"(?m)^(\w+) = (.*)$", run.parameters["ini"]))
    return (f"{MODELS[keys['model']]}, {OPTIMIZERS[keys.get('optimizer', 'gd')]}"
            + (", top-K" if float(keys.get("rho", 1)) < 1 else "")
            + (", dense" if keys.get("experts") == "1" else "")
            + RUNS[keys.get("seed", "1")])


def without_run(name):
    return name.removesuffix(RUNS["2"]).removesuffix(RUNS["3"])


def draw(rows, path):
    """A panel for each sweep and parameterization, of the last run, which has most networks."""
    import matplotlib.pyplot as plt
    table = panels(rows)
    width = max(map(len, table))
    figure, axes = plt.subplots(len(table), width, squeeze=False, layout="constrained",
                                figsize=(1.2 + 2.7 * width, 2 * len(table)))
    regimes = set()
    for names, line in zip(table, axes):
        for (name, side), ax in zip(names, line):
            panel(ax, name, side, [row for row in rows if row[:2] == (name, side)])
        regime = names[0][0].split(",")[0]
        if regime not in regimes:  # the widths of all its sweeps
            line[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
            regimes.add(regime)
        line[0].set_ylabel("test loss")
        for ax in line[len(names):]:
            ax.set_axis_off()
    for column in axes.T:
        last = [ax for ax in column if ax.axison][-1]
        last.set_xlabel(r"learning rate $\eta_0$")
    figure.savefig(path, dpi=100)


def panels(rows):
    """[(name of the last run, parameterization)] of each sweep."""
    sweeps = {}
    for name, side in dict.fromkeys(row[:2] for row in rows):
        sweeps.setdefault(without_run(name), {}).setdefault(side, []).append(name)
    return [[(names[-1], side) for side, names in runs.items()] for runs in sweeps.values()]


def panel(ax, name, side, rows):
    """Test losses of one sweep and one parameterization, and the best rates that are known."""
    from dmft.plot.select import shades
    widths = dict.fromkeys(row[2] for row in rows if row[2] != "all")
    for k, (N, shade) in enumerate(zip(widths, shades(len(widths)))):
        of = {row[3]: np.array(row[4:], float) for row in rows if row[2] == N}
        grid = np.array([(float(eta0), *value) for eta0, value in of.items()
                         if eta0[0].isdigit()])
        shown = grid[np.isfinite(grid).all(1) & (grid[:, 3] < 2 * np.nanmin(grid[:, 1]))]
        eta0, mean, low, high = shown.T
        ax.errorbar(eta0, mean, [mean - low, high - mean], color=shade, lw=1, capsize=2,
                    marker="osD"[k], ms=3, label=f"$N = {N}$")
        rate, loss = of["best rate"], of["test loss there"]
        if np.isfinite(rate).all():
            ax.errorbar(rate[:1], loss[:1], xerr=[rate[:1] - rate[1:2], rate[2:] - rate[:1]],
                        color=shade, lw=2.2, marker="*", ms=9, mec="k", mew=0.5, zorder=4)
    first, *more = without_run(name).split(", ")
    ax.set(xscale="log", title=f"{first}, {NAMES.get(side, side)}, {', '.join(more)}")
    low, high = ax.get_xlim()
    ticks = [tick for tick in TICKS if low < tick < high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def main(path, out=None, picture=None, *more):
    rows = []
    for run in map(dmft.load, (path, *more)):
        rows += rows_of(run, name_of(run), {side: {SIDE: side} for side in run.sweep[SIDE].values})
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
