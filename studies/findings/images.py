"""Do the best rates of muP and MSSP transfer on images, and do wider networks learn better?

    python/with studies/findings/images.py images.h5 STEM [OUT.png]    from the sweep of images.ini
    python/with studies/findings/images.py --tables STEM [OUT.png]     from the tables that it wrote

Says what is seen, and draws it. The tables are STEM_rates.csv, the test losses at the end and the
times at which losses have halved, network by network; STEM_losses.csv, losses over time at the
middle rate of the grid, which tuning found at the smallest width, in muP and in MSSP;
and STEM_optima.csv, samples of the logarithms of the best rates and of the losses there.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import dmft  # noqa: E402
from dmft.plot.style import NAMES  # noqa: E402
from dmft.plot.sweeps import scale  # noqa: E402
from dmft.plot.select import shades  # noqa: E402
from tables import house, read_table, told, units_of, write_table  # noqa: E402
from verdict import (WORDS, above, below, drift, interval, judge, of_optimum,  # noqa: E402
                     of_runs, within_factor)

RATE, FACTOR, HALVED = "training.eta0", 1.5, 1.25
SIDES = {"mup": "muP", "mssp": "MSSP"}
WINDOW = 10  # steps, over which losses of batches are averaged
KEPT = 2  # every other sample of an optimum
TIMES = np.unique(np.geomspace(WINDOW, 1000, 40).astype(int))


def averaged(losses):
    """Means over WINDOW steps that end at a time, of losses [network, time] from time 0."""
    sums = np.cumsum(np.insert(losses, 0, 0, axis=1), axis=1)
    return (sums[:, WINDOW:] - sums[:, :-WINDOW]) / WINDOW


def half_times(losses):
    """Of each network, the last of the first WINDOW steps with a mean of half the first loss; NaN
    where there are none."""
    low = averaged(losses) <= losses[:, :1] / 2
    return np.where(low.any(1), low.argmax(1) + WINDOW - 1, np.nan)


def middle(rates) -> float:
    """Of a grid of rates, each as often as there are runs."""
    grid = sorted({float(rate) for rate in rates})
    return grid[len(grid) // 2]


def tables_of(path):
    """Rows of STEM_rates.csv, STEM_losses.csv and STEM_optima.csv."""
    run = dmft.load(path)
    rates, losses, optima = [], [], []
    at = middle(run.sweep[RATE].values)
    for unit in units_of(run):
        side, rate = (unit.parameters[key] for key in ("network.parameterization", RATE))
        for N, data in unit.reference.items():
            runs = data["loss_runs"].values
            test = data["test_loss_runs"].values[:, -1]
            rates += [(side, f"{N:g}", f"{rate:.4g}", k, f"{test[k]:.5g}", f"{half:g}")
                      for k, half in enumerate(half_times(runs))]
            if abs(rate / at - 1) < 1e-3:
                means = averaged(runs).mean(0)
                losses += [(side, f"{N:g}", t, f"{means[t - WINDOW + 1]:.4g}") for t in TIMES
                           if t < runs.shape[1]]
    for k, side in enumerate(run.optimum["network.parameterization"].values):
        best = run.optimum.isel({run.optimum["at"].dims[0]: k})
        for name in ("at", "objective"):
            for N, samples in zip(best["N"].values, of_optimum(best, name)):
                optima.append((side, f"{N:g}", name, *(f"{one:.4g}" for one in samples[::KEPT])))
    in_order = [sorted(rows, key=lambda row: (row[0], *map(float, row[1:3])))
                for rows in (rates, losses)]
    return (*in_order, optima)


HEADS = {"rates": ("parameterization", "N", "eta0", "network", "test loss", "half time"),
         "losses": ("parameterization", "N", "step", "mean loss of the 10 steps to it"),
         "optima": ("parameterization", "N", "of", "samples of its logarithm")}


def best_of(optima, side, name):
    """(widths, samples [width, sample]) of the best rate, or of the loss there."""
    rows = [row for row in optima if (row[0], row[2]) == (side, name)]
    return np.array([float(row[1]) for row in rows]), np.array([row[3:] for row in rows], float)


def halves_of(rates, side):
    """(widths, half times [width][network]) at the middle rate."""
    found, at = {}, middle(row[2] for row in rates)
    for row in rates:
        if row[0] == side and float(row[2]) == at:
            found.setdefault(float(row[1]), []).append(float(row[5]))
    return np.array(list(found)), list(found.values())


def grid_of(rates, side, N):
    """{rate: test losses [network]} of one width."""
    found = {}
    for row in rates:
        if row[0] == side and float(row[1]) == N:
            found.setdefault(float(row[2]), []).append(float(row[4]))
    return found


def seen_at(rates, N):
    """The same without an optimum: at one rate of the grid, which muP has its least mean at for the
    largest width. Where MSSP is lower even there, it is so at its own best rate, too."""
    grids = {side: [grid_of(rates, side, n) for n in N] for side in SIDES}
    rate = min(grids["mup"][-1], key=lambda one: np.mean(grids["mup"][-1][one]))
    logs = {side: np.array([of_runs(grid[rate], n) for grid, n in zip(grids[side], N)])
            for side in SIDES}
    over = logs["mssp"][-1] - logs["mup"][-1]
    yield (judge(over, below(0)),
           f"MSSP has the lower test loss at N = {N[-1]:g} at the rate of the grid where muP is "
           f"best there, {rate:.3g}: that of MSSP over that of muP is {told(over)}")
    for side, name in SIDES.items():
        moved = drift(N, logs[side])
        yield (judge(moved, below(0)),
               f"{name}: the test loss at this rate falls with the width: it is "
               f"{', '.join(map(told, logs[side]))} at N = {', '.join(f'{n:g}' for n in N)}; along "
               f"a line in ln N times {told(moved)}")


def seen(rates, optima):
    """(verdict, sentence)."""
    last = {}
    for side, name in SIDES.items():
        N, at = best_of(optima, side, "at")
        _, loss = best_of(optima, side, "objective")
        last[side] = loss[-1]
        widths = ", ".join(f"{n:g}" for n in N)
        yield (judge(at[-1] - at[0], within_factor(FACTOR)),
               f"{name}: the best rate transfers within a factor of {FACTOR}: it is "
               f"{', '.join(map(told, at))} at N = {widths}; the last over the first "
               f"{told(at[-1] - at[0])}")
        yield (judge(drift(N, loss), below(0)),
               f"{name}: the test loss at the best rate falls with the width: it is "
               f"{', '.join(map(told, loss))}; along a line in ln N times {told(drift(N, loss))}")
    yield (judge(last["mssp"] - last["mup"], below(0)),
           f"MSSP has the lower test loss at N = {N[-1]:g}, each at its best rate: that of MSSP "
           f"over that of muP is {told(last['mssp'] - last['mup'])}")
    yield from seen_at(rates, N)
    for side, name in SIDES.items():
        N, halves = halves_of(rates, side)
        moved = drift(N, np.array([of_runs(one, n) for one, n in zip(halves, N)]))
        claim, words = ((above(0), "later") if side == "mup" else
                        (within_factor(HALVED), f"at one time, within a factor of {HALVED}"))
        yield (judge(moved, claim),
               f"{name}, eta0 = {middle(row[2] for row in rates):.3g}: wider networks have halved "
               f"their loss {words}: after "
               f"{', '.join(f'{np.mean(one):.3g}' for one in halves)} steps at N = "
               f"{', '.join(f'{n:g}' for n in N)}; along a line in ln N times {told(moved)}")


def draw_losses(ax, rates, losses, side):
    """Means, and when the losses of networks have halved, on average, with the 95 % interval."""
    widths, halves = halves_of(rates, side)
    for k, (N, half) in enumerate(zip(widths, halves)):
        shade = shades(len(widths))[k]
        t, loss = np.array([row[2:] for row in losses if row[:2] == (side, f"{N:g}")], float).T
        ax.plot(t, loss, color=shade, lw=1.2, label=f"$N = {N:g}$")
        low, high = np.exp(interval(of_runs(half, N)))
        at = np.mean(half)
        if np.isfinite([low, high]).all():
            height = np.interp(np.log(at), np.log(t), loss)
            ax.errorbar([at], [height], xerr=[[at - low], [high - at]], color=shade,
                        marker="osD^"[k], ms=4, capsize=2, zorder=3)
    at = middle(row[2] for row in rates)
    ax.set(xlabel="step $t$", title=rf"{NAMES[side]}, $\eta_0 = {at:.3g}$")
    scale(ax.xaxis, [float(row[2]) for row in losses])
    scale(ax.yaxis, [float(row[3]) for row in losses])


def draw_rates(ax, rates, optima, side):
    """Means with their 95 % intervals, and below them the best rates with theirs."""
    widths, at = best_of(optima, side, "at")
    floor = min(np.mean(runs) for one in SIDES for N in widths
                for runs in grid_of(rates, one, N).values())
    for k, N in enumerate(widths):
        shade = shades(len(widths))[k]
        grid = grid_of(rates, side, N)
        logs = [of_runs(runs, N) for runs in grid.values()]
        low, high = np.exp([interval(one) for one in logs]).T
        mean = np.array([np.mean(runs) for runs in grid.values()])
        ax.errorbar(np.array(list(grid)) * 1.02 ** (k - 1.5), mean, [mean - low, high - mean],
                    color=shade, lw=1.2, marker="osD^"[k], ms=3.5, capsize=2)
        if np.isfinite(interval(at[k])).all():
            low, high = np.exp(interval(at[k]))
            best = np.exp(np.median(at[k]))
            ax.errorbar([best], [floor - 0.01 * (k + 1)], xerr=[[best - low], [high - best]],
                        color=shade, marker="osD^"[k], ms=3.5, capsize=2)
    ax.set(xscale="log", xlabel=r"learning rate $\eta_0$", ylim=(floor - 0.06, floor + 0.16),
           title=f"{NAMES[side]}, best rates below")
    ticks = sorted({float(row[2]) for row in rates})[::2]
    ax.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks], minor=False)
    ax.minorticks_off()


@house()
def draw(rates, losses, optima, path):
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(2, 2, sharey="row", figsize=(7.4, 5.8), layout="constrained")
    for (upper, lower), side in zip(axes.T, SIDES):
        draw_losses(upper, rates, losses, side)
        draw_rates(lower, rates, optima, side)
    axes[0, 0].set_ylabel("loss of new images, mean of 10 steps")
    axes[1, 0].set_ylabel("test loss after 1000 steps")
    axes[0, 0].legend(fontsize=8, title="marks: halved\nbars: 95 %", title_fontsize=8)
    figure.savefig(path, dpi=110)


def main(path, stem, picture=None):
    names = [f"{stem}_{name}.csv" for name in HEADS]
    if path != "--tables":
        for name, head, rows in zip(names, HEADS.values(), tables_of(path)):
            write_table(name, head, rows)
    rates, losses, optima = map(read_table, names)
    for verdict, sentence in seen(rates, optima):
        print(f"{WORDS[verdict]}: {sentence}")
    if picture:
        draw(rates, losses, optima, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
