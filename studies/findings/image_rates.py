"""Do the best rates of Regimes I to III transfer on images, and does the test loss there fall?

    python/with studies/findings/image_rates.py SWEEP.h5 [OUT.csv [OUT.png [SWEEP.h5 ...]]]
    python/with studies/findings/image_rates.py --picture image_rates.csv OUT.png

Reads sweeps of image_rates.ini and image_rates_regime3.ini over parameterizations and rates, says
what is seen of each, and writes the numbers behind it; or makes the picture of these.
"""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.style import NAMES  # noqa: E402
from dmft.statistics import student  # noqa: E402
from tables import command, keep  # noqa: E402
from verdict import (WORDS, below, interval, judge, of_interval, of_optimum,  # noqa: E402
                     within_factor)

SIDE, RATE, FACTOR = "network.parameterization", "training.eta0", 1.5
MODELS = {"regime1": "Regime I", "regime2": "Regime II", "regime3": "Regime III"}
OPTIMIZERS = {"gd": "gradient descent", "adam": "Adam"}
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5)
HEAD = ("sweep", "parameterization", "N", "of", "value", "low", "high")


def name_of(run):
    """As "Regime I, Adam"; "again" with other networks than those of the first seed."""
    keys = dict(re.findall(r"(?m)^(\w+) = (.*)$", run.parameters["ini"]))
    return (f"{MODELS[keys['model']]}, {OPTIMIZERS[keys.get('optimizer', 'gd')]}"
            + (", top-K" if float(keys.get("rho", 1)) < 1 else "")
            + (", again" if keys.get("seed", "1") != "1" else ""))


def told(samples):
    """(middle, low, high) of samples of a logarithm."""
    return tuple(f"{value:.4g}" for value in np.exp([np.median(samples), *interval(samples)]))


def sentence(one):
    return "not known" if one[0] == "nan" else f"{one[0]} [{one[1]}, {one[2]}]"


def rows_of(run):
    """Test losses at every rate, the optimum of every width, and how the last width's is to the
    first's."""
    name = name_of(run)
    for side in run.sweep[SIDE].values:
        part, best = run.sweep.sel({SIDE: side}), run.optimum.sel({SIDE: side})
        rate, loss = of_optimum(best), of_optimum(best, "objective")
        for k, N in enumerate(best["N"].values):
            one = part.sel(N=N)
            half = student(one["n"].values - 1) * one["test_loss_se"].values
            for eta0, mean, error in zip(one[RATE].values, one["test_loss"].values, half):
                yield (name, side, f"{N:g}", f"{eta0:.4g}", f"{mean:.4g}", f"{mean - error:.4g}",
                       f"{mean + error:.4g}")
            yield name, side, f"{N:g}", "best rate", *told(rate[k])
            yield name, side, f"{N:g}", "test loss there", *told(loss[k])
        for what, samples, claim in (("rate", rate, within_factor(FACTOR)),
                                     ("loss", loss, below(0))):
            change = told(samples[-1] - samples[0])
            words = WORDS[judge(samples[-1] - samples[0], claim)]
            meant = (f"the best rate transfers within a factor of {FACTOR}" if what == "rate" else
                     "the test loss at the best rate falls with the width")
            values = ", ".join(sentence(told(one)) for one in samples)
            print(f"{name}, {side}: {meant}: {words}: {values}; the last over the first "
                  f"{sentence(change)}")
            yield name, side, "all", f"{what}, last over first: {words}", *change
        yield name, side, "all", *lowest_rate(name, side, part)


def lowest_rate(name, side, part):
    """How the test loss of the last width is to that of the first at the lowest rate."""
    ends = part.isel({"N": [0, -1], RATE: 0})
    mean = ends["test_loss"].values
    half = student(ends["n"].values - 1) * ends["test_loss_se"].values / mean
    samples = of_interval(np.log(mean[1] / mean[0]), np.hypot(*half))
    eta0, change = float(ends[RATE]), told(samples)
    words = WORDS[judge(samples, below(0))]
    print(f"{name}, {side}, eta0 = {eta0:.4g}: the test loss falls with the width: {words}; the "
          f"last over the first {sentence(change)}")
    return f"loss at eta0 = {eta0:.4g}, last over first: {words}", *change


def draw(rows, path):
    """A row for each parameterization, a column for each sweep."""
    import matplotlib.pyplot as plt
    sweeps = list(dict.fromkeys(row[0] for row in rows))
    sides = list(dict.fromkeys(row[1] for row in rows))
    figure, axes = plt.subplots(len(sides), len(sweeps), figsize=(2.5 * len(sweeps), 4.8),
                                squeeze=False, sharey="col", layout="constrained")
    for name, column in zip(sweeps, axes.T):
        for side, ax in zip(sides, column):
            mine = [row for row in rows if row[:2] == (name, side)]
            if not mine:
                ax.set_axis_off()
                continue
            for k, N in enumerate(dict.fromkeys(row[2] for row in mine if row[2] != "all")):
                of = {row[3]: np.array(row[4:], float) for row in mine if row[2] == N}
                grid = np.array([(float(eta0), *value) for eta0, value in of.items()
                                 if eta0[0].isdigit()])
                shown = grid[np.isfinite(grid).all(1) & (grid[:, 3] < 2 * np.nanmin(grid[:, 1]))]
                eta0, mean, low, high = shown.T
                ax.errorbar(eta0, mean, [mean - low, high - mean], color=f"C{k}", lw=1, capsize=2,
                            marker="osD"[k], ms=3, label=f"$N = {N}$")
                rate, loss = of["best rate"], of["test loss there"]
                if np.isfinite(rate).all():
                    ax.errorbar(rate[:1], loss[:1],
                                xerr=[rate[:1] - rate[1:2], rate[2:] - rate[:1]],
                                color=f"C{k}", lw=2.2, marker="*", ms=9, mec="k", mew=0.5, zorder=4)
            ax.set(xscale="log", title=f"{name},\n{NAMES.get(side, side)}")
            ax.title.set_fontsize(9)
            low, high = ax.get_xlim()
            ticks = [tick for tick in TICKS if low < tick < high]
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
        if not name.endswith("again"):  # widths are those of the first run, beside it
            column[0].legend(fontsize=7, title=f"{name.split(',')[0]}", title_fontsize=7)
        column[-1].set_xlabel(r"learning rate $\eta_0$")
    for ax in axes[:, 0]:
        ax.set_ylabel("test loss after one pass")
    figure.savefig(path, dpi=100)


def main(path, out=None, picture=None, *more):
    rows = [row for sweep in (path, *more) for row in rows_of(dmft.load(sweep))]
    keep(rows, HEAD, draw, out, picture)


if __name__ == "__main__":
    command(main, draw)
